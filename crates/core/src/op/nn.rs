//! Attention and rotary embeddings.

/// Rotary position embedding over the last axis, positions along the one before it. Inputs: x of
/// shape (B, ..., T, D)[, offset array][, freqs]. Scalars: base, scale[, offset when no array].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rope {
    /// How many leading features rotate; the rest are copied.
    pub dims: u32,
    /// Pairs (2i, 2i+1) when true, else (i, i + dims/2).
    pub traditional: bool,
    /// The offset is the second input: 0-d, or one for each batch row.
    pub offset_array: bool,
    /// Wavelengths are the last input instead of powers of the base.
    pub freqs: bool,
}

/// Attention of (B, Hq, Lq, D) over keys (B, Hk, Lk, D) and values (B, Hk, Lk, Dv). Inputs: q, k,
/// v[, mask][, sinks]. Scalars: scale[, valid length].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sdpa {
    /// Query i sees keys up to i + L - Lq, L being the valid length.
    pub causal: bool,
    pub mask: bool,
    pub sinks: bool,
    /// A length follows the scale; keys from it on are not there.
    pub length: bool,
}
