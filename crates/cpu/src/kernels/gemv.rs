//! Products of a quantized matrix with one or more vectors: `out[i] = W x[i]`.
//!
//! W is `rows` × `cols`, in its file form ([`qmatmul_f32`], [`qmatmul_i8`]) or packed
//! ([`qmatmul_packed_f32`], [`qmatmul_packed_i8`]). `x` is `m` × `cols`, `out` `m` × `rows`, both
//! dense. With float32 activations the weights are dequantized exactly and only the dot product
//! rounds; with 8-bit ones ([`QuantX`]) the sums within a block are exact integers. Each weight
//! byte is read from memory once whatever `m` is.
//!
//! Work is split by rows, and a row's sum is never split, so results do not depend on the number
//! of threads.

use super::matmul::Mat;
use super::panel::{self, MR, NR};
use super::quant::packed::{TILE, packed_bytes, tile_bytes, write_tile};
use super::quant::tile::{PANEL, dequantize_tile, panel_width, tile_f32, tile_i8};
use super::quant::{dequantize_blocks, row};
use crate::pool::{self, Shared};
use isopace_core::BlockFormat;
use isopace_core::{Result, err};
use std::cell::RefCell;

pub use super::quant::dequantize_row;
pub use super::quant::packed::{pack, pack_into};
pub use super::quant::tile::QuantX;

/// Bytes of weights in a chunk of work, about: small enough to balance, large enough to claim.
const CHUNK_BYTES: usize = 64 << 10;

thread_local! {
    static VECTORS: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
    static FLOATS: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
    static BYTES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Runs `f` with this thread's scratch of `n` elements, which keeps its memory.
fn with_scratch<T: Copy + Default, R>(
    of: &'static std::thread::LocalKey<RefCell<Vec<T>>>,
    n: usize,
    f: impl FnOnce(&mut [T]) -> R,
) -> R {
    of.with_borrow_mut(|v| {
        if v.len() < n {
            v.resize(n, T::default());
        }
        f(&mut v[..n])
    })
}

fn check(
    name: &str,
    format: BlockFormat,
    have: usize,
    want: Option<usize>,
    rows: usize,
    cols: usize,
    m: usize,
    x: usize,
    out: usize,
) -> Result<()> {
    if format.row_bytes(cols).is_none() {
        return Err(err!(
            Shape,
            "[{name}] {cols} columns are not whole blocks of {} for {format}",
            format.block_elems()
        ));
    }
    if want != Some(have) {
        return Err(err!(
            Shape,
            "[{name}] {have} bytes are not a {rows} × {cols} matrix of {format} ({want:?})"
        ));
    }
    if m.checked_mul(cols) != Some(x) || m.checked_mul(rows) != Some(out) {
        return Err(err!(
            Shape,
            "[{name}] {m} vectors of {cols} in and {rows} out; got {x} and {out} elements"
        ));
    }
    Ok(())
}

/// Multiplies a matrix in file form with `m` float32 vectors.
///
/// # Errors
/// A length that does not fit, or columns that are not whole blocks.
pub fn qmatmul_f32(
    format: BlockFormat,
    w: &[u8],
    rows: usize,
    cols: usize,
    x: &[f32],
    m: usize,
    out: &mut [f32],
) -> Result<()> {
    let want = format.row_bytes(cols).and_then(|b| b.checked_mul(rows));
    check("quantized_matmul", format, w.len(), want, rows, cols, m, x.len(), out.len())?;
    if cols == 0 || out.is_empty() {
        out.fill(0.0);
        return Ok(());
    }
    let row_bytes = w.len() / rows;
    let bytes = w;
    if m == 1 {
        pool::for_chunks(out, (CHUNK_BYTES / row_bytes).max(1), |i, out| {
            let first = i * (CHUNK_BYTES / row_bytes).max(1);
            for (r, o) in out.iter_mut().enumerate() {
                *o = row::row_f32(format, &w[(first + r) * row_bytes..][..row_bytes], x);
            }
        });
        return Ok(());
    }
    let shared = Shared::new(out);
    with_packed_x(x, m, cols, |x| {
        pool::parallel_for(rows.div_ceil(NR), |s| {
            let (first, n) = (s * NR, NR.min(rows - s * NR));
            with_scratch(&FLOATS, (n + NR) * cols, |f| {
                let (dense, w) = f.split_at_mut(n * cols);
                dequantize_blocks(format, &bytes[first * row_bytes..][..n * row_bytes], dense);
                panel::pack::<f32, NR>(Mat::dense(dense, n, cols).expect("a strip of rows"), w);
                strip_product(x, w, cols, m, &shared, rows, first);
            });
        });
    });
    Ok(())
}

/// Packs `m` float32 vectors for [`panel::tiles`] and runs `f` with them.
fn with_packed_x(x: &[f32], m: usize, cols: usize, f: impl FnOnce(&[f32])) {
    with_scratch(&VECTORS, panel::packed_len(m, cols, MR), |p| {
        panel::pack_parallel::<f32, MR>(Mat::dense(x, m, cols).expect("checked vectors"), p);
        f(p);
    });
}

/// All products of packed vectors with the weights of a strip of `NR` rows from `first`, packed.
pub(super) fn strip_product(
    x: &[f32],
    w: &[f32],
    cols: usize,
    m: usize,
    out: &Shared<'_, f32>,
    rows: usize,
    first: usize,
) {
    let n = NR.min(rows - first);
    panel::tiles(x, m, w, cols, |i, _, tile| {
        for (r, t) in tile.iter().enumerate() {
            // SAFETY: rows first .. first + n of the outputs belong to this strip alone, and each
            // strip is one chunk of the job.
            unsafe { out.slice((i + r) * rows + first, n) }.copy_from_slice(&t[..n]);
        }
    });
}

/// Multiplies a matrix in file form with 8-bit activations.
///
/// For several vectors, tiles of 16 rows are packed on the way.
///
/// # Errors
/// A length that does not fit, or columns that are not whole blocks.
pub fn qmatmul_i8(
    format: BlockFormat,
    w: &[u8],
    rows: usize,
    cols: usize,
    x: &QuantX,
    out: &mut [f32],
) -> Result<()> {
    let want = format.row_bytes(cols).and_then(|b| b.checked_mul(rows));
    check("quantized_matmul", format, w.len(), want, rows, cols, x.m, x.m * x.cols, out.len())?;
    if cols == 0 || out.is_empty() {
        out.fill(0.0);
        return Ok(());
    }
    let row_bytes = w.len() / rows;
    if x.m == 1 {
        let n = (CHUNK_BYTES / row_bytes).max(1);
        pool::for_chunks(out, n, |i, out| {
            for (r, o) in out.iter_mut().enumerate() {
                *o = row::row_i8(format, &w[(i * n + r) * row_bytes..][..row_bytes], x);
            }
        });
        return Ok(());
    }
    let shared = Shared::new(out);
    pool::parallel_for(rows.div_ceil(TILE), |t| {
        with_scratch(&BYTES, tile_bytes(format, cols), |tile| {
            write_tile(format, &w[t * TILE * row_bytes..], rows - t * TILE, row_bytes, tile);
            tile_product(format, tile, x, &shared, rows, t * TILE);
        });
    });
    Ok(())
}

/// Multiplies one tile with all vectors.
fn tile_product(
    format: BlockFormat,
    tile: &[u8],
    x: &QuantX,
    out: &Shared<'_, f32>,
    rows: usize,
    first: usize,
) {
    let n = TILE.min(rows - first);
    let mut r = [[0f32; TILE]; PANEL];
    let mut at = 0;
    while at < x.m {
        let w = panel_width(at, x.m);
        tile_i8(format, tile, x.panel(at, w), w, &mut r);
        for i in 0..w {
            // SAFETY: rows first .. first + n of the outputs belong to this tile alone, and each
            // tile is one chunk of the job.
            unsafe { out.slice((at + i) * rows + first, n) }.copy_from_slice(&r[i][..n]);
        }
        at += w;
    }
}

/// Multiplies a packed matrix with 8-bit activations.
///
/// # Errors
/// A length that does not fit, or columns that are not whole blocks.
pub fn qmatmul_packed_i8(
    format: BlockFormat,
    packed: &[u8],
    rows: usize,
    cols: usize,
    x: &QuantX,
    out: &mut [f32],
) -> Result<()> {
    let want = packed_bytes(format, rows, cols).ok();
    check("quantized_matmul", format, packed.len(), want, rows, cols, x.m, x.m * x.cols, out.len())?;
    if cols == 0 || out.is_empty() {
        out.fill(0.0);
        return Ok(());
    }
    let size = tile_bytes(format, cols);
    let (tiles, per) = (packed.len() / size, (CHUNK_BYTES / size).max(1));
    let shared = Shared::new(out);
    pool::parallel_for(tiles.div_ceil(per), |c| {
        for t in c * per..tiles.min((c + 1) * per) {
            tile_product(format, &packed[t * size..][..size], x, &shared, rows, t * TILE);
        }
    });
    Ok(())
}

/// Multiplies a packed matrix with `m` float32 vectors.
///
/// # Errors
/// A length that does not fit, or columns that are not whole blocks.
pub fn qmatmul_packed_f32(
    format: BlockFormat,
    packed: &[u8],
    rows: usize,
    cols: usize,
    x: &[f32],
    m: usize,
    out: &mut [f32],
) -> Result<()> {
    let want = packed_bytes(format, rows, cols).ok();
    check("quantized_matmul", format, packed.len(), want, rows, cols, m, x.len(), out.len())?;
    if cols == 0 || out.is_empty() {
        out.fill(0.0);
        return Ok(());
    }
    let size = tile_bytes(format, cols);
    if m == 1 {
        let per = (CHUNK_BYTES / size).max(1);
        pool::for_chunks(out, per * TILE, |c, out| {
            for (t, o) in out.chunks_mut(TILE).enumerate() {
                let mut r = [0f32; TILE];
                tile_f32(format, &packed[(c * per + t) * size..][..size], x, &mut r);
                o.copy_from_slice(&r[..o.len()]);
            }
        });
        return Ok(());
    }
    let shared = Shared::new(out);
    with_packed_x(x, m, cols, |x| {
        pool::parallel_for(rows.div_ceil(NR), |s| {
            with_scratch(&FLOATS, NR * cols, |w| {
                for (t, tile) in packed.chunks_exact(size).skip(s * (NR / TILE)).take(NR / TILE).enumerate() {
                    dequantize_tile(format, tile, t, w);
                }
                strip_product(x, w, cols, m, &shared, rows, s * NR);
            });
        });
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::quant::tests::{Lcg, random_blocks};
    use super::*;
    use crate::isa::{self, Isa};

    /// The exact products in float64, and the sum of magnitudes that bounds their rounding.
    fn model(w: &[f32], x: &[f32], rows: usize, cols: usize, m: usize) -> Vec<(f64, f64)> {
        let mut out = Vec::new();
        for i in 0..m {
            for r in 0..rows {
                let terms = (0..cols).map(|c| w[r * cols + c] as f64 * x[i * cols + c] as f64);
                out.push(terms.fold((0.0, 0.0), |(s, a), t| (s + t, a + t.abs())));
            }
        }
        out
    }

    /// What a [`QuantX`] stands for, by its definition.
    fn rounded(x: &[f32]) -> Vec<f32> {
        let round = |b: &[f32]| {
            let top = b.iter().fold(0f32, |a, v| a.max(v.abs()));
            let (s, inverse) = (top / 127.0, 127.0 / top);
            b.iter()
                .map(|v| if top == 0.0 { 0.0 } else { (v * inverse).round_ties_even() * s })
                .collect::<Vec<_>>()
        };
        x.chunks(32).flat_map(round).collect()
    }

    fn close(name: &str, got: &[f32], want: &[(f64, f64)], ulps: f64) {
        for (i, (g, (w, mag))) in got.iter().zip(want).enumerate() {
            let err = (*g as f64 - w).abs();
            assert!(
                err <= mag * ulps * f32::EPSILON as f64 + 1e-30,
                "{name} at {i}: {g} for {w}, error {err:e} of {mag}"
            );
        }
    }

    #[test]
    fn every_format_shape_and_isa_against_the_model() {
        let mut r = Lcg(3);
        for format in BlockFormat::ALL {
            for (rows, blocks) in [(1, 1), (3, 2), (16, 1), (17, 3), (50, 2), (130, 1)] {
                let cols = blocks * format.block_elems();
                // One byte before the weights: nothing may rely on alignment.
                let mut bytes = vec![0u8; 1];
                bytes.extend(random_blocks(format, rows * blocks, &mut r));
                let w = &bytes[1..];
                let mut dense = vec![0f32; rows * cols];
                dequantize_row(format, w, &mut dense).unwrap();
                for m in [1, 2, 3, 5, 8, 15, 17] {
                    let mut x: Vec<f32> = (0..m * cols).map(|_| r.float() * 3.0).collect();
                    x[..32].fill(0.0);
                    let want = model(&dense, &x, rows, cols, m);
                    let want8 = model(&dense, &rounded(&x), rows, cols, m);
                    for isa in Isa::ALL {
                        isa::with(isa, || {
                            let name = format!("{format} {isa:?} {rows}x{cols} m {m}");
                            let mut packed = vec![0u8; 1];
                            packed.extend(pack(format, w, rows, cols).unwrap());
                            let packed = &packed[1..];
                            let mut q = QuantX::default();
                            q.quantize(&x, m, cols);
                            let mut results = Vec::new();
                            for threads in [1, 2] {
                                pool::set_threads(threads);
                                let mut out = vec![f32::NAN; 4 * m * rows];
                                let (a, rest) = out.split_at_mut(m * rows);
                                let (b, rest) = rest.split_at_mut(m * rows);
                                let (c, d) = rest.split_at_mut(m * rows);
                                qmatmul_f32(format, w, rows, cols, &x, m, a).unwrap();
                                qmatmul_packed_f32(format, packed, rows, cols, &x, m, b).unwrap();
                                qmatmul_i8(format, w, rows, cols, &q, c).unwrap();
                                qmatmul_packed_i8(format, packed, rows, cols, &q, d).unwrap();
                                close(&format!("f32 {name}"), a, &want, 16.0);
                                close(&format!("packed f32 {name}"), b, &want, 32.0);
                                // Scale and minimum are multiplied by the rounded sums: the
                                // magnitudes of both terms count.
                                close(&format!("i8 {name}"), c, &want8, 256.0);
                                close(&format!("packed i8 {name}"), d, &want8, 256.0);
                                results.push(out);
                            }
                            assert!(results[0] == results[1], "{name}: threads change bits");
                        });
                    }
                }
            }
        }
        pool::set_threads(0);
    }

    #[test]
    fn a_vector_gets_the_same_bits_in_any_company() {
        let mut r = Lcg(4);
        let (format, rows, cols) = (BlockFormat::Q4_1, 33, 96);
        let w = random_blocks(format, rows * cols / 32, &mut r);
        let packed = pack(format, &w, rows, cols).unwrap();
        let x: Vec<f32> = (0..15 * cols).map(|_| r.float()).collect();
        isa::with(isa::detected(), || {
            let (mut q, mut all, mut one) = (QuantX::default(), vec![0.0; 15 * rows], vec![0.0; rows]);
            q.quantize(&x, 15, cols);
            qmatmul_packed_i8(format, &packed, rows, cols, &q, &mut all).unwrap();
            for i in 0..15 {
                q.quantize(&x[i * cols..][..cols], 1, cols);
                qmatmul_packed_i8(format, &packed, rows, cols, &q, &mut one).unwrap();
                assert_eq!(one, all[i * rows..][..rows]);
            }
        });
    }

    #[test]
    fn odd_activations() {
        let (format, rows, cols) = (BlockFormat::Q8_0, 16, 64);
        let w = random_blocks(format, rows * cols / 32, &mut Lcg(5));
        let mut q = QuantX::default();
        for (bad, nan) in
            [(f32::NAN, true), (f32::INFINITY, true), (1e-40, false), (1e38, false), (-0.0, false)]
        {
            for isa in Isa::ALL {
                isa::with(isa, || {
                    let mut x = vec![0.0f32; cols];
                    x[5] = bad;
                    let mut out = vec![0.0; rows];
                    q.quantize(&x, 1, cols);
                    qmatmul_i8(format, &w, rows, cols, &q, &mut out).unwrap();
                    assert_eq!(out[0].is_nan(), nan, "{bad} {isa:?} {out:?}");
                });
            }
        }
    }

    #[test]
    fn wrong_lengths_are_errors_and_empty_is_fine() {
        let f = BlockFormat::Q4_0;
        assert!(qmatmul_f32(f, &[0; 18], 1, 32, &[0.0; 31], 1, &mut [0.0]).is_err());
        assert!(qmatmul_f32(f, &[0; 18], 1, 33, &[0.0; 33], 1, &mut [0.0]).is_err());
        assert!(qmatmul_f32(f, &[0; 18], 2, 32, &[0.0; 32], 1, &mut [0.0; 2]).is_err());
        assert!(qmatmul_f32(f, &[], 0, 32, &[0.0; 32], 1, &mut []).is_ok());
        let mut out = [1.0; 3];
        assert!(qmatmul_packed_f32(f, &[], 3, 0, &[], 1, &mut out).is_ok());
        assert_eq!(out, [0.0; 3]);
        assert!(qmatmul_f32(f, &[0; 18], 1, 32, &[], 0, &mut []).is_ok());
    }
}
