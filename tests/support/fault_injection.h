/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the n-th call of a kind fail: allocations, mappings, new threads, operations on files, and what a stand-in asks about. Linked into
   a test program it stands in front of the system's functions for every library of the process, plugins included. */
#ifndef ATTILE_TESTS_FAULT_INJECTION_H
#define ATTILE_TESTS_FAULT_INJECTION_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ATTILE_FAULT_MEMORY 1u  /* malloc and its kin: NULL, ENOMEM */
#define ATTILE_FAULT_MAPPING 2u /* mmap: MAP_FAILED, ENOMEM */
#define ATTILE_FAULT_THREAD 4u  /* pthread_create: EAGAIN */
#define ATTILE_FAULT_FILE 8u    /* open, read, write, stat, fopen and their kin: EIO; dlopen: NULL */
#define ATTILE_FAULT_CALL 16u   /* what stand-ins ask about with attile_fault_hit() */
#define ATTILE_FAULT_SYSTEM 15u /* all kinds but the last */

#define ATTILE_FAULT_THIS_THREAD 0x80000000u /* beside kinds: other threads' calls go on, uncounted */

/* From now on calls of `kinds` are counted, and the `first`-th to the `last`-th of them fail, counted from 1. first 0: none does. */
void attile_fault_arm(uint32_t kinds, int64_t first, int64_t last);

/* Ends the counting and the failing. Returns how many calls were counted. */
int64_t attile_fault_disarm(void);

/* For stand-ins, and the interposers themselves: 1 if this call, of one kind, is to fail. Declare it weak where it may be absent. */
int attile_fault_hit(uint32_t kind);

/* Blocks allocated and not freed by now, in the whole process. */
int64_t attile_fault_blocks(void);

#ifdef __cplusplus
}
#endif

#endif
