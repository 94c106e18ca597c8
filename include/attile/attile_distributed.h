/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file attile_distributed.h
 * @brief Communicators; attention and its gradients where sequences are spread over ranks; products of matrices spread over ranks.
 *
 * C99, needs attile.h alone; the functions are in the same library. The conventions of attile.h hold, and these:
 * - *Ranks* are threads of one process, ranks of MPI or NCCL, or whatever the caller's functions connect. Each has a context and a
 *   communicator of its own, and all of them make the same calls in the same order. Whoever comes first waits for the others.
 * - *Before any data travels* the ranks compare what they were called with. Where they disagree each gets a status that names a rank and
 *   what differs.
 * - *A rank that fails, is late or leaves* is a status on all the others, within the communicator's time limit. The communicator then
 *   refuses work, and says why; destroy it and make another on every rank.
 * - *A call ends with an exchange of how it went*, so what a rank's own work fails with is a status of that call on every rank. Only where
 *   the transport fails in that exchange, a rank that has heard of all the others by then returns ATTILE_OK: its result is whole, and it
 *   learns of the fault at its next call.
 * - *After a code of block 6xxx* the outputs of that call are undefined. So is D of a product over ranks where a rank's own work fails once
 *   data has travelled (blocks 2xxx and 4xxx): sums are made where they belong.
 *
 * docs/distributed.md has the methods, what they send and when they pay.
 */
#ifndef ATTILE_ATTILE_DISTRIBUTED_H
#define ATTILE_ATTILE_DISTRIBUTED_H

#include <attile/attile.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @defgroup distributed_status Status codes of ranks
 * Block 6xxx. attile_status_name() knows them.
 * @{
 */
#define ATTILE_ERROR_INVALID_COMM 6001   /**< The communicator is NULL, destroyed, or no communicator; or another call is using it. */
#define ATTILE_ERROR_RANKS_DISAGREE 6002 /**< Ranks were called with arguments that must be the same and are not. */
#define ATTILE_ERROR_RANK_FAILED 6003    /**< Another rank failed; the sentence says which and why. */
#define ATTILE_ERROR_RANK_LATE 6004      /**< Another rank did not come within the time limit. */
#define ATTILE_ERROR_TRANSPORT 6005      /**< What carries the messages failed. */
#define ATTILE_ERROR_COMM_BROKEN 6006    /**< The communicator refuses work because an earlier call on it failed. */
/** @} */

/**
 * @defgroup comm Communicators
 * @{
 */
/** One rank's end of a group of ranks. Opaque, and no address: made by attile_comm_create(), never given out a second time. */
typedef struct attile_comm attile_comm;

/**
 * What carries bytes between ranks, for the kind "callbacks". A function returns 0, or any other number if it failed; it may be called from
 * any thread that makes a call on the communicator, by one at a time, and must not call Attile. Fill with attile_comm_callbacks_init()
 * first.
 *
 * send, receive and wait are required. Messages between two ranks arrive in the order in which they were sent, and are received in it: the
 * n-th receive from a rank takes the n-th send of that rank to this one, and both have the same size. The order of completion is free.
 */
typedef struct attile_comm_callbacks {
    uint32_t struct_size; /**< sizeof(attile_comm_callbacks). */
    uint32_t flags;       /**< Must be 0. */
    const void *next;     /**< Must be NULL. */
    void *user;           /**< Handed to every function. */
    /** Start to send `bytes` bytes (1 or more) to rank `to`, and return without waiting for it to receive them. `data` stays as it is until
        the request was waited for. */
    int32_t (*send)(void *user, const void *data, int64_t bytes, int32_t to, void **request);
    /** Start to receive from rank `from`, and return without waiting. */
    int32_t (*receive)(void *user, void *data, int64_t bytes, int32_t from, void **request);
    /** Wait for a request, at most so many seconds; 0: end it now. ATTILE_ERROR_RANK_LATE where the time is over. Whatever it returns, the
        request is over then, and nobody looks at or writes to its memory any more. Called once for each request. */
    int32_t (*wait)(void *user, void *request, double seconds);
    /** Optional: gather `bytes` bytes of each rank into `receive`, in the order of ranks, the own ones too. NULL: made of send and
        receive. */
    int32_t (*all_gather)(void *user, const void *send, void *receive, int64_t bytes, double seconds);
    /** Optional: from each rank to each. send_bytes[r] bytes at send + send_offsets[r] go to rank r, and so on; the own part is copied,
       too. Sizes may be 0. NULL: made of send and receive. */
    int32_t (*all_to_all)(void *user, const void *send, const int64_t *send_bytes, const int64_t *send_offsets, void *receive,
                          const int64_t *receive_bytes, const int64_t *receive_offsets, double seconds);
    /** Optional: the transport failed this rank, which cannot go on, for the reason that `why` tells. Waits of all ranks should end as soon
       as they can. May be called while another of these functions waits. NULL: the others find out when their time is over. (A rank whose
       own work fails goes on sending, so that the others learn of it, and why, at the end of the call.) */
    void (*give_up)(void *user, int32_t status, const char *why);
} attile_comm_callbacks;

#define ATTILE_COMM_ALLOW_MIXED_BACKENDS 0x1u /**< Ranks' contexts may be of different backends; else that is a disagreement. */

/** Options of attile_comm_create(); NULL or all zero: one rank. Fill with attile_comm_options_init() first. */
typedef struct attile_comm_options {
    uint32_t struct_size; /**< sizeof(attile_comm_options). */
    uint32_t flags;       /**< Any of ATTILE_COMM_ALLOW_MIXED_BACKENDS. */
    const void *next;     /**< Must be NULL. */
    /** "threads", "mpi", "nccl" or "callbacks". NULL: the environment variable ATTILE_COMM; where that is unset or empty "callbacks" if
       `callbacks` is given, else "threads". */
    const char *kind;
    int32_t rank;  /**< This rank, 0 to ranks - 1. "mpi", "nccl": 0 and `ranks` 0, or what the communicator says. */
    int32_t ranks; /**< How many there are; 0: 1, and with "mpi" and "nccl" as many as the communicator has. */
    int64_t group; /**< "threads": ranks that name the same number find each other. */
    const attile_comm_callbacks *callbacks; /**< "callbacks": the functions, copied; else NULL. */
    double timeout_seconds;                 /**< Longest wait for another rank; 0: what ATTILE_COMM_TIMEOUT says, else 600. */
    /** "mpi": MPI's communicator as Fortran's integer, MPI_Comm_c2f(comm); 0: MPI_COMM_WORLD. "nccl": the ncclComm_t of NCCL or RCCL, as
       (int64_t)(intptr_t)comm. */
    int64_t communicator;
} attile_comm_options;

/** What a communicator is. Filled by attile_comm_get_info(). */
typedef struct attile_comm_info {
    uint32_t struct_size;   /**< sizeof(attile_comm_info), set by the caller. */
    uint32_t flags;         /**< 0. */
    const void *next;       /**< NULL. */
    char kind[32];          /**< "threads", "mpi", "nccl", "callbacks". */
    int32_t rank;           /**< This rank. */
    int32_t ranks;          /**< How many there are. */
    double timeout_seconds; /**< Longest wait for another rank. */
    int64_t calls;          /**< Calls that all ranks began together. */
    int32_t status;         /**< ATTILE_OK, or why the communicator refuses work. */
    int32_t reserved;       /**< 0. */
    char text[256];         /**< That as a sentence. */
    /** Time that this rank's calls on the communicator have spent in the transport so far: starting messages, and waiting for other ranks.
        What travels while a rank computes costs nothing here. */
    double transport_seconds;
} attile_comm_info;

/** @brief Zero the options and stamp their size. @param options What to initialise; NULL does nothing. @param size sizeof *options. Since
 * 1.1. */
ATTILE_API void attile_comm_options_init(attile_comm_options *options, uint64_t size);

/** @brief Zero the functions and stamp their size. @param callbacks What to initialise; NULL does nothing. @param size sizeof *callbacks.
 * Since 1.1. */
ATTILE_API void attile_comm_callbacks_init(attile_comm_callbacks *callbacks, uint64_t size);

/** @brief Zero an info struct and stamp its size. @param info What to initialise; NULL does nothing. @param size sizeof *info. Since 1.1.
 */
ATTILE_API void attile_comm_info_init(attile_comm_info *info, uint64_t size);

/**
 * @brief Join a group of ranks. Returns when all of them have come.
 *
 * With "threads" each rank is a thread that calls with the same `group` and `ranks`; the number may be used again once a group is complete.
 * With "mpi" each rank is a rank of the MPI communicator that `communicator` names, and all of its ranks call. The program has initialised
 * MPI, with MPI_THREAD_FUNNELED where its main thread alone uses communicators, with MPI_THREAD_SERIALIZED where threads use them one at a
 * time and not beside other calls of MPI, else with MPI_THREAD_MULTIPLE; and destroys the communicator before it ends MPI. The transport is
 * a plugin, found as backends are; attile_backend_report() says why one was refused. Messages travel in a communicator of their own, a
 * duplicate of the caller's, and through memory of the transport's own. docs/distributed.md has what happens when a process ends.
 *
 * With "nccl" each rank is a rank of the NCCL communicator (RCCL's with the backend hip) that `communicator` is, made on the device of
 * `context`; all of its ranks call, and nothing else uses that communicator until the call has returned. NCCL 2.18 or newer has to be in
 * the process, as libnccl.so.2 (librccl.so.1). Messages travel in a communicator of the transport's own, split off the caller's, which is
 * neither used afterwards nor ever aborted or destroyed, and outlives this one. Where not all ranks come in time the split stays under way
 * until the caller aborts the communicator.
 *
 * A rank whose own arguments are refused has not come: the others wait for it. With "nccl" they get ATTILE_ERROR_RANK_FAILED if its
 * communicator was found to be one.
 * Several communicators may exist at once, and one thread may use several, if all ranks use them in the same order.
 *
 * **Thread safety** Safe: ranks of "threads" must call at the same time.
 *
 * @param context The context that this rank computes on; it must outlive the communicator.
 * @param options NULL, or which group and which rank.
 * @param[out] comm The new communicator; set to NULL on failure.
 * @return
 * - ATTILE_OK
 * - ATTILE_ERROR_NULL_ARGUMENT: `comm` is NULL; "callbacks" without `callbacks`, or without one of the required functions
 * - ATTILE_ERROR_INVALID_CONTEXT; ATTILE_ERROR_STRUCT_SIZE, ATTILE_ERROR_STRUCT_TOO_NEW, ATTILE_ERROR_INVALID_FLAGS: the structs' heads
 * - ATTILE_ERROR_INVALID_VALUE: rank or ranks out of range or others than those of MPI or NCCL, a time limit that is no positive number, a
 *   rank that is taken already, `communicator` is no communicator of one group of ranks, is on another device than the context, or given to
 *   another kind than "mpi" and "nccl"
 * - ATTILE_ERROR_BACKEND_NOT_FOUND: no transport of that kind
 * - ATTILE_ERROR_BACKEND_REFUSED: "mpi" and MPI is not in this process, not initialised, ended, or initialised for fewer threads; "nccl"
 *   and NCCL is not in this process, is too old or lacks a function, or the context's device is neither CUDA's nor HIP's
 * - ATTILE_ERROR_BACKEND_LOAD, ATTILE_ERROR_BACKEND_INCOMPATIBLE, ATTILE_ERROR_BACKEND_CONTRACT: the transport's file, as for a backend
 * - ATTILE_ERROR_RANKS_DISAGREE: another number of ranks, another version of the library, another backend
 * - ATTILE_ERROR_RANK_LATE: not all ranks came in time; ATTILE_ERROR_RANK_FAILED; ATTILE_ERROR_TRANSPORT
 * - ATTILE_ERROR_OUT_OF_HOST_MEMORY: also if 65536 communicators are alive
 *
 * Since 1.1.
 */
ATTILE_API int32_t attile_comm_create(attile_context *context, const attile_comm_options *options, attile_comm **comm);

/**
 * @brief Leave the group. Ranks of "threads" that wait for this one get ATTILE_ERROR_RANK_FAILED; those of "mpi", "nccl" and "callbacks"
 * find out in time. With "nccl" it waits up to ten seconds for the last messages to be read.
 *
 * The callbacks are not called after it returned, unless a call is under way on another thread; that call then ends by itself.
 * @param comm A communicator; NULL, and one that was destroyed before, does nothing. Since 1.1.
 */
ATTILE_API void attile_comm_destroy(attile_comm *comm);

/**
 * @brief What a communicator is, and whether it still works. Asks no other rank.
 *
 * **Thread safety** Safe.
 * @param comm A communicator.
 * @param[in,out] info Initialised by attile_comm_info_init(); filled as far as its struct_size reaches.
 * @return ATTILE_OK; ATTILE_ERROR_INVALID_COMM; ATTILE_ERROR_AFTER_FORK; ATTILE_ERROR_NULL_ARGUMENT; ATTILE_ERROR_STRUCT_SIZE. Since 1.1.
 */
ATTILE_API int32_t attile_comm_get_info(attile_comm *comm, attile_comm_info *info);
/** @} */

/**
 * @defgroup distributed Attention over ranks
 * @{
 */
/* How the rows of a sequence of L positions are spread over P ranks. */
#define ATTILE_SHARDS_CONTIGUOUS 0 /**< Rank after rank, each as many as it has; evenly cut, rank r begins at floor(r L / P). */
#define ATTILE_SHARDS_ZIGZAG 1     /**< 2 P chunks, chunk c from floor(c L / 2P): rank r has chunk r and behind it chunk 2P - 1 - r. */
#define ATTILE_SHARDS_STRIPED 2    /**< Rank r has the positions r, r + P, r + 2P, ... */

#define ATTILE_METHOD_AUTO 0       /**< The library chooses; the query says which and why. */
#define ATTILE_METHOD_RING 1       /**< Keys and values go from rank to rank, each computes with what it holds. */
#define ATTILE_METHOD_ALL_GATHER 2 /**< Each rank gets all keys and values that it needs at once. */
#define ATTILE_METHOD_ALL_TO_ALL 3 /**< Each rank gets all rows of some heads, computes them, and sends the results back (Ulysses). */
#define ATTILE_METHOD_LOCAL 4      /**< Only in answers: there is one rank. */
#define ATTILE_METHOD_TREE 5       /**< For rows that every rank has: each computes with its own keys, results are merged in log steps. */
/* Of attile_gemm_distributed(); so are AUTO and LOCAL. */
#define ATTILE_METHOD_STATIONARY_A 6 /**< Each rank computes with its part of A: panels of B come, parts of sums go to D's ranks. */
#define ATTILE_METHOD_STATIONARY_B 7 /**< The same with A and B exchanged. */
#define ATTILE_METHOD_STATIONARY_C 8 /**< Each rank computes its part of D: panels of A and B come (SUMMA). */

#define ATTILE_ROWS_SHARDED 0    /**< Each rank has its own rows, by the layout. */
#define ATTILE_ROWS_REPLICATED 1 /**< Every rank has all rows, the same on all; results too. */

/**
 * @brief Which positions a rank has.
 *
 * Row i of that part is position `first` + i `stride`; the parts follow each other in the shard.
 * **Thread safety** Safe; asks no other rank.
 * @param layout ATTILE_SHARDS_ constant; CONTIGUOUS: as it is cut evenly.
 * @param length Positions of the whole sequence, 0 to 2^48.
 * @param rank The rank.
 * @param ranks How many there are.
 * @param part 0, and for ZIGZAG also 1.
 * @param[out] first Position of the part's first row; may be NULL.
 * @param[out] count Rows of the part; may be NULL.
 * @param[out] stride Distance between its rows' positions; may be NULL.
 * @return ATTILE_OK; ATTILE_ERROR_INVALID_VALUE: unknown layout, `length`, `rank`, `ranks` or `part` out of range. Since 1.1.
 */
ATTILE_API int32_t attile_shard_part(int32_t layout, int64_t length, int32_t rank, int32_t ranks, int32_t part, int64_t *first,
                                     int64_t *count, int64_t *stride);

/** Arguments of attile_attention_distributed(). */
typedef struct attile_attention_distributed_args {
    uint32_t struct_size;               /**< sizeof(attile_attention_distributed_args). */
    uint32_t flags;                     /**< Must be 0; those of `local` are used. */
    const void *next;                   /**< Must be NULL. */
    const attile_attention_args *local; /**< The call as it is, with this rank's rows of q, o, lse and its keys of k and v. */
    int32_t layout;                     /**< ATTILE_SHARDS_ constant, of rows and of keys. */
    int32_t method;                     /**< ATTILE_METHOD_ constant; TREE and ATTILE_ROWS_REPLICATED go together. */
    int64_t len_q;                      /**< Rows of all ranks together; 0: every rank has as many as this one. */
    int64_t len_k;                      /**< Keys of all ranks together; 0: every rank has as many as this one. */
    int32_t rows;                       /**< ATTILE_ROWS_ constant. */
    int32_t reserved;                   /**< Must be 0. */
} attile_attention_distributed_args;

/** Answer of attile_attention_distributed_query() and attile_attention_backward_distributed_query(). */
typedef struct attile_distributed_support {
    uint32_t struct_size; /**< sizeof(attile_distributed_support), set by the caller. */
    uint32_t flags;       /**< 0. */
    const void *next;     /**< NULL. */
    int32_t level;        /**< ATTILE_SUPPORT_ constant of the local calls. */
    int32_t status;       /**< The code a call would return: ATTILE_OK, or 2xxx when `level` is NONE. */
    int32_t method;       /**< ATTILE_METHOD_ constant: the one that would be used. */
    int32_t reserved;     /**< 0. */
    char kernel[96];      /**< The kernel of a local call. */
    char text[256];       /**< Why this method, and for a GPU where messages lie; or why NONE. */
    int64_t bytes_sent;   /**< What a rank sends if all shards are of one size and nothing is hidden. */
    double flops;         /**< Floating-point operations of all ranks together if nothing is hidden. */
} attile_distributed_support;

/** @brief Zero the arguments and stamp their size. @param args What to initialise; NULL does nothing. @param size sizeof *args. Since 1.1.
 */
ATTILE_API void attile_attention_distributed_init(attile_attention_distributed_args *args, uint64_t size);

/** @brief Zero a support struct and stamp its size. @param support What to initialise; NULL does nothing. @param size sizeof *support.
 * Since 1.1. */
ATTILE_API void attile_distributed_support_init(attile_distributed_support *support, uint64_t size);

/**
 * @brief attile_attention() over sequences that are spread over ranks: each rank gets the rows of o and lse that belong to its rows of q.
 *
 * **Formula** that of attile_attention(), where i and j are positions in the whole sequences and len_q and len_k their lengths: masks,
 * windows and ALiBi go by these. A sink counts once in each row. Results are those of one rank within rounding, and the same bits in
 * every run with the same shards, method and backend. Results of f16 and bf16 are rounded once, at the end.
 *
 * **Rows that every rank has** (ATTILE_ROWS_REPLICATED), as those of a step of decoding: q, o and lse have all len_q rows on each rank,
 * with the same contents of q, `bias` and `allowed`; keys are spread as ever. Every rank gets every row, and on one backend the same bits.
 *
 * **Shapes and strides** those of attile_attention(), with the shard's rows in q, o and lse and the shard's keys in k and v, in the order
 * of attile_shard_part(); either may have none. `bias` and `allowed` have the shard's rows and all keys, in the order of positions.
 * key_lengths count keys of the whole sequence. key_lengths, alibi_slopes and sinks hold the same on every rank. Not yet here, and refused
 * with ATTILE_ERROR_UNSUPPORTED_FEATURE: paged K/V, key_starts, causal_offset, block_mask, tree_mask, q or o of 8 bits, k, v
 * or bias of other types than q (but for a bias of f32), cu_len_q without cu_len_k, a workspace of the caller's, ATTILE_FLAG_NO_ALLOC.
 *
 * **Packed sequences** are cut as if they were one, anywhere: len_q, len_k and the layout are those of all rows and keys together, and
 * cu_len_q and cu_len_k, the same on every rank, hold positions there. `bias` and `allowed` are as one rank has them, [sequences, heads_q,
 * max_len_q, max_len_k], whole and the same on every rank; max_len of 0 stands for len_q and len_k. Of rows that several sequences have,
 * since offsets decrease, the result is that of one of them.
 *
 * **Memory** Any kind. What travels, and partial results, lie in host memory that the call allocates; tensors of a device are copied there.
 * With "nccl" they lie in device memory if q, k, v, o and lse do, but for ALL_TO_ALL with `bias` or `allowed`; the query's text says which.
 *
 * **Stream** Local calls run on local->stream. The call returns when the result is in place.
 *
 * **Thread safety** One call at a time on a communicator. Every rank has to make the same calls on it, in the same order.
 *
 * @param comm The communicator.
 * @param args What to compute.
 * @return
 * - as attile_attention(), for what is wrong with this rank's own arguments; all the other ranks get ATTILE_ERROR_RANK_FAILED
 * - ATTILE_ERROR_INVALID_VALUE: an unknown layout, method or `rows`, TREE without ATTILE_ROWS_REPLICATED or another method with it,
 *   negative lengths or lengths above 2^48
 * - ATTILE_ERROR_SHAPE_MISMATCH: the shard has not the rows that its layout says
 * - ATTILE_ERROR_INVALID_COMM; ATTILE_ERROR_AFTER_FORK; ATTILE_ERROR_COMM_BROKEN; ATTILE_ERROR_RANKS_DISAGREE; ATTILE_ERROR_RANK_FAILED;
 *   ATTILE_ERROR_RANK_LATE; ATTILE_ERROR_TRANSPORT
 *
 * Since 1.1.
 */
ATTILE_API int32_t attile_attention_distributed(attile_comm *comm, const attile_attention_distributed_args *args);

/**
 * @brief How attile_attention_distributed() would run with these arguments. Asks no other rank and reads no tensor data; data pointers may
 * be NULL.
 *
 * **Thread safety** Safe.
 * @param comm The communicator.
 * @param args The arguments of the call.
 * @param[in,out] support Initialised by attile_distributed_support_init().
 * @return ATTILE_OK, also when the answer is ATTILE_SUPPORT_NONE; else the argument code that attile_attention_distributed() would return.
 * Since 1.1.
 */
ATTILE_API int32_t attile_attention_distributed_query(attile_comm *comm, const attile_attention_distributed_args *args,
                                                      attile_distributed_support *support);

/** Arguments of attile_attention_backward_distributed(). */
typedef struct attile_attention_backward_distributed_args {
    uint32_t struct_size;                        /**< sizeof(attile_attention_backward_distributed_args). */
    uint32_t flags;                              /**< Must be 0; those of `local` are used. */
    const void *next;                            /**< Must be NULL. */
    const attile_attention_backward_args *local; /**< The call as it is, with this rank's rows and keys. */
    int32_t layout;                              /**< ATTILE_SHARDS_ constant, of rows and of keys. */
    int32_t method;                              /**< ATTILE_METHOD_ constant, but TREE. */
    int64_t len_q;                               /**< Rows of all ranks together; 0: every rank has as many as this one. */
    int64_t len_k;                               /**< Keys of all ranks together; 0: every rank has as many as this one. */
} attile_attention_backward_distributed_args;

/** @brief Zero the arguments and stamp their size. @param args What to initialise; NULL does nothing. @param size sizeof *args. Since 1.1.
 */
ATTILE_API void attile_attention_backward_distributed_init(attile_attention_backward_distributed_args *args, uint64_t size);

/**
 * @brief Gradients of attile_attention_distributed(): each rank gets dq of its rows, and dk and dv of its keys.
 *
 * **Formula** that of attile_attention_backward(), over the rows and keys of all ranks. local->forward is the forward call of this rank,
 * with the rows of o and lse that it gave. Sums over ranks are made in a fixed order, in float32, of f64 in float64, and rounded once:
 * the same bits in every run with the same shards, method and backend. dsinks is the sum over all ranks, and the same on each.
 *
 * **Shapes and strides** those of attile_attention_backward(), with the shard's rows in q, o, lse, dout and dq and the shard's keys in k,
 * v, dk and dv. `bias`, `allowed` and dbias have the shard's rows and all keys, in the order of positions. Where bias and dbias have one
 * row for all (an extent of 1 or no such axis, or a stride of 0 in both) dbias is the sum over the rows of all ranks, and the same on
 * each; an extent of 1 is the rank's own row only where no rank's bias shows that it is not. With packed sequences it always is, as bias
 * is whole on each rank. local->flags, stream and workspace are used,
 * those of local->forward are not. Refused with ATTILE_ERROR_UNSUPPORTED_FEATURE: what attile_attention_distributed() refuses, and dlse.
 *
 * **Memory, stream, thread safety** as attile_attention_distributed(), on local->stream.
 *
 * @param comm The communicator.
 * @param args What to compute.
 * @return As attile_attention_backward(), for what is wrong with this rank's own arguments, and as attile_attention_distributed();
 *   ATTILE_ERROR_RANKS_DISAGREE also where dbias is one for all rows on one rank and has rows of its own on another. Since 1.1.
 */
ATTILE_API int32_t attile_attention_backward_distributed(attile_comm *comm, const attile_attention_backward_distributed_args *args);

/**
 * @brief How attile_attention_backward_distributed() would run with these arguments. Asks no other rank and reads no tensor data; data
 * pointers may be NULL.
 *
 * **Thread safety** Safe.
 * @param comm The communicator.
 * @param args The arguments of the call.
 * @param[in,out] support Initialised by attile_distributed_support_init().
 * @return ATTILE_OK, also when the answer is ATTILE_SUPPORT_NONE; else the argument code that attile_attention_backward_distributed()
 * would return. Since 1.1.
 */
ATTILE_API int32_t attile_attention_backward_distributed_query(attile_comm *comm, const attile_attention_backward_distributed_args *args,
                                                               attile_distributed_support *support);
/** @} */

/**
 * @defgroup distributed_gemm Matrix multiplication over ranks
 * @{
 */
#define ATTILE_GRID_ROW_MAJOR 0    /**< Rank r is in row r / columns and column r % columns of the grid. */
#define ATTILE_GRID_COLUMN_MAJOR 1 /**< Rank r is in row r % rows and column r / rows of the grid. */
#define ATTILE_REPLICATED (-1)     /**< A source: each row (column) of the grid has all rows (columns) of the matrix. */

/** The ranks of a communicator as rows and columns. Fill with attile_grid_init() first. */
typedef struct attile_grid {
    uint32_t struct_size; /**< sizeof(attile_grid). */
    uint32_t flags;       /**< Must be 0. */
    const void *next;     /**< Must be NULL. */
    int32_t rows;         /**< 1 or more; rows times columns is the number of ranks. */
    int32_t columns;      /**< 1 or more. */
    int32_t order;        /**< ATTILE_GRID_ constant. */
    int32_t reserved;     /**< Must be 0. */
} attile_grid;

/**
 * A matrix whose blocks go round a grid, and part of it (2-D block-cyclic, as ScaLAPACK and cuBLASMp have it). Row i of the matrix is in
 * block i / block_rows, which row (source_row + i / block_rows) % grid->rows of the grid has; columns likewise. A rank has its rows and
 * columns in their order. Fill with attile_distributed_matrix_init() first.
 */
typedef struct attile_distributed_matrix {
    uint32_t struct_size;    /**< sizeof(attile_distributed_matrix). */
    uint32_t flags;          /**< Must be 0. */
    const void *next;        /**< Must be NULL. */
    const attile_grid *grid; /**< The grid; NULL: one row of all ranks. */
    int64_t rows;            /**< Rows of the whole matrix, 0 to 2^40 (M_). */
    int64_t columns;         /**< Columns of the whole matrix, 0 to 2^40 (N_). */
    int64_t block_rows;      /**< Rows of a block (MB_); 0: cut evenly, rows / grid->rows rounded up. */
    int64_t block_columns;   /**< Columns of a block (NB_); 0: cut evenly. */
    int32_t source_row;      /**< The row of the grid that has the first block (RSRC_), or ATTILE_REPLICATED. */
    int32_t source_column;   /**< The column of the grid that has it (CSRC_), or ATTILE_REPLICATED. */
    int64_t row;             /**< Where the part that the call works on begins, from 0 (ScaLAPACK's ia - 1). */
    int64_t column;          /**< Likewise (ja - 1). */
    /** What this rank has of the whole matrix, [its rows, its columns], any strides. No rows or no columns: only the type and the extents
        are looked at. */
    attile_tensor local;
} attile_distributed_matrix;

/** Arguments of attile_gemm_distributed(). */
typedef struct attile_gemm_distributed_args {
    uint32_t struct_size;               /**< sizeof(attile_gemm_distributed_args). */
    uint32_t flags;                     /**< Any of ATTILE_FLAG_BATCH_INVARIANT, _ALLOW_SPLIT_TF32, _ALLOW_NONDETERMINISTIC. */
    const void *next;                   /**< Must be NULL. */
    void *stream;                       /**< Stream of the rank's own products; NULL: the default stream. */
    int32_t transa;                     /**< ATTILE_NO_TRANS or 0, ATTILE_TRANS or ATTILE_CONJ_TRANS. */
    int32_t transb;                     /**< Likewise. */
    int64_t m;                          /**< Rows of op(A) and D. */
    int64_t n;                          /**< Columns of op(B) and D. */
    int64_t k;                          /**< Columns of op(A), rows of op(B). */
    const attile_distributed_matrix *a; /**< Its part is [m, k], transposed [k, m]. */
    const attile_distributed_matrix *b; /**< Its part is [k, n], transposed [n, k]. */
    const attile_distributed_matrix *d; /**< Its part is [m, n], the output. */
    attile_tensor c;    /**< This rank's part of C, which is spread as D is: d->local's shape. May be d->local; absent if beta is 0. */
    double alpha;       /**< Factor of op(A) op(B). attile_gemm_distributed_init() sets it to 1. */
    double beta;        /**< Factor of C; 0: C is not read. */
    attile_tensor bias; /**< One axis: for those columns (rows) of D's part that this rank has; absent for none. */
    int32_t bias_axis;  /**< ATTILE_BIAS_ constant. */
    int32_t activation; /**< ATTILE_ACTIVATION_ constant. */
    int32_t method;     /**< ATTILE_METHOD_AUTO or _STATIONARY_A, _B, _C. */
    int32_t reserved;   /**< Must be 0. */
    int64_t panel;      /**< Rows or columns that travel at once; 0: chosen, see attile_gemm_distributed(). */
} attile_gemm_distributed_args;

/** @brief Zero a grid and stamp its size. @param grid What to initialise; NULL does nothing. @param size sizeof *grid. Since 1.1. */
ATTILE_API void attile_grid_init(attile_grid *grid, uint64_t size);

/** @brief Zero a matrix and stamp its size. @param matrix What to initialise; NULL does nothing. @param size sizeof *matrix. Since 1.1. */
ATTILE_API void attile_distributed_matrix_init(attile_distributed_matrix *matrix, uint64_t size);

/** @brief Zero the arguments, stamp their size, set alpha to 1. @param args What to initialise; NULL does nothing. @param size sizeof
 * *args. Since 1.1. */
ATTILE_API void attile_gemm_distributed_init(attile_gemm_distributed_args *args, uint64_t size);

/**
 * @brief Rows and columns that a rank has of a whole matrix (ScaLAPACK's numroc). Asks no other rank; `local` is not looked at.
 *
 * **Thread safety** Safe.
 * @param matrix The matrix.
 * @param rank The rank.
 * @param ranks How many there are.
 * @param[out] rows Its rows; may be NULL.
 * @param[out] columns Its columns; may be NULL.
 * @return ATTILE_OK; as attile_gemm_distributed() for what is wrong with the matrix or its grid; ATTILE_ERROR_INVALID_VALUE: `rank` or
 * `ranks` out of range. Since 1.1.
 */
ATTILE_API int32_t attile_distributed_extents(const attile_distributed_matrix *matrix, int32_t rank, int32_t ranks, int64_t *rows,
                                              int64_t *columns);

/**
 * @brief D = activation(alpha op(A) op(B) + beta C + bias) of matrices that are spread over ranks.
 *
 * **Formula** that of attile_gemm(), for the parts of the matrices that begin at `row` and `column`. Results are those of one rank within
 * rounding, and the same bits in every run with the same layouts, method, panel and backend. Sums are in float32, of f64 in float64, and
 * rounded to f16 or bf16 once, at the end. With alpha = 0 or k = 0 neither A nor B is read.
 *
 * **Layouts** A, B and D may have different grids, blocks, sources and strides; what does not match is sent where it is needed. So
 * all-gather and GEMM, GEMM and reduce-scatter, GEMM and all-reduce are layouts of this call (docs/distributed.md). A replicated matrix
 * has the same contents on all ranks that have it; a replicated D has the same bits on all of them. Blocks need not divide extents.
 *
 * **Epilogue** all of attile_gemm()'s for one matrix: bias along rows or columns, every activation, f32 results of f16 and bf16. Batches
 * are not served.
 *
 * **Method** AUTO takes the one with which all ranks together send the fewest bytes, of equal ones STATIONARY_C before _A before _B. Panels
 * travel while the one before is multiplied. Their width: 4096 bytes of a row, or what makes a rank's panels 4 MiB if that is more, at most
 * the whole axis. attile_gemm_distributed_query() says both.
 *
 * **Shapes and strides** `local` of each matrix has exactly the rows and columns of attile_distributed_extents(), in any strides; D's
 * elements are apart. Types: a and b alike, one of f32, f64, f16, bf16; c and d alike, that type, or f32 if a and b are f16 or bf16; bias
 * as d or f32. The part of d->local must not overlap those of a->local and b->local, nor bias; c is exactly d->local or apart from it.
 * Parts of one array that have no element in common are apart.
 *
 * **Memory** Any kind. Where the communicator's transport reaches device memory (kind "nccl") and a, b, c, d and bias all lie there, so
 * does what travels, in memory that the communicator keeps for the next call. Else it lies in host memory that the call allocates, and
 * matrices of a device are copied there; the query's text says which. A rank holds two panels of each matrix that travels, and what it
 * sends and receives of one; with f16 and bf16 its part of D in float32 besides; on the device, with A or B stationary, also a panel of D
 * for each rank.
 *
 * **Stream** Local calls run on args->stream. The call returns when the result is in place.
 *
 * **Thread safety** One call at a time on a communicator. Every rank has to make the same calls on it, in the same order.
 *
 * @param comm The communicator.
 * @param args What to compute.
 * @return
 * - ATTILE_OK
 * - ATTILE_ERROR_NULL_ARGUMENT: `args`, a, b, d, or the data of a part with elements
 * - ATTILE_ERROR_STRUCT_SIZE, ATTILE_ERROR_STRUCT_TOO_NEW, ATTILE_ERROR_INVALID_FLAGS: a struct's head
 * - ATTILE_ERROR_INVALID_DTYPE, ATTILE_ERROR_INVALID_RANK, ATTILE_ERROR_INVALID_SHAPE, ATTILE_ERROR_INVALID_STRIDE,
 *   ATTILE_ERROR_OVERFLOW, ATTILE_ERROR_MISALIGNED: a tensor by itself; negative m, n or k
 * - ATTILE_ERROR_SHAPE_MISMATCH: `local` has not the rank's rows and columns; the part goes beyond the matrix; bias has not D's extent
 * - ATTILE_ERROR_INVALID_VALUE: a grid that has not as many places as there are ranks; extents, blocks, sources or origins out of range;
 *   unknown transa, transb, order, method, bias_axis or activation; alpha or beta not finite in the type of the sums; beta not 0 and
 *   c absent; bias without an axis or the reverse; a negative panel
 * - ATTILE_ERROR_ALIASING: D overlaps an input
 * - all the other ranks get ATTILE_ERROR_RANK_FAILED for one of these
 * - ATTILE_ERROR_INVALID_COMM; ATTILE_ERROR_AFTER_FORK; ATTILE_ERROR_COMM_BROKEN; ATTILE_ERROR_RANKS_DISAGREE: shapes, types, layouts,
 *   factors, epilogue, method, panel or flags; ATTILE_ERROR_RANK_FAILED; ATTILE_ERROR_RANK_LATE; ATTILE_ERROR_TRANSPORT
 * - a code of block 2xxx, 4xxx or 5xxx: as attile_gemm()
 *
 * Since 1.1.
 */
ATTILE_API int32_t attile_gemm_distributed(attile_comm *comm, const attile_gemm_distributed_args *args);

/**
 * @brief How attile_gemm_distributed() would run with these arguments. Asks no other rank and reads no tensor data; data pointers may be
 * NULL.
 *
 * **Thread safety** Safe.
 * @param comm The communicator.
 * @param args The arguments of the call.
 * @param[in,out] support Initialised by attile_distributed_support_init(); bytes_sent is the mean of all ranks.
 * @return ATTILE_OK, also when the answer is ATTILE_SUPPORT_NONE; else the argument code that attile_gemm_distributed() would return.
 * Since 1.1.
 */
ATTILE_API int32_t attile_gemm_distributed_query(attile_comm *comm, const attile_gemm_distributed_args *args,
                                                 attile_distributed_support *support);
/** @} */

/**
 * @defgroup scalapack ScaLAPACK's names
 *
 * attile_pdgemm() and attile_psgemm() have the arguments of ScaLAPACK's pdgemm and psgemm. A descriptor is ScaLAPACK's array of nine:
 * DTYPE_ (1), CTXT_, M_, N_, MB_, NB_, RSRC_, CSRC_, LLD_. Matrices are column-major, indices begin at 1. CTXT_ is a number that
 * attile_grid_open() gave, or, where a BLACS library over MPI is in the process, a BLACS context.
 *
 * **BLACS contexts** At the first call with one, every rank of its grid calls: an Attile context as attile_context_create(NULL) makes it
 * and a communicator of kind "mpi" are made for it, and stay until attile_grid_close(). Close it before the BLACS grid ends
 * (blacs_gridexit) and before MPI does. MPI has to be initialised for threads, as attile_comm_create() says.
 * @{
 */

/**
 * @brief A number for CTXT_ of descriptors: this rank's end of a communicator, and a grid.
 *
 * Asks no other rank; ranks may get different numbers. The numbers are larger than 2^30, so that they are no BLACS contexts. They are given
 * out once.
 * **Thread safety** Safe.
 * @param comm The communicator. Where it is destroyed, calls with the number fail with ATTILE_ERROR_INVALID_COMM.
 * @param grid The grid; NULL: one row of all ranks.
 * @param[out] context The number.
 * @return ATTILE_OK; ATTILE_ERROR_NULL_ARGUMENT; ATTILE_ERROR_INVALID_COMM; as attile_gemm_distributed() for what is wrong with the grid;
 * ATTILE_ERROR_OUT_OF_HOST_MEMORY. Since 1.1.
 */
ATTILE_API int32_t attile_grid_open(attile_comm *comm, const attile_grid *grid, int32_t *context);

/**
 * @brief End a number of attile_grid_open(), or what was made for a BLACS context. The communicator of the former stays.
 * **Thread safety** Safe.
 * @param context The number; one that is not open does nothing. Since 1.1.
 */
ATTILE_API void attile_grid_close(int32_t context);

/**
 * @brief sub(C) = alpha op(sub(A)) op(sub(B)) + beta sub(C) in float64, over the ranks of a grid: ScaLAPACK's pdgemm.
 *
 * sub(X) begins at row ix and column jx, from 1, and has [m, k], transposed [k, m], and so on. All three descriptors name one grid. All
 * of attile_gemm_distributed() holds.
 *
 * **Fortran** The symbol attile_pdgemm_ takes every argument by reference, as pdgemm does, so that a program changes the name alone:
 * call attile_pdgemm('N', 'N', m, n, k, alpha, a, ia, ja, desca, ...). It returns the status; declare it as an integer function to look at
 * it. Called as a subroutine the status is lost, and sub(C) is then not written or, after a code of block 6xxx and where a rank's own work
 * fails, undefined.
 *
 * @param transa ATTILE_NO_TRANS, ATTILE_TRANS, ATTILE_CONJ_TRANS, or the letter: N, T, C in either case.
 * @param transb Likewise.
 * @param m Rows of sub(C).
 * @param n Columns of sub(C).
 * @param k Columns of op(sub(A)).
 * @param alpha Factor of the product.
 * @param a This rank's part of A.
 * @param ia Row where sub(A) begins, from 1.
 * @param ja Column where sub(A) begins.
 * @param desca Descriptor of A.
 * @param b This rank's part of B.
 * @param ib Row where sub(B) begins.
 * @param jb Column where sub(B) begins.
 * @param descb Descriptor of B.
 * @param beta Factor of sub(C); 0: it is not read.
 * @param[in,out] c This rank's part of C.
 * @param ic Row where sub(C) begins.
 * @param jc Column where sub(C) begins.
 * @param descc Descriptor of C.
 * @return As attile_gemm_distributed(); ATTILE_ERROR_NULL_ARGUMENT: a descriptor; ATTILE_ERROR_INVALID_VALUE also: DTYPE_ is not 1, LLD_
 *   is less than the rank's rows, CTXT_ is not the same in all descriptors; ATTILE_ERROR_INVALID_COMM: it is not open and no BLACS context;
 * as attile_context_create() and attile_comm_create() at the first call with a BLACS context. A rank that names no communicator tells
 *   nobody, and is late for the others. Since 1.1.
 */
ATTILE_API int32_t attile_pdgemm(int32_t transa, int32_t transb, int64_t m, int64_t n, int64_t k, double alpha, const double *a, int64_t ia,
                                 int64_t ja, const int32_t *desca, const double *b, int64_t ib, int64_t jb, const int32_t *descb,
                                 double beta, double *c, int64_t ic, int64_t jc, const int32_t *descc);

/** @brief ScaLAPACK's psgemm: attile_pdgemm() in float32. All else as there.
 * @param transa As attile_pdgemm().
 * @param transb As attile_pdgemm().
 * @param m Rows of sub(C).
 * @param n Columns of sub(C).
 * @param k Columns of op(sub(A)).
 * @param alpha Factor of the product.
 * @param a Part of A.
 * @param ia Row of sub(A).
 * @param ja Column of sub(A).
 * @param desca Descriptor of A.
 * @param b Part of B.
 * @param ib Row of sub(B).
 * @param jb Column of sub(B).
 * @param descb Descriptor of B.
 * @param beta Factor of sub(C).
 * @param c Part of C.
 * @param ic Row of sub(C).
 * @param jc Column of sub(C).
 * @param descc Descriptor of C.
 * @return As attile_pdgemm(). Since 1.1. */
ATTILE_API int32_t attile_psgemm(int32_t transa, int32_t transb, int64_t m, int64_t n, int64_t k, double alpha, const float *a, int64_t ia,
                                 int64_t ja, const int32_t *desca, const float *b, int64_t ib, int64_t jb, const int32_t *descb,
                                 double beta, float *c, int64_t ic, int64_t jc, const int32_t *descc);

/** @brief attile_pdgemm() as Fortran calls it, each argument by reference; lengths of the letters may follow and are not looked at.
 * @param transa Its first letter: N, T or C, in either case.
 * @param transb Likewise.
 * @param m As attile_pdgemm(), as all that follows.
 * @param n As there.
 * @param k As there.
 * @param alpha As there.
 * @param a As there.
 * @param ia As there.
 * @param ja As there.
 * @param desca As there.
 * @param b As there.
 * @param ib As there.
 * @param jb As there.
 * @param descb As there.
 * @param beta As there.
 * @param c As there.
 * @param ic As there.
 * @param jc As there.
 * @param descc As there.
 * @return As attile_pdgemm(). Since 1.1. */
ATTILE_API int32_t attile_pdgemm_(const char *transa, const char *transb, const int32_t *m, const int32_t *n, const int32_t *k,
                                  const double *alpha, const double *a, const int32_t *ia, const int32_t *ja, const int32_t *desca,
                                  const double *b, const int32_t *ib, const int32_t *jb, const int32_t *descb, const double *beta,
                                  double *c, const int32_t *ic, const int32_t *jc, const int32_t *descc);

/** @brief attile_psgemm() as Fortran calls it, each argument by reference; lengths of the letters may follow and are not looked at.
 * @param transa Its first letter: N, T or C, in either case.
 * @param transb Likewise.
 * @param m As attile_pdgemm(), as all that follows.
 * @param n As there.
 * @param k As there.
 * @param alpha As there.
 * @param a As there.
 * @param ia As there.
 * @param ja As there.
 * @param desca As there.
 * @param b As there.
 * @param ib As there.
 * @param jb As there.
 * @param descb As there.
 * @param beta As there.
 * @param c As there.
 * @param ic As there.
 * @param jc As there.
 * @param descc As there.
 * @return As attile_pdgemm(). Since 1.1. */
ATTILE_API int32_t attile_psgemm_(const char *transa, const char *transb, const int32_t *m, const int32_t *n, const int32_t *k,
                                  const float *alpha, const float *a, const int32_t *ia, const int32_t *ja, const int32_t *desca,
                                  const float *b, const int32_t *ib, const int32_t *jb, const int32_t *descb, const float *beta, float *c,
                                  const int32_t *ic, const int32_t *jc, const int32_t *descc);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* ATTILE_ATTILE_DISTRIBUTED_H */
