// SPDX-License-Identifier: Apache-2.0
// Quantisation and back have one right answer: every backend gives the reference's bits, wherever the arrays lie and however a call is cut.
#include <cmath>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "case_text.h"
#include "properties.h"
#include "test_element.h"
#include "test_random.h"
#include "test_tensor.h"

namespace attile::test {
namespace {

using Shape = std::vector<std::int64_t>;

// One call, and the way back from what it gave.
struct Quantised {
    std::int32_t dtype = ATTILE_F32, q_dtype = ATTILE_I8;
    Shape shape, scale_shape;
    std::int32_t hadamard = 0;
    bool given = false, absent = false;
    Layout x_layout, q_layout, scale_layout;
    double spread = 1;     // of magnitudes
    bool special = false;  // infinities and NaN, too
    std::uint64_t seed = 1;

    std::string text() const {
        return std::string(dtype_name(dtype)) + " -> " + dtype_name(q_dtype) + " " + shape_text(shape) + " scales " +
               shape_text(scale_shape) + " hadamard " + std::to_string(hadamard) + (given ? " given" : "") + (absent ? " absent" : "") +
               " x" + describe(x_layout) + " q" + describe(q_layout) + " scale" + describe(scale_layout) + " seed " + std::to_string(seed);
    }
};

struct Answer {
    std::vector<std::byte> q, scale, back;
};

// NaN has one pattern here: which one a product gives is the processor's.
std::vector<std::byte> without_payload(const TestTensor &tensor, std::int32_t dtype) {
    std::vector<std::byte> bytes = tensor.element_bytes_in_order();
    const auto size = static_cast<std::size_t>(element_bytes(dtype));
    for (std::size_t at = 0; at < bytes.size(); at += size)
        if (std::isnan(decode(dtype, &bytes[at]))) encode(dtype, std::nan(""), &bytes[at]);
    return bytes;
}

Values drawn(const Quantised &c) {
    Random random(c.seed * 77 + 5);
    Values x(c.shape);
    for (double &value : x.at) {
        value = random.chance(0.05) ? 0 : random.normal() * std::exp(c.spread * random.normal());
        if (c.special && random.chance(0.002)) value = random.pick<double>({INFINITY, -INFINITY, std::nan("")});
        value = round_to(c.dtype, value);
    }
    return x;
}

Values drawn_scales(const Quantised &c) {
    Random random(c.seed * 79 + 3);
    Values scale(c.scale_shape);
    for (double &value : scale.at) {
        value = random.normal() / 50;
        if (c.special && random.chance(0.1)) value = random.pick<double>({0.0, -0.0, std::nan(""), INFINITY, 1e-44});
        value = round_to(ATTILE_F32, value);
    }
    return scale;
}

// With a workspace of the caller's from memory of the device, else from the host's.
Answer compute(attile_context *context, const Quantised &c, bool in_workspace) {
    const Placement placement = in_workspace ? Placement::kDevice : Placement::kHost;
    TestTensor x(context, placement, c.dtype, drawn(c), c.x_layout);
    TestTensor q = TestTensor::output(context, placement, c.q_dtype, c.shape, c.q_layout), scale;
    if (!c.absent) {
        scale = c.given ? TestTensor(context, placement, ATTILE_F32, drawn_scales(c), c.scale_layout)
                        : TestTensor::output(context, placement, ATTILE_F32, c.scale_shape, c.scale_layout);
    }
    attile_quantize_args args;
    attile_quantize_init(&args, sizeof args);
    args.x = x.view();
    args.q = q.view();
    args.scale = scale.view();
    args.scale_mode = c.given ? ATTILE_SCALE_GIVEN : ATTILE_SCALE_FROM_MAXIMUM;
    args.hadamard = c.hadamard;
    attile_support support;
    attile_support_init(&support, sizeof support);
    EXPECT_TRUE(succeeded(attile_quantize_query(context, &args, &support)));
    EXPECT_NE(support.level, ATTILE_SUPPORT_NONE) << support.text;
    const TestWorkspace workspace(context, placement, in_workspace ? support.workspace_bytes : 0);
    if (in_workspace) {
        args.workspace = workspace.data();
        args.workspace_bytes = workspace.bytes();
        args.flags = ATTILE_FLAG_NO_ALLOC;
    }
    EXPECT_TRUE(succeeded(attile_quantize(context, &args)));
    Answer answer;
    for (TestTensor *tensor : {&x, &q, &scale}) {
        if (!tensor->present()) continue;
        tensor->fetch();
        EXPECT_EQ(tensor->damage(), "");
    }
    EXPECT_EQ(workspace.damage(), "");
    answer.q = q.element_bytes_in_order();
    if (scale.present()) answer.scale = without_payload(scale, ATTILE_F32);

    TestTensor back = TestTensor::output(context, placement, c.dtype, c.shape, c.x_layout.broadcast != 0 ? Layout{} : c.x_layout);
    attile_dequantize_args from;
    attile_dequantize_init(&from, sizeof from);
    from.q = q.view();
    from.scale = scale.view();
    from.x = back.view();
    from.hadamard = c.hadamard;
    EXPECT_TRUE(succeeded(attile_dequantize(context, &from)));
    back.fetch();
    EXPECT_EQ(back.damage(), "");
    answer.back = without_payload(back, c.dtype);
    return answer;
}

bool has_it(attile_context *context) {
    attile_quantize_args args;
    attile_quantize_init(&args, sizeof args);
    const std::int64_t one = 1;
    float x = 1, scale = 0;
    std::int8_t q = 0;
    attile_tensor_init(&args.x, &x, ATTILE_F32, 1, &one);
    attile_tensor_init(&args.q, &q, ATTILE_I8, 1, &one);
    attile_tensor_init(&args.scale, &scale, ATTILE_F32, 1, &one);
    attile_support support;
    attile_support_init(&support, sizeof support);
    EXPECT_TRUE(succeeded(attile_quantize_query(context, &args, &support)));
    if (support.level != ATTILE_SUPPORT_NONE) return true;
    EXPECT_EQ(attile_quantize(context, &args), support.status);
    return false;
}

class Quantise : public PropertyTest {
  protected:
    static void expect_the_references_bits(const Quantised &c) {
        const ContextHandle reference = open_backend("reference");
        ASSERT_TRUE(reference);
        const Answer want = compute(reference.get(), c, false);
        on_every_backend([&](attile_context *context) {
            if (!has_it(context)) return;
            for (const bool in_workspace : {false, true}) {
                const Answer found = compute(context, c, in_workspace);
                EXPECT_TRUE(found.q == want.q) << "q of " << c.text();
                EXPECT_TRUE(found.scale == want.scale) << "scale of " << c.text();
                EXPECT_TRUE(found.back == want.back) << "x of " << c.text();
            }
        });
    }
};

// Few large blocks are cut among threads, many small ones taken together; rows longer than a piece, and columns, have ways of their own.
TEST_F(Quantise, BlocksOfEveryKind) {
    const struct {
        Shape shape, scale;
    } shapes[] = {{{1}, {1}},
                  {{5}, {5}},
                  {{3, 515}, {3, 1}},
                  {{3, 515}, {3, 515}},
                  {{100, 1024}, {1, 1}},
                  {{70, 1024}, {1}},
                  {{70'000}, {1}},
                  {{70, 1024}, {70, 32}},
                  {{512, 100}, {1, 100}},
                  {{512, 100}, {16, 100}},
                  {{256, 384}, {2, 3}},
                  {{256, 384}, {4, 6}},
                  {{2, 3, 64, 96}, {2, 3, 1, 1}},
                  {{2, 3, 64, 96}, {3, 64, 3}},
                  {{2, 10, 3, 1030}, {1, 10, 1, 1}},
                  {{4096, 9}, {1, 9}}};
    int at = 0;  // every shape with every type of q, each with another type of x
    for (const auto &shape : shapes)
        for (const std::int32_t q_dtype : {ATTILE_I8, ATTILE_F8_E4M3, ATTILE_F8_E5M2}) {
            constexpr std::int32_t kTypes[] = {ATTILE_F32, ATTILE_F16, ATTILE_BF16, ATTILE_F32};
            Quantised c;
            c.dtype = kTypes[at++ % 4];
            c.q_dtype = q_dtype;
            c.shape = shape.shape;
            c.scale_shape = shape.scale;
            expect_the_references_bits(c);
            c.x_layout.order = c.q_layout.order = c.scale_layout.order = Order::kFortran;
            c.special = true;
            expect_the_references_bits(c);
        }
}

TEST_F(Quantise, RotationsOfEveryLength) {
    for (std::int32_t count = 2; count <= 512; count *= 2)
        for (const std::int64_t groups : {1, 3 * 512 / 64, 3 * 512}) {
            Quantised c;
            c.shape = {21, 3 * 512};
            c.scale_shape = {21, groups};
            c.hadamard = count;
            c.dtype = count % 3 == 1 ? ATTILE_BF16 : ATTILE_F32;
            expect_the_references_bits(c);
            c.shape = {4, 3 * count};
            c.scale_shape = {1, 1};
            c.x_layout.step = 2;
            expect_the_references_bits(c);
        }
}

// Two numbers a byte, which tensors of tests do not hold: compared as bytes. Ends of a range, blocks of one sign, what is not finite.
TEST_F(Quantise, FourBits) {
    const struct {
        Shape shape, scale;
    } shapes[] = {{{5, 96}, {5, 3}},   {{70, 64}, {1, 1}},   {{300, 512}, {1, 1}}, {{64, 38}, {2, 38}},
                  {{7, 1030}, {7, 1}}, {{256, 256}, {2, 2}}, {{3, 10}, {3, 10}}};
    const ContextHandle reference = open_backend("reference");
    ASSERT_TRUE(reference);
    std::uint64_t seed = 0;
    for (const auto &shape : shapes)
        for (const std::int32_t q_dtype : {ATTILE_I4, ATTILE_U4})
            for (const double shift : {0.0, 5.0, -5.0}) {
                Random random(++seed);
                std::vector<float> x(static_cast<std::size_t>(shape.shape[0] * shape.shape[1]));
                for (float &value : x) value = static_cast<float>(random.normal() + shift);
                if (shift == 0) x.back() = random.chance(0.5) ? NAN : -INFINITY;
                const auto answer = [&](attile_context *context) {
                    const auto count = static_cast<std::size_t>(shape.scale[0] * shape.scale[1]);
                    std::vector<unsigned char> q(x.size() / 2, 0xa5);
                    std::vector<float> scale(count, NAN), zero(count, NAN), back(x.size(), NAN);
                    attile_quantize_args to;
                    attile_quantize_init(&to, sizeof to);
                    attile_tensor_init(&to.x, x.data(), ATTILE_F32, 2, shape.shape.data());
                    attile_tensor_init(&to.q, q.data(), q_dtype, 2, shape.shape.data());
                    attile_tensor_init(&to.scale, scale.data(), ATTILE_F32, 2, shape.scale.data());
                    if (q_dtype == ATTILE_U4) attile_tensor_init(&to.zero, zero.data(), ATTILE_F32, 2, shape.scale.data());
                    EXPECT_TRUE(succeeded(attile_quantize(context, &to)));
                    attile_dequantize_args from;
                    attile_dequantize_init(&from, sizeof from);
                    from.q = to.q;
                    from.scale = to.scale;
                    from.zero = to.zero;
                    attile_tensor_init(&from.x, back.data(), ATTILE_F32, 2, shape.shape.data());
                    EXPECT_TRUE(succeeded(attile_dequantize(context, &from)));
                    for (auto *values : {&scale, &zero, &back})
                        for (float &value : *values) value = std::isnan(value) ? 1e30f : value + 0.0f;
                    return std::make_tuple(q, scale, zero, back);
                };
                const auto want = answer(reference.get());
                on_every_backend([&](attile_context *context) {
                    if (!has_it(context)) return;
                    EXPECT_TRUE(answer(context) == want) << shape_text(shape.shape) << " by " << shape_text(shape.scale);
                });
            }
}

TEST_F(Quantise, AtRandom) {
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        Random random(seed * 8 + 6);
        Quantised c;
        c.seed = seed;
        c.dtype = random.pick({ATTILE_F32, ATTILE_F16, ATTILE_BF16});
        c.q_dtype = random.pick({ATTILE_I8, ATTILE_F8_E4M3, ATTILE_F8_E5M2});
        const int rank = static_cast<int>(random.between(1, 4));
        std::int64_t size = 1;
        for (int axis = 0; axis < rank; ++axis) {
            std::int64_t extent = random.pick<std::int64_t>({1, 2, 3, 7, 31, 32, 64, 96, 128, 256, 513, 640});
            if (size * extent > 60'000) extent = 2;
            size *= extent;
            c.shape.push_back(extent);
            Shape counts = {1, extent};
            for (const std::int64_t group : {32, 64, 128})
                if (axis >= rank - 2 && extent % group == 0) counts.push_back(extent / group);
            c.scale_shape.push_back(counts[static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(counts.size()) - 1))]);
        }
        for (std::int32_t count = 2; count <= 512; count *= 2)
            if (c.shape.back() % count == 0 && random.chance(0.1)) c.hadamard = count;
        c.given = random.chance(0.25);
        c.absent = c.given && random.chance(0.3);
        c.special = random.chance(0.3);
        c.spread = random.pick({0.0, 1.0, 8.0});
        c.x_layout = random_layout(random, rank, true);
        c.q_layout = random_layout(random, rank, false);
        c.scale_layout = random_layout(random, rank, c.given);
        if (c.x_layout.broadcast != 0) c.x_layout.broadcast = 0;  // values differ along every axis
        c.scale_layout.broadcast = 0;
        expect_the_references_bits(c);
    }
}

}  // namespace
}  // namespace attile::test
