//! Applications under test: on the embedded broker, by the rules of any protocol, in virtual time.
//!
//! Use [`TestApp`] to see what becomes of messages when an application's handlers run: what is
//! settled how, retried, delayed, dead-lettered, and what happens when the connection breaks, the
//! process dies or the application stops. No server is needed, and a delay of a day takes no time.
//! To test what a single handler answers, call it: it is still the function that you wrote.
//!
//! [`Script`] is a handler made on the spot, for tests of policies and drivers rather than of
//! handlers. [`conformance`] is what every driver must pass.
//!
//! # Examples
//!
//! ```
//! use std::time::Duration;
//!
//! use ruststream::App;
//! use ruststream::Bytes;
//! use ruststream::Outcome;
//! use ruststream::broker::memory::Memory;
//! use ruststream::testing::Fate;
//! use ruststream::testing::Script;
//! use ruststream::testing::TestApp;
//! use ruststream::testing::virtual_time;
//!
//! virtual_time(async {
//!     // An application of your own: `App::new("orders").only((fulfil,))`.
//!     let fulfil = Script::address("orders")
//!         .with(|options| {
//!             options.max_attempts = Some(3);
//!             options.dead_letter = Some("orders.dead");
//!         })
//!         .runs(|_: Bytes| async { Outcome::retry_after(Duration::from_secs(3600)) });
//!     let app = TestApp::start(Memory::amqp(), Script::app("shop", [fulfil])).await?;
//!
//!     let journey = app.send("orders", "one").await;
//!     assert_eq!(journey.fate, Fate::DeadLettered { to: "orders.dead".into() });
//!     assert_eq!(journey.starts, 3);
//!     assert_eq!(app.messages("orders.dead").len(), 1);
//!     app.stop().await
//! })?;
//! # Ok::<(), ruststream::Error>(())
//! ```
//!
//! # Virtual time
//!
//! Time stands still until nothing else can happen, and then jumps to the next timer. A test needs
//! a current-thread runtime with a paused clock: [`virtual_time`], or
//! `#[tokio::test(start_paused = true)]`.

mod app;
pub mod conformance;
mod idle;
mod journey;
mod script;

pub use self::app::Settlements;
pub use self::app::TestApp;
pub use self::idle::Busy;
pub use self::idle::Unsettled;
pub use self::journey::Fate;
pub use self::journey::Journey;
pub use self::script::Ends;
pub use self::script::Script;
pub use crate::broker::memory::observe::Event;
pub use crate::broker::memory::observe::EventKind;
pub use crate::broker::memory::observe::Observer;
pub use crate::broker::memory::observe::Refuse;
pub use crate::broker::memory::observe::Waiting;

/// Run `test` on a runtime of its own whose clock is paused.
///
/// # Panics
///
/// When no runtime can be made, or when called from within one.
pub fn virtual_time<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime of one thread can be made")
        .block_on(test)
}
