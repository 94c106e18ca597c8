// SPDX-License-Identifier: Apache-2.0
// The processor's peaks, measured, for the roofline: no system call says how many multiply-adds a core does at once, at which clock, or how
// fast memory is. A context measures when it is first asked for its information and keeps what it found: some 50 ms.
#ifndef ATTILE_CPU_ROOF_H
#define ATTILE_CPU_ROOF_H

#include <cstdint>
#include <mutex>

#include "targets.h"

namespace attile::cpu {

// Of one target.
struct RoofKernels {
    // `rounds` rounds of independent multiply-adds in registers; returns how many operations they were, a multiply-add counting two.
    double (*multiply_add_f32)(int64_t rounds);
    double (*multiply_add_f64)(int64_t rounds);
    // Reads whole vectors; returns something that depends on all of them. bytes: a multiple of 4096.
    uint64_t (*read)(const char *memory, int64_t bytes);
};
const RoofKernels &roof_kernels(Target target);

struct Roof {
    double flops_f32 = 0, flops_f64 = 0;  // a second, of all the context's threads
    double bandwidth = 0;                 // bytes a second that they read of 128 MiB; 0 if that much memory is not to be had
};

class RoofOnce {
  public:
    Roof measured(Target target, int threads);

  private:
    std::mutex mutex_;
    bool done_ = false;
    Roof roof_;
};

}  // namespace attile::cpu

#endif  // ATTILE_CPU_ROOF_H
