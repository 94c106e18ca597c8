/* SPDX-License-Identifier: Apache-2.0 */
#include "native.h"

static int place(PyObject *const *names, PyObject *keyword) {
    for (int i = 0; names[i] != NULL; i++)
        if (keyword == names[i]) return i;
    for (int i = 0; names[i] != NULL; i++) /* A name that is not interned, of a dictionary made at run time. */
        if (PyUnicode_Compare(keyword, names[i]) == 0) return i;
    return -1;
}

int native_sort(int method, int positional, int required, PyObject *const *args, Py_ssize_t given, PyObject *keywords, PyObject **values) {
    if (given > positional || native.functions.gemm == NULL) return -1; /* Python opens the library. */
    for (Py_ssize_t i = 0; i < given; i++) values[i] = args[i];
    const Py_ssize_t named = keywords == NULL ? 0 : PyTuple_Size(keywords);
    for (Py_ssize_t i = 0; i < named; i++) {
        const int at = place(native.parameters[method], PyTuple_GetItem(keywords, i));
        if (at < 0 || values[at] != NULL) return -1;
        values[at] = args[given + i];
    }
    for (int i = 0; i < required; i++)
        if (values[i] == NULL) return -1;
    return 0;
}

/* An error of a conversion is found again, and said, in Python. */
static int refuse(void) {
    PyErr_Clear();
    return -1;
}

int native_number(PyObject *value, double *into) {
    if (value == NULL) return 0;
    *into = PyFloat_AsDouble(value);
    return *into == -1.0 && PyErr_Occurred() ? refuse() : 0;
}

int native_integer(PyObject *value, int64_t *into) {
    if (value == NULL) return 0;
    if (!PyLong_Check(value)) return -1;
    *into = PyLong_AsLongLong(value);
    return *into == -1 && PyErr_Occurred() ? refuse() : 0;
}

int native_small_integer(PyObject *value, int32_t *into) {
    int64_t wide = *into;
    if (native_integer(value, &wide) < 0 || wide != (int32_t)wide) return -1;
    *into = (int32_t)wide;
    return 0;
}

int native_choice(PyObject *value, PyObject *table, int32_t *into) {
    if (!NATIVE_IS_GIVEN(value)) return 0; /* None is 0 in every table. */
    PyObject *found = PyDict_GetItemWithError(table, value);
    return found == NULL ? refuse() : native_small_integer(found, into);
}

/* Bytes of a workspace; -1 where it is not dense. */
static int64_t dense_bytes(const attile_tensor *tensor) {
    int64_t step = 1;
    for (int axis = tensor->rank - 1; axis >= 0; axis--) {
        if (tensor->shape[axis] > 1 && tensor->stride[axis] != step) return -1;
        step *= tensor->shape[axis];
    }
    return step * ((tensor->dtype & 0xff) / 8);
}

int native_finish(native_call *call, PyObject *stream, PyObject *flags, PyObject *workspace, PyObject *query, uint32_t *flags_into,
                  void **stream_into, void **workspace_into, int64_t *bytes_into) {
    if (NATIVE_IS_GIVEN(workspace)) {
        attile_tensor tensor;
        PyObject *same = NULL;
        if (native_output(call, workspace, NULL, NULL, 0, 0, NULL, &tensor, &same) < 0) return -1;
        Py_DECREF(same);
        *workspace_into = tensor.data;
        *bytes_into = dense_bytes(&tensor);
        if (*bytes_into < 0) return -1;
    }
    *stream_into = call->stream;
    if (NATIVE_IS_GIVEN(stream)) {
        if (!PyLong_Check(stream)) return -1;
        *stream_into = PyLong_AsVoidPtr(stream);
        if (PyErr_Occurred()) return refuse();
    }
    int64_t number = 0;
    if (native_integer(flags, &number) < 0) return -1;
    *flags_into = (uint32_t)number;
    call->is_query = query == NULL ? 0 : PyObject_IsTrue(query);
    return call->is_query < 0 ? refuse() : 0;
}

/* Puts a new value, which it takes, under its name. */
static int put(PyObject *dictionary, PyObject *name, PyObject *value) {
    const int failed = value == NULL || PyDict_SetItem(dictionary, name, value) < 0 ? -1 : 0;
    Py_XDECREF(value);
    return failed;
}

/* Support's fields go straight into its dictionary: its own initialiser, that of a frozen dataclass, takes 1 us. */
PyObject *native_support(int32_t status, const attile_support *support) {
    const native_call nothing = {0};
    if (native_settle(&nothing, status) < 0) return NULL;
    PyTypeObject *type = (PyTypeObject *)native.given.support;
    PyObject *level = PyTuple_GetItem(native.given.levels, support->level), *none = PyTuple_New(0);
    PyObject *made = level == NULL || none == NULL ? NULL : ((newfunc)PyType_GetSlot(type, Py_tp_new))(type, none, NULL);
    PyObject *fields = made == NULL ? NULL : PyObject_GenericGetDict(made, NULL);
    if (fields == NULL || put(fields, native.names.level, Py_NewRef(level)) < 0 ||
        put(fields, native.names.status, PyLong_FromLong(support->status)) < 0 ||
        put(fields, native.names.kernel, PyUnicode_FromString(support->kernel)) < 0 ||
        put(fields, native.names.text, PyUnicode_FromString(support->text)) < 0 ||
        put(fields, native.names.workspace_bytes, PyLong_FromLongLong(support->workspace_bytes)) < 0 ||
        put(fields, native.names.flops, PyFloat_FromDouble(support->flops)) < 0 ||
        put(fields, native.names.bytes, PyFloat_FromDouble(support->bytes)) < 0)
        Py_CLEAR(made);
    Py_XDECREF(fields);
    Py_XDECREF(none);
    return made;
}

PyObject *native_pure(int method, PyObject *self, PyObject *const *args, Py_ssize_t given, PyObject *keywords) {
    if (PyErr_Occurred()) return NULL; /* Of Python code that ran in between, such as an interrupt. */
    PyObject *result = NULL, *tuple = PyTuple_New(given + 1), *options = PyDict_New();
    if (tuple == NULL || options == NULL) goto done;
    PyTuple_SetItem(tuple, 0, Py_NewRef(self));
    for (Py_ssize_t i = 0; i < given; i++) PyTuple_SetItem(tuple, i + 1, Py_NewRef(args[i]));
    const Py_ssize_t named = keywords == NULL ? 0 : PyTuple_Size(keywords);
    for (Py_ssize_t i = 0; i < named; i++)
        if (PyDict_SetItem(options, PyTuple_GetItem(keywords, i), args[given + i]) < 0) goto done;
    result = PyObject_Call(native.pure[method], tuple, options);
done:
    Py_XDECREF(tuple);
    Py_XDECREF(options);
    return result;
}
