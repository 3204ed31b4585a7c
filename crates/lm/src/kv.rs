//! The KV cache: preallocated, written in place, grown by doubling, so that the step's shapes change
//! only log2(n) times.

use isopace::backend::MemorySetting;
use isopace::{Array, Dtype, Result, bail, concatenate, runtime, tree, zeros};

/// Keys and values of one layer, each (1, heads, capacity, dim).
#[derive(Clone, Debug)]
pub struct LayerCache {
    pub keys: Array,
    pub values: Array,
}

tree!(LayerCache { keys, values });

/// The caches of all layers and how many positions are filled.
#[derive(Clone, Debug)]
pub struct KvCache {
    pub layers: Vec<LayerCache>,
    pub offset: usize,
    capacity: usize,
    max: usize,
}

/// The sizes of a cache.
#[derive(Clone, Copy, Debug)]
pub struct KvShape {
    pub layers: usize,
    pub heads: usize,
    pub key_dim: usize,
    pub value_dim: usize,
    pub dtype: Dtype,
    /// The model's context length.
    pub max: usize,
}

const FIRST_CAPACITY: usize = 256;

impl KvCache {
    /// An empty cache with room for at least `room` positions.
    ///
    /// # Errors
    /// `Argument` past the model's context, `OutOfMemory`.
    pub fn new(s: KvShape, room: usize) -> Result<KvCache> {
        if room > s.max {
            bail!(Argument, "[context] {room} tokens are more than the model's context of {}", s.max);
        }
        let capacity = room.max(FIRST_CAPACITY).next_power_of_two().min(s.max);
        let layers = (0..s.layers)
            .map(|_| {
                let keys = zeros([1, s.heads, capacity, s.key_dim], s.dtype)?;
                let values = zeros([1, s.heads, capacity, s.value_dim], s.dtype)?;
                Ok(LayerCache { keys, values })
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
        if need > self.max {
            bail!(Argument, "[context] {need} tokens are more than the model's context of {}", self.max);
        }
        if need <= self.capacity {
            return Ok(());
        }
        let capacity = need.next_power_of_two().min(self.max);
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
