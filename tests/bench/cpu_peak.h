// SPDX-License-Identifier: Apache-2.0
// What the processor can do at most, measured: multiply-adds of whole vectors, and reading memory.
#ifndef ATTILE_BENCH_CPU_PEAK_H
#define ATTILE_BENCH_CPU_PEAK_H

#include <cstdint>
#include <vector>

namespace attile::bench {

// Seconds of the wall's clock or, after time_this_thread(true), of the calling thread's processor time: with one thread that is the same
// but for what other programs take away.
double seconds_now();
void time_this_thread(bool only);
// A few milliseconds of multiply-adds on `threads` threads with the widest vectors there are; returns how many float operations they were,
// a multiply-add counting two.
double fma_burst(int threads);
// Reads all of `memory` once, each of `threads` threads its share; returns the bytes.
double read_burst(int threads, const std::vector<uint64_t> &memory);

}  // namespace attile::bench

#endif  // ATTILE_BENCH_CPU_PEAK_H
