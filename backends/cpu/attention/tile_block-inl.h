// SPDX-License-Identifier: Apache-2.0
// As attention/panel-inl.h, by tiles.
#if defined(ATTILE_CPU_ATTENTION_TILE_BLOCK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_ATTENTION_TILE_BLOCK_INL_H
#undef ATTILE_CPU_ATTENTION_TILE_BLOCK_INL_H
#else
#define ATTILE_CPU_ATTENTION_TILE_BLOCK_INL_H
#endif

#include <algorithm>
#include <limits>

#include "attention/panel-inl.h"
#include "attention/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR && ATTILE_CPU_TILES

// A block by tiles: what its panels share, made when one needs it.
class TileBlock {
  public:
    TileBlock(const ForwardScratch<float> &scratch, KeySource<float, Brain> &source, const attile_attention_problem &p, int64_t begin,
              int64_t count)
        : scratch_(scratch),
          source_(source),
          p_(p),
          begin_(begin),
          count_(count),
          v_pairs_(scratch.v_block + kTileKeys / 2 * p.head_dim_v) {
        tile_keys(source.key(begin), source.key_step(), count, p.head_dim, scratch.k_tiles, scratch.k_group_marks);
        tile_values(source.value(begin), source.value_step(), count, p.head_dim_v, scratch.v_tiles, scratch.v_group_marks);
    }

    // What the next panel will look at, of this block or the one after it.
    struct Next {
        const Lanes *lanes;
        int64_t from, count;
    };

    // One panel's part, from a group's first key; query_marked: its queries have tiny numbers.
    template <int kVectors>
    void take(const PanelBlock<float> &x, bool query_marked, const Next &next) {
        const int64_t first = (x.from - begin_) / kTilePanel, last = ceil_div(x.from - begin_ + x.count, kTilePanel);
        const bool keeps_scores = query_marked || any_mark(scratch_.k_group_marks, first, last);
        const bool keeps_values = any_mark(scratch_.v_group_marks, first, last);
        if (keeps_scores || keeps_values) {
            take_pairs(x, keeps_scores, keeps_values);
            return;
        }
        float *const scores = scratch_.scores;
        const float scale = static_cast<float>(p_.scale);
        const bool late = scales_late(scale);
        const int64_t group_floats = ceil_div(p_.head_dim, kTileStep) * kTileStepFloats;
        bool hides = false, has_top = true;
        HWY_ALIGN float top[kPanel<float>];
        std::fill_n(top, kPanel<float>, -std::numeric_limits<float>::infinity());
        for (int64_t j = 0; j < x.count; j += kFinishedKeys) {
            const int64_t from = x.from + j, count = least(x.count - j, kFinishedKeys);
            float *const part = scores + j * kPanel<float>;
            // What comes after this part, so that it comes beside this part's work.
            if (j == 0) ask_options<float>(p_, x.lanes, from, count);
            if (j + count < x.count) {
                ask_options<float>(p_, x.lanes, from + count, least(x.count - j - count, kFinishedKeys));
            } else if (next.count > 0) {
                ask_options<float>(p_, *next.lanes, next.from, least(next.count, kFinishedKeys));
            }
            score_tiles<kVectors>(p_.head_dim, scratch_.k_tiles + (first + j / kTilePanel) * group_floats, count, x.queries, part);
            if (!late)
                each_score<float>(count, part,
                                  [&](Vec<float> s, int64_t, int64_t) HWY_ATTR { return hn::Mul(s, hn::Set(Tag<float>(), scale)); });
            Finish<float> how = x.finish(late ? scale : 1);
            how.top = top;
            const Finished done = finish_scores<float>(p_, x.entry, x.lanes, from, count, source_.hidden(from), how, part);
            hides |= done.hides;
            has_top &= done.has_top;
        }
        const bool searches = (hides || x.searching) && !source_.values_finite();
        if (searches) std::memcpy(scratch_.tile, scores, static_cast<size_t>(x.count * kPanel<float>) * sizeof(float));
        if (late && p_.bias.data == nullptr && p_.alibi_slopes.data == nullptr) {
            soften<float, kVectors, true, true>(x.count, scores, x.state, scratch_.correction, scale, has_top ? top : nullptr);
        } else {
            soften_finished<float, kVectors, true>(p_, x.count, scores, x.state, scratch_.correction, has_top ? top : nullptr);
        }
        if (searches) {
            make_pairs();
            add_seen_pairs(p_.head_dim_v, v_pairs_ + (x.from - begin_) / 2 * p_.head_dim_v, x.count, scores, scratch_.tile,
                           scratch_.correction, x.sums);
        } else {
            add_value_tiles<kVectors>(p_.head_dim_v, scratch_.v_tiles + first * kTileStepFloats, x.count, scores, scratch_.correction,
                                      x.sums);
        }
    }

  private:
    void make_pairs() {
        if (has_pairs_) return;
        has_pairs_ = true;
        pair_keys(source_.key(begin_), source_.key_step(), count_, p_.head_dim, scratch_.k_pairs);
        pair_values(source_.value(begin_), source_.value_step(), count_, p_.head_dim_v, v_pairs_, scratch_.v_marks);
    }
    void take_pairs(const PanelBlock<float> &x, bool keeps_scores, bool keeps_values) {
        make_pairs();
        Coming none;
        const auto fn = keeps_scores && keeps_values ? panel_block_of_pairs<2, KeptBrainPair, KeptBrainPair>
                        : keeps_scores               ? panel_block_of_pairs<2, KeptBrainPair, BrainPair>
                                                     : panel_block_of_pairs<2, BrainPair, KeptBrainPair>;
        fn(scratch_, source_, v_pairs_, begin_, x, none, none);
    }

    const ForwardScratch<float> &scratch_;
    KeySource<float, Brain> &source_;
    const attile_attention_problem &p_;
    int64_t begin_, count_;
    float *v_pairs_;
    bool has_pairs_ = false;
};

#endif  // HWY_TARGET != HWY_SCALAR && ATTILE_CPU_TILES
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
