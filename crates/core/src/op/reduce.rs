//! Reductions.

use crate::Dtype;

/// A reduction over axes. Sums never lose small terms: pairwise, blocked or wider accumulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceKind {
    Sum,
    Prod,
    Min,
    Max,
    Any,
    All,
    LogSumExp,
}

impl ReduceKind {
    pub const ALL: [ReduceKind; 7] = {
        use ReduceKind::*;
        [Sum, Prod, Min, Max, Any, All, LogSumExp]
    };

    pub fn name(self) -> &'static str {
        match self {
            ReduceKind::Sum => "sum",
            ReduceKind::Prod => "prod",
            ReduceKind::Min => "min",
            ReduceKind::Max => "max",
            ReduceKind::Any => "any",
            ReduceKind::All => "all",
            ReduceKind::LogSumExp => "logsumexp",
        }
    }

    /// The dtype of the result: small integers widen to 32 bits in sums and products.
    pub fn dtype(self, d: Dtype) -> Dtype {
        match self {
            ReduceKind::Sum | ReduceKind::Prod => match d {
                Dtype::Bool | Dtype::I8 | Dtype::I16 => Dtype::I32,
                Dtype::U8 | Dtype::U16 => Dtype::U32,
                d => d,
            },
            ReduceKind::Min | ReduceKind::Max => d,
            ReduceKind::Any | ReduceKind::All => Dtype::Bool,
            ReduceKind::LogSumExp => d.to_inexact(),
        }
    }

    /// True when reducing no elements has an answer.
    pub fn has_identity(self) -> bool {
        !matches!(self, ReduceKind::Min | ReduceKind::Max | ReduceKind::LogSumExp)
    }
}

/// Which extreme an index reduction looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArgKind {
    Min,
    Max,
}

impl ArgKind {
    pub fn name(self) -> &'static str {
        match self {
            ArgKind::Min => "argmin",
            ArgKind::Max => "argmax",
        }
    }
}
