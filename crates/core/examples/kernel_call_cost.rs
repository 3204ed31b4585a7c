//! What a repeated call of a custom kernel costs the host, to its lazy outputs: 7 inputs and 6 template
//! arguments, as a state-space scan has.
//!
//! cargo run --release -p isopace-core --example kernel_call_cost
#![allow(clippy::print_stdout)]

use isopace_core::api::{KernelCall, MetalKernel};
use isopace_core::{Array, Dtype, Result, Shape};
use std::time::Instant;

fn main() -> Result<()> {
    isopace_core::reference::init();
    let inputs = ["x", "a_log", "b", "c", "d", "dt", "state"];
    let source = "uint i = thread_position_in_grid.x; out[i] = T(x[i]); new_state[i] = state[i];";
    let kernels = (0..5)
        .map(|k| MetalKernel::new(&format!("ssm_{k}"), &inputs, &["out", "new_state"], source))
        .collect::<Result<Vec<_>>>()?;
    let arrays = (0..7).map(|_| Array::from_slice(&[0f32; 64], [1, 64])).collect::<Result<Vec<_>>>()?;
    let operands: Vec<_> = arrays.iter().map(Into::into).collect();
    let shapes = [Shape::from([1, 1, 64, 64]), Shape::from([1, 64, 64, 128])];
    let call = |k: &MetalKernel, groups: i64| {
        k.call(&KernelCall {
            inputs: &operands,
            template: &[
                ("T", Dtype::F32.into()),
                ("Dh", 64.into()),
                ("Ds", 128.into()),
                ("H", 64.into()),
                ("G", groups.into()),
                ("Causal", true.into()),
            ],
            grid: [32, 64, 64],
            threadgroup: [32, 8, 1],
            output_shapes: &shapes,
            output_dtypes: &[Dtype::F32, Dtype::F32],
            ..Default::default()
        })
    };
    let mut best = f64::MAX;
    for _ in 0..200 {
        let start = Instant::now();
        for _ in 0..1000 {
            std::hint::black_box(call(&kernels[0], 8)?);
        }
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("a repeated call: {:.0} ns (best of 200 x 1000)", best * 1e6);
    let mut graph = f64::MAX;
    for _ in 0..50 {
        let mut outs = Vec::with_capacity(700);
        let start = Instant::now();
        for i in 0..700 {
            outs.push(call(&kernels[i % 5], [4, 8, 16][i / 5 % 3])?);
        }
        graph = graph.min(start.elapsed().as_secs_f64());
        drop(outs);
    }
    println!("700 calls of 5 functions x 3 specializations: {:.3} ms", graph * 1e3);
    for k in &kernels {
        let s = k.stats();
        assert_eq!(s.sources_generated, 3, "{s:?}");
    }
    println!("sources generated: 15");
    Ok(())
}
