// SPDX-License-Identifier: Apache-2.0
// Calls of attention on batches of a file: their memory and their arguments.
#pragma once

#include <attile/attile.h>

#include <cstdint>

#include "attention_file.h"

namespace attile::cli {

// Memory of the context's device that the device can read at full speed, or ordinary memory where there is not that much.
class Buffer {
  public:
    Buffer(attile_context *context, int64_t floats);
    ~Buffer() { attile_free(context_, data_); }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
    float *data() const { return data_; }

  private:
    attile_context *context_;
    float *data_ = nullptr;
};

// `batch` problems whose Q, K and V lie one after the other. NULL data describe the call for a query.
attile_attention_args attention_arguments(const AttentionFileShape &shape, int64_t batch, bool causal, float *input, float *output);

}  // namespace attile::cli
