//! The example of the README: one plan serves every value of `n`.
//!
//! Run with `cargo run -p isopace --example quickstart`.

#![allow(clippy::print_stdout)]

use isopace::{Array, Result, Scalar, compile::compile};

fn main() -> Result<()> {
    isopace::init();
    let step = compile(|(x, n): (Array, Scalar)| x.multiply(0.5)?.add(n)?.tanh());
    let x = Array::from_slice(&[1.0f32, 2.0, 3.0], [3])?;
    for n in 0..1000 {
        step.call((x.clone(), Scalar::from(n)))?.eval()?;
    }
    println!("{:?}", step.call((x, Scalar::from(-1)))?.to_vec::<f32>()?);
    println!("{}", step.explain());
    Ok(())
}
