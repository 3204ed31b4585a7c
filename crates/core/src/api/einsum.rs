//! Einstein summation.

use crate::array::Array;
use crate::error::Result;
use crate::shape::Shape;
use crate::{bail, err};
use std::collections::BTreeMap;

/// A letter, or the number (from the right) of an axis that an ellipsis stands for.
type Label = u32;
const DOTS: Label = 0x11_0000;

struct Spec {
    inputs: Vec<Vec<Label>>,
    output: Vec<Label>,
    extents: BTreeMap<Label, usize>,
}

fn parse(text: &str, shapes: &[&Shape]) -> Result<Spec> {
    let clean: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let bad = |why: &str| err!(Argument, "[einsum] {text:?}: {why}");
    let (left, right) = match clean.split_once("->") {
        Some((l, r)) => (l.to_string(), Some(r.to_string())),
        None => (clean.clone(), None),
    };
    let terms: Vec<&str> = left.split(',').collect();
    if terms.len() != shapes.len() {
        bail!(Argument, "[einsum] {text:?} names {} operands, {} are given", terms.len(), shapes.len());
    }
    // An axis of the ellipsis is numbered so that sorting puts it first and in order.
    let labels = |term: &str, dots: usize| -> Result<Vec<Label>> {
        let mut out = Vec::new();
        let mut rest = term;
        while let Some(c) = rest.chars().next() {
            if let Some(r) = rest.strip_prefix("...") {
                if out.iter().any(|&l| l >= DOTS) {
                    return Err(bad("two ellipses in one term"));
                }
                out.extend((0..dots as u32).rev().map(|i| DOTS + i));
                rest = r;
            } else if c.is_ascii_alphabetic() {
                out.push(c as Label);
                rest = &rest[1..];
            } else {
                return Err(bad("accepted: letters, commas, one ellipsis a term and ->"));
            }
        }
        Ok(out)
    };
    let mut spec = Spec { inputs: Vec::new(), output: Vec::new(), extents: BTreeMap::new() };
    let mut most_dots = 0;
    for (term, shape) in terms.iter().zip(shapes) {
        let letters = term.replace("...", "").chars().count();
        let has = term.contains("...");
        if letters > shape.len() || (!has && letters != shape.len()) {
            bail!(Argument, "[einsum] {text:?}: term {term:?} does not fit the shape {shape:?}");
        }
        let dots = shape.len() - letters;
        most_dots = most_dots.max(dots);
        let term = labels(term, dots)?;
        for (&l, &d) in term.iter().zip(shape.iter()) {
            let e = spec.extents.entry(l).or_insert(d);
            if *e == 1 {
                *e = d;
            } else if d != 1 && d != *e {
                bail!(Shape, "[einsum] {text:?}: one label has the extents {} and {d}", *e);
            }
        }
        spec.inputs.push(term);
    }
    spec.output = match right {
        Some(r) => labels(&r, most_dots)?,
        None => {
            let count = |l: Label| spec.inputs.iter().flatten().filter(|&&x| x == l).count();
            let dots = (0..most_dots as u32).rev().map(|i| DOTS + i);
            let single = spec.extents.keys().copied().filter(|&l| l < DOTS && count(l) == 1);
            dots.chain(single).collect()
        }
    };
    for (i, l) in spec.output.iter().enumerate() {
        if spec.output[..i].contains(l) {
            return Err(bad("the result names a label twice"));
        }
        if !spec.extents.contains_key(l) {
            return Err(bad("the result names a label that no operand has"));
        }
    }
    Ok(spec)
}

/// Pairs to contract, by position in a list from which they are removed and whose end the result
/// joins; with each, the labels involved and those of the result.
fn path(spec: &Spec) -> Vec<(Vec<usize>, Vec<Label>, Vec<Label>)> {
    let size = |ls: &[Label]| ls.iter().map(|l| spec.extents[l] as f64).product::<f64>();
    let unique = |ls: &[&[Label]]| {
        let mut all: Vec<Label> = ls.concat();
        all.sort_unstable();
        all.dedup();
        all
    };
    let mut terms: Vec<Vec<Label>> = spec.inputs.iter().map(|t| unique(&[t])).collect();
    let mut out = Vec::new();
    if terms.len() == 1 {
        out.push((vec![0], terms[0].clone(), spec.output.clone()));
    }
    while terms.len() > 1 {
        let mut best: Option<(f64, f64, usize, usize)> = None;
        for i in 0..terms.len() {
            for j in i + 1..terms.len() {
                let all = unique(&[&terms[i], &terms[j]]);
                let kept = kept(&all, &terms, &[i, j], &spec.output);
                let key = (size(&kept) - size(&terms[i]) - size(&terms[j]), size(&all));
                if best.is_none_or(|(a, b, ..)| (key.0, key.1) < (a, b)) {
                    best = Some((key.0, key.1, i, j));
                }
            }
        }
        // A nan from overflowing sizes leaves the first pair.
        let (i, j) = best.map_or((0, 1), |b| (b.2, b.3));
        let all = unique(&[&terms[i], &terms[j]]);
        let made = kept(&all, &terms, &[i, j], &spec.output);
        out.push((vec![i, j], all, made.clone()));
        terms.remove(j);
        terms.remove(i);
        terms.push(made);
    }
    out
}

/// The labels that the result or a term other than `gone` needs.
fn kept(all: &[Label], terms: &[Vec<Label>], gone: &[usize], output: &[Label]) -> Vec<Label> {
    let needed = |l: &Label| {
        output.contains(l) || terms.iter().enumerate().any(|(i, t)| !gone.contains(&i) && t.contains(l))
    };
    all.iter().copied().filter(needed).collect()
}

fn product(dims: &[usize]) -> usize {
    dims.iter().product()
}

/// Keeps one of each label, taking diagonals, and sums over labels that `keep` does not have.
fn simplify(mut x: Array, mut labels: Vec<Label>, keep: &[Label]) -> Result<(Array, Vec<Label>)> {
    while let Some((i, j)) = (0..labels.len())
        .flat_map(|i| (i + 1..labels.len()).map(move |j| (i, j)))
        .find(|&(i, j)| labels[i] == labels[j])
    {
        let n = x.shape()[i].max(x.shape()[j]);
        let mut shape = x.shape().clone();
        (shape.as_mut()[i], shape.as_mut()[j]) = (n, n);
        x = x.broadcast_to(shape)?.diagonal(0, i as i64, j as i64)?;
        let l = labels.remove(j);
        labels.remove(i);
        labels.push(l);
    }
    let gone: Vec<i64> =
        (0..labels.len()).filter(|&i| !keep.contains(&labels[i])).map(|i| i as i64).collect();
    if !gone.is_empty() {
        let dtype = x.dtype();
        x = x.sum(&gone[..], false)?.astype(dtype)?;
        labels.retain(|l| keep.contains(l));
    }
    Ok((x, labels))
}

/// One product of two terms, summed over the labels that `keep` does not have.
fn contract(
    (a, la): (Array, Vec<Label>),
    (b, lb): (Array, Vec<Label>),
    keep: &[Label],
) -> Result<(Array, Vec<Label>)> {
    let with = |other: &[Label]| [keep, other].concat();
    let (a, la) = simplify(a, la, &with(&lb))?;
    let (b, lb) = simplify(b, lb, &with(&la))?;
    // A label with extent 1 on one side and more on the other only broadcasts: sum it beforehand.
    let thin = |x: &Array, lx: &[Label], y: &Array, ly: &[Label]| -> Vec<Label> {
        let at = |l: &Label| ly.iter().position(|m| m == l).map(|i| y.shape()[i]);
        (0..lx.len())
            .filter(|&i| x.shape()[i] == 1 && at(&lx[i]).is_some_and(|d| d != 1) && !keep.contains(&lx[i]))
            .map(|i| lx[i])
            .collect()
    };
    let (ta, tb) = (thin(&a, &la, &b, &lb), thin(&b, &lb, &a, &la));
    let without = |l: &[Label]| l.iter().copied().filter(|l| !ta.contains(l) && !tb.contains(l)).collect();
    let (ka, kb): (Vec<Label>, Vec<Label>) = (without(&la), without(&lb));
    let ((a, la), (b, lb)) = (simplify(a, la, &ka)?, simplify(b, lb, &kb)?);
    let common: Vec<Label> = la.iter().copied().filter(|l| lb.contains(l)).collect();
    let batch: Vec<Label> = common.iter().copied().filter(|l| keep.contains(l)).collect();
    let inner: Vec<Label> = common.iter().copied().filter(|l| !keep.contains(l)).collect();
    let free = |l: &[Label]| l.iter().copied().filter(|x| !common.contains(x)).collect::<Vec<_>>();
    let (fa, fb) = (free(&la), free(&lb));
    let out = [&batch[..], &fa[..], &fb[..]].concat();
    let order = |x: &Array, labels: &[Label], parts: [&[Label]; 3]| {
        let at = |l: &Label| labels.iter().position(|m| m == l).unwrap_or(0);
        let perm: Vec<usize> = parts.concat().iter().map(at).collect();
        x.permute(&perm)
    };
    let dims = |x: &Array, from: usize, n: usize| Shape::from(&x.shape()[from..from + n]);
    let (nb, ni) = (batch.len(), inner.len());
    let a = order(&a, &la, [&batch, &fa, &inner])?;
    let b = order(&b, &lb, [&batch, &inner, &fb])?;
    let (da, db) = (dims(&a, nb, fa.len()), dims(&b, nb + ni, fb.len()));
    let join = |parts: &[&[usize]]| -> Shape { parts.concat().into() };
    if inner.is_empty() {
        let ones = |n: usize| vec![1; n];
        let left = a.reshape_to(join(&[&a.shape()[..nb], &da, &ones(fb.len())]))?;
        let right = b.reshape_to(join(&[&b.shape()[..nb], &ones(fa.len()), &db]))?;
        return Ok((left.multiply(right)?, out));
    }
    let k = product(&b.shape()[nb..nb + ni]);
    let left = a.reshape_to(join(&[&a.shape()[..nb], &[product(&da), k]]))?;
    let right = b.reshape_to(join(&[&b.shape()[..nb], &[k, product(&db)]]))?;
    let y = left.matmul(&right)?;
    let lead = y.shape()[..nb].to_vec();
    Ok((y.reshape_to(join(&[&lead, &da, &db]))?, out))
}

/// Sums products of operands over the labels that the result does not have.
///
/// Operands are contracted in pairs, the pair that shrinks most first, as matrix products.
///
/// # Errors
/// `Argument` for text that is not a summation or does not fit, `Shape` when extents differ,
/// `Dtype` for contractions of integers.
///
/// ```
/// # isopace_core::reference::init();
/// use isopace_core::{Array, api::einsum};
/// let a = Array::from_slice(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
/// assert_eq!(einsum("ii", &[a.clone()])?.item::<f32>()?, 5.0);
/// assert_eq!(einsum("ij,kj->ik", &[a.clone(), a])?.to_vec::<f32>()?, [5.0, 11.0, 11.0, 25.0]);
/// # Ok::<(), isopace_core::Error>(())
/// ```
pub fn einsum(text: &str, operands: &[Array]) -> Result<Array> {
    let shapes: Vec<&Shape> = operands.iter().map(|a| a.shape()).collect();
    let spec = parse(text, &shapes)?;
    let mut terms: Vec<(Array, Vec<Label>)> = operands.iter().cloned().zip(spec.inputs.clone()).collect();
    for (at, _, made) in path(&spec) {
        match at[..] {
            [i, j] => {
                let b = terms.remove(j);
                let a = terms.remove(i);
                terms.push(contract(a, b, &made)?);
            }
            _ => {
                let (x, labels) = terms.remove(0);
                terms.push(simplify(x, labels, &made)?);
            }
        }
    }
    let Some((x, labels)) = terms.pop() else { bail!(Argument, "[einsum] no operands") };
    let at = |l: &Label| labels.iter().position(|m| m == l).unwrap_or(0);
    let perm: Vec<usize> = spec.output.iter().map(at).collect();
    let out = x.permute(&perm)?;
    let shape: Shape = spec.output.iter().map(|l| spec.extents[l]).collect();
    out.broadcast_to(shape)
}

/// The order in which [`einsum`] contracts, and a summary as text.
pub fn einsum_path(text: &str, operands: &[Array]) -> Result<(Vec<Vec<usize>>, String)> {
    let shapes: Vec<&Shape> = operands.iter().map(|a| a.shape()).collect();
    let spec = parse(text, &shapes)?;
    let steps = path(&spec);
    let size = |ls: &[Label]| ls.iter().map(|l| spec.extents[l] as f64).product::<f64>();
    let every: Vec<Label> = spec.extents.keys().copied().collect();
    let sums = |all: &[Label], made: &[Label]| (all.len() > made.len()) as usize;
    let naive = size(&every) * (operands.len().saturating_sub(1).max(1) + sums(&every, &spec.output)) as f64;
    let best: f64 = steps.iter().map(|(_, all, made)| size(all) * (1 + sums(all, made)) as f64).sum();
    let scaling = steps.iter().map(|(_, all, _)| all.len()).max().unwrap_or(0);
    let summary = format!(
        "contraction {text}\nnaive: {} labels, {naive} operations\nchosen: {scaling} labels, {best} operations\n",
        every.len()
    );
    Ok((steps.into_iter().map(|(at, ..)| at).collect(), summary))
}
