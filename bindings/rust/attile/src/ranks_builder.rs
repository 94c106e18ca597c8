// SPDX-License-Identifier: Apache-2.0
//! Attention and its gradients where sequences are spread over ranks.
use crate::attention_builder::score_options;
use crate::context::text;
use crate::error::check;
use crate::launch::initialised;
use crate::{Attention, AttentionBackward, Communicator, Level, Mask, Result, Shards, TensorMut, TensorRef};
use attile_sys as sys;

/// How ranks share the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The library chooses.
    Auto,
    /// Keys and values go from rank to rank.
    Ring,
    /// Each rank gets all keys and values that it needs at once.
    AllGather,
    /// Each rank gets all rows of some heads.
    AllToAll,
    /// Only in answers: there is one rank.
    Local,
    /// For rows that every rank has.
    Tree,
}

impl Method {
    fn number(self) -> i32 {
        match self {
            Method::Auto => sys::ATTILE_METHOD_AUTO,
            Method::Ring => sys::ATTILE_METHOD_RING,
            Method::AllGather => sys::ATTILE_METHOD_ALL_GATHER,
            Method::AllToAll => sys::ATTILE_METHOD_ALL_TO_ALL,
            Method::Local => sys::ATTILE_METHOD_LOCAL,
            Method::Tree => sys::ATTILE_METHOD_TREE,
        }
    }

    fn from_number(number: i32) -> Self {
        let known = [Method::Ring, Method::AllGather, Method::AllToAll, Method::Local, Method::Tree];
        known.into_iter().find(|method| method.number() == number).unwrap_or(Method::Auto)
    }
}

/// How a call over ranks would run.
#[derive(Clone, Debug, PartialEq)]
pub struct RanksSupport {
    /// Of the local calls.
    pub level: Level,
    /// The status a call would return.
    pub status: i32,
    /// The method that would be used.
    pub method: Method,
    /// The kernel of a local call.
    pub kernel: String,
    /// Why this method, or why not at all.
    pub text: String,
    /// Bytes that a rank sends if all shards are of one size and nothing is hidden.
    pub bytes_sent: i64,
    /// Floating-point operations of all ranks together if nothing is hidden.
    pub flops: f64,
}

/// [`Attention`] over the rows and keys of all ranks. Made by [`Communicator::attention`]; every rank makes the same call.
#[derive(Debug)]
#[must_use = "nothing is computed before run()"]
pub struct AttentionOverRanks<'a> {
    comm: &'a Communicator<'a>,
    local: Attention<'a>,
    args: sys::attile_attention_distributed_args,
}

/// [`AttentionBackward`] over the rows and keys of all ranks. Made by [`Communicator::attention_backward`]; every rank makes the same call.
#[derive(Debug)]
#[must_use = "nothing is computed before run()"]
pub struct AttentionBackwardOverRanks<'a> {
    comm: &'a Communicator<'a>,
    local: AttentionBackward<'a>,
    args: sys::attile_attention_backward_distributed_args,
}

impl Communicator<'_> {
    /// Attention whose q and o have this rank's rows, and k and v its keys. `bias` and `allowed` have its rows and all keys.
    pub fn attention<'a>(&'a self, q: TensorRef<'a>, k: TensorRef<'a>, v: TensorRef<'a>, o: TensorMut<'a>) -> AttentionOverRanks<'a> {
        let args = initialised!(attile_attention_distributed_args, attile_attention_distributed_init);
        AttentionOverRanks { comm: self, local: self.context.attention(q, k, v, o), args }
    }

    /// Gradients of [`Communicator::attention`]: dq of this rank's rows, dk and dv of its keys. As [`crate::Context::attention_backward`] else.
    pub fn attention_backward<'a>(
        &'a self,
        inputs: [TensorRef<'a>; 3],
        outputs: [TensorRef<'a>; 2],
        dout: TensorRef<'a>,
        gradients: [TensorMut<'a>; 3],
    ) -> AttentionBackwardOverRanks<'a> {
        let args = initialised!(attile_attention_backward_distributed_args, attile_attention_backward_distributed_init);
        AttentionBackwardOverRanks { comm: self, local: self.context.attention_backward(inputs, outputs, dout, gradients), args }
    }
}

score_options!(AttentionOverRanks, local.args);
score_options!(AttentionBackwardOverRanks, local.forward);

/// What both builders have. `$prepare` makes `args` point to the local arguments.
macro_rules! over_ranks {
    ($builder:ident, $run:ident, $query:ident) => {
        impl<'a> $builder<'a> {
            /// How rows and keys are spread; without it contiguously.
            pub fn shards(mut self, shards: Shards) -> Self {
                self.args.layout = shards.number();
                self
            }

            /// How ranks share the work; without it the library chooses.
            pub fn method(mut self, method: Method) -> Self {
                self.args.method = method.number();
                self
            }

            /// Rows and keys of all ranks together; without it every rank has as many as this one.
            pub fn lengths(mut self, len_q: i64, len_k: i64) -> Self {
                self.args.len_q = len_q;
                self.args.len_k = len_k;
                self
            }

            /// Any of the library's ATTILE_FLAG_ bits.
            pub fn flags(mut self, flags: u32) -> Self {
                self.local.args.flags |= flags;
                self
            }

            /// Computes with the other ranks; the result is in place when this returns.
            pub fn run(mut self) -> Result<()> {
                self.prepare()?;
                // SAFETY: the views borrow their memory for as long as the builder, which outlives the call.
                check(unsafe { sys::$run(self.comm.raw, &self.args) })
            }

            /// How it would run; computes nothing and asks no other rank.
            pub fn query(mut self) -> Result<RanksSupport> {
                self.prepare()?;
                let mut raw = initialised!(attile_distributed_support, attile_distributed_support_init);
                // SAFETY: both structs live through the call.
                check(unsafe { sys::$query(self.comm.raw, &self.args, &mut raw) })?;
                Ok(RanksSupport {
                    level: Level::from_raw(raw.level),
                    status: raw.status,
                    method: Method::from_number(raw.method),
                    kernel: text(&raw.kernel),
                    text: text(&raw.text),
                    bytes_sent: raw.bytes_sent,
                    flops: raw.flops,
                })
            }
        }
    };
}
over_ranks!(AttentionOverRanks, attile_attention_distributed, attile_attention_distributed_query);
over_ranks!(AttentionBackwardOverRanks, attile_attention_backward_distributed, attile_attention_backward_distributed_query);

impl<'a> AttentionOverRanks<'a> {
    fn prepare(&mut self) -> Result<()> {
        self.args.local = &self.local.args;
        Ok(())
    }

    /// Also writes the logarithm of the softmax denominators of this rank's rows, [B, Hq, Lq].
    pub fn lse(mut self, lse: TensorMut<'a>) -> Self {
        self.local = self.local.lse(lse);
        self
    }

    /// Every rank has all rows of q, o and lse, the same on each; keys are spread.
    pub fn replicated(mut self) -> Self {
        self.args.rows = sys::ATTILE_ROWS_REPLICATED;
        self
    }
}

impl<'a> AttentionBackwardOverRanks<'a> {
    fn prepare(&mut self) -> Result<()> {
        self.local.prepare()?;
        self.args.local = &self.local.args;
        Ok(())
    }

    /// Also writes the gradient of the bias: of this rank's rows and all keys, or summed over all ranks where bias has one row for all.
    pub fn dbias(mut self, dbias: TensorMut<'a>) -> Self {
        self.local = self.local.dbias(dbias);
        self
    }

    /// Also writes the gradient of the sinks, [Hq], summed over all ranks.
    pub fn dsinks(mut self, dsinks: TensorMut<'a>) -> Self {
        self.local = self.local.dsinks(dsinks);
        self
    }
}
