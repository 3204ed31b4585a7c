//! Llama and what is built like it: SmolLM2, Llama 2 and 3, Mistral.

use super::Model;
use crate::kv::{self, KvShape, LayerCaches};
use crate::weights::{Matrix, Table, Weights};
use isopace::fast::{Mask, RopeOptions, rms_norm, rope, scaled_dot_product_attention};
use isopace::io::gguf::Metadata;
use isopace::{Array, Dtype, Result, Scalar, bail, err};
use serde_json::Value;

/// Sizes and constants, however the file spells them.
#[derive(Clone, Debug)]
struct Config {
    layers: usize,
    width: usize,
    hidden: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    vocab: usize,
    context: usize,
    eps: f64,
    rope_base: f64,
    rope_scale: f64,
    rope_dims: usize,
    /// GGUF stores query and key rows so that pairs are neighbours; Hugging Face, halves apart.
    rope_traditional: bool,
    /// Wavelengths divided by the plain ones, where the model stretches its context.
    rope_factors: Option<Vec<f64>>,
}

/// Where tensors are, in GGUF's names and in Hugging Face's.
struct Names {
    embed: &'static str,
    norm: &'static str,
    head: &'static str,
    layer: fn(usize, &str) -> String,
    attn_norm: &'static str,
    qkv: [&'static str; 3],
    out: &'static str,
    ffn_norm: &'static str,
    gate_up: [&'static str; 2],
    down: &'static str,
}

const GGUF: Names = Names {
    embed: "token_embd.weight",
    norm: "output_norm.weight",
    head: "output.weight",
    layer: |i, part| format!("blk.{i}.{part}.weight"),
    attn_norm: "attn_norm",
    qkv: ["attn_q", "attn_k", "attn_v"],
    out: "attn_output",
    ffn_norm: "ffn_norm",
    gate_up: ["ffn_gate", "ffn_up"],
    down: "ffn_down",
};

const HUGGING_FACE: Names = Names {
    embed: "model.embed_tokens.weight",
    norm: "model.norm.weight",
    head: "lm_head.weight",
    layer: |i, part| format!("model.layers.{i}.{part}.weight"),
    attn_norm: "input_layernorm",
    qkv: ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    out: "self_attn.o_proj",
    ffn_norm: "post_attention_layernorm",
    gate_up: ["mlp.gate_proj", "mlp.up_proj"],
    down: "mlp.down_proj",
};

struct Layer {
    attn_norm: Array,
    qkv: Matrix,
    out: Matrix,
    ffn_norm: Array,
    gate_up: Matrix,
    down: Matrix,
}

struct Llama {
    config: Config,
    embed: Table,
    layers: Vec<Layer>,
    norm: Array,
    head: Matrix,
    /// Wavelengths of the rotary embedding, where they are not powers of the base.
    freqs: Option<Array>,
}

pub(super) fn from_gguf(meta: &Metadata, weights: &Weights) -> Result<Box<dyn Model>> {
    let arch = meta.str("general.architecture")?;
    let key = |k: &str| format!("{arch}.{k}");
    let width = meta.usize(&key("embedding_length"))?;
    let heads = meta.usize(&key("attention.head_count"))?;
    let head_dim = match meta.opt_usize(&key("attention.key_length"))? {
        Some(d) => d,
        None => width.checked_div(heads).unwrap_or(0),
    };
    let vocab = match meta.opt_usize(&key("vocab_size"))? {
        Some(v) => v,
        None => meta.strings("tokenizer.ggml.tokens")?.len(),
    };
    let rope_dims = meta.opt_usize(&key("rope.dimension_count"))?.unwrap_or(head_dim);
    let rope_scale = match meta.opt_str(&key("rope.scaling.type"))? {
        None | Some("none") => 1.0,
        Some("linear") => 1.0 / meta.float(&key("rope.scaling.factor"))?,
        Some(other) => {
            bail!(Unsupported, "[model] {}: rope scaling {other:?}; accepted: none, linear", meta.file())
        }
    };
    let rope_factors = if weights.has("rope_freqs.weight") {
        let factors = weights.vector("rope_freqs.weight", &[rope_dims / 2])?.to_vec::<f32>()?;
        Some(factors.into_iter().map(f64::from).collect())
    } else {
        None
    };
    let config = Config {
        layers: meta.usize(&key("block_count"))?,
        width,
        hidden: meta.usize(&key("feed_forward_length"))?,
        heads,
        kv_heads: meta.opt_usize(&key("attention.head_count_kv"))?.unwrap_or(heads),
        head_dim,
        vocab,
        context: meta.usize(&key("context_length"))?,
        eps: meta.float(&key("attention.layer_norm_rms_epsilon"))?,
        rope_base: meta.opt_float(&key("rope.freq_base"))?.unwrap_or(10000.0),
        rope_scale,
        rope_dims,
        rope_traditional: true,
        rope_factors,
    };
    build(config, weights, &GGUF, meta.file())
}

pub(super) fn from_config(config: &Value, weights: &Weights) -> Result<Box<dyn Model>> {
    let opt = |k: &str| config.get(k).filter(|v| !v.is_null());
    let number = |k: &str, default: Option<f64>| match opt(k) {
        Some(v) => {
            v.as_f64().ok_or_else(|| err!(Format, "[model] config.json: {k} is {v}; accepted: a number"))
        }
        None => default.ok_or_else(|| err!(Format, "[model] config.json: {k} is missing")),
    };
    let size = |k: &str, default: Option<usize>| match opt(k) {
        Some(v) => v
            .as_u64()
            .map(|n| n as usize)
            .ok_or_else(|| err!(Format, "[model] config.json: {k} is {v}; accepted: a non-negative integer")),
        None => default.ok_or_else(|| err!(Format, "[model] config.json: {k} is missing")),
    };
    let width = size("hidden_size", None)?;
    let heads = size("num_attention_heads", None)?;
    let head_dim = size("head_dim", Some(width.checked_div(heads).unwrap_or(0)))?;
    for flag in ["attention_bias", "mlp_bias"] {
        if opt(flag).and_then(Value::as_bool) == Some(true) {
            bail!(Unsupported, "[model] config.json: {flag} is true; accepted: false");
        }
    }
    let base = number("rope_theta", Some(10000.0))?;
    let (rope_scale, rope_factors) = rope_scaling(opt("rope_scaling"), base, head_dim)?;
    let config = Config {
        layers: size("num_hidden_layers", None)?,
        width,
        hidden: size("intermediate_size", None)?,
        heads,
        kv_heads: size("num_key_value_heads", Some(heads))?,
        head_dim,
        vocab: size("vocab_size", None)?,
        context: size("max_position_embeddings", Some(2048))?,
        eps: number("rms_norm_eps", Some(1e-6))?,
        rope_base: base,
        rope_scale,
        rope_dims: head_dim,
        rope_traditional: false,
        rope_factors,
    };
    build(config, weights, &HUGGING_FACE, "config.json")
}

/// The position scale and the factors on wavelengths of a `rope_scaling` entry.
///
/// # Source
/// The published rules of "linear" and "llama3" scaling (Llama 3.1 model card).
fn rope_scaling(scaling: Option<&Value>, base: f64, dims: usize) -> Result<(f64, Option<Vec<f64>>)> {
    let Some(s) = scaling else { return Ok((1.0, None)) };
    let get = |k: &str| {
        s.get(k)
            .and_then(Value::as_f64)
            .ok_or_else(|| err!(Format, "[model] config.json: rope_scaling.{k} is missing"))
    };
    let kind = s.get("rope_type").or(s.get("type")).and_then(Value::as_str).unwrap_or("default");
    match kind {
        "default" => Ok((1.0, None)),
        "linear" => Ok((1.0 / get("factor")?, None)),
        "llama3" => {
            let (factor, low, high) = (get("factor")?, get("low_freq_factor")?, get("high_freq_factor")?);
            let old = get("original_max_position_embeddings")?;
            let factors = (0..dims / 2).map(|i| {
                let wave = 2.0 * std::f64::consts::PI * base.powf(2.0 * i as f64 / dims as f64);
                if wave < old / high {
                    1.0
                } else if wave > old / low {
                    factor
                } else {
                    let smooth = (old / wave - low) / (high - low);
                    1.0 / ((1.0 - smooth) / factor + smooth)
                }
            });
            Ok((1.0, Some(factors.collect())))
        }
        other => bail!(
            Unsupported,
            "[model] config.json: rope scaling {other:?}; accepted: default, linear, llama3"
        ),
    }
}

fn build(c: Config, w: &Weights, names: &Names, file: &str) -> Result<Box<dyn Model>> {
    let sizes = [c.layers, c.width, c.hidden, c.heads, c.kv_heads, c.head_dim, c.vocab, c.context];
    if sizes.contains(&0)
        || sizes.iter().any(|&n| n > 1 << 24)
        || !c.heads.is_multiple_of(c.kv_heads)
        || !c.rope_dims.is_multiple_of(2)
    {
        bail!(
            Format,
            "[model] {file}: sizes make no sense: {} layers, width {}, hidden {}, {} heads over {} of {}, vocabulary {}, \
             context {}",
            c.layers,
            c.width,
            c.hidden,
            c.heads,
            c.kv_heads,
            c.head_dim,
            c.vocab,
            c.context
        );
    }
    let (q, kv) = (c.heads * c.head_dim, c.kv_heads * c.head_dim);
    let embed = w.table(names.embed, c.vocab, c.width)?;
    let mut layers = Vec::new();
    for i in 0..c.layers {
        let name = |part: &str| (names.layer)(i, part);
        let [nq, nk, nv] = names.qkv.map(name);
        let [gate, up] = names.gate_up.map(name);
        layers.push(Layer {
            attn_norm: w.vector(&name(names.attn_norm), &[c.width])?,
            qkv: w.stacked(&[(&nq, q), (&nk, kv), (&nv, kv)], c.width)?,
            out: w.matrix(&name(names.out), c.width, q)?,
            ffn_norm: w.vector(&name(names.ffn_norm), &[c.width])?,
            gate_up: w.stacked(&[(&gate, c.hidden), (&up, c.hidden)], c.width)?,
            down: w.matrix(&name(names.down), c.width, c.hidden)?,
        });
    }
    let head = if w.has(names.head) { names.head } else { names.embed };
    let freqs = match &c.rope_factors {
        Some(f) => {
            let waves: Vec<f32> = f
                .iter()
                .enumerate()
                .map(|(i, f)| (c.rope_base.powf(2.0 * i as f64 / c.rope_dims as f64) * f) as f32)
                .collect();
            Some(Array::from_slice(&waves, [c.rope_dims / 2])?)
        }
        None => None,
    };
    Ok(Box::new(Llama {
        norm: w.vector(names.norm, &[c.width])?,
        head: w.matrix(head, c.vocab, c.width)?,
        embed,
        layers,
        freqs,
        config: c,
    }))
}

/// The parts of an array before and from `at` on along an axis.
fn cut(x: &Array, at: usize, axis: i64) -> Result<[Array; 2]> {
    let parts = x.split_at(&[at as i64], axis)?;
    parts.try_into().map_err(|_| err!(Internal, "[model] a cut in two gave another number of parts"))
}

impl Model for Llama {
    fn step(&self, tokens: &Array, offset: &Scalar, caches: &mut [LayerCaches]) -> Result<Array> {
        let c = &self.config;
        let mut x = self.embed.rows(tokens)?;
        for (i, layer) in self.layers.iter().enumerate() {
            let h = rms_norm(&x, Some(&layer.attn_norm), c.eps)?;
            x = x.add(self.attend(i, &h, offset, caches)?)?;
            let h = rms_norm(&x, Some(&layer.ffn_norm), c.eps)?;
            let gate_up = layer.gate_up.apply(&h)?;
            let [gate, up] = cut(&gate_up, c.hidden, 2)?;
            let h = gate.multiply(gate.sigmoid()?)?.multiply(up)?;
            x = x.add(layer.down.apply(&h)?)?;
        }
        let t = x.shape()[1];
        let [_, last] = cut(&x, t - 1, 1)?;
        let last = last.reshape_to([1, c.width])?;
        let h = rms_norm(&last, Some(&self.norm), c.eps)?;
        self.head.apply(&h)
    }

    fn kv_shape(&self) -> KvShape {
        let c = &self.config;
        KvShape {
            layers: c.layers,
            heads: c.kv_heads,
            key_dim: c.head_dim,
            value_dim: c.head_dim,
            dtype: Dtype::F16,
            max: c.context,
        }
    }

    fn vocab(&self) -> usize {
        self.config.vocab
    }
}

impl Llama {
    /// Attention of layer `i` over what is cached and the new positions.
    fn attend(&self, i: usize, h: &Array, offset: &Scalar, caches: &mut [LayerCaches]) -> Result<Array> {
        let (c, layer) = (&self.config, &self.layers[i]);
        let t = h.shape()[1];
        let all = c.heads + 2 * c.kv_heads;
        // (1, heads + 2 kv heads, T, head_dim): queries and keys rotate in one step.
        let qkv = layer.qkv.apply(h)?.reshape_to([1, t, all, c.head_dim])?.transpose(&[0, 2, 1, 3])?;
        let [qk, v] = cut(&qkv, c.heads + c.kv_heads, 1)?;
        let [q, k] = cut(&self.rotate(&qk, offset)?, c.heads, 1)?;
        let [keys, values] = kv::write(caches, i, [&k, &v], offset)?;
        let scale = 1.0 / (c.head_dim as f64).sqrt();
        let out = scaled_dot_product_attention(&q, &keys, &values, scale, Mask::Causal, None)?;
        let out = out.transpose(&[0, 2, 1, 3])?.reshape_to([1, t, c.heads * c.head_dim])?;
        layer.out.apply(&out)
    }

    fn rotate(&self, x: &Array, offset: &Scalar) -> Result<Array> {
        let c = &self.config;
        let options = RopeOptions {
            dims: c.rope_dims as i64,
            traditional: c.rope_traditional,
            base: self.freqs.is_none().then(|| c.rope_base.into()),
            scale: c.rope_scale.into(),
            freqs: self.freqs.clone(),
        };
        rope(x, offset, &options)
    }
}
