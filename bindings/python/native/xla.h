/* SPDX-License-Identifier: Apache-2.0 */
/* XLA's typed FFI in C (xla/ffi/api/c_api.h, versions 0.1 to 0.3): what a handler reads of a call. JAX brings XLA, and gives it the
   handlers as addresses, so nothing of JAX is needed to build this. Only what is read here has a type. */
#ifndef ATTILE_PYTHON_XLA_H
#define ATTILE_PYTHON_XLA_H

#include <stddef.h>
#include <stdint.h>

/* The versions between which what is read here has one layout. That of JAX 0.5 takes handlers of the first alone, and does not say its own.
 */
enum { NATIVE_XLA_MAJOR = 0, NATIVE_XLA_FIRST_MINOR = 1, NATIVE_XLA_MINOR = 3 };
enum { NATIVE_XLA_METADATA = 1 }; /* Type of the extension by which XLA asks for a handler's version. */
enum { NATIVE_XLA_SCALAR = 3 };   /* Kind of an attribute. */

typedef enum {
    NATIVE_XLA_PRED = 1,
    NATIVE_XLA_S32 = 4,
    NATIVE_XLA_S64 = 5,
    NATIVE_XLA_F16 = 10,
    NATIVE_XLA_F32 = 11,
    NATIVE_XLA_F64 = 12,
    NATIVE_XLA_BF16 = 16
} native_xla_type;

typedef enum {
    NATIVE_XLA_INVALID_ARGUMENT = 3,
    NATIVE_XLA_RESOURCE_EXHAUSTED = 8,
    NATIVE_XLA_UNIMPLEMENTED = 12,
    NATIVE_XLA_INTERNAL = 13
} native_xla_code;

typedef struct native_xla_extension {
    size_t size;
    int type;
    struct native_xla_extension *next;
} native_xla_extension;

typedef struct {
    size_t size;
    native_xla_extension *extensions;
    int major;
    int minor;
} native_xla_version;

typedef struct {
    size_t size;
    native_xla_version version;
    uint32_t traits;
} native_xla_metadata;

typedef struct {
    native_xla_extension base;
    native_xla_metadata *metadata;
} native_xla_metadata_extension;

typedef struct native_xla_error native_xla_error; /* XLA's own; NULL is success. */

typedef struct {
    size_t size;
    native_xla_extension *extensions;
    const char *message;
    int code;
} native_xla_error_args;

typedef struct {
    size_t size;
    native_xla_extension *extensions;
    void *context;
    void *stream; /* XLA writes it. */
} native_xla_stream_args;

typedef struct {
    size_t size;
    native_xla_extension *extensions;
    native_xla_version version;
    void *internal;
    native_xla_error *(*make_error)(native_xla_error_args *args);
    void *others[3];
    native_xla_error *(*find_stream)(native_xla_stream_args *args);
} native_xla_api;

typedef struct {
    size_t size;
    native_xla_extension *extensions;
    int type;
    void *data;
    int64_t rank;
    int64_t *shape; /* Dense and row-major, unless the caller asked for another layout. */
} native_xla_buffer;

typedef struct {
    size_t size;
    native_xla_extension *extensions;
    int64_t count;
    int *kinds;
    native_xla_buffer **buffers;
} native_xla_buffers;

typedef struct {
    const char *text;
    size_t length;
} native_xla_name;

typedef struct {
    int type;
    void *value;
} native_xla_scalar;

typedef struct {
    size_t size;
    native_xla_extension *extensions;
    int64_t count;
    int *kinds;
    native_xla_name **names;
    void **values;
} native_xla_attributes;

typedef struct {
    size_t size;
    native_xla_extension *extensions;
    const native_xla_api *api;
    void *context;
    int stage;
    native_xla_buffers arguments;
    native_xla_buffers results;
    native_xla_attributes attributes;
} native_xla_call;

typedef native_xla_error *native_xla_handler(native_xla_call *call);

#endif
