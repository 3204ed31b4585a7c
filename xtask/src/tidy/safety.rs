//! Where `unsafe` may stand, and that each use says why it is sound.

use super::source::Source;
use super::{File, Findings};

/// Files that may contain `unsafe`, and what for. A folder ends with a slash.
const ALLOWED: &[(&str, &str)] = &[
    ("crates/isopace/tests/allocations.rs", "an allocator that counts"),
    ("crates/cpu/benches/kernels.rs", "calls kernels below their checked constructors"),
    ("crates/cpu/src/buffer.rs", "aligned allocations and memory maps as slices"),
    ("crates/cpu/src/custom/module.rs", "loads compiled modules and looks up their entry points"),
    ("crates/cpu/src/custom/run.rs", "calls a module's entry point with pointers"),
    ("crates/cpu/src/isa.rs", "calls functions of an instruction set that was found at run time"),
    ("crates/cpu/src/kernels/attention.rs", "rows of a result written by several threads"),
    ("crates/cpu/src/kernels/gemv.rs", "rows of a result written by several threads"),
    ("crates/cpu/src/kernels/matmul.rs", "calls gemm on strided views that were checked"),
    ("crates/cpu/src/kernels/reduce.rs", "strips of a result written by several threads"),
    ("crates/cpu/src/kernels/quant/tile.rs", "SIMD intrinsics"),
    ("crates/cpu/src/pool.rs", "lends a closure to worker threads for the length of a call"),
    ("crates/cpu/src/simd/lanes.rs", "SIMD intrinsics"),
    ("crates/cpu/src/steps/custom.rs", "hands a kernel its arguments as pointers"),
    ("crates/cpu/src/steps/reduce.rs", "strips of a result written by several threads"),
    ("crates/cpu/src/vm/chain.rs", "calls functions of an instruction set that was found at run time"),
    ("crates/cpu/src/vm/exec.rs", "blocks of a result written by several threads"),
    ("crates/cpu/src/vm/float.rs", "loops with the contract of `OpFn`"),
    ("crates/cpu/src/vm/generic.rs", "calls functions of an instruction set that was found at run time"),
    ("crates/cpu/src/vm/ops.rs", "calls functions of an instruction set that was found at run time"),
    ("crates/cpu/tests/custom/", "typed operands as plain bytes"),
    ("crates/py/src/array.rs", "the buffer slots of the array class"),
    ("crates/py/src/buffer.rs", "the buffer protocol and DLPack"),
    ("crates/py/src/eval.rs", "the handler that lets Ctrl-C end an evaluation"),
    ("crates/py/src/raw.rs", "cells guarded by the GIL, values of ints, texts of strings"),
];

/// Crates whose root must forbid it.
const FORBIDDEN: &[&str] =
    &["crates/core/src/lib.rs", "crates/isopace/src/lib.rs", "crates/lm/src/lib.rs", "xtask/src/main.rs"];

pub(super) fn check(files: &[File], found: &mut Findings) {
    for file in files.iter().filter(|f| f.path.ends_with(".rs")) {
        if FORBIDDEN.contains(&file.path.as_str()) && !file.text.contains("#![forbid(unsafe_code)]") {
            found.add(&file.path, 0, "unsafe", "the crate must begin with #![forbid(unsafe_code)]");
        }
        let source = Source::new(&file.text);
        let code: Vec<&str> = source.code.lines().collect();
        let comments: Vec<&str> = source.comments.lines().collect();
        let mut any = false;
        let allowed =
            ALLOWED.iter().any(|(p, _)| file.path == *p || p.ends_with('/') && file.path.starts_with(p));
        for at in source.words("unsafe") {
            let kind = kind(&source.code[at + 6..]);
            if kind == Kind::Pointer {
                continue;
            }
            let line = source.line_of(at);
            if !any && !allowed {
                found.add(
                    &file.path,
                    line + 1,
                    "unsafe",
                    "unsafe outside the files listed in xtask/src/tidy/safety.rs",
                );
            }
            any = true;
            if !explained(&code, &comments, line, kind) {
                let wanted = if kind == Kind::Function {
                    "a `# Safety` section or a SAFETY comment"
                } else {
                    "a SAFETY comment"
                };
                found.add(&file.path, line + 1, "unsafe", format!("{wanted} must stand directly above"));
            }
        }
        if !any && ALLOWED.iter().any(|(p, _)| file.path == *p) {
            found.note(&file.path, 0, "unsafe", "is listed for unsafe and has none");
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A block, an impl, an extern block or an attribute: it claims something.
    Claim,
    /// A function or a trait: it asks something of its user.
    Function,
    /// A function pointer's type: neither.
    Pointer,
}

fn kind(after: &str) -> Kind {
    let words: String = after.chars().take(80).collect();
    let rest = words.trim_start();
    let rest = match rest.strip_prefix("extern") {
        // `extern "C" fn`, its literal blanked; a block of foreign items is a claim.
        Some(r) => r.trim_start_matches([' ', '"', 'C']),
        None => rest,
    };
    match rest.strip_prefix("fn") {
        Some(r) if r.trim_start().starts_with('(') => Kind::Pointer,
        Some(r) if r.starts_with(char::is_whitespace) => Kind::Function,
        _ if rest.starts_with("trait") => Kind::Function,
        _ => Kind::Claim,
    }
}

/// Looks for the comment on the line itself, then above: over attributes, and over the lines of the
/// same statement.
fn explained(code: &[&str], comments: &[&str], line: usize, kind: Kind) -> bool {
    let says = |l: usize| {
        comments[l].contains("SAFETY:") || kind == Kind::Function && comments[l].contains("# Safety")
    };
    if says(line) {
        return true;
    }
    let mut l = line;
    let mut statement = 0;
    while l > 0 {
        l -= 1;
        let (c, comment) = (code[l].trim(), comments[l].trim());
        if c.is_empty() && !comment.is_empty() {
            if says(l) {
                return true;
            }
        } else if c.starts_with("#[") || c.ends_with(")]") && c.contains("target_feature") {
            // An attribute.
        } else if !c.is_empty() && !c.ends_with([';', '{', '}', ',']) && statement < 4 {
            statement += 1;
        } else {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::testing::findings;

    const PATH: &str = "crates/cpu/src/pool.rs";

    fn found(text: &str) -> usize {
        findings(check, &[(PATH, text)]).len()
    }

    #[test]
    fn a_block_needs_its_comment_directly_above() {
        assert_eq!(found("fn f() {\n    // SAFETY: the caller holds the lock.\n    unsafe { g() }\n}"), 0);
        assert_eq!(found("// SAFETY: no.\nlet x = 1;\nunsafe { g() }"), 1);
        assert_eq!(found("unsafe { g() }"), 1);
        assert_eq!(
            found("// SAFETY: two lines,\n// of which this is the second.\nlet x =\n    unsafe { g() };"),
            0
        );
        assert_eq!(found("unsafe { g() } // SAFETY: right here."), 0);
    }

    #[test]
    fn functions_impls_and_pointers() {
        assert_eq!(
            found("/// Does.\n///\n/// # Safety\n/// The pointer is valid.\n#[inline]\npub unsafe fn f() {}"),
            0
        );
        assert_eq!(found("/// Does.\nunsafe fn f() {}"), 1);
        assert_eq!(found("unsafe impl Send for A {}"), 1);
        assert_eq!(found("// SAFETY: it is never shared.\nunsafe impl Send for A {}"), 0);
        assert_eq!(found("type F = unsafe fn(*const u8);\ntype G = unsafe extern \"C\" fn(u32);"), 0);
        assert_eq!(found("// nothing unsafe here\nlet s = \"unsafe\"; #[deny(unsafe_code)]"), 0);
    }

    #[test]
    fn files_are_listed() {
        let text = "// SAFETY: sound.\nunsafe { g() }";
        assert_eq!(findings(check, &[("crates/py/src/a.rs", text)]).len(), 1);
        assert_eq!(findings(check, &[("crates/core/src/lib.rs", "mod a;")]).len(), 1);
    }
}
