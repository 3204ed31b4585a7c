//! Floors of core: a file looks at its own floor and at those below.

use super::source::{Source, paths, test_modules};
use super::{File, Findings};
use std::collections::{BTreeMap, BTreeSet};

const SRC: &str = "crates/core/src/";

/// The modules of each floor, lowest first.
const FLOORS: &[&[&str]] = &[
    &["aval", "dtype", "error", "index", "layout", "number", "options", "quant", "scalar", "shape", "sync"],
    &["api", "array", "kernel", "op"],
    &["graph", "pass", "reference", "transform", "verify"],
    &["backend", "compile", "lower", "plan", "random_key", "runtime"],
];

/// What looks upwards all the same: the file or folder, what it may name, and why.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("array.rs", "backend::Value", "a Ready node holds where its elements are"),
    ("array.rs", "runtime", "reading an array evaluates it, and a Scheduled node names its run"),
    ("api/random.rs", "compile::trace::traced_key", "a draw inside a trace takes the trace's own key"),
    ("reference/", "backend", "the reference interpreter is a backend"),
    ("reference/", "runtime", "init() makes it the device of the process"),
];

fn floor(module: &str) -> Option<usize> {
    FLOORS.iter().position(|f| f.contains(&module))
}

/// Names that lib.rs re-exports, with their modules.
fn reexports(lib: &str) -> BTreeMap<String, String> {
    let code = Source::new(lib).code;
    let mut out = BTreeMap::new();
    // Macros are exported at the root, wherever they are written.
    for name in ["err", "bail"] {
        out.insert(name.to_string(), "error".to_string());
    }
    for statement in code.split(';') {
        let Some(rest) = statement.trim().strip_prefix("pub use ") else { continue };
        for (_, path) in paths(&format!("crate::{}", rest.trim_start_matches("crate::")), "crate") {
            if let (Some((module, _)), Some(name)) = (path.split_once("::"), path.rsplit("::").next()) {
                out.insert(name.to_string(), module.to_string());
            }
        }
    }
    out
}

pub(super) fn check(files: &[File], found: &mut Findings) {
    let lib = files.iter().find(|f| f.path == format!("{SRC}lib.rs"));
    let roots = lib.map(|f| reexports(&f.text)).unwrap_or_default();
    let sources: Vec<(&File, &str, Source)> = files
        .iter()
        .filter_map(|f| {
            let name = f.path.strip_prefix(SRC)?;
            (name.ends_with(".rs") && name != "lib.rs").then(|| (f, name, Source::new(&f.text)))
        })
        .collect();
    let tests: BTreeSet<String> = sources
        .iter()
        .flat_map(|(_, name, s)| {
            let folder = name.strip_suffix("mod.rs").or(name.strip_suffix(".rs")).unwrap_or(name);
            let folder = folder.trim_end_matches('/');
            test_modules(s).into_iter().map(move |m| format!("{folder}/{m}"))
        })
        .collect();
    let mut used = vec![false; EXCEPTIONS.len()];
    for (file, name, source) in &sources {
        let module = name.split(['/', '.']).next().unwrap_or(name);
        let Some(own) = floor(module) else {
            found.add(
                &file.path,
                0,
                "floors",
                format!("module {module} stands on no floor; add it to xtask/src/tidy/floors.rs"),
            );
            continue;
        };
        let stem = name.trim_end_matches(".rs");
        if tests.iter().any(|t| stem == t || stem.starts_with(&format!("{t}/"))) {
            continue;
        }
        let mut named = paths(&source.code, "crate");
        named.extend(upward(&source.code, name));
        named.sort();
        let mut said = BTreeSet::new();
        for (at, path) in named {
            if source.is_test(at) {
                continue;
            }
            let first = path.split("::").next().unwrap_or(&path);
            let target = match floor(first) {
                Some(_) => first,
                None => roots.get(first).map_or("", String::as_str),
            };
            if floor(target).is_none_or(|f| f <= own) {
                continue;
            }
            let exception = EXCEPTIONS.iter().position(|(from, to, _)| {
                (*name == *from || from.ends_with('/') && name.starts_with(from))
                    && (path == *to || path.starts_with(&format!("{to}::")))
            });
            match exception {
                Some(i) => used[i] = true,
                None if said.insert(path.clone()) => {
                    let up = floor(target).unwrap_or(own);
                    found.add(
                        &file.path,
                        source.line_of(at) + 1,
                        "floors",
                        format!("F{own} names crate::{path}, which is on F{up}"),
                    );
                }
                None => {}
            }
        }
    }
    for ((from, to, _), used) in EXCEPTIONS.iter().zip(used) {
        let there = sources.iter().any(|(_, n, _)| n == from || from.ends_with('/') && n.starts_with(from));
        if there && !used {
            found.note(SRC, 0, "floors", format!("the exception {from} -> {to} is not needed any more"));
        }
    }
}

/// Paths that reach a module of the crate through `super`.
fn upward(code: &str, name: &str) -> Vec<(usize, String)> {
    let depth = name.trim_end_matches("/mod.rs").matches('/').count();
    let root = vec!["super"; depth + 1].join("::");
    let from_root = paths(code, &root).into_iter();
    from_root.filter(|(_, p)| floor(p.split("::").next().unwrap_or(p)).is_some()).collect()
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::testing::findings;

    const LIB: (&str, &str) =
        ("crates/core/src/lib.rs", "pub mod a; pub use array::Array; pub use dtype::{Dtype};");

    #[test]
    fn looking_down_is_right() {
        let files = [LIB, ("crates/core/src/plan.rs", "use crate::{Array, Dtype, err, graph::Graph};")];
        assert!(findings(check, &files).is_empty());
    }

    #[test]
    fn looking_up_is_found() {
        let files = [
            LIB,
            ("crates/core/src/shape.rs", "use crate::{Dtype,\n Array};\nfn f() { crate::runtime::eval() }"),
            ("crates/core/src/op/view.rs", "use super::super::graph::Graph;"),
        ];
        assert_eq!(
            findings(check, &files),
            [
                "crates/core/src/shape.rs:1 F0 names crate::Array, which is on F1",
                "crates/core/src/shape.rs:3 F0 names crate::runtime::eval, which is on F3",
                "crates/core/src/op/view.rs:1 F1 names crate::graph::Graph, which is on F2",
            ]
        );
    }

    #[test]
    fn tests_comments_and_exceptions_are_left_out() {
        let files = [
            LIB,
            (
                "crates/core/src/shape.rs",
                "// crate::runtime\n#[cfg(test)]\nmod tests { use crate::runtime; }\n",
            ),
            ("crates/core/src/op/mod.rs", "#[cfg(test)]\nmod more;"),
            ("crates/core/src/op/more.rs", "use crate::runtime;"),
            ("crates/core/src/array.rs", "use crate::backend::Value; use crate::runtime::Run;"),
        ];
        assert!(findings(check, &files).is_empty());
        let files = [LIB, ("crates/core/src/array.rs", "use crate::backend::Spec;")];
        assert_eq!(findings(check, &files).len(), 1);
    }

    #[test]
    fn a_module_must_have_a_floor() {
        assert_eq!(findings(check, &[LIB, ("crates/core/src/helper.rs", "")]).len(), 1);
    }
}
