// SPDX-License-Identifier: Apache-2.0
//! The functions, structs and constants of `attile.h` and `attile_distributed.h`, one to one. The crate `attile` is the comfortable way.
//!
//! The library is found by pkg-config, or in `ATTILE_DIR`. The library's tests compare every struct's size
//! and offsets with those that the header has.
#![allow(non_camel_case_types, missing_docs, clippy::all)]

include!("bindings.rs");
