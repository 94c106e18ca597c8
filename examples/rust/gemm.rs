// SPDX-License-Identifier: Apache-2.0
//! A matrix product with a bias and an activation: D = relu(A B + bias).
//! Run: cargo run --example gemm
use attile::{Activation, Context, TensorMut, TensorRef};

fn main() -> Result<(), attile::Error> {
    let context = Context::new()?; // the best backend here, or the one in ATTILE_BACKEND
    println!("on {}", context.info()?.device_name);

    // [layer]
    // Row-major: A is 2 by 3, B is 3 by 2.
    let a = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
    let b = [1.0f32, 0.0, 0.0, 1.0, 1.0, 1.0];
    let bias = [0.5f32, -100.0];
    let mut d = [0.0f32; 4];

    context
        .gemm(
            TensorRef::new(&a, &[2, 3])?,
            TensorRef::new(&b, &[3, 2])?,
            TensorMut::new(&mut d, &[2, 2])?,
        )
        .bias_columns(TensorRef::new(&bias, &[2])?)
        .activation(Activation::Relu)
        .run()?;
    // [layer]

    println!("{} {}\n{} {}", d[0], d[1], d[2], d[3]);
    Ok(())
}
