//! Tests of the whole: the real model, the real binary.

mod cli;
mod golden;

use std::path::PathBuf;

/// The default model, without which these tests fail.
fn model() -> PathBuf {
    let env = |k: &str| std::env::var_os(k).filter(|v| !v.is_empty()).map(PathBuf::from);
    let cache = env("ISOPACE_CACHE")
        .or_else(|| env("XDG_CACHE_HOME").map(|p| p.join("isopace")))
        .or_else(|| env("HOME").map(|p| p.join(".cache/isopace")))
        .expect("a home folder");
    let path = cache.join("models/SmolLM2-135M-Instruct.Q4_1.gguf");
    assert!(path.is_file(), "{} is not there; run scripts/fetch_model.sh first", path.display());
    path
}
