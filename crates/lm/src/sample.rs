//! From logits to the next token.
//!
//! The order is fixed: logit bias, repetition penalty, then (at a temperature above zero) top-k,
//! top-p among what is left, min-p, and a draw at the temperature. Each filter keeps at least the
//! best token, so no setting masks everything.

use isopace::{Result, bail};

/// How to choose the next token. The default is greedy, with nothing else on.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleOptions {
    /// 0 takes the best token; larger values flatten the distribution.
    pub temperature: f32,
    /// Keeps this many of the best tokens; 0 keeps all.
    pub top_k: usize,
    /// Keeps the fewest best tokens whose probabilities add up to this; 1 keeps all.
    pub top_p: f32,
    /// Keeps tokens at least this fraction as probable as the best; 0 keeps all.
    pub min_p: f32,
    /// Divides positive logits of recent tokens and multiplies negative ones; 1 changes nothing.
    pub repetition_penalty: f32,
    /// How many recent tokens the penalty looks at.
    pub repetition_context: usize,
    /// Added to the logits of single tokens; negative infinity bans one.
    pub logit_bias: Vec<(u32, f32)>,
    /// Where the random numbers start: the same seed gives the same draws.
    pub seed: u64,
}

impl Default for SampleOptions {
    fn default() -> SampleOptions {
        SampleOptions {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            repetition_context: 64,
            logit_bias: Vec::new(),
            seed: 0,
        }
    }
}

impl SampleOptions {
    /// Checks every option against its domain.
    ///
    /// # Errors
    /// `Argument` naming the option, its value and what is accepted.
    pub fn check(&self) -> Result<()> {
        let number = |name: &str, v: f32, ok: bool, accepted: &str| {
            if ok { Ok(()) } else { bail!(Argument, "[sample] {name} is {v}; it must be {accepted}") }
        };
        let t = self.temperature;
        number("temperature", t, t.is_finite() && t >= 0.0, "a finite number, 0 or more")?;
        let p = self.top_p;
        number("top_p", p, p > 0.0 && p <= 1.0, "above 0 and at most 1")?;
        number("min_p", self.min_p, (0.0..=1.0).contains(&self.min_p), "from 0 to 1")?;
        let r = self.repetition_penalty;
        number("repetition_penalty", r, r.is_finite() && r > 0.0, "a finite number above 0")?;
        for (id, bias) in &self.logit_bias {
            if bias.is_nan() || *bias == f32::INFINITY {
                bail!(
                    Argument,
                    "[sample] logit_bias of token {id} is {bias}; it must be a finite number or -inf"
                );
            }
        }
        Ok(())
    }
}

/// A source of random numbers that is a pure function of seed and count.
#[derive(Clone, Debug)]
struct Counter {
    seed: u64,
    count: u64,
}

impl Counter {
    /// A number in [0, 1) with 53 random bits.
    fn uniform(&mut self) -> f64 {
        self.count += 1;
        let mixed = mix(mix(self.seed) ^ self.count.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        (mixed >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The finalizer of SplitMix64: each input bit changes about half of the output's.
fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Chooses tokens. It keeps the random numbers' count and the memory it works in.
///
/// ```
/// use isopace_lm::sample::{SampleOptions, Sampler};
/// let mut greedy = Sampler::new(SampleOptions::default(), 3)?;
/// assert_eq!(greedy.sample(&[0.1, 2.0, -1.0], &[])?, 1);
/// # Ok::<(), isopace::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sampler {
    options: SampleOptions,
    random: Counter,
    /// Candidates: logit and token.
    kept: Vec<(f32, u32)>,
    recent: Vec<u32>,
    weights: Vec<f32>,
    /// Logits with bias and penalty.
    changed: Vec<f32>,
}

/// Candidates that top-p looks at first; most distributions need no more.
const FIRST: usize = 128;
/// Weights are added up in blocks of this many, so that a draw looks at few of them.
const BLOCK: usize = 512;

impl Sampler {
    /// A sampler for a vocabulary of this size.
    ///
    /// # Errors
    /// `Argument` for an option out of its domain or a biased token outside the vocabulary.
    pub fn new(options: SampleOptions, vocab: usize) -> Result<Sampler> {
        options.check()?;
        if let Some((id, _)) = options.logit_bias.iter().find(|(id, _)| *id as usize >= vocab) {
            bail!(Argument, "[sample] logit_bias names token {id}, but the vocabulary has {vocab} tokens");
        }
        let random = Counter { seed: options.seed, count: 0 };
        let (kept, recent, weights, changed) = Default::default();
        Ok(Sampler { options, random, kept, recent, weights, changed })
    }

    /// The options it was made with.
    pub fn options(&self) -> &SampleOptions {
        &self.options
    }

    /// Chooses the token after `history` (prompt and answer so far) from its logits. A NaN logit counts as
    /// a banned token; of equal logits the lowest token is the best.
    ///
    /// # Errors
    /// `Argument` when no token is left: no logits, or all of them negative infinity. `Format` where NaN is
    /// all that is left.
    pub fn sample(&mut self, logits: &[f32], history: &[u32]) -> Result<u32> {
        if self.options.logit_bias.is_empty() && self.options.repetition_penalty == 1.0 {
            return self.choose(logits);
        }
        let mut changed = std::mem::take(&mut self.changed);
        changed.clear();
        changed.extend_from_slice(logits);
        for (id, bias) in &self.options.logit_bias {
            if let Some(l) = changed.get_mut(*id as usize) {
                *l += bias;
            }
        }
        self.penalize(&mut changed, history);
        let chosen = self.choose(&changed);
        self.changed = changed;
        chosen
    }

    fn choose(&mut self, logits: &[f32]) -> Result<u32> {
        let (best, max) = best(logits)?;
        if self.options.temperature == 0.0 || max == f32::INFINITY {
            return Ok(best);
        }
        self.collect(logits, max);
        if self.options.min_p > 0.0 {
            let floor = max + self.options.min_p.ln();
            self.kept.retain(|(l, _)| *l >= floor);
        }
        Ok(self.draw(best, max))
    }

    fn penalize(&mut self, logits: &mut [f32], history: &[u32]) {
        let penalty = self.options.repetition_penalty;
        if penalty == 1.0 {
            return;
        }
        let from = history.len().saturating_sub(self.options.repetition_context);
        self.recent.clear();
        self.recent.extend_from_slice(&history[from..]);
        self.recent.sort_unstable();
        self.recent.dedup();
        for id in &self.recent {
            if let Some(l) = logits.get_mut(*id as usize) {
                *l = if *l < 0.0 { *l * penalty } else { *l / penalty };
            }
        }
    }

    /// Fills `kept` with what top-k and top-p leave.
    fn collect(&mut self, logits: &[f32], max: f32) {
        let (k, p) = (self.options.top_k, f64::from(self.options.top_p));
        if k > 0 && k < logits.len() {
            self.collect_best(logits, k);
            if p < 1.0 {
                let total = sum(self.kept.iter().map(|(l, _)| weight(*l - max)));
                self.keep_mass(total * p, max);
            }
        } else if p < 1.0 {
            self.weights.clear();
            self.weights.extend(logits.iter().map(|l| weight(*l - max)));
            let wanted = p * self.weights.chunks(BLOCK).map(block_sum).sum::<f64>();
            // Growing portions: only a flat distribution ends up sorted as a whole.
            let mut portion = FIRST;
            loop {
                self.collect_best(logits, portion);
                if self.keep_mass(wanted, max) || portion >= logits.len() {
                    return;
                }
                portion = portion.saturating_mul(8);
            }
        } else {
            self.kept.clear();
            let all = logits.iter().zip(0u32..).map(|(l, i)| (*l, i));
            // The comparison is false for NaN too.
            self.kept.extend(all.filter(|(l, _)| *l > f32::NEG_INFINITY));
        }
    }

    /// Fills `kept` with the `k` best candidates. One pass: a logit no better than the k-th best seen
    /// so far is not even written down.
    fn collect_best(&mut self, logits: &[f32], k: usize) {
        let room = k.saturating_mul(2).max(64);
        let mut floor = f32::NEG_INFINITY;
        self.kept.clear();
        for (l, i) in logits.iter().zip(0u32..) {
            // Of equal logits the lower token is the better and was here before.
            if *l > floor {
                self.kept.push((*l, i));
                if self.kept.len() == room {
                    floor = self.keep_best(k);
                }
            }
        }
        if self.kept.len() > k {
            self.keep_best(k);
        }
    }

    /// Leaves the `k` best of more candidates than that; the worst of them.
    fn keep_best(&mut self, k: usize) -> f32 {
        let (_, worst, _) = self.kept.select_nth_unstable_by(k - 1, better);
        let worst = worst.0;
        self.kept.truncate(k);
        worst
    }

    /// Keeps the fewest best candidates that weigh as much as wanted; false if all weigh less.
    fn keep_mass(&mut self, wanted: f64, max: f32) -> bool {
        self.kept.sort_unstable_by(better);
        let mut mass = 0.0;
        for (i, (l, _)) in self.kept.iter().enumerate() {
            mass += f64::from(weight(l - max));
            if mass >= wanted {
                self.kept.truncate(i + 1);
                return true;
            }
        }
        false
    }

    /// Draws one candidate at the temperature.
    fn draw(&mut self, best: u32, max: f32) -> u32 {
        // Capped so that the best token's 0 × scale stays 0 at the tiniest temperatures.
        let scale = (1.0 / self.options.temperature).min(f32::MAX);
        self.weights.clear();
        self.weights.extend(self.kept.iter().map(|(l, _)| weight((l - max) * scale)));
        let total: f64 = self.weights.chunks(BLOCK).map(block_sum).sum();
        let mut at = self.random.uniform() * total;
        for (weights, kept) in self.weights.chunks(BLOCK).zip(self.kept.chunks(BLOCK)) {
            let block = block_sum(weights);
            if at >= block {
                at -= block;
                continue;
            }
            for (w, (_, id)) in weights.iter().zip(kept) {
                if at < f64::from(*w) {
                    return *id;
                }
                at -= f64::from(*w);
            }
        }
        // Only rounding leads here.
        best
    }
}

/// e^x for x ≤ 0, to 2e-7 relative; no less than e^-87, which weighs nothing beside 1. Written
/// without branches and calls so that loops over it vectorize.
fn weight(x: f32) -> f32 {
    // Adding and subtracting this rounds to an integer, which is then in the low bits of the sum.
    const ROUND: f32 = 12_582_912.0;
    let t = x.max(-87.0) * std::f32::consts::LOG2_E;
    let rounded = t + ROUND;
    let f = (t - (rounded - ROUND)) * std::f32::consts::LN_2;
    // The first terms of e^f for |f| ≤ ln(2)/2.
    let e = 1.0 + f * (1.0 + f * (0.5 + f * (1.0 / 6.0 + f * (1.0 / 24.0 + f * (1.0 / 120.0 + f / 720.0)))));
    let power = f32::from_bits((rounded.to_bits() << 23).wrapping_add(127 << 23));
    e * power
}

fn sum(weights: impl Iterator<Item = f32>) -> f64 {
    weights.map(f64::from).sum()
}

/// The sum of a block, in lanes.
fn block_sum(weights: &[f32]) -> f64 {
    let mut lanes = [0f32; 16];
    let (chunks, rest) = weights.as_chunks::<16>();
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(lane, w)| *lane += w);
    }
    sum(lanes.into_iter()) + sum(rest.iter().copied())
}

/// Higher logits first, of equal ones the lower token.
fn better(a: &(f32, u32), b: &(f32, u32)) -> std::cmp::Ordering {
    b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
}

/// The best token and its logit, in one pass.
fn best(logits: &[f32]) -> Result<(u32, f32)> {
    // Maxima of eight lanes, then the first place where the maximum stands: both loops vectorize.
    let mut lanes = [f32::NEG_INFINITY; 8];
    let (chunks, rest) = logits.as_chunks::<8>();
    for chunk in chunks {
        for (lane, l) in lanes.iter_mut().zip(chunk) {
            *lane = if *l > *lane { *l } else { *lane };
        }
    }
    let max = lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |m, l| if *l > m { *l } else { m });
    if max == f32::NEG_INFINITY {
        if logits.iter().any(|l| l.is_nan()) {
            bail!(
                Format,
                "[sample] all {} logits are NaN or -inf: the model's weights hold no sensible numbers",
                logits.len()
            );
        }
        bail!(
            Argument,
            "[sample] no token is left to choose: all {} logits are -inf or banned",
            logits.len()
        );
    }
    let at = logits.iter().position(|l| *l == max).unwrap_or(0);
    Ok((at as u32, max))
}

#[cfg(test)]
mod tests;
