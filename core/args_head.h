// SPDX-License-Identifier: Apache-2.0
// The head that every caller-filled struct begins with (struct_size, flags, next): reading structs of other versions, and stamping new
// ones.
#ifndef ATTILE_CORE_ARGS_HEAD_H
#define ATTILE_CORE_ARGS_HEAD_H

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "status.h"

namespace attile::core {

// The common beginning, for looking at any of those structs.
struct StructHead {
    uint32_t struct_size;
    uint32_t flags;
    const void *next;
};

// What is known of one kind of struct. `first_size` is its size in the first release that had it: anything smaller was never initialised.
struct StructKind {
    const char *operation;  // The words before the colon of every message, "gemm".
    const char *argument;   // The caller's name of the pointer, "args".
    uint32_t first_size;
    uint32_t known_size;
    uint32_t allowed_flags;
};

// Copies an input struct of any version into a zeroed one of this version, after checking its head.
int32_t read_struct(const StructKind &kind, const void *source, void *target);

template <typename Args>
int32_t read_args(const char *operation, const char *argument, uint32_t first_size, uint32_t allowed_flags, const Args *source,
                  Args *target) {
    static_assert(offsetof(Args, next) == offsetof(StructHead, next));
    return read_struct({operation, argument, first_size, sizeof(Args), allowed_flags}, source, target);
}

// Checks the head of a struct that the library is to fill.
int32_t check_output_struct(const StructKind &kind, const void *target);

template <typename Output>
int32_t check_output(const char *operation, const char *argument, uint32_t first_size, const Output *target) {
    static_assert(offsetof(Output, next) == offsetof(StructHead, next));
    return check_output_struct({operation, argument, first_size, sizeof(Output), 0}, target);
}

// Copies a filled full-size struct out to the caller's, whose head was checked and stays as it is, as far as its struct_size reaches.
void write_struct(const void *source, uint32_t known_size, void *target);

template <typename Output>
void write_output(const Output &source, Output *target) {
    write_struct(&source, sizeof(Output), target);
}

// What every _init function does: zero `size` bytes and stamp the size. False if there is nothing to do it to.
bool init_struct(void *target, uint64_t size);

}  // namespace attile::core

#endif
