// SPDX-License-Identifier: Apache-2.0
// Opening and closing a context; the device and memory tables.
#include "host/context.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <thread>

namespace attile::gpu {
namespace {

// More threads than this do not make copies to and from pinned memory faster than a PCIe link of 55 GB/s each way.
constexpr int32_t kMostCopyThreads = 12;
constexpr int64_t kMostPoolBytes = int64_t{5} << 28;  // Gradients of attention take 1 GiB and a little more.

int32_t info(void *state, attile_context_info *out) {
    return on_device(state, [&](Context &context) {
        const DeviceProperties &p = context.device->properties();
        std::memcpy(out->device_name, p.name, std::min(sizeof out->device_name, sizeof p.name));
        std::memcpy(out->arch, p.arch, std::min(sizeof out->arch, sizeof p.arch));
        out->device_type = p.device_type;
        out->device_index = p.index;
        out->compute_units = p.compute_units;
        out->lane_width = p.lane_width;
        out->max_threads_per_unit = p.threads_per_unit;
        out->max_blocks_per_unit = p.blocks_per_unit;
        out->registers_per_unit = p.registers_per_unit;
        out->memory_total = p.memory_total;
        out->shared_per_block = p.shared_per_block;
        out->shared_per_unit = p.shared_per_unit;
        out->l2_bytes = p.l2_bytes;
        out->clock_hz = p.clock_hz;
        out->peak_flops_f32 = p.peak_flops_f32;
        out->peak_flops_f64 = p.peak_flops_f64;
        out->peak_flops_f16 = p.peak_flops_f16;
        out->peak_bandwidth = p.peak_bandwidth;
        return context.device->memory_free(&out->memory_free);
    });
}

int32_t stream_create(void *state, void **stream) {
    return on_device(state, [&](Context &context) { return context.device->stream_create(stream); });
}

int32_t stream_destroy(void *state, void *stream) {
    const auto body = [&](Context &context) {
        const int32_t status = context.device->synchronize(stream);
        context.kept->forget(context.device->stream_number(stream), stream);
        const int32_t destroyed = context.device->stream_destroy(stream);
        return status != ATTILE_OK ? status : destroyed;
    };
    return on_device(state, body, true);
}

int32_t synchronize(void *state, void *stream) {
    return on_device(state, [&](Context &context) {
        const int32_t status = context.device->check_stream(stream);
        return status == ATTILE_OK ? context.device->synchronize(stream) : status;
    });
}

int32_t memory_alloc(void *state, int32_t kind, int64_t bytes, void **pointer) {
    if (kind == ATTILE_MEMORY_HOST) {
        *pointer = ::operator new(static_cast<std::size_t>(bytes), std::align_val_t(256), std::nothrow);
        if (*pointer != nullptr) return ATTILE_OK;
        return fail(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "%lld bytes of host memory are not to be had", static_cast<long long>(bytes));
    }
    return on_device(state, [&](Context &context) { return context.device->alloc(kind, bytes, pointer); });
}

int32_t memory_free(void *state, int32_t kind, void *pointer) {
    if (kind == ATTILE_MEMORY_HOST) {
        ::operator delete(pointer, std::align_val_t(256));
        return ATTILE_OK;
    }
    return on_device(
        state, [&](Context &context) { return context.device->free(kind, pointer); }, true);
}

int32_t memory_copy(void *state, void *destination, const void *source, int64_t bytes, void *stream) {
    return on_device(state, [&](Context &context) {
        Device &device = *context.device;
        int32_t to = 0, from = 0;
        int32_t status = device.check_stream(stream);
        if (status == ATTILE_OK) status = device.memory_kind(destination, &to);
        if (status == ATTILE_OK) status = device.memory_kind(source, &from);
        if (status == ATTILE_OK) status = device.copy(destination, source, bytes, stream);
        // The runtime may still be reading ordinary memory when it returns; the contract says the caller may reuse it then.
        const bool is_ordinary = to == ATTILE_MEMORY_HOST || from == ATTILE_MEMORY_HOST;
        return status == ATTILE_OK && is_ordinary ? device.synchronize(stream) : status;
    });
}

int32_t memory_prefetch(void *state, const void *pointer, int64_t bytes, int32_t kind, void *stream) {
    return on_device(state, [&](Context &context) {
        int32_t found = 0;
        int32_t status = context.device->check_stream(stream);
        if (status == ATTILE_OK) status = context.device->memory_kind(pointer, &found);
        if (status != ATTILE_OK || found != ATTILE_MEMORY_MANAGED) return status;
        return context.device->prefetch(pointer, bytes, kind, stream);
    });
}

int32_t memory_kind(void *state, const void *pointer, int32_t *kind) {
    return on_device(state, [&](Context &context) { return context.device->memory_kind(pointer, kind); });
}

template <class Table>
const void *checked(const Table &table, uint32_t version) {
    return version >= table.version ? &table : nullptr;
}

}  // namespace

const attile_device_interface kDeviceInterface = {sizeof(attile_device_interface), 1, info, stream_create, stream_destroy, synchronize};
const attile_memory_interface kMemoryInterface = {
    sizeof(attile_memory_interface), 1, memory_alloc, memory_free, memory_copy, memory_prefetch, memory_kind};

int32_t context_make(std::unique_ptr<Device> device, const attile_backend_options &options, void **state) {
    const int32_t processors = static_cast<int32_t>(std::thread::hardware_concurrency());
    const int32_t threads = options.threads > 0 ? options.threads : std::clamp(processors * 3 / 4, 1, kMostCopyThreads);
    const int64_t keep = options.pool_bytes > 0 ? options.pool_bytes : std::min(kMostPoolBytes, device->properties().memory_total / 16);
    int32_t status = ATTILE_OK;
    {
        const Entered entered(*device);
        status = entered.status() == ATTILE_OK ? device->pool_keep(keep) : entered.status();
    }
    if (status != ATTILE_OK) return status;
    std::unique_ptr<Context> context = std::make_unique<Context>();
    context->stager = std::make_unique<Stager>(*device, threads);
    context->kept = std::make_unique<KeptWorkspaces>(*device, keep);
    context->device = std::move(device);
    *state = context.release();
    return ATTILE_OK;
}

void context_destroy(void *state) {
    const std::unique_ptr<Context> context(static_cast<Context *>(state));
    const Entered entered(*context->device, true);
    if (entered.status() != ATTILE_OK) return;
    context->device->synchronize_all();
    context->stager.reset();
    context->kept.reset();
}

const void *query_interface(uint32_t id, uint32_t version) {
    switch (id) {
        case ATTILE_INTERFACE_DEVICE:
            return checked(kDeviceInterface, version);
        case ATTILE_INTERFACE_MEMORY:
            return checked(kMemoryInterface, version);
        case ATTILE_INTERFACE_REDUCE:
            return checked(kReduceInterface, version);
        case ATTILE_INTERFACE_SOFTMAX:
            return checked(kSoftmaxInterface, version);
        case ATTILE_INTERFACE_ATTENTION_MERGE:
            return checked(kMergeInterface, version);
        case ATTILE_INTERFACE_ATTENTION_MERGE_BACKWARD:
            return checked(kMergeBackwardInterface, version);
        case ATTILE_INTERFACE_QUANTIZE:
            return checked(kQuantizeInterface, version);
        case ATTILE_INTERFACE_REPACK:
            return checked(kRepackInterface, version);
#if defined(ATTILE_GPU_HAS_GEMM)
        case ATTILE_INTERFACE_GEMM:
            return checked(kGemmInterface, version);
        case ATTILE_INTERFACE_GEMM_GROUPED:
            return checked(kGemmGroupedInterface, version);
#endif
#if defined(ATTILE_GPU_HAS_ATTENTION)
        case ATTILE_INTERFACE_ATTENTION:
            return checked(kAttentionInterface, version);
        case ATTILE_INTERFACE_ATTENTION_BACKWARD:
            return checked(kAttentionBackwardInterface, version);
#endif
        default:
            return nullptr;
    }
}

}  // namespace attile::gpu
