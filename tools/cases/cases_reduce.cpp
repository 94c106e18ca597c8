// SPDX-License-Identifier: Apache-2.0
// Cases of reductions and softmax.
#include "cases_reduce.h"

#include "case_text.h"
#include "cases.h"

namespace attile::test {
namespace {

using Shape = std::vector<std::int64_t>;

constexpr const char *kPatternNames[] = {"normal",   "positive", "large",      "minus_infinity", "nan",
                                         "infinity", "spread",   "cancelling", "subnormal",      "zeros"};
constexpr const char *kOpNames[] = {"", "sum", "max", "min", "mean"};

struct Where {
    Shape shape;
    std::int32_t axis;
};

const std::vector<Where> &places() {
    static const std::vector<Where> list = {
        {{1}, 0},           {{7}, -1},        {{1025}, 0},        {{5, 33}, -1},       {{33, 5}, 0},       {{3, 4, 65}, 2},
        {{3, 65, 4}, 1},    {{65, 3, 4}, -3}, {{2, 3, 5, 31}, 3}, {{2, 3, 31, 5}, -2}, {{2, 31, 3, 5}, 1}, {{31, 2, 3, 5}, 0},
        {{2, 1, 4097}, -1}, {{0, 5}, 1},      {{5, 0}, 0},        {{1, 1, 1, 1}, 3},   {{300, 2}, -1}};
    return list;
}

// Sums of very many terms, in rows and in columns.
const std::vector<Where> &long_places() {
    static const std::vector<Where> list = {{{1, 300'001}, 1}, {{100'003, 3}, 0}};
    return list;
}

void random_places(Random &random, Shape &shape, std::int32_t &axis) {
    const int rank = static_cast<int>(random.between(1, 4));
    std::int64_t size = 1;
    for (int i = 0; i < rank; ++i) {
        const std::int64_t extent = random.pick<std::int64_t>({0, 1, 2, 3, 5, 9, 31, 32, 33, 63, 64, 65, 97, 1025});
        shape.push_back(size * extent > 200'000 ? 2 : extent);
        size *= shape.back();
    }
    axis = static_cast<std::int32_t>(random.between(-rank, rank - 1));
}

}  // namespace

void append_reduce_cases(std::vector<Case> &list, Tier tier) {
    for (const TypePair types : kTypePairs)
        for (std::int32_t op = ATTILE_REDUCE_SUM; op <= ATTILE_REDUCE_MEAN; ++op) {
            const auto add = [&](const std::string &name, ReduceCase c) {
                c.dtype = types.in;
                c.out_dtype = types.out;
                c.op = op;
                list.push_back({std::string("reduce.") + kOpNames[op] + "_" + name + "." + pair_name(types), c});
            };
            for (const Where &place : places())
                add(shape_text(place.shape) + "_axis" + std::to_string((place.axis + 4) % 4), {.shape = place.shape, .axis = place.axis});
            if (types.in == ATTILE_F32)
                for (const Where &place : long_places())
                    add("long_" + shape_text(place.shape), {.shape = place.shape, .axis = place.axis, .pattern = RowPattern::kPositive});
            add("over_nothing", {.shape = {3, 0}, .axis = 1});
            for (const RowPattern pattern : {RowPattern::kPositive, RowPattern::kMinusInfinity, RowPattern::kNan, RowPattern::kInfinity})
                add(kPatternNames[static_cast<int>(pattern)], {.shape = {9, 97}, .axis = 1, .pattern = pattern});
            add("strided",
                {.shape = {5, 9, 33}, .axis = 1, .x_layout = {.order = Order::kFortran, .pad = 3, .offset = 1}, .y_layout = {.step = 2}});
            add("reversed", {.shape = {5, 33}, .axis = 1, .x_layout = {.offset = 3, .reversed = 3}, .y_layout = {.reversed = 1}});
            add("stride_0", {.shape = {5, 33}, .axis = 1, .x_layout = {.broadcast = 2}});
            add("rows_of_stride_0", {.shape = {5, 33}, .axis = 1, .x_layout = {.broadcast = 1}});
        }
    const std::uint64_t count = tier == Tier::kQuick ? 20 : 150;
    for (std::uint64_t seed = 1; seed <= count; ++seed) list.push_back({"reduce.random." + std::to_string(seed), random_reduce(seed)});
}

void append_softmax_cases(std::vector<Case> &list, Tier tier) {
    for (const TypePair types : kTypePairs) {
        const auto add = [&](const std::string &name, SoftmaxCase c) {
            c.dtype = types.in;
            c.out_dtype = types.out;
            list.push_back({"softmax." + name + "." + pair_name(types), c});
        };
        for (const Where &place : places())
            add(shape_text(place.shape) + "_axis" + std::to_string((place.axis + 4) % 4), {.shape = place.shape, .axis = place.axis});
        for (const RowPattern pattern :
             {RowPattern::kPositive, RowPattern::kLarge, RowPattern::kMinusInfinity, RowPattern::kNan, RowPattern::kInfinity})
            add(kPatternNames[static_cast<int>(pattern)], {.shape = {9, 97}, .axis = 1, .pattern = pattern});
        if (types.in == ATTILE_F32)
            for (const Where &place : long_places()) add("long_" + shape_text(place.shape), {.shape = place.shape, .axis = place.axis});
        // Rows whose ends are no vectors' ends, with vectors of x and y at the same places and at others; columns of many rows and of few.
        for (const std::int64_t length : {9, 257, 1001, 8193})
            for (const std::uint8_t offset : {1, 2})
                if (offset == 1 || length > 1000)
                    add("ends_" + std::to_string(length) + (offset == 1 ? "" : "_apart"),
                        {.shape = {3, length}, .axis = 1, .x_layout = {.offset = 1}, .y_layout = {.offset = offset}});
        if (types.in == ATTILE_BF16)
            add("ends_33001", {.shape = {2, 33001}, .axis = 1, .x_layout = {.offset = 1}, .y_layout = {.offset = 1}});
        for (const Shape &shape : {Shape{1100, 35}, Shape{1100, 40}, Shape{14, 601}, Shape{1, 601}})
            add("columns_" + shape_text(shape), {.shape = shape, .axis = static_cast<std::int32_t>(shape.size()) - 2});
        if (types.in == types.out)
            for (const std::int32_t axis : {0, 1, 2})
                add("in_place_axis" + std::to_string(axis),
                    {.shape = {5, 9, 33}, .axis = axis, .in_place = true, .x_layout = {.pad = 3, .offset = 1}});
        add("strided",
            {.shape = {5, 9, 33}, .axis = 1, .x_layout = {.order = Order::kFortran, .pad = 3, .offset = 1}, .y_layout = {.step = 2}});
        add("reversed", {.shape = {5, 33}, .axis = 1, .x_layout = {.offset = 3, .reversed = 3}, .y_layout = {.reversed = 1}});
        add("stride_0", {.shape = {5, 33}, .axis = 1, .x_layout = {.broadcast = 3}});
    }
    const std::uint64_t count = tier == Tier::kQuick ? 20 : 150;
    for (std::uint64_t seed = 1; seed <= count; ++seed) list.push_back({"softmax.random." + std::to_string(seed), random_softmax(seed)});
}

ReduceCase random_reduce(std::uint64_t seed) {
    Random random(seed * 8 + 3);
    ReduceCase c;
    const TypePair types = random_types(random);
    c.dtype = types.in;
    c.out_dtype = types.out;
    random_places(random, c.shape, c.axis);
    c.op = static_cast<std::int32_t>(random.between(1, 4));
    c.pattern = random.pick({RowPattern::kNormal, RowPattern::kNormal, RowPattern::kPositive, RowPattern::kLarge, RowPattern::kNan});
    c.x_layout = random_layout(random, static_cast<int>(c.shape.size()), true);
    c.y_layout = random_layout(random, static_cast<int>(c.shape.size()), false);
    c.flags = random.chance(0.2) ? ATTILE_FLAG_BATCH_INVARIANT : 0;
    c.seed = seed;
    return c;
}

SoftmaxCase random_softmax(std::uint64_t seed) {
    Random random(seed * 8 + 4);
    SoftmaxCase c;
    const TypePair types = random_types(random);
    c.dtype = types.in;
    c.out_dtype = types.out;
    random_places(random, c.shape, c.axis);
    c.pattern = random.pick({RowPattern::kNormal, RowPattern::kNormal, RowPattern::kLarge, RowPattern::kMinusInfinity});
    c.in_place = types.in == types.out && random.chance(0.3);
    c.x_layout = random_layout(random, static_cast<int>(c.shape.size()), !c.in_place);
    c.y_layout = random_layout(random, static_cast<int>(c.shape.size()), false);
    c.flags = random.chance(0.2) ? ATTILE_FLAG_BATCH_INVARIANT : 0;
    c.seed = seed;
    return c;
}

std::string describe(const ReduceCase &c) {
    Words words;
    words.add("types", pair_name({c.dtype, c.out_dtype})).add("op", kOpNames[c.op]).add("shape", shape_text(c.shape)).add("axis", c.axis);
    words.add("pattern", kPatternNames[static_cast<int>(c.pattern)]).add_layout("x", c.x_layout).add_layout("y", c.y_layout);
    return words.add_unless("flags", c.flags, 0u).add("seed", c.seed).text();
}

std::string describe(const SoftmaxCase &c) {
    Words words;
    words.add("types", pair_name({c.dtype, c.out_dtype})).add("shape", shape_text(c.shape)).add("axis", c.axis);
    words.add("pattern", kPatternNames[static_cast<int>(c.pattern)]).add_unless("in_place", c.in_place, false);
    words.add_layout("x", c.x_layout).add_layout("y", c.y_layout);
    return words.add_unless("flags", c.flags, 0u).add("seed", c.seed).text();
}

}  // namespace attile::test
