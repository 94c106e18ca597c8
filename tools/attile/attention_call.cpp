// SPDX-License-Identifier: Apache-2.0
#include "attention_call.h"

#include "cli.h"

namespace attile::cli {

Buffer::Buffer(attile_context *context, int64_t floats) : context_(context) {
    void *memory = nullptr;
    const int64_t bytes = floats * int64_t{sizeof(float)};
    if (attile_alloc(context, ATTILE_MEMORY_PINNED, bytes, &memory) != ATTILE_OK)
        check(attile_alloc(context, ATTILE_MEMORY_HOST, bytes, &memory));
    data_ = static_cast<float *>(memory);
}

attile_attention_args attention_arguments(const AttentionFileShape &shape, int64_t batch, bool causal, float *input, float *output) {
    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    const int64_t extents[4] = {batch, 1, shape.len, shape.head_dim};
    attile_tensor *const inputs[] = {&args.q, &args.k, &args.v};
    for (int64_t i = 0; i < 3; ++i) {
        float *data = input == nullptr ? nullptr : input + i * shape.matrix_floats();
        check(attile_tensor_init(inputs[i], data, ATTILE_F32, 4, extents));
        inputs[i]->stride[0] = shape.batch_floats();
    }
    check(attile_tensor_init(&args.o, output, ATTILE_F32, 4, extents));
    args.mask = causal ? ATTILE_MASK_CAUSAL_TOP_LEFT : ATTILE_MASK_NONE;
    return args;
}

}  // namespace attile::cli
