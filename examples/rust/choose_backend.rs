// SPDX-License-Identifier: Apache-2.0
//! Choosing a backend: by name or list, what a context runs on, whether it can do a call, and what was tried.
//! Run: cargo run --example choose_backend -- cuda,cpu
use attile::{Context, TensorMut, TensorRef};

fn main() {
    let selection = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "auto".to_string());
    if let Err(error) = describe(&selection) {
        eprintln!("{}\n\n{}", error, attile::backend_report());
        std::process::exit(1);
    }
}

fn describe(selection: &str) -> Result<(), attile::Error> {
    // [choose]
    let context = Context::open(selection)?;
    let info = context.info()?;
    println!(
        "{} {} on {} ({})",
        info.backend, info.backend_version, info.device_name, info.arch
    );
    // [choose]

    // [query]
    let x = vec![0.0f32; 2 * 8 * 128 * 64];
    let mut o = vec![0.0f32; 2 * 8 * 128 * 64];
    let view = || TensorRef::new(&x, &[2, 8, 128, 64]);
    let support = context
        .attention(
            view()?,
            view()?,
            view()?,
            TensorMut::new(&mut o, &[2, 8, 128, 64])?,
        )
        .query()?;
    // [query]
    println!(
        "attention would run {:?} by {} {}",
        support.level, support.kernel, support.text
    );
    println!("\nWhat was tried:\n{}", attile::backend_report());
    Ok(())
}
