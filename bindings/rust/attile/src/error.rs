// SPDX-License-Identifier: Apache-2.0
use attile_sys as sys;
use std::ffi::CStr;
use std::fmt;

/// A failed call: the library's status and its sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    code: i32,
    message: String,
}

impl Error {
    pub(crate) fn new(code: i32, message: impl Into<String>) -> Self {
        Error { code, message: message.into() }
    }

    /// The status, one of the `ATTILE_ERROR_` constants of [`crate::sys`].
    pub fn code(&self) -> i32 {
        self.code
    }

    /// The status's name, "ATTILE_ERROR_SHAPE_MISMATCH".
    pub fn name(&self) -> &'static str {
        // SAFETY: the library returns a static string for every number.
        unsafe { CStr::from_ptr(sys::attile_status_name(self.code)) }.to_str().unwrap_or("ATTILE_ERROR_UNKNOWN")
    }

    /// The sentence: argument, value, and what was expected.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name(), self.message)
    }
}

impl std::error::Error for Error {}

/// The text of a function that fills (buffer, capacity) and returns the bytes needed; the text may grow between two calls.
fn text_of(fill: unsafe extern "C" fn(*mut std::os::raw::c_char, i64) -> i64) -> String {
    let mut buffer = vec![0u8; 512];
    loop {
        // SAFETY: the buffer has the capacity that is given.
        let needed = unsafe { fill(buffer.as_mut_ptr().cast(), buffer.len() as i64) };
        let needed = usize::try_from(needed).unwrap_or(0);
        if needed <= buffer.len() {
            buffer.truncate(needed.saturating_sub(1));
            return String::from_utf8_lossy(&buffer).into_owned();
        }
        buffer.resize(needed, 0);
    }
}

/// Turns a status into a result, with the sentence of this thread's last failure.
pub(crate) fn check(status: i32) -> crate::Result<()> {
    if status == sys::ATTILE_OK {
        return Ok(());
    }
    Err(Error::new(status, text_of(sys::attile_last_error)))
}

/// Every backend tried so far in this process, one a line, and why it was taken or refused.
pub fn backend_report() -> String {
    text_of(sys::attile_backend_report)
}

/// Version of the library that is loaded: major, minor, patch.
pub fn version() -> (i32, i32, i32) {
    // SAFETY: takes nothing.
    let number = unsafe { sys::attile_version() };
    (number / 1_000_000, number / 1000 % 1000, number % 1000)
}
