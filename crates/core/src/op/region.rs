//! Regions: subgraphs of elementwise ops that run as one loop over blocks.

use super::scalar_ops::Row;
use crate::Dtype;
use smallvec::{SmallVec, smallvec};

/// A fused subgraph. All nodes have the region's shape; inputs broadcast to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Region {
    /// In evaluation order.
    pub nodes: Vec<RegionNode>,
    /// Nodes whose values leave the region, in the order of the step's outputs.
    pub outputs: SmallVec<[u32; 2]>,
}

/// One value of a region; arguments are indices of earlier nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RegionNode {
    /// Input `index` of the step.
    Input { index: u32, dtype: Dtype },
    /// Scalar cell `index` of the step, converted to `dtype` (a float through float32 into anything
    /// narrower than float64).
    Cell { index: u32, dtype: Dtype },
    /// A row of the table; every argument has the dtype the row takes.
    Row { row: Row, args: SmallVec<[u32; 3]>, dtype: Dtype },
    /// Conversion.
    Cast { arg: u32, dtype: Dtype },
}

impl RegionNode {
    pub fn dtype(&self) -> Dtype {
        match self {
            RegionNode::Input { dtype, .. }
            | RegionNode::Cell { dtype, .. }
            | RegionNode::Row { dtype, .. }
            | RegionNode::Cast { dtype, .. } => *dtype,
        }
    }
}

impl Region {
    /// A conversion.
    pub fn cast(from: Dtype, to: Dtype) -> Region {
        let nodes = vec![RegionNode::Input { index: 0, dtype: from }, RegionNode::Cast { arg: 0, dtype: to }];
        Region { nodes, outputs: smallvec![1] }
    }

    /// Number of rows and casts.
    pub fn ops(&self) -> usize {
        self.nodes.iter().filter(|n| matches!(n, RegionNode::Row { .. } | RegionNode::Cast { .. })).count()
    }
}
