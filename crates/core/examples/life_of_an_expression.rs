//! Prints what an expression is on its way to a value. ARCHITECTURE.md shows this output.
//!
//! Run with `cargo run -p isopace-core --example life_of_an_expression`.

#![allow(clippy::print_stdout)]

use isopace_core::api::zeros;
use isopace_core::compile::compile;
use isopace_core::runtime::{eager_stats, explain_graph, explain_plan};
use isopace_core::{Array, Dtype, Result, Scalar};

fn gate(x: &Array, w: &Array, n: &Scalar) -> Result<Array> {
    x.multiply(w)?.add(n)?.tanh()?.multiply(0.5)?.transpose(&[1, 0])?.sum(0, false)
}

fn main() -> Result<()> {
    isopace_core::reference::init();
    let x = Array::from_slice(&[0.0f32, 1.0, 2.0, 3.0, 4.0, 5.0], [2, 3])?;
    let w = Array::from_slice(&[1.0f32, 0.0, -1.0], [3])?;

    println!("1. A lazy node\n");
    let y = gate(&x, &w, &Scalar::from(1))?;
    println!("{y:?}\n");

    println!("2. The pending graph\n");
    println!("{}", explain_graph(std::slice::from_ref(&y))?);

    println!("3. Its plan, after the passes\n");
    println!("{}", explain_plan(std::slice::from_ref(&y))?);

    println!("4. The value, and the plan that is kept\n");
    y.eval()?;
    println!("{y:?} {:.3?}", y.to_vec::<f32>()?);
    for n in 2..10 {
        gate(&x, &w, &Scalar::from(n))?.eval()?;
    }
    let s = eager_stats();
    println!("eager plans: {} misses, {} hits, {} kept\n", s.misses, s.hits, s.entries);

    println!("5. The same, compiled: one node a call\n");
    let gated = compile(|(x, w, n): (Array, Array, Scalar)| gate(&x, &w, &n));
    for n in 1..1000 {
        gated.call((x.clone(), w.clone(), Scalar::from(n)))?.eval()?;
    }
    let y = gated.call((x.clone(), w.clone(), Scalar::from(1000)))?;
    println!("{}", explain_plan(std::slice::from_ref(&y))?);
    println!("{}", gated.explain());

    println!("6. A cache written in place\n");
    let cache = zeros([4, 3], Dtype::F32)?;
    cache.eval()?;
    let row = x.slice(&[1, 0], &[2, 3], None)?.multiply(&w)?;
    let cache = cache.slice_update(&row, &[Scalar::from(2), Scalar::from(0)])?;
    println!("{}", explain_plan(std::slice::from_ref(&cache))?);
    println!("{:?}", cache.to_vec::<f32>()?);
    Ok(())
}
