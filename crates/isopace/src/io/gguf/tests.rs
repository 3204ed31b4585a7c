use isopace_core::BlockFormat;
use proptest::prelude::*;

use super::*;

fn small() -> Vec<u8> {
    let metadata = vec![
        ("general.architecture".to_string(), Value::from("llama")),
        ("llama.block_count".to_string(), Value::from(2u32)),
        ("list".to_string(), Value::from(vec!["a".to_string(), "b".to_string()])),
        (
            "deep".to_string(),
            Value::Array(Values::Array(vec![Values::I32(vec![1, -2]), Values::Bool(vec![true])])),
        ),
    ];
    let tensors = [
        NewTensor { name: "a", shape: &[2, 32], ty: Block(BlockFormat::Q4_0), data: &[7; 36] },
        NewTensor { name: "b", shape: &[3], ty: F32, data: &[1; 12] },
    ];
    let mut out = Vec::new();
    write_gguf(&mut out, &metadata, &tensors).unwrap();
    out
}

fn error(bytes: &[u8]) -> String {
    let e = Gguf::parse(bytes, "m.gguf").expect_err("the file is broken").to_string();
    assert!(!e.contains('\n'), "{e}");
    e
}

/// Builds broken files: the header's fields in the order they stand.
#[derive(Default)]
struct Raw(Vec<u8>);

impl Raw {
    fn header(tensors: u64, entries: u64) -> Raw {
        Raw(b"GGUF".to_vec()).u32(3).u64(tensors).u64(entries)
    }
    fn u32(mut self, v: u32) -> Raw {
        self.0.extend(v.to_le_bytes());
        self
    }
    fn u64(mut self, v: u64) -> Raw {
        self.0.extend(v.to_le_bytes());
        self
    }
    fn str(self, s: &str) -> Raw {
        let mut out = self.u64(s.len() as u64);
        out.0.extend(s.as_bytes());
        out
    }
    fn tensor(self, name: &str, dims: &[u64], code: u32, offset: u64) -> Raw {
        let mut out = self.str(name).u32(dims.len() as u32);
        for d in dims {
            out = out.u64(*d);
        }
        out.u32(code).u64(offset)
    }
    fn pad(mut self, n: usize) -> Raw {
        self.0.resize(self.0.len() + n, 0);
        self
    }
    fn error(&self) -> String {
        error(&self.0)
    }
}

#[test]
fn reads_what_it_wrote() {
    let bytes = small();
    let g = Gguf::parse(&bytes, "m.gguf").unwrap();
    assert_eq!(g.version, 3);
    assert_eq!(g.metadata.str("general.architecture").unwrap(), "llama");
    assert_eq!(g.metadata.usize("llama.block_count").unwrap(), 2);
    assert_eq!(g.metadata.strings("list").unwrap(), ["a", "b"]);
    assert_eq!(g.metadata.opt_float("absent").unwrap(), None);
    let (a, b) = (g.tensor("a").unwrap(), g.tensor("b").unwrap());
    assert_eq!((a.shape.as_slice(), a.ty), ([2usize, 32].as_slice(), Block(BlockFormat::Q4_0)));
    assert_eq!(bytes[a.range.clone()], [7; 36]);
    assert_eq!(bytes[b.range.clone()], [1; 12]);
    assert_eq!(b.range.start % 32, 0);
}

#[test]
fn typed_getters_say_what_they_found() {
    let g = Gguf::parse(&small(), "m.gguf").unwrap();
    insta::assert_snapshot!(g.metadata.usize("general.architecture").unwrap_err(),
        @r#"[gguf] m.gguf: general.architecture is string "llama", where a non-negative integer is needed"#);
    insta::assert_snapshot!(g.metadata.str("llama.context_length").unwrap_err(),
        @"[gguf] m.gguf: metadata has no llama.context_length, where a string is needed");
    insta::assert_snapshot!(g.metadata.floats("list").unwrap_err(),
        @"[gguf] m.gguf: list is array of string, 2 elements, where an array of float32 is needed");
    insta::assert_snapshot!(g.tensor("blk.9.w").unwrap_err(), @"[gguf] m.gguf: there is no tensor blk.9.w");
}

#[test]
fn every_truncation_is_an_error() {
    let bytes = small();
    let end = Gguf::parse(&bytes, "m.gguf").unwrap().tensor("b").unwrap().range.end;
    for n in 0..end {
        error(&bytes[..n]);
    }
}

#[test]
fn broken_headers() {
    insta::assert_snapshot!(error(b""), @r#"[gguf] m.gguf: not a GGUF file: it is 0 bytes long and does not start with "GGUF""#);
    insta::assert_snapshot!(error(b"PK\x03\x04...."), @r#"[gguf] m.gguf: not a GGUF file: it starts with "PK\u{3}\u{4}", not "GGUF""#);
    insta::assert_snapshot!(Raw(b"GGUF".to_vec()).u32(1).error(), @"[gguf] m.gguf: version 1 is not supported; versions 2 and 3 are");
    insta::assert_snapshot!(Raw(b"GGUF".to_vec()).u32(3 << 24).error(), @"[gguf] m.gguf: the file is big-endian; only little-endian is read");
    insta::assert_snapshot!(Raw::header(0, u64::MAX).error(), @"[gguf] m.gguf: the metadata has a count of 18,446,744,073,709,551,615, but the 0 bytes left hold at most 0");
    insta::assert_snapshot!(Raw::header(1 << 60, 0).pad(50).error(), @"[gguf] m.gguf: the header counts 1,152,921,504,606,846,976 tensors, but the 50 bytes left describe at most 2");
    insta::assert_snapshot!(Raw::header(0, 1).str("k").u32(77).pad(9).error(), @"[gguf] m.gguf: k has the unknown value type 77; types are 0 to 12");
    insta::assert_snapshot!(Raw::header(0, 1).str("k").u32(9).u32(5).u64(1 << 62).error(), @"[gguf] m.gguf: k has a count of 4,611,686,018,427,387,904, but the 0 bytes left hold at most 0");
    insta::assert_snapshot!(Raw::header(0, 1).str("k").u32(7).u32(9).error(), @"[gguf] m.gguf: k is a bool of value 9; it must be 0 or 1");
    insta::assert_snapshot!(Raw::header(0, 2).str("k").u32(0).pad(1).str("k").u32(0).pad(1).error(), @"[gguf] m.gguf: the metadata key k stands twice");
    let mut bad = Raw::header(0, 1).str("k").u32(8).str("ab\n");
    let n = bad.0.len();
    bad.0[n - 2] = 0xff;
    insta::assert_snapshot!(bad.error(), @"[gguf] m.gguf: k is not valid UTF-8 at byte 46 of the file");
    let mut nested = Raw::header(0, 1).str("k").u32(9);
    for _ in 0..9 {
        nested = nested.u32(9).u64(1);
    }
    insta::assert_snapshot!(nested.pad(40).error(), @"[gguf] m.gguf: k nests arrays deeper than 4 levels");
    for a in [0, 3, 1 << 30] {
        assert!(Raw::header(0, 1).str("general.alignment").u32(4).u32(a).error().contains("power of two"));
    }
}

#[test]
fn broken_tensors() {
    let one = |dims: &[u64], code, offset| {
        Raw::header(1, 0).tensor("blk.3.attn_q.weight", dims, code, offset).pad(64).error()
    };
    insta::assert_snapshot!(one(&[1024], 0, 0), @"[gguf] m.gguf: blk.3.attn_q.weight: data ends at byte 4,192, past the end of the file (139)");
    insta::assert_snapshot!(one(&[4], 0, u64::MAX - 31), @"[gguf] m.gguf: blk.3.attn_q.weight: data ends at byte 18,446,744,073,709,551,696, past the end of the file (139)");
    insta::assert_snapshot!(one(&[4], 0, 8), @"[gguf] m.gguf: blk.3.attn_q.weight: offset 8 is not a multiple of the alignment 32");
    insta::assert_snapshot!(one(&[u64::MAX], 0, 0), @"[gguf] m.gguf: blk.3.attn_q.weight: a dimension of 18,446,744,073,709,551,615 is absurd");
    insta::assert_snapshot!(one(&[1 << 40, 1 << 40], 0, 0), @"[gguf] m.gguf: blk.3.attn_q.weight: shape [1099511627776, 1099511627776] has more values than can be addressed");
    insta::assert_snapshot!(one(&[1 << 40, 1 << 40, 0], 0, 0), @"[gguf] m.gguf: blk.3.attn_q.weight: shape [0, 1099511627776, 1099511627776] has more values than can be addressed");
    insta::assert_snapshot!(one(&[33, 1], 2, 0), @"[gguf] m.gguf: blk.3.attn_q.weight: rows of 33 values are not a whole number of Q4_0 blocks of 32");
    insta::assert_snapshot!(one(&[32], 20, 0), @"[gguf] m.gguf: blk.3.attn_q.weight: type IQ4_NL is not supported; supported are F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, I8, I16, I32, I64, F64, BF16");
    assert!(one(&[32], 4000, 0).contains("unknown type 4000"));
    assert!(one(&[1; 9], 0, 0).contains("has 9 axes"));
    let two =
        |offset| Raw::header(2, 0).tensor("a", &[16], 0, 0).tensor("b", &[8], 0, offset).pad(200).error();
    insta::assert_snapshot!(two(32), @"[gguf] m.gguf: b starts at byte 128, inside a, which ends at byte 160");
    let same = Raw::header(2, 0).tensor("a\n", &[1], 0, 0).tensor("a\n", &[1], 0, 32).pad(99).error();
    insta::assert_snapshot!(same, @r"[gguf] m.gguf: two tensors are named a\n");
}

#[test]
fn empty_and_scalar_tensors() {
    let g = Raw::header(2, 0).tensor("e", &[0, 7], 0, 32).tensor("s", &[], 0, 0).pad(64);
    let g = Gguf::parse(&g.0, "m.gguf").unwrap();
    assert_eq!((g.tensors[0].shape.as_slice(), g.tensors[0].range.len()), ([7, 0].as_slice(), 0));
    assert_eq!((g.tensors[1].shape.len(), g.tensors[1].range.len()), (0, 4));
}

#[test]
fn writer_refuses_what_it_could_not_read_back() {
    let t = NewTensor { name: "a", shape: &[2], ty: F32, data: &[0; 8] };
    let save = |metadata: &[(String, Value)], tensors: &[NewTensor]| {
        write_gguf(&mut Vec::new(), metadata, tensors).unwrap_err().to_string()
    };
    insta::assert_snapshot!(save(&[], &[t, t]), @"[save_gguf] two tensors are named a");
    insta::assert_snapshot!(save(&[], &[NewTensor { data: &[0; 7], ..t }]), @"[save_gguf] a: 7 bytes of data, where shape [2] of F32 takes 8");
    let k = ("k".to_string(), Value::from(1u8));
    insta::assert_snapshot!(save(&[k.clone(), k], &[]), @"[save_gguf] the metadata key k stands twice");
    insta::assert_snapshot!(save(&[("general.alignment".into(), Value::from(3u32))], &[]), @"[save_gguf] general.alignment must be a power of two");
}

proptest! {
    #[test]
    fn any_bytes_give_a_result(tail in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Gguf::parse(&tail, "f");
        let mut file = b"GGUF\x03\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0".to_vec();
        file.extend(tail);
        let _ = Gguf::parse(&file, "f");
    }

    #[test]
    fn tensors_survive(dims in prop::collection::vec(0usize..5, 0..4), align in 0u32..8) {
        let data = vec![3u8; dims.iter().product::<usize>() * 8];
        let metadata = [("general.alignment".to_string(), Value::from(1u32 << align))];
        let t = NewTensor { name: "x", shape: &dims, ty: F64, data: &data };
        let mut file = Vec::new();
        write_gguf(&mut file, &metadata, &[t, NewTensor { name: "y", ..t }]).unwrap();
        let g = Gguf::parse(&file, "f").unwrap();
        for t in &g.tensors {
            prop_assert_eq!(&t.shape, &dims);
            prop_assert_eq!(&file[t.range.clone()], &data[..]);
        }
    }
}
