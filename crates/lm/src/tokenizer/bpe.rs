//! Byte-level BPE: text is split by regexes, then each word's bytes are merged by rank.

use hashbrown::HashMap;
use isopace::io::gguf::Metadata;
use isopace::{Result, bail, err};

use super::merge::{NO_ID, Symbol, merge};
use super::pre::Splitter;
use super::vocab::{Kind, Vocab, char_of};

pub(super) struct Bpe {
    splitter: Splitter,
    /// The token of each single byte.
    bytes: Vec<Option<u32>>,
    /// What two neighbouring tokens make: the merge's rank and its token.
    merges: HashMap<(u32, u32), (u32, u32)>,
    /// Whole words by their bytes, for models that look a word up before merging it.
    words: Option<HashMap<Box<[u8]>, u32>>,
}

impl Bpe {
    /// The encoder, and whether models of its pre-tokenizer want a beginning-of-sequence token when
    /// the file says nothing.
    pub(super) fn from_gguf(metadata: &Metadata, vocab: &Vocab) -> Result<(Bpe, bool)> {
        let file = metadata.file();
        let name = metadata.opt_str("tokenizer.ggml.pre")?.unwrap_or("default");
        let pre = super::pre::find(name).ok_or_else(|| {
            let (name, known) = (name.escape_debug(), super::pre::known().join(", "));
            err!(
                Unsupported,
                "[tokenizer] {file}: tokenizer.ggml.pre \"{name}\" is not known; known are {known}"
            )
        })?;
        let mut merges = HashMap::new();
        for (rank, line) in metadata.strings("tokenizer.ggml.merges")?.iter().enumerate() {
            // A part may itself begin with a space in files of some converters, so the split is the
            // first space after the first character.
            let cut = line.char_indices().skip(1).find(|(_, c)| *c == ' ').map(|(i, _)| i);
            let entry = cut.and_then(|cut| {
                let (left, right) = (&line[..cut], &line[cut + 1..]);
                let made = vocab.id(&format!("{left}{right}"))?;
                Some(((vocab.id(left)?, vocab.id(right)?), (rank as u32, made)))
            });
            let Some((pair, made)) = entry else {
                bail!(
                    Format,
                    "[tokenizer] {file}: merge {rank}, \"{}\", does not join two tokens into a third",
                    line.escape_debug()
                );
            };
            merges.entry(pair).or_insert(made);
        }
        let bytes = (0..=255).map(|b| vocab.id(char_of(b).encode_utf8(&mut [0; 4]))).collect();
        let words = pre.ignore_merges.then(|| {
            let ids = (0..vocab.len() as u32).filter(|id| vocab.kind(*id) == Kind::Normal);
            ids.map(|id| (vocab.piece(id).into(), id)).collect()
        });
        Ok((Bpe { splitter: Splitter::new(pre.patterns)?, bytes, merges, words }, pre.add_bos))
    }

    pub(super) fn encode(&self, text: &str, out: &mut Vec<u32>) {
        let mut symbols = Vec::new();
        self.splitter.split(text, |word| {
            if let Some(id) = self.words.as_ref().and_then(|w| w.get(word.as_bytes())) {
                out.push(*id);
                return;
            }
            symbols.clear();
            // A byte that the vocabulary cannot spell is dropped, as the reference tokenizers do.
            let known = word.bytes().enumerate().filter_map(|(i, b)| Some((i, self.bytes[b as usize]?)));
            symbols.extend(known.map(|(start, id)| Symbol { start, len: 1, id }));
            merge(&mut symbols, |a, b| self.merges.get(&(a.id, b.id)).copied());
            out.extend(symbols.iter().map(|s| s.id).filter(|id| *id != NO_ID));
        });
    }
}
