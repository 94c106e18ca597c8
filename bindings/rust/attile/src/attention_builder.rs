// SPDX-License-Identifier: Apache-2.0
use crate::launch::{initialised, runnable};
use crate::{Context, Result, TensorMut, TensorRef};
use attile_sys as sys;
use std::marker::PhantomData;

/// Which keys a row sees. The diagonal starts in the top left corner, or ends in the bottom right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// Every key.
    None,
    /// j <= i
    CausalTopLeft,
    /// j <= i + len_k - len_q
    CausalBottomRight,
    /// From `left` keys before the diagonal to `right` after it, inclusive; None is open.
    WindowTopLeft {
        /// Keys before the diagonal.
        left: Option<i64>,
        /// Keys after it.
        right: Option<i64>,
    },
    /// The same about the bottom right diagonal.
    WindowBottomRight {
        /// Keys before the diagonal.
        left: Option<i64>,
        /// Keys after it.
        right: Option<i64>,
    },
}

/// O = softmax(scale Q K^T) V. Made by [`Context::attention`]; options are those of `attile_attention_args`.
#[derive(Debug)]
#[must_use = "nothing is computed before run()"]
pub struct Attention<'a> {
    pub(crate) context: &'a Context,
    pub(crate) args: sys::attile_attention_args,
    views: PhantomData<&'a mut [u8]>,
}

impl Context {
    /// Attention of q [B, Hq, Lq, D], k [B, Hkv, Lk, D], v [B, Hkv, Lk, Dv] into o [B, Hq, Lq, Dv]. k and v may be of other types than q,
    /// also of 8 bits. So may q itself, with o of f32, f16 or bf16.
    pub fn attention<'a>(&'a self, q: TensorRef<'a>, k: TensorRef<'a>, v: TensorRef<'a>, o: TensorMut<'a>) -> Attention<'a> {
        let mut args = initialised!(attile_attention_args, attile_attention_init);
        args.q = q.raw;
        args.k = k.raw;
        args.v = v.raw;
        args.o = o.raw;
        Attention { context: self, args, views: PhantomData }
    }
}

/// Options that the forward and the backward call share. `$args` is the path to the forward arguments.
macro_rules! score_options {
    ($builder:ident, $($args:ident).+) => {
        impl<'a> $builder<'a> {
            /// Factor of q.k; without it 1/sqrt(D).
            pub fn scale(mut self, scale: f64) -> Self {
                self.$($args).+.scale = scale;
                self
            }

            /// Scores become softcap tanh(s / softcap).
            pub fn softcap(mut self, softcap: f64) -> Self {
                self.$($args).+.softcap = softcap;
                self
            }

            /// Which keys a row sees.
            pub fn mask(mut self, mask: Mask) -> Self {
                let (mask, left, right) = match mask {
                    Mask::None => (sys::ATTILE_MASK_NONE, Some(0), Some(0)),
                    Mask::CausalTopLeft => (sys::ATTILE_MASK_CAUSAL_TOP_LEFT, Some(0), Some(0)),
                    Mask::CausalBottomRight => (sys::ATTILE_MASK_CAUSAL_BOTTOM_RIGHT, Some(0), Some(0)),
                    Mask::WindowTopLeft { left, right } => (sys::ATTILE_MASK_WINDOW_TOP_LEFT, left, right),
                    Mask::WindowBottomRight { left, right } => (sys::ATTILE_MASK_WINDOW_BOTTOM_RIGHT, left, right),
                };
                self.$($args).+.mask = mask;
                self.$($args).+.window_left = left.unwrap_or(-1);
                self.$($args).+.window_right = right.unwrap_or(-1);
                self
            }

            /// Added to the scores, broadcast to [B, Hq, Lq, Lk].
            pub fn bias(mut self, bias: TensorRef<'a>) -> Self {
                self.$($args).+.bias = bias.raw;
                self
            }

            /// A key with 0 or false is not seen; bool or u8, broadcast to [B, Hq, Lq, Lk].
            pub fn allowed(mut self, allowed: TensorRef<'a>) -> Self {
                self.$($args).+.allowed = allowed.raw;
                self
            }

            /// -slope |j - i - shift| is added to the scores; [Hq] or [B, Hq].
            pub fn alibi_slopes(mut self, slopes: TensorRef<'a>) -> Self {
                self.$($args).+.alibi_slopes = slopes.raw;
                self
            }

            /// exp(sink) is added to the denominators of a head; [Hq].
            pub fn sinks(mut self, sinks: TensorRef<'a>) -> Self {
                self.$($args).+.sinks = sinks.raw;
                self
            }

            /// Keys of each batch entry, i32 [B].
            pub fn key_lengths(mut self, lengths: TensorRef<'a>) -> Self {
                self.$($args).+.key_lengths = lengths.raw;
                self
            }

            /// Keys of each batch entry before this one are not seen: left padding; i32 [B].
            pub fn key_starts(mut self, starts: TensorRef<'a>) -> Self {
                self.$($args).+.key_starts = starts.raw;
                self
            }

            /// Each entry's diagonal is j = i + offset, whatever the mask's corner; i32 [B]. With a mask or `alibi_slopes` alone.
            pub fn causal_offset(mut self, offsets: TensorRef<'a>) -> Self {
                self.$($args).+.causal_offset = offsets.raw;
                self
            }

            /// 0 or false hides a block of 128 rows and 128 keys; bool or u8, broadcast to [B, Hq, ceil(Lq / 128), ceil(Lk / 128)].
            pub fn block_mask(mut self, blocks: TensorRef<'a>) -> Self {
                self.$($args).+.block_mask = blocks.raw;
                self
            }

            /// Of the last T keys, the drafts of speculative decoding, 0 or false hides one; bool or u8, [B, Hq, Lq, T], all but T broadcast.
            pub fn tree_mask(mut self, tree: TensorRef<'a>) -> Self {
                self.$($args).+.tree_mask = tree.raw;
                self
            }

            /// Packed rows over keys that are not: where each sequence starts in q, i32 [B + 1], and the most rows any has (0: all).
            pub fn packed_rows(mut self, cu_len_q: TensorRef<'a>, max_len_q: i64) -> Self {
                self.$($args).+.cu_len_q = cu_len_q.raw;
                self.$($args).+.max_len_q = max_len_q;
                self
            }

            /// Packed sequences: where each starts in q and in k, i32 [B + 1], and the most rows and keys any has (0: all).
            pub fn packed(mut self, cu_len_q: TensorRef<'a>, cu_len_k: TensorRef<'a>, max_len_q: i64, max_len_k: i64) -> Self {
                self.$($args).+.cu_len_q = cu_len_q.raw;
                self.$($args).+.cu_len_k = cu_len_k.raw;
                self.$($args).+.max_len_q = max_len_q;
                self.$($args).+.max_len_k = max_len_k;
                self
            }
        }
    };
}
score_options!(Attention, args);
score_options!(AttentionBackward, forward);
pub(crate) use score_options;

impl<'a> Attention<'a> {
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    /// Also writes the logarithm of the softmax denominators, [B, Hq, Lq].
    pub fn lse(mut self, lse: TensorMut<'a>) -> Self {
        self.args.lse = lse.raw;
        self
    }

    /// Paged keys and values: the page of each run of keys, i32 [B, max_pages], and the lengths, i32 [B].
    pub fn paged(mut self, block_table: TensorRef<'a>, key_lengths: TensorRef<'a>) -> Self {
        self.args.block_table = block_table.raw;
        self.args.key_lengths = key_lengths.raw;
        self
    }

    /// Factors of k's numbers of 8 bits; f32, broadcast to [B, Hkv, Lk, G], where G is 1, D, or D over 32, 64 or 128.
    pub fn k_scale(mut self, scale: TensorRef<'a>) -> Self {
        self.args.k_scale = scale.raw;
        self
    }

    /// Likewise of v's, whose rows have Dv numbers.
    pub fn v_scale(mut self, scale: TensorRef<'a>) -> Self {
        self.args.v_scale = scale.raw;
        self
    }

    /// Likewise of q's, broadcast to [B, Hq, Lq, G].
    pub fn q_scale(mut self, scale: TensorRef<'a>) -> Self {
        self.args.q_scale = scale.raw;
        self
    }

    /// What o's numbers of 8 bits are factors of, broadcast to [B, Hq, Lq, G]: o is the result over it, rounded. Since 1.1.
    pub fn o_scale(mut self, scale: TensorRef<'a>) -> Self {
        self.args.o_scale = scale.raw;
        self
    }

    /// Where q, k and v are all [`E4m3`](crate::E4m3), sums may lose bits and the weights of o may be rounded to that type, as tensor cores
    /// want it. Where they are all `i8`, weights may be rounded to 8 bits. Where they are of 16 bits and o is `f32`, o may be as exact as one
    /// of their type.
    pub fn fast_accumulation(mut self) -> Self {
        self.args.flags |= sys::ATTILE_FLAG_FAST_ACCUMULATION as u32;
        self
    }
}

runnable!(Attention, attile_attention, attile_attention_query);

/// Gradients of attention. Made by [`Context::attention_backward`].
#[derive(Debug)]
#[must_use = "nothing is computed before run()"]
pub struct AttentionBackward<'a> {
    pub(crate) context: &'a Context,
    pub(crate) args: sys::attile_attention_backward_args,
    pub(crate) forward: Box<sys::attile_attention_args>,
    views: PhantomData<&'a mut [u8]>,
}

impl Context {
    /// Gradients of an attention call from its inputs (q, k, v), its outputs (o, lse) and the gradient of o. Where they go, and the call's options,
    /// are given on the builder; all of `gradients` are required.
    pub fn attention_backward<'a>(
        &'a self,
        inputs: [TensorRef<'a>; 3],
        outputs: [TensorRef<'a>; 2],
        dout: TensorRef<'a>,
        gradients: [TensorMut<'a>; 3],
    ) -> AttentionBackward<'a> {
        let mut forward = Box::new(initialised!(attile_attention_args, attile_attention_init));
        forward.q = inputs[0].raw;
        forward.k = inputs[1].raw;
        forward.v = inputs[2].raw;
        forward.o = outputs[0].raw;
        forward.lse = outputs[1].raw;
        let mut args = initialised!(attile_attention_backward_args, attile_attention_backward_init);
        args.dout = dout.raw;
        args.dq = gradients[0].raw;
        args.dk = gradients[1].raw;
        args.dv = gradients[2].raw;
        AttentionBackward { context: self, args, forward, views: PhantomData }
    }
}

impl<'a> AttentionBackward<'a> {
    pub(crate) fn prepare(&mut self) -> Result<()> {
        self.args.forward = &*self.forward;
        Ok(())
    }

    /// Also writes the gradient of the bias, summed over the axes that it broadcasts.
    pub fn dbias(mut self, dbias: TensorMut<'a>) -> Self {
        self.args.dbias = dbias.raw;
        self
    }

    /// Gradient with respect to lse, of its shape and type; 0 where it is not given.
    pub fn dlse(mut self, dlse: TensorRef<'a>) -> Self {
        self.args.dlse = dlse.raw;
        self
    }

    /// Also writes the gradient of the sinks, [Hq].
    pub fn dsinks(mut self, dsinks: TensorMut<'a>) -> Self {
        self.args.dsinks = dsinks.raw;
        self
    }
}

runnable!(AttentionBackward, attile_attention_backward, attile_attention_backward_query);

/// Combines attention over disjoint ranges of keys. Made by [`Context::attention_merge`].
#[derive(Debug)]
#[must_use = "nothing is computed before run()"]
pub struct AttentionMerge<'a> {
    pub(crate) context: &'a Context,
    pub(crate) args: sys::attile_attention_merge_args,
    o_parts: Vec<sys::attile_tensor>,
    lse_parts: Vec<sys::attile_tensor>,
    views: PhantomData<&'a mut [u8]>,
}

impl Context {
    /// o = sum over parts of exp(lse_p - lse) o_p, for parts (o_p [B, H, L, Dv], lse_p [B, H, L]).
    pub fn attention_merge<'a>(&'a self, parts: &[(TensorRef<'a>, TensorRef<'a>)], o: TensorMut<'a>) -> AttentionMerge<'a> {
        let mut args = initialised!(attile_attention_merge_args, attile_attention_merge_init);
        args.o = o.raw;
        AttentionMerge {
            context: self,
            args,
            o_parts: parts.iter().map(|part| part.0.raw).collect(),
            lse_parts: parts.iter().map(|part| part.1.raw).collect(),
            views: PhantomData,
        }
    }
}

impl<'a> AttentionMerge<'a> {
    fn prepare(&mut self) -> Result<()> {
        self.args.o_parts = self.o_parts.as_ptr();
        self.args.lse_parts = self.lse_parts.as_ptr();
        self.args.parts = self.o_parts.len() as i64;
        Ok(())
    }

    /// Also writes the combined lse, [B, H, L].
    pub fn lse(mut self, lse: TensorMut<'a>) -> Self {
        self.args.lse = lse.raw;
        self
    }
}

runnable!(AttentionMerge, attile_attention_merge, attile_attention_merge_query);

/// A part of a merge, as [`Context::attention_merge_backward`] takes it: what it held, and where its gradients go.
#[derive(Debug)]
pub struct MergePart<'a> {
    /// Its result, [B, H, L, Dv].
    pub o: TensorRef<'a>,
    /// Its lse, [B, H, L].
    pub lse: TensorRef<'a>,
    /// Receives the gradient with respect to `o`.
    pub d_o: TensorMut<'a>,
    /// Receives the gradient with respect to `lse`.
    pub d_lse: TensorMut<'a>,
}

/// Gradients of a merge with respect to its parts. Made by [`Context::attention_merge_backward`].
#[derive(Debug)]
#[must_use = "nothing is computed before run()"]
pub struct AttentionMergeBackward<'a> {
    pub(crate) context: &'a Context,
    pub(crate) args: sys::attile_attention_merge_backward_args,
    forward: Box<sys::attile_attention_merge_args>,
    o_parts: Vec<sys::attile_tensor>,
    lse_parts: Vec<sys::attile_tensor>,
    do_parts: Vec<sys::attile_tensor>,
    dlse_parts: Vec<sys::attile_tensor>,
    views: PhantomData<&'a mut [u8]>,
}

impl Context {
    /// Gradients of every part of [`attention_merge`](Context::attention_merge), from its results `[o, lse]`, which must not lie over a
    /// part, and the gradient with respect to o.
    pub fn attention_merge_backward<'a>(
        &'a self,
        parts: Vec<MergePart<'a>>,
        [o, lse]: [TensorRef<'a>; 2],
        dout: TensorRef<'a>,
    ) -> AttentionMergeBackward<'a> {
        let mut forward = Box::new(initialised!(attile_attention_merge_args, attile_attention_merge_init));
        forward.o = o.raw;
        forward.lse = lse.raw;
        let mut args = initialised!(attile_attention_merge_backward_args, attile_attention_merge_backward_init);
        args.dout = dout.raw;
        AttentionMergeBackward {
            context: self,
            args,
            forward,
            o_parts: parts.iter().map(|part| part.o.raw).collect(),
            lse_parts: parts.iter().map(|part| part.lse.raw).collect(),
            do_parts: parts.iter().map(|part| part.d_o.raw).collect(),
            dlse_parts: parts.iter().map(|part| part.d_lse.raw).collect(),
            views: PhantomData,
        }
    }
}

impl<'a> AttentionMergeBackward<'a> {
    fn prepare(&mut self) -> Result<()> {
        self.forward.o_parts = self.o_parts.as_ptr();
        self.forward.lse_parts = self.lse_parts.as_ptr();
        self.forward.parts = self.o_parts.len() as i64;
        self.args.forward = &*self.forward;
        self.args.do_parts = self.do_parts.as_ptr();
        self.args.dlse_parts = self.dlse_parts.as_ptr();
        Ok(())
    }

    /// With the gradient with respect to lse, [B, H, L].
    pub fn dlse(mut self, dlse: TensorRef<'a>) -> Self {
        self.args.dlse = dlse.raw;
        self
    }
}

runnable!(AttentionMergeBackward, attile_attention_merge_backward, attile_attention_merge_backward_query);
