//! `isopace bench compile`: what compiled functions cost the host, by the number of distinct values.

use super::plot::{Curve, svg};
use super::{median, print_json};
use crate::cli::{generate::write_out, memory};
use clap::Args;
use isopace::compile::{Compiled, Options, ScalarMode, compile, compile_with};
use isopace::{Array, Dtype, Result, Scalar, err, fast, ones, runtime};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(Debug, Args)]
pub(in crate::cli) struct CompileBench {
    /// Distinct values of the fresh scalar.
    #[arg(long, default_value_t = 1_000_000)]
    values: usize,
    /// Tokens of the long decode.
    #[arg(long, default_value_t = 6_000)]
    tokens: usize,
    /// One JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// Plot the cost against distinct values into this SVG file.
    #[arg(long)]
    svg: Option<PathBuf>,
}

/// One point of the curve: distinct values so far, microseconds a call, bytes grown.
struct Point {
    values: usize,
    us: f64,
    growth: i64,
}

type Step = Compiled<(Array, Array, Scalar), Array>;

/// One row of the report: what is measured, what it must be, what it is.
struct Row {
    what: String,
    must: &'static str,
    measured: String,
    met: bool,
}

fn row(what: impl Into<String>, must: &'static str, measured: String, met: bool) -> Row {
    Row { what: what.into(), must, measured, met }
}

impl CompileBench {
    pub(in crate::cli) fn run(self) -> Result<()> {
        if self.values < 1_000 || self.tokens < 10 {
            return Err(err!(
                Argument,
                "[bench] --values is {}, --tokens {}; accepted: at least 1000 and 10",
                self.values,
                self.tokens
            ));
        }
        let hit = hit_ns()?;
        let curve = fresh(self.values)?;
        let fixed = static_values(self.values.min(100_000))?;
        let retrace = retrace_us()?;
        let long = long_decode(self.tokens)?;
        let peer = peer_curve();
        if let Some(path) = &self.svg {
            plot(path, &curve, peer.as_deref())?;
        }
        let (early, last) = (&curve[0], &curve[curve.len() - 1]);
        let ratio = last.us / early.us;
        let growth = last.growth - early.growth;
        let rows = [
            row("hit, 2 arrays and 1 scalar", "at most 150 ns", format!("{hit:.0} ns"), hit <= 150.0),
            row(
                format!("fresh scalar, {} values against {}", last.values, early.values),
                "at most 1.2 x the cost",
                format!("{ratio:.2} x ({:.3} us a call)", last.us),
                ratio <= 1.2,
            ),
            row("memory between the two", "at most 65536 bytes", format!("{growth} bytes"), growth <= 65_536),
            row(
                format!("static scalars, last of {} values against first", fixed.values),
                "at most 1.2 x the cost",
                format!("{:.2} x ({:.1} us a call)", fixed.last_us / fixed.first_us, fixed.last_us),
                fixed.last_us <= 1.2 * fixed.first_us,
            ),
            row(
                "what they keep",
                "64 entries, bytes that stay",
                format!("{} entries, {} bytes, then {}", fixed.entries, fixed.early_bytes, fixed.bytes),
                fixed.entries <= 64 && fixed.bytes as f64 <= 1.1 * fixed.early_bytes as f64,
            ),
            row("retrace of a 10-op function", "at most 50 us", format!("{retrace:.1} us"), retrace <= 50.0),
            row(
                format!("long decode, {} tokens, last 500 against first", self.tokens),
                "at least 0.95 x the speed",
                format!("{:.3} x ({:.0} token/s)", long.first_us / long.last_us, 1e6 / long.last_us),
                long.first_us >= 0.95 * long.last_us,
            ),
            row(
                "memory it takes on the way",
                "at most 1048576 bytes",
                format!("{} bytes", long.growth),
                long.growth <= 1 << 20,
            ),
        ];
        if self.json {
            return print_json(&json!({
                "rows": rows.iter().map(|r| json!({
                    "what": r.what, "must": r.must, "measured": r.measured, "met": r.met,
                })).collect::<Vec<_>>(),
                "hit_ns": hit,
                "fresh": curve.iter().map(|p| json!({
                    "values": p.values, "us_per_call": p.us, "rss_growth_bytes": p.growth,
                })).collect::<Vec<_>>(),
                "fresh_ratio": ratio,
                "fresh_growth_bytes": growth,
                "static": {
                    "values": fixed.values, "first_us": fixed.first_us, "last_us": fixed.last_us,
                    "entries": fixed.entries, "bytes": fixed.bytes,
                },
                "retrace_us": retrace,
                "long_decode": {
                    "tokens": self.tokens,
                    "first_tok_s": (1e6 / long.first_us).round(),
                    "last_tok_s": (1e6 / long.last_us).round(),
                    "last_over_first": long.last_us / long.first_us,
                    "rss_growth_bytes": long.growth,
                },
                "peer": peer.as_ref().map(|p| {
                    p.iter().map(|(v, us)| json!({"values": v, "us_per_call": us})).collect::<Vec<_>>()
                }),
            }));
        }
        let mut text = format!("{:<52} {:<28} {:<34} met\n", "what", "must", "measured");
        for r in &rows {
            let met = if r.met { "yes" } else { "no" };
            text += &format!("{:<52} {:<28} {:<34} {met}\n", r.what, r.must, r.measured);
        }
        if let Some((values, us)) = peer.as_ref().and_then(|p| p.last()) {
            text += &format!("the peer, fresh scalar at {values} values: {us:.1} us a call\n");
        }
        write_out(&text)
    }
}

fn plot(path: &Path, curve: &[Point], peer: Option<&[(f64, f64)]>) -> Result<()> {
    let points = curve.iter().map(|p| (p.values as f64, p.us)).collect();
    let mut curves = vec![Curve { name: "isopace".into(), points }];
    if let Some(points) = peer {
        curves.push(Curve { name: "mlx (CPU)".into(), points: points.to_vec() });
    }
    let title = "A compiled function given a fresh number";
    svg(path, title, "distinct values", "microseconds a call", true, &curves)
}

fn step(mode: ScalarMode) -> Step {
    let options = Options { scalars: mode, name: Some("step".into()), ..Options::default() };
    compile_with(options, |(x, y, n): (Array, Array, Scalar)| x.multiply(&y)?.add(n))
}

fn input() -> Result<Array> {
    Array::from_slice(&[1.0f32; 64], [64])
}

fn hit_ns() -> Result<f64> {
    let (f, x) = (step(ScalarMode::Auto), input()?);
    for n in 0..3i64 {
        f.call((x.clone(), x.clone(), n.into()))?;
    }
    let mut all = Vec::new();
    for _ in 0..200 {
        let t = Instant::now();
        for _ in 0..1000 {
            std::hint::black_box(f.call((x.clone(), x.clone(), Scalar::from(7)))?);
        }
        all.push(t.elapsed().as_nanos() as f64 / 1000.0);
    }
    Ok(median(&all))
}

fn fresh(values: usize) -> Result<Vec<Point>> {
    let (f, x) = (step(ScalarMode::Auto), input()?);
    for n in 0..3i64 {
        f.call((x.clone(), x.clone(), (-1 - n).into()))?.eval()?;
    }
    let base = memory::resident_bytes() as i64;
    let (mut points, mut seen, mut goal) = (Vec::new(), 0usize, 1000usize);
    loop {
        let goal_now = goal.min(values);
        let mut chunks = Vec::new();
        while seen < goal_now {
            let (t, from) = (Instant::now(), seen);
            while seen < goal_now && seen - from < 1000 {
                seen += 1;
                std::hint::black_box(f.call((x.clone(), x.clone(), Scalar::from(seen)))?);
            }
            chunks.push(t.elapsed().as_nanos() as f64 / 1e3 / (seen - from) as f64);
        }
        points.push(Point {
            values: seen,
            us: median(&chunks),
            growth: memory::resident_bytes() as i64 - base,
        });
        if goal >= values {
            return Ok(points);
        }
        goal *= 2;
    }
}

/// What every value by itself costs, in the first and last tenth of the values.
struct Static {
    values: usize,
    first_us: f64,
    last_us: f64,
    entries: usize,
    /// Bytes kept after the first tenth, and at the end.
    early_bytes: usize,
    bytes: usize,
}

fn static_values(values: usize) -> Result<Static> {
    let (f, x) = (step(ScalarMode::Static), input()?);
    let tenth = values / 10;
    let (mut us, mut early_bytes) = (Vec::new(), 0);
    for k in 0..10 {
        let t = Instant::now();
        for n in k * tenth..(k + 1) * tenth {
            std::hint::black_box(f.call((x.clone(), x.clone(), Scalar::from(n)))?);
        }
        us.push(t.elapsed().as_secs_f64() * 1e6 / tenth as f64);
        if k == 0 {
            early_bytes = f.stats().nbytes;
        }
    }
    let s = f.stats();
    Ok(Static {
        values: 10 * tenth,
        first_us: us[0],
        last_us: us[9],
        entries: s.entries,
        early_bytes,
        bytes: s.nbytes,
    })
}

fn retrace_us() -> Result<f64> {
    let f = compile(|x: Array| {
        let y = x.multiply(2.0)?.add(1.0)?.exp()?.tanh()?;
        y.multiply(&x)?.subtract(3.0)?.abs()?.sqrt()?.maximum(0.5)?.negative()
    });
    let x = input()?;
    let mut all = Vec::new();
    for _ in 0..300 {
        f.clear_cache();
        let t = Instant::now();
        std::hint::black_box(f.call(x.clone())?);
        all.push(t.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(&all))
}

/// Microseconds a token over the first and the last 500, and bytes grown.
struct Long {
    first_us: f64,
    last_us: f64,
    growth: i64,
}

/// [`decode`] three times from the start; for each token the least counts: what else the machine does only
/// ever adds.
fn long_decode(tokens: usize) -> Result<Long> {
    let (mut us, mut growth) = decode(tokens)?;
    for _ in 0..2 {
        let (again, grown) = decode(tokens)?;
        us.iter_mut().zip(again).for_each(|(least, us)| *least = least.min(us));
        growth = growth.max(grown);
    }
    let n = 500.min(us.len());
    Ok(Long { first_us: median(&us[..n]), last_us: median(&us[us.len() - n..]), growth })
}

/// 43 layers × 3 compiled helpers a token, each given the offset as an integer: microseconds of each token, and
/// bytes grown.
fn decode(tokens: usize) -> Result<(Vec<f64>, i64)> {
    const LAYERS: usize = 43;
    const DIM: usize = 64;
    let partial = compile(|(x, w, offset): (Array, Array, Scalar)| {
        let x = fast::rms_norm(&x, Some(&w), 1e-6)?;
        rope(&x, true, &offset)?.add(&x)
    });
    let inverse = compile(|(x, offset): (Array, Scalar)| rope(&x, true, &-&offset)?.multiply(0.5));
    let norm = compile(|(x, w, offset): (Array, Array, Scalar)| {
        rope(&fast::rms_norm(&x, Some(&w), 1e-6)?, false, &offset)
    });
    fn rope(x: &Array, traditional: bool, offset: &Scalar) -> Result<Array> {
        let options = fast::RopeOptions {
            dims: DIM as i64,
            traditional,
            base: Some(10000.0.into()),
            scale: 1.0.into(),
            freqs: None,
        };
        fast::rope(x, offset, &options)
    }
    let (x, w) = (ones([1, 4, 1, DIM], Dtype::F32)?, ones([DIM], Dtype::F32)?);
    let mut us = Vec::with_capacity(tokens);
    let mut base = 0;
    let warm = 100;
    for t in 0..tokens + warm {
        if t == warm {
            base = memory::resident_bytes() as i64;
        }
        let start = Instant::now();
        let mut y = x.clone();
        for _ in 0..LAYERS {
            let offset = Scalar::from(t + 100);
            y = partial.call((y, w.clone(), offset.clone()))?;
            y = inverse.call((y, offset.clone()))?;
            y = norm.call((y, w.clone(), offset))?;
        }
        runtime::eval(&[y])?;
        if t >= warm {
            us.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    Ok((us, memory::resident_bytes() as i64 - base))
}

/// The peer's curve, when its environment is there.
fn peer_curve() -> Option<Vec<(f64, f64)>> {
    let dir = std::env::var_os("PEERS_DIR")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".cache/isopace-peers")))?;
    let python = dir.join("mlx/bin/python");
    if !python.exists() {
        return None;
    }
    let out = std::process::Command::new(python)
        .args(["-c", include_str!("peer_curve.py")])
        .env_remove("OPENBLAS_CORETYPE")
        .env_remove("OPENBLAS_L2_SIZE")
        .output()
        .ok()?;
    let points: Vec<(f64, f64)> = serde_json::from_slice(&out.stdout).ok()?;
    Some(points)
}
