// SPDX-License-Identifier: Apache-2.0
// What a context of this backend holds, and the services that every operation uses: errors, workspace.
#ifndef ATTILE_CPU_STATE_H
#define ATTILE_CPU_STATE_H

#include <attile/attile_backend.h>

#include <atomic>
#include <cstdint>

#include "pool.h"
#include "roof.h"
#include "size.h"
#include "targets.h"

namespace attile::cpu {

struct CacheSizes {
    int64_t l1 = 32 << 10;   // bytes of a core's L1 data cache
    int64_t l2 = 512 << 10;  // bytes of a core's L2 cache
    int64_t l3 = 4 << 20;    // bytes of the L3 cache that cores share
};

struct State {
    Target target = Target::kNone;
    int threads = 1;
    CacheSizes caches;
    Pool pool;
    RoofOnce roof;
};

extern const attile_host_v1 *g_host;

// Sets the calling thread's sentence and hands `code` back.
int32_t fail(int32_t code, const char *text);

// detect.cpp
Target best_target();  // of the processor, before ATTILE_CPU_TARGET
Target target_by_name(const char *name);
bool target_is_built(Target target);   // ATTILE_CPU_TARGETS of the build
bool target_runs_here(Target target);  // built, and the processor has it
bool processor_is_amd();               // asked once
const char *target_name(Target target);
const char *kernel_target_name(Target target);  // of kernels that are those of the set it adds to
int target_lanes_f32(Target target);
CacheSizes cache_sizes();
void processor_name(char *buffer, int capacity);
// The target that a context uses: the best, or what ATTILE_CPU_TARGET asks for. kNone after set_error if that cannot run.
Target chosen_target();

// Workspace of one call: the caller's if it gave one, else from the pool. Not copied, gives back at its end.
class Workspace {
  public:
    Workspace(State &state, const attile_launch &launch, int64_t bytes) : pool_(state.pool) {
        if (bytes <= 0) return;
        if (launch.workspace != nullptr && launch.workspace_bytes >= bytes) {
            data_ = launch.workspace;
            return;
        }
        data_ = owned_ = pool_.take(bytes);
        failed_ = data_ == nullptr;
    }
    ~Workspace() { pool_.give(owned_); }
    Workspace(const Workspace &) = delete;
    Workspace &operator=(const Workspace &) = delete;
    char *data() const { return static_cast<char *>(data_); }
    bool failed() const { return failed_; }

  private:
    Pool &pool_;
    void *data_ = nullptr;
    void *owned_ = nullptr;
    bool failed_ = false;
};

int32_t out_of_workspace(int64_t bytes);

constexpr int dtype_bytes(int32_t dtype) { return static_cast<int>((dtype & 0xff) / 8); }
constexpr int dtype_bits(int32_t dtype) { return static_cast<int>(dtype & 0xff); }

// The interfaces, each in the file of its operation.
extern const attile_device_interface g_device_interface;
extern const attile_memory_interface g_memory_interface;
extern const attile_gemm_interface g_gemm_interface;
extern const attile_gemm_grouped_interface g_gemm_grouped_interface;
extern const attile_attention_interface g_attention_interface;
extern const attile_attention_backward_interface g_attention_backward_interface;
extern const attile_attention_merge_interface g_attention_merge_interface;
extern const attile_attention_merge_backward_interface g_attention_merge_backward_interface;
extern const attile_reduce_interface g_reduce_interface;
extern const attile_softmax_interface g_softmax_interface;
extern const attile_quantize_interface g_quantize_interface;
extern const attile_repack_interface g_repack_interface;

}  // namespace attile::cpu

#endif  // ATTILE_CPU_STATE_H
