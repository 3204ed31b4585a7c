//! Model families, a file each. A new one is its file and a row of the table below.

pub mod llama;
mod rope;

use crate::kv::{KvShape, LayerCaches};
use crate::weights::Weights;
use isopace::io::gguf::Metadata;
use isopace::{Array, Result, Scalar, bail};

/// A causal language model.
pub trait Model: Send + Sync {
    /// Logits (1, vocab) after the last of `tokens` (1, T), which stand from position `offset` on, and the
    /// caches with their keys and values written.
    fn step(&self, tokens: &Array, offset: &Scalar, caches: &mut [LayerCaches]) -> Result<Array>;
    /// What the cache must hold.
    fn kv_shape(&self) -> KvShape;
    /// Number of tokens in the vocabulary.
    fn vocab(&self) -> usize;
}

type FromGguf = fn(&Metadata, &Weights) -> Result<Box<dyn Model>>;
type FromConfig = fn(&serde_json::Value, &Weights) -> Result<Box<dyn Model>>;

/// Architecture names (GGUF's, then Hugging Face's model_type) and who builds them.
const FAMILIES: &[(&[&str], FromGguf, FromConfig)] =
    &[(&["llama", "mistral", "smollm"], llama::from_gguf, llama::from_config)];

fn known() -> String {
    FAMILIES.iter().flat_map(|f| f.0).copied().collect::<Vec<_>>().join(", ")
}

/// Builds the model that a GGUF file describes.
///
/// # Errors
/// `Unsupported` naming an unknown architecture and the known ones; what the weights lack.
pub fn from_gguf(meta: &Metadata, weights: &Weights) -> Result<Box<dyn Model>> {
    let name = meta.str("general.architecture")?;
    match FAMILIES.iter().find(|f| f.0.contains(&name)) {
        Some((_, build, _)) => build(meta, weights),
        None => bail!(
            Unsupported,
            "[model] {}: architecture {name:?} is not known; known: {}",
            meta.file(),
            known()
        ),
    }
}

/// Builds the model that a Hugging Face config describes.
///
/// # Errors
/// As [`from_gguf`].
pub fn from_config(config: &serde_json::Value, weights: &Weights) -> Result<Box<dyn Model>> {
    let name = config.get("model_type").and_then(|v| v.as_str()).unwrap_or("");
    match FAMILIES.iter().find(|f| f.0.contains(&name)) {
        Some((_, _, build)) => build(config, weights),
        None => {
            bail!(Unsupported, "[model] config.json: model_type {name:?} is not known; known: {}", known())
        }
    }
}

#[cfg(test)]
mod tests;
