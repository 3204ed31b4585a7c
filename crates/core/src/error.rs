//! The one error type, split by whose fault it is.

/// What went wrong, by whose fault it is. The text starts with the place in brackets and says
/// what was wrong, both values, and what would be accepted.
///
/// Errors are raised when a node is built where that is possible; an error found while a plan
/// runs makes the failed arrays and their dependants raise it every time they are read.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// Shapes that do not fit the operation or each other.
    #[error("{0}")]
    Shape(String),
    /// A dtype that the operation does not take.
    #[error("{0}")]
    Dtype(String),
    /// An axis or an index out of range.
    #[error("{0}")]
    Axis(String),
    /// Any other argument out of its domain.
    #[error("{0}")]
    Argument(String),
    /// Correct, but not there (yet) on this device.
    #[error("{0}")]
    Unsupported(String),
    /// Something that cannot be done while a function is traced.
    #[error("{0}")]
    Trace(String),
    /// A custom kernel does not build or fails.
    #[error("{0}")]
    Kernel(String),
    /// The memory limit or the machine's memory is reached.
    #[error("{0}")]
    OutOfMemory(String),
    /// A device is absent or failed.
    #[error("{0}")]
    Device(String),
    /// A file or message that does not follow its format.
    #[error("{0}")]
    Format(String),
    /// The operating system refused.
    #[error("{0}")]
    Io(String),
    /// A broken promise inside isopace; please report it.
    #[error("{0}")]
    Internal(String),
}

/// The result of everything that can fail here.
pub type Result<T> = std::result::Result<T, Error>;

/// Builds an [`Error`] of the named kind from a format string.
///
/// ```
/// let e = isopace_core::err!(Shape, "[reshape] cannot turn {} elements into {:?}", 6, [4]);
/// assert_eq!(e.to_string(), "[reshape] cannot turn 6 elements into [4]");
/// ```
#[macro_export]
macro_rules! err {
    ($kind:ident, $($arg:tt)*) => { $crate::Error::$kind(format!($($arg)*)) };
}

/// Returns an [`Error`] of the named kind from the current function.
#[macro_export]
macro_rules! bail {
    ($kind:ident, $($arg:tt)*) => { return Err($crate::err!($kind, $($arg)*)) };
}
