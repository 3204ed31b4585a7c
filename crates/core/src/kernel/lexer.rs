//! The tokens of a kernel's text, without its comments and strings.

/// What a token is; every character of punctuation is a token of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Word,
    Number,
    Punct(u8),
    /// The end of a preprocessor line.
    DirectiveEnd,
}

/// A token and where it stands, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub kind: Kind,
    pub start: usize,
    pub end: usize,
}

impl Token {
    pub(super) fn text<'a>(&self, source: &'a str) -> &'a str {
        &source[self.start..self.end]
    }
}

fn is_word(c: u8) -> bool {
    c == b'_' || c.is_ascii_alphanumeric() || c >= 0x80
}

/// Splits `source` into tokens. Never fails: what does not end (a comment, a string) runs to the
/// end of the text, and the compiler is the one to complain.
pub(super) fn tokens(source: &str) -> Vec<Token> {
    let s = source.as_bytes();
    let at = |i: usize| s.get(i).copied().unwrap_or(0);
    let mut out = Vec::new();
    let (mut i, mut line_start, mut in_directive) = (0, true, false);
    while i < s.len() {
        let c = s[i];
        match c {
            b'\\' if at(i + 1) == b'\n' => i += 2,
            b'\\' if at(i + 1) == b'\r' && at(i + 2) == b'\n' => i += 3,
            b'\n' => {
                if in_directive {
                    out.push(Token { kind: Kind::DirectiveEnd, start: i, end: i });
                }
                (line_start, in_directive) = (true, false);
                i += 1;
            }
            b' ' | b'\t' | b'\r' => i += 1,
            b'/' if at(i + 1) == b'/' => {
                while i < s.len() && s[i] != b'\n' {
                    i += if s[i] == b'\\' && at(i + 1) == b'\n' { 2 } else { 1 };
                }
                i = i.min(s.len());
            }
            b'/' if at(i + 1) == b'*' => {
                i += 2;
                while i < s.len() && !(s[i] == b'*' && at(i + 1) == b'/') {
                    i += 1;
                }
                i = (i + 2).min(s.len());
            }
            b'"' | b'\'' => {
                i += 1;
                while i < s.len() && s[i] != c && s[i] != b'\n' {
                    i += if s[i] == b'\\' { 2 } else { 1 };
                }
                i = (i + usize::from(at(i) == c)).min(s.len());
                line_start = false;
            }
            _ if c.is_ascii_digit() || (c == b'.' && at(i + 1).is_ascii_digit()) => {
                let start = i;
                while i < s.len() {
                    let exponent =
                        matches!(s[i], b'e' | b'E' | b'p' | b'P') && matches!(at(i + 1), b'+' | b'-');
                    let hex = at(start) == b'0' && matches!(at(start + 1), b'x' | b'X');
                    if exponent && !(hex && matches!(s[i], b'e' | b'E')) {
                        i += 2;
                    } else if is_word(s[i]) || s[i] == b'.' || (s[i] == b'\'' && is_word(at(i + 1))) {
                        i += 1;
                    } else {
                        break;
                    }
                }
                out.push(Token { kind: Kind::Number, start, end: i });
                line_start = false;
            }
            _ if is_word(c) => {
                let start = i;
                while i < s.len() && is_word(s[i]) {
                    i += 1;
                }
                out.push(Token { kind: Kind::Word, start, end: i });
                line_start = false;
            }
            _ => {
                in_directive |= c == b'#' && line_start;
                out.push(Token { kind: Kind::Punct(c), start: i, end: i + 1 });
                line_start = false;
                i += 1;
            }
        }
    }
    out
}

/// True for a C identifier.
pub(super) fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|c| c == b'_' || c.is_ascii_alphabetic())
        && bytes.all(|c| c == b'_' || c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(s: &str) -> Vec<&str> {
        tokens(s).iter().map(|t| t.text(s)).filter(|t| !t.is_empty()).collect()
    }

    #[test]
    fn comments_and_strings_are_no_tokens() {
        assert_eq!(words("a /* b */ c // d\n\"e\\\"f\" g"), ["a", "c", "g"]);
        assert_eq!(words("x=1.5e-3f+0x1F'00-.5;"), ["x", "=", "1.5e-3f", "+", "0x1F'00", "-", ".5", ";"]);
        assert_eq!(words("0x1e-2"), ["0x1e", "-", "2"]);
    }

    #[test]
    fn unfinished_text_ends_quietly() {
        for s in ["/* a", "\"a", "'", "\"a\\", "// a\\", "#", "1e", "\\", "/*", "é\"é"] {
            tokens(s);
        }
    }
}
