//! Other shapes from one trace: a kept graph whose extents follow those of new arguments.
//!
//! That is right only while nothing in the graph was made from an extent as a number. Reading one while
//! tracing ([`crate::Array::shape`]) says that something may have been, and the graph is not kept.

use crate::aval::Aval;
use crate::backend::Value;
use crate::graph::{Graph, GraphNode};
use crate::op::Op;
use crate::shape::Shape;
use smallvec::{SmallVec, smallvec};

/// A traced graph, before any pass, and the arrays that it holds: its last inputs.
pub(crate) struct Kept {
    graph: Graph,
    pub constants: Vec<Value>,
}

impl Kept {
    pub fn new(graph: Graph, constants: Vec<Value>) -> Kept {
        Kept { graph, constants }
    }

    pub fn nbytes(&self) -> usize {
        self.graph.nbytes() + self.constants.len() * size_of::<Value>()
    }

    /// The graph for arguments of these avals, which differ in extents alone from those it was traced
    /// with; `None` where an op does not say what its extents come from.
    pub fn follow(&self, args: &[Aval]) -> Option<Graph> {
        let mut g = self.graph.clone();
        g.inputs[..args.len()].clone_from_slice(args);
        // An extent of 0 takes other ways through the checks of many functions.
        if args
            .iter()
            .zip(&self.graph.inputs)
            .any(|(new, old)| new.shape.contains(&0) != old.shape.contains(&0))
        {
            return None;
        }
        for i in 0..g.nodes.len() {
            let old = &self.graph.nodes[i];
            let shape = {
                let before: SmallVec<[&Aval; 3]> = old.ins.iter().map(|&r| self.graph.aval(r)).collect();
                let now: SmallVec<[&Aval; 3]> = old.ins.iter().map(|&r| g.aval(r)).collect();
                if before == now {
                    continue;
                }
                follow(old, &before, &now)?.checked("compile").ok()?
            };
            g.nodes[i].avals = smallvec![Aval { shape, ..old.avals[0].clone() }];
        }
        Some(g)
    }
}

/// The shape of an op's one result, if its inputs' shapes decide it.
fn follow(node: &GraphNode, before: &[&Aval], now: &[&Aval]) -> Option<Shape> {
    if node.avals.len() != 1 || now.iter().any(|a| a.valid.is_some()) {
        return None;
    }
    let x = &now[0].shape;
    let broadcast =
        |all: &[&Aval]| all.iter().try_fold(Shape::scalar(), |s, a| s.broadcast(&a.shape, "compile")).ok();
    Some(match &node.op {
        Op::Elementwise(_) => broadcast(now)?,
        Op::Cast | Op::Contiguous | Op::Sort(_) | Op::ArgSort(_) | Op::Scan(..) | Op::Softmax => x.clone(),
        Op::RmsNorm | Op::LayerNorm => {
            let wide = now[1..].iter().all(|w| w.shape.last() == x.last());
            wide.then(|| x.clone())?
        }
        Op::Transpose(perm) => perm.iter().map(|&p| x[p as usize]).collect(),
        Op::Reduce(_, axes) => without(x, axes),
        Op::ArgReduce(_, axis) => without(x, &[*axis]),
        Op::Concat(axis) => {
            let a = *axis as usize;
            let mut shape = x.clone();
            shape.as_mut()[a] = now.iter().map(|n| n.shape[a]).sum();
            let fits = |n: &&&Aval| (0..x.len()).all(|k| k == a || n.shape[k] == x[k]);
            now.iter().all(|n| fits(&n)).then_some(shape)?
        }
        Op::Matmul => {
            let y = &now[1].shape;
            let (m, n) = (x.len(), y.len());
            if x[m - 1] != y[n - 2] {
                return None;
            }
            let mut shape = Shape::from(&x[..m - 2]).broadcast(&y[..n - 2].into(), "compile").ok()?;
            shape.push(x[m - 2]);
            shape.push(y[n - 1]);
            shape
        }
        Op::Reshape => regroup(&before[0].shape, x, &node.avals[0].shape)?,
        _ => return None,
    })
}

fn without(shape: &Shape, axes: &[u8]) -> Shape {
    (0..shape.len()).filter(|&i| !axes.contains(&(i as u8))).map(|i| shape[i]).collect()
}

/// What `to` becomes when what was reshaped to it, `from`, becomes `now`: axes of extent 1 come and go,
/// others stay or merge. Reading off which do is possible because every prefix has its own product.
fn regroup(from: &[usize], now: &[usize], to: &[usize]) -> Option<Shape> {
    if from.iter().zip(now).any(|(&old, &new)| old == 1 && new != 1) {
        return None;
    }
    let mut rest = from.iter().zip(now).filter(|(old, _)| **old != 1);
    let out = to.iter().map(|&extent| {
        let (mut was, mut is) = (1, 1usize);
        while was < extent {
            let (old, new) = rest.next()?;
            (was, is) = (was * old, is.checked_mul(*new)?);
        }
        (was == extent).then_some(is)
    });
    let out = out.collect::<Option<Shape>>()?;
    rest.next().is_none().then_some(out)
}

#[cfg(test)]
mod tests {
    use super::regroup;
    use crate::api::{Axes, Mask, concatenate, rms_norm, scaled_dot_product_attention};
    use crate::compile::{Compiled, Options, compile_with};
    use crate::{Array, Result};

    fn shapeless(f: impl Fn(Array) -> Result<Array> + Send + Sync + 'static) -> Compiled<Array, Array> {
        compile_with(Options { shapeless: true, ..Options::default() }, f)
    }

    fn array(shape: &[usize]) -> Array {
        crate::reference::init();
        let n = shape.iter().product::<usize>();
        let values: Vec<f32> = (0..n).map(|i| (i * 37 % 11) as f32 - 4.5).collect();
        Array::from_slice(&values, shape).unwrap()
    }

    /// Calls the function compiled and as it is on every shape; returns the traces.
    fn agrees(
        shapes: &[&[usize]],
        f: impl Fn(Array) -> Result<Array> + Send + Sync + Copy + 'static,
    ) -> Result<u64> {
        let compiled = shapeless(f);
        for &shape in shapes.iter().chain(shapes) {
            let (want, got) = (f(array(shape))?, compiled.call(array(shape))?);
            assert_eq!(got.shape(), want.shape(), "for {shape:?}");
            assert_eq!(got.to_vec::<f32>()?, want.to_vec::<f32>()?, "for {shape:?}");
        }
        let stats = compiled.stats();
        assert_eq!(stats.hits, stats.calls - stats.traces - stats.reshaped);
        assert_eq!(stats.variants, shapes.len());
        Ok(stats.traces)
    }

    #[test]
    fn extents_follow_the_arguments() -> Result<()> {
        let shapes: &[&[usize]] = &[&[2, 3], &[5, 3], &[4, 7], &[1, 1], &[3, 2]];
        let one = |f: fn(Array) -> Result<Array>| assert_eq!(agrees(shapes, f).unwrap(), 1);
        one(|x| x.exp()?.add(1.0)?.multiply(&x));
        one(|x| x.subtract(x.max(-1, true)?)?.exp()?.sum(Axes::ALL, false));
        one(|x| x.t()?.matmul(&x));
        one(|x| concatenate(&[x.clone(), x.clone(), x.add(1.0)?], 0)?.softmax(-1));
        one(|x| rms_norm(&x, None, 1e-5)?.sort(Some(0))?.cumsum(Some(1), false, true));
        one(|x| x.reshape([-1])?.multiply(2.0)?.sum(0, true));
        one(|x| x.flatten(0, -1)?.cumsum(None, true, true));
        one(|x| x.expand_dims(&[1])?.multiply(x.expand_dims(&[0])?));
        one(|x| x.matmul(&x.sum(0, false)?)?.greater(0.0)?.where_(1.5, 2.5));
        Ok(())
    }

    #[test]
    fn an_extent_that_is_read_binds_the_trace() -> Result<()> {
        let shapes: &[&[usize]] = &[&[4, 4], &[2, 8], &[8, 2], &[5, 4]];
        let each = |f: fn(Array) -> Result<Array>| assert_eq!(agrees(shapes, f).unwrap(), 4);
        each(|x| x.multiply(x.shape()[0] as f32));
        each(|x| x.mean(0, false));
        each(|x| x.var(-1, false, 0));
        each(|x| x.add(x.size() as f32));
        each(|x| x.add(x.nbytes() as f32));
        each(|x| x.slice_axis(0, 1, 2));
        each(|x| x.add(crate::api::ones(x.shape(), crate::Dtype::F32)?));
        let literal = |x: Array| x.reshape([4, -1]);
        assert_eq!(agrees(&[&[4, 4], &[2, 8], &[8, 2]], literal)?, 3);
        let squeezed = |x: Array| x.squeeze(None);
        assert_eq!(agrees(&[&[1, 4], &[2, 1], &[2, 2]], squeezed)?, 3);
        // Captured arrays are no arguments.
        let w = array(&[3]);
        let f = shapeless(move |x| x.add(&w)?.multiply(w.shape()[0] as f32));
        for n in 1..4 {
            assert_eq!(f.call(array(&[n, 3]))?.size(), 3 * n);
        }
        assert_eq!(f.stats().traces, 1);
        Ok(())
    }

    #[test]
    fn reading_an_extent_waits_for_nobody() -> Result<()> {
        // Attention looks at the inputs of sliced keys while it holds their state.
        let f = |x: Array| {
            let keys = x.slice(&[0, 0, 0, 0], &[1, 2, 3, 8], None)?;
            scaled_dot_product_attention(&x, &keys, &keys, 1.0, Mask::None, None)
        };
        assert_eq!(agrees(&[&[1, 2, 4, 8], &[1, 2, 5, 8]], f)?, 2);
        Ok(())
    }

    #[test]
    fn other_ranks_and_what_is_empty_are_traced_anew() -> Result<()> {
        let shapes: &[&[usize]] = &[&[2], &[3], &[2, 2], &[4, 1], &[0], &[0, 3], &[6]];
        assert_eq!(agrees(shapes, |x| x.add(1.0))?, 4);
        Ok(())
    }

    #[test]
    fn what_no_longer_fits_is_the_functions_error() -> Result<()> {
        let w = array(&[3]);
        let f = shapeless(move |x| x.add(&w));
        assert_eq!(f.call(array(&[2, 3]))?.size(), 6);
        let message = f.call(array(&[2, 4])).unwrap_err().to_string();
        assert!(message.contains("(2, 4)") && message.contains("(3,)"), "{message}");
        assert_eq!(f.call(array(&[1, 3]))?.size(), 3);
        assert_eq!((f.stats().traces, f.stats().failed, f.stats().reshaped), (2, 1, 1));
        Ok(())
    }

    #[test]
    fn the_bounds_hold() -> Result<()> {
        let f =
            compile_with(Options { shapeless: true, max_entries: 4, ..Options::default() }, |x: Array| {
                x.multiply(2.0)?.sum(Axes::ALL, false)
            });
        for n in 1..100 {
            let want: f32 = array(&[n]).to_vec::<f32>()?.iter().map(|v| 2.0 * v).sum();
            assert_eq!(f.call(array(&[n]))?.item::<f32>()?, want);
        }
        let stats = f.stats();
        assert_eq!((stats.traces, stats.reshaped, stats.entries), (1, 98, 4));
        Ok(())
    }

    #[test]
    fn axes_merge_and_ones_come_and_go() {
        let shape = |dims: &[usize]| Some(dims.into());
        assert_eq!(regroup(&[2, 3, 4], &[5, 3, 7], &[6, 4]), shape(&[15, 7]));
        assert_eq!(regroup(&[6, 2, 3], &[1, 5, 3], &[6, 6]), shape(&[1, 15]));
        assert_eq!(regroup(&[3, 4], &[4, 3], &[3, 1, 4, 1]), shape(&[4, 1, 3, 1]));
        assert_eq!(regroup(&[1, 4], &[1, 9], &[4]), shape(&[9]));
        // Which of two extents a split axis gives to cannot be known, nor what an axis of 1 was for.
        assert_eq!(regroup(&[6], &[8], &[2, 3]), None);
        assert_eq!(regroup(&[1, 4], &[2, 4], &[4]), None);
        assert_eq!(regroup(&[4, 6], &[4, 6], &[8, 3]), None);
    }
}
