//! Trees: arguments and results of compiled functions, flattened into tokens and leaves.

use crate::array::Array;
use crate::error::Result;
use crate::number::{Number, NumberKind};
use crate::scalar::Scalar;
use smallvec::SmallVec;
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

/// One step of a flattened tree. A container says how many children follow, so no two trees
/// flatten alike; static values carry their type and bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Token<'a> {
    Open(Container, u32),
    /// The name of the next child.
    Key(&'a str),
    Array,
    Scalar(NumberKind),
    None,
    Bool(bool),
    Int(i64),
    /// Bits of a float; NaNs are one.
    Float(u64),
    Str(&'a str),
}

/// An owned [`Token`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OwnedToken {
    Plain(Token<'static>),
    Key(Box<str>),
    Str(Box<str>),
}

impl OwnedToken {
    pub(crate) fn new(t: Token<'_>) -> OwnedToken {
        match t {
            Token::Key(s) => OwnedToken::Key(s.into()),
            Token::Str(s) => OwnedToken::Str(s.into()),
            Token::Open(c, n) => OwnedToken::Plain(Token::Open(c, n)),
            Token::Array => OwnedToken::Plain(Token::Array),
            Token::Scalar(k) => OwnedToken::Plain(Token::Scalar(k)),
            Token::None => OwnedToken::Plain(Token::None),
            Token::Bool(b) => OwnedToken::Plain(Token::Bool(b)),
            Token::Int(i) => OwnedToken::Plain(Token::Int(i)),
            Token::Float(f) => OwnedToken::Plain(Token::Float(f)),
        }
    }

    #[inline]
    pub(crate) fn is(&self, t: &Token<'_>) -> bool {
        match (self, t) {
            (OwnedToken::Key(a), Token::Key(b)) | (OwnedToken::Str(a), Token::Str(b)) => **a == **b,
            (OwnedToken::Plain(a), b) => a == b,
            _ => false,
        }
    }
}

/// A flattened tree, on the stack for trees of usual size.
#[derive(Debug, Default)]
pub struct Leaves<'a> {
    pub(crate) tokens: SmallVec<[Token<'a>; 16]>,
    pub(crate) arrays: SmallVec<[Array; 8]>,
    pub(crate) scalars: SmallVec<[Number; 4]>,
    pub(crate) failed: Option<crate::Error>,
}

impl<'a> Leaves<'a> {
    pub fn new() -> Self {
        Leaves::default()
    }

    /// Opens a container of `n` children.
    pub fn open(&mut self, container: Container, n: usize) {
        self.tokens.push(Token::Open(container, n as u32));
    }

    /// Names the next child.
    pub fn key(&mut self, name: &'a str) {
        self.tokens.push(Token::Key(name));
    }

    pub fn array(&mut self, a: Array) {
        self.tokens.push(Token::Array);
        self.arrays.push(a);
    }

    /// A scalar that may become symbolic. A bool is part of the key.
    pub fn scalar(&mut self, s: &Scalar) {
        match s.value("argument of a compiled function") {
            Ok(Number::Bool(b)) => self.tokens.push(Token::Bool(b)),
            Ok(n) => self.number(n),
            Err(e) => self.failed = Some(e),
        }
    }

    /// A number that may become symbolic.
    pub fn number(&mut self, n: Number) {
        self.tokens.push(Token::Scalar(n.kind()));
        self.scalars.push(n);
    }

    /// A value that is part of the key.
    pub fn fixed(&mut self, t: Token<'a>) {
        self.tokens.push(t);
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
}

impl Tree for Array {
    fn flatten<'a>(&'a self, out: &mut Leaves<'a>) {
        out.array(self.clone());
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
}

impl<T: Tree> Tree for Vec<T> {
    fn flatten<'a>(&'a self, out: &mut Leaves<'a>) {
        out.open(Container::List, self.len());
        self.iter().for_each(|x| x.flatten(out));
    }
    fn map(&self, with: &mut dyn Leaf) -> Result<Self> {
        self.iter().map(|x| x.map(with)).collect()
    }
}

impl<T: Tree> Tree for Box<T> {
    fn flatten<'a>(&'a self, out: &mut Leaves<'a>) {
        (**self).flatten(out);
    }
    fn map(&self, with: &mut dyn Leaf) -> Result<Self> {
        (**self).map(with).map(Box::new)
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
        }
    };
}

/// Paths of the scalar leaves, such as `args[1].offset`, for messages.
pub(crate) fn scalar_paths(tokens: &[Token<'_>]) -> Vec<String> {
    let mut out = Vec::new();
    let mut at = 0;
    walk(tokens, &mut at, &mut String::new(), &mut out);
    out
}

fn walk(tokens: &[Token<'_>], at: &mut usize, path: &mut String, out: &mut Vec<String>) {
    let Some(&t) = tokens.get(*at) else { return };
    *at += 1;
    match t {
        Token::Scalar(_) => out.push(if path.is_empty() { "args".into() } else { path.clone() }),
        Token::Open(kind, n) => {
            for i in 0..n {
                let len = path.len();
                if let Some(&Token::Key(k)) = tokens.get(*at) {
                    *at += 1;
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
                walk(tokens, at, path, out);
                path.truncate(len);
            }
        }
        _ => {}
    }
}
