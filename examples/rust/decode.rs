// SPDX-License-Identifier: Apache-2.0
//! Decoding with a K/V cache stored [length, heads, head_dim]: each step appends one row and computes one row of attention.
//! The program compares the rows with those of one causal attention of the whole sequence.
//! Run: cargo run --example decode
use attile::{Context, Mask, TensorMut, TensorRef};

const HEADS_Q: i64 = 8;
const HEADS_KV: i64 = 2;
const HEAD_DIM: i64 = 16;
const MOST: i64 = 24;

fn numbers(count: i64, factor: i64) -> Vec<f32> {
    (0..count)
        .map(|i| (i * factor % 101 - 50) as f32 / 32.0)
        .collect()
}

// [view]
/// Shape and strides of `len` rows of storage [length, heads, head_dim], as the tensor [1, heads, len, head_dim].
fn rows(len: i64, heads: i64) -> ([i64; 4], [i64; 4]) {
    (
        [1, heads, len, HEAD_DIM],
        [len * heads * HEAD_DIM, HEAD_DIM, heads * HEAD_DIM, 1],
    )
}
// [view]

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let q = numbers(MOST * HEADS_Q * HEAD_DIM, 37);
    let k = numbers(MOST * HEADS_KV * HEAD_DIM, 61);
    let v = numbers(MOST * HEADS_KV * HEAD_DIM, 53);
    let (mut expected, mut o) = (vec![0.0f32; q.len()], vec![0.0f32; q.len()]);
    let context = Context::new()?;

    let (shape, stride) = rows(MOST, HEADS_Q);
    let (shape_kv, stride_kv) = rows(MOST, HEADS_KV);
    context
        .attention(
            TensorRef::strided(&q, &shape, &stride, 0)?,
            TensorRef::strided(&k, &shape_kv, &stride_kv, 0)?,
            TensorRef::strided(&v, &shape_kv, &stride_kv, 0)?,
            TensorMut::strided(&mut expected, &shape, &stride, 0)?,
        )
        .mask(Mask::CausalTopLeft)
        .run()?;

    // [step]
    let (row_q, row_kv) = (
        (HEADS_Q * HEAD_DIM) as usize,
        (HEADS_KV * HEAD_DIM) as usize,
    );
    let (mut k_cache, mut v_cache) = (Vec::new(), Vec::new());
    for len in 1..=MOST {
        let last = len as usize - 1;
        k_cache.extend_from_slice(&k[last * row_kv..][..row_kv]);
        v_cache.extend_from_slice(&v[last * row_kv..][..row_kv]);
        let (shape, stride) = rows(1, HEADS_Q);
        let (shape_kv, stride_kv) = rows(len, HEADS_KV); // the keys so far
        context
            .attention(
                TensorRef::strided(&q, &shape, &stride, last * row_q)?,
                TensorRef::strided(&k_cache, &shape_kv, &stride_kv, 0)?,
                TensorRef::strided(&v_cache, &shape_kv, &stride_kv, 0)?,
                TensorMut::strided(&mut o, &shape, &stride, last * row_q)?,
            )
            .run()?;
    }
    // [step]

    if o.iter()
        .zip(&expected)
        .any(|(a, b)| (a - b).abs() > 1e-5 || a.is_nan())
    {
        return Err("the rows are not those of the whole sequence".into());
    }
    println!("{} steps, each row that of the whole sequence", MOST);
    Ok(())
}
