// SPDX-License-Identifier: Apache-2.0
// Illegal arguments of products and attention with numbers of 8 bits.
#include "illegal_quantised.h"

namespace attile_test {

using A = CallArguments;

namespace {

// One element for all: there is not the memory for more.
attile_tensor spread(A &c, int32_t dtype, int64_t rows, int64_t columns) {
    attile_tensor tensor = c.make(dtype, {1, 1});
    tensor.shape[0] = rows;
    tensor.shape[1] = columns;
    tensor.stride[0] = tensor.stride[1] = 0;
    return tensor;
}

}  // namespace

// Operands of 8 bits: K 128, N 256.
void append_illegal_quantised(std::vector<IllegalArgument> *table) {
    const auto add = [&](const char *what, int32_t status, const char *word, int32_t a, int32_t b, int32_t d,
                         std::function<void(attile_gemm_args &, A &)> spoil) {
        table->push_back({std::string("gemm/quantised/") + what, Operation::kGemm,
                          [=](A &c) {
                              attile_gemm_args &g = c.gemm.args;
                              g.a = spread(c, a, 3, 128);
                              g.b = spread(c, b, 128, 256);
                              g.d = c.make(d, {3, 256});
                              g.c = g.bias = {};
                              g.beta = 0;
                              g.alpha = 1;
                              g.bias_axis = ATTILE_BIAS_NONE;
                              g.activation = ATTILE_ACTIVATION_NONE;
                              spoil(g, c);
                          },
                          status, word});
    };
    constexpr int32_t kF = ATTILE_F32, kI = ATTILE_I8, kE = ATTILE_F8_E4M3, kSum = ATTILE_I32;
    const auto nothing = [](auto &, A &) {};
    add("a_alone", ATTILE_ERROR_INVALID_DTYPE, "b.dtype", kI, kF, kF, nothing);
    add("a_f64", ATTILE_ERROR_INVALID_DTYPE, "b.dtype", ATTILE_F64, kI, ATTILE_F64, nothing);
    add("i8_beside_e4m3", ATTILE_ERROR_INVALID_DTYPE, "b.dtype", kI, kE, kF, nothing);
    add("e4m3_beside_i8", ATTILE_ERROR_INVALID_DTYPE, "b.dtype", kE, kI, kF, nothing);
    add("d_of_8_bits_and_f64", ATTILE_ERROR_INVALID_DTYPE, "d.dtype", ATTILE_F64, ATTILE_F64, kI, nothing);
    add("d_of_4_bits", ATTILE_ERROR_INVALID_DTYPE, "d.dtype", kF, kF, ATTILE_I4, nothing);
    add("d_f64", ATTILE_ERROR_INVALID_DTYPE, "d.dtype", kE, kE, ATTILE_F64, nothing);
    add("d_i32_of_floats", ATTILE_ERROR_INVALID_DTYPE, "d.dtype", kE, kE, kSum, nothing);
    add("d_i32_of_weights", ATTILE_ERROR_INVALID_DTYPE, "d.dtype", kF, kI, kSum, nothing);
    add("d_u8", ATTILE_ERROR_INVALID_DTYPE, "d.dtype", kI, kI, ATTILE_U8, nothing);
    add("i32_alpha", ATTILE_ERROR_INVALID_VALUE, "alpha", kI, kI, kSum, [](auto &g, A &) { g.alpha = 2; });
    add("i32_alpha_0", ATTILE_ERROR_INVALID_VALUE, "alpha", kI, kI, kSum, [](auto &g, A &) { g.alpha = 0; });
    add("i32_beta", ATTILE_ERROR_INVALID_VALUE, "beta", kI, kI, kSum, [](auto &g, A &c) {
        g.beta = 1;
        g.c = c.make(ATTILE_I32, {3, 256});
    });
    add("i32_bias", ATTILE_ERROR_INVALID_VALUE, "bias", kI, kI, kSum, [](auto &g, A &c) {
        g.bias = c.make(ATTILE_F32, {256});
        g.bias_axis = ATTILE_BIAS_COLUMNS;
    });
    add("i32_activation", ATTILE_ERROR_INVALID_VALUE, "activation", kI, kI, kSum,
        [](auto &g, A &) { g.activation = ATTILE_ACTIVATION_RELU; });
    add("i32_a_scale", ATTILE_ERROR_INVALID_VALUE, "a_scale", kI, kI, kSum, [](auto &g, A &c) { g.a_scale = c.make(ATTILE_F32, {3, 1}); });
    add("i32_b_scale", ATTILE_ERROR_INVALID_VALUE, "b_scale", kI, kI, kSum, [](auto &g, A &c) { g.b_scale = c.make(ATTILE_F32, {1, 1}); });
    add("i32_too_deep", ATTILE_ERROR_INVALID_SHAPE, "131072", kI, kI, kSum, [](auto &g, A &) { g.a.shape[1] = g.b.shape[0] = 131072; });
    add("scale_of_floats", ATTILE_ERROR_INVALID_VALUE, "b_scale", kF, kF, kF, [](auto &g, A &c) {
        g.b_scale = c.make(ATTILE_F32, {1, 1});
    });
    add("a_scale_of_floats", ATTILE_ERROR_INVALID_VALUE, "a_scale", kF, kI, kF, [](auto &g, A &c) {
        g.a_scale = c.make(ATTILE_F32, {1, 1});
    });
    const auto scaled = [&](const char *what, int32_t status, const char *word, int32_t dtype, int64_t k, int64_t n) {
        add(what, status, word, kF, kI, kF, [=](auto &g, A &c) { g.b_scale = spread(c, dtype, k, n); });
    };
    scaled("scale_f16", ATTILE_ERROR_INVALID_DTYPE, "b_scale.dtype", ATTILE_F16, 1, 256);
    scaled("groups_of_16", ATTILE_ERROR_SHAPE_MISMATCH, "b_scale.shape[0]", ATTILE_F32, 8, 256);
    scaled("groups_of_1", ATTILE_ERROR_SHAPE_MISMATCH, "b_scale.shape[0]", ATTILE_F32, 128, 256);
    scaled("groups_0", ATTILE_ERROR_SHAPE_MISMATCH, "b_scale.shape[0]", ATTILE_F32, 0, 256);
    scaled("columns_by_64", ATTILE_ERROR_SHAPE_MISMATCH, "b_scale.shape[1]", ATTILE_F32, 1, 4);
    scaled("columns_that_differ", ATTILE_ERROR_SHAPE_MISMATCH, "b_scale.shape[1]", ATTILE_F32, 1, 255);
    add("scale_of_rank_1", ATTILE_ERROR_INVALID_RANK, "b_scale.rank", kF, kI, kF,
        [](auto &g, A &c) { g.b_scale = c.make(ATTILE_F32, {256}); });
    add("scale_of_rank_3", ATTILE_ERROR_INVALID_RANK, "b_scale.rank", kF, kI, kF, [](auto &g, A &c) {
        g.b_scale = c.make(ATTILE_F32, {1, 1, 256});
    });
    add("a_groups_that_differ", ATTILE_ERROR_SHAPE_MISMATCH, "a_scale.shape[1]", kE, kE, kF, [](auto &g, A &c) {
        g.a_scale = c.make(ATTILE_F32, {3, 3});
    });
    add("a_rows_that_differ", ATTILE_ERROR_SHAPE_MISMATCH, "a_scale.shape[0]", kE, kE, kF, [](auto &g, A &c) {
        g.a_scale = c.make(ATTILE_F32, {2, 4});
    });
    add("depth_that_groups_do_not_divide", ATTILE_ERROR_SHAPE_MISMATCH, "b_scale.shape[0]", kF, kI, kF, [](auto &g, A &c) {
        g.a.shape[1] = g.b.shape[0] = 100;
        g.b_scale = c.make(ATTILE_F32, {3, 256});
    });
    add("batch_of_scale", ATTILE_ERROR_SHAPE_MISMATCH, "b_scale.shape[0]", kF, kI, kF, [](auto &g, A &c) {
        g.d = c.make(ATTILE_F32, {2, 3, 256});
        g.b_scale = c.make(ATTILE_F32, {3, 1, 256});
    });
    add("scale_without_data", ATTILE_ERROR_NULL_ARGUMENT, "b_scale.data", kF, kI, kF, [](auto &g, A &c) {
        g.b_scale = c.make(ATTILE_F32, {1, 256});
        g.b_scale.data = nullptr;
    });
    table->back().only_run = true;
    // Results of 8 bits.
    add("d_scale_of_floats", ATTILE_ERROR_INVALID_VALUE, "d_scale", kF, kI, kF, [](auto &g, A &c) { g.d_scale = c.make(ATTILE_F32, {1}); });
    add("d_scale_of_sums", ATTILE_ERROR_INVALID_VALUE, "d_scale", kI, kI, kSum, [](auto &g, A &c) { g.d_scale = c.make(ATTILE_F32, {1}); });
    const auto result = [&](const char *what, int32_t status, const char *word, std::function<void(attile_gemm_args &, A &)> spoil) {
        add(what, status, word, kF, kI, kE, spoil);
    };
    result("d_scale_f16", ATTILE_ERROR_INVALID_DTYPE, "d_scale.dtype", [](auto &g, A &c) { g.d_scale = c.make(ATTILE_F16, {1}); });
    result("d_scale_of_other_columns", ATTILE_ERROR_SHAPE_MISMATCH, "d_scale.shape[0]",
           [](auto &g, A &c) { g.d_scale = c.make(ATTILE_F32, {255}); });
    result("d_scale_of_other_rows", ATTILE_ERROR_SHAPE_MISMATCH, "d_scale.shape[0]", [](auto &g, A &c) {
        g.d_scale = c.make(ATTILE_F32, {2, 1});
    });
    result("d_scale_of_rank_3", ATTILE_ERROR_INVALID_RANK, "d_scale.rank", [](auto &g, A &c) {
        g.d_scale = c.make(ATTILE_F32, {1, 1, 1});
    });
    result("d_scale_without_data", ATTILE_ERROR_NULL_ARGUMENT, "d_scale.data", [](auto &g, A &c) {
        g.d_scale = c.make(ATTILE_F32, {1});
        g.d_scale.data = nullptr;
    });
    table->back().only_run = true;
    result("d_scale_in_d", ATTILE_ERROR_ALIASING, "d_scale", [](auto &g, A &c) {
        g.d_scale = c.make(ATTILE_F32, {1});
        g.d_scale.data = g.d.data;
    });
    result("c_of_8_bits", ATTILE_ERROR_INVALID_DTYPE, "c.dtype", [](auto &g, A &c) {
        g.beta = 1;
        g.c = c.make(ATTILE_F8_E4M3, {3, 256});
    });
    result("bias_of_8_bits", ATTILE_ERROR_INVALID_DTYPE, "bias.dtype", [](auto &g, A &c) {
        g.bias = c.make(ATTILE_F8_E4M3, {256});
        g.bias_axis = ATTILE_BIAS_COLUMNS;
    });
    add("scale_in_d", ATTILE_ERROR_ALIASING, "b_scale", kF, kI, kF, [](auto &g, A &c) {
        g.b_scale = c.make(ATTILE_F32, {1, 256});
        g.b_scale.data = g.d.data;
    });
}

void append_illegal_cache(std::vector<IllegalArgument> *table) {
    const auto add = [&](const char *what, int32_t status, const char *word, std::function<void(attile_attention_args &, A &)> spoil) {
        table->push_back(
            {std::string("attention/") + what, Operation::kAttention, [spoil](A &c) { spoil(c.attention.args, c); }, status, word});
    };
    add("scales_of_floats", ATTILE_ERROR_INVALID_VALUE, "k_scale", [](auto &a, A &c) { a.k_scale = c.make(ATTILE_F32, {1}); });
    add("scales_that_do_not_divide_v", ATTILE_ERROR_SHAPE_MISMATCH, "v_scale.shape[0]", [](auto &a, A &c) {
        a.v = c.make(ATTILE_I8, {2, 2, 5, 3}, 1.0);
        a.v_scale = c.make(ATTILE_F32, {2});
    });
    add("scales_of_more_keys", ATTILE_ERROR_SHAPE_MISMATCH, "k_scale.shape[1]", [](auto &a, A &c) {
        a.k = c.make(ATTILE_I8, {2, 2, 5, 4}, 1.0);
        a.k_scale = c.make(ATTILE_F32, {2, 6, 1});
    });
    add("q_scales_of_floats", ATTILE_ERROR_INVALID_VALUE, "q_scale", [](auto &a, A &c) { a.q_scale = c.make(ATTILE_F32, {1}); });
    add("q_scales_of_key_heads", ATTILE_ERROR_SHAPE_MISMATCH, "q_scale.shape[0]", [](auto &a, A &c) {
        a.q = c.make(ATTILE_I8, {2, 4, 3, 4}, 1.0);
        a.q_scale = c.make(ATTILE_F32, {2, 1, 1});
    });
    add("q_scales_that_do_not_divide_q", ATTILE_ERROR_SHAPE_MISMATCH, "q_scale.shape[3]", [](auto &a, A &c) {
        a.q = c.make(ATTILE_I8, {2, 4, 3, 4}, 1.0);
        a.q_scale = c.make(ATTILE_F32, {2, 4, 3, 2});
    });
    add("q_scales_wider", ATTILE_ERROR_INVALID_DTYPE, "q_scale.dtype", [](auto &a, A &c) {
        a.q = c.make(ATTILE_F8_E4M3, {2, 4, 3, 4});
        a.q_scale = c.make(ATTILE_F64, {1});
    });
    add("o_over_q_scale", ATTILE_ERROR_ALIASING, "q_scale", [](auto &a, A &c) {
        a.q = c.make(ATTILE_I8, {2, 4, 3, 4}, 1.0);
        a.q_scale = c.make(ATTILE_F32, {4, 3, 1});
        a.q_scale.data = a.o.data;
    });
    for (const int32_t o : {ATTILE_I4, ATTILE_F64}) {
        add(("q_of_8_bits_with_o_" + std::to_string(o)).c_str(), ATTILE_ERROR_INVALID_DTYPE, "o.dtype", [o](auto &a, A &c) {
            a.q = c.make(ATTILE_F8_E4M3, {2, 4, 3, 4});
            a.o.dtype = o;
        });
    }
    add("o_scales_of_floats", ATTILE_ERROR_INVALID_VALUE, "o_scale", [](auto &a, A &c) { a.o_scale = c.make(ATTILE_F32, {1}); });
    add("o_scales_of_key_heads", ATTILE_ERROR_SHAPE_MISMATCH, "o_scale.shape[0]", [](auto &a, A &c) {
        a.o.dtype = ATTILE_I8;
        a.o_scale = c.make(ATTILE_F32, {2, 1, 1});
    });
    add("o_scales_that_do_not_divide_o", ATTILE_ERROR_SHAPE_MISMATCH, "o_scale.shape[3]", [](auto &a, A &c) {
        a.o.dtype = ATTILE_F8_E4M3;
        a.o_scale = c.make(ATTILE_F32, {2, 4, 3, 2});
    });
    add("o_scales_wider", ATTILE_ERROR_INVALID_DTYPE, "o_scale.dtype", [](auto &a, A &c) {
        a.o.dtype = ATTILE_I8;
        a.o_scale = c.make(ATTILE_F64, {1});
    });
    add("o_over_o_scale", ATTILE_ERROR_ALIASING, "o_scale", [](auto &a, A &c) {
        a.o.dtype = ATTILE_I8;
        a.o_scale = c.make(ATTILE_F32, {1});
        a.o_scale.data = a.o.data;
    });
}

}  // namespace attile_test
