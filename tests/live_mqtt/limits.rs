//! Windows, sizes and floods.
