// SPDX-License-Identifier: Apache-2.0
// reduce and softmax on the device, by every kernel and width that their plans choose from, against double precision on the host.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "cuda_test_context.h"
#include "row_reference.h"

namespace attile::test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> random_floats(std::size_t count, unsigned seed) {
    std::mt19937 engine(seed);
    std::uniform_real_distribution<float> draw(-3, 3);
    std::vector<float> values(count);
    for (float &value : values) value = draw(engine);
    return values;
}

// x of shape [outer, length, inner], the middle axis reduced: inner = 1 is by rows, else by columns. `pad` elements lie between outer
// slices.
struct Shape {
    int64_t outer, length, inner, pad, offset;
};

void PrintTo(const Shape &s, std::ostream *out) {
    *out << s.outer << "x" << s.length << "x" << s.inner << " pad " << s.pad << " offset " << s.offset;
}

const Shape kShapes[] = {
    {1, 1, 1, 0, 0},     {7, 3, 1, 0, 0},     {1000, 16, 1, 0, 0},   {1000, 16, 1, 1, 0},   {333, 64, 1, 0, 1},    {50, 97, 1, 0, 0},
    {50, 1000, 1, 0, 0}, {50, 1024, 1, 8, 0}, {9, 2047, 1, 0, 0},    {9, 4096, 1, 0, 0},    {5, 8193, 1, 3, 1},    {5, 16384, 1, 0, 0},
    {3, 16388, 1, 0, 0}, {3, 40001, 1, 0, 0}, {2, 1 << 20, 1, 0, 0}, {1, 3000001, 1, 0, 0}, {1, 5, 3, 0, 0},       {3, 100, 4, 0, 0},
    {2, 257, 31, 1, 0},  {2, 64, 1024, 0, 0}, {1, 5000, 33, 0, 1},   {1, 100000, 8, 0, 0},  {4, 3, 5000, 0, 0},    {1, 2000, 2048, 0, 0},
    {70000, 5, 1, 0, 0}, {65537, 2, 3, 0, 0}, {1, 1, 4099, 0, 0},    {600, 1, 1, 2, 0},     {520, 33000, 1, 4, 0}, {520, 65536, 1, 0, 0},
};

struct Buffers {
    int64_t outer_stride;
    std::vector<float> x;
};

Buffers make(const Shape &s, unsigned seed) {
    Buffers buffers;
    buffers.outer_stride = s.length * s.inner + s.pad;
    buffers.x = random_floats(static_cast<std::size_t>(s.outer * buffers.outer_stride + s.offset), seed);
    return buffers;
}

attile_tensor tensor_of(void *data, int32_t dtype, const Shape &s, int64_t length, int64_t outer_stride) {
    attile_tensor tensor = {};
    tensor.data = data;
    tensor.dtype = dtype;
    tensor.rank = 3;
    tensor.shape[0] = s.outer;
    tensor.shape[1] = length;
    tensor.shape[2] = s.inner;
    tensor.stride[0] = outer_stride;
    tensor.stride[1] = s.inner;
    tensor.stride[2] = 1;
    return tensor;
}

class CudaRows : public CudaTest, public testing::WithParamInterface<Shape> {};

TEST_P(CudaRows, Reduce) {
    const Shape s = GetParam();
    const Buffers buffers = make(s, 11);
    Array<float> x(context, ATTILE_MEMORY_DEVICE, buffers.x);
    for (const int32_t op : {ATTILE_REDUCE_SUM, ATTILE_REDUCE_MAX, ATTILE_REDUCE_MIN, ATTILE_REDUCE_MEAN}) {
        for (const uint32_t flags : {0u, ATTILE_FLAG_BATCH_INVARIANT}) {
            Array<float> y(context, ATTILE_MEMORY_DEVICE, std::vector<float>(static_cast<std::size_t>(s.outer * s.inner), kNaN));
            attile_reduce_args args;
            attile_reduce_init(&args, sizeof args);
            args.flags = flags;
            args.x = tensor_of(x.data() + s.offset, ATTILE_F32, s, s.length, buffers.outer_stride);
            args.y = tensor_of(y.data(), ATTILE_F32, s, 1, s.inner);
            args.op = op;
            args.axis = 1;
            ASSERT_EQ(attile_reduce(context, &args), ATTILE_OK) << last_error();
            const std::vector<float> got = y.fetch();
            for (int64_t o = 0; o < s.outer; ++o)
                for (int64_t i = 0; i < s.inner; ++i) {
                    const ReducedRow want = reduced_row(s.length, op, [&](int64_t r) {
                        return buffers.x[static_cast<std::size_t>(s.offset + o * buffers.outer_stride + r * s.inner + i)];
                    });
                    const double allowed = 1e-6 * want.magnitude;
                    const double error = std::fabs(got[static_cast<std::size_t>(o * s.inner + i)] - want.value);
                    ASSERT_TRUE(error <= allowed) << "op " << op << " flags " << flags << " at " << o << "," << i << " error " << error;
                }
        }
    }
}

TEST_P(CudaRows, Softmax) {
    const Shape s = GetParam();
    Buffers buffers = make(s, 12);
    for (std::size_t i = 0; i < buffers.x.size(); i += 5) buffers.x[i] = -kInfinity;
    Array<float> x(context, ATTILE_MEMORY_DEVICE, buffers.x);
    for (const uint32_t flags : {0u, ATTILE_FLAG_BATCH_INVARIANT}) {
        const std::size_t count = static_cast<std::size_t>(s.outer * s.length * s.inner);
        Array<float> y(context, ATTILE_MEMORY_DEVICE, std::vector<float>(count, kNaN));
        attile_softmax_args args;
        attile_softmax_init(&args, sizeof args);
        args.flags = flags;
        args.x = tensor_of(x.data() + s.offset, ATTILE_F32, s, s.length, buffers.outer_stride);
        args.y = tensor_of(y.data(), ATTILE_F32, s, s.length, s.length * s.inner);
        args.axis = 1;
        ASSERT_EQ(attile_softmax(context, &args), ATTILE_OK) << last_error();
        const std::vector<float> got = y.fetch();
        for (int64_t o = 0; o < s.outer; ++o)
            for (int64_t i = 0; i < s.inner; ++i) {
                const std::vector<double> wanted = softmax_row(s.length, [&](int64_t r) {
                    return buffers.x[static_cast<std::size_t>(s.offset + o * buffers.outer_stride + r * s.inner + i)];
                });
                for (int64_t r = 0; r < s.length; ++r) {
                    const double want = wanted[static_cast<std::size_t>(r)];
                    const double error = std::fabs(got[static_cast<std::size_t>((o * s.length + r) * s.inner + i)] - want);
                    ASSERT_TRUE(error <= 2e-6 * want) << "flags " << flags << " at " << o << "," << r << "," << i << " error " << error;
                }
            }
    }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaRows, testing::ValuesIn(kShapes));

// A row of specials at every place of rows that each kernel takes.
TEST_F(CudaTest, SpecialsSpreadOverTheirRowAlone) {
    const struct { int64_t rows, length; } shapes[] = {{3, 5}, {3, 100}, {3, 4000}, {3, 20000}, {520, 40000}, {3, 300000}};
    for (const auto [rows, length] : shapes) {
        for (const float special : {kNaN, kInfinity}) {
            std::vector<float> values = random_floats(static_cast<std::size_t>(rows * length), 5);
            values[static_cast<std::size_t>(length + length / 2)] = special;
            Array<float> x(context, ATTILE_MEMORY_DEVICE, values), y(context, ATTILE_MEMORY_DEVICE, values.size());
            attile_softmax_args args;
            attile_softmax_init(&args, sizeof args);
            const int64_t shape[2] = {rows, length};
            attile_tensor_init(&args.x, x.data(), ATTILE_F32, 2, shape);
            attile_tensor_init(&args.y, y.data(), ATTILE_F32, 2, shape);
            args.axis = -1;
            ASSERT_EQ(attile_softmax(context, &args), ATTILE_OK) << last_error();
            const std::vector<float> got = y.fetch();
            for (int64_t i = 0; i < rows * length; ++i) {
                ASSERT_EQ(std::isnan(got[static_cast<std::size_t>(i)]), i / length == 1) << length << " at " << i;
            }
        }
    }
}

TEST_F(CudaTest, ABatchInvariantRowHasTheSameBitsAnywhere) {
    for (const int64_t length : {1001, 70000, 700000}) {
        const std::vector<float> values = random_floats(static_cast<std::size_t>(length), 9);
        const int64_t rows = length > 100000 ? 5 : 700;
        std::vector<float> many;
        for (int64_t r = 0; r < rows; ++r) many.insert(many.end(), values.begin(), values.end());
        Array<float> x(context, ATTILE_MEMORY_DEVICE, many), y(context, ATTILE_MEMORY_DEVICE, static_cast<std::size_t>(rows + 1));
        for (const int64_t count : {int64_t{1}, rows}) {
            attile_reduce_args args;
            attile_reduce_init(&args, sizeof args);
            args.flags = ATTILE_FLAG_BATCH_INVARIANT;
            const int64_t shape[2] = {count, length}, reduced[2] = {count, 1};
            attile_tensor_init(&args.x, x.data(), ATTILE_F32, 2, shape);
            attile_tensor_init(&args.y, count == 1 ? y.data() + rows : y.data(), ATTILE_F32, 2, reduced);
            args.op = ATTILE_REDUCE_SUM;
            args.axis = 1;
            ASSERT_EQ(attile_reduce(context, &args), ATTILE_OK) << last_error();
        }
        const std::vector<float> got = y.fetch();
        for (const float sum : got) ASSERT_EQ(sum, got[0]) << length;
    }
}

TEST_F(CudaTest, MergesMorePartsThanOneRoundTakes) {
    const int64_t rows = 37, dim = 24;
    for (const int64_t parts : {1, 2, 16, 17, 40}) {
        std::vector<std::vector<float>> o, lse;
        std::vector<std::unique_ptr<Array<float>>> held;
        std::vector<attile_tensor> o_parts(static_cast<std::size_t>(parts)), lse_parts(static_cast<std::size_t>(parts));
        const int64_t o_shape[4] = {1, 1, rows, dim}, lse_shape[3] = {1, 1, rows};
        for (int64_t p = 0; p < parts; ++p) {
            o.push_back(random_floats(static_cast<std::size_t>(rows * dim), static_cast<unsigned>(p)));
            lse.push_back(random_floats(static_cast<std::size_t>(rows), static_cast<unsigned>(100 + p)));
            lse.back()[static_cast<std::size_t>(p % rows)] = -kInfinity;
            o.back()[static_cast<std::size_t>(p % rows * dim + 1)] = kNaN;  // Of a row without keys: not to be used.
            lse.back()[30] = -kInfinity;                                    // Empty in every part.
            held.push_back(std::make_unique<Array<float>>(context, ATTILE_MEMORY_DEVICE, o.back()));
            attile_tensor_init(&o_parts[static_cast<std::size_t>(p)], held.back()->data(), ATTILE_F32, 4, o_shape);
            held.push_back(std::make_unique<Array<float>>(context, ATTILE_MEMORY_DEVICE, lse.back()));
            attile_tensor_init(&lse_parts[static_cast<std::size_t>(p)], held.back()->data(), ATTILE_F32, 3, lse_shape);
        }
        Array<float> merged_lse(context, ATTILE_MEMORY_DEVICE, static_cast<std::size_t>(rows));
        attile_attention_merge_args args;
        attile_attention_merge_init(&args, sizeof args);
        args.o_parts = o_parts.data();
        args.lse_parts = lse_parts.data();
        args.parts = parts;
        args.o = o_parts[static_cast<std::size_t>(parts / 2)];  // In place of one part.
        attile_tensor_init(&args.lse, merged_lse.data(), ATTILE_F32, 3, lse_shape);
        ASSERT_EQ(attile_attention_merge(context, &args), ATTILE_OK) << last_error();
        const std::vector<float> got = held[static_cast<std::size_t>(2 * (parts / 2))]->fetch(), got_lse = merged_lse.fetch();
        for (int64_t r = 0; r < rows; ++r) {
            // A row of attention over the parts, whose scores are their log-sum-exps.
            AttentionRow row;
            row.keys = parts;
            row.dim_v = dim;
            row.added = [&](int64_t p) { return double{lse[static_cast<std::size_t>(p)][static_cast<std::size_t>(r)]}; };
            row.v = [&](int64_t p) { return o[static_cast<std::size_t>(p)].data() + r * dim; };
            const AttentionRowResult wanted = attention_row(row);
            if (wanted.lse == kHiddenScore) {
                ASSERT_EQ(got_lse[static_cast<std::size_t>(r)], -kInfinity);
            } else {
                ASSERT_NEAR(got_lse[static_cast<std::size_t>(r)], wanted.lse, 1e-6 * std::max(1.0, std::fabs(wanted.lse)));
            }
            for (int64_t d = 0; d < dim; ++d) {
                ASSERT_NEAR(got[static_cast<std::size_t>(r * dim + d)], wanted.o[static_cast<std::size_t>(d)], 3e-6)
                    << parts << " parts, row " << r;
            }
        }
    }
}

}  // namespace
}  // namespace attile::test
