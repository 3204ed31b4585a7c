//! A GGUF file of any bytes: its header, its metadata and its tensors' places.
#![no_main]

use isopace::io::gguf::Gguf;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let gguf = match Gguf::parse(bytes, "fuzz.gguf") {
        Ok(gguf) => gguf,
        Err(e) => return assert!(!e.to_string().contains('\n'), "{e}"),
    };
    for t in &gguf.tensors {
        assert_eq!(t.ty.byte_len(&t.shape), Ok(bytes[t.range.clone()].len()));
    }
    for (key, value) in gguf.metadata.entries() {
        let _ = (value.summary(), gguf.metadata.opt_usize(key), gguf.metadata.opt_str(key));
    }
});
