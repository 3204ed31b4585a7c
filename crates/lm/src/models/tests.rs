//! Small models with random weights: against a plain forward pass in float64, and broken in every way.

use crate::engine::{Engine, LoadOptions, check};
use crate::hub::locate;
use crate::weights::Activations;
use isopace::Dtype;
use isopace::io::gguf::{NewTensor, TensorType, Value, write_gguf};
use isopace::io::safetensors;
use serde_json::json;
use std::collections::BTreeMap;
use std::f64::consts::TAU;
use std::path::Path;

const LAYERS: usize = 2;
const WIDTH: usize = 24;
const HIDDEN: usize = 40;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const DIM: usize = 16;
const VOCAB: usize = 257;
const CONTEXT: usize = 64;
const EPS: f64 = 1e-5;

/// A tensor of the model: its shape and values.
type Tensor = (Vec<usize>, Vec<f32>);

/// The parts of a small model, to be written as either kind of file.
#[derive(Clone)]
struct Tiny {
    /// By their names in GGUF.
    tensors: BTreeMap<String, Tensor>,
    meta: BTreeMap<String, Value>,
    config: serde_json::Map<String, serde_json::Value>,
    /// What safetensors calls the elements, of four bytes each.
    dtype: &'static str,
}

/// Each name in GGUF and in Hugging Face's layout; layers stand as `{}`.
const NAMES: [(&str, &str); 12] = [
    ("token_embd.weight", "model.embed_tokens.weight"),
    ("output_norm.weight", "model.norm.weight"),
    ("output.weight", "lm_head.weight"),
    ("blk.{}.attn_norm.weight", "model.layers.{}.input_layernorm.weight"),
    ("blk.{}.attn_q.weight", "model.layers.{}.self_attn.q_proj.weight"),
    ("blk.{}.attn_k.weight", "model.layers.{}.self_attn.k_proj.weight"),
    ("blk.{}.attn_v.weight", "model.layers.{}.self_attn.v_proj.weight"),
    ("blk.{}.attn_output.weight", "model.layers.{}.self_attn.o_proj.weight"),
    ("blk.{}.ffn_norm.weight", "model.layers.{}.post_attention_layernorm.weight"),
    ("blk.{}.ffn_gate.weight", "model.layers.{}.mlp.gate_proj.weight"),
    ("blk.{}.ffn_up.weight", "model.layers.{}.mlp.up_proj.weight"),
    ("blk.{}.ffn_down.weight", "model.layers.{}.mlp.down_proj.weight"),
];

fn hugging_face_name(name: &str) -> String {
    let layer = name.split('.').nth(1).filter(|_| name.starts_with("blk.")).unwrap_or("");
    let row = NAMES.iter().find(|(gguf, _)| gguf.replace("{}", layer) == name);
    row.map_or(name.to_string(), |(_, hf)| hf.replace("{}", layer))
}

fn tokens() -> Vec<String> {
    let byte = |b: u8| crate::tokenizer::byte_char(b).to_string();
    (0..=255).map(byte).chain(["</s>".to_string()]).collect()
}

impl Tiny {
    fn new() -> Tiny {
        let (q, kv) = (HEADS * DIM, KV_HEADS * DIM);
        let mut shapes = vec![
            ("token_embd.weight".to_string(), vec![VOCAB, WIDTH]),
            ("output_norm.weight".into(), vec![WIDTH]),
            ("output.weight".into(), vec![VOCAB, WIDTH]),
        ];
        for i in 0..LAYERS {
            let parts = [
                ("attn_norm", vec![WIDTH]),
                ("attn_q", vec![q, WIDTH]),
                ("attn_k", vec![kv, WIDTH]),
                ("attn_v", vec![kv, WIDTH]),
                ("attn_output", vec![WIDTH, q]),
                ("ffn_norm", vec![WIDTH]),
                ("ffn_gate", vec![HIDDEN, WIDTH]),
                ("ffn_up", vec![HIDDEN, WIDTH]),
                ("ffn_down", vec![WIDTH, HIDDEN]),
            ];
            shapes.extend(parts.map(|(name, shape)| (format!("blk.{i}.{name}.weight"), shape)));
        }
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as f32 / (1 << 24) as f32 - 0.5
        };
        let tensors = shapes.into_iter().map(|(name, shape)| {
            let values = (0..shape.iter().product()).map(|_| random()).collect();
            (name, (shape, values))
        });
        let size = |n: usize| Value::from(n as u32);
        let meta = [
            ("general.architecture", Value::from("llama")),
            ("llama.block_count", size(LAYERS)),
            ("llama.embedding_length", size(WIDTH)),
            ("llama.feed_forward_length", size(HIDDEN)),
            ("llama.attention.head_count", size(HEADS)),
            ("llama.attention.head_count_kv", size(KV_HEADS)),
            ("llama.attention.key_length", size(DIM)),
            ("llama.context_length", size(CONTEXT)),
            ("llama.attention.layer_norm_rms_epsilon", Value::from(EPS as f32)),
            ("llama.rope.freq_base", Value::from(100f32)),
            ("tokenizer.ggml.model", Value::from("gpt2")),
            ("tokenizer.ggml.pre", Value::from("gpt-2")),
            ("tokenizer.ggml.tokens", Value::from(tokens())),
            ("tokenizer.ggml.merges", Value::from(Vec::<String>::new())),
            ("tokenizer.ggml.eos_token_id", Value::from(256u32)),
        ];
        let config = json!({
            "model_type": "llama", "num_hidden_layers": LAYERS, "hidden_size": WIDTH, "intermediate_size": HIDDEN,
            "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": DIM, "vocab_size": VOCAB,
            "max_position_embeddings": CONTEXT, "rms_norm_eps": EPS, "rope_theta": 100.0, "hidden_act": "silu",
            "tie_word_embeddings": false, "eos_token_id": 256,
        });
        Tiny {
            tensors: tensors.collect(),
            meta: meta.into_iter().map(|(k, v)| (k.to_string(), v)).collect(),
            config: config.as_object().unwrap().clone(),
            dtype: "F32",
        }
    }

    /// With keys of `config.json`; those that are null are left out.
    fn config(mut self, changes: serde_json::Value) -> Tiny {
        for (k, v) in changes.as_object().unwrap() {
            self.config.insert(k.clone(), v.clone());
        }
        self.config.retain(|_, v| !v.is_null());
        self
    }

    /// With a key of GGUF's metadata.
    fn meta(mut self, key: &str, value: impl Into<Value>) -> Tiny {
        self.meta.insert(key.to_string(), value.into());
        self
    }

    fn tensor(mut self, name: &str, shape: &[usize]) -> Tiny {
        self.tensors.insert(name.to_string(), (shape.to_vec(), vec![0.5; shape.iter().product()]));
        self
    }

    fn without(mut self, name: &str) -> Tiny {
        self.tensors.remove(name).unwrap();
        self
    }

    fn write_gguf(&self, path: &Path) {
        let data: Vec<(&String, &Vec<usize>, Vec<u8>)> = self
            .tensors
            .iter()
            .map(|(name, (shape, v))| (name, shape, v.iter().flat_map(|x| x.to_le_bytes()).collect()))
            .collect();
        let tensors: Vec<_> = data
            .iter()
            .map(|(name, shape, data)| NewTensor { name, shape, ty: TensorType::F32, data })
            .collect();
        let meta: Vec<_> = self.meta.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        write_gguf(&mut std::fs::File::create(path).unwrap(), &meta, &tensors).unwrap();
    }

    fn write_folder(&self, dir: &Path) {
        let data: Vec<(String, &Vec<usize>, Vec<u8>)> = self
            .tensors
            .iter()
            .map(|(name, (shape, v))| {
                (hugging_face_name(name), shape, v.iter().flat_map(|x| x.to_le_bytes()).collect())
            })
            .collect();
        let ty = safetensors::Type::from_name(self.dtype).unwrap();
        let tensors: Vec<_> =
            data.iter().map(|(name, shape, data)| safetensors::NewTensor { name, shape, ty, data }).collect();
        let mut bytes = Vec::new();
        safetensors::write_safetensors(&mut bytes, &[], &tensors).unwrap();
        std::fs::write(dir.join("model.safetensors"), bytes).unwrap();
        let vocab: serde_json::Map<_, _> =
            tokens().into_iter().take(256).enumerate().map(|(i, t)| (t, json!(i))).collect();
        let level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false});
        let end = json!({
            "id": 256, "content": "</s>", "special": true, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false,
        });
        let tokenizer = json!({
            "version": "1.0", "added_tokens": [end], "decoder": level, "pre_tokenizer": level,
            "model": {"type": "BPE", "vocab": vocab, "merges": []},
        });
        std::fs::write(dir.join("tokenizer.json"), tokenizer.to_string()).unwrap();
        // A byte order mark is no part of a text.
        let config = format!("\u{feff}{}", serde_json::Value::Object(self.config.clone()));
        std::fs::write(dir.join("config.json"), config).unwrap();
    }

    /// Calls `f` with the model's name, as a GGUF file or a folder.
    fn written<T>(&self, gguf: bool, f: impl FnOnce(&str) -> T) -> T {
        isopace::init();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tiny.gguf");
        if gguf {
            self.write_gguf(&file);
        } else {
            self.write_folder(dir.path());
        }
        f(if gguf { &file } else { dir.path() }.to_str().unwrap())
    }

    /// The one line with which loading it fails; checking it says the same.
    fn refused(&self, gguf: bool) -> String {
        self.written(gguf, |name| {
            let options = LoadOptions::default();
            let e = Engine::load(name, options).err().expect("a broken model").to_string();
            let checked = check(&locate(name).unwrap()).unwrap_err().to_string();
            assert!(e.contains(name) && !e.contains('\n'), "{e}");
            assert_eq!(e.replace(&format!("{name}: "), ""), checked.replace(&format!("{name}: "), ""));
            e.replace(name, "MODEL")
        })
    }

    /// What a forward pass in float64 gives, and what the engine gives, after all tokens.
    fn both(&self, gguf: bool, inv_freq: &[f64], attention: f64, ids: &[u32]) -> (Vec<f64>, Vec<f32>) {
        let want = self.forward(gguf, inv_freq, attention, ids);
        let got = self.written(gguf, |name| {
            check(&locate(name).unwrap()).unwrap();
            let options = LoadOptions { activations: Activations::F32, kv_dtype: Dtype::F32 };
            let engine = Engine::load(name, options).unwrap();
            let mut session = engine.session().unwrap();
            // In two parts, the second behind the cache.
            session.feed(&ids[..ids.len() / 2]).unwrap();
            session.feed(&ids[ids.len() / 2..]).unwrap();
            session.logits().unwrap().to_vec().unwrap()
        });
        (want, got)
    }

    fn product(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let (shape, values) = &self.tensors[name];
        assert_eq!(shape[1], x.len());
        values.chunks(x.len()).map(|row| row.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum()).collect()
    }

    fn norm(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let mean = x.iter().map(|v| v * v).sum::<f64>() / x.len() as f64;
        let w = &self.tensors[name].1;
        x.iter().zip(w).map(|(v, w)| v / (mean + EPS).sqrt() * f64::from(*w)).collect()
    }

    /// The model as its authors describe it: logits after the last token.
    fn forward(&self, neighbours: bool, inv_freq: &[f64], attention: f64, ids: &[u32]) -> Vec<f64> {
        let (_, embed) = &self.tensors["token_embd.weight"];
        let row = |id: &u32| embed[*id as usize * WIDTH..][..WIDTH].iter().map(|&v| f64::from(v)).collect();
        let mut xs: Vec<Vec<f64>> = ids.iter().map(row).collect();
        for i in 0..LAYERS {
            let name = |part: &str| format!("blk.{i}.{part}.weight");
            let hs: Vec<_> = xs.iter().map(|x| self.norm(&name("attn_norm"), x)).collect();
            let all = |part: &str| hs.iter().map(|h| self.product(&name(part), h)).collect::<Vec<_>>();
            let (mut q, mut k, v) = (all("attn_q"), all("attn_k"), all("attn_v"));
            for rows in [&mut q, &mut k] {
                for (pos, row) in rows.iter_mut().enumerate() {
                    row.chunks_mut(DIM).for_each(|h| rotate(h, pos as f64, neighbours, inv_freq, attention));
                }
            }
            for pos in 0..ids.len() {
                let mut out = Vec::new();
                for head in 0..HEADS {
                    let part = |row: &[f64], h: usize| row[h * DIM..][..DIM].to_vec();
                    let (query, kv) = (part(&q[pos], head), head / (HEADS / KV_HEADS));
                    let dot = |key: Vec<f64>| query.iter().zip(key).map(|(a, b)| a * b).sum::<f64>();
                    let scores = (0..=pos).map(|j| (dot(part(&k[j], kv)) / (DIM as f64).sqrt()).exp());
                    let scores: Vec<f64> = scores.collect();
                    let sum: f64 = scores.iter().sum();
                    let value =
                        |d: usize| (0..=pos).map(|j| scores[j] * v[j][kv * DIM + d]).sum::<f64>() / sum;
                    out.extend((0..DIM).map(value));
                }
                let out = self.product(&name("attn_output"), &out);
                xs[pos].iter_mut().zip(out).for_each(|(x, o)| *x += o);
                let h = self.norm(&name("ffn_norm"), &xs[pos]);
                let (gate, up) = (self.product(&name("ffn_gate"), &h), self.product(&name("ffn_up"), &h));
                let h: Vec<f64> = gate.iter().zip(up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
                let out = self.product(&name("ffn_down"), &h);
                xs[pos].iter_mut().zip(out).for_each(|(x, o)| *x += o);
            }
        }
        let head =
            if self.tensors.contains_key("output.weight") { "output.weight" } else { "token_embd.weight" };
        self.product(head, &self.norm("output_norm.weight", xs.last().unwrap()))
    }
}

fn rotate(head: &mut [f64], pos: f64, neighbours: bool, inv_freq: &[f64], attention: f64) {
    for (i, f) in inv_freq.iter().enumerate() {
        let (a, b) = if neighbours { (2 * i, 2 * i + 1) } else { (i, i + DIM / 2) };
        let (sin, cos) = (pos * f).sin_cos();
        let (x, y) = (head[a], head[b]);
        head[a] = (x * cos - y * sin) * attention;
        head[b] = (x * sin + y * cos) * attention;
    }
}

fn plain_freqs() -> Vec<f64> {
    (0..DIM / 2).map(|i| 100f64.powf(-2.0 * i as f64 / DIM as f64)).collect()
}

/// YaRN as section 3 of its paper gives it: the ramp between two numbers of turns in the old context.
fn yarn_freqs(factor: f64, old: f64, fast: f64, slow: f64) -> Vec<f64> {
    let pair = |turns: f64| DIM as f64 * (old / (turns * TAU)).ln() / (2.0 * 100f64.ln());
    let (low, high) = (pair(fast).floor().max(0.0), pair(slow).ceil().min(DIM as f64 - 1.0));
    let ramp = |i: usize| ((i as f64 - low) / (high - low)).clamp(0.0, 1.0);
    let blend = |(i, f): (usize, f64)| f / factor * ramp(i) + f * (1.0 - ramp(i));
    plain_freqs().into_iter().enumerate().map(blend).collect()
}

fn agree(tiny: &Tiny, gguf: bool, inv_freq: &[f64], attention: f64, what: &str) {
    let ids: Vec<u32> = (0..40).map(|i| i * 37 % 256).collect();
    let (want, got) = tiny.both(gguf, inv_freq, attention, &ids);
    let size = want.iter().fold(0f64, |m, v| m.max(v.abs()));
    for (i, (w, g)) in want.iter().zip(&got).enumerate() {
        assert!((w - f64::from(*g)).abs() < 1e-5 * size, "{what}: logit {i} is {g}, plainly {w}");
    }
}

#[test]
fn logits_are_those_of_a_plain_model() {
    let tiny = Tiny::new();
    agree(&tiny, true, &plain_freqs(), 1.0, "gguf");
    agree(&tiny, false, &plain_freqs(), 1.0, "folder");
    let tied = tiny.without("output.weight");
    agree(&tied, true, &plain_freqs(), 1.0, "gguf, tied");
    agree(&tied.config(json!({"tie_word_embeddings": true})), false, &plain_freqs(), 1.0, "folder, tied");
}

#[test]
fn what_a_session_forgets_leaves_no_trace() {
    let logits = |feeds: &[&[u32]], keep: usize| -> Vec<f32> {
        Tiny::new().written(true, |name| {
            let engine = Engine::load(name, LoadOptions::default()).unwrap();
            let mut session = engine.session().unwrap();
            feeds[0].iter().for_each(|id| session.feed(&[*id]).unwrap());
            session.truncate(keep);
            assert_eq!(session.history(), &feeds[0][..keep]);
            assert!(session.logits().is_err() || keep == feeds[0].len());
            session.feed(feeds[1]).unwrap();
            session.logits().unwrap().to_vec().unwrap()
        })
    };
    let want = logits(&[&[1, 2, 3], &[4, 5]], 3);
    assert_eq!(logits(&[&[1, 2, 3, 9, 9, 9, 9], &[4, 5]], 3), want);
    assert_eq!(logits(&[&[9], &[1, 2, 3, 4, 5]], 0), logits(&[&[], &[1, 2, 3, 4, 5]], 0));
}

#[test]
fn a_head_that_is_tied_is_not_read() {
    let twice = Tiny::new().config(json!({"tie_word_embeddings": true}));
    let ids: Vec<u32> = (0..9).collect();
    let (want, _) = twice.clone().without("output.weight").both(false, &plain_freqs(), 1.0, &ids);
    let (_, got) = twice.both(false, &plain_freqs(), 1.0, &ids);
    assert!(want.iter().zip(&got).all(|(w, g)| (w - f64::from(*g)).abs() < 1e-4), "{want:?} {got:?}");
}

#[test]
fn scalings_of_the_rotary_embedding() {
    let scaled = |v: serde_json::Value| Tiny::new().config(json!({"rope_scaling": v}));
    let quarter: Vec<f64> = plain_freqs().iter().map(|f| f / 4.0).collect();
    agree(&scaled(json!({"type": "linear", "factor": 4})), false, &quarter, 1.0, "linear");
    let dynamic = scaled(json!({"rope_type": "dynamic", "factor": 2.0}));
    agree(&dynamic, false, &plain_freqs(), 1.0, "dynamic, up to the old context");
    let newer = json!({"rope_theta": 100.0, "rope_type": "linear", "factor": 4});
    let newer = Tiny::new().config(json!({"rope_theta": null, "rope_parameters": newer}));
    agree(&newer, false, &quarter, 1.0, "rope_parameters");

    // Few turns in this old context, so that pairs of all three kinds are there.
    let (old, fast, slow) = (40.0, 4.0, 0.5);
    let want = yarn_freqs(4.0, old, fast, slow);
    assert!(want[0] == 1.0 && want[7] == plain_freqs()[7] / 4.0 && want[3] > quarter[3], "{want:?}");
    let sharp = 0.1 * 4f64.ln() + 1.0;
    let yarn = json!({
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": old, "beta_fast": fast,
        "beta_slow": slow,
    });
    agree(&scaled(yarn.clone()), false, &want, sharp, "yarn");
    let mut given = yarn;
    given["attention_factor"] = json!(0.8);
    agree(&scaled(given), false, &want, 0.8, "yarn with an attention factor");
    let yarn = Tiny::new()
        .meta("llama.rope.scaling.type", "yarn")
        .meta("llama.rope.scaling.factor", 4f32)
        .meta("llama.rope.scaling.original_context_length", old as u32)
        .meta("llama.rope.scaling.yarn_beta_fast", fast as f32)
        .meta("llama.rope.scaling.yarn_beta_slow", slow as f32);
    agree(&yarn, true, &want, sharp, "yarn, gguf");
    let linear = Tiny::new().meta("llama.rope.scaling.factor", 4f32);
    agree(&linear, true, &quarter, 1.0, "linear, gguf without a type");

    // Llama 3.1's rule: short waves stay, long ones grow by the factor, in between the share is linear in the turns.
    let llama3 = |f: &f64| match (40.0 * f / TAU - 0.5) / 3.5 {
        s if s >= 1.0 => *f,
        s if s <= 0.0 => f / 4.0,
        s => (1.0 - s) * f / 4.0 + s * f,
    };
    let want: Vec<f64> = plain_freqs().iter().map(llama3).collect();
    let given = json!({
        "rope_type": "llama3", "factor": 4, "original_max_position_embeddings": 40, "low_freq_factor": 0.5,
        "high_freq_factor": 4,
    });
    agree(&scaled(given), false, &want, 1.0, "llama3");
}

#[test]
fn a_window_bounds_the_context() {
    let context = |tiny: Tiny, gguf: bool| {
        tiny.written(gguf, |name| Engine::load(name, LoadOptions::default()).unwrap().context().to_string())
    };
    assert_eq!(context(Tiny::new(), true), "context of 64");
    assert_eq!(
        context(Tiny::new().meta("llama.attention.sliding_window", 16u32), true),
        "sliding window of 16"
    );
    assert_eq!(context(Tiny::new().config(json!({"sliding_window": 16})), false), "sliding window of 16");
    assert_eq!(context(Tiny::new().config(json!({"sliding_window": 4096})), false), "context of 64");
    let dynamic = json!({"type": "dynamic", "factor": 2, "original_max_position_embeddings": 32});
    assert_eq!(context(Tiny::new().config(json!({"rope_scaling": dynamic})), false), "context of 32");
    Tiny::new().config(json!({"sliding_window": 16})).written(false, |name| {
        let engine = Engine::load(name, LoadOptions::default()).unwrap();
        let e = engine.session().unwrap().feed(&[1; 17]).unwrap_err().to_string();
        assert_eq!(e, "[context] 17 tokens are more than the model's sliding window of 16");
    });
}

#[test]
fn metadata_that_is_wrong_in_gguf() {
    let e = |tiny: Tiny| tiny.refused(true);
    let tiny = Tiny::new;
    let none = Tiny { tensors: BTreeMap::new(), ..tiny() };
    for (broken, part) in [
        (tiny().meta("llama.block_count", 1u32), "9 tensors are not of this model"),
        (tiny().meta("llama.block_count", 3u32), "blk.2.attn_norm.weight"),
        (tiny().tensor("blk.1.attn_q.bias", &[HEADS * DIM]), "blk.1.attn_q.bias"),
        (tiny().tensor("blk.0.ffn_gate_exps.weight", &[2, 2]), "blk.0.ffn_gate_exps.weight"),
        (tiny().tensor("rope_freqs.weight", &[DIM]), "rope_freqs.weight has shape (16,); "),
        (none, "there is no tensor"),
        (tiny().tensor("blk.0.attn_q.weight", &[0, WIDTH]), "blk.0.attn_q.weight has shape (0, 24)"),
        (
            tiny().meta("llama.attention.head_count", 0u32),
            "the number of heads is 0; accepted: 1 to 16777216",
        ),
        (
            tiny().meta("llama.attention.head_count_kv", 3u32),
            "4 heads over 3 of keys and values; accepted: a divisor of 4",
        ),
        (tiny().meta("llama.attention.value_length", 8u32), "attention.value_length is 8; accepted: 16"),
        (tiny().meta("llama.expert_count", 8u32), "llama.expert_count is 8; accepted: 0"),
        (tiny().meta("llama.context_length", 0u32), "the context is 0"),
        (tiny().meta("llama.rope.dimension_count", 0u32), "0 dimensions of a head are rotated"),
        (
            tiny().meta("llama.rope.dimension_count", 32u32),
            "32 dimensions of a head are rotated; accepted: an even number from 2 to its size, 16",
        ),
        (tiny().meta("llama.rope.freq_base", 0f32), "llama.rope.freq_base is 0; accepted"),
        (tiny().meta("llama.rope.freq_base", f32::NAN), "llama.rope.freq_base is NaN"),
        (tiny().meta("llama.attention.layer_norm_rms_epsilon", -1f32), "epsilon is -1"),
        (tiny().meta("llama.rope.scaling.factor", 0f32), "llama.rope.scaling.factor is 0"),
        (tiny().meta("llama.rope.scaling.type", "longrope"), "accepted: none, linear, yarn"),
        (tiny().meta("llama.rope.scaling.type", "yarn"), "llama.rope.scaling.factor"),
        (tiny().meta("tokenizer.ggml.eos_token_id", 257u32), "eos_token_id is 257"),
    ] {
        let e = e(broken);
        assert!(e.contains(part), "{part}: {e}");
    }
}

#[test]
fn settings_that_are_wrong_in_a_folder() {
    let config = |v: serde_json::Value| Tiny::new().config(v);
    let rope = |v: serde_json::Value| config(json!({"rope_scaling": v}));
    for (broken, part) in [
        (config(json!({"num_hidden_layers": 1})), "model.layers.1.input_layernorm.weight"),
        (Tiny { dtype: "I32", ..Tiny::new() }, "model.embed_tokens.weight is I32; accepted: F32, F16, BF16"),
        (config(json!({"hidden_act": "gelu"})), r#"hidden_act is "gelu"; accepted: "silu", "swish""#),
        (config(json!({"attention_bias": true})), "attention_bias is true; accepted: false"),
        (config(json!({"rope_theta": 0})), "rope_theta is 0"),
        (
            config(json!({"rope_theta": null, "rope_parameters": {"rope_theta": "x"}})),
            r#"rope_theta is "x"; "#,
        ),
        (config(json!({"rms_norm_eps": -1e-5})), "rms_norm_eps is -0.00001"),
        (config(json!({"rms_norm_eps": "small"})), r#"rms_norm_eps is "small"; accepted: a number"#),
        (
            config(json!({"tie_word_embeddings": "no"})),
            r#"tie_word_embeddings is "no"; accepted: true, false"#,
        ),
        (Tiny::new().without("output.weight"), "there is no tensor lm_head.weight"),
        (config(json!({"eos_token_id": 257})), "eos_token_id is 257, but the vocabulary has 257 tokens"),
        (config(json!({"bos_token_id": 300})), "bos_token_id is 300, but the vocabulary has 257 tokens"),
        (config(json!({"quantization_config": {"bits": 4}})), r#"_config is {"bits":4}; accepted: null"#),
        (rope(json!([1])), "rope_scaling is [1]; accepted: an object"),
        (rope(json!({"rope_type": 5})), "rope scaling 5; accepted: default"),
        (config(json!({"eos_token_id": [256, -1]})), "eos_token_id is -1; accepted"),
        (rope(json!({"type": "linear", "factor": 0})), "rope_scaling.factor is 0"),
        (rope(json!({"type": "linear"})), "rope_scaling.factor is missing"),
        (rope(json!({"type": "longrope"})), "accepted: default, linear, dynamic, llama3, yarn"),
        (
            rope(json!({"type": "yarn", "factor": 2, "beta_fast": 1})),
            "beta_fast is 1; accepted: above beta_slow, 1",
        ),
        (
            rope(json!({
                "type": "llama3", "factor": 2, "low_freq_factor": 4, "high_freq_factor": 4,
                "original_max_position_embeddings": 32,
            })),
            "high_freq_factor is 4; accepted: above low_freq_factor, 4",
        ),
    ] {
        let e = broken.refused(false);
        assert!(e.contains(part), "{part}: {e}");
    }
}
