//! Random functions of arrays and scalars under random calls: compiled equals uncompiled, in every
//! scalar mode and at the smallest bounds.

use super::*;
use crate::ScalarOp;
use proptest::prelude::*;
use std::sync::Arc;

/// A scalar expression.
#[derive(Clone, Debug)]
enum S {
    Arg(usize),
    Int(i64),
    Float(f64),
    Binary(ScalarOp, Box<S>, Box<S>),
    /// Takes the value, which makes the argument static.
    Value(Box<S>),
}

/// An array expression over (2, 3) float32.
#[derive(Clone, Debug)]
enum E {
    X,
    Y,
    Add(Box<E>, Box<E>),
    Mul(Box<E>, Box<E>),
    Neg(Box<E>),
    Abs(Box<E>),
    AddScalar(Box<E>, S),
    MulScalar(Box<E>, S),
    Flip(Box<E>),
    SumRows(Box<E>),
    /// Columns from a start on, repeated to full width.
    Slice(Box<E>, S),
    If(S, i64, Box<E>, Box<E>),
    Cast(Box<E>),
}

fn scalar() -> impl Strategy<Value = S> {
    let leaf = prop_oneof![
        (0..2usize).prop_map(S::Arg),
        (-3i64..4).prop_map(S::Int),
        prop_oneof![Just(0.5), Just(-0.0), Just(f64::NAN), Just(1.5)].prop_map(S::Float),
    ];
    leaf.prop_recursive(3, 8, 2, |s| {
        let op = prop_oneof![
            Just(ScalarOp::Add),
            Just(ScalarOp::Sub),
            Just(ScalarOp::Mul),
            Just(ScalarOp::Div),
            Just(ScalarOp::FloorDiv),
            Just(ScalarOp::Mod),
            Just(ScalarOp::Pow),
            Just(ScalarOp::Max),
        ];
        prop_oneof![
            6 => (op, s.clone(), s.clone()).prop_map(|(op, a, b)| S::Binary(op, a.into(), b.into())),
            1 => s.prop_map(|s| S::Value(s.into())),
        ]
    })
}

fn array_expr() -> impl Strategy<Value = E> {
    let leaf = prop_oneof![Just(E::X), Just(E::Y)];
    leaf.prop_recursive(5, 24, 2, |e| {
        let b = |e: E| Box::new(e);
        prop_oneof![
            (e.clone(), e.clone()).prop_map(move |(x, y)| E::Add(b(x), b(y))),
            (e.clone(), e.clone()).prop_map(move |(x, y)| E::Mul(b(x), b(y))),
            e.clone().prop_map(move |x| E::Neg(b(x))),
            e.clone().prop_map(move |x| E::Abs(b(x))),
            (e.clone(), scalar()).prop_map(move |(x, s)| E::AddScalar(b(x), s)),
            (e.clone(), scalar()).prop_map(move |(x, s)| E::MulScalar(b(x), s)),
            e.clone().prop_map(move |x| E::Flip(b(x))),
            e.clone().prop_map(move |x| E::SumRows(b(x))),
            (e.clone(), scalar()).prop_map(move |(x, s)| E::Slice(b(x), s)),
            (scalar(), -2i64..3, e.clone(), e.clone()).prop_map(move |(s, k, x, y)| E::If(s, k, b(x), b(y))),
            e.prop_map(move |x| E::Cast(b(x))),
        ]
    })
}

fn eval_scalar(s: &S, args: &[Scalar]) -> Result<Scalar> {
    Ok(match s {
        S::Arg(i) => args[*i].clone(),
        S::Int(i) => (*i).into(),
        S::Float(f) => (*f).into(),
        S::Binary(op, a, b) => eval_scalar(a, args)?.binary(*op, &eval_scalar(b, args)?),
        S::Value(s) => eval_scalar(s, args)?.value("test")?.into(),
    })
}

fn eval_array(e: &E, x: &Array, y: &Array, args: &[Scalar]) -> Result<Array> {
    let go = |e: &E| eval_array(e, x, y, args);
    match e {
        E::X => Ok(x.clone()),
        E::Y => Ok(y.clone()),
        E::Add(a, b) => go(a)?.add(go(b)?),
        E::Mul(a, b) => go(a)?.multiply(go(b)?),
        E::Neg(a) => go(a)?.negative(),
        E::Abs(a) => go(a)?.abs(),
        E::AddScalar(a, s) => go(a)?.add(eval_scalar(s, args)?),
        E::MulScalar(a, s) => go(a)?.multiply(eval_scalar(s, args)?),
        E::Flip(a) => go(a)?.flip([0, 1]),
        E::SumRows(a) => go(a)?.sum(0, true)?.broadcast_to([2, 3]),
        E::Slice(a, s) => {
            let start = eval_scalar(s, args)?;
            let cut = go(a)?.slice_at(&[Scalar::from(0), start], &[1, 1], &[2, 1])?;
            cut.broadcast_to([2, 3])
        }
        E::If(s, k, a, b) => {
            if eval_scalar(s, args)?.gt(*k)? {
                go(a)
            } else {
                go(b)
            }
        }
        E::Cast(a) => go(a)?.astype(crate::Dtype::F16)?.astype(crate::Dtype::F32),
    }
}

/// An integer expression without bounds on what it passes through, as Python has it.
fn exact(s: &S, args: &[Scalar]) -> Option<i128> {
    match s {
        S::Arg(i) => args[*i].number().ok()??.as_int().map(i128::from),
        S::Int(i) => Some((*i).into()),
        S::Float(_) => None,
        S::Value(s) => exact(s, args),
        S::Binary(op, a, b) => {
            let (a, b) = (exact(a, args)?, exact(b, args)?);
            match op {
                ScalarOp::Add => a.checked_add(b),
                ScalarOp::Sub => a.checked_sub(b),
                ScalarOp::Mul => a.checked_mul(b),
                ScalarOp::Max => Some(a.max(b)),
                _ => None,
            }
        }
    }
}

/// The expression with each scalar that is an integer below 64 bits in the end as that integer: a symbolic
/// one that cancels what overflows on the way is right where the arithmetic step by step fails.
fn exactly(e: &E, args: &[Scalar]) -> E {
    let go = |e: &E| Box::new(exactly(e, args));
    let number = |s: &S| exact(s, args).and_then(|n| i64::try_from(n).ok()).map_or(s.clone(), S::Int);
    match e {
        E::X | E::Y => e.clone(),
        E::Add(a, b) => E::Add(go(a), go(b)),
        E::Mul(a, b) => E::Mul(go(a), go(b)),
        E::Neg(a) => E::Neg(go(a)),
        E::Abs(a) => E::Abs(go(a)),
        E::AddScalar(a, s) => E::AddScalar(go(a), number(s)),
        E::MulScalar(a, s) => E::MulScalar(go(a), number(s)),
        E::Flip(a) => E::Flip(go(a)),
        E::SumRows(a) => E::SumRows(go(a)),
        E::Slice(a, s) => E::Slice(go(a), number(s)),
        E::If(s, k, a, b) => E::If(number(s), *k, go(a), go(b)),
        E::Cast(a) => E::Cast(go(a)),
    }
}

fn number() -> impl Strategy<Value = Scalar> {
    prop_oneof![
        4 => (-3i64..6).prop_map(Scalar::from),
        1 => prop_oneof![Just(0.5), Just(-0.0), Just(2.0), Just(f64::INFINITY)].prop_map(Scalar::from),
        1 => any::<bool>().prop_map(Scalar::from),
        1 => prop_oneof![Just(i64::MAX), Just(i64::MIN)].prop_map(Scalar::from),
    ]
}

/// Bits of the elements, any NaN as one.
fn bits(a: Result<Array>) -> std::result::Result<Vec<u32>, ()> {
    let v = a.and_then(|a| a.to_vec::<f32>()).map_err(drop)?;
    Ok(v.into_iter().map(|f| if f.is_nan() { f32::NAN.to_bits() } else { f.to_bits() }).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn compiled_equals_uncompiled(e in array_expr(), calls in proptest::collection::vec((number(), number()), 1..8)) {
        crate::reference::init();
        let x = Array::from_slice(&[1.0f32, -2.0, 3.5, 0.0, -0.0, 1e9], [2, 3]).unwrap();
        let y = Array::from_slice(&[0.5f32, 2.0, -1.0, 7.0, 4.0, -3.0], [2, 3]).unwrap();
        let e = Arc::new(e);
        for mode in [ScalarMode::Auto, ScalarMode::Static, ScalarMode::Symbolic] {
            for (variants, fixed, entries) in [(1, 1, 1), (8, 64, 256)] {
                let o = Options {
                    scalars: mode, max_variants: variants, max_static_entries: fixed, max_entries: entries,
                    ..Options::default()
                };
                let body = e.clone();
                let f = compile_with(o, move |(x, y, a, b): (Array, Array, Scalar, Scalar)| {
                    eval_array(&body, &x, &y, &[a, b])
                });
                for (a, b) in &calls {
                    let want = bits(eval_array(&e, &x, &y, &[a.clone(), b.clone()]));
                    let got = bits(f.call((x.clone(), y.clone(), a.clone(), b.clone())));
                    let args = [a.clone(), b.clone()];
                    if want.is_ok() || got != bits(eval_array(&exactly(&e, &args), &x, &y, &args)) {
                        prop_assert_eq!(&got, &want, "{:?} {} {} {}", mode, a, b, f.explain());
                    }
                    prop_assert!(f.stats().entries <= entries.max(1) && f.stats().variants <= entries * variants);
                }
            }
        }
    }
}

/// One step of a function whose shapes follow its argument's, or do not.
#[derive(Clone, Copy, Debug)]
enum Shaped {
    AddOwn,
    Transpose,
    SumKeeping(i64),
    Sum(i64),
    Concat(i64),
    Flatten,
    Expand(i64),
    Squeeze,
    Softmax,
    Sort(i64),
    Gram,
    Mean(i64),
    Scale,
    Head,
    Literal,
    Reversed,
}

fn shaped(op: Shaped, x: &Array, own: &Array) -> Result<Array> {
    use Shaped::*;
    match op {
        AddOwn => x.add(own),
        Transpose => x.t(),
        SumKeeping(a) => x.sum(a, true),
        Sum(a) => x.max(a, false),
        Concat(a) => crate::api::concatenate(&[x.clone(), x.negative()?, x.clone()], a),
        Flatten => x.reshape([-1]),
        Expand(a) => x.expand_dims(&[a]),
        Squeeze => x.squeeze(None),
        Softmax => x.softmax(-1),
        Sort(a) => x.sort(Some(a)),
        Gram => x.matmul(&x.t()?),
        Mean(a) => x.mean(a, true),
        Scale => x.multiply(x.size() as f32),
        Head if x.ndim() == 0 => Ok(x.clone()),
        Head => x.slice_axis(0, 0, 1),
        Literal => x.reshape([2, -1]),
        Reversed => x.flip([0]),
    }
}

fn shaped_op() -> impl Strategy<Value = Shaped> {
    use Shaped::*;
    let axis = -2i64..2;
    prop_oneof![
        Just(AddOwn),
        Just(Transpose),
        axis.clone().prop_map(SumKeeping),
        axis.clone().prop_map(Sum),
        axis.clone().prop_map(Concat),
        Just(Flatten),
        axis.clone().prop_map(Expand),
        Just(Squeeze),
        Just(Softmax),
        axis.clone().prop_map(Sort),
        Just(Gram),
        axis.prop_map(Mean),
        Just(Scale),
        Just(Head),
        Just(Literal),
        Just(Reversed),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn shapeless_equals_uncompiled(
        ops in proptest::collection::vec(shaped_op(), 1..6),
        shapes in proptest::collection::vec((1..5usize, 1..5usize), 2..7),
    ) {
        crate::reference::init();
        let body = |ops: &[Shaped], x: &Array| {
            ops.iter().try_fold(x.clone(), |y, &op| shaped(op, &y, x))
        };
        let own = ops.clone();
        let f = compile_with(Options { shapeless: true, ..Options::default() }, move |x: Array| body(&own, &x));
        for (r, c) in shapes {
            let values: Vec<f32> = (0..r * c).map(|i| (i * 37 % 11) as f32 * 0.25 - 1.0).collect();
            let x = Array::from_slice(&values, [r, c]).unwrap();
            let (want, got) = (body(&ops, &x), f.call(x));
            if let (Ok(want), Ok(got)) = (&want, &got) {
                prop_assert_eq!(want.shape(), got.shape());
            }
            prop_assert_eq!(bits(want), bits(got), "for {:?}", (r, c));
        }
    }
}
