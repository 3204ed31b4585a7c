//! Trees: arguments and results of compiled functions, flattened into words and leaves.

use crate::array::{Array, Inputs};
use crate::error::Result;
use crate::number::Number;
use crate::scalar::Scalar;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

/// What kind of container opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Container {
    Tuple,
    List,
    Map,
    Some,
    Struct,
    /// Positional arguments, named arguments, captured state.
    Args,
    Kwargs,
    State,
}

const CONTAINERS: [Container; 8] = {
    use Container::*;
    [Tuple, List, Map, Some, Struct, Args, Kwargs, State]
};

/// A static value. It carries its type, so that 1, 1.0, true and "1" are four.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Token<'a> {
    None,
    Bool(bool),
    Int(i64),
    /// Bits of a float; NaNs are one.
    Float(u64),
    Str(&'a str),
}

/// What a word of a tree's form says, in its low byte.
mod form {
    /// A container; its kind in the second byte, then how many children follow.
    pub const OPEN: u64 = 0;
    /// The name of the next child: its length, and its bytes in the words after it.
    pub const KEY: u64 = 1;
    pub const ARRAY: u64 = 2;
    /// A scalar and its kind.
    pub const SCALAR: u64 = 3;
    /// Static values; what they are is apart from the form.
    pub const NONE: u64 = 4;
    pub const BOOL: u64 = 5;
    pub const INT: u64 = 6;
    pub const FLOAT: u64 = 7;
    pub const STR: u64 = 8;
}

pub(crate) type Words = SmallVec<[u64; 16]>;

/// A flattened tree, on the stack for trees of usual size.
///
/// A container says how many children follow and a text how long it is, so no two trees have the same
/// words: comparing two trees is comparing two slices.
#[derive(Debug, Default)]
pub struct Leaves<'a> {
    /// The structure.
    pub(crate) form: Words,
    /// The static values, in the order in which the form names them.
    pub(crate) fixed: Words,
    /// Whether there is a static value other than none and bools.
    pub(crate) constant: bool,
    pub(crate) arrays: SmallVec<[Cow<'a, Array>; 8]>,
    pub(crate) scalars: SmallVec<[Number; 4]>,
    pub(crate) failed: Option<crate::Error>,
}

/// Appends the bytes of a text, the last word filled up with zeros.
fn text(words: &mut Words, s: &str) {
    for chunk in s.as_bytes().chunks(8) {
        let mut bytes = [0; 8];
        bytes[..chunk.len()].copy_from_slice(chunk);
        words.push(u64::from_ne_bytes(bytes));
    }
}

impl<'a> Leaves<'a> {
    #[inline]
    pub fn new() -> Self {
        Leaves::default()
    }

    /// Opens a container of `n` children.
    #[inline]
    pub fn open(&mut self, container: Container, n: usize) {
        self.form.push(form::OPEN | (container as u64) << 8 | (n as u64) << 16);
    }

    /// Names the next child.
    pub fn key(&mut self, name: &str) {
        self.form.push(form::KEY | (name.len() as u64) << 8);
        text(&mut self.form, name);
    }

    #[inline]
    pub fn array(&mut self, a: Array) {
        self.form.push(form::ARRAY);
        self.arrays.push(Cow::Owned(a));
    }

    /// [`Leaves::array`] without counting a reference.
    #[inline]
    pub fn borrow(&mut self, a: &'a Array) {
        self.form.push(form::ARRAY);
        self.arrays.push(Cow::Borrowed(a));
    }

    /// Gives the arrays up.
    pub(crate) fn take_arrays(&mut self, out: &mut Inputs) {
        out.extend(self.arrays.drain(..).map(Cow::into_owned));
    }

    /// A scalar that may become symbolic. A bool is part of the key.
    pub fn scalar(&mut self, s: &Scalar) {
        match s.value("argument of a compiled function") {
            Ok(Number::Bool(b)) => self.fixed(Token::Bool(b)),
            Ok(n) => self.number(n),
            Err(e) => self.failed = Some(e),
        }
    }

    /// A number that may become symbolic.
    #[inline]
    pub fn number(&mut self, n: Number) {
        self.form.push(form::SCALAR | (n.kind() as u64) << 8);
        self.scalars.push(n);
    }

    /// A value that is part of the key.
    pub fn fixed(&mut self, t: Token<'_>) {
        let tag = match t {
            Token::None => form::NONE,
            Token::Bool(b) => {
                self.fixed.push(b as u64);
                form::BOOL
            }
            Token::Int(i) => {
                self.fixed.push(i as u64);
                form::INT
            }
            Token::Float(bits) => {
                self.fixed.push(bits);
                form::FLOAT
            }
            Token::Str(s) => {
                self.fixed.push(s.len() as u64);
                text(&mut self.fixed, s);
                form::STR
            }
        };
        self.form.push(tag);
        self.constant |= matches!(t, Token::Int(_) | Token::Float(_) | Token::Str(_));
    }
}

/// Replaces the leaves of a tree, in order.
pub trait Leaf {
    fn array(&mut self, a: &Array) -> Result<Array>;
    fn scalar(&mut self, s: &Scalar) -> Result<Scalar>;
}

/// An argument or result of a compiled function: arrays and scalars in tuples, vectors, maps, options
/// and structs (see [`crate::tree!`]).
///
/// Arrays are known to the compiled function by shape and dtype. A [`Scalar`] may become symbolic.
/// `i64`, `f64`, `bool` and strings are static: each value is traced by itself.
pub trait Tree: Sized {
    /// Appends tokens and leaves.
    fn flatten<'a>(&'a self, out: &mut Leaves<'a>);
    /// The same tree with other leaves, asked for in the order of `flatten`.
    fn map(&self, with: &mut dyn Leaf) -> Result<Self>;
    /// Gives the arrays up, in the order of `flatten`. Moving them out, as all trees here do, saves a
    /// call the counting of references.
    fn take_arrays(self, out: &mut Inputs) {
        let mut leaves = Leaves::new();
        self.flatten(&mut leaves);
        out.extend(leaves.arrays.into_iter().map(Cow::into_owned));
    }
}

impl Tree for Array {
    #[inline]
    fn flatten<'a>(&'a self, out: &mut Leaves<'a>) {
        out.borrow(self);
    }
    #[inline]
    fn take_arrays(self, out: &mut Inputs) {
        out.push(self);
    }
    fn map(&self, with: &mut dyn Leaf) -> Result<Self> {
        with.array(self)
    }
}

impl Tree for Scalar {
    fn flatten<'a>(&'a self, out: &mut Leaves<'a>) {
        out.scalar(self);
    }
    fn map(&self, with: &mut dyn Leaf) -> Result<Self> {
        with.scalar(self)
    }
    #[inline]
    fn take_arrays(self, _: &mut Inputs) {}
}

macro_rules! fixed {
    ($($t:ty: |$x:ident| $token:expr),* $(,)?) => { $(
        impl Tree for $t {
            fn flatten<'a>(&'a self, out: &mut Leaves<'a>) {
                let $x = self;
                out.fixed($token);
            }
            fn map(&self, _: &mut dyn Leaf) -> Result<Self> {
                Ok(self.clone())
            }
            fn take_arrays(self, _: &mut Inputs) {}
        }
    )* };
}
fixed! {
    (): |_x| Token::None,
    bool: |x| Token::Bool(*x),
    i32: |x| Token::Int(*x as i64),
    i64: |x| Token::Int(*x),
    usize: |x| Token::Int(*x as i64),
    f32: |x| Token::Float(Number::Float(*x as f64).bits()),
    f64: |x| Token::Float(Number::Float(*x).bits()),
    String: |x| Token::Str(x),
    &'static str: |x| Token::Str(x),
}

impl<T: Tree> Tree for Option<T> {
    fn flatten<'a>(&'a self, out: &mut Leaves<'a>) {
        match self {
            None => out.fixed(Token::None),
            Some(x) => {
                out.open(Container::Some, 1);
                x.flatten(out);
            }
        }
    }
    fn map(&self, with: &mut dyn Leaf) -> Result<Self> {
        self.as_ref().map(|x| x.map(with)).transpose()
    }
    fn take_arrays(self, out: &mut Inputs) {
        self.into_iter().for_each(|x| x.take_arrays(out));
    }
}

impl<T: Tree> Tree for Vec<T> {
    fn flatten<'a>(&'a self, out: &mut Leaves<'a>) {
        out.open(Container::List, self.len());
        self.iter().for_each(|x| x.flatten(out));
    }
    fn map(&self, with: &mut dyn Leaf) -> Result<Self> {
        self.iter().map(|x| x.map(with)).collect()
    }
    fn take_arrays(self, out: &mut Inputs) {
        self.into_iter().for_each(|x| x.take_arrays(out));
    }
}

impl<T: Tree> Tree for Box<T> {
    fn flatten<'a>(&'a self, out: &mut Leaves<'a>) {
        (**self).flatten(out);
    }
    fn map(&self, with: &mut dyn Leaf) -> Result<Self> {
        (**self).map(with).map(Box::new)
    }
    fn take_arrays(self, out: &mut Inputs) {
        (*self).take_arrays(out);
    }
}

impl<T: Tree> Tree for BTreeMap<String, T> {
    fn flatten<'a>(&'a self, out: &mut Leaves<'a>) {
        out.open(Container::Map, self.len());
        for (k, v) in self {
            out.key(k);
            v.flatten(out);
        }
    }
    fn map(&self, with: &mut dyn Leaf) -> Result<Self> {
        self.iter().map(|(k, v)| Ok((k.clone(), v.map(with)?))).collect()
    }
    fn take_arrays(self, out: &mut Inputs) {
        self.into_values().for_each(|x| x.take_arrays(out));
    }
}

impl<T: Tree> Tree for HashMap<String, T> {
    fn flatten<'a>(&'a self, out: &mut Leaves<'a>) {
        out.open(Container::Map, self.len());
        let mut keys: Vec<_> = self.keys().collect();
        keys.sort_unstable();
        for k in keys {
            out.key(k);
            self[k].flatten(out);
        }
    }
    fn map(&self, with: &mut dyn Leaf) -> Result<Self> {
        let mut keys: Vec<_> = self.keys().collect();
        keys.sort_unstable();
        keys.into_iter().map(|k| Ok((k.clone(), self[k].map(with)?))).collect()
    }
}

macro_rules! tuples {
    ($(($($T:ident $i:tt),+) $n:literal;)*) => { $(
        impl<$($T: Tree),+> Tree for ($($T,)+) {
            fn flatten<'a>(&'a self, out: &mut Leaves<'a>) {
                out.open(Container::Tuple, $n);
                $(self.$i.flatten(out);)+
            }
            fn map(&self, with: &mut dyn Leaf) -> Result<Self> {
                Ok(($(self.$i.map(with)?,)+))
            }
            #[inline]
            fn take_arrays(self, out: &mut Inputs) {
                $(self.$i.take_arrays(out);)+
            }
        }
    )* };
}
tuples! {
    (A 0) 1;
    (A 0, B 1) 2;
    (A 0, B 1, C 2) 3;
    (A 0, B 1, C 2, D 3) 4;
    (A 0, B 1, C 2, D 3, E 4) 5;
    (A 0, B 1, C 2, D 3, E 4, F 5) 6;
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6) 7;
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7) 8;
}

/// Makes a struct a [`crate::compile::Tree`] by listing its fields.
///
/// ```
/// use isopace_core::{Array, Scalar};
/// struct State { keys: Array, offset: Scalar }
/// isopace_core::tree!(State { keys, offset });
/// ```
#[macro_export]
macro_rules! tree {
    ($T:ident { $($field:ident),* $(,)? }) => {
        impl $crate::compile::Tree for $T {
            fn flatten<'a>(&'a self, out: &mut $crate::compile::Leaves<'a>) {
                out.open($crate::compile::Container::Struct, [$(stringify!($field)),*].len());
                $(
                    out.key(stringify!($field));
                    $crate::compile::Tree::flatten(&self.$field, out);
                )*
            }
            fn map(&self, with: &mut dyn $crate::compile::Leaf) -> $crate::Result<Self> {
                Ok($T { $($field: $crate::compile::Tree::map(&self.$field, with)?),* })
            }
            fn take_arrays(self, out: &mut $crate::compile::Inputs) {
                let $T { $($field),* } = self;
                $($crate::compile::Tree::take_arrays($field, out);)*
            }
        }
    };
}

/// Paths of the scalar leaves, such as `args[1].offset`, for messages.
pub(crate) fn scalar_paths(form: &[u64]) -> Vec<String> {
    let mut out = Vec::new();
    walk(&mut &form[..], &mut String::new(), &mut out);
    out
}

fn walk(words: &mut &[u64], path: &mut String, out: &mut Vec<String>) {
    let Some((&word, rest)) = words.split_first() else { return };
    *words = rest;
    match word & 0xff {
        form::SCALAR => out.push(if path.is_empty() { "args".into() } else { path.clone() }),
        form::OPEN => {
            let kind = CONTAINERS[(word >> 8) as usize & 7];
            for i in 0..word >> 16 {
                let len = path.len();
                if let Some(k) = key(words) {
                    match kind {
                        Container::Kwargs => path.push_str(k),
                        Container::Struct => drop(write!(path, ".{k}")),
                        _ => drop(write!(path, "[{k:?}]")),
                    }
                } else {
                    match kind {
                        Container::Args if path.is_empty() => drop(write!(path, "args[{i}]")),
                        Container::Tuple if path.is_empty() => drop(write!(path, "args[{i}]")),
                        Container::Args | Container::Kwargs | Container::Some => {}
                        Container::State => path.push_str("captured state"),
                        _ => drop(write!(path, "[{i}]")),
                    }
                }
                walk(words, path, out);
                path.truncate(len);
            }
        }
        _ => {}
    }
}

/// The name that stands next, if one does.
fn key<'a>(words: &mut &'a [u64]) -> Option<&'a str> {
    let (&word, rest) = words.split_first()?;
    if word & 0xff != form::KEY {
        return None;
    }
    let len = (word >> 8) as usize;
    let (text, rest) = rest.split_at_checked(len.div_ceil(8))?;
    *words = rest;
    std::str::from_utf8(bytemuck::cast_slice::<u64, u8>(text).get(..len)?).ok()
}
