// SPDX-License-Identifier: Apache-2.0
use crate::launch::{initialised, runnable};
use crate::{Context, Result, TensorMut, TensorRef};
use attile_sys as sys;
use std::marker::PhantomData;

/// Numbers of 8 bits from others. Made by [`Context::quantize`], [`Context::quantize_by`] or [`Context::embed`].
#[derive(Debug)]
#[must_use = "nothing is computed before run()"]
pub struct Quantize<'a> {
    pub(crate) context: &'a Context,
    pub(crate) args: sys::attile_quantize_args,
    views: PhantomData<&'a mut [u8]>,
}

/// And back. Made by [`Context::dequantize`].
#[derive(Debug)]
#[must_use = "nothing is computed before run()"]
pub struct Dequantize<'a> {
    pub(crate) context: &'a Context,
    pub(crate) args: sys::attile_dequantize_args,
    views: PhantomData<&'a mut [u8]>,
}

impl Context {
    /// q = x / scale, with scales from the largest magnitudes, which are written: the shape of `scale` says which numbers share one.
    pub fn quantize<'a>(&'a self, x: TensorRef<'a>, q: TensorMut<'a>, scale: TensorMut<'a>) -> Quantize<'a> {
        let mut args = initialised!(attile_quantize_args, attile_quantize_init);
        args.x = x.raw;
        args.q = q.raw;
        args.scale = scale.raw;
        Quantize { context: self, args, views: PhantomData }
    }

    /// q = x / scale, with scales that are there.
    pub fn quantize_by<'a>(&'a self, x: TensorRef<'a>, q: TensorMut<'a>, scale: TensorRef<'a>) -> Quantize<'a> {
        let mut args = initialised!(attile_quantize_args, attile_quantize_init);
        args.x = x.raw;
        args.q = q.raw;
        args.scale = scale.raw;
        args.scale_mode = sys::ATTILE_SCALE_GIVEN;
        Quantize { context: self, args, views: PhantomData }
    }

    /// y = x, of the type that y has among f32, f16 and bf16: what is rotated by [`Quantize::rope`], or appended as it is.
    pub fn embed<'a>(&'a self, x: TensorRef<'a>, y: TensorMut<'a>) -> Quantize<'a> {
        let mut args = initialised!(attile_quantize_args, attile_quantize_init);
        args.x = x.raw;
        args.q = y.raw;
        Quantize { context: self, args, views: PhantomData }
    }

    /// ggml's blocks, as they lie in memory, to numbers with a scale for each 32.
    pub fn repack<'a>(&'a self, format: GgmlFormat, blocks: TensorRef<'a>, q: TensorMut<'a>, scale: TensorMut<'a>) -> Repack<'a> {
        let mut args = initialised!(attile_repack_args, attile_repack_init);
        args.format = format as i32;
        args.blocks = blocks.raw;
        args.q = q.raw;
        args.scale = scale.raw;
        Repack { context: self, args, views: PhantomData }
    }

    /// x = scale q.
    pub fn dequantize<'a>(&'a self, q: TensorRef<'a>, scale: TensorRef<'a>, x: TensorMut<'a>) -> Dequantize<'a> {
        let mut args = initialised!(attile_dequantize_args, attile_dequantize_init);
        args.q = q.raw;
        args.scale = scale.raw;
        args.x = x.raw;
        Dequantize { context: self, args, views: PhantomData }
    }
}

impl<'a> Quantize<'a> {
    /// Zero points of u4, of the shape of the scales, which are written, too.
    pub fn zero(mut self, zero: TensorMut<'a>) -> Self {
        self.args.zero = zero.raw;
        self
    }
    /// Rotates each `count` numbers along the last axis together first.
    pub fn hadamard(mut self, count: i32) -> Self {
        self.args.hadamard = count;
        self
    }
    /// Rotates pairs of the first numbers of each row by the angles of its position first: tables of cosines and sines, `[positions, pairs]`.
    pub fn rope(mut self, layout: RopeLayout, cos: TensorRef<'a>, sin: TensorRef<'a>) -> Self {
        self.args.rope_layout = layout as i32;
        self.args.rope_cos = cos.raw;
        self.args.rope_sin = sin.raw;
        self
    }
    /// The position of each row, i32 or i64, `[rows]` or `[batch, rows]`.
    pub fn positions(mut self, positions: TensorRef<'a>) -> Self {
        self.args.positions = positions.raw;
        self
    }
    /// Keys of each batch entry, of which the rows of x are the last: they say where rows are, and with it their positions.
    pub fn key_lengths(mut self, lengths: TensorRef<'a>) -> Self {
        self.args.key_lengths = lengths.raw;
        self
    }
    /// q is a cache, to which rows are appended: as attention takes it, with the same lengths.
    pub fn append(mut self, lengths: TensorRef<'a>) -> Self {
        self.args.append = 1;
        self.key_lengths(lengths)
    }
    /// Of a paged cache: which page holds each run of rows.
    pub fn block_table(mut self, table: TensorRef<'a>) -> Self {
        self.args.block_table = table.raw;
        self
    }
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Which two numbers are a pair that [`Quantize::rope`] rotates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum RopeLayout {
    /// i and i + pairs, as of GPT-NeoX and Llama.
    Halves = sys::ATTILE_ROPE_HALVES,
    /// 2i and 2i + 1, as of GPT-J.
    Interleaved = sys::ATTILE_ROPE_INTERLEAVED,
}

/// What [`Context::repack`] takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[allow(non_camel_case_types)]
pub enum GgmlFormat {
    /// Becomes i4.
    Q4_0 = sys::ATTILE_GGML_Q4_0,
    /// Becomes i8.
    Q8_0 = sys::ATTILE_GGML_Q8_0,
    /// Becomes u4 with zero points.
    Q4_K = sys::ATTILE_GGML_Q4_K,
    /// Becomes i8.
    Q6_K = sys::ATTILE_GGML_Q6_K,
}

/// Made by [`Context::repack`].
#[derive(Debug)]
#[must_use = "nothing is computed before run()"]
pub struct Repack<'a> {
    pub(crate) context: &'a Context,
    pub(crate) args: sys::attile_repack_args,
    views: PhantomData<&'a mut [u8]>,
}

impl<'a> Repack<'a> {
    /// Zero points, of the shape of the scales: of Q4_K.
    pub fn zero(mut self, zero: TensorMut<'a>) -> Self {
        self.args.zero = zero.raw;
        self
    }
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }
}

impl<'a> Dequantize<'a> {
    /// Zero points of u4, of the shape of the scales.
    pub fn zero(mut self, zero: TensorRef<'a>) -> Self {
        self.args.zero = zero.raw;
        self
    }
    /// Rotates back what was rotated by as many.
    pub fn hadamard(mut self, count: i32) -> Self {
        self.args.hadamard = count;
        self
    }
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }
}

runnable!(Quantize, attile_quantize, attile_quantize_query);
runnable!(Dequantize, attile_dequantize, attile_dequantize_query);
runnable!(Repack, attile_repack, attile_repack_query);
