// SPDX-License-Identifier: Apache-2.0
// The instances of the sm_80 attention kernel as the host sees them.
#pragma once

#include "attention/sm80/shapes.h"

namespace attile::gpu::sm80 {

struct AttentionKernel {
    const char *name = nullptr;
    const void *kernel = nullptr;
    const AttentionShape *shape = nullptr;
};

// Narrowest first: the first of a type that holds a head is taken.
AttentionKernel attention_bf16_cols64();
AttentionKernel attention_bf16_cols64_modified();
AttentionKernel attention_bf16_cols128();
AttentionKernel attention_bf16_cols128_modified();
AttentionKernel attention_bf16_cols256();
AttentionKernel attention_bf16_cols256_modified();
AttentionKernel attention_f16_cols64();
AttentionKernel attention_f16_cols64_modified();
AttentionKernel attention_f16_cols128();
AttentionKernel attention_f16_cols128_modified();
AttentionKernel attention_f16_cols256();
AttentionKernel attention_f16_cols256_modified();
AttentionKernel attention_f32_cols64();
AttentionKernel attention_f32_cols64_modified();
AttentionKernel attention_f32_cols128();
AttentionKernel attention_f32_cols128_modified();
AttentionKernel attention_f32_cols256();
AttentionKernel attention_f32_cols256_modified();

}  // namespace attile::gpu::sm80
