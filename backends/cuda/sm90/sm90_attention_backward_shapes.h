// SPDX-License-Identifier: Apache-2.0
// The tiles of the sm_90a kernels of attention's gradients.
#pragma once
#ifndef PARTS128
#define PARTS128 1
#endif

#include "sm90_attention_backward_arguments.h"

namespace attile::sm90 {

//  depth, rows, registers of serving and computing warps
struct BackwardCols64 {
    static constexpr BackwardShape kShape = {64, 128, 2, false, 24, 240};
};
struct BackwardCols128 {
    static constexpr BackwardShape kShape = {128, 64, PARTS128, true, 24, 240};
};

}  // namespace attile::sm90
