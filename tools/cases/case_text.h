// SPDX-License-Identifier: Apache-2.0
// Putting cases into words, and what the case lists share.
#pragma once

#include <attile/attile.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "test_element.h"
#include "test_random.h"
#include "test_tensor.h"

namespace attile::test {

/// "name=value" after "name=value"; values that are the default are left out.
class Words {
  public:
    template <class T>
    Words &add(const char *name, const T &value) {
        out_ << (empty_ ? "" : " ") << name << "=" << value;
        empty_ = false;
        return *this;
    }
    template <class T>
    Words &add_unless(const char *name, const T &value, const T &usual) {
        return value == usual ? *this : add(name, value);
    }
    Words &add_layout(const char *name, const Layout &layout) { return add_unless(name, describe(layout), std::string("dense")); }
    std::string text() const { return out_.str(); }

  private:
    std::ostringstream out_;
    bool empty_ = true;
};

inline std::string shape_text(const std::vector<std::int64_t> &shape) {
    std::string text;
    for (const std::int64_t extent : shape) text += (text.empty() ? "" : "x") + std::to_string(extent);
    return text.empty() ? "-" : text;
}

/// An input and output type that go together.
struct TypePair {
    std::int32_t in, out;
};

inline constexpr TypePair kTypePairs[] = {{ATTILE_F32, ATTILE_F32}, {ATTILE_F64, ATTILE_F64},   {ATTILE_F16, ATTILE_F16},
                                          {ATTILE_F16, ATTILE_F32}, {ATTILE_BF16, ATTILE_BF16}, {ATTILE_BF16, ATTILE_F32}};

inline std::string pair_name(TypePair pair) {
    return pair.in == pair.out ? dtype_name(pair.in) : std::string(dtype_name(pair.in)) + "_" + dtype_name(pair.out);
}

/// Puts the cases of `list` from `first` on that are of `types` there once more, with these flags: "gemm.batch.f32" as
/// "gemm.<name>.batch.f32". `Problem` is theirs.
template <class Problem, class Case>
void add_again(std::vector<Case> &list, std::size_t first, TypePair types, const char *name, std::uint32_t flags) {
    const std::size_t end = list.size();
    for (std::size_t i = first; i < end; ++i) {
        Case again = list[i];
        Problem &problem = std::get<Problem>(again.problem);
        if (problem.dtype != types.in || problem.out_dtype != types.out || problem.flags != 0) continue;
        problem.flags = flags;
        again.id.insert(again.id.find('.') + 1, std::string(name) + ".");
        list.push_back(std::move(again));
    }
}

inline TypePair random_types(Random &random) { return random.chance(0.5) ? kTypePairs[0] : kTypePairs[random.between(0, 5)]; }

/// Any layout an operand may have; inputs may be broadcast besides.
inline Layout random_layout(Random &random, int rank, bool input) {
    Layout layout;
    if (random.chance(0.4)) return layout;
    layout.order = random.pick({Order::kRowMajor, Order::kRowMajor, Order::kHeadsInside, Order::kFortran});
    if (random.chance(0.4)) layout.pad = static_cast<std::uint8_t>(random.between(1, 7));
    if (random.chance(0.15)) layout.step = static_cast<std::uint8_t>(random.between(2, 3));
    if (random.chance(0.4)) layout.offset = static_cast<std::uint8_t>(random.between(1, 5));
    if (random.chance(0.15)) layout.reversed = static_cast<std::uint8_t>(random.between(1, (1 << rank) - 1));
    if (input && random.chance(0.1)) layout.broadcast = static_cast<std::uint8_t>(1 << random.between(0, rank - 1));
    layout.absurd_unit_stride = random.chance(0.2);
    return layout;
}

}  // namespace attile::test
