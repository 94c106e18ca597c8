// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <cstring>

#include "mover.h"

namespace attile::bench {
namespace {

class HostMover final : public Mover {
  public:
    std::string allocate(std::size_t bytes, void **memory) override {
        *memory = std::malloc(bytes);
        return *memory != nullptr ? "" : "no memory for " + std::to_string(bytes) + " bytes";
    }
    std::string release(void *memory) override {
        std::free(memory);
        return "";
    }
    std::string copy(void *to, const void *from, std::size_t bytes, void * /*stream*/) override {
        std::memcpy(to, from, bytes);
        return "";
    }
    std::string finish(void * /*stream*/) override { return ""; }
};

}  // namespace

std::unique_ptr<Mover> make_host_mover() { return std::make_unique<HostMover>(); }

}  // namespace attile::bench
