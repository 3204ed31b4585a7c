//! The generated text: header, function, and the call that hands over the arguments.
//!
//! The text is the same for every device that takes the dialect; the macros in it (`ISOPACE_*`)
//! get their meaning from the prelude of the backend.

use std::fmt::Write as _;

use super::lexer::{self, Kind, Token};
use super::signature::{ATTRIBUTES, Dialect, KernelFunction, Mode};
use super::specialization::{InputKind, Passing, TemplateValue};
use crate::Dtype;

/// One argument of the generated function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgSlot {
    /// The first element of input `i` (for a view: of the view).
    Input(u16),
    /// Its shape, `int` each.
    Shape(u16),
    /// Its strides in elements, `int64_t` each.
    Strides(u16),
    /// Its number of dimensions, `int`.
    Ndim(u16),
    /// The first element of output `i`.
    Output(u16),
}

pub(super) struct Generated {
    pub text: String,
    pub args: Vec<ArgSlot>,
}

/// The dialect's word for a dtype.
fn type_name(d: Dtype, dialect: Dialect) -> &'static str {
    match (d, dialect) {
        (Dtype::Bool, _) => "bool",
        (Dtype::U8, _) => "uint8_t",
        (Dtype::U16, _) => "uint16_t",
        (Dtype::U32, _) => "uint32_t",
        (Dtype::U64, _) => "uint64_t",
        (Dtype::I8, _) => "int8_t",
        (Dtype::I16, _) => "int16_t",
        (Dtype::I32, _) => "int32_t",
        (Dtype::I64, _) => "int64_t",
        (Dtype::F16, Dialect::Metal) => "half",
        (Dtype::BF16, Dialect::Metal) => "bfloat",
        (Dtype::F16, Dialect::Cuda) => "__half",
        (Dtype::BF16, Dialect::Cuda) => "__nv_bfloat16",
        (Dtype::F32, _) => "float",
        (Dtype::F64, _) => "double",
        (Dtype::C64, _) => "complex64_t",
    }
}

fn template_type(v: TemplateValue) -> &'static str {
    match v {
        TemplateValue::Int(i) if i32::try_from(i).is_ok() => "int",
        TemplateValue::Int(_) => "long",
        TemplateValue::Bool(_) => "bool",
        TemplateValue::Dtype(_) => "typename",
    }
}

fn template_text(v: TemplateValue, dialect: Dialect) -> String {
    match v {
        // The smallest integers have no literal of their own.
        TemplateValue::Int(i64::MIN) => format!("({}L - 1)", i64::MIN + 1),
        TemplateValue::Int(i) if i == i64::from(i32::MIN) => format!("({} - 1)", i + 1),
        TemplateValue::Int(i) if i32::try_from(i).is_ok() => format!("({i})"),
        TemplateValue::Int(i) => format!("({i}L)"),
        TemplateValue::Bool(b) => b.to_string(),
        TemplateValue::Dtype(d) => type_name(d, dialect).into(),
    }
}

/// A parameter: its declaration, and how the call keeps and passes its value.
struct Parameter {
    declaration: String,
    /// The member of the call that holds it.
    held: String,
    by_value: bool,
}

fn parameters(f: &KernelFunction, inputs: &[InputKind], outputs: &[Dtype]) -> (Vec<Parameter>, Vec<ArgSlot>) {
    let metal = f.dialect == Dialect::Metal;
    let (constant, device) = if metal { ("constant ", "device ") } else { ("", "") };
    let mut out = Vec::new();
    let mut slots = Vec::new();
    let mut push = |slot, declaration: String, held: String, by_value| {
        out.push(Parameter { declaration, held, by_value });
        slots.push(slot);
    };
    for (i, (input, kind)) in f.inputs.iter().zip(inputs).enumerate() {
        let (name, ty, i) = (&input.name, type_name(kind.dtype, f.dialect), i as u16);
        let slot = ArgSlot::Input(i);
        match kind.passing {
            Passing::Scalar if metal => {
                push(slot, format!("const constant {ty}& {name}"), format!("const {ty}"), true)
            }
            Passing::Scalar | Passing::Constant => push(
                slot,
                format!("const {constant}{ty}* ISOPACE_RESTRICT {name}"),
                format!("const {ty}*"),
                false,
            ),
            Passing::Device => push(
                slot,
                format!("const {device}{ty}* ISOPACE_RESTRICT {name}"),
                format!("const {ty}*"),
                false,
            ),
            Passing::Mutable => {
                push(slot, format!("{device}{ty}* ISOPACE_RESTRICT {name}"), format!("{ty}*"), false)
            }
        }
        if input.mentions.shape {
            let declaration = format!("const {constant}int* ISOPACE_RESTRICT {name}_shape");
            push(ArgSlot::Shape(i), declaration, "const int*".into(), false);
        }
        if input.mentions.strides {
            let declaration = format!("const {constant}int64_t* ISOPACE_RESTRICT {name}_strides");
            push(ArgSlot::Strides(i), declaration, "const int64_t*".into(), false);
        }
        if input.mentions.ndim {
            let reference = if metal { "constant int&" } else { "int&" };
            push(ArgSlot::Ndim(i), format!("const {reference} {name}_ndim"), "const int".into(), true);
        }
    }
    for (i, (name, &dtype)) in f.outputs.iter().zip(outputs).enumerate() {
        let ty = type_name(dtype, f.dialect);
        let ty = if f.atomic_outputs {
            format!("{}<{ty}>", if metal { "atomic" } else { "isopace_atomic" })
        } else {
            ty.into()
        };
        let declaration = format!("{device}{ty}* ISOPACE_RESTRICT {name}");
        push(ArgSlot::Output(i as u16), declaration, format!("{ty}*"), false);
    }
    (out, slots)
}

/// Writes the text of one specialization.
pub(super) fn generate<S: AsRef<str>>(
    f: &KernelFunction,
    template: &[(S, TemplateValue)],
    inputs: &[InputKind],
    outputs: &[Dtype],
) -> Generated {
    let (params, args) = parameters(f, inputs, outputs);
    let attributes: Vec<_> =
        ATTRIBUTES.iter().enumerate().filter(|(i, _)| f.attributes & (1 << i) != 0).map(|(_, a)| a).collect();
    let user = |text: &str| match f.dialect {
        Dialect::Metal => translate(text),
        Dialect::Cuda => text.to_string(),
    };
    let name = &f.name;
    let mut t = String::with_capacity(f.body.len() + f.header.len() + 2048);
    if !f.header.is_empty() {
        let _ = writeln!(t, "#line 1 \"{name} (header)\"\n{}\n", user(&f.header));
    }
    let _ = writeln!(t, "#line 1 \"isopace generated\"");
    if !template.is_empty() {
        let list: Vec<_> =
            template.iter().map(|(n, v)| format!("{} {}", template_type(*v), n.as_ref())).collect();
        let _ = writeln!(t, "template <{}>", list.join(", "));
    }
    let mut lines: Vec<_> = params.iter().map(|p| format!("    {}", p.declaration)).collect();
    lines.extend(attributes.iter().map(|a| format!("    {} {}", a.ty, a.name)));
    let _ = writeln!(t, "ISOPACE_BODY void isopace_body(\n{}) {{", lines.join(",\n"));
    let _ = writeln!(t, "#line 1 \"{name}\"\n{}\n\n#line 100 \"isopace generated\"\n}}", user(&f.body));

    t.push_str("struct isopace_call {\n");
    for (i, p) in params.iter().enumerate() {
        let _ = writeln!(t, "  {} a{i};", p.held);
    }
    let init: Vec<_> = params
        .iter()
        .enumerate()
        .map(|(i, p)| {
            if p.by_value {
                format!("a{i}(*({}*)a[{i}])", p.held)
            } else {
                format!("a{i}(({})a[{i}])", p.held)
            }
        })
        .collect();
    let colon = if init.is_empty() { "" } else { " : " };
    let _ = writeln!(t, "  ISOPACE_INIT isopace_call(void* const* a){colon}{} {{}}", init.join(", "));
    let call: Vec<_> = (0..params.len())
        .map(|i| format!("a{i}"))
        .chain(attributes.iter().map(|a| format!("t.{}()", a.name)))
        .collect();
    let values: Vec<_> = template.iter().map(|(_, v)| template_text(*v, f.dialect)).collect();
    let values = if values.is_empty() { String::new() } else { format!("<{}>", values.join(", ")) };
    let _ = writeln!(
        t,
        "  ISOPACE_INIT void operator()(ISOPACE_THREAD t) const {{ isopace_body{values}({}); }}\n}};",
        call.join(", ")
    );
    let mode = match f.mode {
        Mode::Flat => "FLAT",
        Mode::Grouped => "GROUPED",
        Mode::Cooperative => "COOPERATIVE",
    };
    let _ = writeln!(t, "ISOPACE_ENTRY_{mode}(isopace_call, {})", params.len());
    Generated { text: t, args }
}

/// Rewrites what C++ macros cannot: literals are `float` unless they say otherwise, `constant`
/// means `const`, a declaration in the threadgroup address space is shared. Lines stay lines.
fn translate(text: &str) -> String {
    let tokens = lexer::tokens(text);
    let mut out = String::with_capacity(text.len() + 64);
    let mut copied = 0;
    for (i, token) in tokens.iter().enumerate() {
        let word = token.text(text);
        let (upto, insert, skip_to) = match token.kind {
            Kind::Number if is_plain_float(word) => (token.end, "f", token.end),
            Kind::Word if word == "constant" && !const_nearby(text, &tokens, i) => {
                (token.start, "const", token.end)
            }
            Kind::Word if word == "threadgroup" && declares(text, &tokens, i) => {
                (token.start, "ISOPACE_SHARED", token.end)
            }
            Kind::Word if word == "include" && provided(text, &tokens, i) => {
                (tokens[i - 1].start, "//", tokens[i - 1].start)
            }
            _ => continue,
        };
        out.push_str(&text[copied..upto]);
        out.push_str(insert);
        copied = skip_to;
    }
    out.push_str(&text[copied..]);
    out
}

/// True for a floating literal without a suffix, which is a double in C++ and a float in Metal.
fn is_plain_float(number: &str) -> bool {
    let hex = number.starts_with("0x") || number.starts_with("0X");
    let floating = if hex { number.contains(['p', 'P']) } else { number.contains(['.', 'e', 'E']) };
    floating && number.ends_with(|c: char| c.is_ascii_digit() || c == '.')
}

/// True for the `include` of a header whose content the prelude has.
fn provided(text: &str, tokens: &[Token], i: usize) -> bool {
    let hash = i > 0 && is_punct(&tokens[i - 1], b"#");
    let file = text[tokens[i].end..].trim_start();
    hash && ["<metal", "\"metal", "<mlx/", "\"mlx/", "<simd/"].iter().any(|p| file.starts_with(p))
}

fn is_punct(token: &Token, set: &[u8]) -> bool {
    matches!(token.kind, Kind::Punct(c) if set.contains(&c))
}

/// True when `const` or `constexpr` stands among the specifiers around token `i` already.
fn const_nearby(text: &str, tokens: &[Token], i: usize) -> bool {
    let ends = |t: &&Token| t.kind == Kind::DirectiveEnd || is_punct(t, b";{}(),<>=*&[");
    let is_const = |t: &Token| t.text(text) == "const";
    tokens[..i].iter().rev().take_while(|t| !ends(t)).any(is_const)
        || tokens[i + 1..].iter().take_while(|t| !ends(t)).any(is_const)
}

/// True when the `threadgroup` at token `i` declares variables, not pointers to them.
fn declares(text: &str, tokens: &[Token], i: usize) -> bool {
    let specifier = |t: &Token| matches!(t.text(text), "volatile" | "static");
    let before = tokens[..i].iter().rev().find(|t| !specifier(t));
    let starts = before.is_none_or(|t| {
        t.kind == Kind::DirectiveEnd || is_punct(t, b";{}:") || closes_alignas(text, tokens, i)
    });
    if !starts {
        return false;
    }
    let (mut depth, mut angle, mut after_alignas) = (0i32, 0i32, false);
    for t in &tokens[i + 1..] {
        match t.kind {
            Kind::Word => after_alignas = t.text(text) == "alignas" || (after_alignas && depth > 0),
            Kind::Punct(b'(') if after_alignas => depth += 1,
            Kind::Punct(b')') if depth > 0 => depth -= 1,
            Kind::Punct(b'<') => angle += 1,
            Kind::Punct(b'>') => angle -= 1,
            Kind::Punct(b'*' | b'&' | b'(') if depth == 0 && angle <= 0 => return false,
            Kind::Punct(b'[' | b'=' | b';') if depth == 0 => return true,
            Kind::Punct(b',') if depth == 0 && angle <= 0 => return true,
            _ => {}
        }
    }
    false
}

fn closes_alignas(text: &str, tokens: &[Token], i: usize) -> bool {
    if i == 0 || !is_punct(&tokens[i - 1], b")") {
        return false;
    }
    let open = tokens[..i].iter().rposition(|t| is_punct(t, b"("));
    open.is_some_and(|o| o > 0 && tokens[o - 1].text(text) == "alignas")
}

#[cfg(test)]
mod tests {
    use super::translate;

    #[test]
    fn literals_become_float() {
        assert_eq!(
            translate("x * 0.5 + 1e-5 - .5 + 1.f + 2.0h + 3 + 0x1p3 + 0xe"),
            "x * 0.5f + 1e-5f - .5f + 1.f + 2.0h + 3 + 0x1p3f + 0xe"
        );
        assert_eq!(translate("v1.x2 // 0.5\n\"0.5\""), "v1.x2 // 0.5\n\"0.5\"");
    }

    #[test]
    fn provided_headers_are_left_out() {
        let text =
            "#include <metal_stdlib>\n # include \"mlx/backend/metal/kernels/utils.h\"\n#include <x.h>";
        let want =
            "//#include <metal_stdlib>\n //# include \"mlx/backend/metal/kernels/utils.h\"\n#include <x.h>";
        assert_eq!(translate(text), want);
    }

    #[test]
    fn constant_means_const_once() {
        assert_eq!(translate("constant int N = 4;"), "const int N = 4;");
        assert_eq!(
            translate("f(constant T* p, const constant int& q)"),
            "f(const T* p, const constant int& q)"
        );
        assert_eq!(translate("constant const int* s"), "constant const int* s");
    }

    #[test]
    fn threadgroup_declarations_are_shared() {
        for (text, shared) in [
            ("threadgroup float a[4];", true),
            ("int x; threadgroup atomic_uint n;", true),
            ("#define N 4\nthreadgroup float a[N], b;", true),
            ("alignas(16) threadgroup float a[4];", true),
            ("threadgroup alignas(16) float4 a[4];", true),
            ("threadgroup vec<float, 4> a[2 * 3];", true),
            ("threadgroup float* p = a;", false),
            ("f(threadgroup float* p)", false),
            ("threadgroup float& x = a[0];", false),
            ("inline threadgroup float* f() {}", false),
            ("(threadgroup float*)p", false),
        ] {
            assert_eq!(translate(text).contains("ISOPACE_SHARED"), shared, "{text}");
        }
    }

    #[test]
    fn any_text_is_taken_and_keeps_its_lines() {
        let parts = [
            "threadgroup",
            "constant",
            "const",
            "#",
            "include",
            "<metal",
            "\"",
            "'",
            "/*",
            "*/",
            "//",
            "\\",
            "\n",
            "1.",
            "1e",
            "0x",
            ".5",
            "é",
            "日",
            "(",
            ")",
            "<",
            ">",
            ";",
            "{",
            "}",
            "*",
            "&",
            ",",
            "alignas",
            " ",
            "[",
            "\r\n",
            "\0",
        ];
        let mut state = 1u64;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..12 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                text.push_str(parts[(state >> 33) as usize % parts.len()]);
            }
            assert_eq!(translate(&text).matches('\n').count(), text.matches('\n').count(), "{text:?}");
        }
    }

    #[test]
    fn a_cuda_body_is_left_as_it_is() {
        use super::super::{Dialect, InputKind, KernelFunction, KernelText, TemplateValue};
        use crate::Dtype;
        let k = KernelFunction::new(&KernelText {
            name: "c",
            input_names: &["a", "s"],
            output_names: &["out"],
            source: "auto i = threadIdx.x; out[i] = a[i] * 0.5 + s[0] + N + a_ndim;",
            dialect: Dialect::Cuda,
            ..Default::default()
        })
        .unwrap();
        let kinds = [InputKind::of(Dtype::BF16, 1, 100, false), InputKind::of(Dtype::F32, 0, 1, false)];
        let spec = k.specialize(&[("N", TemplateValue::Int(-2))], &kinds, &[Dtype::F16]).unwrap();
        for part in [
            "const __nv_bfloat16* ISOPACE_RESTRICT a,",
            "const int& a_ndim,",
            "const float* ISOPACE_RESTRICT s,",
            "__half* ISOPACE_RESTRICT out)",
            "a[i] * 0.5 + s[0]",
            "isopace_body<(-2)>(",
        ] {
            assert!(spec.source.contains(part), "{part} in\n{}", spec.source);
        }
    }
}
