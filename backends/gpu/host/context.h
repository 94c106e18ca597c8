// SPDX-License-Identifier: Apache-2.0
// The state behind an attile_context of a GPU backend, and the tables that the backend's root hands out for it.
#pragma once

#include <memory>
#include <new>

#include "device.h"
#include "host/kept_workspaces.h"
#include "host/plan_cache.h"
#include "host/staging.h"
#include "host/status.h"

namespace attile::gpu {

struct Context {
    std::unique_ptr<Device> device;
    std::unique_ptr<Stager> stager;
    std::unique_ptr<KeptWorkspaces> kept;
    PlanCaches plans;
};

// A core of contract 1.0 refuses interfaces of version 2.
constexpr uint32_t kLowestHostMinor = 1;

// For the root of a vendor's backend, once it has opened a device.
int32_t context_make(std::unique_ptr<Device> device, const attile_backend_options &options, void **state);
void context_destroy(void *state);
const void *query_interface(uint32_t id, uint32_t version);

// The tables.
extern const attile_device_interface kDeviceInterface;
extern const attile_memory_interface kMemoryInterface;
extern const attile_gemm_interface kGemmInterface;
extern const attile_gemm_grouped_interface kGemmGroupedInterface;
extern const attile_attention_interface kAttentionInterface;
extern const attile_attention_backward_interface kAttentionBackwardInterface;
extern const attile_attention_merge_interface kMergeInterface;
extern const attile_attention_merge_backward_interface kMergeBackwardInterface;
extern const attile_reduce_interface kReduceInterface;
extern const attile_softmax_interface kSoftmaxInterface;
extern const attile_quantize_interface kQuantizeInterface;
extern const attile_repack_interface kRepackInterface;

// Runs the body of a table's function with the device current; no exception passes the C boundary. A device that failed refuses, unless the
// body gives back what it has.
template <class Body>
int32_t on_device(void *state, Body body, bool is_cleaning_up = false) noexcept {
    try {
        Context &context = *static_cast<Context *>(state);
        const Entered entered(*context.device, is_cleaning_up);
        if (entered.status() != ATTILE_OK) return entered.status();
        return body(context);
    } catch (const std::bad_alloc &) {
        return fail(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "host memory is exhausted");
    } catch (...) {
        return fail(ATTILE_ERROR_INTERNAL, "an unexpected exception in a device backend");
    }
}

}  // namespace attile::gpu
