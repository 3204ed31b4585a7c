//! The command line: `isopace generate | chat | info | bench`.

mod bench;
mod chat;
mod generate;
mod info;
mod memory;

use crate::engine::{Engine, GenerateOptions, LoadOptions};
use crate::hub::ACCEPTED;
use crate::sample::SampleOptions;
use crate::weights::Activations;
use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum};
use isopace::{Dtype, Result, bail, err};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs language models on CPUs, each token at the same cost however long the context is.
#[derive(Debug, Parser)]
#[command(name = "isopace", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Answer one prompt.
    Generate(generate::Generate),
    /// Talk; the cache is kept between turns. /help tells what else can be said.
    Chat(chat::Chat),
    /// Show a model's metadata, tensors and memory needs, and what keeps it from running.
    Info(info::Info),
    /// Measure.
    #[command(subcommand)]
    Bench(bench::Bench),
}

/// Where the model is and how it runs.
#[derive(Clone, Debug, Args)]
struct ModelArgs {
    /// A GGUF file, a folder in Hugging Face's layout, or a Hub name; by default the model that
    /// scripts/fetch_model.sh puts into the cache.
    #[arg(long, short)]
    model: Option<String>,
    /// Threads; all processors the process may use by default.
    #[arg(long, allow_negative_numbers = true)]
    threads: Option<usize>,
    /// Precision in which activations meet quantized weights.
    #[arg(long, value_enum, default_value = "i8")]
    activations: ActivationArg,
    /// Precision of the KV cache.
    #[arg(long, value_enum, default_value = "f16")]
    kv_type: KvArg,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ActivationArg {
    F32,
    I8,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum KvArg {
    F16,
    F32,
}

/// How tokens are chosen and when to stop.
#[derive(Clone, Debug, Args)]
struct SampleArgs {
    /// Temperature; 0 always takes the best token.
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    temp: f32,
    /// Keep the fewest best tokens whose probabilities add up to this.
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    top_p: f32,
    /// Keep this many of the best tokens; 0 keeps all.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    top_k: usize,
    /// Keep tokens at least this fraction as probable as the best.
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    min_p: f32,
    /// Penalty on tokens that appeared before; 1 is none.
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    repetition_penalty: f32,
    /// Add to a token's logit: ID=BIAS, repeatable.
    #[arg(long, value_name = "ID=BIAS", value_parser = bias, allow_hyphen_values = true)]
    logit_bias: Vec<(u32, f32)>,
    /// Where the random numbers start.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    seed: u64,
    /// Most tokens to generate.
    #[arg(long, short = 'n', default_value_t = 512, allow_negative_numbers = true)]
    max_tokens: usize,
    /// Stop before this text; repeatable.
    #[arg(long)]
    stop: Vec<String>,
    /// Go on past the end-of-sequence token.
    #[arg(long)]
    ignore_eos: bool,
}

fn bias(s: &str) -> std::result::Result<(u32, f32), String> {
    let (id, bias) = s.split_once('=').ok_or("accepted: ID=BIAS, such as 42=-100")?;
    Ok((
        id.trim().parse().map_err(|e| format!("token {id:?}: {e}"))?,
        bias.trim().parse().map_err(|e| format!("bias {bias:?}: {e}"))?,
    ))
}

impl SampleArgs {
    fn options(&self) -> GenerateOptions {
        GenerateOptions {
            sample: SampleOptions {
                temperature: self.temp,
                top_k: self.top_k,
                top_p: self.top_p,
                min_p: self.min_p,
                repetition_penalty: self.repetition_penalty,
                logit_bias: self.logit_bias.clone(),
                seed: self.seed,
                ..SampleOptions::default()
            },
            max_tokens: self.max_tokens,
            stop: self.stop.clone(),
            ignore_eos: self.ignore_eos,
        }
    }
}

/// The model asked for, or the one that `make demo` fetches.
fn model_name(given: &Option<String>) -> Result<String> {
    if let Some(name) = given {
        return Ok(name.clone());
    }
    let path = default_model();
    if !path.is_file() {
        bail!(
            Argument,
            "[model] the default model is not at {}; `make demo` fetches it; or name another, with --model or as the argument of info: {ACCEPTED}",
            path.display()
        );
    }
    Ok(path.display().to_string())
}

impl ModelArgs {
    fn load_options(&self) -> Result<LoadOptions> {
        if let Some(n) = self.threads {
            isopace::set_threads(n)?;
        }
        Ok(LoadOptions {
            activations: match self.activations {
                ActivationArg::F32 => Activations::F32,
                ActivationArg::I8 => Activations::I8,
            },
            kv_dtype: match self.kv_type {
                KvArg::F16 => Dtype::F16,
                KvArg::F32 => Dtype::F32,
            },
        })
    }

    /// Loads the model behind a spinner on a terminal's stderr.
    fn load(&self) -> Result<Engine> {
        let name = model_name(&self.model)?;
        let options = self.load_options()?;
        let bar = spinner(format!("loading {name}"));
        let engine = Engine::load(&name, options);
        bar.finish_and_clear();
        engine
    }
}

/// Shows on a terminal's stderr that something takes a while.
fn spinner(message: String) -> indicatif::ProgressBar {
    let bar = indicatif::ProgressBar::new_spinner();
    bar.enable_steady_tick(std::time::Duration::from_millis(100));
    bar.set_message(message);
    bar
}

/// Where the default model is kept.
fn default_model() -> PathBuf {
    let env = |k: &str| std::env::var_os(k).filter(|v| !v.is_empty()).map(PathBuf::from);
    let cache = env("ISOPACE_CACHE")
        .or_else(|| env("XDG_CACHE_HOME").map(|p| p.join("isopace")))
        .or_else(|| env("HOME").map(|p| p.join(".cache/isopace")))
        .unwrap_or_else(|| PathBuf::from(".isopace"));
    cache.join("models/SmolLM2-135M-Instruct.Q4_1.gguf")
}

/// A line on stderr. Where that cannot be written, there is nobody to tell.
fn note(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Runs the program. Errors are one line on stderr; the exit code is 2 for a bad option, 130 after Ctrl-C
/// and 1 for anything else.
pub fn main() -> ExitCode {
    isopace::init();
    if std::env::var_os("ISOPACE_EXPLAIN").is_some_and(|v| !v.is_empty() && v != "0") {
        isopace::compile::on_miss(|name, miss| note(&format!("isopace: compile `{name}`: {miss}")));
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Help and version are texts that were asked for; anything else is one line.
        Err(e) if !e.use_stderr() => {
            let printed = e.print().and_then(|()| std::io::stdout().flush());
            return exit_code(printed.map(|()| ExitCode::SUCCESS).map_err(|e| err!(Io, "[stdout] {e}")));
        }
        Err(e) if e.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            note(e.to_string().trim_end());
            return ExitCode::from(2);
        }
        Err(e) => {
            let text = e.to_string();
            let lines: Vec<&str> = text.lines().map(str::trim).take_while(|l| !l.is_empty()).collect();
            let line = lines.join(" ");
            note(&format!("isopace: {}; see --help", line.strip_prefix("error: ").unwrap_or(&line)));
            return ExitCode::from(2);
        }
    };
    exit_code(match cli.command {
        Command::Generate(c) => c.run(),
        Command::Chat(c) => c.run(),
        Command::Info(c) => c.run().map(|()| ExitCode::SUCCESS),
        Command::Bench(c) => c.run().map(|()| ExitCode::SUCCESS),
    })
}

fn exit_code(done: Result<ExitCode>) -> ExitCode {
    match done {
        Ok(code) => code,
        // Whoever read our output has gone away; there is nobody to tell.
        Err(isopace::Error::Io(e)) if e.starts_with("[stdout]") && e.contains("Broken pipe") => {
            ExitCode::SUCCESS
        }
        Err(e) => {
            note(&format!("isopace: {e}"));
            ExitCode::from(if matches!(e, isopace::Error::Argument(_)) { 2 } else { 1 })
        }
    }
}
