use std::io::Cursor;

use proptest::prelude::*;

use super::*;

fn file(header: &str, data: &[u8]) -> Vec<u8> {
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend((header.len() as u16).to_le_bytes());
    out.extend(header.as_bytes());
    out.extend(data);
    out
}

fn error(bytes: &[u8]) -> String {
    let e = Npy::parse(bytes, "x.npy").expect_err("broken").to_string();
    assert!(!e.contains('\n'), "{e}");
    e
}

/// The bytes that NumPy 2 writes for `np.arange(6, dtype=np.int16).reshape(2, 3)`.
#[test]
fn writes_the_bytes_numpy_writes() {
    let data: Vec<u8> = (0i16..6).flat_map(i16::to_le_bytes).collect();
    let mut ours = Vec::new();
    write_npy(&mut ours, Dtype::I16, &[2, 3], &data).unwrap();
    let text = "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }";
    let padded = format!("{text}{}\n", " ".repeat(128 - 10 - text.len() - 1));
    assert_eq!(ours, file(&padded, &data));
}

#[test]
fn every_dtype_and_rank_survives() {
    for dtype in Dtype::ALL {
        for shape in [&[][..], &[3], &[2, 3], &[2, 0, 5], &[1, 2, 3, 4]] {
            let n = shape.iter().product::<usize>() * dtype.size();
            let data: Vec<u8> = (0..n).map(|i| i as u8).collect();
            let mut bytes = Vec::new();
            write_npy(&mut bytes, dtype, shape, &data).unwrap();
            let npy = Npy::parse(&bytes, "x").unwrap();
            assert_eq!((npy.dtype, npy.shape.as_slice()), (dtype, shape));
            assert_eq!(npy.row_major(&bytes), data);
            assert_eq!(npy.range.start % 64, 0);
        }
    }
}

#[test]
fn fortran_order_and_big_endian() {
    let data: Vec<u8> = [0u16, 3, 1, 4, 2, 5].into_iter().flat_map(u16::to_be_bytes).collect();
    let bytes = file("{'descr': '>u2', 'fortran_order': True, 'shape': (2, 3), }\n", &data);
    let npy = Npy::parse(&bytes, "x").unwrap();
    let want: Vec<u8> = (0u16..6).flat_map(u16::to_le_bytes).collect();
    assert_eq!(npy.row_major(&bytes), want);

    let parts: Vec<u8> = [1.5f32, -2.0].into_iter().flat_map(f32::to_be_bytes).collect();
    let bytes = file("{\"shape\": (1L,), 'fortran_order': False, 'descr': '>c8'}", &parts);
    let npy = Npy::parse(&bytes, "x").unwrap();
    assert_eq!(
        npy.row_major(&bytes),
        [1.5f32, -2.0].into_iter().flat_map(f32::to_le_bytes).collect::<Vec<_>>()
    );
}

#[test]
fn broken_files() {
    insta::assert_snapshot!(error(b"PK"), @r"[npy] x.npy: not an npy file: it does not start with \x93NUMPY");
    insta::assert_snapshot!(error(b"\x93NUMPY\x01"), @"[npy] x.npy: the file ends at byte 7, inside the header");
    insta::assert_snapshot!(error(b"\x93NUMPY\x09\x00"), @"[npy] x.npy: version 9 is not supported; versions 1 to 3 are");
    insta::assert_snapshot!(error(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{"), @"[npy] x.npy: the file ends at byte 13, inside the header");
    let one = |descr: &str, shape: &str| {
        error(&file(&format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}"), &[0; 8]))
    };
    insta::assert_snapshot!(one("'<c16'", "()"), @"[npy] x.npy: element type '<c16' is not supported; supported are b1, u1 to u8, i1 to i8, f2, f4, f8, c8, and V2 for bfloat16");
    insta::assert_snapshot!(one("'|O'", "()"), @"[npy] x.npy: element type '|O' is not supported; supported are b1, u1 to u8, i1 to i8, f2, f4, f8, c8, and V2 for bfloat16");
    insta::assert_snapshot!(one("[('a', '<f4')]", "()"), @"[npy] x.npy: the header is broken: structured element types are not supported");
    insta::assert_snapshot!(one("'<f4'", "(3,)"), @"[npy] x.npy: data ends at byte 77, past the end of the file (73)");
    insta::assert_snapshot!(one("'<f4'", "(-1,)"), @"[npy] x.npy: the header is broken: a dimension is not a non-negative integer");
    insta::assert_snapshot!(one("'<f4'", "(99999999999, 99999999999)"), @"[npy] x.npy: shape [99999999999, 99999999999] has more values than can be addressed");
    insta::assert_snapshot!(one("'é'", "()"), @"[npy] x.npy: element type 'é' is not supported; supported are b1, u1 to u8, i1 to i8, f2, f4, f8, c8, and V2 for bfloat16");
    insta::assert_snapshot!(error(&file("{'shape': (), 'shape': ()}", &[])), @"[npy] x.npy: the header is broken: the key shape stands twice");
    insta::assert_snapshot!(error(&file("{'descr': '<f4'}", &[])), @"[npy] x.npy: the header is broken: fortran_order is missing");
}

#[test]
fn npz_round_trip_and_deflate() {
    let data = [1u8, 0, 0, 0, 2, 0, 0, 0];
    let mut out = Cursor::new(Vec::new());
    write_npz(&mut out, &[("a", Dtype::I32, &[2], &data), ("b/c", Dtype::U8, &[], &[9])]).unwrap();
    let bytes = out.into_inner();
    let mut npz = Npz::parse(&bytes, "x.npz").unwrap();
    assert_eq!(npz.names(), ["a", "b/c"]);
    let (npy, file) = npz.read("a").unwrap();
    assert_eq!((npy.dtype, &*npy.row_major(&file)), (Dtype::I32, &data[..]));
    assert_eq!(npz.read("b/c").unwrap().0.shape, [0usize; 0]);
    insta::assert_snapshot!(npz.read("z").unwrap_err(), @"[npz] x.npz: z: there is no such array");

    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    zip.start_file("big.npy", options).unwrap();
    write_npy(&mut zip, Dtype::F32, &[10_000], &[0; 40_000]).unwrap();
    let mut bytes = zip.finish().unwrap().into_inner();
    assert!(bytes.len() < 2_000);
    assert_eq!(Npz::parse(&bytes, "x.npz").unwrap().read("big").unwrap().0.shape, [10_000]);
    for i in 40..60 {
        bytes[i] ^= 0x55;
    }
    let damaged = Npz::parse(&bytes, "x.npz").unwrap().read("big").unwrap_err().to_string();
    assert!(damaged.starts_with("[npz] x.npz: big: "), "{damaged}");
    assert!(
        Npz::parse(b"PK not", "x.npz").unwrap_err().to_string().starts_with("[npz] x.npz: not a zip archive")
    );
}

proptest! {
    #[test]
    fn any_header_gives_a_result(text in "[{}(), '\":0-9a-zTFL<>]{0,80}", tail in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = Npy::parse(&file(&text, &tail), "f");
        let _ = Npy::parse(&tail, "f");
        let _ = Npz::parse(&tail, "f");
    }
}
