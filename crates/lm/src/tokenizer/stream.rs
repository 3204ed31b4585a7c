//! Tokens to text as they come: whole characters only, and nothing of a stop string.

use isopace::{Result, bail};

use super::Tokenizer;

/// Turns tokens' bytes into text as they come, holding back at most the three bytes of an
/// unfinished character. The pieces put together equal the lossy decoding of all bytes at once,
/// and a token costs the same however long the text is.
///
/// ```
/// let mut d = isopace_lm::tokenizer::Detokenizer::default();
/// let mut text = String::new();
/// d.push(b"caf\xc3", &mut text);
/// assert_eq!(text, "caf");
/// d.push(b"\xa9!", &mut text);
/// assert_eq!(text, "café!");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Detokenizer {
    tail: Vec<u8>,
}

impl Detokenizer {
    /// Adds a token's bytes, appending to `out` the characters that are complete.
    pub fn push(&mut self, piece: &[u8], out: &mut String) {
        self.tail.extend_from_slice(piece);
        let mut at = 0;
        for chunk in self.tail.utf8_chunks() {
            out.push_str(chunk.valid());
            at += chunk.valid().len();
            let broken = chunk.invalid();
            let at_end = at + broken.len() == self.tail.len();
            if at_end && is_unfinished(broken) {
                break;
            }
            if !broken.is_empty() {
                out.push('\u{fffd}');
            }
            at += broken.len();
        }
        self.tail.drain(..at);
    }

    /// Adds a token.
    pub fn push_token(&mut self, tokenizer: &Tokenizer, id: u32, special: bool, out: &mut String) {
        self.push(tokenizer.piece(id, special), out);
    }

    /// Ends the text: a character that was cut off becomes U+FFFD.
    pub fn finish(&mut self, out: &mut String) {
        out.push_str(&String::from_utf8_lossy(&self.tail));
        self.tail.clear();
    }
}

/// True for bytes that more bytes could complete to a character.
fn is_unfinished(bytes: &[u8]) -> bool {
    !bytes.is_empty() && std::str::from_utf8(bytes).is_err_and(|e| e.error_len().is_none())
}

/// What came of a piece of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// No stop string has ended yet.
    No,
    /// The stop string of this index has been found; the text ends before it.
    At(usize),
}

/// Finds stop strings in text that comes in pieces. Text that might be the start of one is held
/// back until it is certain, so a reader never sees part of a stop string. The one that ends first
/// wins, and of two that end together the longer, however the text was cut.
#[derive(Clone, Debug)]
pub struct StopStrings {
    stops: Vec<String>,
    held: String,
}

impl StopStrings {
    /// Takes the strings to stop at.
    ///
    /// # Errors
    /// `Argument` for an empty string, which would stop everything.
    pub fn new(stops: Vec<String>) -> Result<StopStrings> {
        if stops.iter().any(String::is_empty) {
            bail!(Argument, "[stop] a stop string is empty; give at least one character");
        }
        Ok(StopStrings { stops, held: String::new() })
    }

    /// Adds a piece of text, appending to `out` what is certain to stand before any stop string.
    pub fn push(&mut self, text: &str, out: &mut String) -> Stopped {
        if self.stops.is_empty() {
            out.push_str(text);
            return Stopped::No;
        }
        let checked = self.held.len();
        self.held.push_str(text);
        let buffer = self.held.as_bytes();
        for end in checked + 1..=buffer.len() {
            let ends_here =
                self.stops.iter().enumerate().filter(|(_, s)| buffer[..end].ends_with(s.as_bytes()));
            if let Some((i, stop)) = ends_here.max_by_key(|(_, s)| s.len()) {
                out.push_str(&self.held[..end - stop.len()]);
                self.held.clear();
                return Stopped::At(i);
            }
        }
        let keep = self.longest_start();
        let sure = self.held.len() - keep;
        out.extend(self.held.drain(..sure));
        Stopped::No
    }

    /// Ends the text: what was held back is no stop string.
    pub fn finish(&mut self, out: &mut String) {
        out.push_str(&self.held);
        self.held.clear();
    }

    /// Length of the longest end of the held text that starts some stop string.
    fn longest_start(&self) -> usize {
        let longest = self.stops.iter().map(|s| s.len() - 1).max().unwrap_or(0).min(self.held.len());
        let from = self.held.len() - longest;
        let starts = self.held.as_bytes()[from..].iter().enumerate().map(|(i, _)| from + i);
        let fits = |at: &usize| {
            self.held.is_char_boundary(*at) && self.stops.iter().any(|s| s.starts_with(&self.held[*at..]))
        };
        starts.into_iter().find(fits).map_or(0, |at| self.held.len() - at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stream(pieces: &[&[u8]]) -> String {
        let (mut d, mut out) = (Detokenizer::default(), String::new());
        for p in pieces {
            d.push(p, &mut out);
            assert!(d.tail.len() <= 3);
        }
        d.finish(&mut out);
        out
    }

    #[test]
    fn cut_off_tail_is_flushed() {
        assert_eq!(stream(&[b"a", b"\xf0\x9f", b"\x98"]), "a\u{fffd}");
        assert_eq!(stream(&[b"\xf0\x9f", b"\x98\x80"]), "😀");
        assert_eq!(stream(&[b"\xff\xc3", b"a"]), "\u{fffd}\u{fffd}a");
    }

    fn run(stops: &[&str], pieces: &[&str]) -> (String, Option<usize>) {
        let mut s = StopStrings::new(stops.iter().map(|s| s.to_string()).collect()).unwrap();
        let mut out = String::new();
        for p in pieces {
            if let Stopped::At(i) = s.push(p, &mut out) {
                return (out, Some(i));
            }
        }
        s.finish(&mut out);
        (out, None)
    }

    #[test]
    fn stops_span_pieces() {
        assert_eq!(run(&["User:"], &["Hi\nUs", "er", ": x"]), ("Hi\n".into(), Some(0)));
        assert_eq!(run(&["User:"], &["Us", "Use", "r"]), ("UsUser".into(), None));
        assert_eq!(run(&["abcd", "bc"], &["abcd"]), ("a".into(), Some(1)));
        assert_eq!(run(&["c", "abc"], &["xabc"]), ("x".into(), Some(1)));
        assert_eq!(run(&["é!"], &["caf", "é", "?"]), ("café?".into(), None));
        assert_eq!(run(&[], &["a", "b"]), ("ab".into(), None));
        let e = StopStrings::new(vec![String::new()]).unwrap_err();
        insta::assert_snapshot!(e, @"[stop] a stop string is empty; give at least one character");
    }

    /// Text before the stop string that ends first, the plain way.
    fn plainly(stops: &[String], text: &str) -> String {
        for (end, _) in text.char_indices().map(|(i, c)| (i + c.len_utf8(), c)) {
            let found = stops.iter().filter(|s| text[..end].ends_with(s.as_str())).max_by_key(|s| s.len());
            if let Some(s) = found {
                return text[..end - s.len()].to_string();
            }
        }
        text.to_string()
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_lossy_text(bytes in prop::collection::vec(prop::sample::select(vec![
            0x41u8, 0xc3, 0xa9, 0xf0, 0x9f, 0x98, 0x80, 0xe2, 0x82, 0xac, 0xff, 0xed, 0xa0]), 0..40), cut in 1usize..6) {
            let pieces: Vec<&[u8]> = bytes.chunks(cut).collect();
            prop_assert_eq!(stream(&pieces), String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn any_cut_stops_at_the_same_place(stops in prop::collection::vec("[abé]{1,4}", 0..4), text in "[abcé]{0,30}", cut in 1usize..5) {
            let chars: Vec<char> = text.chars().collect();
            let pieces: Vec<String> = chars.chunks(cut).map(|c| c.iter().collect()).collect();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let stops_ref: Vec<&str> = stops.iter().map(String::as_str).collect();
            prop_assert_eq!(run(&stops_ref, &pieces).0, plainly(&stops, &text));
        }
    }
}
