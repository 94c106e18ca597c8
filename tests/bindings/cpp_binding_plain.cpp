// SPDX-License-Identifier: Apache-2.0
// attile.hpp in a program without exceptions: errors are values.
#include <attile.hpp>

#include <cstdio>
#include <vector>

int main() {
    attile::Context context;
    if (const attile::Status status = attile::Context::try_create(context); !status)
        return std::fprintf(stderr, "%s: %s\n", status.name(), status.message().c_str()), 1;
    std::vector<float> x = {0, 0}, y(2);
    attile::SoftmaxArgs args;
    args.x = attile::view(x, {2});
    args.y = attile::view(y, {2});
    args.axis = 1;
    if (context.try_softmax(args).code() != ATTILE_ERROR_INVALID_VALUE) return 2;
    args.axis = 0;
    if (!context.try_softmax(args)) return 3;
    return y[0] == 0.5f && y[1] == 0.5f ? 0 : 4;
}
