// SPDX-License-Identifier: Apache-2.0
// f16 and bf16 attention on the device against double precision on the host: lengths at and around the edges of tiles, scores far apart,
// one huge key among the last to be looked at, NaN wherever nobody may look. Where the build has kernels for the device's tensor cores,
// they must be the ones that ran. Outputs start as NaN.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "cuda_test_context.h"
#include "row_reference.h"
#include "test_element.h"

namespace attile::test {
namespace {

uint16_t narrow(double value, bool is_bf16) {
    uint16_t bits;
    encode(is_bf16 ? ATTILE_BF16 : ATTILE_F16, value, &bits);
    return bits;
}
double widen(uint16_t bits, bool is_bf16) { return decode(is_bf16 ? ATTILE_BF16 : ATTILE_F16, &bits); }

struct Problem16 {
    bool bf16 = true;
    int64_t batch = 1, heads_kv = 2, group = 1, len_q = 1, len_k = 1, dim = 64, dim_v = 64;
    int32_t mask = ATTILE_MASK_NONE;
    int64_t left = 0, right = 0;
    double spread = 1;
    bool huge_key = false, lengths = false, sinks = false, inside = false, bias = false, allowed = false, slopes = false;
    bool wide_bias = false;       // In float32.
    bool hiding_bias = false;     // Every third key's is -inf, and that of K and V is NaN.
    bool falling_scores = false;  // The last keys' are higher than all others' by some 58 units of log2 at 64 columns.
    double steepness = 0.05;      // Of slopes.
    double softcap = 0, scale = 0;
    uint32_t flags = 0;
    int64_t page = 0;

    int64_t heads_q() const { return heads_kv * group; }
    std::string text() const {
        return std::string(bf16 ? "bf16" : "f16") + " b" + std::to_string(batch) + " h" + std::to_string(heads_q()) + "/" +
               std::to_string(heads_kv) + " lq" + std::to_string(len_q) + " lk" + std::to_string(len_k) + " d" + std::to_string(dim) + "/" +
               std::to_string(dim_v) + " mask" + std::to_string(mask) + ":" + std::to_string(left) + ":" + std::to_string(right) + " x" +
               std::to_string(spread) + " huge" + std::to_string(huge_key) + " lengths" + std::to_string(lengths) + " sinks" +
               std::to_string(sinks) + " inside" + std::to_string(inside) + " bias" + std::to_string(bias) + " allowed" +
               std::to_string(allowed) + " slopes" + std::to_string(slopes) + " softcap" + std::to_string(softcap) + " scale" +
               std::to_string(scale) + " page" + std::to_string(page) + " flags" + std::to_string(flags) + " wide" +
               std::to_string(wide_bias) + " hiding" + std::to_string(hiding_bias) + " falling" + std::to_string(falling_scores) +
               " steepness" + std::to_string(steepness);
    }
};

struct Strides {
    int64_t of[4];
    Strides(bool inside, int64_t heads, int64_t len, int64_t dim)
        : of{heads * len * dim, inside ? dim : len * dim, inside ? heads * dim : dim, 1} {}
    std::size_t at(int64_t b, int64_t h, int64_t l, int64_t d) const {
        return static_cast<std::size_t>(b * of[0] + h * of[1] + l * of[2] + d);
    }
};

class CudaAttention16 : public TensorCoreTest, public testing::WithParamInterface<const char *> {
  protected:
    void SetUp() override { open(GetParam()); }
    void check(const Problem16 &p, unsigned seed);
};

void CudaAttention16::check(const Problem16 &p, unsigned seed) {
    SCOPED_TRACE(p.text() + " seed " + std::to_string(seed));
    std::mt19937 engine(seed);
    std::normal_distribution<float> draw(0, 1);
    const int64_t hq = p.heads_q(), pages = p.page > 0 ? (p.len_k + p.page - 1) / p.page : 0, slots = p.page > 0 ? pages * p.page : p.len_k;
    const Strides q_at(p.inside, hq, p.len_q, p.dim), k_at(p.inside, p.heads_kv, slots, p.dim), v_at(p.inside, p.heads_kv, slots, p.dim_v),
        o_at(p.inside, hq, p.len_q, p.dim_v);
    const auto drawn = [&](int64_t count, double factor) {
        std::vector<uint16_t> values(static_cast<std::size_t>(count));
        for (uint16_t &x : values) x = narrow(draw(engine) * factor, p.bf16);
        return values;
    };
    std::vector<uint16_t> q = drawn(p.batch * hq * p.len_q * p.dim, p.spread), k = drawn(p.batch * p.heads_kv * slots * p.dim, 1),
                          v = drawn(p.batch * p.heads_kv * slots * p.dim_v, 1);
    std::vector<int32_t> lengths(static_cast<std::size_t>(p.batch), static_cast<int32_t>(p.len_k));
    if (p.lengths)
        for (int64_t b = 0; b < p.batch; ++b)
            lengths[static_cast<std::size_t>(b)] = b == 0 ? 0 : static_cast<int32_t>(engine() % (p.len_k + 1));
    std::vector<float> sinks(static_cast<std::size_t>(hq)), slopes(static_cast<std::size_t>(hq));
    for (float &x : sinks) x = 2 * draw(engine);
    for (float &x : slopes) x = static_cast<float>(p.steepness) * std::abs(draw(engine));
    std::vector<uint16_t> bias = drawn(p.bias ? hq * p.len_q * p.len_k : 1, 1);
    if (p.hiding_bias)
        for (std::size_t i = 0; i < bias.size(); ++i)
            if (static_cast<int64_t>(i) % p.len_k % 3 == 1) bias[i] = narrow(kHiddenScore, p.bf16);
    std::vector<float> wide_bias(bias.size());
    std::transform(bias.begin(), bias.end(), wide_bias.begin(), [&](uint16_t x) { return static_cast<float>(widen(x, p.bf16)); });
    std::vector<uint8_t> allowed(static_cast<std::size_t>(p.allowed ? p.len_q * p.len_k : 1));
    for (uint8_t &x : allowed) x = engine() % 3 != 0;

    if (p.falling_scores) {
        for (std::size_t i = 0; i < q.size(); i += static_cast<std::size_t>(p.dim)) q[i] = narrow(16, p.bf16);
        for (std::size_t i = 0; i < k.size(); i += static_cast<std::size_t>(p.dim)) {
            const int64_t key = static_cast<int64_t>(i) / p.dim % slots;
            k[i] = narrow(key >= p.len_k - 128 ? 20 : 0, p.bf16);
        }
    }

    const RowMask mask{p.mask, p.left, p.right};
    const auto sees = [&](int64_t b, int64_t i, int64_t j) {
        if (!mask.sees(i, j, p.len_q, lengths[static_cast<std::size_t>(b)]) || (p.hiding_bias && j % 3 == 1)) return false;
        return !p.allowed || allowed[static_cast<std::size_t>(i * p.len_k + j)] != 0;
    };
    for (int64_t b = 0; b < p.batch; ++b) {
        for (int64_t j = 0; j < slots; ++j) {
            bool is_seen = false;
            for (int64_t i = 0; i < p.len_q && !is_seen; ++i) is_seen = j < p.len_k && sees(b, i, j);
            for (int64_t h = 0; h < p.heads_kv; ++h) {
                for (int64_t d = 0; d < p.dim; ++d) {
                    uint16_t &x = k[k_at.at(b, h, j, d)];
                    if (p.huge_key && j == p.len_k / 5) x = narrow(widen(x, p.bf16) * 60, p.bf16);
                    if (!is_seen) x = narrow(NAN, p.bf16);
                }
                for (int64_t d = 0; d < p.dim_v && !is_seen; ++d) v[v_at.at(b, h, j, d)] = narrow(NAN, p.bf16);
            }
        }
    }

    const int32_t dtype = p.bf16 ? ATTILE_BF16 : ATTILE_F16;
    const Array<uint16_t> device_q(context, ATTILE_MEMORY_DEVICE, q), device_k(context, ATTILE_MEMORY_DEVICE, k),
        device_v(context, ATTILE_MEMORY_DEVICE, v), device_bias(context, ATTILE_MEMORY_DEVICE, bias),
        device_o(context, ATTILE_MEMORY_DEVICE, std::vector<uint16_t>(static_cast<std::size_t>(p.batch * hq * p.len_q * p.dim_v), 0xffff));
    const Array<float> device_lse(context, ATTILE_MEMORY_DEVICE, std::vector<float>(static_cast<std::size_t>(p.batch * hq * p.len_q), NAN)),
        device_sinks(context, ATTILE_MEMORY_DEVICE, sinks), device_slopes(context, ATTILE_MEMORY_DEVICE, slopes);
    const Array<float> device_wide_bias(context, ATTILE_MEMORY_DEVICE, wide_bias);
    const Array<int32_t> device_lengths(context, ATTILE_MEMORY_DEVICE, lengths);
    const Array<uint8_t> device_allowed(context, ATTILE_MEMORY_DEVICE, allowed);
    std::vector<int32_t> table(static_cast<std::size_t>(std::max<int64_t>(p.batch * pages, 1)));
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>(i);
    const Array<int32_t> device_table(context, ATTILE_MEMORY_DEVICE, table);

    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    const auto tensor = [&](attile_tensor &t, void *data, int64_t heads, int64_t len, int64_t dim, const Strides &stride) {
        const int64_t shape[4] = {p.batch, heads, len, dim};
        attile_tensor_init(&t, data, dtype, 4, shape);
        std::copy(stride.of, stride.of + 4, t.stride);
    };
    tensor(args.q, device_q.data(), hq, p.len_q, p.dim, q_at);
    tensor(args.k, device_k.data(), p.heads_kv, p.len_k, p.dim, k_at);
    tensor(args.v, device_v.data(), p.heads_kv, p.len_k, p.dim_v, v_at);
    tensor(args.o, device_o.data(), hq, p.len_q, p.dim_v, o_at);
    if (p.page > 0) {  // Page b * pages + i holds keys from i * page of entry b; with the heads inside, an entry's keys are pages in a row.
        for (attile_tensor *const t : {&args.k, &args.v}) {
            t->shape[0] = p.batch * pages;
            t->shape[2] = p.page;
            t->stride[0] = p.page * t->stride[2];
        }
        const int64_t shape[2] = {p.batch, pages};
        attile_tensor_init(&args.block_table, device_table.data(), ATTILE_I32, 2, shape);
    }
    const int64_t lse_shape[3] = {p.batch, hq, p.len_q}, of_batch[1] = {p.batch}, of_heads[1] = {hq};
    attile_tensor_init(&args.lse, device_lse.data(), ATTILE_F32, 3, lse_shape);
    if (p.lengths || p.page > 0) attile_tensor_init(&args.key_lengths, device_lengths.data(), ATTILE_I32, 1, of_batch);
    if (p.sinks) attile_tensor_init(&args.sinks, device_sinks.data(), ATTILE_F32, 1, of_heads);
    if (p.slopes) attile_tensor_init(&args.alibi_slopes, device_slopes.data(), ATTILE_F32, 1, of_heads);
    const int64_t bias_shape[3] = {hq, p.len_q, p.len_k}, allowed_shape[2] = {p.len_q, p.len_k};
    if (p.bias) attile_tensor_init(&args.bias, device_bias.data(), dtype, 3, bias_shape);
    if (p.wide_bias) attile_tensor_init(&args.bias, device_wide_bias.data(), ATTILE_F32, 3, bias_shape);
    if (p.allowed) attile_tensor_init(&args.allowed, device_allowed.data(), ATTILE_BOOL, 2, allowed_shape);
    args.mask = p.mask;
    args.window_left = p.left;
    args.window_right = p.right;
    args.softcap = p.softcap;
    args.scale = p.scale;
    args.flags = p.flags;
    attile_support support;
    attile_support_init(&support, sizeof support);
    ASSERT_EQ(attile_attention_query(context, &args, &support), ATTILE_OK) << last_error();
    if (!generation.empty()) {
        // So few rows and keys, or lone rows of a group with a bias or mask, are streamed faster than a tile of a tensor core's is filled.
        const bool is_lone = p.len_q == 1 && p.group >= 3 && p.group <= 16 && p.group % 8 != 0 && std::max(p.dim, p.dim_v) <= 128 &&
                             (p.bias || p.wide_bias || p.allowed);
        const bool is_streamed =
            ((p.len_q * p.group <= 4 && p.len_k <= 128) || is_lone) && p.page == 0 && (p.flags & ATTILE_FLAG_BATCH_INVARIANT) == 0;
        const std::string kernel = is_streamed ? "decode_" : (p.bf16 ? "attention_bf16_" : "attention_f16_") + generation;
        EXPECT_NE(std::strstr(support.kernel, kernel.c_str()), nullptr) << support.kernel << ": " << support.text;
    }
    ASSERT_EQ(attile_attention(context, &args), ATTILE_OK) << last_error();
    ASSERT_EQ(attile_synchronize(context, nullptr), ATTILE_OK) << last_error();
    const std::vector<uint16_t> o = device_o.fetch();
    const std::vector<float> lse = device_lse.fetch();

    const double scale = p.scale != 0 ? p.scale : 1 / std::sqrt(static_cast<double>(p.dim)), unit = p.bf16 ? 1.0 / 256 : 1.0 / 2048;
    const auto widened = [&](const std::vector<uint16_t> &from) {
        std::vector<float> to(from.size());
        std::transform(from.begin(), from.end(), to.begin(), [&](uint16_t x) { return static_cast<float>(widen(x, p.bf16)); });
        return to;
    };
    const std::vector<float> wide_q = widened(q), wide_k = widened(k), wide_v = widened(v);
    AttentionRow row_of;
    row_of.keys = p.len_k;
    row_of.dim = p.dim;
    row_of.dim_v = p.dim_v;
    row_of.scale = scale;
    row_of.softcap = p.softcap;
    const int64_t step = p.len_q < 100 ? 1 : 37;  // Rows looked at: of long problems some.
    for (int64_t row = 0; row < p.batch * hq * p.len_q; row += step) {
        const int64_t b = row / (hq * p.len_q), h = row / p.len_q % hq, i = row % p.len_q, g = h / p.group;
        const auto head = static_cast<std::size_t>(h);
        const int64_t distance = i + lengths[static_cast<std::size_t>(b)] - p.len_q;  // To key 0.
        row_of.sink = p.sinks ? static_cast<double>(sinks[head]) : kHiddenScore;
        row_of.q = &wide_q[q_at.at(b, h, i, 0)];
        row_of.k = [&](int64_t j) { return &wide_k[k_at.at(b, g, j, 0)]; };
        row_of.v = [&](int64_t j) { return &wide_v[v_at.at(b, g, j, 0)]; };
        row_of.sees = [&](int64_t j) { return sees(b, i, j); };
        row_of.added = [&](int64_t j) {
            const double add = p.bias ? widen(bias[static_cast<std::size_t>((h * p.len_q + i) * p.len_k + j)], p.bf16) : 0;
            return p.slopes ? add - static_cast<double>(slopes[head]) * std::abs(static_cast<double>(j - distance)) : add;
        };
        const AttentionRowResult wanted = attention_row(row_of);
        double error = 0, norm = 0;
        for (int64_t d = 0; d < p.dim_v; ++d) {
            const double expected = wanted.o[static_cast<std::size_t>(d)];
            const double found = widen(o[o_at.at(b, h, i, d)], p.bf16);
            error += (found - expected) * (found - expected);
            norm += expected * expected;
        }
        // Probabilities and outputs are rounded to the type, each to half a unit; sums of many smaller probabilities err less.
        ASSERT_LE(std::sqrt(error), 3 * unit * (std::sqrt(norm) + 1e-3)) << "row " << i << " of head " << h << " of entry " << b;
        const double expected = wanted.lse, found = lse[static_cast<std::size_t>(row)];
        if (expected == kHiddenScore)
            ASSERT_EQ(found, kHiddenScore) << "lse of row " << i;
        else
            ASSERT_LE(std::abs(found - expected), 1e-5 * (10 + std::abs(expected))) << "lse of row " << i << " of head " << h;
    }
}

constexpr int64_t kDims[][2] = {{64, 64}, {96, 96}, {128, 128}, {192, 128}, {256, 256}, {40, 72}};

TEST_P(CudaAttention16, LengthsAroundTiles) {
    for (const bool bf16 : {true, false})
        for (const auto &dim : kDims)
            for (const int64_t len : {1, 63, 128, 129, 1000})
                for (const int32_t mask : {ATTILE_MASK_NONE, ATTILE_MASK_CAUSAL_TOP_LEFT})
                    check({.bf16 = bf16, .len_q = len, .len_k = len, .dim = dim[0], .dim_v = dim[1], .mask = mask}, 1);
    check({.heads_kv = 1, .len_q = 4097, .len_k = 4097, .dim = 128, .dim_v = 128, .mask = ATTILE_MASK_CAUSAL_TOP_LEFT}, 2);
}

TEST_P(CudaAttention16, ScoresFarApart) {
    for (const bool bf16 : {true, false}) {
        for (const auto &dim : kDims) {
            for (const double spread : {2, 3, 5, 36, 400})
                check({.bf16 = bf16, .len_q = 300, .len_k = 1500, .dim = dim[0], .dim_v = dim[1], .spread = spread}, 3);
            check({.bf16 = bf16, .len_q = 300, .len_k = 1500, .dim = dim[0], .dim_v = dim[1], .spread = 30, .huge_key = true}, 4);
        }
    }
}

TEST_P(CudaAttention16, MasksGroupsAndLengths) {
    for (const bool bf16 : {true, false}) {
        for (const auto &dim : kDims) {
            Problem16 p = {
                .bf16 = bf16, .batch = 3, .group = 2, .len_q = 150, .len_k = 333, .dim = dim[0], .dim_v = dim[1], .inside = true};
            for (const int32_t mask : {ATTILE_MASK_CAUSAL_TOP_LEFT, ATTILE_MASK_CAUSAL_BOTTOM_RIGHT, ATTILE_MASK_WINDOW_TOP_LEFT,
                                       ATTILE_MASK_WINDOW_BOTTOM_RIGHT}) {
                p.mask = mask;
                const bool is_window = mask == ATTILE_MASK_WINDOW_TOP_LEFT || mask == ATTILE_MASK_WINDOW_BOTTOM_RIGHT;
                p.left = is_window ? 70 : 0;
                p.right = mask == ATTILE_MASK_WINDOW_TOP_LEFT ? -1 : is_window ? 9 : 0;
                check(p, 5);
                p.lengths = p.sinks = !p.lengths;
            }
            check({.bf16 = bf16,
                   .group = 4,
                   .len_q = 3,
                   .len_k = 3000,
                   .dim = dim[0],
                   .dim_v = dim[1],
                   .mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT,
                   .sinks = true},
                  6);
            check(
                {.bf16 = bf16, .group = 3, .len_q = 1, .len_k = 700, .dim = dim[0], .dim_v = dim[1], .flags = ATTILE_FLAG_BATCH_INVARIANT},
                7);
        }
    }
}

// More tiles of rows than any device has multiprocessors, so that blocks go from one to the next; the last of a head has 136 rows, fewer
// than a kernel's tile, and which keys its first rows and its last ones see differs.
TEST_P(CudaAttention16, ManyTiles) {
    for (const bool bf16 : {true, false}) {
        for (const int64_t dim : {64, 128}) {
            Problem16 p = {.bf16 = bf16, .heads_kv = 72, .len_q = 520, .len_k = 900, .dim = dim, .dim_v = dim};
            check(p, 15);
            p.spread = 3;
            check(p, 16);
            p.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
            check(p, 17);
            p.len_k = p.len_q;
            p.spread = 1;
            check(p, 18);
            p.huge_key = true;
            check(p, 19);
            p.huge_key = false;
            p.mask = ATTILE_MASK_WINDOW_TOP_LEFT;
            p.left = 200;
            check(p, 20);
            p.batch = 3;
            p.heads_kv = 24;
            p.lengths = true;
            p.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
            p.left = 0;
            check(p, 21);
        }
    }
}

TEST_P(CudaAttention16, ModifiedScores) {
    for (const bool bf16 : {true, false}) {
        for (const auto &dim : kDims) {
            const Problem16 plain = {.bf16 = bf16, .batch = 2, .group = 2, .len_q = 140, .len_k = 300, .dim = dim[0], .dim_v = dim[1]};
            Problem16 p = plain;
            for (const double softcap : {50.0, 5.0, 2.0, 0.05}) {
                p.softcap = softcap;
                check(p, 8);
            }
            p.softcap = 5;
            p.spread = 20;
            check(p, 22);
            p = plain;
            p.bias = true;
            check(p, 9);
            p.hiding_bias = true;
            check(p, 15);
            p.wide_bias = true;
            check(p, 16);
            p.len_k = 301;  // Rows of it begin anywhere.
            check(p, 17);
            p.allowed = true;
            p.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
            check(p, 18);
            p.wide_bias = false;
            p.len_k = 304;
            check(p, 19);
            p = plain;
            p.allowed = true;
            check(p, 10);
            p.len_k = 301;
            check(p, 20);
            p = plain;
            p.slopes = true;
            check(p, 11);
            p.softcap = 5;
            p.bias = p.allowed = true;
            p.len_q = 700;
            p.len_k = 704;
            check(p, 23);
            p = plain;
            p.scale = -0.2;
            check(p, 12);
            p = plain;
            p.page = 16;
            p.lengths = p.inside = true;
            p.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
            check(p, 13);
            p.len_q = 1;
            p.len_k = 384;
            p.page = 128;
            p.bias = p.slopes = p.sinks = true;
            check(p, 14);
        }
    }
}

// One change of scores, in tiles that TMA reaches and in whole and masked ones; ALiBi on both sides of the diagonal.
TEST_P(CudaAttention16, OneChange) {
    for (const bool bf16 : {true, false}) {
        for (const auto &dim : {std::array<int64_t, 2>{64, 64}, {128, 128}, {72, 104}}) {
            for (const int32_t mask : {ATTILE_MASK_NONE, ATTILE_MASK_CAUSAL_BOTTOM_RIGHT}) {
                const Problem16 plain = {
                    .bf16 = bf16, .batch = 2, .group = 2, .len_q = 330, .len_k = 720, .dim = dim[0], .dim_v = dim[1], .mask = mask};
                Problem16 p = plain;
                p.bias = true;
                check(p, 1);
                p.hiding_bias = true;
                check(p, 2);
                p.flags = ATTILE_FLAG_BATCH_INVARIANT;
                check(p, 3);
                p = plain;
                p.allowed = true;
                check(p, 4);
                p.lengths = true;
                check(p, 5);
                p.spread = 30;
                check(p, 6);
                p = plain;
                p.len_k = 1400;
                for (const double steepness : {0.01, 0.1, 1.0, 30.0, -0.1}) {
                    p.slopes = true;
                    p.steepness = steepness;
                    check(p, 7);
                    p.falling_scores = !p.falling_scores;
                    check(p, 8);
                }
                p.sinks = true;
                check(p, 9);
                p = plain;
                for (const double softcap : {50.0, 5.0, 1.0}) {
                    p.softcap = softcap;
                    check(p, 10);
                    p.spread = 20;
                    check(p, 11);
                    p.spread = 1;
                }
            }
        }
    }
}

// V of other widths than K.
TEST_P(CudaAttention16, EveryWidth) {
    for (int64_t dim = 8; dim <= 256; dim += 8) {
        Problem16 p = {.bf16 = dim % 16 != 0, .group = 2, .len_q = 70, .len_k = 150, .dim = dim, .dim_v = 8 + dim * 5 % 256};
        p.mask = dim % 3 == 0 ? ATTILE_MASK_NONE : ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        check(p, 26);
        p.bf16 = !p.bf16;
        p.bias = true;
        check(p, 27);
        p.bias = false;
        p.group = 4;
        p.len_q = 1;
        p.len_k = 700;
        check(p, 28);
    }
}

// More entries, or heads, than a grid has blocks in y and z.
TEST_P(CudaAttention16, HugeBatches) {
    check({.batch = 70000, .heads_kv = 1, .len_q = 3, .len_k = 5, .dim = 16, .dim_v = 16}, 24);
    const int32_t mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    check({.bf16 = false, .heads_kv = 70000, .len_q = 1, .len_k = 5, .dim = 16, .dim_v = 16, .mask = mask, .sinks = true}, 25);
}

INSTANTIATE_TEST_SUITE_P(Kernels, CudaAttention16, testing::Values("", "80"), tensor_core_name);

}  // namespace
}  // namespace attile::test
