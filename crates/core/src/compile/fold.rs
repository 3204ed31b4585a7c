//! Constant folding: what a function computes from captured arrays and numbers alone is computed once,
//! while it is traced, and held by its plan.

use super::trace::Captured;
use crate::array::Array;
use crate::graph::Ref;
use crate::op::Op;
use crate::{pass, runtime};

/// The most bytes that a folded array may take. Larger views of captured arrays are none the worse: their
/// layouts are known when the plan is lowered.
const MAX_BYTES: usize = 64 << 10;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Depends on the call.
    Varies,
    /// One number everywhere: cheaper as a cell than as an array.
    Fill,
    Constant,
}

/// Evaluates the constants that the rest of the graph reads, and makes them inputs that the plan
/// holds. Returns the bytes they take. Where that fails, the graph stays: the call runs into it.
pub(super) fn run(c: &mut Captured) -> usize {
    let kinds = kinds(c);
    let mut at = vec![None; kinds.len()];
    let mut folded: Vec<u32> = Vec::new();
    let g = &c.graph;
    let varying = g.nodes.iter().zip(&kinds).filter(|(_, k)| **k == Kind::Varies);
    for &r in varying.flat_map(|(n, _)| &n.ins).chain(&g.outputs) {
        if let Ref::Node(n, _) = r
            && kinds[n as usize] == Kind::Constant
            && at[n as usize].is_none()
        {
            at[n as usize] = Some(0);
            folded.push(n);
        }
    }
    let arrays = |n: u32| {
        let node = &c.nodes[n as usize];
        (0..node.avals().len() as u32).map(|out| Array::of(node.clone(), out))
    };
    let values: Vec<Array> = folded.iter().flat_map(|&n| arrays(n)).collect();
    if runtime::eval(&values).is_err() {
        return 0;
    }
    let mut nbytes = 0;
    let mut next = g.inputs.len() as u32;
    for &n in &folded {
        let node = &g.nodes[n as usize];
        at[n as usize] = Some(next);
        next += node.avals.len() as u32;
        nbytes += node.avals.iter().map(|a| a.nbytes()).sum::<usize>();
    }
    let g = &mut c.graph;
    g.inputs.extend(values.iter().map(|a| a.aval().clone()));
    c.leaves.extend(values);
    for r in g.nodes.iter_mut().flat_map(|n| &mut n.ins).chain(&mut g.outputs) {
        if let Ref::Node(n, out) = *r
            && let Some(input) = at[n as usize]
        {
            *r = Ref::Input(input + out);
        }
    }
    nbytes
}

fn kinds(c: &Captured) -> Vec<Kind> {
    let g = &c.graph;
    let params = g.inputs.len() - c.leaves.len();
    let own = pass::written(g);
    let mut kinds: Vec<Kind> = Vec::with_capacity(g.nodes.len());
    for (i, node) in g.nodes.iter().enumerate() {
        let constant = |r: &Ref| match r {
            Ref::Input(i) => *i as usize >= params,
            Ref::Node(n, _) => kinds[*n as usize] != Kind::Varies,
        };
        let number = |cell: &u32| g.cells[*cell as usize].is_some();
        // A user's kernel runs when it is called, and what it writes to is made anew each time.
        let once =
            !matches!(node.op, Op::Param(_) | Op::Custom(_) | Op::Call(_)) && own.get(i) != Some(&true);
        let small = node.avals.iter().map(|a| a.nbytes()).sum::<usize>() <= MAX_BYTES;
        let fill = match (&node.op, node.ins.first()) {
            (Op::Full, _) => true,
            (op, Some(Ref::Node(n, _))) if op.is_view() => kinds[*n as usize] == Kind::Fill,
            _ => false,
        };
        kinds.push(if !once || !node.ins.iter().all(constant) || !node.cells.iter().all(number) {
            Kind::Varies
        } else if fill {
            Kind::Fill
        } else if small {
            Kind::Constant
        } else {
            Kind::Varies
        });
    }
    kinds
}

#[cfg(test)]
mod tests {
    use crate::api::{Index, arange};
    use crate::compile::{Compiled, Tree, compile};
    use crate::{Array, Dtype, Result, Scalar};

    /// Steps of the plan that a function runs.
    fn steps<A: Tree, R: Tree + Send + Sync + 'static>(f: &Compiled<A, R>) -> usize {
        f.function.last_plan().expect("a plan").len()
    }

    fn array(values: &[f32]) -> Array {
        crate::reference::init();
        Array::from_slice(values, [values.len()]).unwrap()
    }

    #[test]
    fn what_depends_on_captured_arrays_alone_is_computed_once() -> Result<()> {
        let w = array(&[1.0, 2.0, 3.0]);
        let f = compile(move |x: Array| {
            let scale = w.multiply(&w)?.add(arange(0, 3, 1, Some(Dtype::F32))?)?.sqrt()?;
            x.multiply(scale)
        });
        for _ in 0..2 {
            assert_eq!(
                f.call(array(&[1.0, 1.0, 2.0]))?.to_vec::<f32>()?,
                [1.0, 5f32.sqrt(), 2.0 * 11f32.sqrt()]
            );
        }
        assert_eq!(steps(&f), 1);
        Ok(())
    }

    #[test]
    fn results_may_be_constants() -> Result<()> {
        let w = array(&[1.0, 2.0]);
        let f = compile(move |x: Array| Ok((w.add(1.0)?, w.flip([0i64])?, x.add(1.0)?)));
        for _ in 0..2 {
            let (a, b, c) = f.call(array(&[5.0]))?;
            assert_eq!((a.to_vec::<f32>()?, b.to_vec::<f32>()?), (vec![2.0, 3.0], vec![2.0, 1.0]));
            assert_eq!(c.item::<f32>()?, 6.0);
        }
        assert_eq!(steps(&f), 1);
        Ok(())
    }

    #[test]
    fn what_varies_or_is_large_is_left() -> Result<()> {
        let w = array(&[1.0, 2.0, 3.0]);
        // A symbolic scalar is not a constant.
        let inside = w.clone();
        let f = compile(move |(x, n): (Array, Scalar)| x.add(inside.multiply(n)?.exp()?));
        for n in 0..4 {
            let want = [n as f32, 2.0 * n as f32, 3.0 * n as f32].map(|v| 1.0 + v.exp());
            assert_eq!(f.call((array(&[1.0; 3]), n.into()))?.to_vec::<f32>()?, want);
        }
        // A large constant would cost memory; a number everywhere is a cell.
        let big = crate::api::ones([1 << 15], Dtype::F32)?;
        big.eval()?;
        let g = compile(move |x: Array| big.add(1.0)?.multiply(x));
        assert_eq!(g.call(array(&[2.0]))?.to_vec::<f32>()?, vec![4.0; 1 << 15]);
        assert!(g.stats().nbytes < 1 << 15, "{}", g.stats().nbytes);
        Ok(())
    }

    #[test]
    fn a_constant_that_fails_fails_the_call() -> Result<()> {
        let w = array(&[1.0, 2.0, 3.0]).reshape([3, 1])?;
        let far = Array::from_slice(&[7i32], [1])?;
        let f = compile(move |x: Array| w.index(&[Index::Array(far.clone())])?.add(x));
        let outside = |r: Result<Array>| r.and_then(|y| y.to_vec::<f32>());
        let uncompiled = {
            let w = array(&[1.0, 2.0, 3.0]).reshape([3, 1])?;
            outside(w.index(&[Index::Array(Array::from_slice(&[7i32], [1])?)])?.add(1.0))
        };
        let compiled = outside(f.call(array(&[1.0])));
        assert_eq!(compiled.is_err(), uncompiled.is_err());
        Ok(())
    }
}
