//! Repository checks: `cargo xtask tidy`.
#![forbid(unsafe_code)]

mod tidy;

use anyhow::{Result, bail};
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> Result<ExitCode> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["tidy"] => tidy::run(&here()?),
        ["tidy", root] => tidy::run(&PathBuf::from(root)),
        _ => bail!("usage: cargo xtask tidy [ROOT]"),
    }
}

/// The root of the repository this was built in.
fn here() -> Result<PathBuf> {
    match PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent() {
        Some(root) => Ok(root.to_path_buf()),
        None => bail!("xtask is not inside a repository"),
    }
}
