//! Scalings of the rotary embedding, by which a model reaches further than it was first trained for.

use isopace::io::gguf::Metadata;
use isopace::{Result, bail, err};
use serde_json::Value;
use std::f64::consts::TAU;

/// How wavelengths differ from the powers of the base.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scaling {
    /// As they are, up to a context if one is given.
    Plain { context: Option<usize> },
    /// All longer by a factor.
    Linear { factor: f64 },
    /// Those longer than the old context over `low` by the factor, those shorter than it over `high` not at all.
    Llama3 { factor: f64, low: f64, high: f64, context: f64 },
    /// Those that turn less than `slow` times in the old context by the factor, those that turn more than `fast`
    /// times not at all; queries and keys longer by `attention`.
    Yarn { factor: f64, fast: f64, slow: f64, context: f64, attention: f64 },
}

/// A number that makes sense only above 0.
///
/// # Errors
/// `Format` naming it.
pub(super) fn positive(name: &str, v: f64) -> Result<f64> {
    if !(v > 0.0 && v.is_finite()) {
        bail!(Format, "[model] {name} is {v}; accepted: a finite number above 0");
    }
    Ok(v)
}

/// What YaRN multiplies queries and keys by, so that attention over more positions stays as sharp.
fn sharpness(factor: f64, weight: f64) -> f64 {
    if factor > 1.0 { 0.1 * weight * factor.ln() + 1.0 } else { 1.0 }
}

impl Scaling {
    /// The scaling in a GGUF file's metadata.
    ///
    /// # Errors
    /// `Unsupported` for a kind that is not known, `Format` for a number that is missing or not above 0.
    pub(super) fn from_gguf(meta: &Metadata, arch: &str, context: usize) -> Result<Scaling> {
        let key = |k: &str| format!("{arch}.rope.scaling.{k}");
        let number = |k: &str, default: f64| positive(&key(k), meta.opt_float(&key(k))?.unwrap_or(default));
        match meta.opt_str(&key("type"))? {
            Some("none") => Ok(Scaling::Plain { context: None }),
            // Files older than the type have a factor under one name or the other.
            None | Some("linear") => {
                let old = meta.opt_float(&format!("{arch}.rope.scale_linear"))?.unwrap_or(1.0);
                Ok(match number("factor", old)? {
                    1.0 => Scaling::Plain { context: None },
                    factor => Scaling::Linear { factor },
                })
            }
            Some("yarn") => {
                let factor = positive(&key("factor"), meta.float(&key("factor"))?)?;
                if number("yarn_ext_factor", 1.0)? != 1.0 {
                    bail!(Unsupported, "[model] {} is not 1", key("yarn_ext_factor"));
                }
                Scaling::Yarn {
                    factor,
                    fast: number("yarn_beta_fast", 32.0)?,
                    slow: number("yarn_beta_slow", 1.0)?,
                    context: number("original_context_length", context as f64)?,
                    attention: number("attn_factor", 1.0)? * sharpness(factor, 1.0),
                }
                .checked()
            }
            Some(other) => bail!(
                Unsupported,
                "[model] {}: rope scaling {other:?}; accepted: none, linear, yarn",
                meta.file()
            ),
        }
    }

    /// The scaling in a `config.json`, of a model with this context.
    ///
    /// # Errors
    /// As [`Scaling::from_gguf`].
    pub(super) fn from_config(rope: Option<&Value>, context: usize) -> Result<Scaling> {
        let Some(rope) = rope else { return Ok(Scaling::Plain { context: None }) };
        let name = |k: &str| format!("config.json: rope_scaling.{k}");
        if !rope.is_object() {
            bail!(Format, "[model] config.json: rope_scaling is {rope}; accepted: an object, null");
        }
        let given = |k: &str| rope.get(k).filter(|v| !v.is_null());
        let opt = |k: &str| match given(k).map(|v| (v, v.as_f64())) {
            Some((v, None)) => bail!(Format, "[model] {} is {v}; accepted: a number", name(k)),
            given => given.and_then(|g| g.1).map(|v| positive(&name(k), v)).transpose(),
        };
        let need = |k: &str| opt(k)?.ok_or_else(|| err!(Format, "[model] {} is missing", name(k)));
        let old = || Ok(opt("original_max_position_embeddings")?.unwrap_or(context as f64));
        let kind = given("rope_type").or(given("type"));
        match kind.map_or(Some("default"), Value::as_str).unwrap_or_default() {
            "default" => Ok(Scaling::Plain { context: None }),
            // The base grows with the length from the old context on; up to there, nothing is scaled.
            "dynamic" => {
                need("factor")?;
                Ok(Scaling::Plain { context: Some(old()? as usize) })
            }
            "linear" => Ok(Scaling::Linear { factor: need("factor")? }),
            "llama3" => Scaling::Llama3 {
                factor: need("factor")?,
                low: need("low_freq_factor")?,
                high: need("high_freq_factor")?,
                context: need("original_max_position_embeddings")?,
            }
            .checked(),
            "yarn" => {
                let factor = need("factor")?;
                let attention = match (opt("attention_factor")?, opt("mscale")?, opt("mscale_all_dim")?) {
                    (Some(a), ..) => a,
                    (None, Some(m), Some(all)) => sharpness(factor, m) / sharpness(factor, all),
                    _ => sharpness(factor, 1.0),
                };
                if rope.get("truncate").and_then(Value::as_bool) == Some(false) {
                    bail!(Unsupported, "[model] {} is false; accepted: true", name("truncate"));
                }
                Scaling::Yarn {
                    factor,
                    fast: opt("beta_fast")?.unwrap_or(32.0),
                    slow: opt("beta_slow")?.unwrap_or(1.0),
                    context: old()?,
                    attention,
                }
                .checked()
            }
            _ => bail!(
                Unsupported,
                "[model] config.json: rope scaling {}; accepted: default, linear, dynamic, llama3, yarn",
                kind.unwrap_or_default()
            ),
        }
    }

    /// Refuses an empty range between what is scaled and what is not.
    fn checked(self) -> Result<Scaling> {
        match self {
            Scaling::Llama3 { low, high, .. } if low >= high => bail!(
                Format,
                "[model] rope scaling: high_freq_factor is {high}; accepted: above low_freq_factor, {low}"
            ),
            Scaling::Yarn { slow, fast, .. } if slow >= fast => {
                bail!(Format, "[model] rope scaling: beta_fast is {fast}; accepted: above beta_slow, {slow}")
            }
            ok => Ok(ok),
        }
    }

    /// The context that it reaches, if that is not the model's.
    pub(super) fn context(&self) -> Option<usize> {
        if let Scaling::Plain { context } = self { *context } else { None }
    }

    /// What queries and keys are multiplied by.
    pub(super) fn attention(&self) -> f64 {
        if let Scaling::Yarn { attention, .. } = self { *attention } else { 1.0 }
    }

    /// What the wavelengths of pairs, `TAU * base ** (2 i / dims)`, are multiplied by; `None` for none of them.
    ///
    /// # Source
    /// "linear": Chen et al., 2023, arXiv 2306.15595. "llama3": the Llama 3.1 model card. "yarn": Peng et al., 2023,
    /// arXiv 2309.00071, sections 3.2 to 3.4, bounds of the ramp rounded outwards to whole pairs as in its authors'
    /// program.
    pub(super) fn factors(&self, base: f64, dims: usize) -> Option<Vec<f64>> {
        let n = dims as f64;
        // The share of the plain wavelength that pair `i` keeps.
        let keep: Box<dyn Fn(f64) -> f64> = match *self {
            Scaling::Plain { .. } => return None,
            Scaling::Linear { .. } => Box::new(|_| 0.0),
            Scaling::Llama3 { low, high, context, .. } => Box::new(move |i| {
                let turns = context / (TAU * base.powf(2.0 * i / n));
                ((turns - low) / (high - low)).clamp(0.0, 1.0)
            }),
            Scaling::Yarn { fast, slow, context, .. } => {
                // The pair that turns so many times in the old context.
                let pair = |turns: f64| n * (context / (turns * TAU)).ln() / (2.0 * base.ln());
                let (first, last) = (pair(fast).floor().max(0.0), pair(slow).ceil().min(n - 1.0));
                Box::new(move |i| 1.0 - ((i - first) / (last - first).max(0.001)).clamp(0.0, 1.0))
            }
        };
        let factor = match *self {
            Scaling::Linear { factor } | Scaling::Llama3 { factor, .. } | Scaling::Yarn { factor, .. } => {
                factor
            }
            Scaling::Plain { .. } => 1.0,
        };
        Some((0..dims / 2).map(|i| keep(i as f64)).map(|k| 1.0 / ((1.0 - k) / factor + k)).collect())
    }
}
