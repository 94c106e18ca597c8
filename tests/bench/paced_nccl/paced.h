/* SPDX-License-Identifier: Apache-2.0 */
/* A libnccl.so.2 that plays the other ranks of one device and paces the messages of the one that runs. NCCL's names are those that the
   transport calls. All ranks are threads of one process.

   First all ranks run at once: every message is kept. After attile_paced_replay one rank after the other makes the same calls again, from
   ncclCommSplit on. What it sends goes nowhere, what it receives is copied from what was kept, and ncclCommGetAsyncError says that a group
   is in progress until its bytes had the time to pass the link: the larger of what it sends and what it receives, divided by the rate, and
   the latency. The clock starts when the group is closed, or at the end of the group before. So waiting takes neither a multiprocessor nor
   a stream of the device.

   The names of the functions, for dlsym. */
#ifndef ATTILE_BENCH_PACED_H
#define ATTILE_BENCH_PACED_H

#include "stand_in.h"

#ifdef __cplusplus
extern "C" {
#endif

/* attile_paced_open: before anything else. `on_host`: messages lie in the host's memory, as those of emulated devices do; else in that of
   the first device of CUDA. NULL, or why it cannot be. */
typedef const char *(*attile_paced_open_fn)(int on_host);
/* attile_paced_replay: of the communicators that were made together with this one. */
typedef void (*attile_paced_replay_fn)(ncclComm_t comm);
/* attile_paced_link: the link of all groups that are closed from now on. A rate of 0: messages take no time. */
typedef void (*attile_paced_link_fn)(double bytes_per_second, double latency_seconds);

#ifdef __cplusplus
}
#endif

#endif
