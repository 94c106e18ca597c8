// SPDX-License-Identifier: Apache-2.0
// What keeps and moves the bytes of messages: the memory of a GPU, or of the host.
#ifndef ATTILE_BENCH_MOVER_H
#define ATTILE_BENCH_MOVER_H

#include <cstddef>
#include <memory>
#include <string>

namespace attile::bench {

// Each function returns what failed, or nothing. Any thread may call them.
class Mover {
  public:
    Mover() = default;
    virtual ~Mover() = default;
    Mover(const Mover &) = delete;
    Mover &operator=(const Mover &) = delete;
    virtual std::string allocate(std::size_t bytes, void **memory) = 0;
    virtual std::string release(void *memory) = 0;
    // In the order of the stream.
    virtual std::string copy(void *to, const void *from, std::size_t bytes, void *stream) = 0;
    // Waits for what is on the stream.
    virtual std::string finish(void *stream) = 0;
};

std::unique_ptr<Mover> make_host_mover();
// Of the first device, by the driver's library; nothing, and why.
std::unique_ptr<Mover> make_cuda_mover(std::string *why);

}  // namespace attile::bench

#endif
