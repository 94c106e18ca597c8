// SPDX-License-Identifier: Apache-2.0
// A backend whose device is the processor, running the SIMT kernels thread by thread: slow, and the kernels' own code. With it everything
// that tests a backend tests them where no GPU is. ATTILE_EMULATED_ORDER=forward|backward|shuffled sets the order of a block's threads,
// ATTILE_EMULATED_MEMORY how many bytes the device says it has, by which some plans go, ATTILE_EMULATED_CAPACITY how many it has,
// ATTILE_CUDA_GRADIENTS=tiles|products|time how gradients of float32 and float64 are made,
// ATTILE_CUDA_ATTENTION=tiles|streams|products|time how attention: by tiles if they are not set, since a processor's time says nothing.
// With ATTILE_EMULATED_PRODUCTS it has gemm, by the reference's loops, with ATTILE_EMULATED_GEMM by its kernels, as far as they are
// emulated. ATTILE_EMULATED_DEVICES=n devices are there, all alike. There are two: "emulated" with warps of 32, and "emulated64" with waves
// of 64 and what the kernels do otherwise on AMD's GPUs.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "attention/simt/kernels.h"
#include "emulated_gemm.h"
#include "emulated_products.h"
#include "failures/failing_calls.h"
#include "fibre.h"
#include "host/context.h"
#include "memory_device.h"

namespace attile::test {
namespace {

using gpu::fail;

constexpr const char *kName = ATTILE_EMULATED_WAVE == 64 ? "emulated64" : "emulated";

emulation::Order order_wanted() {
    const char *text = std::getenv("ATTILE_EMULATED_ORDER");
    if (text == nullptr || std::strcmp(text, "forward") == 0) return emulation::Order::kForward;
    return std::strcmp(text, "backward") == 0 ? emulation::Order::kBackward : emulation::Order::kShuffled;
}

class EmulatedDevice final : public MemoryDevice {
  public:
    explicit EmulatedDevice(int32_t index) : MemoryDevice(capacity()) {
        properties_.index = index;
        std::snprintf(properties_.name, sizeof properties_.name, "%s", kName);
        std::snprintf(properties_.arch, sizeof properties_.arch, "%s", kName);
        properties_.device_type = ATTILE_DEVICE_CUDA;
        if (const char *memory = std::getenv("ATTILE_EMULATED_MEMORY")) properties_.memory_total = std::atoll(memory);
        const char *by = std::getenv("ATTILE_CUDA_GRADIENTS");
        properties_.gradients_by = gpu::gradients_by_name(by != nullptr ? by : "tiles");
        const char *attention = std::getenv("ATTILE_CUDA_ATTENTION");
        properties_.attention_by = gpu::attention_by_name(attention != nullptr ? attention : "tiles");
        properties_.lane_width = ATTILE_EMULATED_WAVE;
        properties_.threads_per_unit = 2048;
        properties_.blocks_per_unit = 16;
        properties_.registers_per_unit = 65536;
        properties_.shared_per_block = properties_.shared_opt_in = 49152;
        properties_.shared_per_unit = 98304;
        properties_.clock_hz = 1e9;
        properties_.peak_flops_f32 = 1e9;
        properties_.peak_bandwidth = 1e9;
    }
    // A fault stays, as a device's does.
    int32_t enter(bool is_cleaning_up) override {
        if (has_failed_ && !is_cleaning_up) return fail(ATTILE_ERROR_DEVICE_FAULT, "the emulated device failed earlier in this context");
        return is_cleaning_up ? ATTILE_OK : called("enter");
    }
    int32_t launch(const void *kernel, gpu::Dim3 grid, gpu::Dim3 block, std::size_t shared, void **arguments, gpu::Stream) override {
        if (const int32_t status = called("launch"); status != ATTILE_OK) return status;
        emulation::Call call = emulation::call_of(kernel);
        if (call == nullptr) call = call_of_gemm(kernel);
        if (call == nullptr) {  // These kernels are known by address alone, too.
            call = kernel == gpu::simt::attention_convert_kernel() ? &emulation::Caller<const gpu::simt::AttentionConvertParams>::call
                                                                   : &emulation::Caller<const gpu::AttentionParams>::call;
        }
        const std::string fault =
            emulation::run_grid(kernel, call, arguments, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared, order_wanted());
        return fault.empty() ? ATTILE_OK : fail(ATTILE_ERROR_DEVICE_FAULT, "%s", fault.c_str());
    }
    int32_t occupancy(const void *, int32_t, std::size_t, int32_t *blocks) override {
        *blocks = 2;
        return called("occupancy");
    }

  private:
    static int64_t capacity() {
        const char *const bytes = std::getenv("ATTILE_EMULATED_CAPACITY");
        return bytes != nullptr ? std::atoll(bytes) : int64_t{4} << 30;
    }
    int32_t called(const char *name) override {
        switch (FailingCalls::instance().call(name)) {
            case Failure::kNone:
                return ATTILE_OK;
            case Failure::kMemory:
                if (std::strcmp(name, "alloc") == 0)
                    return fail(ATTILE_ERROR_OUT_OF_DEVICE_MEMORY, "%s finds no memory, as asked for", name);
                return fail(ATTILE_ERROR_DEVICE_RUNTIME, "%s finds no memory, as asked for", name);
            case Failure::kOnce:
                return fail(ATTILE_ERROR_DEVICE_RUNTIME, "%s fails, as asked for", name);
            case Failure::kLasting:
                break;
        }
        has_failed_ = true;
        return fail(ATTILE_ERROR_DEVICE_FAULT, "%s fails for good, as asked for", name);
    }
    void lives(int more) override { more > 0 ? FailingCalls::instance().born() : FailingCalls::instance().dead(); }

    std::atomic<bool> has_failed_{false};
};

int32_t probe(int32_t device, attile_backend_probe *found) {
    const char *const devices = std::getenv("ATTILE_EMULATED_DEVICES");
    found->device_count = devices != nullptr ? std::atoi(devices) : 1;
    std::snprintf(found->device_name, sizeof found->device_name, "%s", kName);
    if (device < found->device_count) return ATTILE_OK;
    return fail(ATTILE_ERROR_BACKEND_REFUSED, "there are %d emulated devices", found->device_count);
}

int32_t context_create(const attile_backend_options *options, void **state) {
    return gpu::context_make(std::make_unique<EmulatedDevice>(options->device), *options, state);
}

const attile_backend_v1 kRoot = {
    sizeof(attile_backend_v1), ATTILE_BACKEND_ABI_MAJOR, ATTILE_BACKEND_ABI_MINOR, 0, kName, "1.0.0", probe, context_create,
    gpu::context_destroy,      query_emulated_interface};

}  // namespace
}  // namespace attile::test

extern "C" ATTILE_ENTRY_EXPORT const attile_backend_v1 *ATTILE_BACKEND_ENTRY_SYMBOL(const attile_host_v1 *host);
extern "C" const attile_backend_v1 *ATTILE_BACKEND_ENTRY_SYMBOL(const attile_host_v1 *host) {
    attile::gpu::set_host(host);
    return &attile::test::kRoot;
}
