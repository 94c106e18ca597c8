// SPDX-License-Identifier: Apache-2.0
// Valid calls of every operation.
#include "call_arguments.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace attile_test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kBatch = 2, kHeadsQ = 4, kHeadsKv = 2, kLenQ = 3, kLenK = 5, kHeadDim = 4, kHeadDimV = 3;

void store(unsigned char *to, int32_t dtype, double value) {
    const float f32 = static_cast<float>(value);
    const int32_t i32 = std::isnan(value) ? 0 : static_cast<int32_t>(value);
    const unsigned char byte = value != 0.0 ? 1 : 0;
    switch (dtype) {
        case ATTILE_F32:
            std::memcpy(to, &f32, sizeof f32);
            break;
        case ATTILE_F64:
            std::memcpy(to, &value, sizeof value);
            break;
        case ATTILE_I32:
            std::memcpy(to, &i32, sizeof i32);
            break;
        case ATTILE_U8:
        case ATTILE_BOOL:
            *to = byte;
            break;
        default:
            std::memset(to, 0, static_cast<size_t>((dtype & 0xff) / 8));  // zero will do
            break;
    }
}

}  // namespace

const char *operation_name(Operation operation) {
    switch (operation) {
        case Operation::kGemm:
            return "gemm";
        case Operation::kAttention:
            return "attention";
        case Operation::kAttentionBackward:
            return "attention_backward";
        case Operation::kAttentionMerge:
            return "attention_merge";
        case Operation::kAttentionMergeBackward:
            return "attention_merge_backward";
        case Operation::kReduce:
            return "reduce";
        case Operation::kSoftmax:
            return "softmax";
        case Operation::kSgemm:
            return "sgemm";
        case Operation::kDgemm:
            return "dgemm";
    }
    return "";
}

CallArguments::CallArguments(Operation operation) : operation_(operation), memory_(size_t{1} << 16) {
    // Tensors begin on 256 bytes of the address space, whatever the vector's own alignment.
    used_ = static_cast<int64_t>((256 - reinterpret_cast<uintptr_t>(memory_.data()) % 256) % 256);
    switch (operation) {
        case Operation::kGemm:
            fill_gemm();
            break;
        case Operation::kAttention:
            fill_attention();
            break;
        case Operation::kAttentionBackward:
            fill_attention_backward();
            break;
        case Operation::kAttentionMerge:
            fill_attention_merge();
            break;
        case Operation::kAttentionMergeBackward:
            fill_attention_merge_backward();
            break;
        case Operation::kReduce:
            attile_reduce_init(&reduce.args, sizeof reduce.args);
            reduce.args.x = make(ATTILE_F32, {3, 4, 5});
            reduce.args.y = make(ATTILE_F32, {3, 1, 5}, kNan);
            reduce.args.op = ATTILE_REDUCE_SUM;
            reduce.args.axis = 1;
            break;
        case Operation::kSoftmax:
            attile_softmax_init(&softmax.args, sizeof softmax.args);
            softmax.args.x = make(ATTILE_F32, {3, 4, 5});
            softmax.args.y = make(ATTILE_F32, {3, 4, 5}, kNan);
            softmax.args.axis = -1;
            break;
        case Operation::kSgemm:
            fill_blas(ATTILE_F32);
            break;
        case Operation::kDgemm:
            fill_blas(ATTILE_F64);
            break;
    }
}

attile_tensor CallArguments::make(int32_t dtype, std::initializer_list<int64_t> shape, double value) {
    attile_tensor tensor = {};
    unsigned char *data = memory_.data() + used_;
    attile_tensor_init(&tensor, data, dtype, static_cast<int32_t>(shape.size()), shape.begin());
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    const int64_t bytes = (dtype & 0xff) / 8;
    for (int64_t i = 0; i < count; ++i) store(data + i * bytes, dtype, value);
    used_ += (count * bytes + 255) / 256 * 256 + 256;  // a gap, so that no two tensors touch
    return tensor;
}

void CallArguments::fill_gemm() {
    attile_gemm_init(&gemm.args, sizeof gemm.args);
    gemm.args.a = make(ATTILE_F32, {2, 3, 5});
    gemm.args.b = make(ATTILE_F32, {2, 5, 4});
    gemm.args.c = make(ATTILE_F32, {2, 3, 4});
    gemm.args.d = make(ATTILE_F32, {2, 3, 4}, kNan);
    gemm.args.bias = make(ATTILE_F32, {2, 4});
    gemm.args.bias_axis = ATTILE_BIAS_COLUMNS;
    gemm.args.activation = ATTILE_ACTIVATION_RELU;
    gemm.args.alpha = 2.0;
    gemm.args.beta = 0.5;
}

void CallArguments::fill_attention() {
    attile_attention_args &args = attention.args;
    attile_attention_init(&args, sizeof args);
    args.q = make(ATTILE_F32, {kBatch, kHeadsQ, kLenQ, kHeadDim});
    args.k = make(ATTILE_F32, {kBatch, kHeadsKv, kLenK, kHeadDim});
    args.v = make(ATTILE_F32, {kBatch, kHeadsKv, kLenK, kHeadDimV});
    args.o = make(ATTILE_F32, {kBatch, kHeadsQ, kLenQ, kHeadDimV}, kNan);
    args.lse = make(ATTILE_F32, {kBatch, kHeadsQ, kLenQ}, kNan);
    args.bias = make(ATTILE_F32, {kBatch, kHeadsQ, kLenQ, kLenK});
    args.allowed = make(ATTILE_BOOL, {kLenQ, kLenK}, 1.0);
    args.alibi_slopes = make(ATTILE_F32, {kHeadsQ});
    args.sinks = make(ATTILE_F32, {kHeadsQ});
    args.key_lengths = make(ATTILE_I32, {kBatch}, 4.0);
    args.key_starts = make(ATTILE_I32, {kBatch}, 1.0);
    args.causal_offset = make(ATTILE_I32, {kBatch}, 2.0);
    args.block_mask = make(ATTILE_BOOL, {kHeadsQ, 1, 2}, 1.0);
    args.block_mask.shape[2] = 1;  // one block, every other byte: then INT64_MAX of them do not fit
    args.tree_mask = make(ATTILE_BOOL, {kLenQ, 2}, 1.0);
    args.softcap = 3.0;
    args.scale = 0.5;
}

void CallArguments::make_packed() {
    attile_attention_args &args = attention.args;
    args.q = make(ATTILE_F32, {1, kHeadsQ, kLenQ, kHeadDim});
    args.k = make(ATTILE_F32, {1, kHeadsKv, kLenK, kHeadDim});
    args.v = make(ATTILE_F32, {1, kHeadsKv, kLenK, kHeadDimV});
    args.o = make(ATTILE_F32, {1, kHeadsQ, kLenQ, kHeadDimV}, kNan);
    args.lse = make(ATTILE_F32, {1, kHeadsQ, kLenQ}, kNan);
    args.cu_len_q = make(ATTILE_I32, {kBatch + 1}, 0.0);
    args.cu_len_k = make(ATTILE_I32, {kBatch + 1}, 0.0);
    args.max_len_q = kLenQ;
    args.max_len_k = kLenK;
}

void CallArguments::make_paged() {
    attile_attention_args &args = attention.args;
    constexpr int64_t kPages = 3, kPageSize = 5;
    args.k = make(ATTILE_F32, {kPages, kHeadsKv, kPageSize, kHeadDim});
    args.v = make(ATTILE_F32, {kPages, kHeadsKv, kPageSize, kHeadDimV});
    args.block_table = make(ATTILE_I32, {kBatch, 2}, 1.0);
    args.bias = make(ATTILE_F32, {kBatch, kHeadsQ, kLenQ, 2 * kPageSize});
    args.allowed = make(ATTILE_BOOL, {kLenQ, 2 * kPageSize}, 1.0);
}

void CallArguments::fill_attention_backward() {
    fill_attention();
    attention.args.o = make(ATTILE_F32, {kBatch, kHeadsQ, kLenQ, kHeadDimV});
    attention.args.lse = make(ATTILE_F32, {kBatch, kHeadsQ, kLenQ});
    attile_attention_backward_args &args = attention_backward.args;
    attile_attention_backward_init(&args, sizeof args);
    args.forward = &attention.args;
    args.dout = make(ATTILE_F32, {kBatch, kHeadsQ, kLenQ, kHeadDimV});
    args.dq = make(ATTILE_F32, {kBatch, kHeadsQ, kLenQ, kHeadDim}, kNan);
    args.dk = make(ATTILE_F32, {kBatch, kHeadsKv, kLenK, kHeadDim}, kNan);
    args.dv = make(ATTILE_F32, {kBatch, kHeadsKv, kLenK, kHeadDimV}, kNan);
    args.dbias = make(ATTILE_F32, {kBatch, kHeadsQ, kLenQ, kLenK}, kNan);
    args.dsinks = make(ATTILE_F32, {kHeadsQ}, kNan);
    args.dlse = make(ATTILE_F32, {kBatch, kHeadsQ, kLenQ});
}

void CallArguments::fill_attention_merge() {
    attile_attention_merge_args &args = attention_merge.args;
    attile_attention_merge_init(&args, sizeof args);
    for (int i = 0; i < 2; ++i) {
        o_parts[i] = make(ATTILE_F32, {kBatch, kHeadsQ, kLenQ, kHeadDimV});
        lse_parts[i] = make(ATTILE_F32, {kBatch, kHeadsQ, kLenQ});
    }
    args.o_parts = o_parts;
    args.lse_parts = lse_parts;
    args.parts = 2;
    args.o = make(ATTILE_F32, {kBatch, kHeadsQ, kLenQ, kHeadDimV}, kNan);
    args.lse = make(ATTILE_F32, {kBatch, kHeadsQ, kLenQ}, kNan);
}

void CallArguments::fill_attention_merge_backward() {
    fill_attention_merge();
    attention_merge.args.o = make(ATTILE_F32, {kBatch, kHeadsQ, kLenQ, kHeadDimV});
    attention_merge.args.lse = make(ATTILE_F32, {kBatch, kHeadsQ, kLenQ});
    attile_attention_merge_backward_args &args = attention_merge_backward.args;
    attile_attention_merge_backward_init(&args, sizeof args);
    args.forward = &attention_merge.args;
    args.dout = make(ATTILE_F32, {kBatch, kHeadsQ, kLenQ, kHeadDimV});
    args.dlse = make(ATTILE_F32, {kBatch, kHeadsQ, kLenQ});
    for (int i = 0; i < 2; ++i) {
        do_parts[i] = make(ATTILE_F32, {kBatch, kHeadsQ, kLenQ, kHeadDimV}, kNan);
        dlse_parts[i] = make(ATTILE_F32, {kBatch, kHeadsQ, kLenQ}, kNan);
    }
    args.do_parts = do_parts;
    args.dlse_parts = dlse_parts;
}

void CallArguments::fill_blas(int32_t dtype) {
    blas.order = ATTILE_ROW_MAJOR;
    blas.transa = ATTILE_NO_TRANS;
    blas.transb = ATTILE_TRANS;
    blas.m = 3;
    blas.n = 4;
    blas.k = 5;
    blas.alpha = 2.0;
    blas.beta = 0.5;
    blas.a = make(dtype, {3, 6}).data;
    blas.b = make(dtype, {4, 7}).data;
    blas.c = make(dtype, {3, 5}).data;
    blas.lda = 6;
    blas.ldb = 7;
    blas.ldc = 5;
}

void *CallArguments::head() {
    switch (operation_) {
        case Operation::kGemm:
            return &gemm;
        case Operation::kAttention:
            return &attention;
        case Operation::kAttentionBackward:
            return &attention_backward;
        case Operation::kAttentionMerge:
            return &attention_merge;
        case Operation::kAttentionMergeBackward:
            return &attention_merge_backward;
        case Operation::kReduce:
            return &reduce;
        case Operation::kSoftmax:
            return &softmax;
        case Operation::kSgemm:
        case Operation::kDgemm:
            return nullptr;
    }
    return nullptr;
}

int32_t CallArguments::run(attile_context *context) {
    if (null_context) context = nullptr;
    const auto given = [this](auto &padded) { return null_args ? nullptr : &padded.args; };
    switch (operation_) {
        case Operation::kGemm:
            return attile_gemm(context, given(gemm));
        case Operation::kAttention:
            return attile_attention(context, given(attention));
        case Operation::kAttentionBackward:
            return attile_attention_backward(context, given(attention_backward));
        case Operation::kAttentionMerge:
            return attile_attention_merge(context, given(attention_merge));
        case Operation::kAttentionMergeBackward:
            return attile_attention_merge_backward(context, given(attention_merge_backward));
        case Operation::kReduce:
            return attile_reduce(context, given(reduce));
        case Operation::kSoftmax:
            return attile_softmax(context, given(softmax));
        case Operation::kSgemm:
            return attile_sgemm(context, blas.order, blas.transa, blas.transb, blas.m, blas.n, blas.k, blas.alpha,
                                static_cast<const float *>(blas.a), blas.lda, static_cast<const float *>(blas.b), blas.ldb, blas.beta,
                                static_cast<float *>(blas.c), blas.ldc);
        case Operation::kDgemm:
            return attile_dgemm(context, blas.order, blas.transa, blas.transb, blas.m, blas.n, blas.k, blas.alpha,
                                static_cast<const double *>(blas.a), blas.lda, static_cast<const double *>(blas.b), blas.ldb, blas.beta,
                                static_cast<double *>(blas.c), blas.ldc);
    }
    return ATTILE_ERROR_INTERNAL;
}

int32_t CallArguments::query(attile_context *context, attile_support *support) {
    if (null_context) context = nullptr;
    const auto given = [this](auto &padded) { return null_args ? nullptr : &padded.args; };
    switch (operation_) {
        case Operation::kGemm:
            return attile_gemm_query(context, given(gemm), support);
        case Operation::kAttention:
            return attile_attention_query(context, given(attention), support);
        case Operation::kAttentionBackward:
            return attile_attention_backward_query(context, given(attention_backward), support);
        case Operation::kAttentionMerge:
            return attile_attention_merge_query(context, given(attention_merge), support);
        case Operation::kAttentionMergeBackward:
            return attile_attention_merge_backward_query(context, given(attention_merge_backward), support);
        case Operation::kReduce:
            return attile_reduce_query(context, given(reduce), support);
        case Operation::kSoftmax:
            return attile_softmax_query(context, given(softmax), support);
        case Operation::kSgemm:
        case Operation::kDgemm:
            return run(context);
    }
    return ATTILE_ERROR_INTERNAL;
}

}  // namespace attile_test
