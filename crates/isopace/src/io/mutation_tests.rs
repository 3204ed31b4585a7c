//! Valid small files, damaged in every way at fixed seeds. The fuzzers in `fuzz/` look deeper; these
//! run with every test.

use std::io::Cursor;

use isopace_core::{BlockFormat, Dtype};

use super::gguf::{self, Gguf, TensorType, Value, Values};
use super::npy::{Npy, Npz, write_npy, write_npz};
use super::safetensors::{self, Safetensors};

/// Xorshift: enough to choose places and values.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }
}

/// Numbers at which arithmetic wraps, signs change or sizes stop fitting.
const EDGES: [u64; 12] = [
    0,
    1,
    31,
    255,
    1 << 16,
    i32::MAX as u64,
    u32::MAX as u64,
    1 << 32,
    i64::MAX as u64,
    1 << 63,
    u64::MAX - 31,
    u64::MAX,
];

fn damage(bytes: &mut Vec<u8>, r: &mut Random) {
    for _ in 0..=r.below(3) {
        let at = r.below(bytes.len());
        match r.below(6) {
            0 => bytes.truncate(at),
            1 | 2 => {
                let (edge, width) = (EDGES[r.below(EDGES.len())].to_le_bytes(), [1, 4, 8][r.below(3)]);
                let end = (at + width).min(bytes.len());
                bytes[at..end].copy_from_slice(&edge[..end - at]);
            }
            3 if at < bytes.len() => bytes[at] ^= 1 << r.below(8),
            4 => {
                let end = (at + r.below(40)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                let to = r.below(bytes.len());
                bytes.splice(to..to, piece);
            }
            _ => {
                let end = (at + r.below(16)).min(bytes.len());
                bytes.drain(at..end);
            }
        }
    }
}

/// Parses damaged copies; errors must be one line, and what is accepted must lie in the file.
fn survive(valid: &[u8], parse: impl Fn(&[u8]) -> Result<(), isopace_core::Error>) {
    parse(valid).expect("the file is valid before it is damaged");
    let (mut r, mut refused) = (Random(0x2545_f491_4f6c_dd1d), 0);
    for _ in 0..20_000 {
        let mut bytes = valid.to_vec();
        damage(&mut bytes, &mut r);
        if let Err(e) = parse(&bytes) {
            let e = e.to_string();
            assert!(e.starts_with('[') && !e.contains('\n') && e.len() < 1000, "{e:?}");
            refused += 1;
        }
    }
    assert!(refused > 5_000, "{refused} of 20,000 damaged files were refused");
}

#[test]
fn damaged_gguf() {
    let metadata = [
        ("general.alignment".to_string(), Value::from(8u32)),
        ("s".to_string(), Value::from("text")),
        ("l".to_string(), Value::from(vec!["a".to_string(), "b".to_string()])),
        ("n".to_string(), Value::Array(Values::Array(vec![Values::F32(vec![1.0]), Values::U8(vec![1, 2])]))),
    ];
    let q4 = TensorType::Block(BlockFormat::Q4_0);
    let tensors = [
        gguf::NewTensor { name: "a", shape: &[2, 32], ty: q4, data: &[1; 36] },
        gguf::NewTensor { name: "b", shape: &[3], ty: TensorType::F16, data: &[2; 6] },
    ];
    let mut file = Vec::new();
    gguf::write_gguf(&mut file, &metadata, &tensors).unwrap();
    survive(&file, |bytes| {
        let g = Gguf::parse(bytes, "f")?;
        g.tensors.iter().for_each(|t| assert_eq!(t.ty.byte_len(&t.shape), Ok(bytes[t.range.clone()].len())));
        Ok(())
    });
}

#[test]
fn damaged_safetensors() {
    let tensors = [("a", Dtype::F32, 8), ("b", Dtype::U8, 2)].map(|(name, dtype, n)| {
        safetensors::NewTensor { name, shape: &[2], ty: safetensors::Type::Plain(dtype), data: &[7; 8][..n] }
    });
    let mut file = Vec::new();
    safetensors::write_safetensors(&mut file, &[("k", "v")], &tensors).unwrap();
    survive(&file, |bytes| {
        let st = Safetensors::parse(bytes, "f")?;
        st.tensors.iter().for_each(|t| drop(bytes[t.range.clone()].to_vec()));
        Ok(())
    });
}

#[test]
fn damaged_npy_and_npz() {
    let mut file = Vec::new();
    write_npy(&mut file, Dtype::I16, &[2, 3], &[1; 12]).unwrap();
    survive(&file, |bytes| {
        let npy = Npy::parse(bytes, "f")?;
        assert_eq!(npy.row_major(bytes).len(), npy.range.len());
        Ok(())
    });
    let mut out = Cursor::new(Vec::new());
    write_npz(&mut out, &[("a", Dtype::I16, &[2, 3], &[1; 12]), ("b", Dtype::U8, &[], &[9])]).unwrap();
    survive(&out.into_inner(), |bytes| {
        let mut npz = Npz::parse(bytes, "f")?;
        for name in npz.names().to_vec() {
            npz.read(&name)?;
        }
        Ok(())
    });
}
