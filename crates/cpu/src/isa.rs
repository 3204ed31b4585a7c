//! Which instructions this machine has, found out when the process runs.
//!
//! Sets are taken whole: a machine that lacks one member of a set uses the next lower set.
//! `ISOPACE_ISA=portable|avx2|avx512` forces a lower set; asking for more than the machine has
//! gives what it has.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// A set of instructions that kernels are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Isa {
    /// What every CPU of the architecture has.
    Portable = 1,
    /// AVX2, FMA, F16C.
    Avx2 = 2,
    /// AVX-512 F, BW, DQ, VL and VNNI, beside all of AVX2.
    Avx512 = 3,
}

impl Isa {
    /// Every set, lowest first.
    pub const ALL: [Isa; 3] = [Isa::Portable, Isa::Avx2, Isa::Avx512];

    /// The name that `ISOPACE_ISA` takes.
    pub const fn name(self) -> &'static str {
        match self {
            Isa::Portable => "portable",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
        }
    }
}

static CHOSEN: AtomicU8 = AtomicU8::new(0);

/// Returns the set that kernels use.
#[inline]
pub fn isa() -> Isa {
    match CHOSEN.load(Relaxed) {
        1 => Isa::Portable,
        2 => Isa::Avx2,
        3 => Isa::Avx512,
        _ => choose(),
    }
}

#[cold]
fn choose() -> Isa {
    let has = detected();
    let wanted = std::env::var("ISOPACE_ISA").ok();
    let isa = wanted.and_then(|w| Isa::ALL.into_iter().find(|i| i.name() == w)).map_or(has, |w| w.min(has));
    CHOSEN.store(isa as u8, Relaxed);
    isa
}

/// Returns the highest set that this machine has.
pub fn detected() -> Isa {
    #[cfg(target_arch = "x86_64")]
    {
        let avx2 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        let avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vnni");
        if avx2 && avx512 {
            return Isa::Avx512;
        }
        if avx2 {
            return Isa::Avx2;
        }
    }
    Isa::Portable
}

/// Runs `f` with kernels using `isa`, one such call at a time in the process; for tests and
/// benches. Returns `None` without running `f` where the machine lacks the set.
#[doc(hidden)]
pub fn with<R>(isa: Isa, f: impl FnOnce() -> R) -> Option<R> {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    struct Restore(u8);
    impl Drop for Restore {
        fn drop(&mut self) {
            CHOSEN.store(self.0, Relaxed);
        }
    }
    if isa > detected() {
        return None;
    }
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let _restore = Restore(self::isa() as u8);
    CHOSEN.store(isa as u8, Relaxed);
    Some(f())
}

/// Defines a function whose body is compiled once for each [`Isa`] and chosen at the call.
///
/// The body is plain Rust that the compiler vectorises. It may use the constant `FMA`, true where
/// a fused multiply–add is one instruction (see [`crate::simd::lanes::madd`]).
macro_rules! multiversion {
    ($(#[$m:meta])* $vis:vis fn $name:ident $(<$($g:ident : $b:path),*>)? ($($a:ident : $t:ty),* $(,)?) $(-> $r:ty)? $body:block) => {
        $(#[$m])*
        $vis fn $name $(<$($g: $b),*>)? ($($a: $t),*) $(-> $r)? {
            #[inline(always)]
            #[allow(clippy::extra_unused_type_parameters)]
            fn body<const FMA: bool $(, $($g: $b),*)?>($($a: $t),*) $(-> $r)? $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
            fn avx512 $(<$($g: $b),*>)? ($($a: $t),*) $(-> $r)? { body::<true $(, $($g),*)?>($($a),*) }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            fn avx2 $(<$($g: $b),*>)? ($($a: $t),*) $(-> $r)? { body::<true $(, $($g),*)?>($($a),*) }
            match $crate::isa::isa() {
                // SAFETY: `isa` returns a set only if the machine has all of it.
                #[cfg(target_arch = "x86_64")]
                $crate::isa::Isa::Avx512 => unsafe { avx512 $(::<$($g),*>)? ($($a),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::isa::Isa::Avx2 => unsafe { avx2 $(::<$($g),*>)? ($($a),*) },
                _ => body::<{ cfg!(target_arch = "aarch64") } $(, $($g),*)?>($($a),*),
            }
        }
    };
}
pub(crate) use multiversion;

/// Calls the function written for the [`Isa`] in use: `dispatch!(avx512: f(x), avx2: g(x), portable: h(x))`,
/// where the first two have the target features of their sets.
macro_rules! dispatch {
    (avx512: $a:expr, avx2: $b:expr, portable: $c:expr $(,)?) => {
        match $crate::isa::isa() {
            // SAFETY: `isa` returns a set only if the machine has all of it, and the function
            // called needs no more than the set.
            #[cfg(target_arch = "x86_64")]
            $crate::isa::Isa::Avx512 => unsafe { $a },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            #[allow(unused_unsafe)]
            $crate::isa::Isa::Avx2 => unsafe { $b },
            _ => $c,
        }
    };
}
pub(crate) use dispatch;
