// SPDX-License-Identifier: Apache-2.0
// Three streams: in, compute, out. Each staged operand has one device buffer, or two in turn if chunks move it; events keep a buffer from
// being overwritten before its last reader is done. Host memory passes through pinned pieces (host/pinned_pieces.h); pinned and contiguous
// memory is copied directly.
#include "host/staging.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "host/staging_plan.h"
#include "host/status.h"

namespace attile::gpu {

int32_t needs_staging(Device &device, const attile_operand &operand, bool *yes) {
    *yes = false;
    if (operand.data == nullptr) return ATTILE_OK;
    int32_t kind = ATTILE_MEMORY_HOST;
    const int32_t status = device.memory_kind(operand.data, &kind);
    *yes = kind == ATTILE_MEMORY_HOST || kind == ATTILE_MEMORY_PINNED;
    return status;
}

// One call's buffers and their traffic.
class StagedRun {
  public:
    StagedRun(Stager &stager, StagedCall &call) : stager_(stager), device_(stager.device_), call_(call) {}
    ~StagedRun() { release(); }
    StagedRun(const StagedRun &) = delete;
    StagedRun &operator=(const StagedRun &) = delete;

    int32_t run(Stream stream);

  private:
    struct Buffer {
        void *memory = nullptr;   // The device's.
        Event filled = nullptr;   // Inputs: copied in. Outputs: computed.
        Event emptied = nullptr;  // Inputs: last read by compute. Outputs: copied out.
        bool was_used = false;
    };
    struct Traffic {
        StagedOperand *operand = nullptr;
        attile_operand original = {};  // As the caller gave it.
        bool is_pinned = false;
        int buffers = 0;
        Buffer buffer[2];
        int at = -1;                    // Buffer in use.
        int64_t key[kStagedDims] = {};  // Chunk that it holds.
        bool is_uploading = false;
        // The chunk's piece of the caller's memory, as of the last place().
        char *base = nullptr;
        StridedBlock block;
    };
    int32_t sort_operands();
    int32_t take_buffers();
    int64_t next_count(int dim, int64_t begin) const;
    int32_t chunk(const int64_t begin[kStagedDims], const int64_t count[kStagedDims]);
    void place(Traffic &traffic, const int64_t begin[kStagedDims], const int64_t count[kStagedDims], int64_t dense_stride[4]);
    int32_t upload(Traffic &traffic, Buffer &buffer);
    int32_t finish_uploads();
    int32_t download(Traffic &traffic, Buffer &buffer);
    void release();

    Stager &stager_;
    Device &device_;
    StagedCall &call_;
    ChunkPlan plan_;
    std::vector<bool> staged_;
    std::vector<Traffic> traffic_;
    struct Resident {
        StagedOperand *operand;
        attile_operand original;
    };
    std::vector<Resident> residents_;  // Operands already on the device.
};

int32_t StagedRun::sort_operands() {
    staged_.assign(call_.operands.size(), false);
    traffic_.reserve(call_.operands.size());
    for (std::size_t i = 0; i < call_.operands.size(); ++i) {
        StagedOperand &operand = call_.operands[i];
        if (operand.operand->data == nullptr) continue;
        int32_t kind = ATTILE_MEMORY_HOST;
        const int32_t status = device_.memory_kind(operand.operand->data, &kind);
        if (status != ATTILE_OK) return status;
        if (kind != ATTILE_MEMORY_HOST && kind != ATTILE_MEMORY_PINNED) {
            residents_.push_back({&operand, *operand.operand});
            continue;
        }
        staged_[i] = true;
        Traffic traffic;
        traffic.operand = &operand;
        traffic.original = *operand.operand;
        traffic.is_pinned = kind == ATTILE_MEMORY_PINNED;
        traffic_.push_back(traffic);
    }
    return ATTILE_OK;
}

int32_t StagedRun::take_buffers() {
    int64_t free_bytes = 0;
    int32_t status = device_.memory_free(&free_bytes);
    if (status != ATTILE_OK) return status;
    // Chunks also need workspace, and others need memory too. The pool may hold more than is free now.
    if (!plan_chunks(call_, staged_, free_bytes / 4 * 3, &plan_)) {
        return fail(ATTILE_ERROR_OUT_OF_DEVICE_MEMORY,
                    "the smallest chunk of this call takes %lld bytes of device memory, and %lld are free",
                    static_cast<long long>(plan_.bytes), static_cast<long long>(free_bytes));
    }
    for (Traffic &traffic : traffic_) {
        bool moves = false;
        for (int32_t dim = 0; dim < kStagedDims; ++dim) moves |= plan_.count[dim] < call_.units[dim] && follows(*traffic.operand, dim);
        traffic.buffers = moves ? 2 : 1;
        const int64_t bytes = std::max<int64_t>(staged_bytes(*traffic.operand, call_.units, plan_.count), 1);
        for (int i = 0; i < traffic.buffers; ++i) {
            Buffer &buffer = traffic.buffer[i];
            status = device_.pool_alloc(bytes, stager_.compute_, &buffer.memory);
            if (status == ATTILE_OK) status = device_.event_create(false, &buffer.filled);
            if (status == ATTILE_OK) status = device_.event_create(false, &buffer.emptied);
            if (status != ATTILE_OK) return status;
        }
    }
    // The buffers exist in the compute stream's order; the copying streams must not run ahead of it.
    status = device_.event_record(stager_.begun_, stager_.compute_);
    if (status == ATTILE_OK) status = device_.event_wait(stager_.in_, stager_.begun_);
    if (status == ATTILE_OK) status = device_.event_wait(stager_.out_, stager_.begun_);
    return status;
}

void StagedRun::place(Traffic &traffic, const int64_t begin[kStagedDims], const int64_t count[kStagedDims], int64_t dense_stride[4]) {
    const StagedOperand &operand = *traffic.operand;
    int64_t extent[4], offset = 0;
    for (int axis = 0; axis < 4; ++axis) {
        const int32_t dim = operand.dim[axis];
        extent[axis] = operand.extent[axis];
        if (dim < 0 || call_.units[dim] == count[dim]) continue;
        offset += begin[dim] * operand.per_unit[axis] * operand.stride[axis];
        extent[axis] = count[dim] * operand.per_unit[axis];
    }
    traffic.base = static_cast<char *>(traffic.original.data) + offset * operand.element_bytes;
    traffic.block = strided_block(extent, operand.stride, operand.element_bytes, dense_stride);
}

int32_t StagedRun::upload(Traffic &traffic, Buffer &buffer) {
    const int32_t status = buffer.was_used ? device_.event_wait(stager_.in_, buffer.emptied) : ATTILE_OK;
    if (status != ATTILE_OK) return status;
    traffic.is_uploading = true;
    const StridedBlock &block = traffic.block;
    if (traffic.is_pinned && block.is_dense())
        return device_.copy(buffer.memory, traffic.base, block.count() * block.element_bytes, stager_.in_);
    return stager_.uploads_.send(buffer.memory, traffic.base, block, stager_.in_, stager_.out_);
}

// All copies of this chunk's inputs are queued; compute waits for them.
int32_t StagedRun::finish_uploads() {
    int32_t status = stager_.uploads_.flush(stager_.in_);
    for (Traffic &traffic : traffic_) {
        if (!std::exchange(traffic.is_uploading, false)) continue;
        Buffer &buffer = traffic.buffer[traffic.at];
        if (status == ATTILE_OK) status = device_.event_record(buffer.filled, stager_.in_);
        if (status == ATTILE_OK) status = device_.event_wait(stager_.compute_, buffer.filled);
    }
    return status;
}

int32_t StagedRun::download(Traffic &traffic, Buffer &buffer) {
    const StridedBlock &block = traffic.block;
    if (!traffic.is_pinned || !block.is_dense()) {
        stager_.downloads_.add({buffer.memory, traffic.base, block, buffer.filled, buffer.emptied});
        return ATTILE_OK;
    }
    int32_t status = device_.event_wait(stager_.out_, buffer.filled);
    if (status == ATTILE_OK) status = device_.copy(traffic.base, buffer.memory, block.count() * block.element_bytes, stager_.out_);
    return status == ATTILE_OK ? device_.event_record(buffer.emptied, stager_.out_) : status;
}

int32_t StagedRun::chunk(const int64_t begin[kStagedDims], const int64_t count[kStagedDims]) {
    int32_t status = ATTILE_OK;
    for (const Resident &resident : residents_) {
        const StagedOperand &operand = *resident.operand;
        int64_t offset = 0;
        for (int axis = 0; axis < 4; ++axis) {
            const int32_t dim = operand.dim[axis];
            if (dim < 0) continue;
            offset += begin[dim] * operand.per_unit[axis] * operand.stride[axis];
            operand.operand->stride[axis] = count[dim] * operand.per_unit[axis] == 1 ? 0 : operand.stride[axis];
        }
        operand.operand->data = static_cast<char *>(resident.original.data) + offset * operand.element_bytes;
    }
    for (Traffic &traffic : traffic_) {
        int64_t key[kStagedDims] = {};
        for (int32_t dim = 0; dim < kStagedDims; ++dim) key[dim] = follows(*traffic.operand, dim) ? begin[dim] : 0;
        const bool holds_it = traffic.at >= 0 && std::equal(key, key + kStagedDims, traffic.key);
        if (!holds_it) {
            traffic.at = (traffic.at + 1) % traffic.buffers;
            std::copy(key, key + kStagedDims, traffic.key);
        }
        Buffer &buffer = traffic.buffer[traffic.at];
        int64_t dense_stride[4];
        place(traffic, begin, count, dense_stride);
        if (traffic.operand->is_output) {
            status = stager_.downloads_.send(buffer.memory, stager_.out_);  // So that `emptied` is recorded behind the buffer's last use.
            if (status != ATTILE_OK) return status;
            if (traffic.operand->is_partial) {
                status = upload(traffic, buffer);
            } else if (buffer.was_used) {
                status = device_.event_wait(stager_.compute_, buffer.emptied);
            }
        } else if (!holds_it) {
            status = upload(traffic, buffer);
        }
        if (status != ATTILE_OK) return status;
        traffic.operand->operand->data = buffer.memory;
        std::copy(dense_stride, dense_stride + 4, traffic.operand->operand->stride);
    }
    status = finish_uploads();
    if (status == ATTILE_OK) status = call_.run(count, stager_.compute_);
    for (Traffic &traffic : traffic_) {
        Buffer &buffer = traffic.buffer[traffic.at];
        const bool is_output = traffic.operand->is_output;
        if (status == ATTILE_OK) status = device_.event_record(is_output ? buffer.filled : buffer.emptied, stager_.compute_);
        buffer.was_used = true;
        if (status == ATTILE_OK && is_output) status = download(traffic, buffer);
    }
    return status == ATTILE_OK ? stager_.downloads_.advance(stager_.out_) : status;
}

// Where one dimension alone is cut, the last chunks are halves of what is left, down to a quarter of the others: nothing goes on beside
// the last one's computation and its way home.
int64_t StagedRun::next_count(int dim, int64_t begin) const {
    const int64_t rest = call_.units[dim] - begin, whole = plan_.count[dim], granule = call_.granule[dim];
    bool is_cut_alone = whole < call_.units[dim];
    for (int other = 0; other < kStagedDims; ++other) is_cut_alone &= other == dim || plan_.count[other] == call_.units[other];
    const int64_t half = ((rest + 1) / 2 + granule - 1) / granule * granule;
    return is_cut_alone && rest <= whole && rest > whole / 4 && half < rest ? half : std::min(whole, rest);
}

int32_t StagedRun::run(Stream stream) {
    int32_t status = sort_operands();
    if (status == ATTILE_OK) status = device_.event_record(stager_.begun_, stream);
    if (status == ATTILE_OK) status = device_.event_wait(stager_.compute_, stager_.begun_);
    if (status == ATTILE_OK) status = take_buffers();
    if (status != ATTILE_OK) return status;
    // An odometer over the chunks, the last dimension fastest.
    int64_t begin[kStagedDims] = {};
    bool is_first = true;
    for (bool more = true; more; is_first = false) {
        int64_t count[kStagedDims];
        for (int dim = 0; dim < kStagedDims; ++dim) count[dim] = next_count(dim, begin[dim]);
        status = chunk(begin, count);
        // Somebody took memory meanwhile. Codes of memory promise that nothing was written.
        if (status / 1000 == ATTILE_ERROR_OUT_OF_DEVICE_MEMORY / 1000 && !is_first)
            return fail(ATTILE_ERROR_DEVICE_RUNTIME, "memory ran out, of status %d, when part of the result was in host memory already",
                        static_cast<int>(status));
        if (status != ATTILE_OK) return status;
        more = false;
        for (int dim = kStagedDims - 1; dim >= 0 && !more; --dim) {
            begin[dim] += count[dim];
            more = begin[dim] < call_.units[dim];
            if (!more) begin[dim] = 0;
        }
    }
    status = stager_.downloads_.finish(stager_.out_);
    if (status == ATTILE_OK) status = device_.synchronize(stager_.out_);
    if (status == ATTILE_OK) status = device_.synchronize(stager_.compute_);
    return status;
}

void StagedRun::release() {
    // Also after a failure nothing may still read or write the caller's memory or the pinned pieces.
    device_.synchronize(stager_.in_);
    device_.synchronize(stager_.compute_);
    device_.synchronize(stager_.out_);
    stager_.uploads_.drop();
    stager_.downloads_.drop();
    for (Traffic &traffic : traffic_) {
        for (Buffer &buffer : traffic.buffer) {
            if (buffer.memory != nullptr) device_.pool_free(buffer.memory, stager_.compute_);
            if (buffer.filled != nullptr) device_.event_destroy(buffer.filled);
            if (buffer.emptied != nullptr) device_.event_destroy(buffer.emptied);
        }
        *traffic.operand->operand = traffic.original;
    }
    for (const Resident &resident : residents_) *resident.operand->operand = resident.original;
}

int32_t Stager::start() {
    if (is_started_) return ATTILE_OK;
    int32_t status = device_.stream_create(&in_);
    if (status == ATTILE_OK) status = device_.stream_create(&compute_);
    if (status == ATTILE_OK) status = device_.stream_create(&out_);
    if (status == ATTILE_OK) status = device_.event_create(false, &begun_);
    if (status == ATTILE_OK) status = uploads_.start();
    if (status == ATTILE_OK) status = downloads_.start();
    if (status != ATTILE_OK) {
        stop();
        return status;
    }
    is_started_ = true;
    return ATTILE_OK;
}

void Stager::stop() {
    uploads_.stop();
    downloads_.stop();
    if (begun_ != nullptr) device_.event_destroy(std::exchange(begun_, nullptr));
    for (Stream *stream : {&in_, &compute_, &out_}) {
        if (*stream != nullptr) device_.stream_destroy(std::exchange(*stream, nullptr));
    }
    is_started_ = false;
}

Stager::~Stager() { stop(); }

int32_t Stager::run(StagedCall &call, Stream stream) {
    if (device_.capturing(stream)) {
        return fail(ATTILE_ERROR_UNSUPPORTED_MEMORY, "the stream is capturing a graph, and a tensor is in host memory");
    }
    const std::lock_guard<std::mutex> guard(lock_);
    const int32_t status = start();
    if (status != ATTILE_OK) return status;
    StagedRun staged(*this, call);
    return staged.run(stream);
}

}  // namespace attile::gpu
