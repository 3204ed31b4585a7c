//! Metadata values and their typed getters.

use std::collections::HashMap;

use isopace_core::{Result, err};

use crate::io::shown;

macro_rules! value_types {
    ($($variant:ident $ty:ty, $code:literal, $name:literal;)*) => {
        /// One metadata value.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs)]
        pub enum Value { $($variant($ty),)* Array(Values) }

        /// A metadata array: values of one type.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs)]
        pub enum Values { $($variant(Vec<$ty>),)* Array(Vec<Values>) }

        impl Value {
            /// The number of this value's type in the file.
            pub(super) fn code(&self) -> u32 {
                match self { $(Value::$variant(_) => $code,)* Value::Array(_) => ARRAY }
            }

            fn type_name(&self) -> &'static str {
                match self { $(Value::$variant(_) => $name,)* Value::Array(v) => v.type_name() }
            }
        }

        impl Values {
            /// The number of the elements' type in the file.
            pub(super) fn code(&self) -> u32 {
                match self { $(Values::$variant(_) => $code,)* Values::Array(_) => ARRAY }
            }

            /// Number of elements.
            pub fn len(&self) -> usize {
                match self { $(Values::$variant(v) => v.len(),)* Values::Array(v) => v.len() }
            }

            /// True when there are no elements.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            fn type_name(&self) -> &'static str {
                match self {
                    $(Values::$variant(_) => concat!("array of ", $name),)*
                    Values::Array(_) => "array of arrays",
                }
            }
        }

        $(impl From<$ty> for Value { fn from(v: $ty) -> Value { Value::$variant(v) } })*
        $(impl From<Vec<$ty>> for Value { fn from(v: Vec<$ty>) -> Value { Value::Array(Values::$variant(v)) } })*
    };
}

/// The type number of an array.
pub(super) const ARRAY: u32 = 9;

value_types! {
    U8 u8, 0, "uint8";
    I8 i8, 1, "int8";
    U16 u16, 2, "uint16";
    I16 i16, 3, "int16";
    U32 u32, 4, "uint32";
    I32 i32, 5, "int32";
    F32 f32, 6, "float32";
    Bool bool, 7, "bool";
    String String, 8, "string";
    U64 u64, 10, "uint64";
    I64 i64, 11, "int64";
    F64 f64, 12, "float64";
}

impl From<&str> for Value {
    fn from(v: &str) -> Value {
        Value::String(v.to_string())
    }
}

impl Value {
    /// Any integer type, widened.
    pub fn as_int(&self) -> Option<i128> {
        Some(match self {
            Value::U8(v) => (*v).into(),
            Value::I8(v) => (*v).into(),
            Value::U16(v) => (*v).into(),
            Value::I16(v) => (*v).into(),
            Value::U32(v) => (*v).into(),
            Value::I32(v) => (*v).into(),
            Value::U64(v) => (*v).into(),
            Value::I64(v) => (*v).into(),
            _ => return None,
        })
    }

    /// Either floating type or an integer, as float64.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Value::F32(v) => Some((*v).into()),
            Value::F64(v) => Some(*v),
            other => other.as_int().map(|v| v as f64),
        }
    }

    /// The value as a short piece of a line: long text and long arrays are cut.
    pub fn summary(&self) -> String {
        match self {
            Value::String(s) => format!("\"{}\"", shown(s)),
            Value::Array(v) => format!("{}, {} elements", v.type_name(), v.len()),
            Value::Bool(v) => v.to_string(),
            Value::F32(v) => v.to_string(),
            Value::F64(v) => v.to_string(),
            other => other.as_int().unwrap_or_default().to_string(),
        }
    }
}

/// The metadata of a file: keys and values in file order.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    file: String,
    entries: Vec<(String, Value)>,
    by_key: HashMap<String, usize>,
}

impl Metadata {
    /// Metadata without entries, for the file of this name.
    pub fn new(file: &str) -> Metadata {
        Metadata { file: shown(file), ..Metadata::default() }
    }

    /// Adds an entry; false when the key is there already.
    pub fn insert(&mut self, key: String, value: Value) -> bool {
        if self.by_key.contains_key(&key) {
            return false;
        }
        self.by_key.insert(key.clone(), self.entries.len());
        self.entries.push((key, value));
        true
    }

    /// The name of the file, as errors show it.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Every entry in file order.
    pub fn entries(&self) -> &[(String, Value)] {
        &self.entries
    }

    /// The value of a key, if it is there.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.by_key.get(key).map(|i| &self.entries[*i].1)
    }

    fn find<'a, T>(
        &'a self,
        key: &str,
        wanted: &str,
        take: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        take(value).map(Some).ok_or_else(|| {
            let (ty, value) = (value.type_name(), value.summary());
            let found = if value.starts_with("array") { value } else { format!("{ty} {value}") };
            err!(Format, "[gguf] {}: {key} is {found}, where {wanted} is needed", self.file)
        })
    }

    fn need<T>(&self, key: &str, wanted: &str, found: Option<T>) -> Result<T> {
        found.ok_or_else(|| {
            err!(Format, "[gguf] {}: metadata has no {key}, where {wanted} is needed", self.file)
        })
    }
}

macro_rules! getters {
    ($($get:ident $opt:ident $ty:ty, $wanted:literal, $take:expr;)*) => {
        impl Metadata {
            $(
                #[doc = concat!("The value of a key that must be ", $wanted, ".")]
                ///
                /// # Errors
                /// `Format` when the key is absent or its value is something else.
                pub fn $get(&self, key: &str) -> Result<$ty> {
                    let found = self.$opt(key)?;
                    self.need(key, $wanted, found)
                }

                #[doc = concat!("The value of a key that must be ", $wanted, " if it is there.")]
                ///
                /// # Errors
                /// `Format` when the value is something else.
                pub fn $opt(&self, key: &str) -> Result<Option<$ty>> {
                    let take: fn(&Value) -> Option<$ty> = $take;
                    self.find(key, $wanted, take)
                }
            )*
        }
    };
}

getters! {
    str opt_str &str, "a string", |v| match v { Value::String(s) => Some(s), _ => None };
    bool opt_bool bool, "a bool", |v| match v { Value::Bool(b) => Some(*b), _ => None };
    usize opt_usize usize, "a non-negative integer", |v| v.as_int()?.try_into().ok();
    u32 opt_u32 u32, "an integer from 0 to 4294967295", |v| v.as_int()?.try_into().ok();
    float opt_float f64, "a number", |v| v.as_float();
    strings opt_strings &[String], "an array of strings",
        |v| match v { Value::Array(Values::String(s)) => Some(s), _ => None };
    floats opt_floats &[f32], "an array of float32",
        |v| match v { Value::Array(Values::F32(s)) => Some(s), _ => None };
    ints opt_ints Vec<i64>, "an array of integers", |v| match v {
        Value::Array(Values::U8(v)) => Some(v.iter().map(|x| (*x).into()).collect()),
        Value::Array(Values::I8(v)) => Some(v.iter().map(|x| (*x).into()).collect()),
        Value::Array(Values::U16(v)) => Some(v.iter().map(|x| (*x).into()).collect()),
        Value::Array(Values::I16(v)) => Some(v.iter().map(|x| (*x).into()).collect()),
        Value::Array(Values::U32(v)) => Some(v.iter().map(|x| (*x).into()).collect()),
        Value::Array(Values::I32(v)) => Some(v.iter().map(|x| (*x).into()).collect()),
        Value::Array(Values::U64(v)) => v.iter().map(|x| (*x).try_into().ok()).collect(),
        Value::Array(Values::I64(v)) => Some(v.clone()),
        _ => None,
    };
}
