//! The pages that must exist, and links between Markdown files.

use super::{File, Findings};
use std::collections::BTreeSet;

const REQUIRED: &[&str] = &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"];

pub(super) fn check(files: &[File], found: &mut Findings) {
    for page in REQUIRED {
        if !files.iter().any(|f| f.path == *page && !f.text.trim().is_empty()) {
            found.add(page, 0, "docs", "is missing");
        }
    }
    // Files, and the folders they are in.
    let mut paths = BTreeSet::new();
    for f in files {
        let mut path = f.path.as_str();
        paths.insert(path);
        while let Some((folder, _)) = path.rsplit_once('/') {
            paths.insert(folder);
            path = folder;
        }
    }
    for file in files.iter().filter(|f| f.path.ends_with(".md")) {
        for (line, target) in links(&file.text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let path = if path.is_empty() { file.path.clone() } else { resolve(&file.path, path) };
            if !paths.contains(path.as_str()) {
                found.add(&file.path, line, "docs", format!("the link {target} leads nowhere"));
            } else if !anchor.is_empty()
                && let Some(page) = files.iter().find(|f| f.path == path && path.ends_with(".md"))
                && !anchors(&page.text).contains(anchor)
            {
                found.add(&file.path, line, "docs", format!("{path} has no heading #{anchor}"));
            }
        }
    }
}

/// Lines outside code, with their numbers. Code is fenced, or indented by four after an empty line.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let (mut fenced, mut indented, mut blank) = (false, false, true);
    text.lines().enumerate().filter_map(move |(i, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        if line.trim().is_empty() {
            blank = true;
        } else {
            indented = line.starts_with("    ") && (indented || blank);
            blank = false;
        }
        (!fenced && !fence && !indented).then_some((i + 1, line))
    })
}

/// Targets of inline links, with their lines.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut out = Vec::new();
    for (n, line) in prose(text) {
        // Code spans are every second piece; a link whose text is one keeps its second half.
        for piece in line.split('`').step_by(2) {
            for (at, _) in piece.match_indices("](") {
                let target = &piece[at + 2..];
                if let Some(end) = target.find(')') {
                    out.push((n, target[..end].split(' ').next().unwrap_or_default().to_string()));
                }
            }
        }
    }
    out
}

fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            p => parts.push(p),
        }
    }
    parts.join("/")
}

/// What headings are called in links.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings =
        prose(text).map(|(_, l)| l).filter(|l| l.starts_with('#')).map(|l| l.trim_start_matches('#').trim());
    headings
        .map(|h| {
            let kept = h.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.collect::<String>().to_lowercase().replace(' ', "-")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::testing::findings;

    fn pages<'a>(extra: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let mut all = vec![("README.md", "# A b: c\n"), ("ARCHITECTURE.md", "x"), ("CONTRIBUTING.md", "x")];
        all.extend([("CHANGELOG.md", "x"), ("LICENSE", "x")]);
        all.extend(extra);
        all
    }

    #[test]
    fn links_resolve() {
        let good = "[a](../README.md#a-b-c) [`b`](c.md) [w](https://x.y) `[no](nowhere)`\n```\n[no](nowhere)\n```\n[f](../docs)\n\n    a[0](%1)\n\n    [b](c)\n";
        assert!(findings(check, &pages(&[("docs/b.md", good), ("docs/c.md", "")])).is_empty());
        let bad = pages(&[("docs/b.md", "[a](README.md)\n[b](../README.md#no)\n[`c`](d.md)")]);
        assert_eq!(
            findings(check, &bad),
            [
                "docs/b.md:1 the link README.md leads nowhere",
                "docs/b.md:2 README.md has no heading #no",
                "docs/b.md:3 the link d.md leads nowhere"
            ]
        );
    }

    #[test]
    fn pages_must_exist() {
        assert_eq!(findings(check, &[("README.md", "x")]).len(), 4);
    }
}
