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

/// Threads that read arrays over one lazy graph compute it once, and none waits for what stands behind it.
#[test]
fn threads_share_a_lazy_graph() {
    isopace_cpu::init();
    for round in 0..300 {
        let mut x = Array::from_slice(&[0.5f32; 1000], [1000]).unwrap();
        for _ in 0..20 {
            x = x.sin().unwrap().add(0.1).unwrap();
        }
        let sums: Vec<f32> = std::thread::scope(|s| {
            let sum = |t: usize| {
                let y = x.sum(0, false).unwrap();
                if t % 2 == 1 {
                    runtime::async_eval(std::slice::from_ref(&y)).unwrap();
                }
                y.item::<f32>().unwrap()
            };
            let threads: Vec<_> = (0..2 + round % 3).map(|t| s.spawn(move || sum(t))).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(sums.iter().all(|&s| s == sums[0] && s > 0.0), "{sums:?}");
    }
    runtime::synchronize();
}

/// A view of a sort along another axis than the last: the sort gives its result transposed.
#[test]
fn views_of_a_sort_along_the_first_axis() {
    isopace_cpu::init();
    let x = Array::from_slice(&[3i32, 1, 2, 0, 5, 4], [2, 3]).unwrap();
    for (y, want) in
        [(x.sort(Some(0)).unwrap(), [0, 3, 1, 5, 2, 4]), (x.sort(Some(1)).unwrap(), [1, 0, 2, 4, 3, 5])]
    {
        assert_eq!(y.transpose(&[1, 0]).unwrap().add(0).unwrap().to_vec::<i32>().unwrap(), want);
    }
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
        let (mut made, mut args) = (Vec::new(), [cache, value(&ins[1])].map(Into::into));
        k.run(&mut args, &cells, &mut made).unwrap();
        cache = made.remove(0);
        assert_eq!(address(&cache), first);
    }
    let held = cache.clone();
    let mut made = Vec::new();
    k.run(&mut [cache, value(&ins[1])].map(Into::into), &[0, 0, 9, 0].map(Number::Int), &mut made).unwrap();
    assert_ne!(address(&made[0]), address(&held));
}
