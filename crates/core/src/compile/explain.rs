//! Why a compiled function was traced, and what it keeps.

use super::cache::{Arg, Mode};
use crate::aval::Aval;
use crate::number::Number;
use std::fmt;

/// Why a call found no plan.
#[derive(Clone, Debug)]
pub enum Cause {
    /// The first call with a tree of this form.
    First,
    /// No entry, and nothing comparable is left to compare with.
    New,
    /// The tree of arguments, or a static value in it, is new.
    Tree,
    /// An array has another dtype or shape.
    Aval { array: usize, from: Aval, to: Aval },
    /// A scalar that was constant so far has a second value.
    Varies { arg: usize, from: Number, to: Number },
    /// A static scalar has a new value.
    Static { arg: usize, value: Number },
    /// A comparison went another way.
    Guard { place: String },
    /// The scalar arithmetic failed for these values.
    Program { text: String },
}

/// One miss.
#[derive(Clone, Debug)]
pub struct Miss {
    /// Number of the call, from 1.
    pub call: u64,
    pub cause: Cause,
    /// The argument's path, where one argument is the cause.
    pub argument: Option<String>,
    pub trace_us: f64,
}

/// Counters of one compiled function.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    pub calls: u64,
    pub hits: u64,
    pub misses: u64,
    pub traces: u64,
    /// Misses that a kept trace answered under other extents ([`super::Options::shapeless`]).
    pub reshaped: u64,
    pub failed: u64,
    pub evictions: u64,
    pub entries: usize,
    pub variants: usize,
    pub nbytes: usize,
    pub trace_us: f64,
}

/// What is known of one scalar argument.
#[derive(Clone, Debug)]
pub struct ArgReport {
    pub path: String,
    /// `constant`, `symbolic` or `static`.
    pub mode: &'static str,
    /// Why it is static.
    pub reason: Option<String>,
    /// The last values that caused a trace.
    pub seen: Vec<Number>,
    pub retraces: u64,
}

impl ArgReport {
    pub(crate) fn new(path: &str, a: &Arg) -> ArgReport {
        let (mode, reason) = match &a.mode {
            Mode::First(_) => ("constant", None),
            Mode::Symbolic => ("symbolic", None),
            Mode::Static { reason } => ("static", Some(reason.clone())),
        };
        ArgReport { path: path.into(), mode, reason, seen: a.seen.to_vec(), retraces: a.retraces }
    }
}

/// The account of one compiled function, as data and, by `Display`, as text.
#[derive(Clone, Debug)]
pub struct Explanation {
    pub name: String,
    pub stats: Stats,
    pub arguments: Vec<ArgReport>,
    /// The last misses, oldest first.
    pub misses: Vec<Miss>,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::First => f.write_str("first call"),
            Cause::New => f.write_str("no entry for these arguments"),
            Cause::Tree => f.write_str("the arguments have a new structure or a new static value"),
            Cause::Aval { array, from, to } => write!(f, "array {array} is {to:?}, was {from:?}"),
            Cause::Varies { from, to, .. } => {
                write!(f, "changed from {from} to {to}; traced with it symbolic")
            }
            Cause::Static { value, .. } => write!(f, "static argument has the new value {value}"),
            Cause::Guard { place } => write!(f, "the comparison at {place} went another way"),
            Cause::Program { text } => write!(f, "these values do not fit the traced arithmetic: {text}"),
        }
    }
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {}: ", self.call)?;
        if let Some(a) = &self.argument {
            write!(f, "{a}: ")?;
        }
        write!(f, "{}", self.cause)
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = &self.stats;
        writeln!(
            f,
            "{}: {} calls, {} hits, {} traces; {} entries, {} variants, {} bytes, {} evicted",
            self.name, s.calls, s.hits, s.traces, s.entries, s.variants, s.nbytes, s.evictions
        )?;
        if s.reshaped > 0 {
            writeln!(f, "  {} plans for other shapes from a kept trace", s.reshaped)?;
        }
        for a in &self.arguments {
            let seen: Vec<_> = a.seen.iter().map(|n| n.to_string()).collect();
            write!(f, "  {}: {}, traced for {}", a.path, a.mode, seen.join(", "))?;
            if let Some(r) = &a.reason {
                write!(f, "; {r}")?;
            }
            f.write_str("\n")?;
        }
        for m in &self.misses {
            writeln!(f, "  {m}")?;
        }
        Ok(())
    }
}
