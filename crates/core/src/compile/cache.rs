//! The cache of one compiled function: what is kept, for whom, and for how long.
//!
//! An entry belongs to a key: the words of the argument tree, each array's dtype and shape, and the
//! value of each scalar that is not symbolic. Its variants differ in the guards they took.

use super::Options;
use super::explain::{ArgReport, Cause, Miss, Stats};
use super::shapeless::Kept;
use super::tree::Leaves;
use crate::aval::Aval;
use crate::number::Number;
use crate::plan::Plan;
use crate::runtime::hasher;
use crate::scalar::{Cells, Program, ProgramMiss};
use hashbrown::{HashMap, HashTable};
use smallvec::SmallVec;
use std::any::Any;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of all entries of all functions.
pub(crate) static TOTAL_BYTES: AtomicUsize = AtomicUsize::new(0);

/// A traced and lowered function, good for every call that its guards let through.
pub(crate) struct Variant {
    pub plan: Arc<Plan>,
    pub program: Program,
    /// Avals of the array outputs, the hidden random key last.
    pub avals: Arc<[Aval]>,
    pub scalars: usize,
    pub random: bool,
    pub payload: Arc<dyn Any + Send + Sync>,
    /// The graph, where it may serve other shapes.
    pub kept: Option<Arc<Kept>>,
    pub nbytes: usize,
}

impl Variant {
    /// Adds what its parts take to its bytes.
    pub fn counted(mut self) -> Variant {
        let kept = self.kept.as_ref().map_or(0, |k| k.nbytes());
        self.nbytes += self.plan.nbytes() + self.program.nbytes() + kept + size_of::<Variant>() + 256;
        self
    }
}

struct Entry {
    hash: u64,
    form: Box<[u64]>,
    values: Box<[u64]>,
    avals: Box<[Aval]>,
    /// The value of each scalar that is part of the key.
    fixed: Box<[Option<Number>]>,
    variants: SmallVec<[(Arc<Variant>, u64); 1]>,
    /// Whether other entries may differ from it in constants alone.
    constant: bool,
    overflowed: u32,
    used: u64,
}

/// How one scalar argument is treated.
#[derive(Clone, Debug)]
pub(crate) enum Mode {
    /// A constant so far: this value.
    First(Number),
    Symbolic,
    Static {
        reason: String,
    },
}

/// What is remembered of one scalar argument of one tree.
#[derive(Clone, Debug)]
pub(crate) struct Arg {
    pub mode: Mode,
    /// The last values that caused a trace.
    pub seen: SmallVec<[Number; 4]>,
    pub retraces: u64,
}

#[derive(Default)]
pub(crate) struct Cache {
    table: HashTable<Entry>,
    /// Scalar arguments by tree; the values of static leaves do not count.
    pub(crate) args: HashMap<u64, (Vec<String>, Vec<Arg>)>,
    clock: u64,
    /// Hash of the entry that answered last: the next call is likely its, and then needs no hashing.
    last: u64,
    constants: usize,
    pub(crate) nbytes: usize,
    pub(crate) stats: Stats,
    pub(crate) misses: std::collections::VecDeque<Miss>,
}

/// The hash of a call, before the scalars' values are taken into it.
pub(crate) struct CallHash {
    tree: u64,
    rest: u64,
}

impl CallHash {
    pub(crate) fn new(leaves: &Leaves<'_>) -> CallHash {
        let mut rest = hasher().build_hasher();
        leaves.fixed.hash(&mut rest);
        for a in &leaves.arrays {
            a.aval().hash(&mut rest);
        }
        CallHash { tree: hasher().hash_one(&leaves.form), rest: rest.finish() }
    }

    /// Identifies calls that would trace the same thing at the same time.
    pub(crate) fn flight(&self) -> u64 {
        self.tree.rotate_left(32) ^ self.rest
    }

    fn with(&self, fixed: &[Option<Number>]) -> u64 {
        let mut h = hasher().build_hasher();
        h.write_u64(self.tree);
        h.write_u64(self.rest);
        for f in fixed {
            match f {
                Some(n) => {
                    h.write_u8(n.kind() as u8 + 1);
                    h.write_u64(n.bits());
                }
                None => h.write_u8(0),
            }
        }
        h.finish()
    }
}

fn same_fixed(a: &[Option<Number>], b: &[Option<Number>]) -> bool {
    a.iter().zip(b).all(|(a, b)| match (a, b) {
        (Some(a), Some(b)) => a.same(*b),
        (None, None) => true,
        _ => false,
    })
}

pub(crate) type Fixed = SmallVec<[Option<Number>; 4]>;

impl Cache {
    /// The plan for this call and its cells, if the entry that answered last has it. An entry whose
    /// tree, arrays and constants agree is right whatever the arguments' modes have become since.
    #[inline]
    pub(crate) fn find_last(&mut self, leaves: &Leaves<'_>, cells: &mut Cells) -> Option<Arc<Variant>> {
        let (last, clock) = (self.last, self.clock + 1);
        let entry = self.table.find_mut(last, |e| e.hash == last)?;
        if !entry.same_tree(leaves)
            || !entry.same_avals(leaves)
            || !entry.fixed.iter().zip(&leaves.scalars).all(|(f, n)| f.is_none_or(|f| f.same(*n)))
        {
            return None;
        }
        let (variant, used) = &mut entry.variants[0];
        if variant.program.run(&leaves.scalars, cells).is_err() {
            cells.clear();
            return None;
        }
        self.clock = clock;
        *used = clock;
        entry.used = clock;
        Some(variant.clone())
    }

    /// The plan for this call, or why there is none.
    pub(crate) fn find(
        &mut self,
        leaves: &Leaves<'_>,
        call: &CallHash,
        cells: &mut Cells,
    ) -> Result<Arc<Variant>, Cause> {
        self.clock += 1;
        let Some((_, args)) = self.args.get(&call.tree) else { return Err(Cause::First) };
        let mut fixed: Fixed = SmallVec::new();
        for (i, (n, arg)) in leaves.scalars.iter().zip(args).enumerate() {
            fixed.push(match &arg.mode {
                Mode::Symbolic => None,
                Mode::First(v) if !v.same(*n) => return Err(Cause::Varies { arg: i, from: *v, to: *n }),
                _ => Some(*n),
            });
        }
        match self.lookup(leaves, call, &fixed, cells) {
            Ok(found) => Ok(found),
            // The scalar program does not hold for these values: a trace with the constants may.
            Err(Cause::Program { text }) => {
                let all: Fixed = leaves.scalars.iter().map(|n| Some(*n)).collect();
                self.lookup(leaves, call, &all, cells).map_err(|_| Cause::Program { text })
            }
            Err(cause) => Err(cause),
        }
    }

    fn lookup(
        &mut self,
        leaves: &Leaves<'_>,
        call: &CallHash,
        fixed: &Fixed,
        cells: &mut Cells,
    ) -> Result<Arc<Variant>, Cause> {
        let hash = call.with(fixed);
        let Some(entry) = self.table.find_mut(hash, |e| e.is_for(hash, leaves, fixed)) else {
            return Err(self.why_absent(leaves, fixed));
        };
        entry.used = self.clock;
        let mut cause = Cause::New;
        for (variant, used) in &mut entry.variants {
            cells.clear();
            match variant.program.run(&leaves.scalars, cells) {
                Ok(()) => {
                    *used = self.clock;
                    self.last = hash;
                    return Ok(variant.clone());
                }
                Err(ProgramMiss::Guard(i)) => {
                    cause = Cause::Guard { place: variant.program.guard_place(i).into() }
                }
                Err(ProgramMiss::Failed(e)) => cause = Cause::Program { text: e.to_string() },
            }
        }
        Err(cause)
    }

    /// Variants for such calls with other extents, whose graphs are kept.
    pub(crate) fn other_shapes(&self, leaves: &Leaves<'_>, fixed: &Fixed) -> Vec<Arc<Variant>> {
        let entries = self.table.iter().filter(|e| {
            e.same_tree(leaves)
                && same_fixed(&e.fixed, fixed)
                && e.avals.iter().zip(&leaves.arrays).all(|(a, b)| {
                    let b = b.aval();
                    a.shape.len() == b.shape.len() && a.dtype == b.dtype && a.valid == b.valid
                })
        });
        let mut graphs: Vec<Arc<Variant>> = Vec::new();
        for (v, _) in entries.flat_map(|e| &e.variants) {
            let new = |kept: &Arc<Kept>| {
                !graphs.iter().any(|g| g.kept.as_ref().is_some_and(|k| Arc::ptr_eq(k, kept)))
            };
            if v.kept.as_ref().is_some_and(new) {
                graphs.push(v.clone());
            }
        }
        graphs
    }

    /// Compares with the most recent entry to name what is new.
    fn why_absent(&self, leaves: &Leaves<'_>, fixed: &Fixed) -> Cause {
        let Some(last) = self.table.iter().max_by_key(|e| e.used) else { return Cause::New };
        if !last.same_tree(leaves) {
            return Cause::Tree;
        }
        for (i, (old, new)) in last.avals.iter().zip(&leaves.arrays).enumerate() {
            if old != new.aval() {
                return Cause::Aval { array: i, from: old.clone(), to: new.aval().clone() };
            }
        }
        for (i, (old, new)) in last.fixed.iter().zip(fixed).enumerate() {
            if let Some(value) = *new
                && !old.is_some_and(|old| old.same(value))
            {
                return Cause::Static { arg: i, value };
            }
        }
        Cause::New
    }

    /// The treatment of each scalar, with the cause of the coming trace taken into account.
    pub(crate) fn arm(
        &mut self,
        leaves: &Leaves<'_>,
        call: &CallHash,
        cause: &Cause,
        o: &Options,
    ) -> Vec<Arg> {
        let (_, args) = self.args.entry(call.tree).or_insert_with(|| {
            let args = leaves.scalars.iter().map(|&n| Arg {
                mode: o.scalars.first(n),
                seen: SmallVec::new(),
                retraces: 0,
            });
            (super::tree::scalar_paths(&leaves.form), args.collect())
        });
        for (i, arg) in args.iter_mut().enumerate() {
            let n = leaves.scalars[i];
            if let Mode::First(v) = arg.mode
                && !v.same(n)
            {
                arg.mode = Mode::Symbolic;
                arg.retraces += 1;
            }
            let caused = matches!(cause, Cause::Static { arg, .. } if *arg == i);
            arg.retraces += caused as u64;
            if !arg.seen.iter().any(|s| s.same(n)) {
                if arg.seen.len() == 4 {
                    arg.seen.remove(0);
                }
                arg.seen.push(n);
            }
        }
        args.clone()
    }

    /// Makes an argument static from now on.
    pub(crate) fn pin(&mut self, call: &CallHash, arg: usize, reason: &str) {
        if let Some((_, args)) = self.args.get_mut(&call.tree)
            && let Some(a) = args.get_mut(arg)
            && !matches!(a.mode, Mode::Static { .. })
        {
            a.mode = Mode::Static { reason: reason.into() };
        }
    }

    /// Keeps a variant; returns what had to go, for dropping outside the lock.
    pub(crate) fn insert(
        &mut self,
        leaves: &Leaves<'_>,
        call: &CallHash,
        fixed: &Fixed,
        variant: Variant,
        o: &Options,
    ) -> (Arc<Variant>, Vec<Arc<Variant>>) {
        let hash = call.with(fixed);
        let variant = Arc::new(variant);
        let mut gone = Vec::new();
        if !self.args.contains_key(&call.tree) {
            // Cleared while it was traced: it serves this call alone.
            return (variant, gone);
        }
        let size = variant.nbytes;
        let clock = self.clock;
        let mut overflow = None;
        if let Some(entry) = self.table.find_mut(hash, |e| e.is_for(hash, leaves, fixed)) {
            while !entry.variants.is_empty() && entry.variants.len() >= o.max_variants.max(1) {
                let least = (0..entry.variants.len()).min_by_key(|&i| entry.variants[i].1).unwrap_or(0);
                gone.push(entry.variants.remove(least).0);
                entry.overflowed += 1;
            }
            entry.variants.push((variant.clone(), clock));
            entry.used = clock;
            if entry.overflowed as usize > 2 * o.max_variants {
                overflow = Some(());
            }
        } else {
            let constant = leaves.constant || fixed.iter().any(|f| f.is_some());
            self.constants += constant as usize;
            let entry = Entry {
                hash,
                form: leaves.form[..].into(),
                values: leaves.fixed[..].into(),
                avals: leaves.arrays.iter().map(|a| a.aval().clone()).collect(),
                fixed: fixed.iter().copied().collect(),
                variants: smallvec::smallvec![(variant.clone(), clock)],
                constant,
                overflowed: 0,
                used: clock,
            };
            self.table.insert_unique(hash, entry, |e| e.hash);
        }
        if overflow.is_some() {
            for i in 0..fixed.len() {
                self.pin(call, i, "its comparisons went more ways than max_variants");
            }
        }
        self.nbytes += size;
        TOTAL_BYTES.fetch_add(size, Ordering::Relaxed);
        for v in &gone {
            self.forget_bytes(v);
        }
        self.shrink(hash, o, &mut gone);
        self.stats.evictions += gone.len() as u64;
        (variant, gone)
    }

    fn forget_bytes(&mut self, v: &Variant) {
        self.nbytes -= v.nbytes;
        TOTAL_BYTES.fetch_sub(v.nbytes, Ordering::Relaxed);
    }

    fn remove_where(&mut self, test: impl Fn(&Entry) -> bool) -> Vec<Arc<Variant>> {
        let gone: Vec<Entry> = self.table.extract_if(|e| test(e)).collect();
        let mut out = Vec::new();
        for e in gone {
            self.constants -= e.constant as usize;
            for (v, _) in e.variants {
                self.forget_bytes(&v);
                out.push(v);
            }
        }
        out
    }

    /// Evicts until every bound holds: entries that differ only in constants first, then the least
    /// recently used. The entry just made stays.
    fn shrink(&mut self, keep: u64, o: &Options, gone: &mut Vec<Arc<Variant>>) {
        loop {
            let too_many_constants = self.constants > o.max_static_entries.max(1);
            let too_many = self.table.len() > o.max_entries.max(1);
            let too_big =
                self.nbytes > o.max_bytes || TOTAL_BYTES.load(Ordering::Relaxed) > super::MAX_TOTAL_BYTES;
            if !(too_many_constants || too_many || too_big) || self.table.len() <= 1 {
                return;
            }
            let any_constant = self.table.iter().any(|e| e.hash != keep && e.constant);
            let victim = self
                .table
                .iter()
                .filter(|e| e.hash != keep && (e.constant || !any_constant))
                .min_by_key(|e| e.used)
                .map(|e| (e.hash, e.used));
            let Some((hash, used)) = victim else { return };
            gone.extend(self.remove_where(|e| e.hash == hash && e.used == used));
        }
    }

    /// Drops everything; what is remembered of the arguments too.
    pub(crate) fn clear(&mut self) -> Vec<Arc<Variant>> {
        self.args.clear();
        self.remove_where(|_| true)
    }

    #[cfg(test)]
    pub(crate) fn last_plan(&self) -> Option<Arc<Plan>> {
        let (variant, _) = self.table.iter().flat_map(|e| &e.variants).max_by_key(|(_, used)| *used)?;
        Some(variant.plan.clone())
    }

    pub(crate) fn entries(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn variants(&self) -> usize {
        self.table.iter().map(|e| e.variants.len()).sum()
    }

    pub(crate) fn reports(&self) -> Vec<ArgReport> {
        self.args
            .values()
            .flat_map(|(paths, args)| paths.iter().zip(args).map(|(p, a)| ArgReport::new(p, a)))
            .collect()
    }

    pub(crate) fn path(&self, call: &CallHash, arg: usize) -> String {
        self.args
            .get(&call.tree)
            .and_then(|(p, _)| p.get(arg).cloned())
            .unwrap_or_else(|| format!("scalar {arg}"))
    }

    pub(crate) fn retraces(&self, call: &CallHash, arg: usize) -> Option<&Arg> {
        self.args.get(&call.tree).and_then(|(_, a)| a.get(arg))
    }
}

/// By a loop: memcmp would wait for the words just written to reach the cache.
#[inline]
fn same_words(a: &[u64], b: &[u64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b)
}

impl Entry {
    fn is_for(&self, hash: u64, leaves: &Leaves<'_>, fixed: &[Option<Number>]) -> bool {
        self.hash == hash
            && self.same_tree(leaves)
            && self.same_avals(leaves)
            && same_fixed(&self.fixed, fixed)
    }

    #[inline]
    fn same_tree(&self, leaves: &Leaves<'_>) -> bool {
        same_words(&self.form, &leaves.form) && same_words(&self.values, &leaves.fixed)
    }

    /// Of equal trees, which have equally many arrays.
    #[inline]
    fn same_avals(&self, leaves: &Leaves<'_>) -> bool {
        self.avals.iter().zip(&leaves.arrays).all(|(a, b)| a == b.aval())
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        TOTAL_BYTES.fetch_sub(self.nbytes, Ordering::Relaxed);
    }
}
