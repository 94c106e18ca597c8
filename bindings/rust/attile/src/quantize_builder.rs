// SPDX-License-Identifier: Apache-2.0
use crate::launch::{initialised, runnable};
use crate::{Context, Result, TensorMut, TensorRef};
use attile_sys as sys;
use std::marker::PhantomData;

/// Numbers of 8 bits from others. Made by [`Context::quantize`] or [`Context::quantize_by`].
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
