//! The cost of a call of a compiled function that hits, on this machine.
use isopace_core::compile::compile;
use isopace_core::{Array, Result, Scalar};
use std::time::Instant;

fn main() -> Result<()> {
    isopace_core::reference::init();
    let f = compile(|(x, y, n): (Array, Array, Scalar)| x.multiply(&y)?.add(n));
    let x = Array::from_slice(&[1.0f32; 64], [64])?;
    for n in 0..3i64 {
        f.call((x.clone(), x.clone(), n.into()))?;
    }
    let mut n = 10i64;
    for round in 0..6 {
        let (mut best, calls) = (f64::INFINITY, 20_000);
        for _ in 0..5 {
            let t = Instant::now();
            for _ in 0..calls {
                n += 1;
                std::hint::black_box(f.call((x.clone(), x.clone(), n.into()))?);
            }
            best = best.min(t.elapsed().as_nanos() as f64 / calls as f64);
        }
        let lazy = {
            let t = Instant::now();
            for _ in 0..calls {
                std::hint::black_box(x.add(&x)?);
            }
            t.elapsed().as_nanos() as f64 / calls as f64
        };
        eprintln!("{round}: {best:.0} ns a call after {n} values; lazy add {lazy:.0} ns");
    }
    Ok(())
}
