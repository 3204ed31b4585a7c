//! Scalars: a concrete number, or one that is only known when a compiled function is called.
//!
//! While `compile` traces a function, a scalar argument may be **symbolic**. Arithmetic on it records
//! expressions in the [`ScalarTrace`]; comparisons record guards; taking its value records that the
//! argument had to be static, with the place. The expressions become a [`Program`], run at each call.

use crate::number::{Cmp, Number, NumberKind, ScalarOp};
use crate::{Dtype, Result, bail, err};
use hashbrown::HashMap;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::fmt;
use std::panic::Location;
use std::sync::{Arc, OnceLock};

/// A number that may be symbolic. It has neither `Eq`, `Ord` nor `Hash`: use [`Scalar::compare`] to
/// branch (a guard, while tracing) and [`Scalar::value`] to take the value (which makes it static).
///
/// Operators carry an error, such as an overflow, to the first use.
///
/// ```
/// use isopace_core::Scalar;
/// let n = Scalar::from(7) / 2 + 1;
/// assert_eq!(n.to_string(), "4.5");
/// ```
#[derive(Clone, Debug)]
pub struct Scalar(Repr);

#[derive(Clone, Debug)]
enum Repr {
    Number(Number),
    /// Behind a pointer, so that a scalar is as small as a number.
    Symbolic(Arc<Symbol>),
    Failed(Arc<crate::Error>),
}

/// A symbolic scalar: an expression of a trace.
#[derive(Clone)]
pub struct Symbol {
    pub(crate) trace: Arc<ScalarTrace>,
    pub(crate) expr: ExprId,
    pub(crate) kind: NumberKind,
}

/// Index of an expression in its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExprId(pub(crate) u32);

type Terms = SmallVec<[(ExprId, i64); 2]>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Expr {
    Arg(u32),
    Const(NumberKind, u64),
    /// Sum of integer multiples of atoms plus a constant; atoms sorted, no zero factors.
    Affine(Terms, i64),
    Binary(ScalarOp, ExprId, ExprId),
}

/// A branch taken while tracing: it must be taken the same way for the trace to hold.
#[derive(Clone, Debug)]
pub struct Guard {
    pub(crate) cmp: Cmp,
    pub(crate) a: ExprId,
    pub(crate) b: ExprId,
    pub(crate) outcome: bool,
    pub(crate) place: Arc<str>,
}

static PLACE_HOOK: OnceLock<fn() -> Option<String>> = OnceLock::new();

/// Has `hook` name the place in the user's program where a scalar is compared or its value taken,
/// instead of the caller in Rust. For bindings to other languages; the first call counts.
pub fn on_place(hook: fn() -> Option<String>) {
    let _ = PLACE_HOOK.set(hook);
}

fn place_of(caller: &Location<'_>) -> String {
    let named = PLACE_HOOK.get().and_then(|hook| hook());
    named.unwrap_or_else(|| format!("{}:{}", caller.file(), caller.line()))
}

/// A place where a symbolic scalar's value itself was needed.
#[derive(Clone, Debug)]
pub struct Concretized {
    /// Scalar arguments that the expression depends on.
    pub args: SmallVec<[u32; 2]>,
    pub value: Number,
    pub reason: String,
    pub place: String,
}

/// The scalar side of one trace: expressions with their value in this call, guards, and what had
/// to be concrete.
pub struct ScalarTrace {
    inner: Mutex<TraceInner>,
}

#[derive(Default)]
struct TraceInner {
    exprs: Vec<(Expr, Number)>,
    ids: HashMap<Expr, ExprId>,
    guards: Vec<Guard>,
    concretized: Vec<Concretized>,
}

impl Scalar {
    /// The kind, known also of symbolic ones; a failed scalar counts as an int.
    pub fn kind(&self) -> NumberKind {
        match &self.0 {
            Repr::Number(n) => n.kind(),
            Repr::Symbolic(s) => s.kind,
            Repr::Failed(_) => NumberKind::Int,
        }
    }

    /// The concrete number, or `None` for a symbolic one.
    ///
    /// # Errors
    /// The error that arithmetic on it ran into.
    pub fn number(&self) -> Result<Option<Number>> {
        match &self.0 {
            Repr::Number(n) => Ok(Some(*n)),
            Repr::Symbolic(_) => Ok(None),
            Repr::Failed(e) => Err((**e).clone()),
        }
    }

    pub(crate) fn symbol(&self) -> Option<&Symbol> {
        if let Repr::Symbolic(s) = &self.0 { Some(s) } else { None }
    }

    pub(crate) fn from_symbol(s: Symbol) -> Scalar {
        Scalar(Repr::Symbolic(Arc::new(s)))
    }

    /// The value. Of a symbolic scalar this makes the argument static: the reason and the caller's
    /// place appear in `explain()`.
    ///
    /// # Errors
    /// The error that arithmetic on it ran into.
    #[track_caller]
    pub fn value(&self, reason: &str) -> Result<Number> {
        match &self.0 {
            Repr::Number(n) => Ok(*n),
            _ => self.value_at(reason, &Location::caller().to_string()),
        }
    }

    /// [`Scalar::value`] with a place of the caller's own, such as a Python file and line.
    pub fn value_at(&self, reason: &str, place: &str) -> Result<Number> {
        match &self.0 {
            Repr::Number(n) => Ok(*n),
            Repr::Symbolic(s) => Ok(s.trace.concretize(s.expr, reason, place)),
            Repr::Failed(e) => Err((**e).clone()),
        }
    }

    /// The value as an integer; see [`Scalar::value`].
    ///
    /// # Errors
    /// `Argument` when it is not an integer.
    #[track_caller]
    pub fn int(&self, reason: &str) -> Result<i64> {
        let n = self.value(reason)?;
        n.as_int().ok_or_else(|| err!(Argument, "[{reason}] {n} is not an integer"))
    }

    /// `self cmp other` as a condition. On symbolic scalars it records a guard: the trace holds for
    /// calls in which the answer is the same.
    #[track_caller]
    pub fn compare(&self, cmp: Cmp, other: impl Into<Scalar>) -> Result<bool> {
        let place = Location::caller();
        self.compare_with(cmp, other.into(), || place_of(place))
    }

    /// [`Scalar::compare`] with a place of the caller's own, such as a Python file and line.
    pub fn compare_at(&self, cmp: Cmp, other: impl Into<Scalar>, place: &str) -> Result<bool> {
        self.compare_with(cmp, other.into(), || place.into())
    }

    fn compare_with(&self, cmp: Cmp, other: Scalar, place: impl FnOnce() -> String) -> Result<bool> {
        if let (Some(a), Some(b)) = (self.number()?, other.number()?) {
            return Ok(a.compare(cmp, b));
        }
        let trace = self.symbol().or(other.symbol()).map(|s| s.trace.clone());
        let Some(trace) = trace else { bail!(Internal, "[scalar] neither side is symbolic") };
        trace.guard(cmp, self, &other, place())
    }

    #[track_caller]
    pub fn gt(&self, other: impl Into<Scalar>) -> Result<bool> {
        self.compare(Cmp::Gt, other)
    }
    #[track_caller]
    pub fn ge(&self, other: impl Into<Scalar>) -> Result<bool> {
        self.compare(Cmp::Ge, other)
    }
    #[track_caller]
    pub fn lt(&self, other: impl Into<Scalar>) -> Result<bool> {
        self.compare(Cmp::Lt, other)
    }
    #[track_caller]
    pub fn le(&self, other: impl Into<Scalar>) -> Result<bool> {
        self.compare(Cmp::Le, other)
    }
    #[track_caller]
    pub fn equals(&self, other: impl Into<Scalar>) -> Result<bool> {
        self.compare(Cmp::Eq, other)
    }

    /// The number in the current call: the value itself, or what a symbolic one stands for now.
    /// Only for checks that are also recorded as guards.
    pub(crate) fn hint(&self) -> Result<Number> {
        match &self.0 {
            Repr::Number(n) => Ok(*n),
            Repr::Symbolic(s) => Ok(s.trace.inner.lock().exprs[s.expr.0 as usize].1),
            Repr::Failed(e) => Err((**e).clone()),
        }
    }

    /// `self op other` with Python's meaning.
    pub fn binary(&self, op: ScalarOp, other: &Scalar) -> Scalar {
        match (&self.0, &other.0) {
            (Repr::Failed(_), _) => self.clone(),
            (_, Repr::Failed(_)) => other.clone(),
            (Repr::Number(a), Repr::Number(b)) => a.binary(op, *b).into(),
            (Repr::Symbolic(s), _) | (_, Repr::Symbolic(s)) => s.trace.binary(op, self, other).into(),
        }
    }
}

impl From<Result<Scalar>> for Scalar {
    fn from(r: Result<Scalar>) -> Scalar {
        r.unwrap_or_else(|e| Scalar(Repr::Failed(Arc::new(e))))
    }
}

impl From<Result<Number>> for Scalar {
    fn from(r: Result<Number>) -> Scalar {
        r.map(Scalar::from).into()
    }
}

impl From<Number> for Scalar {
    fn from(n: Number) -> Scalar {
        Scalar(Repr::Number(n))
    }
}

impl From<&Scalar> for Scalar {
    fn from(s: &Scalar) -> Scalar {
        s.clone()
    }
}

macro_rules! from_numbers {
    ($($t:ty),*) => { $(impl From<$t> for Scalar { fn from(x: $t) -> Scalar { Number::from(x).into() } })* };
}
from_numbers!(bool, i32, i64, f32, f64, crate::Complex);

impl From<usize> for Scalar {
    fn from(n: usize) -> Scalar {
        i64::try_from(n)
            .map(Number::Int)
            .map_err(|_| err!(Argument, "[scalar] {n} does not fit int64"))
            .into()
    }
}

macro_rules! operators {
    ($($tr:ident $f:ident $op:ident),*) => { $(
        impl<T: Into<Scalar>> std::ops::$tr<T> for &Scalar {
            type Output = Scalar;
            fn $f(self, other: T) -> Scalar { self.binary(ScalarOp::$op, &other.into()) }
        }
        impl<T: Into<Scalar>> std::ops::$tr<T> for Scalar {
            type Output = Scalar;
            fn $f(self, other: T) -> Scalar { self.binary(ScalarOp::$op, &other.into()) }
        }
    )* };
}
operators!(Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, Rem rem Mod);

impl std::ops::Neg for &Scalar {
    type Output = Scalar;
    fn neg(self) -> Scalar {
        // Multiplying keeps -0.0 right, which 0 - x would not.
        self.binary(ScalarOp::Mul, &Scalar::from(-1))
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Number(n) => write!(f, "{n}"),
            Repr::Symbolic(s) => f.write_str(&s.trace.text(s.expr)),
            Repr::Failed(e) => write!(f, "error: {e}"),
        }
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.trace.text(self.expr))
    }
}

impl TraceInner {
    fn intern(&mut self, e: Expr, hint: Number) -> ExprId {
        if let Some(&id) = self.ids.get(&e) {
            return id;
        }
        let id = ExprId(self.exprs.len() as u32);
        self.exprs.push((e.clone(), hint));
        self.ids.insert(e, id);
        id
    }

    fn constant(&mut self, n: Number) -> ExprId {
        self.intern(Expr::Const(n.kind(), n.bits()), n)
    }

    fn lift(&mut self, trace: &Arc<ScalarTrace>, s: &Scalar) -> Result<ExprId> {
        match &s.0 {
            Repr::Number(n) => Ok(self.constant(*n)),
            Repr::Symbolic(x) if Arc::ptr_eq(&x.trace, trace) => Ok(x.expr),
            Repr::Symbolic(_) => {
                Err(err!(Trace, "[compile] a symbolic scalar left the function it belongs to"))
            }
            Repr::Failed(e) => Err((**e).clone()),
        }
    }

    fn affine(&self, id: ExprId) -> (Terms, i64) {
        match &self.exprs[id.0 as usize] {
            (Expr::Affine(t, k), _) => (t.clone(), *k),
            (Expr::Const(..), n) => (Terms::new(), n.as_int().unwrap_or(0)),
            _ => (smallvec::smallvec![(id, 1)], 0),
        }
    }

    /// `a + factor * b` in normal form, or `None` where a coefficient leaves 64 bits.
    fn combine(&self, a: ExprId, b: ExprId, factor: i64) -> Option<(Terms, i64)> {
        let (mut t, k) = self.affine(a);
        let (tb, kb) = self.affine(b);
        for (atom, c) in tb {
            let c = c.checked_mul(factor)?;
            match t.binary_search_by_key(&atom, |x| x.0) {
                Ok(i) => {
                    t[i].1 = t[i].1.checked_add(c)?;
                    if t[i].1 == 0 {
                        t.remove(i);
                    }
                }
                Err(i) => t.insert(i, (atom, c)),
            }
        }
        Some((t, k.checked_add(kb.checked_mul(factor)?)?))
    }

    fn intern_affine(&mut self, t: Terms, k: i64, hint: Number) -> ExprId {
        if t.is_empty() {
            return self.constant(Number::Int(k));
        }
        if k == 0 && t.len() == 1 && t[0].1 == 1 {
            return t[0].0;
        }
        self.intern(Expr::Affine(t, k), hint)
    }

    fn depends(&self, id: ExprId, out: &mut SmallVec<[u32; 2]>) {
        match &self.exprs[id.0 as usize].0 {
            Expr::Arg(a) if !out.contains(a) => out.push(*a),
            Expr::Arg(_) | Expr::Const(..) => {}
            Expr::Affine(t, _) => t.iter().for_each(|&(x, _)| self.depends(x, out)),
            Expr::Binary(_, a, b) => {
                self.depends(*a, out);
                self.depends(*b, out);
            }
        }
    }
}

impl ScalarTrace {
    /// A trace whose scalar arguments have these values in the current call.
    pub fn new() -> Arc<ScalarTrace> {
        Arc::new(ScalarTrace { inner: Mutex::default() })
    }

    /// The symbolic scalar for argument number `index` of the call.
    pub fn arg(self: &Arc<Self>, index: u32, value: Number) -> Scalar {
        let expr = self.inner.lock().intern(Expr::Arg(index), value);
        Scalar::from_symbol(Symbol { trace: self.clone(), expr, kind: value.kind() })
    }

    fn binary(self: &Arc<Self>, op: ScalarOp, a: &Scalar, b: &Scalar) -> Result<Scalar> {
        let t = &mut *self.inner.lock();
        let (ea, eb) = (t.lift(self, a)?, t.lift(self, b)?);
        let (ha, hb) = (t.exprs[ea.0 as usize].1, t.exprs[eb.0 as usize].1);
        let hint = ha.binary(op, hb)?;
        let ints = ha.kind() <= NumberKind::Int && hb.kind() <= NumberKind::Int;
        let affine = match op {
            ScalarOp::Add if ints => t.combine(ea, eb, 1),
            ScalarOp::Sub if ints => t.combine(ea, eb, -1),
            ScalarOp::Mul if ints => {
                let (fixed, other) =
                    if matches!(t.exprs[ea.0 as usize].0, Expr::Const(..)) { (ha, eb) } else { (hb, ea) };
                let is_const = matches!(t.exprs[ea.0 as usize].0, Expr::Const(..))
                    || matches!(t.exprs[eb.0 as usize].0, Expr::Const(..));
                let zero = t.constant(Number::Int(0));
                fixed.as_int().filter(|_| is_const).and_then(|c| t.combine(zero, other, c))
            }
            _ => None,
        };
        let expr = match affine {
            Some((terms, k)) => t.intern_affine(terms, k, hint),
            None => t.intern(Expr::Binary(op, ea, eb), hint),
        };
        if let (Expr::Const(..), n) = &t.exprs[expr.0 as usize] {
            return Ok(Scalar::from(*n));
        }
        Ok(Scalar::from_symbol(Symbol { trace: self.clone(), expr, kind: hint.kind() }))
    }

    fn guard(self: &Arc<Self>, cmp: Cmp, a: &Scalar, b: &Scalar, place: String) -> Result<bool> {
        let t = &mut *self.inner.lock();
        let (ea, eb) = (t.lift(self, a)?, t.lift(self, b)?);
        let (ha, hb) = (t.exprs[ea.0 as usize].1, t.exprs[eb.0 as usize].1);
        let outcome = ha.compare(cmp, hb);
        let ints = ha.kind() <= NumberKind::Int && hb.kind() <= NumberKind::Int;
        if ints
            && let Some((terms, k)) = t.combine(ea, eb, -1)
            && terms.is_empty()
        {
            return Ok(Number::Int(k).compare(cmp, Number::Int(0)));
        }
        if !t.guards.iter().any(|g| g.cmp == cmp && g.a == ea && g.b == eb) {
            t.guards.push(Guard { cmp, a: ea, b: eb, outcome, place: place.into() });
        }
        Ok(outcome)
    }

    fn concretize(&self, expr: ExprId, reason: &str, place: &str) -> Number {
        let t = &mut *self.inner.lock();
        let value = t.exprs[expr.0 as usize].1;
        let mut args = SmallVec::new();
        t.depends(expr, &mut args);
        t.concretized.push(Concretized { args, value, reason: reason.into(), place: place.into() });
        value
    }

    /// What had to be concrete so far.
    pub fn concretized(&self) -> Vec<Concretized> {
        self.inner.lock().concretized.clone()
    }

    /// The expression as text, arguments as `s0`, `s1`, ...
    pub fn text(&self, id: ExprId) -> String {
        fn go(t: &TraceInner, id: ExprId) -> String {
            let (e, n) = &t.exprs[id.0 as usize];
            match e {
                Expr::Arg(i) => format!("s{i}"),
                Expr::Const(..) => n.to_string(),
                Expr::Affine(terms, k) => {
                    let mut out = String::new();
                    for (i, &(x, c)) in terms.iter().enumerate() {
                        let sign = if c < 0 { "-" } else { "+" };
                        let factor = if c.unsigned_abs() == 1 {
                            String::new()
                        } else {
                            format!("{}*", c.unsigned_abs())
                        };
                        out += &match i {
                            0 => format!("{}{factor}{}", if c < 0 { "-" } else { "" }, go(t, x)),
                            _ => format!(" {sign} {factor}{}", go(t, x)),
                        };
                    }
                    if *k != 0 {
                        out += &format!(" {} {}", if *k < 0 { "-" } else { "+" }, k.unsigned_abs());
                    }
                    out
                }
                Expr::Binary(op, a, b) => format!("({} {} {})", go(t, *a), op.symbol(), go(t, *b)),
            }
        }
        go(&self.inner.lock(), id)
    }

    /// The program that computes `outs` (with the dtype whose range an integer must fit) from the
    /// call's scalar arguments, checking the guards on the way.
    pub fn program(self: &Arc<Self>, outs: &[(Scalar, Option<Dtype>)]) -> Result<Program> {
        let t = &mut *self.inner.lock();
        let mut cells = Vec::new();
        for (s, check) in outs {
            cells.push((t.lift(self, s)?, *check));
        }
        let args = t.exprs.iter().filter_map(|(e, _)| if let Expr::Arg(i) = e { Some(i + 1) } else { None });
        let args = args.max().unwrap_or(0);
        let mut p = Program { args, regs: args, ..Program::default() };
        let mut regs = HashMap::new();
        for g in t.guards.clone() {
            let (a, b) = (p.emit(t, &mut regs, g.a), p.emit(t, &mut regs, g.b));
            p.instrs.push(Instr::Guard { cmp: g.cmp, a, b, outcome: g.outcome });
            p.guard_places.push(g.place);
        }
        for (e, check) in cells {
            let reg = p.emit(t, &mut regs, e);
            p.outs.push((reg, check));
        }
        Ok(p)
    }
}

impl fmt::Debug for ScalarTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScalarTrace").finish_non_exhaustive()
    }
}

/// The numbers that a scalar program hands to a plan.
pub type Cells = SmallVec<[Number; 4]>;

/// A scalar program: straight-line arithmetic over the scalars of a call, run at the call.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Scalars of the call that it reads: the first registers.
    args: u32,
    instrs: Vec<Instr>,
    outs: Vec<(u32, Option<Dtype>)>,
    guard_places: Vec<Arc<str>>,
    regs: u32,
}

#[derive(Clone, Debug)]
enum Instr {
    Const(Number),
    Affine(SmallVec<[(u32, i64); 2]>, i64),
    /// With the kind of the result while tracing: `2 ** n` is an int or a float by the sign of `n`.
    Binary(ScalarOp, u32, u32, NumberKind),
    Guard {
        cmp: Cmp,
        a: u32,
        b: u32,
        outcome: bool,
    },
}

/// Why a program does not serve a call.
#[derive(Clone, Debug, PartialEq)]
pub enum ProgramMiss {
    /// A guard went the other way; its number.
    Guard(usize),
    /// The arithmetic overflowed, divided by zero or left a range.
    Failed(crate::Error),
}

impl Program {
    fn emit(&mut self, t: &TraceInner, regs: &mut HashMap<ExprId, u32>, id: ExprId) -> u32 {
        if let Some(&r) = regs.get(&id) {
            return r;
        }
        let (e, n) = &t.exprs[id.0 as usize];
        let instr = match e {
            Expr::Arg(i) => return *i,
            Expr::Const(..) => Instr::Const(*n),
            Expr::Affine(terms, k) => {
                Instr::Affine(terms.iter().map(|&(x, c)| (self.emit(t, regs, x), c)).collect(), *k)
            }
            Expr::Binary(op, a, b) => {
                Instr::Binary(*op, self.emit(t, regs, *a), self.emit(t, regs, *b), n.kind())
            }
        };
        self.instrs.push(instr);
        let r = self.regs;
        self.regs += 1;
        regs.insert(id, r);
        r
    }

    /// Number of cells it computes.
    pub fn cells(&self) -> usize {
        self.outs.len()
    }

    /// True when no guard can turn a call away.
    pub fn unguarded(&self) -> bool {
        self.guard_places.is_empty()
    }

    /// File and line of guard `i`.
    pub fn guard_place(&self, i: usize) -> &str {
        &self.guard_places[i]
    }

    /// Bytes it takes in memory, about.
    pub fn nbytes(&self) -> usize {
        self.instrs.len() * size_of::<Instr>() + self.outs.len() * 8 + self.guard_places.len() * 64
    }

    /// Runs it on the scalars of a call. Allocates nothing for up to 16 registers.
    #[inline]
    pub fn run(&self, args: &[Number], out: &mut Cells) -> std::result::Result<(), ProgramMiss> {
        let (args, mut regs) = (&args[..self.args as usize], SmallVec::<[Number; 16]>::new());
        let reg = |regs: &[Number], r: u32| match args.get(r as usize) {
            Some(n) => *n,
            None => regs[r as usize - args.len()],
        };
        let mut guards = 0;
        let left = || err!(Argument, "[scalar] an integer expression leaves the range of int64");
        for i in &self.instrs {
            regs.push(match i {
                Instr::Const(n) => *n,
                Instr::Affine(terms, k) => {
                    let mut sum = *k as i128;
                    for &(r, c) in terms {
                        sum += reg(&regs, r).as_int().unwrap_or(0) as i128 * c as i128;
                    }
                    Number::Int(i64::try_from(sum).map_err(|_| ProgramMiss::Failed(left()))?)
                }
                Instr::Binary(op, a, b, kind) => {
                    let n = reg(&regs, *a).binary(*op, reg(&regs, *b)).map_err(ProgramMiss::Failed)?;
                    if n.kind() != *kind {
                        let text = err!(Argument, "[scalar] {n} is not {kind:?} as it was when traced");
                        return Err(ProgramMiss::Failed(text));
                    }
                    n
                }
                Instr::Guard { cmp, a, b, outcome } => {
                    if reg(&regs, *a).compare(*cmp, reg(&regs, *b)) != *outcome {
                        return Err(ProgramMiss::Guard(guards));
                    }
                    guards += 1;
                    continue;
                }
            });
        }
        for &(r, check) in &self.outs {
            let n = reg(&regs, r);
            if let Some(d) = check {
                n.check_range(d).map_err(ProgramMiss::Failed)?;
            }
            out.push(n);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affine_differences_cancel() {
        let t = ScalarTrace::new();
        let n = t.arg(0, Number::Int(5));
        let d = (&n + 1) - &n;
        assert!(d.number().unwrap().unwrap().same(Number::Int(1)));
        let p = t.program(&[(&n * 2 + 3, None), (&n / 2, None)]).unwrap();
        let mut out = Cells::new();
        p.run(&[Number::Int(10)], &mut out).unwrap();
        assert!(out[0].same(Number::Int(23)) && out[1].same(Number::Float(5.0)));
    }

    #[test]
    fn guards_turn_calls_away() {
        let t = ScalarTrace::new();
        let n = t.arg(0, Number::Int(5));
        assert!(n.gt(3).unwrap());
        assert!((&n + 1).gt(&n).unwrap(), "decided without a guard");
        let p = t.program(&[(n.clone(), Some(Dtype::U8))]).unwrap();
        let run = |v| p.run(&[Number::Int(v)], &mut Cells::new());
        assert_eq!(run(9), Ok(()));
        assert_eq!(run(3), Err(ProgramMiss::Guard(0)));
        assert!(matches!(run(300), Err(ProgramMiss::Failed(_))));
    }
}
