//! What the tests, examples and benches share.
