// SPDX-License-Identifier: Apache-2.0
use crate::launch::{initialised, runnable};
use crate::{Context, Result, TensorMut, TensorRef};
use attile_sys as sys;
use std::marker::PhantomData;

/// What follows the product and the bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// Nothing.
    None,
    /// max(x, 0)
    Relu,
    /// x/2 (1 + erf(x / sqrt 2))
    Gelu,
    /// GELU by tanh.
    GeluTanh,
    /// x / (1 + exp(-x))
    Silu,
}

impl Activation {
    pub(crate) fn raw(self) -> i32 {
        match self {
            Activation::None => sys::ATTILE_ACTIVATION_NONE,
            Activation::Relu => sys::ATTILE_ACTIVATION_RELU,
            Activation::Gelu => sys::ATTILE_ACTIVATION_GELU,
            Activation::GeluTanh => sys::ATTILE_ACTIVATION_GELU_TANH,
            Activation::Silu => sys::ATTILE_ACTIVATION_SILU,
        }
    }
}

/// D = activation(alpha A B + beta C + bias). Made by [`Context::gemm`].
#[derive(Debug)]
#[must_use = "nothing is computed before run()"]
pub struct Gemm<'a> {
    pub(crate) context: &'a Context,
    pub(crate) args: sys::attile_gemm_args,
    views: PhantomData<&'a mut [u8]>,
}

impl Context {
    /// D = A B for a [..., M, K], b [..., K, N], d [..., M, N]; missing batch axes and those of extent 1 or stride 0 are broadcast.
    pub fn gemm<'a>(&'a self, a: TensorRef<'a>, b: TensorRef<'a>, d: TensorMut<'a>) -> Gemm<'a> {
        let mut args = initialised!(attile_gemm_args, attile_gemm_init);
        args.a = a.raw;
        args.b = b.raw;
        args.d = d.raw;
        Gemm { context: self, args, views: PhantomData }
    }
}

impl<'a> Gemm<'a> {
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    /// Factor of A B.
    pub fn alpha(mut self, alpha: f64) -> Self {
        self.args.alpha = alpha;
        self
    }

    /// Adds beta C.
    pub fn add(mut self, beta: f64, c: TensorRef<'a>) -> Self {
        self.args.beta = beta;
        self.args.c = c.raw;
        self
    }

    /// Adds beta D, what the output held before.
    pub fn accumulate(mut self, beta: f64) -> Self {
        self.args.beta = beta;
        self.args.c = self.args.d;
        self
    }

    /// Adds bias[n] to column n of every row.
    pub fn bias_columns(mut self, bias: TensorRef<'a>) -> Self {
        self.args.bias = bias.raw;
        self.args.bias_axis = sys::ATTILE_BIAS_COLUMNS;
        self
    }

    /// Adds bias[m] to row m of every column.
    pub fn bias_rows(mut self, bias: TensorRef<'a>) -> Self {
        self.args.bias = bias.raw;
        self.args.bias_axis = sys::ATTILE_BIAS_ROWS;
        self
    }

    /// Scales of A's numbers of 8 bits, [..., M or 1 or M/128, 1 or K/32 or K/64 or K/128]. Since 1.1.
    pub fn a_scale(mut self, scale: TensorRef<'a>) -> Self {
        self.args.a_scale = scale.raw;
        self
    }

    /// Scales of B's numbers of 8 or 4 bits, [..., 1 or K/32 or K/64 or K/128, N or 1 or N/128]. Since 1.1.
    pub fn b_scale(mut self, scale: TensorRef<'a>) -> Self {
        self.args.b_scale = scale.raw;
        self
    }

    /// Sums of products of f64 or f32 shall be exact, then rounded once: the same bits on every backend and device. Since 1.1.
    pub fn exact_products(mut self) -> Self {
        self.args.flags |= sys::ATTILE_FLAG_EXACT_PRODUCTS as u32;
        self
    }

    /// Sums of products of 8-bit floats may lose bits below 2^-13 of their largest parts, where that is faster. Since 1.1.
    pub fn fast_accumulation(mut self) -> Self {
        self.args.flags |= sys::ATTILE_FLAG_FAST_ACCUMULATION as u32;
        self
    }

    /// Zero points of B's numbers of u4, of the shape of their scales. Since 1.1.
    pub fn b_zero(mut self, zero: TensorRef<'a>) -> Self {
        self.args.b_zero = zero.raw;
        self
    }

    /// What D's numbers of 8 bits are factors of: D is the result over it, rounded. Broadcast to D. Since 1.1.
    pub fn d_scale(mut self, scale: TensorRef<'a>) -> Self {
        self.args.d_scale = scale.raw;
        self
    }

    /// Ends with an activation.
    pub fn activation(mut self, activation: Activation) -> Self {
        self.args.activation = activation.raw();
        self
    }
}

runnable!(Gemm, attile_gemm, attile_gemm_query);
