//! Where a model is: a GGUF file, a folder in Hugging Face layout, or a name on the Hub.

#[cfg(feature = "hub")]
mod download;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use isopace::{Result, bail, err};

use crate::chat::ChatTemplate;
use crate::tokenizer::{JsonSettings, Tokenizer};

/// The files of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelFiles {
    /// One GGUF file, which holds everything.
    Gguf(PathBuf),
    /// A folder in Hugging Face layout.
    Folder(Folder),
}

/// The files of a folder in Hugging Face layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// The folder itself.
    pub path: PathBuf,
    /// `config.json`.
    pub config: PathBuf,
    /// `tokenizer.json`.
    pub tokenizer: PathBuf,
    /// `tokenizer_config.json`, if it is there.
    pub tokenizer_config: Option<PathBuf>,
    /// `generation_config.json`, if it is there.
    pub generation_config: Option<PathBuf>,
    /// `chat_template.jinja`, if it is there.
    pub chat_template: Option<PathBuf>,
    /// The weights: one file, or the shards that the index names, in order of their names.
    pub weights: Vec<PathBuf>,
}

/// How far a download is: the file, the bytes that are there, and the bytes it has.
pub type Progress<'a> = &'a mut dyn FnMut(&str, u64, u64);

/// What some editors put before a text.
pub const BYTE_ORDER_MARK: &str = "\u{feff}";

const INDEX: &str = "model.safetensors.index.json";
/// The largest JSON file that is read: tokenizers of a million tokens stay well below.
const MAX_JSON_BYTES: u64 = 512 << 20;

/// Finds a model by what a user calls it: the path of a `.gguf` file or of a folder, or a Hub name
/// `owner/name`, which is fetched into the Hub's cache unless it is there. `owner/name:file.gguf`
/// names one of several GGUF files and `@revision` after the name a branch, tag or commit.
///
/// `HF_HOME`, `HF_HUB_CACHE`, `HF_ENDPOINT` and `HF_HUB_OFFLINE` have their usual meanings.
///
/// # Errors
/// `Argument` for a name that is neither, `Format` for a folder in which something is missing, `Io`
/// when the Hub cannot be reached or refuses.
pub fn locate(model: &str) -> Result<ModelFiles> {
    locate_with(model, &mut |_, _, _| ())
}

/// As [`locate`], telling how far downloads are.
///
/// # Errors
/// As [`locate`].
pub fn locate_with(model: &str, progress: Progress<'_>) -> Result<ModelFiles> {
    let path = Path::new(model);
    if model.trim().is_empty() {
        bail!(Argument, "[model] the name is empty; {ACCEPTED}");
    }
    if path.is_dir() {
        return folder(path);
    }
    if path.is_file() {
        return Ok(ModelFiles::Gguf(path.to_path_buf()));
    }
    if path.exists() {
        bail!(Argument, "[model] {}: is no regular file; {ACCEPTED}", model.escape_debug());
    }
    let Some(name) = HubName::parse(model) else {
        bail!(Argument, "[model] {}: there is no such file or folder; {ACCEPTED}", model.escape_debug());
    };
    #[cfg(feature = "hub")]
    return download::fetch(&name, progress);
    #[cfg(not(feature = "hub"))]
    {
        let _ = (name, progress);
        bail!(
            Unsupported,
            "[model] {model}: there is no such file or folder, and this build cannot fetch models by name"
        );
    }
}

/// What a model's name may be.
pub(crate) const ACCEPTED: &str =
    "give a .gguf file, a folder with config.json and *.safetensors, or a Hub name such as owner/name";

/// A Hub name taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "hub"), allow(dead_code))]
struct HubName {
    repo: String,
    revision: Option<String>,
    file: Option<String>,
}

impl HubName {
    /// Exactly two parts of letters, digits, `-`, `_` and `.`; anything else is a path that is not there.
    fn parse(text: &str) -> Option<HubName> {
        let (rest, file) = match text.split_once(':') {
            Some((rest, file)) => (rest, Some(file)),
            None => (text, None),
        };
        let (repo, revision) = match rest.split_once('@') {
            Some((repo, revision)) => (repo, Some(revision)),
            None => (rest, None),
        };
        let (owner, name) = repo.split_once('/')?;
        let plain = |s: &str| {
            !s.is_empty()
                && s.len() <= 96
                && !s.starts_with(['.', '-'])
                && !s.contains("..")
                && s.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        };
        let path = |s: &str| s.split('/').all(plain);
        let looks_local = file.is_none() && name.ends_with(".gguf");
        let ok = plain(owner) && plain(name) && !looks_local;
        let ok = ok && revision.is_none_or(path) && file.is_none_or(|f| path(f) && f.ends_with(".gguf"));
        ok.then(|| HubName {
            repo: repo.to_string(),
            revision: revision.map(str::to_string),
            file: file.map(str::to_string),
        })
    }
}

/// Reads what is in a folder. A folder without `config.json` but with one GGUF file is that file.
fn folder(path: &Path) -> Result<ModelFiles> {
    let shown = path.display();
    let list = std::fs::read_dir(path).map_err(|e| err!(Io, "[model] {shown}: cannot be listed: {e}"))?;
    let mut names = BTreeSet::new();
    for entry in list {
        let entry = entry.map_err(|e| err!(Io, "[model] {shown}: cannot be listed: {e}"))?;
        // A name that is not UTF-8 is none of those looked for.
        names.extend(entry.file_name().into_string());
    }
    let find = |name: &str| names.contains(name).then(|| path.join(name));
    let need = |name: &str| find(name).ok_or_else(|| err!(Format, "[model] {shown}: {name} is missing"));
    if find("config.json").is_none() {
        let ggufs: Vec<&String> = names.iter().filter(|n| n.ends_with(".gguf")).collect();
        match ggufs.as_slice() {
            [one] => return Ok(ModelFiles::Gguf(path.join(one))),
            [] => {}
            [first, ..] => bail!(
                Argument,
                "[model] {shown}: has {} GGUF files; name one of them, such as {}",
                ggufs.len(),
                path.join(first).display()
            ),
        }
    }
    let config = need("config.json")?;
    let weights: Vec<PathBuf> = match find(INDEX) {
        Some(index) => shards(&index, &names)?.into_iter().map(|n| path.join(n)).collect(),
        None => {
            let all: Vec<_> = names.iter().filter(|n| n.ends_with(".safetensors")).collect();
            let one = all.iter().find(|n| **n == "model.safetensors");
            one.map_or(all.as_slice(), std::slice::from_ref).iter().map(|n| path.join(n)).collect()
        }
    };
    if weights.is_empty() {
        bail!(Format, "[model] {shown}: there is no *.safetensors file");
    }
    Ok(ModelFiles::Folder(Folder {
        path: path.to_path_buf(),
        config,
        tokenizer: need("tokenizer.json")?,
        tokenizer_config: find("tokenizer_config.json"),
        generation_config: find("generation_config.json"),
        chat_template: find("chat_template.jinja"),
        weights,
    }))
}

/// The shards that an index names, all of which must be in the folder.
fn shards(index: &Path, names: &BTreeSet<String>) -> Result<BTreeSet<String>> {
    let out = shard_names(index)?;
    if let Some(missing) = out.iter().find(|n| !names.contains(*n)) {
        bail!(
            Format,
            "[model] {}: the shard {} is missing",
            index.parent().unwrap_or(index).display(),
            missing.escape_debug()
        );
    }
    Ok(out)
}

/// The shards that an index names: plain file names, since an index must not reach elsewhere.
fn shard_names(index: &Path) -> Result<BTreeSet<String>> {
    let shown = index.display();
    let json = read_json(index)?;
    let Some(map) = json.get("weight_map").and_then(|m| m.as_object()) else {
        bail!(Format, "[model] {shown}: has no weight_map");
    };
    let mut out = BTreeSet::new();
    for (tensor, file) in map {
        match file.as_str() {
            Some(f) if f.ends_with(".safetensors") && !f.contains(['/', '\\']) && !f.starts_with('.') => {
                out.insert(f.to_string());
            }
            _ => bail!(
                Format,
                "[model] {shown}: {}: {file} is not the name of a .safetensors file",
                tensor.escape_debug()
            ),
        }
    }
    Ok(out)
}

/// Reads a JSON file, in which a byte order mark may stand first.
///
/// # Errors
/// `Io` when it cannot be read, `Format` when it is not JSON.
pub fn read_json(path: &Path) -> Result<serde_json::Value> {
    let shown = path.display();
    serde_json::from_slice(&read(path)?).map_err(|e| err!(Format, "[model] {shown}: not valid JSON: {e}"))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let shown = path.display();
    let unreadable = |e| err!(Io, "[model] {shown}: cannot be read: {e}");
    let meta = std::fs::metadata(path).map_err(unreadable)?;
    if !meta.is_file() {
        bail!(Format, "[model] {shown}: is no regular file");
    }
    if meta.len() > MAX_JSON_BYTES {
        bail!(Format, "[model] {shown}: {} bytes is too large for a JSON file", meta.len());
    }
    let mut bytes = std::fs::read(path).map_err(unreadable)?;
    if bytes.starts_with(BYTE_ORDER_MARK.as_bytes()) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(bytes)
}

impl Folder {
    fn optional(path: &Option<PathBuf>) -> Result<Option<serde_json::Value>> {
        path.as_deref().map(read_json).transpose()
    }

    /// Reads the tokenizer with what the configurations say about its special tokens.
    ///
    /// # Errors
    /// As [`Tokenizer::from_json`], and for files that cannot be read.
    pub fn tokenizer(&self) -> Result<Tokenizer> {
        let (config, generation) = (read_json(&self.config)?, Folder::optional(&self.generation_config)?);
        let tokenizer = Folder::optional(&self.tokenizer_config)?;
        let settings = JsonSettings::from_configs(tokenizer.as_ref(), &[generation.as_ref(), Some(&config)])?;
        Tokenizer::from_json(&read(&self.tokenizer)?, &self.tokenizer.display().to_string(), &settings)
    }

    /// Reads the chat template, from `chat_template.jinja` or else from `tokenizer_config.json`.
    ///
    /// # Errors
    /// As [`ChatTemplate::new`], and for files that cannot be read.
    pub fn chat_template(&self, tokenizer: &Tokenizer) -> Result<Option<ChatTemplate>> {
        if let Some(path) = &self.chat_template {
            let source = String::from_utf8(read(path)?)
                .map_err(|_| err!(Format, "[model] {}: not valid UTF-8", path.display()))?;
            return ChatTemplate::for_tokenizer(&source, tokenizer).map(Some);
        }
        let Some(config) = Folder::optional(&self.tokenizer_config)? else { return Ok(None) };
        let source = match config.get("chat_template") {
            Some(serde_json::Value::String(s)) => Some(s.as_str()),
            // A list of named templates.
            Some(serde_json::Value::Array(list)) => {
                let default = list.iter().find(|t| t.get("name").is_some_and(|n| n == "default"));
                default.or(list.first()).and_then(|t| t.get("template")?.as_str())
            }
            _ => None,
        };
        source.map(|s| ChatTemplate::for_tokenizer(s, tokenizer)).transpose()
    }
}

#[cfg(test)]
mod tests;
