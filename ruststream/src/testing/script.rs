//! A handler made on the spot.

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;

use crate::App;
use crate::IntoOutcome;
use crate::Outcome;
use crate::broker::BoxFuture;
use crate::config::Config;
use crate::config::kind::keep;
use crate::extract::Extract;
use crate::extract::Incoming;
use crate::extract::Rejection;
use crate::handler::Failed;
use crate::handler::Slot;
use crate::handler::Typed;
use crate::handler::Verdict;
use crate::registration::Form;
use crate::registration::Options;
use crate::registration::Registration;
use crate::registration::Requirements;
use crate::registry::Registry;

/// A handler made from a closure, with any form of address and any options.
///
/// It acks everything until it is told what it [runs](Script::runs). What it declares is not
/// checked as an attribute is; only [`App::check`](crate::App::check) looks at it.
///
/// Each use leaks a few hundred bytes, as registrations are constant data.
pub struct Script {
    name: &'static str,
    form: Form,
    address: &'static str,
    options: Options,
    run: Run,
    requires: fn(&mut Requirements),
}

type Run =
    Arc<dyn Fn(&mut Incoming<'_>) -> Result<BoxFuture<'static, Verdict>, Rejection> + Send + Sync>;

impl Script {
    /// A handler of an `address`.
    #[must_use]
    pub fn address(address: impl AsRef<str>) -> Self {
        Self::new(Form::Address, address.as_ref())
    }

    /// A handler of a `queue`.
    #[must_use]
    pub fn queue(address: impl AsRef<str>) -> Self {
        Self::new(Form::Queue, address.as_ref())
    }

    /// A handler of a `topic`.
    #[must_use]
    pub fn topic(address: impl AsRef<str>) -> Self {
        Self::new(Form::Topic, address.as_ref())
    }

    /// A handler of a `filter`.
    #[must_use]
    pub fn filter(address: impl AsRef<str>) -> Self {
        Self::new(Form::Filter, address.as_ref())
    }

    /// A handler of an address in this form.
    #[must_use]
    pub fn of(form: Form, address: impl AsRef<str>) -> Self {
        Self::new(form, address.as_ref())
    }

    fn new(form: Form, address: &str) -> Self {
        Self {
            name: "script",
            form,
            address: keep(address),
            options: Options::NONE,
            run: Arc::new(|_| Ok(Box::pin(std::future::ready(Verdict::Done(Outcome::Ack))))),
            requires: |_| {},
        }
    }

    /// Call it `name`; `script` by default.
    #[must_use]
    pub fn named(mut self, name: impl AsRef<str>) -> Self {
        self.name = keep(name.as_ref());
        self
    }

    /// Declare options.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    /// What it does with each delivery: the arguments are taken as a handler takes them, several as
    /// a tuple.
    #[must_use]
    pub fn runs<A, F>(mut self, handler: impl Fn(A) -> F + Send + Sync + 'static) -> Self
    where
        A: Extract,
        F: Future<Output: Ends> + Send + 'static,
    {
        self.requires = A::requires;
        self.run = Arc::new(move |incoming| {
            let running = handler(A::extract(incoming)?);
            Ok(Box::pin(async move { running.await.into_verdict() }))
        });
        self
    }

    /// An application of these handlers only, without file and environment.
    ///
    /// # Panics
    ///
    /// With more than sixteen handlers.
    pub fn app(name: impl AsRef<str>, scripts: impl IntoIterator<Item = Self>) -> App {
        let scripts: Vec<Self> = scripts.into_iter().collect();
        assert!(
            scripts.len() <= SLOTS.len(),
            "an application has at most sixteen scripts"
        );
        let registrations = scripts
            .iter()
            .zip(SLOTS)
            .zip(1..)
            .map(|((script, slot), line)| {
                let mut arguments = Requirements::default();
                (script.requires)(&mut arguments);
                // A script that runs nothing takes batches as well as messages.
                let requires = match script.options.batch {
                    Some(_) if !arguments.batch => Requirements::batch,
                    _ => script.requires,
                };
                let place = ("script", "script.rs", line);
                let registration = Registration::new(
                    script.name,
                    place,
                    script.form,
                    script.address,
                    script.options,
                    slot.slot,
                    slot.function,
                    requires,
                    true,
                );
                &*Box::leak(Box::new(registration))
            });
        let registry = Registry::of(registrations);
        App::new(keep(name.as_ref()))
            .config(Config::none())
            .state(Scripts(
                scripts.into_iter().map(|script| script.run).collect(),
            ))
            .registry(registry)
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script")
            .field("name", &self.name)
            .field("form", &self.form)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// What a [`Script`] may return: what a handler may, any error that is text, or a [`Verdict`].
pub trait Ends {
    /// What it comes to.
    fn into_verdict(self) -> Verdict;
}

impl Ends for () {
    fn into_verdict(self) -> Verdict {
        Verdict::Done(Outcome::Ack)
    }
}

impl Ends for Outcome {
    fn into_verdict(self) -> Verdict {
        Verdict::Done(self)
    }
}

impl Ends for Verdict {
    fn into_verdict(self) -> Verdict {
        self
    }
}

impl<T: IntoOutcome, E: fmt::Display> Ends for Result<T, E> {
    fn into_verdict(self) -> Verdict {
        match self {
            Ok(outcome) => Verdict::Done(outcome.into_outcome()),
            Err(error) => Failed::by_policy(&error),
        }
    }
}

/// The closures, by their place. They reach their slots as shared state, since what makes a slot is
/// a plain function.
struct Scripts(Vec<Run>);

struct Numbered {
    slot: fn() -> Box<dyn Slot>,
    function: fn() -> TypeId,
}

struct Place<const AT: usize>;

fn slot<const AT: usize>() -> Box<dyn Slot> {
    Typed::boxed(|incoming: &mut Incoming<'_>| {
        let scripts = incoming.state::<Scripts>();
        let run = scripts.as_ref().and_then(|scripts| scripts.0.get(AT));
        let run = run.ok_or_else(|| Rejection::failed("the script is gone"))?;
        run(incoming)
    })
}

macro_rules! numbered {
    ($($at:literal)*) => {
        [$(Numbered { slot: slot::<$at>, function: || TypeId::of::<Place<$at>>() }),*]
    };
}

const SLOTS: [Numbered; 16] = numbered!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
