! SPDX-License-Identifier: Apache-2.0
! The constants of the headers, under the same names.
! Made from attile.h and attile_distributed.h by generate_raw.py; change that, not this file.
module attile_constants
  use, intrinsic :: iso_c_binding, only: c_int32_t
  implicit none (type, external)
  private

  !> Changes when a program must be recompiled; also the number in libattile.so.1.
  integer(c_int32_t), parameter, public :: ATTILE_VERSION_MAJOR = 1_c_int32_t
  !> Changes when something was added.
  integer(c_int32_t), parameter, public :: ATTILE_VERSION_MINOR = 1_c_int32_t
  !> Changes when something was mended.
  integer(c_int32_t), parameter, public :: ATTILE_VERSION_PATCH = 0_c_int32_t
  !> Success.
  integer(c_int32_t), parameter, public :: ATTILE_OK = 0_c_int32_t
  !> A required pointer is NULL.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_NULL_ARGUMENT = 1001_c_int32_t
  !> A scalar argument is outside its domain.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_INVALID_VALUE = 1002_c_int32_t
  !> A field that this library does not know is not zero.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_STRUCT_TOO_NEW = 1003_c_int32_t
  !> `struct_size` is not that of any released version: not initialised.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_STRUCT_SIZE = 1004_c_int32_t
  !> A data type is unknown, or not one this argument takes.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_INVALID_DTYPE = 1005_c_int32_t
  !> A rank is outside what this argument takes.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_INVALID_RANK = 1006_c_int32_t
  !> An extent is negative or absurd.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_INVALID_SHAPE = 1007_c_int32_t
  !> Two extents that must agree do not.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_SHAPE_MISMATCH = 1008_c_int32_t
  !> A stride makes an output overlap itself.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_INVALID_STRIDE = 1009_c_int32_t
  !> Extents times strides exceed 63 bits.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_OVERFLOW = 1010_c_int32_t
  !> An output overlaps an input or another output.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_ALIASING = 1011_c_int32_t
  !> A data pointer is not a multiple of its element's size.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_MISALIGNED = 1012_c_int32_t
  !> `workspace_bytes` is less than the query asks for.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_WORKSPACE_TOO_SMALL = 1013_c_int32_t
  !> An unknown flag is set, or `next` is not NULL.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_INVALID_FLAGS = 1014_c_int32_t
  !> The context is NULL, destroyed, or no context.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_INVALID_CONTEXT = 1015_c_int32_t
  !> The backend does not have this operation.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_UNSUPPORTED_OPERATION = 2001_c_int32_t
  !> The backend does not have it for this data type.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_UNSUPPORTED_DTYPE = 2002_c_int32_t
  !> The backend does not have it with this option.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_UNSUPPORTED_FEATURE = 2003_c_int32_t
  !> The shape exceeds a limit of the backend or its device.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_UNSUPPORTED_SHAPE = 2004_c_int32_t
  !> The kind of memory cannot be used here.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_UNSUPPORTED_MEMORY = 2005_c_int32_t
  !> No file of that backend in any directory searched.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_BACKEND_NOT_FOUND = 3001_c_int32_t
  !> The file is there and the system's loader refused it.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_BACKEND_LOAD = 3002_c_int32_t
  !> It speaks another version of the backend contract.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_BACKEND_INCOMPATIBLE = 3003_c_int32_t
  !> It loaded and cannot run here: no driver, no device, another CPU.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_BACKEND_REFUSED = 3004_c_int32_t
  !> The selection string is malformed.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_BACKEND_SELECTION = 3005_c_int32_t
  !> The backend broke the contract.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_BACKEND_CONTRACT = 3006_c_int32_t
  !> A backend of that name is already registered.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_BACKEND_EXISTS = 3007_c_int32_t
  !> Ordinary or pinned memory is exhausted.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_OUT_OF_HOST_MEMORY = 4001_c_int32_t
  !> Device memory is exhausted.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_OUT_OF_DEVICE_MEMORY = 4002_c_int32_t
  !> The pointer was not given out by this context.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_UNKNOWN_POINTER = 4003_c_int32_t
  !> The device reported a fault that stays with the context; make a new one.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_DEVICE_FAULT = 5001_c_int32_t
  !> A kernel could not be launched.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_DEVICE_LAUNCH = 5002_c_int32_t
  !> Another error of the device's runtime.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_DEVICE_RUNTIME = 5003_c_int32_t
  !> The context belongs to the process this one was forked from.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_AFTER_FORK = 5004_c_int32_t
  !> A fault of the library; the sentence helps to report it.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_INTERNAL = 9001_c_int32_t
  !> IEEE float32 (DLPack kDLFloat 2, 32 bits).
  integer(c_int32_t), parameter, public :: ATTILE_F32 = 544_c_int32_t
  !> IEEE float64.
  integer(c_int32_t), parameter, public :: ATTILE_F64 = 576_c_int32_t
  !> IEEE float16, storage only.
  integer(c_int32_t), parameter, public :: ATTILE_F16 = 528_c_int32_t
  !> bfloat16, storage only (DLPack kDLBfloat 4).
  integer(c_int32_t), parameter, public :: ATTILE_BF16 = 1040_c_int32_t
  !> int32: lengths and tables (DLPack kDLInt 0).
  integer(c_int32_t), parameter, public :: ATTILE_I32 = 32_c_int32_t
  !> int64: positions (DLPack kDLInt 0). Since 1.1.
  integer(c_int32_t), parameter, public :: ATTILE_I64 = 64_c_int32_t
  !> uint8: a boolean mask, 0 or not 0 (DLPack kDLUInt 1).
  integer(c_int32_t), parameter, public :: ATTILE_U8 = 264_c_int32_t
  !> one-byte boolean: as ATTILE_U8 (DLPack kDLBool 6).
  integer(c_int32_t), parameter, public :: ATTILE_BOOL = 1544_c_int32_t
  !> int8, quantised numbers (DLPack kDLInt 0). Since 1.1.
  integer(c_int32_t), parameter, public :: ATTILE_I8 = 8_c_int32_t
  !> 8-bit float up to 448, no infinity, NaN 0x7f and 0xff (DLPack kDLFloat8_e4m3fn 10). Since 1.1.
  integer(c_int32_t), parameter, public :: ATTILE_F8_E4M3 = 2568_c_int32_t
  !> 8-bit float up to 57344, infinities and NaN as IEEE has them (DLPack kDLFloat8_e5m2 12). Since 1.1.
  integer(c_int32_t), parameter, public :: ATTILE_F8_E5M2 = 3080_c_int32_t
  !> int4, -8 to 7, two a byte (DLPack kDLInt 0, 4 bits). Since 1.1.
  integer(c_int32_t), parameter, public :: ATTILE_I4 = 4_c_int32_t
  !> uint4, 0 to 15, two a byte (DLPack kDLUInt 1, 4 bits). Since 1.1.
  integer(c_int32_t), parameter, public :: ATTILE_U4 = 260_c_int32_t
  !> kDLCPU
  integer(c_int32_t), parameter, public :: ATTILE_DEVICE_CPU = 1_c_int32_t
  !> kDLCUDA
  integer(c_int32_t), parameter, public :: ATTILE_DEVICE_CUDA = 2_c_int32_t
  !> kDLROCM
  integer(c_int32_t), parameter, public :: ATTILE_DEVICE_ROCM = 10_c_int32_t
  !> Ordinary memory (malloc, stack, mmap).
  integer(c_int32_t), parameter, public :: ATTILE_MEMORY_HOST = 0_c_int32_t
  !> Page-locked host memory that the device can reach.
  integer(c_int32_t), parameter, public :: ATTILE_MEMORY_PINNED = 1_c_int32_t
  !> Memory that migrates between host and device.
  integer(c_int32_t), parameter, public :: ATTILE_MEMORY_MANAGED = 2_c_int32_t
  !> The device's own memory; ordinary memory on CPU backends.
  integer(c_int32_t), parameter, public :: ATTILE_MEMORY_DEVICE = 3_c_int32_t
  !> A row's bits do not depend on the batch around it or on how it was split.
  integer(c_int32_t), parameter, public :: ATTILE_FLAG_BATCH_INVARIANT = 1_c_int32_t
  !> Fail with ATTILE_ERROR_WORKSPACE_TOO_SMALL rather than allocate a workspace.
  integer(c_int32_t), parameter, public :: ATTILE_FLAG_NO_ALLOC = 2_c_int32_t
  !> float32 products may be made of several TF32 products of a tensor core.
  integer(c_int32_t), parameter, public :: ATTILE_FLAG_ALLOW_SPLIT_TF32 = 4_c_int32_t
  !> Results may differ in the last bits from run to run.
  integer(c_int32_t), parameter, public :: ATTILE_FLAG_ALLOW_NONDETERMINISTIC = 8_c_int32_t
  !> Sums of products are exact, then rounded once: the same bits everywhere. Since 1.1.
  integer(c_int32_t), parameter, public :: ATTILE_FLAG_EXACT_PRODUCTS = 16_c_int32_t
  !> Sums may be less exact where a function says so. Since 1.1.
  integer(c_int32_t), parameter, public :: ATTILE_FLAG_FAST_ACCUMULATION = 32_c_int32_t
  !> The call would fail with `status`.
  integer(c_int32_t), parameter, public :: ATTILE_SUPPORT_NONE = 0_c_int32_t
  !> The call works, by a general path that is slow or needs conversions.
  integer(c_int32_t), parameter, public :: ATTILE_SUPPORT_EMULATED = 1_c_int32_t
  !> The call works by a kernel made for it.
  integer(c_int32_t), parameter, public :: ATTILE_SUPPORT_NATIVE = 2_c_int32_t
  !> No bias.
  integer(c_int32_t), parameter, public :: ATTILE_BIAS_NONE = 0_c_int32_t
  !> bias[n] is added to column n of every row.
  integer(c_int32_t), parameter, public :: ATTILE_BIAS_COLUMNS = 1_c_int32_t
  !> bias[m] is added to row m of every column.
  integer(c_int32_t), parameter, public :: ATTILE_BIAS_ROWS = 2_c_int32_t
  !> x
  integer(c_int32_t), parameter, public :: ATTILE_ACTIVATION_NONE = 0_c_int32_t
  !> max(x, 0); NaN stays NaN.
  integer(c_int32_t), parameter, public :: ATTILE_ACTIVATION_RELU = 1_c_int32_t
  !> x/2 (1 + erf(x / sqrt 2))
  integer(c_int32_t), parameter, public :: ATTILE_ACTIVATION_GELU = 2_c_int32_t
  !> x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
  integer(c_int32_t), parameter, public :: ATTILE_ACTIVATION_GELU_TANH = 3_c_int32_t
  !> x / (1 + exp(-x))
  integer(c_int32_t), parameter, public :: ATTILE_ACTIVATION_SILU = 4_c_int32_t
  !> Every key.
  integer(c_int32_t), parameter, public :: ATTILE_MASK_NONE = 0_c_int32_t
  !> j <= i
  integer(c_int32_t), parameter, public :: ATTILE_MASK_CAUSAL_TOP_LEFT = 1_c_int32_t
  !> j <= i + len_k - len_q: the last row sees every key.
  integer(c_int32_t), parameter, public :: ATTILE_MASK_CAUSAL_BOTTOM_RIGHT = 2_c_int32_t
  !> i - window_left <= j <= i + window_right
  integer(c_int32_t), parameter, public :: ATTILE_MASK_WINDOW_TOP_LEFT = 3_c_int32_t
  !> The same about j = i + len_k - len_q.
  integer(c_int32_t), parameter, public :: ATTILE_MASK_WINDOW_BOTTOM_RIGHT = 4_c_int32_t
  !> Rows, and keys, of a block of block_mask. Since 1.1.
  integer(c_int32_t), parameter, public :: ATTILE_MASK_BLOCK = 128_c_int32_t
  !> Sum; 0 over no elements.
  integer(c_int32_t), parameter, public :: ATTILE_REDUCE_SUM = 1_c_int32_t
  !> Largest; NaN if any is; -inf over no elements.
  integer(c_int32_t), parameter, public :: ATTILE_REDUCE_MAX = 2_c_int32_t
  !> Smallest; NaN if any is; +inf over no elements.
  integer(c_int32_t), parameter, public :: ATTILE_REDUCE_MIN = 3_c_int32_t
  !> Sum over count; NaN over no elements.
  integer(c_int32_t), parameter, public :: ATTILE_REDUCE_MEAN = 4_c_int32_t
  !> A block's scale is its largest magnitude over the largest number of q's type. Since 1.1.
  integer(c_int32_t), parameter, public :: ATTILE_SCALE_FROM_MAXIMUM = 0_c_int32_t
  !> Scales are read. Since 1.1.
  integer(c_int32_t), parameter, public :: ATTILE_SCALE_GIVEN = 1_c_int32_t
  !> Numbers i and i + R / 2 are a pair, as of GPT-NeoX, and of Llama in Hugging Face. Since 1.1.
  integer(c_int32_t), parameter, public :: ATTILE_ROPE_HALVES = 0_c_int32_t
  !> Numbers 2i and 2i + 1 are a pair, as of GPT-J. Since 1.1.
  integer(c_int32_t), parameter, public :: ATTILE_ROPE_INTERLEAVED = 1_c_int32_t
  !> Blocks of 32 numbers, 18 bytes: a scale, and 4 bits each. Since 1.1.
  integer(c_int32_t), parameter, public :: ATTILE_GGML_Q4_0 = 2_c_int32_t
  !> Blocks of 32 numbers, 34 bytes: a scale, and 8 bits each. Since 1.1.
  integer(c_int32_t), parameter, public :: ATTILE_GGML_Q8_0 = 8_c_int32_t
  !> Blocks of 256 numbers, 144 bytes: 8 groups with a scale and a minimum, and 4 bits each. Since 1.1.
  integer(c_int32_t), parameter, public :: ATTILE_GGML_Q4_K = 12_c_int32_t
  !> Blocks of 256 numbers, 210 bytes: 16 groups with a scale, and 6 bits each. Since 1.1.
  integer(c_int32_t), parameter, public :: ATTILE_GGML_Q6_K = 14_c_int32_t
  !> As CBLAS.
  integer(c_int32_t), parameter, public :: ATTILE_ROW_MAJOR = 101_c_int32_t
  !> As CBLAS and Fortran.
  integer(c_int32_t), parameter, public :: ATTILE_COL_MAJOR = 102_c_int32_t
  !> op(X) = X
  integer(c_int32_t), parameter, public :: ATTILE_NO_TRANS = 111_c_int32_t
  !> op(X) = X^T
  integer(c_int32_t), parameter, public :: ATTILE_TRANS = 112_c_int32_t
  !> As ATTILE_TRANS: the data are real.
  integer(c_int32_t), parameter, public :: ATTILE_CONJ_TRANS = 113_c_int32_t
  !> Nothing.
  integer(c_int32_t), parameter, public :: ATTILE_LOG_OFF = 0_c_int32_t
  !> Failures.
  integer(c_int32_t), parameter, public :: ATTILE_LOG_ERROR = 1_c_int32_t
  !> What is odd.
  integer(c_int32_t), parameter, public :: ATTILE_LOG_WARN = 2_c_int32_t
  !> What was chosen.
  integer(c_int32_t), parameter, public :: ATTILE_LOG_INFO = 3_c_int32_t
  !> Each call.
  integer(c_int32_t), parameter, public :: ATTILE_LOG_DEBUG = 4_c_int32_t
  !> Each step.
  integer(c_int32_t), parameter, public :: ATTILE_LOG_TRACE = 5_c_int32_t
  !> The communicator is NULL, destroyed, or no communicator; or another call is using it.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_INVALID_COMM = 6001_c_int32_t
  !> Ranks were called with arguments that must be the same and are not.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_RANKS_DISAGREE = 6002_c_int32_t
  !> Another rank failed; the sentence says which and why.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_RANK_FAILED = 6003_c_int32_t
  !> Another rank did not come within the time limit.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_RANK_LATE = 6004_c_int32_t
  !> What carries the messages failed.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_TRANSPORT = 6005_c_int32_t
  !> The communicator refuses work because an earlier call on it failed.
  integer(c_int32_t), parameter, public :: ATTILE_ERROR_COMM_BROKEN = 6006_c_int32_t
  !> Ranks' contexts may be of different backends; else that is a disagreement.
  integer(c_int32_t), parameter, public :: ATTILE_COMM_ALLOW_MIXED_BACKENDS = 1_c_int32_t
  !> Rank after rank, each as many as it has; evenly cut, rank r begins at floor(r L / P).
  integer(c_int32_t), parameter, public :: ATTILE_SHARDS_CONTIGUOUS = 0_c_int32_t
  !> 2 P chunks, chunk c from floor(c L / 2P): rank r has chunk r and behind it chunk 2P - 1 - r.
  integer(c_int32_t), parameter, public :: ATTILE_SHARDS_ZIGZAG = 1_c_int32_t
  !> Rank r has the positions r, r + P, r + 2P, ...
  integer(c_int32_t), parameter, public :: ATTILE_SHARDS_STRIPED = 2_c_int32_t
  !> The library chooses; the query says which and why.
  integer(c_int32_t), parameter, public :: ATTILE_METHOD_AUTO = 0_c_int32_t
  !> Keys and values go from rank to rank, each computes with what it holds.
  integer(c_int32_t), parameter, public :: ATTILE_METHOD_RING = 1_c_int32_t
  !> Each rank gets all keys and values that it needs at once.
  integer(c_int32_t), parameter, public :: ATTILE_METHOD_ALL_GATHER = 2_c_int32_t
  !> Each rank gets all rows of some heads, computes them, and sends the results back (Ulysses).
  integer(c_int32_t), parameter, public :: ATTILE_METHOD_ALL_TO_ALL = 3_c_int32_t
  !> Only in answers: there is one rank.
  integer(c_int32_t), parameter, public :: ATTILE_METHOD_LOCAL = 4_c_int32_t
  !> For rows that every rank has: each computes with its own keys, results are merged in log steps.
  integer(c_int32_t), parameter, public :: ATTILE_METHOD_TREE = 5_c_int32_t
  !> Each rank computes with its part of A: panels of B come, parts of sums go to D's ranks.
  integer(c_int32_t), parameter, public :: ATTILE_METHOD_STATIONARY_A = 6_c_int32_t
  !> The same with A and B exchanged.
  integer(c_int32_t), parameter, public :: ATTILE_METHOD_STATIONARY_B = 7_c_int32_t
  !> Each rank computes its part of D: panels of A and B come (SUMMA).
  integer(c_int32_t), parameter, public :: ATTILE_METHOD_STATIONARY_C = 8_c_int32_t
  !> Each rank has its own rows, by the layout.
  integer(c_int32_t), parameter, public :: ATTILE_ROWS_SHARDED = 0_c_int32_t
  !> Every rank has all rows, the same on all; results too.
  integer(c_int32_t), parameter, public :: ATTILE_ROWS_REPLICATED = 1_c_int32_t
  !> Rank r is in row r / columns and column r % columns of the grid.
  integer(c_int32_t), parameter, public :: ATTILE_GRID_ROW_MAJOR = 0_c_int32_t
  !> Rank r is in row r % rows and column r / rows of the grid.
  integer(c_int32_t), parameter, public :: ATTILE_GRID_COLUMN_MAJOR = 1_c_int32_t
  !> A source: each row (column) of the grid has all rows (columns) of the matrix.
  integer(c_int32_t), parameter, public :: ATTILE_REPLICATED = -1_c_int32_t
end module attile_constants
