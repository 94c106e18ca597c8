// SPDX-License-Identifier: Apache-2.0
// AMX: the system's permission to use it.
//
// Tiles make a signal's frame 8 KiB larger, so Linux gives them only to a process that asks. From then on a small alternate signal stack
// is refused. That changes the host's process: it is done when a plan first wants tiles, never when the library is loaded.
#ifndef ATTILE_CPU_AMX_H
#define ATTILE_CPU_AMX_H

namespace attile::cpu {

// In this build: x86-64, Linux, a compiler whose assembler knows the instructions.
bool amx_is_built();
// Asks for this process's permission, once. NULL: granted. Else why not, in a sentence's words; it stays at that.
const char *amx_refusal();

}  // namespace attile::cpu

#endif  // ATTILE_CPU_AMX_H
