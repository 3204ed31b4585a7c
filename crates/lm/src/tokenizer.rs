//! Text to token ids and back.
//!
//! A [`Tokenizer`] comes from a GGUF file's metadata or from a `tokenizer.json`. Whatever its kind,
//! each token has a fixed string of bytes, so decoding is a look-up and a [`Detokenizer`] costs the
//! same for every token. Encoding takes a flag that says whether the text may name special tokens:
//! a chat template's text may, a user's may not.

mod bpe;
mod json;
mod merge;
mod pre;
mod spm;
mod stream;
mod vocab;

pub use json::JsonSettings;
pub use stream::{Detokenizer, StopStrings, Stopped};

use hashbrown::HashSet;
use isopace::io::gguf::Metadata;
use isopace::{Result, bail};

use crate::kv::Limit;
use vocab::{Kind, Specials, Vocab};

/// How ordinary text, free of special tokens, becomes ids.
enum Method {
    Bpe(bpe::Bpe),
    Spm(spm::Spm),
    Json(Box<json::Json>),
}

/// A model's tokenizer.
pub struct Tokenizer {
    vocab: Vocab,
    specials: Specials,
    method: Method,
    bos: Option<u32>,
    eos: Option<u32>,
    add_bos: bool,
    stop_ids: Vec<u32>,
    /// The context that texts must fit into.
    context: Option<Limit>,
}

/// Control tokens that end a turn in one family of models or another. A file may declare only one
/// of those its model was trained to emit.
const END_OF_TURN: [&str; 8] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|return|>",
];

impl Tokenizer {
    /// Builds the tokenizer that a GGUF file's metadata describes.
    ///
    /// # Errors
    /// `Format` for metadata that is missing or contradicts itself, `Unsupported` for a kind of
    /// tokenizer or a pre-tokenizer name that is not known.
    pub fn from_gguf(metadata: &Metadata) -> Result<Tokenizer> {
        let file = metadata.file();
        let vocab = Vocab::from_gguf(metadata)?;
        let (method, add_bos) = match metadata.str("tokenizer.ggml.model")? {
            "gpt2" => {
                let (bpe, add_bos) = bpe::Bpe::from_gguf(metadata, &vocab)?;
                (Method::Bpe(bpe), add_bos)
            }
            "llama" => (Method::Spm(spm::Spm::from_gguf(metadata, &vocab)?), true),
            other => bail!(
                Unsupported,
                "[tokenizer] {file}: tokenizer.ggml.model is \"{}\"; supported are \"gpt2\" and \"llama\"",
                other.escape_debug()
            ),
        };
        let id = |key: &str| -> Result<Option<u32>> {
            match metadata.opt_u32(key)? {
                Some(id) if id as usize >= vocab.len() => {
                    bail!(
                        Format,
                        "[tokenizer] {file}: {key} is {id}, but the vocabulary has {} tokens",
                        vocab.len()
                    )
                }
                id => Ok(id),
            }
        };
        let (bos, eos) = (id("tokenizer.ggml.bos_token_id")?, id("tokenizer.ggml.eos_token_id")?);
        let others = [id("tokenizer.ggml.eot_token_id")?, id("tokenizer.ggml.eom_token_id")?];
        let add_bos = metadata.opt_bool("tokenizer.ggml.add_bos_token")?.unwrap_or(add_bos);
        let specials = Specials::new(&vocab)?;
        let stop_ids = stop_ids(&vocab, eos.into_iter().chain(others.into_iter().flatten()));
        let add_bos = add_bos && bos.is_some();
        Ok(Tokenizer { vocab, specials, method, bos, eos, add_bos, stop_ids, context: None })
    }

    /// Builds a tokenizer from the bytes of a `tokenizer.json`; `name` stands in errors.
    ///
    /// # Errors
    /// `Format` for a file that the `tokenizers` crate does not take, `Unsupported` for a decoder
    /// that gives a token different bytes in different places.
    pub fn from_json(json: &[u8], name: &str, settings: &JsonSettings) -> Result<Tokenizer> {
        let (json, vocab, adds_bos) = json::Json::new(json, name)?;
        let id = |text: &Option<String>| text.as_deref().and_then(|t| vocab.id(t));
        let (mut bos, eos) = (id(&settings.bos_token), id(&settings.eos_token));
        bos = bos.or(adds_bos);
        let specials = Specials::new(&vocab)?;
        for (key, ids) in
            [("eos_token_id", &settings.eos_token_ids), ("bos_token_id", &settings.bos_token_ids)]
        {
            if let Some(id) = ids.iter().find(|id| **id as usize >= vocab.len()) {
                bail!(
                    Format,
                    "[tokenizer] {}: {key} is {id}, but the vocabulary has {} tokens",
                    name.escape_debug(),
                    vocab.len()
                );
            }
        }
        let stop_ids = stop_ids(&vocab, eos.into_iter().chain(settings.eos_token_ids.iter().copied()));
        let eos = eos.or(stop_ids.first().copied());
        let (method, add_bos) = (Method::Json(Box::new(json)), adds_bos.is_some());
        Ok(Tokenizer { vocab, specials, method, bos, eos, add_bos, stop_ids, context: None })
    }

    /// Has texts refused, before any work is done on them, that cannot be spelled in so many tokens.
    pub fn set_context(&mut self, context: Limit) {
        self.context = Some(context);
    }

    fn check_length(&self, text: &str) -> Result<()> {
        let Some(context) = self.context else { return Ok(()) };
        let bytes = match &self.method {
            // A character that has no token is one unknown token, of at most four bytes.
            Method::Spm(_) => text.len(),
            Method::Bpe(_) => self.vocab.spelled(text),
            Method::Json(json) if json.keeps_bytes() => self.vocab.spelled(text),
            Method::Json(_) => return Ok(()),
        };
        let needed = bytes / self.vocab.longest().max(4);
        if needed > context.tokens {
            bail!(
                Argument,
                "[context] {} bytes of text are at least {needed} tokens, more than the model's {context}",
                text.len()
            );
        }
        Ok(())
    }

    /// Encodes text. With `parse_special`, text such as `<|im_end|>` that names a control token
    /// becomes that token; without, it is ordinary text.
    ///
    /// # Errors
    /// `Format` when the vocabulary has no token for a part of the text; `Argument` as [`Tokenizer::set_context`] says.
    pub fn encode(&self, text: &str, parse_special: bool) -> Result<Vec<u32>> {
        self.check_length(text)?;
        let mut out = Vec::new();
        if let (Method::Json(json), true) = (&self.method, parse_special) {
            json.encode(text, true, &mut out)?;
        } else {
            self.encode_parts(text, parse_special, None, &mut out)?;
        }
        Ok(out)
    }

    /// Encodes a whole prompt: as [`Tokenizer::encode`], with the beginning-of-sequence token in
    /// front if the model wants one and the text does not start with it.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_prompt(&self, text: &str, parse_special: bool) -> Result<Vec<u32>> {
        Ok(self.with_bos(self.encode(text, parse_special)?))
    }

    /// Encodes a rendered chat: special tokens are parsed, except where `mark` stands behind their
    /// first character; the mark itself is dropped. Beside a `tokenizer.json`, a template writes every special
    /// token itself; a GGUF file's `add_bos_token` holds for it too.
    pub(crate) fn encode_chat(&self, text: &str, mark: char) -> Result<Vec<u32>> {
        let ids = if text.contains(mark) {
            self.check_length(text)?;
            let mut out = Vec::new();
            self.encode_parts(text, true, Some(mark), &mut out)?;
            out
        } else {
            self.encode(text, true)?
        };
        Ok(if let Method::Json(_) = self.method { ids } else { self.with_bos(ids) })
    }

    /// Text with `mark` behind the first character of each control token in it.
    pub(crate) fn mark_control(&self, text: &str, mark: char) -> String {
        let (mut out, mut rest) = (String::with_capacity(text.len()), text);
        while let Some((range, id)) = self.specials.find(rest, true).next() {
            let control = self.is_control(id);
            let first = rest[range.clone()].chars().next().map_or(0, char::len_utf8);
            // Breaking one match may uncover another that overlaps it: the search goes on inside it.
            let (before, after) = rest.split_at(if control { range.start + first } else { range.end });
            out.push_str(before);
            out.extend(control.then_some(mark));
            rest = after;
        }
        out + rest
    }

    /// A character that neither these texts nor any token contains: noncharacters first, then private use.
    pub(crate) fn free_mark<'a>(&'a self, texts: impl Iterator<Item = &'a str>) -> Option<char> {
        let mut candidates = (0xfdd0..=0xfdef).chain(0xf_0000..=0xf_fffd).filter_map(char::from_u32);
        let used: HashSet<char> =
            texts.chain([self.vocab.texts()]).flat_map(str::chars).filter(|c| *c >= '\u{fdd0}').collect();
        candidates.find(|c| !used.contains(c))
    }

    fn with_bos(&self, mut ids: Vec<u32>) -> Vec<u32> {
        if let (true, Some(bos)) = (self.add_bos, self.bos)
            && ids.first() != Some(&bos)
        {
            ids.insert(0, bos);
        }
        ids
    }

    fn encode_parts(&self, text: &str, special: bool, mark: Option<char>, out: &mut Vec<u32>) -> Result<()> {
        let mut at = 0;
        for (range, id) in self.specials.find(text, special) {
            // Inside a token of one character there is no place for the mark: it stands behind it.
            if mark.is_some() && text[range.start..].chars().nth(1) == mark {
                continue;
            }
            self.encode_text(&text[at..range.start], mark, out)?;
            out.push(id);
            at = range.end;
        }
        self.encode_text(&text[at..], mark, out)
    }

    fn encode_text(&self, text: &str, mark: Option<char>, out: &mut Vec<u32>) -> Result<()> {
        let without;
        let text = match mark {
            Some(mark) if text.contains(mark) => {
                without = text.replace(mark, "");
                &without
            }
            _ => text,
        };
        if text.is_empty() {
            return Ok(());
        }
        match &self.method {
            Method::Bpe(bpe) => {
                bpe.encode(text, out);
                Ok(())
            }
            Method::Spm(spm) => spm.encode(text, &self.vocab, out),
            Method::Json(json) => json.encode(text, false, out),
        }
    }

    /// The bytes that a token stands for: none for an id outside the vocabulary, and none for a
    /// control token unless `special`.
    pub fn piece(&self, id: u32, special: bool) -> &[u8] {
        if !special && self.is_control(id) { &[] } else { self.vocab.piece(id) }
    }

    /// The bytes of a sequence of tokens.
    pub fn decode_bytes(&self, ids: &[u32], special: bool) -> Vec<u8> {
        let mut out = Vec::new();
        ids.iter().for_each(|id| out.extend_from_slice(self.piece(*id, special)));
        out
    }

    /// The text of a sequence of tokens; bytes that are not UTF-8 become U+FFFD.
    pub fn decode(&self, ids: &[u32], special: bool) -> String {
        String::from_utf8_lossy(&self.decode_bytes(ids, special)).into_owned()
    }

    /// True for a token that stands for no text: a turn's end, a padding.
    pub fn is_control(&self, id: u32) -> bool {
        matches!(self.vocab.kind(id), Kind::Control | Kind::Unknown)
    }

    /// Number of tokens.
    pub fn vocab_size(&self) -> usize {
        self.vocab.len()
    }

    /// The id of the token with exactly this text, as the vocabulary spells it.
    pub fn token_id(&self, text: &str) -> Option<u32> {
        self.vocab.id(text)
    }

    /// The token's text as the vocabulary spells it.
    pub fn token_text(&self, id: u32) -> Option<&str> {
        self.vocab.text(id)
    }

    /// The beginning-of-sequence token.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The end-of-sequence token.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// Whether prompts start with [`Tokenizer::bos`].
    pub fn adds_bos(&self) -> bool {
        self.add_bos
    }

    /// Every token that ends an answer: the declared ones, and the control tokens known to end a
    /// turn.
    pub fn stop_ids(&self) -> &[u32] {
        &self.stop_ids
    }
}

fn stop_ids(vocab: &Vocab, declared: impl Iterator<Item = u32>) -> Vec<u32> {
    let known = END_OF_TURN.iter().filter_map(|t| vocab.id(t));
    let known = known.filter(|id| vocab.kind(*id) == Kind::Control);
    let mut out = Vec::new();
    for id in declared.chain(known) {
        if !out.contains(&id) {
            out.push(id);
        }
    }
    out
}

#[cfg(test)]
pub(crate) use vocab::char_of as byte_char;

#[cfg(test)]
mod tests;
