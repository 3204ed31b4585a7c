//! Sizes of source files: aim at 500 lines, at most 900.

use super::{File, Findings};

const AIM: usize = 500;
const MOST: usize = 900;

/// Tables may be as long as what they list: the file, and what it is a table of.
const TABLES: &[(&str, &str)] =
    &[("crates/py/src/array.rs", "the methods of the array class, which PyO3 takes in one block")];

pub(super) fn check(files: &[File], found: &mut Findings) {
    for file in files {
        let code = [".rs", ".py", ".h", ".cu", ".sh"].iter().any(|e| file.path.ends_with(e));
        if !code || TABLES.iter().any(|(p, _)| file.path == *p) {
            continue;
        }
        let lines = file.text.lines().count();
        if lines > MOST {
            found.add(&file.path, 0, "size", format!("{lines} lines, more than {MOST}"));
        } else if lines > AIM {
            found.note(&file.path, 0, "size", format!("{lines} lines, more than {AIM}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::testing::findings;

    #[test]
    fn long_files_are_found() {
        let long = "x\n".repeat(901);
        assert_eq!(
            findings(check, &[("a.rs", &long), ("b.md", &long), ("c.rs", "x\n")]),
            ["a.rs:0 901 lines, more than 900"]
        );
    }
}
