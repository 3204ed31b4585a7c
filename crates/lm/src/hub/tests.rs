use std::fs;

use super::*;

fn write(dir: &Path, files: &[(&str, &str)]) {
    fs::create_dir_all(dir).unwrap();
    files.iter().for_each(|(name, text)| fs::write(dir.join(name), text).unwrap());
}

/// The error of a folder that holds these files, without the folder's own path.
fn refused(files: &[(&str, &str)]) -> String {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), files);
    let e = locate(dir.path().to_str().unwrap()).unwrap_err().to_string();
    assert!(!e.contains('\n'), "{e}");
    e.replace(dir.path().to_str().unwrap(), "DIR")
}

const INDEX_TEXT: &str =
    r#"{"weight_map": {"a": "model-2.safetensors", "b": "model-1.safetensors", "c": "model-2.safetensors"}}"#;

#[test]
fn folders() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    write(
        path,
        &[("config.json", "{}"), ("tokenizer.json", "{}"), ("b.safetensors", ""), ("a.safetensors", "")],
    );
    let ModelFiles::Folder(f) = locate(path.to_str().unwrap()).unwrap() else { panic!("a folder") };
    assert_eq!(f.weights, [path.join("a.safetensors"), path.join("b.safetensors")]);
    assert_eq!((f.chat_template, f.tokenizer_config), (None, None));

    write(
        path,
        &[
            (INDEX, INDEX_TEXT),
            ("model-1.safetensors", ""),
            ("model-2.safetensors", ""),
            ("chat_template.jinja", "x"),
        ],
    );
    let ModelFiles::Folder(f) = locate(path.to_str().unwrap()).unwrap() else { panic!("a folder") };
    assert_eq!(f.weights, [path.join("model-1.safetensors"), path.join("model-2.safetensors")]);
    assert_eq!(f.chat_template, Some(path.join("chat_template.jinja")));

    let one = tempfile::tempdir().unwrap();
    write(one.path(), &[("m.gguf", "")]);
    assert_eq!(locate(one.path().to_str().unwrap()).unwrap(), ModelFiles::Gguf(one.path().join("m.gguf")));
}

#[test]
fn broken_folders_and_names() {
    insta::assert_snapshot!(refused(&[]), @"[model] DIR: config.json is missing");
    insta::assert_snapshot!(refused(&[("a.gguf", ""), ("b.gguf", "")]), @"[model] DIR: has 2 GGUF files; name one of them, such as DIR/a.gguf");
    insta::assert_snapshot!(refused(&[("config.json", ""), ("tokenizer.json", "")]), @"[model] DIR: there is no *.safetensors file");
    insta::assert_snapshot!(refused(&[("config.json", ""), ("x.safetensors", "")]), @"[model] DIR: tokenizer.json is missing");
    let index = |text: &str| refused(&[("config.json", "{}"), ("tokenizer.json", ""), (INDEX, text)]);
    insta::assert_snapshot!(index(INDEX_TEXT), @"[model] DIR: the shard model-1.safetensors is missing");
    insta::assert_snapshot!(index("{"), @"[model] DIR/model.safetensors.index.json: not valid JSON: EOF while parsing an object at line 1 column 1");
    insta::assert_snapshot!(index("{}"), @"[model] DIR/model.safetensors.index.json: has no weight_map");
    insta::assert_snapshot!(index(r#"{"weight_map": {"a": "../x.safetensors"}}"#), @r#"[model] DIR/model.safetensors.index.json: a: "../x.safetensors" is not the name of a .safetensors file"#);

    let name = |n: &str| locate(n).unwrap_err().to_string();
    insta::assert_snapshot!(name(""), @"[model] the name is empty; give a .gguf file, a folder with config.json and *.safetensors, or a Hub name such as owner/name");
    insta::assert_snapshot!(name("no such.gguf"), @"[model] no such.gguf: there is no such file or folder; give a .gguf file, a folder with config.json and *.safetensors, or a Hub name such as owner/name");
    for path in [
        "/x/y",
        "../a",
        "a/../b",
        "a/b/c",
        "models/x.gguf",
        "a/b:../c.gguf",
        "a/b:c.bin",
        "a/",
        "a/b@",
        "a /b",
        "a/b:",
    ] {
        assert!(name(path).contains("there is no such file or folder"), "{path}");
    }
    let parsed = HubName::parse("o-1/n_2.x@refs/pr/1:q/m.gguf").unwrap();
    assert_eq!(
        (parsed.repo.as_str(), parsed.revision.as_deref(), parsed.file.as_deref()),
        ("o-1/n_2.x", Some("refs/pr/1"), Some("q/m.gguf"))
    );
}

#[test]
fn tokenizer_and_template_of_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let tokenizer = r#"{"version":"1.0","added_tokens":[{"id":3,"content":"</s>","special":true,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false}],
        "decoder":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":false},"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":false},
        "model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}}"#;
    let list = r#"{"eos_token":{"content":"</s>"},"chat_template":[{"name":"tools","template":"no"},{"name":"default","template":"{{ messages[0].content }}{{ eos_token }}"}]}"#;
    write(
        dir.path(),
        &[
            ("config.json", r#"{"eos_token_id": [3, 1]}"#),
            ("tokenizer.json", tokenizer),
            ("tokenizer_config.json", list),
            ("model.safetensors", ""),
        ],
    );
    let ModelFiles::Folder(f) = locate(dir.path().to_str().unwrap()).unwrap() else { panic!("a folder") };
    let t = f.tokenizer().unwrap();
    assert_eq!((t.stop_ids(), t.eos(), t.bos()), (&[3, 1][..], Some(3), None));
    let chat = f.chat_template(&t).unwrap().unwrap();
    assert_eq!(chat.encode(&t, &[crate::chat::Message::new("user", "aba</s>")], true).unwrap(), [2, 0, 3]);
}

#[test]
fn a_pipe_is_no_file_of_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[("config.json", "{}"), ("tokenizer.json", "{}")]);
    let pipes = ["generation_config.json", "model.safetensors"].map(|name| dir.path().join(name));
    assert!(std::process::Command::new("mkfifo").args(&pipes).status().unwrap().success());
    let ModelFiles::Folder(f) = locate(dir.path().to_str().unwrap()).unwrap() else { panic!("a folder") };
    let opened = crate::weights::Weights::safetensors(&f.weights).map(drop);
    for (e, path) in [f.tokenizer().map(drop), opened].into_iter().zip(&pipes) {
        let e = e.unwrap_err().to_string();
        assert!(e.contains(path.to_str().unwrap()) && e.contains("is no regular file"), "{e}");
    }
}

#[cfg(feature = "hub")]
mod over_loopback {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream};
    use std::process::Command;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use super::*;

    const SHA: &str = "0123456789abcdef0123456789abcdef01234567";

    /// A Hub of a few repositories on a port of its own. It answers a bounded number of requests.
    struct Server {
        endpoint: String,
        requests: Arc<Mutex<Vec<String>>>,
    }

    fn repository(name: &str) -> Option<Vec<(&'static str, String)>> {
        let s = |t: &str| t.to_string();
        Some(match name {
            "tiny/llama" => vec![
                ("README.md", s("no")),
                ("config.json", s("{}")),
                ("tokenizer.json", s("{\"t\": 1}")),
                (INDEX, s(INDEX_TEXT)),
                ("model-1.safetensors", "1".repeat(100_000)),
                ("model-2.safetensors", s("22")),
                ("other.safetensors", s("not in the index")),
            ],
            "tiny/gguf" => vec![("q4.gguf", s("four")), ("q8.gguf", s("eight"))],
            "tiny/short" => vec![("short.gguf", "s".repeat(1000))],
            "tiny/empty" => vec![("README.md", s("no"))],
            _ => return None,
        })
    }

    fn answer(stream: TcpStream, log: &Mutex<Vec<String>>) -> std::io::Result<()> {
        let mut lines = BufReader::new(stream.try_clone()?).lines();
        let first = lines.next().transpose()?.unwrap_or_default();
        let path = first.split(' ').nth(1).unwrap_or_default().to_string();
        let mut range = None;
        for line in lines {
            let line = line?.to_lowercase();
            if line.is_empty() {
                break;
            }
            range = line.strip_prefix("range: bytes=").map(str::to_string).or(range);
        }
        log.lock().unwrap().push(path.clone());
        let mut out = stream;
        if let Some(name) = path.strip_prefix("/api/models/").and_then(|p| p.strip_suffix("/revision/main"))
            && let Some(files) = repository(name)
        {
            let siblings: Vec<_> = files.iter().map(|(f, _)| serde_json::json!({"rfilename": f})).collect();
            let body = serde_json::json!({"sha": SHA, "siblings": siblings}).to_string();
            return write!(
                out,
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
        }
        let file = path
            .trim_start_matches('/')
            .split_once("/resolve/main/")
            .and_then(|(name, file)| repository(name)?.into_iter().find(|(f, _)| *f == file));
        let (Some((name, body)), Some(range)) = (file, range) else {
            return write!(out, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        };
        let (from, to) = range.split_once('-').unwrap();
        let from: usize = from.parse().unwrap();
        let to = to.parse::<usize>().map_or(body.len(), |t| t + 1);
        let promised = body.len();
        let to = if name == "short.gguf" && to > 1 { to / 2 } else { to };
        let part = &body[from..to];
        write!(
            out,
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {from}-{}/{promised}\r\nETag: \"{name}-tag\"\r\nX-Repo-Commit: {SHA}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{part}",
            to - 1,
            part.len()
        )
    }

    impl Server {
        fn start() -> Server {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let endpoint = format!("http://{}", listener.local_addr().unwrap());
            let requests = Arc::new(Mutex::new(Vec::new()));
            let log = requests.clone();
            std::thread::spawn(move || {
                for stream in listener.incoming().take(100).flatten() {
                    let _ = answer(stream, &log);
                }
            });
            Server { endpoint, requests }
        }
    }

    /// What `locate` says in a process of its own, whose environment is set.
    fn located(model: &str, home: &Path, vars: &[(&str, &str)]) -> String {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let out = home.join(format!("answer-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        let mut command = Command::new(std::env::current_exe().unwrap());
        for var in ["HF_HUB_CACHE", "HF_ENDPOINT", "HF_HUB_OFFLINE"] {
            command.env_remove(var);
        }
        let done = command
            .args(["--exact", "hub::tests::over_loopback::child", "--ignored"])
            .env("HF_HOME", home)
            .env("ISOPACE_TEST_MODEL", model)
            .env("ISOPACE_TEST_ANSWER", &out)
            .envs(vars.iter().copied())
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
        fs::read_to_string(out).unwrap().replace(home.to_str().unwrap(), "HOME")
    }

    #[test]
    #[ignore = "runs as a child of the other tests"]
    fn child() {
        let Some(out) = std::env::var_os("ISOPACE_TEST_ANSWER") else { return };
        let mut last = (String::new(), 0, 0);
        let found = locate_with(&std::env::var("ISOPACE_TEST_MODEL").unwrap(), &mut |file, have, want| {
            assert!(have <= want);
            last = (file.to_string(), have, want);
        });
        let text = match found {
            Ok(ModelFiles::Gguf(path)) => {
                format!("{}: {}", path.display(), fs::read_to_string(&path).unwrap())
            }
            Ok(ModelFiles::Folder(f)) => {
                let sizes: Vec<_> = f.weights.iter().map(|w| fs::metadata(w).unwrap().len()).collect();
                format!("{} {sizes:?}; last {last:?}", f.path.display())
            }
            Err(e) => e.to_string(),
        };
        fs::write(out, text).unwrap();
    }

    #[test]
    fn a_folder_is_fetched_once() {
        let (server, home) = (Server::start(), tempfile::tempdir().unwrap());
        let there = [("HF_ENDPOINT", server.endpoint.as_str())];
        let nowhere = [("HF_ENDPOINT", "http://127.0.0.1:9")];
        let first = located("tiny/llama", home.path(), &there);
        insta::assert_snapshot!(first, @r#"HOME/hub/models--tiny--llama/snapshots/0123456789abcdef0123456789abcdef01234567 [100000, 2]; last ("model-2.safetensors", 2, 2)"#);
        let asked = server.requests.lock().unwrap().clone();
        assert!(!asked.iter().any(|p| p.contains("other.") || p.contains("README")), "{asked:?}");

        let cached = first.split(';').next().unwrap();
        assert!(located("tiny/llama", home.path(), &there).starts_with(cached));
        assert_eq!(server.requests.lock().unwrap().len(), asked.len() + 1);
        assert!(located("tiny/llama", home.path(), &nowhere).starts_with(cached));
        let offline = [nowhere[0], ("HF_HUB_OFFLINE", "1")];
        assert!(located("tiny/llama", home.path(), &offline).starts_with(cached));
        insta::assert_snapshot!(located("tiny/other", home.path(), &offline), @"[hub] tiny/other: not complete in HOME/hub, and HF_HUB_OFFLINE forbids fetching it");
        let e = located("tiny/other", home.path(), &nowhere);
        assert!(e.starts_with("[hub] tiny/other: cannot be looked up: ") && !e.contains('\n'), "{e}");
    }

    #[test]
    fn gguf_repositories_and_refusals() {
        let (server, home) = (Server::start(), tempfile::tempdir().unwrap());
        let there = [("HF_ENDPOINT", server.endpoint.as_str())];
        let ask = |model: &str| located(model, home.path(), &there).replace(&server.endpoint, "SERVER");
        insta::assert_snapshot!(ask("tiny/gguf"), @"[hub] tiny/gguf: has several GGUF files; name one: tiny/gguf:q4.gguf, tiny/gguf:q8.gguf");
        insta::assert_snapshot!(ask("tiny/gguf:q8.gguf"), @"HOME/hub/models--tiny--gguf/snapshots/0123456789abcdef0123456789abcdef01234567/q8.gguf: eight");
        insta::assert_snapshot!(ask("tiny/gguf:q2.gguf"), @"[hub] tiny/gguf: there is no q2.gguf in it");
        insta::assert_snapshot!(ask("tiny/empty"), @"[hub] tiny/empty: has neither config.json with *.safetensors nor a GGUF file");
        insta::assert_snapshot!(ask("tiny/short"), @"[hub] tiny/short: short.gguf: 500 bytes came, where 1000 were promised");
        insta::assert_snapshot!(ask("tiny/short"), @"[hub] tiny/short: short.gguf: 500 bytes came, where 1000 were promised");
        insta::assert_snapshot!(ask("no/such"), @"[hub] no/such: cannot be looked up: request error: http status: 404");
    }
}
