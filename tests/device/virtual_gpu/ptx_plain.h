// SPDX-License-Identifier: Apache-2.0
// Parts of decode_plain().
#pragma once

#include "ptx_machine.h"

namespace attile::virtual_gpu {

bool decode_memory(const Opcode &opcode, Instruction *instruction);      // load_store.cpp
bool decode_conversion(const Opcode &opcode, Instruction *instruction);  // convert.cpp

}  // namespace attile::virtual_gpu
