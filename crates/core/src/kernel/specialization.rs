//! What determines the source, and the bounded cache keyed by it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashTable;
use smallvec::SmallVec;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use super::signature::{Dialect, Input, KernelFunction, Mode, check_name};
use super::source::{self, ArgSlot};
use crate::{Dtype, Result, bail};

/// The value of a template argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TemplateValue {
    /// Becomes an `int`, or a `long` where 32 bits do not hold it.
    Int(i64),
    Bool(bool),
    /// Becomes a type.
    Dtype(Dtype),
}

/// How an input reaches the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Passing {
    /// A 0-d input: `const constant T&`.
    Scalar,
    /// Fewer than eight elements: `const constant T*`.
    Constant,
    /// `const device T*`.
    Device,
    /// Written in place: `device T*`.
    Mutable,
}

/// What of an input determines the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InputKind {
    pub dtype: Dtype,
    pub passing: Passing,
}

impl InputKind {
    /// The kind of an input of `ndim` dimensions and `elems` elements.
    pub fn of(dtype: Dtype, ndim: usize, elems: usize, mutable: bool) -> InputKind {
        let passing = match (mutable, ndim) {
            (true, _) => Passing::Mutable,
            (false, 0) => Passing::Scalar,
            _ if elems < super::SMALL_INPUT_ELEMS => Passing::Constant,
            _ => Passing::Device,
        };
        InputKind { dtype, passing }
    }
}

/// A generated source, its identity, and the order of its arguments.
#[derive(Debug)]
pub struct Specialization {
    /// The name of the kernel function.
    pub name: Arc<str>,
    pub source: Arc<str>,
    /// xxh3-128 of the source: two kernels of one name and different sources differ here.
    pub hash: u128,
    /// What to pass, in order.
    pub args: Box<[ArgSlot]>,
    pub mode: Mode,
    pub dialect: Dialect,
    /// Inputs are made row-contiguous before the kernel runs.
    pub ensure_row_contiguous: bool,
    /// Outputs are declared `device atomic<T>*`.
    pub atomic_outputs: bool,
    pub(super) inputs: Arc<[Input]>,
    /// Shared with the function's statistics.
    pub(super) built: Arc<AtomicU64>,
}

impl Specialization {
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }

    pub fn input_name(&self, i: usize) -> &str {
        &self.inputs[i].name
    }

    /// True when input `i` is written in place.
    pub fn is_mutable(&self, i: usize) -> bool {
        self.inputs[i].mutable
    }

    /// True when it writes its outputs and nothing else, so that two equal calls are one.
    pub fn is_pure(&self) -> bool {
        !self.atomic_outputs && !self.inputs.iter().any(|i| i.mutable)
    }

    /// Counts a module built for it in its function's statistics.
    pub fn note_module_built(&self) {
        self.built.fetch_add(1, Ordering::Relaxed);
    }

    /// True when both are the same program, whichever functions they come from.
    pub fn same(&self, other: &Specialization) -> bool {
        std::ptr::eq(self, other)
            || self.hash == other.hash
                && self.dialect == other.dialect
                && self.ensure_row_contiguous == other.ensure_row_contiguous
                && self.args == other.args
                && self.source.len() == other.source.len()
    }
}

/// What a kernel function's cache has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelStats {
    /// Specializations held now.
    pub specializations: usize,
    pub hits: u64,
    pub misses: u64,
    pub evictions: u64,
    /// Source texts generated (and hashed).
    pub sources_generated: u64,
    /// Modules built by a compiler, not found in memory or on disk.
    pub modules_built: u64,
}

/// The words that determine a source. 48 of them stay off the heap.
type SpecKey = SmallVec<[u64; 48]>;

#[derive(Debug)]
struct Entry {
    key: Box<[u64]>,
    hash: u64,
    used: u64,
    value: Arc<Specialization>,
}

/// Specializations by key, the least recently used leaving at the bound.
#[derive(Debug)]
pub(super) struct Cache {
    table: HashTable<Entry>,
    bound: usize,
    clock: u64,
    stats: KernelStats,
    built: Arc<AtomicU64>,
}

impl Cache {
    pub(super) fn new(bound: usize) -> Cache {
        Cache {
            table: HashTable::new(),
            bound,
            clock: 0,
            stats: KernelStats::default(),
            built: Arc::default(),
        }
    }

    pub(super) fn stats(&self) -> KernelStats {
        let modules_built = self.built.load(Ordering::Relaxed);
        KernelStats { specializations: self.table.len(), modules_built, ..self.stats }
    }

    fn get(&mut self, hash: u64, key: &[u64]) -> Option<Arc<Specialization>> {
        self.clock += 1;
        let entry = self.table.find_mut(hash, |e| e.hash == hash && *e.key == *key)?;
        entry.used = self.clock;
        self.stats.hits += 1;
        Some(entry.value.clone())
    }

    fn insert(&mut self, hash: u64, key: &[u64], value: Arc<Specialization>) {
        while self.table.len() >= self.bound {
            // A scan, but only where a source was generated anyway.
            let Some((h, used)) = self.table.iter().min_by_key(|e| e.used).map(|e| (e.hash, e.used)) else {
                break;
            };
            if let Ok(oldest) = self.table.find_entry(h, |e| e.used == used) {
                oldest.remove();
                self.stats.evictions += 1;
            }
        }
        let entry = Entry { key: key.into(), hash, used: self.clock, value };
        self.table.insert_unique(hash, entry, |e| e.hash);
    }
}

/// Bytes in words, the last one filled up with zeros.
fn push_bytes(key: &mut SpecKey, bytes: impl ExactSizeIterator<Item = u8>) {
    let (mut word, mut shift) = (0, 0);
    for b in bytes {
        word |= u64::from(b) << shift;
        shift += 8;
        if shift == 64 {
            key.push(word);
            (word, shift) = (0, 0);
        }
    }
    if shift > 0 {
        key.push(word);
    }
}

fn encode<S: AsRef<str>>(
    template: &[(S, TemplateValue)],
    inputs: &[InputKind],
    outputs: &[Dtype],
) -> SpecKey {
    let mut key = SpecKey::new();
    // Input and output counts are fixed per function, and every name carries its length, so two
    // different calls never have one key.
    push_bytes(&mut key, inputs.iter().map(|i| (i.dtype as u8) << 2 | i.passing as u8));
    push_bytes(&mut key, outputs.iter().map(|&d| d as u8));
    for (name, value) in template {
        let name = name.as_ref().as_bytes();
        let (tag, word) = match *value {
            TemplateValue::Int(v) => (0, v as u64),
            TemplateValue::Bool(v) => (1, v as u64),
            TemplateValue::Dtype(v) => (2, v as u64),
        };
        key.push((name.len() as u64) << 8 | tag);
        key.push(word);
        push_bytes(&mut key, name.iter().copied());
    }
    key
}

impl KernelFunction {
    /// The source for these template values, inputs and outputs: looked up, or generated once.
    ///
    /// A hit generates no text, hashes no text and allocates nothing (keys of up to 48 words).
    ///
    /// # Errors
    /// `Argument` for wrong counts; `Kernel` for template names that are no identifiers, are used
    /// twice, or collide with an input, an output or the vocabulary.
    pub fn specialize<S: AsRef<str>>(
        &self,
        template: &[(S, TemplateValue)],
        inputs: &[InputKind],
        outputs: &[Dtype],
    ) -> Result<Arc<Specialization>> {
        self.check_counts(inputs.len(), outputs.len())?;
        let key = encode(template, inputs, outputs);
        let hash = xxh3_64(bytemuck::cast_slice(&key));
        if let Some(found) = self.cache.lock().get(hash, &key) {
            return Ok(found);
        }
        self.check_template(template)?;
        let made = source::generate(self, template, inputs, outputs);
        let built = self.cache.lock().built.clone();
        let value = Arc::new(Specialization {
            name: self.name.clone(),
            hash: xxh3_128(made.text.as_bytes()),
            source: made.text.into(),
            args: made.args.into(),
            mode: self.mode,
            dialect: self.dialect,
            ensure_row_contiguous: self.ensure_row_contiguous,
            atomic_outputs: self.atomic_outputs,
            inputs: self.inputs.clone(),
            built,
        });
        let mut cache = self.cache.lock();
        cache.stats.misses += 1;
        cache.stats.sources_generated += 1;
        // Another thread may have been faster; its entry stays, so that both share one text.
        if let Some(found) = cache.get(hash, &key) {
            cache.stats.hits -= 1;
            return Ok(found);
        }
        cache.insert(hash, &key, value.clone());
        Ok(value)
    }

    /// Refuses a call with the wrong number of inputs or outputs.
    pub fn check_counts(&self, inputs: usize, outputs: usize) -> Result<()> {
        if inputs != self.inputs.len() {
            let names: Vec<&str> = self.inputs.iter().map(|i| &*i.name).collect();
            let (place, want) = (self.place(), names.len());
            bail!(Argument, "[{place}] got {inputs} inputs; the kernel has {want}: {names:?}");
        }
        if outputs != self.outputs.len() {
            let (place, want, names) = (self.place(), self.outputs.len(), &self.outputs);
            bail!(
                Argument,
                "[{place}] got {outputs} output dtypes; the kernel has {want} outputs: {names:?}"
            );
        }
        Ok(())
    }

    fn check_template<S: AsRef<str>>(&self, template: &[(S, TemplateValue)]) -> Result<()> {
        for (i, (name, _)) in template.iter().enumerate() {
            let name = name.as_ref();
            check_name(self.dialect, &self.name, "template", name)?;
            let place = self.place();
            if template[..i].iter().any(|(n, _)| n.as_ref() == name) {
                bail!(Kernel, "[{place}] template name {name:?} is given twice");
            }
            let taken =
                self.inputs.iter().any(|i| &*i.name == name) || self.outputs.iter().any(|o| &**o == name);
            if taken {
                bail!(
                    Kernel,
                    "[{place}] template name {name:?} is also an input or an output; choose another"
                );
            }
        }
        Ok(())
    }
}
