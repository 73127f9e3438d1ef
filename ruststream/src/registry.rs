//! The handlers that are linked into the program, in one fixed order.
//!
//! Use it to list what a program contains. To choose what runs use
//! [`App::only`](crate::App::only) or [`App::group`](crate::App::group).

use std::any::TypeId;
use std::fmt;

use crate::registration::Registration;

/// The handlers that are linked into the program, sorted by broker, address and name.
///
/// The linker's order differs between debug and release builds, so it is never used.
///
/// # Examples
///
/// ```
/// for handler in &ruststream::Registry::linked() {
///     println!("{} reads {}", handler.name, handler.address);
/// }
/// ```
#[derive(Clone)]
pub struct Registry(Vec<&'static Registration>);

impl Registry {
    /// Every `#[subscriber]` of the program and of the crates that it names.
    #[must_use]
    pub fn linked() -> Self {
        Self::of(inventory::iter::<Registration>)
    }

    pub(crate) fn of(registrations: impl IntoIterator<Item = &'static Registration>) -> Self {
        let mut all: Vec<_> = registrations.into_iter().collect();
        all.sort_by_key(|handler| {
            (
                handler.options.broker,
                handler.address,
                handler.name,
                handler.module,
                handler.line,
            )
        });
        Self(all)
    }

    /// Those that `keep` answers for.
    #[must_use]
    pub fn filter(mut self, mut keep: impl FnMut(&Registration) -> bool) -> Self {
        self.0.retain(|handler| keep(handler));
        self
    }

    /// The handler that this function is, if it is one.
    #[must_use]
    pub fn find<F: 'static>(&self, function: F) -> Option<&'static Registration> {
        let _ = function;
        self.by_type(TypeId::of::<F>())
    }

    pub(crate) fn by_type(&self, function: TypeId) -> Option<&'static Registration> {
        self.0
            .iter()
            .copied()
            .find(|handler| (handler.function)() == function)
    }

    /// All of them, in order.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'static Registration> + '_ {
        self.0.iter().copied()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> IntoIterator for &'a Registry {
    type Item = &'static Registration;
    type IntoIter = std::iter::Copied<std::slice::Iter<'a, &'static Registration>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().copied()
    }
}

/// Shows names and addresses.
impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.iter().map(|handler| (handler.name, handler.address)))
            .finish()
    }
}

/// Handler functions, by name: `(fulfil, record)`, and `(fulfil,)` for a single one.
///
/// Implemented for tuples of up to twelve function items; a function item's type is unique, which
/// is how its registration is found.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tuple of handlers",
    note = "write `(fulfil, record)`, and `(fulfil,)` for a single handler"
)]
pub trait Handlers {
    #[doc(hidden)]
    fn functions(self) -> Vec<Function>;
}

/// A function item: its type, and its path for messages.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Function {
    pub(crate) id: TypeId,
    pub(crate) path: &'static str,
}

impl Function {
    pub(crate) fn of<F: 'static>(_: &F) -> Self {
        Self {
            id: TypeId::of::<F>(),
            path: std::any::type_name::<F>(),
        }
    }
}

macro_rules! tuples {
    ($($name:ident)+) => {
        tuples!(@one $($name)+);
        tuples!(@rest $($name)+);
    };
    (@rest $first:ident $($name:ident)+) => { tuples!($($name)+); };
    (@rest $first:ident) => {};
    (@one $($name:ident)+) => {
        impl<$($name: 'static),+> Handlers for ($($name,)+) {
            fn functions(self) -> Vec<Function> {
                #[expect(non_snake_case, reason = "the type parameters name the fields")]
                let ($($name,)+) = self;
                vec![$(Function::of(&$name)),+]
            }
        }
    };
}

tuples!(A B C D E F G H I J K L);
