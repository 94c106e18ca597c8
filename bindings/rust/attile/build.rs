// SPDX-License-Identifier: Apache-2.0
//! Tests and examples find libattile where attile-sys found it; programs that depend on this crate decide for themselves.
fn main() {
    if let Ok(folder) = std::env::var("DEP_ATTILE_LIB") {
        println!("cargo:rustc-link-arg-tests=-Wl,-rpath,{}", folder);
        println!("cargo:rustc-link-arg-examples=-Wl,-rpath,{}", folder);
    }
}
