//! Epilogues: a reduction of what a region computes, and a region over what a quantized product
//! computes, become one step with it, where nothing else reads the result between them.

use super::{push, rebuild};
use crate::graph::{Graph, GraphNode, Ref};
use crate::op::{Epilogue, Op, Region, RegionNode};
use smallvec::SmallVec;
use std::sync::Arc;

pub(super) fn run(g: Graph) -> Graph {
    // The pass moves no node, so numbers of nodes are those of `g` throughout.
    let uses = g.uses();
    rebuild(g, |out, node| {
        let joined = (0..node.ins.len()).find_map(|at| join(out, &uses, &node, at));
        push(out, joined.unwrap_or(node))
    })
}

/// The node together with the one that makes its input `at`. The latter is dead then.
fn join(g: &Graph, uses: &[u32], node: &GraphNode, at: usize) -> Option<GraphNode> {
    let Ref::Node(n, 0) = node.ins[at] else { return None };
    let first = &g.nodes[n as usize];
    if uses[n as usize] != 1 || first.avals.len() != 1 || node.avals.len() != 1 {
        return None;
    }
    let second = match (&first.op, &node.op) {
        (Op::Fused(_), Op::Reduce(_, axes)) => {
            let rank = first.avals[0].shape.len();
            let trailing = axes.iter().all(|&a| a as usize + axes.len() >= rank);
            trailing.then(|| node.op.clone())?
        }
        (Op::QuantMatmul(_), Op::Fused(region)) if first.avals[0].shape == node.avals[0].shape => {
            Op::Fused(Arc::new(with_first(region, at as u32)))
        }
        _ => return None,
    };
    let others = node.ins.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, &r)| r);
    let epilogue = Epilogue {
        first: first.op.clone(),
        ins: first.ins.len(),
        cells: first.cells.len(),
        between: first.avals[0].clone(),
        second,
    };
    Some(GraphNode {
        op: Op::Epilogue(Arc::new(epilogue)),
        ins: first.ins.iter().copied().chain(others).collect(),
        cells: first.cells.iter().chain(&node.cells).copied().collect::<SmallVec<_>>(),
        avals: node.avals.clone(),
    })
}

/// The region with input `at` moved before the others.
fn with_first(region: &Region, at: u32) -> Region {
    let mut region = region.clone();
    for node in &mut region.nodes {
        if let RegionNode::Input { index, .. } = node {
            *index = match *index {
                i if i == at => 0,
                i if i < at => i + 1,
                i => i,
            };
        }
    }
    region
}

#[cfg(test)]
mod tests {
    use crate::api::Grouping;
    use crate::array::next_id;
    use crate::compile::trace::{capture, param};
    use crate::op::QuantMode;
    use crate::{Array, Aval, Dtype, Result, api, pass};

    /// The graph of `f` over a (4, 6) and a (6) input after all passes.
    fn passed(f: impl Fn(&Array, &Array) -> Result<Vec<Array>>) -> String {
        crate::reference::init();
        let avals = [Aval::new([4, 6], Dtype::F32), Aval::new([6], Dtype::F32)];
        let since = next_id();
        let roots = f(&param(0, avals[0].clone()), &param(1, avals[1].clone())).unwrap();
        let c = capture(&roots, &avals, since).unwrap();
        pass::run(c.graph).unwrap().without_dead().to_string()
    }

    #[test]
    fn reductions_take_what_regions_compute() {
        let text = passed(|x, w| Ok(vec![x.multiply(w)?.tanh()?.sum(-1, false)?]));
        assert!(text.contains("%0 = fused[tanh(multiply(i0, i1))] then sum[1](in0, in1)"), "{text}");
        let text = passed(|x, w| Ok(vec![x.multiply(w)?.max(&[0, 1][..], false)?]));
        assert!(text.contains("then max[0, 1]"), "{text}");
    }

    #[test]
    fn what_others_read_stays() {
        // Columns are not blocks of the region; a region that is read twice exists anyway.
        let text = passed(|x, w| Ok(vec![x.multiply(w)?.sum(0, false)?]));
        assert!(!text.contains("then"), "{text}");
        let text = passed(|x, w| {
            let y = x.multiply(w)?;
            Ok(vec![y.sum(1, false)?, y])
        });
        assert!(!text.contains("then"), "{text}");
    }

    #[test]
    fn a_residual_joins_a_quantized_product() {
        let grouping = Grouping { group: 32, bits: 4, mode: QuantMode::Affine };
        let text = passed(|x, w| {
            let codes = api::zeros([6, 4], Dtype::U32)?;
            let scales = api::zeros([6, 1], Dtype::F32)?;
            let wide = api::zeros([4, 32], Dtype::F32)?;
            let y = api::quantized_matmul(&wide, &codes, &scales, Some(&scales), true, grouping)?;
            Ok(vec![x.add(w)?.add(y)?])
        });
        assert!(
            text.contains("quantized_matmul[") && text.contains("then fused[add(add(i1, i2), i0)]"),
            "{text}"
        );
    }
}
