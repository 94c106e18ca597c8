// SPDX-License-Identifier: Apache-2.0
// ggml's blocks of any bytes become the same tensors on every backend, wherever they lie.
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

struct Format {
    std::int32_t number, type;
    std::int64_t numbers, bytes;
    std::vector<std::int64_t> halves;  // where float16 numbers are
};
const Format kFormats[] = {{ATTILE_GGML_Q4_0, ATTILE_I4, 32, 18, {0}},
                           {ATTILE_GGML_Q8_0, ATTILE_I8, 32, 34, {0}},
                           {ATTILE_GGML_Q4_K, ATTILE_U4, 256, 144, {0, 2}},
                           {ATTILE_GGML_Q6_K, ATTILE_I8, 256, 210, {208}}};

struct Repacked {
    std::vector<std::int64_t> rows;  // one to three axes
    std::int64_t blocks = 1;
    std::int64_t padding = 0;  // bytes behind each row of blocks, and twice as many numbers behind those of q
    bool exchanged = false;    // scales lie column by column
    std::uint64_t seed = 1;
};

Bytes drawn_blocks(const Format &format, const Repacked &c, std::int64_t rows) {
    Random random(c.seed);
    Bytes bytes(static_cast<std::size_t>(rows * (c.blocks * format.bytes + c.padding)));
    for (unsigned char &byte : bytes) byte = static_cast<unsigned char>(random.bits());
    for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t block = 0; block < c.blocks; ++block) {
            unsigned char *const at = &bytes[static_cast<std::size_t>(row * (c.blocks * format.bytes + c.padding) + block * format.bytes)];
            for (const std::int64_t half : format.halves) {
                const double value = random.chance(0.1) ? random.pick({0.0, -0.0, 0x1p-24, 65504.0}) : random.normal() / 50;
                encode(ATTILE_F16, value, at + half);
            }
            if (format.number == ATTILE_GGML_Q6_K && random.chance(0.7))  // scales with a common step, or small ones
                for (int i = 0; i < 16; ++i) at[192 + i] = static_cast<unsigned char>(random.between(-3, 3) * (i / 2 + 1));
            if (format.number == ATTILE_GGML_Q4_K && random.chance(0.3)) std::memset(at + 4, random.chance(0.5) ? 0 : 0x3f, 4);
        }
    return bytes;
}

struct Answer {
    Bytes q;
    std::vector<float> scale, zero;
    bool operator==(const Answer &other) const { return q == other.q && scale == other.scale && zero == other.zero; }
};

Answer compute(attile_context *context, const Format &format, const Repacked &c, bool on_device) {
    std::int64_t rows = 1;
    for (const std::int64_t extent : c.rows) rows *= extent;
    const std::int64_t k = c.blocks * format.numbers, groups = k / 32, bits = format.type & 0xff;
    KnownMemory blocks(context, on_device, drawn_blocks(format, c, rows));
    KnownMemory q(context, on_device, Bytes(static_cast<std::size_t>(rows * (k + 2 * c.padding) * bits / 8), 0xa5));
    const Bytes empty(static_cast<std::size_t>(rows * groups * 4), 0xff);
    KnownMemory scale(context, on_device, empty), zero(context, on_device, empty);
    const auto view = [&](KnownMemory &memory, std::int32_t dtype, std::int64_t last, std::int64_t apart, bool exchanged) {
        std::vector<std::int64_t> shape = c.rows;
        shape.push_back(last);
        attile_tensor tensor;
        attile_tensor_init(&tensor, memory.data(), dtype, static_cast<std::int32_t>(shape.size()), shape.data());
        std::int64_t stride = exchanged ? 1 : apart;
        tensor.stride[c.rows.size()] = exchanged ? rows : 1;
        for (std::size_t axis = c.rows.size(); axis-- > 0;) {
            tensor.stride[axis] = stride;
            stride *= c.rows[axis];
        }
        return tensor;
    };
    attile_repack_args args;
    attile_repack_init(&args, sizeof args);
    args.format = format.number;
    args.blocks = view(blocks, ATTILE_U8, c.blocks * format.bytes, c.blocks * format.bytes + c.padding, false);
    args.q = view(q, format.type, k, k + 2 * c.padding, false);
    args.scale = view(scale, ATTILE_F32, groups, groups, c.exchanged);
    if (format.type == ATTILE_U4) args.zero = view(zero, ATTILE_F32, groups, groups, !c.exchanged);
    attile_support support;
    attile_support_init(&support, sizeof support);
    EXPECT_TRUE(succeeded(attile_repack_query(context, &args, &support)));
    EXPECT_NE(support.level, ATTILE_SUPPORT_NONE) << support.text;
    EXPECT_TRUE(succeeded(attile_repack(context, &args)));
    EXPECT_TRUE(succeeded(attile_synchronize(context, nullptr)));
    return {q.fetch(), numbers_of(scale.fetch()), numbers_of(zero.fetch())};
}

class Repack : public PropertyTest {
  protected:
    static void expect_the_references_bits(const Repacked &c) {
        const ContextHandle reference = open_backend("reference");
        ASSERT_TRUE(reference);
        for (const Format &format : kFormats) {
            const Answer want = compute(reference.get(), format, c, false);
            on_every_backend([&](attile_context *context) {
                for (const bool on_device : {false, true})
                    EXPECT_TRUE(compute(context, format, c, on_device) == want)
                        << "format " << format.number << " rows " << shape_text(c.rows) << " blocks " << c.blocks << " padding "
                        << c.padding << " seed " << c.seed;
            });
        }
    }
};

TEST_F(Repack, EveryFormat) {
    std::uint64_t seed = 0;
    for (const auto &rows : {std::vector<std::int64_t>{}, {1}, {7}, {300}, {2, 3}, {2, 3, 5}})
        for (const std::int64_t blocks : {1, 2, 5})
            for (const std::int64_t padding : {0, 3, 8}) {
                Repacked c;
                c.rows = rows;
                c.blocks = blocks;
                c.padding = padding;
                c.exchanged = seed % 2 == 1;
                c.seed = ++seed;
                expect_the_references_bits(c);
            }
}

}  // namespace
}  // namespace attile::test
