//! Random words.

use super::tensor::{Data, Tensor};
use crate::aval::Aval;
use crate::op::random::threefry;
use crate::{Result, bail};

/// As many words as the result has elements. The words of the two halves come in pairs from one
/// counter, so values depend on the total count and not on the shape.
pub(super) fn bits(key: &Tensor, out: &Aval) -> Result<Tensor> {
    let &[k0, k1] = key.ints("random_bits")? else {
        bail!(Shape, "[random_bits] a key has shape (2,), not {:?}", key.shape);
    };
    let key = [k0 as u32, k1 as u32];
    let n = out.shape.elems();
    let (half, odd) = (n / 2, n % 2);
    let mut words = vec![0; n];
    for i in 0..half {
        let pair = threefry(key, [i as u32, (half + odd + i) as u32]);
        (words[i], words[half + odd + i]) = (pair[0] as i128, pair[1] as i128);
    }
    if odd == 1 {
        words[half] = threefry(key, [half as u32, 0])[0] as i128;
    }
    Ok(Tensor::new(out, Data::Int(words)))
}
