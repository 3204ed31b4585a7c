use proptest::prelude::*;

use super::*;

fn file(header: &str, data: usize) -> Vec<u8> {
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend(header.as_bytes());
    out.resize(out.len() + data, 0);
    out
}

fn error(header: &str, data: usize) -> String {
    let e = Safetensors::parse(&file(header, data), "m.safetensors").expect_err("broken").to_string();
    assert!(!e.contains('\n'), "{e}");
    e
}

#[test]
fn reads_what_it_wrote_and_so_does_the_crate() {
    let tensors: Vec<_> = NAMES
        .iter()
        .map(|(ty, name)| NewTensor {
            name,
            shape: &[2, 3],
            ty: *ty,
            data: &[1u8; 48][..6 * ty.dtype().size()],
        })
        .collect();
    let mut bytes = Vec::new();
    write_safetensors(&mut bytes, &[("a", "1"), ("b", "zwei\n")], &tensors).unwrap();
    let ours = Safetensors::parse(&bytes, "f").unwrap();
    let theirs = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(ours.metadata[1], ("b".to_string(), "zwei\n".to_string()));
    assert_eq!(ours.tensors.len(), theirs.len());
    for t in &ours.tensors {
        let other = theirs.tensor(&t.name).unwrap();
        assert_eq!((t.shape.as_slice(), &bytes[t.range.clone()]), (other.shape(), other.data()));
        assert_eq!(format!("{}", other.dtype()), t.name);
    }
}

#[test]
fn reads_what_the_crate_wrote() {
    let data = [5u8; 24];
    let view = safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![3, 2], &data).unwrap();
    let bytes = safetensors::serialize([("x", view)], None).unwrap();
    let st = Safetensors::parse(&bytes, "f").unwrap();
    assert_eq!((st.tensor("x").unwrap().range.len(), st.tensors[0].ty), (24, Type::Plain(Dtype::F32)));
    insta::assert_snapshot!(st.tensor("y").unwrap_err(), @"[safetensors] f: there is no tensor y");
}

#[test]
fn broken_files() {
    let short = |bytes: &[u8]| Safetensors::parse(bytes, "f").unwrap_err().to_string();
    insta::assert_snapshot!(short(b"abc"), @"[safetensors] f: the file is 3 bytes long, shorter than the 8 bytes of its header's size");
    insta::assert_snapshot!(short(&[255; 20]), @"[safetensors] f: a header of 18,446,744,073,709,551,615 bytes does not fit; the file has 12 bytes after its size, and at most 100,000,000 are allowed");
    insta::assert_snapshot!(error("{", 0), @"[safetensors] m.safetensors: the header is not valid JSON: EOF while parsing an object at line 1 column 1");
    insta::assert_snapshot!(error("[]", 0), @"[safetensors] m.safetensors: the header is not valid JSON: invalid type: sequence, expected an object at line 1 column 0");
    insta::assert_snapshot!(error(r#"{"a":7}"#, 0), @"[safetensors] m.safetensors: a: not a tensor's entry: invalid type: integer `7`, expected struct Info");
    insta::assert_snapshot!(error(r#"{"__metadata__":{"a":7}}"#, 0), @"[safetensors] m.safetensors: __metadata__ must map strings to strings: invalid type: integer `7`, expected a string");
    let t = |dtype: &str, shape: &str, offsets: &str| {
        format!(r#""a.b":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}"#)
    };
    let one =
        |dtype: &str, shape: &str, offsets: &str| error(&format!("{{{}}}", t(dtype, shape, offsets)), 40);
    insta::assert_snapshot!(one("F4", "[2]", "[0,1]"), @"[safetensors] m.safetensors: a.b: type F4 is not supported; supported are BOOL, U8, U16, U32, U64, I8, I16, I32, I64, F16, BF16, F32, F64, C64, F8_E4M3, F8_E5M2");
    insta::assert_snapshot!(one("F32", "[2]", "[8,0]"), @"[safetensors] m.safetensors: a.b: its data ends at 0, before it begins at 8");
    insta::assert_snapshot!(one("F32", "[2]", "[0,9]"), @"[safetensors] m.safetensors: a.b: 9 bytes of data, where shape [2] of F32 takes 8");
    insta::assert_snapshot!(one("F32", "[20]", "[0,80]"), @"[safetensors] m.safetensors: a.b: data ends at byte 146, past the end of the file (106)");
    insta::assert_snapshot!(one("F32", "[2]", "[18446744073709551607,18446744073709551615]"), @"[safetensors] m.safetensors: a.b: data ends at byte 18,446,744,073,709,551,717, past the end of the file (142)");
    insta::assert_snapshot!(one("F32", "[18446744073709551615,9,0]", "[0,0]"), @"[safetensors] m.safetensors: a.b: shape [18446744073709551615, 9, 0] has more values than can be addressed");
    insta::assert_snapshot!(one("F32", "[-1]", "[0,0]"), @"[safetensors] m.safetensors: a.b: not a tensor's entry: invalid value: integer `-1`, expected u64");
    let twice = format!("{{{},{}}}", t("F32", "[2]", "[0,8]"), t("F32", "[2]", "[8,16]"));
    insta::assert_snapshot!(error(&twice, 16), @"[safetensors] m.safetensors: two tensors are named a.b");
    let overlap = twice.replacen("a.b", "c", 1).replace("[8,16]", "[4,12]");
    insta::assert_snapshot!(error(&overlap, 16), @"[safetensors] m.safetensors: a.b starts at byte 122, inside c, which ends at byte 126");
    let deep = format!(r#"{{"a":{}}}"#, "[".repeat(100_000));
    assert!(error(&deep, 0).contains("recursion limit"));
}

#[test]
fn writer_refuses_what_it_could_not_read_back() {
    let t = NewTensor { name: "a", shape: &[2], ty: Type::Plain(Dtype::F32), data: &[0; 8] };
    let save = |t: &[NewTensor]| write_safetensors(&mut Vec::new(), &[], t).unwrap_err().to_string();
    insta::assert_snapshot!(save(&[t, t]), @"[save_safetensors] the name a stands twice or is reserved");
    insta::assert_snapshot!(save(&[NewTensor { data: &[0; 7], ..t }]), @"[save_safetensors] a: 7 bytes of data do not fit shape [2] of F32");
    assert!(save(&[NewTensor { name: METADATA, ..t }]).contains("reserved"));
}

proptest! {
    #[test]
    fn any_bytes_give_a_result(tail in prop::collection::vec(any::<u8>(), 0..200), text in ".{0,200}") {
        let _ = Safetensors::parse(&tail, "f");
        let _ = Safetensors::parse(&file(&text, 9), "f");
    }
}
