//! A GGUF file of any bytes: its header, its tensors' places, and the tokenizer it describes.
#![no_main]

use isopace::io::gguf::Gguf;
use isopace_lm::tokenizer::Tokenizer;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let gguf = match Gguf::parse(bytes, "fuzz.gguf") {
        Ok(gguf) => gguf,
        Err(e) => return assert!(!e.to_string().contains('\n')),
    };
    for t in &gguf.tensors {
        assert_eq!(t.ty.byte_len(&t.shape), Ok(bytes[t.range.clone()].len()));
    }
    for (key, value) in gguf.metadata.entries() {
        let _ = (value.summary(), gguf.metadata.opt_usize(key), gguf.metadata.opt_str(key));
    }
    match Tokenizer::from_gguf(&gguf.metadata) {
        Ok(t) => {
            let ids = t.encode("a b <s>\u{e9}", true).unwrap_or_default();
            let _ = t.decode(&ids, true);
        }
        Err(e) => assert!(!e.to_string().contains('\n'), "{e}"),
    }
});
