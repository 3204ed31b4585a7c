//! The functions of the module, a chapter a file. Where the shape is regular a table makes them.

mod creation;
mod elementwise;
mod fft;
mod join;
mod linalg;
pub(crate) mod nn;
mod quant;
mod reduce;
mod shape;

pub(crate) use elementwise::{binary, comparable, compare};
pub(crate) use shape::{split_parts, spread};

use pyo3::prelude::*;

/// Adds functions to a module.
macro_rules! add {
    ($m:ident: $($f:ident)*) => { $( $m.add_function(pyo3::wrap_pyfunction!($f, $m)?)?; )* };
}
pub(crate) use add;

/// Other names of functions.
fn aliases(m: &Bound<'_, PyModule>) -> PyResult<()> {
    for (alias, name) in [
        ("acos", "arccos"),
        ("acosh", "arccosh"),
        ("asin", "arcsin"),
        ("asinh", "arcsinh"),
        ("atan", "arctan"),
        ("atan2", "arctan2"),
        ("atanh", "arctanh"),
        ("bitwise_left_shift", "left_shift"),
        ("bitwise_right_shift", "right_shift"),
        ("concat", "concatenate"),
        ("conj", "conjugate"),
        ("cumulative_prod", "cumprod"),
        ("cumulative_sum", "cumsum"),
        ("permute_dims", "transpose"),
        ("pow", "power"),
    ] {
        m.add(alias, m.getattr(name)?)?;
    }
    Ok(())
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    elementwise::register(m)?;
    creation::register(m)?;
    shape::register(m)?;
    join::register(m)?;
    reduce::register(m)?;
    linalg::register(m)?;
    fft::register(m)?;
    quant::register(m)?;
    nn::register(m)?;
    aliases(m)
}
