//! `isopace bench`.

mod compile;
mod decode;
mod ops;
mod plot;

use clap::Subcommand;
use isopace::Result;

#[derive(Debug, Subcommand)]
pub(super) enum Bench {
    /// Prefill and decode speed, host cost a token, memory growth.
    Decode(decode::Decode),
    /// What compiled functions cost: hits, fresh scalars, retraces, a long decode.
    Compile(compile::CompileBench),
    /// Elementwise functions, reductions and products.
    Ops(ops::Ops),
}

impl Bench {
    pub(super) fn run(self) -> Result<()> {
        match self {
            Bench::Decode(b) => b.run(),
            Bench::Compile(b) => b.run(),
            Bench::Ops(b) => b.run(),
        }
    }
}

/// The middle of the values; 0 of none.
fn median(values: &[f64]) -> f64 {
    let mut v = values.to_vec();
    v.sort_by(f64::total_cmp);
    v.get(v.len() / 2).copied().unwrap_or(0.0)
}

/// Seconds of the fastest of `rounds` runs of `f`.
fn best_s(rounds: usize, mut f: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..rounds {
        let t = std::time::Instant::now();
        f()?;
        best = best.min(t.elapsed().as_secs_f64());
    }
    Ok(best)
}

/// One JSON object on stdout.
fn print_json(value: &serde_json::Value) -> Result<()> {
    super::generate::write_out(&format!("{value}\n"))
}
