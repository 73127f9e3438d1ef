//! How a delivery is settled. Pure: no clock, no I/O, no async.
