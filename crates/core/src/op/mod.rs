//! Ops: what a node does. An op is plain data with derived equality and hash; run-time numbers
//! (a slice's starts, a rope's offset, a fill) are not in it but in the node's list of scalars, so two
//! graphs that differ in them alone have one structure.

pub mod conv;
pub mod custom;
pub mod epilogue;
pub mod index;
pub mod matmul;
pub mod nn;
pub mod quant;
pub mod random;
pub mod reduce;
pub mod region;
pub mod scalar_ops;
pub mod scan;
pub mod sort;
pub mod view;

pub use conv::Conv;
pub use custom::{CallOp, Callee, CustomOp, KernelLaunch};
pub use epilogue::Epilogue;
pub use index::{Combine, Gather, Scatter};
pub use matmul::{GatherMatmul, QuantMatmul};
pub use nn::{Rope, Sdpa};
pub use quant::{QuantMode, WeightFormat};
pub use reduce::{ArgKind, ReduceKind};
pub use region::{Region, RegionNode};
pub use scalar_ops::Row;
pub use scan::ScanKind;

use crate::shape::Dims;
use std::sync::Arc;

/// What a node computes from its inputs and scalars; shape and dtype of the results are in its avals.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Argument `i` of a function being traced.
    Param(u32),
    /// One row of the elementwise table; inputs broadcast, dtypes already agree.
    Elementwise(Row),
    /// Conversion to the aval's dtype: a float truncates to an int as on x86 (through int32 for types up
    /// to 32 bits, uint32 and uint64 through int64; NaN and what is out of range gives the minimum of
    /// that), then wraps; to bool is "not zero"; complex to real drops the imaginary part.
    Cast,
    /// The scalar everywhere. Scalars: the value.
    Full,
    /// `start + i * step`. Scalars: start, step.
    Arange,
    /// A fused subgraph of elementwise ops, made by the fusion pass and at lowering.
    Fused(Arc<Region>),
    /// An op and the one that reads its result, as one step; made by the epilogue pass.
    Epilogue(Arc<Epilogue>),

    /// The same elements in row-major order under another shape.
    Reshape,
    /// Axes in another order; entry `i` is the source of axis `i`.
    Transpose(Dims<u8>),
    /// Repeats along axes of extent 1 and new leading axes.
    Broadcast,
    /// A strided slice of fixed size. Scalars: the start on each axis.
    Slice(Dims<i64>),
    /// The leading part along an axis, its length a symbolic scalar. Scalars: the length.
    SliceValid(u8),
    /// The same bytes under another dtype.
    Bitcast,
    /// An explicit view of the contiguous input. The strides, then the offset, in elements.
    AsStrided(Dims<i64>, i64),
    /// A contiguous copy where the input is not contiguous.
    Contiguous,

    /// A slice with starts from an array: negative ones count from the end, then all are clamped so that
    /// the slice lies inside. Inputs: x, starts (on these axes).
    DynamicSlice(Dims<u8>),
    /// Writes into a strided slice. Inputs: x, update (converted as by [`Op::Cast`]). Scalars: the starts.
    SliceUpdate(Dims<i64>, Combine),
    /// Writes at starts from an array, clamped likewise. Inputs: x, update, starts (on these axes).
    DynamicSliceUpdate(Dims<u8>),
    /// Gather of slices at indices; indices are checked by the rule of its `Gather`.
    Gather(Gather),
    /// Scatter of slices at indices.
    Scatter(Scatter),
    /// Elements at indices along an axis. Inputs: x, indices (wrapped once if negative, then clamped).
    TakeAlong(u8),
    /// Writes at indices along an axis. Inputs: x, indices, updates.
    ScatterAlong(u8, Combine),
    /// `updates` in row order where the mask is true. Inputs: x, mask, updates.
    MaskedScatter,
    /// Joins along an axis.
    Concat(u8),
    /// Pads with the value of the second input (0-d) to the aval's shape. The counts before each axis.
    Pad(Dims<usize>),

    /// A reduction over axes (which are dropped).
    Reduce(ReduceKind, Dims<u8>),
    /// Index of the extreme along an axis (dropped), the first of equals, NaN winning.
    ArgReduce(ArgKind, u8),
    /// A running reduction: axis, reverse, inclusive.
    Scan(ScanKind, u8, bool, bool),
    /// Stable ascending sort along an axis, NaN last.
    Sort(u8),
    /// Indices (uint32) of the stable ascending sort.
    ArgSort(u8),
    /// Insertion points (uint32) into the sorted last axis. Inputs: sorted (1-D, or leading axes that
    /// broadcast to those of the values), values. True: from the right.
    SearchSorted(bool),

    /// Matrix product over the last two axes; leading axes broadcast.
    Matmul,
    /// Product with a quantized weight.
    QuantMatmul(QuantMatmul),
    /// Products with matrices chosen by index arrays.
    GatherMatmul(GatherMatmul),
    /// Quantizes in groups along the last axis: group size, bits, mode. Outputs: codes, scales[, biases].
    Quantize(u16, u8, QuantMode),
    /// The inverse of [`Op::Quantize`], or of a block format.
    Dequantize(WeightFormat),
    /// The byte layout that the device's products read fastest.
    PackWeight(WeightFormat),
    /// Rows of a quantized table at indices, dequantized. Inputs: table, indices.
    QuantTake(WeightFormat),
    /// Float32 to fp8 (E4M3) codes and back, one byte each.
    ToFp8,
    FromFp8,

    /// exp(x - max) / sum along the last axis, accumulated in float32 or wider.
    Softmax,
    /// x / sqrt(mean(x^2) + eps) [* w]. Inputs: x[, w]. Scalars: eps.
    RmsNorm,
    /// (x - mean) / sqrt(var + eps) [* w [+ b]]. Inputs: x[, w[, b]]. Scalars: eps.
    LayerNorm,
    /// Rotary position embedding.
    Rope(Rope),
    /// Scaled dot-product attention.
    Sdpa(Sdpa),
    /// Threefry words from a key (uint32 of shape (2,)).
    RandomBits,
    /// N-dimensional convolution over channels-last arrays.
    Conv(Box<Conv>),
    /// Inverse of square matrices in the last two axes.
    Inverse,
    /// Discrete Fourier transform along the last axis, or its inverse without the division.
    Fft {
        inverse: bool,
    },
    /// Eigenvalues in ascending order, and eigenvectors as columns, of real symmetric matrices in the last two axes.
    Eigh,

    /// A user's kernel. Scalars: the value that outputs start with, if one was given.
    Custom(CustomOp),
    /// A compiled function. Scalars: the cells of its scalar program.
    Call(CallOp),
}

impl Op {
    /// The name in plans, errors and explain texts.
    pub fn name(&self) -> &str {
        match self {
            Op::Param(_) => "param",
            Op::Elementwise(row) => row.name(),
            Op::Cast => "astype",
            Op::Full => "full",
            Op::Arange => "arange",
            Op::Fused(_) => "fused",
            Op::Epilogue(e) => e.second.name(),
            Op::Reshape => "reshape",
            Op::Transpose(_) => "transpose",
            Op::Broadcast => "broadcast",
            Op::Slice(_) => "slice",
            Op::SliceValid(_) => "slice_valid",
            Op::Bitcast => "view",
            Op::AsStrided(..) => "as_strided",
            Op::Contiguous => "contiguous",
            Op::DynamicSlice(_) => "dynamic_slice",
            Op::SliceUpdate(..) => "slice_update",
            Op::DynamicSliceUpdate(_) => "dynamic_slice_update",
            Op::Gather(_) => "gather",
            Op::Scatter(_) => "scatter",
            Op::TakeAlong(_) => "take_along_axis",
            Op::ScatterAlong(..) => "put_along_axis",
            Op::MaskedScatter => "masked_scatter",
            Op::Concat(_) => "concatenate",
            Op::Pad(..) => "pad",
            Op::Reduce(kind, _) => kind.name(),
            Op::ArgReduce(kind, _) => kind.name(),
            Op::Scan(kind, ..) => kind.name(),
            Op::Sort(_) => "sort",
            Op::ArgSort(_) => "argsort",
            Op::SearchSorted(_) => "searchsorted",
            Op::Matmul => "matmul",
            Op::QuantMatmul(_) => "quantized_matmul",
            Op::GatherMatmul(_) => "gather_mm",
            Op::Quantize(..) => "quantize",
            Op::Dequantize(_) => "dequantize",
            Op::PackWeight(_) => "pack_weight",
            Op::QuantTake(_) => "quantized_take",
            Op::ToFp8 => "to_fp8",
            Op::FromFp8 => "from_fp8",
            Op::Softmax => "softmax",
            Op::RmsNorm => "rms_norm",
            Op::LayerNorm => "layer_norm",
            Op::Rope(_) => "rope",
            Op::Sdpa(_) => "scaled_dot_product_attention",
            Op::RandomBits => "random_bits",
            Op::Conv(_) => "conv",
            Op::Inverse => "inverse",
            Op::Fft { .. } => "fft",
            Op::Eigh => "eigh",
            Op::Custom(c) => c.name(),
            Op::Call(c) => c.name(),
        }
    }

    /// True for ops that only change the layout when the input allows it.
    pub fn is_view(&self) -> bool {
        use Op::*;
        matches!(
            self,
            Reshape
                | Transpose(_)
                | Broadcast
                | Slice(_)
                | SliceValid(_)
                | Bitcast
                | AsStrided(..)
                | Contiguous
        )
    }

    /// True for ops whose results stand in row-major order from the start of their buffers, so that
    /// layouts of views of them are known before the run.
    pub fn is_compact(&self) -> bool {
        use Op::*;
        if let Epilogue(e) = self {
            return e.second.is_compact();
        }
        // Sorts along another axis than the last give their result transposed.
        !self.is_view()
            && !matches!(self, DynamicSlice(_) | Sort(_) | ArgSort(_) | Call(_) | Custom(_) | Param(_))
    }
}
