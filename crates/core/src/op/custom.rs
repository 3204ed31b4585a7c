//! Ops whose body is somewhere else: compiled functions and users' kernels.

use crate::kernel::Specialization;
use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What an [`super::Op::Call`] runs. The op knows it by identity alone.
pub trait Callee: Any + Send + Sync + fmt::Debug {
    /// The name in plans and errors.
    fn name(&self) -> &str;
    /// For the floor that knows what it is.
    fn as_any(&self) -> &dyn Any;
}

/// A compiled function's plan. Equal only to itself: whoever compares holds it alive.
#[derive(Clone)]
pub struct CallOp(pub Arc<dyn Callee>);

impl CallOp {
    pub fn name(&self) -> &str {
        self.0.name()
    }
    fn address(&self) -> usize {
        Arc::as_ptr(&self.0) as *const () as usize
    }
}
impl PartialEq for CallOp {
    fn eq(&self, other: &Self) -> bool {
        self.address() == other.address()
    }
}
impl Eq for CallOp {}
impl Hash for CallOp {
    fn hash<H: Hasher>(&self, h: &mut H) {
        self.address().hash(h);
    }
}
impl fmt::Debug for CallOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A user's kernel with its launch. Equal to every other launch of the same program over the same
/// grid, whichever functions made them. Inputs: as the kernel names them. Scalars: the value that
/// outputs start with, or none. Outputs: those of the kernel, then its mutable inputs.
#[derive(Clone)]
pub struct CustomOp(pub Arc<KernelLaunch>);

/// What a custom kernel runs, and over what.
pub struct KernelLaunch {
    pub spec: Arc<Specialization>,
    /// Threads in each direction; none where one is 0.
    pub grid: [u32; 3],
    /// Threads of a threadgroup in each direction.
    pub threadgroup: [u32; 3],
}

impl CustomOp {
    pub fn name(&self) -> &str {
        &self.0.spec.name
    }
}
impl PartialEq for CustomOp {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (&*self.0, &*other.0);
        Arc::ptr_eq(&self.0, &other.0)
            || a.grid == b.grid && a.threadgroup == b.threadgroup && a.spec.same(&b.spec)
    }
}
impl Eq for CustomOp {}
impl Hash for CustomOp {
    fn hash<H: Hasher>(&self, h: &mut H) {
        let launch = &*self.0;
        (launch.spec.hash, launch.grid, launch.threadgroup).hash(h);
    }
}
impl fmt::Debug for CustomOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let launch = &*self.0;
        let KernelLaunch { grid: [x, y, z], threadgroup: [i, j, k], .. } = launch;
        write!(f, "{}[grid {x}x{y}x{z} by {i}x{j}x{k}]", launch.spec.name)
    }
}
