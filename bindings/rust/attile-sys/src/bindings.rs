// SPDX-License-Identifier: Apache-2.0
// attile.h and attile_distributed.h as bindgen sees them. Written by generate.sh; a test checks that writing it again changes nothing.
pub const ATTILE_VERSION_MAJOR: i32 = 1;
pub const ATTILE_VERSION_MINOR: i32 = 1;
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
pub const ATTILE_I64: i32 = 64;
pub const ATTILE_U8: i32 = 264;
pub const ATTILE_BOOL: i32 = 1544;
pub const ATTILE_I8: i32 = 8;
pub const ATTILE_F8_E4M3: i32 = 2568;
pub const ATTILE_F8_E5M2: i32 = 3080;
pub const ATTILE_I4: i32 = 4;
pub const ATTILE_U4: i32 = 260;
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
pub const ATTILE_FLAG_EXACT_PRODUCTS: i32 = 16;
pub const ATTILE_FLAG_FAST_ACCUMULATION: i32 = 32;
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
pub const ATTILE_MASK_BLOCK: i32 = 128;
pub const ATTILE_REDUCE_SUM: i32 = 1;
pub const ATTILE_REDUCE_MAX: i32 = 2;
pub const ATTILE_REDUCE_MIN: i32 = 3;
pub const ATTILE_REDUCE_MEAN: i32 = 4;
pub const ATTILE_SCALE_FROM_MAXIMUM: i32 = 0;
pub const ATTILE_SCALE_GIVEN: i32 = 1;
pub const ATTILE_ROPE_HALVES: i32 = 0;
pub const ATTILE_ROPE_INTERLEAVED: i32 = 1;
pub const ATTILE_GGML_Q4_0: i32 = 2;
pub const ATTILE_GGML_Q8_0: i32 = 8;
pub const ATTILE_GGML_Q4_K: i32 = 12;
pub const ATTILE_GGML_Q6_K: i32 = 14;
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
pub const ATTILE_ERROR_INVALID_COMM: i32 = 6001;
pub const ATTILE_ERROR_RANKS_DISAGREE: i32 = 6002;
pub const ATTILE_ERROR_RANK_FAILED: i32 = 6003;
pub const ATTILE_ERROR_RANK_LATE: i32 = 6004;
pub const ATTILE_ERROR_TRANSPORT: i32 = 6005;
pub const ATTILE_ERROR_COMM_BROKEN: i32 = 6006;
pub const ATTILE_COMM_ALLOW_MIXED_BACKENDS: i32 = 1;
pub const ATTILE_SHARDS_CONTIGUOUS: i32 = 0;
pub const ATTILE_SHARDS_ZIGZAG: i32 = 1;
pub const ATTILE_SHARDS_STRIPED: i32 = 2;
pub const ATTILE_METHOD_AUTO: i32 = 0;
pub const ATTILE_METHOD_RING: i32 = 1;
pub const ATTILE_METHOD_ALL_GATHER: i32 = 2;
pub const ATTILE_METHOD_ALL_TO_ALL: i32 = 3;
pub const ATTILE_METHOD_LOCAL: i32 = 4;
pub const ATTILE_METHOD_TREE: i32 = 5;
pub const ATTILE_METHOD_STATIONARY_A: i32 = 6;
pub const ATTILE_METHOD_STATIONARY_B: i32 = 7;
pub const ATTILE_METHOD_STATIONARY_C: i32 = 8;
pub const ATTILE_ROWS_SHARDED: i32 = 0;
pub const ATTILE_ROWS_REPLICATED: i32 = 1;
pub const ATTILE_GRID_ROW_MAJOR: i32 = 0;
pub const ATTILE_GRID_COLUMN_MAJOR: i32 = 1;
pub const ATTILE_REPLICATED: i32 = -1;
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
extern "C" {
    pub fn attile_context_options_init(options: *mut attile_context_options, size: u64);
}
extern "C" {
    pub fn attile_context_info_init(info: *mut attile_context_info, size: u64);
}
extern "C" {
    pub fn attile_context_create(options: *const attile_context_options, context: *mut *mut attile_context) -> i32;
}
extern "C" {
    pub fn attile_context_destroy(context: *mut attile_context);
}
extern "C" {
    pub fn attile_context_get_info(context: *mut attile_context, info: *mut attile_context_info) -> i32;
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
extern "C" {
    pub fn attile_tensor_init(tensor: *mut attile_tensor, data: *mut ::core::ffi::c_void, dtype: i32, rank: i32, shape: *const i64) -> i32;
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
    pub a_scale: attile_tensor,
    pub b_scale: attile_tensor,
    pub b_zero: attile_tensor,
    pub d_scale: attile_tensor,
}
extern "C" {
    pub fn attile_gemm_init(args: *mut attile_gemm_args, size: u64);
}
extern "C" {
    pub fn attile_gemm(context: *mut attile_context, args: *const attile_gemm_args) -> i32;
}
extern "C" {
    pub fn attile_gemm_query(context: *mut attile_context, args: *const attile_gemm_args, support: *mut attile_support) -> i32;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct attile_gemm_grouped_args {
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
    pub row_offsets: attile_tensor,
    pub bias: attile_tensor,
    pub activation: i32,
    pub reserved: i32,
    pub b_scale: attile_tensor,
    pub b_zero: attile_tensor,
}
extern "C" {
    pub fn attile_gemm_grouped_init(args: *mut attile_gemm_grouped_args, size: u64);
}
extern "C" {
    pub fn attile_gemm_grouped(context: *mut attile_context, args: *const attile_gemm_grouped_args) -> i32;
}
extern "C" {
    pub fn attile_gemm_grouped_query(
        context: *mut attile_context,
        args: *const attile_gemm_grouped_args,
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
    pub key_starts: attile_tensor,
    pub causal_offset: attile_tensor,
    pub block_mask: attile_tensor,
    pub tree_mask: attile_tensor,
    pub k_scale: attile_tensor,
    pub v_scale: attile_tensor,
    pub q_scale: attile_tensor,
    pub o_scale: attile_tensor,
}
extern "C" {
    pub fn attile_attention_init(args: *mut attile_attention_args, size: u64);
}
extern "C" {
    pub fn attile_attention(context: *mut attile_context, args: *const attile_attention_args) -> i32;
}
extern "C" {
    pub fn attile_attention_query(context: *mut attile_context, args: *const attile_attention_args, support: *mut attile_support) -> i32;
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
    pub dlse: attile_tensor,
}
extern "C" {
    pub fn attile_attention_backward_init(args: *mut attile_attention_backward_args, size: u64);
}
extern "C" {
    pub fn attile_attention_backward(context: *mut attile_context, args: *const attile_attention_backward_args) -> i32;
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
extern "C" {
    pub fn attile_attention_merge_init(args: *mut attile_attention_merge_args, size: u64);
}
extern "C" {
    pub fn attile_attention_merge(context: *mut attile_context, args: *const attile_attention_merge_args) -> i32;
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
pub struct attile_attention_merge_backward_args {
    pub struct_size: u32,
    pub flags: u32,
    pub next: *const ::core::ffi::c_void,
    pub stream: *mut ::core::ffi::c_void,
    pub workspace: *mut ::core::ffi::c_void,
    pub workspace_bytes: i64,
    pub forward: *const attile_attention_merge_args,
    pub dout: attile_tensor,
    pub dlse: attile_tensor,
    pub do_parts: *const attile_tensor,
    pub dlse_parts: *const attile_tensor,
}
extern "C" {
    pub fn attile_attention_merge_backward_init(args: *mut attile_attention_merge_backward_args, size: u64);
}
extern "C" {
    pub fn attile_attention_merge_backward(context: *mut attile_context, args: *const attile_attention_merge_backward_args) -> i32;
}
extern "C" {
    pub fn attile_attention_merge_backward_query(
        context: *mut attile_context,
        args: *const attile_attention_merge_backward_args,
        support: *mut attile_support,
    ) -> i32;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct attile_prepared {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct attile_gemm_pointers {
    pub struct_size: u32,
    pub flags: u32,
    pub next: *const ::core::ffi::c_void,
    pub stream: *mut ::core::ffi::c_void,
    pub workspace: *mut ::core::ffi::c_void,
    pub workspace_bytes: i64,
    pub a: *mut ::core::ffi::c_void,
    pub b: *mut ::core::ffi::c_void,
    pub c: *mut ::core::ffi::c_void,
    pub d: *mut ::core::ffi::c_void,
    pub bias: *mut ::core::ffi::c_void,
    pub a_scale: *mut ::core::ffi::c_void,
    pub b_scale: *mut ::core::ffi::c_void,
    pub b_zero: *mut ::core::ffi::c_void,
    pub d_scale: *mut ::core::ffi::c_void,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct attile_attention_pointers {
    pub struct_size: u32,
    pub flags: u32,
    pub next: *const ::core::ffi::c_void,
    pub stream: *mut ::core::ffi::c_void,
    pub workspace: *mut ::core::ffi::c_void,
    pub workspace_bytes: i64,
    pub q: *mut ::core::ffi::c_void,
    pub k: *mut ::core::ffi::c_void,
    pub v: *mut ::core::ffi::c_void,
    pub o: *mut ::core::ffi::c_void,
    pub lse: *mut ::core::ffi::c_void,
    pub bias: *mut ::core::ffi::c_void,
    pub allowed: *mut ::core::ffi::c_void,
    pub alibi_slopes: *mut ::core::ffi::c_void,
    pub sinks: *mut ::core::ffi::c_void,
    pub key_lengths: *mut ::core::ffi::c_void,
    pub cu_len_q: *mut ::core::ffi::c_void,
    pub cu_len_k: *mut ::core::ffi::c_void,
    pub block_table: *mut ::core::ffi::c_void,
    pub key_starts: *mut ::core::ffi::c_void,
    pub causal_offset: *mut ::core::ffi::c_void,
    pub block_mask: *mut ::core::ffi::c_void,
    pub tree_mask: *mut ::core::ffi::c_void,
    pub k_scale: *mut ::core::ffi::c_void,
    pub v_scale: *mut ::core::ffi::c_void,
    pub q_scale: *mut ::core::ffi::c_void,
    pub o_scale: *mut ::core::ffi::c_void,
}
extern "C" {
    pub fn attile_gemm_pointers_init(pointers: *mut attile_gemm_pointers, size: u64);
}
extern "C" {
    pub fn attile_attention_pointers_init(pointers: *mut attile_attention_pointers, size: u64);
}
extern "C" {
    pub fn attile_gemm_prepare(context: *mut attile_context, args: *const attile_gemm_args, prepared: *mut *mut attile_prepared) -> i32;
}
extern "C" {
    pub fn attile_attention_prepare(
        context: *mut attile_context,
        args: *const attile_attention_args,
        prepared: *mut *mut attile_prepared,
    ) -> i32;
}
extern "C" {
    pub fn attile_gemm_run(prepared: *mut attile_prepared, pointers: *const attile_gemm_pointers) -> i32;
}
extern "C" {
    pub fn attile_attention_run(prepared: *mut attile_prepared, pointers: *const attile_attention_pointers) -> i32;
}
extern "C" {
    pub fn attile_prepared_destroy(prepared: *mut attile_prepared);
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
extern "C" {
    pub fn attile_reduce_init(args: *mut attile_reduce_args, size: u64);
}
extern "C" {
    pub fn attile_reduce(context: *mut attile_context, args: *const attile_reduce_args) -> i32;
}
extern "C" {
    pub fn attile_reduce_query(context: *mut attile_context, args: *const attile_reduce_args, support: *mut attile_support) -> i32;
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
extern "C" {
    pub fn attile_softmax_init(args: *mut attile_softmax_args, size: u64);
}
extern "C" {
    pub fn attile_softmax(context: *mut attile_context, args: *const attile_softmax_args) -> i32;
}
extern "C" {
    pub fn attile_softmax_query(context: *mut attile_context, args: *const attile_softmax_args, support: *mut attile_support) -> i32;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct attile_quantize_args {
    pub struct_size: u32,
    pub flags: u32,
    pub next: *const ::core::ffi::c_void,
    pub stream: *mut ::core::ffi::c_void,
    pub workspace: *mut ::core::ffi::c_void,
    pub workspace_bytes: i64,
    pub x: attile_tensor,
    pub q: attile_tensor,
    pub scale: attile_tensor,
    pub scale_mode: i32,
    pub hadamard: i32,
    pub zero: attile_tensor,
    pub rope_cos: attile_tensor,
    pub rope_sin: attile_tensor,
    pub positions: attile_tensor,
    pub key_lengths: attile_tensor,
    pub block_table: attile_tensor,
    pub rope_layout: i32,
    pub append: i32,
}
extern "C" {
    pub fn attile_quantize_init(args: *mut attile_quantize_args, size: u64);
}
extern "C" {
    pub fn attile_quantize(context: *mut attile_context, args: *const attile_quantize_args) -> i32;
}
extern "C" {
    pub fn attile_quantize_query(context: *mut attile_context, args: *const attile_quantize_args, support: *mut attile_support) -> i32;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct attile_dequantize_args {
    pub struct_size: u32,
    pub flags: u32,
    pub next: *const ::core::ffi::c_void,
    pub stream: *mut ::core::ffi::c_void,
    pub workspace: *mut ::core::ffi::c_void,
    pub workspace_bytes: i64,
    pub q: attile_tensor,
    pub scale: attile_tensor,
    pub x: attile_tensor,
    pub hadamard: i32,
    pub reserved: i32,
    pub zero: attile_tensor,
}
extern "C" {
    pub fn attile_dequantize_init(args: *mut attile_dequantize_args, size: u64);
}
extern "C" {
    pub fn attile_dequantize(context: *mut attile_context, args: *const attile_dequantize_args) -> i32;
}
extern "C" {
    pub fn attile_dequantize_query(context: *mut attile_context, args: *const attile_dequantize_args, support: *mut attile_support) -> i32;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct attile_repack_args {
    pub struct_size: u32,
    pub flags: u32,
    pub next: *const ::core::ffi::c_void,
    pub stream: *mut ::core::ffi::c_void,
    pub workspace: *mut ::core::ffi::c_void,
    pub workspace_bytes: i64,
    pub blocks: attile_tensor,
    pub q: attile_tensor,
    pub scale: attile_tensor,
    pub zero: attile_tensor,
    pub format: i32,
    pub reserved: i32,
}
extern "C" {
    pub fn attile_repack_init(args: *mut attile_repack_args, size: u64);
}
extern "C" {
    pub fn attile_repack(context: *mut attile_context, args: *const attile_repack_args) -> i32;
}
extern "C" {
    pub fn attile_repack_query(context: *mut attile_context, args: *const attile_repack_args, support: *mut attile_support) -> i32;
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
    pub fn attile_alloc(context: *mut attile_context, kind: i32, bytes: i64, pointer: *mut *mut ::core::ffi::c_void) -> i32;
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
    pub fn attile_memory_kind(context: *mut attile_context, pointer: *const ::core::ffi::c_void, kind: *mut i32) -> i32;
}
extern "C" {
    pub fn attile_stream_create(context: *mut attile_context, stream: *mut *mut ::core::ffi::c_void) -> i32;
}
extern "C" {
    pub fn attile_stream_destroy(context: *mut attile_context, stream: *mut ::core::ffi::c_void) -> i32;
}
extern "C" {
    pub fn attile_synchronize(context: *mut attile_context, stream: *mut ::core::ffi::c_void) -> i32;
}
extern "C" {
    pub fn attile_last_error(buffer: *mut ::std::os::raw::c_char, capacity: i64) -> i64;
}
extern "C" {
    pub fn attile_backend_report(buffer: *mut ::std::os::raw::c_char, capacity: i64) -> i64;
}
pub type attile_log_fn =
    ::core::option::Option<unsafe extern "C" fn(user: *mut ::core::ffi::c_void, level: i32, message: *const ::std::os::raw::c_char)>;
extern "C" {
    pub fn attile_set_log(fn_: attile_log_fn, user: *mut ::core::ffi::c_void, level: i32) -> i32;
}
extern "C" {
    pub fn attile_add_backend_directory(path: *const ::std::os::raw::c_char) -> i32;
}
extern "C" {
    pub fn attile_register_backend(
        entry: ::core::option::Option<unsafe extern "C" fn(host: *const ::core::ffi::c_void) -> *const ::core::ffi::c_void>,
    ) -> i32;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct attile_comm {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct attile_comm_callbacks {
    pub struct_size: u32,
    pub flags: u32,
    pub next: *const ::core::ffi::c_void,
    pub user: *mut ::core::ffi::c_void,
    pub send: ::core::option::Option<
        unsafe extern "C" fn(
            user: *mut ::core::ffi::c_void,
            data: *const ::core::ffi::c_void,
            bytes: i64,
            to: i32,
            request: *mut *mut ::core::ffi::c_void,
        ) -> i32,
    >,
    pub receive: ::core::option::Option<
        unsafe extern "C" fn(
            user: *mut ::core::ffi::c_void,
            data: *mut ::core::ffi::c_void,
            bytes: i64,
            from: i32,
            request: *mut *mut ::core::ffi::c_void,
        ) -> i32,
    >,
    pub wait: ::core::option::Option<
        unsafe extern "C" fn(user: *mut ::core::ffi::c_void, request: *mut ::core::ffi::c_void, seconds: f64) -> i32,
    >,
    pub all_gather: ::core::option::Option<
        unsafe extern "C" fn(
            user: *mut ::core::ffi::c_void,
            send: *const ::core::ffi::c_void,
            receive: *mut ::core::ffi::c_void,
            bytes: i64,
            seconds: f64,
        ) -> i32,
    >,
    pub all_to_all: ::core::option::Option<
        unsafe extern "C" fn(
            user: *mut ::core::ffi::c_void,
            send: *const ::core::ffi::c_void,
            send_bytes: *const i64,
            send_offsets: *const i64,
            receive: *mut ::core::ffi::c_void,
            receive_bytes: *const i64,
            receive_offsets: *const i64,
            seconds: f64,
        ) -> i32,
    >,
    pub give_up:
        ::core::option::Option<unsafe extern "C" fn(user: *mut ::core::ffi::c_void, status: i32, why: *const ::std::os::raw::c_char)>,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct attile_comm_options {
    pub struct_size: u32,
    pub flags: u32,
    pub next: *const ::core::ffi::c_void,
    pub kind: *const ::std::os::raw::c_char,
    pub rank: i32,
    pub ranks: i32,
    pub group: i64,
    pub callbacks: *const attile_comm_callbacks,
    pub timeout_seconds: f64,
    pub communicator: i64,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct attile_comm_info {
    pub struct_size: u32,
    pub flags: u32,
    pub next: *const ::core::ffi::c_void,
    pub kind: [::std::os::raw::c_char; 32usize],
    pub rank: i32,
    pub ranks: i32,
    pub timeout_seconds: f64,
    pub calls: i64,
    pub status: i32,
    pub reserved: i32,
    pub text: [::std::os::raw::c_char; 256usize],
    pub transport_seconds: f64,
}
extern "C" {
    pub fn attile_comm_options_init(options: *mut attile_comm_options, size: u64);
}
extern "C" {
    pub fn attile_comm_callbacks_init(callbacks: *mut attile_comm_callbacks, size: u64);
}
extern "C" {
    pub fn attile_comm_info_init(info: *mut attile_comm_info, size: u64);
}
extern "C" {
    pub fn attile_comm_create(context: *mut attile_context, options: *const attile_comm_options, comm: *mut *mut attile_comm) -> i32;
}
extern "C" {
    pub fn attile_comm_destroy(comm: *mut attile_comm);
}
extern "C" {
    pub fn attile_comm_get_info(comm: *mut attile_comm, info: *mut attile_comm_info) -> i32;
}
extern "C" {
    pub fn attile_shard_part(
        layout: i32,
        length: i64,
        rank: i32,
        ranks: i32,
        part: i32,
        first: *mut i64,
        count: *mut i64,
        stride: *mut i64,
    ) -> i32;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct attile_attention_distributed_args {
    pub struct_size: u32,
    pub flags: u32,
    pub next: *const ::core::ffi::c_void,
    pub local: *const attile_attention_args,
    pub layout: i32,
    pub method: i32,
    pub len_q: i64,
    pub len_k: i64,
    pub rows: i32,
    pub reserved: i32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct attile_distributed_support {
    pub struct_size: u32,
    pub flags: u32,
    pub next: *const ::core::ffi::c_void,
    pub level: i32,
    pub status: i32,
    pub method: i32,
    pub reserved: i32,
    pub kernel: [::std::os::raw::c_char; 96usize],
    pub text: [::std::os::raw::c_char; 256usize],
    pub bytes_sent: i64,
    pub flops: f64,
}
extern "C" {
    pub fn attile_attention_distributed_init(args: *mut attile_attention_distributed_args, size: u64);
}
extern "C" {
    pub fn attile_distributed_support_init(support: *mut attile_distributed_support, size: u64);
}
extern "C" {
    pub fn attile_attention_distributed(comm: *mut attile_comm, args: *const attile_attention_distributed_args) -> i32;
}
extern "C" {
    pub fn attile_attention_distributed_query(
        comm: *mut attile_comm,
        args: *const attile_attention_distributed_args,
        support: *mut attile_distributed_support,
    ) -> i32;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct attile_attention_backward_distributed_args {
    pub struct_size: u32,
    pub flags: u32,
    pub next: *const ::core::ffi::c_void,
    pub local: *const attile_attention_backward_args,
    pub layout: i32,
    pub method: i32,
    pub len_q: i64,
    pub len_k: i64,
}
extern "C" {
    pub fn attile_attention_backward_distributed_init(args: *mut attile_attention_backward_distributed_args, size: u64);
}
extern "C" {
    pub fn attile_attention_backward_distributed(comm: *mut attile_comm, args: *const attile_attention_backward_distributed_args) -> i32;
}
extern "C" {
    pub fn attile_attention_backward_distributed_query(
        comm: *mut attile_comm,
        args: *const attile_attention_backward_distributed_args,
        support: *mut attile_distributed_support,
    ) -> i32;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct attile_grid {
    pub struct_size: u32,
    pub flags: u32,
    pub next: *const ::core::ffi::c_void,
    pub rows: i32,
    pub columns: i32,
    pub order: i32,
    pub reserved: i32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct attile_distributed_matrix {
    pub struct_size: u32,
    pub flags: u32,
    pub next: *const ::core::ffi::c_void,
    pub grid: *const attile_grid,
    pub rows: i64,
    pub columns: i64,
    pub block_rows: i64,
    pub block_columns: i64,
    pub source_row: i32,
    pub source_column: i32,
    pub row: i64,
    pub column: i64,
    pub local: attile_tensor,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct attile_gemm_distributed_args {
    pub struct_size: u32,
    pub flags: u32,
    pub next: *const ::core::ffi::c_void,
    pub stream: *mut ::core::ffi::c_void,
    pub transa: i32,
    pub transb: i32,
    pub m: i64,
    pub n: i64,
    pub k: i64,
    pub a: *const attile_distributed_matrix,
    pub b: *const attile_distributed_matrix,
    pub d: *const attile_distributed_matrix,
    pub c: attile_tensor,
    pub alpha: f64,
    pub beta: f64,
    pub bias: attile_tensor,
    pub bias_axis: i32,
    pub activation: i32,
    pub method: i32,
    pub reserved: i32,
    pub panel: i64,
}
extern "C" {
    pub fn attile_grid_init(grid: *mut attile_grid, size: u64);
}
extern "C" {
    pub fn attile_distributed_matrix_init(matrix: *mut attile_distributed_matrix, size: u64);
}
extern "C" {
    pub fn attile_gemm_distributed_init(args: *mut attile_gemm_distributed_args, size: u64);
}
extern "C" {
    pub fn attile_distributed_extents(
        matrix: *const attile_distributed_matrix,
        rank: i32,
        ranks: i32,
        rows: *mut i64,
        columns: *mut i64,
    ) -> i32;
}
extern "C" {
    pub fn attile_gemm_distributed(comm: *mut attile_comm, args: *const attile_gemm_distributed_args) -> i32;
}
extern "C" {
    pub fn attile_gemm_distributed_query(
        comm: *mut attile_comm,
        args: *const attile_gemm_distributed_args,
        support: *mut attile_distributed_support,
    ) -> i32;
}
extern "C" {
    pub fn attile_grid_open(comm: *mut attile_comm, grid: *const attile_grid, context: *mut i32) -> i32;
}
extern "C" {
    pub fn attile_grid_close(context: i32);
}
extern "C" {
    pub fn attile_pdgemm(
        transa: i32,
        transb: i32,
        m: i64,
        n: i64,
        k: i64,
        alpha: f64,
        a: *const f64,
        ia: i64,
        ja: i64,
        desca: *const i32,
        b: *const f64,
        ib: i64,
        jb: i64,
        descb: *const i32,
        beta: f64,
        c: *mut f64,
        ic: i64,
        jc: i64,
        descc: *const i32,
    ) -> i32;
}
extern "C" {
    pub fn attile_psgemm(
        transa: i32,
        transb: i32,
        m: i64,
        n: i64,
        k: i64,
        alpha: f64,
        a: *const f32,
        ia: i64,
        ja: i64,
        desca: *const i32,
        b: *const f32,
        ib: i64,
        jb: i64,
        descb: *const i32,
        beta: f64,
        c: *mut f32,
        ic: i64,
        jc: i64,
        descc: *const i32,
    ) -> i32;
}
extern "C" {
    pub fn attile_pdgemm_(
        transa: *const ::std::os::raw::c_char,
        transb: *const ::std::os::raw::c_char,
        m: *const i32,
        n: *const i32,
        k: *const i32,
        alpha: *const f64,
        a: *const f64,
        ia: *const i32,
        ja: *const i32,
        desca: *const i32,
        b: *const f64,
        ib: *const i32,
        jb: *const i32,
        descb: *const i32,
        beta: *const f64,
        c: *mut f64,
        ic: *const i32,
        jc: *const i32,
        descc: *const i32,
    ) -> i32;
}
extern "C" {
    pub fn attile_psgemm_(
        transa: *const ::std::os::raw::c_char,
        transb: *const ::std::os::raw::c_char,
        m: *const i32,
        n: *const i32,
        k: *const i32,
        alpha: *const f32,
        a: *const f32,
        ia: *const i32,
        ja: *const i32,
        desca: *const i32,
        b: *const f32,
        ib: *const i32,
        jb: *const i32,
        descb: *const i32,
        beta: *const f32,
        c: *mut f32,
        ic: *const i32,
        jc: *const i32,
        descc: *const i32,
    ) -> i32;
}
