//! Shared state, found by its type.

use std::any::Any;
use std::any::TypeId;
use std::fmt;
use std::sync::Arc;

/// Values by type. Few, read per message: a scan over a slice beats hashing.
#[derive(Clone, Default)]
pub(crate) struct StateMap(Vec<(TypeId, &'static str, Arc<dyn Any + Send + Sync>)>);

impl StateMap {
    /// Add a value, in place of an earlier one of its type.
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        let id = TypeId::of::<T>();
        self.0.retain(|(known, ..)| *known != id);
        self.0
            .push((id, std::any::type_name::<T>(), Arc::new(value)));
    }

    /// The value of type `T`.
    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let id = TypeId::of::<T>();
        let (.., value) = self.0.iter().find(|(known, ..)| *known == id)?;
        Arc::clone(value).downcast().ok()
    }

    /// Whether there is a value of this type.
    pub(crate) fn has(&self, id: TypeId) -> bool {
        self.0.iter().any(|(known, ..)| *known == id)
    }
}

/// Shows the types, not the values.
impl fmt::Debug for StateMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.0.iter().map(|(_, name, _)| name))
            .finish()
    }
}
