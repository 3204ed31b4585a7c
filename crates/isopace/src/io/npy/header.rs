//! The header: a Python dict literal with three known keys.

use isopace_core::{Dtype, Result, bail};

pub(super) struct Header {
    pub descr: String,
    pub fortran: bool,
    pub shape: Vec<usize>,
}

pub(super) const SUPPORTED: &str =
    "supported are b1, u1 to u8, i1 to i8, f2, f4, f8, c8, and V2 for bfloat16";

/// The dtype of a type string such as `<f4`, and whether it is big-endian.
pub(super) fn dtype(descr: &str) -> Option<(Dtype, bool)> {
    let (order, kind) = match descr.as_bytes().first()? {
        b'<' | b'|' | b'=' => (false, &descr[1..]),
        b'>' => (true, &descr[1..]),
        _ => (false, descr),
    };
    let dtype = match kind {
        "b1" | "?" => Dtype::Bool,
        "u1" => Dtype::U8,
        "u2" => Dtype::U16,
        "u4" => Dtype::U32,
        "u8" => Dtype::U64,
        "i1" => Dtype::I8,
        "i2" => Dtype::I16,
        "i4" => Dtype::I32,
        "i8" => Dtype::I64,
        "f2" => Dtype::F16,
        "V2" | "bfloat16" => Dtype::BF16,
        "f4" => Dtype::F32,
        "f8" => Dtype::F64,
        "c8" => Dtype::C64,
        _ => return None,
    };
    Some((dtype, order))
}

fn descr(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Bool => "|b1",
        Dtype::U8 => "|u1",
        Dtype::U16 => "<u2",
        Dtype::U32 => "<u4",
        Dtype::U64 => "<u8",
        Dtype::I8 => "|i1",
        Dtype::I16 => "<i2",
        Dtype::I32 => "<i4",
        Dtype::I64 => "<i8",
        Dtype::F16 => "<f2",
        Dtype::BF16 => "<V2",
        Dtype::F32 => "<f4",
        Dtype::F64 => "<f8",
        Dtype::C64 => "<c8",
    }
}

/// The whole header of version 1, padded so that the data starts at a multiple of 64 bytes.
pub(super) fn write(dtype: Dtype, shape: &[usize]) -> Result<Vec<u8>> {
    let dims: Vec<_> = shape.iter().map(usize::to_string).collect();
    let comma = if shape.len() == 1 { "," } else { "" };
    let mut text = format!(
        "{{'descr': '{}', 'fortran_order': False, 'shape': ({}{comma}), }}",
        descr(dtype),
        dims.join(", ")
    );
    let unpadded = 10 + text.len() + 1;
    text.push_str(&" ".repeat(unpadded.next_multiple_of(64) - unpadded));
    text.push('\n');
    let Ok(len) = u16::try_from(text.len()) else {
        bail!(Argument, "[save] {} axes are more than an npy header takes", shape.len());
    };
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend(len.to_le_bytes());
    out.extend(text.as_bytes());
    Ok(out)
}

struct Scan<'a>(&'a str);

impl<'a> Scan<'a> {
    fn skip(&mut self) -> &'a str {
        self.0 = self.0.trim_start_matches([' ', '\t', '\n', '\r']);
        self.0
    }

    fn eat(&mut self, token: &str) -> bool {
        let rest = self.skip().strip_prefix(token);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn expect(&mut self, token: &str) -> std::result::Result<(), String> {
        if self.eat(token) { Ok(()) } else { Err(format!("'{token}' is missing")) }
    }

    fn string(&mut self) -> std::result::Result<&'a str, String> {
        for quote in ['\'', '"'] {
            if let Some(rest) = self.skip().strip_prefix(quote) {
                let (text, rest) = rest.split_once(quote).ok_or("a string does not end")?;
                self.0 = rest;
                return Ok(text);
            }
        }
        Err("a string is missing".into())
    }

    fn number(&mut self) -> std::result::Result<usize, String> {
        let rest = self.skip();
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let n = rest[..end].parse().map_err(|_| "a dimension is not a non-negative integer".to_string())?;
        self.0 = &rest[end..];
        // Python 2 wrote long integers with a suffix.
        self.eat("L");
        Ok(n)
    }

    fn shape(&mut self) -> std::result::Result<Vec<usize>, String> {
        self.expect("(")?;
        let mut out = Vec::new();
        while !self.eat(")") {
            out.push(self.number()?);
            if !self.eat(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(out)
    }
}

/// Reads the dict; the error is the reason alone.
pub(super) fn parse(text: &str) -> std::result::Result<Header, String> {
    let mut s = Scan(text);
    let (mut descr, mut fortran, mut shape) = (None, None, None);
    s.expect("{")?;
    while !s.eat("}") {
        let key = s.string()?;
        s.expect(":")?;
        let fresh = match key {
            "descr" if s.skip().starts_with('[') => {
                return Err("structured element types are not supported".into());
            }
            "descr" => descr.replace(s.string()?.to_string()).is_none(),
            "fortran_order" if s.eat("True") => fortran.replace(true).is_none(),
            "fortran_order" => {
                s.expect("False")?;
                fortran.replace(false).is_none()
            }
            "shape" => shape.replace(s.shape()?).is_none(),
            other => return Err(format!("unknown key '{}'", crate::io::shown(other))),
        };
        if !fresh {
            return Err(format!("the key {key} stands twice"));
        }
        if !s.eat(",") {
            s.expect("}")?;
            break;
        }
    }
    if !s.skip().is_empty() {
        return Err("text follows the closing brace".into());
    }
    Ok(Header {
        descr: descr.ok_or("descr is missing")?,
        fortran: fortran.ok_or("fortran_order is missing")?,
        shape: shape.ok_or("shape is missing")?,
    })
}
