//! `isopace info`.

use super::generate::write_out;
use super::model_name;
use crate::engine::{check, named};
use crate::hub::{ModelFiles, locate, read_json};
use crate::weights::Weights;
use clap::Args;
use isopace::io::MappedFile;
use isopace::io::safetensors::Safetensors;
use isopace::{Result, Shape};
use std::fmt::Write;

#[derive(Debug, Args)]
pub(super) struct Info {
    /// A GGUF file, a folder in Hugging Face's layout, or a Hub name; by default the model that
    /// scripts/fetch_model.sh puts into the cache.
    model: Option<String>,
    /// List every tensor.
    #[arg(long)]
    tensors: bool,
}

impl Info {
    /// Prints what can be read, then says what keeps the model from running.
    pub(super) fn run(self) -> Result<()> {
        let name = model_name(&self.model)?;
        let files = locate(&name)?;
        let mut out = String::new();
        let read = self.describe(&name, &files, &mut out);
        write_out(&out)?;
        read.and_then(|()| check(&files)).map_err(|e| named(e, &name))
    }

    fn describe(&self, name: &str, files: &ModelFiles, out: &mut String) -> Result<()> {
        let mut nbytes = 0;
        match files {
            ModelFiles::Gguf(path) => {
                let (weights, gguf) = Weights::gguf(path)?;
                put(
                    out,
                    format_args!(
                        "{}: GGUF version {}, {} tensors",
                        path.display(),
                        gguf.version,
                        gguf.tensors.len()
                    ),
                );
                for (k, v) in gguf.metadata.entries() {
                    put(out, format_args!("  {k} = {}", v.summary()));
                }
                for t in gguf.tensors.iter().filter(|_| self.tensors) {
                    put(out, format_args!("  {} {:?} {}", t.name, Shape::from(&t.shape[..]), t.ty));
                }
                nbytes = weights.nbytes();
            }
            ModelFiles::Folder(folder) => {
                let config = read_json(&folder.config)?;
                let kind = config.get("model_type").and_then(|v| v.as_str()).unwrap_or("unknown");
                put(out, format_args!("{}: Hugging Face layout, model type {kind}", name));
                for path in &folder.weights {
                    let file = MappedFile::open(path)?;
                    let st = Safetensors::parse(file.bytes(), &path.display().to_string())?;
                    put(out, format_args!("  {}: {} tensors", path.display(), st.tensors.len()));
                    for t in &st.tensors {
                        nbytes += t.range.len();
                        if self.tensors {
                            put(out, format_args!("    {} {:?} {}", t.name, Shape::from(&t.shape[..]), t.ty));
                        }
                    }
                }
            }
        }
        memory(out, nbytes);
        Ok(())
    }
}

fn memory(out: &mut String, nbytes: usize) {
    put(
        out,
        format_args!("weights: {:.1} MB; the KV cache and about 60 MB come on top", nbytes as f64 / 1e6),
    );
}

/// Writing to a string cannot fail.
fn put(out: &mut String, line: std::fmt::Arguments<'_>) {
    let _ = writeln!(out, "{line}");
}
