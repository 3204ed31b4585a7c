//! Rust text as the rules see it: comments and literals blanked, test code marked, `use` trees spelled out.

/// A Rust file split into what is code and what is comment. Both have the file's length and lines.
pub(crate) struct Source {
    /// Comments and the insides of literals are spaces.
    pub code: String,
    /// Everything but comments is spaces.
    pub comments: String,
    /// For each line: it belongs to an item under `#[cfg(test)]`.
    pub test_lines: Vec<bool>,
}

impl Source {
    pub(crate) fn new(text: &str) -> Source {
        let (code, comments) = split(text);
        let test_lines = test_lines(&code);
        Source { code, comments, test_lines }
    }

    /// The line, from 0, of a position.
    pub(crate) fn line_of(&self, at: usize) -> usize {
        self.code[..at].bytes().filter(|&b| b == b'\n').count()
    }

    /// True when the position is in an item under `#[cfg(test)]`.
    pub(crate) fn is_test(&self, at: usize) -> bool {
        self.test_lines.get(self.line_of(at)).copied().unwrap_or(false)
    }

    /// Positions of a word in the code.
    pub(crate) fn words<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        words(&self.code, word)
    }
}

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

/// Positions of a word in a text.
pub(crate) fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let bytes = text.as_bytes();
        let before = at.checked_sub(1).map(|i| bytes[i]);
        let after = bytes.get(at + word.len());
        !before.is_some_and(is_word) && !after.is_some_and(|&b| is_word(b))
    })
}

fn split(text: &str) -> (String, String) {
    let b = text.as_bytes();
    let mut code = vec![b' '; b.len()];
    let mut comments = vec![b' '; b.len()];
    let mut i = 0;
    let starts = |i: usize, s: &str| b[i..].starts_with(s.as_bytes());
    while i < b.len() {
        if starts(i, "//") {
            let end = b[i..].iter().position(|&c| c == b'\n').map_or(b.len(), |n| i + n);
            comments[i..end].copy_from_slice(&b[i..end]);
            i = end;
        } else if starts(i, "/*") {
            let (mut depth, mut j) = (0, i);
            while j < b.len() {
                if starts(j, "/*") {
                    depth += 1;
                    j += 2;
                } else if starts(j, "*/") {
                    depth -= 1;
                    j += 2;
                    if depth == 0 {
                        break;
                    }
                } else {
                    j += 1;
                }
            }
            let j = j.min(b.len());
            comments[i..j].copy_from_slice(&b[i..j]);
            i = j;
        } else if let Some((open, close)) = string_at(b, i) {
            code[i..open].copy_from_slice(&b[i..open]);
            let end = string_end(b, open, &close);
            let close_at = end.saturating_sub(close.len()).max(open);
            code[close_at..end].copy_from_slice(&b[close_at..end]);
            i = end;
        } else if b[i] == b'\'' {
            let end = char_end(b, i);
            code[i] = b'\'';
            code[end - 1] = b[end - 1];
            i = end;
        } else {
            code[i] = b[i];
            i += 1;
            // A word is copied whole, so that the r of `for"` starts no string.
            while is_word(code[i - 1]) && i < b.len() && is_word(b[i]) {
                code[i] = b[i];
                i += 1;
            }
        }
    }
    for (i, &c) in b.iter().enumerate() {
        if c == b'\n' {
            code[i] = c;
            comments[i] = c;
        }
    }
    // Only whole characters were copied or blanked byte by byte.
    (String::from_utf8_lossy(&code).into_owned(), String::from_utf8_lossy(&comments).into_owned())
}

/// A string literal that starts at `i`: where its inside starts, and what closes it.
fn string_at(b: &[u8], i: usize) -> Option<(usize, Vec<u8>)> {
    let mut j = i;
    while j < b.len() && j < i + 2 && matches!(b[j], b'b' | b'c' | b'r') {
        j += 1;
    }
    let raw = b[i..j].contains(&b'r');
    let hashes = if raw { b[j..].iter().take_while(|&&c| c == b'#').count() } else { 0 };
    if b.get(j + hashes) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.extend(std::iter::repeat_n(b'#', hashes));
    if !raw {
        close.push(b'\\'); // marks that escapes count; taken off below
    }
    Some((j + hashes + 1, close))
}

fn string_end(b: &[u8], open: usize, close: &[u8]) -> usize {
    let escapes = close.last() == Some(&b'\\');
    let close = close.strip_suffix(b"\\").unwrap_or(close);
    let mut j = open;
    while j < b.len() {
        if escapes && b[j] == b'\\' {
            j += 2;
        } else if b[j..].starts_with(close) {
            return j + close.len();
        } else {
            j += 1;
        }
    }
    b.len()
}

/// The end of a character literal, or just past the quote of a lifetime.
fn char_end(b: &[u8], i: usize) -> usize {
    if b.get(i + 1) == Some(&b'\\') {
        let close = b.iter().skip(i + 3).position(|&c| c == b'\'');
        return close.map_or(b.len(), |n| i + 3 + n + 1);
    }
    // One character, of up to four bytes, then a quote.
    let len = match b.get(i + 1) {
        Some(c) if *c >= 0xf0 => 4,
        Some(c) if *c >= 0xe0 => 3,
        Some(c) if *c >= 0xc0 => 2,
        _ => 1,
    };
    if b.get(i + 1 + len) == Some(&b'\'') { i + len + 2 } else { i + 1 }
}

/// The position just past the bracket that closes the one at `open`.
pub(crate) fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0;
    for (i, c) in code.bytes().enumerate().skip(open) {
        match c {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return i + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}

fn test_lines(code: &str) -> Vec<bool> {
    let mut marks = vec![false; code.lines().count()];
    if code.contains("#![cfg(test)]") {
        marks.fill(true);
    }
    let line_of = |at: usize| code[..at].bytes().filter(|&b| b == b'\n').count();
    for (at, _) in code.match_indices("#[cfg(") {
        let end = closing(code, at + 1);
        if words(&code[at..end], "test").next().is_none() || code[at..end].contains("not(test)") {
            continue;
        }
        let item_end = item_end(code, end);
        let last = line_of(item_end.saturating_sub(1));
        marks.iter_mut().take(last + 1).skip(line_of(at)).for_each(|m| *m = true);
    }
    marks
}

/// The end of the item that starts at or after `from`: its semicolon or the end of its block.
fn item_end(code: &str, from: usize) -> usize {
    let mut i = from;
    while let Some(c) = code.as_bytes().get(i) {
        match c {
            b';' | b',' => return i + 1,
            b'{' => return closing(code, i),
            b'(' | b'[' => i = closing(code, i),
            _ => i += 1,
        }
    }
    code.len()
}

/// Modules that a file declares under `#[cfg(test)]` in files of their own.
pub(crate) fn test_modules(source: &Source) -> Vec<String> {
    let declared = source.words("mod").filter(|&at| source.is_test(at)).filter_map(|at| {
        let rest = source.code[at + 3..].trim_start();
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        rest[name.len()..].trim_start().starts_with(';').then_some(name)
    });
    declared.collect()
}

/// Every path that starts with `root::` (such as `crate::`), each leaf of a `use` tree by itself, with
/// its position. The root is not part of the path.
pub(crate) fn paths(code: &str, root: &str) -> Vec<(usize, String)> {
    let mut out = Vec::new();
    for at in words(code, root) {
        if let Some(rest) = code[at + root.len()..].strip_prefix("::") {
            tree(rest, "", at, &mut out);
        }
    }
    out
}

/// Spells out a `use` tree and gives what follows it.
fn tree<'a>(text: &'a str, prefix: &str, at: usize, out: &mut Vec<(usize, String)>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut inside) = text.strip_prefix('{') {
        loop {
            inside = inside.trim_start();
            if let Some(rest) = inside.strip_prefix('}') {
                return rest;
            }
            if let Some(rest) = inside.strip_prefix(',') {
                inside = rest;
                continue;
            }
            let before = inside.len();
            inside = tree(inside, prefix, at, out);
            if inside.len() == before {
                return inside; // not a use tree after all
            }
        }
    }
    let len = text.bytes().take_while(|&b| is_word(b)).count();
    let (name, mut rest) = text.split_at(len);
    if name.is_empty() {
        if let Some(rest) = text.strip_prefix('*') {
            out.push((at, prefix.trim_end_matches("::").to_string()));
            return rest;
        }
        return text;
    }
    if let Some(r) = rest.strip_prefix("::") {
        let r = r.trim_start();
        // A turbofish ends the path.
        if !r.starts_with('<') {
            return tree(r, &format!("{prefix}{name}::"), at, out);
        }
    }
    let path =
        if name == "self" { prefix.trim_end_matches("::").to_string() } else { format!("{prefix}{name}") };
    out.push((at, path));
    let trimmed = rest.trim_start();
    if let Some(r) = trimmed.strip_prefix("as ") {
        let r = r.trim_start();
        rest = &r[r.bytes().take_while(|&b| is_word(b)).count()..];
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blank() {
        let s = Source::new(
            "let a = \"unsafe // no\"; // unsafe\nlet b = r#\"un\"safe\"#; /* /* x */ unsafe */ f('\"', '\\'', 'a)",
        );
        assert_eq!(s.words("unsafe").count(), 0);
        assert!(s.comments.contains("// unsafe") && s.comments.contains("unsafe */"));
        assert!(s.code.contains("f('") && s.code.ends_with("'a)"));
        assert_eq!(s.code.lines().count(), 2);
    }

    #[test]
    fn lifetimes_and_multibyte_characters_are_told_apart() {
        let s = Source::new("fn f<'a>(x: &'a str) { g('é', 'x'); unsafe {} }");
        assert_eq!(s.words("unsafe").count(), 1);
        assert!(s.code.contains("fn f<'a>(x: &'a str)"));
    }

    #[test]
    fn test_items_are_marked() {
        let s = Source::new(
            "use a;\n#[cfg(test)]\nmod tests {\n  use b;\n}\nfn f() {}\n#[cfg(not(test))]\nfn g() {}\n#[cfg(test)]\nmod more;\n",
        );
        assert_eq!(s.test_lines, [false, true, true, true, true, false, false, false, true, true]);
        assert_eq!(test_modules(&s), ["more"]);
    }

    #[test]
    fn use_trees_are_spelled_out() {
        let code =
            "use crate::{Aval, op::{self, view::view as v, scalar_ops::*}}; crate::compile::trace::f::<T>();";
        let all: Vec<_> = paths(code, "crate").into_iter().map(|p| p.1).collect();
        assert_eq!(all, ["Aval", "op", "op::view::view", "op::scalar_ops", "compile::trace::f"]);
    }
}
