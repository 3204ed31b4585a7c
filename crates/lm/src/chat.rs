//! Chat templates: from messages to the text, and the tokens, that a model was trained on.

mod functions;

use std::io::Write;

use isopace::io::gguf::Metadata;
use isopace::{Result, bail, err};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, Error as JinjaError, Value};
use serde::{Deserialize, Serialize};

use crate::tokenizer::Tokenizer;

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks: `system`, `user`, `assistant`, `tool`.
    pub role: String,
    /// What is said.
    pub content: String,
}

impl Message {
    /// A message of this role.
    pub fn new(role: &str, content: &str) -> Message {
        Message { role: role.to_string(), content: content.to_string() }
    }
}

/// Instructions that a template may execute, or 64 times as many bytes that it may make. A conversation of
/// two thousand messages takes less than a tenth; a text that grows without end is stopped at 256 MB.
const FUEL: u64 = 4_000_000;
/// Text that a template may write beyond the messages it was given, several times over.
const MAX_OUTPUT_BYTES: usize = 16 << 20;
const NAME: &str = "chat_template";

/// A compiled chat template.
///
/// ```
/// use isopace_lm::chat::{ChatTemplate, Message};
/// let t = ChatTemplate::new("{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}", "", "")?;
/// assert_eq!(t.render(&[Message::new("user", "Hi")], false)?, "<user>Hi\n");
/// # Ok::<(), isopace::Error>(())
/// ```
#[derive(Debug)]
pub struct ChatTemplate {
    env: Environment<'static>,
    bos: String,
    eos: String,
}

impl ChatTemplate {
    /// Compiles a template in the dialect of Hugging Face's files: blocks trimmed, Python's string
    /// and dict methods, `raise_exception`, `strftime_now`, `tojson`. The texts of the tokens that
    /// begin and end a sequence are what the template knows as `bos_token` and `eos_token`.
    ///
    /// # Errors
    /// `Format` naming the line that does not compile.
    pub fn new(source: &str, bos: &str, eos: &str) -> Result<ChatTemplate> {
        let mut env = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        env.set_syntax(syntax.map_err(|e| err!(Internal, "[chat] {}", line(&e)))?);
        env.set_fuel(Some(FUEL));
        env.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        functions::add_to(&mut env);
        env.add_template_owned(NAME, source.to_string())
            .map_err(|e| err!(Format, "[chat] the template does not compile: {}", line(&e)))?;
        Ok(ChatTemplate { env, bos: bos.to_string(), eos: eos.to_string() })
    }

    /// The template in a GGUF file's metadata, if it has one.
    ///
    /// # Errors
    /// As [`ChatTemplate::new`].
    pub fn from_gguf(metadata: &Metadata, tokenizer: &Tokenizer) -> Result<Option<ChatTemplate>> {
        let source = metadata.opt_str("tokenizer.chat_template")?;
        source.map(|s| ChatTemplate::for_tokenizer(s, tokenizer)).transpose()
    }

    /// Compiles a template for a tokenizer, whose tokens it may name.
    ///
    /// # Errors
    /// As [`ChatTemplate::new`].
    pub fn for_tokenizer(source: &str, tokenizer: &Tokenizer) -> Result<ChatTemplate> {
        let text = |id: Option<u32>| id.and_then(|id| tokenizer.token_text(id)).unwrap_or_default();
        ChatTemplate::new(source, text(tokenizer.bos()), text(tokenizer.eos()))
    }

    /// Writes a conversation as the model expects it, ending where the assistant is to speak if
    /// `add_generation_prompt`.
    ///
    /// # Errors
    /// `Argument` when the template refuses the messages, `Format` when it fails or never ends.
    pub fn render(&self, messages: &[Message], add_generation_prompt: bool) -> Result<String> {
        self.render_with(messages, add_generation_prompt, &serde_json::Map::new())
    }

    /// As [`ChatTemplate::render`], with further variables, such as `enable_thinking`.
    ///
    /// # Errors
    /// As [`ChatTemplate::render`].
    pub fn render_with(
        &self,
        messages: &[Message],
        add_generation_prompt: bool,
        variables: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<String> {
        let mut context = serde_json::json!({
            "messages": messages,
            "add_generation_prompt": add_generation_prompt,
            "bos_token": self.bos,
            "eos_token": self.eos,
            // Templates ask whether these are none, which a variable that is not there is not.
            "tools": null,
            "documents": null,
        });
        if let Some(context) = context.as_object_mut() {
            context.extend(variables.iter().map(|(k, v)| (k.clone(), v.clone())));
        }
        let said: usize = messages.iter().map(|m| m.content.len()).sum();
        let mut out = Capped { text: Vec::new(), limit: MAX_OUTPUT_BYTES.saturating_add(4 * said) };
        let template = self.env.get_template(NAME).map_err(|e| err!(Internal, "[chat] {}", line(&e)))?;
        if let Err(e) = template.render_captured_to(Value::from(Serde(&context)), &mut out) {
            if functions::is_refusal(&e) {
                let why = e.detail().unwrap_or_default().escape_debug().to_string();
                bail!(Argument, "[chat] the template refuses these messages: {why}");
            }
            bail!(Format, "[chat] the template fails: {}", line(&e));
        }
        String::from_utf8(out.text).map_err(|e| err!(Internal, "[chat] the template's text: {e}"))
    }

    /// Renders a conversation and encodes it. Control tokens in the template's own text count;
    /// in the messages their names are ordinary text, so a user cannot end a turn.
    ///
    /// # Errors
    /// As [`ChatTemplate::render`] and [`Tokenizer::encode`]; `Format` when nothing is written.
    pub fn encode(
        &self,
        tokenizer: &Tokenizer,
        messages: &[Message],
        add_generation_prompt: bool,
    ) -> Result<Vec<u32>> {
        let mark = tokenizer.free_mark(messages.iter().map(|m| m.content.as_str()));
        let mark = mark.ok_or_else(|| err!(Argument, "[chat] the messages use every private character"))?;
        let marked: Vec<Message> = messages
            .iter()
            .map(|m| Message { role: m.role.clone(), content: tokenizer.mark_control(&m.content, mark) })
            .collect();
        let text = self.render(&marked, add_generation_prompt)?;
        if text.is_empty() {
            bail!(
                Format,
                "[chat] the chat template writes nothing for these messages; --raw does without it"
            );
        }
        tokenizer.encode_chat(&text, mark)
    }
}

/// An error of the engine on one line.
fn line(e: &JinjaError) -> String {
    let what = e.detail().map_or_else(|| e.kind().to_string(), str::to_string);
    let what: String = what.chars().take(200).collect();
    let what = what.escape_debug().to_string().replace("\\\"", "\"").replace("\\'", "'");
    match e.line() {
        Some(line) => format!("line {line}: {what}"),
        None => what,
    }
}

/// Takes text up to a limit.
struct Capped {
    text: Vec<u8>,
    limit: usize,
}

impl Write for Capped {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if bytes.len() > self.limit - self.text.len() {
            return Err(std::io::Error::other("it writes more text than any conversation needs"));
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
