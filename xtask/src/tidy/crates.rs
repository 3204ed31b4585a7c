//! Which crates look at which, and what a backend may see of core.

use super::source::{Source, paths};
use super::{File, Findings};

/// Folder of each crate, its name, and the crates of ours it may depend on.
const CRATES: &[(&str, &str, &[&str])] = &[
    ("crates/core", "isopace-core", &[]),
    ("crates/cpu", "isopace-cpu", &["isopace-core"]),
    ("crates/cuda", "isopace-cuda", &["isopace-core"]),
    ("crates/isopace", "isopace", &["isopace-core", "isopace-cpu", "isopace-cuda"]),
    ("crates/lm", "isopace-lm", &["isopace"]),
    ("crates/py", "isopace-py", &["isopace-core", "isopace-cpu", "isopace"]),
    ("fuzz", "isopace-fuzz", &["isopace", "isopace-lm"]),
    ("xtask", "xtask", &[]),
];

/// Crates that are backends, and what they must not name of core: they are given avals, layouts and
/// values, never arrays, graphs or plans.
const BACKENDS: &[&str] = &["crates/cpu/src/", "crates/cuda/src/"];
const HIDDEN: &[&str] = &[
    "Array",
    "api",
    "array",
    "compile",
    "graph",
    "lower",
    "pass",
    "plan",
    "random_key",
    "runtime",
    "transform",
];

/// What a backend may name of them all the same: the file, the path, and why.
const EXCEPTIONS: &[(&str, &str, &str)] =
    &[("crates/cpu/src/backend.rs", "runtime", "init() makes the CPU the device of the process")];

pub(super) fn check(files: &[File], found: &mut Findings) {
    for file in files {
        if let Some(folder) = file.path.strip_suffix("/Cargo.toml") {
            manifest(file, folder, found);
        }
        if file.path.ends_with(".rs") && BACKENDS.iter().any(|b| file.path.starts_with(b)) {
            backend(file, found);
        }
    }
}

fn manifest(file: &File, folder: &str, found: &mut Findings) {
    let known = CRATES.iter().find(|c| c.0 == folder);
    let mut dependencies = false;
    for (i, line) in file.text.lines().enumerate() {
        let line = line.trim();
        let mut name = None;
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            dependencies = section.ends_with("dependencies");
            name = section.split_once("dependencies.").map(|s| s.1);
        } else if dependencies {
            name = line.split(['=', '.', ' ']).next();
        }
        let Some(name) = name.map(|n| n.trim_matches('"')).filter(|n| n.starts_with("isopace")) else {
            continue;
        };
        match known {
            None => found.add(&file.path, i + 1, "crates", format!("{folder} is in no table of crates")),
            Some((_, own, allowed)) if !allowed.contains(&name) => {
                let may = if allowed.is_empty() { "none of ours".to_string() } else { allowed.join(", ") };
                found.add(&file.path, i + 1, "crates", format!("{own} depends on {name}; accepted: {may}"));
            }
            Some(_) => {}
        }
    }
}

fn backend(file: &File, found: &mut Findings) {
    let source = Source::new(&file.text);
    for (at, path) in paths(&source.code, "isopace_core") {
        let first = path.split("::").next().unwrap_or(&path);
        let excepted =
            EXCEPTIONS.iter().any(|(f, p, _)| file.path == *f && path.split("::").next() == Some(p));
        if HIDDEN.contains(&first) && !excepted && !source.is_test(at) && !file.path.ends_with("/tests.rs") {
            found.add(
                &file.path,
                source.line_of(at) + 1,
                "crates",
                format!(
                    "a backend names isopace_core::{path}; it is given values, not arrays, graphs or plans"
                ),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::testing::findings;

    #[test]
    fn imports_go_down_only() {
        let down = (
            "crates/lm/Cargo.toml",
            "[package]\nname = \"isopace-lm\"\n[dependencies]\nisopace.workspace = true",
        );
        assert!(findings(check, &[down]).is_empty());
        let up = ("crates/core/Cargo.toml", "[dev-dependencies]\nisopace-cpu = { path = \"../cpu\" }");
        assert_eq!(
            findings(check, &[up]),
            ["crates/core/Cargo.toml:2 isopace-core depends on isopace-cpu; accepted: none of ours"]
        );
        let table = ("crates/lm/Cargo.toml", "[dependencies.isopace-cpu]\npath = \"../cpu\"");
        assert_eq!(findings(check, &[table]).len(), 1);
    }

    #[test]
    fn backends_see_no_arrays() {
        let bad = (
            "crates/cpu/src/a.rs",
            "use isopace_core::{Dtype, Array};\n#[cfg(test)]\nmod tests { use isopace_core::Array; }",
        );
        assert_eq!(findings(check, &[bad]).len(), 1);
        let good = ("crates/cpu/src/a.rs", "use isopace_core::{Dtype, backend::Value};");
        assert!(findings(check, &[good]).is_empty());
    }
}
