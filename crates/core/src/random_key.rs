//! The process-wide random key. A draw splits it under the lock; a trace that draws takes it as a
//! hidden input and output.

use crate::array::Array;
use crate::compile::trace::traced_key;
use crate::error::Result;
use parking_lot::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

static KEY: Mutex<Option<Array>> = Mutex::new(None);

/// The key for a seed: its high and low 32 bits.
pub fn key(seed: u64) -> Result<Array> {
    Array::from_slice(&[(seed >> 32) as u32, seed as u32], [2])
}

/// Restarts the process-wide key.
pub fn seed(seed: u64) -> Result<()> {
    set(key(seed)?);
    Ok(())
}

/// Puts another array in the place of the process-wide key.
pub fn set(key: Array) {
    let old = KEY.lock().replace(key);
    drop(old);
}

/// The process-wide key as it is now.
pub fn current() -> Result<Array> {
    advance(|k| Ok((k.clone(), k)))
}

/// Replaces the key by what `next` makes of it. Inside a trace that is the trace's own key.
/// `next` only builds lazy nodes, so the lock is not held while anything is computed.
pub fn advance<T>(next: impl FnOnce(Array) -> Result<(Array, T)>) -> Result<T> {
    let mut next = Some(next);
    if let Some(out) = traced_key(|k| match next.take() {
        Some(f) => f(k),
        None => Err(crate::err!(Internal, "[random] the key was advanced twice")),
    }) {
        return out;
    }
    let Some(next) = next else { return Err(crate::err!(Internal, "[random] the key was advanced twice")) };
    let mut state = KEY.lock();
    let now = match state.take() {
        Some(k) => k,
        None => {
            let ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
            key(ms)?
        }
    };
    match next(now.clone()) {
        Ok((new, out)) => {
            *state = Some(new);
            Ok(out)
        }
        Err(e) => {
            *state = Some(now);
            Err(e)
        }
    }
}
