//! The command as users meet it.

use serde_json::Value;
use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};

fn isopace(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_isopace"))
        .args(args)
        .stdin(Stdio::null())
        .output()
        .expect("the binary runs")
}

fn with_model(command: &str, args: &[&str]) -> Output {
    let model = super::model().display().to_string();
    let all: Vec<&str> = [command, "--model", &model].iter().chain(args).copied().collect();
    isopace(&all)
}

fn json(args: &[&str]) -> Value {
    let out = with_model("generate", args);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("one JSON object")
}

/// Exit code and the one line on stderr.
fn refusal(out: Output) -> (i32, String) {
    let text = String::from_utf8(out.stderr).expect("UTF-8");
    assert!(out.stdout.is_empty(), "nothing is printed: {}", String::from_utf8_lossy(&out.stdout));
    assert!(!text.contains("panicked"), "{text}");
    (out.status.code().unwrap_or(-1), text)
}

#[test]
fn an_answer_as_json() {
    let v = json(&["What is the capital of Japan?", "--format", "json", "--max-tokens", "16"]);
    assert_eq!(v["ids"].as_array().map(Vec::len), Some(v["ids"].as_array().unwrap().len().min(16)));
    assert!(v["text"].as_str().unwrap().contains("Tokyo"), "{v}");
    for key in ["load_s", "prefill_tok_s", "decode_tok_s", "ttft_ms"] {
        assert!(v["timings"][key].as_f64().unwrap() > 0.0, "{key}: {v}");
    }
    for key in ["median", "first", "last"] {
        assert!(v["timings"]["host_us_per_token"][key].is_number(), "{v}");
    }
    assert!(v["peak_rss_bytes"].as_u64().unwrap() > 50_000_000);
}

#[test]
fn one_seed_gives_one_answer() {
    let args = ["Tell me a story.", "--format", "json", "--max-tokens", "24", "--temp", "1.2", "--seed"];
    let run = |seed: &str| {
        let all: Vec<&str> = args.iter().copied().chain([seed]).collect();
        json(&all)["ids"].clone()
    };
    assert_eq!(run("7"), run("7"));
    assert_ne!(run("7"), run("8"));
}

#[test]
fn limits_and_stops() {
    let v = json(&["Hello", "--format", "json", "--max-tokens", "0"]);
    assert_eq!((v["ids"].clone(), v["text"].clone()), (Value::Array(vec![]), "".into()));
    let v = json(&["Count: 1, 2, 3,", "--raw", "--format", "json", "--max-tokens", "40", "--stop", ", 6"]);
    assert_eq!(v["finish_reason"], "stop", "{v}");
    assert!(!v["text"].as_str().unwrap().contains(", 6"), "{v}");
    let v = json(&["Hi", "--format", "json", "--max-tokens", "60", "--ignore-eos"]);
    assert_eq!((v["finish_reason"].as_str(), v["ids"].as_array().unwrap().len()), (Some("length"), 60));
}

#[test]
fn bad_input_is_one_line() {
    let dir = tempfile::tempdir().expect("a folder");
    let cut = dir.path().join("cut.gguf");
    let whole = std::fs::read(super::model()).expect("the model");
    std::fs::write(&cut, &whole[..5_000_000]).expect("a file");
    let junk = dir.path().join("junk.gguf");
    std::fs::write(&junk, b"not a model at all").expect("a file");
    for (path, part) in [(&cut, "past the end"), (&junk, "[gguf]")] {
        let out = isopace(&["generate", "hi", "--model", path.to_str().unwrap()]);
        let (code, text) = refusal(out);
        assert_eq!((code, text.lines().count()), (1, 1), "{text}");
        assert!(text.contains(path.to_str().unwrap()) && text.contains(part), "{text}");
    }
    let (code, text) = refusal(isopace(&["generate", "hi", "--model", "/nonexistent/model.gguf"]));
    assert!(matches!(code, 1 | 2) && text.contains("/nonexistent/model.gguf"), "{text}");

    for (args, part) in [
        (vec!["", "--raw"], "empty"),
        (vec!["hi", "--temp", "nan"], "temperature"),
        (vec!["hi", "--temp", "-1"], "temperature"),
        (vec!["hi", "--top-p", "0"], "top_p"),
        (vec!["hi", "--min-p", "7"], "min_p"),
        (vec!["hi", "--repetition-penalty", "0"], "repetition_penalty"),
        (vec!["hi", "--logit-bias", "9999999=1"], "9999999"),
        (vec!["hi", "--stop", ""], "stop"),
        (vec!["hi", "--threads", "0"], "threads"),
        (vec!["hi", "--threads", "99999999999"], "accepted: 1 to 1024"),
        (vec!["hi", "--top-k", "-1"], "top-k"),
        (vec!["hi", "-n", "-1"], "max-tokens"),
        (vec!["hi", "--logit-bias", "junk"], "ID=BIAS"),
        (vec!["hi", "--activations", "f64"], "activations"),
    ] {
        let (code, text) = refusal(with_model("generate", &args));
        assert_eq!((code, text.lines().count()), (2, 1), "{args:?}: {text}");
        assert!(text.contains(part), "{args:?}: {text}");
    }
    // What needs no model is refused before one is looked for.
    let (code, text) = refusal(isopace(&["generate", "hi", "--stop", "", "--model", "/nonexistent"]));
    assert!(code == 2 && text.contains("[stop]"), "{text}");
    let long = "word ".repeat(9000);
    let (code, text) = refusal(with_model("generate", &[&long, "--raw"]));
    assert!(code == 2 && text.contains("context") && text.contains("8192"), "{text}");
}

#[test]
fn info_tells_what_a_model_is() {
    let out = isopace(&["info", super::model().to_str().unwrap()]);
    let text = String::from_utf8(out.stdout).unwrap();
    for part in ["general.architecture = ", "llama", "272 tensors", "weights:"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

/// The model with one change to a tensor's entry in the header; `change` gets the bytes from the name on.
fn damaged(name: &str, change: impl Fn(&mut [u8])) -> (i32, String) {
    let mut bytes = std::fs::read(super::model()).expect("the model");
    let at = bytes.windows(name.len()).position(|w| w == name.as_bytes()).expect("the tensor's name");
    change(&mut bytes[at..]);
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), &bytes).expect("a file");
    refusal(isopace(&["generate", "hi", "--model", file.path().to_str().expect("a path")]))
}

#[test]
fn damaged_tensors_are_named() {
    const NAME: &str = "blk.7.attn_q.weight";
    // Behind the name: the number of dimensions (4 bytes), two extents (8 each), the type (4).
    let dims = NAME.len() + 4;
    let cases: [(&str, &str, &dyn Fn(&mut [u8])); 4] = [
        ("a missing tensor", NAME, &|b| b[6] = b'x'),
        ("an unknown type", NAME, &|b| b[dims + 16..dims + 20].copy_from_slice(&99u32.to_le_bytes())),
        ("an absurd extent", NAME, &|b| b[dims..dims + 8].copy_from_slice(&(1u64 << 60).to_le_bytes())),
        ("another shape", NAME, &|b| b[dims + 8..dims + 16].copy_from_slice(&32u64.to_le_bytes())),
    ];
    for (what, part, change) in cases {
        let (code, text) = damaged(NAME, change);
        assert_eq!((code, text.lines().count()), (1, 1), "{what}: {text}");
        assert!(text.contains(part), "{what}: {text}");
    }
}

/// The output of a run with the default model that reads `input` from stdin.
fn fed(command: &str, args: &[&str], input: &[u8]) -> Output {
    fed_to(&super::model(), command, args, input)
}

fn fed_to(model: &std::path::Path, command: &str, args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_isopace"))
        .args([command, "--model", &model.display().to_string()])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    // It may end without having read everything.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    child.wait_with_output().expect("it ends")
}

#[test]
fn input_without_end() {
    let endless = vec![b'a'; (64 << 20) + 4096];
    for command in ["generate", "chat"] {
        let (code, text) = refusal(fed(command, &[], &endless));
        assert_eq!((code, text.lines().count()), (2, 1), "{text}");
        assert!(text.contains("67108864"), "{text}");
    }
}

/// The model with another number under a key of its metadata.
fn with_number(key: &str, n: u32) -> tempfile::NamedTempFile {
    let mut bytes = std::fs::read(super::model()).expect("the model");
    let at = bytes.windows(key.len()).position(|w| w == key.as_bytes()).expect("the key") + key.len();
    // Behind the key: its type (4 bytes) and the number.
    bytes[at + 4..at + 8].copy_from_slice(&n.to_le_bytes());
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), &bytes).expect("a file");
    file
}

#[test]
fn a_turn_too_long_does_not_end_the_chat() {
    let lines = format!("{}\nWhat is the capital of Japan?\n", "word ".repeat(9000));
    let out = fed("chat", &["-n", "8"], lines.as_bytes());
    let (text, errors) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success() && text.contains("Tokyo"), "{text}{errors}");
    assert!(errors.contains("8192") && errors.contains("left out"), "{errors}");
}

#[test]
fn what_a_chat_understands() {
    let lines =
        b"\xff\xfe\n/help\n/bogus\nWhat is the capital of Japan?\n/exit\nWhat is the capital of France?\n";
    let out = fed("chat", &["-n", "8"], lines);
    let (text, errors) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success() && text.contains("Tokyo") && !text.contains("Paris"), "{text}{errors}");
    assert!(errors.contains("not UTF-8 from byte 0") && errors.contains("/quit or"), "{errors}");
    assert!(errors.contains("no command /bogus; accepted: /reset"), "{errors}");
    assert_eq!(prompts(&errors).len(), 1, "{errors}");
}

/// How many tokens each turn of a chat fed.
fn prompts(errors: &str) -> Vec<usize> {
    let number = |l: &str| l.strip_prefix("prompt ")?.split(' ').next()?.parse().ok();
    errors.lines().filter_map(number).collect()
}

#[test]
fn a_turn_feeds_what_is_new() {
    // The stop string is text that was generated and is no part of the answer.
    let question = "What is the capital of Japan?\n";
    let lines = format!("{question}{question}/etc/fstab is a file.\n/reset\n{question}");
    let out =
        fed("chat", &["-n", "12", "--stop", "apital of Japan", "--system", "Be brief."], lines.as_bytes());
    let errors = String::from_utf8_lossy(&out.stderr);
    let fed = prompts(&errors);
    assert_eq!(fed.len(), 4, "{errors}");
    assert!(fed[1] < 20 && fed[2] < 25 && fed[3] < fed[0], "{errors}");
    assert_eq!(String::from_utf8_lossy(&out.stdout).lines().next(), Some("The c"), "{errors}");
}

#[test]
fn a_context_that_is_full() {
    let model = with_number("llama.context_length", 64);
    let lines = "Tell me a story.\nWhat is the capital of Japan?\n/reset\nWhat is the capital of Japan?\n";
    let out = fed_to(model.path(), "chat", &["--ignore-eos"], lines.as_bytes());
    let (text, errors) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success() && text.contains("Tokyo"), "{text}{errors}");
    assert_eq!(
        errors.matches("the answer ends here: the model's context of 64 is full").count(),
        2,
        "{errors}"
    );
    assert!(errors.contains("left out: a shorter one may fit, /reset starts anew"), "{errors}");
}

#[test]
fn an_answer_that_is_interrupted() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_isopace"))
        .args(["generate", "Tell me a story.", "-n", "4000", "--ignore-eos"])
        .args(["--model", &super::model().display().to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut first = [0];
    child.stdout.as_mut().expect("a pipe").read_exact(&mut first).expect("a first letter");
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(sent.success());
    let out = child.wait_with_output().expect("it ends");
    let errors = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(130), "{errors}");
    assert!(errors.contains("tokens at"), "{errors}");
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_prompt() {
    let ids = |text: &str| {
        let out = fed("generate", &["--format", "json", "-n", "1"], text.as_bytes());
        let v: Value = serde_json::from_slice(&out.stdout).expect("one JSON object");
        v["prompt_ids"].clone()
    };
    assert_eq!(ids("\u{feff}Hello"), ids("Hello"));
}

#[test]
fn megabytes_of_one_character() {
    for text in [" ".repeat(3_000_000), "a".repeat(3_000_000), "\n".repeat(30_000_000)] {
        for args in [&["--raw"][..], &[]] {
            let (code, errors) = refusal(fed("generate", args, text.as_bytes()));
            assert_eq!((code, errors.lines().count()), (2, 1), "{errors}");
            assert!(errors.contains("[context]") && errors.contains("8192"), "{errors}");
        }
    }
}

#[test]
fn without_a_default_model() {
    let dir = tempfile::tempdir().expect("a folder");
    let here = dir.path().to_str().unwrap();
    for (args, variable, place) in [
        (&["generate", "hi"][..], Some("ISOPACE_CACHE"), here),
        (&["info"], Some("ISOPACE_CACHE"), here),
        (&["generate", "hi"], None, ".isopace"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_isopace"));
        for name in ["HOME", "XDG_CACHE_HOME", "ISOPACE_CACHE"] {
            command.env_remove(name);
        }
        command.current_dir(dir.path()).args(args);
        command.envs(variable.map(|v| (v, dir.path())));
        let (code, text) = refusal(command.output().expect("the binary runs"));
        assert_eq!((code, text.lines().count()), (2, 1), "{text}");
        for part in [place, "make demo", "--model", "a .gguf file"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

#[test]
fn what_is_no_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let pipe = dir.path().join("pipe.gguf").display().to_string();
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    for path in [pipe.as_str(), "/dev/null"] {
        for args in [&["generate", "hi", "--model", path][..], &["info", path]] {
            let (code, text) = refusal(isopace(args));
            assert_eq!((code, text.lines().count()), (2, 1), "{text}");
            assert!(text.contains(path) && text.contains("no regular file"), "{text}");
        }
    }
}

#[test]
fn where_output_cannot_go() {
    let model = super::model().display().to_string();
    let shell = |command: &str| {
        let out = Command::new("bash")
            .args(["-c", &format!("set -o pipefail; {command}"), env!("CARGO_BIN_EXE_isopace"), &model])
            .stdin(Stdio::null())
            .output()
            .expect("bash runs");
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    for command in ["info \"$1\"", "--help", "--version", "generate hi -n 2 --model \"$1\""] {
        let (code, errors) = shell(&format!("\"$0\" {command} >/dev/full"));
        assert_eq!((code, errors.lines().count()), (Some(1), 1), "{command}: {errors}");
        assert!(errors.contains("[stdout]") && errors.contains("No space left"), "{command}: {errors}");
    }
    assert_eq!(shell("\"$0\" info \"$1\" >/dev/null"), (Some(0), String::new()));
    let answer = "generate Count. -n 400 --ignore-eos --model \"$1\"";
    assert_eq!(shell(&format!("\"$0\" {answer} | head -c 1")), (Some(0), String::new()));
}

#[test]
fn info_tells_what_is_wrong() {
    let file = with_number("llama.block_count", 29);
    let path = file.path().to_str().expect("a path");
    let out = isopace(&["info", path]);
    let (text, errors) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert_eq!((out.status.code(), errors.lines().count()), (Some(1), 1), "{errors}");
    assert!(text.contains("272 tensors") && text.contains("llama.block_count = 29"), "{text}");
    assert!(errors.contains(path) && errors.contains("9 tensors") && errors.contains("blk.29."), "{errors}");
    let (code, errors) = refusal(isopace(&["generate", "hi", "--model", path]));
    assert!(code == 1 && errors.contains("blk.29."), "{errors}");
}

#[test]
fn benches_of_nothing() {
    for option in ["--prompt-tokens", "--tokens", "--rounds"] {
        let (code, text) = refusal(isopace(&["bench", "decode", option, "0"]));
        assert_eq!((code, text.lines().count()), (2, 1), "{text}");
        assert!(text.contains(&option[2..]) && text.contains("at least 1, 2 and 1"), "{text}");
    }
    let (code, text) = refusal(isopace(&["bench", "decode", "--tokens", "1"]));
    assert!(code == 2 && text.contains("--tokens 1"), "{text}");
}
