//! A chat template of any text, over a short conversation.
#![no_main]

use isopace_lm::chat::{ChatTemplate, Message};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|source: &str| {
    let template = match ChatTemplate::new(source, "<s>", "</s>") {
        Ok(t) => t,
        Err(e) => return assert!(!e.to_string().contains('\n'), "{e}"),
    };
    let messages = [Message::new("system", "Be brief."), Message::new("user", "Hi <b> \u{e9}")];
    if let Err(e) = template.render(&messages, true) {
        assert!(!e.to_string().contains('\n'), "{e}");
    }
});
