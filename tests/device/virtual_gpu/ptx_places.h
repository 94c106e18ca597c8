// SPDX-License-Identifier: Apache-2.0
// Places of registers in a warp's file: a compiler's text names thousands, of which few live at once.
#pragma once

#include "ptx_machine.h"

namespace attile::virtual_gpu {

// Turns every operand's number of a register into a place, and sets how many bytes a warp's file has.
void give_places(Kernel *kernel);

}  // namespace attile::virtual_gpu
