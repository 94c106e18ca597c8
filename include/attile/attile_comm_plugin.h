/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file attile_comm_plugin.h
 * @brief The contract between libattile and a transport: what carries bytes between ranks. C99.
 *
 * **Loading.** A transport is a shared object `libattile_comm_<name>.so` (`.dll` on Windows) that exports one symbol,
 * ATTILE_COMM_PLUGIN_ENTRY, of type attile_comm_plugin_entry_fn. It lies where backends lie, and is found, opened, checked and reported by
 * the same rules. Several may serve one kind of attile_comm_create(): for "mpi" the names mpi, mpi_openmpi and mpi_mpich are tried in this
 * order.
 *
 * **Libraries.** What a transport is linked with has to be in the process already: a file that needs a library which the process has not
 * loaded is refused before it is opened. So the transport of an MPI meets the very MPI that the program uses, and no second one comes in.
 *
 * **Versions.** As in attile_backend.h: structs begin with their size and only grow at their end, and the core accepts a transport of the
 * same `abi_major` if `host_minor_min` is not above its own minor.
 *
 * **Rules for every function** Thread-safe. Return ATTILE_OK or a code of attile.h or attile_distributed.h, after host->set_error with a
 * sentence. No abort, exit, exception, printing; no static destructors, no atexit. No call of Attile but the functions of a device.
 */
#ifndef ATTILE_ATTILE_COMM_PLUGIN_H
#define ATTILE_ATTILE_COMM_PLUGIN_H

#include "attile_backend.h"
#include "attile_distributed.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ATTILE_COMM_PLUGIN_ABI_MAJOR 1u                 /**< Changes when old transports stop working. */
#define ATTILE_COMM_PLUGIN_ABI_MINOR 1u                 /**< Grows with every addition. */
#define ATTILE_COMM_PLUGIN_ENTRY "attile_comm_entry_v1" /**< The one exported symbol. */

/**
 * The device of this rank's context, for transports that reach its memory. The functions are those of attile.h with the same names, on that
 * context, and may be called from any thread. What they fail with has its sentence: return the status as it is. Copy the table: it is the
 * core's again when `open` returns. The context stays until `close` has returned.
 */
typedef struct attile_comm_device {
    uint32_t struct_size;                                                         /**< sizeof(attile_comm_device) of the core. */
    int32_t type;                                                                 /**< ATTILE_DEVICE_ constant. */
    int32_t index;                                                                /**< Its number among the devices of that type. */
    int32_t reserved;                                                             /**< 0. */
    void *context;                                                                /**< Handed to every function. */
    int32_t (*alloc)(void *context, int32_t kind, int64_t bytes, void **pointer); /**< attile_alloc(). */
    int32_t (*free)(void *context, void *pointer);                                /**< attile_free(). */
    int32_t (*copy)(void *context, void *destination, const void *source, int64_t bytes, void *stream); /**< attile_copy(). */
    int32_t (*memory_kind)(void *context, const void *pointer, int32_t *kind);                          /**< attile_memory_kind(). */
    int32_t (*stream_create)(void *context, void **stream);                                             /**< attile_stream_create(). */
    int32_t (*stream_destroy)(void *context, void *stream);                                             /**< attile_stream_destroy(). */
} attile_comm_device;

/** Which rank of which group to open: what the caller of attile_comm_create() said, its values checked where they stand alone. */
typedef struct attile_comm_plugin_options {
    uint32_t struct_size;             /**< sizeof(attile_comm_plugin_options) of the core. */
    uint32_t reserved;                /**< 0. */
    int32_t rank;                     /**< As given. */
    int32_t ranks;                    /**< As given; 0 with rank 0: the transport knows both. */
    int64_t group;                    /**< As given. */
    int64_t communicator;             /**< As given. */
    double timeout_seconds;           /**< Longest wait for another rank, positive. */
    const attile_comm_device *device; /**< Since minor 1. */
} attile_comm_plugin_options;

/* Flags of a link. */
#define ATTILE_COMM_PLUGIN_TELLS_WHY 0x1u /**< A wait that another's give_up ends is ATTILE_ERROR_RANK_FAILED after set_error(why). */
/** Messages may lie in the device's memory: what wrote it is done when `send` is called, what reads it has yet to begin. Since minor 1. */
#define ATTILE_COMM_PLUGIN_REACHES_DEVICE 0x2u

/** One rank's end. */
typedef struct attile_comm_plugin_link {
    uint32_t struct_size; /**< sizeof(attile_comm_plugin_link) of the core, which has zeroed the rest. */
    uint32_t flags;       /**< Any ATTILE_COMM_PLUGIN_ flags of a link. */
    int32_t rank;         /**< This rank. */
    int32_t ranks;        /**< How many there are, 1 to 65536. */
    /** To be filled with the functions, which have the promises of that struct and may use host->set_error. The core's own, zeroed and its
        size stamped; copied. */
    attile_comm_callbacks *calls;
    /** Optional: the messages that were started so far are all of a step, and are to be on their way before this returns, so that they
       travel while the caller computes. Waits at most `seconds`. NULL, or not called: they are on their way when the first of them is
       waited for. Since minor 1. */
    int32_t (*flush)(void *user, double seconds);
} attile_comm_plugin_link;

/** The root that the entry returns; it and everything it points to is constant and lives as long as the process. */
typedef struct attile_comm_plugin_v1 {
    uint32_t struct_size;    /**< sizeof(attile_comm_plugin_v1) the transport was built with. */
    uint32_t abi_major;      /**< ATTILE_COMM_PLUGIN_ABI_MAJOR it was built with. */
    uint32_t abi_minor;      /**< ATTILE_COMM_PLUGIN_ABI_MINOR it was built with. */
    uint32_t host_minor_min; /**< Lowest minor of the core's contract it can work with. */
    const char *name;        /**< Lower-case letters, digits, '_' or '-'; at most 31 bytes; as in the file's name. */
    const char *version;     /**< The transport's own version, at most 31 bytes. */
    /** Can it carry bytes in this process as it is now? ATTILE_OK, or a code after set_error. Asked before each `open`. */
    int32_t (*probe)(void);
    /** Join the group. Returns when all ranks have come, as far as it can tell, or when the time is over (ATTILE_ERROR_RANK_LATE). */
    int32_t (*open)(const attile_comm_plugin_options *options, attile_comm_plugin_link *link);
    /** This rank leaves: waits for no other. `user` is that of `calls`. Called once for each `open` that succeeded. */
    void (*close)(void *user);
} attile_comm_plugin_v1;

/** The type of the entry; the table is that of backends. Returns NULL, after host->set_error, if it cannot work with this host at all. */
typedef const attile_comm_plugin_v1 *(*attile_comm_plugin_entry_fn)(const attile_host_v1 *host);

#ifdef __cplusplus
}
#endif

#endif /* ATTILE_ATTILE_COMM_PLUGIN_H */
