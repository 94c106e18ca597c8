// SPDX-License-Identifier: Apache-2.0
// A drawn problem made ready to run: operands in memory that lasts from problem to problem, and the arguments of the call.
#pragma once

#include <attile/attile.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <variant>
#include <vector>

#include "random_problem.h"

namespace attile::cli {

// Memory of the context's device. Inputs are pieces of random values that are made once, so that a problem is ready at once; outputs are
// pieces of memory that they do not share. First a problem's operands are counted, then given out as often as provided for.
class OperandMemory {
  public:
    explicit OperandMemory(attile_context *context);
    ~OperandMemory();
    OperandMemory(const OperandMemory &) = delete;
    OperandMemory &operator=(const OperandMemory &) = delete;

    void count();              // What is taken from here on is counted only.
    int64_t counted() const;   // Bytes.
    void provide(int copies);  // Room for that many times what was counted: throws Failure where there is none.

    void *take_random(int32_t dtype, int64_t elements);
    void *take(int64_t bytes);
    void *put(const void *data, int64_t bytes);  // A copy of some numbers.

  private:
    struct Arena {
        int32_t dtype;
        unsigned char *memory = nullptr;
        int64_t capacity = 0, counted = 0, used = 0;
    };
    void *piece(Arena &arena, int64_t bytes);
    int32_t grow(Arena &arena, int64_t bytes);
    void release();

    attile_context *context_;
    bool counting_ = true;
    std::array<Arena, 8> arenas_;  // The last one is no type's: outputs and numbers.
};

class ProblemCall {
  public:
    ProblemCall(attile_context *context, const Problem &problem, OperandMemory &memory);
    ProblemCall(const ProblemCall &) = delete;
    ProblemCall &operator=(const ProblemCall &) = delete;

    int32_t query(attile_support &support) const;  // Also where operands are only counted.
    void prepare();                                // What the call takes besides random values: results of the forward call.
    int32_t run() const;                           // Asynchronous on a device.

  private:
    enum class Layout { kDense, kOdd, kHeadsInside, kTransposed, kTransposedOdd };
    using Args = std::variant<attile_gemm_args, attile_attention_args, attile_attention_backward_args, attile_attention_merge_args,
                              attile_reduce_args, attile_softmax_args>;

    attile_tensor tensor(int32_t dtype, std::initializer_list<int64_t> shape, Layout layout, bool random);
    attile_tensor block_mask();
    attile_tensor numbers(const std::vector<int32_t> &values, std::initializer_list<int64_t> shape);
    void describe_gemm();
    void describe_attention(attile_attention_args &args);
    void describe_lengths(attile_attention_args &args, const std::vector<Entry> &all);
    void describe_backward();
    void describe_merge();
    void describe_rows();

    attile_context *context_;
    const Problem problem_;
    OperandMemory &memory_;
    Args args_;
    attile_attention_args forward_ = {};
    std::vector<attile_tensor> part_o_, part_lse_;
    const void *first_values_ = nullptr;  // Of what the call overwrites.
};

}  // namespace attile::cli
