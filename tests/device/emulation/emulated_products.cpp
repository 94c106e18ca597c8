// SPDX-License-Identifier: Apache-2.0
// Products of every type by the reference's loops, for tests of what is made of products: the tiles of gemm are too large to be emulated.
#include "emulated_products.h"

#include <cstdlib>

#include "host/context.h"
#include "reference_backend.h"

namespace attile::test {

const void *query_emulated_interface(std::uint32_t id, std::uint32_t version) {
    if (id == ATTILE_INTERFACE_GEMM && std::getenv("ATTILE_EMULATED_PRODUCTS") != nullptr) return &reference::gemm_interface;
    if (id == ATTILE_INTERFACE_GEMM && std::getenv("ATTILE_EMULATED_GEMM") == nullptr) return nullptr;
    return gpu::query_interface(id, version);
}

}  // namespace attile::test
