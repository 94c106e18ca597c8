// SPDX-License-Identifier: Apache-2.0
// What the reference backend's files share: its tables, the error sentence, scratch memory.
//
// The reference defines what is right: plain loops in double, one thread, each loop readable against the formula in attile.h.
#pragma once

#include <attile/attile_backend.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace attile::reference {

extern const attile_device_interface device_interface;
extern const attile_memory_interface memory_interface;
extern const attile_gemm_interface gemm_interface;
extern const attile_gemm_grouped_interface gemm_grouped_interface;
extern const attile_attention_interface attention_interface;
extern const attile_attention_backward_interface attention_backward_interface;
extern const attile_attention_merge_interface attention_merge_interface;
extern const attile_attention_merge_backward_interface attention_merge_backward_interface;
extern const attile_reduce_interface reduce_interface;
extern const attile_softmax_interface softmax_interface;
extern const attile_quantize_interface quantize_interface;
extern const attile_repack_interface repack_interface;

/// Leaves the sentence with the core and hands the code through.
std::int32_t fail(std::int32_t code, const char *text);

/// A query's answer where the operation runs.
inline void answer(attile_support *support, const char *kernel, std::int64_t workspace_bytes, double flops, double bytes) {
    support->level = ATTILE_SUPPORT_NATIVE;
    support->status = ATTILE_OK;
    support->workspace_bytes = workspace_bytes;
    std::snprintf(support->kernel, sizeof support->kernel, "%s", kernel);
    support->flops = flops;
    support->bytes = bytes;
    support->threads = 1;
    support->splits = 1;
    support->blocks = 1;
}

/// Bytes of up to three arrays of doubles. Extents may be anything that 63 bits hold: what is beyond that is as much as they do, and never
/// had.
inline std::int64_t bytes_of_doubles(std::int64_t a, std::int64_t b, std::int64_t c = 0) {
    std::int64_t bytes = 0;
    const bool beyond = __builtin_add_overflow(a, b, &bytes) || __builtin_add_overflow(bytes, c, &bytes) ||
                        __builtin_mul_overflow(bytes, static_cast<std::int64_t>(sizeof(double)), &bytes);
    return beyond ? INT64_MAX : bytes;
}

/// Doubles for a call: in the caller's workspace if there is one, else from the heap.
class Scratch {
  public:
    Scratch(const attile_launch &launch, std::int64_t bytes) {
        if (launch.workspace != nullptr) {
            data_ = static_cast<double *>(launch.workspace);
        } else if (bytes > 0) {
            owned_ = std::malloc(static_cast<std::size_t>(bytes));
            data_ = static_cast<double *>(owned_);
        }
        failed_ = data_ == nullptr && bytes > 0;
    }
    ~Scratch() { std::free(owned_); }
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;

    bool failed() const { return failed_; }
    double *data() const { return data_; }

  private:
    void *owned_ = nullptr;
    double *data_ = nullptr;
    bool failed_ = false;
};

}  // namespace attile::reference
