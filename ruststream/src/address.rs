//! Grammars and matching of topics, filters and queue names.
