// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace attile::test {

// The interfaces of gpu's, and of products where ATTILE_EMULATED_PRODUCTS is set.
const void *query_emulated_interface(std::uint32_t id, std::uint32_t version);

}  // namespace attile::test
