// SPDX-License-Identifier: Apache-2.0
// Matrix multiplication from C++: a product, then one layer of a neural network.
//
//     c++ -std=c++17 cpp_gemm.cpp $(pkg-config --cflags --libs attile) -o cpp_gemm && ./cpp_gemm
//
// Containers become views, args structs start at their defaults, failures are exceptions. A transposed matrix is a matter of strides, and
// the bias and the activation cost no second pass over the result.
#include <array>
#include <attile.hpp>
#include <cstddef>
#include <cstdio>
#include <vector>

namespace {

void print(const char *name, const std::vector<float> &x, std::size_t columns) {
    std::printf("%s =", name);
    for (std::size_t i = 0; i < x.size(); ++i) std::printf("%s %6g", i % columns == 0 ? "\n" : "", x[i]);
    std::printf("\n");
}

std::vector<float> product(const attile::Context &context) {
    //! [product]
    const std::vector<float> a{1, 2, 3, /* */ 4, 5, 6};        // 2 x 3
    const std::vector<float> b{1, 0, /* */ 0, 1, /* */ 1, 1};  // 3 x 2
    std::vector<float> d(4);
    attile::GemmArgs args;
    args.a = attile::view(a, {2, 3});
    args.b = attile::view(b, {3, 2});
    args.d = attile::view(d, {2, 2});
    context.gemm(args);
    //! [product]
    return d;
}

std::vector<float> layer(const attile::Context &context) {
    //! [layer]
    const std::array<float, 6> x{1, 2, 3, /* */ 4, 5, 6};                                    // 2 samples of 3 features
    const std::array<float, 12> w{1, 0, 0, /* */ 0, 1, 0, /* */ 0, 0, 1, /* */ -1, -1, -1};  // 4 units with 3 weights each
    const std::array<float, 4> bias{0.5F, 0.5F, 0.5F, 0.5F};
    std::vector<float> d(8);
    attile::GemmArgs args;
    args.a = attile::view(x, {2, 3});
    args.b = attile::view(w, {3, 4});
    args.b.stride[0] = 1;  // B = W^T: one step down B is one step along a row of W,
    args.b.stride[1] = 3;  // one step to the right is the next row of W.
    args.d = attile::view(d, {2, 4});
    args.bias = attile::view(bias, {4});
    args.bias_axis = ATTILE_BIAS_COLUMNS;
    args.activation = ATTILE_ACTIVATION_RELU;
    context.gemm(args);
    //! [layer]
    return d;
}

}  // namespace

int main() try {
    const attile::Context context = attile::Context::create();  // the best backend here, or the one in ATTILE_BACKEND
    const std::vector<float> c = product(context), d = layer(context);
    print("A B", c, 2);
    print("relu(X W^T + bias)", d, 4);
    // Small integers and halves: exact on every backend.
    if (c == std::vector<float>{4, 5, 10, 11} && d == std::vector<float>{1.5F, 2.5F, 3.5F, 0, 4.5F, 5.5F, 6.5F, 0}) return 0;
    std::fprintf(stderr, "cpp_gemm: wrong result\n");
    return 1;
} catch (const attile::Error &error) {
    std::fprintf(stderr, "cpp_gemm: %s\n", error.what());  // which argument, its value, what was expected
    return 1;
}
