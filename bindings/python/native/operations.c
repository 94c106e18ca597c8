/* SPDX-License-Identifier: Apache-2.0 */
#include "operation.h"

#define GEMM_OPERANDS(X) \
    X(a) X(b) X(c) X(out) X(alpha) X(beta) X(bias) X(bias_axis) X(activation) X(a_scale) X(b_scale) X(b_zero) X(d_scale)
#define GEMM(X) GEMM_OPERANDS(X) X(flags) X(stream) X(workspace) X(query)
NATIVE_PARAMETERS(gemm, GEMM)

/* Shape of a product by the rules of broadcasting. Wrong inner extents are the library's to report. */
static int32_t product_shape(const attile_tensor *a, const attile_tensor *b, int64_t *shape) {
    if (a->rank < 2 || b->rank < 2) return -1;
    const int32_t rank = a->rank > b->rank ? a->rank : b->rank;
    for (int32_t back = 3; back <= rank; back++) {
        const int64_t of_a = a->rank >= back ? a->shape[a->rank - back] : 1, of_b = b->rank >= back ? b->shape[b->rank - back] : 1;
        shape[rank - back] = of_a != 1 ? of_a : of_b;
    }
    shape[rank - 2] = a->shape[a->rank - 2];
    shape[rank - 1] = b->shape[b->rank - 1];
    return rank;
}

PyObject *native_gemm(PyObject *self, PyObject *const *args, Py_ssize_t given, PyObject *keywords) {
    gemm_values v = {0};
    native_call call = {0};
    attile_gemm_args x;
    PyObject *out = NULL, *result = NULL;
    int64_t shape[4];
    NATIVE_STAMP(x);
    x.alpha = 1;
    if (native_sort(NATIVE_gemm, 3, 2, args, given, keywords, (PyObject **)&v) < 0) goto pure;
    x.bias_axis = NATIVE_IS_GIVEN(v.bias) ? ATTILE_BIAS_COLUMNS : ATTILE_BIAS_NONE;
    if (native_number(v.alpha, &x.alpha) < 0 || native_number(v.beta, &x.beta) < 0 ||
        native_choice(v.activation, native.given.activations, &x.activation) < 0 ||
        native_choice(v.bias_axis, native.given.bias_axes, &x.bias_axis) < 0 || native_view(&call, v.a, &x.a) < 0 ||
        native_view(&call, v.b, &x.b) < 0 || native_view(&call, v.c, &x.c) < 0 || native_view(&call, v.bias, &x.bias) < 0 ||
        native_view(&call, v.a_scale, &x.a_scale) < 0 || native_view(&call, v.b_scale, &x.b_scale) < 0 ||
        native_view(&call, v.b_zero, &x.b_zero) < 0 || native_view(&call, v.d_scale, &x.d_scale) < 0)
        goto pure;
    if (!NATIVE_IS_GIVEN(v.out) && (x.a.dtype & 0xff) == 8) goto pure; /* The result is of another type. */
    const int32_t rank = NATIVE_IS_GIVEN(v.out) ? 0 : product_shape(&x.a, &x.b, shape);
    if (rank < 0 || native_output(&call, v.out, v.a, &x.a, 0, rank, shape, &x.d, &out) < 0 || NATIVE_FINISH(&call, v, x) < 0) goto pure;
    if (call.is_query) {
        NATIVE_QUERY(result, gemm, self, x);
    } else {
        int32_t status;
        NATIVE_RUN(status, gemm, self, x);
        result = native_settle(&call, status) < 0 ? NULL : Py_NewRef(out);
    }
    Py_DECREF(out);
    return result;
pure:
    Py_XDECREF(out);
    return native_pure(NATIVE_gemm, self, args, given, keywords);
}

#define REDUCE(X) X(x) X(op) X(axis) X(out) X(flags) X(stream) X(workspace) X(query)
NATIVE_PARAMETERS(reduce, REDUCE)

PyObject *native_reduce(PyObject *self, PyObject *const *args, Py_ssize_t given, PyObject *keywords) {
    reduce_values v = {0};
    native_call call = {0};
    attile_reduce_args x;
    PyObject *out = NULL, *result = NULL;
    int64_t shape[4];
    NATIVE_STAMP(x);
    x.axis = -1;
    if (native_sort(NATIVE_reduce, 3, 2, args, given, keywords, (PyObject **)&v) < 0 || native_small_integer(v.axis, &x.axis) < 0 ||
        native_choice(v.op, native.given.reductions, &x.op) < 0 || x.op == 0 || native_view(&call, v.x, &x.x) < 0 || x.x.rank == 0)
        goto pure;
    memcpy(shape, x.x.shape, sizeof shape);
    shape[(x.axis % x.x.rank + x.x.rank) % x.x.rank] = 1; /* An axis outside the rank is the library's to report. */
    if (native_output(&call, v.out, v.x, &x.x, 0, x.x.rank, shape, &x.y, &out) < 0 || NATIVE_FINISH(&call, v, x) < 0) goto pure;
    if (call.is_query) {
        NATIVE_QUERY(result, reduce, self, x);
    } else {
        int32_t status;
        NATIVE_RUN(status, reduce, self, x);
        result = native_settle(&call, status) < 0 ? NULL : Py_NewRef(out);
    }
    Py_DECREF(out);
    return result;
pure:
    Py_XDECREF(out);
    return native_pure(NATIVE_reduce, self, args, given, keywords);
}

#define SOFTMAX(X) X(x) X(axis) X(out) X(flags) X(stream) X(workspace) X(query)
NATIVE_PARAMETERS(softmax, SOFTMAX)

PyObject *native_softmax(PyObject *self, PyObject *const *args, Py_ssize_t given, PyObject *keywords) {
    softmax_values v = {0};
    native_call call = {0};
    attile_softmax_args x;
    PyObject *out = NULL, *result = NULL;
    NATIVE_STAMP(x);
    x.axis = -1;
    if (native_sort(NATIVE_softmax, 2, 1, args, given, keywords, (PyObject **)&v) < 0 || native_small_integer(v.axis, &x.axis) < 0 ||
        native_view(&call, v.x, &x.x) < 0 || native_output(&call, v.out, v.x, &x.x, 0, x.x.rank, x.x.shape, &x.y, &out) < 0 ||
        NATIVE_FINISH(&call, v, x) < 0)
        goto pure;
    if (call.is_query) {
        NATIVE_QUERY(result, softmax, self, x);
    } else {
        int32_t status;
        NATIVE_RUN(status, softmax, self, x);
        result = native_settle(&call, status) < 0 ? NULL : Py_NewRef(out);
    }
    Py_DECREF(out);
    return result;
pure:
    Py_XDECREF(out);
    return native_pure(NATIVE_softmax, self, args, given, keywords);
}

#define MERGE(X) X(o_parts) X(lse_parts) X(out) X(lse) X(flags) X(stream) X(workspace) X(query)
NATIVE_PARAMETERS(attention_merge, MERGE)
enum { MOST_PARTS = 32 }; /* Held on the stack; more are left to Python. */

PyObject *native_attention_merge(PyObject *self, PyObject *const *args, Py_ssize_t given, PyObject *keywords) {
    attention_merge_values v = {0};
    native_call call = {0};
    attile_attention_merge_args x;
    attile_tensor parts[2][MOST_PARTS];
    PyObject *held[2] = {NULL, NULL}, *out = NULL, *lse = NULL, *result = NULL;
    NATIVE_STAMP(x);
    if (native_sort(NATIVE_attention_merge, 2, 2, args, given, keywords, (PyObject **)&v) < 0) goto pure;
    /* Tuples: the caller's lists may change while the library works. */
    if ((held[0] = PySequence_Tuple(v.o_parts)) == NULL || (held[1] = PySequence_Tuple(v.lse_parts)) == NULL) {
        PyErr_Clear();
        goto pure;
    }
    const Py_ssize_t count = PyTuple_Size(held[0]);
    if (count < 1 || count > MOST_PARTS || PyTuple_Size(held[1]) != count) goto pure;
    for (int which = 0; which < 2; which++)
        for (Py_ssize_t i = 0; i < count; i++) {
            PyObject *part = PyTuple_GetItem(held[which], i);
            if (part == Py_None || native_view(&call, part, &parts[which][i]) < 0) goto pure;
        }
    x.o_parts = parts[0];
    x.lse_parts = parts[1];
    x.parts = count;
    if (native_output(&call, v.out, PyTuple_GetItem(held[0], 0), &parts[0][0], 0, 4, parts[0][0].shape, &x.o, &out) < 0) goto pure;
    if (NATIVE_IS_GIVEN(v.lse) && v.lse != Py_False &&
        native_output(&call, v.lse == Py_True ? NULL : v.lse, PyTuple_GetItem(held[1], 0), &parts[1][0], 0, 3, parts[1][0].shape, &x.lse,
                      &lse) < 0)
        goto pure;
    if (NATIVE_FINISH(&call, v, x) < 0) goto pure;
    if (call.is_query) {
        NATIVE_QUERY(result, attention_merge, self, x);
    } else {
        int32_t status;
        NATIVE_RUN(status, attention_merge, self, x);
        if (native_settle(&call, status) == 0) result = lse == NULL ? Py_NewRef(out) : PyTuple_Pack(2, out, lse);
    }
    goto done;
pure:
    result = native_pure(NATIVE_attention_merge, self, args, given, keywords);
done:
    Py_XDECREF(held[0]);
    Py_XDECREF(held[1]);
    Py_XDECREF(out);
    Py_XDECREF(lse);
    return result;
}

const char *const *native_parameters(int method) {
    switch (method) {
        case NATIVE_gemm:
            return gemm_names;
        case NATIVE_attention:
            return native_attention_names;
        case NATIVE_attention_backward:
            return native_attention_backward_names;
        case NATIVE_attention_merge:
            return attention_merge_names;
        case NATIVE_reduce:
            return reduce_names;
        case NATIVE_softmax:
            return softmax_names;
        default:
            return native_run_names;
    }
}
