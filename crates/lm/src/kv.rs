//! The KV cache: preallocated, written in place, grown by doubling, so that the step's shapes change
//! only log2(n) times.

use isopace::backend::MemorySetting;
use isopace::{Array, Dtype, Result, Scalar, bail, concatenate, err, runtime, tree, zeros};
use std::fmt;

/// Layers that share arrays. A step takes and gives every array of the cache, at the host's cost, so
/// there should be few; growing copies one at a time, so none should be large.
const SHARING: usize = 8;

/// Keys and values of some neighbouring layers, each (layers, heads, capacity, dim).
#[derive(Clone, Debug)]
pub struct LayerCaches {
    pub keys: Array,
    pub values: Array,
}

tree!(LayerCaches { keys, values });

/// Writes one layer's new keys and values, each (1, heads, T, dim), from position `offset` on. Gives
/// that layer's keys and values (1, heads, capacity, dim), valid up to the last position written.
///
/// # Errors
/// `Axis` when they do not fit.
pub fn write(
    caches: &mut [LayerCaches],
    layer: usize,
    [keys, values]: [&Array; 2],
    offset: &Scalar,
) -> Result<[Array; 2]> {
    let (piece, at) = (layer / SHARING, layer % SHARING);
    let cache = caches
        .get_mut(piece)
        .ok_or_else(|| err!(Internal, "[context] there is no cache for layer {layer}"))?;
    let zero = Scalar::from(0);
    let (here, filled) = (Scalar::from(at), offset + keys.shape()[2]);
    let put = |all: &mut Array, new: &Array| {
        *all = all.slice_update(new, &[here.clone(), zero.clone(), offset.clone(), zero.clone()])?;
        let mut one = all.shape().clone();
        one.as_mut()[0] = 1;
        let starts = [here.clone(), zero.clone(), zero.clone(), zero.clone()];
        all.slice_at(&starts, &[1; 4], &one)?.slice_leading(2, &filled)
    };
    Ok([put(&mut cache.keys, keys)?, put(&mut cache.values, values)?])
}

/// The caches of all layers and how many positions are filled.
#[derive(Clone, Debug)]
pub struct KvCache {
    pub layers: Vec<LayerCaches>,
    pub offset: usize,
    capacity: usize,
    max: Limit,
}

/// The sizes of a cache.
#[derive(Clone, Copy, Debug)]
pub struct KvShape {
    pub layers: usize,
    pub heads: usize,
    pub key_dim: usize,
    pub value_dim: usize,
    pub dtype: Dtype,
    pub max: Limit,
}

/// How many positions a model may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    pub tokens: usize,
    /// What bounds them: `context`, `sliding window`.
    pub what: &'static str,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.what, self.tokens)
    }
}

const FIRST_CAPACITY: usize = 256;

impl KvCache {
    /// An empty cache with room for at least `room` positions.
    ///
    /// # Errors
    /// `Argument` past the model's context, `OutOfMemory`.
    pub fn new(s: KvShape, room: usize) -> Result<KvCache> {
        if room > s.max.tokens {
            bail!(Argument, "[context] {room} tokens are more than the model's {}", s.max);
        }
        let capacity = room.max(FIRST_CAPACITY).next_power_of_two().min(s.max.tokens);
        let layers = (0..s.layers)
            .step_by(SHARING)
            .map(|first| {
                let n = SHARING.min(s.layers - first);
                let keys = zeros([n, s.heads, capacity, s.key_dim], s.dtype)?;
                let values = zeros([n, s.heads, capacity, s.value_dim], s.dtype)?;
                Ok(LayerCaches { keys, values })
            })
            .collect::<Result<_>>()?;
        Ok(KvCache { layers, offset: 0, capacity, max: s.max })
    }

    /// Makes room for `n` more positions.
    ///
    /// # Errors
    /// `Argument` past the model's context, `OutOfMemory`.
    pub fn reserve(&mut self, n: usize) -> Result<()> {
        let need = self.offset + n;
        if need > self.max.tokens {
            bail!(Argument, "[context] {need} tokens are more than the model's {}", self.max);
        }
        if need <= self.capacity {
            return Ok(());
        }
        let capacity = need.next_power_of_two().min(self.max.tokens);
        // The buffers grown out of have no use again: they go back to the system one by one.
        let limit = runtime::set_memory(MemorySetting::CacheLimit(0))?;
        let grown = self.grow(capacity);
        runtime::set_memory(MemorySetting::CacheLimit(limit))?;
        grown
    }

    fn grow(&mut self, capacity: usize) -> Result<()> {
        for layer in &mut self.layers {
            for a in [&mut layer.keys, &mut layer.values] {
                let mut more = a.shape().clone();
                // An attempt that ran out of memory has grown some already.
                more.as_mut()[2] = capacity - a.shape()[2];
                let grown = concatenate(&[a.clone(), zeros(more, a.dtype())?], 2)?;
                grown.eval()?;
                *a = grown;
            }
        }
        self.capacity = capacity;
        Ok(())
    }

    /// Positions there is room for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes of keys and values.
    pub fn nbytes(&self) -> usize {
        self.layers.iter().map(|l| l.keys.nbytes() + l.values.nbytes()).sum()
    }
}
