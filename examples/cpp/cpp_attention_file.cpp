// SPDX-License-Identifier: Apache-2.0
// Attention of a file: reads Q, K and V, writes softmax(Q K^T / sqrt(d)) V.
//
//     c++ -std=c++17 cpp_attention_file.cpp $(pkg-config --cflags --libs attile) -o cpp_attention_file
//     ./cpp_attention_file in.bin out.bin                            on whatever device is there
//     ATTILE_BACKEND=reference ./cpp_attention_file in.bin out.bin   on a backend of your choice
//
// The input, all little-endian: int32 B, N, d; then, for each of the B batches, Q, K and V of N*d float32 each. The output is B*N*d
// float32. `attile generate` makes such inputs.
#include <array>
#include <attile.hpp>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

template <class T>
void read(std::ifstream &file, T *data, std::size_t count, const std::string &path) {
    file.read(reinterpret_cast<char *>(data), static_cast<std::streamsize>(count * sizeof(T)));
    if (!file) throw std::runtime_error(path + ": cannot be read, or is truncated");
}

void compute(const std::string &source, const std::string &target) {
    std::ifstream in(source, std::ios::binary);
    std::array<int32_t, 3> head{};
    read(in, head.data(), head.size(), source);
    const int64_t batch = head[0], len = head[1], head_dim = head[2];
    if (batch < 1 || len < 1 || head_dim < 1) throw std::runtime_error(source + ": B, N and d must be at least 1");
    if (len > INT64_MAX / 12 / batch / head_dim) throw std::runtime_error(source + ": B*N*d is too large");
    const int64_t matrix = len * head_dim;  // floats of one Q, K or V
    std::vector<float> input(static_cast<std::size_t>(3 * batch * matrix)), output(input.size() / 3);
    read(in, input.data(), input.size(), source);
    if (in.get() != std::ifstream::traits_type::eof()) throw std::runtime_error(source + ": has bytes after its end");

    //! [compute]
    attile::AttentionArgs args;
    args.q = attile::view(input.data(), {batch, 1, len, head_dim});  // one head
    args.k = attile::view(input.data() + matrix, {batch, 1, len, head_dim});
    args.v = attile::view(input.data() + 2 * matrix, {batch, 1, len, head_dim});
    args.o = attile::view(output, {batch, 1, len, head_dim});
    // From one batch's Q to the next one's there are three matrices; nothing has to be copied together first.
    args.q.stride[0] = args.k.stride[0] = args.v.stride[0] = 3 * matrix;
    attile::Context::create().attention(args);
    //! [compute]

    std::ofstream out(target, std::ios::binary);
    out.write(reinterpret_cast<const char *>(output.data()), static_cast<std::streamsize>(output.size() * sizeof(float)));
    out.close();
    if (!out) throw std::runtime_error(target + ": cannot be written");
    std::printf("%s: B = %d, N = %d, d = %d; first value %g\n", target.c_str(), head[0], head[1], head[2], output[0]);
}

}  // namespace

int main(int argc, char **argv) {
    if (argc != 3) {
        std::fprintf(stderr, "usage: cpp_attention_file INPUT OUTPUT\n");
        return 2;
    }
    try {
        compute(argv[1], argv[2]);
    } catch (const std::exception &error) {  // attile::Error among them
        std::fprintf(stderr, "cpp_attention_file: %s\n", error.what());
        return 1;
    }
    return 0;
}
