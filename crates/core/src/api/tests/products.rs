use super::*;
use crate::BlockFormat;
use crate::api::*;
use std::slice::from_ref;

fn ones_f(shape: impl Into<crate::Shape>) -> Array {
    crate::reference::init();
    ones(shape, Dtype::F32).unwrap()
}

/// `0, 1, ...` in a shape, float32.
fn c(shape: impl Into<crate::Shape>) -> Array {
    count(shape).astype(Dtype::F32).unwrap()
}

#[test]
fn products() {
    is(c([2, 3]).matmul(&c([3])), Dtype::F32, &[2], &[5.0, 14.0]);
    assert_eq!(ones_f([3]).matmul(&ones_f([2, 3, 4])).unwrap().shape().to_vec(), [2, 4]);
    is(c([2]).matmul(&c([2])), Dtype::F32, &[], &[1.0]);
    is(count([2]).matmul(&c([2])), Dtype::F32, &[], &[1.0]);
    assert_eq!(ones_f([2, 1, 3, 4]).matmul(&ones_f([5, 4, 2])).unwrap().shape().to_vec(), [2, 5, 3, 2]);
    is(ones_f([2, 0]).matmul(&ones_f([0, 1])), Dtype::F32, &[2, 1], &[0.0, 0.0]);
    refused!(Dtype, count([2]).matmul(&count([2])), count([2]).inner(&count([2])));
    refused!(
        Shape,
        c([2]).matmul(&c([])),
        c([2, 3]).matmul(&c([2, 3])),
        ones_f([2, 3, 3]).matmul(&ones_f([4, 3, 3]))
    );
    is(addmm(&ones_f([]), &ones_f([2, 3]), &ones_f([3, 2]), 2, 3), Dtype::F32, &[2, 2], &[9.0; 4]);
    is(c([2, 3]).inner(&ones_f([1, 3])), Dtype::F32, &[2, 1], &[3.0, 12.0]);
    is(count([2]).outer(&i([2], &[3, 4])), Dtype::I32, &[2, 2], &[0.0, 0.0, 3.0, 4.0]);
    is(i([2], &[1, 2]).kron(&i([2], &[3, 4])), Dtype::I32, &[4], &[3.0, 4.0, 6.0, 8.0]);
    is(ones_f([2, 1]).kron(&c([2])), Dtype::F32, &[2, 2], &[0.0, 1.0, 0.0, 1.0]);
    is(i([2], &[1, 2]).vecdot(&i([2], &[3, 4]), -1), Dtype::I32, &[], &[11.0]);
    is(tensordot_n(&c([2, 3]), &c([3, 2]), 1), Dtype::F32, &[2, 2], &[10.0, 13.0, 28.0, 40.0]);
    is(tensordot_n(&c([2]), &c([2]), 0), Dtype::F32, &[2, 2], &[0.0, 0.0, 0.0, 1.0]);
    is(tensordot(&c([2, 3]), &c([2, 3]), &[0, 1], &[0, 1]), Dtype::F32, &[], &[55.0]);
    refused!(Shape, tensordot(&c([2, 3]), &c([2, 3]), &[0], &[1]));
    refused!(Argument, tensordot_n(&c([2]), &c([2]), 2), tensordot_n(&c([2]), &c([2]), i64::MIN));
    is(f([2, 2], &[2.0, 0.0, 0.0, 4.0]).inverse(), Dtype::F32, &[2, 2], &[0.5, 0.0, 0.0, 0.25]);
    failure(ones_f([2, 2]).inverse());
    refused!(Dtype, count([2, 2]).inverse());
    is(f([3], &[1.0, 0.0, 0.0]).cross(&f([3], &[0.0, 1.0, 0.0]), -1), Dtype::F32, &[3], &[0.0, 0.0, 1.0]);
    is(f([2], &[1.0, 0.0]).cross(&f([2], &[0.0, 1.0]), -1), Dtype::F32, &[3], &[0.0, 0.0, 1.0]);
    is(c([2]).hadamard_transform(Some(1.0)), Dtype::F32, &[2], &[1.0, -1.0]);
    let twice = c([24]).hadamard_transform(None).unwrap().hadamard_transform(None).unwrap();
    let same: Vec<f64> = (0..24).map(f64::from).collect();
    let twice = twice.multiply(1000).unwrap().round().unwrap().divide(1000).unwrap();
    is(Ok(twice), Dtype::F32, &[24], &same);
    // The row that the peer gives for the second unit vector of order 12.
    let unit = eye(12, 12, 0, Dtype::F32).unwrap().slice_axis(0, 1, 2).unwrap();
    let row: Vec<f64> = [-1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1].into_iter().map(f64::from).collect();
    is(unit.hadamard_transform(Some(1.0)), Dtype::F32, &[1, 12], &row);
    refused!(Shape, c([3]).hadamard_transform(None), c([]).hadamard_transform(None));
}

#[test]
fn norms() {
    let m = ones_f([2, 2]);
    let v = f([2], &[1.0, -2.0]);
    is(i([2], &[3, 4]).norm(NormOrder::Default, Axes::ALL, false), Dtype::F32, &[], &[5.0]);
    is(m.norm(NormOrder::Frobenius, Axes::ALL, false), Dtype::F32, &[], &[2.0]);
    is(m.norm(NormOrder::P(1.0), Axes::ALL, true), Dtype::F32, &[1, 1], &[2.0]);
    is(v.norm(NormOrder::P(-1.0), Axes::ALL, false), Dtype::F32, &[], &[2.0 / 3.0]);
    is(v.norm(NormOrder::P(f64::INFINITY), Axes::ALL, false), Dtype::F32, &[], &[2.0]);
    is(v.norm(NormOrder::P(0.0), Axes::ALL, false), Dtype::F32, &[], &[2.0]);
    refused!(
        Argument,
        ones_f([2, 2, 2]).norm(NormOrder::P(2.0), Axes::ALL, false),
        v.norm(NormOrder::Nuclear, 0, false)
    );
    // [[3, 0], [4, 5]] has the singular values sqrt(45) and sqrt(5).
    let m = Array::from_slice(&[3.0f32, 0.0, 4.0, 5.0], [2, 2]).unwrap();
    let (large, small) = (45f64.sqrt(), 5f64.sqrt());
    is(m.norm(NormOrder::P(2.0), Axes::ALL, false), Dtype::F32, &[], &[large]);
    is(m.norm(NormOrder::P(-2.0), Axes::ALL, true), Dtype::F32, &[1, 1], &[small]);
    is(m.norm(NormOrder::Nuclear, Axes::ALL, false), Dtype::F32, &[], &[large + small]);
    refused!(Dtype, c([2, 2]).astype(Dtype::I32).unwrap().norm(NormOrder::Nuclear, Axes::ALL, false));
}

#[test]
fn einsums() {
    let (a, b) = (c([2, 3]), c([3, 2]));
    is(einsum("ij,jk", &[a.clone(), b.clone()]), Dtype::F32, &[2, 2], &[10.0, 13.0, 28.0, 40.0]);
    is(einsum("ij,jk->ki", &[a.clone(), b.clone()]), Dtype::F32, &[2, 2], &[10.0, 28.0, 13.0, 40.0]);
    is(einsum("ba", from_ref(&a)), Dtype::F32, &[3, 2], &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    is(einsum("i...->...i", from_ref(&a)), Dtype::F32, &[3, 2], &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    is(einsum("ii->i", &[c([3, 3])]), Dtype::F32, &[3], &[0.0, 4.0, 8.0]);
    is(einsum("ij->", from_ref(&a)), Dtype::F32, &[], &[15.0]);
    is(einsum("ij,j->i", &[ones_f([2, 3]), ones_f([1])]), Dtype::F32, &[2], &[3.0, 3.0]);
    is(einsum("i,j->ij", &[count([2]), count([2])]), Dtype::I32, &[2, 2], &[0.0, 0.0, 0.0, 1.0]);
    is(einsum("bij,bjk->bik", &[c([2, 1, 2]), c([2, 2, 1])]), Dtype::F32, &[2, 1, 1], &[1.0, 13.0]);
    is(einsum("...ij,...jk", &[c([2, 1, 2]), c([2, 1])]), Dtype::F32, &[2, 1, 1], &[1.0, 3.0]);
    is(
        einsum("ij,jk,kl->il", &[a.clone(), b.clone(), a.clone()]),
        Dtype::F32,
        &[2, 3],
        &[39.0, 62.0, 85.0, 120.0, 188.0, 256.0],
    );
    let (path, text) =
        einsum_path("ij,jk,kl->il", &[ones_f([2, 3]), ones_f([3, 4]), ones_f([4, 5])]).unwrap();
    assert_eq!(path, [[1, 2], [0, 1]]);
    assert!(text.contains("360") && text.contains("180"), "{text}");
    refused!(
        Argument,
        einsum("ij,jk", from_ref(&a)),
        einsum("ij->ik", from_ref(&a)),
        einsum("i->i", from_ref(&a))
    );
    refused!(
        Argument,
        einsum("i1->i", from_ref(&a)),
        einsum("ij->ii", from_ref(&a)),
        einsum("......", from_ref(&a))
    );
    refused!(Shape, einsum("ij,ij->", &[a.clone(), b]));
    refused!(Dtype, einsum("ij,ij->", &[count([2, 2]), count([2, 2])]));
}

#[test]
fn chosen_products() {
    let (x, w) = (c([2, 1, 2]), c([3, 2, 1]));
    let ids = i([2], &[2, 0]);
    is(gather_mm(&x, &w, None, Some(&ids)), Dtype::F32, &[2, 1, 1], &[5.0, 3.0]);
    is(
        gather_mm(&x, &w, Some(&i([2, 1], &[0, 1])), Some(&ids)),
        Dtype::F32,
        &[2, 2, 1, 1],
        &[5.0, 1.0, 23.0, 3.0],
    );
    refused!(Shape, gather_mm(&x, &x, None, None));
    refused!(Dtype, gather_mm(&x, &w, None, Some(&c([2]))));
    let (a, b) = (ones_f([33, 40]), ones_f([40, 1]));
    let mask = i([2, 2], &[1, 0, 0, 1]).astype(Dtype::Bool).unwrap();
    let y = read(&block_masked_mm(&a, &b, 32, None, Some(&mask), None).unwrap());
    assert_eq!((y.len(), y[0], y[31], y[32]), (33, 32.0, 32.0, 8.0));
    refused!(Argument, block_masked_mm(&a, &b, 16, None, None, None));
    refused!(Shape, block_masked_mm(&a, &b, 64, None, Some(&mask), None));
    is(
        segmented_mm(&c([1, 3]), &ones_f([3, 1]), &i([2, 2], &[0, 2, 1, 3])),
        Dtype::F32,
        &[2, 1, 1],
        &[1.0, 3.0],
    );
}

#[test]
fn quantized() {
    let w = c([2, 64]).multiply(0.25).unwrap();
    let g = Grouping::new(Some(32), Some(8), "affine").unwrap();
    let parts = quantize(&w, g, None).unwrap();
    assert_eq!((parts[0].shape().to_vec(), parts[1].shape().to_vec()), (vec![2, 16], vec![2, 2]));
    let back = dequantize(&parts[0], &parts[1], Some(&parts[2]), g, None, None).unwrap();
    assert!(
        back.subtract(&w).unwrap().abs().unwrap().max(Axes::ALL, false).unwrap().item::<f32>().unwrap()
            < 0.05
    );
    let x = full([3, 64], 1, Some(Dtype::F16)).unwrap();
    let y = quantized_matmul(&x, &parts[0], &parts[1], Some(&parts[2]), true, g);
    let want = back.sum(1, false).unwrap();
    is(y.and_then(|y| y.slice(&[0, 0], &[1, 2], None)), Dtype::F32, &[1, 2], &read(&want));
    let ids = i([2], &[0, 0]);
    let stack = [0, 1, 2].map(|i| parts[i].expand_dims(&[0]).unwrap());
    let y = gather_qmm(&x, &stack[0], &stack[1], Some(&stack[2]), None, Some(&ids), true, g, None);
    assert_eq!(y.unwrap().shape().to_vec(), [2, 3, 2]);
    refused!(
        Argument,
        Grouping::new(Some(33), None, "affine"),
        Grouping::new(None, Some(7), "affine"),
        Grouping::new(None, None, "x")
    );
    refused!(Argument, quantized_matmul(&x, &parts[0], &parts[1], None, true, g));
    refused!(
        Shape,
        quantize(&c([2, 33]), g, None),
        quantize(&c([32]), g, None),
        quantized_matmul(&c([3]), &parts[0], &parts[1], Some(&parts[2]), true, g)
    );
    refused!(
        Dtype,
        quantize(&count([2, 32]), g, None),
        dequantize(&w, &parts[1], Some(&parts[2]), g, None, None)
    );
    let nv = Grouping::new(None, None, "nvfp4").unwrap();
    let global = w.abs().unwrap().max(Axes::ALL, false).unwrap();
    let parts = quantize(&w, nv, Some(&global)).unwrap();
    let back = dequantize(&parts[0], &parts[1], None, nv, Some(&global), Some(Dtype::F32)).unwrap();
    let off = back.subtract(&w).unwrap().abs().unwrap().max(Axes::ALL, false).unwrap().item::<f32>().unwrap();
    assert!(off < 4.0, "{off}");
    // One global scale for each matrix, chosen with it.
    let each = [1.0, 0.5].map(|f| global.multiply(f).unwrap());
    let stacked = each.each_ref().map(|g| quantize(&w, nv, Some(g)).unwrap());
    let part = |k: usize| super::super::stack(&[stacked[0][k].clone(), stacked[1][k].clone()], 0).unwrap();
    let (codes, scales, globals) = (part(0), part(1), super::super::stack(&each, 0).unwrap());
    let x = c([3, 64]).multiply(0.125).unwrap();
    let ids = i([2], &[1, 0]);
    let got = gather_qmm(&x, &codes, &scales, None, None, Some(&ids), true, nv, Some(&globals)).unwrap();
    let want = [1, 0].map(|k: usize| {
        let (q, g) = (&stacked[k], Some(&each[k]));
        let w = dequantize(&q[0], &q[1], None, nv, g, Some(Dtype::F32)).unwrap();
        x.matmul(&w.t().unwrap()).unwrap()
    });
    let want = super::super::stack(&want, 0).unwrap();
    assert_eq!(read(&got.allclose(&want, 1e-5, 1e-4, false).unwrap()), [1.0]);
    refused!(
        Argument,
        gather_qmm(&x, &codes, &scales, None, None, Some(&ids), true, nv, Some(&global)),
        gather_qmm(&x, &stack[0], &stack[1], Some(&stack[2]), None, Some(&ids), true, g, Some(&globals))
    );
}

#[test]
fn symmetric_matrices() {
    let a = f([2, 2], &[2.0, 9.0, 1.0, 2.0]);
    let (w, v) = a.eigh(false).unwrap();
    is(Ok(w), Dtype::F32, &[2], &[1.0, 3.0]);
    is(v.multiply(&v).unwrap().sum(0, false), Dtype::F32, &[2], &[1.0, 1.0]);
    is(a.eigh(true).map(|(w, _)| w), Dtype::F32, &[2], &[-7.0, 11.0]);
    refused!(Shape, ones_f([2, 3]).eigh(false), ones_f([3]).eigh(false));
    refused!(Dtype, count([2, 2]).eigh(false));
    use super::super::random::{key, multivariate_normal};
    let (mean, cov) = (f([2], &[1.0, 2.0]), f([2, 2], &[2.0, 0.5, 0.5, 1.0]));
    let draws = multivariate_normal(&mean, &cov, &[20000], Some(&key(1).unwrap())).unwrap();
    let centred = draws.subtract(draws.mean(0, true).unwrap()).unwrap();
    let got = centred.t().unwrap().matmul(&centred).unwrap().divide(20000.0).unwrap();
    assert_eq!(read(&got.allclose(&cov, 0.0, 0.05, false).unwrap()), [1.0], "{:?}", read(&got));
    is(
        multivariate_normal(&mean, &zeros([2, 2], Dtype::F32).unwrap(), &[], None),
        Dtype::F32,
        &[2],
        &[1.0, 2.0],
    );
    refused!(
        Shape,
        multivariate_normal(&mean, &ones_f([3, 3]), &[], None),
        multivariate_normal(&mean, &mean, &[], None)
    );
}

#[test]
fn blocks() {
    // One Q8_0 block: scale 0.5 as half, then 32 codes.
    let mut bytes = vec![0x00u8, 0x38];
    bytes.extend((0..32).map(|i| i as u8));
    crate::reference::init();
    let w = BlockWeight::new(Array::from_slice(&bytes, [1, 34]).unwrap(), BlockFormat::Q8_0, 32).unwrap();
    is(w.matmul(&ones_f([1, 32]), false), Dtype::F32, &[1, 1], &[248.0]);
    is(w.pack().unwrap().matmul(&ones_f([32]), true), Dtype::F32, &[1], &[248.0]);
    let row: Vec<f64> = (0..32).map(|i| i as f64 / 2.0).collect();
    is(w.take(&i([], &[0]), Dtype::F32), Dtype::F32, &[32], &row);
    is(w.dequantize(Dtype::F16), Dtype::F16, &[1, 32], &row);
    refused!(Shape, w.matmul(&ones_f([31]), false), BlockWeight::new(w.bytes.clone(), BlockFormat::Q8_0, 64));
    refused!(Dtype, w.matmul(&count([32]), false), BlockWeight::new(c([1, 34]), BlockFormat::Q8_0, 32));
}
