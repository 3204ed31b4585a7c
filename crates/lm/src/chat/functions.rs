//! What templates may call beyond the engine's own functions.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::value::Kwargs;
use minijinja::{Environment, Error, ErrorKind, Value};

/// Marks an error that the template raised on purpose.
#[derive(Debug)]
struct Refusal;

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("raised by the template")
    }
}

impl std::error::Error for Refusal {}

/// True for an error that the template raised on purpose.
pub(super) fn is_refusal(e: &Error) -> bool {
    std::error::Error::source(e).is_some_and(|s| s.is::<Refusal>())
}

pub(super) fn add_to(env: &mut Environment<'static>) {
    env.add_function("raise_exception", |why: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, why).with_source(Refusal))
    });
    env.add_function("strftime_now", |format: &str| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        strftime(format, now)
    });
    env.add_filter("tojson", |value: Value, kwargs: Kwargs| -> Result<Value, Error> {
        let indent: Option<usize> = kwargs.get("indent")?;
        // Accepted and without effect: text is never escaped to ASCII here, and keys keep their order.
        let _: Option<bool> = kwargs.get("ensure_ascii")?;
        let _: Option<bool> = kwargs.get("sort_keys")?;
        kwargs.assert_all_used()?;
        let json = serde_json::to_value(&value)
            .map_err(|e| Error::new(ErrorKind::BadSerialization, "the value is no JSON").with_source(e))?;
        let mut out = String::new();
        write_json(&json, indent.map(|n| n.min(16)), 0, &mut out);
        Ok(Value::from_safe_string(out))
    });
}

/// Writes JSON with the blanks that Python's json.dumps puts, which models have seen in training.
fn write_json(v: &serde_json::Value, indent: Option<usize>, depth: usize, out: &mut String) {
    let line = |out: &mut String, depth: usize| {
        if let Some(n) = indent {
            out.push('\n');
            out.push_str(&" ".repeat(n * depth));
        }
    };
    let comma = if indent.is_some() { "," } else { ", " };
    let (open, close, empty) = match v {
        serde_json::Value::Array(a) => ('[', ']', a.is_empty()),
        serde_json::Value::Object(o) => ('{', '}', o.is_empty()),
        plain => return out.push_str(&plain.to_string()),
    };
    out.push(open);
    let item = |i: usize, key: Option<&str>, v: &serde_json::Value, out: &mut String| {
        if i > 0 {
            out.push_str(comma);
        }
        line(out, depth + 1);
        if let Some(key) = key {
            out.push_str(&serde_json::Value::from(key).to_string());
            out.push_str(": ");
        }
        write_json(v, indent, depth + 1, out);
    };
    match v {
        serde_json::Value::Array(a) => a.iter().enumerate().for_each(|(i, v)| item(i, None, v, out)),
        serde_json::Value::Object(o) => o.iter().enumerate().for_each(|(i, (k, v))| item(i, Some(k), v, out)),
        _ => {}
    }
    if !empty {
        line(out, depth);
    }
    out.push(close);
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

/// Formats seconds since 1970 (UTC) by the directives that templates use.
fn strftime(format: &str, seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    let leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    let (mut year, mut day) = (1970, days);
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let day_of_year = day + 1;
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    let weekday = DAYS[(days % 7) as usize];
    let (hour12, half) = ((hour + 11) % 12 + 1, if hour < 12 { "AM" } else { "PM" });

    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        out.push_str(&match chars.next() {
            Some('Y') => year.to_string(),
            Some('y') => format!("{:02}", year % 100),
            Some('m') => format!("{:02}", month + 1),
            Some('d') => format!("{:02}", day + 1),
            Some('e') => format!("{:2}", day + 1),
            Some('B') => MONTHS[month].to_string(),
            Some('b' | 'h') => MONTHS[month][..3].to_string(),
            Some('A') => weekday.to_string(),
            Some('a') => weekday[..3].to_string(),
            Some('j') => format!("{day_of_year:03}"),
            Some('H') => format!("{hour:02}"),
            Some('I') => format!("{hour12:02}"),
            Some('M') => format!("{minute:02}"),
            Some('S') => format!("{second:02}"),
            Some('p') => half.to_string(),
            Some('F') => format!("{year}-{:02}-{:02}", month + 1, day + 1),
            Some('T') => format!("{hour:02}:{minute:02}:{second:02}"),
            Some('Z') => "UTC".to_string(),
            Some('%') => "%".to_string(),
            Some(other) => format!("%{other}"),
            None => "%".to_string(),
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let all = "%Y %y %m %d %B %b %A %a %j %H %I %M %S %p %F %T %% %q %";
        assert_eq!(
            strftime(all, 0),
            "1970 70 01 01 January Jan Thursday Thu 001 00 12 00 00 AM 1970-01-01 00:00:00 % %q %"
        );
        assert_eq!(strftime("%d %b %Y %A %j %H:%M:%S", 1_709_210_096), "29 Feb 2024 Thursday 060 12:34:56");
        assert_eq!(strftime("%F %p %I", 1_798_761_599), "2026-12-31 PM 11");
    }

    #[test]
    fn json_as_python_writes_it() {
        let v: serde_json::Value =
            serde_json::from_str(r#"{"b":[1,2.5,"é<"],"a":{},"c":[],"d":null}"#).unwrap();
        let mut out = String::new();
        write_json(&v, None, 0, &mut out);
        assert_eq!(out, r#"{"b": [1, 2.5, "é<"], "a": {}, "c": [], "d": null}"#);
        out.clear();
        write_json(&v, Some(2), 0, &mut out);
        assert_eq!(
            out,
            "{\n  \"b\": [\n    1,\n    2.5,\n    \"é<\"\n  ],\n  \"a\": {},\n  \"c\": [],\n  \"d\": null\n}"
        );
    }
}
