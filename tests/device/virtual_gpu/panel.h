// SPDX-License-Identifier: Apache-2.0
// wgmma's operands: panels in shared memory, and what all lanes have alike.
#pragma once

#include <immintrin.h>

#include <algorithm>

#include "async.h"
#include "products.h"

namespace attile::virtual_gpu {

// wgmma's operand in shared memory, of which 16 bytes are read at a time: eight elements, or four of 32 bits.
class Panel {
  public:
    // is_outer: contiguous along rows of A or columns of B, else along the depth.
    Panel(const Warp &warp, uint64_t bits, bool is_outer) : base_(warp.block->shared_base()), size_(warp.block->shared_size), warp_(warp) {
        static constexpr uint32_t kWidths[] = {16, 128, 64, 32};
        if ((bits >> 14 & 3) != 0 || (bits >> 30 & 3) != 0 || (bits >> 46 & 7) != 0 || (bits >> 52 & 0x3ff) != 0)
            fault("wgmma: a descriptor with bits that have no meaning");
        if ((bits >> 49 & 7) != 0) fault("wgmma: a descriptor's base offset is not known");
        const uint32_t start = static_cast<uint32_t>(bits & 0x3fff) << 4, leading = static_cast<uint32_t>(bits >> 16 & 0x3fff) << 4,
                       stride = static_cast<uint32_t>(bits >> 32 & 0x3fff) << 4, width = kWidths[bits >> 62];
        start_ = start;
        mask_ = width - 16;
        inner_ = width;
        is_outer_ = is_outer;
        chunks_ = width / 16;
        const bool is_plain = width == 16;
        if (is_outer) {
            // Along columns; a plain panel has eight of them side by side and then takes the stride.
            next_group_ = is_plain ? stride : leading;
            next_depth_ = is_plain ? leading : stride;
        } else {
            next_group_ = stride;
            next_depth_ = is_plain ? leading : 16;
        }
    }
    // Contiguous along the depth: of row `row` of the eight that are `group`, the part `part` of the depth.
    __m128i row(uint32_t group, uint32_t row, uint32_t part) const {
        return load(start_ + group * next_group_ + row * inner_ + part * next_depth_);
    }
    // Else: the eight of `group` at depth k.
    __m128i depth(uint32_t group, uint32_t k) const {
        return load(start_ + group / chunks_ * next_group_ + group % chunks_ * 16 + k % 8 * inner_ + k / 8 * next_depth_);
    }
    bool is_outer() const { return is_outer_; }
    // What was read, and what lies between.
    uint32_t first() const { return first_; }
    uint32_t end() const { return end_; }

  private:
    __m128i load(uint32_t address) const {
        address ^= address >> 3 & mask_;
        if (address + std::size_t{16} > size_) shared_at(*warp_.block, address, 16, 16);
        need_fenced(warp_, address, 16);
        read_words(warp_, address, 16);
        first_ = std::min(first_, address);
        end_ = std::max(end_, address + 16);
        return _mm_load_si128(reinterpret_cast<const __m128i *>(base_ + address));
    }

    const unsigned char *base_;
    std::size_t size_;
    const Warp &warp_;
    uint32_t start_, inner_, next_group_, next_depth_, mask_, chunks_;
    mutable uint32_t first_ = ~uint32_t{0}, end_ = 0;
    bool is_outer_;
};

// What all lanes of the warp must have alike.
inline int64_t uniform(const Warp &warp, const Operand &operand, const char *what) {
    if (operand.kind == Kind::kPredicate) {
        const Mask mask = warp.predicate(operand);
        if (mask != 0 && mask != ~Mask{0}) fault(std::string("wgmma: lanes differ in ") + what);
        return mask != 0;
    }
    const bool is_wide = operand.kind == Kind::kWide;
    const auto value = [&](int lane) {
        return is_wide ? warp.row<int64_t>(operand)[lane] : static_cast<int64_t>(warp.row<int32_t>(operand)[lane]);
    };
    for (int lane = 1; lane < kLanes; ++lane)
        if (value(lane) != value(0)) fault(std::string("wgmma: lanes differ in ") + what);
    return value(0);
}

}  // namespace attile::virtual_gpu
