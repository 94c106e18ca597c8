// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace attile::test {

// The interfaces of gpu's, of products where ATTILE_EMULATED_GEMM is set, or the reference's where ATTILE_EMULATED_PRODUCTS is.
const void *query_emulated_interface(std::uint32_t id, std::uint32_t version);

}  // namespace attile::test
