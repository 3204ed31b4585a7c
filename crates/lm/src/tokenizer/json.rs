//! `tokenizer.json`, through the `tokenizers` crate, which knows every kind that stands in one.

use std::sync::OnceLock;

use isopace::{Result, bail, err};
use serde::Deserialize;

use super::vocab::{Kind, Spelling, Vocab};

/// What the files beside a `tokenizer.json` say about its special tokens.
#[derive(Clone, Debug, Default)]
pub struct JsonSettings {
    /// The text of the beginning-of-sequence token.
    pub bos_token: Option<String>,
    /// The text of the end-of-sequence token.
    pub eos_token: Option<String>,
    /// Further tokens that end an answer.
    pub eos_token_ids: Vec<u32>,
    /// Tokens that the configurations call the beginning of a sequence; they must exist, and the text above counts.
    pub bos_token_ids: Vec<u32>,
}

impl JsonSettings {
    /// Reads `tokenizer_config.json`, `generation_config.json` and `config.json`, as far as they are
    /// there; texts that are absent or of another type are passed over, as other programs do.
    ///
    /// # Errors
    /// `Format` for the id of a special token that is no id.
    pub fn from_configs(
        tokenizer: Option<&serde_json::Value>,
        others: &[Option<&serde_json::Value>],
    ) -> Result<JsonSettings> {
        let token = |key: &str| {
            let t = tokenizer?.get(key)?;
            // Either the text itself or an object that describes the token.
            t.as_str().or_else(|| t.get("content")?.as_str()).map(str::to_string)
        };
        let ids = |key: &str| {
            let given = others.iter().flatten().filter_map(|c| c.get(key).filter(|v| !v.is_null()));
            let each = given.flat_map(|v| v.as_array().map_or(std::slice::from_ref(v), Vec::as_slice));
            let id = |v: &serde_json::Value| {
                let id = v.as_u64().and_then(|n| u32::try_from(n).ok());
                id.ok_or_else(|| {
                    err!(Format, "[tokenizer] {key} is {v}; accepted: a token's id, or a list of them")
                })
            };
            each.map(id).collect::<Result<Vec<u32>>>()
        };
        Ok(JsonSettings {
            bos_token: token("bos_token"),
            eos_token: token("eos_token"),
            eos_token_ids: ids("eos_token_id")?,
            bos_token_ids: ids("bos_token_id")?,
        })
    }
}

/// The parts of the file that the crate keeps to itself.
#[derive(Deserialize)]
struct Parts {
    decoder: Option<serde_json::Value>,
}

pub(super) struct Json {
    spelling: Spelling,
    /// Finds special tokens in text.
    parsing: tokenizers::Tokenizer,
    /// Takes special tokens' text as ordinary text; made when first needed.
    plain: OnceLock<tokenizers::Tokenizer>,
}

impl Json {
    /// The encoder, its table of tokens, and the token it puts before every text.
    pub(super) fn new(json: &[u8], name: &str) -> Result<(Json, Vocab, Option<u32>)> {
        let name = name.escape_debug();
        let bad = |why: &dyn std::fmt::Display| {
            let why = why.to_string().replace('\n', " ");
            err!(Format, "[tokenizer] {name}: not a tokenizer: {why}")
        };
        let parts: Parts = serde_json::from_slice(json).map_err(|e| bad(&e))?;
        let mut parsing = tokenizers::Tokenizer::from_bytes(json).map_err(|e| bad(&e))?;
        // How its author batched texts in training; a prompt is taken whole.
        parsing.with_padding(None).with_truncation(None).map_err(|e| bad(&e))?;
        let Some(spelling) = spelling(parts.decoder.as_ref()) else {
            bail!(
                Unsupported,
                "[tokenizer] {name}: only byte-level and SentencePiece-like decoders are supported"
            );
        };
        let added = parsing.get_added_tokens_decoder();
        let n = parsing.get_vocab_size(true).max(added.keys().max().map_or(0, |id| *id as usize + 1));
        // Ids may leave gaps, but not so many that the table would be mostly gaps.
        let most = parsing.get_vocab(true).into_values().max().map_or(0, |id| id as usize + 1).max(n);
        if most > 2 * parsing.get_vocab_size(true) + 1024 {
            bail!(Format, "[tokenizer] {name}: its ids reach {most}, but there are only {n} tokens");
        }
        let token = |id: u32| match added.get(&id) {
            Some(t) => (t.content.clone(), if t.special { Kind::Control } else { Kind::UserDefined }),
            None => (parsing.id_to_token(id).unwrap_or_default(), Kind::Normal),
        };
        let vocab = Vocab::new(spelling, (0..most as u32).map(token));
        let around = parsing.encode("", true).map_err(|e| bad(&e))?;
        let adds_bos = around.get_ids().first().copied();
        Ok((Json { spelling, parsing, plain: OnceLock::new() }, vocab, adds_bos))
    }

    /// True when tokens have the text's bytes: nothing is rewritten, and no token stands for unknown ones.
    pub(super) fn keeps_bytes(&self) -> bool {
        self.spelling == Spelling::ByteLevel && self.parsing.get_normalizer().is_none()
    }

    pub(super) fn encode(&self, text: &str, parse_special: bool, out: &mut Vec<u32>) -> Result<()> {
        let tokenizer = if parse_special {
            &self.parsing
        } else {
            self.plain.get_or_init(|| {
                let mut t = self.parsing.clone();
                t.set_encode_special_tokens(true);
                t
            })
        };
        // The beginning-of-sequence token is the caller's to add, once for the whole prompt.
        let encoded = tokenizer.encode_fast(text, false);
        let encoded = encoded.map_err(|e| err!(Format, "[tokenizer] the text cannot be encoded: {e}"))?;
        out.extend_from_slice(encoded.get_ids());
        Ok(())
    }
}

/// How tokens spell their bytes, read off the decoder; `None` if they have no fixed bytes.
fn spelling(decoder: Option<&serde_json::Value>) -> Option<Spelling> {
    let decoder = decoder?;
    let kind = |d: &serde_json::Value, name: &str| d.get("type").and_then(|t| t.as_str()) == Some(name);
    let steps = match decoder.get("decoders").and_then(|d| d.as_array()) {
        Some(steps) if kind(decoder, "Sequence") => steps.as_slice(),
        _ => std::slice::from_ref(decoder),
    };
    if steps.iter().any(|d| kind(d, "ByteLevel")) {
        Some(Spelling::ByteLevel)
    } else if steps.iter().any(|d| kind(d, "Metaspace") || kind(d, "ByteFallback")) {
        Some(Spelling::SentencePiece)
    } else {
        None
    }
}
