//! safetensors files: a JSON header, then the tensors' bytes.
//!
//! The reader is isopace's own because an error must name the file and the tensor, and a tensor
//! that stands twice must be an error; it is tested against the `safetensors` crate.
//!
//! ```
//! use isopace::{Dtype, io::safetensors::{NewTensor, Safetensors, Type, write_safetensors}};
//! let w = NewTensor { name: "w", shape: &[2, 3], ty: Type::Plain(Dtype::F32), data: &[0; 24] };
//! let mut file = Vec::new();
//! write_safetensors(&mut file, &[("format", "mlx")], &[w])?;
//!
//! let st = Safetensors::parse(&file, "tiny.safetensors")?;
//! assert_eq!(st.metadata, [("format".to_string(), "mlx".to_string())]);
//! assert_eq!(st.tensor("w")?.shape, [2, 3]);
//! # Ok::<(), isopace::Error>(())
//! ```

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::Write;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use isopace_core::{Dtype, Result, bail, err};

use super::{commas, shown};

/// The format's own limit on the header.
const MAX_HEADER_BYTES: u64 = 100_000_000;
/// The header's entry that is no tensor.
const METADATA: &str = "__metadata__";

/// The element type of a tensor in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// A dtype of isopace.
    Plain(Dtype),
    /// 8-bit floats with 4 exponent bits; the array holds their bytes.
    F8E4M3,
    /// 8-bit floats with 5 exponent bits; the array holds their bytes.
    F8E5M2,
}

const NAMES: [(Type, &str); 16] = [
    (Type::Plain(Dtype::Bool), "BOOL"),
    (Type::Plain(Dtype::U8), "U8"),
    (Type::Plain(Dtype::U16), "U16"),
    (Type::Plain(Dtype::U32), "U32"),
    (Type::Plain(Dtype::U64), "U64"),
    (Type::Plain(Dtype::I8), "I8"),
    (Type::Plain(Dtype::I16), "I16"),
    (Type::Plain(Dtype::I32), "I32"),
    (Type::Plain(Dtype::I64), "I64"),
    (Type::Plain(Dtype::F16), "F16"),
    (Type::Plain(Dtype::BF16), "BF16"),
    (Type::Plain(Dtype::F32), "F32"),
    (Type::Plain(Dtype::F64), "F64"),
    (Type::Plain(Dtype::C64), "C64"),
    (Type::F8E4M3, "F8_E4M3"),
    (Type::F8E5M2, "F8_E5M2"),
];

impl Type {
    /// The dtype of the array that such a tensor becomes.
    pub fn dtype(self) -> Dtype {
        match self {
            Type::Plain(d) => d,
            Type::F8E4M3 | Type::F8E5M2 => Dtype::U8,
        }
    }

    /// The type of this name in a header.
    pub fn from_name(name: &str) -> Option<Type> {
        NAMES.iter().find(|(_, n)| *n == name).map(|(t, _)| *t)
    }

    /// The name in a header: `F32`, `BOOL`, `F8_E4M3`.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(t, _)| *t == self).map_or("", |(_, n)| n)
    }

    /// Bytes of a tensor of this shape, unless they cannot be addressed.
    fn byte_len(self, shape: &[usize]) -> Option<usize> {
        let all = shape.iter().filter(|d| **d != 0).try_fold(1usize, |n, d| n.checked_mul(*d))?;
        let bytes = all.checked_mul(self.dtype().size()).filter(|n| *n <= isize::MAX as usize)?;
        Some(if shape.contains(&0) { 0 } else { bytes })
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One tensor of a file: what it is and where its bytes are.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Its name, such as `model.layers.0.mlp.up_proj.weight`.
    pub name: String,
    /// Its shape, row-major.
    pub shape: Vec<usize>,
    /// Its element type.
    pub ty: Type,
    /// Its bytes in the file.
    pub range: Range<usize>,
}

/// The contents of a safetensors file, without the tensors' bytes.
#[derive(Clone, Debug)]
pub struct Safetensors {
    /// The name the file was parsed under; errors start with it.
    pub name: String,
    /// The `__metadata__` entries in file order.
    pub metadata: Vec<(String, String)>,
    /// The tensors in the order of the header.
    pub tensors: Vec<Tensor>,
    by_name: HashMap<String, usize>,
}

/// A JSON object in its order, with every duplicate still there.
struct Entries<V>(Vec<(String, V)>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Entries<V> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        struct Pairs<V>(std::marker::PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Pairs<V> {
            type Value = Entries<V>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Entries<V>, A::Error> {
                let mut out = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    out.push(pair);
                }
                Ok(Entries(out))
            }
        }
        d.deserialize_map(Pairs(std::marker::PhantomData))
    }
}

#[derive(Deserialize)]
struct Info {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

impl Safetensors {
    /// Reads the header of a file whose whole contents are `bytes`; `name` stands in errors.
    ///
    /// # Errors
    /// `Format` for anything that does not follow the format or points outside the file,
    /// `Unsupported` for an element type that isopace does not have.
    pub fn parse(bytes: &[u8], name: &str) -> Result<Safetensors> {
        let file = shown(name);
        let (header, data_start) = header(bytes, &file)?;
        let entries: Entries<serde_json::Value> = serde_json::from_slice(header)
            .map_err(|e| err!(Format, "[safetensors] {file}: the header is not valid JSON: {e}"))?;
        let mut out = Safetensors {
            name: name.to_string(),
            metadata: vec![],
            tensors: vec![],
            by_name: HashMap::new(),
        };
        let mut seen_metadata = false;
        for (key, value) in entries.0 {
            if key == METADATA {
                if std::mem::replace(&mut seen_metadata, true) {
                    bail!(Format, "[safetensors] {file}: {METADATA} stands twice");
                }
                let Entries(pairs) = serde_json::from_value(value).map_err(|e| {
                    err!(Format, "[safetensors] {file}: {METADATA} must map strings to strings: {e}")
                })?;
                out.metadata = pairs;
                continue;
            }
            let tensor = tensor(&file, key, value, data_start, bytes.len())?;
            if out.by_name.insert(tensor.name.clone(), out.tensors.len()).is_some() {
                bail!(Format, "[safetensors] {file}: two tensors are named {}", shown(&tensor.name));
            }
            out.tensors.push(tensor);
        }
        check_overlap(&file, &out.tensors)?;
        Ok(out)
    }

    /// The tensor of this name.
    ///
    /// # Errors
    /// `Format` when the file has no such tensor.
    pub fn tensor(&self, name: &str) -> Result<&Tensor> {
        self.find(name).ok_or_else(|| {
            err!(Format, "[safetensors] {}: there is no tensor {}", shown(&self.name), shown(name))
        })
    }

    /// The tensor of this name, if there is one.
    pub fn find(&self, name: &str) -> Option<&Tensor> {
        self.by_name.get(name).map(|i| &self.tensors[*i])
    }
}

/// The header's text and where the data begins.
fn header<'a>(bytes: &'a [u8], file: &str) -> Result<(&'a [u8], usize)> {
    let Some((size, rest)) = bytes.split_first_chunk::<8>() else {
        bail!(
            Format,
            "[safetensors] {file}: the file is {} bytes long, shorter than the 8 bytes of its header's size",
            bytes.len()
        );
    };
    let size = u64::from_le_bytes(*size);
    if size > MAX_HEADER_BYTES || size > rest.len() as u64 {
        bail!(
            Format,
            "[safetensors] {file}: a header of {} bytes does not fit; the file has {} bytes after its size, and at \
             most {} are allowed",
            commas(size),
            commas(rest.len() as u64),
            commas(MAX_HEADER_BYTES)
        );
    }
    Ok((&rest[..size as usize], 8 + size as usize))
}

fn tensor(
    file: &str,
    name: String,
    value: serde_json::Value,
    data_start: usize,
    file_bytes: usize,
) -> Result<Tensor> {
    let what = shown(&name);
    let info: Info = serde_json::from_value(value).map_err(|e| {
        err!(Format, "[safetensors] {file}: {what}: not a tensor's entry: {}", shown(&e.to_string()))
    })?;
    let ty = Type::from_name(&info.dtype).ok_or_else(|| {
        let known: Vec<_> = NAMES.iter().map(|(_, n)| *n).collect();
        let (found, known) = (shown(&info.dtype), known.join(", "));
        err!(
            Unsupported,
            "[safetensors] {file}: {what}: type {found} is not supported; supported are {known}"
        )
    })?;
    let shape: Vec<usize> = info.shape.iter().map(|d| usize::try_from(*d).unwrap_or(usize::MAX)).collect();
    let Some(want) = ty.byte_len(&shape) else {
        bail!(
            Format,
            "[safetensors] {file}: {what}: shape {:?} has more values than can be addressed",
            info.shape
        );
    };
    let (begin, end) = info.data_offsets;
    if end < begin {
        bail!(Format, "[safetensors] {file}: {what}: its data ends at {end}, before it begins at {begin}");
    }
    if end - begin != want as u64 {
        bail!(
            Format,
            "[safetensors] {file}: {what}: {} bytes of data, where shape {shape:?} of {ty} takes {}",
            commas(end - begin),
            commas(want as u64)
        );
    }
    let stop = data_start as u128 + u128::from(end);
    if stop > file_bytes as u128 {
        bail!(
            Format,
            "[safetensors] {file}: {what}: data ends at byte {}, past the end of the file ({})",
            commas(stop),
            commas(file_bytes as u64)
        );
    }
    let start = data_start + begin as usize;
    Ok(Tensor { name, shape, ty, range: start..start + want })
}

fn check_overlap(file: &str, tensors: &[Tensor]) -> Result<()> {
    let mut order: Vec<&Tensor> = tensors.iter().filter(|t| !t.range.is_empty()).collect();
    order.sort_by_key(|t| t.range.start);
    for pair in order.windows(2) {
        if pair[0].range.end > pair[1].range.start {
            bail!(
                Format,
                "[safetensors] {file}: {} starts at byte {}, inside {}, which ends at byte {}",
                shown(&pair[1].name),
                commas(pair[1].range.start as u64),
                shown(&pair[0].name),
                commas(pair[0].range.end as u64)
            );
        }
    }
    Ok(())
}

/// A tensor to write.
#[derive(Clone, Copy, Debug)]
pub struct NewTensor<'a> {
    /// Its name, unique in the file.
    pub name: &'a str,
    /// Its shape, row-major.
    pub shape: &'a [usize],
    /// Its element type.
    pub ty: Type,
    /// Its values, little-endian.
    pub data: &'a [u8],
}

/// Writes a safetensors file, the tensors in the order given, which is also the order of their
/// bytes; the header is padded to 8 bytes.
///
/// # Errors
/// `Argument` for names that stand twice and data whose length does not fit its shape, `Io` when
/// `out` fails.
pub fn write_safetensors(
    out: &mut impl Write,
    metadata: &[(&str, &str)],
    tensors: &[NewTensor<'_>],
) -> Result<()> {
    let mut names = HashSet::from([METADATA]);
    let mut header = serde_json::Map::new();
    if !metadata.is_empty() {
        let pairs: serde_json::Map<_, _> =
            metadata.iter().map(|(k, v)| (k.to_string(), serde_json::Value::from(*v))).collect();
        header.insert(METADATA.to_string(), pairs.into());
    }
    let mut at = 0;
    for t in tensors {
        let name = shown(t.name);
        if !names.insert(t.name) {
            bail!(Argument, "[save_safetensors] the name {name} stands twice or is reserved");
        }
        if t.ty.byte_len(t.shape) != Some(t.data.len()) {
            bail!(
                Argument,
                "[save_safetensors] {name}: {} bytes of data do not fit shape {:?} of {}",
                t.data.len(),
                t.shape,
                t.ty
            );
        }
        let end = at + t.data.len();
        let entry = serde_json::json!({
            "dtype": t.ty.name(), "shape": t.shape, "data_offsets": [at, end],
        });
        header.insert(t.name.to_string(), entry);
        at = end;
    }
    let mut text = serde_json::Value::from(header).to_string();
    while !text.len().is_multiple_of(8) {
        text.push(' ');
    }
    let io = |e: std::io::Error| err!(Io, "[save_safetensors] cannot write: {e}");
    out.write_all(&(text.len() as u64).to_le_bytes()).map_err(io)?;
    out.write_all(text.as_bytes()).map_err(io)?;
    tensors.iter().try_for_each(|t| out.write_all(t.data)).map_err(io)
}

#[cfg(test)]
mod tests;
