// SPDX-License-Identifier: Apache-2.0
// What the processor can do at most, measured: multiply-adds of whole vectors, and reading memory.
#ifndef ATTILE_BENCH_CPU_PEAK_H
#define ATTILE_BENCH_CPU_PEAK_H

namespace attile::bench {

// Seconds of the wall's clock or, after time_this_thread(true), of the calling thread's processor time: with one thread that is the same
// but for what other programs take away.
double seconds_now();
void time_this_thread(bool only);
// Float operations a second of `threads` threads, a multiply-add counting two, with the widest vectors there are.
double fma_peak_f32(int threads);
// Bytes a second that `threads` threads read from memory far larger than the caches.
double read_bandwidth(int threads);

}  // namespace attile::bench

#endif  // ATTILE_BENCH_CPU_PEAK_H
