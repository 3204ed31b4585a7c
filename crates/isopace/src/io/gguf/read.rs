//! The reader. It holds a cursor that knows the file's end; nothing here indexes the bytes otherwise.

use std::collections::HashMap;

use isopace_core::{Result, bail, err};

use super::value::{ARRAY, Metadata, Value, Values};
use super::{CODES, Gguf, Tensor, TensorType, UNSUPPORTED};
use crate::io::{commas, shown};

/// More axes than any tensor has; the format's own limit is four.
const MAX_DIMS: u32 = 8;
/// Arrays of arrays of arrays: deeper ones only serve to exhaust a reader's stack.
const MAX_NESTING: u32 = 4;
/// Alignments above a huge page serve nothing.
const MAX_ALIGNMENT: usize = 1 << 21;
/// The shortest possible entry: a key's length, a type and one byte.
const MIN_ENTRY_BYTES: usize = 8 + 4 + 1;
/// The shortest possible tensor: a name's length, the number of axes, a type and an offset.
const MIN_TENSOR_BYTES: usize = 8 + 4 + 4 + 8;

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    file: String,
}

impl<'a> Cursor<'a> {
    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn take(&mut self, n: usize, what: &str) -> Result<&'a [u8]> {
        if n > self.left() {
            bail!(
                Format,
                "[gguf] {}: the file ends at byte {}, inside {what}",
                self.file,
                commas(self.bytes.len() as u64)
            );
        }
        let out = &self.bytes[self.at..self.at + n];
        self.at += n;
        Ok(out)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N, what)?);
        Ok(out)
    }

    fn u32(&mut self, what: &str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    fn u64(&mut self, what: &str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// A count of things that take at least `min_bytes` each: no more than the bytes left can hold.
    fn count(&mut self, min_bytes: usize, what: &str) -> Result<usize> {
        let n = self.u64(what)?;
        let room = self.left() / min_bytes;
        match usize::try_from(n) {
            Ok(n) if n <= room => Ok(n),
            _ => bail!(
                Format,
                "[gguf] {}: {what} has a count of {}, but the {} bytes left hold at most {}",
                self.file,
                commas(n),
                commas(self.left() as u64),
                commas(room as u64)
            ),
        }
    }

    fn string(&mut self, what: &str) -> Result<String> {
        let n = self.count(1, what)?;
        let start = self.at;
        match std::str::from_utf8(self.take(n, what)?) {
            Ok(s) => Ok(s.to_string()),
            Err(e) => bail!(
                Format,
                "[gguf] {}: {what} is not valid UTF-8 at byte {} of the file",
                self.file,
                commas((start + e.valid_up_to()) as u64)
            ),
        }
    }

    fn bool(&mut self, what: &str) -> Result<bool> {
        match self.array::<1>(what)?[0] {
            0 => Ok(false),
            1 => Ok(true),
            v => bail!(Format, "[gguf] {}: {what} is a bool of value {v}; it must be 0 or 1", self.file),
        }
    }

    fn value(&mut self, what: &str) -> Result<Value> {
        Ok(match self.u32(what)? {
            0 => Value::U8(u8::from_le_bytes(self.array(what)?)),
            1 => Value::I8(i8::from_le_bytes(self.array(what)?)),
            2 => Value::U16(u16::from_le_bytes(self.array(what)?)),
            3 => Value::I16(i16::from_le_bytes(self.array(what)?)),
            4 => Value::U32(u32::from_le_bytes(self.array(what)?)),
            5 => Value::I32(i32::from_le_bytes(self.array(what)?)),
            6 => Value::F32(f32::from_le_bytes(self.array(what)?)),
            7 => Value::Bool(self.bool(what)?),
            8 => Value::String(self.string(what)?),
            ARRAY => Value::Array(self.values(what, 1)?),
            10 => Value::U64(u64::from_le_bytes(self.array(what)?)),
            11 => Value::I64(i64::from_le_bytes(self.array(what)?)),
            12 => Value::F64(f64::from_le_bytes(self.array(what)?)),
            code => return Err(self.unknown_value_type(what, code)),
        })
    }

    fn values(&mut self, what: &str, depth: u32) -> Result<Values> {
        Ok(match self.u32(what)? {
            0 => Values::U8(self.numbers(what, u8::from_le_bytes)?),
            1 => Values::I8(self.numbers(what, i8::from_le_bytes)?),
            2 => Values::U16(self.numbers(what, u16::from_le_bytes)?),
            3 => Values::I16(self.numbers(what, i16::from_le_bytes)?),
            4 => Values::U32(self.numbers(what, u32::from_le_bytes)?),
            5 => Values::I32(self.numbers(what, i32::from_le_bytes)?),
            6 => Values::F32(self.numbers(what, f32::from_le_bytes)?),
            7 => {
                let n = self.count(1, what)?;
                Values::Bool((0..n).map(|_| self.bool(what)).collect::<Result<_>>()?)
            }
            8 => {
                let n = self.count(8, what)?;
                Values::String((0..n).map(|_| self.string(what)).collect::<Result<_>>()?)
            }
            ARRAY if depth < MAX_NESTING => {
                let n = self.count(12, what)?;
                Values::Array((0..n).map(|_| self.values(what, depth + 1)).collect::<Result<_>>()?)
            }
            ARRAY => {
                bail!(Format, "[gguf] {}: {what} nests arrays deeper than {MAX_NESTING} levels", self.file)
            }
            10 => Values::U64(self.numbers(what, u64::from_le_bytes)?),
            11 => Values::I64(self.numbers(what, i64::from_le_bytes)?),
            12 => Values::F64(self.numbers(what, f64::from_le_bytes)?),
            code => return Err(self.unknown_value_type(what, code)),
        })
    }

    fn numbers<T, const N: usize>(&mut self, what: &str, read: fn([u8; N]) -> T) -> Result<Vec<T>> {
        let n = self.count(N, what)?;
        let bytes = self.take(n * N, what)?;
        let (chunks, _) = bytes.as_chunks::<N>();
        Ok(chunks.iter().map(|c| read(*c)).collect())
    }

    fn unknown_value_type(&self, what: &str, code: u32) -> isopace_core::Error {
        err!(Format, "[gguf] {}: {what} has the unknown value type {code}; types are 0 to 12", self.file)
    }
}

pub(super) fn parse(bytes: &[u8], name: &str) -> Result<Gguf> {
    let mut c = Cursor { bytes, at: 0, file: shown(name) };
    let version = header(&mut c)?;
    let n_tensors = c.u64("the header")?;
    let n_entries = c.count(MIN_ENTRY_BYTES, "the metadata")?;
    let metadata = metadata(&mut c, n_entries)?;
    let alignment = alignment(&metadata)?;
    let room = c.left() / MIN_TENSOR_BYTES;
    if n_tensors > room as u64 {
        bail!(
            Format,
            "[gguf] {}: the header counts {} tensors, but the {} bytes left describe at most {}",
            c.file,
            commas(n_tensors),
            commas(c.left() as u64),
            commas(room as u64)
        );
    }
    let mut infos = Vec::new();
    let mut by_name = HashMap::new();
    for i in 0..n_tensors as usize {
        let info = tensor_info(&mut c, i)?;
        if by_name.insert(info.name.clone(), i).is_some() {
            bail!(Format, "[gguf] {}: two tensors are named {}", c.file, shown(&info.name));
        }
        infos.push(info);
    }
    // A file without tensors may end right after its metadata.
    let data_start = c.at.next_multiple_of(alignment);
    let tensors = infos
        .into_iter()
        .map(|info| info.place(&c.file, data_start, alignment, bytes.len()))
        .collect::<Result<Vec<_>>>()?;
    check_overlap(&c.file, &tensors)?;
    Ok(Gguf { name: name.to_string(), version, metadata, tensors, by_name })
}

fn header(c: &mut Cursor) -> Result<u32> {
    let magic: [u8; 4] = match c.array("the magic") {
        Ok(m) => m,
        Err(_) => bail!(
            Format,
            "[gguf] {}: not a GGUF file: it is {} bytes long and does not start with \"GGUF\"",
            c.file,
            c.bytes.len()
        ),
    };
    if &magic != b"GGUF" {
        let start = String::from_utf8_lossy(&magic);
        bail!(Format, "[gguf] {}: not a GGUF file: it starts with {start:?}, not \"GGUF\"", c.file);
    }
    let version = c.u32("the header")?;
    match version {
        2 | 3 => Ok(version),
        v if matches!(v.swap_bytes(), 1..=3) => {
            bail!(Unsupported, "[gguf] {}: the file is big-endian; only little-endian is read", c.file)
        }
        v => bail!(Unsupported, "[gguf] {}: version {v} is not supported; versions 2 and 3 are", c.file),
    }
}

fn metadata(c: &mut Cursor, n: usize) -> Result<Metadata> {
    let mut out = Metadata::new(&c.file);
    for i in 0..n {
        let key = c.string(&format!("the key of metadata entry {i}"))?;
        let value = c.value(&shown(&key))?;
        if !out.insert(key.clone(), value) {
            bail!(Format, "[gguf] {}: the metadata key {} stands twice", c.file, shown(&key));
        }
    }
    Ok(out)
}

fn alignment(metadata: &Metadata) -> Result<usize> {
    match metadata.opt_usize("general.alignment")? {
        None => Ok(32),
        Some(a) if a.is_power_of_two() && a <= MAX_ALIGNMENT => Ok(a),
        Some(a) => bail!(
            Format,
            "[gguf] {}: general.alignment is {a}; it must be a power of two, at most {MAX_ALIGNMENT}",
            metadata.file()
        ),
    }
}

struct Info {
    name: String,
    shape: Vec<usize>,
    ty: TensorType,
    offset: u64,
    bytes: usize,
}

fn tensor_info(c: &mut Cursor, i: usize) -> Result<Info> {
    let name = c.string(&format!("the name of tensor {i}"))?;
    let what = shown(&name);
    if name.is_empty() {
        bail!(Format, "[gguf] {}: tensor {i} has an empty name", c.file);
    }
    let n_dims = c.u32(&what)?;
    if n_dims > MAX_DIMS {
        bail!(Format, "[gguf] {}: {what}: has {n_dims} axes; at most {MAX_DIMS} are read", c.file);
    }
    let mut shape = Vec::with_capacity(n_dims as usize);
    for _ in 0..n_dims {
        let dim = c.u64(&what)?;
        match usize::try_from(dim) {
            Ok(d) if d <= isize::MAX as usize => shape.push(d),
            _ => bail!(Format, "[gguf] {}: {what}: a dimension of {} is absurd", c.file, commas(dim)),
        }
    }
    shape.reverse();
    let code = c.u32(&what)?;
    let ty = TensorType::from_code(code).ok_or_else(|| unknown_type(&c.file, &what, code))?;
    let offset = c.u64(&what)?;
    let bytes = ty.byte_len(&shape).map_err(|why| err!(Format, "[gguf] {}: {what}: {why}", c.file))?;
    Ok(Info { name, shape, ty, offset, bytes })
}

fn unknown_type(file: &str, what: &str, code: u32) -> isopace_core::Error {
    let known: Vec<_> = CODES.iter().map(|(t, _)| t.to_string()).collect();
    let known = known.join(", ");
    match UNSUPPORTED.iter().find(|(c, _)| *c == code) {
        Some((_, name)) => {
            err!(Unsupported, "[gguf] {file}: {what}: type {name} is not supported; supported are {known}")
        }
        None => err!(Unsupported, "[gguf] {file}: {what}: unknown type {code}; supported are {known}"),
    }
}

impl Info {
    fn place(self, file: &str, data_start: usize, alignment: usize, file_bytes: usize) -> Result<Tensor> {
        let what = shown(&self.name);
        if !self.offset.is_multiple_of(alignment as u64) {
            bail!(
                Format,
                "[gguf] {file}: {what}: offset {} is not a multiple of the alignment {alignment}",
                commas(self.offset)
            );
        }
        // 128 bits: an offset near 2^64 must not wrap around to a small one.
        let start = data_start as u128 + u128::from(self.offset);
        let end = start + self.bytes as u128;
        if end > file_bytes as u128 && self.bytes > 0 {
            bail!(
                Format,
                "[gguf] {file}: {what}: data ends at byte {}, past the end of the file ({})",
                commas(end),
                commas(file_bytes as u64)
            );
        }
        // An empty tensor may be placed anywhere; it owns no bytes.
        let range = if self.bytes == 0 { 0..0 } else { start as usize..end as usize };
        Ok(Tensor { name: self.name, shape: self.shape, ty: self.ty, range })
    }
}

/// Overlapping tensors would let a small file stand for far more weights than it holds.
fn check_overlap(file: &str, tensors: &[Tensor]) -> Result<()> {
    let mut order: Vec<&Tensor> = tensors.iter().filter(|t| !t.range.is_empty()).collect();
    order.sort_by_key(|t| t.range.start);
    for pair in order.windows(2) {
        if pair[0].range.end > pair[1].range.start {
            bail!(
                Format,
                "[gguf] {file}: {} starts at byte {}, inside {}, which ends at byte {}",
                shown(&pair[1].name),
                commas(pair[1].range.start as u64),
                shown(&pair[0].name),
                commas(pair[0].range.end as u64)
            );
        }
    }
    Ok(())
}
