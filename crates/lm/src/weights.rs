//! Weights: tensors of a model's files, mapped, in the format in which they stand there.

use isopace::io::MappedFile;
use isopace::io::gguf::{Gguf, TensorType};
use isopace::io::safetensors::Safetensors;
use isopace::{Array, BlockFormat, BlockWeight, Dtype, Result, Shape, bail, err, zeros};
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The tensors of a model, by name.
#[derive(Debug)]
pub struct Weights {
    files: Vec<MappedFile>,
    tensors: HashMap<String, Tensor>,
    /// How matrices are multiplied.
    pub activations: Activations,
    /// Matrices are checked and not read: a model made of them can only be looked at.
    pub check_only: bool,
}

/// How activations meet quantized weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activations {
    /// As float32.
    F32,
    /// Rounded to 8 bits, a scale for every 32: integer products, about twice as fast.
    #[default]
    I8,
}

const ACCEPTED: &str = "accepted: F32, F16, BF16 and quantized blocks";

/// What a tensor's elements are.
#[derive(Debug, PartialEq)]
enum Kind {
    /// float32, float16 or bfloat16.
    Float(Dtype),
    Block(BlockFormat),
    /// No weight, by its name in the file; an error only when asked for.
    Other(String),
}

impl Kind {
    fn new(dtype: Option<Dtype>, name: &dyn fmt::Display) -> Kind {
        match dtype {
            Some(d @ (Dtype::F32 | Dtype::F16 | Dtype::BF16)) => Kind::Float(d),
            _ => Kind::Other(name.to_string()),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Float(d) => d.fmt(f),
            Kind::Block(b) => b.fmt(f),
            Kind::Other(name) => name.fmt(f),
        }
    }
}

#[derive(Debug)]
struct Tensor {
    file: usize,
    shape: Vec<usize>,
    kind: Kind,
    range: Range<usize>,
    /// Whether the model asked for it.
    used: AtomicBool,
}

impl Tensor {
    fn new(file: usize, shape: Vec<usize>, kind: Kind, range: Range<usize>) -> Tensor {
        Tensor { file, shape, kind, range, used: AtomicBool::new(false) }
    }
}

impl Weights {
    fn new(files: Vec<MappedFile>, tensors: HashMap<String, Tensor>) -> Weights {
        Weights { files, tensors, activations: Activations::default(), check_only: false }
    }

    /// The tensors of a GGUF file, with its metadata.
    ///
    /// # Errors
    /// `Io` or `Format` naming the file.
    pub fn gguf(path: &Path) -> Result<(Weights, Gguf)> {
        let file = MappedFile::open(path)?;
        let gguf = Gguf::parse(file.bytes(), &path.display().to_string())?;
        let tensor = |t: &isopace::io::gguf::Tensor| {
            let kind = match t.ty {
                TensorType::Block(format) => Kind::Block(format),
                ty => Kind::new(ty.dtype(), &ty),
            };
            (t.name.clone(), Tensor::new(0, t.shape.clone(), kind, t.range.clone()))
        };
        let tensors = gguf.tensors.iter().map(tensor).collect();
        Ok((Weights::new(vec![file], tensors), gguf))
    }

    /// The tensors of safetensors files.
    ///
    /// # Errors
    /// `Io` or `Format` naming the file.
    pub fn safetensors(paths: &[impl AsRef<Path>]) -> Result<Weights> {
        let mut w = Weights::new(Vec::new(), HashMap::new());
        for path in paths {
            let file = MappedFile::open(path.as_ref())?;
            let st = Safetensors::parse(file.bytes(), &path.as_ref().display().to_string())?;
            for t in st.tensors {
                let kind = Kind::new(Some(t.ty.dtype()), &t.ty);
                w.tensors.insert(t.name, Tensor::new(w.files.len(), t.shape, kind, t.range));
            }
            w.files.push(file);
        }
        Ok(w)
    }

    /// True when there is a tensor of this name.
    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// Bytes of all tensors in their files.
    pub fn nbytes(&self) -> usize {
        self.tensors.values().map(|t| t.range.len()).sum()
    }

    fn find(&self, name: &str, shape: &[usize]) -> Result<&Tensor> {
        let t = self.tensors.get(name).ok_or_else(|| err!(Format, "[model] there is no tensor {name}"))?;
        if t.shape != shape {
            bail!(
                Format,
                "[model] {name} has shape {:?}; the model's sizes call for {:?}",
                Shape::from(&t.shape[..]),
                Shape::from(shape)
            );
        }
        t.used.store(true, Ordering::Relaxed);
        Ok(t)
    }

    /// Checks that the model asked for every tensor, but for those that `spare` says it can do without.
    ///
    /// # Errors
    /// `Format` naming the first few others: what they are for is missing in the model.
    pub fn check_all_used(&self, spare: impl Fn(&str) -> bool) -> Result<()> {
        let left = self.tensors.iter().filter(|(name, t)| !t.used.load(Ordering::Relaxed) && !spare(name));
        let mut left: Vec<&str> = left.map(|(name, _)| name.as_str()).collect();
        if left.is_empty() {
            return Ok(());
        }
        left.sort_unstable();
        let n = left.len();
        left.truncate(3);
        bail!(
            Format,
            "[model] {n} tensors are not of this model, or its sizes too small: {}",
            left.join(", ")
        )
    }

    fn bytes(&self, t: &Tensor) -> &[u8] {
        &self.files[t.file].bytes()[t.range.clone()]
    }

    /// A small tensor as float32.
    ///
    /// # Errors
    /// `Format` when it is absent, of another shape, or quantized.
    pub fn vector(&self, name: &str, shape: &[usize]) -> Result<Array> {
        let t = self.find(name, shape)?;
        let Kind::Float(dtype) = t.kind else {
            bail!(Format, "[model] {name} is {}; accepted: F32, F16, BF16", t.kind);
        };
        let a = Array::from_bytes(self.bytes(t), shape, dtype)?.astype(Dtype::F32)?;
        a.eval()?;
        Ok(a)
    }

    /// A matrix of `rows` outputs and `cols` inputs, packed for products.
    ///
    /// # Errors
    /// `Format` when it is absent, of another shape or an unsupported type.
    pub fn matrix(&self, name: &str, rows: usize, cols: usize) -> Result<Matrix> {
        self.stacked(&[(name, rows)], cols)
    }

    /// Several matrices of one format as one, rows after rows, so that they are one product.
    ///
    /// # Errors
    /// As [`Weights::matrix`].
    pub fn stacked(&self, parts: &[(&str, usize)], cols: usize) -> Result<Matrix> {
        let found = parts.iter().map(|(n, rows)| self.find(n, &[*rows, cols])).collect::<Result<Vec<_>>>()?;
        let rows = parts.iter().map(|p| p.1).sum();
        let kind = &found[0].kind;
        if found.iter().any(|t| t.kind != *kind) {
            // Formats differ: separate products, joined.
            let parts = parts.iter().map(|&(n, r)| self.matrix(n, r, cols)).collect::<Result<_>>()?;
            return Ok(Matrix::Parts(parts));
        }
        match *kind {
            Kind::Block(format) => {
                let row_bytes = format.row_bytes(cols).ok_or_else(|| {
                    err!(Format, "[model] {}: {cols} columns are not whole {format} blocks", parts[0].0)
                })?;
                if self.check_only {
                    return zeros([rows, cols], Dtype::F32).map(Matrix::Dense);
                }
                let bytes = match &found[..] {
                    [one] => self.mapped(one, [rows, row_bytes], Dtype::U8)?,
                    many => {
                        let joined: Vec<u8> = many.iter().flat_map(|t| self.bytes(t)).copied().collect();
                        Array::from_bytes(&joined, [rows, row_bytes], Dtype::U8)?
                    }
                };
                let weight = BlockWeight::new(bytes, format, cols)?.pack()?;
                weight.bytes.eval()?;
                // The packed copy is what is read from now on.
                self.release_pages();
                Ok(Matrix::Block { weight, int8: self.activations == Activations::I8 })
            }
            Kind::Float(dtype) => {
                if self.check_only {
                    return zeros([rows, cols], dtype).map(Matrix::Dense);
                }
                let data = match &found[..] {
                    [one] => self.mapped(one, [rows, cols], dtype)?,
                    many => {
                        let joined: Vec<u8> = many.iter().flat_map(|t| self.bytes(t)).copied().collect();
                        Array::from_bytes(&joined, [rows, cols], dtype)?
                    }
                };
                Ok(Matrix::Dense(data))
            }
            Kind::Other(ref other) => bail!(Format, "[model] {} is {other}; {ACCEPTED}", parts[0].0),
        }
    }

    /// A table whose rows are looked up.
    ///
    /// # Errors
    /// As [`Weights::matrix`].
    pub fn table(&self, name: &str, rows: usize, cols: usize) -> Result<Table> {
        let t = self.find(name, &[rows, cols])?;
        match t.kind {
            Kind::Block(format) => {
                let row_bytes = format.row_bytes(cols).ok_or_else(|| {
                    err!(Format, "[model] {name}: {cols} columns are not whole {format} blocks")
                })?;
                Ok(Table::Block(BlockWeight::new(
                    self.mapped(t, [rows, row_bytes], Dtype::U8)?,
                    format,
                    cols,
                )?))
            }
            Kind::Float(dtype) => Ok(Table::Dense(self.mapped(t, [rows, cols], dtype)?)),
            Kind::Other(ref other) => bail!(Format, "[model] {name} is {other}; {ACCEPTED}"),
        }
    }

    fn mapped(&self, t: &Tensor, shape: [usize; 2], dtype: Dtype) -> Result<Array> {
        self.files[t.file].array(t.range.clone(), shape, dtype)
    }

    /// Gives the mapped pages back to the system; what is read again comes from the file.
    pub fn release_pages(&self) {
        self.files.iter().for_each(|f| f.release_pages());
    }
}

/// A matrix of outputs × inputs.
#[derive(Clone, Debug)]
pub enum Matrix {
    Dense(Array),
    /// With 8-bit activations or float32 ones.
    Block {
        weight: BlockWeight,
        int8: bool,
    },
    Parts(Vec<Matrix>),
}

impl Matrix {
    /// `x @ w^T` over the last axis of `x`.
    ///
    /// # Errors
    /// `Shape` when the last axis of `x` is not the number of inputs.
    pub fn apply(&self, x: &Array) -> Result<Array> {
        match self {
            Matrix::Dense(w) => x.astype(w.dtype())?.matmul(&w.t()?)?.astype(Dtype::F32),
            Matrix::Block { weight, int8 } => weight.matmul(x, *int8),
            Matrix::Parts(parts) => {
                let outs = parts.iter().map(|p| p.apply(x)).collect::<Result<Vec<_>>>()?;
                isopace::concatenate(&outs, -1)
            }
        }
    }
}

/// A table of rows, such as token embeddings.
#[derive(Clone, Debug)]
pub enum Table {
    Dense(Array),
    Block(BlockWeight),
}

impl Table {
    /// The rows at these indices, as float32.
    ///
    /// # Errors
    /// `Dtype` when the indices are not integers.
    pub fn rows(&self, ids: &Array) -> Result<Array> {
        match self {
            Table::Dense(t) => t.take(ids, Some(0))?.astype(Dtype::F32),
            Table::Block(t) => t.take(ids, Dtype::F32),
        }
    }
}
