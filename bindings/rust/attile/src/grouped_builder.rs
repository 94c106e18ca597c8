// SPDX-License-Identifier: Apache-2.0
use crate::gemm_builder::Activation;
use crate::launch::{initialised, runnable};
use crate::{Context, Result, TensorMut, TensorRef};
use attile_sys as sys;
use std::marker::PhantomData;

/// Products of groups of rows, each with a B of its own. Made by [`Context::gemm_grouped`].
#[derive(Debug)]
#[must_use = "nothing is computed before run()"]
pub struct GemmGrouped<'a> {
    pub(crate) context: &'a Context,
    pub(crate) args: sys::attile_gemm_grouped_args,
    views: PhantomData<&'a mut [u8]>,
}

impl Context {
    /// For each group g, of rows row_offsets\[g\] to before row_offsets\[g + 1\]: D = A B\[g\], for a [M, K], b [G, K, N], d [M, N] and row_offsets
    /// i32 [G + 1]. Rows of no group are not written.
    pub fn gemm_grouped<'a>(&'a self, a: TensorRef<'a>, b: TensorRef<'a>, row_offsets: TensorRef<'a>, d: TensorMut<'a>) -> GemmGrouped<'a> {
        let mut args = initialised!(attile_gemm_grouped_args, attile_gemm_grouped_init);
        args.a = a.raw;
        args.b = b.raw;
        args.row_offsets = row_offsets.raw;
        args.d = d.raw;
        GemmGrouped { context: self, args, views: PhantomData }
    }
}

impl<'a> GemmGrouped<'a> {
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

    /// Adds bias[g, n], or bias[n], to column n of every row of group g.
    pub fn bias(mut self, bias: TensorRef<'a>) -> Self {
        self.args.bias = bias.raw;
        self
    }

    /// Scales of B's numbers of 8 or 4 bits, [G, 1 or K/32 or K/64 or K/128, N or 1 or N/128].
    pub fn b_scale(mut self, scale: TensorRef<'a>) -> Self {
        self.args.b_scale = scale.raw;
        self
    }

    /// Zero points of B's numbers of u4, of the shape of their scales.
    pub fn b_zero(mut self, zero: TensorRef<'a>) -> Self {
        self.args.b_zero = zero.raw;
        self
    }

    /// Ends with an activation.
    pub fn activation(mut self, activation: Activation) -> Self {
        self.args.activation = activation.raw();
        self
    }
}

runnable!(GemmGrouped, attile_gemm_grouped, attile_gemm_grouped_query);
