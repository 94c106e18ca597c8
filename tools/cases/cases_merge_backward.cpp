// SPDX-License-Identifier: Apache-2.0
// Cases of the gradients of merging.
#include <iterator>

#include "case_text.h"
#include "cases.h"
#include "cases_merge.h"
#include "test_element.h"

namespace attile::test {
namespace {

// Of the parts, of o, of dout and of the parts' gradients.
struct GradientTypes {
    std::int32_t in, out, dout, grad;
};

constexpr std::int32_t kF32 = ATTILE_F32, kF64 = ATTILE_F64, kF16 = ATTILE_F16, kBf16 = ATTILE_BF16;
constexpr GradientTypes kAlike[] = {
    {kF32, kF32, kF32, kF32}, {kF64, kF64, kF64, kF64}, {kF16, kF16, kF16, kF16}, {kBf16, kBf16, kBf16, kBf16}};
constexpr GradientTypes kMixed[] = {{kF16, kF16, kF16, kF32},   {kBf16, kBf16, kBf16, kF32}, {kF64, kF64, kF64, kF32},
                                    {kF32, kBf16, kBf16, kF32}, {kF32, kBf16, kF32, kF32},   {kF32, kF16, kF16, kF32},
                                    {kF64, kF32, kF32, kF64},   {kF64, kF16, kF64, kF32},    {kF64, kBf16, kBf16, kF64}};

std::string name_of(GradientTypes types) {
    const std::string in = dtype_name(types.in);
    if (types.in == types.out && types.in == types.dout) return pair_name({types.in, types.grad});
    return in + "_" + dtype_name(types.out) + "_" + dtype_name(types.dout) + "_" + dtype_name(types.grad);
}

void give(MergeBackwardCase &c, GradientTypes types) {
    c.forward.dtype = types.in;
    c.forward.out_dtype = types.out;
    c.dout_dtype = types.dout;
    c.grad_dtype = types.grad;
}

void add(std::vector<Case> &list, const char *name, GradientTypes types, MergeBackwardCase c) {
    give(c, types);
    list.push_back({"attention_merge_backward." + std::string(name) + "." + name_of(types), c});
}

}  // namespace

void append_merge_backward_cases(std::vector<Case> &list, Tier tier) {
    for (const GradientTypes types : kAlike) {
        add(list, "one_part", types, {.forward = {.parts = 1}});
        add(list, "seventeen_parts", types, {.forward = {.len = 33, .head_dim_v = 64, .parts = 17}});
        add(list, "far_apart", types, {.forward = {.parts = 5, .spread = 500}});
        add(list, "all_empty", types, {.forward = {.parts = 3, .empty_share = 1}});
        add(list, "nan_in_one_part", types, {.forward = {.parts = 1, .nan_share = 0.3}});
        add(list, "nan_in_three_parts", types, {.forward = {.parts = 3, .empty_share = 0.3, .nan_share = 0.3}});
        add(list, "long", types, {.forward = {.batch = 1, .heads = 2, .len = 257, .head_dim_v = 40, .parts = 4}});
        add(list, "wide", types, {.forward = {.batch = 1, .heads = 2, .len = 3, .head_dim_v = 1100, .parts = 3, .empty_share = 0.2}});
        add(list, "no_columns", types, {.forward = {.head_dim_v = 0}});
        add(list, "empty_len", types, {.forward = {.len = 0}});
        constexpr Layout kHeadsInside = {.order = Order::kHeadsInside};
        add(list, "heads_inside", types,
            {.forward = {.part_layout = kHeadsInside, .o_layout = {.order = Order::kHeadsInside, .pad = 3}},
             .dout_layout = kHeadsInside,
             .grad_layout = kHeadsInside});
        add(list, "odd_strides", types,
            {.forward = {.head_dim_v = 11, .part_layout = {.pad = 1, .step = 2, .offset = 1}, .o_layout = {.offset = 3, .reversed = 6}},
             .dout_layout = {.step = 3, .reversed = 8},
             .grad_layout = {.pad = 2, .step = 2, .offset = 1}});
        add(list, "dout_broadcast", types, {.dout_layout = {.broadcast = 12}});
    }
    const auto add_plain = [&](GradientTypes types) {
        add(list, "two_parts", types, {});
        add(list, "some_empty", types, {.forward = {.parts = 3, .empty_share = 0.5}});
        add(list, "no_dlse", types, {.forward = {.len = 17, .head_dim_v = 96, .parts = 4, .empty_share = 0.3}, .dlse = false});
    };
    for (const GradientTypes types : kAlike) add_plain(types);
    for (const GradientTypes types : kMixed) add_plain(types);
    const std::uint64_t count = tier == Tier::kQuick ? 15 : 100;
    for (std::uint64_t seed = 1; seed <= count; ++seed)
        list.push_back({"attention_merge_backward.random." + std::to_string(seed), random_merge_backward(seed)});
}

MergeBackwardCase random_merge_backward(std::uint64_t seed) {
    Random random(seed * 8 + 7);
    MergeBackwardCase c;
    c.forward = random_merge(seed);
    c.forward.lse = true;
    c.forward.in_place = -1;
    if (random.chance(0.5)) {
        give(c, kAlike[0]);
    } else if (random.chance(0.4)) {
        give(c, kAlike[random.between(1, std::ssize(kAlike) - 1)]);
    } else {
        give(c, kMixed[random.between(0, std::ssize(kMixed) - 1)]);
    }
    c.dlse = random.chance(0.6);
    c.dout_layout = random_layout(random, 4, true);
    c.grad_layout = random_layout(random, 3, false);
    return c;
}

std::string describe(const MergeBackwardCase &c) {
    Words words;
    words.add("forward", "(" + describe(c.forward) + ")").add("dout", dtype_name(c.dout_dtype)).add("grad", dtype_name(c.grad_dtype));
    words.add_unless("dlse", c.dlse, true).add_layout("dout_layout", c.dout_layout).add_layout("grad_layout", c.grad_layout);
    return words.text();
}

}  // namespace attile::test
