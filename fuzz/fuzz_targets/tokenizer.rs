//! The tokenizer that the metadata of a GGUF file of any bytes describes.
#![no_main]

use isopace::io::gguf::Gguf;
use isopace_lm::tokenizer::Tokenizer;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(gguf) = Gguf::parse(bytes, "fuzz.gguf") else { return };
    match Tokenizer::from_gguf(&gguf.metadata) {
        Ok(t) => {
            for special in [true, false] {
                let ids = t.encode("a b <s>ab\u{e9}", special).unwrap_or_default();
                let _ = t.decode(&ids, special);
            }
        }
        Err(e) => assert!(!e.to_string().contains('\n'), "{e}"),
    }
});
