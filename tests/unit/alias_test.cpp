// SPDX-License-Identifier: Apache-2.0
// Overlap of strided tensors.
#include "alias.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <set>

namespace {

using namespace attile::core;

alignas(64) unsigned char memory[1 << 16];

struct Placed {
    attile_tensor tensor = {};
    View view;

    Placed(std::initializer_list<int64_t> shape, std::initializer_list<int64_t> stride, int64_t first_byte, int32_t dtype = ATTILE_F32) {
        tensor.data = memory + first_byte;
        tensor.dtype = dtype;
        tensor.rank = static_cast<int32_t>(shape.size());
        std::copy(shape.begin(), shape.end(), tensor.shape);
        std::copy(stride.begin(), stride.end(), tensor.stride);
        EXPECT_EQ(check_tensor({"test"}, "t", tensor, {kFloats | kU8, 1, 4}, &view), ATTILE_OK);
    }
    Placed(const Placed &) = delete;

    std::set<uintptr_t> bytes() const {
        std::set<uintptr_t> all;
        int64_t count = 1;
        for (int32_t i = 0; i < tensor.rank; ++i) count *= tensor.shape[i];
        for (int64_t index = 0; index < count; ++index) {
            int64_t rest = index, offset = 0;
            for (int32_t i = tensor.rank - 1; i >= 0; --i) {
                offset += rest % tensor.shape[i] * tensor.stride[i];
                rest /= tensor.shape[i];
            }
            for (int32_t b = 0; b < element_bytes(tensor.dtype); ++b) {
                all.insert(reinterpret_cast<uintptr_t>(tensor.data) + static_cast<uintptr_t>(offset * element_bytes(tensor.dtype) + b));
            }
        }
        return all;
    }
};

Overlap between(const Placed &one, const Placed &other) {
    const Overlap answer = find_overlap(one.view, other.view);
    EXPECT_EQ(answer, find_overlap(other.view, one.view)) << "the order must not matter";
    return answer;
}

TEST(Alias, ByteRangesApart) {
    EXPECT_EQ(between({{4}, {1}, 0}, {{4}, {1}, 16}), Overlap::kNone) << "touching is no overlap";
    EXPECT_EQ(between({{4}, {1}, 0}, {{4}, {1}, 12}), Overlap::kSome);
    EXPECT_EQ(between({{4}, {-1}, 28}, {{4}, {1}, 0}), Overlap::kNone);
}

TEST(Alias, SameView) {
    EXPECT_EQ(between({{2, 3}, {3, 1}, 0}, {{2, 3}, {3, 1}, 0}), Overlap::kSame);
    EXPECT_EQ(between({{2, 1, 3}, {3, 77, 1}, 0}, {{2, 1, 3}, {3, 5, 1}, 0}), Overlap::kSame) << "an extent 1 has no stride";
    EXPECT_EQ(between({{1, 2, 3}, {9, 3, 1}, 0}, {{2, 3}, {3, 1}, 0}), Overlap::kSame) << "a leading extent 1 is no axis";
    EXPECT_EQ(between({{3, 3}, {3, 1}, 0}, {{3, 3}, {1, 3}, 0}), Overlap::kSome) << "its transpose";
    EXPECT_EQ(between({{2, 3}, {3, 1}, 0}, {{2, 3}, {3, 1}, 0, ATTILE_F16}), Overlap::kSome) << "another type";
    EXPECT_EQ(between({{2, 3}, {3, 1}, 0}, {{3}, {1}, 0}), Overlap::kSome);
}

// q, k, v and o in one [B, L, 4, H, D] buffer.
TEST(Alias, SlicesOfAnInterleavedBuffer) {
    constexpr int64_t B = 2, L = 5, H = 3, D = 8, slot = H * D;
    const auto slice = [&](int64_t which) {
        return std::make_unique<Placed>(std::initializer_list<int64_t>{B, H, L, D},
                                        std::initializer_list<int64_t>{L * 4 * slot, D, 4 * slot, 1}, which * slot * 4);
    };
    for (int64_t i = 0; i < 4; ++i) {
        for (int64_t j = 0; j < 4; ++j) EXPECT_EQ(between(*slice(i), *slice(j)), i == j ? Overlap::kSame : Overlap::kNone) << i << ' ' << j;
    }
}

// Heads that lie in turn, [B, L, H, 3, D], padded rows, columns of a matrix, even and odd elements.
TEST(Alias, OtherInterleavings) {
    constexpr int64_t L = 5, H = 3, D = 8;
    EXPECT_EQ(between({{1, H, L, D}, {0, 3 * D, H * 3 * D, 1}, 0}, {{1, H, L, D}, {0, 3 * D, H * 3 * D, 1}, D * 4}), Overlap::kNone);
    EXPECT_EQ(between({{4, 6}, {20, 1}, 0}, {{4, 10}, {20, 1}, 10 * 4}), Overlap::kNone) << "columns of a padded matrix";
    EXPECT_EQ(between({{4, 11}, {20, 1}, 0}, {{4, 10}, {20, 1}, 10 * 4}), Overlap::kSome);
    EXPECT_EQ(between({{50}, {2}, 0}, {{50}, {2}, 4}), Overlap::kNone) << "even and odd";
    EXPECT_EQ(between({{50}, {-2}, 98 * 4}, {{50}, {2}, 4}), Overlap::kNone) << "walked backwards";
    EXPECT_EQ(between({{50}, {2}, 0}, {{50}, {3}, 4}), Overlap::kSome);
    EXPECT_EQ(between({{4, 6}, {20, 2}, 0}, {{4, 4}, {20, 1}, 12 * 4}), Overlap::kNone) << "gaps within a row";
    EXPECT_EQ(between({{4, 6}, {20, 1}, 0}, {{4, 12}, {40, 1}, 6 * 4, ATTILE_F16}), Overlap::kNone) << "elements of two sizes";
}

TEST(Alias, NothingOverlapsWhatIsNotThere) {
    EXPECT_EQ(between({{0, 4}, {4, 1}, 0}, {{4}, {1}, 0}), Overlap::kNone);
    EXPECT_EQ(find_overlap(View(), View()), Overlap::kNone);
}

// Never a proof where bytes are shared.
TEST(Alias, ProofsHoldAgainstBruteForce) {
    std::mt19937 random(1234);
    const auto draw = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); };
    int apart = 0, proved = 0;
    for (int i = 0; i < 20000; ++i) {
        const auto place = [&] {
            return std::make_unique<Placed>(std::initializer_list<int64_t>{draw(1, 3), draw(1, 3), draw(1, 4)},
                                            std::initializer_list<int64_t>{draw(-24, 24), 2 * draw(0, 6), draw(-2, 2)},
                                            4096 + 4 * draw(0, 20), draw(0, 3) == 0 ? ATTILE_F16 : ATTILE_F32);
        };
        const auto one = place(), other = place();
        const std::set<uintptr_t> bytes = one->bytes();
        bool share = false;
        for (const uintptr_t byte : other->bytes()) share = share || bytes.count(byte) != 0;
        const Overlap answer = between(*one, *other);
        ASSERT_TRUE(!share || answer != Overlap::kNone) << "case " << i;
        apart += share ? 0 : 1;
        proved += answer == Overlap::kNone ? 1 : 0;
    }
    EXPECT_GT(proved, apart / 2);
}

}  // namespace
