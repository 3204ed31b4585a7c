//! `isopace bench decode`.

use super::plot::{Curve, svg};
use super::{best_s, print_json};
use crate::cli::{ModelArgs, memory};
use crate::engine::HostCost;
use clap::Args;
use isopace::{Result, bail, runtime};
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

#[derive(Debug, Args)]
pub(in crate::cli) struct Decode {
    #[command(flatten)]
    model: ModelArgs,
    /// Tokens of the prompt.
    #[arg(long, default_value_t = 256)]
    prompt_tokens: usize,
    /// Tokens to decode.
    #[arg(long, default_value_t = 256)]
    tokens: usize,
    /// Runs: the fastest counts, and for each token the least host cost.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// One JSON object instead of text.
    #[arg(long)]
    json: bool,
    /// Plot the host cost of each token into this SVG file.
    #[arg(long)]
    svg: Option<PathBuf>,
}

impl Decode {
    pub(in crate::cli) fn run(self) -> Result<()> {
        // The first token has no cost of its own: it finds its plan.
        if self.prompt_tokens == 0 || self.tokens < 2 || self.rounds == 0 {
            bail!(
                Argument,
                "[bench] --prompt-tokens is {}, --tokens {}, --rounds {}; accepted: at least 1, 2 and 1",
                self.prompt_tokens,
                self.tokens,
                self.rounds
            );
        }
        let engine = self.model.load()?;
        let room = engine.context();
        if self.prompt_tokens.saturating_add(self.tokens) > room.tokens {
            bail!(
                Argument,
                "[bench] {} prompt tokens and {} more are over the model's {room}",
                self.prompt_tokens,
                self.tokens
            );
        }
        let token = |i: usize| 1000 + (i % 500) as u32;
        let prompt: Vec<u32> = (0..self.prompt_tokens).map(token).collect();
        let (mut prefill, mut decode) = (0f64, 0f64);
        let mut host = vec![f64::INFINITY; self.tokens];
        let mut growth = None;
        let mut cache_nbytes = 0;
        runtime::time_kernels(true);
        for _ in 0..self.rounds {
            let mut session = engine.session()?;
            let s = best_s(1, || session.feed(&prompt))?;
            prefill = prefill.max(prompt.len() as f64 / s);
            let (rss, cache) = (memory::resident_bytes(), session.cache_nbytes());
            let start = Instant::now();
            for (i, least) in host.iter_mut().enumerate() {
                let (t, k) = (Instant::now(), runtime::kernel_ns());
                session.feed(&[token(i)])?;
                let us = (t.elapsed().as_nanos() as f64 - (runtime::kernel_ns() - k) as f64) / 1e3;
                // What else the machine does only ever adds.
                *least = least.min(us);
            }
            decode = decode.max(self.tokens as f64 / start.elapsed().as_secs_f64());
            cache_nbytes = session.cache_nbytes();
            // Later rounds write where the first one's cache was.
            let grown = memory::resident_bytes() as i64 - rss as i64 - (cache_nbytes - cache) as i64;
            growth = growth.or(Some(grown));
        }
        let growth = growth.unwrap_or_default();
        runtime::time_kernels(false);
        let cost = HostCost::of(host.get(1..).unwrap_or(&[]));
        if let Some(path) = &self.svg {
            let points = host.iter().enumerate().skip(1).map(|(i, &us)| (i as f64, us)).collect();
            let curve = Curve { name: "isopace".into(), points };
            svg(path, "Host cost of a token", "token", "microseconds", false, &[curve])?;
        }
        let stats = engine.step_stats();
        if self.json {
            return print_json(&json!({
                "engine": "isopace",
                "threads": isopace::threads(),
                "prompt": prompt.len(),
                "decode": self.tokens,
                "prefill_tok_s": (prefill * 10.0).round() / 10.0,
                "decode_tok_s": (decode * 10.0).round() / 10.0,
                "host_us_per_token": cost,
                "rss_growth_bytes": growth,
                "kv_cache_bytes": cache_nbytes,
                "peak_rss_bytes": memory::peak_bytes(),
                "traces": stats.traces,
                "hits": stats.hits,
            }));
        }
        let text = format!(
            "prefill {} tokens: {prefill:.0} tokens/s\n\
             decode {} tokens: {decode:.1} tokens/s\n\
             host cost a token: {:.1} us (first tenth {:.1}, last tenth {:.1})\n\
             resident growth beyond the KV cache of {:.1} MB: {:.2} MB; peak {:.1} MB\n\
             step: {} traces, {} hits\n",
            prompt.len(),
            self.tokens,
            cost.median,
            cost.first,
            cost.last,
            cache_nbytes as f64 / 1e6,
            growth as f64 / 1e6,
            memory::peak_bytes() as f64 / 1e6,
            stats.traces,
            stats.hits,
        );
        crate::cli::generate::write_out(&text)
    }
}
