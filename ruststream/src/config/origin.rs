//! Where a value came from.

use std::fmt;
use std::path::PathBuf;

/// Where an effective value came from. Later sources win: attribute, file, environment, builder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// Nothing said otherwise.
    Default,
    /// It follows from another value.
    Implied(&'static str),
    /// The `#[subscriber]` attribute.
    Attribute,
    /// The attribute's address behind a configured prefix.
    Prefixed(Box<Origin>),
    /// A configuration file.
    File {
        /// The file; `None` for text given by the program.
        path: Option<PathBuf>,
        /// The key, as in `handlers.fulfil.max_attempts`; empty for the file as a whole.
        key: String,
    },
    /// An environment variable.
    Variable {
        /// Its name.
        name: String,
    },
    /// A call in the program.
    Builder,
}

impl Origin {
    /// Whether it stands outside of the program's source, so that a message must say where.
    pub(crate) fn is_outside(&self) -> bool {
        match self {
            Self::File { .. } | Self::Variable { .. } => true,
            Self::Prefixed(prefix) => prefix.is_outside(),
            Self::Default | Self::Implied(_) | Self::Attribute | Self::Builder => false,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Implied(why) => f.write_str(why),
            Self::Attribute => f.write_str("attribute"),
            Self::Prefixed(prefix) => write!(f, "attribute with the prefix of {prefix}"),
            Self::File { path, key } => {
                match path {
                    Some(path) => write!(f, "{}", path.display())?,
                    None => f.write_str("configuration text")?,
                }
                if key.is_empty() {
                    Ok(())
                } else {
                    write!(f, ", key `{key}`")
                }
            }
            Self::Variable { name } => write!(f, "variable `{name}`"),
            Self::Builder => f.write_str("builder"),
        }
    }
}
