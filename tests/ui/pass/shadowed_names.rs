//! Nothing in an expansion depends on names that the user may take.
#![deny(warnings)]
#![allow(dead_code, unused_imports, non_camel_case_types)]

mod core {}
mod std {}
mod alloc {}

mod handlers {
    struct Result;
    struct Option;
    struct Box;
    struct Future;
    struct Ok;
    struct Err;
    struct Some;
    struct None;
    struct Send;
    struct Options;
    struct Registration;
    struct Incoming;
    struct Form;
    struct Outcome;
    struct str;
    struct u32;
    struct bool;
    mod core {}
    mod std {}
    mod ruststream {}
    const ADDRESS: i8 = 1;
    const DEAD_LETTER: i8 = 1;
    fn check() {}
    fn done() {}

    #[::ruststream::subscriber(
        address = "orders",
        max_attempts = 3,
        dead_letter = "orders.dead",
        timeout = "5s",
        backoff = "1s",
        mqtt(qos = 1, shared = "w")
    )]
    async fn handle(payload: ::ruststream::Bytes) -> ::core::result::Result<(), Problem> {
        let _ = payload;
        ::core::result::Result::Err(Problem::Any)
    }

    #[derive(Debug, ::ruststream::Failure)]
    enum Problem {
        #[failure(retry_after = "1s")]
        Any,
    }

    impl ::core::fmt::Display for Problem {
        fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
            f.write_str("any")
        }
    }
}

fn main() {}
