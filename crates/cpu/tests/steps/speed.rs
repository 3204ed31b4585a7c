//! Figures, printed with `cargo test --release -- --ignored --nocapture speed`.

use crate::*;
use isopace_core::op::{ReduceKind, Region, RegionNode, Row};
use std::time::Instant;

fn best(n: usize, mut f: impl FnMut()) -> f64 {
    (0..7)
        .map(|_| {
            let t = Instant::now();
            (0..n).for_each(|_| f());
            t.elapsed().as_secs_f64() / n as f64 * 1e6
        })
        .fold(f64::MAX, f64::min)
}

fn gelu() -> Region {
    let f = Dtype::F32;
    let row = |row, args: &[u32]| RegionNode::Row { row, args: args.into(), dtype: f };
    let mut nodes = vec![RegionNode::Input { index: 0, dtype: f }];
    nodes.extend((0..4).map(|index| RegionNode::Cell { index, dtype: f }));
    nodes.extend([
        row(Row::Mul, &[4, 0]),
        row(Row::Mul, &[5, 0]),
        row(Row::Mul, &[6, 0]),
        row(Row::Add, &[0, 7]),
        row(Row::Mul, &[3, 8]),
        row(Row::Tanh, &[9]),
        row(Row::Add, &[2, 10]),
        row(Row::Mul, &[0, 1]),
        row(Row::Mul, &[12, 11]),
    ]);
    Region { nodes, outputs: [13].as_slice().into() }
}

#[test]
#[ignore = "prints figures"]
#[allow(clippy::print_stdout)]
fn speed() {
    let cells = [0.5, 1.0, 0.7978845608, 0.044715].map(Number::Float);
    let time = |op: &Op, shape: &[usize], outs: Aval, cells: &[Number]| {
        let n: usize = shape.iter().product();
        let mut r = Lcg(1);
        let x = Input::random(&mut r, shape, Dtype::F32, (-3.0, 3.0), "contiguous");
        let k = CpuBackend.kernel(Spec { op, ins: &[x.aval()], outs: &[outs] }).unwrap();
        let v = Value { buffer: CpuBackend.upload(&x.bytes).unwrap(), layout: x.layout.clone() };
        let mut made = Vec::new();
        best((20_000_000 / n.max(2000)).max(2), || {
            k.run(&mut [v.clone()], cells, &mut made).unwrap();
            made.clear();
        })
    };
    for threads in [1, 2] {
        isopace_cpu::pool::set_threads(threads);
        for n in [576, 65536, 1 << 20, 1 << 24] {
            let op = Op::Fused(std::sync::Arc::new(gelu()));
            println!("gelu {n} x{threads}: {:.2} us", time(&op, &[n], Aval::new([n], Dtype::F32), &cells));
        }
        let f = Dtype::F32;
        let nodes = vec![
            RegionNode::Input { index: 0, dtype: f },
            RegionNode::Cell { index: 1, dtype: f },
            RegionNode::Row { row: Row::Add, args: [0, 1].as_slice().into(), dtype: f },
        ];
        let add = Op::Fused(std::sync::Arc::new(Region { nodes, outputs: [2].as_slice().into() }));
        println!("x + 1 at 64: {:.3} us", time(&add, &[64], Aval::new([64], f), &cells));
        println!("x + 1 at 1M: {:.1} us", time(&add, &[1 << 20], Aval::new([1 << 20], f), &cells));
        let big = [4096, 4096];
        println!("softmax 4096^2: {:.0} us", time(&Op::Softmax, &big, Aval::new(big, f), &cells));
        println!("rms_norm 4096^2: {:.0} us", time(&Op::RmsNorm, &big, Aval::new(big, f), &cells));
        println!("layer_norm 4096^2: {:.0} us", time(&Op::LayerNorm, &big, Aval::new(big, f), &cells));
        let sum = |axis| Op::Reduce(ReduceKind::Sum, [axis].as_slice().into());
        println!("sum rows 4096^2: {:.0} us", time(&sum(1), &big, Aval::new([4096], f), &cells));
        println!("sum columns 4096^2: {:.0} us", time(&sum(0), &big, Aval::new([4096], f), &cells));
    }
    isopace_cpu::pool::set_threads(0);
}
