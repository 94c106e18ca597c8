// SPDX-License-Identifier: Apache-2.0
// Gradients of attention on a device, of scores that pass through more than a mask.
#include "attention_backward_fixture.h"

namespace attile::test {
namespace {

TEST_F(AttentionBackward, TensorModified) {
    if (!has_tensor_cores()) GTEST_SKIP() << "no tensor cores";
    for (const int32_t dtype : {ATTILE_BF16, ATTILE_F16})
        for (const int64_t dim : {64, 128, 256}) {
            AttentionCase c = sized(70, 135, dim);
            c.dtype = dtype;
            c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
            c.softcap = 3;
            c.alibi = 1;
            c.sinks = true;
            check(c, kernel16_of(dtype, dim, Scores::kMixed));
            c.bias = BiasKind::kNormal;
            c.bias_axes = 14;
            check(c, kernel16_of(dtype, dim, Scores::kMixed), false);
            check(c, kernel16_of(dtype, dim, Scores::kMixed));
            c.bias_axes = 4;
            c.batch = 2;
            check(c, kernel16_of(dtype, dim, Scores::kMixed));
            c.bias_axes = 15;
            c.packed_q = c.packed_k = true;
            check(c, kernel16_of(dtype, dim, Scores::kMixed));
            c = sized(140, 75, dim);
            c.dtype = dtype;
            c.allowed = MaskBytes::kRandom;
            c.batch = 2;
            check(c, kernel16_of(dtype, dim, Scores::kModified));
        }
}

// The same of one kind at a time, as Hopper's own kernels take them, of whole tiles and of what is left of them.
TEST_F(AttentionBackward, TensorModifiedAlone) {
    if (!has_tensor_cores()) GTEST_SKIP() << "no tensor cores";
    for (const int32_t dtype : {ATTILE_BF16, ATTILE_F16})
        for (const int64_t dim : {32, 64, 96, 128})
            for (const int64_t len_k : {256, 201}) {
                AttentionCase plain = sized(190, len_k, dim);
                plain.dtype = dtype;
                plain.batch = 2;
                plain.heads_q = 4;
                plain.heads_kv = 2;
                const std::string kernel = kernel16_of(dtype, dim, Scores::kModified);
                AttentionCase c = plain;
                c.softcap = 3;
                check(c, kernel);
                c.mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
                check(c, kernel);
                c.allowed = MaskBytes::kRandom;
                check(c, kernel);
                for (const int axes : {12, 14, 15}) {
                    c = plain;
                    c.bias = BiasKind::kNormal;
                    c.bias_axes = axes;
                    check(c, kernel, false);
                    c.alibi = 1;
                    c.allowed = MaskBytes::kRandom;
                    c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
                    check(c, kernel, false);
                }
                c = plain;
                c.alibi = 1;
                c.sinks = true;
                check(c, kernel);
                c.packed_q = c.packed_k = true;
                check(c, kernel);
                c = plain;
                c.bias = BiasKind::kLowest;
                check(c, kernel, false);
            }
}

// More rows than a launch takes, where the device says it has little memory; sums then go on from launch to launch.

}  // namespace
}  // namespace attile::test
