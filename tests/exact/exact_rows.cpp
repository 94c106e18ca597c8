// SPDX-License-Identifier: Apache-2.0
#include "exact_rows.h"

#include <cmath>
#include <limits>
#include <utility>

#include "test_element.h"
#include "test_random.h"

namespace attile::test {
namespace {

using Numbers = ExactNumbers;

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

// rows x length numbers of a type, in memory as the problem says; what lies between is NaN.
struct Memory {
    std::vector<unsigned char> bytes;
    attile_tensor tensor{};
    int64_t size;

    Memory(const ExactRows &p, int32_t dtype, int64_t rows, int64_t length) : size(element_bytes(dtype)) {
        bytes.assign(static_cast<size_t>(rows * length * p.step * size), 0xff);
        tensor.data = bytes.data();
        tensor.dtype = dtype;
        tensor.rank = 2;
        tensor.shape[0] = rows;
        tensor.shape[1] = length;
        tensor.stride[0] = p.step * (p.by_columns ? 1 : length);
        tensor.stride[1] = p.step * (p.by_columns ? rows : 1);
    }
    unsigned char *at(int64_t row, int64_t i) { return bytes.data() + (row * tensor.stride[0] + i * tensor.stride[1]) * size; }
    void set(int64_t row, int64_t i, double value) { encode(tensor.dtype, round_to(tensor.dtype, value), at(row, i)); }
    void append_to(std::vector<unsigned char> *result) {
        for (int64_t row = 0; row < tensor.shape[0]; ++row)
            for (int64_t i = 0; i < tensor.shape[1]; ++i) result->insert(result->end(), at(row, i), at(row, i) + size);
    }
    // As [1, 1, rows, length], or without the last axis.
    attile_tensor as_result(bool has_columns) const {
        attile_tensor wide = tensor;
        wide.rank = has_columns ? 4 : 3;
        wide.shape[0] = wide.shape[1] = 1;
        wide.stride[0] = wide.stride[1] = 0;
        wide.shape[2] = tensor.shape[0];
        wide.stride[2] = tensor.stride[0];
        wide.shape[3] = has_columns ? tensor.shape[1] : 0;
        wide.stride[3] = has_columns ? tensor.stride[1] : 0;
        return wide;
    }
};

// 2^exponent, the last bit of the type's least number.
int last_bit(int32_t dtype) { return dtype == ATTILE_F64 ? -1074 : precision_of(dtype).min_exponent - precision_of(dtype).mantissa_bits; }

void fill_row(const ExactRows &p, Random &random, Memory *x, int64_t row) {
    const int32_t dtype = x->tensor.dtype;
    const int64_t length = x->tensor.shape[1];
    const bool is_wide = dtype == ATTILE_F64, is_half = dtype == ATTILE_F16;
    for (int64_t i = 0; i < length; ++i) {
        double value = exact_number(random, p.numbers, is_wide);
        if (is_half && p.numbers == Numbers::kSpread) value = spread_number(random, -14, 14);
        if (p.numbers == Numbers::kSubnormal) value = std::ldexp(static_cast<double>(random.between(-60, 60)), last_bit(dtype));
        if (p.numbers == Numbers::kLarge) value = random.normal() * (is_wide ? 0x1p1022 : is_half ? 3e4 : 0x1p126);
        if (p.numbers == Numbers::kZeroLines) value = row % 2 == 0 ? random.chance(0.5) ? 0.0 : -0.0 : value;
        if (p.numbers == Numbers::kTies) {
            // 1 + last bit + half of it + or - the least number, alone or among zeros.
            const int digits = precision_of(dtype).mantissa_bits;
            const double values[] = {1 + static_cast<double>(row % 2) * std::ldexp(1, -digits), std::ldexp(1, -digits - 1),
                                     std::ldexp(static_cast<double>(row % 3 - 1), last_bit(dtype))};
            value = i < 3 ? values[i] : 0;
        }
        x->set(row, i, value);
    }
    if (p.numbers == Numbers::kCancelling) {
        for (int64_t i = 0; i + 1 < length; i += 2) {
            const double value = is_half ? spread_number(random, -9, 9) : spread_number(random, -60, 60);
            x->set(row, i, value);
            x->set(row, i + 1, -value);
        }
        if (length % 2 == 1) x->set(row, length - 1, std::ldexp(static_cast<double>(row % 3 - 1), last_bit(dtype)));
    }
    if (p.numbers == Numbers::kSpecial && length > 0) {
        const double special[] = {kInfinity, -kInfinity, kNan, -kInfinity, 0.0, -0.0};
        for (int64_t i = 0; i < length; ++i) {
            if (row % 7 == 1 || random.chance(0.1)) x->set(row, i, row % 7 == 1 ? -kInfinity : special[random.between(0, 5)]);
        }
    }
}

int32_t run_merge(attile_context *context, const ExactRows &p, std::vector<unsigned char> *result) {
    const int32_t lse_type = p.dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32;
    Random random(p.seed);
    std::vector<Memory> memory;
    memory.reserve(static_cast<size_t>(2 * p.length));
    std::vector<attile_tensor> o_parts, lse_parts;
    for (int64_t part = 0; part < p.length; ++part) {
        Memory &o = memory.emplace_back(p, p.dtype, p.rows, p.columns);
        for (int64_t row = 0; row < p.rows; ++row) fill_row(p, random, &o, row);
        o_parts.push_back(o.as_result(true));
        Memory &lse = memory.emplace_back(p, lse_type, p.rows, 1);
        for (int64_t row = 0; row < p.rows; ++row) {
            const double value = random.normal() * random.pick({1.0, 30.0, 400.0});
            // Parts without keys; where pairs of numbers are to cancel, weights are alike.
            lse.set(row, 0, p.numbers == Numbers::kCancelling ? 0.25 : random.chance(0.15) ? -kInfinity : value);
        }
        lse_parts.push_back(lse.as_result(false));
    }
    Memory o(p, p.out_dtype, p.rows, p.columns), lse(p, lse_type, p.rows, 1);
    attile_attention_merge_args args;
    attile_attention_merge_init(&args, sizeof args);
    args.flags = ATTILE_FLAG_EXACT_PRODUCTS;
    args.o_parts = o_parts.data();
    args.lse_parts = lse_parts.data();
    args.parts = p.length;
    args.o = o.as_result(true);
    args.lse = lse.as_result(false);
    const int32_t status = attile_attention_merge(context, &args);
    o.append_to(result);
    lse.append_to(result);
    return status;
}

// Of a tensor of rows x columns for `entries` entries of `heads` heads.
attile_tensor by_heads(const Memory &x, int64_t entries, int64_t heads) {
    attile_tensor wide = x.tensor;
    const int64_t rows = x.tensor.shape[0] / (entries * heads);
    const int64_t shape[] = {entries, heads, rows, x.tensor.shape[1]}, row = x.tensor.stride[0];
    const int64_t stride[] = {heads * rows * row, rows * row, row, x.tensor.stride[1]};
    wide.rank = 4;
    for (int axis = 0; axis < 4; ++axis) {
        wide.shape[axis] = shape[axis];
        wide.stride[axis] = stride[axis];
    }
    return wide;
}

int32_t run_attention(attile_context *context, const ExactRows &p, std::vector<unsigned char> *result) {
    constexpr int64_t kEntries = 2, kHeads = 4, kKeyHeads = 2;
    Random random(p.seed);
    const auto filled = [&](int64_t rows, int64_t columns) {
        Memory x(p, p.dtype, rows, columns);
        for (int64_t row = 0; row < rows; ++row) fill_row(p, random, &x, row);
        return x;
    };
    Memory q = filled(kEntries * kHeads * p.rows, p.columns + 5), k = filled(kEntries * kKeyHeads * p.length, p.columns + 5);
    Memory v = filled(kEntries * kKeyHeads * p.length, p.columns), bias(p, p.dtype, kHeads * p.rows, p.length);
    Memory slopes(p, p.dtype, 1, kHeads), sinks(p, p.dtype, 1, kHeads);
    for (int64_t h = 0; h < kHeads; ++h) {
        slopes.set(0, h, 0.3 * random.uniform());
        sinks.set(0, h, random.normal());
        for (int64_t i = 0; i < p.rows; ++i)
            for (int64_t j = 0; j < p.length; ++j) bias.set(h * p.rows + i, j, random.chance(0.1) ? -kInfinity : 3 * random.normal());
    }
    Memory o(p, p.out_dtype, kEntries * kHeads * p.rows, p.columns), lse(p, p.dtype, kEntries * kHeads * p.rows, 1);
    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    args.flags = ATTILE_FLAG_EXACT_PRODUCTS;
    args.q = by_heads(q, kEntries, kHeads);
    args.k = by_heads(k, kEntries, kKeyHeads);
    args.v = by_heads(v, kEntries, kKeyHeads);
    args.o = by_heads(o, kEntries, kHeads);
    args.lse = by_heads(lse, kEntries, kHeads);
    args.lse.rank = 3;
    args.lse.shape[3] = args.lse.stride[3] = 0;
    if (p.with_all) {
        args.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        args.scale = 0.7;
        args.bias = by_heads(bias, 1, kHeads);
        for (const auto &[tensor, numbers] : {std::pair{&args.alibi_slopes, &slopes}, {&args.sinks, &sinks}}) {
            *tensor = numbers->tensor;
            tensor->rank = 1;
            tensor->shape[0] = kHeads;
            tensor->stride[0] = numbers->tensor.stride[1];
            tensor->shape[1] = tensor->stride[1] = 0;
        }
    }
    const int32_t status = attile_attention(context, &args);
    o.append_to(result);
    lse.append_to(result);
    return status;
}

int32_t run_row(attile_context *context, const ExactRows &p, std::vector<unsigned char> *result) {
    Random random(p.seed);
    Memory x(p, p.dtype, p.rows, p.length);
    for (int64_t row = 0; row < p.rows; ++row) fill_row(p, random, &x, row);
    const bool is_reduce = p.operation == ExactOperation::kReduce;
    Memory y(p, p.out_dtype, p.rows, is_reduce ? 1 : p.length);
    int32_t status = ATTILE_OK;
    if (is_reduce) {
        attile_reduce_args args;
        attile_reduce_init(&args, sizeof args);
        args.flags = ATTILE_FLAG_EXACT_PRODUCTS;
        args.x = x.tensor;
        args.y = y.tensor;
        args.op = p.reduction;
        args.axis = 1;
        status = attile_reduce(context, &args);
    } else {
        attile_softmax_args args;
        attile_softmax_init(&args, sizeof args);
        args.flags = ATTILE_FLAG_EXACT_PRODUCTS;
        args.x = x.tensor;
        args.y = y.tensor;
        args.axis = 1;
        status = attile_softmax(context, &args);
    }
    y.append_to(result);
    return status;
}

const std::pair<Numbers, const char *> kNumbers[] = {
    {Numbers::kNormal, "normal"},          {Numbers::kPositive, "positive"},     {Numbers::kSpread, "spread"},
    {Numbers::kSomeSpread, "some_spread"}, {Numbers::kCancelling, "cancelling"}, {Numbers::kTies, "ties"},
    {Numbers::kIntegers, "integers"},      {Numbers::kSubnormal, "subnormal"},   {Numbers::kLarge, "large"},
    {Numbers::kSpecial, "special"},        {Numbers::kZeroLines, "zero_lines"}};

struct Types {
    int32_t in, out;
};
constexpr Types kTypes[] = {{ATTILE_F64, ATTILE_F64}, {ATTILE_F32, ATTILE_F32}, {ATTILE_F16, ATTILE_F16}, {ATTILE_BF16, ATTILE_F32}};
constexpr Types kMergeTypes[] = {{ATTILE_F64, ATTILE_F64}, {ATTILE_F32, ATTILE_F32}, {ATTILE_BF16, ATTILE_BF16}, {ATTILE_F64, ATTILE_F16}};

ExactRows of(ExactOperation operation, Types types, int64_t rows, int64_t length, Numbers numbers, const std::string &name) {
    static constexpr const char *kOperations[] = {"reduce", "softmax", "merge", "attention"};
    const std::string type = dtype_name(types.in) + std::string(types.in == types.out ? "" : std::string("_") + dtype_name(types.out));
    return {std::string(kOperations[static_cast<int>(operation)]) + "." + type + "." + name,
            operation,
            ATTILE_REDUCE_SUM,
            types.in,
            types.out,
            rows,
            length,
            operation == ExactOperation::kMerge || operation == ExactOperation::kAttention ? 19 : 1,
            numbers,
            static_cast<uint64_t>(rows * 1000003 + length),
            false,
            1,
            false};
}

}  // namespace

std::vector<ExactRows> exact_rows() {
    std::vector<ExactRows> list;
    for (const ExactOperation operation : {ExactOperation::kReduce, ExactOperation::kSoftmax}) {
        for (const Types types : kTypes) {
            for (const auto &[numbers, name] : kNumbers) list.push_back(of(operation, types, 23, 91, numbers, name));
            ExactRows p = of(operation, types, 70, 33, Numbers::kSomeSpread, "by_columns");
            p.by_columns = true;
            list.push_back(p);
            p = of(operation, types, 9, 130, Numbers::kNormal, "every_third");
            p.step = 3;
            list.push_back(p);
            list.push_back(of(operation, types, 3, 5001, Numbers::kSomeSpread, "long"));
            list.push_back(of(operation, types, 5, 1, Numbers::kNormal, "one"));
        }
    }
    list.push_back(of(ExactOperation::kReduce, kTypes[0], 1, 200003, Numbers::kSpread, "longer"));
    list.push_back(of(ExactOperation::kReduce, kTypes[1], 1, 200003, Numbers::kNormal, "longer"));
    for (const Types types : kTypes) {
        ExactRows p = of(ExactOperation::kReduce, types, 4, 0, Numbers::kNormal, "nothing");
        list.push_back(p);
        for (const auto &[reduction, name] :
             {std::pair{ATTILE_REDUCE_MAX, "max"}, {ATTILE_REDUCE_MIN, "min"}, {ATTILE_REDUCE_MEAN, "mean"}}) {
            for (const Numbers numbers : {Numbers::kSpread, Numbers::kSpecial, Numbers::kZeroLines}) {
                p = of(ExactOperation::kReduce, types, 21, 77, numbers, name + std::to_string(static_cast<int>(numbers)));
                p.reduction = reduction;
                list.push_back(p);
            }
        }
    }
    for (const Types types : kMergeTypes) {
        for (const auto &[numbers, name] : kNumbers) list.push_back(of(ExactOperation::kMerge, types, 12, 6, numbers, name));
        list.push_back(of(ExactOperation::kMerge, types, 5, 1, Numbers::kNormal, "one_part"));
        list.push_back(of(ExactOperation::kMerge, types, 5, 67, Numbers::kSomeSpread, "67_parts"));
        ExactRows p = of(ExactOperation::kMerge, types, 9, 3, Numbers::kNormal, "by_columns");
        p.by_columns = true;
        list.push_back(p);
    }
    for (const Types types : {kTypes[0], kTypes[1]}) {
        for (const auto &[numbers, name] : kNumbers) {
            ExactRows p = of(ExactOperation::kAttention, types, 5, 37, numbers, name);
            list.push_back(p);
            p.name += "_all";
            p.with_all = true;
            p.by_columns = numbers == Numbers::kNormal;
            list.push_back(p);
        }
        list.push_back(of(ExactOperation::kAttention, types, 2, 700, Numbers::kNormal, "700_keys"));
        list.push_back(of(ExactOperation::kAttention, types, 3, 0, Numbers::kNormal, "no_keys"));
    }
    return list;
}

ExactRows random_exact_rows(uint64_t seed) {
    Random random(seed * 2 + 1);
    const auto operation =
        random.pick({ExactOperation::kReduce, ExactOperation::kSoftmax, ExactOperation::kMerge, ExactOperation::kAttention});
    const bool merges = operation == ExactOperation::kMerge, attends = operation == ExactOperation::kAttention;
    const auto &[numbers, name] = kNumbers[random.between(0, 10)];
    const Types types = (merges ? kMergeTypes : kTypes)[random.between(0, attends ? 1 : 3)];
    ExactRows p = of(operation, types, attends ? random.between(1, 9) : random.pick<int64_t>({1, 2, 5, 33, 70}),
                     attends  ? random.between(0, 70)
                     : merges ? random.pick<int64_t>({1, 2, 3, 8, 40})
                              : random.pick<int64_t>({1, 2, 7, 64, 65, 520, 2100}),
                     numbers, "random." + std::to_string(seed) + "." + name);
    p.reduction = static_cast<int32_t>(random.between(ATTILE_REDUCE_SUM, ATTILE_REDUCE_MEAN));
    p.columns = merges || attends ? random.pick<int64_t>({1, 8, 17, 64}) : 1;
    p.with_all = random.chance(0.5);
    p.seed = seed;
    p.by_columns = random.chance(0.4);
    p.step = random.pick<int64_t>({1, 1, 1, 2});
    return p;
}

std::vector<unsigned char> run_exact(attile_context *context, const ExactRows &p, std::string *why) {
    why->clear();
    std::vector<unsigned char> result;
    const auto run = p.operation == ExactOperation::kMerge       ? run_merge
                     : p.operation == ExactOperation::kAttention ? run_attention
                                                                 : run_row;
    const int32_t status = run(context, p, &result);
    if (status == ATTILE_OK) return result;
    char text[512];
    attile_last_error(text, sizeof text);
    *why = text;
    return {};
}

}  // namespace attile::test
