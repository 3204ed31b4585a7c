//! How numbers and foreign text look inside a one-line error.

/// Writes a number with thousands separators: 4,120,576.
pub(crate) fn commas(n: impl Into<u128>) -> String {
    let digits = n.into().to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, d) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(d);
    }
    out
}

/// Makes text from a file fit for one line: control characters escaped, cut after 80 characters.
pub(crate) fn shown(text: &str) -> String {
    let mut out = String::new();
    for (i, c) in text.chars().enumerate() {
        if i == 80 {
            out.push('…');
            break;
        }
        match c {
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_in_errors() {
        assert_eq!(commas(0u64), "0");
        assert_eq!(commas(999u64), "999");
        assert_eq!(commas(1000u64), "1,000");
        assert_eq!(commas(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(shown("a\nb\u{1b}[0m"), "a\\nb\\u{1b}[0m");
        assert_eq!(shown(&"é".repeat(99)).chars().count(), 81);
    }
}
