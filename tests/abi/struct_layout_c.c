/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of every public struct as C99 sees it. That this file compiles is the test. */
#include <attile/attile_comm_plugin.h>
#include <stddef.h>

#define ATTILE_CHECK(name, condition) typedef char name[(condition) ? 1 : -1]
#define ATTILE_SIZE(type, bytes) ATTILE_CHECK(size_of_##type, sizeof(type) == (bytes));
#define ATTILE_OFFSET(type, field, bytes) ATTILE_CHECK(offset_of_##type##_##field, offsetof(type, field) == (bytes));
#define ATTILE_CONSTANT(name, value) ATTILE_CHECK(value_of_##name, (name) == (value));
#include "struct_layout.inc"

int attile_struct_layout_c(void);
int attile_struct_layout_c(void) { return 0; }
