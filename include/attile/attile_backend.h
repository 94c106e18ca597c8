/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file attile_backend.h
 * @brief The contract between libattile and a backend. C99; a backend needs this header and nothing else of Attile.
 *
 * **Loading.** A backend is a shared object `libattile_backend_<name>.so` (`.dll` on Windows) that exports one symbol,
 * ATTILE_BACKEND_ENTRY, of type attile_backend_entry_fn. The core calls it once, checks the root it returns, and asks for interfaces by
 * number. A backend may also be linked into a program and handed to attile_register_backend().
 *
 * **Versions.** Every table begins with its size. Tables only grow at their end; an entry that lies beyond a table's size, or is
 * NULL, is not implemented, and the core answers ATTILE_ERROR_UNSUPPORTED_OPERATION for it. A new operation is a new interface number. The
 * core accepts a backend of the same `abi_major` if `host_minor_min` is not above its own minor, whatever `abi_minor` the backend was built
 * with. Problem descriptors carry `struct_size`; the core always hands over full-size ones of its own version, so a field that a newer core
 * added lies beyond what an older backend reads: the core never sets such a field to a non-default value for a backend whose `abi_minor` is
 * older.
 *
 * **What the core has done before a call** Everything that costs O(1): data types, ranks, extents, strides, overflow, aliasing,
 * broadcasting, alignment to the element, workspace size against the query. Absent optional operands have `data == NULL` and `dtype == 0`.
 * Extents are not negative; an output without elements never reaches the backend. The backend checks what its hardware limits, and nothing
 * else.
 *
 * **Rules for every function** Thread-safe, also on one state. Return ATTILE_OK or a code of attile.h, after host->set_error with
 * a sentence. No abort, exit, exception, printing; no static destructors, no atexit. The caller's current device, its last
 * error, floating-point mode and locale are as before after every call, and after loading. `query` and `run` agree: run succeeds on
 * arguments exactly if query says so. Data behind pointers may be read only by `run`.
 */
#ifndef ATTILE_ATTILE_BACKEND_H
#define ATTILE_ATTILE_BACKEND_H

#include "attile.h"

/* ATTILE_ENTRY_EXPORT marks the symbol that a plugin exports. It may be defined before, as nothing where a backend is linked into a
 * program. */
#ifndef ATTILE_ENTRY_EXPORT
#if defined(_WIN32)
#define ATTILE_ENTRY_EXPORT __declspec(dllexport)
#elif defined(__GNUC__)
#define ATTILE_ENTRY_EXPORT __attribute__((visibility("default")))
#else
#define ATTILE_ENTRY_EXPORT
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define ATTILE_BACKEND_ABI_MAJOR 1u                    /**< Changes when old backends stop working. */
#define ATTILE_BACKEND_ABI_MINOR 1u                    /**< Grows with every addition. */
#define ATTILE_BACKEND_ENTRY "attile_backend_entry_v1" /**< The one exported symbol. */

/** What the core offers a backend. Lives as long as the process. */
typedef struct attile_host_v1 {
    uint32_t struct_size; /**< sizeof(attile_host_v1) of the core. */
    uint32_t abi_minor;   /**< The core's ATTILE_BACKEND_ABI_MINOR. */
    /** Set the calling thread's error sentence; copied. Call before returning a code. */
    void (*set_error)(const char *text);
    /** Write a line to the log; cheap if nobody listens. */
    void (*log)(int32_t level, const char *text);
    /** Highest level anybody listens to: skip composing what is above it. */
    int32_t (*log_level)(void);
    /** Environment variable, NULL if unset or if the process is privileged. */
    const char *(*environment)(const char *name);
} attile_host_v1;

/** What `probe` found on one device. */
typedef struct attile_backend_probe {
    uint32_t struct_size;  /**< sizeof(attile_backend_probe) of the core. */
    int32_t device_count;  /**< Devices this backend can use. */
    char device_name[128]; /**< Name of the device probed. */
} attile_backend_probe;

/** What a context is opened with. */
typedef struct attile_backend_options {
    uint32_t struct_size; /**< sizeof(attile_backend_options) of the core. */
    int32_t device;       /**< Device number, from 0. */
    int32_t threads;      /**< Threads a call may use; 0: the backend decides. */
    int32_t reserved;     /**< 0. */
    int64_t pool_bytes;   /**< Unused workspace to keep; 0: the backend decides. */
} attile_backend_options;

/** The root that the entry returns; it and everything it points to is constant and lives as long as the process. */
typedef struct attile_backend_v1 {
    uint32_t struct_size;    /**< sizeof(attile_backend_v1) the backend was built with. */
    uint32_t abi_major;      /**< ATTILE_BACKEND_ABI_MAJOR it was built with. */
    uint32_t abi_minor;      /**< ATTILE_BACKEND_ABI_MINOR it was built with. */
    uint32_t host_minor_min; /**< Lowest minor of the core it can work with. */
    const char *name;        /**< Lower-case letters, digits, '_' or '-'; at most 31 bytes; as in the file's name. */
    const char *version;     /**< The backend's own version. */
    /** Can it run on device `device` here? ATTILE_OK, or a code after set_error. Survives no driver, no device, an old CPU. */
    int32_t (*probe)(int32_t device, attile_backend_probe *found);
    /** Open a device. */
    int32_t (*context_create)(const attile_backend_options *options, void **state);
    /** Close it; waits for its work. */
    void (*context_destroy)(void *state);
    /** The table of an interface, or NULL. `version` is the highest the core knows; the table returned may be of any lower one. */
    const void *(*query_interface)(uint32_t id, uint32_t version);
} attile_backend_v1;

/** The type of the entry. Returns NULL, after host->set_error, if the backend cannot work with this host at all. */
typedef const attile_backend_v1 *(*attile_backend_entry_fn)(const attile_host_v1 *host);

/* Interface numbers. */
#define ATTILE_INTERFACE_DEVICE 1u             /**< attile_device_interface, required. */
#define ATTILE_INTERFACE_MEMORY 2u             /**< attile_memory_interface, required. */
#define ATTILE_INTERFACE_GEMM 3u               /**< attile_gemm_interface */
#define ATTILE_INTERFACE_ATTENTION 4u          /**< attile_attention_interface */
#define ATTILE_INTERFACE_ATTENTION_BACKWARD 5u /**< attile_attention_backward_interface */
#define ATTILE_INTERFACE_ATTENTION_MERGE 6u    /**< attile_attention_merge_interface */
#define ATTILE_INTERFACE_REDUCE 7u             /**< attile_reduce_interface */
#define ATTILE_INTERFACE_SOFTMAX 8u            /**< attile_softmax_interface */
/** attile_attention_merge_backward_interface */
#define ATTILE_INTERFACE_ATTENTION_MERGE_BACKWARD 9u
#define ATTILE_INTERFACE_QUANTIZE 10u     /**< attile_quantize_interface */
#define ATTILE_INTERFACE_GEMM_GROUPED 11u /**< attile_gemm_grouped_interface */
#define ATTILE_INTERFACE_REPACK 12u       /**< attile_repack_interface */

/** causal_offset is clamped to minus this and this, so that the sum of a row, an offset and a window fits 32 bits. */
#define ATTILE_CAUSAL_OFFSET_LIMIT (1 << 28)

/** Device and streams. */
typedef struct attile_device_interface {
    uint32_t struct_size;                                    /**< sizeof of this table. */
    uint32_t version;                                        /**< 1 */
    int32_t (*info)(void *state, attile_context_info *info); /**< Fill a full-size struct; the core has zeroed it. */
    int32_t (*stream_create)(void *state, void **stream);    /**< A stream that does not wait for the default one. */
    int32_t (*stream_destroy)(void *state, void *stream);    /**< `stream` came from stream_create. */
    int32_t (*synchronize)(void *state, void *stream);       /**< NULL: the default stream. */
} attile_device_interface;

/** Memory. */
typedef struct attile_memory_interface {
    uint32_t struct_size;                                                       /**< sizeof of this table. */
    uint32_t version;                                                           /**< 1 */
    int32_t (*alloc)(void *state, int32_t kind, int64_t bytes, void **pointer); /**< 256-byte aligned; bytes > 0. */
    int32_t (*free)(void *state, int32_t kind, void *pointer);                  /**< `pointer` and `kind` as given by alloc. */
    int32_t (*copy)(void *state, void *destination, const void *source, int64_t bytes, void *stream); /**< Not overlapping. */
    int32_t (*prefetch)(void *state, const void *pointer, int64_t bytes, int32_t kind, void *stream); /**< A hint. */
    int32_t (*memory_kind)(void *state, const void *pointer, int32_t *kind); /**< Reads nothing behind `pointer`. */
} attile_memory_interface;

/** Where a call runs and what it may use. */
typedef struct attile_launch {
    void *stream;            /**< NULL: the default stream. */
    void *workspace;         /**< NULL: take it from the context's pool. */
    int64_t workspace_bytes; /**< At least what query asked for if workspace is not NULL. */
    uint32_t flags;          /**< ATTILE_FLAG_ bits; some are permissions, which a backend may take no notice of. */
    uint32_t reserved;       /**< 0 */
} attile_launch;

/** An operand with up to four axes; strides in elements. data == NULL and dtype == 0: absent. */
typedef struct attile_operand {
    void *data;        /**< Element at index 0 of every axis. In a query it may be NULL though dtype is set. */
    int32_t dtype;     /**< ATTILE_F32 and so on. */
    int32_t reserved;  /**< 0 */
    int64_t stride[4]; /**< Per axis of the problem; 0 where the operand is broadcast or the axis has extent 1. */
} attile_operand;

/**
 * D[x, y, m, n] = activation(alpha sum_k A[x, y, m, k] B[x, y, k, n] + beta C[x, y, m, n] + bias). Of numbers of 8 bits A and B are
 * a_scale[x, y, m / a_group[0], k / a_group[1]] a[x, y, m, k] and b_scale[x, y, k / b_group[0], n / b_group[1]] b[x, y, k, n].
 */
typedef struct attile_gemm_problem {
    uint32_t struct_size; /**< sizeof of this struct. */
    /** ATTILE_F32; ATTILE_F64 for f64 operands and for exact products, ATTILE_I32 for i8 a and b: exact sums. */
    int32_t compute;
    attile_launch launch; /**< Where it runs. */
    int64_t batch[2];     /**< Extents of the two batch axes x and y, at least 1. */
    int64_t m;            /**< Rows of D. */
    int64_t n;            /**< Columns of D. */
    int64_t k;            /**< Depth; 0 if alpha is 0: A and B are then not to be read. */
    attile_operand a;     /**< Axes x, y, m, k. */
    attile_operand b;     /**< Axes x, y, k, n. */
    attile_operand c;     /**< Axes x, y, m, n; absent if beta is 0. May be exactly d. */
    attile_operand d;     /**< Axes x, y, m, n. */
    double alpha;         /**< Finite. */
    double beta;          /**< Finite. */
    attile_operand bias;  /**< Axes x, y, m, n: stride 0 along the one it is broadcast over. */
    int32_t activation;   /**< ATTILE_ACTIVATION_ constant. */
    int32_t reserved;     /**< 0 */
    /** Axes x, y, blocks of m, blocks of k; f32. Optional, absent if k is 0. Version 2, as operands of 8 bits are. */
    attile_operand a_scale;
    attile_operand b_scale; /**< Axes x, y, blocks of k, blocks of n; likewise. */
    int64_t a_group[2];     /**< Extents along m and k of the blocks that share a scale of a; 0 without a_scale. */
    int64_t b_group[2];     /**< Along k and n, likewise. The two along k are each all of k, or 32, 64 or 128. */
    attile_operand b_zero;  /**< Of u4 b, axes as b_scale: b is b_scale (b - b_zero). Optional, absent if k is 0. Version 2. */
    attile_operand d_scale; /**< Axes x, y, m, n; f32: d of 8 bits is the result over it. Optional. c and bias are f32 then. Version 2. */
} attile_gemm_problem;

/** Matrix multiplication. */
typedef struct attile_gemm_interface {
    uint32_t struct_size; /**< sizeof of this table. */
    /** 3; 2: problems with ATTILE_FLAG_EXACT_PRODUCTS are not given to it, as defined by attile_gemm(); 1: nor with operands of 8 bits. */
    uint32_t version;
    int32_t (*query)(void *state, const attile_gemm_problem *problem,
                     attile_support *support);                       /**< How run would do it. Full-size, zeroed support. */
    int32_t (*run)(void *state, const attile_gemm_problem *problem); /**< Do it, or queue it. */
} attile_gemm_interface;

/**
 * attile_gemm_grouped(): of `product`, entry y of the inner batch axis is group y, the outer one has extent 1, and m is M. A, C and D have
 * stride 0 along y, so that their rows are those of all groups. An entry is to be made for its group's rows alone: from first(y) to before
 * first(y + 1), where first(y) is row_offsets[y] clamped to first(y - 1) .. M, and first(-1) is 0.
 */
typedef struct attile_gemm_grouped_problem {
    uint32_t struct_size;               /**< sizeof of this struct. */
    int32_t reserved;                   /**< 0 */
    const attile_gemm_problem *product; /**< Without flags of exact products and without a_scale; its launch is the one to use. */
    attile_operand row_offsets;         /**< i32, axis y in stride[1], of G + 1 entries. */
} attile_gemm_grouped_problem;

/** Products of groups of rows. */
typedef struct attile_gemm_grouped_interface {
    uint32_t struct_size; /**< sizeof of this table. */
    uint32_t version;     /**< 1 */
    int32_t (*query)(void *state, const attile_gemm_grouped_problem *problem,
                     attile_support *support);                               /**< How run would do it. Full-size, zeroed support. */
    int32_t (*run)(void *state, const attile_gemm_grouped_problem *problem); /**< Do it, or queue it. */
} attile_gemm_grouped_interface;

/**
 * Attention, as attile_attention() defines it, with the masks reduced to one form: row i of a batch entry with len_q rows and len_k keys
 * sees key j if  j >= i + shift - window_left  (unless window_left < 0)  and  j <= i + shift + window_right  (unless window_right < 0),
 * where shift is the entry's causal_offset if there is one, else len_k - len_q if bottom_right is not 0, else 0.
 */
typedef struct attile_attention_problem {
    uint32_t struct_size;         /**< sizeof of this struct. */
    int32_t compute;              /**< ATTILE_F32; ATTILE_F64 for f64 operands and exact products. */
    attile_launch launch;         /**< Where it runs. */
    int64_t batch;                /**< B: batch entries, or sequences if packed. */
    int64_t heads_q;              /**< Hq, a multiple of heads_kv. */
    int64_t heads_kv;             /**< Hkv */
    int64_t len_q;                /**< Rows of an entry; packed: the most any has. */
    int64_t len_k;                /**< Keys of an entry; packed: the most any has; paged: pages of a table row times page_size. */
    int64_t head_dim;             /**< D */
    int64_t head_dim_v;           /**< Dv */
    attile_operand q;             /**< Axes b, h, l, d. Packed: stride[0] is 0, rows start at cu_len_q[b]. */
    attile_operand k;             /**< Axes b, h, l, d; packed likewise. Paged: axes page, h, slot in the page, d. */
    attile_operand v;             /**< As k. */
    attile_operand o;             /**< As q. */
    attile_operand lse;           /**< Axes b, h, l; stride[3] is 0. Optional. */
    double scale;                 /**< Resolved, finite, possibly negative. */
    double softcap;               /**< 0: none. */
    int32_t bottom_right;         /**< Corner of the diagonal. */
    int32_t alibi_bottom_right;   /**< Corner of ALiBi's diagonal; not looked at beside causal_offset. */
    int64_t window_left;          /**< -1: open. */
    int64_t window_right;         /**< -1: open; 0: causal. */
    attile_operand bias;          /**< Axes b, h, i, j. Optional. */
    attile_operand allowed;       /**< Axes b, h, i, j; bytes, 0 hides. Optional. */
    attile_operand alibi_slopes;  /**< Axes b, h. Optional. */
    attile_operand sinks;         /**< Axes b, h; stride[0] is 0. Optional. */
    attile_operand key_lengths;   /**< Axis b, i32. Optional; to be clamped to 0 .. the keys there are. */
    attile_operand cu_len_q;      /**< Axis b, i32, B+1 entries: to be clamped to 0 .. total_q. Optional. */
    attile_operand cu_len_k;      /**< Likewise to total_k. Optional. */
    int64_t total_q;              /**< Packed: rows of q in memory; else len_q. */
    int64_t total_k;              /**< Packed: keys of k in memory; else len_k. */
    attile_operand block_table;   /**< Axes b, page run; i32. Optional: paged. */
    int64_t page_size;            /**< Paged: keys a page; else 0. */
    int64_t pages;                /**< Paged: pages in k and v; else 0. */
    attile_operand key_starts;    /**< Axis b, i32. Optional; keys before it, clamped to 0 .. the keys there are, are hidden. Version 2. */
    attile_operand causal_offset; /**< Axis b, i32. Optional; shift of mask and ALiBi, see ATTILE_CAUSAL_OFFSET_LIMIT. Version 2. */
    attile_operand block_mask;    /**< Axes b, h, i / ATTILE_MASK_BLOCK, j / ATTILE_MASK_BLOCK; bytes, 0 hides. Optional. Version 2. */
    attile_operand tree_mask;     /**< Axes b, h, i, j - (len_k of the entry - tree_keys), read from 0 on; bytes, 0 hides. Version 2. */
    int64_t tree_keys;            /**< Extent of tree_mask's last axis; 0: there is none. Version 2. */
    attile_operand k_scale;       /**< f32, axes of k, the last one d / k_group: factors of numbers of 8 bits. Optional. Version 2. */
    attile_operand v_scale;       /**< Likewise of v, d / v_group. Version 2. */
    int64_t k_group;              /**< Neighbours along d that share a scale, at least 1 beside k_scale. Version 2. */
    int64_t v_group;              /**< Likewise. Version 2. */
    attile_operand q_scale;       /**< Likewise of q, axes b, h, i, d / q_group. Version 2. */
    int64_t q_group;              /**< Likewise. Version 2. */
    attile_operand o_scale;       /**< As q_scale, of o, d / o_group: o of 8 bits is the result over it. Version 2. */
    int64_t o_group;              /**< Likewise. Version 2. */
} attile_attention_problem;

/** Attention forward. */
typedef struct attile_attention_interface {
    uint32_t struct_size; /**< sizeof of this table. */
    uint32_t version;     /**< 3; 2: problems with ATTILE_FLAG_EXACT_PRODUCTS are not given to it; 1: nor those with operands of version 2,
                             with packed rows alone, or whose k, v or bias have another type than q (but for a bias of f32). */
    int32_t (*query)(void *state, const attile_attention_problem *problem,
                     attile_support *support);                            /**< How run would do it. Full-size, zeroed support. */
    int32_t (*run)(void *state, const attile_attention_problem *problem); /**< Do it, or queue it. */
} attile_attention_interface;

/** Gradients of an attention problem, whose o and lse are inputs and whose launch is the one to use. */
typedef struct attile_attention_backward_problem {
    uint32_t struct_size;                    /**< sizeof of this struct. */
    int32_t reserved;                        /**< 0 */
    const attile_attention_problem *forward; /**< The forward problem. */
    attile_operand dout;                     /**< Axes as forward->o. */
    attile_operand dq;                       /**< Axes as forward->q. */
    attile_operand dk;                       /**< Axes as forward->k. */
    attile_operand dv;                       /**< Axes as forward->v. */
    attile_operand dbias;                    /**< Axes b, h, i, j; stride 0 on axes to be summed over. Optional. */
    attile_operand dsinks;                   /**< Axes b, h; stride[0] is 0: to be summed over b. Optional. */
    int64_t bias_extent[4];                  /**< Extents of dbias: 1 on summed axes. */
    attile_operand dlse;                     /**< Axes as forward->lse. Optional. Version 2. */
} attile_attention_backward_problem;

/** Attention backward. */
typedef struct attile_attention_backward_interface {
    uint32_t struct_size; /**< sizeof of this table. */
    uint32_t version;     /**< 2; 1: as of attile_attention_interface. */
    int32_t (*query)(void *state, const attile_attention_backward_problem *problem,
                     attile_support *support);                                     /**< How run would do it. Full-size, zeroed support. */
    int32_t (*run)(void *state, const attile_attention_backward_problem *problem); /**< Do it, or queue it. */
} attile_attention_backward_interface;

/** o = sum_p exp(lse_p - lse) o_p. */
typedef struct attile_attention_merge_problem {
    uint32_t struct_size;            /**< sizeof of this struct. */
    int32_t compute;                 /**< ATTILE_F32; ATTILE_F64 for f64 parts and exact sums. */
    attile_launch launch;            /**< Where it runs. */
    int64_t batch;                   /**< B */
    int64_t heads;                   /**< H */
    int64_t len;                     /**< L */
    int64_t head_dim_v;              /**< Dv */
    int64_t parts;                   /**< At least 1. */
    const attile_operand *o_parts;   /**< Axes b, h, l, d. Host array of `parts` operands, valid during the call only. */
    const attile_operand *lse_parts; /**< Axes b, h, l. Likewise. */
    attile_operand o;                /**< Axes b, h, l, d; may be exactly one of o_parts. */
    attile_operand lse;              /**< Axes b, h, l; optional; may be exactly one of lse_parts. */
} attile_attention_merge_problem;

/** Merging of partial attention results. */
typedef struct attile_attention_merge_interface {
    uint32_t struct_size; /**< sizeof of this table. */
    uint32_t version;     /**< 2; 1: problems with ATTILE_FLAG_EXACT_PRODUCTS are not given to it. */
    int32_t (*query)(void *state, const attile_attention_merge_problem *problem,
                     attile_support *support);                                  /**< How run would do it. Full-size, zeroed support. */
    int32_t (*run)(void *state, const attile_attention_merge_problem *problem); /**< Do it, or queue it. */
} attile_attention_merge_interface;

/** do_p = w_p dout and dlse_p = w_p (sum_d dout_d (o_p,d - o_d) + dlse) with w_p = exp(lse_p - lse); 0 where lse_p or lse is -inf. */
typedef struct attile_attention_merge_backward_problem {
    uint32_t struct_size;             /**< sizeof of this struct. */
    int32_t compute;                  /**< ATTILE_F32, or ATTILE_F64 for f64 parts. */
    attile_launch launch;             /**< Where it runs. */
    int64_t batch;                    /**< B */
    int64_t heads;                    /**< H */
    int64_t len;                      /**< L */
    int64_t head_dim_v;               /**< Dv */
    int64_t parts;                    /**< At least 1. */
    const attile_operand *o_parts;    /**< Axes b, h, l, d. Host array of `parts` operands, valid during the call only. */
    const attile_operand *lse_parts;  /**< Axes b, h, l. Likewise. */
    attile_operand o;                 /**< Axes b, h, l, d: the merged output, an input here. */
    attile_operand lse;               /**< Axes b, h, l. Likewise; always there. */
    attile_operand dout;              /**< Axes b, h, l, d. */
    attile_operand dlse;              /**< Axes b, h, l; optional. */
    const attile_operand *do_parts;   /**< Outputs, axes b, h, l, d. Host array of `parts` operands of one type, as o_parts. */
    const attile_operand *dlse_parts; /**< Outputs, axes b, h, l. Likewise. */
} attile_attention_merge_backward_problem;

/** Gradients of merging. */
typedef struct attile_attention_merge_backward_interface {
    uint32_t struct_size; /**< sizeof of this table. */
    uint32_t version;     /**< 1 */
    int32_t (*query)(void *state, const attile_attention_merge_backward_problem *problem,
                     attile_support *support); /**< How run would do it. Full-size, zeroed support. */
    int32_t (*run)(void *state, const attile_attention_merge_backward_problem *problem); /**< Do it, or queue it. */
} attile_attention_merge_backward_interface;

/** y[i, j, l, 0] = op over r of x[i, j, l, r]: the axis in question is moved last, the others keep their order, missing ones have extent 1.
 */
typedef struct attile_reduce_problem {
    uint32_t struct_size; /**< sizeof of this struct. */
    int32_t compute;      /**< ATTILE_F32; ATTILE_F64 for f64 input and exact sums. */
    attile_launch launch; /**< Where it runs. */
    int64_t shape[4];     /**< Extents of x; shape[3] is the reduced axis. */
    attile_operand x;     /**< Input, axes as shape. */
    attile_operand y;     /**< Output, axes as shape. */
    int32_t op;           /**< ATTILE_REDUCE_ constant. */
    int32_t reserved;     /**< 0 */
} attile_reduce_problem;

/** Reductions. */
typedef struct attile_reduce_interface {
    uint32_t struct_size; /**< sizeof of this table. */
    uint32_t version;     /**< 2; 1: problems with ATTILE_FLAG_EXACT_PRODUCTS are not given to it. */
    int32_t (*query)(void *state, const attile_reduce_problem *problem,
                     attile_support *support);                         /**< How run would do it. Full-size, zeroed support. */
    int32_t (*run)(void *state, const attile_reduce_problem *problem); /**< Do it, or queue it. */
} attile_reduce_interface;

/** y[i, j, l, :] = softmax(x[i, j, l, :]): axes as in attile_reduce_problem; y may be exactly x. */
typedef struct attile_softmax_problem {
    uint32_t struct_size; /**< sizeof of this struct. */
    int32_t compute;      /**< ATTILE_F32; ATTILE_F64 for f64 input and exact sums. */
    attile_launch launch; /**< Where it runs. */
    int64_t shape[4];     /**< Extents; shape[3] is the normalised axis. */
    attile_operand x;     /**< Input, axes as shape. */
    attile_operand y;     /**< Output, axes as shape. */
} attile_softmax_problem;

/** Softmax. */
typedef struct attile_softmax_interface {
    uint32_t struct_size; /**< sizeof of this table. */
    uint32_t version;     /**< 2; 1: problems with ATTILE_FLAG_EXACT_PRODUCTS are not given to it. */
    int32_t (*query)(void *state, const attile_softmax_problem *problem,
                     attile_support *support);                          /**< How run would do it. Full-size, zeroed support. */
    int32_t (*run)(void *state, const attile_softmax_problem *problem); /**< Do it, or queue it. */
} attile_softmax_interface;

/** attile_quantize(), or back, as attile.h defines both. Missing axes of x have extent 1. */
typedef struct attile_quantize_problem {
    uint32_t struct_size;     /**< sizeof of this struct. */
    int32_t back;             /**< 0: q from x, and scale unless it is given; 1: x from q and scale. */
    attile_launch launch;     /**< Where it runs. */
    int64_t shape[4];         /**< Extents of x and q. */
    attile_operand x;         /**< Axes as shape. */
    attile_operand q;         /**< Axes as shape, or those of a cache; of f32, f16 and bf16 without scale. */
    attile_operand scale;     /**< Axes as shape, element i along an axis at i / group; f32. Absent: given, all 1. */
    int64_t group[4];         /**< Extents of a block that shares a scale, which divide shape; 1 without scale. */
    int32_t scale_given;      /**< 1: scale is read. */
    int32_t hadamard;         /**< 0, or a power of two up to 512 that divides shape[3]. */
    attile_operand zero;      /**< Of u4 q, axes as scale. Absent: given, all 0. */
    attile_operand rope_cos;  /**< Axes position, pair; f32. Optional. */
    attile_operand rope_sin;  /**< As rope_cos. */
    attile_operand positions; /**< Axes 0 and 2 of shape in stride[0] and [1]; i32 or i64, clamped to 0 .. rope_positions - 1. Optional. */
    attile_operand key_lengths; /**< Axis 0 of shape; i32. Row i is key key_lengths - shape[2] + i; absent: i. That is its position, too. */
    attile_operand block_table; /**< Axes batch entry, page run; i32. Optional: paged q. */
    int64_t rope_positions;     /**< Rows of rope_cos, at least 1; 0: nothing is rotated. */
    int64_t rope_pairs;         /**< Columns of rope_cos: the first 2 rope_pairs numbers of a row are rotated; at least 1. */
    int32_t rope_layout;        /**< ATTILE_ROPE_ constant. */
    /** 1: along axes 0 and 2 q, scale and zero are indexed by batch entry or page, and key or slot in the page; group[0..2] is 1. */
    int32_t append;
    int64_t len_k;     /**< With append: keys of an entry; paged: page runs of a table row times page_size. Others are not written. */
    int64_t page_size; /**< Paged: rows a page; else 0. */
    int64_t pages;     /**< Paged: pages of q; rows of other ones are not written; else 0. */
} attile_quantize_problem;

/** Quantisation and back. */
typedef struct attile_quantize_interface {
    uint32_t struct_size; /**< sizeof of this table. */
    uint32_t version;     /**< 1 */
    int32_t (*query)(void *state, const attile_quantize_problem *problem,
                     attile_support *support);                           /**< How run would do it. Full-size, zeroed support. */
    int32_t (*run)(void *state, const attile_quantize_problem *problem); /**< Do it, or queue it. */
} attile_quantize_interface;

/** attile_repack(). Rows have the axes of shape[0..2], those that blocks lacks having extent 1. */
typedef struct attile_repack_problem {
    uint32_t struct_size;  /**< sizeof of this struct. */
    int32_t format;        /**< ATTILE_GGML_ constant. */
    attile_launch launch;  /**< Where it runs. */
    int64_t shape[4];      /**< Extents of q. */
    int64_t row_bytes;     /**< Extent of the last axis of blocks. */
    attile_operand blocks; /**< Three axes of rows, then bytes, of stride 1. */
    attile_operand q;      /**< Axes as shape; of 4 bits stride[3] is 1. */
    attile_operand scale;  /**< Axes as shape, the last one over 32; f32. */
    attile_operand zero;   /**< As scale; of Q4_K alone. */
} attile_repack_problem;

/** Other libraries' formats. */
typedef struct attile_repack_interface {
    uint32_t struct_size; /**< sizeof of this table. */
    uint32_t version;     /**< 1 */
    int32_t (*query)(void *state, const attile_repack_problem *problem,
                     attile_support *support);                         /**< How run would do it. Full-size, zeroed support. */
    int32_t (*run)(void *state, const attile_repack_problem *problem); /**< Do it, or queue it. */
} attile_repack_interface;

#ifdef __cplusplus
}
#endif

#endif /* ATTILE_ATTILE_BACKEND_H */
