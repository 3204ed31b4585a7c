//! What the compiler does not check: the floors of core, which crates look at which, where `unsafe`
//! may stand, file sizes, and what must not be in the repository. Each rule is one file; the tables
//! at their heads are the rules, and an exception is a row with a reason.

mod crates;
mod docs;
mod floors;
mod safety;
mod sizes;
mod source;
mod text;

use anyhow::{Context, Result, bail};
use std::fmt;
use std::path::Path;
use std::process::{Command, ExitCode};

/// One file of the repository, with its path relative to the root.
pub(crate) struct File {
    pub path: String,
    pub text: String,
}

/// Something that a rule found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub path: String,
    /// From 1; 0 where the whole file is meant.
    pub line: usize,
    pub rule: &'static str,
    pub text: String,
    /// A note does not fail the check.
    pub note: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {}[{}] {}", if self.note { "note " } else { "" }, self.rule, self.text)
    }
}

/// Where rules put what they find.
#[derive(Default)]
pub(crate) struct Findings(pub Vec<Finding>);

impl Findings {
    fn add(&mut self, path: &str, line: usize, rule: &'static str, text: impl Into<String>) {
        self.0.push(Finding { path: path.into(), line, rule, text: text.into(), note: false });
    }

    fn note(&mut self, path: &str, line: usize, rule: &'static str, text: impl Into<String>) {
        self.0.push(Finding { path: path.into(), line, rule, text: text.into(), note: true });
    }
}

/// Every rule, in the order in which findings are printed.
const RULES: &[fn(&[File], &mut Findings)] =
    &[floors::check, crates::check, safety::check, sizes::check, text::check, docs::check];

pub(crate) fn check(files: &[File]) -> Findings {
    let mut found = Findings::default();
    RULES.iter().for_each(|rule| rule(files, &mut found));
    found
}

/// Checks the repository at `root`, prints what it finds, and fails if anything but notes is among it.
#[allow(clippy::print_stdout)]
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    let files = read(root)?;
    let found = check(&files).0;
    found.iter().for_each(|f| println!("{f}"));
    let bad = found.iter().filter(|f| !f.note).count();
    println!("tidy: {} files, {bad} findings, {} notes", files.len(), found.len() - bad);
    Ok(if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The text files that git tracks, and those it would track if they were added.
fn read(root: &Path) -> Result<Vec<File>> {
    let out = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("git ls-files")?;
    if !out.status.success() {
        bail!("git ls-files in {}: {}", root.display(), String::from_utf8_lossy(&out.stderr).trim());
    }
    let mut files = Vec::new();
    for path in out.stdout.split(|&b| b == 0).filter(|p| !p.is_empty()) {
        let path = String::from_utf8_lossy(path).into_owned();
        // Deleted but not yet committed, or a link to nowhere.
        let Ok(bytes) = std::fs::read(root.join(&path)) else { continue };
        // Binary files have a path to link to and no text to check.
        let text = String::from_utf8(bytes).unwrap_or_default();
        files.push(File { path, text });
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files.dedup_by(|a, b| a.path == b.path);
    Ok(files)
}

#[cfg(test)]
pub(crate) mod testing {
    use super::{File, Findings};

    /// Runs one rule over small files and gives `path:line text` of what it finds, notes left out.
    pub(crate) fn findings(rule: fn(&[File], &mut Findings), files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<File> =
            files.iter().map(|(path, text)| File { path: (*path).into(), text: (*text).into() }).collect();
        let mut found = Findings::default();
        rule(&files, &mut found);
        found.0.iter().filter(|f| !f.note).map(|f| format!("{}:{} {}", f.path, f.line, f.text)).collect()
    }
}
