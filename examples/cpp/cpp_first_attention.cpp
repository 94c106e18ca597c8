// SPDX-License-Identifier: Apache-2.0
#include <attile.hpp>
#include <cstdio>
#include <vector>

int main(int argc, char **) try {
    std::vector<float> x(2 * 6 * 8), o(x.size());  // 2 heads, 6 rows, head dimension 8; the same for q, k and v
    for (int i = 0; i < 96; ++i) x[i] = (i * 37 % 101 - 50) / 64.0F;
    attile::AttentionArgs args;
    args.q = args.k = attile::view(x, {1, 2, 6, 8});
    args.v = attile::view(x, {1, 2, 7 - argc, 8});  // with an argument: a value too few, to see what an error looks like
    args.o = attile::view(o, {1, 2, 6, 8});
    args.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    attile::Context::create().attention(args);
    for (const float value : o) std::printf("%.9g\n", value);
} catch (const attile::Error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
