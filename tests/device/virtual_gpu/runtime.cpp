// SPDX-License-Identifier: Apache-2.0
// The runtime's errors, device, streams, events and graphs.
#include "runtime.h"

#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <mutex>
#include <set>
#include <utility>

using attile::virtual_gpu::Recording;
using Clock = std::chrono::steady_clock;

// The headers leave open what these are.
struct CUstream_st {
    int device = 0;
    unsigned long long number = 0;
    std::shared_ptr<Recording> recording;  // While it is captured.
};
struct CUevent_st {
    int device = 0;
    bool is_timed = true, is_recorded = false;
    Clock::time_point at;
    std::shared_ptr<Recording> recording;
};
struct CUgraph_st {
    std::shared_ptr<Recording> recording;
};
struct CUgraphExec_st {
    std::shared_ptr<Recording> recording;
};

namespace attile::virtual_gpu {
namespace {

std::atomic<int> lasting{cudaSuccess};
thread_local std::map<const void *, cudaError_t> last_errors;  // By module.
thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

// Never destroyed, as the process may end with streams.
struct Streams {
    std::recursive_mutex lock;  // Held while work is done, too: one kernel at a time.
    std::set<cudaStream_t> live;
};
Streams &streams() {
    static Streams &made = *new Streams;
    return made;
}
unsigned long long new_stream_number() {
    static std::atomic<unsigned long long> last{0};  // Which is the legacy default stream's.
    return ++last;
}
bool is_default(cudaStream_t stream) { return stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread; }

const void *module_of(const void *caller) {
    Dl_info info;
    return dladdr(caller, &info) != 0 ? info.dli_fbase : nullptr;
}

struct Word {
    cudaError_t error;
    const char *name, *text;
};
#define ATTILE_WORD(error, text) \
    { error, #error, text }
constexpr Word kWords[] = {
    ATTILE_WORD(cudaSuccess, "no error"),
    ATTILE_WORD(cudaErrorInvalidValue, "invalid argument"),
    ATTILE_WORD(cudaErrorMemoryAllocation, "out of memory"),
    ATTILE_WORD(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    ATTILE_WORD(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    ATTILE_WORD(cudaErrorInvalidDeviceFunction, "invalid device function"),
    ATTILE_WORD(cudaErrorInvalidDevice, "invalid device ordinal"),
    ATTILE_WORD(cudaErrorNoKernelImageForDevice, "no kernel image is available for execution on the device"),
    ATTILE_WORD(cudaErrorInvalidPtx, "a PTX JIT compilation failed"),
    ATTILE_WORD(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    ATTILE_WORD(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    ATTILE_WORD(cudaErrorMisalignedAddress, "misaligned address"),
    ATTILE_WORD(cudaErrorLaunchFailure, "unspecified launch failure"),
    ATTILE_WORD(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    ATTILE_WORD(cudaErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch"),
    ATTILE_WORD(cudaErrorNotSupported, "operation not supported"),
    ATTILE_WORD(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
};

}  // namespace

cudaError_t lasting_error() { return static_cast<cudaError_t>(lasting.load(std::memory_order_relaxed)); }

void fail_lastingly(const std::string &what) {
    const auto says = [&](const char *word) { return what.find(word) != std::string::npos; };
    const cudaError_t error = says("no multiple of") ? cudaErrorMisalignedAddress
                              : says("memory")       ? cudaErrorIllegalAddress
                                                     : cudaErrorLaunchFailure;
    int none = cudaSuccess;
    if (lasting.compare_exchange_strong(none, error)) std::fprintf(stderr, "virtual GPU: %s\n", what.c_str());
}

cudaError_t remember(cudaError_t error, const void *caller) {
    if (error != cudaSuccess) last_errors[module_of(caller)] = error;
    return error;
}

cudaError_t failure(const char *name) {
    switch (test::FailingCalls::instance().call(name)) {
        case test::Failure::kNone:
            return cudaSuccess;
        case test::Failure::kMemory:
            return cudaErrorMemoryAllocation;
        case test::Failure::kOnce:
            return cudaErrorNotSupported;
        case test::Failure::kLasting:
            break;
    }
    return cudaErrorLaunchFailure;
}

Recording::~Recording() {
    for (void *const pointer : memory) take_back(pointer, -1);
}

cudaError_t recording_of(cudaStream_t stream, std::shared_ptr<Recording> *recording) {
    const std::lock_guard<std::recursive_mutex> guard(streams().lock);
    recording->reset();
    if (is_default(stream)) return cudaSuccess;
    if (streams().live.count(stream) == 0) return cudaErrorInvalidResourceHandle;
    *recording = stream->recording;
    return cudaSuccess;
}

int stream_device(cudaStream_t stream) {
    const std::lock_guard<std::recursive_mutex> guard(streams().lock);
    if (is_default(stream)) return current_device();
    return streams().live.count(stream) != 0 ? stream->device : -1;
}

cudaError_t need_own_stream(cudaStream_t stream) {
    const int device = stream_device(stream);
    if (device < 0) return cudaErrorInvalidResourceHandle;
    return device == current_device() ? cudaSuccess : cudaErrorLaunchFailure;
}

cudaError_t submit(cudaStream_t stream, std::function<void()> work) {
    const std::lock_guard<std::recursive_mutex> guard(streams().lock);
    std::shared_ptr<Recording> recording;
    const cudaError_t error = recording_of(stream, &recording);
    if (error != cudaSuccess) return error;
    if (recording != nullptr) {
        recording->steps.push_back(std::move(work));
    } else {
        work();
    }
    return cudaSuccess;
}

}  // namespace attile::virtual_gpu

using namespace attile::virtual_gpu;

ATTILE_EXPORT cudaError_t cudaGetLastError() {
    cudaError_t error = lasting_error();
    if (error == cudaSuccess) std::swap(error, last_errors[module_of(ATTILE_CALLER)]);
    return error;
}
ATTILE_EXPORT cudaError_t cudaPeekAtLastError() {
    const cudaError_t error = lasting_error();
    return error != cudaSuccess ? error : last_errors[module_of(ATTILE_CALLER)];
}
ATTILE_EXPORT const char *cudaGetErrorString(cudaError_t error) {
    for (const Word &word : kWords)
        if (word.error == error) return word.text;
    return "unrecognized error code";
}
ATTILE_EXPORT const char *cudaGetErrorName(cudaError_t error) {
    for (const Word &word : kWords)
        if (word.error == error) return word.name;
    return "unrecognized error code";
}

ATTILE_EXPORT cudaError_t cudaGetDeviceCount(int *count) {
    return answer(ATTILE_CALLER, [&] {
        *count = device_count();
        return cudaSuccess;
    });
}
ATTILE_EXPORT cudaError_t cudaGetDevice(int *device) {
    return answer(ATTILE_CALLER, [&] {
        *device = current_device();
        return cudaSuccess;
    });
}
ATTILE_EXPORT cudaError_t cudaSetDevice(int device) {
    return answer(ATTILE_CALLER, [&] { return set_device(device) ? cudaSuccess : cudaErrorInvalidDevice; });
}
ATTILE_EXPORT cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device) {
    return answer(ATTILE_CALLER, [&] {
        if (device < 0 || device >= device_count()) return cudaErrorInvalidDevice;
        *value = device_attribute(attribute);
        return cudaSuccess;
    });
}
ATTILE_EXPORT cudaError_t cudaDeviceCanAccessPeer(int *can, int, int) {
    *can = 0;
    return cudaSuccess;
}
ATTILE_EXPORT cudaError_t cudaDeviceEnablePeerAccess(int, unsigned int) { return remember(cudaErrorInvalidDevice, ATTILE_CALLER); }
ATTILE_EXPORT cudaError_t cudaDeviceSynchronize() {
    return answer(ATTILE_CALLER, [] {
        const std::lock_guard<std::recursive_mutex> guard(streams().lock);
        return cudaSuccess;
    });
}

ATTILE_EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int) {
    return answer(ATTILE_CALLER, [&] {
        const std::lock_guard<std::recursive_mutex> guard(streams().lock);
        *stream = new CUstream_st;
        (*stream)->device = current_device();
        (*stream)->number = new_stream_number();
        attile::test::FailingCalls::instance().born();
        streams().live.insert(*stream);
        return cudaSuccess;
    });
}
ATTILE_EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    return answer_ending(ATTILE_CALLER, [&] {
        const std::lock_guard<std::recursive_mutex> guard(streams().lock);
        if (streams().live.erase(stream) == 0) return cudaErrorInvalidResourceHandle;
        delete stream;
        attile::test::FailingCalls::instance().dead();
        return cudaSuccess;
    });
}
ATTILE_EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    return answer(ATTILE_CALLER, [&] {
        std::shared_ptr<Recording> recording;
        const cudaError_t error = recording_of(stream, &recording);
        return error == cudaSuccess && recording != nullptr ? cudaErrorStreamCaptureUnsupported : error;
    });
}
ATTILE_EXPORT CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
    return driver_answer([&] {
        std::shared_ptr<Recording> recording;
        const cudaError_t error = recording_of(stream, &recording);
        *status = recording != nullptr ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
        return error;
    });
}
ATTILE_EXPORT CUresult cuStreamGetId(CUstream stream, unsigned long long *number) {
    return driver_answer([&] {
        static thread_local const unsigned long long of_thread = new_stream_number();
        std::shared_ptr<Recording> recording;
        const cudaError_t error = recording_of(stream, &recording);
        if (error != cudaSuccess) return error;
        if (recording != nullptr) return cudaErrorStreamCaptureUnsupported;
        *number = !is_default(stream) ? stream->number : stream == cudaStreamPerThread ? of_thread : 0;
        return cudaSuccess;
    });
}
ATTILE_EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
    return driver_answer([&] {
        std::swap(*mode, capture_mode);
        return cudaSuccess;
    });
}
// An event that was recorded by a captured stream brings the stream that waits for it into the capture.
ATTILE_EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
    return answer(ATTILE_CALLER, [&] {
        const std::lock_guard<std::recursive_mutex> guard(streams().lock);
        if (event == nullptr || (!is_default(stream) && streams().live.count(stream) == 0)) return cudaErrorInvalidResourceHandle;
        if (event->recording != nullptr && is_default(stream)) return cudaErrorStreamCaptureUnsupported;
        if (event->recording != nullptr) stream->recording = event->recording;
        return cudaSuccess;
    });
}

ATTILE_EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags) {
    return answer(ATTILE_CALLER, [&] {
        *event = new CUevent_st;
        (*event)->device = current_device();
        attile::test::FailingCalls::instance().born();
        (*event)->is_timed = (flags & cudaEventDisableTiming) == 0;
        return cudaSuccess;
    });
}
ATTILE_EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) {
    return answer_ending(ATTILE_CALLER, [&] {
        delete event;
        attile::test::FailingCalls::instance().dead();
        return cudaSuccess;
    });
}
ATTILE_EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    return answer(ATTILE_CALLER, [&] {
        const std::lock_guard<std::recursive_mutex> guard(streams().lock);
        if (!is_default(stream) && streams().live.count(stream) != 0 && stream->device != event->device)
            return cudaErrorInvalidResourceHandle;
        const cudaError_t error = recording_of(stream, &event->recording);
        event->is_recorded = true;
        event->at = Clock::now();
        return error;
    });
}
ATTILE_EXPORT cudaError_t cudaEventQuery(cudaEvent_t event) {
    return answer(ATTILE_CALLER, [&] { return event->recording != nullptr ? cudaErrorStreamCaptureUnsupported : cudaSuccess; });
}
ATTILE_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    return answer(ATTILE_CALLER, [&] { return event->recording != nullptr ? cudaErrorStreamCaptureUnsupported : cudaSuccess; });
}
ATTILE_EXPORT cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to) {
    return answer(ATTILE_CALLER, [&] {
        if (!from->is_timed || !to->is_timed || !from->is_recorded || !to->is_recorded) return cudaErrorInvalidResourceHandle;
        *milliseconds = std::chrono::duration<float, std::milli>(to->at - from->at).count();
        return cudaSuccess;
    });
}

ATTILE_EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    return answer(ATTILE_CALLER, [&] {
        const std::lock_guard<std::recursive_mutex> guard(streams().lock);
        if (is_default(stream)) return cudaErrorStreamCaptureUnsupported;
        if (streams().live.count(stream) == 0) return cudaErrorInvalidResourceHandle;
        if (stream->recording != nullptr) return cudaErrorStreamCaptureUnsupported;
        stream->recording = std::make_shared<Recording>();
        stream->recording->origin = stream;
        return cudaSuccess;
    });
}
ATTILE_EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    return answer(ATTILE_CALLER, [&] {
        const std::lock_guard<std::recursive_mutex> guard(streams().lock);
        if (is_default(stream) || streams().live.count(stream) == 0) return cudaErrorInvalidResourceHandle;
        const std::shared_ptr<Recording> recording = stream->recording;
        if (recording == nullptr || recording->origin != stream) return cudaErrorInvalidValue;
        for (const cudaStream_t one : streams().live)
            if (one->recording == recording) one->recording.reset();
        *graph = new CUgraph_st{recording};
        return cudaSuccess;
    });
}
ATTILE_EXPORT cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *runnable, cudaGraph_t graph, unsigned long long) {
    return answer(ATTILE_CALLER, [&] {
        *runnable = new CUgraphExec_st{graph->recording};
        return cudaSuccess;
    });
}
ATTILE_EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t runnable, cudaStream_t stream) {
    return answer(ATTILE_CALLER, [&] {
        return submit(stream, [recording = runnable->recording] {
            for (const std::function<void()> &step : recording->steps) step();
        });
    });
}
ATTILE_EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete graph;
    return remember(lasting_error(), ATTILE_CALLER);
}
ATTILE_EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t runnable) {
    delete runnable;
    return remember(lasting_error(), ATTILE_CALLER);
}
