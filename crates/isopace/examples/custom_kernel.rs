//! A custom kernel in Metal's dialect: a gated running sum over rows, its state written in place.
//!
//! cargo run --release --example custom_kernel
#![allow(clippy::print_stdout)]

use isopace::kernel::KernelText;
use isopace::{Array, Dtype, KernelCall, MetalKernel, Result};

fn main() -> Result<()> {
    isopace::init();
    let step = MetalKernel::from_text(&KernelText {
        name: "gated_sum",
        input_names: &["state", "x", "gate"],
        output_names: &["y"],
        source: "
            uint i = thread_position_in_grid.x;
            state[i] = state[i] * (T)gate + x[i];
            y[i] = metal::tanh(state[i]);",
        mutable_inputs: &["state"],
        ..Default::default()
    })?;
    let n = 1024;
    let x = Array::from_slice(&vec![0.25f32; n], [n])?;
    let mut state = Array::from_slice(&vec![0.0f32; n], [n])?;
    for token in 0..1000 {
        let mut outs = step.call(&KernelCall {
            inputs: &[state.into(), (&x).into(), 0.5.into()],
            template: &[("T", Dtype::F32.into())],
            grid: [n as i64, 1, 1],
            threadgroup: [256, 1, 1],
            output_shapes: &[[n].into()],
            output_dtypes: &[Dtype::F32],
            ..Default::default()
        })?;
        state = outs.remove(1);
        if token % 250 == 249 {
            println!("token {token}: y[0] = {:.6}", outs[0].to_vec::<f32>()?[0]);
        }
        state.eval()?;
    }
    let s = step.stats();
    println!("{} calls: {} source generated, {} hits", s.hits + s.misses, s.sources_generated, s.hits);
    Ok(())
}
