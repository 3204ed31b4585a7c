//! Running reductions.

/// A running reduction along an axis. Half-precision sums accumulate in float32 and round once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScanKind {
    Sum,
    Prod,
    Min,
    Max,
    LogAddExp,
}

impl ScanKind {
    pub fn name(self) -> &'static str {
        match self {
            ScanKind::Sum => "cumsum",
            ScanKind::Prod => "cumprod",
            ScanKind::Min => "cummin",
            ScanKind::Max => "cummax",
            ScanKind::LogAddExp => "logcumsumexp",
        }
    }
}
