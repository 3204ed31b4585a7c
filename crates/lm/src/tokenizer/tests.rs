use isopace::io::gguf::Value;

use super::*;

fn metadata(entries: Vec<(&str, Value)>) -> Metadata {
    let mut m = Metadata::new("m.gguf");
    for (key, value) in entries {
        m.insert(format!("tokenizer.ggml.{key}"), value);
    }
    m
}

fn strings(list: &[&str]) -> Value {
    Value::from(list.iter().map(|s| s.to_string()).collect::<Vec<_>>())
}

/// All bytes, then some merges of them, then a control and a user-defined token.
fn byte_level(pre: &str) -> Metadata {
    let mut tokens: Vec<String> = (0..=255).map(|b| vocab::char_of(b).to_string()).collect();
    tokens.extend(["Ġa", "bc", "Ġabc", "<|end|>", "<think>"].map(String::from));
    let mut kinds = vec![1i32; tokens.len()];
    (kinds[259], kinds[260]) = (3, 4);
    metadata(vec![
        ("model", Value::from("gpt2")),
        ("pre", Value::from(pre)),
        ("tokens", Value::from(tokens)),
        ("token_type", Value::from(kinds)),
        ("merges", strings(&["Ġ a", "b c", "Ġa bc"])),
        ("eos_token_id", Value::from(259u32)),
    ])
}

#[test]
fn byte_level_merges_and_specials() {
    let t = Tokenizer::from_gguf(&byte_level("gpt-2")).unwrap();
    assert_eq!(t.encode(" abc", true).unwrap(), [258]);
    assert_eq!(t.encode("b bc", true).unwrap(), [98, 32, 257]);
    assert_eq!(t.encode("a<|end|><think>", true).unwrap(), [97, 259, 260]);
    let plain = t.encode("a<|end|><think>", false).unwrap();
    assert_eq!((plain.len(), plain[8]), (9, 260));
    assert_eq!(
        (t.decode(&plain, false), t.decode(&[97, 259], false)),
        ("a<|end|><think>".into(), "a".into())
    );
    assert_eq!(t.decode(&[97, 259], true), "a<|end|>");
    assert_eq!(t.stop_ids(), [259]);
    assert_eq!(t.encode_chat("<|end|>_<|e_nd|>", '_').unwrap()[..2], [259, 60]);
    assert_eq!(t.decode(&[500], true), "");
    let all: String = (0..3000).filter_map(char::from_u32).collect();
    assert_eq!(t.decode(&t.encode(&all, false).unwrap(), true), all);
}

#[test]
fn control_tokens_of_one_character() {
    let mut tokens: Vec<String> = (0..=255).map(|b| vocab::char_of(b).to_string()).collect();
    tokens.extend(["→", "<→>", "\u{fdd0}", "é!"].map(String::from));
    let mut kinds = vec![1i32; 256];
    kinds.extend([3, 3, 3, 4]);
    let t = Tokenizer::from_gguf(&metadata(vec![
        ("model", "gpt2".into()),
        ("pre", "gpt-2".into()),
        ("tokens", Value::from(tokens)),
        ("token_type", Value::from(kinds)),
        ("merges", strings(&[])),
    ]))
    .unwrap();
    let said = "→a<→><<→→→ é!\u{fdd0}";
    let mark = t.free_mark([said].into_iter()).unwrap();
    assert_eq!(mark, '\u{fdd1}');
    let ids = t.encode_chat(&format!("→{}→", t.mark_control(said, mark)), mark).unwrap();
    let control: Vec<usize> = (0..ids.len()).filter(|i| t.is_control(ids[*i])).collect();
    assert_eq!(control, [0, ids.len() - 1]);
    assert_eq!((ids.contains(&259), t.decode(&ids, false)), (true, said.to_string()));
    // One pass, however many there are.
    let many = "→".repeat(1_000_000);
    assert_eq!(t.mark_control(&many, '_'), "→_".repeat(1_000_000));
}

#[test]
fn long_words_take_no_square_time() {
    let t = Tokenizer::from_gguf(&byte_level("gpt-2")).unwrap();
    let start = std::time::Instant::now();
    assert_eq!(t.encode(&"bc".repeat(200_000), false).unwrap().len(), 200_000);
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

#[test]
fn broken_metadata() {
    let e = |m: &Metadata| Tokenizer::from_gguf(m).err().unwrap().to_string();
    insta::assert_snapshot!(e(&metadata(vec![("tokens", strings(&["a"]))])), @"[gguf] m.gguf: metadata has no tokenizer.ggml.model, where a string is needed");
    insta::assert_snapshot!(e(&metadata(vec![("model", "bert".into()), ("tokens", strings(&["a"]))])), @r#"[tokenizer] m.gguf: tokenizer.ggml.model is "bert"; supported are "gpt2" and "llama""#);
    let unknown = e(&byte_level("martian"));
    assert!(unknown.starts_with("[tokenizer] m.gguf: tokenizer.ggml.pre \"martian\" is not known; known are default, falcon, gpt-2,"), "{unknown}");
    let gpt2 = |merges: &[&str], kinds: usize, eos: u32| {
        e(&metadata(vec![
            ("model", "gpt2".into()),
            ("tokens", strings(&["a", "b", "ab"])),
            ("token_type", Value::from(vec![1i32; kinds])),
            ("merges", strings(merges)),
            ("eos_token_id", Value::from(eos)),
        ]))
    };
    insta::assert_snapshot!(gpt2(&["a b", "ab a"], 3, 0), @r#"[tokenizer] m.gguf: merge 1, "ab a", does not join two tokens into a third"#);
    insta::assert_snapshot!(gpt2(&["ab"], 3, 0), @r#"[tokenizer] m.gguf: merge 0, "ab", does not join two tokens into a third"#);
    insta::assert_snapshot!(gpt2(&[], 7, 0), @"[tokenizer] m.gguf: tokenizer.ggml.token_type has 7 entries for 3 tokens");
    insta::assert_snapshot!(gpt2(&["a b"], 3, 3), @"[tokenizer] m.gguf: tokenizer.ggml.eos_token_id is 3, but the vocabulary has 3 tokens");
}

fn sentencepiece() -> Metadata {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(String::from).into();
    let mut kinds = vec![2i32, 3, 3];
    tokens.extend((0..=255).map(|b| format!("<0x{b:02X}>")));
    kinds.resize(tokens.len(), 6);
    tokens.extend(["▁", "h", "i", "▁h", "hi", "▁hi", "é"].map(String::from));
    kinds.resize(tokens.len(), 1);
    let mut scores = vec![0f32; tokens.len()];
    for (i, s) in scores[259..].iter_mut().enumerate() {
        *s = -(i as f32);
    }
    metadata(vec![
        ("model", "llama".into()),
        ("tokens", Value::from(tokens)),
        ("scores", Value::from(scores)),
        ("token_type", Value::from(kinds)),
        ("bos_token_id", Value::from(1u32)),
        ("eos_token_id", Value::from(2u32)),
    ])
}

#[test]
fn sentencepiece_scores_and_bytes() {
    let t = Tokenizer::from_gguf(&sentencepiece()).unwrap();
    // "▁h" has a higher score than "hi", so "▁hi" is made of "▁h" and "i".
    assert_eq!(t.encode("hi", true).unwrap(), [264]);
    assert_eq!(t.encode_prompt("hi</s>é", true).unwrap(), [1, 264, 2, 259, 265]);
    assert_eq!(
        (t.encode_chat("hi", '_').unwrap(), t.encode_chat("<s>hi", '_').unwrap()),
        (vec![1, 264], vec![1, 264])
    );
    let (ids, nihao) = (t.encode("你", false).unwrap(), "你".bytes().map(|b| u32::from(b) + 3));
    assert_eq!(ids, [259].into_iter().chain(nihao).collect::<Vec<_>>());
    assert_eq!(t.decode(&ids, false), " 你");
    assert_eq!(t.stop_ids(), [2]);
}

/// The same vocabulary as a `tokenizer.json`, so that two implementations answer for each other.
fn as_json(merges: &[String], tokens: &[String], kinds: &[i64], patterns: &[&str]) -> Vec<u8> {
    let vocab: serde_json::Map<_, _> =
        tokens.iter().enumerate().map(|(i, t)| (t.clone(), serde_json::Value::from(i))).collect();
    let special = kinds.iter().enumerate().filter(|(_, k)| **k == 3 || **k == 4);
    let added: Vec<_> = special
        .map(|(i, k)| {
            serde_json::json!({"id": i, "content": tokens[i], "special": *k == 3, "single_word": false,
                "lstrip": false, "rstrip": false, "normalized": false})
        })
        .collect();
    let mut pre: Vec<_> = patterns
        .iter()
        .map(|p| serde_json::json!({"type": "Split", "pattern": {"Regex": p}, "behavior": "Isolated", "invert": false}))
        .collect();
    pre.push(serde_json::json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false}));
    serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": pre}, "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocab,
            "merges": merges},
    })
    .to_string()
    .into_bytes()
}

fn twins(m: &Metadata, patterns: &[&str]) -> (Tokenizer, Tokenizer) {
    let json = as_json(
        m.strings("tokenizer.ggml.merges").unwrap(),
        m.strings("tokenizer.ggml.tokens").unwrap(),
        &m.ints("tokenizer.ggml.token_type").unwrap(),
        patterns,
    );
    let settings = JsonSettings { eos_token: Some("<|end|>".into()), ..JsonSettings::default() };
    (Tokenizer::from_gguf(m).unwrap(), Tokenizer::from_json(&json, "tokenizer.json", &settings).unwrap())
}

#[test]
fn json_answers_as_gguf_does() {
    let (a, b) = twins(&byte_level("gpt-2"), pre::find("gpt-2").unwrap().patterns);
    for text in ["", " abc", "a<|end|> abc<think>b", "x  \n\n y'll 12", "é中😀"] {
        for special in [true, false] {
            assert_eq!(
                a.encode(text, special).unwrap(),
                b.encode(text, special).unwrap(),
                "{text:?}, {special}"
            );
        }
        let ids = a.encode(text, true).unwrap();
        assert_eq!(a.decode_bytes(&ids, true), b.decode_bytes(&ids, true));
        assert_eq!(a.encode_chat(text, '_').unwrap(), b.encode_chat(text, '_').unwrap());
    }
    assert_eq!((a.stop_ids(), a.eos()), (b.stop_ids(), b.eos()));
    assert_eq!(a.vocab_size(), b.vocab_size());
}

#[test]
fn what_a_tokenizer_json_adds_to_prompts() {
    let m = byte_level("gpt-2");
    let kinds = m.ints("tokenizer.ggml.token_type").unwrap();
    let json = as_json(&[], m.strings("tokenizer.ggml.tokens").unwrap(), &kinds, &[]);
    let read = |changes: serde_json::Value| {
        let mut json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        json.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        let json = json.to_string().into_bytes();
        Tokenizer::from_json(&json, "tokenizer.json", &JsonSettings::default()).unwrap()
    };
    // Neither is part of what a prompt says, and the padding is no beginning either.
    let t = read(serde_json::json!({
        "truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0},
        "padding": {"strategy": {"Fixed": 30}, "direction": "Left", "pad_to_multiple_of": null, "pad_id": 259,
            "pad_type_id": 0, "pad_token": "<|end|>"},
    }));
    assert_eq!((t.encode_prompt("abc", false).unwrap(), t.adds_bos()), (vec![97, 98, 99], false));
    // A beginning that the file adds: to a text as it is, not to a chat template's.
    let t = read(serde_json::json!({"post_processor": {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<|end|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<|end|>": {"id": "<|end|>", "ids": [259], "tokens": ["<|end|>"]}},
    }}));
    assert_eq!(t.encode_prompt("a", false).unwrap(), [259, 97]);
    assert_eq!((t.encode_chat("a", '_').unwrap(), t.encode_chat("a_", '_').unwrap()), (vec![97], vec![97]));
}

#[test]
fn the_real_vocabulary_against_the_tokenizers_crate() {
    let bytes = crate::testing::model_bytes();
    let gguf = isopace::io::gguf::Gguf::parse(&bytes, "SmolLM2").unwrap();
    let (a, b) = twins(&gguf.metadata, pre::find("smollm").unwrap().patterns);
    let mut text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/tokenizer/pre.rs")).unwrap();
    text.push_str(include_str!("tests.rs"));
    text.push_str("naïve café 你好世界 😀👩‍👩‍👧 \u{0}\u{1}\u{7f} \u{a0}\u{3000} ١٢٣ ①② don't DON'T <|im_end|> x<|im_start|>");
    for special in [true, false] {
        let ids = a.encode(&text, special).unwrap();
        assert_eq!(ids, b.encode(&text, special).unwrap());
        assert_eq!(a.decode_bytes(&ids, true), b.decode_bytes(&ids, true));
        assert!(ids.len() > 3000);
    }
}

#[test]
fn broken_json() {
    let e = |json: &str| {
        Tokenizer::from_json(json.as_bytes(), "t.json", &JsonSettings::default()).err().unwrap().to_string()
    };
    for json in ["", "{", "[]", "{}", r#"{"model":{"type":"BPE"}}"#] {
        let e = e(json);
        assert!(e.starts_with("[tokenizer] t.json: not a tokenizer: ") && !e.contains('\n'), "{e}");
    }
}

#[test]
fn sentencepiece_golden_ids() {
    let golden: serde_json::Value =
        serde_json::from_str(include_str!("../../tests/golden/sentencepiece.json")).unwrap();
    let list = |key: &str| golden[key].as_array().unwrap().iter();
    let t = Tokenizer::from_gguf(&metadata(vec![
        ("model", "llama".into()),
        ("tokens", Value::from(list("tokens").map(|t| t.as_str().unwrap().to_string()).collect::<Vec<_>>())),
        ("scores", Value::from(list("scores").map(|s| s.as_f64().unwrap() as f32).collect::<Vec<_>>())),
        ("token_type", Value::from(list("kinds").map(|k| k.as_i64().unwrap() as i32).collect::<Vec<_>>())),
    ]))
    .unwrap();
    for case in list("cases") {
        let text = case["text"].as_str().unwrap();
        let want: Vec<u32> = serde_json::from_value(case["ids"].clone()).unwrap();
        assert_eq!(t.encode(text, false).unwrap(), want, "{text:?}");
    }
}
