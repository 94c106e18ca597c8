// SPDX-License-Identifier: Apache-2.0
// attention on the device, over shapes, layouts and options drawn at random and over shapes that lead to each kernel, against double
// precision on the host. Outputs start as NaN between guards.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "cuda_test_context.h"
#include "row_reference.h"

namespace attile::test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr std::size_t kGuard = 64;
constexpr float kGuardValue = 1234.5F;

struct Problem {
    int64_t batch = 1, heads_kv = 1, group = 1, len_q = 1, len_k = 1, dim = 64, dim_v = 64;
    bool heads_inside = false;  // Rows of all heads side by side: [B, L, H, D].
    int64_t offset = 0, pad = 0;
    int32_t mask = ATTILE_MASK_NONE;
    int64_t left = 0, right = 0;
    double softcap = 0;
    int bias = 0;  // 1: [Hq, Lq, Lk], 2: [Lk] for all rows
    bool allowed = false, alibi = false, sinks = false, key_lengths = false;
    int scores = 0;  // 1: early keys far below late ones, 2: far above, 3: far apart, 4: early keys a million below
    uint32_t flags = 0;

    int64_t heads_q() const { return heads_kv * group; }
    std::string text() const {
        std::string t = "b" + std::to_string(batch) + " h" + std::to_string(heads_q()) + "/" + std::to_string(heads_kv) + " lq" +
                        std::to_string(len_q) + " lk" + std::to_string(len_k) + " d" + std::to_string(dim) + "/" + std::to_string(dim_v) +
                        " mask" + std::to_string(mask) + ":" + std::to_string(left) + ":" + std::to_string(right);
        t += " inside" + std::to_string(heads_inside) + " offset" + std::to_string(offset) + " pad" + std::to_string(pad) + " softcap" +
             std::to_string(softcap) + " bias" + std::to_string(bias) + " allowed" + std::to_string(allowed) + " alibi" +
             std::to_string(alibi) + " sinks" + std::to_string(sinks) + " lengths" + std::to_string(key_lengths) + " scores" +
             std::to_string(scores) + " flags" + std::to_string(flags);
        return t;
    }
};

// A dense four-axis array with padded rows that begins `offset` elements into its memory.
struct Layout {
    int64_t stride[4], offset, count;
    Layout(const Problem &p, int64_t heads, int64_t len, int64_t dim) : offset(p.offset) {
        const int64_t row = dim + p.pad;
        stride[3] = 1;
        stride[2] = p.heads_inside ? heads * row : row;
        stride[1] = p.heads_inside ? row : len * row;
        stride[0] = heads * len * row;
        count = offset + p.batch * stride[0];
    }
    std::size_t at(int64_t b, int64_t h, int64_t l, int64_t d) const {
        return static_cast<std::size_t>(offset + b * stride[0] + h * stride[1] + l * stride[2] + d);
    }
    attile_tensor tensor(float *data, int64_t b, int64_t h, int64_t l, int64_t d) const {
        attile_tensor t;
        const int64_t shape[4] = {b, h, l, d};
        attile_tensor_init(&t, data + offset, ATTILE_F32, 4, shape);
        std::copy(stride, stride + 4, t.stride);
        return t;
    }
};

class CudaAttention : public CudaTest {
  protected:
    void check(const Problem &p, unsigned seed, int64_t rows_checked = std::numeric_limits<int64_t>::max());
};

void CudaAttention::check(const Problem &p, unsigned seed, int64_t rows_checked) {
    SCOPED_TRACE(p.text() + " seed " + std::to_string(seed));
    std::mt19937 engine(seed);
    std::uniform_real_distribution<float> draw(-2, 2);
    const auto drawn = [&](int64_t count) {
        std::vector<float> values(static_cast<std::size_t>(count));
        for (float &x : values) x = draw(engine);
        return values;
    };
    const int64_t hq = p.heads_q();
    const Layout lq(p, hq, p.len_q, p.dim), lk(p, p.heads_kv, p.len_k, p.dim), lv(p, p.heads_kv, p.len_k, p.dim_v),
        lo(p, hq, p.len_q, p.dim_v);
    std::vector<float> q = drawn(lq.count), k = drawn(lk.count), v = drawn(lv.count);
    const double scale = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(p.dim, 1)));
    if (p.scores != 0 && p.dim > 0) {
        // The first column alone decides how far scores are apart.
        for (int64_t b = 0; b < p.batch; ++b) {
            for (int64_t h = 0; h < hq; ++h)
                for (int64_t i = 0; i < p.len_q; ++i) q[lq.at(b, h, i, 0)] = static_cast<float>(1 / scale);
            for (int64_t h = 0; h < p.heads_kv; ++h)
                for (int64_t j = 0; j < p.len_k; ++j) {
                    const float far =
                        static_cast<float>(p.scores == 3 ? j % 97 : j) * 300.0F / static_cast<float>(p.scores == 3 ? 97 : p.len_k);
                    k[lk.at(b, h, j, 0)] = p.scores == 4 ? (j < 130 ? -1e6F : 0) : p.scores == 2 ? -far : far - 290;
                }
        }
    }
    const std::vector<float> bias = drawn(p.bias == 1 ? hq * p.len_q * p.len_k : p.len_k), slopes = drawn(hq), sinks = drawn(hq);
    std::vector<uint8_t> allowed(static_cast<std::size_t>(p.len_q * p.len_k));
    for (uint8_t &x : allowed) x = engine() % 3 != 0;
    std::vector<int32_t> lengths(static_cast<std::size_t>(p.batch));
    for (int32_t &x : lengths) x = static_cast<int32_t>(engine() % static_cast<unsigned>(p.len_k + 3)) - 1;  // Also out of range.

    Array<float> dq(context, ATTILE_MEMORY_DEVICE, q), dk(context, ATTILE_MEMORY_DEVICE, k), dv(context, ATTILE_MEMORY_DEVICE, v);
    Array<float> dbias(context, ATTILE_MEMORY_DEVICE, bias), dslopes(context, ATTILE_MEMORY_DEVICE, slopes),
        dsinks(context, ATTILE_MEMORY_DEVICE, sinks);
    Array<uint8_t> dallowed(context, ATTILE_MEMORY_DEVICE, allowed);
    Array<int32_t> dlengths(context, ATTILE_MEMORY_DEVICE, lengths);
    const auto guarded = [](int64_t count) {
        std::vector<float> values(static_cast<std::size_t>(count) + 2 * kGuard, kNaN);
        std::fill_n(values.begin(), kGuard, kGuardValue);
        std::fill_n(values.end() - kGuard, kGuard, kGuardValue);
        return values;
    };
    Array<float> o(context, ATTILE_MEMORY_DEVICE, guarded(lo.count)), lse(context, ATTILE_MEMORY_DEVICE, guarded(p.batch * hq * p.len_q));

    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    args.flags = p.flags;
    args.q = lq.tensor(dq.data(), p.batch, hq, p.len_q, p.dim);
    args.k = lk.tensor(dk.data(), p.batch, p.heads_kv, p.len_k, p.dim);
    args.v = lv.tensor(dv.data(), p.batch, p.heads_kv, p.len_k, p.dim_v);
    args.o = lo.tensor(o.data() + kGuard, p.batch, hq, p.len_q, p.dim_v);
    const int64_t lse_shape[3] = {p.batch, hq, p.len_q}, heads_shape[1] = {hq}, batch_shape[1] = {p.batch};
    const int64_t bias_shape[3] = {hq, p.len_q, p.len_k}, keys_shape[1] = {p.len_k}, allowed_shape[2] = {p.len_q, p.len_k};
    attile_tensor_init(&args.lse, lse.data() + kGuard, ATTILE_F32, 3, lse_shape);
    args.mask = p.mask;
    args.window_left = p.left;
    args.window_right = p.right;
    args.softcap = p.softcap;
    if (p.bias == 1) attile_tensor_init(&args.bias, dbias.data(), ATTILE_F32, 3, bias_shape);
    if (p.bias == 2) attile_tensor_init(&args.bias, dbias.data(), ATTILE_F32, 1, keys_shape);
    if (p.allowed) attile_tensor_init(&args.allowed, dallowed.data(), ATTILE_U8, 2, allowed_shape);
    if (p.alibi) attile_tensor_init(&args.alibi_slopes, dslopes.data(), ATTILE_F32, 1, heads_shape);
    if (p.sinks) attile_tensor_init(&args.sinks, dsinks.data(), ATTILE_F32, 1, heads_shape);
    if (p.key_lengths) attile_tensor_init(&args.key_lengths, dlengths.data(), ATTILE_I32, 1, batch_shape);
    ASSERT_EQ(attile_attention(context, &args), ATTILE_OK) << last_error();
    const std::vector<float> got = o.fetch(), got_lse = lse.fetch();
    for (std::size_t g = 0; g < kGuard; ++g) {
        ASSERT_TRUE(got[g] == kGuardValue && got[got.size() - 1 - g] == kGuardValue) << "o was left at " << g;
        ASSERT_TRUE(got_lse[g] == kGuardValue && got_lse[got_lse.size() - 1 - g] == kGuardValue) << "lse was left at " << g;
    }
    if (p.pad > 0 && p.len_q > 0) {
        ASSERT_TRUE(std::isnan(got[kGuard + lo.at(0, 0, 0, p.dim_v)])) << "the padding of o was written";
    }

    const RowMask mask{p.mask, p.left, p.right};
    AttentionRow row;
    row.dim = p.dim;
    row.dim_v = p.dim_v;
    row.scale = scale;
    row.softcap = p.softcap;
    const int64_t rows = p.batch * hq * p.len_q, step = std::max<int64_t>(1, rows / rows_checked);
    for (int64_t r = 0; r < rows; r += step) {
        const int64_t b = r / (hq * p.len_q), h = r / p.len_q % hq, i = r % p.len_q, g = h / p.group;
        const auto head = static_cast<std::size_t>(h);
        row.keys = p.key_lengths ? std::clamp<int64_t>(lengths[static_cast<std::size_t>(b)], 0, p.len_k) : p.len_k;
        const int64_t alibi = i + (mask.is_bottom() || p.mask == ATTILE_MASK_NONE ? row.keys - p.len_q : 0);
        row.sink = p.sinks ? double{sinks[head]} : kHiddenScore;
        row.q = q.data() + lq.at(b, h, i, 0);
        row.k = [&](int64_t j) { return k.data() + lk.at(b, g, j, 0); };
        row.v = [&](int64_t j) { return v.data() + lv.at(b, g, j, 0); };
        row.sees = [&](int64_t j) {
            return mask.sees(i, j, p.len_q, row.keys) && !(p.allowed && allowed[static_cast<std::size_t>(i * p.len_k + j)] == 0);
        };
        row.added = [&](int64_t j) {
            double add = 0;
            if (p.bias == 1) add = bias[static_cast<std::size_t>((h * p.len_q + i) * p.len_k + j)];
            if (p.bias == 2) add = bias[static_cast<std::size_t>(j)];
            return p.alibi ? add - double{slopes[head]} * static_cast<double>(std::abs(j - alibi)) : add;
        };
        const AttentionRowResult wanted = attention_row(row);
        const double have_lse = got_lse[kGuard + static_cast<std::size_t>(r)];
        if (wanted.lse == kHiddenScore) {
            ASSERT_EQ(have_lse, kHiddenScore) << "lse of row " << r;
        } else {
            ASSERT_TRUE(std::fabs(have_lse - wanted.lse) <= 2e-6 * (wanted.spread + std::fabs(wanted.lse)))
                << "lse of row " << r << ": " << have_lse << ", not " << wanted.lse;
        }
        for (int64_t d = 0; d < p.dim_v; ++d) {
            const double want = wanted.o[static_cast<std::size_t>(d)], size = wanted.magnitude[static_cast<std::size_t>(d)];
            const double have = got[kGuard + lo.at(b, h, i, d)];
            ASSERT_TRUE(std::fabs(have - want) <= 2e-6 * wanted.spread * size + 1e-30)
                << "row " << r << " column " << d << ": " << have << ", not " << want;
        }
    }
}

TEST_F(CudaAttention, AtRandom) {
    std::mt19937 engine(2026);
    const auto pick = [&](std::initializer_list<int64_t> from) { return *(from.begin() + engine() % from.size()); };
    for (unsigned seed = 0; seed < 150; ++seed) {
        Problem p;
        p.batch = pick({1, 2, 3});
        p.heads_kv = pick({1, 2});
        p.group = pick({1, 1, 3, 4});
        p.len_q = pick({1, 2, 5, 17, 33, 64, 129, 257});
        p.len_k = pick({1, 31, 64, 65, 130, 300});
        p.dim = pick({1, 8, 31, 32, 40, 48, 64, 72, 80, 96, 111, 128, 160, 192, 256, 264});
        p.dim_v = engine() % 3 != 0 ? p.dim : pick({1, 32, 63, 64, 128, 200, 256, 300});
        p.heads_inside = engine() % 2 != 0;
        p.offset = pick({0, 0, 1, 4});
        p.pad = pick({0, 0, 3, 4});
        p.mask =
            static_cast<int32_t>(pick({ATTILE_MASK_NONE, ATTILE_MASK_NONE, ATTILE_MASK_CAUSAL_TOP_LEFT, ATTILE_MASK_CAUSAL_BOTTOM_RIGHT,
                                       ATTILE_MASK_WINDOW_TOP_LEFT, ATTILE_MASK_WINDOW_BOTTOM_RIGHT}));
        if (p.mask >= ATTILE_MASK_WINDOW_TOP_LEFT) {
            p.left = pick({-1, 0, 3, 70});
            p.right = pick({-1, 0, 3, 70});
        }
        p.softcap = engine() % 5 == 0 ? 3 : 0;
        p.bias = engine() % 4 == 0 ? static_cast<int>(pick({1, 2})) : 0;
        p.allowed = engine() % 5 == 0;
        p.alibi = engine() % 5 == 0;
        p.sinks = engine() % 4 == 0;
        p.key_lengths = engine() % 4 == 0;
        p.scores = engine() % 4 == 0 ? static_cast<int>(pick({1, 2, 3, 4})) : 0;
        p.flags = engine() % 6 == 0 ? ATTILE_FLAG_BATCH_INVARIANT : 0;
        check(p, seed, 400);
        if (HasFatalFailure()) return;
    }
}

// Head dims of the fast paths, with scores that move the reference at every tile, once and never.
TEST_F(CudaAttention, EveryTileKernelMovesItsReference) {
    for (const int64_t dim : {32, 40, 48, 64, 80, 96, 112, 128, 192, 256})
        for (const int scores : {0, 1, 2, 3, 4})
            for (const int bias : {0, 2}) {
                Problem p;
                p.batch = 2;
                p.heads_kv = 2;
                p.len_q = 70;
                p.len_k = 330;
                p.dim = p.dim_v = dim;
                p.scores = scores;
                p.bias = bias;
                check(p, static_cast<unsigned>(dim), 100);
                if (HasFatalFailure()) return;
            }
}

TEST_F(CudaAttention, EveryWidth) {
    for (int64_t dim = 1; dim <= 256; ++dim) {
        Problem p;
        p.group = 2;
        p.len_q = dim % 4 == 0 ? 3 : 33;
        p.len_k = 90;
        p.dim = dim;
        p.dim_v = 1 + dim * 7 % 256;
        p.mask = dim % 3 == 0 ? ATTILE_MASK_NONE : ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        check(p, static_cast<unsigned>(dim), 20);
        if (HasFatalFailure()) return;
    }
}

TEST_F(CudaAttention, Decode) {
    for (const int64_t dim : {40, 64, 128, 256})
        for (const int64_t group : {1, 4, 8})
            for (const int64_t keys : {1, 100, 3000})
                for (const int scores : {0, 1}) {
                    Problem p;
                    p.batch = 2;
                    p.heads_kv = 2;
                    p.group = group;
                    p.len_k = keys;
                    p.dim = p.dim_v = dim;
                    p.scores = scores;
                    p.sinks = group == 4;
                    p.key_lengths = keys == 3000;
                    check(p, static_cast<unsigned>(keys), 100);
                    if (HasFatalFailure()) return;
                }
}

// One small problem for each kernel: what a sanitizer can get through.
TEST_F(CudaAttention, FewOfEachKernel) {
    for (const int64_t dim : {32, 40, 48, 64, 80, 96, 112, 128, 192, 256, 264})
        for (const int64_t len_q : {1, 5, 40}) {
            Problem p;
            p.heads_kv = 1;
            p.group = len_q == 5 ? 1 : 4;
            p.len_q = len_q;
            p.len_k = len_q == 1 ? 700 : 100;
            p.dim = p.dim_v = dim;
            p.heads_inside = true;
            p.bias = len_q == 5 ? 2 : 0;
            p.mask = len_q == 40 ? ATTILE_MASK_CAUSAL_BOTTOM_RIGHT : ATTILE_MASK_NONE;
            p.scores = len_q == 40 ? 1 : 0;
            check(p, 5, 20);
            if (HasFatalFailure()) return;
            p.offset = p.pad = 1;  // Nothing is aligned: other loads, or K and V rewritten.
            check(p, 6, 20);
            if (HasFatalFailure()) return;
        }
}

// More row blocks than a device holds at a time: the keys of the last ones are split. Of all row blocks a few rows checked.
TEST_F(CudaAttention, LastWaveIsSplit) {
    if (backend_under_test().rfind("emulated", 0) == 0) GTEST_SKIP() << "too large for an emulated device";
    for (const int64_t dim : {32, 64, 128, 256})
        for (const bool whole : {true, false}) {
            Problem p;
            p.batch = whole ? 1 : 3;
            p.group = whole ? 2100 / (dim / 32) : 700 / (dim / 32);
            p.len_q = 192;
            p.len_k = whole ? 2048 : 1537;
            p.dim = p.dim_v = dim;
            p.heads_inside = !whole;
            p.sinks = true;
            p.key_lengths = !whole;
            p.scores = whole ? 2 : 0;
            check(p, static_cast<unsigned>(dim), 400);
            if (HasFatalFailure()) return;
        }
}

// Sizes at which a device is full, a few rows of them checked. Too much for an emulated device.
TEST_F(CudaAttention, Large) {
    if (backend_under_test().rfind("emulated", 0) == 0) GTEST_SKIP() << "too large for an emulated device";
    const auto with = [](int64_t batch, int64_t len, int64_t dim, int32_t mask) {
        Problem p;
        p.batch = batch;
        p.len_q = p.len_k = len;
        p.dim = p.dim_v = dim;
        p.mask = mask;
        return p;
    };
    for (const int32_t mask : {ATTILE_MASK_NONE, ATTILE_MASK_CAUSAL_TOP_LEFT})
        for (const Problem &p : {with(3000, 128, 32, mask), with(2, 32768, 32, mask), with(64, 2047, 64, mask), with(32, 1025, 128, mask),
                                 with(16, 2048, 256, mask)}) {
            check(p, 3, 60);
            if (HasFatalFailure()) return;
        }
    Problem many = with(70000, 5, 8, ATTILE_MASK_NONE);
    many.len_q = 3;
    check(many, 4, 300);
}

}  // namespace
}  // namespace attile::test
