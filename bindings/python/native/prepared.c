/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "operation.h"

static const char *const run_names[] = {"stream", "workspace", "arrays", NULL};
const char *const *const native_run_names = run_names;

/* An operand of a prepared call: its name, and where it is in the arguments and in the pointers. */
typedef struct {
    const char *name;
    size_t tensor, pointer;
} operand;
#define OPERAND(operation, name, field) \
    { name, offsetof(attile_##operation##_args, field), offsetof(attile_##operation##_pointers, field) }
#define GEMM(field) OPERAND(gemm, #field, field)
#define ATTENTION(field) OPERAND(attention, #field, field)
static const operand of_gemm[] = {OPERAND(gemm, "out", d), GEMM(a),       GEMM(b),      GEMM(c),      GEMM(bias),
                                  GEMM(a_scale),           GEMM(b_scale), GEMM(b_zero), GEMM(d_scale)};
static const operand of_attention[] = {OPERAND(attention, "out", o),
                                       ATTENTION(lse),
                                       ATTENTION(q),
                                       ATTENTION(k),
                                       ATTENTION(v),
                                       ATTENTION(bias),
                                       ATTENTION(allowed),
                                       ATTENTION(alibi_slopes),
                                       ATTENTION(sinks),
                                       ATTENTION(key_lengths),
                                       ATTENTION(cu_len_q),
                                       ATTENTION(cu_len_k),
                                       ATTENTION(block_table),
                                       ATTENTION(key_starts),
                                       ATTENTION(causal_offset),
                                       ATTENTION(block_mask),
                                       ATTENTION(tree_mask),
                                       ATTENTION(k_scale),
                                       ATTENTION(v_scale),
                                       ATTENTION(q_scale),
                                       ATTENTION(o_scale)};
enum { KEPT_OUT, KEPT_LSE, KEPT_WORKSPACE, KEPT_ON_GPU, KEPT }; /* Of the tuple that a prepared call keeps. */
enum { OUT, LSE, MOST_OPERANDS = sizeof of_attention / sizeof *of_attention };

/* Type, extents, and the strides that matter. */
static int is_laid_out_as(const attile_tensor *found, const attile_tensor *prepared) {
    if (found->dtype != prepared->dtype || found->rank != prepared->rank) return 0;
    for (int axis = 0; axis < found->rank; axis++)
        if (found->shape[axis] != prepared->shape[axis] || (found->shape[axis] > 1 && found->stride[axis] != prepared->stride[axis]))
            return 0;
    return 1;
}

/* A launch: the struct of pointers of either operation. */
typedef union {
    attile_gemm_pointers gemm;
    attile_attention_pointers attention;
} launch;

static int replace(native_call *call, const operand *operands, int which, int is_output, const char *args, PyObject *array, launch *into) {
    attile_tensor tensor;
    PyObject *same = NULL;
    if (array == Py_None) return -1;
    if (is_output) {
        if (native_output(call, array, NULL, NULL, 0, 0, NULL, &tensor, &same) < 0) return -1;
        Py_DECREF(same); /* The caller's frame or the prepared call holds it. */
    } else if (native_view(call, array, &tensor) < 0) {
        return -1;
    }
    if (!is_laid_out_as(&tensor, (const attile_tensor *)(args + operands[which].tensor))) return -1;
    memcpy((char *)into + operands[which].pointer, &tensor.data, sizeof tensor.data);
    return 0;
}

/* Sorts the arrays given by operand. */
static int sort(const operand *operands, int count, PyObject *const *args, PyObject *keywords, PyObject **arrays, PyObject **stream,
                PyObject **workspace) {
    const Py_ssize_t named = keywords == NULL ? 0 : PyTuple_Size(keywords);
    for (Py_ssize_t i = 0; i < named; i++) {
        PyObject *keyword = PyTuple_GetItem(keywords, i);
        int at = 0;
        while (at < count && PyUnicode_CompareWithASCIIString(keyword, operands[at].name) != 0) at++;
        PyObject **into = at < count                                                     ? &arrays[at]
                          : PyUnicode_CompareWithASCIIString(keyword, run_names[0]) == 0 ? stream
                          : PyUnicode_CompareWithASCIIString(keyword, run_names[1]) == 0 ? workspace
                                                                                         : NULL;
        if (into == NULL) return -1;
        *into = args[i];
    }
    return 0;
}

PyObject *native_run(PyObject *self, PyObject *const *args, Py_ssize_t given, PyObject *keywords) {
    const native_object *prepared = (native_object *)self;
    const operand *operands = prepared->is_attention ? of_attention : of_gemm;
    const int count = prepared->is_attention ? MOST_OPERANDS : (int)(sizeof of_gemm / sizeof *of_gemm);
    PyObject *arrays[MOST_OPERANDS] = {NULL}, *stream = NULL, *workspace = NULL, *result = NULL;
    native_call call = {0};
    attile_tensor unused;
    launch x;
    PyObject *kept = PyObject_GetAttr(self, native.names._kept);
    memset(&x, 0, sizeof x);
    x.gemm.struct_size = prepared->is_attention ? sizeof x.attention : sizeof x.gemm;
    if (kept == NULL || !PyTuple_Check(kept) || PyTuple_Size(kept) != KEPT || prepared->args == 0 || given != 0 ||
        sort(operands, count, args, keywords, arrays, &stream, &workspace) < 0)
        goto pure;
    PyObject *const lse = PyTuple_GetItem(kept, KEPT_LSE);
    if (arrays[OUT] == NULL) arrays[OUT] = PyTuple_GetItem(kept, KEPT_OUT); /* Its stream is the current one, and it is written. */
    if (prepared->is_attention && arrays[LSE] == NULL && lse != Py_None) arrays[LSE] = lse;
    if (!NATIVE_IS_GIVEN(workspace)) workspace = PyTuple_GetItem(kept, KEPT_WORKSPACE);
    for (int i = 0; i < count; i++) {
        const int is_output = i == OUT || (prepared->is_attention && i == LSE);
        if (arrays[i] != NULL && replace(&call, operands, i, is_output, (const char *)(uintptr_t)prepared->args, arrays[i], &x) < 0)
            goto pure;
    }
    if (call.stream == NULL && !NATIVE_IS_GIVEN(stream) && native_view(&call, PyTuple_GetItem(kept, KEPT_ON_GPU), &unused) < 0) goto pure;
    /* The heads of both structs lie alike. */
    if (native_finish(&call, stream, NULL, workspace, NULL, &x.gemm.flags, &x.gemm.stream, &x.gemm.workspace, &x.gemm.workspace_bytes) < 0)
        goto pure;
    attile_prepared *const handle = (attile_prepared *)(uintptr_t)prepared->handle;
    PyThreadState *const saved = PyEval_SaveThread();
    const int32_t status =
        prepared->is_attention ? native.functions.attention_run(handle, &x.attention) : native.functions.gemm_run(handle, &x.gemm);
    PyEval_RestoreThread(saved);
    if (native_settle(&call, status) == 0) result = lse == Py_None ? Py_NewRef(arrays[OUT]) : PyTuple_Pack(2, arrays[OUT], arrays[LSE]);
    goto done;
pure:
    PyErr_Clear();
    result = native_pure(NATIVE_run, self, args, given, keywords);
done:
    Py_XDECREF(kept);
    return result;
}
