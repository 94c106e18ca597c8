// SPDX-License-Identifier: Apache-2.0
// The operators. A kernel is made of a node, if Attile serves it, and then computes its calls.
#ifndef ATTILE_ONNXRUNTIME_KERNELS_H
#define ATTILE_ONNXRUNTIME_KERNELS_H

#include <memory>
#include <string>

#include "runtime.h"

namespace attile::onnxruntime {

class Kernel {
  public:
    Kernel() = default;
    Kernel(const Kernel &) = delete;
    Kernel &operator=(const Kernel &) = delete;
    virtual ~Kernel() = default;

    // Any number of threads may call it at once. Throws Failure.
    virtual void compute(const Call &call) const = 0;
};

// Thrown by the makers: why a node is left to ONNX Runtime.
struct Refusal {
    std::string reason;
};

// The makers of kernels. The context outlives the kernel. They throw Refusal.
using Maker = std::unique_ptr<Kernel> (*)(const Node &node, attile_context *context);

std::unique_ptr<Kernel> make_matmul(const Node &node, attile_context *context);
std::unique_ptr<Kernel> make_gemm(const Node &node, attile_context *context);
std::unique_ptr<Kernel> make_softmax(const Node &node, attile_context *context);
std::unique_ptr<Kernel> make_attention(const Node &node, attile_context *context);
std::unique_ptr<Kernel> make_multi_head_attention(const Node &node, attile_context *context);
std::unique_ptr<Kernel> make_group_query_attention(const Node &node, attile_context *context);

// The maker for the node's operator; NULL if the plugin does not have it.
Maker find_maker(const Node &node);

// Refuses a node unless `right`.
inline void require(bool right, const char *reason) {
    if (!right) throw Refusal{reason};
}

// The type of the node's first input, if all that Attile computes with has that type. Refuses others.
int32_t require_type(const Node &node, std::initializer_list<size_t> inputs);

// Refuses what a query of the backend says that it lacks.
template <typename Args>
void require_backend(int32_t (*query)(attile_context *, const Args *, attile_support *), attile_context *context, const Args &args) {
    attile_support support;
    attile_support_init(&support, sizeof support);
    check_attile(query(context, &args, &support));
    if (support.level == ATTILE_SUPPORT_NONE) throw Refusal{support.text};
}

// A dense tensor of Attile.
attile_tensor dense(void *data, int32_t dtype, std::initializer_list<int64_t> shape);

}  // namespace attile::onnxruntime

#endif
