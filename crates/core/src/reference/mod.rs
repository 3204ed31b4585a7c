//! The reference interpreter: what every op means, written for clarity.

/// Makes the reference interpreter the device of this process, unless there is one.
pub fn init() {}
