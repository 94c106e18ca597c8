// SPDX-License-Identifier: Apache-2.0
// Decoding with a K/V cache of one sequence: each step appends one key and one value and computes one row of attention. The cache is
// stored [length, heads, head_dim], as a projection's result lies in memory, and has room for `most` rows.
//
//     c++ -std=c++17 cpp_decode.cpp $(pkg-config --cflags --libs attile) -o cpp_decode && ./cpp_decode
//
// The program compares the rows with those of one causal attention of the whole sequence.
#include <attile.hpp>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

constexpr int64_t heads_q = 8, heads_kv = 2, head_dim = 16, most = 24;

std::vector<float> numbers(int64_t count, int64_t factor) {
    std::vector<float> x(static_cast<std::size_t>(count));
    for (int64_t i = 0; i < count; ++i) x[static_cast<std::size_t>(i)] = static_cast<float>(i * factor % 101 - 50) / 32;
    return x;
}

//! [view]
// `len` rows from row `first` of storage [length, heads, head_dim], as the tensor [1, heads, len, head_dim].
template <class Floats>
attile_tensor rows(Floats &storage, int64_t first, int64_t len, int64_t heads) {
    attile_tensor tensor = attile::view(storage.data() + first * heads * head_dim, {1, heads, len, head_dim});
    tensor.stride[1] = head_dim;
    tensor.stride[2] = heads * head_dim;
    return tensor;
}
//! [view]

}  // namespace

int main() try {
    const std::vector<float> q = numbers(most * heads_q * head_dim, 37), k = numbers(most * heads_kv * head_dim, 61),
                             v = numbers(most * heads_kv * head_dim, 53);
    std::vector<float> expected(q.size()), o(q.size());
    const attile::Context context = attile::Context::create();

    attile::AttentionArgs args;
    args.q = rows(q, 0, most, heads_q);
    args.k = rows(k, 0, most, heads_kv);
    args.v = rows(v, 0, most, heads_kv);
    args.o = rows(expected, 0, most, heads_q);
    args.mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
    context.attention(args);

    std::vector<float> k_cache(k.size()), v_cache(v.size());
    const auto append = [](const std::vector<float> &from, std::vector<float> &cache, int64_t row) {
        for (int64_t i = row * heads_kv * head_dim; i < (row + 1) * heads_kv * head_dim; ++i)
            cache[static_cast<std::size_t>(i)] = from[static_cast<std::size_t>(i)];
    };
    //! [step]
    attile::AttentionArgs step;
    for (int64_t row = 0; row < most; ++row) {
        append(k, k_cache, row);
        append(v, v_cache, row);
        step.q = rows(q, row, 1, heads_q);
        step.k = rows(k_cache, 0, row + 1, heads_kv);  // the keys so far
        step.v = rows(v_cache, 0, row + 1, heads_kv);
        step.o = rows(o, row, 1, heads_q);
        context.attention(step);
    }
    //! [step]

    for (std::size_t i = 0; i < o.size(); ++i)
        if (!(std::fabs(o[i] - expected[i]) <= 1e-5F)) {
            std::fprintf(stderr, "cpp_decode: the rows are not those of the whole sequence\n");
            return 1;
        }
    std::printf("%d steps, last value %g\n", static_cast<int>(most), o.back());
    return 0;
} catch (const attile::Error &error) {
    std::fprintf(stderr, "cpp_decode: %s\n", error.what());
    return 1;
}
