//! Superinstructions: two or three opcodes on float32 lanes in one loop, the values between them in
//! vector registers. Each still rounds on its own, so the result is that of the opcodes, bit for bit.

use super::float;
use super::ops::{ARGS, Args, Bin, OpFn, Un, lane, opcodes, target, versions};
use crate::isa::{Isa, isa};
use crate::kernels::vecmat::padded;
use isopace_core::op::Row;
use std::marker::PhantomData;

opcodes! {
    // The value so far is the first operand; of a difference it may be the second.
    SubFrom(f32 => f32) _F |x, y| y - x;
}

/// A binary opcode from float32 to float32.
pub trait F2: Bin<T = f32, R = f32> {}
impl<O: Bin<T = f32, R = f32>> F2 for O {}
/// A unary opcode from float32 to float32.
pub trait F1: Un<T = f32, R = f32> {}
impl<O: Un<T = f32, R = f32>> F1 for O {}

/// Opcodes on one lane of each operand, of which the first `N` are read.
pub trait Chain {
    const N: usize;
    fn f<const FMA: bool>(v: [f32; ARGS]) -> f32;
}

/// The first opcode.
struct First<G>(PhantomData<G>);
/// A binary opcode on what the others gave and the next operand.
struct Then<C, H>(PhantomData<(C, H)>);
/// A unary opcode on what the others gave.
struct Over<C, U>(PhantomData<(C, U)>);

impl<G: F2> Chain for First<G> {
    const N: usize = 2;
    #[inline(always)]
    fn f<const FMA: bool>(v: [f32; ARGS]) -> f32 {
        G::f::<FMA>(v[0], v[1])
    }
}

impl<C: Chain, H: F2> Chain for Then<C, H> {
    const N: usize = C::N + 1;
    #[inline(always)]
    fn f<const FMA: bool>(v: [f32; ARGS]) -> f32 {
        H::f::<FMA>(C::f::<FMA>(v), v[C::N])
    }
}

impl<C: Chain, U: F1> Chain for Over<C, U> {
    const N: usize = C::N;
    #[inline(always)]
    fn f<const FMA: bool>(v: [f32; ARGS]) -> f32 {
        U::f::<FMA>(C::f::<FMA>(v))
    }
}

/// Lanes computed together: a scalar operand is spread over so many, so that one loop serves rows
/// and scalars in every combination.
const WIDTH: usize = 16;

/// # Safety
/// As [`OpFn`].
#[inline(always)]
unsafe fn run<C: Chain, const FMA: bool>(dst: *mut u8, n: usize, args: &Args) {
    let mut spread = [[0f32; WIDTH]; ARGS];
    for k in 0..C::N {
        if args[k].scalar {
            // SAFETY: passed on from the caller.
            spread[k] = [unsafe { lane(args[k]) }; WIDTH];
        }
    }
    // Where the next lanes of each operand are, and how far the ones after them.
    let mut from: [(*const [f32; WIDTH], usize); ARGS] = std::array::from_fn(|k| match args[k].scalar {
        true => (&raw const spread[k], 0),
        false => (args[k].ptr.cast(), 1),
    });
    // SAFETY: passed on from the caller.
    let out: &mut [f32] = unsafe { target(dst, n) };
    let (whole, rest) = out.as_chunks_mut::<WIDTH>();
    for out in whole {
        let mut v = [[0f32; WIDTH]; ARGS];
        for k in 0..C::N {
            // SAFETY: the caller promises n lanes of a row, of which the loop reads as many as there
            // are in the output; a scalar's are in `spread`, and its address stays.
            v[k] = unsafe { *from[k].0 };
            from[k].0 = from[k].0.wrapping_add(from[k].1);
        }
        *out = lanes::<C, FMA>(v);
    }
    if !rest.is_empty() {
        let mut v = [[0f32; WIDTH]; ARGS];
        for k in 0..C::N {
            // SAFETY: as above.
            let left = unsafe { std::slice::from_raw_parts(from[k].0.cast(), rest.len()) };
            v[k] = padded(left);
        }
        rest.copy_from_slice(&lanes::<C, FMA>(v)[..rest.len()]);
    }
}

#[inline(always)]
fn lanes<C: Chain, const FMA: bool>(v: [[f32; WIDTH]; ARGS]) -> [f32; WIDTH] {
    let mut o = [0f32; WIDTH];
    for i in 0..WIDTH {
        o[i] = C::f::<FMA>([v[0][i], v[1][i], v[2][i], v[3][i]]);
    }
    o
}

versions!(run, run_512, run_256, run_any, <C: Chain>);

fn of<C: Chain>() -> Option<OpFn> {
    Some(match isa() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => run_512::<C>,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => run_256::<C>,
        _ => run_any::<C>,
    })
}

/// The loop of `C` and the last opcodes.
fn ends<C: Chain>(rest: &[(Row, bool)]) -> Option<OpFn> {
    match rest {
        [(Row::Add, _)] => of::<Then<C, float::Add>>(),
        [(Row::Mul, _)] => of::<Then<C, float::Mul>>(),
        [(Row::Sub, true)] => of::<Then<C, SubFrom>>(),
        [(Row::Sub, false)] => of::<Then<C, float::Sub>>(),
        [(Row::Tanh, _)] => of::<Over<C, float::Tanh>>(),
        [(Row::Tanh, _), (Row::Add, _)] => of::<Then<Over<C, float::Tanh>, float::Add>>(),
        [(Row::Exp, _)] => of::<Over<C, float::Exp>>(),
        [(Row::Sigmoid, _)] => of::<Over<C, float::Sigmoid>>(),
        _ => None,
    }
}

fn starts<G: F2>(rest: &[(Row, bool)]) -> Option<OpFn> {
    let (first, last) = rest.split_first()?;
    match first {
        _ if last.is_empty() => ends::<First<G>>(rest),
        (Row::Add, _) => ends::<Then<First<G>, float::Add>>(last),
        (Row::Mul, _) => ends::<Then<First<G>, float::Mul>>(last),
        (Row::Sub, true) => ends::<Then<First<G>, SubFrom>>(last),
        (Row::Sub, false) => ends::<Then<First<G>, float::Sub>>(last),
        _ => ends::<First<G>>(rest),
    }
}

/// The loop that computes the rows one after the other, each on the result of the one before, which
/// is its first operand, or its second where that is said. Operands: the two of the first row, then
/// the other one of each binary row.
pub fn lookup(steps: &[(Row, bool)]) -> Option<OpFn> {
    match steps.split_first()? {
        ((Row::Add, _), rest) => starts::<float::Add>(rest),
        ((Row::Sub, _), rest) => starts::<float::Sub>(rest),
        ((Row::Mul, _), rest) => starts::<float::Mul>(rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::ops::Arg;
    use super::*;
    use crate::isa::with;
    use crate::kernels::quant::tests::Lcg;

    /// What a loop makes of rows of `n`, or scalars where they are shorter.
    fn run(f: OpFn, n: usize, of: &[&[f32]]) -> Vec<f32> {
        let mut out = vec![f32::NAN; n];
        let arg = |k: usize| {
            let row = of.get(k).copied().unwrap_or(&[0.0]);
            Arg { ptr: row.as_ptr().cast(), scalar: row.len() < n || k >= of.len() }
        };
        // SAFETY: rows have n lanes and scalars one, all float32; the output is another vector.
        unsafe { f(out.as_mut_ptr().cast(), n, &std::array::from_fn(arg)) };
        out
    }

    #[test]
    fn a_chain_has_the_bits_of_its_opcodes() {
        let mut r = Lcg(4);
        let data: Vec<Vec<f32>> = (0..ARGS).map(|_| (0..37).map(|_| r.float()).collect()).collect();
        let rows = [Row::Add, Row::Mul, Row::Sub, Row::Tanh, Row::Exp, Row::Sigmoid];
        let one = rows.into_iter().flat_map(|row| [(row, false), (row, true)]);
        let mut all: Vec<Vec<(Row, bool)>> = vec![vec![]];
        let mut found = 0;
        for _ in 0..4 {
            let longer = |s: Vec<_>| one.clone().map(move |o| s.iter().copied().chain([o]).collect());
            all = all.into_iter().flat_map(longer).collect();
            // Nothing stands before the first opcode that could be its second operand.
            for steps in all.iter().filter(|s| !s[0].1) {
                for isa in Isa::ALL {
                    with(isa, || {
                        let Some(f) = lookup(steps) else { return };
                        found += 1;
                        for (scalars, n) in (0..16).flat_map(|s| [2, 16, 37].map(|n| (s, n))) {
                            let of: [&[f32]; ARGS] = std::array::from_fn(|k| {
                                &data[k][..if scalars >> k & 1 == 1 { 1 } else { n }]
                            });
                            let mut next = of.iter();
                            let mut want = next.next().unwrap().to_vec();
                            for &(row, second) in steps {
                                let f = float::lookup(row).unwrap();
                                want = match row.arity() {
                                    1 => run(f, n, &[&want]),
                                    _ if second => run(f, n, &[next.next().unwrap(), &want]),
                                    _ => run(f, n, &[&want, next.next().unwrap()]),
                                };
                            }
                            let got = run(f, n, &of);
                            let bits = |v: &[f32]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                            assert_eq!(bits(&got), bits(&want), "{isa:?} {steps:?} {n} {scalars:b}");
                        }
                    });
                }
            }
        }
        assert!(found > 0);
    }
}
