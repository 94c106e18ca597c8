// SPDX-License-Identifier: Apache-2.0
// The driver's library by the system's own loader.
#pragma once

#include <string>

namespace attile::cuda {

extern const char *const driver_library_name;

// NULL, and the system's words, if it is not there.
void *open_driver_library(std::string *words);
// NULL if it has no such symbol.
void *library_symbol(void *library, const char *name);
void close_library(void *library);

}  // namespace attile::cuda
