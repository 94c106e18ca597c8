/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for NCCL: libnccl.so.2 with the functions that the transport and its tests call, for ranks that are threads or processes of
   one machine and "device memory" that is the host's. As in NCCL itself a communicator that blocks makes a split wait, one that does not
   returns at once and tells by its asynchronous error how it goes, and a rank's groups are carried out one after the other, in the
   background. */
#ifndef ATTILE_TEST_STAND_IN_H
#define ATTILE_TEST_STAND_IN_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ncclComm *ncclComm_t;
typedef struct {
    char internal[128];
} ncclUniqueId;

/* What the tests call, as NCCL has it. The names of the functions, for dlsym. */
typedef int (*attile_nccl_unique_id_fn)(ncclUniqueId *id);                                       /* ncclGetUniqueId */
typedef int (*attile_nccl_init_rank_fn)(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank); /* ncclCommInitRank */
typedef int (*attile_nccl_init_all_fn)(ncclComm_t *comms, int ranks, const int *devices);        /* ncclCommInitAll */
typedef int (*attile_nccl_end_fn)(ncclComm_t comm);                                              /* ncclCommDestroy, ncclCommAbort */

/* Of the stand-in alone: attile_stand_in_alive counts communicators, attile_stand_in_fail makes a rank's communicators fail with `result`
   in place of group number `group` that is carried out there, counted from 1; 0: never. */
typedef int (*attile_stand_in_alive_fn)(void);
typedef void (*attile_stand_in_fail_fn)(int rank, int group, int result);
/* attile_stand_in_streams: from now on `run` does what is queued on a stream, before a group on it begins and when a communicator whose
   groups are over is asked for its error. So only what is on the group's stream is in order with it. NULL: streams are left alone. */
typedef void (*attile_stand_in_run_fn)(void *stream);
typedef void (*attile_stand_in_streams_fn)(attile_stand_in_run_fn run);

#ifdef __cplusplus
}
#endif

#endif
