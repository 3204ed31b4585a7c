//! The writer: version 3, little-endian.

use std::collections::HashSet;
use std::io::Write;

use isopace_core::{Result, bail, err};

use super::TensorType;
use super::value::{Value, Values};
use crate::io::shown;

/// A tensor to write.
#[derive(Clone, Copy, Debug)]
pub struct NewTensor<'a> {
    /// Its name, unique in the file.
    pub name: &'a str,
    /// Its shape in row-major order.
    pub shape: &'a [usize],
    /// How `data` is to be read.
    pub ty: TensorType,
    /// Its values, little-endian.
    pub data: &'a [u8],
}

/// Writes a GGUF file (version 3). Tensors are aligned to `general.alignment` where the metadata
/// has it, else to 32 bytes.
///
/// # Errors
/// `Argument` for names or keys that stand twice and for data whose length does not fit its shape,
/// `Io` when `out` fails.
pub fn write_gguf(
    out: &mut impl Write,
    metadata: &[(String, Value)],
    tensors: &[NewTensor<'_>],
) -> Result<()> {
    let mut keys = HashSet::new();
    if let Some((key, _)) = metadata.iter().find(|(key, _)| !keys.insert(key)) {
        bail!(Argument, "[save_gguf] the metadata key {} stands twice", shown(key));
    }
    let alignment = metadata.iter().find(|(key, _)| key == "general.alignment");
    let alignment = alignment.map_or(Some(32), |(_, v)| v.as_int()?.try_into().ok()).unwrap_or(0usize);
    if !alignment.is_power_of_two() {
        bail!(Argument, "[save_gguf] general.alignment must be a power of two");
    }
    check(tensors)?;

    let mut head = Vec::new();
    head.extend_from_slice(b"GGUF");
    head.extend_from_slice(&3u32.to_le_bytes());
    head.extend_from_slice(&(tensors.len() as u64).to_le_bytes());
    head.extend_from_slice(&(metadata.len() as u64).to_le_bytes());
    for (key, value) in metadata {
        string(&mut head, key);
        head.extend_from_slice(&value.code().to_le_bytes());
        put(&mut head, value);
    }
    let mut offset = 0;
    for t in tensors {
        string(&mut head, t.name);
        head.extend_from_slice(&(t.shape.len() as u32).to_le_bytes());
        for dim in t.shape.iter().rev() {
            head.extend_from_slice(&(*dim as u64).to_le_bytes());
        }
        head.extend_from_slice(&t.ty.code().to_le_bytes());
        head.extend_from_slice(&(offset as u64).to_le_bytes());
        offset = (offset + t.data.len()).next_multiple_of(alignment);
    }
    head.resize(head.len().next_multiple_of(alignment), 0);

    let io = |e: std::io::Error| err!(Io, "[save_gguf] cannot write: {e}");
    out.write_all(&head).map_err(io)?;
    for t in tensors {
        out.write_all(t.data).map_err(io)?;
        let pad = t.data.len().next_multiple_of(alignment) - t.data.len();
        out.write_all(&vec![0; pad]).map_err(io)?;
    }
    Ok(())
}

fn check(tensors: &[NewTensor<'_>]) -> Result<()> {
    let mut names = HashSet::new();
    for t in tensors {
        let name = shown(t.name);
        if t.name.is_empty() {
            bail!(Argument, "[save_gguf] a tensor has an empty name");
        }
        if !names.insert(t.name) {
            bail!(Argument, "[save_gguf] two tensors are named {name}");
        }
        if t.shape.len() > 4 {
            bail!(Argument, "[save_gguf] {name}: has {} axes; a GGUF file takes at most 4", t.shape.len());
        }
        let want = t.ty.byte_len(t.shape).map_err(|why| err!(Argument, "[save_gguf] {name}: {why}"))?;
        if want != t.data.len() {
            bail!(
                Argument,
                "[save_gguf] {name}: {} bytes of data, where shape {:?} of {} takes {want}",
                t.data.len(),
                t.shape,
                t.ty
            );
        }
    }
    Ok(())
}

fn string(out: &mut Vec<u8>, s: &str) {
    out.extend_from_slice(&(s.len() as u64).to_le_bytes());
    out.extend_from_slice(s.as_bytes());
}

fn put(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::U8(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::I8(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::U16(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::I16(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::U32(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::I32(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::F32(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::Bool(v) => out.push(u8::from(*v)),
        Value::String(v) => string(out, v),
        Value::U64(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::I64(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::F64(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::Array(v) => put_values(out, v),
    }
}

fn put_values(out: &mut Vec<u8>, values: &Values) {
    out.extend_from_slice(&values.code().to_le_bytes());
    out.extend_from_slice(&(values.len() as u64).to_le_bytes());
    match values {
        Values::U8(v) => out.extend_from_slice(v),
        Values::I8(v) => v.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes())),
        Values::U16(v) => v.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes())),
        Values::I16(v) => v.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes())),
        Values::U32(v) => v.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes())),
        Values::I32(v) => v.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes())),
        Values::F32(v) => v.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes())),
        Values::Bool(v) => v.iter().for_each(|x| out.push(u8::from(*x))),
        Values::String(v) => v.iter().for_each(|x| string(out, x)),
        Values::U64(v) => v.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes())),
        Values::I64(v) => v.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes())),
        Values::F64(v) => v.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes())),
        Values::Array(v) => v.iter().for_each(|x| put_values(out, x)),
    }
}
