// SPDX-License-Identifier: Apache-2.0
//! From an argument struct of the C interface to views and a builder.
use attile::{sys, Activation, Bf16, Context, E4m3, E5m2, Element, Error, Mask, MergePart, ReduceOp, TensorMut, TensorRef, F16};
use std::ffi::c_void;
use std::mem::size_of;

pub enum Outcome {
    /// The struct says what views and builders cannot.
    Inexpressible,
    /// A view could not be made.
    RefusedByView(Error),
    Called(Result<(), Error>),
}

enum Stop {
    Inexpressible,
    View(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::View(error)
    }
}

type Made<T> = Result<T, Stop>;

fn expressible(yes: bool) -> Made<()> {
    if yes {
        Ok(())
    } else {
        Err(Stop::Inexpressible)
    }
}

fn absent(t: &sys::attile_tensor) -> bool {
    t.data.is_null() && t.dtype == 0 && t.rank == 0 && t.shape == [0; 4] && t.stride == [0; 4]
}

/// The first element, elements before the one that `data` points to, and elements in all.
fn span(t: &sys::attile_tensor, item: usize) -> Made<(usize, usize)> {
    expressible((1..=4).contains(&t.rank) && !t.data.is_null() && t.data as usize % item == 0)?;
    let axes = 0..t.rank as usize;
    expressible(axes.clone().all(|i| (0..1i64 << 31).contains(&t.shape[i]) && t.stride[i].unsigned_abs() < 1 << 40))?;
    if axes.clone().any(|i| t.shape[i] == 0) {
        return Ok((0, 1));
    }
    let reach = axes.map(|i| i128::from(t.shape[i] - 1) * i128::from(t.stride[i]));
    let (before, after) = reach.fold((0, 0), |(low, high), r| if r < 0 { (low - r, high) } else { (low, high + r) });
    expressible(before + after < 1 << 31)?;
    Ok((before as usize, (before + after) as usize + 1))
}

unsafe fn read<'a, T: Element + 'a>(t: &sys::attile_tensor) -> Made<TensorRef<'a>> {
    let (before, count) = span(t, size_of::<T>())?;
    let memory: &'a [T] = std::slice::from_raw_parts(t.data.cast::<T>().sub(before), count);
    let rank = t.rank as usize;
    Ok(TensorRef::strided(memory, &t.shape[..rank], &t.stride[..rank], before)?)
}

unsafe fn write<'a, T: Element + 'a>(t: &sys::attile_tensor) -> Made<TensorMut<'a>> {
    let (before, count) = span(t, size_of::<T>())?;
    let memory: &'a mut [T] = std::slice::from_raw_parts_mut(t.data.cast::<T>().sub(before), count);
    let rank = t.rank as usize;
    Ok(TensorMut::strided(memory, &t.shape[..rank], &t.stride[..rank], before)?)
}

macro_rules! by_type {
    ($function:ident, $t:expr) => {
        match $t.dtype {
            sys::ATTILE_F32 => $function::<f32>($t),
            sys::ATTILE_F64 => $function::<f64>($t),
            sys::ATTILE_F16 => $function::<F16>($t),
            sys::ATTILE_BF16 => $function::<Bf16>($t),
            sys::ATTILE_I32 => $function::<i32>($t),
            sys::ATTILE_U8 => $function::<u8>($t),
            sys::ATTILE_BOOL => $function::<bool>($t),
            sys::ATTILE_I8 => $function::<i8>($t),
            sys::ATTILE_F8_E4M3 => $function::<E4m3>($t),
            sys::ATTILE_F8_E5M2 => $function::<E5m2>($t),
            _ => Err(Stop::Inexpressible),
        }
    };
}

unsafe fn input<'a>(t: &sys::attile_tensor) -> Made<TensorRef<'a>> {
    by_type!(read, t)
}

unsafe fn output<'a>(t: &sys::attile_tensor) -> Made<TensorMut<'a>> {
    by_type!(write, t)
}

/// A struct's head is as the crate fills it, and its workspace can be a slice; runs the builder with what all calls share.
macro_rules! finish {
    ($args:expr, $builder:expr) => {{
        let (a, mut builder) = ($args, $builder.flags($args.flags));
        expressible(a.struct_size as usize == std::mem::size_of_val(a) && a.next.is_null() && a.stream.is_null())?;
        expressible(a.workspace_bytes >= 0 && a.workspace.is_null() == (a.workspace_bytes == 0))?;
        if a.workspace_bytes > 0 {
            let memory = std::slice::from_raw_parts_mut(a.workspace.cast::<u8>(), a.workspace_bytes as usize);
            builder = builder.workspace(TensorMut::new(memory, &[a.workspace_bytes])?);
        }
        Ok(builder.run())
    }};
}

/// Sets an optional view on a builder.
macro_rules! with {
    ($builder:ident, $($name:ident = $tensor:expr),+) => {$(
        if !absent(&$tensor) {
            $builder = $builder.$name(input(&$tensor)?);
        }
    )+};
}

macro_rules! scores {
    ($builder:ident, $a:expr) => {{
        let a = $a;
        let edge = |keys: i64| if keys == -1 { None } else { Some(keys) };
        let (left, right) = (edge(a.window_left), edge(a.window_right));
        let closed = a.window_left == 0 && a.window_right == 0;
        $builder = $builder.scale(a.scale).softcap(a.softcap).mask(match a.mask {
            sys::ATTILE_MASK_NONE if closed => Mask::None,
            sys::ATTILE_MASK_CAUSAL_TOP_LEFT if closed => Mask::CausalTopLeft,
            sys::ATTILE_MASK_CAUSAL_BOTTOM_RIGHT if closed => Mask::CausalBottomRight,
            sys::ATTILE_MASK_WINDOW_TOP_LEFT => Mask::WindowTopLeft { left, right },
            sys::ATTILE_MASK_WINDOW_BOTTOM_RIGHT => Mask::WindowBottomRight { left, right },
            _ => return Err(Stop::Inexpressible),
        });
        with!($builder, bias = a.bias, allowed = a.allowed, alibi_slopes = a.alibi_slopes, sinks = a.sinks);
        with!($builder, key_starts = a.key_starts, causal_offset = a.causal_offset, block_mask = a.block_mask, tree_mask = a.tree_mask);
        expressible(a.reserved == 0)?;
        if !absent(&a.cu_len_q) && absent(&a.cu_len_k) && a.max_len_k == 0 {
            $builder = $builder.packed_rows(input(&a.cu_len_q)?, a.max_len_q);
        } else if !absent(&a.cu_len_q) || !absent(&a.cu_len_k) || a.max_len_q != 0 || a.max_len_k != 0 {
            $builder = $builder.packed(input(&a.cu_len_q)?, input(&a.cu_len_k)?, a.max_len_q, a.max_len_k);
        }
    }};
}

unsafe fn gemm(context: &Context, a: &sys::attile_gemm_args) -> Made<Result<(), Error>> {
    let mut builder = context.gemm(input(&a.a)?, input(&a.b)?, output(&a.d)?).alpha(a.alpha);
    if absent(&a.c) {
        expressible(a.beta == 0.0)?;
    } else {
        builder = builder.add(a.beta, input(&a.c)?);
    }
    match a.bias_axis {
        sys::ATTILE_BIAS_COLUMNS => with!(builder, bias_columns = a.bias),
        sys::ATTILE_BIAS_ROWS => with!(builder, bias_rows = a.bias),
        axis => expressible(axis == 0 && absent(&a.bias))?,
    }
    expressible(a.bias_axis == 0 || !absent(&a.bias))?;
    with!(builder, a_scale = a.a_scale);
    with!(builder, b_scale = a.b_scale);
    with!(builder, b_zero = a.b_zero, d_scale = a.d_scale);
    let builder = builder.activation(match a.activation {
        sys::ATTILE_ACTIVATION_NONE => Activation::None,
        sys::ATTILE_ACTIVATION_RELU => Activation::Relu,
        sys::ATTILE_ACTIVATION_GELU => Activation::Gelu,
        sys::ATTILE_ACTIVATION_GELU_TANH => Activation::GeluTanh,
        sys::ATTILE_ACTIVATION_SILU => Activation::Silu,
        _ => return Err(Stop::Inexpressible),
    });
    finish!(a, builder)
}

unsafe fn attention(context: &Context, a: &sys::attile_attention_args) -> Made<Result<(), Error>> {
    let mut builder = context.attention(input(&a.q)?, input(&a.k)?, input(&a.v)?, output(&a.o)?);
    if !absent(&a.lse) {
        builder = builder.lse(output(&a.lse)?);
    }
    scores!(builder, a);
    with!(builder, q_scale = a.q_scale, k_scale = a.k_scale, v_scale = a.v_scale, o_scale = a.o_scale);
    if absent(&a.block_table) {
        with!(builder, key_lengths = a.key_lengths);
    } else {
        builder = builder.paged(input(&a.block_table)?, input(&a.key_lengths)?);
    }
    finish!(a, builder)
}

unsafe fn backward(context: &Context, a: &sys::attile_attention_backward_args) -> Made<Result<(), Error>> {
    expressible(!a.forward.is_null())?;
    let f = &*a.forward;
    expressible(f.struct_size as usize == size_of::<sys::attile_attention_args>() && f.flags == 0 && f.next.is_null())?;
    expressible(f.stream.is_null() && f.workspace.is_null() && f.workspace_bytes == 0 && absent(&f.block_table))?;
    expressible(absent(&f.q_scale) && absent(&f.k_scale) && absent(&f.v_scale) && absent(&f.o_scale))?;
    let gradients = [output(&a.dq)?, output(&a.dk)?, output(&a.dv)?];
    let inputs = [input(&f.q)?, input(&f.k)?, input(&f.v)?];
    let mut builder = context.attention_backward(inputs, [input(&f.o)?, input(&f.lse)?], input(&a.dout)?, gradients);
    scores!(builder, f);
    with!(builder, key_lengths = f.key_lengths, dlse = a.dlse);
    if !absent(&a.dbias) {
        builder = builder.dbias(output(&a.dbias)?);
    }
    if !absent(&a.dsinks) {
        builder = builder.dsinks(output(&a.dsinks)?);
    }
    finish!(a, builder)
}

unsafe fn merge(context: &Context, a: &sys::attile_attention_merge_args) -> Made<Result<(), Error>> {
    expressible((1..100).contains(&a.parts) && !a.o_parts.is_null() && !a.lse_parts.is_null())?;
    let mut parts = Vec::new();
    for i in 0..a.parts as usize {
        parts.push((input(&*a.o_parts.add(i))?, input(&*a.lse_parts.add(i))?));
    }
    let mut builder = context.attention_merge(&parts, output(&a.o)?);
    if !absent(&a.lse) {
        builder = builder.lse(output(&a.lse)?);
    }
    finish!(a, builder)
}

unsafe fn merge_backward(context: &Context, a: &sys::attile_attention_merge_backward_args) -> Made<Result<(), Error>> {
    expressible(!a.forward.is_null() && !a.do_parts.is_null() && !a.dlse_parts.is_null())?;
    let f = &*a.forward;
    expressible(f.struct_size as usize == size_of::<sys::attile_attention_merge_args>() && f.flags == 0 && f.next.is_null())?;
    expressible(f.stream.is_null() && f.workspace.is_null() && f.workspace_bytes == 0)?;
    expressible((1..100).contains(&f.parts) && !f.o_parts.is_null() && !f.lse_parts.is_null())?;
    let mut parts = Vec::new();
    for i in 0..f.parts as usize {
        parts.push(MergePart {
            o: input(&*f.o_parts.add(i))?,
            lse: input(&*f.lse_parts.add(i))?,
            d_o: output(&*a.do_parts.add(i))?,
            d_lse: output(&*a.dlse_parts.add(i))?,
        });
    }
    let mut builder = context.attention_merge_backward(parts, [input(&f.o)?, input(&f.lse)?], input(&a.dout)?);
    with!(builder, dlse = a.dlse);
    finish!(a, builder)
}

unsafe fn reduce(context: &Context, a: &sys::attile_reduce_args) -> Made<Result<(), Error>> {
    let op = match a.op {
        sys::ATTILE_REDUCE_SUM => ReduceOp::Sum,
        sys::ATTILE_REDUCE_MAX => ReduceOp::Max,
        sys::ATTILE_REDUCE_MIN => ReduceOp::Min,
        sys::ATTILE_REDUCE_MEAN => ReduceOp::Mean,
        _ => return Err(Stop::Inexpressible),
    };
    finish!(a, context.reduce(op, input(&a.x)?, a.axis, output(&a.y)?))
}

unsafe fn softmax(context: &Context, a: &sys::attile_softmax_args) -> Made<Result<(), Error>> {
    expressible(a.reserved == 0)?;
    finish!(a, context.softmax(input(&a.x)?, a.axis, output(&a.y)?))
}

/// SAFETY: `args` points to the operation's struct, whose tensors describe memory that lives through the call.
pub unsafe fn call(context: &Context, operation: i32, args: *const c_void) -> Outcome {
    let made = match operation {
        0 => gemm(context, &*args.cast()),
        1 => attention(context, &*args.cast()),
        2 => backward(context, &*args.cast()),
        3 => merge(context, &*args.cast()),
        4 => merge_backward(context, &*args.cast()),
        5 => reduce(context, &*args.cast()),
        _ => softmax(context, &*args.cast()),
    };
    match made {
        Ok(result) => Outcome::Called(result),
        Err(Stop::Inexpressible) => Outcome::Inexpressible,
        Err(Stop::View(error)) => Outcome::RefusedByView(error),
    }
}
