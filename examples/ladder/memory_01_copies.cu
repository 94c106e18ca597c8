// SPDX-License-Identifier: Apache-2.0
// Step: memory 1 copies
// Title: Pageable against pinned, by size
// Changes: The same bytes are copied to the device and back from ordinary memory (malloc) and from page-locked memory (cudaMallocHost).
// Why: The copy engine reads physical addresses, so ordinary memory goes through a page-locked buffer of the driver's, a copy by the
//   processor. Pinned memory is read directly. Below some 100 KB the call's own latency hides the difference; page-locking itself is
//   slow, and pays only for buffers that are used again.
// Intensity: none: nothing is computed.
#include "ladder.h"

namespace {

struct HostBuffer {
    HostBuffer(size_t bytes, bool pin) : pinned(pin) {
        if (pinned)
            LADDER_CUDA(cudaMallocHost(reinterpret_cast<void **>(&data), bytes));
        else
            data = static_cast<unsigned char *>(std::malloc(bytes));
        if (!data) throw std::runtime_error("no host memory");
    }
    ~HostBuffer() {
        if (pinned)
            cudaFreeHost(data);
        else
            std::free(data);
    }
    HostBuffer(const HostBuffer &) = delete;
    HostBuffer &operator=(const HostBuffer &) = delete;
    unsigned char *data = nullptr;
    bool pinned;
};

bool run(const ladder::Options &options) {
    bool all = true;
    std::vector<size_t> sizes{4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20};
    if (options.check_only) sizes.resize(2);
    for (size_t bytes : sizes)
        for (bool pinned : {false, true}) {
            HostBuffer from(bytes, pinned), back(bytes, pinned);
            for (size_t i = 0; i < bytes; ++i) from.data[i] = static_cast<unsigned char>(i * 31 + bytes);
            std::memset(back.data, 0xFF, bytes);
            const ladder::DeviceArray device(static_cast<int64_t>(bytes / sizeof(float)));
            for (bool in : {true, false}) {
                ladder::Row row;
                row.ladder = "memory", row.order = 1, row.step = "copies";
                row.shape = std::string(pinned ? "pinned" : "pageable") + (in ? " in " : " out ") + std::to_string(bytes >> 10) + " KB";
                row.timing = ladder::time_on_host(
                    options, [] {},
                    [&] {
                        if (in)
                            LADDER_CUDA(cudaMemcpy(device.get(), from.data, bytes, cudaMemcpyHostToDevice));
                        else
                            LADDER_CUDA(cudaMemcpy(back.data, device.get(), bytes, cudaMemcpyDeviceToHost));
                    });
                row.ok = in || std::memcmp(from.data, back.data, bytes) == 0;
                row.bytes = row.traffic = static_cast<double>(bytes);
                ladder::report(options, row);
                all = all && row.ok;
            }
        }
    return all;
}

[[maybe_unused]] const bool added = ladder::add_step({"memory", 1, "copies", run});

}  // namespace
