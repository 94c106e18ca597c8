// SPDX-License-Identifier: Apache-2.0
use crate::{Element, Error, Result};
use attile_sys as sys;
use std::marker::PhantomData;

/// A strided view that is read. Lives as long as the memory it was made from.
#[derive(Clone, Copy, Debug)]
pub struct TensorRef<'a> {
    pub(crate) raw: sys::attile_tensor,
    memory: PhantomData<&'a [u8]>,
}

/// A strided view that is written, and the only way to its memory while it lives. There is none of bool: the library writes numbers and workspace, which
/// may hold bytes that are no bool.
#[derive(Debug)]
pub struct TensorMut<'a> {
    pub(crate) raw: sys::attile_tensor,
    memory: PhantomData<&'a mut [u8]>,
}

// SAFETY: a view is a pointer with a borrow; the element types are plain numbers.
unsafe impl Send for TensorRef<'_> {}
// SAFETY: as above.
unsafe impl Sync for TensorRef<'_> {}
// SAFETY: as above.
unsafe impl Send for TensorMut<'_> {}

pub(crate) const ABSENT: sys::attile_tensor =
    sys::attile_tensor { data: std::ptr::null_mut(), dtype: 0, rank: 0, shape: [0; 4], stride: [0; 4] };

fn invalid(code: i32, message: String) -> Error {
    Error::new(code, message)
}

/// Describes memory of `len` elements that starts at `data`, having checked that every element of the view lies inside.
pub(crate) fn describe(
    data: *mut u8,
    item: usize,
    len: usize,
    dtype: i32,
    shape: &[i64],
    stride: Option<&[i64]>,
    offset: usize,
) -> Result<sys::attile_tensor> {
    if shape.is_empty() || shape.len() > 4 {
        return Err(invalid(sys::ATTILE_ERROR_INVALID_RANK, format!("a shape has {} extents; expected 1 to 4", shape.len())));
    }
    if let Some(stride) = stride {
        if stride.len() != shape.len() {
            return Err(invalid(sys::ATTILE_ERROR_INVALID_STRIDE, format!("{} strides for {} extents", stride.len(), shape.len())));
        }
    }
    let mut raw = ABSENT;
    raw.dtype = dtype;
    raw.rank = shape.len() as i32;
    let empty = shape.contains(&0);
    let (mut step, mut first, mut last) = (1i128, 0i128, 0i128);
    for axis in (0..shape.len()).rev() {
        let extent = shape[axis];
        if extent < 0 {
            return Err(invalid(sys::ATTILE_ERROR_INVALID_SHAPE, format!("shape[{}] is {}; expected 0 or more", axis, extent)));
        }
        let stride = stride.map_or(step, |given| i128::from(given[axis]));
        let reach = (i128::from(extent) - 1).max(0).saturating_mul(stride);
        if reach < 0 {
            first = first.saturating_add(reach);
        } else {
            last = last.saturating_add(reach);
        }
        step = step.saturating_mul(if empty { 1 } else { i128::from(extent) });
        raw.shape[axis] = extent;
        raw.stride[axis] = i64::try_from(stride)
            .map_err(|_| invalid(sys::ATTILE_ERROR_OVERFLOW, format!("the stride of axis {} exceeds 63 bits", axis)))?;
    }
    let (first, last) = (first.saturating_add(offset as i128), last.saturating_add(offset as i128));
    if !empty && (first < 0 || last >= len as i128) {
        let message = format!("a view of shape {:?} reaches elements {} to {} of a slice of {}", shape, first, last, len);
        return Err(invalid(sys::ATTILE_ERROR_INVALID_SHAPE, message));
    }
    // In range for a view with elements; an empty one keeps the start, which is never read.
    raw.data = if empty { data.cast() } else { data.wrapping_add(offset * item).cast() };
    Ok(raw)
}

impl<'a> TensorRef<'a> {
    /// A dense row-major view of the start of a slice, which must hold at least the product of the extents.
    pub fn new<T: Element>(data: &'a [T], shape: &[i64]) -> Result<Self> {
        let raw = describe(data.as_ptr() as *mut u8, std::mem::size_of::<T>(), data.len(), T::DTYPE, shape, None, 0)?;
        Ok(Self::from_raw(raw))
    }

    /// A view with strides in elements, whose first element is `data[offset]`. Strides may be 0 or negative; everything must lie in the slice.
    pub fn strided<T: Element>(data: &'a [T], shape: &[i64], stride: &[i64], offset: usize) -> Result<Self> {
        let raw = describe(data.as_ptr() as *mut u8, std::mem::size_of::<T>(), data.len(), T::DTYPE, shape, Some(stride), offset)?;
        Ok(Self::from_raw(raw))
    }

    /// Numbers of 4 bits, two a byte, the first in its lower half: `i4` if they are signed, else `u4`. Extents and strides count numbers; one
    /// axis has stride 1 and an even extent, the other strides are even. `None` is row-major. For [`Context::gemm`](crate::Context::gemm), as b. Since 1.1.
    pub fn four_bits(data: &'a [u8], signed: bool, shape: &[i64], stride: Option<&[i64]>) -> Result<Self> {
        let dtype = if signed { sys::ATTILE_I4 } else { sys::ATTILE_U4 };
        let raw = describe(data.as_ptr() as *mut u8, 1, data.len().saturating_mul(2), dtype, shape, stride, 0)?;
        Ok(Self::from_raw(raw))
    }

    pub(crate) fn from_raw(raw: sys::attile_tensor) -> Self {
        TensorRef { raw, memory: PhantomData }
    }

    /// Extents, as many as there are axes.
    pub fn shape(&self) -> &[i64] {
        &self.raw.shape[..self.raw.rank as usize]
    }
}

impl<'a> TensorMut<'a> {
    /// As [`TensorRef::four_bits`], to write: row-major, the last extent even.
    pub fn four_bits(data: &'a mut [u8], signed: bool, shape: &[i64]) -> Result<Self> {
        let dtype = if signed { sys::ATTILE_I4 } else { sys::ATTILE_U4 };
        Self::from_raw(describe(data.as_mut_ptr(), 1, data.len().saturating_mul(2), dtype, shape, None, 0)?)
    }

    /// A dense row-major view of the start of a slice, which must hold at least the product of the extents.
    pub fn new<T: Element>(data: &'a mut [T], shape: &[i64]) -> Result<Self> {
        Self::from_raw(describe(data.as_mut_ptr().cast(), std::mem::size_of::<T>(), data.len(), T::DTYPE, shape, None, 0)?)
    }

    /// A view with strides in elements, whose first element is `data[offset]`. Everything must lie in the slice.
    pub fn strided<T: Element>(data: &'a mut [T], shape: &[i64], stride: &[i64], offset: usize) -> Result<Self> {
        Self::from_raw(describe(data.as_mut_ptr().cast(), std::mem::size_of::<T>(), data.len(), T::DTYPE, shape, Some(stride), offset)?)
    }

    pub(crate) fn from_raw(raw: sys::attile_tensor) -> Result<Self> {
        if raw.dtype == sys::ATTILE_BOOL {
            return Err(invalid(
                sys::ATTILE_ERROR_INVALID_DTYPE,
                "a view to write has elements of type bool; u8 or a type of numbers is expected".into(),
            ));
        }
        Ok(TensorMut { raw, memory: PhantomData })
    }

    /// Bytes of the borrowed memory from the first element to the last one that lies behind it.
    pub(crate) fn bytes_from_start(&self) -> i64 {
        if self.shape().contains(&0) {
            return 0;
        }
        let axes = 0..self.raw.rank as usize;
        let last: i64 = axes.map(|axis| ((self.raw.shape[axis] - 1) * self.raw.stride[axis]).max(0)).sum();
        ((last + 1) * i64::from(self.raw.dtype & 0xff) + 7) / 8
    }

    /// Extents, as many as there are axes.
    pub fn shape(&self) -> &[i64] {
        &self.raw.shape[..self.raw.rank as usize]
    }
}
