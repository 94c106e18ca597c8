// SPDX-License-Identifier: Apache-2.0
// Illegal arguments: heads of structs, scalars, extents that disagree, and what must not be given together.
#include "illegal_arguments.h"

#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

#include "illegal_blas.h"
#include "illegal_merges.h"
#include "illegal_quantised.h"
#include "illegal_tensors.h"

namespace attile_test {
namespace {

using A = CallArguments;
using Op = Operation;
using Table = std::vector<IllegalArgument>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The head that every args struct begins with.
struct Head {
    uint32_t struct_size;
    uint32_t flags;
    const void *next;
    void *stream;
    void *workspace;
    int64_t workspace_bytes;
};

void append_heads(Table *table) {
    for (const Op operation :
         {Op::kGemm, Op::kAttention, Op::kAttentionBackward, Op::kAttentionMerge, Op::kAttentionMergeBackward, Op::kReduce, Op::kSoftmax}) {
        const auto add = [&](const char *what, int32_t status, const char *word, std::function<void(A &, Head &)> spoil) {
            table->push_back({std::string(operation_name(operation)) + "/head/" + what, operation,
                              [spoil](A &c) { spoil(c, *static_cast<Head *>(c.head())); }, status, word});
        };
        add("context_null", ATTILE_ERROR_INVALID_CONTEXT, "context", [](A &c, Head &) { c.null_context = true; });
        add("args_null", ATTILE_ERROR_NULL_ARGUMENT, "args", [](A &c, Head &) { c.null_args = true; });
        for (const uint32_t size : {0u, 4u, 16u, 40u, UINT32_MAX, UINT32_MAX - 7u}) {
            add(("struct_size_" + std::to_string(size)).c_str(), ATTILE_ERROR_STRUCT_SIZE, "struct_size",
                [size](A &, Head &head) { head.struct_size = size; });
        }
        // Structs that grew since 1.0 are taken with the size they had then.
        const uint32_t first = operation == Op::kGemm                ? offsetof(attile_gemm_args, a_scale)
                               : operation == Op::kAttention         ? offsetof(attile_attention_args, key_starts)
                               : operation == Op::kAttentionBackward ? offsetof(attile_attention_backward_args, dlse)
                                                                     : 0;
        add("struct_size_below_first", ATTILE_ERROR_STRUCT_SIZE, "struct_size",
            [first](A &, Head &head) { head.struct_size = (first != 0 ? first : head.struct_size) - 8; });
        add("struct_size_odd", ATTILE_ERROR_STRUCT_SIZE, "struct_size", [](A &, Head &head) { head.struct_size += 1; });
        add("unknown_tail_set", ATTILE_ERROR_STRUCT_TOO_NEW, "later version", [](A &, Head &head) {
            reinterpret_cast<unsigned char *>(&head)[head.struct_size + 15] = 1;
            head.struct_size += 16;
        });
        add("flags_unknown", ATTILE_ERROR_INVALID_FLAGS, "flags", [](A &, Head &head) { head.flags = 0x80000000u; });
        add("next_set", ATTILE_ERROR_INVALID_FLAGS, "next", [](A &, Head &head) { head.next = &head; });
        add("workspace_bytes_negative", ATTILE_ERROR_INVALID_VALUE, "workspace_bytes", [](A &, Head &head) { head.workspace_bytes = -1; });
        add("workspace_misaligned", ATTILE_ERROR_MISALIGNED, "workspace",
            [](A &c, Head &head) { head.workspace = static_cast<unsigned char *>(c.make(ATTILE_F32, {128}).data) + 16; });
    }
    for (const Op operation : {Op::kAttentionMerge, Op::kAttentionMergeBackward, Op::kReduce, Op::kSoftmax}) {
        table->push_back({std::string(operation_name(operation)) + "/head/flag_of_another_operation", operation,
                          [](A &c) { static_cast<Head *>(c.head())->flags = ATTILE_FLAG_ALLOW_SPLIT_TF32; }, ATTILE_ERROR_INVALID_FLAGS,
                          "flags"});
    }
    table->push_back({"attention/head/flag_of_another_operation", Op::kAttention,
                      [](A &c) { c.attention.args.flags = ATTILE_FLAG_ALLOW_NONDETERMINISTIC; }, ATTILE_ERROR_INVALID_FLAGS, "flags"});
    for (const Op operation : {Op::kAttentionBackward, Op::kAttentionMergeBackward}) {
        table->push_back({std::string(operation_name(operation)) + "/head/exact_products", operation,
                          [](A &c) { static_cast<Head *>(c.head())->flags = ATTILE_FLAG_EXACT_PRODUCTS; }, ATTILE_ERROR_INVALID_FLAGS,
                          "flags"});
    }
    for (const Op operation : {Op::kAttentionBackward, Op::kAttentionMerge, Op::kReduce, Op::kSoftmax}) {
        table->push_back({std::string(operation_name(operation)) + "/head/fast_accumulation", operation,
                          [](A &c) { static_cast<Head *>(c.head())->flags = ATTILE_FLAG_FAST_ACCUMULATION; }, ATTILE_ERROR_INVALID_FLAGS,
                          "flags"});
    }
    // A workspace that lies over a tensor; queries do not look at it.
    table->push_back({"gemm/workspace/overlaps_d", Op::kGemm,
                      [](A &c) {
                          c.gemm.args.workspace = c.gemm.args.d.data;
                          c.gemm.args.workspace_bytes = 256;
                      },
                      ATTILE_ERROR_ALIASING, "workspace", true});
}

constexpr double kNotFinite[] = {kNan, kInfinity, -kInfinity, 3.5e38, -1e39};  // the last two in float32

void append_gemm(Table *table) {
    const auto add = [&](const char *what, int32_t status, const char *word, std::function<void(attile_gemm_args &, A &)> spoil) {
        table->push_back({std::string("gemm/") + what, Op::kGemm, [spoil](A &c) { spoil(c.gemm.args, c); }, status, word});
    };
    for (const double value : kNotFinite) {
        add(("alpha_" + std::to_string(value)).c_str(), ATTILE_ERROR_INVALID_VALUE, "alpha", [value](auto &g, A &) { g.alpha = value; });
        add(("beta_" + std::to_string(value)).c_str(), ATTILE_ERROR_INVALID_VALUE, "beta", [value](auto &g, A &) { g.beta = value; });
    }
    for (const int32_t value : {-1, 3, INT32_MAX, INT32_MIN}) {
        add(("bias_axis_" + std::to_string(value)).c_str(), ATTILE_ERROR_INVALID_VALUE, "bias_axis",
            [value](auto &g, A &) { g.bias_axis = value; });
    }
    for (const int32_t value : {-1, 5, INT32_MAX, INT32_MIN}) {
        add(("activation_" + std::to_string(value)).c_str(), ATTILE_ERROR_INVALID_VALUE, "activation",
            [value](auto &g, A &) { g.activation = value; });
    }
    add("beta_without_c", ATTILE_ERROR_INVALID_VALUE, "c is absent", [](auto &g, A &) { g.c = {}; });
    add("bias_without_axis", ATTILE_ERROR_INVALID_VALUE, "bias_axis", [](auto &g, A &) { g.bias_axis = ATTILE_BIAS_NONE; });
    add("axis_without_bias", ATTILE_ERROR_INVALID_VALUE, "bias", [](auto &g, A &) { g.bias = {}; });
    add("inner_extents", ATTILE_ERROR_SHAPE_MISMATCH, "b.shape[1]", [](auto &g, A &) { g.b.shape[1] = 4; });
    add("rows_of_a", ATTILE_ERROR_SHAPE_MISMATCH, "a.shape[1]", [](auto &g, A &) { g.a.shape[1] = 2; });
    add("columns_of_b", ATTILE_ERROR_SHAPE_MISMATCH, "b.shape[2]", [](auto &g, A &) { g.b.shape[2] = 3; });
    add("rows_of_c", ATTILE_ERROR_SHAPE_MISMATCH, "c.shape[1]", [](auto &g, A &) { g.c.shape[1] = 1; });
    add("columns_of_c", ATTILE_ERROR_SHAPE_MISMATCH, "c.shape[2]", [](auto &g, A &) { g.c.shape[2] = 1; });
    add("batch_of_a", ATTILE_ERROR_SHAPE_MISMATCH, "a.shape[0]", [](auto &g, A &) { g.a.shape[0] = 3; });
    add("batch_of_b", ATTILE_ERROR_SHAPE_MISMATCH, "b.shape[0]", [](auto &g, A &) { g.b.shape[0] = 0; });
    add("batch_of_c", ATTILE_ERROR_SHAPE_MISMATCH, "c.shape[0]", [](auto &g, A &) { g.c.shape[0] = 3; });
    add("batch_of_bias", ATTILE_ERROR_SHAPE_MISMATCH, "bias.shape[0]", [](auto &g, A &) { g.bias.shape[0] = 3; });
    add("columns_of_bias", ATTILE_ERROR_SHAPE_MISMATCH, "bias.shape[1]", [](auto &g, A &) { g.bias.shape[1] = 3; });
    add("rows_of_bias", ATTILE_ERROR_SHAPE_MISMATCH, "bias.shape[1]", [](auto &g, A &) { g.bias_axis = ATTILE_BIAS_ROWS; });
    add("rank_of_a_above_d", ATTILE_ERROR_INVALID_RANK, "a.rank", [](auto &g, A &c) { g.a = c.make(ATTILE_F32, {1, 2, 3, 5}); });
    add("rank_of_c_above_d", ATTILE_ERROR_INVALID_RANK, "c.rank", [](auto &g, A &c) { g.c = c.make(ATTILE_F32, {1, 2, 3, 4}); });
    add("rank_of_bias_of_d", ATTILE_ERROR_INVALID_RANK, "bias.rank", [](auto &g, A &c) { g.bias = c.make(ATTILE_F32, {1, 2, 4}); });
    add("b_of_another_dtype", ATTILE_ERROR_INVALID_DTYPE, "b.dtype", [](auto &g, A &c) { g.b = c.make(ATTILE_F64, {2, 5, 4}); });
    add("d_narrower", ATTILE_ERROR_INVALID_DTYPE, "d.dtype", [](auto &g, A &c) { g.d = c.make(ATTILE_F16, {2, 3, 4}); });
    add("c_of_another_dtype", ATTILE_ERROR_INVALID_DTYPE, "c.dtype", [](auto &g, A &c) { g.c = c.make(ATTILE_F64, {2, 3, 4}); });
    add("bias_wider", ATTILE_ERROR_INVALID_DTYPE, "bias.dtype", [](auto &g, A &c) { g.bias = c.make(ATTILE_F64, {2, 4}); });
}

void append_attention_scalars(const char *prefix, Op operation, Table *table) {
    const auto add = [&](const std::string &what, int32_t status, const char *word, std::function<void(attile_attention_args &)> spoil) {
        table->push_back({prefix + what, operation, [spoil](A &c) { spoil(c.attention.args); }, status, word});
    };
    for (const double value : kNotFinite) {
        add("scale_" + std::to_string(value), ATTILE_ERROR_INVALID_VALUE, "scale", [value](auto &a) { a.scale = value; });
        if (std::isfinite(value)) continue;
        add("softcap_" + std::to_string(value), ATTILE_ERROR_INVALID_VALUE, "softcap", [value](auto &a) { a.softcap = value; });
    }
    add("softcap_negative", ATTILE_ERROR_INVALID_VALUE, "softcap", [](auto &a) { a.softcap = -1.0; });
    for (const int32_t value : {-1, 5, INT32_MAX, INT32_MIN}) {
        add("mask_" + std::to_string(value), ATTILE_ERROR_INVALID_VALUE, "mask", [value](auto &a) { a.mask = value; });
    }
    add("reserved", ATTILE_ERROR_STRUCT_TOO_NEW, "reserved", [](auto &a) { a.reserved = 1; });
    for (const int32_t mask : {ATTILE_MASK_NONE, ATTILE_MASK_CAUSAL_TOP_LEFT, ATTILE_MASK_CAUSAL_BOTTOM_RIGHT}) {
        const auto set = [mask](attile_attention_args &a) { a.mask = mask; };
        add("window_left_with_mask_" + std::to_string(mask), ATTILE_ERROR_INVALID_VALUE, "window_left", [set](auto &a) {
            set(a);
            a.window_left = 1;
        });
        add("window_right_with_mask_" + std::to_string(mask), ATTILE_ERROR_INVALID_VALUE, "window_right", [set](auto &a) {
            set(a);
            a.window_right = -1;
        });
    }
    for (const int32_t mask : {ATTILE_MASK_WINDOW_TOP_LEFT, ATTILE_MASK_WINDOW_BOTTOM_RIGHT}) {
        add("window_left_-2_with_mask_" + std::to_string(mask), ATTILE_ERROR_INVALID_VALUE, "window_left", [mask](auto &a) {
            a.mask = mask;
            a.window_left = -2;
        });
        add("window_right_lowest_with_mask_" + std::to_string(mask), ATTILE_ERROR_INVALID_VALUE, "window_right", [mask](auto &a) {
            a.mask = mask;
            a.window_right = INT64_MIN;
        });
    }
    add("max_len_q_negative", ATTILE_ERROR_INVALID_VALUE, "max_len_q", [](auto &a) { a.max_len_q = -1; });
    add("max_len_k_negative", ATTILE_ERROR_INVALID_VALUE, "max_len_k", [](auto &a) { a.max_len_k = -1; });
    add("causal_offset_without_mask_or_slopes", ATTILE_ERROR_INVALID_VALUE, "causal_offset", [](auto &a) { a.alibi_slopes = {}; });
}

void append_attention_shapes(const char *prefix, Op operation, Table *table) {
    // A tensor whose extent disagrees: smaller, so that no memory beyond it comes into play.
    const auto add = [&](const char *name, attile_tensor attile_attention_args::*field, int32_t axis, int64_t extent) {
        table->push_back({prefix + std::string(name) + "/extent_" + std::to_string(axis) + "_of_" + std::to_string(extent), operation,
                          [=](A &c) { (c.attention.args.*field).shape[axis] = extent; }, ATTILE_ERROR_SHAPE_MISMATCH, name});
    };
    using T = attile_attention_args;
    add("k", &T::k, 0, 1);
    add("k", &T::k, 1, 3);
    add("k", &T::k, 1, 0);
    add("k", &T::k, 3, 3);
    add("v", &T::v, 0, 1);
    add("v", &T::v, 1, 1);
    add("v", &T::v, 2, 4);
    add("o", &T::o, 0, 1);
    add("o", &T::o, 1, 3);
    add("o", &T::o, 2, 2);
    add("o", &T::o, 3, 2);
    add("lse", &T::lse, 0, 1);
    add("lse", &T::lse, 1, 2);
    add("lse", &T::lse, 2, 2);
    add("bias", &T::bias, 0, 3);
    add("bias", &T::bias, 1, 2);
    add("bias", &T::bias, 2, 2);
    add("bias", &T::bias, 3, 4);
    add("allowed", &T::allowed, 0, 2);
    add("allowed", &T::allowed, 1, 4);
    add("alibi_slopes", &T::alibi_slopes, 0, 2);
    add("sinks", &T::sinks, 0, 1);
    add("key_lengths", &T::key_lengths, 0, 1);
    add("key_starts", &T::key_starts, 0, 1);
    add("causal_offset", &T::causal_offset, 0, 1);
    add("block_mask", &T::block_mask, 0, 3);
    add("block_mask", &T::block_mask, 1, 2);
    add("block_mask", &T::block_mask, 2, 2);
    add("tree_mask", &T::tree_mask, 0, 2);
}

void append_attention(Table *table) {
    const auto add = [&](const char *what, int32_t status, const char *word, std::function<void(attile_attention_args &, A &)> spoil) {
        table->push_back({std::string("attention/") + what, Op::kAttention, [spoil](A &c) { spoil(c.attention.args, c); }, status, word});
    };
    add("tree_wider_than_the_keys", ATTILE_ERROR_SHAPE_MISMATCH, "tree_mask.shape[1]", [](auto &a, A &c) {
        a.tree_mask = c.make(ATTILE_BOOL, {3, 6}, 1.0);
    });
    add("k_of_another_dtype", ATTILE_ERROR_INVALID_DTYPE, "k.dtype", [](auto &a, A &c) { a.k = c.make(ATTILE_F64, {2, 2, 5, 4}); });
    add("q_of_4_bits", ATTILE_ERROR_INVALID_DTYPE, "q.dtype", [](auto &a, A &) { a.q.dtype = ATTILE_I4; });
    add("o_narrower", ATTILE_ERROR_INVALID_DTYPE, "o.dtype", [](auto &a, A &c) { a.o = c.make(ATTILE_F16, {2, 4, 3, 3}); });
    add("lse_wider", ATTILE_ERROR_INVALID_DTYPE, "lse.dtype", [](auto &a, A &c) { a.lse = c.make(ATTILE_F64, {2, 4, 3}); });
    add("allowed_of_floats", ATTILE_ERROR_INVALID_DTYPE, "allowed.dtype", [](auto &a, A &c) { a.allowed = c.make(ATTILE_F32, {3, 5}); });
    add("slopes_rank_2_batch", ATTILE_ERROR_SHAPE_MISMATCH, "alibi_slopes.shape[0]", [](auto &a, A &c) {
        a.alibi_slopes = c.make(ATTILE_F32, {3, 4});
    });
    add("cu_len_q_alone_with_packed_k", ATTILE_ERROR_SHAPE_MISMATCH, "k.shape[0]", [](auto &a, A &c) {
        c.make_packed();
        a.cu_len_k = {};
    });
    add("cu_len_k_alone", ATTILE_ERROR_INVALID_VALUE, "cu_len_q", [](auto &a, A &c) {
        c.make_packed();
        a.cu_len_q = {};
    });
    add("cu_len_k_of_another_length", ATTILE_ERROR_SHAPE_MISMATCH, "cu_len_k", [](auto &a, A &c) {
        c.make_packed();
        a.cu_len_k.shape[0] = 2;
    });
    add("cu_len_q_of_nothing", ATTILE_ERROR_INVALID_SHAPE, "cu_len_q", [](auto &a, A &c) {
        c.make_packed();
        a.cu_len_q.shape[0] = 0;
    });
    add("cu_len_q_wider", ATTILE_ERROR_INVALID_DTYPE, "cu_len_q", [](auto &a, A &c) {
        c.make_packed();
        a.cu_len_q.dtype = ATTILE_F64;
    });
    add("cu_len_k_rank_2", ATTILE_ERROR_INVALID_RANK, "cu_len_k", [](auto &a, A &c) {
        c.make_packed();
        a.cu_len_k.rank = 2;
    });
    add("packed_q_with_a_batch", ATTILE_ERROR_SHAPE_MISMATCH, "q.shape[0]", [](auto &a, A &c) {
        c.make_packed();
        a.q = c.make(ATTILE_F32, {2, 4, 3, 4});
    });
    add("packed_k_with_a_batch", ATTILE_ERROR_SHAPE_MISMATCH, "k.shape[0]", [](auto &a, A &c) {
        c.make_packed();
        a.k = c.make(ATTILE_F32, {2, 2, 5, 4});
    });
    add("packed_bias_beyond_max_len", ATTILE_ERROR_SHAPE_MISMATCH, "bias.shape[2]", [](auto &a, A &c) {
        c.make_packed();
        a.max_len_q = 2;
    });
    add("o_over_cu_len_q", ATTILE_ERROR_ALIASING, "cu_len_q", [](auto &a, A &c) {
        c.make_packed();
        a.o.data = a.cu_len_q.data;
    });
    add("o_over_cu_len_k", ATTILE_ERROR_ALIASING, "cu_len_k", [](auto &a, A &c) {
        c.make_packed();
        a.o.data = a.cu_len_k.data;
    });
    add("o_over_block_table", ATTILE_ERROR_ALIASING, "block_table", [](auto &a, A &c) {
        c.make_paged();
        a.o.data = a.block_table.data;
    });
    add("block_table_without_key_lengths", ATTILE_ERROR_INVALID_VALUE, "key_lengths", [](auto &a, A &c) {
        c.make_paged();
        a.key_lengths = {};
    });
    add("block_table_with_cu_len_k", ATTILE_ERROR_INVALID_VALUE, "cu_len_k", [](auto &a, A &c) {
        c.make_paged();
        a.cu_len_q = a.cu_len_k = c.make(ATTILE_I32, {3});
    });
    add("block_table_rank_1", ATTILE_ERROR_INVALID_RANK, "block_table", [](auto &a, A &c) {
        c.make_paged();
        a.block_table.rank = 1;
    });
    add("block_table_dtype", ATTILE_ERROR_INVALID_DTYPE, "block_table", [](auto &a, A &c) {
        c.make_paged();
        a.block_table.dtype = ATTILE_F32;
    });
    add("block_table_batch", ATTILE_ERROR_SHAPE_MISMATCH, "block_table", [](auto &a, A &c) {
        c.make_paged();
        a.block_table.shape[0] = 1;
    });
    add("pages_of_v", ATTILE_ERROR_SHAPE_MISMATCH, "v.shape[0]", [](auto &a, A &c) {
        c.make_paged();
        a.v.shape[0] = 2;
    });
    add("page_size_of_v", ATTILE_ERROR_SHAPE_MISMATCH, "v.shape[2]", [](auto &a, A &c) {
        c.make_paged();
        a.v.shape[2] = 4;
    });
    add("paged_keys_overflow", ATTILE_ERROR_OVERFLOW, "block_table", [](auto &a, A &c) {
        c.make_paged();
        a.block_table.shape[1] = INT64_MAX / 8;
        a.block_table.stride[0] = a.block_table.stride[1] = 0;
        a.k.shape[2] = a.v.shape[2] = 1000;
        a.k.stride[2] = a.v.stride[2] = 0;
    });
}

void append_backward(Table *table) {
    const auto add = [&](const char *what, int32_t status, const char *word,
                         std::function<void(attile_attention_backward_args &, A &)> spoil) {
        table->push_back({std::string("attention_backward/") + what, Op::kAttentionBackward,
                          [spoil](A &c) { spoil(c.attention_backward.args, c); }, status, word});
    };
    add("forward_null", ATTILE_ERROR_NULL_ARGUMENT, "forward", [](auto &b, A &) { b.forward = nullptr; });
    add("forward_struct_size", ATTILE_ERROR_STRUCT_SIZE, "forward", [](auto &, A &c) { c.attention.args.struct_size = 0; });
    add("forward_flags", ATTILE_ERROR_INVALID_FLAGS, "forward", [](auto &, A &c) { c.attention.args.flags = 0x100; });
    add("forward_next", ATTILE_ERROR_INVALID_FLAGS, "forward", [](auto &, A &c) { c.attention.args.next = &c; });
    add("forward_fast_accumulation", ATTILE_ERROR_INVALID_FLAGS, "forward",
        [](auto &, A &c) { c.attention.args.flags = ATTILE_FLAG_FAST_ACCUMULATION; });
    for (const int32_t q : {ATTILE_I8, ATTILE_F8_E4M3, ATTILE_F8_E5M2}) {
        add(("q_of_8_bits_" + std::to_string(q)).c_str(), ATTILE_ERROR_INVALID_DTYPE, "q.dtype",
            [q](auto &, A &c) { c.attention.args.q.dtype = q; });
    }
    add("q_scale", ATTILE_ERROR_INVALID_VALUE, "q_scale", [](auto &, A &c) { c.attention.args.q_scale = c.make(ATTILE_F32, {1}); });
    add("o_scale", ATTILE_ERROR_INVALID_VALUE, "o_scale", [](auto &, A &c) { c.attention.args.o_scale = c.make(ATTILE_F32, {1}); });
    add("o_of_8_bits", ATTILE_ERROR_INVALID_DTYPE, "o.dtype", [](auto &, A &c) { c.attention.args.o.dtype = ATTILE_I8; });
    add("dbias_without_bias", ATTILE_ERROR_INVALID_VALUE, "dbias", [](auto &, A &c) { c.attention.args.bias = {}; });
    add("dsinks_without_sinks", ATTILE_ERROR_INVALID_VALUE, "dsinks", [](auto &, A &c) { c.attention.args.sinks = {}; });
    add("dbias_of_another_rank", ATTILE_ERROR_INVALID_RANK, "dbias.rank", [](auto &b, A &c) { b.dbias = c.make(ATTILE_F32, {4, 3, 5}); });
    add("dout_wider", ATTILE_ERROR_INVALID_DTYPE, "dout.dtype", [](auto &b, A &c) { b.dout = c.make(ATTILE_F64, {2, 4, 3, 3}); });
    add("dlse_wider", ATTILE_ERROR_INVALID_DTYPE, "dlse.dtype", [](auto &b, A &c) { b.dlse = c.make(ATTILE_F64, {2, 4, 3}); });
    add("dq_narrower", ATTILE_ERROR_INVALID_DTYPE, "dq.dtype", [](auto &b, A &c) { b.dq = c.make(ATTILE_F16, {2, 4, 3, 4}); });
    const struct {
        const char *name;
        attile_tensor attile_attention_backward_args::*field;
        int32_t axes;
    } gradients[] = {{"dout", &attile_attention_backward_args::dout, 4},   {"dq", &attile_attention_backward_args::dq, 4},
                     {"dk", &attile_attention_backward_args::dk, 4},       {"dv", &attile_attention_backward_args::dv, 4},
                     {"dbias", &attile_attention_backward_args::dbias, 4}, {"dsinks", &attile_attention_backward_args::dsinks, 1},
                     {"dlse", &attile_attention_backward_args::dlse, 3}};
    for (const auto &gradient : gradients) {
        for (int32_t axis = 0; axis < gradient.axes; ++axis) {
            const auto field = gradient.field;
            add((std::string(gradient.name) + "/extent_" + std::to_string(axis)).c_str(), ATTILE_ERROR_SHAPE_MISMATCH, gradient.name,
                [field, axis](auto &b, A &) { (b.*field).shape[axis] -= 1; });
        }
    }
}

void append_reductions(Table *table) {
    for (const int32_t axis : {3, -4, INT32_MAX, INT32_MIN}) {
        table->push_back({"reduce/axis_" + std::to_string(axis), Op::kReduce, [axis](A &c) { c.reduce.args.axis = axis; },
                          ATTILE_ERROR_INVALID_VALUE, "axis"});
        table->push_back({"softmax/axis_" + std::to_string(axis), Op::kSoftmax, [axis](A &c) { c.softmax.args.axis = axis; },
                          ATTILE_ERROR_INVALID_VALUE, "axis"});
    }
    for (const int32_t op : {0, -1, 5, INT32_MAX}) {
        table->push_back(
            {"reduce/op_" + std::to_string(op), Op::kReduce, [op](A &c) { c.reduce.args.op = op; }, ATTILE_ERROR_INVALID_VALUE, "op"});
    }
    for (int32_t axis = 0; axis < 3; ++axis) {
        table->push_back({"reduce/y/extent_" + std::to_string(axis), Op::kReduce, [axis](A &c) { c.reduce.args.y.shape[axis] -= 1; },
                          ATTILE_ERROR_SHAPE_MISMATCH, "y.shape"});
        table->push_back({"softmax/y/extent_" + std::to_string(axis), Op::kSoftmax, [axis](A &c) { c.softmax.args.y.shape[axis] -= 1; },
                          ATTILE_ERROR_SHAPE_MISMATCH, "y.shape"});
    }
    table->push_back({"reduce/y/not_reduced", Op::kReduce, [](A &c) { c.reduce.args.axis = 0; }, ATTILE_ERROR_SHAPE_MISMATCH, "y.shape"});
    table->push_back({"reduce/y/narrower", Op::kReduce,
                      [](A &c) {
                          c.reduce.args.y = c.make(ATTILE_F16, {3, 1, 5});
                      },
                      ATTILE_ERROR_INVALID_DTYPE, "y.dtype"});
    table->push_back({"softmax/y/in_place_of_another_type", Op::kSoftmax,
                      [](A &c) {
                          c.softmax.args.x.dtype = ATTILE_F16;
                          c.softmax.args.y.data = c.softmax.args.x.data;
                      },
                      ATTILE_ERROR_ALIASING, "y"});
    table->push_back(
        {"softmax/reserved", Op::kSoftmax, [](A &c) { c.softmax.args.reserved = 1; }, ATTILE_ERROR_STRUCT_TOO_NEW, "reserved"});
}

Table make_table() {
    Table table;
    append_heads(&table);
    append_illegal_tensors(&table);
    append_gemm(&table);
    append_illegal_quantised(&table);
    append_illegal_cache(&table);
    append_attention_scalars("attention/", Op::kAttention, &table);
    append_attention_scalars("attention_backward/forward->", Op::kAttentionBackward, &table);
    append_attention_shapes("attention/", Op::kAttention, &table);
    append_attention_shapes("attention_backward/forward->", Op::kAttentionBackward, &table);
    append_attention(&table);
    append_backward(&table);
    append_illegal_merges(&table);
    append_reductions(&table);
    append_illegal_blas(&table);
    return table;
}

}  // namespace

const std::vector<IllegalArgument> &illegal_arguments() {
    static const Table table = make_table();
    return table;
}

}  // namespace attile_test
