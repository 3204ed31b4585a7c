//! Superinstructions: two opcodes on float32 lanes in one loop, the value between them in a vector
//! register. Each still rounds on its own, so the result is that of the two, bit for bit.

use super::ops::{Arg, Bin, OpFn, Un, lane, opcodes, rows, target, versions};
use super::{float, ops};
use crate::isa::{Isa, isa};
use isopace_core::op::Row;

opcodes! {
    // The inner value is the first operand; of a difference it may be the second.
    SubFrom(f32 => f32) _F |x, y| y - x;
}

/// A lane of a row or the scalar.
trait Read: Copy {
    fn at(self, i: usize) -> f32;
}

impl Read for f32 {
    #[inline(always)]
    fn at(self, _: usize) -> f32 {
        self
    }
}

impl Read for &[f32] {
    #[inline(always)]
    fn at(self, i: usize) -> f32 {
        self[i]
    }
}

/// Calls `$f` with an operand as a row of n or a scalar.
macro_rules! with {
    ($a:expr, $n:expr, |$x:ident| $e:expr) => {
        if $a.scalar {
            let $x = lane::<f32>($a);
            $e
        } else {
            let $x = rows::<f32>($a, $n);
            $e
        }
    };
}

/// # Safety
/// As [`OpFn`].
#[inline(always)]
unsafe fn two<G: F2, H: F2, const FMA: bool>(dst: *mut u8, n: usize, args: &[Arg; 3]) {
    #[inline(always)]
    fn run<G: F2, H: F2, const FMA: bool>(out: &mut [f32], a: impl Read, b: impl Read, c: impl Read) {
        for (i, o) in out.iter_mut().enumerate() {
            *o = H::f::<FMA>(G::f::<FMA>(a.at(i), b.at(i)), c.at(i));
        }
    }
    // SAFETY: passed on from the caller.
    unsafe {
        let out = target::<f32>(dst, n);
        with!(args[0], n, |a| with!(args[1], n, |b| with!(args[2], n, |c| run::<G, H, FMA>(out, a, b, c))))
    }
}

/// # Safety
/// As [`OpFn`].
#[inline(always)]
unsafe fn over<G: F2, U: F1, const FMA: bool>(dst: *mut u8, n: usize, args: &[Arg; 3]) {
    #[inline(always)]
    fn run<G: F2, U: F1, const FMA: bool>(out: &mut [f32], a: impl Read, b: impl Read) {
        for (i, o) in out.iter_mut().enumerate() {
            *o = U::f::<FMA>(G::f::<FMA>(a.at(i), b.at(i)));
        }
    }
    // SAFETY: passed on from the caller.
    unsafe {
        let out = target::<f32>(dst, n);
        with!(args[0], n, |a| with!(args[1], n, |b| run::<G, U, FMA>(out, a, b)))
    }
}

/// A binary opcode from float32 to float32.
pub trait F2: Bin<T = f32, R = f32> {}
impl<O: Bin<T = f32, R = f32>> F2 for O {}
/// A unary opcode from float32 to float32.
pub trait F1: Un<T = f32, R = f32> {}
impl<O: Un<T = f32, R = f32>> F1 for O {}

versions!(two, two_512, two_256, two_any, <G: F2, H: F2>);
versions!(over, over_512, over_256, over_any, <G: F2, U: F1>);

fn pair<G: F2, H: F2>() -> OpFn {
    match isa() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => two_512::<G, H>,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => two_256::<G, H>,
        _ => two_any::<G, H>,
    }
}

fn applied<G: F2, U: F1>() -> OpFn {
    match isa() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => over_512::<G, U>,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => over_256::<G, U>,
        _ => over_any::<G, U>,
    }
}

fn outer<G: F2>(row: Row, second: bool) -> Option<OpFn> {
    Some(match row {
        Row::Add => pair::<G, float::Add>(),
        Row::Mul => pair::<G, float::Mul>(),
        Row::Sub if second => pair::<G, SubFrom>(),
        Row::Sub => pair::<G, float::Sub>(),
        Row::Tanh => applied::<G, float::Tanh>(),
        Row::Exp => applied::<G, float::Exp>(),
        Row::Sigmoid => applied::<G, float::Sigmoid>(),
        _ => return None,
    })
}

/// The loop that computes `row` of the result of `inner`, which is its first operand, or its second.
/// Operands: the two of `inner`, then the other one of `row`.
pub fn lookup(inner: Row, row: Row, second: bool) -> Option<ops::OpFn> {
    match inner {
        Row::Add => outer::<float::Add>(row, second),
        Row::Sub => outer::<float::Sub>(row, second),
        Row::Mul => outer::<float::Mul>(row, second),
        _ => None,
    }
}
