//! A hit allocates the output node and nothing else.

use isopace::compile::compile;
use isopace::{Array, Scalar};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system allocator unchanged, which upholds the contract.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: as the trait's; passed on.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller upholds `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }
    // SAFETY: as the trait's; passed on.
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds `dealloc`'s contract.
        unsafe { System.dealloc(p, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_hit_allocates_one_node() {
    isopace::init();
    let f = compile(|(x, y, n): (Array, Array, Scalar)| x.multiply(&y)?.add(n));
    let x = Array::from_slice(&[1.0f32; 64], [64]).expect("an array");
    for n in 0..5i64 {
        f.call((x.clone(), x.clone(), n.into())).expect("a call");
    }
    for n in 100..200i64 {
        let before = COUNT.get();
        let y = f.call((x.clone(), x.clone(), Scalar::from(n))).expect("a call");
        assert_eq!(COUNT.get() - before, 1, "allocations of a hit");
        drop(y);
    }
}
