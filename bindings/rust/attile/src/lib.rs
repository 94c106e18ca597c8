// SPDX-License-Identifier: Apache-2.0
//! Attention and matrix multiplication on whatever device is there: safe Rust over libattile.
//!
//! ```
//! # fn main() -> Result<(), attile::Error> {
//! use attile::{Context, TensorMut, TensorRef};
//!
//! let context = Context::new()?; // the best backend here, or the one in ATTILE_BACKEND
//! let a = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
//! let b = [1.0f32, 0.0, 0.0, 1.0, 1.0, 1.0];
//! let mut d = [0.0f32; 4];
//! context.gemm(TensorRef::new(&a, &[2, 3])?, TensorRef::new(&b, &[3, 2])?, TensorMut::new(&mut d, &[2, 2])?).run()?;
//! assert_eq!(d, [4.0, 5.0, 10.0, 11.0]);
//! # Ok(()) }
//! ```
//!
//! Formulas, shapes and conventions are those of `attile.h`. Nothing here panics or aborts: a wrong argument is an [`Error`] with the library's
//! sentence. A [`Context`] may be used by any number of threads at once. Every `run` returns when the result is in place; work that stays in flight on a
//! stream is for `run_on`, which is unsafe because the compiler cannot see when it ends.
#![deny(missing_docs)]

mod attention_builder;
mod communicator;
mod context;
mod element;
mod error;
mod gemm_builder;
mod grouped_builder;
mod launch;
mod memory;
mod quantize_builder;
mod ranks_builder;
mod reduction_builder;
mod tensor;
mod transport;

pub use attention_builder::{Attention, AttentionBackward, AttentionMerge, AttentionMergeBackward, Mask, MergePart};
pub use attile_sys as sys;
pub use communicator::{CommInfo, CommOptions, Communicator, Shards};
pub use context::{Context, ContextOptions, Info};
pub use element::{Bf16, E4m3, E5m2, Element, F16};
pub use error::{backend_report, version, Error};
pub use gemm_builder::{Activation, Gemm};
pub use grouped_builder::GemmGrouped;
pub use launch::{Level, Support};
pub use memory::{DeviceBuffer, MemoryKind, Stream};
pub use quantize_builder::{Dequantize, GgmlFormat, Quantize, Repack, RopeLayout};
pub use ranks_builder::{AttentionBackwardOverRanks, AttentionOverRanks, Method, RanksSupport};
pub use reduction_builder::{Reduce, ReduceOp, Softmax};
pub use tensor::{TensorMut, TensorRef};
pub use transport::{Transport, TransportError};

/// What a function of this crate returns.
pub type Result<T> = std::result::Result<T, Error>;

// What the README shows is compiled and run as it stands there.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
