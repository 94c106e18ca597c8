// SPDX-License-Identifier: Apache-2.0
// Products of tiles of bfloat16 (AMX): 32 x 32 sums in float32, as two by two tiles of 16 x 16.
//
// A step of the depth is 32 numbers. "Thin" panels: for each step 32 rows of 32 numbers side by side. "Wide" panels: for each step 16 pairs
// of numbers, the pair of each of 32 columns side by side. Either takes 2 KiB a step. A tile product adds numbers at even and at odd places
// of the depth by themselves, in order, and then both to the sum; it flushes subnormal numbers and rounds to nearest even, whatever the
// caller's mode. All eight tile registers are in use between TilesInUse and its end; the psABI lets any call destroy them.
#ifndef ATTILE_CPU_AMX_TILES_H
#define ATTILE_CPU_AMX_TILES_H

#include <cstdint>

namespace attile::cpu {

// Rows or columns of a panel; numbers of a step; floats whose place a step takes in a panel.
inline constexpr int kTilePanel = 32;
inline constexpr int kTileStep = 32;
inline constexpr int kTileStepFloats = kTilePanel * kTileStep / 2;
// Of matrix products (docs/kernels/cpu.md): numbers of a piece of the depth, and steps of a chunk of it, whose panel stays in L1.
inline constexpr int64_t kTileDepth = 1024;
inline constexpr int64_t kTileChunk = 16;

#if defined(ATTILE_CPU_HAS_AMX)

// Whole tiles everywhere: a row of 64 bytes, 16 rows.
struct alignas(64) TileShapes {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
inline constexpr TileShapes kWholeTiles;

// Tiles are left behind at the end: a thread that holds some carries 8 KiB more from switch to switch.
class TilesInUse {
  public:
    TilesInUse() { asm volatile("ldtilecfg %0" : : "m"(kWholeTiles)); }
    ~TilesInUse() { asm volatile("tilerelease"); }
    TilesInUse(const TilesInUse &) = delete;
    TilesInUse &operator=(const TilesInUse &) = delete;
};

template <int kTile>
inline void tile_zero() {
    asm volatile("tilezero %%tmm%c0" : : "n"(kTile));
}
template <int kTile>
inline void tile_load(const void *rows, int64_t step_bytes) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(rows), "r"(step_bytes), "n"(kTile) : "memory");
}
// Of an operand that streams by: it displaces less of what stays in L1.
template <int kTile>
inline void tile_load_once(const void *rows, int64_t step_bytes) {
    asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" : : "r"(rows), "r"(step_bytes), "n"(kTile) : "memory");
}
template <int kTile>
inline void tile_store(void *rows, int64_t step_bytes) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(rows), "r"(step_bytes), "n"(kTile) : "memory");
}
template <int kSum, int kThin, int kWide>
inline void tile_multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "n"(kSum), "n"(kThin), "n"(kWide));
}

// The thin operand: a panel, or rows where they lie.
struct ThinRows {
    const float *at;
    int64_t row_bytes = 64;             // from row to row
    int64_t step = kTileStepFloats;     // from step to step
    int64_t low = kTileStepFloats / 2;  // from the first 16 rows to the others

    ThinRows(const float *panel) : at(panel) {}
    static ThinRows in_place(const void *rows, int64_t row_bytes) {
        ThinRows thin(static_cast<const float *>(rows));
        thin.row_bytes = row_bytes;
        thin.step = 16;
        thin.low = 4 * row_bytes;
        return thin;
    }
    ThinRows from_step(int64_t steps) const {
        ThinRows rest = *this;
        rest.at += steps * step;
        return rest;
    }
};

// out = in + thin x wide, rows of 32 floats; in == NULL: 0. Of kThinTiles x kWideTiles tiles.
template <int kThinTiles, int kWideTiles>
inline void tile_product(int64_t steps, const ThinRows &rows, const float *wide, const float *in, int64_t in_step, float *out,
                         int64_t out_step) {
    constexpr int64_t kWideBytes = 4 * kTilePanel;
    const float *thin = rows.at;
    const int64_t thin_bytes = rows.row_bytes, thin_step = rows.step, thin_low = rows.low;
    constexpr bool kLow = kThinTiles == 2, kRight = kWideTiles == 2;
    if (in == nullptr) {
        tile_zero<0>();
        if constexpr (kRight) tile_zero<1>();
        if constexpr (kLow) tile_zero<2>();
        if constexpr (kLow && kRight) tile_zero<3>();
    } else {
        tile_load<0>(in, 4 * in_step);
        if constexpr (kRight) tile_load<1>(in + 16, 4 * in_step);
        if constexpr (kLow) tile_load<2>(in + 16 * in_step, 4 * in_step);
        if constexpr (kLow && kRight) tile_load<3>(in + 16 * in_step + 16, 4 * in_step);
    }
    for (; steps > 0; --steps, thin += thin_step, wide += kTileStepFloats) {
        tile_load_once<6>(wide, kWideBytes);
        tile_load<4>(thin, thin_bytes);
        if constexpr (kRight) tile_load_once<7>(wide + 16, kWideBytes);
        tile_multiply<0, 4, 6>();
        if constexpr (kLow) tile_load<5>(thin + thin_low, thin_bytes);
        if constexpr (kRight) tile_multiply<1, 4, 7>();
        if constexpr (kLow) tile_multiply<2, 5, 6>();
        if constexpr (kLow && kRight) tile_multiply<3, 5, 7>();
    }
    tile_store<0>(out, 4 * out_step);
    if constexpr (kRight) tile_store<1>(out + 16, 4 * out_step);
    if constexpr (kLow) tile_store<2>(out + 16 * out_step, 4 * out_step);
    if constexpr (kLow && kRight) tile_store<3>(out + 16 * out_step + 16, 4 * out_step);
}

#endif  // ATTILE_CPU_HAS_AMX

}  // namespace attile::cpu

#endif  // ATTILE_CPU_AMX_TILES_H
