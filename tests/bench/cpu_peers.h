// SPDX-License-Identifier: Apache-2.0
// OpenBLAS, BLIS and oneDNN, each if it is installed. They are loaded by name and asked for their own symbols, since two of them export the
// same ones and none may stand in for another.
#ifndef ATTILE_BENCH_CPU_PEERS_H
#define ATTILE_BENCH_CPU_PEERS_H

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace attile::bench {

template <class T>
using CblasGemm = void (*)(int, int, int, int, int, int, T, const T *, int, const T *, int, T, T *, int);
using DnnlSgemm = int (*)(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *, int64_t, float, float *,
                          int64_t);

struct Peers {
    Peers();
    void set_threads(int threads) const;

    CblasGemm<float> openblas_s = nullptr, blis_s = nullptr;
    CblasGemm<double> openblas_d = nullptr, blis_d = nullptr;
    DnnlSgemm onednn_s = nullptr;
    std::vector<std::pair<std::string, std::string>> versions;  // name, version and the kernels it chose
    std::vector<std::string> missing;

  private:
    void (*openblas_threads_)(int) = nullptr;
    void (*blis_threads_)(int64_t) = nullptr;
};

}  // namespace attile::bench

#endif  // ATTILE_BENCH_CPU_PEERS_H
