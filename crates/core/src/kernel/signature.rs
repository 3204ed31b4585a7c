//! A kernel function: its names, its text, and what the text asks for.

use std::sync::Arc;

use parking_lot::Mutex;

use super::lexer::{self, Kind, Token};
use super::specialization::{Cache, KernelStats};
use crate::{Result, bail};

/// The language a kernel is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// The Metal shading language, as MLX programs use it.
    Metal,
    /// CUDA C++.
    Cuda,
}

impl Dialect {
    /// The function that makes kernels of this dialect, for error texts.
    pub const fn maker(self) -> &'static str {
        match self {
            Dialect::Metal => "metal_kernel",
            Dialect::Cuda => "cuda_kernel",
        }
    }
}

/// How the threads of a threadgroup must run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Threads know nothing of their threadgroup: neighbouring threadgroups run as one loop.
    Flat,
    /// Threads know their place in the threadgroup but never wait for each other.
    Grouped,
    /// Threads wait for each other: barriers, simdgroup functions, threadgroup memory.
    Cooperative,
}

/// A thread attribute that a body may name without declaring it.
#[derive(Clone, Copy, Debug)]
pub struct Attribute {
    /// The name in Metal.
    pub name: &'static str,
    /// `uint` or `uint3`.
    pub ty: &'static str,
    /// True when its value does not depend on how the grid is cut into threadgroups.
    pub flat: bool,
}

const fn attr(name: &'static str, ty: &'static str, flat: bool) -> Attribute {
    Attribute { name, ty, flat }
}

/// Every thread attribute of the dialect.
pub const ATTRIBUTES: [Attribute; 20] = [
    attr("dispatch_quadgroups_per_threadgroup", "uint", false),
    attr("dispatch_simdgroups_per_threadgroup", "uint", false),
    attr("dispatch_threads_per_threadgroup", "uint3", true),
    attr("grid_origin", "uint3", true),
    attr("grid_size", "uint3", true),
    attr("quadgroup_index_in_threadgroup", "uint", false),
    attr("quadgroups_per_threadgroup", "uint", false),
    attr("simdgroup_index_in_threadgroup", "uint", false),
    attr("simdgroups_per_threadgroup", "uint", false),
    attr("thread_execution_width", "uint", true),
    attr("thread_index_in_quadgroup", "uint", false),
    attr("thread_index_in_simdgroup", "uint", false),
    attr("thread_index_in_threadgroup", "uint", false),
    attr("thread_position_in_grid", "uint3", true),
    attr("thread_position_in_threadgroup", "uint3", false),
    attr("threadgroup_position_in_grid", "uint3", false),
    attr("threadgroups_per_grid", "uint3", true),
    attr("threads_per_grid", "uint3", true),
    attr("threads_per_simdgroup", "uint", true),
    attr("threads_per_threadgroup", "uint3", false),
];

/// Words after which threads wait for each other.
const COOPERATION: &[&str] = &[
    "threadgroup_barrier",
    "simdgroup_barrier",
    "threadgroup",
    "simd_active_threads_mask",
    "simd_all",
    "simd_and",
    "simd_any",
    "simd_ballot",
    "simd_broadcast",
    "simd_broadcast_first",
    "simd_is_first",
    "simd_max",
    "simd_min",
    "simd_or",
    "simd_prefix_exclusive_product",
    "simd_prefix_exclusive_sum",
    "simd_prefix_inclusive_product",
    "simd_prefix_inclusive_sum",
    "simd_product",
    "simd_shuffle",
    "simd_shuffle_and_fill_down",
    "simd_shuffle_and_fill_up",
    "simd_shuffle_down",
    "simd_shuffle_rotate_down",
    "simd_shuffle_rotate_up",
    "simd_shuffle_up",
    "simd_shuffle_xor",
    "simd_sum",
    "simd_xor",
    "quad_active_threads_mask",
    "quad_all",
    "quad_and",
    "quad_any",
    "quad_ballot",
    "quad_broadcast",
    "quad_broadcast_first",
    "quad_is_first",
    "quad_max",
    "quad_min",
    "quad_or",
    "quad_prefix_exclusive_product",
    "quad_prefix_exclusive_sum",
    "quad_prefix_inclusive_product",
    "quad_prefix_inclusive_sum",
    "quad_product",
    "quad_shuffle",
    "quad_shuffle_and_fill_down",
    "quad_shuffle_and_fill_up",
    "quad_shuffle_down",
    "quad_shuffle_rotate_down",
    "quad_shuffle_rotate_up",
    "quad_shuffle_up",
    "quad_shuffle_xor",
    "quad_sum",
    "quad_xor",
];

/// Words that no input, output or template argument may have as its name.
const RESERVED: &[&str] = &[
    "alignas",
    "alignof",
    "and",
    "asm",
    "auto",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "class",
    "const",
    "const_cast",
    "constexpr",
    "continue",
    "decltype",
    "default",
    "delete",
    "do",
    "double",
    "dynamic_cast",
    "else",
    "enum",
    "explicit",
    "export",
    "extern",
    "false",
    "float",
    "for",
    "friend",
    "goto",
    "if",
    "inline",
    "int",
    "long",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "nullptr",
    "operator",
    "or",
    "private",
    "protected",
    "public",
    "register",
    "reinterpret_cast",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "static_assert",
    "static_cast",
    "struct",
    "switch",
    "template",
    "this",
    "thread_local",
    "throw",
    "true",
    "try",
    "typedef",
    "typeid",
    "typename",
    "union",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "wchar_t",
    "while",
    "xor",
    "kernel",
    "device",
    "constant",
    "threadgroup",
    "thread",
    "half",
    "bfloat",
    "uint",
    "uchar",
    "ushort",
    "ulong",
    "size_t",
    "metal",
    "INFINITY",
    "NAN",
    "main",
];

/// The parts that a kernel function is made of, as the user gives them.
#[derive(Clone, Debug)]
pub struct KernelText<'a> {
    /// A word of letters, digits and `_`; errors carry it.
    pub name: &'a str,
    pub input_names: &'a [&'a str],
    pub output_names: &'a [&'a str],
    /// The body of the function.
    pub source: &'a str,
    /// Text before the function.
    pub header: &'a str,
    /// Inputs are made row-contiguous before the kernel runs.
    pub ensure_row_contiguous: bool,
    /// Outputs are declared `device atomic<T>*`.
    pub atomic_outputs: bool,
    /// Names of the inputs that the kernel writes in place.
    pub mutable_inputs: &'a [&'a str],
    pub dialect: Dialect,
    /// Specializations kept; the least recently used goes first.
    pub max_specializations: usize,
}

impl Default for KernelText<'_> {
    fn default() -> Self {
        KernelText {
            name: "",
            input_names: &[],
            output_names: &[],
            source: "",
            header: "",
            ensure_row_contiguous: true,
            atomic_outputs: false,
            mutable_inputs: &[],
            dialect: Dialect::Metal,
            max_specializations: super::DEFAULT_SPECIALIZATIONS,
        }
    }
}

/// What a body asks for beside the input itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mentions {
    pub shape: bool,
    pub strides: bool,
    pub ndim: bool,
}

/// An input as the kernel declares it.
#[derive(Clone, Debug)]
pub(super) struct Input {
    pub name: Box<str>,
    pub mutable: bool,
    pub mentions: Mentions,
}

/// A user's kernel: its text, scanned once, and its bounded cache of specializations.
#[derive(Debug)]
pub struct KernelFunction {
    pub(super) name: Arc<str>,
    pub(super) inputs: Arc<[Input]>,
    pub(super) outputs: Box<[Box<str>]>,
    pub(super) body: Box<str>,
    pub(super) header: Box<str>,
    pub(super) dialect: Dialect,
    pub(super) atomic_outputs: bool,
    /// Bit i is set when the body names `ATTRIBUTES[i]`.
    pub(super) attributes: u32,
    pub(super) mode: Mode,
    pub(super) cache: Mutex<Cache>,
    pub(super) ensure_row_contiguous: bool,
}

impl KernelFunction {
    /// Checks the names and scans the text; compiles nothing.
    ///
    /// ```
    /// use isopace_core::kernel::{KernelFunction, KernelText, Mode};
    /// let k = KernelFunction::new(&KernelText {
    ///     name: "double",
    ///     input_names: &["a"],
    ///     output_names: &["out"],
    ///     source: "uint i = thread_position_in_grid.x; out[i] = a[i] + a[i];",
    ///     ..Default::default()
    /// }).unwrap();
    /// assert_eq!(k.mode(), Mode::Flat);
    /// ```
    ///
    /// # Errors
    /// `Kernel` for a name that is no identifier, is reserved, is used twice, or is an unknown
    /// mutable input; for a kernel without outputs (mutable inputs count); for a zero bound.
    pub fn new(text: &KernelText<'_>) -> Result<KernelFunction> {
        let (maker, name) = (text.dialect.maker(), text.name);
        if name.is_empty()
            || name.len() > 256
            || !name.bytes().all(|c| c == b'_' || c.is_ascii_alphanumeric())
        {
            bail!(Kernel, "[{maker} {name:?}] the name must be 1 to 256 letters, digits and '_'");
        }
        if text.output_names.is_empty() && text.mutable_inputs.is_empty() {
            bail!(Kernel, "[{maker} {name}] has no outputs: give output_names or mutable_inputs");
        }
        if text.max_specializations == 0 {
            bail!(Kernel, "[{maker} {name}] the bound on specializations is 0; at least 1 is needed");
        }
        if text.header.contains('\0') || text.source.contains('\0') {
            bail!(Kernel, "[{maker} {name}] the source has a NUL character; it must be plain text");
        }
        for (kind, names) in [("input", text.input_names), ("output", text.output_names)] {
            for n in names {
                check_name(text.dialect, name, kind, n)?;
            }
        }
        let all: Vec<&str> = text.input_names.iter().chain(text.output_names).copied().collect();
        for (i, n) in all.iter().enumerate() {
            if all[..i].contains(n) {
                bail!(Kernel, "[{maker} {name}] the name {n:?} is used twice among {all:?}");
            }
        }
        for (i, n) in text.mutable_inputs.iter().enumerate() {
            if !text.input_names.contains(n) || text.mutable_inputs[..i].contains(n) {
                let inputs = text.input_names;
                bail!(
                    Kernel,
                    "[{maker} {name}] mutable input {n:?} must be one of the inputs {inputs:?}, once"
                );
            }
        }
        let body = lexer::tokens(text.source);
        let mentioned = |suffix: &str, n: &str| {
            // A declared name wins over the implicit one.
            let full = format!("{n}_{suffix}");
            !all.contains(&full.as_str()) && mentions(text.source, &body, &full)
        };
        let inputs = text.input_names.iter().map(|n| Input {
            name: (*n).into(),
            mutable: text.mutable_inputs.contains(n),
            mentions: Mentions {
                shape: mentioned("shape", n),
                strides: mentioned("strides", n),
                ndim: mentioned("ndim", n),
            },
        });
        let mut attributes = 0;
        for (i, a) in ATTRIBUTES.iter().enumerate() {
            attributes |= u32::from(mentions(text.source, &body, a.name)) << i;
        }
        let flat = ATTRIBUTES.iter().enumerate().all(|(i, a)| a.flat || attributes & (1 << i) == 0);
        let waits = |source: &str, tokens: &[Token]| {
            tokens.iter().any(|t| t.kind == Kind::Word && COOPERATION.contains(&t.text(source)))
        };
        let mode = if waits(text.source, &body) || waits(text.header, &lexer::tokens(text.header)) {
            Mode::Cooperative
        } else if flat {
            Mode::Flat
        } else {
            Mode::Grouped
        };
        Ok(KernelFunction {
            name: name.into(),
            inputs: inputs.collect(),
            outputs: text.output_names.iter().map(|n| (*n).into()).collect(),
            body: text.source.into(),
            header: text.header.into(),
            dialect: text.dialect,
            atomic_outputs: text.atomic_outputs,
            attributes,
            mode,
            cache: Mutex::new(Cache::new(text.max_specializations)),
            ensure_row_contiguous: text.ensure_row_contiguous,
        })
    }

    /// The name given by the user.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The start of every error text about this kernel, without the bracket's end.
    pub(super) fn place(&self) -> String {
        format!("{} {}", self.dialect.maker(), self.name)
    }

    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// True when inputs must be row-contiguous before the kernel runs.
    pub fn ensure_row_contiguous(&self) -> bool {
        self.ensure_row_contiguous
    }

    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }

    pub fn output_count(&self) -> usize {
        self.outputs.len()
    }

    pub fn input_name(&self, i: usize) -> &str {
        &self.inputs[i].name
    }

    pub fn output_name(&self, i: usize) -> &str {
        &self.outputs[i]
    }

    /// True when input `i` is written in place.
    pub fn is_mutable(&self, i: usize) -> bool {
        self.inputs[i].mutable
    }

    /// What the cache has done so far.
    pub fn stats(&self) -> KernelStats {
        self.cache.lock().stats()
    }
}

/// Refuses a name that could not be a parameter of the generated function.
pub(super) fn check_name(dialect: Dialect, kernel: &str, kind: &str, name: &str) -> Result<()> {
    let maker = dialect.maker();
    if !lexer::is_identifier(name) || name.len() > 256 {
        bail!(
            Kernel,
            "[{maker} {kernel}] {kind} name {name:?} is not an identifier (letters, digits and '_', no digit first)"
        );
    }
    let vocabulary = RESERVED.contains(&name)
        || ATTRIBUTES.iter().any(|a| a.name == name)
        || COOPERATION.contains(&name)
        || name.to_ascii_lowercase().starts_with("isopace_")
        || name.starts_with("__");
    if vocabulary {
        bail!(Kernel, "[{maker} {kernel}] {kind} name {name:?} is a word of the dialect; choose another");
    }
    Ok(())
}

fn mentions(source: &str, tokens: &[Token], word: &str) -> bool {
    tokens.iter().any(|t| t.kind == Kind::Word && t.text(source) == word)
}
