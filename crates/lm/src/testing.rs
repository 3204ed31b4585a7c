//! What tests share: the model file, which they fail without.

use std::path::PathBuf;

/// The path of the default model in the cache.
pub(crate) fn model_path() -> PathBuf {
    let cache = std::env::var_os("ISOPACE_CACHE").map(PathBuf::from).unwrap_or_else(|| {
        let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache");
        std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from).join("isopace")
    });
    let path = cache.join("models/SmolLM2-135M-Instruct.Q4_1.gguf");
    assert!(path.is_file(), "{} is not there; run scripts/fetch_model.sh first", path.display());
    path
}

/// The whole default model.
pub(crate) fn model_bytes() -> Vec<u8> {
    std::fs::read(model_path()).expect("the model file can be read")
}
