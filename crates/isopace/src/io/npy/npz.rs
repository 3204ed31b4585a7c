//! npz archives: a zip file with one npy file an array.

use std::collections::HashSet;
use std::io::{Cursor, Read, Seek, Write};

use isopace_core::{Dtype, Result, bail, err};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::{Npy, write_npy};
use crate::io::{commas, shown};

/// An npz archive, opened over the whole file's bytes.
#[derive(Debug)]
pub struct Npz<'a> {
    file: String,
    archive: ZipArchive<Cursor<&'a [u8]>>,
    names: Vec<String>,
}

impl<'a> Npz<'a> {
    /// Reads the archive's directory; `name` stands in errors.
    ///
    /// # Errors
    /// `Format` when `bytes` is not a zip archive.
    pub fn parse(bytes: &'a [u8], name: &str) -> Result<Npz<'a>> {
        let file = shown(name);
        let bad = |e: zip::result::ZipError| {
            err!(Format, "[npz] {file}: not a zip archive: {}", shown(&e.to_string()))
        };
        let archive = ZipArchive::new(Cursor::new(bytes)).map_err(bad)?;
        let mut names = Vec::new();
        for name in archive.file_names() {
            let name = name.map_err(bad)?;
            names.push(name.strip_suffix(".npy").unwrap_or(&name).to_string());
        }
        Ok(Npz { file, archive, names })
    }

    /// The arrays' names in archive order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Reads one array: its description and the bytes of its npy file.
    ///
    /// # Errors
    /// `Format` for a member that is absent, damaged or no npy file, `Unsupported` for a
    /// compression other than deflate.
    pub fn read(&mut self, name: &str) -> Result<(Npy, Vec<u8>)> {
        let what = format!("{}: {}", self.file, shown(name));
        let index = self.names.iter().position(|n| n == name);
        let index = index.ok_or_else(|| err!(Format, "[npz] {what}: there is no such array"))?;
        let bad = |e: &dyn std::fmt::Display| err!(Format, "[npz] {what}: {}", shown(&e.to_string()));
        let mut member = self.archive.by_index(index).map_err(|e| match e {
            zip::result::ZipError::UnsupportedArchive(why) => err!(Unsupported, "[npz] {what}: {why}"),
            e => bad(&e),
        })?;
        // The size in the directory is a claim: memory grows with the bytes that really come, and one
        // byte more than claimed is already wrong.
        let claimed = member.size();
        let mut bytes = Vec::new();
        member.by_ref().take(claimed.saturating_add(1)).read_to_end(&mut bytes).map_err(|e| bad(&e))?;
        if bytes.len() as u64 != claimed {
            bail!(
                Format,
                "[npz] {what}: holds {} bytes, where the directory says {}",
                commas(bytes.len() as u64),
                commas(claimed)
            );
        }
        let npy = Npy::parse(&bytes, &what)?;
        Ok((npy, bytes))
    }
}

/// Writes an npz archive, uncompressed, of arrays in row-major order, little-endian.
///
/// # Errors
/// `Argument` for a name that stands twice or data that does not fit its shape, `Io` when `out` fails.
pub fn write_npz(out: &mut (impl Write + Seek), arrays: &[(&str, Dtype, &[usize], &[u8])]) -> Result<()> {
    let mut names = HashSet::new();
    let mut zip = ZipWriter::new(out);
    let io = |e: &dyn std::fmt::Display| err!(Io, "[savez] cannot write: {e}");
    for (name, dtype, shape, data) in arrays {
        if !names.insert(name) {
            bail!(Argument, "[savez] two arrays are named {}", shown(name));
        }
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(data.len() >= 1 << 31);
        zip.start_file(format!("{name}.npy"), options).map_err(|e| io(&e))?;
        write_npy(&mut zip, *dtype, shape, data)?;
    }
    zip.finish().map_err(|e| io(&e))?;
    Ok(())
}
