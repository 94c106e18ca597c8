// SPDX-License-Identifier: Apache-2.0
// The instances of the Hopper attention kernel as the host sees them.
#pragma once

#include "attention/sm90/shapes.h"

namespace attile::gpu::sm90 {

struct AttentionKernel {
    const char *name = nullptr;
    const void *kernel = nullptr;
    const AttentionShape *shape = nullptr;
};

// Narrowest first: the first of a type that holds a head is taken.
AttentionKernel attention_bf16_cols64();
AttentionKernel attention_bf16_cols64_modified();
AttentionKernel attention_bf16_cols96();
AttentionKernel attention_bf16_cols96_modified();
AttentionKernel attention_bf16_cols128();
AttentionKernel attention_bf16_cols128_few();
AttentionKernel attention_bf16_cols128_modified();
AttentionKernel attention_bf16_cols192();
AttentionKernel attention_bf16_cols192_modified();
AttentionKernel attention_bf16_cols256();
AttentionKernel attention_bf16_cols256_modified();
AttentionKernel attention_f16_cols64();
AttentionKernel attention_f16_cols64_modified();
AttentionKernel attention_f16_cols96();
AttentionKernel attention_f16_cols96_modified();
AttentionKernel attention_f16_cols128();
AttentionKernel attention_f16_cols128_few();
AttentionKernel attention_f16_cols128_modified();
AttentionKernel attention_f16_cols192();
AttentionKernel attention_f16_cols192_modified();
AttentionKernel attention_f16_cols256();
AttentionKernel attention_f16_cols256_modified();

}  // namespace attile::gpu::sm90
