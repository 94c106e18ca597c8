/* SPDX-License-Identifier: Apache-2.0 */
/* The compiled half of the Python package, by the stable ABI of CPython 3.11. It takes calls whose arrays are plain (NumPy's, PyTorch's)
   and hands every other call, and every mistake, to the methods in Python, so what is an error is said in one place. */
#ifndef ATTILE_PYTHON_NATIVE_H
#define ATTILE_PYTHON_NATIVE_H

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>
#include <attile/attile.h>

#include "exchange.h"

/* The library's functions, found by Python: the extension is not linked to libattile. */
#define NATIVE_OPERATIONS(X) X(gemm) X(attention) X(attention_backward) X(attention_merge) X(reduce) X(softmax)

typedef struct {
#define X(operation)                                                           \
    int32_t (*operation)(attile_context *, const attile_##operation##_args *); \
    int32_t (*operation##_query)(attile_context *, const attile_##operation##_args *, attile_support *);
    NATIVE_OPERATIONS(X)
#undef X
    int32_t (*gemm_run)(attile_prepared *, const attile_gemm_pointers *);
    int32_t (*attention_run)(attile_prepared *, const attile_attention_pointers *);
    int64_t (*last_error)(char *, int64_t);
} native_functions;

enum {
    NATIVE_gemm,
    NATIVE_attention,
    NATIVE_attention_backward,
    NATIVE_attention_merge,
    NATIVE_reduce,
    NATIVE_softmax,
    NATIVE_run,
    NATIVE_METHODS
};
enum { NATIVE_MOST_PARAMETERS = 40, NATIVE_MOST_WRITTEN = 6 };

/* What Python gave at its start, and what is known of PyTorch once a tensor was seen. Of one interpreter: the module refuses a second. */
#define NATIVE_GIVEN(X)   \
    X(ndarray)            \
    X(empty)              \
    X(float32)            \
    X(float64)            \
    X(modules)            \
    X(check)              \
    X(mark_written)       \
    X(increment_versions) \
    X(find_aten) X(is_plain) X(cuda_stream) X(support) X(levels) X(default_context) X(activations) X(bias_axes) X(masks) X(reductions)
#define NATIVE_NAMES(X) \
    X(__array_struct__) \
    X(dtype)            \
    X(name)             \
    X(requires_grad)    \
    X(_current_level)   \
    X(is_cuda)          \
    X(is_cpu)           \
    X(layout) X(shape) X(stride) X(data_ptr) X(_kept) X(level) X(status) X(kernel) X(text) X(workspace_bytes) X(flops) X(bytes)
#define NATIVE_TORCH(X)   \
    X(tensor)             \
    X(parameter)          \
    X(empty_like)         \
    X(is_grad_enabled)    \
    X(forward_ad)         \
    X(increment_versions) \
    X(is_neg) X(strided) X(float32) X(float64) X(dtypes) X(make_float32) X(make_float64) X(new_empty)

#define NATIVE_FIELD(name) PyObject *name;
typedef struct {
    struct {
        NATIVE_GIVEN(NATIVE_FIELD)
    } given;
    struct {
        NATIVE_NAMES(NATIVE_FIELD)
    } names;
    struct {
        NATIVE_TORCH(NATIVE_FIELD)
    } torch;
    const native_exchange_api *exchange;                          /* PyTorch's; NULL before 2.10. */
    PyObject *bfloat16;                                           /* The dtype of ml_dtypes, once one was seen. */
    PyObject *context;                                            /* The one of the module's functions, once it is open. */
    PyObject *pure[NATIVE_METHODS];                               /* The methods in Python. */
    PyObject *parameters[NATIVE_METHODS][NATIVE_MOST_PARAMETERS]; /* Their names, interned; NULL behind the last. */
    native_functions functions;
} native_state;
extern native_state native;

/* Base of Context and Prepared. */
typedef struct {
    PyObject_HEAD unsigned long long handle;
    unsigned long long args;
    int is_attention;
} native_object;

/* The arrays of one call. */
typedef struct {
    void *stream;
    int32_t asked;    /* The device whose stream was asked for, plus one. */
    int given_stream; /* Whether the caller named one. */
    int looked_at_ad; /* Whether forward differentiation was asked about. */
    int is_query;     /* Whether the caller asks how it would run. */
    int written_count;
    PyObject *written[NATIVE_MOST_WRITTEN]; /* Borrowed: tensors that the caller gave and PyTorch must be told about. */
} native_call;

/* In all that follows -1 means: not plain, let Python see. No exception is set then. */

/* arrays.c */
int native_find_view(native_call *call, PyObject *array, attile_tensor *tensor, int *writable);
int native_view(native_call *call, PyObject *array, attile_tensor *tensor);
/* An output: the caller's, or a new one as empty_like() in Python makes it. `type` 0 is that of `like`. `result` is a new reference. */
int native_output(native_call *call, PyObject *given, PyObject *like, const attile_tensor *like_tensor, int32_t type, int32_t rank,
                  const int64_t *shape, attile_tensor *tensor, PyObject **result);
/* After a call: tells PyTorch, raises the error. 0: all is well; -1: an exception is set. */
int native_settle(const native_call *call, int32_t status);

/* torch.c */
int native_is_torch(PyObject *array);
int native_view_torch(native_call *call, PyObject *array, int is_new, attile_tensor *tensor);
/* Tell PyTorch that tensors were written. 0, or -1 with an exception. */
int native_mark_torch(PyObject *const *arrays, int count);
/* A new dense tensor on the device of `like`; `type` 0 is its type. A new reference, and what it looks like. */
PyObject *native_empty_torch(native_call *call, PyObject *like, const attile_tensor *like_tensor, int32_t type, int32_t rank,
                             const int64_t *shape, attile_tensor *tensor);

/* aten.c. Only the first two may be called where the second says 0. */
int native_learn_aten(PyObject *torch);
int native_has_aten(void);
/* Whether a tensor is memory on a device and nothing else. May leave an error. */
int native_aten_is_plain(PyObject *array);
/* Whether automatic differentiation knows nothing of a tensor. */
int native_aten_has_no_gradient(PyObject *array);
/* A plain tensor. */
int native_aten_view(native_call *call, PyObject *array, attile_tensor *tensor);
/* As native_empty_torch(), but the type is given, and an error may be left. NULL also where PyTorch's methods have to make it. */
PyObject *native_aten_empty(PyObject *like, int32_t type, int32_t rank, const int64_t *shape, attile_tensor *tensor);

/* options.c */
/* Sort arguments by name into `values`, which starts as NULLs. */
int native_sort(int method, int positional, int required, PyObject *const *args, Py_ssize_t given, PyObject *keywords, PyObject **values);
int native_number(PyObject *value, double *into);
int native_integer(PyObject *value, int64_t *into);
int native_small_integer(PyObject *value, int32_t *into);
int native_choice(PyObject *value, PyObject *table, int32_t *into);
int native_finish(native_call *call, PyObject *stream, PyObject *flags, PyObject *workspace, PyObject *query, uint32_t *flags_into,
                  void **stream_into, void **workspace_into, int64_t *bytes_into);
PyObject *native_support(int32_t status, const attile_support *support);
PyObject *native_pure(int method, PyObject *self, PyObject *const *args, Py_ssize_t given, PyObject *keywords);

/* operations.c, attention.c, prepared.c */
typedef PyObject *native_method(PyObject *self, PyObject *const *args, Py_ssize_t given, PyObject *keywords);
native_method native_gemm, native_attention, native_attention_backward, native_attention_merge, native_reduce, native_softmax, native_run;
/* The parameters that a method sorts by, NULL behind the last: those of the method in Python, which setup compares. */
const char *const *native_parameters(int method);
extern const char *const *const native_attention_names, *const *const native_attention_backward_names, *const *const native_run_names;

/* xla.c */
/* For each operation of attile.jax a capsule of its handler on the host, and one of that on a GPU's stream. A new reference. */
PyObject *native_xla_handlers(void);

#define NATIVE_IS_GIVEN(value) ((value) != NULL && (value) != Py_None)
#define NATIVE_CONTEXT(self) ((attile_context *)(uintptr_t)((native_object *)(self))->handle)

#endif
