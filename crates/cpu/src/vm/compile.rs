//! From a region to a program: opcodes with their loops, registers by liveness.

use super::ops::{ARGS, OpFn, unary};
use super::{cast, chain, float, generic, int};
use isopace_core::op::{Region, RegionNode, Row};
use isopace_core::{Dtype, Result, bail};
use smallvec::SmallVec;

/// Where an operand is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A register of the scratch area.
    Reg(u16),
    /// Input of the step, in memory.
    Input(u16),
    /// A scalar, converted before the run.
    Cell(u16),
    /// The memory of an output that is already written.
    Output(u16),
}

/// One opcode.
#[derive(Clone, Debug)]
pub struct Inst {
    pub work: Loop,
    pub dst: Place,
    pub args: [Place; ARGS],
}

/// How an opcode is computed.
#[derive(Clone, Copy)]
pub enum Loop {
    Own(OpFn),
    Generic { row: Row, takes: Dtype, gives: Dtype },
}

impl std::fmt::Debug for Loop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Loop::Own(_) => f.write_str("own"),
            Loop::Generic { row, .. } => write!(f, "generic {row:?}"),
        }
    }
}

/// A compiled region.
#[derive(Debug)]
pub struct Program {
    pub insts: Vec<Inst>,
    /// Registers used, before those that strided inputs need.
    pub regs: u16,
    /// Cells by number and the dtype they are converted to.
    pub cells: SmallVec<[(u32, Dtype); 4]>,
    pub inputs: SmallVec<[Dtype; 4]>,
    pub outputs: SmallVec<[Dtype; 2]>,
}

const NONE: Place = Place::Cell(0);

/// Operands of an opcode, filled up.
fn filled<const N: usize>(of: [Place; N]) -> [Place; ARGS] {
    let mut all = [NONE; ARGS];
    all[..N].copy_from_slice(&of);
    all
}

fn is_half(d: Dtype) -> bool {
    matches!(d, Dtype::F16 | Dtype::BF16)
}

struct Builder<'a> {
    region: &'a Region,
    /// For each node the operand that is computed in its loop.
    folded: Vec<Option<u32>>,
    at: Vec<Option<Place>>,
    /// For each node the last node that reads it.
    last: Vec<usize>,
    free: Vec<u16>,
    program: Program,
}

/// The operands of a node as rows of the table name them.
fn args_of(node: &RegionNode) -> &[u32] {
    match node {
        RegionNode::Row { args, .. } => args,
        RegionNode::Cast { arg, .. } => std::slice::from_ref(arg),
        _ => &[],
    }
}

/// For each node the operand, used nowhere else, that one loop can compute together with it.
fn fold(region: &Region) -> Vec<Option<u32>> {
    let mut uses = vec![0u32; region.nodes.len()];
    for a in region.nodes.iter().flat_map(args_of).chain(&region.outputs) {
        uses[*a as usize] += 1;
    }
    let mut out: Vec<Option<u32>> = vec![None; region.nodes.len()];
    for (i, node) in region.nodes.iter().enumerate() {
        for a in args_of(node).iter().copied().filter(|a| uses[*a as usize] == 1) {
            out[i] = Some(a);
            if chain_of(region, &out, i).is_some() {
                break;
            }
            out[i] = None;
        }
    }
    out
}

/// The loop of a node together with the operands folded into it, if there is one.
fn chain_of(region: &Region, folded: &[Option<u32>], mut i: usize) -> Option<OpFn> {
    let mut steps: SmallVec<[(Row, bool); 4]> = SmallVec::new();
    loop {
        let RegionNode::Row { row, args, dtype: Dtype::F32 } = &region.nodes[i] else { return None };
        let inner = folded[i];
        steps.push((*row, inner.is_some_and(|f| args[0] != f)));
        match inner {
            Some(f) => i = f as usize,
            None => break,
        }
    }
    steps.reverse();
    chain::lookup(&steps)
}

/// The operands that the loop of a node reads: those of a folded operand first.
fn operands(region: &Region, folded: &[Option<u32>], i: usize) -> SmallVec<[u32; ARGS]> {
    let args = args_of(&region.nodes[i]);
    match folded[i] {
        None => args.into(),
        Some(f) => {
            let mut all = operands(region, folded, f as usize);
            all.extend(args.iter().copied().filter(|a| *a != f));
            all
        }
    }
}

/// Compiles a region whose inputs have these dtypes.
///
/// # Errors
/// `Internal` for a region that is not well formed.
pub fn compile(region: &Region, inputs: &[Dtype]) -> Result<Program> {
    let n = region.nodes.len();
    let mut last = vec![usize::MAX; n];
    let early = |(i, node)| args_of(node).iter().all(|&a: &u32| (a as usize) < i);
    if !region.nodes.iter().enumerate().all(early) {
        bail!(Internal, "[fused] a node reads one that is not computed yet");
    }
    for &o in &region.outputs {
        if o as usize >= n {
            bail!(Internal, "[fused] output {o} of {n} nodes");
        }
        last[o as usize] = n;
    }
    let folded = fold(region);
    // Walking back, a node is live when something after it reads it.
    for i in (0..n).rev() {
        if last[i] != usize::MAX {
            for a in operands(region, &folded, i) {
                let l = &mut last[a as usize];
                if *l == usize::MAX {
                    *l = i;
                }
            }
        }
    }
    let program = Program {
        insts: Vec::with_capacity(n),
        regs: 0,
        cells: SmallVec::new(),
        inputs: inputs.into(),
        outputs: region.outputs.iter().map(|&o| region.nodes[o as usize].dtype()).collect(),
    };
    let mut b = Builder { region, folded, at: vec![None; n], last, free: Vec::new(), program };
    for i in 0..n {
        if b.last[i] != usize::MAX {
            b.node(i)?;
        }
    }
    for (k, &o) in region.outputs.iter().enumerate() {
        b.store(k, o as usize)?;
    }
    Ok(b.program)
}

impl Builder<'_> {
    fn node(&mut self, i: usize) -> Result<()> {
        let dtype = self.region.nodes[i].dtype();
        match &self.region.nodes[i] {
            RegionNode::Input { index, .. } => {
                if self.program.inputs.get(*index as usize) != Some(&dtype) {
                    bail!(Internal, "[fused] input {index} is not {dtype}");
                }
                let input = Place::Input(*index as u16);
                self.at[i] = Some(match dtype {
                    Dtype::F16 => self.emit(Loop::Own(unary::<float::LoadF16>()), filled([input])),
                    Dtype::BF16 => self.emit(Loop::Own(unary::<float::LoadBF16>()), filled([input])),
                    _ => input,
                });
            }
            RegionNode::Cell { index, .. } => {
                self.program.cells.push((*index, dtype));
                self.at[i] = Some(Place::Cell(self.program.cells.len() as u16 - 1));
            }
            RegionNode::Row { row, args, .. } => {
                if args.len() != row.arity() {
                    bail!(Internal, "[fused] {} with {} operands", row.name(), args.len());
                }
                let reads = operands(self.region, &self.folded, i);
                let mut places = [NONE; ARGS];
                for (p, &a) in places.iter_mut().zip(&reads) {
                    *p = self.read(a)?;
                }
                let takes = self.region.nodes[args[args.len() - 1] as usize].dtype();
                let found = match (self.folded[i], generic::lane(takes)) {
                    (Some(_), _) => chain_of(self.region, &self.folded, i),
                    (None, Dtype::F32) => float::lookup(*row),
                    (None, lane) => int::lookup(*row, lane),
                };
                let work = found.map_or(Loop::Generic { row: *row, takes, gives: dtype }, Loop::Own);
                let rounds = is_half(dtype) && found.is_some() && !float::exact_on_halves(*row);
                self.compute(i, work, places, rounds.then_some(dtype));
                self.release(i, &reads);
            }
            RegionNode::Cast { arg, .. } => {
                let (arg, from) = (*arg, self.region.nodes[*arg as usize].dtype());
                let place = self.read(arg)?;
                self.compute(i, Loop::Own(cast::lookup(from, dtype)), filled([place]), None);
                self.release(i, &[arg]);
            }
        }
        Ok(())
    }

    /// Emits the opcode of node `i`, straight into the output's memory where that has its lanes.
    fn compute(&mut self, i: usize, work: Loop, args: [Place; ARGS], round: Option<Dtype>) {
        let output = self.region.outputs.iter().position(|&o| o as usize == i);
        let half = is_half(self.region.nodes[i].dtype());
        let place = match (output, round) {
            (Some(k), None) if !half => {
                let dst = Place::Output(k as u16);
                self.program.insts.push(Inst { work, dst, args });
                dst
            }
            (_, None) => self.emit(work, args),
            (_, Some(d)) => {
                let raw = self.emit(work, args);
                let round =
                    if d == Dtype::F16 { unary::<float::RoundF16>() } else { unary::<float::RoundBF16>() };
                let place = self.emit(Loop::Own(round), filled([raw]));
                self.give_back(raw);
                place
            }
        };
        self.at[i] = Some(place);
    }

    /// Emits an opcode into a fresh register, which is never one of its operands.
    fn emit(&mut self, work: Loop, args: [Place; ARGS]) -> Place {
        let r = self.free.pop().unwrap_or_else(|| {
            self.program.regs += 1;
            self.program.regs - 1
        });
        let dst = Place::Reg(r);
        self.program.insts.push(Inst { work, dst, args });
        dst
    }

    fn read(&self, a: u32) -> Result<Place> {
        match self.at.get(a as usize) {
            Some(Some(p)) => Ok(*p),
            _ => bail!(Internal, "[fused] node {a} is read before it is computed"),
        }
    }

    fn release(&mut self, i: usize, args: &[u32]) {
        for (k, &a) in args.iter().enumerate() {
            if self.last[a as usize] == i
                && !args[..k].contains(&a)
                && let Some(p) = self.at[a as usize]
            {
                self.give_back(p);
            }
        }
    }

    fn give_back(&mut self, p: Place) {
        if let Place::Reg(r) = p {
            self.free.push(r);
        }
    }

    /// Makes sure that output `k` is in its memory.
    fn store(&mut self, k: usize, node: usize) -> Result<()> {
        let place = self.read(node as u32)?;
        let dst = Place::Output(k as u16);
        if place == dst {
            return Ok(());
        }
        let dtype = self.region.nodes[node].dtype();
        let work = match dtype {
            Dtype::F16 => unary::<float::StoreF16>(),
            Dtype::BF16 => unary::<float::StoreBF16>(),
            d => super::ops::copy(d.size()),
        };
        self.program.insts.push(Inst { work: Loop::Own(work), dst, args: filled([place]) });
        Ok(())
    }
}
