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
/// assert_eq!(greedy.sample(&mut [0.1, 2.0, -1.0], &[])?, 1);
/// # Ok::<(), isopace::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sampler {
    options: SampleOptions,
    random: Counter,
    /// Candidates: logit and token.
    kept: Vec<(f32, u32)>,
    recent: Vec<u32>,
    weights: Vec<f64>,
}

/// Below this many natural units under the best, a token's weight is less than what rounding loses.
const NEGLIGIBLE: f32 = -40.0;
/// Candidates that top-p sorts first; most distributions need no more.
const FIRST_SORTED: usize = 128;

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
        Ok(Sampler { options, random, kept: Vec::new(), recent: Vec::new(), weights: Vec::new() })
    }

    /// The options it was made with.
    pub fn options(&self) -> &SampleOptions {
        &self.options
    }

    /// Chooses the token after `history` (prompt and answer so far) from its logits, which the bias
    /// and the penalty change in place. A NaN logit counts as a banned token; of equal logits the
    /// lowest token is the best.
    ///
    /// # Errors
    /// `Argument` when no token is left: no logits, or all of them NaN or negative infinity.
    pub fn sample(&mut self, logits: &mut [f32], history: &[u32]) -> Result<u32> {
        for (id, bias) in &self.options.logit_bias {
            if let Some(l) = logits.get_mut(*id as usize) {
                *l += bias;
            }
        }
        self.penalize(logits, history);
        let (best, max) = best(logits)?;
        if self.options.temperature == 0.0 || max == f32::INFINITY {
            return Ok(best);
        }
        self.collect(logits, max);
        if self.options.top_p < 1.0 {
            self.keep_top_p(max);
        }
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

    /// Fills `kept` with the top-k candidates, or with all.
    fn collect(&mut self, logits: &[f32], max: f32) {
        self.kept.clear();
        let all = logits.iter().zip(0u32..).map(|(l, i)| (*l, i));
        // Ordered comparison drops NaN; negative infinity is banned.
        self.kept.extend(all.filter(|(l, _)| *l > f32::NEG_INFINITY && *l <= max));
        let k = self.options.top_k;
        if k > 0 && k < self.kept.len() {
            self.kept.select_nth_unstable_by(k - 1, better);
            self.kept.truncate(k);
        }
    }

    /// Keeps the fewest best candidates whose probabilities reach top-p. Sorts only as many as that
    /// takes, in growing portions.
    fn keep_top_p(&mut self, max: f32) {
        let weight = |l: f32| if l - max < NEGLIGIBLE { 0.0 } else { f64::from((l - max).exp()) };
        let total: f64 = self.kept.iter().map(|(l, _)| weight(*l)).sum();
        let wanted = total * f64::from(self.options.top_p);
        let (mut sorted, mut sum) = (0, 0.0);
        while sorted < self.kept.len() {
            let rest = &mut self.kept[sorted..];
            let portion = rest.len().min(FIRST_SORTED.max(3 * sorted));
            if portion < rest.len() {
                rest.select_nth_unstable_by(portion - 1, better);
            }
            rest[..portion].sort_unstable_by(better);
            for (i, (l, _)) in rest[..portion].iter().enumerate() {
                sum += weight(*l);
                if sum >= wanted {
                    self.kept.truncate(sorted + i + 1);
                    return;
                }
            }
            sorted += portion;
        }
    }

    /// Draws one candidate at the temperature.
    fn draw(&mut self, best: u32, max: f32) -> u32 {
        // The order of the candidates depends on how they were selected, which is deterministic.
        let scale = 1.0 / self.options.temperature;
        let mut total = 0.0;
        self.weights.clear();
        self.weights.extend(self.kept.iter().map(|(l, _)| {
            let x = (l - max) * scale;
            // At a tiny temperature the scale is infinite and the best token's x is 0 × ∞.
            let w = if *l == max {
                1.0
            } else if x < NEGLIGIBLE {
                0.0
            } else {
                f64::from(x.exp())
            };
            total += w;
            w
        }));
        let mut at = self.random.uniform() * total;
        for (w, (_, id)) in self.weights.iter().zip(&self.kept) {
            if at < *w {
                return *id;
            }
            at -= w;
        }
        // Only rounding leads here.
        best
    }
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
        bail!(
            Argument,
            "[sample] no token is left to choose: all {} logits are NaN, -inf or banned",
            logits.len()
        );
    }
    let at = logits.iter().position(|l| *l == max).unwrap_or(0);
    Ok((at as u32, max))
}

#[cfg(test)]
mod tests;
