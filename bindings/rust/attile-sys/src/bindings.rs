// SPDX-License-Identifier: Apache-2.0
// attile.h as bindgen sees it. Written by generate.sh; a test checks that writing it again changes nothing.
pub const ATTILE_VERSION_MAJOR: i32 = 1;
pub const ATTILE_VERSION_MINOR: i32 = 0;
pub const ATTILE_VERSION_PATCH: i32 = 0;
pub const ATTILE_OK: i32 = 0;
pub const ATTILE_ERROR_NULL_ARGUMENT: i32 = 1001;
pub const ATTILE_ERROR_INVALID_VALUE: i32 = 1002;
pub const ATTILE_ERROR_STRUCT_TOO_NEW: i32 = 1003;
pub const ATTILE_ERROR_STRUCT_SIZE: i32 = 1004;
pub const ATTILE_ERROR_INVALID_DTYPE: i32 = 1005;
pub const ATTILE_ERROR_INVALID_RANK: i32 = 1006;
pub const ATTILE_ERROR_INVALID_SHAPE: i32 = 1007;
pub const ATTILE_ERROR_SHAPE_MISMATCH: i32 = 1008;
pub const ATTILE_ERROR_INVALID_STRIDE: i32 = 1009;
pub const ATTILE_ERROR_OVERFLOW: i32 = 1010;
pub const ATTILE_ERROR_ALIASING: i32 = 1011;
pub const ATTILE_ERROR_MISALIGNED: i32 = 1012;
pub const ATTILE_ERROR_WORKSPACE_TOO_SMALL: i32 = 1013;
pub const ATTILE_ERROR_INVALID_FLAGS: i32 = 1014;
pub const ATTILE_ERROR_INVALID_CONTEXT: i32 = 1015;
pub const ATTILE_ERROR_UNSUPPORTED_OPERATION: i32 = 2001;
pub const ATTILE_ERROR_UNSUPPORTED_DTYPE: i32 = 2002;
pub const ATTILE_ERROR_UNSUPPORTED_FEATURE: i32 = 2003;
pub const ATTILE_ERROR_UNSUPPORTED_SHAPE: i32 = 2004;
pub const ATTILE_ERROR_UNSUPPORTED_MEMORY: i32 = 2005;
pub const ATTILE_ERROR_BACKEND_NOT_FOUND: i32 = 3001;
pub const ATTILE_ERROR_BACKEND_LOAD: i32 = 3002;
pub const ATTILE_ERROR_BACKEND_INCOMPATIBLE: i32 = 3003;
pub const ATTILE_ERROR_BACKEND_REFUSED: i32 = 3004;
pub const ATTILE_ERROR_BACKEND_SELECTION: i32 = 3005;
pub const ATTILE_ERROR_BACKEND_CONTRACT: i32 = 3006;
pub const ATTILE_ERROR_BACKEND_EXISTS: i32 = 3007;
pub const ATTILE_ERROR_OUT_OF_HOST_MEMORY: i32 = 4001;
pub const ATTILE_ERROR_OUT_OF_DEVICE_MEMORY: i32 = 4002;
pub const ATTILE_ERROR_UNKNOWN_POINTER: i32 = 4003;
pub const ATTILE_ERROR_DEVICE_FAULT: i32 = 5001;
pub const ATTILE_ERROR_DEVICE_LAUNCH: i32 = 5002;
pub const ATTILE_ERROR_DEVICE_RUNTIME: i32 = 5003;
pub const ATTILE_ERROR_AFTER_FORK: i32 = 5004;
pub const ATTILE_ERROR_INTERNAL: i32 = 9001;
pub const ATTILE_F32: i32 = 544;
pub const ATTILE_F64: i32 = 576;
pub const ATTILE_F16: i32 = 528;
pub const ATTILE_BF16: i32 = 1040;
pub const ATTILE_I32: i32 = 32;
pub const ATTILE_U8: i32 = 264;
pub const ATTILE_BOOL: i32 = 1544;
pub const ATTILE_DEVICE_CPU: i32 = 1;
pub const ATTILE_DEVICE_CUDA: i32 = 2;
pub const ATTILE_DEVICE_ROCM: i32 = 10;
pub const ATTILE_MEMORY_HOST: i32 = 0;
pub const ATTILE_MEMORY_PINNED: i32 = 1;
pub const ATTILE_MEMORY_MANAGED: i32 = 2;
pub const ATTILE_MEMORY_DEVICE: i32 = 3;
pub const ATTILE_FLAG_BATCH_INVARIANT: i32 = 1;
pub const ATTILE_FLAG_NO_ALLOC: i32 = 2;
pub const ATTILE_FLAG_ALLOW_SPLIT_TF32: i32 = 4;
pub const ATTILE_FLAG_ALLOW_NONDETERMINISTIC: i32 = 8;
pub const ATTILE_SUPPORT_NONE: i32 = 0;
pub const ATTILE_SUPPORT_EMULATED: i32 = 1;
pub const ATTILE_SUPPORT_NATIVE: i32 = 2;
pub const ATTILE_BIAS_NONE: i32 = 0;
pub const ATTILE_BIAS_COLUMNS: i32 = 1;
pub const ATTILE_BIAS_ROWS: i32 = 2;
pub const ATTILE_ACTIVATION_NONE: i32 = 0;
pub const ATTILE_ACTIVATION_RELU: i32 = 1;
pub const ATTILE_ACTIVATION_GELU: i32 = 2;
pub const ATTILE_ACTIVATION_GELU_TANH: i32 = 3;
pub const ATTILE_ACTIVATION_SILU: i32 = 4;
pub const ATTILE_MASK_NONE: i32 = 0;
pub const ATTILE_MASK_CAUSAL_TOP_LEFT: i32 = 1;
pub const ATTILE_MASK_CAUSAL_BOTTOM_RIGHT: i32 = 2;
pub const ATTILE_MASK_WINDOW_TOP_LEFT: i32 = 3;
pub const ATTILE_MASK_WINDOW_BOTTOM_RIGHT: i32 = 4;
pub const ATTILE_REDUCE_SUM: i32 = 1;
pub const ATTILE_REDUCE_MAX: i32 = 2;
pub const ATTILE_REDUCE_MIN: i32 = 3;
pub const ATTILE_REDUCE_MEAN: i32 = 4;
pub const ATTILE_ROW_MAJOR: i32 = 101;
pub const ATTILE_COL_MAJOR: i32 = 102;
pub const ATTILE_NO_TRANS: i32 = 111;
pub const ATTILE_TRANS: i32 = 112;
pub const ATTILE_CONJ_TRANS: i32 = 113;
pub const ATTILE_LOG_OFF: i32 = 0;
pub const ATTILE_LOG_ERROR: i32 = 1;
pub const ATTILE_LOG_WARN: i32 = 2;
pub const ATTILE_LOG_INFO: i32 = 3;
pub const ATTILE_LOG_DEBUG: i32 = 4;
pub const ATTILE_LOG_TRACE: i32 = 5;
pub type __int32_t = ::std::os::raw::c_int;
pub type __uint32_t = ::std::os::raw::c_uint;
pub type __int64_t = ::std::os::raw::c_long;
pub type __uint64_t = ::std::os::raw::c_ulong;
extern "C" {
    pub fn attile_version() -> i32;
}
extern "C" {
    pub fn attile_status_name(status: i32) -> *const ::std::os::raw::c_char;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct attile_context {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct attile_context_options {
    pub struct_size: u32,
    pub flags: u32,
    pub next: *const ::core::ffi::c_void,
    pub backend: *const ::std::os::raw::c_char,
    pub threads: i32,
    pub reserved: i32,
    pub pool_bytes: i64,
}
#[test]
fn bindgen_test_layout_attile_context_options() {
    assert_eq!(
        ::core::mem::size_of::<attile_context_options>(),
        40usize,
        concat!("Size of: ", stringify!(attile_context_options))
    );
    assert_eq!(
        ::core::mem::align_of::<attile_context_options>(),
        8usize,
        concat!("Alignment of ", stringify!(attile_context_options))
    );
    fn test_field_struct_size() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_options>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_options),
                "::",
                stringify!(struct_size)
            )
        );
    }
    test_field_struct_size();
    fn test_field_flags() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_options>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).flags) as usize - ptr as usize
            },
            4usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_options),
                "::",
                stringify!(flags)
            )
        );
    }
    test_field_flags();
    fn test_field_next() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_options>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).next) as usize - ptr as usize
            },
            8usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_options),
                "::",
                stringify!(next)
            )
        );
    }
    test_field_next();
    fn test_field_backend() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_options>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).backend) as usize - ptr as usize
            },
            16usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_options),
                "::",
                stringify!(backend)
            )
        );
    }
    test_field_backend();
    fn test_field_threads() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_options>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).threads) as usize - ptr as usize
            },
            24usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_options),
                "::",
                stringify!(threads)
            )
        );
    }
    test_field_threads();
    fn test_field_reserved() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_options>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).reserved) as usize - ptr as usize
            },
            28usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_options),
                "::",
                stringify!(reserved)
            )
        );
    }
    test_field_reserved();
    fn test_field_pool_bytes() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_options>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).pool_bytes) as usize - ptr as usize
            },
            32usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_options),
                "::",
                stringify!(pool_bytes)
            )
        );
    }
    test_field_pool_bytes();
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct attile_context_info {
    pub struct_size: u32,
    pub flags: u32,
    pub next: *const ::core::ffi::c_void,
    pub backend: [::std::os::raw::c_char; 32usize],
    pub backend_version: [::std::os::raw::c_char; 32usize],
    pub device_name: [::std::os::raw::c_char; 128usize],
    pub arch: [::std::os::raw::c_char; 64usize],
    pub device_type: i32,
    pub device_index: i32,
    pub compute_units: i32,
    pub threads: i32,
    pub lane_width: i32,
    pub max_threads_per_unit: i32,
    pub max_blocks_per_unit: i32,
    pub registers_per_unit: i32,
    pub memory_total: i64,
    pub memory_free: i64,
    pub shared_per_block: i64,
    pub shared_per_unit: i64,
    pub l2_bytes: i64,
    pub clock_hz: f64,
    pub peak_flops_f32: f64,
    pub peak_flops_f64: f64,
    pub peak_flops_f16: f64,
    pub peak_bandwidth: f64,
}
#[test]
fn bindgen_test_layout_attile_context_info() {
    assert_eq!(
        ::core::mem::size_of::<attile_context_info>(),
        384usize,
        concat!("Size of: ", stringify!(attile_context_info))
    );
    assert_eq!(
        ::core::mem::align_of::<attile_context_info>(),
        8usize,
        concat!("Alignment of ", stringify!(attile_context_info))
    );
    fn test_field_struct_size() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_info>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_info),
                "::",
                stringify!(struct_size)
            )
        );
    }
    test_field_struct_size();
    fn test_field_flags() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_info>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).flags) as usize - ptr as usize
            },
            4usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_info),
                "::",
                stringify!(flags)
            )
        );
    }
    test_field_flags();
    fn test_field_next() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_info>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).next) as usize - ptr as usize
            },
            8usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_info),
                "::",
                stringify!(next)
            )
        );
    }
    test_field_next();
    fn test_field_backend() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_info>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).backend) as usize - ptr as usize
            },
            16usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_info),
                "::",
                stringify!(backend)
            )
        );
    }
    test_field_backend();
    fn test_field_backend_version() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_info>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).backend_version) as usize - ptr as usize
            },
            48usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_info),
                "::",
                stringify!(backend_version)
            )
        );
    }
    test_field_backend_version();
    fn test_field_device_name() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_info>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).device_name) as usize - ptr as usize
            },
            80usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_info),
                "::",
                stringify!(device_name)
            )
        );
    }
    test_field_device_name();
    fn test_field_arch() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_info>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).arch) as usize - ptr as usize
            },
            208usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_info),
                "::",
                stringify!(arch)
            )
        );
    }
    test_field_arch();
    fn test_field_device_type() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_info>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).device_type) as usize - ptr as usize
            },
            272usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_info),
                "::",
                stringify!(device_type)
            )
        );
    }
    test_field_device_type();
    fn test_field_device_index() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_info>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).device_index) as usize - ptr as usize
            },
            276usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_info),
                "::",
                stringify!(device_index)
            )
        );
    }
    test_field_device_index();
    fn test_field_compute_units() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_info>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).compute_units) as usize - ptr as usize
            },
            280usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_info),
                "::",
                stringify!(compute_units)
            )
        );
    }
    test_field_compute_units();
    fn test_field_threads() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_info>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).threads) as usize - ptr as usize
            },
            284usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_info),
                "::",
                stringify!(threads)
            )
        );
    }
    test_field_threads();
    fn test_field_lane_width() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_info>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).lane_width) as usize - ptr as usize
            },
            288usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_info),
                "::",
                stringify!(lane_width)
            )
        );
    }
    test_field_lane_width();
    fn test_field_max_threads_per_unit() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_info>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).max_threads_per_unit) as usize - ptr as usize
            },
            292usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_info),
                "::",
                stringify!(max_threads_per_unit)
            )
        );
    }
    test_field_max_threads_per_unit();
    fn test_field_max_blocks_per_unit() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_info>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).max_blocks_per_unit) as usize - ptr as usize
            },
            296usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_info),
                "::",
                stringify!(max_blocks_per_unit)
            )
        );
    }
    test_field_max_blocks_per_unit();
    fn test_field_registers_per_unit() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_info>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).registers_per_unit) as usize - ptr as usize
            },
            300usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_info),
                "::",
                stringify!(registers_per_unit)
            )
        );
    }
    test_field_registers_per_unit();
    fn test_field_memory_total() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_info>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).memory_total) as usize - ptr as usize
            },
            304usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_info),
                "::",
                stringify!(memory_total)
            )
        );
    }
    test_field_memory_total();
    fn test_field_memory_free() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_info>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).memory_free) as usize - ptr as usize
            },
            312usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_info),
                "::",
                stringify!(memory_free)
            )
        );
    }
    test_field_memory_free();
    fn test_field_shared_per_block() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_info>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).shared_per_block) as usize - ptr as usize
            },
            320usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_info),
                "::",
                stringify!(shared_per_block)
            )
        );
    }
    test_field_shared_per_block();
    fn test_field_shared_per_unit() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_info>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).shared_per_unit) as usize - ptr as usize
            },
            328usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_info),
                "::",
                stringify!(shared_per_unit)
            )
        );
    }
    test_field_shared_per_unit();
    fn test_field_l2_bytes() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_info>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).l2_bytes) as usize - ptr as usize
            },
            336usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_info),
                "::",
                stringify!(l2_bytes)
            )
        );
    }
    test_field_l2_bytes();
    fn test_field_clock_hz() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_info>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).clock_hz) as usize - ptr as usize
            },
            344usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_info),
                "::",
                stringify!(clock_hz)
            )
        );
    }
    test_field_clock_hz();
    fn test_field_peak_flops_f32() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_info>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).peak_flops_f32) as usize - ptr as usize
            },
            352usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_info),
                "::",
                stringify!(peak_flops_f32)
            )
        );
    }
    test_field_peak_flops_f32();
    fn test_field_peak_flops_f64() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_info>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).peak_flops_f64) as usize - ptr as usize
            },
            360usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_info),
                "::",
                stringify!(peak_flops_f64)
            )
        );
    }
    test_field_peak_flops_f64();
    fn test_field_peak_flops_f16() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_info>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).peak_flops_f16) as usize - ptr as usize
            },
            368usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_info),
                "::",
                stringify!(peak_flops_f16)
            )
        );
    }
    test_field_peak_flops_f16();
    fn test_field_peak_bandwidth() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_context_info>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).peak_bandwidth) as usize - ptr as usize
            },
            376usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_context_info),
                "::",
                stringify!(peak_bandwidth)
            )
        );
    }
    test_field_peak_bandwidth();
}
extern "C" {
    pub fn attile_context_options_init(options: *mut attile_context_options, size: u64);
}
extern "C" {
    pub fn attile_context_info_init(info: *mut attile_context_info, size: u64);
}
extern "C" {
    pub fn attile_context_create(
        options: *const attile_context_options,
        context: *mut *mut attile_context,
    ) -> i32;
}
extern "C" {
    pub fn attile_context_destroy(context: *mut attile_context);
}
extern "C" {
    pub fn attile_context_get_info(
        context: *mut attile_context,
        info: *mut attile_context_info,
    ) -> i32;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct attile_tensor {
    pub data: *mut ::core::ffi::c_void,
    pub dtype: i32,
    pub rank: i32,
    pub shape: [i64; 4usize],
    pub stride: [i64; 4usize],
}
#[test]
fn bindgen_test_layout_attile_tensor() {
    assert_eq!(
        ::core::mem::size_of::<attile_tensor>(),
        80usize,
        concat!("Size of: ", stringify!(attile_tensor))
    );
    assert_eq!(
        ::core::mem::align_of::<attile_tensor>(),
        8usize,
        concat!("Alignment of ", stringify!(attile_tensor))
    );
    fn test_field_data() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_tensor>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).data) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_tensor),
                "::",
                stringify!(data)
            )
        );
    }
    test_field_data();
    fn test_field_dtype() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_tensor>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).dtype) as usize - ptr as usize
            },
            8usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_tensor),
                "::",
                stringify!(dtype)
            )
        );
    }
    test_field_dtype();
    fn test_field_rank() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_tensor>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).rank) as usize - ptr as usize
            },
            12usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_tensor),
                "::",
                stringify!(rank)
            )
        );
    }
    test_field_rank();
    fn test_field_shape() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_tensor>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).shape) as usize - ptr as usize
            },
            16usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_tensor),
                "::",
                stringify!(shape)
            )
        );
    }
    test_field_shape();
    fn test_field_stride() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_tensor>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).stride) as usize - ptr as usize
            },
            48usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_tensor),
                "::",
                stringify!(stride)
            )
        );
    }
    test_field_stride();
}
extern "C" {
    pub fn attile_tensor_init(
        tensor: *mut attile_tensor,
        data: *mut ::core::ffi::c_void,
        dtype: i32,
        rank: i32,
        shape: *const i64,
    ) -> i32;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct attile_support {
    pub struct_size: u32,
    pub flags: u32,
    pub next: *const ::core::ffi::c_void,
    pub level: i32,
    pub status: i32,
    pub workspace_bytes: i64,
    pub kernel: [::std::os::raw::c_char; 96usize],
    pub text: [::std::os::raw::c_char; 256usize],
    pub flops: f64,
    pub bytes: f64,
    pub tile_m: i32,
    pub tile_n: i32,
    pub tile_k: i32,
    pub threads: i32,
    pub registers: i32,
    pub shared_bytes: i32,
    pub blocks_per_unit: i32,
    pub splits: i32,
    pub blocks: i64,
    pub predicted_share: f64,
}
#[test]
fn bindgen_test_layout_attile_support() {
    assert_eq!(
        ::core::mem::size_of::<attile_support>(),
        448usize,
        concat!("Size of: ", stringify!(attile_support))
    );
    assert_eq!(
        ::core::mem::align_of::<attile_support>(),
        8usize,
        concat!("Alignment of ", stringify!(attile_support))
    );
    fn test_field_struct_size() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_support>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_support),
                "::",
                stringify!(struct_size)
            )
        );
    }
    test_field_struct_size();
    fn test_field_flags() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_support>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).flags) as usize - ptr as usize
            },
            4usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_support),
                "::",
                stringify!(flags)
            )
        );
    }
    test_field_flags();
    fn test_field_next() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_support>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).next) as usize - ptr as usize
            },
            8usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_support),
                "::",
                stringify!(next)
            )
        );
    }
    test_field_next();
    fn test_field_level() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_support>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).level) as usize - ptr as usize
            },
            16usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_support),
                "::",
                stringify!(level)
            )
        );
    }
    test_field_level();
    fn test_field_status() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_support>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).status) as usize - ptr as usize
            },
            20usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_support),
                "::",
                stringify!(status)
            )
        );
    }
    test_field_status();
    fn test_field_workspace_bytes() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_support>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).workspace_bytes) as usize - ptr as usize
            },
            24usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_support),
                "::",
                stringify!(workspace_bytes)
            )
        );
    }
    test_field_workspace_bytes();
    fn test_field_kernel() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_support>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).kernel) as usize - ptr as usize
            },
            32usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_support),
                "::",
                stringify!(kernel)
            )
        );
    }
    test_field_kernel();
    fn test_field_text() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_support>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).text) as usize - ptr as usize
            },
            128usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_support),
                "::",
                stringify!(text)
            )
        );
    }
    test_field_text();
    fn test_field_flops() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_support>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).flops) as usize - ptr as usize
            },
            384usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_support),
                "::",
                stringify!(flops)
            )
        );
    }
    test_field_flops();
    fn test_field_bytes() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_support>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).bytes) as usize - ptr as usize
            },
            392usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_support),
                "::",
                stringify!(bytes)
            )
        );
    }
    test_field_bytes();
    fn test_field_tile_m() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_support>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).tile_m) as usize - ptr as usize
            },
            400usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_support),
                "::",
                stringify!(tile_m)
            )
        );
    }
    test_field_tile_m();
    fn test_field_tile_n() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_support>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).tile_n) as usize - ptr as usize
            },
            404usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_support),
                "::",
                stringify!(tile_n)
            )
        );
    }
    test_field_tile_n();
    fn test_field_tile_k() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_support>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).tile_k) as usize - ptr as usize
            },
            408usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_support),
                "::",
                stringify!(tile_k)
            )
        );
    }
    test_field_tile_k();
    fn test_field_threads() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_support>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).threads) as usize - ptr as usize
            },
            412usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_support),
                "::",
                stringify!(threads)
            )
        );
    }
    test_field_threads();
    fn test_field_registers() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_support>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).registers) as usize - ptr as usize
            },
            416usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_support),
                "::",
                stringify!(registers)
            )
        );
    }
    test_field_registers();
    fn test_field_shared_bytes() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_support>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).shared_bytes) as usize - ptr as usize
            },
            420usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_support),
                "::",
                stringify!(shared_bytes)
            )
        );
    }
    test_field_shared_bytes();
    fn test_field_blocks_per_unit() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_support>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).blocks_per_unit) as usize - ptr as usize
            },
            424usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_support),
                "::",
                stringify!(blocks_per_unit)
            )
        );
    }
    test_field_blocks_per_unit();
    fn test_field_splits() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_support>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).splits) as usize - ptr as usize
            },
            428usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_support),
                "::",
                stringify!(splits)
            )
        );
    }
    test_field_splits();
    fn test_field_blocks() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_support>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).blocks) as usize - ptr as usize
            },
            432usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_support),
                "::",
                stringify!(blocks)
            )
        );
    }
    test_field_blocks();
    fn test_field_predicted_share() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_support>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).predicted_share) as usize - ptr as usize
            },
            440usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_support),
                "::",
                stringify!(predicted_share)
            )
        );
    }
    test_field_predicted_share();
}
extern "C" {
    pub fn attile_support_init(support: *mut attile_support, size: u64);
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct attile_gemm_args {
    pub struct_size: u32,
    pub flags: u32,
    pub next: *const ::core::ffi::c_void,
    pub stream: *mut ::core::ffi::c_void,
    pub workspace: *mut ::core::ffi::c_void,
    pub workspace_bytes: i64,
    pub a: attile_tensor,
    pub b: attile_tensor,
    pub c: attile_tensor,
    pub d: attile_tensor,
    pub alpha: f64,
    pub beta: f64,
    pub bias: attile_tensor,
    pub bias_axis: i32,
    pub activation: i32,
}
#[test]
fn bindgen_test_layout_attile_gemm_args() {
    assert_eq!(
        ::core::mem::size_of::<attile_gemm_args>(),
        464usize,
        concat!("Size of: ", stringify!(attile_gemm_args))
    );
    assert_eq!(
        ::core::mem::align_of::<attile_gemm_args>(),
        8usize,
        concat!("Alignment of ", stringify!(attile_gemm_args))
    );
    fn test_field_struct_size() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_gemm_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_gemm_args),
                "::",
                stringify!(struct_size)
            )
        );
    }
    test_field_struct_size();
    fn test_field_flags() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_gemm_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).flags) as usize - ptr as usize
            },
            4usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_gemm_args),
                "::",
                stringify!(flags)
            )
        );
    }
    test_field_flags();
    fn test_field_next() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_gemm_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).next) as usize - ptr as usize
            },
            8usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_gemm_args),
                "::",
                stringify!(next)
            )
        );
    }
    test_field_next();
    fn test_field_stream() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_gemm_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).stream) as usize - ptr as usize
            },
            16usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_gemm_args),
                "::",
                stringify!(stream)
            )
        );
    }
    test_field_stream();
    fn test_field_workspace() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_gemm_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).workspace) as usize - ptr as usize
            },
            24usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_gemm_args),
                "::",
                stringify!(workspace)
            )
        );
    }
    test_field_workspace();
    fn test_field_workspace_bytes() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_gemm_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).workspace_bytes) as usize - ptr as usize
            },
            32usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_gemm_args),
                "::",
                stringify!(workspace_bytes)
            )
        );
    }
    test_field_workspace_bytes();
    fn test_field_a() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_gemm_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).a) as usize - ptr as usize
            },
            40usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_gemm_args),
                "::",
                stringify!(a)
            )
        );
    }
    test_field_a();
    fn test_field_b() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_gemm_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).b) as usize - ptr as usize
            },
            120usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_gemm_args),
                "::",
                stringify!(b)
            )
        );
    }
    test_field_b();
    fn test_field_c() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_gemm_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).c) as usize - ptr as usize
            },
            200usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_gemm_args),
                "::",
                stringify!(c)
            )
        );
    }
    test_field_c();
    fn test_field_d() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_gemm_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).d) as usize - ptr as usize
            },
            280usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_gemm_args),
                "::",
                stringify!(d)
            )
        );
    }
    test_field_d();
    fn test_field_alpha() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_gemm_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).alpha) as usize - ptr as usize
            },
            360usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_gemm_args),
                "::",
                stringify!(alpha)
            )
        );
    }
    test_field_alpha();
    fn test_field_beta() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_gemm_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).beta) as usize - ptr as usize
            },
            368usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_gemm_args),
                "::",
                stringify!(beta)
            )
        );
    }
    test_field_beta();
    fn test_field_bias() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_gemm_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).bias) as usize - ptr as usize
            },
            376usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_gemm_args),
                "::",
                stringify!(bias)
            )
        );
    }
    test_field_bias();
    fn test_field_bias_axis() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_gemm_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).bias_axis) as usize - ptr as usize
            },
            456usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_gemm_args),
                "::",
                stringify!(bias_axis)
            )
        );
    }
    test_field_bias_axis();
    fn test_field_activation() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_gemm_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).activation) as usize - ptr as usize
            },
            460usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_gemm_args),
                "::",
                stringify!(activation)
            )
        );
    }
    test_field_activation();
}
extern "C" {
    pub fn attile_gemm_init(args: *mut attile_gemm_args, size: u64);
}
extern "C" {
    pub fn attile_gemm(context: *mut attile_context, args: *const attile_gemm_args) -> i32;
}
extern "C" {
    pub fn attile_gemm_query(
        context: *mut attile_context,
        args: *const attile_gemm_args,
        support: *mut attile_support,
    ) -> i32;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct attile_attention_args {
    pub struct_size: u32,
    pub flags: u32,
    pub next: *const ::core::ffi::c_void,
    pub stream: *mut ::core::ffi::c_void,
    pub workspace: *mut ::core::ffi::c_void,
    pub workspace_bytes: i64,
    pub q: attile_tensor,
    pub k: attile_tensor,
    pub v: attile_tensor,
    pub o: attile_tensor,
    pub lse: attile_tensor,
    pub scale: f64,
    pub softcap: f64,
    pub mask: i32,
    pub reserved: i32,
    pub window_left: i64,
    pub window_right: i64,
    pub bias: attile_tensor,
    pub allowed: attile_tensor,
    pub alibi_slopes: attile_tensor,
    pub sinks: attile_tensor,
    pub key_lengths: attile_tensor,
    pub cu_len_q: attile_tensor,
    pub cu_len_k: attile_tensor,
    pub max_len_q: i64,
    pub max_len_k: i64,
    pub block_table: attile_tensor,
}
#[test]
fn bindgen_test_layout_attile_attention_args() {
    assert_eq!(
        ::core::mem::size_of::<attile_attention_args>(),
        1136usize,
        concat!("Size of: ", stringify!(attile_attention_args))
    );
    assert_eq!(
        ::core::mem::align_of::<attile_attention_args>(),
        8usize,
        concat!("Alignment of ", stringify!(attile_attention_args))
    );
    fn test_field_struct_size() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_args),
                "::",
                stringify!(struct_size)
            )
        );
    }
    test_field_struct_size();
    fn test_field_flags() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).flags) as usize - ptr as usize
            },
            4usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_args),
                "::",
                stringify!(flags)
            )
        );
    }
    test_field_flags();
    fn test_field_next() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).next) as usize - ptr as usize
            },
            8usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_args),
                "::",
                stringify!(next)
            )
        );
    }
    test_field_next();
    fn test_field_stream() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).stream) as usize - ptr as usize
            },
            16usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_args),
                "::",
                stringify!(stream)
            )
        );
    }
    test_field_stream();
    fn test_field_workspace() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).workspace) as usize - ptr as usize
            },
            24usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_args),
                "::",
                stringify!(workspace)
            )
        );
    }
    test_field_workspace();
    fn test_field_workspace_bytes() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).workspace_bytes) as usize - ptr as usize
            },
            32usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_args),
                "::",
                stringify!(workspace_bytes)
            )
        );
    }
    test_field_workspace_bytes();
    fn test_field_q() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).q) as usize - ptr as usize
            },
            40usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_args),
                "::",
                stringify!(q)
            )
        );
    }
    test_field_q();
    fn test_field_k() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).k) as usize - ptr as usize
            },
            120usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_args),
                "::",
                stringify!(k)
            )
        );
    }
    test_field_k();
    fn test_field_v() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).v) as usize - ptr as usize
            },
            200usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_args),
                "::",
                stringify!(v)
            )
        );
    }
    test_field_v();
    fn test_field_o() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).o) as usize - ptr as usize
            },
            280usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_args),
                "::",
                stringify!(o)
            )
        );
    }
    test_field_o();
    fn test_field_lse() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).lse) as usize - ptr as usize
            },
            360usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_args),
                "::",
                stringify!(lse)
            )
        );
    }
    test_field_lse();
    fn test_field_scale() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).scale) as usize - ptr as usize
            },
            440usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_args),
                "::",
                stringify!(scale)
            )
        );
    }
    test_field_scale();
    fn test_field_softcap() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).softcap) as usize - ptr as usize
            },
            448usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_args),
                "::",
                stringify!(softcap)
            )
        );
    }
    test_field_softcap();
    fn test_field_mask() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).mask) as usize - ptr as usize
            },
            456usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_args),
                "::",
                stringify!(mask)
            )
        );
    }
    test_field_mask();
    fn test_field_reserved() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).reserved) as usize - ptr as usize
            },
            460usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_args),
                "::",
                stringify!(reserved)
            )
        );
    }
    test_field_reserved();
    fn test_field_window_left() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).window_left) as usize - ptr as usize
            },
            464usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_args),
                "::",
                stringify!(window_left)
            )
        );
    }
    test_field_window_left();
    fn test_field_window_right() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).window_right) as usize - ptr as usize
            },
            472usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_args),
                "::",
                stringify!(window_right)
            )
        );
    }
    test_field_window_right();
    fn test_field_bias() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).bias) as usize - ptr as usize
            },
            480usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_args),
                "::",
                stringify!(bias)
            )
        );
    }
    test_field_bias();
    fn test_field_allowed() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).allowed) as usize - ptr as usize
            },
            560usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_args),
                "::",
                stringify!(allowed)
            )
        );
    }
    test_field_allowed();
    fn test_field_alibi_slopes() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).alibi_slopes) as usize - ptr as usize
            },
            640usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_args),
                "::",
                stringify!(alibi_slopes)
            )
        );
    }
    test_field_alibi_slopes();
    fn test_field_sinks() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).sinks) as usize - ptr as usize
            },
            720usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_args),
                "::",
                stringify!(sinks)
            )
        );
    }
    test_field_sinks();
    fn test_field_key_lengths() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).key_lengths) as usize - ptr as usize
            },
            800usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_args),
                "::",
                stringify!(key_lengths)
            )
        );
    }
    test_field_key_lengths();
    fn test_field_cu_len_q() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).cu_len_q) as usize - ptr as usize
            },
            880usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_args),
                "::",
                stringify!(cu_len_q)
            )
        );
    }
    test_field_cu_len_q();
    fn test_field_cu_len_k() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).cu_len_k) as usize - ptr as usize
            },
            960usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_args),
                "::",
                stringify!(cu_len_k)
            )
        );
    }
    test_field_cu_len_k();
    fn test_field_max_len_q() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).max_len_q) as usize - ptr as usize
            },
            1040usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_args),
                "::",
                stringify!(max_len_q)
            )
        );
    }
    test_field_max_len_q();
    fn test_field_max_len_k() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).max_len_k) as usize - ptr as usize
            },
            1048usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_args),
                "::",
                stringify!(max_len_k)
            )
        );
    }
    test_field_max_len_k();
    fn test_field_block_table() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).block_table) as usize - ptr as usize
            },
            1056usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_args),
                "::",
                stringify!(block_table)
            )
        );
    }
    test_field_block_table();
}
extern "C" {
    pub fn attile_attention_init(args: *mut attile_attention_args, size: u64);
}
extern "C" {
    pub fn attile_attention(
        context: *mut attile_context,
        args: *const attile_attention_args,
    ) -> i32;
}
extern "C" {
    pub fn attile_attention_query(
        context: *mut attile_context,
        args: *const attile_attention_args,
        support: *mut attile_support,
    ) -> i32;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct attile_attention_backward_args {
    pub struct_size: u32,
    pub flags: u32,
    pub next: *const ::core::ffi::c_void,
    pub stream: *mut ::core::ffi::c_void,
    pub workspace: *mut ::core::ffi::c_void,
    pub workspace_bytes: i64,
    pub forward: *const attile_attention_args,
    pub dout: attile_tensor,
    pub dq: attile_tensor,
    pub dk: attile_tensor,
    pub dv: attile_tensor,
    pub dbias: attile_tensor,
    pub dsinks: attile_tensor,
}
#[test]
fn bindgen_test_layout_attile_attention_backward_args() {
    assert_eq!(
        ::core::mem::size_of::<attile_attention_backward_args>(),
        528usize,
        concat!("Size of: ", stringify!(attile_attention_backward_args))
    );
    assert_eq!(
        ::core::mem::align_of::<attile_attention_backward_args>(),
        8usize,
        concat!("Alignment of ", stringify!(attile_attention_backward_args))
    );
    fn test_field_struct_size() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_backward_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_backward_args),
                "::",
                stringify!(struct_size)
            )
        );
    }
    test_field_struct_size();
    fn test_field_flags() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_backward_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).flags) as usize - ptr as usize
            },
            4usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_backward_args),
                "::",
                stringify!(flags)
            )
        );
    }
    test_field_flags();
    fn test_field_next() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_backward_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).next) as usize - ptr as usize
            },
            8usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_backward_args),
                "::",
                stringify!(next)
            )
        );
    }
    test_field_next();
    fn test_field_stream() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_backward_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).stream) as usize - ptr as usize
            },
            16usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_backward_args),
                "::",
                stringify!(stream)
            )
        );
    }
    test_field_stream();
    fn test_field_workspace() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_backward_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).workspace) as usize - ptr as usize
            },
            24usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_backward_args),
                "::",
                stringify!(workspace)
            )
        );
    }
    test_field_workspace();
    fn test_field_workspace_bytes() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_backward_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).workspace_bytes) as usize - ptr as usize
            },
            32usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_backward_args),
                "::",
                stringify!(workspace_bytes)
            )
        );
    }
    test_field_workspace_bytes();
    fn test_field_forward() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_backward_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).forward) as usize - ptr as usize
            },
            40usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_backward_args),
                "::",
                stringify!(forward)
            )
        );
    }
    test_field_forward();
    fn test_field_dout() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_backward_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).dout) as usize - ptr as usize
            },
            48usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_backward_args),
                "::",
                stringify!(dout)
            )
        );
    }
    test_field_dout();
    fn test_field_dq() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_backward_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).dq) as usize - ptr as usize
            },
            128usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_backward_args),
                "::",
                stringify!(dq)
            )
        );
    }
    test_field_dq();
    fn test_field_dk() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_backward_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).dk) as usize - ptr as usize
            },
            208usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_backward_args),
                "::",
                stringify!(dk)
            )
        );
    }
    test_field_dk();
    fn test_field_dv() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_backward_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).dv) as usize - ptr as usize
            },
            288usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_backward_args),
                "::",
                stringify!(dv)
            )
        );
    }
    test_field_dv();
    fn test_field_dbias() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_backward_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).dbias) as usize - ptr as usize
            },
            368usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_backward_args),
                "::",
                stringify!(dbias)
            )
        );
    }
    test_field_dbias();
    fn test_field_dsinks() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_backward_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).dsinks) as usize - ptr as usize
            },
            448usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_backward_args),
                "::",
                stringify!(dsinks)
            )
        );
    }
    test_field_dsinks();
}
extern "C" {
    pub fn attile_attention_backward_init(args: *mut attile_attention_backward_args, size: u64);
}
extern "C" {
    pub fn attile_attention_backward(
        context: *mut attile_context,
        args: *const attile_attention_backward_args,
    ) -> i32;
}
extern "C" {
    pub fn attile_attention_backward_query(
        context: *mut attile_context,
        args: *const attile_attention_backward_args,
        support: *mut attile_support,
    ) -> i32;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct attile_attention_merge_args {
    pub struct_size: u32,
    pub flags: u32,
    pub next: *const ::core::ffi::c_void,
    pub stream: *mut ::core::ffi::c_void,
    pub workspace: *mut ::core::ffi::c_void,
    pub workspace_bytes: i64,
    pub o_parts: *const attile_tensor,
    pub lse_parts: *const attile_tensor,
    pub parts: i64,
    pub o: attile_tensor,
    pub lse: attile_tensor,
}
#[test]
fn bindgen_test_layout_attile_attention_merge_args() {
    assert_eq!(
        ::core::mem::size_of::<attile_attention_merge_args>(),
        224usize,
        concat!("Size of: ", stringify!(attile_attention_merge_args))
    );
    assert_eq!(
        ::core::mem::align_of::<attile_attention_merge_args>(),
        8usize,
        concat!("Alignment of ", stringify!(attile_attention_merge_args))
    );
    fn test_field_struct_size() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_merge_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_merge_args),
                "::",
                stringify!(struct_size)
            )
        );
    }
    test_field_struct_size();
    fn test_field_flags() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_merge_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).flags) as usize - ptr as usize
            },
            4usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_merge_args),
                "::",
                stringify!(flags)
            )
        );
    }
    test_field_flags();
    fn test_field_next() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_merge_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).next) as usize - ptr as usize
            },
            8usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_merge_args),
                "::",
                stringify!(next)
            )
        );
    }
    test_field_next();
    fn test_field_stream() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_merge_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).stream) as usize - ptr as usize
            },
            16usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_merge_args),
                "::",
                stringify!(stream)
            )
        );
    }
    test_field_stream();
    fn test_field_workspace() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_merge_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).workspace) as usize - ptr as usize
            },
            24usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_merge_args),
                "::",
                stringify!(workspace)
            )
        );
    }
    test_field_workspace();
    fn test_field_workspace_bytes() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_merge_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).workspace_bytes) as usize - ptr as usize
            },
            32usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_merge_args),
                "::",
                stringify!(workspace_bytes)
            )
        );
    }
    test_field_workspace_bytes();
    fn test_field_o_parts() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_merge_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).o_parts) as usize - ptr as usize
            },
            40usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_merge_args),
                "::",
                stringify!(o_parts)
            )
        );
    }
    test_field_o_parts();
    fn test_field_lse_parts() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_merge_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).lse_parts) as usize - ptr as usize
            },
            48usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_merge_args),
                "::",
                stringify!(lse_parts)
            )
        );
    }
    test_field_lse_parts();
    fn test_field_parts() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_merge_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).parts) as usize - ptr as usize
            },
            56usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_merge_args),
                "::",
                stringify!(parts)
            )
        );
    }
    test_field_parts();
    fn test_field_o() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_merge_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).o) as usize - ptr as usize
            },
            64usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_merge_args),
                "::",
                stringify!(o)
            )
        );
    }
    test_field_o();
    fn test_field_lse() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_attention_merge_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).lse) as usize - ptr as usize
            },
            144usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_attention_merge_args),
                "::",
                stringify!(lse)
            )
        );
    }
    test_field_lse();
}
extern "C" {
    pub fn attile_attention_merge_init(args: *mut attile_attention_merge_args, size: u64);
}
extern "C" {
    pub fn attile_attention_merge(
        context: *mut attile_context,
        args: *const attile_attention_merge_args,
    ) -> i32;
}
extern "C" {
    pub fn attile_attention_merge_query(
        context: *mut attile_context,
        args: *const attile_attention_merge_args,
        support: *mut attile_support,
    ) -> i32;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct attile_reduce_args {
    pub struct_size: u32,
    pub flags: u32,
    pub next: *const ::core::ffi::c_void,
    pub stream: *mut ::core::ffi::c_void,
    pub workspace: *mut ::core::ffi::c_void,
    pub workspace_bytes: i64,
    pub x: attile_tensor,
    pub y: attile_tensor,
    pub op: i32,
    pub axis: i32,
}
#[test]
fn bindgen_test_layout_attile_reduce_args() {
    assert_eq!(
        ::core::mem::size_of::<attile_reduce_args>(),
        208usize,
        concat!("Size of: ", stringify!(attile_reduce_args))
    );
    assert_eq!(
        ::core::mem::align_of::<attile_reduce_args>(),
        8usize,
        concat!("Alignment of ", stringify!(attile_reduce_args))
    );
    fn test_field_struct_size() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_reduce_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_reduce_args),
                "::",
                stringify!(struct_size)
            )
        );
    }
    test_field_struct_size();
    fn test_field_flags() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_reduce_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).flags) as usize - ptr as usize
            },
            4usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_reduce_args),
                "::",
                stringify!(flags)
            )
        );
    }
    test_field_flags();
    fn test_field_next() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_reduce_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).next) as usize - ptr as usize
            },
            8usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_reduce_args),
                "::",
                stringify!(next)
            )
        );
    }
    test_field_next();
    fn test_field_stream() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_reduce_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).stream) as usize - ptr as usize
            },
            16usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_reduce_args),
                "::",
                stringify!(stream)
            )
        );
    }
    test_field_stream();
    fn test_field_workspace() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_reduce_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).workspace) as usize - ptr as usize
            },
            24usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_reduce_args),
                "::",
                stringify!(workspace)
            )
        );
    }
    test_field_workspace();
    fn test_field_workspace_bytes() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_reduce_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).workspace_bytes) as usize - ptr as usize
            },
            32usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_reduce_args),
                "::",
                stringify!(workspace_bytes)
            )
        );
    }
    test_field_workspace_bytes();
    fn test_field_x() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_reduce_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).x) as usize - ptr as usize
            },
            40usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_reduce_args),
                "::",
                stringify!(x)
            )
        );
    }
    test_field_x();
    fn test_field_y() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_reduce_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).y) as usize - ptr as usize
            },
            120usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_reduce_args),
                "::",
                stringify!(y)
            )
        );
    }
    test_field_y();
    fn test_field_op() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_reduce_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).op) as usize - ptr as usize
            },
            200usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_reduce_args),
                "::",
                stringify!(op)
            )
        );
    }
    test_field_op();
    fn test_field_axis() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_reduce_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).axis) as usize - ptr as usize
            },
            204usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_reduce_args),
                "::",
                stringify!(axis)
            )
        );
    }
    test_field_axis();
}
extern "C" {
    pub fn attile_reduce_init(args: *mut attile_reduce_args, size: u64);
}
extern "C" {
    pub fn attile_reduce(context: *mut attile_context, args: *const attile_reduce_args) -> i32;
}
extern "C" {
    pub fn attile_reduce_query(
        context: *mut attile_context,
        args: *const attile_reduce_args,
        support: *mut attile_support,
    ) -> i32;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct attile_softmax_args {
    pub struct_size: u32,
    pub flags: u32,
    pub next: *const ::core::ffi::c_void,
    pub stream: *mut ::core::ffi::c_void,
    pub workspace: *mut ::core::ffi::c_void,
    pub workspace_bytes: i64,
    pub x: attile_tensor,
    pub y: attile_tensor,
    pub axis: i32,
    pub reserved: i32,
}
#[test]
fn bindgen_test_layout_attile_softmax_args() {
    assert_eq!(
        ::core::mem::size_of::<attile_softmax_args>(),
        208usize,
        concat!("Size of: ", stringify!(attile_softmax_args))
    );
    assert_eq!(
        ::core::mem::align_of::<attile_softmax_args>(),
        8usize,
        concat!("Alignment of ", stringify!(attile_softmax_args))
    );
    fn test_field_struct_size() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_softmax_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).struct_size) as usize - ptr as usize
            },
            0usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_softmax_args),
                "::",
                stringify!(struct_size)
            )
        );
    }
    test_field_struct_size();
    fn test_field_flags() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_softmax_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).flags) as usize - ptr as usize
            },
            4usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_softmax_args),
                "::",
                stringify!(flags)
            )
        );
    }
    test_field_flags();
    fn test_field_next() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_softmax_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).next) as usize - ptr as usize
            },
            8usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_softmax_args),
                "::",
                stringify!(next)
            )
        );
    }
    test_field_next();
    fn test_field_stream() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_softmax_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).stream) as usize - ptr as usize
            },
            16usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_softmax_args),
                "::",
                stringify!(stream)
            )
        );
    }
    test_field_stream();
    fn test_field_workspace() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_softmax_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).workspace) as usize - ptr as usize
            },
            24usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_softmax_args),
                "::",
                stringify!(workspace)
            )
        );
    }
    test_field_workspace();
    fn test_field_workspace_bytes() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_softmax_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).workspace_bytes) as usize - ptr as usize
            },
            32usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_softmax_args),
                "::",
                stringify!(workspace_bytes)
            )
        );
    }
    test_field_workspace_bytes();
    fn test_field_x() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_softmax_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).x) as usize - ptr as usize
            },
            40usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_softmax_args),
                "::",
                stringify!(x)
            )
        );
    }
    test_field_x();
    fn test_field_y() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_softmax_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).y) as usize - ptr as usize
            },
            120usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_softmax_args),
                "::",
                stringify!(y)
            )
        );
    }
    test_field_y();
    fn test_field_axis() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_softmax_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).axis) as usize - ptr as usize
            },
            200usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_softmax_args),
                "::",
                stringify!(axis)
            )
        );
    }
    test_field_axis();
    fn test_field_reserved() {
        assert_eq!(
            unsafe {
                let uninit = ::core::mem::MaybeUninit::<attile_softmax_args>::uninit();
                let ptr = uninit.as_ptr();
                ::core::ptr::addr_of!((*ptr).reserved) as usize - ptr as usize
            },
            204usize,
            concat!(
                "Offset of field: ",
                stringify!(attile_softmax_args),
                "::",
                stringify!(reserved)
            )
        );
    }
    test_field_reserved();
}
extern "C" {
    pub fn attile_softmax_init(args: *mut attile_softmax_args, size: u64);
}
extern "C" {
    pub fn attile_softmax(context: *mut attile_context, args: *const attile_softmax_args) -> i32;
}
extern "C" {
    pub fn attile_softmax_query(
        context: *mut attile_context,
        args: *const attile_softmax_args,
        support: *mut attile_support,
    ) -> i32;
}
extern "C" {
    pub fn attile_sgemm(
        context: *mut attile_context,
        order: i32,
        transa: i32,
        transb: i32,
        m: i64,
        n: i64,
        k: i64,
        alpha: f64,
        a: *const f32,
        lda: i64,
        b: *const f32,
        ldb: i64,
        beta: f64,
        c: *mut f32,
        ldc: i64,
    ) -> i32;
}
extern "C" {
    pub fn attile_dgemm(
        context: *mut attile_context,
        order: i32,
        transa: i32,
        transb: i32,
        m: i64,
        n: i64,
        k: i64,
        alpha: f64,
        a: *const f64,
        lda: i64,
        b: *const f64,
        ldb: i64,
        beta: f64,
        c: *mut f64,
        ldc: i64,
    ) -> i32;
}
extern "C" {
    pub fn attile_alloc(
        context: *mut attile_context,
        kind: i32,
        bytes: i64,
        pointer: *mut *mut ::core::ffi::c_void,
    ) -> i32;
}
extern "C" {
    pub fn attile_free(context: *mut attile_context, pointer: *mut ::core::ffi::c_void) -> i32;
}
extern "C" {
    pub fn attile_copy(
        context: *mut attile_context,
        destination: *mut ::core::ffi::c_void,
        source: *const ::core::ffi::c_void,
        bytes: i64,
        stream: *mut ::core::ffi::c_void,
    ) -> i32;
}
extern "C" {
    pub fn attile_prefetch(
        context: *mut attile_context,
        pointer: *const ::core::ffi::c_void,
        bytes: i64,
        kind: i32,
        stream: *mut ::core::ffi::c_void,
    ) -> i32;
}
extern "C" {
    pub fn attile_memory_kind(
        context: *mut attile_context,
        pointer: *const ::core::ffi::c_void,
        kind: *mut i32,
    ) -> i32;
}
extern "C" {
    pub fn attile_stream_create(
        context: *mut attile_context,
        stream: *mut *mut ::core::ffi::c_void,
    ) -> i32;
}
extern "C" {
    pub fn attile_stream_destroy(
        context: *mut attile_context,
        stream: *mut ::core::ffi::c_void,
    ) -> i32;
}
extern "C" {
    pub fn attile_synchronize(
        context: *mut attile_context,
        stream: *mut ::core::ffi::c_void,
    ) -> i32;
}
extern "C" {
    pub fn attile_last_error(buffer: *mut ::std::os::raw::c_char, capacity: i64) -> i64;
}
extern "C" {
    pub fn attile_backend_report(buffer: *mut ::std::os::raw::c_char, capacity: i64) -> i64;
}
pub type attile_log_fn = ::core::option::Option<
    unsafe extern "C" fn(
        user: *mut ::core::ffi::c_void,
        level: i32,
        message: *const ::std::os::raw::c_char,
    ),
>;
extern "C" {
    pub fn attile_set_log(fn_: attile_log_fn, user: *mut ::core::ffi::c_void, level: i32) -> i32;
}
extern "C" {
    pub fn attile_add_backend_directory(path: *const ::std::os::raw::c_char) -> i32;
}
extern "C" {
    pub fn attile_register_backend(
        entry: ::core::option::Option<
            unsafe extern "C" fn(host: *const ::core::ffi::c_void) -> *const ::core::ffi::c_void,
        >,
    ) -> i32;
}
