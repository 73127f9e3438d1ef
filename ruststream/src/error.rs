//! Why an application cannot start, or how it ended: every problem, with its place and its cure.

use std::fmt;
use std::process::ExitCode;

use crate::broker::BrokerError;
use crate::config::Origin;
use crate::registration::Registration;

/// Why an application did not start, or did not end well.
///
/// [`problems`](Error::problems) lists everything that is wrong at once; the display has one line
/// for each. `Debug` shows the same text, because that is what a `main` which returns it prints.
///
/// A `main` that returns this error exits with 1. To tell the endings apart from outside, end with
/// [`exit_code`](Error::exit_code):
///
/// ```no_run
/// # async fn example(app: ruststream::App) -> std::process::ExitCode {
/// match app.run().await {
///     Ok(()) => std::process::ExitCode::SUCCESS,
///     Err(error) => {
///         eprintln!("{error}");
///         error.exit_code()
///     }
/// }
/// # }
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    problems: Vec<Problem>,
}

/// What went wrong, in kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The application or its configuration is wrong; nothing was connected. Exit code 78.
    Invalid,
    /// A broker refused for good at start-up (spec C14). Exit code 69.
    Refused,
    /// Stopped in time, but not everything could be finished. Exit code 75.
    DrainTimeout {
        /// Deliveries whose handlers were still running, or whose copies or settlements were not
        /// taken; the broker delivers them again.
        unfinished: usize,
        /// Waiting copies that could not be published.
        lost_copies: usize,
    },
    /// A second signal ended it at once; unsettled deliveries come again. Exit code 130.
    Interrupted,
    /// A mount point stopped by a fault of the framework. Exit code 70.
    Failed,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, problems: Vec<Problem>) -> Self {
        Self(Box::new(Inner { kind, problems }))
    }

    /// What went wrong, in kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Everything that is wrong.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.0.problems
    }

    /// The exit code of this kind, after `sysexits.h`; see [`ErrorKind`].
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.0.kind.exit_status())
    }
}

impl ErrorKind {
    /// The number behind [`Error::exit_code`].
    #[must_use]
    pub const fn exit_status(self) -> u8 {
        match self {
            Self::Invalid => 78,
            Self::Refused => 69,
            Self::DrainTimeout { .. } => 75,
            Self::Interrupted => 130,
            Self::Failed => 70,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.kind {
            ErrorKind::Invalid => f.write_str("the application cannot start")?,
            ErrorKind::Refused => f.write_str("a broker refused")?,
            ErrorKind::DrainTimeout {
                unfinished,
                lost_copies,
            } => write!(
                f,
                "stopped with {unfinished} unfinished deliveries, which the broker delivers again, and {lost_copies} lost copies"
            )?,
            ErrorKind::Interrupted => {
                f.write_str("interrupted by a second signal; unsettled deliveries come again")?;
            }
            ErrorKind::Failed => f.write_str("a mount point failed")?,
        }
        for (index, problem) in self.0.problems.iter().enumerate() {
            write!(f, "{}\n  - {problem}", if index == 0 { ":" } else { "" })?;
        }
        Ok(())
    }
}

/// The same text as `Display`: a `main` that returns an error prints it this way.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}

/// A broker that could not be made, as by `broker::from_env()?`.
impl From<BrokerError> for Error {
    fn from(error: BrokerError) -> Self {
        Self::new(ErrorKind::Invalid, vec![Problem::new(error.reason)])
    }
}

/// One thing that is wrong: where, what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    what: String,
    cure: Option<String>,
    handler: Option<Box<Place>>,
    key: Option<&'static str>,
    origin: Option<Box<Origin>>,
}

/// A mount point, as problems name it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The mount point's name.
    pub mount: String,
    /// The function's path.
    pub function: String,
    /// The source file.
    pub file: &'static str,
    /// The line of the attribute.
    pub line: u32,
    /// The effective address.
    pub address: String,
    /// The broker's name in the application.
    pub broker: String,
}

impl Problem {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            cure: None,
            handler: None,
            key: None,
            origin: None,
        }
    }

    pub(crate) fn cure(mut self, cure: impl Into<String>) -> Self {
        self.cure = Some(cure.into());
        self
    }

    pub(crate) fn at(mut self, place: Place) -> Self {
        self.handler = Some(Box::new(place));
        self
    }

    pub(crate) fn key_is(mut self, key: &'static str) -> Self {
        self.key = Some(key);
        self
    }

    pub(crate) fn from(mut self, origin: &Origin) -> Self {
        self.origin = Some(Box::new(origin.clone()));
        self
    }

    /// What is wrong.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }

    /// What to do, where there is one thing to do.
    #[must_use]
    pub fn what_to_do(&self) -> Option<&str> {
        self.cure.as_deref()
    }

    /// The mount point it is about.
    #[must_use]
    pub fn place(&self) -> Option<&Place> {
        self.handler.as_deref()
    }

    /// The key of the mount point it is about, with its group: `dead_letter`, `mqtt.qos`.
    #[must_use]
    pub fn key(&self) -> Option<&'static str> {
        self.key
    }

    /// Where the offending value stands.
    #[must_use]
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_deref()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(origin) = &self.origin
            && origin.is_outside()
        {
            write!(f, "{origin}: ")?;
        }
        if let Some(place) = &self.handler {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.what)?;
        if let Some(cure) = &self.cure {
            write!(f, "; {cure}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            mount,
            function,
            file,
            line,
            address,
            broker,
        } = self;
        write!(
            f,
            "`{mount}` ({function}, {file}:{line}) at `{address}` on broker `{broker}`"
        )
    }
}

/// The path of the function behind a registration.
pub(crate) fn function(registration: &Registration) -> String {
    format!("{}::{}", registration.module, registration.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_small_and_can_cross_threads() {
        fn crosses<T: Send + Sync + 'static>() {}
        crosses::<Error>();
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }

    #[test]
    fn every_problem_has_its_own_line_with_its_cure() {
        let error = Error::new(
            ErrorKind::Invalid,
            vec![
                Problem::new("one is wrong").cure("mend it"),
                Problem::new("two is wrong"),
            ],
        );
        assert_eq!(
            error.to_string(),
            "the application cannot start:\n  - one is wrong; mend it\n  - two is wrong"
        );
        assert_eq!(format!("{error:?}"), error.to_string());
    }

    #[test]
    fn every_ending_has_its_own_exit_status() {
        let kinds = [
            ErrorKind::Invalid,
            ErrorKind::Refused,
            ErrorKind::DrainTimeout {
                unfinished: 1,
                lost_copies: 0,
            },
            ErrorKind::Interrupted,
            ErrorKind::Failed,
        ];
        let mut statuses: Vec<u8> = kinds.iter().map(|kind| kind.exit_status()).collect();
        statuses.sort_unstable();
        statuses.dedup();
        assert_eq!(statuses.len(), kinds.len());
        assert!(!statuses.contains(&0) && !statuses.contains(&1));
    }
}
