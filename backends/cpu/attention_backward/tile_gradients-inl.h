// SPDX-License-Identifier: Apache-2.0
// Attention backward in one pass by tiles of bfloat16 (amx/tiles.h). Scores and gradients of probabilities are rows, the thin operand,
// times keys and values in pairs of columns. Probabilities and gradients of scores are rounded to pairs of rows, the wide operand of dv and
// dk, whose thin one are the rows transposed; and gradients once more to rows, the thin operand of dq, with keys in pairs of keys.
//
// Tiles take numbers and sums below the normal range for zeros: a head with tiny numbers is left to two passes.
#if defined(ATTILE_CPU_BACKWARD_TILE_GRADIENTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_BACKWARD_TILE_GRADIENTS_INL_H
#undef ATTILE_CPU_BACKWARD_TILE_GRADIENTS_INL_H
#else
#define ATTILE_CPU_BACKWARD_TILE_GRADIENTS_INL_H
#endif

#include <algorithm>

#include "attention_backward/one_pass-inl.h"
#include "gemm/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR && ATTILE_CPU_TILES

static_assert(kPanel<float> == kTilePanel && kTilePanel == kTileStep);

// Rows of a block in panels of 32, and panels of keys that they meet before the next block: the most, and where rows are long.
inline constexpr int64_t kRowPanels = 4, kKeyPanels = 16, kKeyPanelsOfLongRows = 8;
inline constexpr int64_t kLongRows = 160;
inline constexpr int64_t kPanelFloats = kTilePanel * kTilePanel;
// Of the smallest number other than 0, 2^-90, and of those of two operands of a product together, 2^-110. As stored.
inline constexpr int64_t kLeastExponent = 127 - 90, kLeastExponents = 2 * 127 - 110;

// A matrix of bfloat16 as it lies: `count` rows of `width` elements.
struct BrainRows {
    const Brain *at;
    int64_t row_step, step, count, width;

    int64_t steps() const { return ceil_div(width, kTileStep); }
    int64_t panels() const { return ceil_div(count, kTilePanel); }
};

// Rows as thin panels: panel n, step s at out + (n * steps + s) * kTileStepFloats.
inline HWY_NOINLINE void thin_rows(const BrainRows &x, float *out, TinySearch &search) {
    for (int64_t r = 0; r < x.count; r += kTilePanel) {
        for (int64_t c = 0; c < x.width; c += kTileStep, out += kTileStepFloats) {
            pack_thin_step(x.at + r * x.row_step + c * x.step, x.row_step, x.step, x.count - r, x.width - c, StepSoon{0, 0}, out, search);
        }
    }
}
// Columns as thin panels, steps being panels of rows: panel c, step n at out + (c * kRowPanels + n) * kTileStepFloats.
inline HWY_NOINLINE void thin_columns(const BrainRows &x, float *out) {
    TinySearch ignored;
    for (int64_t c = 0; c < x.width; c += kTilePanel, out += kRowPanels * kTileStepFloats) {
        for (int64_t r = 0; r < x.count; r += kTileStep) {
            pack_thin_step(x.at + r * x.row_step + c * x.step, x.step, x.row_step, x.width - c, x.count - r, StepSoon{0, 0},
                           out + r / kTileStep * kTileStepFloats, ignored);
        }
    }
}
// Rows as wide panels, pairs of columns: panel n, step s at out + (n * steps + s) * kTileStepFloats.
inline HWY_NOINLINE void wide_rows(const BrainRows &x, float *out, TinySearch &search) {
    for (int64_t r = 0; r < x.count; r += kTilePanel) {
        for (int64_t c = 0; c < x.width; c += kTileStep, out += kTileStepFloats) {
            pack_wide_step(x.at + r * x.row_step + c * x.step, x.row_step, x.step, x.count - r, x.width - c, out, search);
        }
    }
}
// Columns as wide panels, pairs of rows: panel c, step n at out + (c * kKeyPanels + n) * kTileStepFloats.
inline HWY_NOINLINE void wide_columns(const BrainRows &x, float *out) {
    TinySearch ignored;
    for (int64_t c = 0; c < x.width; c += kTilePanel, out += kKeyPanels * kTileStepFloats) {
        for (int64_t r = 0; r < x.count; r += kTileStep) {
            pack_wide_step(x.at + r * x.row_step + c * x.step, x.step, x.row_step, x.width - c, x.count - r,
                           out + r / kTileStep * kTileStepFloats, ignored);
        }
    }
}

// A piece's scratch memory and what is done in it.
class TileGradients {
  public:
    TileGradients(Cutter &cutter, const attile_attention_problem &p)
        : p_(p), rows_(cutter, most(kBlockKeys, kRowPanels * kTilePanel)), numbers_(cutter, p), extra_(cutter.cut<float>(kTilePanel)) {
        const Size key_width = Size(p.head_dim).rounded_up(kTilePanel), value_width = Size(p.head_dim_v).rounded_up(kTilePanel);
        const int64_t rows = kRowPanels * kTilePanel, keys = kKeyPanels * kTilePanel;
        queries_ = cutter.cut<float>(rows / 2, key_width);
        query_columns_ = cutter.cut<float>(rows / 2, key_width);
        douts_ = cutter.cut<float>(rows / 2, value_width);
        dout_columns_ = cutter.cut<float>(rows / 2, value_width);
        keys_ = cutter.cut<float>(keys / 2, key_width);
        key_columns_ = cutter.cut<float>(keys / 2, key_width);
        values_ = cutter.cut<float>(keys / 2, value_width);
        scores_ = cutter.cut<float>(kRowPanels, kPanelFloats);
        changes_ = cutter.cut<float>(kRowPanels, kPanelFloats);
        slopes_ = cutter.cut<float>(kRowPanels, kPanelFloats);
        weight_pairs_ = cutter.cut<float>(kRowPanels, kTileStepFloats);
        gradient_pairs_ = cutter.cut<float>(kRowPanels, kTileStepFloats);
        gradient_rows_ = cutter.cut<float>(kRowPanels * kKeyPanels, kTileStepFloats);
    }

    // Returns false if tiles might flush products: then some of the piece is missing.
    bool take(const BackwardProblem &problem, const AttentionEntry &entry, int64_t kv_head, const GradientPiece &piece,
              const HeadSums<float> &sums);
    RowBlock<float> &row_block() { return numbers_; }

  private:
    static BrainRows rows_of(const attile_operand &x, int64_t b, int64_t h, int64_t first, int64_t count, int64_t width) {
        return {operand_at<const Brain>(x, b, h, first), x.stride[2], x.stride[3], count, width};
    }
    // Whether tiles keep every product of the two, and products with probabilities and gradients of scores as far as these are not small.
    static bool keeps(const TinySearch &a, const TinySearch &b) {
        const int64_t low = a.lowest_exponent(), high = b.lowest_exponent();
        return least(low, high) >= kLeastExponent && low + high >= kLeastExponents;
    }

    void take_block(const AttentionEntry &entry, const KeySpan &keys, float *dq, int64_t dq_step, float *dk, float *dv);
    template <bool kPlain>
    void soften_panel(const AttentionEntry &entry, const KeySpan &panel, int64_t first, int64_t last, float *gradient_rows);
    void finish_row_scores(const AttentionEntry &entry, const KeySpan &panel, int64_t r);

    const attile_attention_problem &p_;
    RowNumbers<float> rows_;
    RowBlock<float> numbers_;  // of the beginning
    float *extra_;
    float *queries_, *query_columns_, *douts_, *dout_columns_;  // of a block of rows
    float *keys_, *key_columns_, *values_;
    float *scores_, *changes_, *slopes_;     // [row][panel]
    float *weight_pairs_, *gradient_pairs_;  // [pair of rows][panel]
    float *gradient_rows_;                   // [panel of rows][panel of keys][row], a line each
};

// The scores of a row between product and softmax, in place: all that may be done to them.
inline HWY_NOINLINE void TileGradients::finish_row_scores(const AttentionEntry &entry, const KeySpan &panel, int64_t r) {
    const Tag<float> d;
    float *const scores = scores_ + r * kTilePanel;
    const auto scale = hn::Set(d, static_cast<float>(p_.scale));
    for (int64_t w = 0; w < kTilePanel; w += kLanes<float>) hn::Store(hn::Mul(hn::Load(d, scores + w), scale), d, scores + w);
    if (p_.softcap != 0) {
        const Softcap<float> cap(p_.softcap);
        for (int64_t w = 0; w < kTilePanel; w += kLanes<float>) {
            Vec<float> t;
            hn::Store(cap(hn::Load(d, scores + w), &t), d, scores + w);
            hn::Store(hn::NegMulAdd(t, t, hn::Set(d, 1.0f)), d, slopes_ + r * kTilePanel + w);
        }
    }
    finish_key_lanes<float>(p_, entry, rows_, r, panel, scores, extra_);
}

// Two vectors of floats as one of bfloat16.
HWY_INLINE Vec<uint16_t> narrow_both(Vec<float> low, Vec<float> high) {
    Vec<uint16_t> both;
    asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(both.raw) : "v"(high.raw), "v"(low.raw));
    return both;
}

// Two rows of 32 numbers of bfloat16 as pairs of rows.
HWY_INLINE void store_pairs(Vec<uint16_t> first, Vec<uint16_t> second, float *pairs) {
    const Tag<float> d;
    const Tag<uint16_t> d16;
    HWY_ALIGN static constexpr uint16_t kZip[64] = {0,  32, 1,  33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39, 8,  40, 9,  41, 10, 42,
                                                    11, 43, 12, 44, 13, 45, 14, 46, 15, 47, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53,
                                                    22, 54, 23, 55, 24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63};
    for (int half = 0; half < 2; ++half) {
        const Vec<uint16_t> zipped{_mm512_permutex2var_epi16(first.raw, hn::Load(d16, kZip + 32 * half).raw, second.raw)};
        hn::Store(hn::BitCast(d, zipped), d, pairs + half * kLanes<float>);
    }
}

// Probabilities and gradients of scores of the rows first .. last of the block, whole panels, in pairs and in rows. kPlain: nothing is done
// to scores but scaling and hiding by the mask.
template <bool kPlain>
HWY_NOINLINE void TileGradients::soften_panel(const AttentionEntry &entry, const KeySpan &panel, int64_t first, int64_t last,
                                              float *gradient_rows) {
    const Tag<float> d;
    const auto scale = hn::Set(d, static_cast<float>(p_.scale)), highest = hn::Set(d, ExpParts<float>::kHighest);
    // The keys of the panel that a row sees, a bit each.
    const auto seen_by = [&](int64_t r) {
        if (r >= rows_.count) return uint32_t{0};
        const int64_t from = most(0, rows_.begin[r] - panel.begin), to = least(panel.count, rows_.end[r] - panel.begin);
        return from < to ? static_cast<uint32_t>((uint64_t{1} << to) - (uint64_t{1} << from)) : uint32_t{0};
    };
    for (int64_t r = first; r < last; r += 2) {
        Vec<float> weight[4], gradient[4];
        hn::Mask<Tag<float>> shown[4];
        ATTILE_CPU_UNROLL
        for (int i = 0; i < 2; ++i) {
            const int64_t row = least(r + i, rows_.count - 1);
            const auto lse = hn::Set(d, rows_.lse[row]);
            const float *scores = scores_ + (r + i) * kTilePanel;
            const uint32_t seen = seen_by(r + i);
            if constexpr (!kPlain) {
                if (seen != 0) finish_row_scores(entry, panel, r + i);
            }
            ATTILE_CPU_UNROLL
            for (int v = 0; v < 2; ++v) {
                Vec<float> score = hn::Load(d, scores + v * kLanes<float>);
                if constexpr (kPlain) score = hn::Mul(score, scale);
                shown[2 * i + v] = hn::Mask<Tag<float>>{static_cast<__mmask16>(seen >> 16 * v)};
                if constexpr (!kPlain) {  // A score that is no number is shown.
                    shown[2 * i + v] = hn::AndNot(hn::Eq(score, hn::Set(d, kMinusInfinity<float>)), shown[2 * i + v]);
                }
                // Above the range of exp the result is infinite.
                weight[2 * i + v] = at_most(d, highest, hn::Sub(score, lse));
            }
        }
        exp_clamped_each<4>(d, weight);
        ATTILE_CPU_UNROLL
        for (int i = 0; i < 4; ++i) {
            const auto delta = hn::Set(d, rows_.delta[least(r + i / 2, rows_.count - 1)]);
            const int64_t at = (r + i / 2) * kTilePanel + i % 2 * kLanes<float>;
            weight[i] = hn::IfThenElseZero(shown[i], weight[i]);
            gradient[i] = hn::IfThenElseZero(shown[i], hn::Mul(weight[i], hn::Sub(hn::Load(d, changes_ + at), delta)));
            if constexpr (!kPlain) {
                if (p_.softcap != 0) gradient[i] = hn::IfThenElseZero(shown[i], hn::Mul(gradient[i], hn::Load(d, slopes_ + at)));
            }
        }
        store_pairs(narrow_both(weight[0], weight[1]), narrow_both(weight[2], weight[3]), weight_pairs_ + r / 2 * kTilePanel);
        const Vec<uint16_t> upper = narrow_both(gradient[0], gradient[1]), lower = narrow_both(gradient[2], gradient[3]);
        store_pairs(upper, lower, gradient_pairs_ + r / 2 * kTilePanel);
        float *const row = gradient_rows + r / kTilePanel * (kKeyPanels * kTileStepFloats) + r % kTilePanel * (kTileStep / 2);
        hn::Store(hn::BitCast(d, upper), d, row);
        hn::Store(hn::BitCast(d, lower), d, row + kTileStep / 2);
    }
}

// sums[r][..] += thin x wide, for panels of up to 32 rows of thin that lie thin_step apart.
HWY_INLINE void add_tiles(int64_t rows, int64_t steps, const float *thin, int64_t thin_step, const float *wide, float *sums,
                          int64_t sums_panel, int64_t sums_step) {
    for (int64_t r = 0; r < rows; r += kTilePanel, thin += thin_step, sums += sums_panel) {
        const auto fn = rows - r > kTilePanel / 2 ? tile_product<2, 2> : tile_product<1, 2>;
        fn(steps, thin, wide, sums, sums_step, sums, sums_step);
    }
}

// A block of rows and the keys at hand.
inline HWY_NOINLINE void TileGradients::take_block(const AttentionEntry &entry, const KeySpan &keys, float *dq, int64_t dq_step, float *dk,
                                                   float *dv) {
    const int64_t key_steps = ceil_div(p_.head_dim, kTileStep), value_steps = ceil_div(p_.head_dim_v, kTileStep);
    const int64_t panels = ceil_div(keys.count, kTilePanel), row_panels = ceil_div(rows_.count, kTilePanel);
    const bool plain =
        p_.softcap == 0 && p_.bias.data == nullptr && p_.alibi_slopes.data == nullptr && p_.allowed.data == nullptr && !has_sparse_mask(p_);
    int64_t first_panel = panels, last_panel = 0;
    for (int64_t n = 0; n < panels; ++n) {
        const KeySpan panel{keys.begin + n * kTilePanel, least(kTilePanel, keys.count - n * kTilePanel)};
        const KeyRange seen = rows_that_see<float>(p_, entry, rows_, panel);
        const int64_t first = seen.begin < seen.end ? seen.begin / kTilePanel : row_panels;
        const int64_t last = seen.begin < seen.end ? ceil_div(seen.end, kTilePanel) : row_panels;
        float *const gradient_rows = gradient_rows_ + n * kTileStepFloats;
        for (int64_t m = 0; m < row_panels; ++m) {
            if (m >= first && m < last) continue;
            std::fill_n(gradient_rows + m * kKeyPanels * kTileStepFloats, kTileStepFloats, 0.0f);
        }
        if (first >= last) continue;
        first_panel = least(first_panel, n);
        last_panel = n + 1;
        for (int64_t m = first; m < last; ++m) {
            tile_product<2, 2>(key_steps, queries_ + m * key_steps * kTileStepFloats, keys_ + n * key_steps * kTileStepFloats, nullptr, 0,
                               scores_ + m * kPanelFloats, kTilePanel);
            tile_product<2, 2>(value_steps, douts_ + m * value_steps * kTileStepFloats, values_ + n * value_steps * kTileStepFloats,
                               nullptr, 0, changes_ + m * kPanelFloats, kTilePanel);
        }
        if (plain) {
            soften_panel<true>(entry, panel, first * kTilePanel, last * kTilePanel, gradient_rows);
        } else {
            soften_panel<false>(entry, panel, first * kTilePanel, last * kTilePanel, gradient_rows);
        }
        add_tiles(p_.head_dim_v, last - first, dout_columns_ + first * kTileStepFloats, kRowPanels * kTileStepFloats,
                  weight_pairs_ + first * kTileStepFloats, dv + n * value_steps * kPanelFloats, kPanelFloats, kTilePanel);
        add_tiles(p_.head_dim, last - first, query_columns_ + first * kTileStepFloats, kRowPanels * kTileStepFloats,
                  gradient_pairs_ + first * kTileStepFloats, dk + n * key_steps * kPanelFloats, kPanelFloats, kTilePanel);
    }
    if (first_panel >= last_panel) return;
    for (int64_t c = 0; c < key_steps; ++c) {
        add_tiles(rows_.count, last_panel - first_panel, gradient_rows_ + first_panel * kTileStepFloats, kKeyPanels * kTileStepFloats,
                  key_columns_ + (c * kKeyPanels + first_panel) * kTileStepFloats, dq + c * kTilePanel, kTilePanel * dq_step, dq_step);
    }
}

inline bool TileGradients::take(const BackwardProblem &problem, const AttentionEntry &entry, int64_t kv_head, const GradientPiece &piece,
                                const HeadSums<float> &sums) {
    const int64_t group = p_.heads_q / p_.heads_kv, value_step = round_up(p_.head_dim_v, kTilePanel);
    const int64_t rows_a_block = kRowPanels * kTilePanel;
    const int64_t keys_at_once = (p_.head_dim > kLongRows ? kKeyPanelsOfLongRows : kKeyPanels) * kTilePanel;
    for (int64_t key = piece.key_begin; key < piece.key_end; key += keys_at_once) {
        const KeySpan keys{key, least(keys_at_once, piece.key_end - key)};
        bool packed = false;
        TinySearch of_keys, of_values;
        for (int64_t g = 0; g < group; ++g) {
            const int64_t h = kv_head * group + g;
            for (int64_t i = piece.row_begin; i < piece.row_end; i += rows_a_block) {
                const int64_t count = least(rows_a_block, piece.row_end - i);
                if (!may_see(p_, entry, i, count, key, key + keys.count)) continue;
                if (!packed) {
                    packed = true;
                    const BrainRows k = rows_of(p_.k, entry.b, kv_head, entry.k_start + key, keys.count, p_.head_dim);
                    wide_rows(k, keys_, of_keys);
                    wide_columns(k, key_columns_);
                    wide_rows(rows_of(p_.v, entry.b, kv_head, entry.k_start + key, keys.count, p_.head_dim_v), values_, of_values);
                }
                rows_.place(p_, entry, h, i, count, sums);
                TinySearch of_queries, of_douts;
                const BrainRows q = rows_of(p_.q, entry.b, h, entry.q_start + i, count, p_.head_dim);
                const BrainRows dout = rows_of(problem.dout, entry.b, h, entry.q_start + i, count, p_.head_dim_v);
                thin_rows(q, queries_, of_queries);
                thin_rows(dout, douts_, of_douts);
                if (!keeps(of_queries, of_keys) || !keeps(of_douts, of_values)) return false;
                thin_columns(q, query_columns_);
                thin_columns(dout, dout_columns_);
                take_block(entry, keys, sums.dq + (g * sums.head_rows + i) * sums.row_step, sums.row_step, sums.dk + key * sums.row_step,
                           sums.dv + key * value_step);
            }
        }
    }
    return true;
}

inline void gradient_piece_of_tiles(const BackwardProblem &problem, const AttentionEntry &entry, int64_t kv_head,
                                    const GradientPiece &piece, const HeadSums<float> &sums, char *memory) {
    Cutter cutter(memory);
    TileGradients gradients(cutter, *problem.forward);
    if (piece.begins) begin_sums<float>(problem, entry, kv_head, piece, sums, gradients.row_block());
    if (sums.left[piece.index] != 0) return;
    const TilesInUse tiles;
    const SubnormalResults flushed(*problem.forward);
    if (!gradients.take(problem, entry, kv_head, piece, sums)) sums.left[piece.index] = 1;
    flushed.end();
}

#endif  // HWY_TARGET != HWY_SCALAR && ATTILE_CPU_TILES
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
