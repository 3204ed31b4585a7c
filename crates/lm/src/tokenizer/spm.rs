//! SentencePiece's BPE as Llama 2 has it: characters are merged into the neighbours' token of the
//! highest score; what is no token in the end is spelled in bytes.

use isopace::io::gguf::Metadata;
use isopace::{Result, bail};

use super::merge::{NO_ID, Symbol, merge};
use super::vocab::{Kind, Vocab};

pub(super) struct Spm {
    scores: Vec<f32>,
    /// The token of each byte, where the vocabulary has one.
    bytes: Vec<Option<u32>>,
    unknown: Option<u32>,
    space_prefix: bool,
}

impl Spm {
    pub(super) fn from_gguf(metadata: &Metadata, vocab: &Vocab) -> Result<Spm> {
        let file = metadata.file();
        let scores = metadata.floats("tokenizer.ggml.scores")?.to_vec();
        if scores.len() != vocab.len() {
            bail!(
                Format,
                "[tokenizer] {file}: tokenizer.ggml.scores has {} entries for {} tokens",
                scores.len(),
                vocab.len()
            );
        }
        let bytes = (0..=255u8).map(|b| vocab.id(&format!("<0x{b:02X}>"))).collect();
        let first_unknown = (0..vocab.len() as u32).find(|id| vocab.kind(*id) == Kind::Unknown);
        let unknown = metadata.opt_u32("tokenizer.ggml.unknown_token_id")?.or(first_unknown);
        let space_prefix = metadata.opt_bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
        Ok(Spm { scores, bytes, unknown, space_prefix })
    }

    pub(super) fn encode(&self, text: &str, vocab: &Vocab, out: &mut Vec<u32>) -> Result<()> {
        let prefix = if self.space_prefix { "▁" } else { "" };
        let text = format!("{prefix}{}", text.replace(' ', "▁"));
        let id = |s: &str| vocab.id(s).unwrap_or(NO_ID);
        let mut symbols: Vec<Symbol> = text
            .char_indices()
            .map(|(start, c)| Symbol { start, len: c.len_utf8(), id: id(&text[start..start + c.len_utf8()]) })
            .collect();
        merge(&mut symbols, |a, b| {
            let id = vocab.id(&text[a.start..b.start + b.len])?;
            Some((priority(self.scores[id as usize]), id))
        });
        for s in symbols {
            let bytes = &text.as_bytes()[s.start..s.start + s.len];
            if s.id != NO_ID {
                out.push(s.id);
            } else if bytes.iter().all(|b| self.bytes[*b as usize].is_some()) {
                out.extend(bytes.iter().filter_map(|b| self.bytes[*b as usize]));
            } else if let Some(unknown) = self.unknown {
                out.push(unknown);
            } else {
                let c = &text[s.start..s.start + s.len];
                bail!(
                    Format,
                    "[tokenizer] the vocabulary has no token for {c:?}, for its bytes or for unknown text"
                );
            }
        }
        Ok(())
    }
}

/// A number that is lower the higher the score.
fn priority(score: f32) -> u32 {
    let bits = score.to_bits();
    // Order-preserving map of floats to integers, then turned round.
    let ordered = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    !ordered
}

#[cfg(test)]
mod tests {
    #[test]
    fn priorities_turn_scores_round() {
        let scores = [f32::INFINITY, 2.0, 0.0, -0.5, -1.0, -31999.0];
        assert!(scores.windows(2).all(|w| super::priority(w[0]) < super::priority(w[1])));
    }
}
