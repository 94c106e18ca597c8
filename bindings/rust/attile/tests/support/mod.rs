// SPDX-License-Identifier: Apache-2.0
//! What the tests of operations share: random numbers, a comparison, and attention by plain loops.
/// Numbers in [-1, 1), the same on every machine.
pub fn random(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

pub fn assert_close(found: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(*f) - e).abs();
        assert!(error <= tolerance, "element {}: {} instead of {}", i, f, e);
    }
}

/// One head: q [lq, d], k [lk, d], v [lk, d]; row i sees keys up to `last(i)`.
pub fn attention(q: &[f32], k: &[f32], v: &[f32], d: usize, last: impl Fn(usize) -> usize) -> (Vec<f64>, Vec<f64>) {
    let (mut o, mut lse) = (Vec::new(), Vec::new());
    for (i, row) in q.chunks(d).enumerate() {
        let scores: Vec<f64> = k
            .chunks(d)
            .take(last(i) + 1)
            .map(|key| row.iter().zip(key).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>() / (d as f64).sqrt())
            .collect();
        let max = scores.iter().cloned().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scores.iter().map(|s| (s - max).exp()).sum();
        lse.push(max + sum.ln());
        for c in 0..d {
            o.push(scores.iter().zip(v.chunks(d)).map(|(s, value)| (s - max).exp() / sum * f64::from(value[c])).sum());
        }
    }
    (o, lse)
}
