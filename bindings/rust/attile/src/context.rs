// SPDX-License-Identifier: Apache-2.0
use crate::error::check;
use crate::{Error, Result};
use attile_sys as sys;
use std::ffi::CString;
use std::mem::size_of;
use std::os::raw::c_char;
use std::ptr;

/// One backend on one device. Threads may share it; it closes when dropped.
#[derive(Debug)]
pub struct Context {
    pub(crate) raw: *mut sys::attile_context,
}

// SAFETY: the library promises that any number of threads may call on one context.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// How to open a context.
#[derive(Clone, Debug, Default)]
pub struct ContextOptions {
    backend: Option<String>,
    threads: i32,
    pool_bytes: i64,
}

impl ContextOptions {
    /// What the environment selects, everything at its default.
    pub fn new() -> Self {
        Self::default()
    }

    /// A name ("cuda:1"), a list ("cuda,cpu") or "auto".
    pub fn backend(mut self, selection: impl Into<String>) -> Self {
        self.backend = Some(selection.into());
        self
    }

    /// Threads a call may use on a CPU backend; 0: the environment, else every processor.
    pub fn threads(mut self, threads: i32) -> Self {
        self.threads = threads;
        self
    }

    /// Bytes of unused workspace to keep for later calls; 0: the backend's default.
    pub fn pool_bytes(mut self, bytes: i64) -> Self {
        self.pool_bytes = bytes;
        self
    }

    /// Opens it.
    pub fn open(&self) -> Result<Context> {
        let backend = match &self.backend {
            Some(text) => Some(
                CString::new(text.as_str())
                    .map_err(|_| Error::new(sys::ATTILE_ERROR_BACKEND_SELECTION, "the backend's name holds a zero byte"))?,
            ),
            None => None,
        };
        let options = sys::attile_context_options {
            struct_size: size_of::<sys::attile_context_options>() as u32,
            flags: 0,
            next: ptr::null(),
            backend: backend.as_ref().map_or(ptr::null(), |text| text.as_ptr()),
            threads: self.threads,
            reserved: 0,
            pool_bytes: self.pool_bytes,
        };
        let mut raw = ptr::null_mut();
        // SAFETY: both structs live through the call.
        check(unsafe { sys::attile_context_create(&options, &mut raw) })?;
        Ok(Context { raw })
    }
}

/// What a context runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// The backend's name.
    pub backend: String,
    /// Its version.
    pub backend_version: String,
    /// The device's name.
    pub device_name: String,
    /// "sm_61", "gfx90a", "AVX2".
    pub arch: String,
    /// ATTILE_DEVICE_ constant.
    pub device_type: i32,
    /// Its number among the devices of that type.
    pub device_index: i32,
    /// Multiprocessors, compute units or cores.
    pub compute_units: i32,
    /// CPU backends: threads a call uses.
    pub threads: i32,
    /// Bytes of the device's memory.
    pub memory_total: i64,
    /// Bytes of it free now.
    pub memory_free: i64,
}

pub(crate) fn text(field: &[c_char]) -> String {
    let bytes: Vec<u8> = field.iter().take_while(|&&c| c != 0).map(|&c| c as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Context {
    /// Opens what the environment selects: ATTILE_BACKEND, or the best that can run here.
    pub fn new() -> Result<Self> {
        ContextOptions::new().open()
    }

    /// Opens a backend by name, strictly: it runs there or this is an error.
    pub fn open(backend: &str) -> Result<Self> {
        ContextOptions::new().backend(backend).open()
    }

    /// What it runs on.
    pub fn info(&self) -> Result<Info> {
        // SAFETY: plain numbers and arrays, for which zero is valid; the library fills the struct to the size it is given.
        let raw = unsafe {
            let mut raw: sys::attile_context_info = std::mem::zeroed();
            sys::attile_context_info_init(&mut raw, size_of::<sys::attile_context_info>() as u64);
            check(sys::attile_context_get_info(self.raw, &mut raw))?;
            raw
        };
        Ok(Info {
            backend: text(&raw.backend),
            backend_version: text(&raw.backend_version),
            device_name: text(&raw.device_name),
            arch: text(&raw.arch),
            device_type: raw.device_type,
            device_index: raw.device_index,
            compute_units: raw.compute_units,
            threads: raw.threads,
            memory_total: raw.memory_total,
            memory_free: raw.memory_free,
        })
    }

    /// Waits until everything queued on the default stream is done.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the context is open.
        check(unsafe { sys::attile_synchronize(self.raw, ptr::null_mut()) })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: what borrows the context is gone.
        unsafe { sys::attile_context_destroy(self.raw) }
    }
}
