//! `isopace generate`.

use super::{ModelArgs, SampleArgs, memory, note, spinner};
use crate::chat::Message;
use crate::engine::{Engine, FinishReason, GenerateOptions, Generated};
use crate::hub::BYTE_ORDER_MARK;
use clap::{Args, ValueEnum};
use isopace::{Result, bail, err};
use std::io::{IsTerminal, Read, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug, Args)]
pub(super) struct Generate {
    /// The prompt; read from stdin when absent or "-".
    prompt: Option<String>,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    sample: SampleArgs,
    /// Give the prompt as it is, without the chat template; the name of a special token in it, such as
    /// <|im_end|>, is ordinary text.
    #[arg(long)]
    raw: bool,
    /// A system message before the prompt.
    #[arg(long, conflicts_with = "raw")]
    system: Option<String>,
    /// Text as it comes, or one JSON object at the end.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Format {
    Text,
    Json,
}

#[derive(serde::Serialize)]
struct Report<'a> {
    prompt_ids: &'a [u32],
    ids: &'a [u32],
    text: &'a str,
    finish_reason: FinishReason,
    timings: &'a crate::engine::Timings,
    peak_rss_bytes: u64,
}

impl Generate {
    pub(super) fn run(self) -> Result<ExitCode> {
        let options = self.sample.options();
        options.check()?;
        let prompt = self.prompt()?;
        let interrupts = Interrupts::handle();
        let engine = self.model.load()?;
        let ids = if self.raw {
            engine.tokenizer().encode_prompt(&prompt, false)?
        } else {
            let mut messages: Vec<Message> = self.system.iter().map(|s| Message::new("system", s)).collect();
            messages.push(Message::new("user", &prompt));
            engine.encode_chat(&messages)?
        };
        interrupts.begin();
        let json = self.format == Format::Json;
        let mut failed = None;
        let mut session = engine.session()?;
        let reading = Reading::of(ids.len());
        let made = session.generate(&ids, &options, &mut |text| {
            reading.ends_with(text);
            if !json && let Err(e) = write_out(text) {
                failed = Some(e);
                return ControlFlow::Break(());
            }
            interrupts.flow()
        })?;
        if let Some(e) = failed {
            return Err(e);
        }
        if json {
            let report = Report {
                prompt_ids: &ids,
                ids: &made.ids,
                text: &made.text,
                finish_reason: made.finish_reason,
                timings: &made.timings,
                peak_rss_bytes: memory::peak_bytes(),
            };
            let text = serde_json::to_string(&report).map_err(|e| err!(Internal, "[generate] {e}"))?;
            write_out(&format!("{text}\n"))?;
        } else {
            drop(reading);
            write_out("\n")?;
            report(&engine, ids.len(), &options, &made);
        }
        Ok(made.finish_reason.exit_code())
    }

    fn prompt(&self) -> Result<String> {
        let text = match self.prompt.as_deref() {
            Some(p) if p != "-" => p.to_string(),
            given => {
                if given.is_none() && std::io::stdin().is_terminal() {
                    bail!(Argument, "[prompt] no prompt; give one as an argument or on stdin");
                }
                let mut bytes = Vec::new();
                let read = std::io::stdin().lock().take(MAX_INPUT + 1).read_to_end(&mut bytes);
                if read.map_err(|e| err!(Io, "[prompt] stdin: {e}"))? as u64 > MAX_INPUT {
                    bail!(Argument, "[prompt] stdin has more bytes than a prompt may: {MAX_INPUT}");
                }
                let text = std::str::from_utf8(&bytes).map_err(|e| {
                    err!(Argument, "[prompt] stdin is not UTF-8 from byte {} on", e.valid_up_to())
                })?;
                text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text).to_string()
            }
        };
        if text.is_empty() {
            bail!(Argument, "[prompt] the prompt is empty; at least one character is needed");
        }
        Ok(text)
    }
}

/// Bytes that are read from stdin for one prompt; far more than a context holds.
pub(super) const MAX_INPUT: u64 = 64 << 20;

/// A note on a terminal while a prompt is read.
pub(super) struct Reading(indicatif::ProgressBar);

impl Reading {
    pub(super) fn of(tokens: usize) -> Reading {
        Reading(spinner(format!("reading {tokens} tokens")))
    }

    /// Takes the note away before the first text.
    pub(super) fn ends_with(&self, text: &str) {
        if !text.is_empty() && !self.0.is_finished() {
            self.0.finish_and_clear();
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Says how fast an answer was, and whether it had to end early.
pub(super) fn report(engine: &Engine, prompt_tokens: usize, options: &GenerateOptions, made: &Generated) {
    note(&summary(prompt_tokens, made));
    if made.finish_reason == FinishReason::Length && made.ids.len() < options.max_tokens {
        note(&format!("isopace: the answer ends here: the model's {} is full", engine.context()));
    }
}

/// One line about speed.
fn summary(prompt_tokens: usize, made: &Generated) -> String {
    let t = &made.timings;
    let mut line = format!("prompt {prompt_tokens} tokens");
    // What an answer was too short to measure is left out.
    let mut put = |value: f64, text: String| {
        if value > 0.0 {
            line.push_str(&text);
        }
    };
    put(t.prefill_tok_s, format!(" at {:.0}/s", t.prefill_tok_s));
    put(1.0, format!("; {} tokens", made.ids.len()));
    put(t.decode_tok_s, format!(" at {:.1}/s", t.decode_tok_s));
    put(t.ttft_ms, format!("; first after {:.0} ms", t.ttft_ms));
    put(t.host_us_per_token.median, format!("; host {:.0} us a token", t.host_us_per_token.median));
    line
}

/// Writes text to stdout at once.
pub(super) fn write_out(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|e| err!(Io, "[stdout] {e}"))
}

impl FinishReason {
    /// What a shell expects of a program: 130 where Ctrl-C ended it.
    pub(super) fn exit_code(self) -> ExitCode {
        ExitCode::from(if self == FinishReason::Interrupted { INTERRUPTED } else { 0 })
    }
}

const INTERRUPTED: u8 = 130;

/// What Ctrl-C does: the first during an answer ends the answer; any other ends the process.
#[derive(Clone, Default)]
pub(super) struct Interrupts {
    answering: Arc<AtomicBool>,
    raised: Arc<AtomicBool>,
}

impl Interrupts {
    /// Handles Ctrl-C from now on.
    pub(super) fn handle() -> Interrupts {
        let all = Interrupts::default();
        let at = all.clone();
        let set = ctrlc::set_handler(move || {
            if at.raised.swap(true, Ordering::Relaxed) || !at.answering.load(Ordering::Relaxed) {
                std::process::exit(INTERRUPTED.into());
            }
        });
        if let Err(e) = set {
            note(&format!("isopace: Ctrl-C will end the program at once: {e}"));
        }
        all
    }

    /// An answer begins.
    pub(super) fn begin(&self) {
        self.raised.store(false, Ordering::Relaxed);
        self.answering.store(true, Ordering::Relaxed);
    }

    /// The answer is over.
    pub(super) fn end(&self) {
        self.answering.store(false, Ordering::Relaxed);
    }

    /// Whether the answer goes on.
    pub(super) fn flow(&self) -> ControlFlow<()> {
        if self.raised.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
