// SPDX-License-Identifier: Apache-2.0
// Products of float64.
#include <cmath>
#include <cstring>

#include "products.h"

namespace attile::virtual_gpu {
namespace {

// 8 rows by 8 columns by 4 of depth of float64, each sum in fused multiply-adds.
Outcome mma_f64(Warp &warp, const Instruction &instruction, Mask lanes) {
    need_whole_warp(lanes, "mma");
    const std::vector<Argument> &arguments = instruction.arguments;
    const double *const left = warp.row<double>(arguments[1].braces[0]), *const right = warp.row<double>(arguments[2].braces[0]);
    double sums[2][kLanes];
    for (std::size_t half = 0; half < 2; ++half) {
        const double *const from = warp.row<double>(arguments[3].braces[half]);
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            double sum = from[lane];
            for (std::size_t k = 0; k < 4; ++k) sum = std::fma(left[lane / 4 * 4 + k], right[(lane % 4 * 2 + half) * 4 + k], sum);
            sums[half][lane] = sum;
        }
    }
    for (std::size_t half = 0; half < 2; ++half) std::memcpy(warp.row<double>(arguments[0].braces[half]), sums[half], sizeof sums[half]);
    return Outcome::kNext;
}

}  // namespace

bool decode_mma_f64(Instruction *instruction) {
    const std::vector<Argument> &arguments = instruction->arguments;
    if (arguments.size() != 4 || arguments[0].braces.size() != 2 || arguments[1].braces.size() != 1 || arguments[2].braces.size() != 1 ||
        arguments[3].braces.size() != 2)
        return false;
    instruction->run = mma_f64;
    return true;
}

}  // namespace attile::virtual_gpu
