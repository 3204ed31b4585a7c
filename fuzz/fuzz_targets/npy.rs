//! An npy file or an npz archive of any bytes.
#![no_main]

use isopace::io::npy::{Npy, Npz};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match Npy::parse(bytes, "fuzz.npy") {
        Ok(npy) => assert_eq!(npy.row_major(bytes).len(), npy.range.len()),
        Err(e) => assert!(!e.to_string().contains('\n'), "{e}"),
    }
    if let Ok(mut npz) = Npz::parse(bytes, "fuzz.npz") {
        for name in npz.names().to_vec() {
            let _ = npz.read(&name);
        }
    }
});
