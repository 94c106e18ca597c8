// SPDX-License-Identifier: Apache-2.0
use crate::error::check;
use crate::tensor::describe;
use crate::{Context, Element, Error, Result, TensorMut, TensorRef};
use attile_sys as sys;
use std::marker::PhantomData;
use std::mem::{size_of, size_of_val};
use std::ptr;

/// A kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// Ordinary memory.
    Host,
    /// Page-locked memory that the device can reach.
    Pinned,
    /// Memory that migrates.
    Managed,
    /// The device's own; ordinary memory on CPU backends.
    Device,
}

/// Memory of a context's device, not reachable as a slice. Dropping it waits for the default stream first.
#[derive(Debug)]
pub struct DeviceBuffer<'a, T: Element> {
    context: &'a Context,
    data: *mut u8,
    len: usize,
    kind: PhantomData<T>,
}

// SAFETY: the memory belongs to the buffer alone; calls on the context are thread-safe.
unsafe impl<T: Element> Send for DeviceBuffer<'_, T> {}
// SAFETY: a shared buffer can only be read.
unsafe impl<T: Element> Sync for DeviceBuffer<'_, T> {}

/// A stream of work. The handle is the device's own; dropping it destroys it after its work.
#[derive(Debug)]
pub struct Stream<'a> {
    context: &'a Context,
    pub(crate) raw: *mut std::ffi::c_void,
}

// SAFETY: streams may be used from any thread.
unsafe impl Send for Stream<'_> {}
// SAFETY: as above.
unsafe impl Sync for Stream<'_> {}

impl Context {
    /// Memory for `len` elements, all of its bytes zero.
    pub fn alloc<T: Element>(&self, kind: MemoryKind, len: usize) -> Result<DeviceBuffer<'_, T>> {
        let bytes = len.checked_mul(size_of::<T>()).and_then(|bytes| i64::try_from(bytes).ok());
        let bytes =
            bytes.ok_or_else(|| Error::new(sys::ATTILE_ERROR_OUT_OF_DEVICE_MEMORY, format!("{} elements exceed 63 bits of bytes", len)))?;
        let kind = match kind {
            MemoryKind::Host => sys::ATTILE_MEMORY_HOST,
            MemoryKind::Pinned => sys::ATTILE_MEMORY_PINNED,
            MemoryKind::Managed => sys::ATTILE_MEMORY_MANAGED,
            MemoryKind::Device => sys::ATTILE_MEMORY_DEVICE,
        };
        let mut data = ptr::null_mut();
        // SAFETY: the context is open, the pointer receives the memory.
        check(unsafe { sys::attile_alloc(self.raw, kind, bytes, &mut data) })?;
        let buffer = DeviceBuffer { context: self, data: data.cast(), len, kind: PhantomData };
        // Memory that was never written may hold patterns that are no bool; zeros are valid for every element type.
        let zeros = vec![0u8; usize::min(bytes as usize, 1 << 20)];
        let mut done = 0;
        while done < bytes as usize {
            let part = usize::min(zeros.len(), bytes as usize - done);
            // SAFETY: `part` bytes lie in both.
            check(unsafe {
                sys::attile_copy(self.raw, buffer.data.add(done).cast(), zeros.as_ptr().cast(), part as i64, ptr::null_mut())
            })?;
            done += part;
        }
        self.synchronize()?;
        Ok(buffer)
    }

    /// The slice's elements in new memory of the device.
    pub fn upload<T: Element>(&self, data: &[T]) -> Result<DeviceBuffer<'_, T>> {
        let mut buffer = self.alloc(MemoryKind::Device, data.len())?;
        buffer.write(data)?;
        Ok(buffer)
    }

    /// A stream that does not wait for the default one.
    pub fn stream(&self) -> Result<Stream<'_>> {
        let mut raw = ptr::null_mut();
        // SAFETY: the context is open, the pointer receives the handle.
        check(unsafe { sys::attile_stream_create(self.raw, &mut raw) })?;
        Ok(Stream { context: self, raw })
    }
}

impl<T: Element> DeviceBuffer<'_, T> {
    /// Elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn same_len(&self, len: usize) -> Result<i64> {
        if len != self.len {
            return Err(Error::new(sys::ATTILE_ERROR_SHAPE_MISMATCH, format!("a slice of {} elements and a buffer of {}", len, self.len)));
        }
        Ok((len * size_of::<T>()) as i64)
    }

    /// Copies a slice of the same length in.
    pub fn write(&mut self, data: &[T]) -> Result<()> {
        self.same_len(data.len())?;
        self.write_at(0, data)
    }

    /// Copies a slice in, to the elements from `first` on.
    pub fn write_at(&mut self, first: usize, data: &[T]) -> Result<()> {
        if first > self.len || data.len() > self.len - first {
            return Err(Error::new(
                sys::ATTILE_ERROR_SHAPE_MISMATCH,
                format!("{} elements from {} on, and a buffer of {}", data.len(), first, self.len),
            ));
        }
        let bytes = size_of_val(data) as i64;
        // SAFETY: the buffer holds that many bytes behind `first`, and the slice does.
        check(unsafe {
            sys::attile_copy(self.context.raw, self.data.add(first * size_of::<T>()).cast(), data.as_ptr().cast(), bytes, ptr::null_mut())
        })?;
        self.context.synchronize()
    }

    /// Copies everything out into a slice of the same length.
    pub fn read(&self, data: &mut [T]) -> Result<()> {
        let bytes = self.same_len(data.len())?;
        // SAFETY: both hold that many bytes. Every bit pattern is valid for an element type but bool, and memory of bool holds zeros and what slices of bool
        // brought, for there is no view by which the library could write it.
        check(unsafe { sys::attile_copy(self.context.raw, data.as_mut_ptr().cast(), self.data.cast(), bytes, ptr::null_mut()) })?;
        self.context.synchronize()
    }

    /// A dense row-major view of the start.
    pub fn view(&self, shape: &[i64]) -> Result<TensorRef<'_>> {
        Ok(TensorRef::from_raw(describe(self.data, size_of::<T>(), self.len, T::DTYPE, shape, None, 0)?))
    }

    /// A dense row-major view to write, see [`TensorMut`].
    pub fn view_mut(&mut self, shape: &[i64]) -> Result<TensorMut<'_>> {
        TensorMut::from_raw(describe(self.data, size_of::<T>(), self.len, T::DTYPE, shape, None, 0)?)
    }

    /// A view with strides, see [`TensorRef::strided`].
    pub fn view_strided(&self, shape: &[i64], stride: &[i64], offset: usize) -> Result<TensorRef<'_>> {
        Ok(TensorRef::from_raw(describe(self.data, size_of::<T>(), self.len, T::DTYPE, shape, Some(stride), offset)?))
    }
}

impl<T: Element> Drop for DeviceBuffer<'_, T> {
    fn drop(&mut self) {
        // SAFETY: the memory came from this context. Whoever used run_on promised to have waited for that stream.
        unsafe {
            sys::attile_synchronize(self.context.raw, ptr::null_mut());
            sys::attile_free(self.context.raw, self.data.cast());
        }
    }
}

impl Stream<'_> {
    /// Waits until everything queued on it is done.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the stream is alive.
        check(unsafe { sys::attile_synchronize(self.context.raw, self.raw) })
    }

    /// The device's handle.
    pub fn as_raw(&self) -> *mut std::ffi::c_void {
        self.raw
    }
}

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        // SAFETY: the stream came from this context.
        unsafe { sys::attile_stream_destroy(self.context.raw, self.raw) };
    }
}
