//! What must not be in the repository: macros that stop or print, silent skips, and traces of the
//! machine it was written on.

use super::source::Source;
use super::{File, Findings};

/// What may print: the binary, the Python layer, build scripts, and whatever is no library.
const PRINTERS: &[&str] =
    &["crates/lm/src/main.rs", "crates/lm/src/bin/", "crates/lm/src/cli/", "crates/py/src/", "xtask/"];

/// Nobody's.
const UNFINISHED: &[&str] = &["todo", "unimplemented", "dbg"];
const PRINTING: &[&str] = &["println", "print", "eprintln", "eprint"];

/// Cargo writes where crates come from, and this file names what it looks for.
const QUOTES: &[&str] = &["Cargo.lock", "xtask/src/tidy/text.rs"];

const HOSTS: &[&str] = &[
    "crates.io",
    "pypi.org",
    "pypi.python.org",
    "pythonhosted.org",
    "huggingface.co",
    "proxy.golang.org",
    "npmjs.org",
];
const SETTINGS: &[&str] = &["index-url", "index_url", "PIP_INDEX", "replace-with", "find-links"];
const PLACES: &[&str] = &["/root/", "/work/", "/home/"];

pub(super) fn check(files: &[File], found: &mut Findings) {
    for file in files {
        if file.path.ends_with(".rs") {
            rust(file, found);
        }
        if file.path.ends_with(".py") {
            python(file, found);
        }
        if !QUOTES.iter().any(|q| file.path.ends_with(q)) {
            machine(file, found);
        }
        if file.path.contains("/api/") && file.path.ends_with(".rs") && file.path.starts_with("crates/") {
            documented(file, found);
        }
    }
}

fn rust(file: &File, found: &mut Findings) {
    let source = Source::new(&file.text);
    let library = file.path.contains("/src/") && !PRINTERS.iter().any(|p| file.path.starts_with(p));
    let calls = |word: &'static str| {
        source.words(word).filter(|&at| source.code[at + word.len()..].starts_with('!')).collect::<Vec<_>>()
    };
    for word in UNFINISHED {
        for at in calls(word) {
            found.add(&file.path, source.line_of(at) + 1, "text", format!("{word}! is left over"));
        }
    }
    for word in PRINTING {
        for at in calls(word) {
            if library && !source.is_test(at) {
                found.add(
                    &file.path,
                    source.line_of(at) + 1,
                    "text",
                    format!("{word}! in a library; use tracing or return it"),
                );
            }
        }
    }
    for (at, _) in source.code.match_indices("#[ignore]") {
        found.add(
            &file.path,
            source.line_of(at) + 1,
            "text",
            "#[ignore] without a reason; write #[ignore = \"why\"]",
        );
    }
}

fn python(file: &File, found: &mut Findings) {
    for (i, line) in file.text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("@pytest.mark.skip") && !line.contains("reason=") && !line.ends_with('(') {
            found.add(&file.path, i + 1, "text", "a skipped test without reason=");
        }
    }
}

fn machine(file: &File, found: &mut Findings) {
    for (i, line) in file.text.lines().enumerate() {
        for place in PLACES {
            for (at, _) in line.match_indices(place) {
                let before = line[..at].chars().next_back();
                let after = line[at + place.len()..].chars().next();
                let inside = before.is_some_and(|c| c.is_alphanumeric() || "._-~}>)*".contains(c));
                if !inside && (*place != "/home/" || after.is_some_and(char::is_alphanumeric)) {
                    found.add(&file.path, i + 1, "text", format!("{place}... is a path of one machine"));
                }
            }
        }
        for host in HOSTS {
            if line.contains(host) {
                found.add(
                    &file.path,
                    i + 1,
                    "text",
                    format!("{host} is a registry's host; leave it to the client's settings"),
                );
            }
        }
        for setting in SETTINGS {
            if line.contains(setting) {
                found.add(
                    &file.path,
                    i + 1,
                    "text",
                    format!("{setting} is a registry setting of one machine"),
                );
            }
        }
    }
}

fn documented(file: &File, found: &mut Findings) {
    let source = Source::new(&file.text);
    let code: Vec<&str> = source.code.lines().collect();
    let comments: Vec<&str> = source.comments.lines().collect();
    for (i, line) in code.iter().enumerate() {
        let line = line.trim_start();
        let function =
            ["pub fn ", "pub const fn ", "pub unsafe fn "].iter().find_map(|p| line.strip_prefix(p));
        let Some(rest) = function.filter(|_| !source.test_lines[i]) else { continue };
        let above = (0..i).rev().find(|&l| {
            let attribute = code[l].trim_start().starts_with("#[") && !code[l].contains("#[doc");
            !attribute
        });
        let said = above.is_some_and(|l| {
            let c = code[l].trim_start();
            comments[l].trim_start().starts_with("///") || c.starts_with("#[doc") || c.starts_with("$(#[")
        });
        if !said {
            let name: String =
                rest.chars().take_while(|c| c.is_alphanumeric() || "_$".contains(*c)).collect();
            found.add(&file.path, i + 1, "docs", format!("pub fn {name} has no doc comment"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::testing::findings;

    fn found(path: &str, text: &str) -> Vec<String> {
        findings(check, &[(path, text)])
    }

    #[test]
    fn libraries_neither_print_nor_stop() {
        assert_eq!(found("crates/core/src/a.rs", "fn f() { println!(\"x\") }\nfn g() { todo!() }").len(), 2);
        assert_eq!(
            found(
                "crates/core/src/a.rs",
                "/// println!()\n#[cfg(test)]\nmod tests { fn f() { println!() } }"
            )
            .len(),
            0
        );
        assert_eq!(found("crates/core/examples/a.rs", "fn main() { println!() }").len(), 0);
        assert_eq!(found("crates/lm/src/main.rs", "fn main() { println!(); dbg!(1) }").len(), 1);
        assert_eq!(found("crates/core/src/a.rs", "writeln!(f)?; my_println!()").len(), 0);
    }

    #[test]
    fn skips_give_reasons() {
        assert_eq!(found("a/tests/b.rs", "#[ignore]\nfn f() {}\n#[ignore = \"slow\"]\nfn g() {}").len(), 1);
        assert_eq!(
            found("t.py", "@pytest.mark.skip\n@pytest.mark.skip(reason=\"x\")\n@pytest.mark.skipif(a)").len(),
            2
        );
    }

    #[test]
    fn machines_leave_no_trace() {
        let root = ["see /ro", "ot/x"].concat();
        let home = ["see \"/ho", "me/ann/x\""].concat();
        let host = ["from py", "pi.org"].concat();
        assert_eq!(found("a.md", &root).len(), 1);
        assert_eq!(found("a.md", &home).len(), 1);
        assert_eq!(found("a.md", &host).len(), 1);
        assert_eq!(found("a.md", "a/work/b and ~/home/x and $ROOT/root/y}/work/").len(), 0);
        assert_eq!(found("a.md", "crates/work/src, ../work/x").len(), 0);
    }

    #[test]
    fn public_functions_are_documented() {
        let path = "crates/core/src/api/a.rs";
        assert_eq!(
            found(path, "/// Adds.\n#[inline]\npub fn add() {}\npub(crate) fn b() {}"),
            [] as [String; 0]
        );
        assert_eq!(
            found(path, "fn a() {}\npub fn add() {}"),
            ["crates/core/src/api/a.rs:2 pub fn add has no doc comment"]
        );
        assert!(found(path, "#[doc = $doc]\npub fn $name() {}").is_empty());
    }
}
