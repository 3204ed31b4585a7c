//! Passes: rewrites of a graph, in the order in which they run.

use crate::error::Result;
use crate::graph::Graph;
use crate::verify;

/// Runs every pass; in debug builds the graph is verified after each.
pub fn run(graph: Graph) -> Result<Graph> {
    let graph = graph.without_dead();
    verify::check(&graph, "dead code")?;
    Ok(graph)
}
