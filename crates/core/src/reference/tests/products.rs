use super::*;
use crate::op::Conv;
use smallvec::smallvec;

#[test]
fn matrices_multiply_and_broadcast() {
    let a = range([2, 3]);
    let b = range([3, 2]);
    let matmul =
        |a: &Tensor, b: &Tensor, shape: &[usize], d| run(Op::Matmul, &[a.clone(), b.clone()], &[], shape, d);
    same(&matmul(&a, &b, &[2, 2], Dtype::F32), &[10.0, 13.0, 28.0, 40.0]);
    let stack = range([2, 1, 1, 2]);
    let columns = range([3, 2, 1]);
    same(&matmul(&stack, &columns, &[2, 3, 1, 1], Dtype::F32), &[1.0, 3.0, 5.0, 3.0, 13.0, 23.0]);
    same(&matmul(&range([2, 0]), &range([0, 3]), &[2, 3], Dtype::F32), &[0.0; 6]);
    same(&matmul(&range([0, 3]), &b, &[0, 2], Dtype::F32), &[]);
    // Wide accumulation: float16 stops counting at 2048 by itself.
    let ones = |s: [usize; 2]| floats(s, Dtype::F16, &[1.0; 4096]);
    same(&matmul(&ones([1, 4096]), &ones([4096, 1]), &[1, 1], Dtype::F16), &[4096.0]);
    let i = complexes(&[(0.0, 1.0)]).reshape([1, 1]);
    assert_eq!(matmul(&i, &i, &[1, 1], Dtype::C64).complexes(), [C64::new(-1.0, 0.0)]);
    assert!(try_run(Op::Matmul, &[a.clone(), a], &[], &[2, 3], Dtype::F32).is_err());
}

#[test]
fn inverses() {
    let invert = |m: &Tensor| try_run(Op::Inverse, from_ref(m), &[], &m.shape.clone(), m.dtype);
    let m = f32s([2, 2, 2], &[0.0, 2.0, 4.0, 0.0, 1.0, 2.0, 3.0, 4.0]);
    near(&invert(&m).unwrap(), &[0.0, 0.25, 0.5, 0.0, -2.0, 1.0, 1.5, -0.5], 1e-7);
    let e = invert(&f32s([2, 2], &[1.0, 2.0, 2.0, 4.0])).unwrap_err();
    assert!(e.to_string().contains("singular"), "{e}");
    same(&invert(&range([0, 3, 3])).unwrap(), &[]);
    same(&invert(&range([2, 0, 0])).unwrap(), &[]);
    assert!(invert(&range([2, 3])).is_err());
    let z = invert(&complexes(&[(0.0, 2.0)]).reshape([1, 1])).unwrap();
    assert_eq!(z.complexes(), [C64::new(0.0, -0.5)]);
    // A matrix times its inverse is the identity.
    let n = 7;
    let v: Vec<f64> = (0..n * n).map(|i| ((i * i * 31 + i * 17) % 23) as f64 - 11.0).collect();
    let m = floats([n, n], Dtype::F64, &v);
    let product = run(Op::Matmul, &[m.clone(), invert(&m).unwrap()], &[], &[n, n], Dtype::F64);
    let identity: Vec<f64> = (0..n * n).map(|i| f64::from(i % (n + 1) == 0)).collect();
    near(&product, &identity, 1e-9);
}

#[test]
fn eigen_decompositions() {
    use super::super::linalg::symmetric_eigen;
    let (w, v) = symmetric_eigen(&[2.0, 1.0, 1.0, 2.0], 2);
    assert!((w[0] - 1.0).abs() < 1e-15 && (w[1] - 3.0).abs() < 1e-15);
    assert!((v[0] + v[2]).abs() < 1e-15, "{v:?}");
    // a v = v w and v^T v = 1; of ones, and of zero, all but one eigenvalue are zero.
    let n = 9;
    let mixed = |i: usize, j: usize| (((i * j) * 31 + (i + j) * 17) % 23) as f64 - 11.0;
    let makers: [&dyn Fn(usize, usize) -> f64; 3] = [&mixed, &|_, _| 1.0, &|_, _| 0.0];
    for make in makers {
        let a: Vec<f64> = (0..n * n).map(|k| make(k / n, k % n)).collect();
        let (w, v) = symmetric_eigen(&a, n);
        assert!(w.is_sorted());
        for i in 0..n {
            for j in 0..n {
                let at = |f: &dyn Fn(usize) -> f64| (0..n).map(f).sum::<f64>();
                let left = at(&|k| a[i * n + k] * v[k * n + j]);
                assert!((left - v[i * n + j] * w[j]).abs() < 1e-12, "{left} of {i}, {j}");
                let one = at(&|k| v[k * n + i] * v[k * n + j]);
                assert!((one - f64::from(i == j)).abs() < 1e-13, "{one} of {i}, {j}");
            }
        }
    }
    assert_eq!(symmetric_eigen(&[], 0), (vec![], vec![]));
}

fn plain(rank: usize) -> Conv {
    Conv {
        stride: smallvec![1; rank],
        pad_low: smallvec![0; rank],
        pad_high: smallvec![0; rank],
        dilation: smallvec![1; rank],
        input_dilation: smallvec![1; rank],
        groups: 1,
        flip: false,
    }
}

#[test]
fn convolutions_in_one_dimension() {
    let x = f32s([1, 5, 1], &[1.0, 2.0, 3.0, 4.0, 5.0]);
    let w = f32s([1, 2, 1], &[1.0, 10.0]);
    let conv = |c: Conv, shape: &[usize]| {
        run(Op::Conv(Box::new(c)), &[x.clone(), w.clone()], &[], shape, Dtype::F32).floats()
    };
    assert_eq!(conv(plain(1), &[1, 4, 1]), [21.0, 32.0, 43.0, 54.0]);
    assert_eq!(conv(Conv { flip: true, ..plain(1) }, &[1, 4, 1]), [12.0, 23.0, 34.0, 45.0]);
    assert_eq!(conv(Conv { stride: smallvec![2], ..plain(1) }, &[1, 2, 1]), [21.0, 43.0]);
    assert_eq!(conv(Conv { dilation: smallvec![3], ..plain(1) }, &[1, 2, 1]), [41.0, 52.0]);
    let padded = Conv { pad_low: smallvec![1], pad_high: smallvec![2], ..plain(1) };
    assert_eq!(conv(padded, &[1, 7, 1]), [10.0, 21.0, 32.0, 43.0, 54.0, 5.0, 0.0]);
    let spread = Conv { input_dilation: smallvec![2], ..plain(1) };
    assert_eq!(conv(spread, &[1, 8, 1]), [1.0, 20.0, 2.0, 30.0, 3.0, 40.0, 4.0, 50.0]);
    assert!(
        try_run(Op::Conv(Box::new(plain(2))), &[x.clone(), w.clone()], &[], &[1, 4, 1], Dtype::F32).is_err()
    );
    same(&run(Op::Conv(Box::new(plain(1))), &[range([0, 5, 1]), w], &[], &[0, 4, 1], Dtype::F32), &[]);
}

#[test]
fn convolutions_with_channels_and_groups() {
    let x = range([1, 2, 2, 2]);
    // One 2x2 kernel over both channels: all ones.
    let ones = f32s([1, 2, 2, 2], &[1.0; 8]);
    same(&run(Op::Conv(Box::new(plain(2))), &[x.clone(), ones], &[], &[1, 1, 1, 1], Dtype::F32), &[28.0]);
    // Two groups, each output sees one channel.
    let w = f32s([2, 1, 1, 1], &[1.0, 10.0]);
    let grouped = Conv { groups: 2, ..plain(2) };
    let got = run(Op::Conv(Box::new(grouped)), &[x, w], &[], &[1, 2, 2, 2], Dtype::F32);
    same(&got, &[0.0, 10.0, 2.0, 30.0, 4.0, 50.0, 6.0, 70.0]);
    // Three dimensions: a kernel that picks the far corner.
    let mut corner = [0.0; 8];
    corner[7] = 1.0;
    let w = f32s([1, 2, 2, 2, 1], &corner);
    let cube = range([1, 2, 2, 2, 1]);
    same(&run(Op::Conv(Box::new(plain(3))), &[cube, w], &[], &[1, 1, 1, 1, 1], Dtype::F32), &[7.0]);
}
