//! The table of tokens: their text, their bytes, their kinds; and the finder of special ones.

use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};
use hashbrown::HashMap;
use isopace::io::gguf::Metadata;
use isopace::{Result, bail, err};

/// What a token is for, as GGUF numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

/// How a normal token's text spells its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    /// One printable character a byte, GPT-2's table.
    ByteLevel,
    /// UTF-8, with `▁` for a space and `<0x0A>` for a byte.
    SentencePiece,
}

/// Strings laid end to end.
#[derive(Default)]
struct Table<T> {
    all: T,
    ends: Vec<usize>,
}

impl<T> Table<T> {
    fn range(&self, i: usize) -> Option<Range<usize>> {
        let end = *self.ends.get(i)?;
        Some(if i == 0 { 0 } else { self.ends[i - 1] }..end)
    }
}

/// The tokens by id.
pub(super) struct Vocab {
    texts: Table<String>,
    pieces: Table<Vec<u8>>,
    kinds: Vec<Kind>,
    ids: HashMap<Box<str>, u32>,
}

impl Vocab {
    pub(super) fn new(spelling: Spelling, tokens: impl Iterator<Item = (String, Kind)>) -> Vocab {
        let mut v =
            Vocab { texts: Table::default(), pieces: Table::default(), kinds: vec![], ids: HashMap::new() };
        for (text, kind) in tokens {
            let mut kind = kind;
            let byte = (spelling == Spelling::SentencePiece).then(|| byte_token(&text)).flatten();
            match (kind, byte) {
                (Kind::Byte | Kind::Normal, Some(b)) => {
                    kind = Kind::Byte;
                    v.pieces.all.push(b);
                }
                (Kind::Normal | Kind::Unused | Kind::Byte, _) => spell(spelling, &text, &mut v.pieces.all),
                _ => v.pieces.all.extend_from_slice(text.as_bytes()),
            }
            v.pieces.ends.push(v.pieces.all.len());
            v.texts.all.push_str(&text);
            v.texts.ends.push(v.texts.all.len());
            let id = v.kinds.len() as u32;
            v.kinds.push(kind);
            // Where two tokens share a text, the first keeps it.
            v.ids.entry(text.into_boxed_str()).or_insert(id);
        }
        v
    }

    pub(super) fn from_gguf(metadata: &Metadata) -> Result<Vocab> {
        let tokens = metadata.strings("tokenizer.ggml.tokens")?;
        let kinds = metadata.opt_ints("tokenizer.ggml.token_type")?;
        let file = metadata.file();
        if tokens.is_empty() || u32::try_from(tokens.len()).is_err() {
            bail!(Format, "[tokenizer] {file}: tokenizer.ggml.tokens has {} tokens", tokens.len());
        }
        if let Some(kinds) = &kinds
            && kinds.len() != tokens.len()
        {
            bail!(
                Format,
                "[tokenizer] {file}: tokenizer.ggml.token_type has {} entries for {} tokens",
                kinds.len(),
                tokens.len()
            );
        }
        let spelling = match metadata.str("tokenizer.ggml.model")? {
            "llama" => Spelling::SentencePiece,
            _ => Spelling::ByteLevel,
        };
        let kind = |i: usize| match kinds.as_ref().map_or(1, |k| k[i]) {
            2 => Kind::Unknown,
            3 => Kind::Control,
            4 => Kind::UserDefined,
            5 => Kind::Unused,
            6 => Kind::Byte,
            _ => Kind::Normal,
        };
        Ok(Vocab::new(spelling, tokens.iter().enumerate().map(|(i, t)| (t.clone(), kind(i)))))
    }

    pub(super) fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Bytes of the longest token.
    pub(super) fn longest(&self) -> usize {
        (0..self.len() as u32).map(|id| self.piece(id).len()).max().unwrap_or(0)
    }

    /// How many of a text's bytes a byte-level vocabulary has tokens for; the others are dropped.
    pub(super) fn spelled(&self, text: &str) -> usize {
        let known: Vec<bool> =
            (0..=255).map(|b| self.id(char_of(b).encode_utf8(&mut [0; 4])).is_some()).collect();
        text.bytes().filter(|b| known[usize::from(*b)]).count()
    }

    pub(super) fn id(&self, text: &str) -> Option<u32> {
        self.ids.get(text).copied()
    }

    pub(super) fn text(&self, id: u32) -> Option<&str> {
        self.texts.range(id as usize).map(|r| &self.texts.all[r])
    }

    /// The texts of all tokens, end to end.
    pub(super) fn texts(&self) -> &str {
        &self.texts.all
    }

    pub(super) fn piece(&self, id: u32) -> &[u8] {
        self.pieces.range(id as usize).map_or(&[], |r| &self.pieces.all[r])
    }

    pub(super) fn kind(&self, id: u32) -> Kind {
        self.kinds.get(id as usize).copied().unwrap_or(Kind::Unused)
    }
}

fn spell(spelling: Spelling, text: &str, out: &mut Vec<u8>) {
    match spelling {
        Spelling::SentencePiece => out.extend_from_slice(text.replace('▁', " ").as_bytes()),
        Spelling::ByteLevel => {
            for c in text.chars() {
                match byte_of(c) {
                    Some(b) => out.push(b),
                    None => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
                }
            }
        }
    }
}

/// The byte of a token such as `<0x0A>`.
fn byte_token(text: &str) -> Option<u8> {
    let hex = text.strip_prefix("<0x")?.strip_suffix('>')?;
    if hex.len() == 2 { u8::from_str_radix(hex, 16).ok() } else { None }
}

/// True for the bytes that stand for themselves in GPT-2's table: the printable ones of Latin-1.
const fn printable(b: u8) -> bool {
    matches!(b, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff)
}

/// The character that stands for a byte in byte-level vocabularies. Unprintable bytes take the
/// characters from U+0100 on, in order.
pub(crate) fn char_of(b: u8) -> char {
    if printable(b) {
        return char::from(b);
    }
    let before = (0..b).filter(|c| !printable(*c)).count() as u32;
    char::from_u32(0x100 + before).unwrap_or('\u{fffd}')
}

/// The byte that a character stands for in byte-level vocabularies.
fn byte_of(c: char) -> Option<u8> {
    match u32::from(c) {
        n @ 0..=0xff if printable(n as u8) => Some(n as u8),
        // The unprintable bytes in order: 0 to 32, 127 to 160, 173.
        n @ 0x100..=0x120 => Some((n - 0x100) as u8),
        n @ 0x121..=0x142 => Some((n - 0x121 + 127) as u8),
        0x143 => Some(173),
        _ => None,
    }
}

/// Finds special tokens in text: the leftmost, and of those the longest.
pub(super) struct Specials {
    /// Control and user-defined tokens.
    all: Finder,
    /// User-defined tokens alone: they stand for their text wherever it comes from.
    user: Finder,
}

#[derive(Default)]
struct Finder(Option<(AhoCorasick, Vec<u32>)>);

impl Finder {
    fn new(vocab: &Vocab, take: impl Fn(Kind) -> bool) -> Result<Finder> {
        let ids: Vec<u32> = (0..vocab.len() as u32)
            .filter(|id| take(vocab.kind(*id)) && vocab.text(*id).is_some_and(|t| !t.is_empty()))
            .collect();
        if ids.is_empty() {
            return Ok(Finder::default());
        }
        let texts = ids.iter().filter_map(|id| vocab.text(*id));
        let found = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(texts);
        let ac = found.map_err(|e| err!(Format, "[tokenizer] too many special tokens: {e}"))?;
        Ok(Finder(Some((ac, ids))))
    }
}

impl Specials {
    pub(super) fn new(vocab: &Vocab) -> Result<Specials> {
        let special = |k| matches!(k, Kind::Control | Kind::UserDefined | Kind::Unknown);
        Ok(Specials {
            all: Finder::new(vocab, special)?,
            user: Finder::new(vocab, |k| k == Kind::UserDefined)?,
        })
    }

    pub(super) fn find<'a>(
        &'a self,
        text: &'a str,
        control: bool,
    ) -> impl Iterator<Item = (Range<usize>, u32)> + 'a {
        let finder = if control { &self.all } else { &self.user };
        finder
            .0
            .iter()
            .flat_map(move |(ac, ids)| ac.find_iter(text).map(|m| (m.range(), ids[m.pattern().as_usize()])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_table_is_a_bijection() {
        for b in 0..=255 {
            assert_eq!(byte_of(char_of(b)), Some(b), "byte {b}");
        }
        assert_eq!((char_of(b' '), char_of(b'\n'), char_of(b'A')), ('Ġ', 'Ċ', 'A'));
        assert_eq!(byte_of('▁'), None);
    }

    #[test]
    fn pieces_of_sentencepiece() {
        let tokens = [
            ("<unk>", Kind::Unknown),
            ("▁a▁b", Kind::Normal),
            ("<0x0A>", Kind::Byte),
            ("<0xZZ>", Kind::Normal),
        ];
        let v = Vocab::new(Spelling::SentencePiece, tokens.into_iter().map(|(t, k)| (t.to_string(), k)));
        assert_eq!(
            (v.piece(0), v.piece(1), v.piece(2), v.piece(3)),
            (&b"<unk>"[..], &b" a b"[..], &b"\n"[..], &b"<0xZZ>"[..])
        );
        assert_eq!(v.piece(99), b"");
    }
}
