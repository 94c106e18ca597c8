/* SPDX-License-Identifier: Apache-2.0 */
/* DLPack's exchange of tensors in C (dlpack.h 1.3): a table of functions that a library of tensors hangs on its type as
   `__dlpack_c_exchange_api__`. Only what is read here has a type. */
#ifndef ATTILE_PYTHON_EXCHANGE_H
#define ATTILE_PYTHON_EXCHANGE_H

#include <stdint.h>

typedef struct {
    void *data;
    int32_t device_type;
    int32_t device_id;
    int32_t rank;
    uint8_t type_code;
    uint8_t type_bits;
    uint16_t type_lanes;
    int64_t *shape;
    int64_t *stride; /* In elements; NULL: dense. */
    uint64_t byte_offset;
} native_dl_tensor;

typedef struct native_exchange_api {
    uint32_t major;
    uint32_t minor;
    const struct native_exchange_api *older; /* A table of an earlier version. */
    void *allocate;
    void *export_managed;
    void *import_managed;
    int (*describe)(void *object, native_dl_tensor *tensor);                      /* No copy, no synchronisation; may be NULL. */
    int (*current_stream)(int32_t device_type, int32_t device_id, void **stream); /* Where the library's own work goes. */
} native_exchange_api;

#endif
