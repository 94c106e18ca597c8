/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file attile.h
 * @brief The whole public C interface of Attile: attention and matrix multiplication on whatever device is there.
 *
 * C99, needs only <stdint.h>. Every function is callable from C, C++, Fortran (ISO_C_BINDING), Rust and Python (ctypes).
 *
 * **Conventions that hold everywhere**
 * - *Status.* A function that can fail returns an `int32_t`: 0 (ATTILE_OK) or one of the ATTILE_ERROR_ codes. The sentence
 *   that explains the calling thread's last failure is read with attile_last_error(). After a failure nothing was written to
 *   any output, unless the code is in the device block (5xxx), after which outputs are undefined.
 *   No function aborts, exits, prints, throws, or registers code that runs at process exit.
 * - *Structs.* A struct that the caller fills begins with `struct_size`, `flags`, `next`, and only ever grows at its end. Zero
 *   a struct and stamp its size with its `_init` function; zero means default in every field. A program compiled against a newer
 *   header works with an older library as long as the fields which that library does not know are zero, and gets
 *   ATTILE_ERROR_STRUCT_TOO_NEW otherwise. `next` is reserved and must be NULL. attile_tensor alone is bare and frozen.
 * - *Extents and strides* are `int64_t`; strides count elements, not bytes, and may be zero (inputs: broadcast) or negative.
 *   Any extent may be 0. Outputs must not overlap themselves or any input (exceptions are stated where they exist).
 * - *Memory.* A tensor may point to device, managed, pinned or ordinary host memory, whatever the backend: see attile_alloc().
 *   `data` must be aligned to its element's size; more is never required (16 bytes is faster).
 * - *Streams.* `stream` is the device's own handle (`cudaStream_t`, `hipStream_t`) or one from attile_stream_create(); NULL is the
 *   default stream. If every tensor of a call is on the device, the call is asynchronous on that stream, and errors of
 *   the device may surface in a later call. If any is in host memory, the call returns when the result is in place. CPU backends
 *   always finish before they return.
 * - *Threads.* Unless a function says otherwise, any number of threads may call it at once, on one context or on many.
 * - *Numerics.* float16 and bfloat16 are storage: arithmetic is in float32. float64 is computed in float64. Results are bitwise
 *   repeatable from run to run on one machine and build. Memory that a result does not depend on (masked keys, padding, C when
 *   beta is 0) is never allowed to influence it, even if it holds NaN.
 *
 * Section order: version, status codes, types, contexts, tensors, gemm, attention, prepared calls, other operations, BLAS names,
 * memory and streams, errors and report, extension.
 */
#ifndef ATTILE_ATTILE_H
#define ATTILE_ATTILE_H

#include <stdint.h>

/* ATTILE_API marks what the library exports. It may be defined before, as nothing for a static library or for a tool. */
#ifndef ATTILE_API
#if defined(_WIN32)
#if defined(ATTILE_BUILDING_LIBRARY)
#define ATTILE_API __declspec(dllexport)
#else
#define ATTILE_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define ATTILE_API __attribute__((visibility("default")))
#else
#define ATTILE_API
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @defgroup version Version
 * @{
 */
#define ATTILE_VERSION_MAJOR 1 /**< Changes when a program must be recompiled; also the number in libattile.so.1. */
#define ATTILE_VERSION_MINOR 1 /**< Changes when something was added. */
#define ATTILE_VERSION_PATCH 0 /**< Changes when something was mended. */

/**
 * @brief Version of the library that is loaded, as major * 1000000 + minor * 1000 + patch.
 * @return The number; never fails. Since 1.0.
 */
ATTILE_API int32_t attile_version(void);
/** @} */

/**
 * @defgroup status Status codes
 * Blocks: 1xxx a wrong argument, 2xxx not supported by this backend, 3xxx backends and their loading, 4xxx memory,
 * 5xxx the device, 9xxx a fault of the library. New codes may be added to a block; test `code / 1000` for the kind.
 * @{
 */
#define ATTILE_OK 0                             /**< Success. */
#define ATTILE_ERROR_NULL_ARGUMENT 1001         /**< A required pointer is NULL. */
#define ATTILE_ERROR_INVALID_VALUE 1002         /**< A scalar argument is outside its domain. */
#define ATTILE_ERROR_STRUCT_TOO_NEW 1003        /**< A field that this library does not know is not zero. */
#define ATTILE_ERROR_STRUCT_SIZE 1004           /**< `struct_size` is not that of any released version: not initialised. */
#define ATTILE_ERROR_INVALID_DTYPE 1005         /**< A data type is unknown, or not one this argument takes. */
#define ATTILE_ERROR_INVALID_RANK 1006          /**< A rank is outside what this argument takes. */
#define ATTILE_ERROR_INVALID_SHAPE 1007         /**< An extent is negative or absurd. */
#define ATTILE_ERROR_SHAPE_MISMATCH 1008        /**< Two extents that must agree do not. */
#define ATTILE_ERROR_INVALID_STRIDE 1009        /**< A stride makes an output overlap itself. */
#define ATTILE_ERROR_OVERFLOW 1010              /**< Extents times strides exceed 63 bits. */
#define ATTILE_ERROR_ALIASING 1011              /**< An output overlaps an input or another output. */
#define ATTILE_ERROR_MISALIGNED 1012            /**< A data pointer is not a multiple of its element's size. */
#define ATTILE_ERROR_WORKSPACE_TOO_SMALL 1013   /**< `workspace_bytes` is less than the query asks for. */
#define ATTILE_ERROR_INVALID_FLAGS 1014         /**< An unknown flag is set, or `next` is not NULL. */
#define ATTILE_ERROR_INVALID_CONTEXT 1015       /**< The context is NULL, destroyed, or no context. */
#define ATTILE_ERROR_UNSUPPORTED_OPERATION 2001 /**< The backend does not have this operation. */
#define ATTILE_ERROR_UNSUPPORTED_DTYPE 2002     /**< The backend does not have it for this data type. */
#define ATTILE_ERROR_UNSUPPORTED_FEATURE 2003   /**< The backend does not have it with this option. */
#define ATTILE_ERROR_UNSUPPORTED_SHAPE 2004     /**< The shape exceeds a limit of the backend or its device. */
#define ATTILE_ERROR_UNSUPPORTED_MEMORY 2005    /**< The kind of memory cannot be used here. */
#define ATTILE_ERROR_BACKEND_NOT_FOUND 3001     /**< No file of that backend in any directory searched. */
#define ATTILE_ERROR_BACKEND_LOAD 3002          /**< The file is there and the system's loader refused it. */
#define ATTILE_ERROR_BACKEND_INCOMPATIBLE 3003  /**< It speaks another version of the backend contract. */
#define ATTILE_ERROR_BACKEND_REFUSED 3004       /**< It loaded and cannot run here: no driver, no device, another CPU. */
#define ATTILE_ERROR_BACKEND_SELECTION 3005     /**< The selection string is malformed. */
#define ATTILE_ERROR_BACKEND_CONTRACT 3006      /**< The backend broke the contract. */
#define ATTILE_ERROR_BACKEND_EXISTS 3007        /**< A backend of that name is already registered. */
#define ATTILE_ERROR_OUT_OF_HOST_MEMORY 4001    /**< Ordinary or pinned memory is exhausted. */
#define ATTILE_ERROR_OUT_OF_DEVICE_MEMORY 4002  /**< Device memory is exhausted. */
#define ATTILE_ERROR_UNKNOWN_POINTER 4003       /**< The pointer was not given out by this context. */
#define ATTILE_ERROR_DEVICE_FAULT 5001          /**< The device reported a fault that stays with the context; make a new one. */
#define ATTILE_ERROR_DEVICE_LAUNCH 5002         /**< A kernel could not be launched. */
#define ATTILE_ERROR_DEVICE_RUNTIME 5003        /**< Another error of the device's runtime. */
#define ATTILE_ERROR_AFTER_FORK 5004            /**< The context belongs to the process this one was forked from. */
#define ATTILE_ERROR_INTERNAL 9001              /**< A fault of the library; the sentence helps to report it. */

/**
 * @brief The name of a status code, e.g. "ATTILE_ERROR_SHAPE_MISMATCH".
 * @param status Any number.
 * @return A static string, never NULL; "ATTILE_ERROR_UNKNOWN" for a number that is no code. Since 1.0.
 */
ATTILE_API const char *attile_status_name(int32_t status);
/** @} */

/**
 * @defgroup types Data types, devices, memory
 * @{
 */
/* A data type's number is DLPack's type code times 256 plus its bits, lanes 1. */
#define ATTILE_F32 0x0220     /**< IEEE float32 (DLPack kDLFloat 2, 32 bits). */
#define ATTILE_F64 0x0240     /**< IEEE float64. */
#define ATTILE_F16 0x0210     /**< IEEE float16, storage only. */
#define ATTILE_BF16 0x0410    /**< bfloat16, storage only (DLPack kDLBfloat 4). */
#define ATTILE_I32 0x0020     /**< int32: lengths and tables (DLPack kDLInt 0). */
#define ATTILE_I64 0x0040     /**< int64: positions (DLPack kDLInt 0). Since 1.1. */
#define ATTILE_U8 0x0108      /**< uint8: a boolean mask, 0 or not 0 (DLPack kDLUInt 1). */
#define ATTILE_BOOL 0x0608    /**< one-byte boolean: as ATTILE_U8 (DLPack kDLBool 6). */
#define ATTILE_I8 0x0008      /**< int8, quantised numbers (DLPack kDLInt 0). Since 1.1. */
#define ATTILE_F8_E4M3 0x0a08 /**< 8-bit float up to 448, no infinity, NaN 0x7f and 0xff (DLPack kDLFloat8_e4m3fn 10). Since 1.1. */
#define ATTILE_F8_E5M2 0x0c08 /**< 8-bit float up to 57344, infinities and NaN as IEEE has them (DLPack kDLFloat8_e5m2 12). Since 1.1. */

/* Two numbers of 4 bits share a byte, the first in its lower half. A tensor of them has one axis of stride 1, whose extent is even; its
   other strides are even. Extents and strides count numbers. */
#define ATTILE_I4 0x0004 /**< int4, -8 to 7, two a byte (DLPack kDLInt 0, 4 bits). Since 1.1. */
#define ATTILE_U4 0x0104 /**< uint4, 0 to 15, two a byte (DLPack kDLUInt 1, 4 bits). Since 1.1. */

/* A device type's number is DLPack's. */
#define ATTILE_DEVICE_CPU 1   /**< kDLCPU */
#define ATTILE_DEVICE_CUDA 2  /**< kDLCUDA */
#define ATTILE_DEVICE_ROCM 10 /**< kDLROCM */

#define ATTILE_MEMORY_HOST 0    /**< Ordinary memory (malloc, stack, mmap). */
#define ATTILE_MEMORY_PINNED 1  /**< Page-locked host memory that the device can reach. */
#define ATTILE_MEMORY_MANAGED 2 /**< Memory that migrates between host and device. */
#define ATTILE_MEMORY_DEVICE 3  /**< The device's own memory; ordinary memory on CPU backends. */

/* Flags of operations; each args struct says which it takes. */
#define ATTILE_FLAG_BATCH_INVARIANT 0x1u        /**< A row's bits do not depend on the batch around it or on how it was split. */
#define ATTILE_FLAG_NO_ALLOC 0x2u               /**< Fail with ATTILE_ERROR_WORKSPACE_TOO_SMALL rather than allocate a workspace. */
#define ATTILE_FLAG_ALLOW_SPLIT_TF32 0x4u       /**< float32 products may be made of several TF32 products of a tensor core. */
#define ATTILE_FLAG_ALLOW_NONDETERMINISTIC 0x8u /**< Results may differ in the last bits from run to run. */
#define ATTILE_FLAG_EXACT_PRODUCTS 0x10u        /**< Sums of products are exact, then rounded once: the same bits everywhere. Since 1.1. */
#define ATTILE_FLAG_FAST_ACCUMULATION 0x20u     /**< Sums may be less exact where a function says so. Since 1.1. */
/** @} */

/**
 * @defgroup context Contexts
 * @{
 */
/** One backend on one device. Opaque, and no address: made by attile_context_create(), never given out a second time. */
typedef struct attile_context attile_context;

/** Options of attile_context_create(); NULL or all zero is the default. Fill with attile_context_options_init() first. */
typedef struct attile_context_options {
    uint32_t struct_size; /**< sizeof(attile_context_options). */
    uint32_t flags;       /**< Must be 0. */
    const void *next;     /**< Must be NULL. */
    /** Which backend: a name ("cuda", "cuda:1"), strict; a comma list, tried in order; "auto". NULL: the environment variable
        ATTILE_BACKEND, and "auto" where that is unset or empty. At most 255 bytes. */
    const char *backend;
    /** CPU backends: threads a call may use; 0: what the variable ATTILE_NUM_THREADS says, else OMP_NUM_THREADS, else every processor
        that the process may use. */
    int32_t threads;
    int32_t reserved;   /**< Must be 0. */
    int64_t pool_bytes; /**< Bytes of unused workspace that the context may keep for later calls; 0: the backend's default. */
} attile_context_options;

/** What a context runs on. Filled by attile_context_get_info(); what is unknown is 0 or "". */
typedef struct attile_context_info {
    uint32_t struct_size;         /**< sizeof(attile_context_info), set by the caller. */
    uint32_t flags;               /**< 0. */
    const void *next;             /**< NULL. */
    char backend[32];             /**< The backend's name, "cpu". */
    char backend_version[32];     /**< Its version, "1.0.0". */
    char device_name[128];        /**< The device's name as its maker gives it. */
    char arch[64];                /**< "sm_61", "gfx90a", "AVX2". */
    int32_t device_type;          /**< ATTILE_DEVICE_ constant. */
    int32_t device_index;         /**< Its number among the devices of that type. */
    int32_t compute_units;        /**< Multiprocessors, compute units or cores. */
    int32_t threads;              /**< CPU backends: threads a call uses. */
    int32_t lane_width;           /**< Lanes of a warp or wave; float32 lanes of a vector on a CPU. */
    int32_t max_threads_per_unit; /**< Resident threads a compute unit holds. */
    int32_t max_blocks_per_unit;  /**< Resident blocks a compute unit holds. */
    int32_t registers_per_unit;   /**< 32-bit registers of a compute unit. */
    int64_t memory_total;         /**< Bytes of the device's memory. */
    int64_t memory_free;          /**< Bytes of it free now. */
    int64_t shared_per_block;     /**< Bytes of shared memory a block can use without opting in. */
    int64_t shared_per_unit;      /**< Bytes of shared memory of a compute unit. */
    int64_t l2_bytes;             /**< Bytes of the last cache that all compute units share. */
    double clock_hz;              /**< The clock that the peaks assume. */
    double peak_flops_f32;        /**< Floating-point operations a second, a fused multiply-add counting two; no tensor cores. */
    double peak_flops_f64;        /**< Likewise in float64. */
    double peak_flops_f16;        /**< Likewise of float16 matrix units where this backend uses them, else 0. */
    double peak_bandwidth;        /**< Bytes a second of the device's memory. */
} attile_context_info;

/**
 * @brief Zero an options struct and stamp its size.
 * @param options What to initialise; NULL does nothing.
 * @param size sizeof *options as the caller was compiled. Since 1.0.
 */
ATTILE_API void attile_context_options_init(attile_context_options *options, uint64_t size);

/** @brief Zero an info struct and stamp its size. @param info What to initialise; NULL does nothing. @param size sizeof *info. Since 1.0.
 */
ATTILE_API void attile_context_info_init(attile_context_info *info, uint64_t size);

/**
 * @brief Choose a backend and open its device.
 *
 * The first call searches for backends and loads what the selection names; loaded backends stay loaded until the process ends.
 * A single name is strict: if that backend cannot run here the call fails, it never falls back to another.
 * @param options NULL, or what to open.
 * @param[out] context The new context; set to NULL on failure.
 * @return
 * - ATTILE_OK
 * - ATTILE_ERROR_NULL_ARGUMENT: `context` is NULL
 * - ATTILE_ERROR_STRUCT_SIZE, ATTILE_ERROR_STRUCT_TOO_NEW, ATTILE_ERROR_INVALID_FLAGS, ATTILE_ERROR_INVALID_VALUE: `options`
 * - ATTILE_ERROR_BACKEND_SELECTION: the selection string has an empty or impossible name, a path, or is too long
 * - ATTILE_ERROR_BACKEND_NOT_FOUND, ATTILE_ERROR_BACKEND_LOAD, ATTILE_ERROR_BACKEND_INCOMPATIBLE, ATTILE_ERROR_BACKEND_REFUSED,
 *   ATTILE_ERROR_BACKEND_CONTRACT: why the backend named, or the last of a list, was not taken; attile_backend_report() has all
 * - ATTILE_ERROR_OUT_OF_HOST_MEMORY, ATTILE_ERROR_OUT_OF_DEVICE_MEMORY, or a device code
 *
 * Thread safety: safe. Asynchrony: none. Since 1.0.
 */
ATTILE_API int32_t attile_context_create(const attile_context_options *options, attile_context **context);

/**
 * @brief Close a context: waits for its work, releases its memory pool and any memory still allocated from it.
 * @param context A context that no other thread is using; NULL, and one that was destroyed before, does nothing. Since 1.0.
 */
ATTILE_API void attile_context_destroy(attile_context *context);

/**
 * @brief What a context runs on.
 * @param context A context.
 * @param[in,out] info Initialised by attile_context_info_init(); filled as far as its struct_size reaches.
 * @return ATTILE_OK; ATTILE_ERROR_INVALID_CONTEXT; ATTILE_ERROR_NULL_ARGUMENT; ATTILE_ERROR_STRUCT_SIZE; a device code.
 *
 * Thread safety: safe. Since 1.0.
 */
ATTILE_API int32_t attile_context_get_info(attile_context *context, attile_context_info *info);
/** @} */

/**
 * @defgroup tensor Tensors
 * @{
 */
/** A strided view of memory that the caller owns. Frozen: this layout never changes. An absent optional tensor is all zero. */
typedef struct attile_tensor {
    void *data;        /**< First element, the one at index 0 in every axis; may be NULL if an extent is 0. */
    int32_t dtype;     /**< ATTILE_F32 and so on; 0: the tensor is absent. */
    int32_t rank;      /**< 1 to 4. */
    int64_t shape[4];  /**< Extents, slowest axis by convention first; entries from `rank` on are ignored. */
    int64_t stride[4]; /**< Distance in elements between neighbours along each axis. */
} attile_tensor;

/**
 * @brief Describe dense row-major memory: stride[rank-1] = 1, stride[i] = stride[i+1] * shape[i+1].
 *
 * Set `stride` afterwards for any other layout.
 * @param[out] tensor What to fill.
 * @param data First element.
 * @param dtype ATTILE_F32 and so on.
 * @param rank 1 to 4.
 * @param shape `rank` extents.
 * @return ATTILE_OK; ATTILE_ERROR_NULL_ARGUMENT: `tensor` or `shape`; ATTILE_ERROR_INVALID_DTYPE; ATTILE_ERROR_INVALID_RANK;
 *   ATTILE_ERROR_INVALID_SHAPE: a negative extent; ATTILE_ERROR_OVERFLOW. On failure the tensor is left all zero.
 *
 * Thread safety: safe. Since 1.0.
 */
ATTILE_API int32_t attile_tensor_init(attile_tensor *tensor, void *data, int32_t dtype, int32_t rank, const int64_t *shape);
/** @} */

/**
 * @defgroup query Support queries
 * @{
 */
#define ATTILE_SUPPORT_NONE 0     /**< The call would fail with `status`. */
#define ATTILE_SUPPORT_EMULATED 1 /**< The call works, by a general path that is slow or needs conversions. */
#define ATTILE_SUPPORT_NATIVE 2   /**< The call works by a kernel made for it. */

/** Answer of an operation's query: how a call with these arguments would run. What is unknown is 0 or "". */
typedef struct attile_support {
    uint32_t struct_size;    /**< sizeof(attile_support), set by the caller. */
    uint32_t flags;          /**< 0. */
    const void *next;        /**< NULL. */
    int32_t level;           /**< ATTILE_SUPPORT_ constant. */
    int32_t status;          /**< The code a call would return: ATTILE_OK, or 2xxx when `level` is NONE. */
    int64_t workspace_bytes; /**< Workspace the call wants; give it, or leave it to the context's pool. */
    char kernel[96];         /**< The kernel's name. */
    char text[256];          /**< Why NONE; or why not a faster kernel. */
    double flops;            /**< Floating-point operations of the definition, a multiply-add counting two. */
    double bytes;            /**< Fewest bytes of memory traffic: each input read once, each output written once. */
    int32_t tile_m;          /**< Rows of the output a block makes. */
    int32_t tile_n;          /**< Columns (attention: keys) a block takes at a time. */
    int32_t tile_k;          /**< Depth of the inner product taken at a time. */
    int32_t threads;         /**< Threads a block. */
    int32_t registers;       /**< Registers a thread. */
    int32_t shared_bytes;    /**< Shared memory a block, static and dynamic. */
    int32_t blocks_per_unit; /**< Blocks resident on a compute unit, as the device computes it. */
    int32_t splits;          /**< Parts into which the sum (gemm) or the keys (attention) are split over blocks. */
    int64_t blocks;          /**< Blocks launched. */
    double predicted_share;  /**< Share of the bounding roof that the kernel is expected to reach, 0 to 1. */
} attile_support;

/** @brief Zero a support struct and stamp its size. @param support What to initialise; NULL does nothing. @param size sizeof *support.
 * Since 1.0. */
ATTILE_API void attile_support_init(attile_support *support, uint64_t size);
/** @} */

/**
 * @defgroup gemm Matrix multiplication
 * @{
 */
#define ATTILE_BIAS_NONE 0    /**< No bias. */
#define ATTILE_BIAS_COLUMNS 1 /**< bias[n] is added to column n of every row. */
#define ATTILE_BIAS_ROWS 2    /**< bias[m] is added to row m of every column. */

#define ATTILE_ACTIVATION_NONE 0      /**< x */
#define ATTILE_ACTIVATION_RELU 1      /**< max(x, 0); NaN stays NaN. */
#define ATTILE_ACTIVATION_GELU 2      /**< x/2 (1 + erf(x / sqrt 2)) */
#define ATTILE_ACTIVATION_GELU_TANH 3 /**< x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
#define ATTILE_ACTIVATION_SILU 4      /**< x / (1 + exp(-x)) */

/** Arguments of attile_gemm(). */
typedef struct attile_gemm_args {
    uint32_t struct_size;    /**< sizeof(attile_gemm_args); attile_gemm_init() sets it. */
    uint32_t flags;          /**< Any ATTILE_FLAG_ constants. */
    const void *next;        /**< Must be NULL. */
    void *stream;            /**< Stream to run on; NULL: the default stream. */
    void *workspace;         /**< Device memory for intermediate results, 256-byte aligned; NULL: taken from the context's pool. */
    int64_t workspace_bytes; /**< Its size. */
    attile_tensor a;         /**< [batch..., M, K] */
    attile_tensor b;         /**< [batch..., K, N] */
    attile_tensor c;         /**< [batch..., M, N]; may be absent if beta is 0, and is not read then. May be the same view as d. */
    attile_tensor d;         /**< [batch..., M, N], the output. */
    double alpha;            /**< Factor of A B. attile_gemm_init() sets it to 1, the one field it does not zero. */
    double beta;             /**< Factor of C. */
    attile_tensor bias;      /**< [batch..., N] or [batch..., M] as `bias_axis` says; absent for none. */
    int32_t bias_axis;       /**< ATTILE_BIAS_ constant. */
    int32_t activation;      /**< ATTILE_ACTIVATION_ constant. */
    attile_tensor a_scale;   /**< f32, [batch..., Ms, Ks]: factors of a's numbers of 8 bits; absent: 1. Since 1.1. */
    attile_tensor b_scale;   /**< f32, [batch..., Ks, Ns]: factors of b's numbers of 8 or 4 bits; absent: 1. Since 1.1. */
    attile_tensor b_zero;    /**< f32, shape of b_scale: what is taken off b's numbers of u4; absent: 0. Since 1.1. */
    attile_tensor d_scale;   /**< f32, rank 1..4, broadcast to [batch..., M, N]: what d's numbers of 8 bits are factors of; absent: 1.
                                Since 1.1. */
} attile_gemm_args;

/** @brief Zero the arguments, stamp their size, set alpha to 1. @param args What to initialise; NULL does nothing. @param size sizeof
 * *args. Since 1.0. */
ATTILE_API void attile_gemm_init(attile_gemm_args *args, uint64_t size);

/**
 * @brief Matrix multiplication, D = activation(alpha A B + beta C + bias).
 *
 * **Formula** d[.., m, n] = activation(alpha sum_k a[.., m, k] b[.., k, n] + beta c[.., m, n] + bias). With beta = 0, C is not
 * read; with alpha = 0 or K = 0, A and B are not read and the product is 0. A factor that the type of the sums does not tell from 0, as
 * float32 does not tell 1e-50, is 0.
 *
 * **Shapes and strides** d has rank 2, 3 or 4; a, b, c have rank 2 up to that of d, and their missing leading axes, like batch
 * axes of extent 1 or stride 0, are broadcast. A transposed or column-major matrix is expressed by its strides. Data types: a
 * and b alike, one of f32, f64, f16, bf16; c and d alike, that type, or f32 if a and b are f16 or bf16; bias as d or f32. Sums
 * are in f32, of f64 in f64.
 *
 * **Numbers of 8 bits** (since 1.1)
 * - a f32, f16 or bf16, and b i8, f8_e4m3 or f8_e5m2: weights alone are quantised. d is a's type or f32; sums are in f32.
 * - a and b of f8_e4m3 or f8_e5m2, each its own: d is f32, f16 or bf16; sums are in f32.
 * - a and b i8: d is f32, f16 or bf16, and sums are exact up to where a scale applies; or d is i32, the exact sums themselves, without
 *   scales, C, bias and activation, with alpha 1 and K up to 131071, beyond which a sum may not fit.
 *
 * The value of a number q of 8 bits is scale q. A scale belongs to a block of numbers, whose extents follow from the shape of the scales:
 * b_scale is [.., Ks, Ns] where Ks is 1 or K / 32, K / 64 or K / 128, without rest, and Ns is 1, N or N / 128, without rest; a_scale is
 * [.., Ms, Ks] likewise, Ms being 1, M or M / 128. Leading axes are as of a and b. Scales may be 0 or negative; NaN makes NaN of all that
 * it has a part in. What is rounded when is in the page on numerics.
 *
 * **Results of 8 bits** (since 1.1) d may also be i8, f8_e4m3 or f8_e5m2, whatever a and b are but f64; products are not exact then.
 * d[.., m, n] is what the formula gives, in float32, over d_scale[.., m, n], limited to the largest numbers of d's type (127, 448, 57344
 * and their negatives) and rounded to the nearest, as attile_quantize() does with a given scale: of two as near to the even one; a scale
 * of 0 gives 0, NaN gives NaN, in i8 0. d_scale is read, not made: one for all [1], for each row [M, 1], for each column [N], or any
 * other shape that broadcasts. c, if it is there, and bias are f32.
 *
 * **Exact products** (since 1.1) With ATTILE_FLAG_EXACT_PRODUCTS, for a and b both f64 or both f32, sum_k a b is the exact sum, rounded
 * once to the nearest float64. Times alpha, plus beta times c, plus bias, the activation follow in float64, each step rounded by itself,
 * and the result is rounded to d's type. Every NaN in d is the positive quiet one without payload. No bit depends on the backend, the
 * device, threads, batch, layout or strides. Activations are none and relu: the others are not the same bits everywhere.
 *
 * **Fast accumulation** (since 1.1) ATTILE_FLAG_FAST_ACCUMULATION permits a backend to sum products of 8-bit floats both as a tensor core
 * does that drops bits: each addition may cut both addends off below 2^-13 of the largest power of two among the products and partial sums
 * that it adds. Scales, alpha, C, bias and activation are as without the flag. It obliges to nothing: a backend that has no such sums, and
 * products of all other types, exact ones among them, take no notice of it. The bound on the error is in the page on numerics.
 *
 * **Numbers of 4 bits** (since 1.1) a f32, f16 or bf16, and b i4 or u4: as weights of 8 bits. One of b's last two axes has stride 1 and an
 * even extent, all other strides are even. The value of a u4 number q is scale (q - zero), b_zero having a number for each scale.
 *
 * **Memory** Any kind. d must not overlap a, b, bias or scales; c may be exactly d's view, and must not overlap it otherwise.
 *
 * **Stream** On args->stream; asynchronous if all memory is the device's.
 *
 * **Thread safety** Safe.
 *
 * @param context The context to run on.
 * @param args What to compute.
 * @return
 * - ATTILE_OK
 * - ATTILE_ERROR_INVALID_CONTEXT; ATTILE_ERROR_NULL_ARGUMENT: `args`, or the data of a non-empty tensor
 * - ATTILE_ERROR_STRUCT_SIZE, ATTILE_ERROR_STRUCT_TOO_NEW, ATTILE_ERROR_INVALID_FLAGS: the struct's head
 * - ATTILE_ERROR_INVALID_DTYPE, ATTILE_ERROR_INVALID_RANK, ATTILE_ERROR_INVALID_SHAPE, ATTILE_ERROR_INVALID_STRIDE,
 *   ATTILE_ERROR_OVERFLOW, ATTILE_ERROR_MISALIGNED: a tensor by itself
 * - ATTILE_ERROR_SHAPE_MISMATCH: inner, outer or batch extents that disagree; scales that divide no block evenly
 * - ATTILE_ERROR_INVALID_VALUE: alpha or beta is not finite in the type of the sums, beta is not 0 and c is absent, bias without an axis
 *   or the reverse, unknown bias_axis or activation, negative workspace_bytes; a scale beside numbers of more bits than 8; more than
 *   plain sums asked of an i32 d; b_zero beside a b that is not u4, or without b_scale
 * - ATTILE_ERROR_INVALID_SHAPE: K above 131071 with an i32 d
 * - ATTILE_ERROR_ALIASING: d overlaps an input
 * - ATTILE_ERROR_WORKSPACE_TOO_SMALL: a workspace was given, or NO_ALLOC set, and it is smaller than the query says
 * - ATTILE_ERROR_UNSUPPORTED_DTYPE, ATTILE_ERROR_UNSUPPORTED_FEATURE: exact products of other types, d's among them, or with another
 *   activation
 * - a code of block 2xxx: the backend lacks it, and attile_gemm_query() says so too; 4xxx, 5xxx: memory or device
 *
 * Since 1.0.
 */
ATTILE_API int32_t attile_gemm(attile_context *context, const attile_gemm_args *args);

/**
 * @brief How attile_gemm() would run with these arguments. Reads no tensor data; data pointers may be NULL.
 * @param context The context.
 * @param args The arguments of the call.
 * @param[in,out] support Initialised by attile_support_init(); filled as far as its struct_size reaches.
 * @return ATTILE_OK, also when the answer is ATTILE_SUPPORT_NONE; else the argument code that attile_gemm() would return. Since 1.0.
 */
ATTILE_API int32_t attile_gemm_query(attile_context *context, const attile_gemm_args *args, attile_support *support);

/** Arguments of attile_gemm_grouped(). Since 1.1. */
typedef struct attile_gemm_grouped_args {
    uint32_t struct_size;      /**< sizeof(attile_gemm_grouped_args); attile_gemm_grouped_init() sets it. */
    uint32_t flags;            /**< Any of ATTILE_FLAG_BATCH_INVARIANT, _NO_ALLOC, _ALLOW_SPLIT_TF32, _ALLOW_NONDETERMINISTIC. */
    const void *next;          /**< Must be NULL. */
    void *stream;              /**< Stream to run on; NULL: the default stream. */
    void *workspace;           /**< As for attile_gemm(). */
    int64_t workspace_bytes;   /**< Its size. */
    attile_tensor a;           /**< [M, K]: the rows of all groups. */
    attile_tensor b;           /**< [G, K, N]: a matrix for each group. */
    attile_tensor c;           /**< [M, N]; may be absent if beta is 0, and is not read then. May be the same view as d. */
    attile_tensor d;           /**< [M, N], the output. */
    double alpha;              /**< Factor of A B. attile_gemm_grouped_init() sets it to 1, the one field it does not zero. */
    double beta;               /**< Factor of C. */
    attile_tensor row_offsets; /**< i32, [G + 1]: group g has the rows from row_offsets[g] to before row_offsets[g + 1]. */
    attile_tensor bias;        /**< [G, N] or [N], added to each row of a group; absent for none. */
    int32_t activation;        /**< ATTILE_ACTIVATION_ constant. */
    int32_t reserved;          /**< Must be 0. */
    attile_tensor b_scale;     /**< f32, [G, Ks, Ns]: factors of b's numbers of 8 or 4 bits; absent: 1. */
    attile_tensor b_zero;      /**< f32, shape of b_scale: what is taken off b's numbers of u4; absent: 0. */
} attile_gemm_grouped_args;

/** @brief Zero the arguments, stamp their size, set alpha to 1. @param args What to initialise; NULL does nothing. @param size sizeof
 * *args. Since 1.1. */
ATTILE_API void attile_gemm_grouped_init(attile_gemm_grouped_args *args, uint64_t size);

/**
 * @brief Many products of one B each: the rows of A belong to groups, as those of the experts of a mixture do.
 *
 * **Formula** for each group g and each row m from row_offsets[g] to before row_offsets[g + 1]: d[m, n] = activation(alpha sum_k a[m, k]
 * b[g, k, n] + beta c[m, n] + bias[g, n]). With beta = 0, C is not read; with alpha = 0 or K = 0, A and B are not read and the product is
 * 0. A group may have no row. Rows before the first offset and from the last one on belong to no group: they are not written, and what A
 * and C hold there does not matter.
 *
 * **Offsets** are data and cannot be checked beforehand on a device: each is clamped to what there is, from the offset before it (the
 * first: from 0) to M. So a group whose offsets decrease has no row, no row has two groups, and whatever they hold nothing else is read
 * or written. They are not read on the host: a call can be captured in a graph, and may follow what computes them on the stream.
 *
 * **Shapes and strides** any strides, also 0 and negative for inputs. b may have extent 1 or stride 0 along the groups: one matrix for
 * all. A transposed B, [G, N, K] in memory, is a matter of strides. Data types: a f32, f64, f16 or bf16, b of the same type; c and d alike,
 * that type, or f32 if a is f16 or bf16; bias as d or f32. Sums are in f32, of f64 in f64. Where a is f32, f16 or bf16, b may also be i8,
 * f8_e4m3, f8_e5m2, i4 or u4, with b_scale and b_zero as attile_gemm() has them, whose batch axis is G; not every backend has these.
 *
 * **Memory** Any kind. d must not overlap a, b, row_offsets, bias or scales; c may be exactly d's view, and must not overlap it otherwise.
 *
 * **Stream** On args->stream; asynchronous if all memory is the device's.
 *
 * **Thread safety** Safe.
 *
 * @param context The context to run on.
 * @param args What to compute.
 * @return
 * - ATTILE_OK
 * - ATTILE_ERROR_INVALID_CONTEXT; ATTILE_ERROR_NULL_ARGUMENT: `args`, a, b, d or row_offsets absent, or the data of a non-empty tensor
 * - ATTILE_ERROR_STRUCT_SIZE, ATTILE_ERROR_STRUCT_TOO_NEW, ATTILE_ERROR_INVALID_FLAGS: the struct's head
 * - ATTILE_ERROR_INVALID_DTYPE, ATTILE_ERROR_INVALID_RANK, ATTILE_ERROR_INVALID_SHAPE, ATTILE_ERROR_INVALID_STRIDE,
 *   ATTILE_ERROR_OVERFLOW, ATTILE_ERROR_MISALIGNED: a tensor by itself; row_offsets without an element; M above 2^31 - 1, which offsets
 *   could not reach
 * - ATTILE_ERROR_SHAPE_MISMATCH: extents that disagree; scales that divide no block evenly
 * - ATTILE_ERROR_INVALID_VALUE: alpha or beta is not finite in the type of the sums, beta is not 0 and c is absent, unknown activation,
 *   negative workspace_bytes, a scale beside numbers of more bits than 8, b_zero beside a b that is not u4, or without b_scale
 * - ATTILE_ERROR_ALIASING: d overlaps an input
 * - ATTILE_ERROR_WORKSPACE_TOO_SMALL: a workspace was given, or NO_ALLOC set, and it is smaller than the query says
 * - a code of block 2xxx: the backend lacks it, and attile_gemm_grouped_query() says so too; 4xxx, 5xxx: memory or device
 *
 * Since 1.1.
 */
ATTILE_API int32_t attile_gemm_grouped(attile_context *context, const attile_gemm_grouped_args *args);

/**
 * @brief How attile_gemm_grouped() would run with these arguments. Reads no tensor data; data pointers may be NULL.
 *
 * `flops` and `bytes` are of M rows that all belong to groups, whose matrices are all read.
 * @param context The context.
 * @param args The arguments of the call.
 * @param[in,out] support Initialised by attile_support_init().
 * @return As attile_gemm_query(). Since 1.1.
 */
ATTILE_API int32_t attile_gemm_grouped_query(attile_context *context, const attile_gemm_grouped_args *args, attile_support *support);
/** @} */

/**
 * @defgroup attention Attention
 * @{
 */
/* Which keys j a query row i may see. Rows and keys are counted within the batch entry (packed: within the sequence); len_k is the
   number of keys there after key_lengths. The diagonal is j = i + shift: shift is 0 for the TOP_LEFT masks and len_k - len_q for
   the BOTTOM_RIGHT ones; where causal_offset is given it is the entry's offset. */
#define ATTILE_MASK_NONE 0                /**< Every key. */
#define ATTILE_MASK_CAUSAL_TOP_LEFT 1     /**< j <= i */
#define ATTILE_MASK_CAUSAL_BOTTOM_RIGHT 2 /**< j <= i + len_k - len_q: the last row sees every key. */
#define ATTILE_MASK_WINDOW_TOP_LEFT 3     /**< i - window_left <= j <= i + window_right */
#define ATTILE_MASK_WINDOW_BOTTOM_RIGHT 4 /**< The same about j = i + len_k - len_q. */

#define ATTILE_MASK_BLOCK 128 /**< Rows, and keys, of a block of block_mask. Since 1.1. */

/** Arguments of attile_attention(). */
typedef struct attile_attention_args {
    uint32_t struct_size;        /**< sizeof(attile_attention_args); attile_attention_init() sets it. */
    uint32_t flags;              /**< Any ATTILE_FLAG_ constants but ATTILE_FLAG_ALLOW_NONDETERMINISTIC. */
    const void *next;            /**< Must be NULL. */
    void *stream;                /**< Stream to run on; NULL: the default stream. */
    void *workspace;             /**< Device memory for intermediate results, 256-byte aligned; NULL: taken from the context's pool. */
    int64_t workspace_bytes;     /**< Its size. */
    attile_tensor q;             /**< [B, Hq, Lq, D] */
    attile_tensor k;             /**< [B, Hkv, Lk, D]; paged: [pages, Hkv, page_size, D] */
    attile_tensor v;             /**< [B, Hkv, Lk, Dv]; paged: [pages, Hkv, page_size, Dv] */
    attile_tensor o;             /**< [B, Hq, Lq, Dv], the output. */
    attile_tensor lse;           /**< [B, Hq, Lq], optional output: natural logarithm of the softmax denominator. */
    double scale;                /**< Factor of q.k; 0: 1/sqrt(D). */
    double softcap;              /**< 0: none; c > 0: s becomes c tanh(s / c). */
    int32_t mask;                /**< ATTILE_MASK_ constant. */
    int32_t reserved;            /**< Must be 0. */
    int64_t window_left;         /**< WINDOW masks: keys before the diagonal that are seen, the diagonal not counted; -1: all. Else 0. */
    int64_t window_right;        /**< WINDOW masks: keys after the diagonal that are seen; -1: all. Else 0. */
    attile_tensor bias;          /**< Optional, added to the scores: rank 1..4, broadcast to [B, Hq, Lq, Lk]. */
    attile_tensor allowed;       /**< Optional, ATTILE_BOOL or ATTILE_U8, broadcast likewise: a key with 0 is not seen. */
    attile_tensor alibi_slopes;  /**< Optional, [Hq] or [B, Hq]: -slope |j - i - shift| is added to the scores. */
    attile_tensor sinks;         /**< Optional, [Hq]: exp(sink) is added to the softmax denominator of every row of that head. */
    attile_tensor key_lengths;   /**< Optional, i32 [B]: keys of each batch entry; those from there on are not read. */
    attile_tensor cu_len_q;      /**< Packed sequences: i32 [B+1], where each sequence's rows start in q, o and lse; the last is the end. */
    attile_tensor cu_len_k;      /**< Packed sequences: likewise of k and v. */
    int64_t max_len_q;           /**< Packed: no sequence has more rows; 0: all rows of q. */
    int64_t max_len_k;           /**< Packed: no sequence has more keys; 0: all keys of k. */
    attile_tensor block_table;   /**< Paged K/V: i32 [B, max_pages], the page that holds each run of page_size keys. */
    attile_tensor key_starts;    /**< Optional, i32 [B]: keys of each batch entry before this one are not seen: left padding. Since 1.1. */
    attile_tensor causal_offset; /**< Optional, i32 [B]: each entry's diagonal is j = i + offset, whatever the mask's corner. Since 1.1. */
    attile_tensor block_mask;    /**< Optional, ATTILE_BOOL or ATTILE_U8, rank 1..4, broadcast to [B, Hq, ceil(Lq / 128), ceil(Lk / 128)]: 0
                                    hides a block of 128 rows and 128 keys. Since 1.1. */
    attile_tensor tree_mask; /**< Optional, ATTILE_BOOL or ATTILE_U8, rank 1..4, [B, Hq, Lq, T], all but T broadcast: of the last T keys,
                                0 hides one. Since 1.1. */
    attile_tensor k_scale;   /**< Optional, f32, rank 1..4, broadcast to [B, Hkv, Lk, G]; paged: [pages, Hkv, page_size, G]: factors of k's
                                numbers of 8 or 4 bits; absent: 1. Since 1.1. */
    attile_tensor v_scale;   /**< Likewise of v's. Since 1.1. */
    attile_tensor q_scale;   /**< Optional, f32, rank 1..4, broadcast to [B, Hq, Lq, G]: factors of q's numbers of 8 bits. Since 1.1. */
    attile_tensor o_scale;   /**< Likewise of o's; an input, too. Since 1.1. */
} attile_attention_args;

/** @brief Zero the arguments and stamp their size. @param args What to initialise; NULL does nothing. @param size sizeof *args. Since 1.0.
 */
ATTILE_API void attile_attention_init(attile_attention_args *args, uint64_t size);

/**
 * @brief Scaled dot-product attention, O = softmax(scale Q K^T) V, with every usual variation.
 *
 * **Formula** for each batch entry b, query head h, row i, with g = h / (Hq / Hkv):
 * s_j = scale sum_d q[b,h,i,d] k[b,g,j,d]; then, each if asked for and in this order: s_j = softcap tanh(s_j / softcap);
 * s_j += bias[b,h,i,j]; s_j -= slope |j - i - shift|; s_j = -inf where the mask, `allowed`, block_mask, tree_mask or a length hides key j.
 * Z = sum_j exp(s_j) + exp(sink); o[b,h,i,:] = sum_j exp(s_j) / Z v[b,g,j,:]; lse[b,h,i] = log Z.
 * A row that sees no key gives o = 0 and lse = -inf (the sink's value if there is one). -inf in `bias` hides a key as the mask does.
 * A score that comes out as -inf takes no part either; a row whose scores or sink hold NaN or +inf gives NaN in o and lse.
 * ALiBi's shift is that of the mask, and len_k - len_q for ATTILE_MASK_NONE without causal_offset.
 *
 * **Left padding** key_starts hides the keys before an entry's first one, whatever they hold. Keys are still counted from the entry's
 * beginning: len_k, the diagonal, ALiBi's distances and the columns of `bias` and `allowed` do not move.
 *
 * **Block masks** block_mask[b, h, i / 128, j / 128] says whether row i may see key j, and combines with all other masks. Most kernels
 * skip hidden blocks, so that the time follows what is left. Rows and keys are counted as those of `bias`: within a sequence, if packed.
 *
 * **Tree masks** of speculative decoding, where the last T keys are drafts: tree_mask[b, h, i, t] says whether row i may see key
 * len_k - T + t, with len_k what key_lengths leaves; earlier keys are not hidden by it, and columns before the first key are not read.
 * T is at most Lk. Where sequences have fewer drafts than T, their columns are the last ones.
 *
 * **Shapes and strides** Axes in the order above whatever their order in memory: [B, L, H, D] storage or Fortran's q(d,l,h,b) are a
 * matter of strides. Any strides, also 0 and negative for inputs. Hq is a multiple of Hkv (grouped and multi-query attention);
 * consecutive query heads share a key head. Dv may differ from D. D and Dv from 1; D = 0 gives scores of 0. q, k, v and o of one type
 * of f32, f64, f16, bf16; o may also be f32. Since 1.1, where q is no f64, k and v may each be of any other of these types but f64, and
 * of i8, i4, u4, f8_e4m3 and f8_e5m2; q too may be of i8, f8_e4m3 and f8_e5m2, with o of f32, f16 or bf16; o may be of these three beside
 * any such q. lse: f32, of f64 inputs f64.
 * bias: f32, f16 or bf16, of f64 inputs f64 or f32. alibi_slopes and sinks: f32, of f64 inputs f64 or f32. `bias` and `allowed` align their
 * last axis with the keys; a missing axis, extent 1 or stride 0 broadcasts.
 *
 * **Packed sequences** give cu_len_q and cu_len_k with q [1, Hq, total_q, D], k [1, Hkv, total_k, D], v, o alike, lse [1, Hq, total_q];
 * B is then the number of sequences, and the axes Lq, Lk of `bias` and `allowed` count within a sequence, up to max_len. key_lengths may
 * shorten the sequences' keys further. Rows of o and lse that belong to no sequence are not written, nor are those of a sequence beyond
 * max_len_q; keys of a sequence beyond max_len_k are not seen. Since 1.1 rows alone may be packed: cu_len_q with k and v [B, Hkv, Lk, D].
 * Lengths, and with them the BOTTOM_RIGHT corner and ALiBi's shift, are those that max_len and key_lengths leave. Where offsets decrease,
 * so that sequences share rows, such a row holds the result of one of them.
 *
 * **Paged K/V** give block_table and key_lengths: key j of entry b lies in page block_table[b, j / page_size] at j % page_size, and
 * Lk is max_pages page_size. Entries of the table past a length are not read. Not together with packed keys (cu_len_k); packed queries are.
 *
 * **Numbers of 8 and 4 bits** A number k[b,g,j,d] of i8, i4, u4, f8_e4m3 or f8_e5m2 stands for k_scale[b,g,j,d / (D / G)] k[b,g,j,d], v
 * likewise with v_scale and Dv, and q[b,h,i,d] with q_scale. G is 1, D / 32, D / 64 or D / 128 without rest, or D; a missing axis, extent 1
 * or stride 0 broadcasts: a scale for all numbers, a head [Hkv, 1, 1], a token [B, Hkv, Lk, 1], a group of a token, or a column [Hkv, 1,
 * D]. Of packed keys the axis Lk is total_k. Scales of keys that no row sees do not matter. Of 4 bits two neighbours along D share a byte:
 * that axis has stride 1 and an even extent, all other strides are even. u4 has no zero points here.
 *
 * **Results of 8 bits** (since 1.1) o of i8, f8_e4m3 or f8_e5m2 is what the formula gives, in float32, over o_scale[b,h,i,d / (Dv / G)],
 * limited and rounded as attile_quantize() does with a given scale and attile_gemm() with d_scale. Gradients want an o of more bits.
 *
 * **Fast accumulation** (since 1.1) Where q, k and v are all f8_e4m3, ATTILE_FLAG_FAST_ACCUMULATION permits a backend to sum q.k and o as
 * it does for attile_gemm(), and to round the weights exp(s_j) of o's sum, but not those of Z, to f8_e4m3, as tensor cores for 8-bit floats
 * want them. Where they are all i8, it permits to round these weights to steps of 1/255 of the largest of up to 64 neighbouring keys, or,
 * where v_scale differs from key to key, these weights times it to steps of 1/127. Where they are all f16 or all bf16 and o is f32, it
 * permits to round the largest weight of a row to their type, as all others are: parts of a result that is then merged and rounded want no
 * more. It obliges to nothing, and other types take no notice of it. The bounds on the errors are in the page on numerics.
 *
 * **Exact products** (since 1.1) With ATTILE_FLAG_EXACT_PRODUCTS, for q, k and v all f64 or all f32 and without softcap, q.k, Z and sums of
 * weights times v are exact, then rounded once to float64; scale, bias, ALiBi, exp, log and the division follow in float64 by the steps
 * that the page on numerics gives. Every NaN in o and lse is the positive quiet one without payload. No bit depends on the backend, the
 * device, threads, the batch or strides.
 *
 * Lengths, offsets and page numbers are data and cannot be checked beforehand on a device: a length or key_starts is clamped to what
 * there is, causal_offset to -2^28 .. 2^28, and keys of a page number out of range count as hidden.
 *
 * **Memory** Any kind. o and lse must not overlap any other tensor.
 *
 * **Stream** On args->stream; asynchronous if all memory is the device's.
 *
 * **Thread safety** Safe.
 *
 * @param context The context to run on.
 * @param args What to compute.
 * @return
 * - ATTILE_OK
 * - ATTILE_ERROR_INVALID_CONTEXT; ATTILE_ERROR_NULL_ARGUMENT: `args`, q, k, v or o absent, or the data of a non-empty tensor
 * - ATTILE_ERROR_STRUCT_SIZE, ATTILE_ERROR_STRUCT_TOO_NEW, ATTILE_ERROR_INVALID_FLAGS: the struct's head
 * - ATTILE_ERROR_INVALID_DTYPE, ATTILE_ERROR_INVALID_RANK, ATTILE_ERROR_INVALID_SHAPE, ATTILE_ERROR_INVALID_STRIDE,
 *   ATTILE_ERROR_OVERFLOW, ATTILE_ERROR_MISALIGNED: a tensor by itself
 * - ATTILE_ERROR_SHAPE_MISMATCH: tensors that disagree, Hq no multiple of Hkv
 * - ATTILE_ERROR_INVALID_VALUE: scale not finite in the type of the sums, softcap negative or not finite, unknown mask, window values
 *   with a mask that is no window or below -1, cu_len_k without cu_len_q, a block_table without key_lengths or with cu_len_k,
 *   causal_offset with neither a mask nor alibi_slopes, negative sizes
 * - ATTILE_ERROR_ALIASING: an output overlaps something
 * - ATTILE_ERROR_WORKSPACE_TOO_SMALL: a workspace was given, or NO_ALLOC set, and it is smaller than the query says
 * - ATTILE_ERROR_UNSUPPORTED_DTYPE, ATTILE_ERROR_UNSUPPORTED_FEATURE: exact products of other types, or with a softcap
 * - a code of block 2xxx: the backend lacks it, and attile_attention_query() says so too; 4xxx, 5xxx: memory or device
 *
 * Since 1.0.
 */
ATTILE_API int32_t attile_attention(attile_context *context, const attile_attention_args *args);

/**
 * @brief How attile_attention() would run with these arguments. Reads no tensor data; data pointers may be NULL.
 * @param context The context.
 * @param args The arguments of the call.
 * @param[in,out] support Initialised by attile_support_init().
 * @return ATTILE_OK, also when the answer is ATTILE_SUPPORT_NONE; else the argument code that attile_attention() would return. Since 1.0.
 */
ATTILE_API int32_t attile_attention_query(attile_context *context, const attile_attention_args *args, attile_support *support);

/** Arguments of attile_attention_backward(). */
typedef struct attile_attention_backward_args {
    uint32_t struct_size;                 /**< sizeof(attile_attention_backward_args). */
    uint32_t flags;                       /**< Any of ATTILE_FLAG_BATCH_INVARIANT, _NO_ALLOC, _ALLOW_SPLIT_TF32, _ALLOW_NONDETERMINISTIC. */
    const void *next;                     /**< Must be NULL. */
    void *stream;                         /**< Stream to run on; the one in `forward` is not used. */
    void *workspace;                      /**< As for attile_attention(); the one in `forward` is not used. */
    int64_t workspace_bytes;              /**< Its size. */
    const attile_attention_args *forward; /**< The forward call's arguments. Its o and lse, both required, are inputs here. */
    attile_tensor dout;                   /**< [B, Hq, Lq, Dv], gradient with respect to o. */
    attile_tensor dq;                     /**< [B, Hq, Lq, D], output. */
    attile_tensor dk;                     /**< [B, Hkv, Lk, D], output, summed over the query heads of a group. */
    attile_tensor dv;                     /**< [B, Hkv, Lk, Dv], output, likewise. */
    attile_tensor dbias;                  /**< Optional output of bias's rank and shape, summed over the axes that bias broadcasts. */
    attile_tensor dsinks;                 /**< Optional output, [Hq]. */
    attile_tensor dlse;                   /**< Optional, [B, Hq, Lq], gradient with respect to lse, of lse's type. Since 1.1. */
} attile_attention_backward_args;

/** @brief Zero the arguments and stamp their size. @param args What to initialise; NULL does nothing. @param size sizeof *args. Since 1.0.
 */
ATTILE_API void attile_attention_backward_init(attile_attention_backward_args *args, uint64_t size);

/**
 * @brief Gradients of attile_attention().
 *
 * **Formula** with p_ij = exp(s_ij - lse_i) and delta_i = sum_d dout_id o_id - dlse_i (dlse_i is 0 where it is absent): dv_j = sum_i p_ij
 * dout_i; dp_ij = sum_d dout_id v_jd; ds_ij = p_ij (dp_ij - delta_i), which is dbias; through softcap ds_ij (1 - (c_ij / softcap)^2), c the
 * capped score; then dq_i = scale sum_j ds_ij k_j; dk_j = scale sum_i ds_ij q_i; dsink = - sum_i exp(sink - lse_i) delta_i. Hidden pairs
 * contribute nothing; keys and rows that take part in nothing get 0. With packed sequences the same axes are packed in the gradients. Rows
 * of q, k, v beyond the sequences' ends get gradient 0.
 *
 * **Shapes, memory, stream, thread safety** as attile_attention(); dout of q's type or o's; dq, dk, dv of q's type or f32 each; dbias and
 * dsinks of bias's and sinks' type or f32. Paged K/V is refused with ATTILE_ERROR_UNSUPPORTED_FEATURE.
 *
 * @param context The context to run on.
 * @param args What to compute.
 * @return As attile_attention(); ATTILE_ERROR_NULL_ARGUMENT also for an absent `forward`, lse, dout, dq, dk or dv;
 *   ATTILE_ERROR_INVALID_VALUE for dbias without bias or dsinks without sinks. Since 1.0.
 */
ATTILE_API int32_t attile_attention_backward(attile_context *context, const attile_attention_backward_args *args);

/**
 * @brief How attile_attention_backward() would run with these arguments. Reads no tensor data; data pointers may be NULL.
 * @param context The context.
 * @param args The arguments of the call.
 * @param[in,out] support Initialised by attile_support_init().
 * @return As attile_attention_query(). Since 1.0.
 */
ATTILE_API int32_t attile_attention_backward_query(attile_context *context, const attile_attention_backward_args *args,
                                                   attile_support *support);

/** Arguments of attile_attention_merge(). */
typedef struct attile_attention_merge_args {
    uint32_t struct_size;           /**< sizeof(attile_attention_merge_args). */
    uint32_t flags;                 /**< Any of ATTILE_FLAG_BATCH_INVARIANT, _NO_ALLOC, _EXACT_PRODUCTS. */
    const void *next;               /**< Must be NULL. */
    void *stream;                   /**< Stream to run on; NULL: the default stream. */
    void *workspace;                /**< As for attile_attention(). */
    int64_t workspace_bytes;        /**< Its size. */
    const attile_tensor *o_parts;   /**< `parts` tensors [B, H, L, Dv], all of one type. */
    const attile_tensor *lse_parts; /**< `parts` tensors [B, H, L], f32, or f64 with f64 parts. */
    int64_t parts;                  /**< How many, at least 1. */
    attile_tensor o;                /**< [B, H, L, Dv], output, of the parts' type or any narrower. May be the same view as any one part. */
    attile_tensor lse;              /**< [B, H, L], optional output. May be the same view as any one part's. */
} attile_attention_merge_args;

/** @brief Zero the arguments and stamp their size. @param args What to initialise; NULL does nothing. @param size sizeof *args. Since 1.0.
 */
ATTILE_API void attile_attention_merge_init(attile_attention_merge_args *args, uint64_t size);

/**
 * @brief Combine attention results over disjoint ranges of keys into the result over all of them.
 *
 * **Formula** lse = log sum_p exp(lse_p); o = sum_p exp(lse_p - lse) o_p. A part with lse_p = -inf contributes nothing, whatever its o
 * holds; if all are, o = 0 and lse = -inf.
 *
 * **Exact sums** (since 1.1) With ATTILE_FLAG_EXACT_PRODUCTS, sums and products of weights and o_p are exact, then rounded once to float64;
 * exp, log and the division follow in float64 by steps that the page on numerics gives, and results are rounded once to their types. Every
 * NaN is the positive quiet one without payload. No bit depends on the backend, the device, threads or strides.
 *
 * **Shapes, strides, memory, stream, thread safety** as attile_attention(). A sink must have been given to one part only.
 *
 * @param context The context to run on.
 * @param args What to compute.
 * @return As attile_attention(); ATTILE_ERROR_INVALID_VALUE: `parts` below 1; ATTILE_ERROR_UNSUPPORTED_FEATURE: a backend without exact
 * sums. Since 1.0.
 */
ATTILE_API int32_t attile_attention_merge(attile_context *context, const attile_attention_merge_args *args);

/**
 * @brief How attile_attention_merge() would run with these arguments. Reads no tensor data.
 * @param context The context.
 * @param args The arguments of the call.
 * @param[in,out] support Initialised by attile_support_init().
 * @return As attile_attention_query(). Since 1.0.
 */
ATTILE_API int32_t attile_attention_merge_query(attile_context *context, const attile_attention_merge_args *args, attile_support *support);

/** Arguments of attile_attention_merge_backward(). */
typedef struct attile_attention_merge_backward_args {
    uint32_t struct_size;                       /**< sizeof(attile_attention_merge_backward_args). */
    uint32_t flags;                             /**< Any of ATTILE_FLAG_BATCH_INVARIANT, _NO_ALLOC. */
    const void *next;                           /**< Must be NULL. */
    void *stream;                               /**< Stream to run on; the one in `forward` is not used. */
    void *workspace;                            /**< As for attile_attention(); the one in `forward` is not used. */
    int64_t workspace_bytes;                    /**< Its size. */
    const attile_attention_merge_args *forward; /**< The forward call's arguments. Its parts, o and lse, all required, are inputs here. */
    attile_tensor dout;                         /**< [B, H, L, Dv], gradient with respect to o, of o's type or the parts'. */
    attile_tensor dlse;                         /**< Optional, [B, H, L], gradient with respect to lse, of lse's type. */
    const attile_tensor *do_parts;              /**< `forward->parts` outputs [B, H, L, Dv], all of one type: that of o_parts, or f32. */
    const attile_tensor *dlse_parts;            /**< `forward->parts` outputs [B, H, L], of lse's type. */
} attile_attention_merge_backward_args;

/** @brief Zero the arguments and stamp their size. @param args What to initialise; NULL does nothing. @param size sizeof *args. Since 1.1.
 */
ATTILE_API void attile_attention_merge_backward_init(attile_attention_merge_backward_args *args, uint64_t size);

/**
 * @brief Gradients of attile_attention_merge() with respect to its parts.
 *
 * **Formula** with w_p = exp(lse_p - lse): do_p = w_p dout; dlse_p = w_p (sum_d dout_d (o_p,d - o_d) + dlse). A part with lse_p = -inf
 * gets zeros, whatever its o holds; where lse = -inf all parts do. o is taken as it is stored, rounded to its type.
 *
 * **With attention** attile_attention_backward() of one part's keys takes do_p as dout and dlse_p as the gradient of its lse, with the
 * part's own o_p and lse_p. The gradients of q add up over the parts; those of k and v belong to the part's keys alone.
 *
 * **Shapes, strides, memory, stream, thread safety** as attile_attention_merge(). o and lse are those that the forward call wrote. They
 * must not overlap a part, which would then be lost. An output must not overlap any other tensor.
 *
 * @param context The context to run on.
 * @param args What to compute.
 * @return As attile_attention_merge(); ATTILE_ERROR_NULL_ARGUMENT also for an absent `forward`, forward->lse, dout, do_parts or dlse_parts;
 *   ATTILE_ERROR_ALIASING also where forward->o or forward->lse overlaps a part. Since 1.1.
 */
ATTILE_API int32_t attile_attention_merge_backward(attile_context *context, const attile_attention_merge_backward_args *args);

/**
 * @brief How attile_attention_merge_backward() would run with these arguments. Reads no tensor data; data pointers may be NULL.
 * @param context The context.
 * @param args The arguments of the call.
 * @param[in,out] support Initialised by attile_support_init().
 * @return As attile_attention_query(). Since 1.1.
 */
ATTILE_API int32_t attile_attention_merge_backward_query(attile_context *context, const attile_attention_merge_backward_args *args,
                                                         attile_support *support);
/** @} */

/**
 * @defgroup prepared Prepared calls
 *
 * A call that is launched many times with other memory, such as a step of decoding, is validated and planned once.
 * @{
 */
/** A call of attile_gemm() or attile_attention() that was validated and planned. Opaque, and no address: never given out a second time. */
typedef struct attile_prepared attile_prepared;

/** Where the operands of a prepared attile_gemm() are in one launch. NULL: where they were when it was prepared. */
typedef struct attile_gemm_pointers {
    uint32_t struct_size;    /**< sizeof(attile_gemm_pointers); attile_gemm_pointers_init() sets it. */
    uint32_t flags;          /**< Must be 0; those of the operation are as they were prepared. */
    const void *next;        /**< Must be NULL. */
    void *stream;            /**< Stream to run on; NULL: the default stream. */
    void *workspace;         /**< As for attile_gemm(). */
    int64_t workspace_bytes; /**< Its size. */
    void *a;                 /**< First element of a, */
    void *b;                 /**< of b, */
    void *c;                 /**< of c, */
    void *d;                 /**< of d, */
    void *bias;              /**< of bias. */
    void *a_scale;           /**< of a_scale. Since 1.1. */
    void *b_scale;           /**< of b_scale. Since 1.1. */
    void *b_zero;            /**< of b_zero. Since 1.1. */
    void *d_scale;           /**< of d_scale. Since 1.1. */
} attile_gemm_pointers;

/** Where the operands of a prepared attile_attention() are in one launch. NULL: where they were when it was prepared. */
typedef struct attile_attention_pointers {
    uint32_t struct_size;    /**< sizeof(attile_attention_pointers); attile_attention_pointers_init() sets it. */
    uint32_t flags;          /**< Must be 0; those of the operation are as they were prepared. */
    const void *next;        /**< Must be NULL. */
    void *stream;            /**< Stream to run on; NULL: the default stream. */
    void *workspace;         /**< As for attile_attention(). */
    int64_t workspace_bytes; /**< Its size. */
    void *q;                 /**< First element of q, */
    void *k;                 /**< of k, */
    void *v;                 /**< of v, */
    void *o;                 /**< of o, */
    void *lse;               /**< and so on. */
    void *bias;              /**< See attile_attention_args. */
    void *allowed;           /**< Likewise. */
    void *alibi_slopes;      /**< Likewise. */
    void *sinks;             /**< Likewise. */
    void *key_lengths;       /**< Likewise. */
    void *cu_len_q;          /**< Likewise. */
    void *cu_len_k;          /**< Likewise. */
    void *block_table;       /**< Likewise. */
    void *key_starts;        /**< Likewise. Since 1.1. */
    void *causal_offset;     /**< Likewise. Since 1.1. */
    void *block_mask;        /**< Likewise. Since 1.1. */
    void *tree_mask;         /**< Likewise. Since 1.1. */
    void *k_scale;           /**< Likewise. Since 1.1. */
    void *v_scale;           /**< Likewise. Since 1.1. */
    void *q_scale;           /**< Likewise. Since 1.1. */
    void *o_scale;           /**< Likewise. Since 1.1. */
} attile_attention_pointers;

/** @brief Zero the pointers and stamp their size. @param pointers What to initialise; NULL does nothing. @param size sizeof *pointers.
 * Since 1.0. */
ATTILE_API void attile_gemm_pointers_init(attile_gemm_pointers *pointers, uint64_t size);

/** @brief Zero the pointers and stamp their size. @param pointers What to initialise; NULL does nothing. @param size sizeof *pointers.
 * Since 1.0. */
ATTILE_API void attile_attention_pointers_init(attile_attention_pointers *pointers, uint64_t size);

/**
 * @brief Validate and plan a call of attile_gemm(), for attile_gemm_run(). Nothing is computed.
 *
 * The arguments are copied: args may change or end afterwards. Memory that they point to need not live on either, if every launch
 * names other memory.
 * @param context The context that it will run on.
 * @param args The arguments of the call, data pointers included.
 * @param[out] prepared The prepared call, to be destroyed by attile_prepared_destroy(); set to NULL on failure.
 * @return As attile_gemm(), whose failures come here; ATTILE_ERROR_NULL_ARGUMENT: `prepared`; ATTILE_ERROR_OUT_OF_HOST_MEMORY: also if
 *   65536 prepared calls are alive. Thread safety: safe. Since 1.0.
 */
ATTILE_API int32_t attile_gemm_prepare(attile_context *context, const attile_gemm_args *args, attile_prepared **prepared);

/**
 * @brief Validate and plan a call of attile_attention(), for attile_attention_run(). Nothing is computed.
 * @param context The context that it will run on.
 * @param args The arguments of the call, data pointers included; copied.
 * @param[out] prepared The prepared call, to be destroyed by attile_prepared_destroy(); set to NULL on failure.
 * @return As attile_attention() and attile_gemm_prepare(). Thread safety: safe. Since 1.0.
 */
ATTILE_API int32_t attile_attention_prepare(attile_context *context, const attile_attention_args *args, attile_prepared **prepared);

/**
 * @brief Launch a prepared attile_gemm(): the same call with operands elsewhere.
 *
 * Shapes, strides, types, factors and flags are as prepared. Results, memory, stream and asynchrony are those of attile_gemm() with
 * such arguments. A pointer must be a multiple of the power of two, up to 16, that the prepared one was a multiple of.
 *
 * **Thread safety** Safe: any number of threads may launch one prepared call at once; none may while it or its context is destroyed.
 * @param prepared What attile_gemm_prepare() gave.
 * @param pointers Where the operands are; NULL: all of it, stream and workspace too, as prepared.
 * @return
 * - ATTILE_OK
 * - ATTILE_ERROR_NULL_ARGUMENT: `prepared`
 * - ATTILE_ERROR_INVALID_VALUE: `prepared` was destroyed, is no prepared call, or one of another operation; a pointer for an operand
 *   that the prepared call does not have; negative workspace_bytes
 * - ATTILE_ERROR_INVALID_CONTEXT: its context was destroyed
 * - ATTILE_ERROR_STRUCT_SIZE, ATTILE_ERROR_STRUCT_TOO_NEW, ATTILE_ERROR_INVALID_FLAGS: the struct's head
 * - ATTILE_ERROR_MISALIGNED: a pointer is less aligned than the prepared one
 * - ATTILE_ERROR_ALIASING, ATTILE_ERROR_OVERFLOW, ATTILE_ERROR_WORKSPACE_TOO_SMALL: as attile_gemm()
 * - a code of block 2xxx, 4xxx or 5xxx: as attile_gemm()
 *
 * Since 1.0.
 */
ATTILE_API int32_t attile_gemm_run(attile_prepared *prepared, const attile_gemm_pointers *pointers);

/**
 * @brief Launch a prepared attile_attention(): the same call with operands elsewhere. All else as attile_gemm_run().
 *
 * What lengths, offsets and page tables hold may differ from launch to launch; max_len_q and max_len_k are as prepared.
 * @param prepared What attile_attention_prepare() gave.
 * @param pointers Where the operands are; NULL: all of it, stream and workspace too, as prepared.
 * @return As attile_gemm_run(). Since 1.0.
 */
ATTILE_API int32_t attile_attention_run(attile_prepared *prepared, const attile_attention_pointers *pointers);

/**
 * @brief Destroy a prepared call. Work that it has queued goes on.
 * @param prepared A prepared call that no other thread is using, its context alive or not; NULL, and one that was destroyed before, does
 *   nothing. Since 1.0.
 */
ATTILE_API void attile_prepared_destroy(attile_prepared *prepared);
/** @} */

/**
 * @defgroup reductions Reductions and softmax
 * @{
 */
#define ATTILE_REDUCE_SUM 1  /**< Sum; 0 over no elements. */
#define ATTILE_REDUCE_MAX 2  /**< Largest; NaN if any is; -inf over no elements. */
#define ATTILE_REDUCE_MIN 3  /**< Smallest; NaN if any is; +inf over no elements. */
#define ATTILE_REDUCE_MEAN 4 /**< Sum over count; NaN over no elements. */

/** Arguments of attile_reduce(). */
typedef struct attile_reduce_args {
    uint32_t struct_size;    /**< sizeof(attile_reduce_args). */
    uint32_t flags;          /**< Any of ATTILE_FLAG_BATCH_INVARIANT, _NO_ALLOC, _EXACT_PRODUCTS. */
    const void *next;        /**< Must be NULL. */
    void *stream;            /**< Stream to run on; NULL: the default stream. */
    void *workspace;         /**< As for attile_gemm(). */
    int64_t workspace_bytes; /**< Its size. */
    attile_tensor x;         /**< Input, rank 1 to 4, f32, f64, f16 or bf16. */
    attile_tensor y;         /**< Output of the same rank, extent 1 on `axis`, x's others elsewhere; x's type or f32 for f16 and bf16. */
    int32_t op;              /**< ATTILE_REDUCE_ constant. */
    int32_t axis;            /**< 0 to rank - 1, or -1 to -rank counted from the last. */
} attile_reduce_args;

/** @brief Zero the arguments and stamp their size. @param args What to initialise; NULL does nothing. @param size sizeof *args. Since 1.0.
 */
ATTILE_API void attile_reduce_init(attile_reduce_args *args, uint64_t size);

/**
 * @brief Reduce one axis: y = sum, max, min or mean of x over it.
 *
 * **Exact sums** (since 1.1) With ATTILE_FLAG_EXACT_PRODUCTS the sum is exact, then rounded once to float64; the mean is that over the
 * count, rounded to float64; y is rounded once to its type. A sum of 0 is +0, of zeros of both signs the maximum is +0 and the minimum -0,
 * and every NaN is the positive quiet one without payload. No bit depends on the backend, the device, threads or strides.
 *
 * **Shapes and strides** any; y must not overlap x. **Memory, stream, thread safety** as attile_gemm().
 * @param context The context to run on.
 * @param args What to compute.
 * @return As attile_gemm(); ATTILE_ERROR_INVALID_VALUE: unknown op, or an axis outside the rank; ATTILE_ERROR_UNSUPPORTED_FEATURE: a
 * backend without exact sums. Since 1.0.
 */
ATTILE_API int32_t attile_reduce(attile_context *context, const attile_reduce_args *args);

/**
 * @brief How attile_reduce() would run with these arguments. Reads no tensor data.
 * @param context The context.
 * @param args The arguments of the call.
 * @param[in,out] support Initialised by attile_support_init().
 * @return As attile_gemm_query(). Since 1.0.
 */
ATTILE_API int32_t attile_reduce_query(attile_context *context, const attile_reduce_args *args, attile_support *support);

/** Arguments of attile_softmax(). */
typedef struct attile_softmax_args {
    uint32_t struct_size;    /**< sizeof(attile_softmax_args). */
    uint32_t flags;          /**< Any of ATTILE_FLAG_BATCH_INVARIANT, _NO_ALLOC, _EXACT_PRODUCTS. */
    const void *next;        /**< Must be NULL. */
    void *stream;            /**< Stream to run on; NULL: the default stream. */
    void *workspace;         /**< As for attile_gemm(). */
    int64_t workspace_bytes; /**< Its size. */
    attile_tensor x;         /**< Input, rank 1 to 4, f32, f64, f16 or bf16. */
    attile_tensor y;         /**< Output, shape of x, x's type or f32 for f16 and bf16. May be the same view as x. */
    int32_t axis;            /**< 0 to rank - 1, or -1 to -rank counted from the last. */
    int32_t reserved;        /**< Must be 0. */
} attile_softmax_args;

/** @brief Zero the arguments and stamp their size. @param args What to initialise; NULL does nothing. @param size sizeof *args. Since 1.0.
 */
ATTILE_API void attile_softmax_init(attile_softmax_args *args, uint64_t size);

/**
 * @brief Softmax over one axis, y = exp(x - max) / sum exp(x - max).
 *
 * A row of -inf alone gives zeros, as a row without keys does in attention; a row that holds NaN or +inf gives NaN.
 *
 * **Exact sums** (since 1.1) With ATTILE_FLAG_EXACT_PRODUCTS the sum of the weights is exact, then rounded once to float64; exp and the
 * division are those of attile_attention_merge(), and y is rounded once to its type. No bit depends on the backend, the device, threads or
 * strides.
 *
 * **Shapes and strides** any; y overlaps x exactly or not at all. **Memory, stream, thread safety** as attile_gemm().
 * @param context The context to run on.
 * @param args What to compute.
 * @return As attile_gemm(); ATTILE_ERROR_INVALID_VALUE: an axis outside the rank; ATTILE_ERROR_UNSUPPORTED_FEATURE: a backend without
 * exact sums. Since 1.0.
 */
ATTILE_API int32_t attile_softmax(attile_context *context, const attile_softmax_args *args);

/**
 * @brief How attile_softmax() would run with these arguments. Reads no tensor data.
 * @param context The context.
 * @param args The arguments of the call.
 * @param[in,out] support Initialised by attile_support_init().
 * @return As attile_gemm_query(). Since 1.0.
 */
ATTILE_API int32_t attile_softmax_query(attile_context *context, const attile_softmax_args *args, attile_support *support);
/** @} */

/**
 * @defgroup quantisation Quantisation
 * @{
 */
#define ATTILE_SCALE_FROM_MAXIMUM 0 /**< A block's scale is its largest magnitude over the largest number of q's type. Since 1.1. */
#define ATTILE_SCALE_GIVEN 1        /**< Scales are read. Since 1.1. */

#define ATTILE_ROPE_HALVES 0      /**< Numbers i and i + R / 2 are a pair, as of GPT-NeoX, and of Llama in Hugging Face. Since 1.1. */
#define ATTILE_ROPE_INTERLEAVED 1 /**< Numbers 2i and 2i + 1 are a pair, as of GPT-J. Since 1.1. */

/** Arguments of attile_quantize(). Since 1.1. */
typedef struct attile_quantize_args {
    uint32_t struct_size;    /**< sizeof(attile_quantize_args). */
    uint32_t flags;          /**< Any of ATTILE_FLAG_BATCH_INVARIANT, _NO_ALLOC. */
    const void *next;        /**< Must be NULL. */
    void *stream;            /**< Stream to run on; NULL: the default stream. */
    void *workspace;         /**< As for attile_gemm(). */
    int64_t workspace_bytes; /**< Its size. */
    attile_tensor x;         /**< Input, rank 1 to 4, f32, f16 or bf16. */
    attile_tensor q;         /**< Output, shape of x, or a cache; i8, f8_e4m3, f8_e5m2, i4 or u4, or f32, f16 or bf16 without scale. */
    attile_tensor scale;     /**< f32, one for a block of x: an output; with ATTILE_SCALE_GIVEN an input, absent: 1. */
    int32_t scale_mode;      /**< ATTILE_SCALE_ constant. */
    int32_t hadamard;        /**< Numbers along the last axis that are rotated together; 0: none are. */
    attile_tensor zero;      /**< f32, shape of scale, beside q of u4 alone: an output; with ATTILE_SCALE_GIVEN an input, absent: 0. */
    attile_tensor rope_cos;  /**< Optional, f32 [P, R / 2]: cosines of the angles of each position: R numbers of a row are rotated. */
    attile_tensor rope_sin;  /**< f32 [P, R / 2], beside rope_cos: sines. */
    attile_tensor positions; /**< Optional, i32 or i64, [L] or [B, L], beside rope_cos: each row's position; absent: as key_lengths says. */
    attile_tensor key_lengths; /**< i32 [B]: keys of each batch entry, the rows of x being the last of them. */
    attile_tensor block_table; /**< Paged q: i32 [B, max_pages], the page that holds each run of page_size rows. */
    int32_t rope_layout;       /**< ATTILE_ROPE_ constant. */
    int32_t append;            /**< 1: q is a cache, to which rows are appended; 0: q has x's shape. */
} attile_quantize_args;

/** @brief Zero the arguments and stamp their size. @param args What to initialise; NULL does nothing. @param size sizeof *args. Since 1.1.
 */
ATTILE_API void attile_quantize_init(attile_quantize_args *args, uint64_t size);

/**
 * @brief Numbers of 8 or 4 bits from others: q = x / scale, to the nearest number of q's type, of two as near the even one.
 *
 * What is beyond the largest number of the type becomes that, with its sign, infinities too. That number is 127 of i8, 448 of f8_e4m3 and
 * 57344 of f8_e5m2; there is no -128. NaN is NaN in 8-bit floats and 0 in integers.
 *
 * **4 bits** q's last axis is the one of stride 1. The largest number of i4 is 7, and there is no -8. u4 has zero points:
 * q = x / scale + zero, limited to 0 and 15. With ATTILE_SCALE_FROM_MAXIMUM zero is written, too: of a block whose numbers, and 0, reach
 * from low to high, scale is high / 15 - low / 15, and zero the nearest integer to -low / scale, so that a 0 stays 0; where scale is 0 or
 * NaN, it is 0.
 *
 * **Scales** scale has a rank of up to x's, and its axes are x's last ones; missing axes count as extent 1. An axis of x of extent N has
 * in scale extent 1 (all of it shares a scale), N (nothing does), or, if it is one of the last two, N / 32, N / 64 or N / 128, without
 * rest. So they are laid out as the a_scale or b_scale of attile_gemm(). With ATTILE_SCALE_FROM_MAXIMUM scale is written: the largest
 * magnitude of the block over the largest number of the type, rounded to f32. A block whose scale is 0, as one of zeros, has numbers 0. A
 * block with a NaN or an infinity has scale NaN. With ATTILE_SCALE_GIVEN scale is read; a scale may be negative, and a scale of 0 makes
 * numbers 0.
 *
 * **Rotation** With `hadamard` H, a power of two from 2 to 512 that divides x's last extent, each H numbers along that axis are first
 * multiplied by the Hadamard matrix of Sylvester, H_1 = 1 and H_2n = (H_n, H_n; H_n, -H_n), over sqrt H. The matrix is its own inverse. An
 * outlier spreads over its H numbers; products of two operands whose depth is rotated alike are those of the operands themselves.
 *
 * **Rotary embedding** With rope_cos and rope_sin the first R numbers of each row along x's last axis are rotated in pairs, before
 * everything else: of a pair (a, b), the i-th of R / 2, in a row of position p, a becomes a cos[p, i] - b sin[p, i], and b becomes
 * b cos[p, i] + a sin[p, i]. rope_layout says which two numbers are a pair; the others of a row stay. Rows are those of x's last but one
 * axis, L of them, and if x has rank 4 its first axis is the batch, of extent B, else B is 1. The position of row i of entry b is
 * positions[b, i]; without positions it is key_lengths[b] - L + i, and i where that is absent, too. It is clamped to 0 .. P - 1.
 *
 * **Into a cache** With append x is [B, H, L, D], and q is what attile_attention() takes as k or v: [B, H, Lk, D], or, with block_table,
 * pages [pages, H, page_size, D], with Lk = max_pages page_size. key_lengths and block_table are attention's: row i of entry b becomes
 * key j = key_lengths[b] - L + i, in a page at block_table[b, j / page_size], j % page_size. A key before 0, from Lk on or in a page
 * number out of range is not written, nor is any other row of q, so that a length of 0 leaves an entry alone. The same tensors serve the
 * attention call that follows. scale and zero have the shape [q.shape[0], H, q.shape[2], G], with G as attention's k_scale has it, and
 * are written where the rows of q are; given ones are read there, and broadcast by a missing axis, extent 1 or stride 0. No two rows
 * of x may have the same place in q, as of two entries with one page: what is there is then undefined.
 *
 * **Numbers of f32, f16 and bf16** in q are x, rotated if asked for, rounded to nearest even; scale is absent.
 *
 * All arithmetic is in f32, in an order that is part of the definition: every backend gives the same bits (the page on numerics).
 *
 * **Shapes and strides** any; outputs must not overlap each other or an input. If x has no element, nothing is written. **Memory, stream,
 * thread safety** as attile_gemm().
 * @param context The context to run on.
 * @param args What to compute.
 * @return As attile_gemm(); ATTILE_ERROR_NULL_ARGUMENT: scale, or u4's zero, is absent and not given; ATTILE_ERROR_INVALID_VALUE: an
 * unknown scale_mode or rope_layout, a zero beside another type, a scale beside numbers that have none, a hadamard that is no such number,
 * one of rope_cos and rope_sin alone, positions without them, key_lengths that nothing asks for, append without key_lengths, block_table
 * without append; ATTILE_ERROR_SHAPE_MISMATCH: q is not of x's shape, or no cache for it, R is beyond x's last extent, or scales do not
 * divide x into blocks. Since 1.1.
 */
ATTILE_API int32_t attile_quantize(attile_context *context, const attile_quantize_args *args);

/**
 * @brief How attile_quantize() would run with these arguments. Reads no tensor data.
 * @param context The context.
 * @param args The arguments of the call.
 * @param[in,out] support Initialised by attile_support_init().
 * @return As attile_gemm_query(). Since 1.1.
 */
ATTILE_API int32_t attile_quantize_query(attile_context *context, const attile_quantize_args *args, attile_support *support);

/** Arguments of attile_dequantize(). Since 1.1. */
typedef struct attile_dequantize_args {
    uint32_t struct_size;    /**< sizeof(attile_dequantize_args). */
    uint32_t flags;          /**< Any of ATTILE_FLAG_BATCH_INVARIANT, _NO_ALLOC. */
    const void *next;        /**< Must be NULL. */
    void *stream;            /**< Stream to run on; NULL: the default stream. */
    void *workspace;         /**< As for attile_gemm(). */
    int64_t workspace_bytes; /**< Its size. */
    attile_tensor q;         /**< Input, rank 1 to 4, i8, f8_e4m3, f8_e5m2, i4 or u4. */
    attile_tensor scale;     /**< Input, f32, as attile_quantize() has it; absent: 1. */
    attile_tensor x;         /**< Output, shape of q, f32, f16 or bf16. */
    int32_t hadamard;        /**< What attile_quantize() was given. */
    int32_t reserved;        /**< Must be 0. */
    attile_tensor zero;      /**< Input, f32, shape of scale, beside q of u4 alone; absent: 0. */
} attile_dequantize_args;

/** @brief Zero the arguments and stamp their size. @param args What to initialise; NULL does nothing. @param size sizeof *args. Since 1.1.
 */
ATTILE_API void attile_dequantize_init(attile_dequantize_args *args, uint64_t size);

/**
 * @brief Back: x = scale q, of u4 scale (q - zero), in f32, rotated back, rounded to x's type.
 *
 * **Scales, rotation, shapes, strides, memory, stream, thread safety** as attile_quantize(); x must not overlap q or scale.
 * @param context The context to run on.
 * @param args What to compute.
 * @return As attile_quantize(). Since 1.1.
 */
ATTILE_API int32_t attile_dequantize(attile_context *context, const attile_dequantize_args *args);

/**
 * @brief How attile_dequantize() would run with these arguments. Reads no tensor data.
 * @param context The context.
 * @param args The arguments of the call.
 * @param[in,out] support Initialised by attile_support_init().
 * @return As attile_gemm_query(). Since 1.1.
 */
ATTILE_API int32_t attile_dequantize_query(attile_context *context, const attile_dequantize_args *args, attile_support *support);

/* A format's number is that of its ggml_type. */
#define ATTILE_GGML_Q4_0 2  /**< Blocks of 32 numbers, 18 bytes: a scale, and 4 bits each. Since 1.1. */
#define ATTILE_GGML_Q8_0 8  /**< Blocks of 32 numbers, 34 bytes: a scale, and 8 bits each. Since 1.1. */
#define ATTILE_GGML_Q4_K 12 /**< Blocks of 256 numbers, 144 bytes: 8 groups with a scale and a minimum, and 4 bits each. Since 1.1. */
#define ATTILE_GGML_Q6_K 14 /**< Blocks of 256 numbers, 210 bytes: 16 groups with a scale, and 6 bits each. Since 1.1. */

/** Arguments of attile_repack(). Since 1.1. */
typedef struct attile_repack_args {
    uint32_t struct_size;    /**< sizeof(attile_repack_args). */
    uint32_t flags;          /**< Any of ATTILE_FLAG_BATCH_INVARIANT, _NO_ALLOC. */
    const void *next;        /**< Must be NULL. */
    void *stream;            /**< Stream to run on; NULL: the default stream. */
    void *workspace;         /**< As for attile_gemm(). */
    int64_t workspace_bytes; /**< Its size. */
    attile_tensor blocks;    /**< Input, u8 [.., bytes], rank 1 to 4: rows of blocks as they lie in memory, the last axis of stride 1. */
    attile_tensor q;         /**< Output [.., K] of blocks' rank: i8 of Q8_0 and Q6_K, i4 of Q4_0, u4 of Q4_K. */
    attile_tensor scale;     /**< Output, f32 [.., K / 32]. */
    attile_tensor zero;      /**< Output, f32 [.., K / 32], of Q4_K alone. */
    int32_t format;          /**< ATTILE_GGML_ constant. */
    int32_t reserved;        /**< Must be 0. */
} attile_repack_args;

/** @brief Zero the arguments and stamp their size. @param args What to initialise; NULL does nothing. @param size sizeof *args. Since 1.1.
 */
ATTILE_API void attile_repack_init(attile_repack_args *args, uint64_t size);

/**
 * @brief ggml's blocks of quantised numbers as tensors that attile_gemm() and attile_dequantize() take, with a scale for 32 numbers.
 *
 * A row of K numbers is K / 32 or K / 256 blocks, one behind the other. With N rows [N, K] the matrix B of attile_gemm() is q as [K, N],
 * b_scale scale as [K / 32, N], b_zero zero likewise: the same memory with its two strides exchanged.
 *
 * **Q8_0, Q4_0** q is the block's number, of Q4_0 less 8; scale is its scale. Exact.
 *
 * **Q4_K** Number v of a group with the scale s = d sc and the minimum m = dmin mn is s v - m. q is v, scale is s and zero m / s, rounded
 * to f32: off by 2^-24 |m| at most. Where s is 0, q is 0, scale is m and zero 1, which is exact.
 *
 * **Q6_K** Number v, from -32 to 31, of a group of 16 is d sc v, sc being an int8. Of each two groups with greatest common divisor g of
 * their sc, q is (sc / g) v and scale d g, exactly, where no (sc / g) v is beyond 127; else, M being the largest |sc v| of the 32 numbers,
 * scale is d M / 127, and q the nearest integer to 127 sc v / M, of two the even one: off by half a step, |d| M / 254, at most, plus the
 * rounding of scale.
 *
 * **Shapes and strides** any but the last axes': stride 1 of blocks, and of q if it has 4 bits. Outputs must not overlap each other or
 * blocks. **Memory, stream, thread safety** as attile_gemm(); blocks need no alignment.
 * @param context The context to run on.
 * @param args What to compute.
 * @return As attile_gemm(); ATTILE_ERROR_INVALID_VALUE: an unknown format, a zero beside another format than Q4_K;
 * ATTILE_ERROR_INVALID_SHAPE: K is no multiple of the format's block; ATTILE_ERROR_SHAPE_MISMATCH: shapes that do not belong together.
 * Since 1.1.
 */
ATTILE_API int32_t attile_repack(attile_context *context, const attile_repack_args *args);

/**
 * @brief How attile_repack() would run with these arguments. Reads no tensor data.
 * @param context The context.
 * @param args The arguments of the call.
 * @param[in,out] support Initialised by attile_support_init().
 * @return As attile_gemm_query(). Since 1.1.
 */
ATTILE_API int32_t attile_repack_query(attile_context *context, const attile_repack_args *args, attile_support *support);
/** @} */

/**
 * @defgroup blas BLAS names
 * @{
 */
#define ATTILE_ROW_MAJOR 101  /**< As CBLAS. */
#define ATTILE_COL_MAJOR 102  /**< As CBLAS and Fortran. */
#define ATTILE_NO_TRANS 111   /**< op(X) = X */
#define ATTILE_TRANS 112      /**< op(X) = X^T */
#define ATTILE_CONJ_TRANS 113 /**< As ATTILE_TRANS: the data are real. */

/**
 * @brief C = alpha op(A) op(B) + beta C in float32, with the arguments of BLAS.
 *
 * op(A) is m by k, op(B) k by n, C m by n. A leading dimension is the distance between columns (column-major) or rows (row-major)
 * and at least max(1, the extent along them). Any kind of memory; the default stream; attile_gemm() has more choice. If the environment
 * variable ATTILE_GEMM was "exact" when the context was made, products are exact, as with ATTILE_FLAG_EXACT_PRODUCTS (since 1.1).
 * @param context The context to run on.
 * @param order ATTILE_ROW_MAJOR or ATTILE_COL_MAJOR.
 * @param transa ATTILE_NO_TRANS, ATTILE_TRANS or ATTILE_CONJ_TRANS.
 * @param transb Likewise for B.
 * @param m Rows of op(A) and C.
 * @param n Columns of op(B) and C.
 * @param k Columns of op(A), rows of op(B).
 * @param alpha Factor; A and B are not read if it is 0.
 * @param a A.
 * @param lda Leading dimension of A.
 * @param b B.
 * @param ldb Leading dimension of B.
 * @param beta Factor; C is not read if it is 0.
 * @param[in,out] c C.
 * @param ldc Leading dimension of C.
 * @return As attile_gemm(); ATTILE_ERROR_INVALID_VALUE: unknown order or transposition, a leading dimension too small;
 *   ATTILE_ERROR_INVALID_SHAPE: a negative extent.
 *
 * Thread safety: safe. Since 1.0.
 */
ATTILE_API int32_t attile_sgemm(attile_context *context, int32_t order, int32_t transa, int32_t transb, int64_t m, int64_t n, int64_t k,
                                double alpha, const float *a, int64_t lda, const float *b, int64_t ldb, double beta, float *c, int64_t ldc);

/**
 * @brief C = alpha op(A) op(B) + beta C in float64; all else as attile_sgemm().
 * @param context The context to run on.
 * @param order ATTILE_ROW_MAJOR or ATTILE_COL_MAJOR.
 * @param transa ATTILE_NO_TRANS, ATTILE_TRANS or ATTILE_CONJ_TRANS.
 * @param transb Likewise for B.
 * @param m Rows of op(A) and C.
 * @param n Columns of op(B) and C.
 * @param k Columns of op(A), rows of op(B).
 * @param alpha Factor; A and B are not read if it is 0.
 * @param a A.
 * @param lda Leading dimension of A.
 * @param b B.
 * @param ldb Leading dimension of B.
 * @param beta Factor; C is not read if it is 0.
 * @param[in,out] c C.
 * @param ldc Leading dimension of C.
 * @return As attile_sgemm(). Since 1.0.
 */
ATTILE_API int32_t attile_dgemm(attile_context *context, int32_t order, int32_t transa, int32_t transb, int64_t m, int64_t n, int64_t k,
                                double alpha, const double *a, int64_t lda, const double *b, int64_t ldb, double beta, double *c,
                                int64_t ldc);
/** @} */

/**
 * @defgroup memory Memory and streams
 * @{
 */
/**
 * @brief Allocate memory of a kind, aligned to 256 bytes.
 * @param context The context that owns it.
 * @param kind ATTILE_MEMORY_ constant. On CPU backends every kind is ordinary memory, so device-style programs run there too.
 * @param bytes How many; 0 gives NULL and ATTILE_OK.
 * @param[out] pointer The memory, not initialised; NULL on failure.
 * @return ATTILE_OK; ATTILE_ERROR_INVALID_CONTEXT; ATTILE_ERROR_NULL_ARGUMENT; ATTILE_ERROR_INVALID_VALUE: unknown kind, negative
 *   size; ATTILE_ERROR_OUT_OF_HOST_MEMORY; ATTILE_ERROR_OUT_OF_DEVICE_MEMORY; ATTILE_ERROR_UNSUPPORTED_MEMORY; a device code.
 *
 * Thread safety: safe. Since 1.0.
 */
ATTILE_API int32_t attile_alloc(attile_context *context, int32_t kind, int64_t bytes, void **pointer);

/**
 * @brief Give memory back. Work in flight that uses it must be finished (attile_synchronize()).
 * @param context The context it came from.
 * @param pointer What attile_alloc() gave; NULL does nothing.
 * @return ATTILE_OK; ATTILE_ERROR_INVALID_CONTEXT; ATTILE_ERROR_UNKNOWN_POINTER: not from this context, or freed before; a device code.
 *
 * Thread safety: safe. Since 1.0.
 */
ATTILE_API int32_t attile_free(attile_context *context, void *pointer);

/**
 * @brief Copy bytes between any two kinds of memory. The ranges must not overlap.
 * @param context The context.
 * @param destination Where to.
 * @param source Where from.
 * @param bytes How many; 0 does nothing.
 * @param stream Stream to copy on. Asynchronous unless one side is ordinary host memory.
 * @return ATTILE_OK; ATTILE_ERROR_INVALID_CONTEXT; ATTILE_ERROR_NULL_ARGUMENT; ATTILE_ERROR_INVALID_VALUE: negative size;
 *   ATTILE_ERROR_ALIASING: the ranges overlap; a device code.
 *
 * Thread safety: safe. Since 1.0.
 */
ATTILE_API int32_t attile_copy(attile_context *context, void *destination, const void *source, int64_t bytes, void *stream);

/**
 * @brief Move managed memory to where it will be used next. A hint: other kinds of memory are left as they are.
 * @param context The context.
 * @param pointer Start of the range.
 * @param bytes Its size.
 * @param kind ATTILE_MEMORY_DEVICE: to the device; ATTILE_MEMORY_HOST: to the host.
 * @param stream Stream to do it on; asynchronous.
 * @return ATTILE_OK; ATTILE_ERROR_INVALID_CONTEXT; ATTILE_ERROR_NULL_ARGUMENT; ATTILE_ERROR_INVALID_VALUE; a device code.
 *
 * Thread safety: safe. Since 1.0.
 */
ATTILE_API int32_t attile_prefetch(attile_context *context, const void *pointer, int64_t bytes, int32_t kind, void *stream);

/**
 * @brief What kind of memory a pointer points to, as this context's device sees it.
 * @param context The context.
 * @param pointer Any pointer; it is not read.
 * @param[out] kind ATTILE_MEMORY_ constant.
 * @return ATTILE_OK; ATTILE_ERROR_INVALID_CONTEXT; ATTILE_ERROR_NULL_ARGUMENT: `kind`; a device code. Thread safety: safe. Since 1.0.
 */
ATTILE_API int32_t attile_memory_kind(attile_context *context, const void *pointer, int32_t *kind);

/**
 * @brief Make a stream that does not wait for the default stream.
 * @param context The context; the stream must be destroyed before it.
 * @param[out] stream The device's own handle.
 * @return ATTILE_OK; ATTILE_ERROR_INVALID_CONTEXT; ATTILE_ERROR_NULL_ARGUMENT; a memory or device code. Thread safety: safe. Since 1.0.
 */
ATTILE_API int32_t attile_stream_create(attile_context *context, void **stream);

/**
 * @brief Destroy a stream that attile_stream_create() made, after its work is done.
 * @param context The context.
 * @param stream The stream; NULL does nothing.
 * @return ATTILE_OK; ATTILE_ERROR_INVALID_CONTEXT; ATTILE_ERROR_UNKNOWN_POINTER; a device code. Thread safety: safe. Since 1.0.
 */
ATTILE_API int32_t attile_stream_destroy(attile_context *context, void *stream);

/**
 * @brief Wait until everything queued on a stream is done.
 * @param context The context.
 * @param stream The stream; NULL: the default stream.
 * @return ATTILE_OK; ATTILE_ERROR_INVALID_CONTEXT; a device code, also of earlier asynchronous work. Thread safety: safe. Since 1.0.
 */
ATTILE_API int32_t attile_synchronize(attile_context *context, void *stream);
/** @} */

/**
 * @defgroup errors Errors, report, log
 * @{
 */
/**
 * @brief The sentence about this thread's last failed call: argument, value, expectation. Calls that succeed leave it as it is.
 * @param[out] buffer Receives as much as fits, always terminated; may be NULL if capacity is 0.
 * @param capacity Bytes of buffer.
 * @return Bytes the whole text needs, its terminating zero counted; 1 if there is none yet. Thread safety: each thread has its own.
 * Since 1.0.
 */
ATTILE_API int64_t attile_last_error(char *buffer, int64_t capacity);

/**
 * @brief Every candidate backend, one a line: name, file, and why it was chosen or refused, in the loader's own words.
 *
 * Covers the selections made so far in this process; makes none itself.
 * @param[out] buffer Receives as much as fits, always terminated; may be NULL if capacity is 0.
 * @param capacity Bytes of buffer.
 * @return Bytes the whole text needs, its terminating zero counted. Thread safety: safe. Since 1.0.
 */
ATTILE_API int64_t attile_backend_report(char *buffer, int64_t capacity);

#define ATTILE_LOG_OFF 0   /**< Nothing. */
#define ATTILE_LOG_ERROR 1 /**< Failures. */
#define ATTILE_LOG_WARN 2  /**< What is odd. */
#define ATTILE_LOG_INFO 3  /**< What was chosen. */
#define ATTILE_LOG_DEBUG 4 /**< Each call. */
#define ATTILE_LOG_TRACE 5 /**< Each step. */

/** Receives log lines, without a newline or any other control character. Called on the thread that logs; must not call Attile and must
    not throw. */
typedef void (*attile_log_fn)(void *user, int32_t level, const char *message);

/**
 * @brief Send the log to a function instead of ATTILE_LOG_FILE or stderr.
 * @param fn Receiver; NULL: back to what the environment says.
 * @param user Handed to it.
 * @param level Most detailed level wanted, ATTILE_LOG_ constant. Without this call ATTILE_LOG decides; unset, nothing is logged.
 * @return ATTILE_OK; ATTILE_ERROR_INVALID_VALUE: unknown level. Thread safety: safe; the old receiver may get lines already under way.
 * Since 1.0.
 */
ATTILE_API int32_t attile_set_log(attile_log_fn fn, void *user, int32_t level);
/** @} */

/**
 * @defgroup extension Adding backends
 * @{
 */
/**
 * @brief Search one more directory for backends, before all others.
 * @param path Absolute path of a directory; a backend that is loaded already is not replaced.
 * @return ATTILE_OK; ATTILE_ERROR_NULL_ARGUMENT; ATTILE_ERROR_INVALID_VALUE: not absolute, not a directory, or too long. Thread safety:
 * safe. Since 1.0.
 */
ATTILE_API int32_t attile_add_backend_directory(const char *path);

/**
 * @brief Register a backend that is linked into the program.
 * @param entry Its `attile_backend_entry_v1`, see attile_backend.h, cast to this type.
 * @return ATTILE_OK; ATTILE_ERROR_NULL_ARGUMENT; ATTILE_ERROR_BACKEND_INCOMPATIBLE; ATTILE_ERROR_BACKEND_CONTRACT;
 *   ATTILE_ERROR_BACKEND_EXISTS: its name is taken. Thread safety: safe. Since 1.0.
 */
ATTILE_API int32_t attile_register_backend(const void *(*entry)(const void *host));
/** @} */

#ifdef __cplusplus
}
#endif

#endif /* ATTILE_ATTILE_H */
