//! Through the runtime: lazy arrays on the CPU, and updates in place.

use crate::*;
use isopace_core::op::Combine;
use isopace_core::{Array, runtime};

#[test]
fn lazy_arrays_run_here() {
    isopace_cpu::init();
    let x = Array::from_slice(&[1.0f32, 2.0, 3.0], [3]).unwrap();
    let y = x.add(1.0).unwrap().multiply(&x).unwrap().tanh().unwrap();
    let want: Vec<f32> = [2f32, 6.0, 12.0].iter().map(|x| x.tanh()).collect();
    let got = y.to_vec::<f32>().unwrap();
    assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-6), "{got:?}");
    assert!(runtime::memory().unwrap().peak_bytes > 0);
}

/// A cache that nobody else holds is written where it stands; a shared one is copied.
#[test]
fn updates_are_in_place_when_unique() {
    let shape = [1usize, 2, 512, 64];
    let ins = [Aval::new(shape, Dtype::F16), Aval::new([1, 2, 1, 64], Dtype::F16)];
    let op = Op::SliceUpdate([1i64; 4].as_slice().into(), Combine::Set);
    let k = CpuBackend.kernel(Spec { op: &op, ins: &ins, outs: &ins[..1] }).unwrap();
    let value = |a: &Aval| Value::contiguous(CpuBackend.upload(&vec![1; a.nbytes()]).unwrap(), a);
    let mut cache = value(&ins[0]);
    let address = |v: &Value| std::sync::Arc::as_ptr(&v.buffer) as *const () as usize;
    let first = address(&cache);
    for i in 0..5 {
        let cells = [0, 0, i, 0].map(Number::Int);
        let (mut made, mut args) = (Vec::new(), [cache, value(&ins[1])]);
        k.run(&mut args, &cells, &mut made).unwrap();
        cache = made.remove(0);
        assert_eq!(address(&cache), first);
    }
    let held = cache.clone();
    let mut made = Vec::new();
    k.run(&mut [cache, value(&ins[1])], &[0, 0, 9, 0].map(Number::Int), &mut made).unwrap();
    assert_ne!(address(&made[0]), address(&held));
}
