// SPDX-License-Identifier: Apache-2.0
use attile::{Context, Mask, TensorMut, TensorRef};

fn main() -> Result<(), attile::Error> {
    let x: Vec<f32> = (0..96).map(|i| (i * 37 % 101 - 50) as f32 / 64.0).collect();
    let (mut o, shape) = (vec![0.0f32; 96], [1, 2, 6, 8]); // 2 heads, 6 rows, head dimension 8; the same for q, k and v
    let values = [1, 2, 7 - std::env::args().count() as i64, 8]; // with an argument: a value too few, to see what an error looks like
    let (q, k) = (TensorRef::new(&x, &shape)?, TensorRef::new(&x, &shape)?);
    Context::new()?
        .attention(
            q,
            k,
            TensorRef::new(&x, &values)?,
            TensorMut::new(&mut o, &shape)?,
        )
        .mask(Mask::CausalBottomRight)
        .run()?;
    o.iter().for_each(|value| println!("{}", value));
    Ok(())
}
