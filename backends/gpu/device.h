// SPDX-License-Identifier: Apache-2.0
// What the host code of GPU backends needs from a vendor's runtime: one pure interface, implemented once by cuda/ and once by hip/. No
// vendor header is included here or by anything that includes this, save the implementation itself. C++17, since device compilers read it
// too.
#pragma once

#include <attile/attile_backend.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tensor_map.h"

namespace attile::gpu {

using Stream = void *;  // The vendor's stream handle; nullptr is the default stream.
using Event = void *;   // The vendor's event handle.

struct Dim3 {
    uint32_t x = 1, y = 1, z = 1;
};

// Grids of every vendor take at least this much in y and z, and 2^31 - 1 in x.
inline constexpr int64_t kMaxGridYZ = 65535;
inline constexpr int64_t kMaxGridX = 2147483647;

// Which kernels make attention's gradients in float32 and float64, where there is a choice: whichever are expected to be faster, or as the
// environment says.
enum class GradientsBy : uint8_t { kExpectedTime, kTiles, kProducts };
// Of a variable's value, which may be null.
inline GradientsBy gradients_by_name(const char *name) {
    if (name != nullptr && std::strcmp(name, "tiles") == 0) return GradientsBy::kTiles;
    if (name != nullptr && std::strcmp(name, "products") == 0) return GradientsBy::kProducts;
    return GradientsBy::kExpectedTime;
}

// Which kernels make attention without tensor cores of more rows than decode kernels always take: those of tiles of rows, or decode
// kernels, which stream keys for eight rows a block; and that of float64 and of wide heads, which is composed of products or goes by the
// kernel that takes anything. Whichever are expected to be faster, or as the environment says; by products then goes all that can.
enum class AttentionBy : uint8_t { kExpectedTime, kTiles, kStreams, kProducts };
inline AttentionBy attention_by_name(const char *name) {
    if (name != nullptr && std::strcmp(name, "tiles") == 0) return AttentionBy::kTiles;
    if (name != nullptr && std::strcmp(name, "streams") == 0) return AttentionBy::kStreams;
    if (name != nullptr && std::strcmp(name, "products") == 0) return AttentionBy::kProducts;
    return AttentionBy::kExpectedTime;
}

// Constant from the moment the device is opened.
struct DeviceProperties {
    char name[128] = {};
    char arch[64] = {};              // "sm_61", "gfx90a"
    int32_t index = 0;               // Number of the device among its vendor's.
    int32_t device_type = 0;         // ATTILE_DEVICE_ constant.
    int32_t capability = 0;          // 10 * major + minor; on AMD the gfx number's digits.
    int32_t compute_units = 0;       // Multiprocessors or compute units.
    int32_t lane_width = 0;          // Lanes of a warp or wave.
    int32_t threads_per_unit = 0;    // Resident threads a compute unit holds.
    int32_t blocks_per_unit = 0;     // Resident blocks a compute unit holds.
    int32_t registers_per_unit = 0;  // 32-bit registers.
    int64_t memory_total = 0;        // Bytes.
    int64_t shared_per_block = 0;    // Bytes without opting in: 48 KB.
    int64_t shared_opt_in = 0;       // Bytes a block can have after opting in.
    int64_t shared_per_unit = 0;     // Bytes.
    int64_t l2_bytes = 0;
    double clock_hz = 0;
    double peak_flops_f32 = 0;  // A multiply-add counts two; no tensor cores.
    double peak_flops_f64 = 0;
    double peak_flops_f16 = 0;
    double peak_bandwidth = 0;  // Bytes a second of device memory.
    GradientsBy gradients_by = GradientsBy::kExpectedTime;
    AttentionBy attention_by = AttentionBy::kExpectedTime;
    char gemm_by[64] = {};  // The tile of products in 16 bits on Hopper that the environment asks for (gemm/sm90/plan.cpp); empty: none.
};

// What the compiler made of a kernel.
struct KernelResources {
    int32_t registers = 0;       // A thread.
    int32_t shared_static = 0;   // Bytes a block.
    int32_t local_bytes = 0;     // Bytes a thread: spills and indexed arrays.
    int32_t max_threads = 0;     // Threads a block can have.
    int32_t binary_version = 0;  // Architecture of the machine code that runs,
    int32_t source_version = 0;  // and the one that the kernel's source was compiled for.
};

// Kernels that not every device runs, for units that SIMT code cannot reach.
struct KernelSet {
    const char *name;   // As in "not for <name>: <why>".
    const char *units;  // What they are for, as in "no <units>: <why>".
};

// What only some devices' launches can ask for.
struct LaunchExtras {
    uint32_t cluster = 1;   // Neighbouring blocks that share their shared memory; the grid is a multiple of it.
    bool overlaps = false;  // May start before the kernel ahead of it in the stream has ended; waits for its writes by itself.
    bool together = false;  // All its blocks run at the same time, or none.
};

// Every function that returns int32_t gives ATTILE_OK or a code, having set the error sentence by fail(). Thread-safe. The caller holds an
// Entered around calls.
class Device {
  public:
    virtual ~Device() = default;
    const DeviceProperties &properties() const { return properties_; }
    // Does it run those kernels? Settled when the device is opened.
    virtual bool runs(const KernelSet &set) const {
        static_cast<void>(set);
        return false;
    }

    // Makes the device current on the calling thread, and puts back what was current before.
    // A device that failed refuses, unless only cleaning up.
    virtual int32_t enter(bool is_cleaning_up) = 0;
    virtual void leave() = 0;

    // Kernels. `kernel` is the host address of a __global__ function. `shared` is dynamic shared memory; more than the default limit is
    // opted into on the first launch. The answers of resources and occupancy are kept, so asking again is cheap.
    virtual int32_t launch(const void *kernel, Dim3 grid, Dim3 block, std::size_t shared, void **arguments, Stream stream) = 0;
    // For a kernel that begins with await_kernel_ahead(): where the device can, it is brought up while the kernel ahead of it in the stream
    // still runs.
    virtual int32_t launch_early(const void *kernel, Dim3 grid, Dim3 block, std::size_t shared, void **arguments, Stream stream) {
        return launch(kernel, grid, block, shared, arguments, stream);
    }
    // For kernels that only devices which can do it are offered; the others fail.
    virtual int32_t launch_with(const LaunchExtras &extras, const void *kernel, Dim3 grid, Dim3 block, std::size_t shared, void **arguments,
                                Stream stream);
    // Likewise: the map that a kernel reads or writes the array at `data` by.
    virtual int32_t make_tensor_map(const void *data, int32_t dtype, const TensorMapShape &shape, TensorMap *map);
    virtual int32_t resources(const void *kernel, KernelResources *found) = 0;
    virtual int32_t occupancy(const void *kernel, int32_t threads, std::size_t shared, int32_t *blocks_per_unit) = 0;

    // Memory. `kind` is an ATTILE_MEMORY_ constant.
    virtual int32_t alloc(int32_t kind, int64_t bytes, void **pointer) = 0;
    virtual int32_t free(int32_t kind, void *pointer) = 0;
    virtual int32_t memory_kind(const void *pointer, int32_t *kind) = 0;
    virtual int32_t memory_free(int64_t *bytes) = 0;
    virtual int32_t copy(void *destination, const void *source, int64_t bytes, Stream stream) = 0;  // Asynchronous where it can be.
    virtual int32_t fill_zero(void *destination, int64_t bytes, Stream stream) = 0;
    virtual int32_t prefetch(const void *pointer, int64_t bytes, int32_t kind, Stream stream) = 0;

    // Workspace, stream-ordered: usable by work queued on `stream` after alloc and before free.
    virtual int32_t pool_alloc(int64_t bytes, Stream stream, void **pointer) = 0;
    virtual int32_t pool_free(void *pointer, Stream stream) = 0;
    virtual int32_t pool_keep(int64_t bytes) = 0;  // Unused bytes to keep for later calls.

    // Streams and events.
    virtual int32_t stream_create(Stream *stream) = 0;
    virtual int32_t stream_destroy(Stream stream) = 0;
    virtual int32_t synchronize(Stream stream) = 0;
    virtual int32_t synchronize_all() = 0;
    virtual bool capturing(Stream stream) = 0;
    // Refuses a caller's stream that is another device's. To be asked before the stream is used: a runtime may take a launch with such a
    // stream, and what then runs on the other device cannot reach this one's memory, a fault that no call of the process survives.
    virtual int32_t check_stream(Stream) { return ATTILE_OK; }
    // A number that no other stream of the process has or will have, unlike a handle. 0: the driver knows none, or the stream is captured.
    virtual uint64_t stream_number(Stream) { return 0; }
    virtual int32_t event_create(bool timed, Event *event) = 0;
    virtual int32_t event_destroy(Event event) = 0;
    virtual int32_t event_record(Event event, Stream stream) = 0;
    virtual int32_t event_wait(Stream stream, Event event) = 0;  // The stream waits, not the caller.
    virtual int32_t event_synchronize(Event event) = 0;
    virtual int32_t event_done(Event event, bool *is_done) = 0;  // Without waiting; true of one never recorded.
    virtual int32_t event_elapsed(Event from, Event to, float *milliseconds) = 0;

  protected:
    DeviceProperties properties_;
};

// The device is current while this lives.
class Entered {
  public:
    explicit Entered(Device &device, bool is_cleaning_up = false) : device_(device), status_(device.enter(is_cleaning_up)) {}
    ~Entered() {
        if (status_ == ATTILE_OK) device_.leave();
    }
    Entered(const Entered &) = delete;
    Entered &operator=(const Entered &) = delete;
    int32_t status() const { return status_; }

  private:
    Device &device_;
    int32_t status_;
};

// Launches a kernel with its arguments converted to its parameters' types.
template <class... Parameters, class... Arguments>
int32_t launch(Device &device, void (*kernel)(Parameters...), Dim3 grid, Dim3 block, std::size_t shared, Stream stream,
               const Arguments &...arguments) {
    static_assert(sizeof...(Parameters) == sizeof...(Arguments), "as many arguments as the kernel has parameters");
#if defined(ATTILE_GPU_EMULATED)
    emulation::know(kernel);  // tests/device/emulation
#endif
    return [&](Parameters... parameters) {
        void *addresses[] = {static_cast<void *>(&parameters)..., nullptr};
        return device.launch(reinterpret_cast<const void *>(kernel), grid, block, shared, addresses, stream);
    }(arguments...);
}

}  // namespace attile::gpu
