//! Compiled modules on disk: one file per content, verified before use, the oldest leaving first.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use xxhash_rust::xxh3::xxh3_128;

const MAGIC: [u8; 8] = *b"isopace\x01";
/// Magic, length, checksum and key, after the library's own bytes (which the loader ignores).
const TRAILER_BYTES: usize = 8 + 8 + 16 + 16;
/// Left behind by a process that died while it built.
const STALE: Duration = Duration::from_secs(3600);
const LOCKS: u128 = 16;

static COUNTER: AtomicU64 = AtomicU64::new(0);

/// A folder of modules, for this user only.
#[derive(Debug)]
pub(super) struct Disk {
    dir: PathBuf,
    max_bytes: u64,
    uid: u32,
}

/// A private folder to build in, removed when dropped.
#[derive(Debug)]
pub(super) struct Workshop(PathBuf);

impl Drop for Workshop {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Workshop {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Makes a new folder in `parent`, never one that exists.
    pub(super) fn new(parent: &Path) -> std::io::Result<Workshop> {
        for _ in 0..1000 {
            let n = COUNTER.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("build-{}-{n}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Workshop(path)),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(e),
            }
        }
        Err(std::io::Error::other("no free name for a build folder"))
    }
}

fn seal(library: &[u8], key: u128) -> [u8; TRAILER_BYTES] {
    let mut t = [0; TRAILER_BYTES];
    t[..8].copy_from_slice(&MAGIC);
    t[8..16].copy_from_slice(&(library.len() as u64).to_le_bytes());
    t[16..32].copy_from_slice(&xxh3_128(library).to_le_bytes());
    t[32..].copy_from_slice(&key.to_le_bytes());
    t
}

impl Disk {
    /// Opens or makes the folder; `None` where it cannot be one of this user alone.
    pub(super) fn open(dir: PathBuf, max_bytes: u64, uid: u32) -> Option<Disk> {
        DirBuilder::new().recursive(true).mode(0o700).create(&dir).ok()?;
        let meta = fs::symlink_metadata(&dir).ok()?;
        if !meta.is_dir() || meta.uid() != uid {
            return None;
        }
        if meta.mode() & 0o077 != 0 {
            fs::set_permissions(&dir, Permissions::from_mode(0o700)).ok()?;
        }
        Some(Disk { dir, max_bytes, uid })
    }

    pub(super) fn workshop(&self) -> std::io::Result<Workshop> {
        Workshop::new(&self.dir)
    }

    fn path(&self, key: u128) -> PathBuf {
        self.dir.join(format!("{key:032x}.so"))
    }

    /// The file of this key if it is whole, ours, and what was written; a bad one is removed.
    pub(super) fn find(&self, key: u128) -> Option<PathBuf> {
        let path = self.path(key);
        let open =
            OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(&path);
        let mut file = match open {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return None,
            Err(_) => {
                self.discard(key);
                return None;
            }
        };
        if self.verify(&mut file, key).is_none() {
            self.discard(key);
            return None;
        }
        let _ = file.set_modified(SystemTime::now());
        Some(path)
    }

    fn verify(&self, file: &mut File, key: u128) -> Option<()> {
        let meta = file.metadata().ok()?;
        if !meta.is_file()
            || meta.uid() != self.uid
            || meta.mode() & 0o022 != 0
            || meta.len() > self.max_bytes.max(1 << 30)
        {
            return None;
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).ok()?;
        let (library, trailer) = bytes.split_at_checked(bytes.len().checked_sub(TRAILER_BYTES)?)?;
        (seal(library, key) == trailer).then_some(())
    }

    /// Removes what stands at this key, whatever it is.
    pub(super) fn discard(&self, key: u128) {
        let path = self.path(key);
        if fs::remove_file(&path).is_err() {
            let _ = fs::remove_dir_all(&path);
        }
    }

    /// Moves a library built in a workshop of this folder to its place, sealed.
    pub(super) fn keep(&self, built: &Path, key: u128) -> std::io::Result<PathBuf> {
        let library = fs::read(built)?;
        let mut file = OpenOptions::new().append(true).open(built)?;
        file.write_all(&seal(&library, key))?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.sync_data()?;
        let path = self.path(key);
        fs::rename(built, &path)?;
        Ok(path)
    }

    /// Waits for other processes that build the same key. Without locks (some network file
    /// systems) two may build; renaming keeps both results whole.
    pub(super) fn lock(&self, key: u128) -> Option<File> {
        let path = self.dir.join(format!("lock-{:x}", key % LOCKS));
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path).ok()?;
        file.lock().ok()?;
        Some(file)
    }

    /// Removes the least recently used modules past the bound, and stale build folders.
    pub(super) fn prune(&self, newest: u128) {
        let now = SystemTime::now();
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let (path, Ok(meta)) = (entry.path(), entry.metadata()) else { continue };
            let age = now.duration_since(meta.modified().unwrap_or(now)).unwrap_or_default();
            if meta.is_dir() && age > STALE && entry.file_name().to_string_lossy().starts_with("build-") {
                let _ = fs::remove_dir_all(&path);
            } else if path.extension().is_some_and(|e| e == "so") && path != self.path(newest) {
                files.push((age, meta.len(), path));
            }
        }
        files.sort();
        let mut total = fs::metadata(self.path(newest)).map_or(0, |m| m.len());
        for (_, bytes, path) in files {
            total += bytes;
            if total > self.max_bytes {
                let _ = fs::remove_file(path);
            }
        }
    }
}
