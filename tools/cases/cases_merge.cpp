// SPDX-License-Identifier: Apache-2.0
// Cases of merging partial attention results.
#include "cases_merge.h"

#include <iterator>

#include "case_text.h"
#include "cases.h"

namespace attile::test {
namespace {

constexpr TypePair kMergeTypes[] = {{ATTILE_F32, ATTILE_F32},   {ATTILE_F64, ATTILE_F64},  {ATTILE_F16, ATTILE_F16},
                                    {ATTILE_BF16, ATTILE_BF16}, {ATTILE_F32, ATTILE_BF16}, {ATTILE_F32, ATTILE_F16},
                                    {ATTILE_F64, ATTILE_F32},   {ATTILE_F64, ATTILE_F16},  {ATTILE_F64, ATTILE_BF16}};

void add(std::vector<Case> &list, const char *name, TypePair types, MergeCase c) {
    c.dtype = types.in;
    c.out_dtype = types.out;
    list.push_back({"attention_merge." + std::string(name) + "." + pair_name(types), c});
}

}  // namespace

void append_merge_cases(std::vector<Case> &list, Tier tier) {
    for (const TypePair types : kMergeTypes) {
        add(list, "two_parts", types, {});
        add(list, "one_part", types, {.parts = 1});
        add(list, "seventeen_parts", types, {.len = 33, .head_dim_v = 64, .parts = 17});
        add(list, "far_apart", types, {.parts = 5, .spread = 500});
        add(list, "some_empty", types, {.parts = 3, .empty_share = 0.5});
        add(list, "all_empty", types, {.parts = 3, .empty_share = 1});
        add(list, "nan_in_one_part", types, {.parts = 1, .nan_share = 0.3});
        add(list, "nan_in_three_parts", types, {.parts = 3, .empty_share = 0.3, .nan_share = 0.3});
        add(list, "no_lse", types, {.parts = 4, .empty_share = 0.3, .lse = false});
        add(list, "long", types, {.batch = 1, .heads = 2, .len = 257, .head_dim_v = 40, .parts = 4});
        if (types.in == types.out)
            for (const std::int32_t part : {0, 2})
                add(list, part == 0 ? "over_the_first" : "over_the_last", types, {.parts = 3, .empty_share = 0.2, .in_place = part});
        add(list, "heads_inside", types,
            {.part_layout = {.order = Order::kHeadsInside}, .o_layout = {.order = Order::kHeadsInside, .pad = 3}});
        add(list, "odd_strides", types,
            {.head_dim_v = 11, .part_layout = {.pad = 1, .step = 2, .offset = 1}, .o_layout = {.offset = 3, .reversed = 6}});
        add(list, "empty_len", types, {.len = 0});
    }
    const std::uint64_t count = tier == Tier::kQuick ? 15 : 100;
    for (std::uint64_t seed = 1; seed <= count; ++seed)
        list.push_back({"attention_merge.random." + std::to_string(seed), random_merge(seed)});
}

MergeCase random_merge(std::uint64_t seed) {
    Random random(seed * 8 + 2);
    MergeCase c;
    const TypePair types = random.chance(0.5) ? kMergeTypes[0] : kMergeTypes[random.between(0, std::ssize(kMergeTypes) - 1)];
    c.dtype = types.in;
    c.out_dtype = types.out;
    c.batch = random.pick<std::int64_t>({0, 1, 2, 3});
    c.heads = random.pick<std::int64_t>({1, 2, 5});
    c.len = random.pick<std::int64_t>({0, 1, 2, 5, 31, 33, 97});
    c.head_dim_v = random.pick<std::int64_t>({1, 8, 16, 40, 59, 64, 96, 111, 128, 192, 256});
    c.parts = random.pick<std::int64_t>({1, 2, 3, 4, 8, 33});
    c.spread = random.pick({1.0, 10.0, 100.0});
    c.empty_share = random.pick({0.0, 0.0, 0.3, 0.9});
    c.lse = random.chance(0.7);
    c.in_place = types.in == types.out && random.chance(0.3) ? static_cast<std::int32_t>(random.between(0, c.parts - 1)) : -1;
    c.part_layout = random_layout(random, 3, c.in_place < 0);
    c.o_layout = random_layout(random, 4, false);
    c.lse_layout = random_layout(random, 3, false);
    c.flags = random.chance(0.2) ? ATTILE_FLAG_BATCH_INVARIANT : 0;
    c.seed = seed;
    return c;
}

std::string describe(const MergeCase &c) {
    Words words;
    words.add("types", pair_name({c.dtype, c.out_dtype})).add("batch", c.batch).add("heads", c.heads).add("len", c.len);
    words.add("head_dim_v", c.head_dim_v).add("parts", c.parts).add("spread", c.spread).add_unless("empty_share", c.empty_share, 0.0);
    words.add_unless("nan_share", c.nan_share, 0.0);
    words.add_unless("lse", c.lse, true).add_unless("in_place", c.in_place, -1);
    words.add_layout("part", c.part_layout).add_layout("o", c.o_layout).add_layout("lse_layout", c.lse_layout);
    return words.add_unless("flags", c.flags, 0u).add("seed", c.seed).text();
}

}  // namespace attile::test
