/* SPDX-License-Identifier: Apache-2.0 */
/* What the functions of operations have alike. Each lists its parameters once, by name: they become a struct of values, and the names that
   setup compares with the method in Python. */
#ifndef ATTILE_PYTHON_OPERATION_H
#define ATTILE_PYTHON_OPERATION_H

#include <string.h>

#include "native.h"

#define NATIVE_VALUE(name) PyObject *name;
#define NATIVE_TEXT(name) #name,
#define NATIVE_PARAMETERS(operation, LIST)           \
    typedef struct {                                 \
        LIST(NATIVE_VALUE)                           \
    } operation##_values;                            \
    static const char *const operation##_names[] = { \
        LIST(NATIVE_TEXT) NULL,                      \
    };

/* A struct of arguments: zero, and its size. */
#define NATIVE_STAMP(args) (memset(&(args), 0, sizeof(args)), (args).struct_size = sizeof(args))

#define NATIVE_FINISH(call, values, args)                                                                                   \
    native_finish(call, (values).stream, (values).flags, (values).workspace, (values).query, &(args).flags, &(args).stream, \
                  &(args).workspace, &(args).workspace_bytes)

/* Compute without the GIL; the caller's frame holds the arrays. */
#define NATIVE_RUN(status, operation, self, args)                 \
    do {                                                          \
        attile_context *const context_ = NATIVE_CONTEXT(self);    \
        PyThreadState *const saved_ = PyEval_SaveThread();        \
        (status) = native.functions.operation(context_, &(args)); \
        PyEval_RestoreThread(saved_);                             \
    } while (0)

/* The answer of a query, as Python's Support. */
#define NATIVE_QUERY(result, operation, self, args)                                                          \
    do {                                                                                                     \
        attile_support support_;                                                                             \
        NATIVE_STAMP(support_);                                                                              \
        const int32_t asked_ = native.functions.operation##_query(NATIVE_CONTEXT(self), &(args), &support_); \
        (result) = native_support(asked_, &support_);                                                        \
    } while (0)

#endif
