//! What captured arrays are while a function is traced: placeholders, seen by the tracing thread alone.
//!
//! The handles themselves keep their arrays, so other threads read them as before, and a trace that
//! fails has nothing to undo.

use crate::array::PyArray;
use isopace_core::Array;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

static ACTIVE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// By the handle's address; whoever pushes a layer holds its handles alive.
    static LAYERS: RefCell<Vec<HashMap<usize, Array>>> = const { RefCell::new(Vec::new()) };
}

/// True while some thread traces a function with captured arrays.
#[inline]
pub(crate) fn active() -> bool {
    ACTIVE.load(Ordering::Relaxed) != 0
}

fn address(h: &PyArray) -> usize {
    std::ptr::from_ref(h) as usize
}

/// What a handle stands for in the innermost trace of this thread.
#[cold]
pub(crate) fn get(h: &PyArray) -> Option<Array> {
    LAYERS.with_borrow(|l| l.iter().rev().find_map(|m| m.get(&address(h)).cloned()))
}

/// Puts another array in the place of a captured one until the trace ends; false for other handles.
#[cold]
pub(crate) fn set(h: &PyArray, a: &Array) -> bool {
    LAYERS.with_borrow_mut(|l| match l.iter_mut().rev().find_map(|m| m.get_mut(&address(h))) {
        Some(slot) => {
            *slot = a.clone();
            true
        }
        None => false,
    })
}

/// A layer of placeholders, taken away on drop.
pub(crate) struct Layer(());

impl Layer {
    /// Handles given must outlive the layer.
    pub(crate) fn push<'a>(pairs: impl Iterator<Item = (&'a PyArray, Array)>) -> Layer {
        let map = pairs.map(|(h, a)| (address(h), a)).collect();
        LAYERS.with_borrow_mut(|l| l.push(map));
        ACTIVE.fetch_add(1, Ordering::Relaxed);
        Layer(())
    }
}

impl Drop for Layer {
    fn drop(&mut self) {
        ACTIVE.fetch_sub(1, Ordering::Relaxed);
        let gone = LAYERS.with_borrow_mut(|l| l.pop());
        drop(gone);
    }
}
