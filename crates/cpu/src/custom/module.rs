//! Modules: compiled specializations, shared by content in memory and on disk.

use std::ffi::{c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use isopace_core::kernel::{Dialect, Mode, Specialization};
use isopace_core::{Error, Result, bail, err};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_128;

use super::compiler::Compiler;
use super::disk::{Disk, Workshop};
use super::run::{Entry, STATE_ROOM_BYTES};

/// The texts that give Metal's vocabulary its meaning, in order.
pub const PRELUDE: [(&str, &str); 3] = [
    ("metal_types.h", include_str!("../../include/metal_types.h")),
    ("metal_math.h", include_str!("../../include/metal_math.h")),
    ("metal_threads.h", include_str!("../../include/metal_threads.h")),
];

/// The version of what an entry point and [`super::run()`] expect of each other.
const ABI: u32 = 1;

/// Everything the compiler sees for a specialization: prelude, then generated source.
pub fn unit_text(spec: &Specialization) -> String {
    let mut unit = String::with_capacity(96 << 10);
    for (name, text) in PRELUDE {
        unit.push_str(&format!("#line 1 \"{name}\"\n{text}"));
    }
    unit.push_str(&spec.source);
    unit
}

/// A loaded module. It stays loaded: code that runs cannot be unmapped, and the count is reported.
#[derive(Debug)]
pub struct Module {
    pub(super) name: Arc<str>,
    pub(super) entry: Entry,
    pub(super) args: usize,
    pub(super) cooperative: bool,
    hash: u128,
}

impl Module {
    /// The hash of the source it was built from.
    pub fn hash(&self) -> u128 {
        self.hash
    }

    /// The kernel's name, for error texts.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// A module, and whether this request compiled it.
#[derive(Clone, Debug)]
pub struct Fetched {
    pub module: Arc<Module>,
    pub built: bool,
}

/// Where modules come from and how much of them is kept on disk.
#[derive(Clone, Debug)]
pub struct ModulesOptions {
    /// The folder of compiled modules; `None` keeps nothing on disk.
    pub dir: Option<PathBuf>,
    /// The bound on that folder.
    pub max_disk_bytes: u64,
    /// `None` finds the system's compiler when one is first needed.
    pub compiler: Option<Compiler>,
}

impl Default for ModulesOptions {
    /// `$ISOPACE_CACHE/kernels`, else `$XDG_CACHE_HOME/isopace/kernels`, else
    /// `~/.cache/isopace/kernels`, of 256 MiB or `ISOPACE_CACHE_MB`.
    fn default() -> Self {
        let var = |n: &str| std::env::var_os(n).filter(|v| !v.is_empty()).map(PathBuf::from);
        let dir = var("ISOPACE_CACHE")
            .or_else(|| var("XDG_CACHE_HOME").filter(|p| p.is_absolute()).map(|p| p.join("isopace")))
            .or_else(|| var("HOME").map(|p| p.join(".cache/isopace")))
            .map(|p| p.join("kernels"));
        let mib = std::env::var("ISOPACE_CACHE_MB").ok().and_then(|v| v.parse().ok()).unwrap_or(256u64);
        ModulesOptions { dir, max_disk_bytes: mib.saturating_mul(1 << 20), compiler: None }
    }
}

/// What a set of modules has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModulesStats {
    /// Modules loaded now (and for good).
    pub loaded: usize,
    /// Compiler runs that gave a module.
    pub built: u64,
    /// Modules found on disk.
    pub from_disk: u64,
}

type Flight = Arc<OnceLock<Result<Arc<Module>>>>;

/// Modules by content. Each is compiled once, whoever asks.
#[derive(Debug)]
pub struct Modules {
    options: ModulesOptions,
    flights: Mutex<std::collections::HashMap<u128, Flight>>,
    built: AtomicU64,
    from_disk: AtomicU64,
    disk: OnceLock<Option<Disk>>,
}

impl Modules {
    pub fn new(options: ModulesOptions) -> Modules {
        Modules {
            options,
            flights: Mutex::default(),
            built: AtomicU64::new(0),
            from_disk: AtomicU64::new(0),
            disk: OnceLock::new(),
        }
    }

    /// The process's modules, with options from the environment.
    pub fn global() -> &'static Modules {
        static GLOBAL: OnceLock<Modules> = OnceLock::new();
        GLOBAL.get_or_init(|| Modules::new(ModulesOptions::default()))
    }

    pub fn stats(&self) -> ModulesStats {
        ModulesStats {
            loaded: self.flights.lock().values().filter(|f| matches!(f.get(), Some(Ok(_)))).count(),
            built: self.built.load(Ordering::Relaxed),
            from_disk: self.from_disk.load(Ordering::Relaxed),
        }
    }

    /// The module of a specialization: from memory, from disk, or compiled. Threads that ask for
    /// one content wait for one build. A failure is not kept: the next request tries again.
    ///
    /// # Errors
    /// `Kernel` with the compiler's errors, or saying that there is no compiler; `Io` where no
    /// folder can be written; `Unsupported` for CUDA C++.
    pub fn get(&self, spec: &Specialization) -> Result<Fetched> {
        if spec.dialect == Dialect::Cuda {
            let name = &spec.name;
            bail!(
                Unsupported,
                "[cuda_kernel {name}] CUDA C++ needs an NVIDIA GPU; a CPU runs the Metal dialect (metal_kernel)"
            );
        }
        let flight = self.flights.lock().entry(spec.hash).or_default().clone();
        let mut built = false;
        let result = flight.get_or_init(|| self.make(spec, &mut built)).clone();
        if result.is_err() {
            let mut flights = self.flights.lock();
            if flights.get(&spec.hash).is_some_and(|f| Arc::ptr_eq(f, &flight)) {
                flights.remove(&spec.hash);
            }
        }
        Ok(Fetched { module: result?, built })
    }

    fn disk(&self) -> Option<&Disk> {
        let open = || Disk::open(self.options.dir.clone()?, self.options.max_disk_bytes, user());
        self.disk.get_or_init(open).as_ref()
    }

    fn make(&self, spec: &Specialization, built: &mut bool) -> Result<Arc<Module>> {
        let compiler = match &self.options.compiler {
            Some(c) => c.clone(),
            None => Compiler::system()?,
        };
        let key = self.key(spec, &compiler);
        let disk = self.disk();
        if let Some(module) = disk.and_then(|d| self.find_on_disk(d, key, spec)) {
            return Ok(module);
        }
        let _lock = disk.and_then(|d| d.lock(key));
        if let Some(module) = disk.and_then(|d| self.find_on_disk(d, key, spec)) {
            return Ok(module);
        }
        let (shop, kept) = match disk.map(|d| (d, d.workshop())) {
            Some((d, Ok(shop))) => (shop, Some(d)),
            _ => {
                let temp = std::env::temp_dir();
                let shop = Workshop::new(&temp);
                let name = &spec.name;
                (
                    shop.map_err(|e| {
                        err!(Io, "[metal_kernel {name}] cannot build in {}: {e}", temp.display())
                    })?,
                    None,
                )
            }
        };
        let unit = unit_text(spec);
        let (source, library) = (shop.path().join("unit.cpp"), shop.path().join("unit.so"));
        std::fs::write(&source, &unit)
            .map_err(|e| err!(Io, "[metal_kernel {}] cannot write {}: {e}", spec.name, source.display()))?;
        compiler.compile(&spec.name, &unit, &source, &library)?;
        // A full disk costs the copy, not the kernel.
        let place = kept.and_then(|d| d.keep(&library, key).ok()).unwrap_or(library);
        let module = load(&place, spec)?;
        if let Some(d) = kept {
            d.prune(key);
        }
        *built = true;
        self.built.fetch_add(1, Ordering::Relaxed);
        Ok(module)
    }

    fn find_on_disk(&self, disk: &Disk, key: u128, spec: &Specialization) -> Option<Arc<Module>> {
        let path = disk.find(key)?;
        match load(&path, spec) {
            Ok(module) => {
                self.from_disk.fetch_add(1, Ordering::Relaxed);
                Some(module)
            }
            Err(_) => {
                disk.discard(key);
                None
            }
        }
    }

    /// What a file's content follows from: source, prelude, compiler and flags, and the processor
    /// (`-march=native` on a folder that several machines share).
    fn key(&self, spec: &Specialization, compiler: &Compiler) -> u128 {
        static FIXED: OnceLock<u128> = OnceLock::new();
        let fixed = *FIXED.get_or_init(|| {
            let mut bytes = Vec::new();
            for (_, text) in PRELUDE {
                bytes.extend_from_slice(text.as_bytes());
            }
            let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
            let of_first = info.split("\n\n").next().unwrap_or("").lines();
            for line in of_first
                .filter(|l| ["model name", "flags", "Features", "CPU part"].iter().any(|p| l.starts_with(p)))
            {
                bytes.extend_from_slice(line.as_bytes());
            }
            xxh3_128(&bytes)
        });
        let mut bytes = [0; 48];
        bytes[..16].copy_from_slice(&spec.hash.to_le_bytes());
        bytes[16..32].copy_from_slice(&fixed.to_le_bytes());
        bytes[32..].copy_from_slice(&compiler.identity().to_le_bytes());
        xxh3_128(&bytes)
    }
}

/// The effective user.
fn user() -> u32 {
    // SAFETY: geteuid takes nothing, cannot fail and touches no memory of ours.
    unsafe { libc::geteuid() }
}

fn load(path: &Path, spec: &Specialization) -> Result<Arc<Module>> {
    let name = &spec.name;
    let fail = |e: libloading::Error| -> Error {
        err!(Kernel, "[metal_kernel {name}] cannot load {}: {e}", path.display())
    };
    // SAFETY: running the library's initialisers is sound: it was compiled here from our own
    // prelude and the user's kernel (Disk::find verified the file, Compiler::compile wrote it),
    // and the user's kernel is trusted as any code of the program is.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map_err(fail)?;
    // SAFETY: the prelude declares `isopace_abi` as an array of four uint32_t; the symbol's value
    // is its address.
    let abi = unsafe { library.get::<*const [u32; 4]>(b"isopace_abi\0") }.map_err(fail)?;
    // SAFETY: a found symbol points into the library, which stays mapped while we hold it.
    let [version, args, cooperative, state] = unsafe { **abi };
    let right = version == ABI
        && args as usize == spec.args.len()
        && (cooperative != 0) == (spec.mode == Mode::Cooperative)
        && state as usize <= STATE_ROOM_BYTES;
    if !right {
        bail!(Kernel, "[metal_kernel {name}] {} is not the module of this kernel", path.display());
    }
    // SAFETY: version 1 of the prelude declares `isopace_kernel` with exactly the type `Entry`.
    let entry = *unsafe { library.get::<Entry>(b"isopace_kernel\0") }.map_err(fail)?;
    // Never unloaded: fibers, other threads and the caches above may hold its code.
    std::mem::forget(library);
    Ok(Arc::new(Module {
        name: name.clone(),
        entry,
        args: args as usize,
        cooperative: cooperative != 0,
        hash: spec.hash,
    }))
}

// What `Entry` takes; kept here so that the two unsafe files agree on it.
pub(super) type RawArgs = *const *mut c_void;
pub(super) type Code = c_int;
