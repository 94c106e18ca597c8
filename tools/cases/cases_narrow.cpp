// SPDX-License-Identifier: Apache-2.0
// Cases whose results are of 8 bits: products and attention.
#include <string>
#include <utility>

#include "cases_attention_list.h"
#include "cases_quantised.h"
#include "test_element.h"
#include "test_random.h"

namespace attile::test {
namespace {

constexpr Layout kFortran = {.order = Order::kFortran};

// Types of a, b and d.
struct Products {
    std::int32_t a, b, d;
};
constexpr Products kProducts[] = {
    {ATTILE_F32, ATTILE_F32, ATTILE_I8},
    {ATTILE_F32, ATTILE_F32, ATTILE_F8_E4M3},
    {ATTILE_F16, ATTILE_F16, ATTILE_F8_E5M2},
    {ATTILE_BF16, ATTILE_BF16, ATTILE_I8},
    {ATTILE_BF16, ATTILE_I8, ATTILE_I8},
    {ATTILE_I8, ATTILE_I8, ATTILE_I8},
    {ATTILE_F8_E4M3, ATTILE_F8_E4M3, ATTILE_F8_E4M3},
    {ATTILE_I8, ATTILE_I8, ATTILE_F8_E4M3},
};

void set_types(GemmCase &c, const Products &types) {
    c.dtype = types.a;
    c.b_dtype = types.b == types.a ? 0 : types.b;
    c.out_dtype = types.d;
    c.bias_dtype = ATTILE_F32;
}

class Adder {
  public:
    Adder(std::vector<Case> &list, const Products &types) : list_(list), types_(types) {}
    void operator()(const std::string &name, GemmCase c) const {
        set_types(c, types_);
        const std::string types = dtype_name(types_.a) + std::string("_") + dtype_name(types_.b) + "_" + dtype_name(types_.d);
        list_.push_back({"gemm.narrow_" + name + "." + types, std::move(c)});
    }

  private:
    std::vector<Case> &list_;
    const Products &types_;
};

GemmCase over(std::int64_t m, std::int64_t n, std::int64_t k, std::uint8_t axes) {
    GemmCase c = gemm_of(m, n, k);
    c.d_scales = {.given = true, .axes = axes};
    return c;
}

// Each shape is a path: few rows, few columns, both small, many of both, and depths of several pieces.
void add_paths(const Adder &add) {
    struct Shape {
        std::int64_t m, n, k;
    };
    for (const Shape s : {Shape{1, 300, 192}, {3, 200, 256}, {33, 65, 96}, {70, 150, 640}, {150, 3, 128}, {9, 31, 17}, {40, 72, 4160}}) {
        const std::string size = std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k);
        add(size, over(s.m, s.n, s.k, 0));
        add(size + "_by_rows", over(s.m, s.n, s.k, 1));
        add(size + "_by_columns", over(s.m, s.n, s.k, 2));
        GemmCase c = over(s.m, s.n, s.k, 3);
        c.b_layout = kFortran;
        c.bias_axis = ATTILE_BIAS_COLUMNS;
        c.activation = ATTILE_ACTIVATION_RELU;
        add(size + "_each_bias_relu", c);
    }
    add("without_scale", gemm_of(20, 36, 24));
    add("k_0", over(5, 6, 0, 0));
}

void add_rest(const Adder &add, const Products &types) {
    GemmCase c = over(40, 70, 96, 2);
    c.alpha = -0.75;
    c.beta = 0.5;
    c.bias_axis = ATTILE_BIAS_ROWS;
    c.activation = ATTILE_ACTIVATION_GELU;
    add("beta_bias_gelu", c);
    c.d_layout = kFortran;
    add("d_by_columns", c);
    c.d_layout = {.pad = 3, .step = 2, .offset = 1, .reversed = 1};
    c.c_layout = {.pad = 1, .step = 3};
    c.d_scales.axes = 3;
    c.d_scales.layout = {.step = 2, .reversed = 2};
    add("no_unit_stride", c);
    c = over(20, 36, 64, 12);
    c.batch = {2, 3};
    c.b_form = BatchForm::kMissing;
    c.d_scales.rank = 2;
    add("batch_each", c);
    c.d_scales = {.given = true, .axes = 7, .layout = kFortran};
    c.b_form = BatchForm::kFull;
    add("batch_by_rows", c);
    c.d_scales = {.given = true, .axes = 8, .rank = 1, .layout = {.step = 3}};
    c.flags = ATTILE_FLAG_BATCH_INVARIANT;
    add("batch_by_columns", c);
    c = over(33, 65, 96, 1);
    c.alpha = 0;
    c.beta = 2;
    add("alpha_0", c);
    if (is_quantised(types.a)) {
        c = over(70, 128, 256, 1);
        c.a_scales = {.given = true, .depth = 0, .width = 1};
        c.b_scales = {.given = true, .depth = 32, .width = 1};
        add("groups", c);
    }
    if (is_float8(types.a)) {
        c = over(130, 136, 256, 1);
        c.b_layout = kFortran;
        c.a_scales = c.b_scales = {.given = true, .depth = 0, .width = 1};
        c.flags = ATTILE_FLAG_FAST_ACCUMULATION;
        add("fast", c);
    }
    if (types.a == ATTILE_I8) return;
    c = over(40, 70, 96, 3);
    c.pattern = GemmPattern::kSpecial;
    add("nan_and_infinity", c);
}

// Types of q, k and v, and o; 0: k and v are of q's.
struct Attention {
    std::int32_t q, kv, o;
};
constexpr Attention kAttention[] = {
    {ATTILE_F32, 0, ATTILE_I8},
    {ATTILE_F32, 0, ATTILE_F8_E4M3},
    {ATTILE_BF16, 0, ATTILE_F8_E4M3},
    {ATTILE_F16, 0, ATTILE_F8_E5M2},
    {ATTILE_BF16, ATTILE_I8, ATTILE_I8},
    {ATTILE_I8, ATTILE_I8, ATTILE_I8},
    {ATTILE_F8_E4M3, ATTILE_F8_E4M3, ATTILE_F8_E4M3},
};

void add_attention(std::vector<Case> &list, const Attention &types) {
    const auto add = [&](const std::string &name, AttentionCase c, std::int64_t group, std::uint8_t axes) {
        const std::int32_t kv = types.kv != 0 ? types.kv : types.q;
        c.dtype = c.bias_dtype = is_quantised(types.q) ? ATTILE_F32 : types.q;
        c.out_dtype = types.o;
        const auto give = [&](std::int32_t dtype, CacheStorage &storage) {
            if (dtype != c.dtype) storage = {.dtype = dtype, .scaled = is_quantised(dtype)};
        };
        give(types.q, c.q_storage);
        give(kv, c.k_storage);
        give(kv, c.v_storage);
        c.o_scales.scaled = true;
        c.o_scales.group = group;
        c.o_scales.axes = axes;
        list.push_back(
            {"attention.narrow_" + name + "." + dtype_name(types.q) + "_" + dtype_name(kv) + "_" + dtype_name(types.o), std::move(c)});
    };
    const Layout odd = {.order = Order::kHeadsInside, .pad = 3, .step = 2, .offset = 1};
    for (const std::int64_t rows : {1, 3, 19, 70}) {
        const std::string suffix = "_" + std::to_string(rows) + "_rows";
        AttentionCase c = attention_of(rows, 150, 64);
        add("one" + suffix, c, 0, 0);
        add("heads" + suffix, c, 0, 2);
        add("tokens" + suffix, c, 0, 7);
        add("groups" + suffix, c, 32, 7);
        c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        c.o_layout = odd;
        c.o_scales.scale_layout = odd;
        add("odd" + suffix, c, 1, 6);
        c = attention_of(rows, 90, 48);
        c.head_dim_v = 37;
        c.packed_q = c.packed_k = true;
        c.batch = 4;
        c.max_len_cut = rows > 3 ? 2 : 0;
        c.sinks = true;
        add("packed" + suffix, c, 0, 6);
        c = attention_of(rows, 90, 40);
        c.page_size = 16;
        c.alibi = 1;
        c.lse = false;
        add("paged" + suffix, c, 0, 3);
    }
    AttentionCase c = attention_of(300, 1100, 128);
    c.heads_q = c.heads_kv = 1;
    c.batch = 1;
    add("long", c, 0, 4);
    c.flags = is_float8(types.q) ? ATTILE_FLAG_FAST_ACCUMULATION : ATTILE_FLAG_BATCH_INVARIANT;
    add("long_flag", c, 0, 4);
    c = attention_of(9, 150, 300);
    c.pattern = is_quantised(types.q) ? AttentionPattern::kNormal : AttentionPattern::kNanInQuery;
    add("wide", c, 0, 2);
}

}  // namespace

void append_narrow_products(std::vector<Case> &list, Tier tier) {
    for (const Products &types : kProducts) {
        const Adder add(list, types);
        add_paths(add);
        add_rest(add, types);
    }
    const std::uint64_t count = tier == Tier::kQuick ? 30 : 200;
    for (std::uint64_t seed = 1; seed <= count; ++seed) {
        Random random(seed * 8 + 6);
        GemmCase c = random_gemm(seed * 37 + 11);
        set_types(c, kProducts[random.between(0, 7)]);
        c.in_place = false;
        if (c.c_layout.broadcast != 0 || c.beta == 0) c.c_layout = {};
        c.d_scales.given = random.chance(0.8);
        c.d_scales.axes = static_cast<std::uint8_t>(random.between(0, 15));
        c.d_scales.rank = static_cast<std::uint8_t>(random.between(1, 4));
        list.push_back({"gemm.random_narrow." + std::to_string(seed), std::move(c)});
    }
}

void append_narrow_attention(std::vector<Case> &list) {
    for (const Attention &types : kAttention) add_attention(list, types);
}

}  // namespace attile::test
