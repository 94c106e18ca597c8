// SPDX-License-Identifier: Apache-2.0
// Rotary embedding, and rows that are appended to a cache, have one right answer: every backend gives the reference's bits, in every byte
// of the cache, and leaves the others as they were, whatever lengths and pages are.
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "case_text.h"
#include "properties.h"
#include "test_element.h"
#include "test_memory.h"
#include "test_random.h"

namespace attile::test {
namespace {

using Shape = std::vector<std::int64_t>;

enum class Way { kNone, kAppend, kPages };

struct Appended {
    std::int32_t dtype = ATTILE_F32, q_dtype = ATTILE_I8;
    std::int64_t batch = 2, heads = 3, rows = 5, head_dim = 64;
    std::int64_t pairs = 0, angles = 40;
    std::int32_t layout = ATTILE_ROPE_HALVES;
    std::int32_t position_dtype = 0;  // 0: none
    bool positions_of_batch = false;
    Way way = Way::kAppend;
    std::int64_t len_k = 16;  // of a page: its slots
    std::int64_t pages = 9, pages_of_entry = 4;
    std::int64_t groups = 1;
    bool given = false;
    std::int32_t hadamard = 0;
    bool rows_outside = false;  // x and q lie as [B, L, H, D]
    std::int64_t padding = 0;   // numbers behind each row of x and q
    std::vector<std::int32_t> lengths;
    std::uint64_t seed = 1;

    std::string text() const {
        std::string text = std::string(dtype_name(dtype)) + " -> " + std::to_string(q_dtype) + " " +
                           shape_text({batch, heads, rows, head_dim}) + " pairs " + std::to_string(pairs) + " layout " +
                           std::to_string(layout) + " positions " + std::to_string(position_dtype) + " way " +
                           std::to_string(static_cast<int>(way)) + " keys " + std::to_string(len_k) + " groups " + std::to_string(groups) +
                           " hadamard " + std::to_string(hadamard) + (given ? " given" : "") + (rows_outside ? " rows outside" : "") +
                           " padding " + std::to_string(padding) + " lengths";
        for (const std::int32_t length : lengths) text += " " + std::to_string(length);
        return text + " seed " + std::to_string(seed);
    }
};

std::int64_t count_of(const Shape &shape) {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    return count;
}

Bytes drawn_floats(std::int32_t dtype, std::int64_t count, std::uint64_t seed, double special) {
    Random random(seed);
    Bytes bytes(static_cast<std::size_t>(count * element_bytes(dtype)));
    for (std::int64_t i = 0; i < count; ++i) {
        double value = random.normal() * std::exp(random.normal());
        if (random.chance(special)) value = random.pick<double>({INFINITY, -INFINITY, std::nan(""), 0.0});
        encode(dtype, value, &bytes[static_cast<std::size_t>(i * element_bytes(dtype))]);
    }
    return bytes;
}

template <class T>
Bytes as_bytes(const std::vector<T> &values) {
    Bytes bytes(values.size() * sizeof(T));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

// [a, b, c, d] in memory with b and c in that order or exchanged, and something behind each row.
attile_tensor view_of(void *data, std::int32_t dtype, const Shape &shape, bool exchanged, std::int64_t padding) {
    attile_tensor tensor;
    attile_tensor_init(&tensor, data, dtype, static_cast<std::int32_t>(shape.size()), shape.data());
    if (shape.size() != 4) return tensor;
    const std::int64_t row = shape[3] + padding;
    tensor.stride[3] = 1;
    tensor.stride[2] = exchanged ? shape[1] * row : row;
    tensor.stride[1] = exchanged ? row : shape[2] * row;
    tensor.stride[0] = shape[1] * shape[2] * row;
    return tensor;
}

struct Answer {
    Bytes q;
    std::vector<float> scale, zero;
};

class Append : public PropertyTest {
  protected:
    // False where the backend has no such call.
    static bool compute(attile_context *context, const Appended &c, bool on_device, Answer *answer) {
        const Shape x_shape = {c.batch, c.heads, c.rows, c.head_dim};
        const std::int64_t outer = c.way == Way::kPages ? c.pages : c.batch, inner = c.way == Way::kNone ? c.rows : c.len_k;
        const Shape q_shape = {outer, c.heads, inner, c.head_dim}, scale_shape = {outer, c.heads, inner, c.groups};
        const std::int64_t q_bits = c.q_dtype & 0xff;
        const double special = q_bits <= 8 ? 0.001 : 0;  // NaN of 16 bits are not the same everywhere
        const auto padded = [&](Shape shape) {
            shape[3] += c.padding;
            return count_of(shape);
        };
        KnownMemory x(context, on_device, drawn_floats(c.dtype, padded(x_shape), c.seed, special));
        KnownMemory q(context, on_device, Bytes(static_cast<std::size_t>(padded(q_shape) * q_bits / 8), 0xa5));
        KnownMemory scale(context, on_device, drawn_floats(ATTILE_F32, count_of(scale_shape), c.seed + 1, 0));
        KnownMemory zero(context, on_device, drawn_floats(ATTILE_F32, count_of(scale_shape), c.seed + 2, 0));
        KnownMemory cosines(context, on_device, drawn_floats(ATTILE_F32, c.angles * c.pairs, c.seed + 3, 0));
        KnownMemory sines(context, on_device, drawn_floats(ATTILE_F32, c.angles * c.pairs, c.seed + 4, 0));
        Random random(c.seed + 5);
        std::vector<std::int64_t> positions(static_cast<std::size_t>(c.rows * (c.positions_of_batch ? c.batch : 1)));
        for (std::int64_t &position : positions) position = random.between(-5, c.angles + 5);
        std::vector<std::int32_t> short_positions(positions.begin(), positions.end());
        KnownMemory positions_memory(context, on_device, c.position_dtype == ATTILE_I64 ? as_bytes(positions) : as_bytes(short_positions));
        KnownMemory lengths(context, on_device, as_bytes(c.lengths));
        // Pages that no other run has, some beyond those that there are, some below.
        std::vector<std::int32_t> table(static_cast<std::size_t>(c.batch * c.pages_of_entry));
        for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::int32_t>(i);
        for (std::size_t i = table.size(); i > 1; --i)
            std::swap(table[i - 1], table[static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(i) - 1))]);
        for (std::int32_t &page : table)
            if (random.chance(0.1)) page = random.pick({-1, 1 << 30, -(1 << 30)});
        KnownMemory table_memory(context, on_device, as_bytes(table));

        attile_quantize_args args;
        attile_quantize_init(&args, sizeof args);
        args.x = view_of(x.data(), c.dtype, x_shape, c.rows_outside, c.padding);
        args.q = view_of(q.data(), c.q_dtype, q_shape, c.rows_outside, c.padding);
        if (q_bits <= 8) args.scale = view_of(scale.data(), ATTILE_F32, scale_shape, c.rows_outside, 0);
        if (c.q_dtype == ATTILE_U4) args.zero = view_of(zero.data(), ATTILE_F32, scale_shape, c.rows_outside, 0);
        args.scale_mode = c.given ? ATTILE_SCALE_GIVEN : ATTILE_SCALE_FROM_MAXIMUM;
        args.hadamard = c.hadamard;
        if (c.pairs != 0) {
            args.rope_cos = view_of(cosines.data(), ATTILE_F32, {c.angles, c.pairs}, false, 0);
            args.rope_sin = view_of(sines.data(), ATTILE_F32, {c.pairs, c.angles}, false, 0);
            std::swap(args.rope_sin.shape[0], args.rope_sin.shape[1]);
            std::swap(args.rope_sin.stride[0], args.rope_sin.stride[1]);
            args.rope_layout = c.layout;
            if (c.position_dtype != 0 && c.positions_of_batch)
                args.positions = view_of(positions_memory.data(), c.position_dtype, {c.batch, c.rows}, false, 0);
            else if (c.position_dtype != 0)
                args.positions = view_of(positions_memory.data(), c.position_dtype, {c.rows}, false, 0);
        }
        args.append = c.way == Way::kNone ? 0 : 1;
        if (!c.lengths.empty()) args.key_lengths = view_of(lengths.data(), ATTILE_I32, {c.batch}, false, 0);
        if (c.way == Way::kPages) args.block_table = view_of(table_memory.data(), ATTILE_I32, {c.batch, c.pages_of_entry}, false, 0);
        attile_support support;
        attile_support_init(&support, sizeof support);
        EXPECT_TRUE(succeeded(attile_quantize_query(context, &args, &support))) << c.text();
        if (support.level == ATTILE_SUPPORT_NONE) {
            EXPECT_EQ(attile_quantize(context, &args), support.status);
            return false;
        }
        EXPECT_TRUE(succeeded(attile_quantize(context, &args))) << c.text();
        EXPECT_TRUE(succeeded(attile_synchronize(context, nullptr)));
        *answer = {q.fetch(), numbers_of(scale.fetch()), numbers_of(zero.fetch())};
        return true;
    }

    static void expect_the_references_bits(const Appended &c) {
        const ContextHandle reference = open_backend("reference");
        ASSERT_TRUE(reference);
        Answer want;
        ASSERT_TRUE(compute(reference.get(), c, false, &want)) << c.text();
        on_every_backend([&](attile_context *context) {
            for (const bool on_device : {false, true}) {
                Answer found;
                if (!compute(context, c, on_device, &found)) continue;
                EXPECT_TRUE(found.q == want.q) << "q of " << c.text();
                EXPECT_TRUE(found.scale == want.scale) << "scale of " << c.text();
                EXPECT_TRUE(found.zero == want.zero) << "zero of " << c.text();
            }
        });
    }
};

constexpr std::int32_t kNumbers[] = {ATTILE_I8, ATTILE_F8_E4M3, ATTILE_F8_E5M2, ATTILE_I4, ATTILE_U4, ATTILE_F32, ATTILE_F16, ATTILE_BF16};
constexpr std::int32_t kTypes[] = {ATTILE_F32, ATTILE_F16, ATTILE_BF16};

// One row to each of many entries, as a step of decoding does, several that cross pages, and more than a piece or a tile has.
TEST_F(Append, RowsOfEveryType) {
    int at = 0;
    for (const std::int32_t q_dtype : kNumbers)
        for (const std::int32_t dtype : kTypes)
            for (const Way way : {Way::kAppend, Way::kPages}) {
                Appended c;
                c.dtype = dtype;
                c.q_dtype = q_dtype;
                c.way = way;
                c.len_k = way == Way::kPages ? 4 : 16;
                c.lengths = {7, 14};
                c.layout = at % 2;
                c.pairs = at % 3 * 16;
                c.groups = at % 5 == 0 ? 1 : 2;
                c.rows_outside = at % 4 == 1;
                c.padding = at % 2 * 8;
                c.seed = static_cast<std::uint64_t>(++at) * 10;
                expect_the_references_bits(c);
                c.batch = 7;
                c.rows = 1;
                c.lengths = {1, 0, -4, 16, 17, 5, 3};
                expect_the_references_bits(c);
            }
}

// Rotation with no cache, of q and x of one shape, and scales of any.
TEST_F(Append, RotationAlone) {
    std::uint64_t seed = 0;
    for (const std::int32_t q_dtype : kNumbers)
        for (const std::int32_t layout : {ATTILE_ROPE_HALVES, ATTILE_ROPE_INTERLEAVED})
            for (const std::int32_t position_dtype : {0, ATTILE_I32, ATTILE_I64}) {
                Appended c;
                c.q_dtype = q_dtype;
                c.way = Way::kNone;
                c.layout = layout;
                c.position_dtype = position_dtype;
                c.head_dim = 96;
                c.pairs = position_dtype == ATTILE_I64 ? 7 : 48;
                c.positions_of_batch = layout == ATTILE_ROPE_HALVES;
                if (position_dtype == 0 && layout == ATTILE_ROPE_HALVES) c.lengths = {9, 2};
                c.groups = q_dtype == ATTILE_I8 ? 96 : 3;
                c.seed = ++seed * 10;
                expect_the_references_bits(c);
            }
}

// Heads of odd and of large dimensions, rotations by Hadamard's matrix behind, given scales.
TEST_F(Append, HeadsOfEveryDimension) {
    std::uint64_t seed = 0;
    for (const std::int64_t head_dim : {1, 2, 7, 33, 80, 128, 256, 600, 1030})
        for (const std::int32_t q_dtype : {ATTILE_I8, ATTILE_F8_E4M3, ATTILE_BF16, ATTILE_F32, ATTILE_U4})
            for (const std::int32_t layout : {ATTILE_ROPE_HALVES, ATTILE_ROPE_INTERLEAVED}) {
                if (q_dtype == ATTILE_U4 && head_dim % 2 != 0) continue;
                Appended c;
                c.q_dtype = q_dtype;
                c.dtype = kTypes[seed % 3];
                c.head_dim = head_dim;
                c.pairs = seed % 2 == 0 ? head_dim / 2 : head_dim / 3;
                c.layout = layout;
                c.way = seed % 2 == 0 ? Way::kPages : Way::kAppend;
                c.len_k = c.way == Way::kPages ? 3 : 16;
                c.lengths = {5, 12};
                c.groups = head_dim % 32 == 0 && seed % 3 == 0 ? head_dim / 32 : seed % 5 == 0 ? head_dim : 1;
                c.given = seed % 7 == 3;
                if (head_dim % 8 == 0 && seed % 3 == 1) c.hadamard = 8;
                c.seed = ++seed * 10;
                expect_the_references_bits(c);
            }
}

TEST_F(Append, AtRandom) {
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        Random random(seed * 8 + 7);
        Appended c;
        c.seed = seed * 10;
        c.dtype = random.pick({ATTILE_F32, ATTILE_F16, ATTILE_BF16});
        c.q_dtype = kNumbers[random.bits() % 8];
        c.batch = random.between(1, 4);
        c.heads = random.between(1, 4);
        c.rows = random.pick<std::int64_t>({1, 1, 2, 5, 33});
        c.head_dim = random.pick<std::int64_t>({2, 6, 32, 64, 66, 96, 128, 256, 640});
        c.pairs = random.chance(0.3) ? 0 : random.between(1, c.head_dim / 2);
        c.layout = static_cast<std::int32_t>(random.between(0, 1));
        if (random.chance(0.4)) c.position_dtype = random.pick({ATTILE_I32, ATTILE_I64});
        c.positions_of_batch = random.chance(0.5);
        c.way = random.chance(0.5) ? Way::kPages : Way::kAppend;
        c.len_k = c.way == Way::kPages ? random.pick<std::int64_t>({1, 3, 16, 32}) : random.between(1, 70);
        c.pages = random.between(1, 12);
        c.pages_of_entry = random.between(1, 5);
        c.groups = random.pick<std::int64_t>({1, 1, c.head_dim % 32 == 0 ? c.head_dim / 32 : 1, c.head_dim});
        c.given = random.chance(0.2) && (c.q_dtype & 0xff) <= 8;
        for (std::int32_t count = 2; count <= 512; count *= 2)
            if (c.head_dim % count == 0 && random.chance(0.1)) c.hadamard = count;
        c.rows_outside = random.chance(0.5);
        c.padding = random.pick<std::int64_t>({0, 2, 8});
        for (std::int64_t entry = 0; entry < c.batch; ++entry)
            c.lengths.push_back(random.chance(0.1) ? random.pick({INT32_MAX, INT32_MIN, 0})
                                                   : static_cast<std::int32_t>(random.between(-2, c.len_k * 2 + c.rows)));
        expect_the_references_bits(c);
    }
}

}  // namespace
}  // namespace attile::test
