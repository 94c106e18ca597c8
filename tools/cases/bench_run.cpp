// SPDX-License-Identifier: Apache-2.0
// A bench case made ready: its arguments, its memory, its random inputs.
#include <algorithm>
#include <initializer_list>

#include "bench_cases.h"
#include "random_elements.h"

namespace attile::bench {
namespace {

constexpr int64_t kFourBitGroup = 32;  // Numbers of 4 bits along a row that share a scale.

int bits_of(int32_t dtype) { return dtype & 0xff; }

int64_t element_count(const attile_tensor &tensor) {
    int64_t count = 1;
    for (int i = 0; i < tensor.rank; ++i) count *= tensor.shape[i];
    return count;
}

int64_t bytes_of(const attile_tensor &tensor) { return element_count(tensor) * bits_of(tensor.dtype) / 8; }

}  // namespace

BenchRun::BenchRun(attile_context *context, const BenchCase &bench_case) : context_(context), case_(bench_case) {
    attile_attention_init(&forward_, sizeof forward_);
    switch (case_.operation) {
        case Operation::kGemm:
            describe_gemm();
            break;
        case Operation::kGemmGrouped:
            describe_gemm_grouped();
            break;
        case Operation::kAttention:
            attile_attention_init(&args_.emplace<attile_attention_args>(), sizeof(attile_attention_args));
            describe_attention(std::get<attile_attention_args>(args_));
            break;
        case Operation::kAttentionBackward:
            describe_attention_backward();
            break;
        case Operation::kAttentionMerge:
            describe_attention_merge();
            break;
        case Operation::kReduce:
        case Operation::kSoftmax:
            describe_rows();
            break;
    }
}

BenchRun::~BenchRun() {
    attile_synchronize(context_, nullptr);
    for (void *memory : memory_) attile_free(context_, memory);
}

void BenchRun::add(attile_tensor &tensor, int32_t dtype, std::initializer_list<int64_t> shape, bool input) {
    const int32_t status = attile_tensor_init(&tensor, nullptr, dtype, static_cast<int32_t>(shape.size()), shape.begin());
    if (status_ == ATTILE_OK) status_ = status;
    operands_.push_back({&tensor, input});
}

void BenchRun::describe_gemm() {
    auto &args = args_.emplace<attile_gemm_args>();
    attile_gemm_init(&args, sizeof args);
    if (case_.exact) args.flags = ATTILE_FLAG_EXACT_PRODUCTS;
    if (case_.fast) args.flags = ATTILE_FLAG_FAST_ACCUMULATION;
    const int64_t batch = case_.batch, m = case_.m, n = case_.n, k = case_.k;
    add(args.a, case_.dtype, {batch, m, k}, true);
    add(args.b, case_.b_dtype != 0 ? case_.b_dtype : case_.dtype, {batch, k, n}, true);
    // Sums of integers as they are, unless scales make other numbers of them.
    const bool is_narrow = bits_of(case_.dtype) == 8;
    const int32_t of_narrow = case_.dtype == ATTILE_I8 && case_.scale_group == 0 ? ATTILE_I32 : ATTILE_BF16;
    add(args.d, is_narrow ? of_narrow : case_.dtype, {batch, m, n}, false);
    if (case_.scale_group != 0) add(args.b_scale, ATTILE_F32, {batch, k / case_.scale_group, n}, true);
    // Dense as well, but stored as the transpose.
    if (case_.trans_a) args.a.stride[1] = 1, args.a.stride[2] = m;
    if (case_.trans_b) args.b.stride[1] = 1, args.b.stride[2] = k;
}

void BenchRun::describe_gemm_grouped() {
    auto &args = args_.emplace<attile_gemm_grouped_args>();
    attile_gemm_grouped_init(&args, sizeof args);
    add(args.a, case_.dtype, {case_.m, case_.k}, true);
    add(args.b, case_.dtype, {case_.groups, case_.k, case_.n}, true);
    args.b.stride[1] = 1, args.b.stride[2] = case_.k;
    add(args.row_offsets, ATTILE_I32, {case_.groups + 1}, false);
    add(args.d, case_.dtype, {case_.m, case_.n}, false);
}

int32_t BenchRun::give_offsets(const attile_tensor &offsets) {
    std::vector<int32_t> values = {0};
    for (int64_t group = 0; group < case_.groups; ++group) values.push_back(values.back() + static_cast<int32_t>(case_.rows_of(group)));
    return attile_copy(context_, offsets.data, values.data(), static_cast<int64_t>(values.size() * sizeof(int32_t)), nullptr);
}

void BenchRun::describe_attention(attile_attention_args &args) {
    const BenchCase &c = case_;
    const bool is_narrow = bits_of(c.dtype) == 8;
    if (c.fast) args.flags = ATTILE_FLAG_FAST_ACCUMULATION;
    if (c.exact) args.flags = ATTILE_FLAG_EXACT_PRODUCTS;
    add(args.q, c.dtype, {c.batch, c.heads_q, c.len_q, c.head_dim}, true);
    if (is_narrow) add(args.q_scale, ATTILE_F32, {c.heads_q, 1, 1}, true);
    add_cache(args.k, args.k_scale, c.k_dtype != 0 ? c.k_dtype : c.dtype);
    add_cache(args.v, args.v_scale, c.v_dtype != 0 ? c.v_dtype : c.dtype);
    add(args.o, is_narrow ? ATTILE_BF16 : c.dtype, {c.batch, c.heads_q, c.len_q, c.head_dim}, false);
    args.mask = c.mask;
}

// Keys or values. Beside queries of 8 bits they have a scale for each head, else for each token; of 4 bits for each group of its numbers.
void BenchRun::add_cache(attile_tensor &tensor, attile_tensor &scale, int32_t dtype) {
    add(tensor, dtype, {case_.batch, case_.heads_kv, case_.len_k, case_.head_dim}, true);
    if (bits_of(dtype) > 8) return;
    const int64_t groups = bits_of(dtype) == 4 && case_.head_dim % kFourBitGroup == 0 ? case_.head_dim / kFourBitGroup : 1;
    if (bits_of(case_.dtype) == 8)
        add(scale, ATTILE_F32, {case_.heads_kv, 1, groups}, true);
    else
        add(scale, ATTILE_F32, {case_.batch, case_.heads_kv, case_.len_k, groups}, true);
}

void BenchRun::describe_attention_backward() {
    auto &args = args_.emplace<attile_attention_backward_args>();
    attile_attention_backward_init(&args, sizeof args);
    describe_attention(forward_);
    const BenchCase &c = case_;
    add(forward_.lse, c.dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32, {c.batch, c.heads_q, c.len_q}, false);
    args.forward = &forward_;
    add(args.dout, c.dtype, {c.batch, c.heads_q, c.len_q, c.head_dim}, true);
    add(args.dq, c.dtype, {c.batch, c.heads_q, c.len_q, c.head_dim}, false);
    add(args.dk, c.dtype, {c.batch, c.heads_kv, c.len_k, c.head_dim}, false);
    add(args.dv, c.dtype, {c.batch, c.heads_kv, c.len_k, c.head_dim}, false);
}

void BenchRun::describe_attention_merge() {
    auto &args = args_.emplace<attile_attention_merge_args>();
    attile_attention_merge_init(&args, sizeof args);
    if (case_.exact) args.flags = ATTILE_FLAG_EXACT_PRODUCTS;
    const BenchCase &c = case_;
    const int32_t lse_dtype = c.dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32;
    part_o_.resize(static_cast<size_t>(c.parts));
    part_lse_.resize(static_cast<size_t>(c.parts));
    for (attile_tensor &part : part_o_) add(part, c.dtype, {c.batch, c.heads_q, c.len_q, c.head_dim}, true);
    for (attile_tensor &part : part_lse_) add(part, lse_dtype, {c.batch, c.heads_q, c.len_q}, true);
    args.o_parts = part_o_.data();
    args.lse_parts = part_lse_.data();
    args.parts = c.parts;
    add(args.o, c.dtype, {c.batch, c.heads_q, c.len_q, c.head_dim}, false);
    add(args.lse, lse_dtype, {c.batch, c.heads_q, c.len_q}, false);
}

void BenchRun::describe_rows() {
    const BenchCase &c = case_;
    if (c.operation == Operation::kSoftmax) {
        auto &args = args_.emplace<attile_softmax_args>();
        attile_softmax_init(&args, sizeof args);
        if (case_.exact) args.flags = ATTILE_FLAG_EXACT_PRODUCTS;
        add(args.x, c.dtype, {c.rows, c.columns}, true);
        add(args.y, c.dtype, {c.rows, c.columns}, false);
        args.axis = 1;
    } else {
        auto &args = args_.emplace<attile_reduce_args>();
        attile_reduce_init(&args, sizeof args);
        if (case_.exact) args.flags = ATTILE_FLAG_EXACT_PRODUCTS;
        add(args.x, c.dtype, {c.rows, c.columns}, true);
        add(args.y, c.dtype, {c.over_rows ? 1 : c.rows, c.over_rows ? c.columns : 1}, false);
        args.op = ATTILE_REDUCE_SUM;
        args.axis = c.over_rows ? 0 : 1;
    }
}

int64_t BenchRun::bytes() const {
    int64_t total = 0;
    for (const Operand &operand : operands_) total += bytes_of(*operand.tensor);
    return total;
}

int32_t BenchRun::query(attile_support &support) {
    attile_support_init(&support, sizeof support);
    if (status_ != ATTILE_OK) return status_;
    struct Query {
        attile_context *context;
        attile_support *support;
        int32_t operator()(const attile_gemm_args &args) const { return attile_gemm_query(context, &args, support); }
        int32_t operator()(const attile_gemm_grouped_args &args) const { return attile_gemm_grouped_query(context, &args, support); }
        int32_t operator()(const attile_attention_args &args) const { return attile_attention_query(context, &args, support); }
        int32_t operator()(const attile_attention_backward_args &args) const {
            return attile_attention_backward_query(context, &args, support);
        }
        int32_t operator()(const attile_attention_merge_args &args) const { return attile_attention_merge_query(context, &args, support); }
        int32_t operator()(const attile_reduce_args &args) const { return attile_reduce_query(context, &args, support); }
        int32_t operator()(const attile_softmax_args &args) const { return attile_softmax_query(context, &args, support); }
    };
    return std::visit(Query{context_, &support}, args_);
}

int32_t BenchRun::fill(const attile_tensor &tensor, uint64_t seed) {
    constexpr int64_t kMost = 1 << 22;                  // Elements that are random; more of them repeat these.
    const bool are_pairs = bits_of(tensor.dtype) == 4;  // Any byte is two numbers.
    const int32_t dtype = are_pairs ? ATTILE_I8 : tensor.dtype;
    const int64_t size = bits_of(dtype) / 8, count = element_count(tensor) / (are_pairs ? 2 : 1);
    std::vector<unsigned char> values(static_cast<size_t>(std::min(count, kMost) * size));
    RandomElements(seed).fill(dtype, std::min(count, kMost), values.data());
    for (int64_t done = 0; done < count; done += kMost) {
        const int64_t part = std::min(kMost, count - done);
        if (const int32_t status =
                attile_copy(context_, static_cast<unsigned char *>(tensor.data) + done * size, values.data(), part * size, nullptr))
            return status;
    }
    return ATTILE_OK;
}

int32_t BenchRun::allocate(int32_t memory_kind) {
    if (status_ != ATTILE_OK) return status_;
    uint64_t seed = 0;
    for (const Operand &operand : operands_) {
        attile_tensor &tensor = *operand.tensor;
        if (const int32_t status = attile_alloc(context_, memory_kind, bytes_of(tensor), &tensor.data)) return status;
        memory_.push_back(tensor.data);
        ++seed;
        if (!operand.input) continue;
        if (const int32_t status = fill(tensor, seed)) return status;
    }
    if (case_.operation == Operation::kGemmGrouped) return give_offsets(std::get<attile_gemm_grouped_args>(args_).row_offsets);
    // Backward takes o and lse as the forward call left them.
    if (case_.operation == Operation::kAttentionBackward) return attile_attention(context_, &forward_);
    return ATTILE_OK;
}

int32_t BenchRun::run() {
    struct Run {
        attile_context *context;
        int32_t operator()(const attile_gemm_args &args) const { return attile_gemm(context, &args); }
        int32_t operator()(const attile_gemm_grouped_args &args) const { return attile_gemm_grouped(context, &args); }
        int32_t operator()(const attile_attention_args &args) const { return attile_attention(context, &args); }
        int32_t operator()(const attile_attention_backward_args &args) const { return attile_attention_backward(context, &args); }
        int32_t operator()(const attile_attention_merge_args &args) const { return attile_attention_merge(context, &args); }
        int32_t operator()(const attile_reduce_args &args) const { return attile_reduce(context, &args); }
        int32_t operator()(const attile_softmax_args &args) const { return attile_softmax(context, &args); }
    };
    return std::visit(Run{context_}, args_);
}

}  // namespace attile::bench
