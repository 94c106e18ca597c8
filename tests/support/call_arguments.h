// SPDX-License-Identifier: Apache-2.0
// One valid call of every operation, small, with every optional argument given: what tests of wrong arguments start from.
#ifndef ATTILE_TESTS_CALL_ARGUMENTS_H
#define ATTILE_TESTS_CALL_ARGUMENTS_H

#include <attile/attile.h>

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace attile_test {

enum class Operation { kGemm, kAttention, kAttentionBackward, kAttentionMerge, kAttentionMergeBackward, kReduce, kSoftmax, kSgemm, kDgemm };

const char *operation_name(Operation operation);

// An args struct with room behind it, for structs of a later version.
template <typename Args>
struct Padded {
    Args args;
    unsigned char tail[64];
};

struct BlasArguments {
    int32_t order, transa, transb;
    int64_t m, n, k, lda, ldb, ldc;
    double alpha, beta;
    void *a, *b, *c;
};

// Holds the arguments and the memory they point to. Outputs hold NaN, inputs small numbers, lengths valid ones.
class CallArguments {
  public:
    explicit CallArguments(Operation operation);
    CallArguments(const CallArguments &) = delete;
    CallArguments &operator=(const CallArguments &) = delete;

    // The call itself, and its query; the BLAS names have none and answer as the call would.
    int32_t run(attile_context *context);
    int32_t query(attile_context *context, attile_support *support);

    // A dense tensor in the set's memory, every element of it set.
    attile_tensor make(int32_t dtype, std::initializer_list<int64_t> shape, double value = 0.25);

    // Turn the attention arguments into a packed or a paged call that is as valid.
    void make_packed();
    void make_paged();

    const std::vector<unsigned char> &memory() const { return memory_; }
    Operation operation() const { return operation_; }
    void *head();  // of the args struct, NULL for the BLAS names

    bool null_context = false, null_args = false;
    Padded<attile_gemm_args> gemm = {};
    Padded<attile_attention_args> attention = {};
    Padded<attile_attention_backward_args> attention_backward = {};
    Padded<attile_attention_merge_args> attention_merge = {};
    Padded<attile_attention_merge_backward_args> attention_merge_backward = {};
    Padded<attile_reduce_args> reduce = {};
    Padded<attile_softmax_args> softmax = {};
    attile_tensor o_parts[2] = {}, lse_parts[2] = {}, do_parts[2] = {}, dlse_parts[2] = {};
    BlasArguments blas = {};

  private:
    void fill_gemm();
    void fill_attention();
    void fill_attention_backward();
    void fill_attention_merge();
    void fill_attention_merge_backward();
    void fill_blas(int32_t dtype);

    Operation operation_;
    std::vector<unsigned char> memory_;
    int64_t used_ = 0;
};

}  // namespace attile_test

#endif
