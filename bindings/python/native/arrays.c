/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "native.h"

/* What NumPy's __array_struct__ points to. */
typedef struct {
    int two;
    int rank;
    char kind;
    int item;
    int flags;
    Py_ssize_t *shape;
    Py_ssize_t *stride; /* In bytes. */
    void *data;
    PyObject *description;
} array_struct;
enum { OWN_BYTE_ORDER = 0x200, WRITABLE = 0x400 };

static int refuse(void) {
    PyErr_Clear();
    return -1;
}

/* NumPy does not know bfloat16: it is a type of ml_dtypes, of which NumPy tells the name. */
static int is_bfloat16(PyObject *array) {
    PyObject *type = PyObject_GetAttr(array, native.names.dtype);
    if (type == NULL) return 0;
    int is = type == native.bfloat16;
    if (!is) {
        PyObject *name = PyObject_GetAttr(type, native.names.name);
        is = name != NULL && PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, "bfloat16") == 0;
        Py_XDECREF(name);
        if (is) {
            PyObject *old = native.bfloat16;
            native.bfloat16 = Py_NewRef(type);
            Py_XDECREF(old);
        }
    }
    Py_DECREF(type);
    return is;
}

static int32_t type_of(const array_struct *a, PyObject *array) {
    switch (a->kind << 8 | a->item) {
        case 'f' << 8 | 4:
            return ATTILE_F32;
        case 'f' << 8 | 8:
            return ATTILE_F64;
        case 'f' << 8 | 2:
            return ATTILE_F16;
        case 'i' << 8 | 4:
            return ATTILE_I32;
        case 'i' << 8 | 1:
            return ATTILE_I8;
        case 'u' << 8 | 1:
            return ATTILE_U8;
        case 'b' << 8 | 1:
            return ATTILE_BOOL;
        case 'V' << 8 | 2:
            return is_bfloat16(array) ? ATTILE_BF16 : 0;
        default:
            return 0;
    }
}

static int view_numpy(PyObject *array, attile_tensor *tensor, int *writable) {
    PyObject *capsule = PyObject_GetAttr(array, native.names.__array_struct__);
    if (capsule == NULL) return refuse();
    const array_struct *a = PyCapsule_GetPointer(capsule, NULL);
    int found = -1;
    if (a != NULL && a->two == 2 && a->rank <= 4 && (a->flags & OWN_BYTE_ORDER)) {
        memset(tensor, 0, sizeof *tensor);
        tensor->data = a->data;
        tensor->rank = a->rank;
        tensor->dtype = type_of(a, array);
        found = tensor->dtype != 0 ? 0 : -1;
        for (int axis = 0; found == 0 && axis < a->rank; axis++) {
            tensor->shape[axis] = a->shape[axis];
            tensor->stride[axis] = a->stride[axis] / a->item;
            if (a->stride[axis] % a->item != 0) found = -1;
        }
        *writable = (a->flags & WRITABLE) != 0;
    }
    Py_DECREF(capsule); /* The array itself keeps its memory. */
    if (found < 0) PyErr_Clear();
    return found;
}

static int is_numpy(PyObject *array) {
    return (PyObject *)Py_TYPE(array) == native.given.ndarray || PyType_IsSubtype(Py_TYPE(array), (PyTypeObject *)native.given.ndarray);
}

int native_find_view(native_call *call, PyObject *array, attile_tensor *tensor, int *writable) {
    *writable = 1;
    if ((PyObject *)Py_TYPE(array) == native.given.ndarray) return view_numpy(array, tensor, writable);
    if (native_is_torch(array)) return native_view_torch(call, array, 0, tensor);
    return is_numpy(array) ? view_numpy(array, tensor, writable) : -1;
}

int native_view(native_call *call, PyObject *array, attile_tensor *tensor) {
    int writable;
    return NATIVE_IS_GIVEN(array) ? native_find_view(call, array, tensor, &writable) : 0;
}

static PyObject *extents_of(int32_t rank, const int64_t *shape) {
    PyObject *tuple = PyTuple_New(rank);
    for (int32_t i = 0; tuple != NULL && i < rank; i++) {
        PyObject *extent = PyLong_FromLongLong(shape[i]);
        if (extent == NULL || PyTuple_SetItem(tuple, i, extent) < 0) Py_CLEAR(tuple); /* SetItem takes the extent. */
    }
    return tuple;
}

static PyObject *empty_numpy(PyObject *array, int32_t type, int32_t rank, const int64_t *shape) {
    PyObject *description = type == ATTILE_F32   ? Py_NewRef(native.given.float32)
                            : type == ATTILE_F64 ? Py_NewRef(native.given.float64)
                                                 : PyObject_GetAttr(array, native.names.dtype);
    PyObject *extents = extents_of(rank, shape), *made = NULL;
    if (description != NULL && extents != NULL) made = PyObject_CallFunctionObjArgs(native.given.empty, extents, description, NULL);
    Py_XDECREF(description);
    Py_XDECREF(extents);
    return made;
}

int native_output(native_call *call, PyObject *given, PyObject *like, const attile_tensor *like_tensor, int32_t type, int32_t rank,
                  const int64_t *shape, attile_tensor *tensor, PyObject **result) {
    int writable;
    if (NATIVE_IS_GIVEN(given)) {
        if (native_find_view(call, given, tensor, &writable) < 0 || !writable) return -1;
        if (native_is_torch(given)) call->written[call->written_count++] = given;
        *result = Py_NewRef(given);
        return 0;
    }
    if (native_is_torch(like)) {
        *result = native_empty_torch(call, like, like_tensor, type, rank, shape, tensor);
        return *result == NULL ? refuse() : 0;
    }
    *result = is_numpy(like) ? empty_numpy(like, type, rank, shape) : NULL;
    return *result == NULL ? refuse() : view_numpy(*result, tensor, &writable);
}

/* Whether a call that failed so has left outputs as they were. */
static int wrote_nothing(int32_t status) { return status / 1000 == 1 || status / 1000 == 2 || status / 1000 == 4; }

int native_settle(const native_call *call, int32_t status) {
    if (call->written_count > 0 && !wrote_nothing(status) && native_mark_torch(call->written, call->written_count) < 0) return -1;
    if (status == ATTILE_OK) return 0;
    PyObject *none = PyObject_CallFunction(native.given.check, "i", (int)status);
    if (none != NULL) { /* It always raises. */
        Py_DECREF(none);
        PyErr_Format(PyExc_SystemError, "status %d was not raised", (int)status);
    }
    return -1;
}
