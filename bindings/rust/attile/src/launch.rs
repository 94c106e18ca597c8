// SPDX-License-Identifier: Apache-2.0
//! What the builders of all operations share: running, querying, flags and workspace.
use crate::context::text;
use attile_sys as sys;

/// How well a backend supports a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The call would fail; [`Support::text`] says why.
    None,
    /// The call works by a general, slow path.
    Emulated,
    /// The call works by a kernel made for it.
    Native,
}

impl Level {
    pub(crate) fn from_raw(level: i32) -> Self {
        match level {
            sys::ATTILE_SUPPORT_NATIVE => Level::Native,
            sys::ATTILE_SUPPORT_EMULATED => Level::Emulated,
            _ => Level::None,
        }
    }
}

/// How a call would run.
#[derive(Clone, Debug, PartialEq)]
pub struct Support {
    /// Whether and how.
    pub level: Level,
    /// The status a call would return.
    pub status: i32,
    /// The kernel's name.
    pub kernel: String,
    /// Why not at all, or why not faster.
    pub text: String,
    /// Bytes of workspace the call wants.
    pub workspace_bytes: i64,
    /// Floating-point operations of the definition.
    pub flops: f64,
    /// Fewest bytes of memory traffic.
    pub bytes: f64,
}

impl Support {
    pub(crate) fn from_raw(raw: &sys::attile_support) -> Self {
        Support {
            level: Level::from_raw(raw.level),
            status: raw.status,
            kernel: text(&raw.kernel),
            text: text(&raw.text),
            workspace_bytes: raw.workspace_bytes,
            flops: raw.flops,
            bytes: raw.bytes,
        }
    }
}

/// Gives a builder with fields `context` and `args` its ways to run. `$prepare` is called on the builder first.
macro_rules! runnable {
    ($builder:ident, $run:ident, $query:ident) => {
        impl<'a> $builder<'a> {
            /// A row's bits shall not depend on the batch around it.
            pub fn batch_invariant(mut self) -> Self {
                self.args.flags |= attile_sys::ATTILE_FLAG_BATCH_INVARIANT as u32;
                self
            }

            /// Any of the library's ATTILE_FLAG_ bits.
            pub fn flags(mut self, flags: u32) -> Self {
                self.args.flags |= flags;
                self
            }

            /// Scratch memory where the data are, at least [`crate::Support::workspace_bytes`] of it, on a multiple of 256 bytes as from
            /// [`crate::Context::alloc`]; without it one is taken from a pool.
            pub fn workspace(mut self, memory: crate::TensorMut<'a>) -> Self {
                self.args.workspace_bytes = memory.bytes_from_start();
                self.args.workspace = memory.raw.data;
                self
            }

            /// Computes; the result is in place when this returns.
            pub fn run(mut self) -> crate::Result<()> {
                self.prepare()?;
                // SAFETY: the views borrow their memory for as long as the builder, which outlives the call and the wait.
                crate::error::check(unsafe { attile_sys::$run(self.context.raw, &self.args) })?;
                self.context.synchronize()
            }

            /// Queues the work on a stream and returns at once if all memory is the device's.
            ///
            /// # Safety
            /// The memory of every view must stay allocated, outputs unread and inputs unchanged, until the stream has been synchronized.
            pub unsafe fn run_on(mut self, stream: &crate::Stream<'_>) -> crate::Result<()> {
                self.prepare()?;
                self.args.stream = stream.raw;
                crate::error::check(attile_sys::$run(self.context.raw, &self.args))
            }

            /// How it would run; computes nothing.
            pub fn query(mut self) -> crate::Result<crate::Support> {
                self.prepare()?;
                // SAFETY: plain numbers, for which zero is valid; the library fills the struct to its size.
                unsafe {
                    let mut support: attile_sys::attile_support = std::mem::zeroed();
                    attile_sys::attile_support_init(&mut support, std::mem::size_of::<attile_sys::attile_support>() as u64);
                    crate::error::check(attile_sys::$query(self.context.raw, &self.args, &mut support))?;
                    Ok(crate::Support::from_raw(&support))
                }
            }
        }
    };
}

/// An args struct as its init function leaves it.
macro_rules! initialised {
    ($args:ident, $init:ident) => {{
        // SAFETY: numbers and pointers, for which zero is valid; init writes no more than the size it is given.
        unsafe {
            let mut args: attile_sys::$args = std::mem::zeroed();
            attile_sys::$init(&mut args, std::mem::size_of::<attile_sys::$args>() as u64);
            args
        }
    }};
}

pub(crate) use {initialised, runnable};
