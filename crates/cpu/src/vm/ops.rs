//! Loops over one block, one for each opcode and lane type, compiled for each ISA.
//!
//! An opcode is a type with one function on lanes; the loops here apply it to rows of lanes or
//! scalars. Blocks that an opcode reads never overlap the one it writes.

use crate::isa::{Isa, isa};

/// An operand: a row of lanes, or one lane for all.
#[derive(Clone, Copy, Debug)]
pub struct Arg {
    pub ptr: *const u8,
    pub scalar: bool,
}

/// Operands of a loop, at most.
pub const ARGS: usize = 4;
/// The operands of a loop; those that it does not have are anything.
pub type Args = [Arg; ARGS];

/// A loop: writes `n` lanes from its operands.
///
/// # Safety
/// `dst` is valid for writing `n` lanes of the result type and overlaps no operand; each operand is
/// valid for reading `n` lanes of its type, or one if it is a scalar; all are aligned.
pub type OpFn = unsafe fn(dst: *mut u8, n: usize, args: &Args);

/// # Safety
/// As [`OpFn`].
#[inline(always)]
pub unsafe fn rows<'a, T>(a: Arg, n: usize) -> &'a [T] {
    // SAFETY: the caller of the `OpFn` promises n aligned lanes.
    unsafe { std::slice::from_raw_parts(a.ptr.cast(), n) }
}

/// # Safety
/// As [`OpFn`].
#[inline(always)]
pub unsafe fn lane<T: Copy>(a: Arg) -> T {
    // SAFETY: the caller of the `OpFn` promises one aligned lane.
    unsafe { *a.ptr.cast::<T>() }
}

/// # Safety
/// As [`OpFn`].
#[inline(always)]
pub unsafe fn target<'a, T>(dst: *mut u8, n: usize) -> &'a mut [T] {
    // SAFETY: the caller of the `OpFn` promises n aligned lanes that nothing else reads.
    unsafe { std::slice::from_raw_parts_mut(dst.cast(), n) }
}

/// # Safety
/// As [`OpFn`].
#[inline(always)]
unsafe fn un<O: Un, const FMA: bool>(dst: *mut u8, n: usize, args: &Args) {
    // SAFETY: passed on from the caller.
    unsafe {
        let out = target::<O::R>(dst, n);
        if args[0].scalar {
            out.fill(O::f::<FMA>(lane(args[0])));
        } else {
            out.iter_mut().zip(rows::<O::T>(args[0], n)).for_each(|(o, &x)| *o = O::f::<FMA>(x));
        }
    }
}

/// # Safety
/// As [`OpFn`].
#[inline(always)]
unsafe fn bin<O: Bin, const FMA: bool>(dst: *mut u8, n: usize, args: &Args) {
    // SAFETY: passed on from the caller.
    unsafe {
        let out = target::<O::R>(dst, n);
        match (args[0].scalar, args[1].scalar) {
            (false, false) => {
                let (a, b) = (rows::<O::T>(args[0], n), rows::<O::T>(args[1], n));
                out.iter_mut().zip(a).zip(b).for_each(|((o, &x), &y)| *o = O::f::<FMA>(x, y));
            }
            (false, true) => {
                let y = lane(args[1]);
                out.iter_mut().zip(rows::<O::T>(args[0], n)).for_each(|(o, &x)| *o = O::f::<FMA>(x, y));
            }
            (true, false) => {
                let x = lane(args[0]);
                out.iter_mut().zip(rows::<O::T>(args[1], n)).for_each(|(o, &y)| *o = O::f::<FMA>(x, y));
            }
            (true, true) => out.fill(O::f::<FMA>(lane(args[0]), lane(args[1]))),
        }
    }
}

/// # Safety
/// As [`OpFn`].
#[inline(always)]
unsafe fn body_select<T: Copy, const FMA: bool>(dst: *mut u8, n: usize, args: &Args) {
    // SAFETY: passed on from the caller.
    unsafe {
        let out = target::<T>(dst, n);
        if args[0].scalar {
            let from = args[if lane::<u8>(args[0]) != 0 { 1 } else { 2 }];
            return if from.scalar { out.fill(lane(from)) } else { out.copy_from_slice(rows(from, n)) };
        }
        let c = rows::<u8>(args[0], n);
        let pick = |c: u8, x: T, y: T| if c != 0 { x } else { y };
        match (args[1].scalar, args[2].scalar) {
            (false, false) => {
                let (a, b) = (rows::<T>(args[1], n), rows::<T>(args[2], n));
                out.iter_mut().zip(c).zip(a).zip(b).for_each(|(((o, &c), &x), &y)| *o = pick(c, x, y));
            }
            (false, true) => {
                let y = lane(args[2]);
                out.iter_mut().zip(c).zip(rows(args[1], n)).for_each(|((o, &c), &x)| *o = pick(c, x, y));
            }
            (true, false) => {
                let x = lane(args[1]);
                out.iter_mut().zip(c).zip(rows(args[2], n)).for_each(|((o, &c), &y)| *o = pick(c, x, y));
            }
            (true, true) => {
                let (x, y) = (lane(args[1]), lane(args[2]));
                out.iter_mut().zip(c).for_each(|(o, &c)| *o = pick(c, x, y));
            }
        }
    }
}

macro_rules! versions {
    ($body:ident, $wide:ident, $narrow:ident, $portable:ident, <$($g:ident: $b:path),*>) => {
        /// # Safety
        /// As [`OpFn`], on a machine with the features.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
        unsafe fn $wide<$($g: $b),*>(dst: *mut u8, n: usize, args: &Args) {
            // SAFETY: passed on from the caller.
            unsafe { $body::<$($g,)* true>(dst, n, args) }
        }
        /// # Safety
        /// As [`OpFn`], on a machine with the features.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,f16c")]
        unsafe fn $narrow<$($g: $b),*>(dst: *mut u8, n: usize, args: &Args) {
            // SAFETY: passed on from the caller.
            unsafe { $body::<$($g,)* true>(dst, n, args) }
        }
        /// # Safety
        /// As [`OpFn`].
        unsafe fn $portable<$($g: $b),*>(dst: *mut u8, n: usize, args: &Args) {
            // SAFETY: passed on from the caller.
            unsafe { $body::<$($g,)* { cfg!(target_arch = "aarch64") }>(dst, n, args) }
        }
    };
}
pub(crate) use versions;

/// What generic loops ask of a lane.
pub trait Lane: Copy + 'static {}
impl<T: Copy + 'static> Lane for T {}

/// An opcode of one operand, `FMA` saying that a multiply–add is one instruction.
pub trait Un {
    type T: Lane;
    type R: Lane;
    fn f<const FMA: bool>(x: Self::T) -> Self::R;
}
/// An opcode of two operands.
pub trait Bin {
    type T: Lane;
    type R: Lane;
    fn f<const FMA: bool>(x: Self::T, y: Self::T) -> Self::R;
}

versions!(un, un_512, un_256, un_any, <O: Un>);
versions!(bin, bin_512, bin_256, bin_any, <O: Bin>);
versions!(body_select, select_512, select_256, select_any, <T: Lane>);

/// The loop of a unary opcode for the ISA in use.
pub fn unary<O: Un>() -> OpFn {
    match isa() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => un_512::<O>,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => un_256::<O>,
        _ => un_any::<O>,
    }
}

/// The loop of a binary opcode for the ISA in use.
pub fn binary<O: Bin>() -> OpFn {
    match isa() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => bin_512::<O>,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => bin_256::<O>,
        _ => bin_any::<O>,
    }
}

/// As [`unary`], with 256-bit loops at most: less code for lanes that matter less.
pub fn unary_narrow<O: Un>() -> OpFn {
    match isa() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 | Isa::Avx2 => un_256::<O>,
        _ => un_any::<O>,
    }
}

/// As [`binary`], with 256-bit loops at most.
pub fn binary_narrow<O: Bin>() -> OpFn {
    match isa() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 | Isa::Avx2 => bin_256::<O>,
        _ => bin_any::<O>,
    }
}

/// The loop of `where` on lanes of `T`'s size.
pub fn select<T: Lane>() -> OpFn {
    match isa() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => select_512::<T>,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => select_256::<T>,
        _ => select_any::<T>,
    }
}

/// Defines opcode types: `Name(T -> R) |x| expr` or `|x, y| expr`, `fma` naming the constant.
macro_rules! opcodes {
    ($($Name:ident ($T:ty => $R:ty) $fma:ident |$x:ident $(, $y:ident)?| $e:expr;)*) => { $(
        pub struct $Name;
        $crate::vm::ops::opcodes!(@one $Name, $T, $R, $fma, ($x $(, $y)?), $e);
    )* };
    (@one $Name:ident, $T:ty, $R:ty, $fma:ident, ($x:ident), $e:expr) => {
        impl $crate::vm::ops::Un for $Name {
            type T = $T;
            type R = $R;
            #[inline(always)]
            #[allow(non_upper_case_globals)]
            fn f<const $fma: bool>($x: $T) -> $R { $e }
        }
    };
    (@one $Name:ident, $T:ty, $R:ty, $fma:ident, ($x:ident, $y:ident), $e:expr) => {
        impl $crate::vm::ops::Bin for $Name {
            type T = $T;
            type R = $R;
            #[inline(always)]
            #[allow(non_upper_case_globals)]
            fn f<const $fma: bool>($x: $T, $y: $T) -> $R { $e }
        }
    };
}
pub(crate) use opcodes;

opcodes! {
    Copy1(u8 => u8) _F |x| x;
    Copy2(u16 => u16) _F |x| x;
    Copy4(u32 => u32) _F |x| x;
    Copy8(u64 => u64) _F |x| x;
}

/// The loop that copies lanes of `size` bytes.
pub fn copy(size: usize) -> OpFn {
    match size {
        1 => unary_narrow::<Copy1>(),
        2 => unary_narrow::<Copy2>(),
        4 => unary_narrow::<Copy4>(),
        _ => unary_narrow::<Copy8>(),
    }
}
