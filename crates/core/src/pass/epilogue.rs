//! Epilogues: a reduction of what a region computes, a quantized product of what a norm, a region or attention
//! computes, and a region over what such a product computes, become one step with it, where nothing else reads the
//! result between them. Each is a step less for the host, whose data and code a long attention or a product has
//! pushed out of the caches.

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
    let alone = |r: Ref| match r {
        Ref::Node(n, 0) if uses[n as usize] == 1 => g.node(r).filter(|n| n.avals.len() == 1),
        _ => None,
    };
    let read = alone(node.ins[at])?;
    let first = if read.op == Op::Reshape { alone(read.ins[0])? } else { read };
    let same_shape = read.avals[0].shape == first.avals[0].shape;
    let second = match (&first.op, &node.op) {
        (Op::Fused(_), Op::Reduce(_, axes)) if same_shape => {
            let rank = first.avals[0].shape.len();
            let trailing = axes.iter().all(|&a| a as usize + axes.len() >= rank);
            trailing.then(|| node.op.clone())?
        }
        (op, Op::Fused(region))
            if is_product(op) && same_shape && first.avals[0].shape == node.avals[0].shape =>
        {
            Op::Fused(Arc::new(with_first(region, at as u32)))
        }
        (Op::RmsNorm | Op::LayerNorm | Op::Fused(_) | Op::Sdpa(_), Op::QuantMatmul(_)) if at == 0 => {
            node.op.clone()
        }
        _ => return None,
    };
    if node.avals.len() != 1 {
        return None;
    }
    let others = node.ins.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, &r)| r);
    let epilogue = Epilogue {
        first: first.op.clone(),
        ins: first.ins.len(),
        cells: first.cells.len(),
        made: first.avals[0].clone(),
        between: read.avals[0].clone(),
        second,
    };
    Some(GraphNode {
        op: Op::Epilogue(Arc::new(epilogue)),
        ins: first.ins.iter().copied().chain(others).collect(),
        cells: first.cells.iter().chain(&node.cells).copied().collect::<SmallVec<_>>(),
        avals: node.avals.clone(),
    })
}

/// Whether an op ends in a quantized product.
fn is_product(op: &Op) -> bool {
    match op {
        Op::QuantMatmul(_) => true,
        Op::Epilogue(e) => is_product(&e.second),
        _ => false,
    }
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
    fn a_product_takes_what_norms_regions_and_attention_compute() {
        let grouping = Grouping { group: 32, bits: 4, mode: QuantMode::Affine };
        let product = |x: &Array| {
            let (codes, scales) = (api::zeros([6, 4], Dtype::U32)?, api::zeros([6, 1], Dtype::F32)?);
            api::quantized_matmul(x, &codes, &scales, Some(&scales), true, grouping)
        };
        let wide = |x: &Array| x.sum(0, false)?.multiply(api::ones([32, 6], Dtype::F32)?)?.t();
        let text = passed(|x, _| Ok(vec![product(&api::rms_norm(&wide(x)?, None, 1e-5)?)?]));
        assert!(text.contains("rms_norm then quantized_matmul["), "{text}");
        let text = passed(|x, _| Ok(vec![product(&wide(x)?.exp()?.add(2.0)?)?.add(1.0)?.exp()?]));
        assert!(text.contains("then quantized_matmul[") && text.contains("] then fused[exp"), "{text}");
        // One query: heads stand side by side in the result as the product reads them.
        let attend = |x: &Array, queries: i64| {
            let q = wide(x)?.slice(&[0, 0], &[4, 32], None)?.reshape([1, 4, 1, 32])?;
            let q = q.broadcast_to([1, 4, queries as usize, 32])?;
            let out = api::scaled_dot_product_attention(&q, &q, &q, 1.0, api::Mask::None, None)?;
            product(&out.transpose(&[0, 2, 1, 3])?.reshape([queries, 128])?.slice(
                &[0, 0],
                &[queries, 32],
                None,
            )?)
        };
        let whole = |x: &Array, queries: i64| {
            let q = wide(x)?.slice(&[0, 0], &[4, 8], None)?.reshape([1, 4, 1, 8])?;
            let q = q.broadcast_to([1, 4, queries as usize, 8])?;
            let out = api::scaled_dot_product_attention(&q, &q, &q, 1.0, api::Mask::None, None)?;
            product(&out.transpose(&[0, 2, 1, 3])?.reshape([queries, 32])?)
        };
        let joins = |text: &str| {
            text.contains("scaled_dot_product_attention") && text.contains("} then quantized_matmul[")
        };
        let text = passed(|x, _| Ok(vec![whole(x, 1)?]));
        assert!(joins(&text), "{text}");
        assert!(!joins(&passed(|x, _| Ok(vec![whole(x, 3)?]))));
        assert!(!joins(&passed(|x, _| Ok(vec![attend(x, 1)?]))));
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
