//! The engine: a loaded model with its compiled step, and generation on top of it.

use crate::chat::{ChatTemplate, Message};
use crate::hub::{ModelFiles, locate, read_json};
use crate::kv::{KvCache, LayerCaches, Limit};
use crate::models::{self, Model};
use crate::sample::{SampleOptions, Sampler};
use crate::tokenizer::{Detokenizer, StopStrings, Stopped, Tokenizer};
use crate::weights::{Activations, Weights};
use isopace::compile::{Compiled, Options, ScalarMode, Stats, compile_with};
use isopace::{Array, Dtype, Error, Result, Scalar, bail, err, runtime};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

type Step = Compiled<(Array, Scalar, Vec<LayerCaches>), (Array, Vec<LayerCaches>)>;

/// How a model is loaded.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    pub activations: Activations,
    /// float16 or float32.
    pub kv_dtype: Dtype,
}

impl Default for LoadOptions {
    fn default() -> LoadOptions {
        LoadOptions { activations: Activations::default(), kv_dtype: Dtype::F16 }
    }
}

/// A model ready to generate.
pub struct Engine {
    model: Arc<dyn Model>,
    tokenizer: Tokenizer,
    template: Option<ChatTemplate>,
    step: Step,
    kv_dtype: Dtype,
    load_s: f64,
}

/// What to generate.
#[derive(Clone, Debug)]
pub struct GenerateOptions {
    pub sample: SampleOptions,
    pub max_tokens: usize,
    pub stop: Vec<String>,
    /// Goes on past the end-of-sequence token.
    pub ignore_eos: bool,
}

impl Default for GenerateOptions {
    fn default() -> GenerateOptions {
        GenerateOptions {
            sample: SampleOptions::default(),
            max_tokens: 512,
            stop: Vec::new(),
            ignore_eos: false,
        }
    }
}

impl GenerateOptions {
    /// Checks every option that can be checked without a model.
    ///
    /// # Errors
    /// `Argument` naming the option, its value and what is accepted.
    pub fn check(&self) -> Result<()> {
        self.sample.check()?;
        StopStrings::new(self.stop.clone()).map(drop)
    }
}

/// Why generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FinishReason {
    /// An end-of-sequence token or a stop string.
    Stop,
    /// The token limit or the end of the context.
    Length,
    /// The caller's wish.
    Interrupted,
}

/// Speeds, in tokens a second, seconds, milliseconds and microseconds as named.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Timings {
    pub load_s: f64,
    pub prefill_tok_s: f64,
    pub decode_tok_s: f64,
    pub ttft_ms: f64,
    pub host_us_per_token: HostCost,
}

/// Wall time less kernel time on the calling thread, per token: the median of all tokens from the
/// second on, of their first tenth and of their last.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct HostCost {
    pub median: f64,
    pub first: f64,
    pub last: f64,
}

/// A finished answer.
#[derive(Clone, Debug)]
pub struct Generated {
    pub ids: Vec<u32>,
    pub text: String,
    pub finish_reason: FinishReason,
    pub timings: Timings,
}

/// Prompt tokens that go through the model at once.
const CHUNK: usize = 512;

impl Engine {
    /// Loads a GGUF file, a folder in Hugging Face's layout, or a model of the Hub by name.
    ///
    /// # Errors
    /// One line naming the file, tensor or key that is wrong.
    pub fn load(model: &str, options: LoadOptions) -> Result<Engine> {
        let start = Instant::now();
        let files = locate(model)?;
        let (model, mut tokenizer, template, weights) =
            read(&files, options, false).map_err(|e| named(e, model))?;
        tokenizer.set_context(model.kv_shape().max);
        weights.release_pages();
        let model: Arc<dyn Model> = model.into();
        let traced = model.clone();
        let compile_options =
            Options { scalars: ScalarMode::Symbolic, name: Some("decode step".into()), ..Options::default() };
        let step = compile_with(
            compile_options,
            move |(tokens, offset, mut caches): (Array, Scalar, Vec<LayerCaches>)| {
                let logits = traced.step(&tokens, &offset, &mut caches)?;
                Ok((logits, caches))
            },
        );
        let load_s = start.elapsed().as_secs_f64();
        Ok(Engine { model, tokenizer, template, step, kv_dtype: options.kv_dtype, load_s })
    }

    /// The most tokens that a conversation may have.
    pub fn context(&self) -> Limit {
        self.model.kv_shape().max
    }

    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Counters of the compiled step.
    pub fn step_stats(&self) -> Stats {
        self.step.stats()
    }

    /// The compiled step's account of its misses.
    pub fn explain(&self) -> String {
        self.step.explain().to_string()
    }

    /// The model's chat template.
    ///
    /// # Errors
    /// `Argument` when it has none.
    pub fn template(&self) -> Result<&ChatTemplate> {
        self.template.as_ref().ok_or_else(|| {
            err!(Argument, "[chat] the model has no chat template; give the prompt as it is with --raw")
        })
    }

    /// Token ids of a conversation, up to where the answer begins.
    ///
    /// # Errors
    /// `Argument` when the model has no chat template, or the template refuses.
    pub fn encode_chat(&self, messages: &[Message]) -> Result<Vec<u32>> {
        self.template()?.encode(&self.tokenizer, messages, true)
    }

    /// A session with an empty cache.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn session(&self) -> Result<Session<'_>> {
        Ok(Session { engine: self, cache: self.cache(0)?, history: Vec::new(), logits: None })
    }

    fn cache(&self, room: usize) -> Result<KvCache> {
        let mut shape = self.model.kv_shape();
        shape.dtype = self.kv_dtype;
        KvCache::new(shape, room)
    }
}

/// An error about what a model's files say, with the model's name unless it has it.
pub(crate) fn named(e: Error, model: &str) -> Error {
    match &e {
        Error::Shape(text)
        | Error::Dtype(text)
        | Error::Axis(text)
        | Error::Argument(text)
        | Error::Format(text)
            if !text.contains(model) =>
        {
            Error::Format(format!("{model}: {text}"))
        }
        Error::Unsupported(text) if !text.contains(model) => Error::Unsupported(format!("{model}: {text}")),
        _ => e,
    }
}

type Loaded = (Box<dyn Model>, Tokenizer, Option<ChatTemplate>, Weights);

/// Checks what a model's files say, without reading its matrices.
///
/// # Errors
/// As [`Engine::load`].
pub fn check(files: &ModelFiles) -> Result<()> {
    read(files, LoadOptions::default(), true).map(drop)
}

fn read(files: &ModelFiles, options: LoadOptions, check_only: bool) -> Result<Loaded> {
    let set = |mut weights: Weights| {
        (weights.activations, weights.check_only) = (options.activations, check_only);
        weights
    };
    match files {
        ModelFiles::Gguf(path) => {
            let (weights, gguf) = Weights::gguf(path)?;
            let weights = set(weights);
            let tokenizer = Tokenizer::from_gguf(&gguf.metadata)?;
            let template = ChatTemplate::from_gguf(&gguf.metadata, &tokenizer)?;
            let model = models::from_gguf(&gguf.metadata, &weights)?;
            Ok((model, tokenizer, template, weights))
        }
        ModelFiles::Folder(folder) => {
            let tokenizer = folder.tokenizer()?;
            let template = folder.chat_template(&tokenizer)?;
            let weights = set(Weights::safetensors(&folder.weights)?);
            let model = models::from_config(&read_json(&folder.config)?, &weights)?;
            Ok((model, tokenizer, template, weights))
        }
    }
}

/// A running conversation: a cache and the tokens in it.
pub struct Session<'a> {
    engine: &'a Engine,
    cache: KvCache,
    history: Vec<u32>,
    /// The logits after the last token.
    logits: Option<Array>,
}

impl Session<'_> {
    /// Tokens that the cache holds.
    pub fn history(&self) -> &[u32] {
        &self.history
    }

    /// Bytes of the cache.
    pub fn cache_nbytes(&self) -> usize {
        self.cache.nbytes()
    }

    /// Puts tokens through the model; [`Session::logits`] has what follows the last.
    ///
    /// # Errors
    /// `Argument` for no tokens, an unknown one, or more than the context holds.
    pub fn feed(&mut self, tokens: &[u32]) -> Result<()> {
        let vocab = self.engine.model.vocab();
        if tokens.is_empty() {
            bail!(Argument, "[prompt] the prompt is empty; at least one token is needed");
        }
        if let Some(bad) = tokens.iter().find(|&&t| t as usize >= vocab) {
            bail!(Argument, "[prompt] token {bad} is outside the vocabulary of {vocab}");
        }
        self.cache.reserve(tokens.len())?;
        for chunk in tokens.chunks(CHUNK) {
            let ids = Array::from_slice(chunk, [1, chunk.len()])?;
            // The layers move into the call: nobody else holds them, so the step writes in place.
            let layers = std::mem::take(&mut self.cache.layers);
            let (out, layers) = self.engine.step.call((ids, Scalar::from(self.cache.offset), layers))?;
            runtime::eval(std::slice::from_ref(&out))?;
            self.cache.layers = layers;
            self.cache.offset += chunk.len();
            self.history.extend_from_slice(chunk);
            self.logits = Some(out);
        }
        Ok(())
    }

    /// Keeps the first `n` tokens and forgets the others; they cost nothing to feed on from.
    pub fn truncate(&mut self, n: usize) {
        if n < self.history.len() {
            // What the cache holds from there on is written over before it is read.
            self.cache.offset = n;
            self.history.truncate(n);
            self.logits = None;
        }
    }

    /// The logits after the last token, one for each token of the vocabulary.
    ///
    /// # Errors
    /// `Argument` before the first token, and after tokens were forgotten.
    pub fn logits(&self) -> Result<&Array> {
        self.logits.as_ref().ok_or_else(|| err!(Argument, "[generate] no token was fed yet; feed one first"))
    }

    /// Answers the prompt, which follows what the cache already holds. `on_text` gets the text as it
    /// comes and may end it.
    ///
    /// # Errors
    /// `Argument` for a bad option or a prompt that does not fit; whatever the model runs into.
    pub fn generate(
        &mut self,
        prompt: &[u32],
        options: &GenerateOptions,
        on_text: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generated> {
        let tokenizer = &self.engine.tokenizer;
        let mut sampler = Sampler::new(options.sample.clone(), self.engine.model.vocab())?;
        let mut stops = StopStrings::new(options.stop.clone())?;
        let mut text = TextOut { detokenizer: Detokenizer::default(), all: String::new(), open: true };
        let mut timings = Timings { load_s: self.engine.load_s, ..Timings::default() };
        let mut ids = Vec::new();
        let mut reason = FinishReason::Length;
        if options.max_tokens == 0 {
            return Ok(Generated { ids, text: text.all, finish_reason: reason, timings });
        }
        runtime::time_kernels(true);
        let start = Instant::now();
        self.cache.reserve(prompt.len())?;
        // Between chunks the caller may end it; an empty prompt is refused by `feed`.
        for chunk in if prompt.is_empty() { vec![prompt] } else { prompt.chunks(CHUNK).collect() } {
            if on_text("").is_break() {
                runtime::time_kernels(false);
                let finish_reason = FinishReason::Interrupted;
                return Ok(Generated { ids, text: text.all, finish_reason, timings });
            }
            self.feed(chunk)?;
        }
        let prefilled = start.elapsed().as_secs_f64();
        timings.prefill_tok_s = prompt.len() as f64 / prefilled.max(1e-9);
        let mut host_us = Vec::new();
        let mut decode_start = Instant::now();
        loop {
            let (t0, k0) = (Instant::now(), runtime::kernel_ns());
            let id = self.logits()?.with_slice(|logits| sampler.sample(logits, &self.history))??;
            if ids.is_empty() {
                timings.ttft_ms = start.elapsed().as_secs_f64() * 1e3;
                decode_start = Instant::now();
            }
            let is_end = tokenizer.stop_ids().contains(&id);
            ids.push(id);
            if is_end && !options.ignore_eos {
                reason = FinishReason::Stop;
                break;
            }
            match text.push(tokenizer, id, &mut stops, on_text) {
                Next::Go => {}
                Next::Stop => {
                    reason = FinishReason::Stop;
                    break;
                }
                Next::Interrupted => {
                    reason = FinishReason::Interrupted;
                    break;
                }
            }
            if ids.len() >= options.max_tokens || self.cache.offset >= self.engine.context().tokens {
                break;
            }
            self.feed(&[id])?;
            let kernels = runtime::kernel_ns() - k0;
            host_us.push((t0.elapsed().as_nanos() as f64 - kernels as f64) / 1e3);
        }
        text.finish(&mut stops, on_text);
        runtime::time_kernels(false);
        let decoded = ids.len().saturating_sub(1);
        if decoded > 0 {
            timings.decode_tok_s = decoded as f64 / decode_start.elapsed().as_secs_f64().max(1e-9);
        }
        timings.host_us_per_token = HostCost::of(host_us.get(1..).unwrap_or(&[]));
        Ok(Generated { ids, text: text.all, finish_reason: reason, timings })
    }
}

impl HostCost {
    /// The three medians of costs in token order.
    pub fn of(us: &[f64]) -> HostCost {
        let tenth = us.len().div_ceil(10);
        HostCost { median: median(us), first: median(&us[..tenth]), last: median(&us[us.len() - tenth..]) }
    }
}

fn median(v: &[f64]) -> f64 {
    let mut v = v.to_vec();
    v.sort_by(f64::total_cmp);
    v.get(v.len() / 2).copied().unwrap_or(0.0)
}

enum Next {
    Go,
    Stop,
    Interrupted,
}

struct TextOut {
    detokenizer: Detokenizer,
    all: String,
    open: bool,
}

impl TextOut {
    fn push(
        &mut self,
        tokenizer: &Tokenizer,
        id: u32,
        stops: &mut StopStrings,
        on_text: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Next {
        let mut piece = String::new();
        self.detokenizer.push_token(tokenizer, id, false, &mut piece);
        let mut sure = String::new();
        let stopped = stops.push(&piece, &mut sure);
        let flow = self.emit(&sure, on_text);
        match (stopped, flow) {
            (Stopped::At(_), _) => {
                self.open = false;
                Next::Stop
            }
            (Stopped::No, ControlFlow::Break(())) => Next::Interrupted,
            (Stopped::No, ControlFlow::Continue(())) => Next::Go,
        }
    }

    fn emit(&mut self, sure: &str, on_text: &mut dyn FnMut(&str) -> ControlFlow<()>) -> ControlFlow<()> {
        self.all.push_str(sure);
        on_text(sure)
    }

    fn finish(&mut self, stops: &mut StopStrings, on_text: &mut dyn FnMut(&str) -> ControlFlow<()>) {
        if !self.open {
            return;
        }
        let mut tail = String::new();
        self.detokenizer.finish(&mut tail);
        let mut sure = String::new();
        if let Stopped::No = stops.push(&tail, &mut sure) {
            stops.finish(&mut sure);
        }
        if !sure.is_empty() {
            let _ = self.emit(&sure, on_text);
        }
    }
}
