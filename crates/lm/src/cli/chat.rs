//! `isopace chat`.

use super::generate::{stop_flag, summary, write_out};
use super::{ModelArgs, SampleArgs, note};
use crate::chat::Message;
use crate::engine::FinishReason;
use clap::Args;
use isopace::{Error, Result, err};
use std::io::{BufRead, IsTerminal};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

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
    pub(super) fn run(self) -> Result<()> {
        let options = self.sample.options();
        options.sample.check()?;
        let engine = self.model.load()?;
        let stop = stop_flag();
        let mut session = engine.session()?;
        let mut messages: Vec<Message> = self.system.iter().map(|s| Message::new("system", s)).collect();
        let terminal = std::io::stdin().is_terminal();
        loop {
            if terminal {
                write_out("> ")?;
            }
            let mut line = String::new();
            let n =
                std::io::stdin().lock().read_line(&mut line).map_err(|e| err!(Io, "[chat] stdin: {e}"))?;
            if n == 0 || stop.swap(false, Ordering::Relaxed) {
                return Ok(());
            }
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            messages.push(Message::new("user", line));
            let all = engine.encode_chat(&messages)?;
            if !all.starts_with(session.history()) || all.len() == session.history().len() {
                // The template rewrote what was said before: start over.
                session = engine.session()?;
            }
            let new = &all[session.history().len()..];
            let made = session.generate(new, &options, &mut |text| {
                if write_out(text).is_err() || stop.load(Ordering::Relaxed) {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            });
            let made = match made {
                Err(e @ Error::Argument(_)) => {
                    // Nothing of the turn is in the cache: a shorter one may fit.
                    note(&format!("isopace: {e}; this turn is left out"));
                    messages.pop();
                    continue;
                }
                made => made?,
            };
            write_out("\n")?;
            note(&summary(new.len(), &made));
            if made.finish_reason == FinishReason::Interrupted && !terminal {
                return Ok(());
            }
            stop.store(false, Ordering::Relaxed);
            messages.push(Message::new("assistant", &made.text));
        }
    }
}
