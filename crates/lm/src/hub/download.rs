//! Fetching from the Hub into its cache, which other programs share.

use std::path::PathBuf;

use hf_hub::api::sync::{ApiBuilder, ApiRepo};
use hf_hub::{Cache, CacheRepo, Repo, RepoType};
use isopace::{Error, Result, bail, err};

use super::{HubName, INDEX, ModelFiles, Progress, folder, shard_names};

/// What the environment says about the Hub.
struct Settings {
    cache: PathBuf,
    endpoint: Option<String>,
    offline: bool,
}

impl Settings {
    fn from_env() -> Result<Settings> {
        let var = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
        let home = || {
            var("HF_HOME").map(PathBuf::from).or_else(|| {
                let cache = var("XDG_CACHE_HOME").map(PathBuf::from);
                let cache = cache.or_else(|| Some(PathBuf::from(var("HOME")?).join(".cache")));
                Some(cache?.join("huggingface"))
            })
        };
        let cache = var("HF_HUB_CACHE").map(PathBuf::from).or_else(|| Some(home()?.join("hub")));
        let Some(cache) = cache else {
            bail!(Argument, "[hub] there is no place for a cache: set HF_HOME or HOME");
        };
        // The client makes relative links between files of the cache and wants absolute paths for it.
        let cache = std::path::absolute(&cache)
            .map_err(|e| err!(Io, "[hub] {}: no usable cache: {e}", cache.display()))?;
        let offline = var("HF_HUB_OFFLINE").is_some_and(|v| {
            matches!(v.to_string_lossy().to_lowercase().as_str(), "1" | "true" | "yes" | "on")
        });
        let endpoint = var("HF_ENDPOINT").map(|v| v.to_string_lossy().trim_end_matches('/').to_string());
        Ok(Settings { cache, endpoint, offline })
    }
}

/// The model's files in the cache, fetched first where they are not there.
pub(super) fn fetch(name: &HubName, progress: Progress<'_>) -> Result<ModelFiles> {
    let settings = Settings::from_env()?;
    let revision = name.revision.clone().unwrap_or_else(|| "main".to_string());
    let repo = Repo::with_revision(name.repo.clone(), RepoType::Model, revision);
    let cache = Cache::new(settings.cache.clone());
    let cached = || in_cache(name, &cache.repo(repo.clone()));
    if settings.offline {
        return cached().ok_or_else(|| {
            err!(
                Io,
                "[hub] {}: not complete in {}, and HF_HUB_OFFLINE forbids fetching it",
                name.repo,
                settings.cache.display()
            )
        });
    }
    match online(name, &settings, cache.clone(), repo.clone(), progress) {
        // A network that fails does not matter when everything is there already.
        Err(Error::Io(why)) => cached().ok_or(Error::Io(why)),
        other => other,
    }
}

fn in_cache(name: &HubName, cache: &CacheRepo) -> Option<ModelFiles> {
    if let Some(file) = &name.file {
        return cache.get(file).map(ModelFiles::Gguf);
    }
    if let Some(config) = cache.get("config.json") {
        return folder(config.parent()?).ok();
    }
    // A repository of GGUF files. The components leave out the final dot.
    folder(&cache.get(".")?.components().collect::<PathBuf>()).ok()
}

fn online(
    name: &HubName,
    settings: &Settings,
    cache: Cache,
    repo: Repo,
    progress: Progress<'_>,
) -> Result<ModelFiles> {
    let shown = &name.repo;
    let mut builder =
        ApiBuilder::from_cache(cache.clone()).with_progress(false).with_user_agent("isopace", "0.1");
    if let Some(endpoint) = &settings.endpoint {
        builder = builder.with_endpoint(endpoint.clone());
    }
    let fail = |what: &str, e: &dyn std::fmt::Display| {
        let why = e.to_string().replace('\n', " ");
        err!(Io, "[hub] {shown}: {what}: {why}")
    };
    let api = builder.build().map_err(|e| fail("no connection", &e))?;
    let api = api.repo(repo.clone());
    let info = api.info().map_err(|e| fail("cannot be looked up", &e))?;
    if info.sha.is_empty() || !info.sha.chars().all(|c| c.is_ascii_alphanumeric()) {
        return Err(fail("cannot be looked up", &"the answer names no commit"));
    }
    let files: Vec<&str> = info.siblings.iter().map(|s| s.rfilename.as_str()).collect();
    let cache = cache.repo(repo);
    let snapshot = cache.pointer_path(&info.sha);
    let found = Remote { repo: api, snapshot, shown, progress }.fetch(name, &files)?;
    // Without it the revision could not be found offline when all its files were there before.
    cache.create_ref(&info.sha).map_err(|e| fail("the cache cannot be written", &e))?;
    Ok(found)
}

struct Remote<'a> {
    repo: ApiRepo,
    /// The cached files of the commit that the revision names now.
    snapshot: PathBuf,
    shown: &'a str,
    progress: Progress<'a>,
}

impl Remote<'_> {
    fn fetch(mut self, name: &HubName, files: &[&str]) -> Result<ModelFiles> {
        let shown = self.shown;
        if let Some(file) = &name.file {
            if !files.contains(&file.as_str()) {
                bail!(Argument, "[hub] {shown}: there is no {file} in it");
            }
            return self.get(file).map(ModelFiles::Gguf);
        }
        if !files.contains(&"config.json") || !files.iter().any(|f| f.ends_with(".safetensors")) {
            return match files.iter().filter(|f| f.ends_with(".gguf")).collect::<Vec<_>>().as_slice() {
                [one] => self.get(one).map(ModelFiles::Gguf),
                [] => {
                    bail!(Format, "[hub] {shown}: has neither config.json with *.safetensors nor a GGUF file")
                }
                many => {
                    let many: Vec<_> = many.iter().take(20).map(|f| format!("{shown}:{f}")).collect();
                    bail!(Argument, "[hub] {shown}: has several GGUF files; name one: {}", many.join(", "))
                }
            };
        }
        for file in [
            "config.json",
            "tokenizer.json",
            "tokenizer_config.json",
            "generation_config.json",
            "chat_template.jinja",
        ] {
            if files.contains(&file) {
                self.get(file)?;
            }
        }
        let weights = if files.contains(&INDEX) {
            shard_names(&self.get(INDEX)?)?.into_iter().collect()
        } else {
            let top = |f: &&&str| f.ends_with(".safetensors") && !f.contains('/');
            let all: Vec<String> = files.iter().filter(top).map(|f| f.to_string()).collect();
            if all.iter().any(|f| f == "model.safetensors") {
                vec!["model.safetensors".to_string()]
            } else {
                all
            }
        };
        for file in weights {
            self.get(&file)?;
        }
        folder(&self.snapshot)
    }

    /// The path of one file in the cache, fetched if it is not there.
    fn get(&mut self, file: &str) -> Result<PathBuf> {
        let cached = self.snapshot.join(file);
        if cached.exists() {
            return Ok(cached);
        }
        let mut state = (String::new(), 0, 0);
        let bar = Bar { progress: &mut *self.progress, state: &mut state };
        let path = self.repo.download_with_progress(file, bar).map_err(|e| {
            let why = e.to_string().replace('\n', " ");
            err!(Io, "[hub] {}: {file}: cannot be fetched: {why}", self.shown)
        })?;
        let (have, want) = (std::fs::metadata(&path).map_or(0, |m| m.len()), state.2);
        if have != want {
            // Left in place it would count as fetched the next time.
            let _ = std::fs::remove_file(&path);
            bail!(Io, "[hub] {}: {file}: {have} bytes came, where {want} were promised", self.shown);
        }
        Ok(path)
    }
}

struct Bar<'a> {
    progress: &'a mut dyn FnMut(&str, u64, u64),
    /// File, bytes there, bytes promised.
    state: &'a mut (String, u64, u64),
}

impl hf_hub::api::Progress for Bar<'_> {
    fn init(&mut self, size: usize, filename: &str) {
        *self.state = (filename.to_string(), 0, size as u64);
    }

    fn update(&mut self, size: usize) {
        self.state.1 += size as u64;
        (self.progress)(&self.state.0, self.state.1, self.state.2);
    }

    fn finish(&mut self) {}
}
