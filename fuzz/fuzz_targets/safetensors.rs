//! A safetensors file of any bytes.
#![no_main]

use isopace::io::safetensors::Safetensors;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| match Safetensors::parse(bytes, "fuzz.safetensors") {
    Ok(st) => {
        let total: usize = st.tensors.iter().map(|t| bytes[t.range.clone()].len()).sum();
        assert!(total <= bytes.len());
    }
    Err(e) => assert!(!e.to_string().contains('\n'), "{e}"),
});
