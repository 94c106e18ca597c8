// SPDX-License-Identifier: Apache-2.0
use crate::launch::initialised;
use attile_sys as sys;
use std::ffi::CStr;
use std::marker::PhantomData;
use std::os::raw::{c_char, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::slice;
use std::time::Duration;

/// Why a transport did not do what it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportError {
    /// The other rank did not come in time.
    Late,
    /// Anything else; the sentence of the call's [`crate::Error`] has the number.
    Failed(i32),
}

/// What carries messages between ranks, for [`crate::CommOptions::join_by`].
///
/// Messages between two ranks arrive in the order in which they were sent. Each request is waited for once, on the thread that makes the call. None of
/// these functions may call this crate. A panic in one counts as `Failed(-1)`.
pub trait Transport {
    /// What `send` returns to wait for.
    type Sending;
    /// What `receive` returns to wait for.
    type Receiving;

    /// Starts to send a message to a rank, and returns without waiting for it to be received. The message is gone when this returns.
    fn send(&mut self, message: &[u8], to: i32) -> Result<Self::Sending, TransportError>;

    /// Starts to receive a message of so many bytes from a rank, and returns without waiting.
    fn receive(&mut self, bytes: usize, from: i32) -> Result<Self::Receiving, TransportError>;

    /// Waits until a message has been sent, at most so long; zero ends the request now.
    fn wait_sent(&mut self, request: Self::Sending, timeout: Duration) -> Result<(), TransportError>;

    /// Waits for a message, at most so long, and fills `message` with it; zero ends the request now.
    fn wait_received(&mut self, request: Self::Receiving, message: &mut [u8], timeout: Duration) -> Result<(), TransportError>;

    /// This rank cannot go on. Waits of all ranks should end soon; where nothing is done, the others find out when their time is over.
    fn give_up(&mut self, why: &str) {
        let _ = why;
    }
}

enum Request<T: Transport> {
    Sending(T::Sending),
    Receiving(T::Receiving, *mut u8, usize),
}

/// A transport as the library calls it, kept as long as the communicator.
#[derive(Debug)]
pub(crate) struct Bridge<'c> {
    user: *mut c_void,
    free: unsafe fn(*mut c_void),
    pub(crate) callbacks: sys::attile_comm_callbacks,
    lives: PhantomData<&'c ()>,
}

impl<'c> Bridge<'c> {
    pub(crate) fn new<T: Transport + 'c>(transport: T) -> Self {
        let user = Box::into_raw(Box::new(transport)).cast::<c_void>();
        let mut callbacks = initialised!(attile_comm_callbacks, attile_comm_callbacks_init);
        callbacks.user = user;
        callbacks.send = Some(send::<T>);
        callbacks.receive = Some(receive::<T>);
        callbacks.wait = Some(wait::<T>);
        callbacks.give_up = Some(give_up::<T>);
        Bridge { user, free: free::<T>, callbacks, lives: PhantomData }
    }
}

impl Drop for Bridge<'_> {
    fn drop(&mut self) {
        // SAFETY: it was made by new(), and the communicator that called it is gone. What the transport panics with stays here.
        let _ = catch_unwind(AssertUnwindSafe(|| unsafe { (self.free)(self.user) }));
    }
}

unsafe fn free<T: Transport>(user: *mut c_void) {
    drop(Box::from_raw(user.cast::<T>()));
}

/// What a function of the transport gives, as the library's number.
fn answer(work: impl FnOnce() -> Result<(), TransportError>) -> i32 {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => sys::ATTILE_OK,
        Ok(Err(TransportError::Late)) => sys::ATTILE_ERROR_RANK_LATE,
        Ok(Err(TransportError::Failed(number))) if number != sys::ATTILE_OK => number,
        _ => -1,
    }
}

// SAFETY of all four: the library hands over the pointer of new(), memory of so many bytes, and each request once, from one thread at a time.

unsafe extern "C" fn send<T: Transport>(user: *mut c_void, data: *const c_void, bytes: i64, to: i32, request: *mut *mut c_void) -> i32 {
    answer(|| {
        // Of no bytes the library may hand over no address.
        let data = if bytes == 0 { &[][..] } else { slice::from_raw_parts(data.cast::<u8>(), bytes as usize) };
        let sending = (*user.cast::<T>()).send(data, to)?;
        *request = Box::into_raw(Box::new(Request::<T>::Sending(sending))).cast();
        Ok(())
    })
}

unsafe extern "C" fn receive<T: Transport>(user: *mut c_void, data: *mut c_void, bytes: i64, from: i32, request: *mut *mut c_void) -> i32 {
    answer(|| {
        let receiving = (*user.cast::<T>()).receive(bytes as usize, from)?;
        *request = Box::into_raw(Box::new(Request::<T>::Receiving(receiving, data.cast(), bytes as usize))).cast();
        Ok(())
    })
}

unsafe extern "C" fn wait<T: Transport>(user: *mut c_void, request: *mut c_void, seconds: f64) -> i32 {
    answer(|| {
        let transport = &mut *user.cast::<T>();
        let timeout = Duration::from_secs_f64(seconds.clamp(0.0, 1e9));
        match *Box::from_raw(request.cast::<Request<T>>()) {
            Request::Sending(sending) => transport.wait_sent(sending, timeout),
            Request::Receiving(receiving, data, bytes) => {
                // Memory that nobody has written yet is no slice of u8 in Rust.
                let data = if bytes == 0 {
                    &mut [][..]
                } else {
                    data.write_bytes(0, bytes);
                    slice::from_raw_parts_mut(data, bytes)
                };
                transport.wait_received(receiving, data, timeout)
            }
        }
    })
}

unsafe extern "C" fn give_up<T: Transport>(user: *mut c_void, _status: i32, why: *const c_char) {
    let why = if why.is_null() { Default::default() } else { CStr::from_ptr(why).to_string_lossy() };
    let _ = catch_unwind(AssertUnwindSafe(|| (*user.cast::<T>()).give_up(&why)));
}
