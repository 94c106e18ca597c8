// SPDX-License-Identifier: Apache-2.0
// The layout of every public struct as C++ sees it. That this file compiles is the test.
#include <attile/attile_comm_plugin.h>

#include <cstddef>
#include <type_traits>

#define ATTILE_SIZE(type, bytes) \
    static_assert(sizeof(type) == (bytes) && std::is_standard_layout<type>::value && std::is_trivial<type>::value, #type);
#define ATTILE_OFFSET(type, field, bytes) static_assert(offsetof(type, field) == (bytes), #type "." #field);
#define ATTILE_CONSTANT(name, value) static_assert((name) == (value), #name);
#include "struct_layout.inc"
