// SPDX-License-Identifier: Apache-2.0
use crate::launch::{initialised, runnable};
use crate::{Context, Result, TensorMut, TensorRef};
use attile_sys as sys;
use std::marker::PhantomData;

/// What a reduction computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceOp {
    /// Sum; 0 over no elements.
    Sum,
    /// Largest; NaN if any is.
    Max,
    /// Smallest; NaN if any is.
    Min,
    /// Sum over count.
    Mean,
}

/// A reduction over one axis. Made by [`Context::reduce`].
#[derive(Debug)]
#[must_use = "nothing is computed before run()"]
pub struct Reduce<'a> {
    pub(crate) context: &'a Context,
    pub(crate) args: sys::attile_reduce_args,
    views: PhantomData<&'a mut [u8]>,
}

/// A softmax over one axis. Made by [`Context::softmax`] or [`Context::softmax_in_place`].
#[derive(Debug)]
#[must_use = "nothing is computed before run()"]
pub struct Softmax<'a> {
    pub(crate) context: &'a Context,
    pub(crate) args: sys::attile_softmax_args,
    views: PhantomData<&'a mut [u8]>,
}

impl Context {
    /// Reduces axis `axis` of x (negative: counted from the last) into y, whose extent there is 1.
    pub fn reduce<'a>(&'a self, op: ReduceOp, x: TensorRef<'a>, axis: i32, y: TensorMut<'a>) -> Reduce<'a> {
        let mut args = initialised!(attile_reduce_args, attile_reduce_init);
        args.x = x.raw;
        args.y = y.raw;
        args.axis = axis;
        args.op = match op {
            ReduceOp::Sum => sys::ATTILE_REDUCE_SUM,
            ReduceOp::Max => sys::ATTILE_REDUCE_MAX,
            ReduceOp::Min => sys::ATTILE_REDUCE_MIN,
            ReduceOp::Mean => sys::ATTILE_REDUCE_MEAN,
        };
        Reduce { context: self, args, views: PhantomData }
    }

    /// y = softmax of x over an axis (negative: counted from the last).
    pub fn softmax<'a>(&'a self, x: TensorRef<'a>, axis: i32, y: TensorMut<'a>) -> Softmax<'a> {
        let mut args = initialised!(attile_softmax_args, attile_softmax_init);
        args.x = x.raw;
        args.y = y.raw;
        args.axis = axis;
        Softmax { context: self, args, views: PhantomData }
    }

    /// x = softmax of x over an axis.
    pub fn softmax_in_place<'a>(&'a self, x: TensorMut<'a>, axis: i32) -> Softmax<'a> {
        let same = TensorRef::from_raw(x.raw);
        self.softmax(same, axis, x)
    }
}

impl Reduce<'_> {
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Softmax<'_> {
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }
}

runnable!(Reduce, attile_reduce, attile_reduce_query);
runnable!(Softmax, attile_softmax, attile_softmax_query);
