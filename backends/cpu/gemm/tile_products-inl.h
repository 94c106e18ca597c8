// SPDX-License-Identifier: Apache-2.0
// Products of bfloat16 by AMX: a block's tiles with their end.
//
// A tile with a marked panel (gemm/tiles-inl.h) goes through multiply-adds in the order of a tile product: the same bits as if that kept
// numbers below the smallest normal one.
#if defined(ATTILE_CPU_GEMM_TILE_PRODUCTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_GEMM_TILE_PRODUCTS_INL_H
#undef ATTILE_CPU_GEMM_TILE_PRODUCTS_INL_H
#else
#define ATTILE_CPU_GEMM_TILE_PRODUCTS_INL_H
#endif

#include "gemm/finish-inl.h"
#include "gemm/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR && ATTILE_CPU_TILES

// out = in + thin x wide as a tile product adds, but with tiny numbers kept.
inline HWY_NOINLINE void kept_tile_product(int64_t steps, const float *thin, const float *wide, const float *in, int64_t in_step,
                                           float *out, int64_t out_step) {
    const Tag<float> d;
    const Tag<uint32_t> du;
    const auto high = hn::Set(du, 0xffff0000u);
    for (int64_t i = 0; i < kTilePanel; ++i) {
        for (int64_t j = 0; j < kTilePanel; j += 16) {
            Vec<float> sum = in == nullptr ? hn::Zero(d) : hn::LoadU(d, in + i * in_step + j);
            for (int64_t s = 0; s < steps; ++s) {
                const float *row = thin + s * kTileStepFloats + 16 * i, *columns = wide + s * kTileStepFloats + j;
                Vec<float> even = hn::Zero(d), odd = hn::Zero(d);
                for (int64_t p = 0; p < kTileStep / 2; ++p) {
                    uint32_t pair = 0;
                    std::memcpy(&pair, row + p, sizeof pair);
                    const auto t = hn::Set(du, pair), x = hn::BitCast(du, hn::LoadU(d, columns + kTilePanel * p));
                    even = hn::MulAdd(hn::BitCast(d, hn::ShiftLeft<16>(t)), hn::BitCast(d, hn::ShiftLeft<16>(x)), even);
                    odd = hn::MulAdd(hn::BitCast(d, hn::And(t, high)), hn::BitCast(d, hn::And(x, high)), odd);
                }
                sum = hn::Add(sum, hn::Add(even, odd));
            }
            hn::StoreU(sum, d, out + i * out_step + j);
        }
    }
}

// Two vectors of floats rounded to bfloat16, none of them subnormal: the instruction takes those for zeros.
HWY_INLINE Vec<uint16_t> narrow_both(Vec<float> left, Vec<float> right) {
    Vec<uint16_t> both;
    asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(both.raw) : "v"(right.raw), "v"(left.raw));
    return both;
}

// d = alpha times finished sums of up to 32 columns, bfloat16 and side by side along the row. whole: 32 of them, alpha is 1, and no sum
// is subnormal.
inline HWY_NOINLINE void store_brain(bool whole, const float *sums, float alpha, Brain *out, int64_t out_step, int64_t rows,
                                     int64_t columns) {
    const Tag<float> d;
    const Tag<uint16_t> d16;
    if (whole) {
        for (int64_t i = 0; i < rows; ++i, sums += kTilePanel, out += out_step) {
            hn::StoreU(narrow_both(hn::Load(d, sums), hn::Load(d, sums + 16)), d16, &out->bits);
        }
        return;
    }
    const auto factor = hn::Set(d, alpha);
    const auto mask = hn::FirstN(d16, static_cast<size_t>(columns));
    for (int64_t i = 0; i < rows; ++i, sums += kTilePanel, out += out_step) {
        const Vec<float> left = hn::Mul(factor, hn::Load(d, sums));
        const Vec<float> right = columns > 16 ? hn::Mul(factor, hn::Load(d, sums + 16)) : hn::Zero(d);
        constexpr int kSubnormal = 0x20;
        if ((_mm512_fpclass_ps_mask(left.raw, kSubnormal) | _mm512_fpclass_ps_mask(right.raw, kSubnormal)) != 0) {
            store_as(d, left, out, columns);
            store_as(d, right, out + 16, columns - 16);
            continue;
        }
        hn::BlendedStore(narrow_both(left, right), mask, d16, &out->bits);
    }
}

// A panel of the thin operand: packed beforehand, or rows that are read where they lie, or packed when they are needed.
class ThinPanel {
  public:
    ThinPanel(const GemmBlock<float> &block, int64_t i)
        : block_(block), rows_(least(kTilePanel, block.rows - i)), panel_(block.thin), thin_(block.thin) {
        if (block.rows_in_place == nullptr) {
            panel_ += i / kTilePanel * block.thin_panel_step;
            thin_ = ThinRows(panel_);
            marked_ = block.depth > 0 && is_marked(panel_ + block.depth * kTileStepFloats);
            return;
        }
        from_ = static_cast<const Brain *>(block.rows_in_place) + i * block.thin_step;
        if (lies_well()) {
            TinySearch search;
            for (int64_t r = 0; r < kTilePanel; ++r) search.look_at_row(from_ + r * block.thin_step, block.numbers);
            marked_ = search.found();
            thin_ = ThinRows::in_place(from_, row_bytes());
            packed_ = false;
        } else {
            pack();
            marked_ = is_marked(panel_ + block.depth * kTileStepFloats);
        }
    }
    int64_t rows() const { return rows_; }
    bool marked() const { return marked_; }
    const ThinRows &tiles() const { return thin_; }
    // For multiply-adds.
    const float *panel() {
        if (!packed_) pack();
        packed_ = true;
        return panel_;
    }

  private:
    int64_t row_bytes() const { return block_.thin_step * static_cast<int64_t>(sizeof(Brain)); }
    // Whole tiles of whole lines, and not so far apart that rows share a few sets of the L1 cache.
    bool lies_well() const {
        return rows_ == kTilePanel && block_.numbers % kTileStep == 0 && row_bytes() % 64 == 0 && row_bytes() % 2048 != 0 &&
               reinterpret_cast<uintptr_t>(from_) % 64 == 0;
    }
    void pack() { pack_tile_panels_in_turn<false>(from_, block_.thin_step, 1, rows_, block_.numbers, const_cast<float *>(panel_)); }

    const GemmBlock<float> &block_;
    int64_t rows_;
    const float *panel_;
    ThinRows thin_;
    const Brain *from_ = nullptr;
    bool marked_ = false, packed_ = true;
};

// A block's tiles. The depth goes in chunks, so that a thin panel's stays in L1 while wide ones stream from L2; sums of chunks, and of
// pieces before the last, lie in block.partial, tile after tile.
inline void multiply_tiles(const GemmView &view, const GemmBlock<float> &block) {
    HWY_ALIGN float scratch[kTilePanel * kTilePanel];
    const bool reads_c = view.beta != 0 && view.c.data != nullptr;
    const bool epilogue = view.bias.data != nullptr || view.activation != ATTILE_ACTIVATION_NONE;
    const bool plain = view.d.dtype == ATTILE_F32 && view.d.column == 1 && !epilogue && (!reads_c || view.c.column == 1);
    const bool brain = view.d.dtype == ATTILE_BF16 && view.d.column == 1 && !epilogue && !reads_c;
    const float alpha = static_cast<float>(view.alpha);
    const auto end_tile = [&](bool marked, int64_t row, int64_t rows, int64_t column, int64_t columns) HWY_ATTR {
        if (brain) {
            const bool whole = !marked && alpha == 1 && columns == kTilePanel && block.first;
            store_brain(whole, scratch, alpha, static_cast<Brain *>(view.d.data) + row * view.d.row + column, view.d.row, rows, columns);
        } else if (plain) {
            float *const d = static_cast<float *>(view.d.data) + row * view.d.row + column;
            TileTarget<float> target{d, view.d.row, nullptr, 0, alpha, 1.0f, nullptr, 0, 0};
            if (reads_c) {
                target.in = static_cast<const float *>(view.c.data) + row * view.c.row + column;
                target.in_step = view.c.row;
                target.beta = static_cast<float>(view.beta);
            }
            store_narrow(scratch, kTilePanel, target, rows, columns);
        } else {
            finish_rectangle<float>(view, scratch, kTilePanel, row, column, rows, columns, true, true, nullptr, 0);
        }
    };
    const TilesInUse tiles;
    const int64_t chunks = most(1, ceil_div(block.depth, kTileChunk)), mark = block.depth * kTileStepFloats;
    for (int64_t i = 0; i < block.rows; i += kTilePanel) {
        ThinPanel thin(block, i);
        const int64_t rows = thin.rows();
        for (int64_t chunk = 0; chunk < chunks; ++chunk) {
            const int64_t begin = block.depth * chunk / chunks, steps = block.depth * (chunk + 1) / chunks - begin;
            const bool first = block.first && chunk == 0, last = block.last && chunk == chunks - 1;
            const ThinRows thin_tiles = thin.tiles().from_step(begin);
            for (int64_t j = 0; j < block.columns; j += kTilePanel) {
                const float *const wide = block.wide + j / kTilePanel * block.wide_panel_step;
                const bool marked = thin.marked() || (block.depth > 0 && is_marked(wide + mark));
                const int64_t columns = least(kTilePanel, block.columns - j), row = block.row0 + i, column = block.column0 + j;
                float *const partial = block.partial == nullptr ? nullptr : block.partial + i * block.partial_step + j * kTilePanel;
                const float *const in = first ? nullptr : partial;
                const bool direct = last && plain && !reads_c && alpha == 1 && rows == kTilePanel && columns == kTilePanel;
                float *const out = direct ? static_cast<float *>(view.d.data) + row * view.d.row + column : last ? scratch : partial;
                const int64_t out_step = direct ? view.d.row : kTilePanel;
                if (marked) {
                    kept_tile_product(steps, thin.panel() + begin * kTileStepFloats, wide + begin * kTileStepFloats, in, kTilePanel, out,
                                      out_step);
                } else {
                    const auto fn = rows > 16 ? (columns > 16 ? tile_product<2, 2> : tile_product<2, 1>)
                                              : (columns > 16 ? tile_product<1, 2> : tile_product<1, 1>);
                    fn(steps, thin_tiles, wide + begin * kTileStepFloats, in, kTilePanel, out, out_step);
                }
                if (last && !direct) end_tile(marked, row, rows, column, columns);
            }
        }
    }
}

#endif  // HWY_TARGET != HWY_SCALAR && ATTILE_CPU_TILES
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
