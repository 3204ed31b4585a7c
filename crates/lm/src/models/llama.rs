//! Llama and what is built like it: SmolLM2, Llama 2 and 3, Mistral.

use super::Model;
use super::rope::{Scaling, positive};
use crate::kv::{self, KvShape, LayerCaches, Limit};
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
    context: Limit,
    eps: f64,
    rope_base: f64,
    rope_dims: usize,
    /// GGUF stores query and key rows so that pairs are neighbours; Hugging Face, halves apart.
    rope_traditional: bool,
    rope_scaling: Scaling,
    /// Further factors on wavelengths, which a file may hold as a tensor.
    rope_factors: Option<Vec<f64>>,
    /// Logits come from the embeddings; where the files do not say, from a tensor of their own if there is one.
    tied: Option<bool>,
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
    /// Ends of names of tensors that a file may hold and nobody needs: they follow from the sizes.
    spare: &'static [&'static str],
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
    spare: &[],
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
    spare: &["rotary_emb.inv_freq"],
};

/// What `config.json` must say, if anything, for `step` to be the model it describes.
const FIXED: &[(&str, &[&str])] = &[
    ("attention_bias", &["false"]),
    ("mlp_bias", &["false"]),
    ("hidden_act", &["\"silu\"", "\"swish\""]),
    ("partial_rotary_factor", &["1", "1.0"]),
    // Weights are floats here; what would scale them is not read.
    ("quantization", &["null"]),
    ("quantization_config", &["null"]),
];

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
    // What a dense model with values as long as keys has, if the file says it at all.
    for (k, accepted) in [("attention.value_length", head_dim), ("expert_count", 0)] {
        if let Some(n) = meta.opt_usize(&key(k))?.filter(|n| *n != accepted) {
            bail!(Unsupported, "[model] {} is {n}; accepted: {accepted}", key(k));
        }
    }
    let vocab = match meta.opt_usize(&key("vocab_size"))? {
        Some(v) => v,
        None => meta.strings("tokenizer.ggml.tokens")?.len(),
    };
    let rope_dims = meta.opt_usize(&key("rope.dimension_count"))?.unwrap_or(head_dim);
    let rope_factors = if weights.has("rope_freqs.weight") {
        let factors = weights.vector("rope_freqs.weight", &[rope_dims / 2])?.to_vec::<f32>()?;
        let factor = |f: f32| positive("rope_freqs.weight", f64::from(f));
        Some(factors.into_iter().map(factor).collect::<Result<_>>()?)
    } else {
        None
    };
    let number = |k: &str, default: Option<f64>| {
        let v = match default {
            Some(default) => meta.opt_float(&key(k))?.unwrap_or(default),
            None => meta.float(&key(k))?,
        };
        positive(&key(k), v)
    };
    let context = meta.usize(&key("context_length"))?;
    let window = meta.opt_usize(&key("attention.sliding_window"))?;
    let config = Config {
        layers: meta.usize(&key("block_count"))?,
        width,
        hidden: meta.usize(&key("feed_forward_length"))?,
        heads,
        kv_heads: meta.opt_usize(&key("attention.head_count_kv"))?.unwrap_or(heads),
        head_dim,
        vocab,
        context: within(context, window),
        eps: number("attention.layer_norm_rms_epsilon", None)?,
        rope_base: number("rope.freq_base", Some(10000.0))?,
        rope_dims,
        rope_traditional: true,
        rope_scaling: Scaling::from_gguf(meta, arch, context)?,
        rope_factors,
        tied: None,
    };
    build(config, weights, &GGUF)
}

pub(super) fn from_config(config: &Value, weights: &Weights) -> Result<Box<dyn Model>> {
    let opt = |k: &str| config.get(k).filter(|v| !v.is_null());
    let number = |k: &str, v: Option<&Value>, default: f64| match v.map(|v| (v, v.as_f64())) {
        Some((v, None)) => bail!(Format, "[model] config.json: {k} is {v}; accepted: a number"),
        given => positive(&format!("config.json: {k}"), given.and_then(|g| g.1).unwrap_or(default)),
    };
    let opt_size = |k: &str| match opt(k).map(|v| (v, v.as_u64())) {
        Some((v, None)) => bail!(Format, "[model] config.json: {k} is {v}; accepted: a non-negative integer"),
        given => Ok(given.and_then(|g| g.1).map(|n| n as usize)),
    };
    let size = |k: &str, default: Option<usize>| {
        opt_size(k)?.or(default).ok_or_else(|| err!(Format, "[model] config.json: {k} is missing"))
    };
    let width = size("hidden_size", None)?;
    let heads = size("num_attention_heads", None)?;
    let head_dim = size("head_dim", Some(width.checked_div(heads).unwrap_or(0)))?;
    for (k, accepted) in FIXED {
        if let Some(v) = opt(k)
            && !accepted.contains(&v.to_string().as_str())
        {
            bail!(
                Unsupported,
                "[model] config.json: {k} is {:.80}; accepted: {}",
                v.to_string(),
                accepted.join(", ")
            );
        }
    }
    // Newer files have all of the rotary embedding's settings in one place.
    let rope = opt("rope_parameters").or(opt("rope_scaling"));
    let base = opt("rope_theta").or(rope.and_then(|r| r.get("rope_theta")));
    let context = size("max_position_embeddings", Some(2048))?;
    let scaling = Scaling::from_config(rope, context)?;
    let config = Config {
        layers: size("num_hidden_layers", None)?,
        width,
        hidden: size("intermediate_size", None)?,
        heads,
        kv_heads: size("num_key_value_heads", Some(heads))?,
        head_dim,
        vocab: size("vocab_size", None)?,
        context: within(scaling.context().map_or(context, |n| n.min(context)), opt_size("sliding_window")?),
        eps: number("rms_norm_eps", opt("rms_norm_eps"), 1e-6)?,
        rope_base: number("rope_theta", base, 10000.0)?,
        rope_dims: head_dim,
        rope_traditional: false,
        rope_scaling: scaling,
        rope_factors: None,
        tied: tied(opt("tie_word_embeddings"))?,
    };
    build(config, weights, &HUGGING_FACE)
}

fn tied(v: Option<&Value>) -> Result<Option<bool>> {
    let wrong = |v| err!(Format, "[model] config.json: tie_word_embeddings is {v}; accepted: true, false");
    v.map(|v| v.as_bool().ok_or_else(|| wrong(v))).transpose()
}

/// The context of a model whose tokens see a window of those before: up to its end, none is hidden.
fn within(context: usize, window: Option<usize>) -> Limit {
    match window.filter(|w| (1..context).contains(w)) {
        Some(tokens) => Limit { tokens, what: "sliding window" },
        None => Limit { tokens: context, what: "context" },
    }
}

fn build(c: Config, w: &Weights, names: &Names) -> Result<Box<dyn Model>> {
    for (what, n) in [
        ("the number of layers", c.layers),
        ("the width", c.width),
        ("the width of the feed-forward part", c.hidden),
        ("the number of heads", c.heads),
        ("the number of heads of keys and values", c.kv_heads),
        ("the size of a head", c.head_dim),
        ("the size of the vocabulary", c.vocab),
        ("the context", c.context.tokens),
    ] {
        if !(1..=1 << 24).contains(&n) {
            bail!(Format, "[model] {what} is {n}; accepted: 1 to {}", 1 << 24);
        }
    }
    if !c.heads.is_multiple_of(c.kv_heads) {
        bail!(
            Format,
            "[model] {0} heads over {1} of keys and values; accepted: a divisor of {0}",
            c.heads,
            c.kv_heads
        );
    }
    if !c.rope_dims.is_multiple_of(2) || !(2..=c.head_dim).contains(&c.rope_dims) {
        bail!(
            Format,
            "[model] {} dimensions of a head are rotated; accepted: an even number from 2 to its size, {}",
            c.rope_dims,
            c.head_dim
        );
    }
    if c.rope_scaling.attention() != 1.0 && c.rope_dims != c.head_dim {
        bail!(Unsupported, "[model] yarn with {} of {} dimensions rotated", c.rope_dims, c.head_dim);
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
    let tied = c.tied.unwrap_or(!w.has(names.head));
    let model = Llama {
        norm: w.vector(names.norm, &[c.width])?,
        head: w.matrix(if tied { names.embed } else { names.head }, c.vocab, c.width)?,
        embed,
        layers,
        freqs: frequencies(&c)?,
        config: c,
    };
    w.check_all_used(|name| tied && name == names.head || names.spare.iter().any(|s| name.ends_with(s)))?;
    Ok(Box::new(model))
}

/// Wavelengths of the rotary embedding over TAU, where they are not powers of the base.
fn frequencies(c: &Config) -> Result<Option<Array>> {
    let scaled = c.rope_scaling.factors(c.rope_base, c.rope_dims);
    let pairs = c.rope_dims / 2;
    if scaled.is_none() && c.rope_factors.is_none() {
        return Ok(None);
    }
    let factor = |f: &Option<Vec<f64>>, i: usize| f.as_ref().map_or(1.0, |f| f[i]);
    let wave = |i: usize| {
        let plain = c.rope_base.powf(2.0 * i as f64 / c.rope_dims as f64);
        (plain * factor(&scaled, i) * factor(&c.rope_factors, i)) as f32
    };
    Array::from_slice(&(0..pairs).map(wave).collect::<Vec<_>>(), [pairs]).map(Some)
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
        let scale = c.rope_scaling.attention().powi(2) / (c.head_dim as f64).sqrt();
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
            scale: 1.0.into(),
            freqs: self.freqs.clone(),
        };
        rope(x, offset, &options)
    }
}
