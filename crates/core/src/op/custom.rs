//! Ops whose body is somewhere else: compiled functions and users' kernels.

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What an [`super::Op::Call`] or [`super::Op::Custom`] runs. The op knows it by identity alone.
pub trait Callee: Any + Send + Sync + fmt::Debug {
    /// The name in plans and errors.
    fn name(&self) -> &str;
    /// For the floor that knows what it is.
    fn as_any(&self) -> &dyn Any;
}

macro_rules! by_identity {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $name(pub Arc<dyn Callee>);

        impl $name {
            pub fn name(&self) -> &str {
                self.0.name()
            }
            fn address(&self) -> usize {
                Arc::as_ptr(&self.0) as *const () as usize
            }
        }
        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.address() == other.address()
            }
        }
        impl Eq for $name {}
        impl Hash for $name {
            fn hash<H: Hasher>(&self, h: &mut H) {
                self.address().hash(h);
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

by_identity!(
    /// A compiled function's plan. Equal only to itself: whoever compares holds it alive.
    CallOp
);
by_identity!(
    /// A specialization of a user's kernel with its launch.
    CustomOp
);
