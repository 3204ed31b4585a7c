//! The merge loop that both kinds of byte-pair encoding share.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A stretch of the text that is one symbol so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Symbol {
    pub start: usize,
    pub len: usize,
    /// The token it is, or [`NO_ID`].
    pub id: u32,
}

/// The id of a symbol that is no token.
pub(super) const NO_ID: u32 = u32::MAX;

/// Joins neighbouring symbols, always the pair of the lowest priority and of those the leftmost,
/// until `pair` joins none. Costs O(n log n) for n symbols, so a megabyte without a space is no
/// trap.
pub(super) fn merge(symbols: &mut Vec<Symbol>, pair: impl Fn(&Symbol, &Symbol) -> Option<(u32, u32)>) {
    let n = symbols.len();
    if n < 2 {
        return;
    }
    // `next[i]` and `prev[i]` are neighbours among symbols of non-zero length; n and usize::MAX end them.
    let mut next: Vec<usize> = (1..=n).collect();
    let mut prev: Vec<usize> = (0..n).map(|i| i.wrapping_sub(1)).collect();
    let mut heap = BinaryHeap::with_capacity(n);
    let candidate = |symbols: &[Symbol], left: usize, right: usize| {
        let (priority, id) = pair(&symbols[left], &symbols[right])?;
        // The two lengths tell later whether either side has changed since.
        Some(Reverse((priority, left, right, symbols[left].len, symbols[right].len, id)))
    };
    heap.extend((0..n - 1).filter_map(|i| candidate(symbols, i, i + 1)));
    while let Some(Reverse((_, left, right, left_len, right_len, id))) = heap.pop() {
        if symbols[left].len != left_len || symbols[right].len != right_len || next[left] != right {
            continue;
        }
        symbols[left].len += right_len;
        symbols[left].id = id;
        symbols[right].len = 0;
        next[left] = next[right];
        if next[left] < n {
            prev[next[left]] = left;
            heap.extend(candidate(symbols, left, next[left]));
        }
        if prev[left] != usize::MAX {
            heap.extend(candidate(symbols, prev[left], left));
        }
    }
    symbols.retain(|s| s.len > 0);
}
