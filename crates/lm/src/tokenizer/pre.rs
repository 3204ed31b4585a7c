//! Pre-tokenizers: how byte-level models cut text into words before merging. One row a family.

use isopace::{Result, err};
use regex::Regex;
use std::ops::Range;

/// How one family of models pre-tokenizes.
pub(super) struct Pre {
    names: &'static [&'static str],
    /// Applied in turn, each to the pieces the one before left: matches and the gaps between them. Where one has
    /// [`LAST_SPACE`], a run of white space leaves its last character to the word behind it.
    pub patterns: &'static [&'static str],
    /// A word that is a token as a whole is not merged step by step.
    pub ignore_merges: bool,
    /// Prompts start with the beginning-of-sequence token unless the file says otherwise.
    pub add_bos: bool,
}

/// The pattern of GPT-2: contractions, then letters, digits or signs with one space before them.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)";
/// Llama 3: numbers in groups of up to three digits.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Qwen 2: as Llama 3, but each digit alone.
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Mistral's Tekken: words also end where lower case turns to upper.
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// GPT-4o: as Tekken with contractions kept on their word and digits in threes.
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Chinese characters, Hangul and their neighbours, as DeepSeek's first models keep them apart.
const DEEPSEEK_CJK: &str = "[一-龥ࠀ-一가-퟿]+";
/// DeepSeek V3: words with marks, signs glued to the letters after them.
const DEEPSEEK_V3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;

static TABLE: [Pre; 12] = [
    Pre {
        names: &["default", "falcon"],
        patterns: &[r"[\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"],
        ignore_merges: false,
        add_bos: false,
    },
    Pre {
        names: &["gpt-2", "gpt2", "mpt", "olmo", "jais", "phi-2", "gigachat", "roberta-bpe"],
        patterns: &[GPT2],
        ignore_merges: false,
        add_bos: false,
    },
    Pre {
        names: &["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"],
        patterns: &[r"\p{N}", GPT2],
        ignore_merges: false,
        add_bos: false,
    },
    Pre {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "lfm2"],
        patterns: &[LLAMA3],
        ignore_merges: true,
        add_bos: true,
    },
    Pre {
        names: &["dbrx", "smaug-bpe", "chatglm-bpe", "glm4"],
        patterns: &[LLAMA3],
        ignore_merges: false,
        add_bos: false,
    },
    Pre {
        names: &["qwen2", "stablelm2", "deepseek-r1-qwen", "hunyuan", "megrez"],
        patterns: &[QWEN2],
        ignore_merges: false,
        add_bos: false,
    },
    Pre { names: &["tekken", "mistral"], patterns: &[TEKKEN], ignore_merges: true, add_bos: true },
    Pre { names: &["gpt-4o", "llama4", "o200k"], patterns: &[GPT4O], ignore_merges: false, add_bos: false },
    Pre {
        names: &["deepseek-llm"],
        // Cased letters of any script, then signs in ASCII, full width and general punctuation.
        patterns: &[
            r"[\r\n]",
            r"\s?[\p{Lu}\p{Ll}\p{Lt}]+",
            r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
            r"\s+$",
            DEEPSEEK_CJK,
            r"\p{N}+",
        ],
        ignore_merges: false,
        add_bos: true,
    },
    Pre {
        names: &["deepseek-coder"],
        patterns: &[r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", DEEPSEEK_CJK, r"\p{N}"],
        ignore_merges: false,
        add_bos: true,
    },
    Pre {
        names: &["deepseek-v3", "hunyuan-dense"],
        patterns: &[r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK_V3],
        ignore_merges: false,
        add_bos: true,
    },
    Pre {
        names: &["bloom", "poro-chat", "gpt3-finnish"],
        patterns: &[r" ?[^(\s|.,!?…。，、।۔،)]+"],
        ignore_merges: false,
        add_bos: false,
    },
];

/// The row of a pre-tokenizer's name.
pub(super) fn find(name: &str) -> Option<&'static Pre> {
    TABLE.iter().find(|p| p.names.contains(&name))
}

/// Every name, in the table's order.
pub(super) fn known() -> Vec<&'static str> {
    TABLE.iter().flat_map(|p| p.names.iter().copied()).collect()
}

/// White space that is not followed by a word.
const LAST_SPACE: &str = r"\s+(?!\S)";

/// A pattern, compiled. A look ahead would need a matcher that backtracks, whose stack a long enough text exhausts:
/// the pattern takes white space as a whole, and what the look ahead would leave is given back here.
struct Pattern {
    regex: Regex,
    gives_back: bool,
    /// White space up to the end of a line is matched on its own, and kept whole.
    lines: bool,
}

impl Pattern {
    fn new(text: &str) -> Result<Pattern> {
        let plain = text.replace(&format!(r"{LAST_SPACE}|\s+"), r"\s+").replace(LAST_SPACE, r"\s+");
        let regex = Regex::new(&plain).map_err(|e| err!(Internal, "[tokenizer] pattern {text}: {e}"))?;
        let lines = text.contains(r"\s*[\r\n]+");
        Ok(Pattern { regex, gives_back: text.contains(LAST_SPACE), lines })
    }

    /// The next match in `text` from byte `at` on.
    fn find(&self, text: &str, at: usize) -> Option<Range<usize>> {
        let found = self.regex.find_at(text, at)?;
        let mut chars = found.as_str().chars();
        let last = chars.next_back().filter(|_| self.gives_back && found.end() < text.len());
        let white = |c: char| c.is_whitespace() && !(self.lines && matches!(c, '\r' | '\n'));
        match last {
            Some(last) if white(last) && chars.clone().next().is_some() && chars.all(white) => {
                Some(found.start()..found.end() - last.len_utf8())
            }
            _ => Some(found.range()),
        }
    }
}

/// A family's patterns, compiled.
pub(super) struct Splitter(Vec<Pattern>);

impl Splitter {
    pub(super) fn new(patterns: &[&str]) -> Result<Splitter> {
        patterns.iter().map(|p| Pattern::new(p)).collect::<Result<_>>().map(Splitter)
    }

    /// Calls `word` with each piece of the text in turn; together they are the text.
    pub(super) fn split(&self, text: &str, word: impl FnMut(&str)) {
        let mut pieces: Vec<_> = std::iter::once(0..text.len()).collect();
        for pattern in &self.0 {
            let mut finer = Vec::with_capacity(pieces.len());
            for piece in pieces {
                let mut at = piece.start;
                while let Some(found) = pattern.find(&text[piece.clone()], at - piece.start) {
                    let range = piece.start + found.start..piece.start + found.end;
                    if range.start > at {
                        finer.push(at..range.start);
                    }
                    at = range.end;
                    finer.push(range);
                }
                if at < piece.end {
                    finer.push(at..piece.end);
                }
            }
            pieces = finer;
        }
        pieces.into_iter().map(|p| &text[p]).for_each(word);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(name: &str, text: &str) -> String {
        let mut out = Vec::new();
        let splitter = Splitter::new(find(name).unwrap().patterns).unwrap();
        splitter.split(text, |w| out.push(w.to_string()));
        format!("{out:?}")
    }

    #[test]
    fn every_family_compiles_and_names_are_unique() {
        for splitter in TABLE.iter().map(|p| Splitter::new(p.patterns).unwrap()) {
            assert!(
                splitter.0.iter().all(|p| !p.regex.is_match("")),
                "a match of nothing would be found for ever"
            );
        }
        let names = known();
        assert_eq!(names.iter().collect::<std::collections::HashSet<_>>().len(), names.len());
    }

    #[test]
    fn how_families_differ() {
        let text = "I'll pay 12345 €\n\n  nowCamel";
        insta::assert_snapshot!(words("gpt-2", text), @r#"["I", "'ll", " pay", " 12345", " €", "\n\n ", " nowCamel"]"#);
        insta::assert_snapshot!(words("smollm", text), @r#"["I", "'ll", " pay", " ", "1", "2", "3", "4", "5", " €", "\n\n ", " nowCamel"]"#);
        insta::assert_snapshot!(words("llama-bpe", text), @r#"["I", "'ll", " pay", " ", "123", "45", " €\n\n", " ", " nowCamel"]"#);
        insta::assert_snapshot!(words("qwen2", text), @r#"["I", "'ll", " pay", " ", "1", "2", "3", "4", "5", " €\n\n", " ", " nowCamel"]"#);
        insta::assert_snapshot!(words("tekken", text), @r#"["I", "'ll", " pay", " ", "1", "2", "3", "4", "5", " €\n\n", " ", " now", "Camel"]"#);
        insta::assert_snapshot!(words("gpt-4o", text), @r#"["I'll", " pay", " ", "123", "45", " €\n\n", " ", " now", "Camel"]"#);
        insta::assert_snapshot!(words("default", text), @r#"["I", "'", "ll", " pay", " ", "123", "45", " €", "\n\n ", " nowCamel"]"#);
    }

    #[test]
    fn long_runs_do_not_exhaust_the_matcher() {
        for p in &TABLE {
            let splitter = Splitter::new(p.patterns).unwrap();
            for c in [" ", "a", "\n", "1", "!", "中"] {
                let text = c.repeat(3_000_000 / c.len()) + "a";
                let mut bytes = 0;
                splitter.split(&text, |w| bytes += w.len());
                assert_eq!(bytes, text.len(), "{}, {c:?}", p.names[0]);
            }
        }
    }

    /// The words of a matcher that knows look aheads.
    fn words_by_look_ahead(patterns: &[fancy_regex::Regex], text: &str) -> Vec<String> {
        let mut pieces = vec![text.to_string()];
        for regex in patterns {
            let mut finer = Vec::new();
            for piece in &pieces {
                let mut at = 0;
                for m in regex.find_iter(piece).map(|m| m.unwrap()).filter(|m| !m.as_str().is_empty()) {
                    finer.extend([&piece[at..m.start()], m.as_str()].map(str::to_string));
                    at = m.end();
                }
                finer.push(piece[at..].to_string());
            }
            pieces = finer.into_iter().filter(|p| !p.is_empty()).collect();
        }
        pieces
    }

    #[test]
    fn words_are_those_of_the_patterns() {
        let both = |p: &Pre| {
            let fancy = p.patterns.iter().map(|p| fancy_regex::Regex::new(p).unwrap()).collect::<Vec<_>>();
            (Splitter::new(p.patterns).unwrap(), fancy)
        };
        let all: Vec<_> = TABLE.iter().map(both).collect();
        let text = "\\PC{0,40}|[ \\n\\r\\t\u{a0}\u{3000}aB'l1!é中]{0,40}";
        proptest!(|(text in text)| {
            for (splitter, fancy) in &all {
                let mut out = Vec::new();
                splitter.split(&text, |w| out.push(w.to_string()));
                prop_assert_eq!(out, words_by_look_ahead(fancy, &text));
            }
        });
    }
}
