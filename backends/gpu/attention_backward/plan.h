// SPDX-License-Identifier: Apache-2.0
// Which kernel the gradients of an attention problem get, and how the work is cut into launches: from the problem and the device alone.
#pragma once

#include <cstdint>

#include "attention_backward/simt/kernels.h"
#include "device.h"

namespace attile::gpu {

struct AttentionBackwardPlan {
    int32_t status = ATTILE_OK;  // Else why the problem cannot be run, with the reason in text.
    char text[256] = {};

    const char *name = "";
    simt::AttentionBackwardKernel kernel = nullptr;  // Null: pair by pair.
    simt::AttentionBackwardProducts products;        // Unfused instead: `kernel` is its first. Without name: not.
    int32_t rows = 0, keys = 0, depth = 0, threads = 0;
    double share = 0;
    int32_t blocks_per_unit = 0;
    bool wide = false;       // In double.
    bool unaligned = false;  // Operands that are not rewritten begin at no whole vector.
    bool modified = false;   // The kernel is the one for scores that pass through more than a mask, or for unaligned operands.
    bool copy_q = false, copy_k = false, copy_v = false, copy_dout = false;  // Rewritten as dense float rows first.
    bool bias = false, sinks = false;                                        // Their gradients are wanted.
    bool stores_rows = false, stores_keys = false;  // Unfused: the products store dq, and dk and dv, where the caller wants them.

    int64_t pairs = 0, slice = 0;           // (batch entry, key head) pairs in all and of a launch.
    int64_t row_tiles = 0, units = 0;       // Of a head; of a pair.
    int64_t chunk = 0;                      // Units of a launch.
    int64_t key_blocks = 0, key_chunk = 0;  // In all and of a launch.
    int64_t splits = 1, split_units = 0;
    int64_t group_parts = 1;  // Pairs of the same key head, whose dk and dv are added up afterwards.
    bool keys_first = false;

    // Elements of the workspace's pieces.
    int64_t row_numbers = 0, irregular = 0, copied_rows = 0, copied_keys = 0, part_q = 0, sums = 0, part_bias = 0, sum_bias = 0;
    int64_t scores = 0;     // Of P, and of dS.
    int64_t workspace = 0;  // Bytes.
};

AttentionBackwardPlan plan_attention_backward(Device &device, const attile_attention_backward_problem &problem);

void print_plan(const AttentionBackwardPlan &plan, char *text, std::size_t capacity);

}  // namespace attile::gpu
