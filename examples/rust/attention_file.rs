// SPDX-License-Identifier: Apache-2.0
//! Attention of a file: int32 B, N, d, then for each of the B batches Q, K and V of N d float32 each; the output is B N d float32.
//! Run: cargo run --example attention_file -- IN OUT
use attile::{Context, TensorMut, TensorRef};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.len() != 3 {
        return Err("usage: attention_file IN OUT".into());
    }
    let bytes = std::fs::read(&arguments[1])?;
    let words: Vec<[u8; 4]> = bytes
        .chunks_exact(4)
        .map(|w| [w[0], w[1], w[2], w[3]])
        .collect();
    if words.len() < 3 {
        return Err("the file is too short for its head of three numbers".into());
    }
    let [batch, len, dim] = [0, 1, 2].map(|i| i64::from(i32::from_le_bytes(words[i])));
    if batch <= 0
        || len <= 0
        || dim <= 0
        || (words.len() - 3) as i128 != 3 * i128::from(batch) * i128::from(len * dim)
        || bytes.len() % 4 != 0
    {
        return Err(format!(
            "the head says B = {}, N = {}, d = {}, which does not fit the file's {} bytes",
            batch,
            len,
            dim,
            bytes.len()
        )
        .into());
    }
    let data: Vec<f32> = words[3..].iter().map(|w| f32::from_le_bytes(*w)).collect();

    // [compute]
    // Q, K and V of one batch follow each other, so all three are views of the same memory with a batch stride of 3 N d.
    let (shape, stride) = ([batch, 1, len, dim], [3 * len * dim, len * dim, dim, 1]);
    let part =
        |which: i64| TensorRef::strided(&data, &shape, &stride, (which * len * dim) as usize);
    let mut out = vec![0.0f32; (batch * len * dim) as usize];
    let context = Context::new()?;
    context
        .attention(
            part(0)?,
            part(1)?,
            part(2)?,
            TensorMut::new(&mut out, &shape)?,
        )
        .run()?;
    // [compute]

    let bytes: Vec<u8> = out.iter().flat_map(|x| x.to_le_bytes()).collect();
    std::fs::write(&arguments[2], bytes)?;
    println!(
        "attention of B = {}, N = {}, d = {} on {}",
        batch,
        len,
        dim,
        context.info()?.device_name
    );
    Ok(())
}
