//! `isopace chat`.

use super::generate::{Interrupts, MAX_INPUT, Reading, report, write_out};
use super::{ModelArgs, SampleArgs, note};
use crate::chat::Message;
use crate::engine::{Engine, FinishReason, GenerateOptions, Generated, Session};
use crate::hub::BYTE_ORDER_MARK;
use clap::Args;
use isopace::{Error, Result, bail, err};
use std::io::{BufRead, IsTerminal, Read};
use std::ops::ControlFlow;
use std::process::ExitCode;

const HELP: &str = "Each line is a message. Ctrl-C ends an answer (and the chat, where lines do not come from a terminal); /reset starts the conversation anew; \
                    /exit, /quit or Ctrl-D ends the chat; /help shows this.";

const COMMANDS: &str = "/reset, /exit, /quit, /help";

#[derive(Debug, Args)]
pub(super) struct Chat {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    sample: SampleArgs,
    /// A system message at the start.
    #[arg(long)]
    system: Option<String>,
}

impl Chat {
    /// Reads a line, answers, and again until the end of input. Each turn feeds only what the cache
    /// does not hold yet.
    pub(super) fn run(self) -> Result<ExitCode> {
        let options = self.sample.options();
        options.check()?;
        let interrupts = Interrupts::handle();
        let engine = self.model.load()?;
        engine.template()?;
        let mut session = engine.session()?;
        let start: Vec<Message> = self.system.iter().map(|s| Message::new("system", s)).collect();
        let mut messages = start.clone();
        let terminal = std::io::stdin().is_terminal();
        loop {
            if terminal {
                write_out("> ")?;
            }
            let line = match read_line()? {
                Line::Text(line) => line,
                Line::Refused(why) => {
                    note(&format!("isopace: [chat] {why}; this line is left out"));
                    continue;
                }
                Line::End => return Ok(ExitCode::SUCCESS),
            };
            match line.as_str() {
                "" => continue,
                "/exit" | "/quit" => return Ok(ExitCode::SUCCESS),
                "/help" => {
                    note(HELP);
                    continue;
                }
                "/reset" => {
                    messages.clone_from(&start);
                    note("isopace: the conversation starts anew");
                    continue;
                }
                // A word alone; a message may begin with a path.
                word if word.starts_with('/') && !word.contains(char::is_whitespace) => {
                    note(&format!(
                        "isopace: [chat] there is no command {}; accepted: {COMMANDS}",
                        word.escape_debug()
                    ));
                    continue;
                }
                _ => messages.push(Message::new("user", &line)),
            }
            interrupts.begin();
            let answer = answer(&engine, &mut session, &messages, &options, &interrupts);
            interrupts.end();
            let made = match answer {
                Err(e @ Error::Argument(_)) => {
                    note(&format!(
                        "isopace: {e}; this turn is left out: a shorter one may fit, /reset starts anew"
                    ));
                    messages.pop();
                    continue;
                }
                made => made?,
            };
            if made.finish_reason == FinishReason::Interrupted && !terminal {
                return Ok(made.finish_reason.exit_code());
            }
            messages.push(Message::new("assistant", &made.text));
        }
    }
}

/// Answers the last message and prints the answer.
fn answer(
    engine: &Engine,
    session: &mut Session<'_>,
    messages: &[Message],
    options: &GenerateOptions,
    interrupts: &Interrupts,
) -> Result<Generated> {
    let all = engine.encode_chat(messages)?;
    // An answer's text may be other tokens than were generated, and a template may rewrite what was said
    // before. The last token is fed in any case: the answer follows from it.
    let shared = all.iter().zip(session.history()).take_while(|(a, b)| a == b).count();
    session.truncate(shared.min(all.len().saturating_sub(1)));
    let new = &all[session.history().len()..];
    let reading = Reading::of(new.len());
    let made = session.generate(new, options, &mut |text| {
        reading.ends_with(text);
        if write_out(text).is_err() { ControlFlow::Break(()) } else { interrupts.flow() }
    })?;
    drop(reading);
    write_out("\n")?;
    report(engine, new.len(), options, &made);
    Ok(made)
}

/// What was typed.
enum Line {
    Text(String),
    Refused(String),
    End,
}

fn read_line() -> Result<Line> {
    let mut bytes = Vec::new();
    let n = std::io::stdin().lock().take(MAX_INPUT + 1).read_until(b'\n', &mut bytes);
    match n.map_err(|e| err!(Io, "[chat] stdin: {e}"))? as u64 {
        0 => return Ok(Line::End),
        n if n > MAX_INPUT => bail!(Argument, "[chat] stdin has a line of more than {MAX_INPUT} bytes"),
        _ => (),
    }
    Ok(match std::str::from_utf8(&bytes) {
        Ok(text) => Line::Text(text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text).trim().to_string()),
        Err(e) => Line::Refused(format!("the line is not UTF-8 from byte {} on", e.valid_up_to())),
    })
}
