// SPDX-License-Identifier: Apache-2.0
// How each operation's problem is cut into chunks when operands lie in host memory: a copy of the problem whose operands the stager
// rewrites, and which dimension moves which operand's axis.
#pragma once

#include <vector>

#include "host/staging.h"

namespace attile::gpu {

// Specialised for each problem: `problem` is the copy that chunks are computed from, `call` lists its operands (absent ones left out),
// resize() sets the problem's extents to a chunk's.
template <class Problem>
struct StagedProblem;

// B as it is staged: of 4 bits as bytes, two numbers each along the axis where they are neighbours, which the operand then follows.
struct PackedNumbers {
    attile_operand bytes;
    int axis;  // 2 or 3.

    explicit PackedNumbers(const attile_operand &of) : bytes(of), axis(of.stride[2] == 1 ? 2 : 3) {}
    void follow(attile_operand &numbers) const;
};

template <>
struct StagedProblem<attile_gemm_problem> {
    explicit StagedProblem(const attile_gemm_problem &from);
    StagedProblem(const StagedProblem &) = delete;
    StagedProblem &operator=(const StagedProblem &) = delete;
    void resize(const int64_t count[kStagedDims]);
    attile_gemm_problem problem;
    PackedNumbers b;
    StagedCall call;
};

template <>
struct StagedProblem<attile_gemm_grouped_problem> {
    explicit StagedProblem(const attile_gemm_grouped_problem &from);
    StagedProblem(const StagedProblem &) = delete;
    StagedProblem &operator=(const StagedProblem &) = delete;
    void resize(const int64_t count[kStagedDims]);
    attile_gemm_grouped_problem problem;
    attile_gemm_problem product;
    PackedNumbers b;
    StagedCall call;
};

template <>
struct StagedProblem<attile_attention_problem> {
    explicit StagedProblem(const attile_attention_problem &from);
    StagedProblem(const StagedProblem &) = delete;
    StagedProblem &operator=(const StagedProblem &) = delete;
    void resize(const int64_t count[kStagedDims]);
    attile_attention_problem problem;
    attile_operand k_bytes, v_bytes;  // K and V of 4 bits as bytes, two numbers each along a row; those of the problem follow them.
    StagedCall call;
    int64_t group;  // Query heads a key head has.
};

template <>
struct StagedProblem<attile_attention_backward_problem> {
    explicit StagedProblem(const attile_attention_backward_problem &from);
    StagedProblem(const StagedProblem &) = delete;
    StagedProblem &operator=(const StagedProblem &) = delete;
    void resize(const int64_t count[kStagedDims]);
    attile_attention_backward_problem problem;
    StagedProblem<attile_attention_problem> forward;  // Whose call stays unused: its operands are in `call`.
    StagedCall call;
    bool cuts_bias[2];  // Whether dbias has the batch entries and heads of the chunk alone.
};

template <>
struct StagedProblem<attile_attention_merge_problem> {
    explicit StagedProblem(const attile_attention_merge_problem &from);
    StagedProblem(const StagedProblem &) = delete;
    StagedProblem &operator=(const StagedProblem &) = delete;
    void resize(const int64_t count[kStagedDims]);
    attile_attention_merge_problem problem;
    std::vector<attile_operand> o_parts, lse_parts;
    StagedCall call;
};

template <>
struct StagedProblem<attile_attention_merge_backward_problem> {
    explicit StagedProblem(const attile_attention_merge_backward_problem &from);
    StagedProblem(const StagedProblem &) = delete;
    StagedProblem &operator=(const StagedProblem &) = delete;
    void resize(const int64_t count[kStagedDims]);
    attile_attention_merge_backward_problem problem;
    std::vector<attile_operand> o_parts, lse_parts, do_parts, dlse_parts;
    StagedCall call;
};

template <>
struct StagedProblem<attile_reduce_problem> {
    explicit StagedProblem(const attile_reduce_problem &from);
    StagedProblem(const StagedProblem &) = delete;
    StagedProblem &operator=(const StagedProblem &) = delete;
    void resize(const int64_t count[kStagedDims]);
    attile_reduce_problem problem;
    StagedCall call;
};

template <>
struct StagedProblem<attile_softmax_problem> {
    explicit StagedProblem(const attile_softmax_problem &from);
    StagedProblem(const StagedProblem &) = delete;
    StagedProblem &operator=(const StagedProblem &) = delete;
    void resize(const int64_t count[kStagedDims]);
    attile_softmax_problem problem;
    StagedCall call;
};

template <>
struct StagedProblem<attile_quantize_problem> {
    explicit StagedProblem(const attile_quantize_problem &from);
    StagedProblem(const StagedProblem &) = delete;
    StagedProblem &operator=(const StagedProblem &) = delete;
    void resize(const int64_t count[kStagedDims]);
    attile_quantize_problem problem;
    StagedCall call;
    attile_operand pairs;  // q of 4 bits as bytes.
    bool is_shared[4];     // Along the axis one scale serves all chunks: it is given.
    bool has_rows;         // Which are never cut, as what they are depends on where they are; nor are entries that share pages.
};

template <>
struct StagedProblem<attile_repack_problem> {
    explicit StagedProblem(const attile_repack_problem &from);
    StagedProblem(const StagedProblem &) = delete;
    StagedProblem &operator=(const StagedProblem &) = delete;
    void resize(const int64_t count[kStagedDims]);
    attile_repack_problem problem;
    attile_operand pairs;  // q of 4 bits as bytes.
    StagedCall call;
};

}  // namespace attile::gpu
