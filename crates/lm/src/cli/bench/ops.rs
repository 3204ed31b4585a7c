//! `isopace bench ops`: elementwise functions, reductions and products by size.

use super::{best_s, print_json};
use crate::cli::generate::write_out;
use clap::Args;
use isopace::compile::compile;
use isopace::{Array, Result, fast, random};
use serde_json::{Map, Value, json};

#[derive(Debug, Args)]
pub(in crate::cli) struct Ops {
    /// Threads; all processors the process may use by default.
    #[arg(long)]
    threads: Option<usize>,
    /// One JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

const GELU_SIZES: [usize; 5] = [576, 1536, 1 << 16, 1 << 20, 1 << 24];
/// Rows, columns and depth of products with a transposed right side.
const PRODUCTS: [(usize, usize, usize); 5] =
    [(1, 1536, 576), (1, 49152, 576), (256, 1536, 576), (512, 512, 512), (1024, 1024, 1024)];

fn normal(shape: &[usize]) -> Result<Array> {
    let a = random::normal(shape, isopace::Dtype::F32, None, None, None)?;
    a.eval()?;
    Ok(a)
}

/// Microseconds of the fastest of five batches.
fn us(n: usize, f: impl Fn() -> Result<Array>) -> Result<f64> {
    f()?.eval()?;
    let s = best_s(5, || (0..n).try_for_each(|_| f()?.eval()))?;
    Ok(s / n as f64 * 1e6)
}

impl Ops {
    pub(in crate::cli) fn run(self) -> Result<()> {
        if let Some(n) = self.threads {
            isopace::set_threads(n)?;
        }
        let gelu = compile(|x: Array| {
            let inner = x.multiply(&x)?.multiply(&x)?.multiply(0.044715)?.add(&x)?.multiply(0.7978845608)?;
            x.multiply(0.5)?.multiply(inner.tanh()?.add(1.0)?)
        });
        let mut out = Map::new();
        let mut gelus = Map::new();
        for n in GELU_SIZES {
            let a = normal(&[n])?;
            gelus.insert(n.to_string(), json!(us((5_000_000 / n).clamp(2, 1000), || gelu.call(a.clone()))?));
        }
        out.insert("gelu_us".into(), Value::Object(gelus));
        let mut products = Map::new();
        for (m, n, k) in PRODUCTS {
            let (a, b) = (normal(&[m, k])?, normal(&[n, k])?);
            let bt = b.t()?;
            let flop = 2.0 * (m * n * k) as f64;
            let t = us(((3e8 / flop) as usize).clamp(1, 200), || a.matmul(&bt))?;
            products.insert(format!("{m}x{n}x{k}"), json!(flop / t / 1e3));
        }
        out.insert("matmul_gflops".into(), Value::Object(products));
        let x = normal(&[4096, 4096])?;
        let w = normal(&[4096])?;
        let rows = json!({
            "softmax": us(2, || x.softmax(-1))?,
            "rms_norm": us(2, || fast::rms_norm(&x, Some(&w), 1e-5))?,
            "layer_norm": us(2, || fast::layer_norm(&x, Some(&w), Some(&w), 1e-5))?,
            "sum": us(2, || x.sum(None::<i64>, false))?,
        });
        out.insert("rows_4096_us".into(), rows);
        let small = normal(&[64])?;
        out.insert("eval_x_plus_1_us".into(), json!(us(2000, || small.add(1.0))?));
        if self.json {
            return print_json(&Value::Object(out));
        }
        let mut text = String::new();
        for (name, v) in &out {
            text += &format!("{name}: {v}\n");
        }
        write_out(&text)
    }
}
