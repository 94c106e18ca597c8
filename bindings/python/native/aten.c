/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's plain tensors by its functions in C, where Python found those and the words of PyTorch's objects: reads a tensor, and makes
   one. A handle is the address of a pointer to the tensor in C++, as a Python object holds one. */
#include <string.h>

#include "native.h"

enum { MOST_TYPES = 64, MOST_KEYS = 8, MOST_ELEMENTS = 1 << 20 };

static struct {
    Py_ssize_t object, keys, gradient; /* Words: of the Python object that to C++'s, and of that the dispatch keys and the gradient. */
    int32_t cpu, cuda;
    int32_t types[MOST_TYPES]; /* Of the library, by PyTorch's number; 0: not taken. */
    PyObject *to_python;       /* Before 2.14: makes an object in Python of a capsule with a handle, which stays. */
    int32_t (*get_dim)(void *, int64_t *);
    int32_t (*get_sizes)(void *, int64_t **);
    int32_t (*get_strides)(void *, int64_t **);
    int32_t (*get_dtype)(void *, int32_t *);
    int32_t (*get_data_ptr)(void *, void **);
    int32_t (*get_device_type)(void *, int32_t *);
    int32_t (*get_device_index)(void *, int32_t *);
    int32_t (*empty_strided)(int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t, void **);
    int32_t (*delete_tensor_object)(void *);
    int32_t (*get_current_cuda_stream)(int32_t, void **); /* NULL without CUDA. */
    int32_t (*to_pyobject)(void *, void *, void **);      /* The same, faster; NULL before 2.14. */
    int is_known;
    int plain_count;
    unsigned long long plain[MOST_KEYS]; /* Dispatch keys of which Python said that the tensor is plain. */
} aten;

static int number_of(PyObject *found, const char *name, long long *into) {
    PyObject *value = PyDict_GetItemString(found, name); /* Borrowed. */
    *into = value == NULL ? -1 : PyLong_AsLongLong(value);
    return *into < 0 || PyErr_Occurred() ? -1 : 0;
}

/* The numbers of types: {PyTorch's: the library's}. */
static int learn_types(PyObject *types) {
    Py_ssize_t at = 0;
    PyObject *key, *value;
    if (types == NULL || !PyDict_Check(types)) return -1;
    while (PyDict_Next(types, &at, &key, &value)) {
        const long number = PyLong_AsLong(key), type = PyLong_AsLong(value);
        if (number < 0 || number >= MOST_TYPES || type <= 0) return -1;
        aten.types[number] = (int32_t)type;
    }
    return 0;
}

static int learn(PyObject *found) {
    long long object, keys, gradient, cpu, cuda;
    if (number_of(found, "object", &object) < 0 || number_of(found, "keys", &keys) < 0 || number_of(found, "gradient", &gradient) < 0 ||
        number_of(found, "cpu", &cpu) < 0 || number_of(found, "cuda", &cuda) < 0 || learn_types(PyDict_GetItemString(found, "types")) < 0)
        return -1;
    aten.object = (Py_ssize_t)object;
    aten.keys = (Py_ssize_t)keys;
    aten.gradient = (Py_ssize_t)gradient;
    aten.cpu = (int32_t)cpu;
    aten.cuda = (int32_t)cuda;
#define FIND(function, is_needed)                                                                        \
    do {                                                                                                 \
        PyObject *address_ = PyDict_GetItemString(found, #function);                                     \
        const uintptr_t number_ = NATIVE_IS_GIVEN(address_) ? (uintptr_t)PyLong_AsVoidPtr(address_) : 0; \
        if (PyErr_Occurred() || ((is_needed) && number_ == 0)) return -1;                                \
        memcpy(&aten.function, &number_, sizeof number_);                                                \
    } while (0)
    FIND(get_dim, 1);
    FIND(get_sizes, 1);
    FIND(get_strides, 1);
    FIND(get_dtype, 1);
    FIND(get_data_ptr, 1);
    FIND(get_device_type, 1);
    FIND(get_device_index, 1);
    FIND(empty_strided, 1);
    FIND(delete_tensor_object, 1);
    FIND(get_current_cuda_stream, 0);
    FIND(to_pyobject, 0);
#undef FIND
    aten.to_python = Py_XNewRef(PyDict_GetItemString(found, "to_python"));
    return aten.to_pyobject == NULL && !NATIVE_IS_GIVEN(aten.to_python) ? -1 : 0;
}

int native_learn_aten(PyObject *torch) {
    PyObject *found = PyObject_CallFunctionObjArgs(native.given.find_aten, torch, NULL);
    aten.is_known = found != NULL && found != Py_None && learn(found) == 0;
    Py_XDECREF(found);
    PyErr_Clear();
    return aten.is_known;
}

int native_has_aten(void) { return aten.is_known; }

static void *handle_of(PyObject *array) { return (char *)array + aten.object * (Py_ssize_t)sizeof(void *); }

/* A word of the tensor in C++. */
static unsigned long long word(PyObject *array, Py_ssize_t which) {
    const char *tensor;
    unsigned long long found;
    memcpy(&tensor, handle_of(array), sizeof tensor);
    memcpy(&found, tensor + which * (Py_ssize_t)sizeof found, sizeof found);
    return found;
}

int native_aten_is_plain(PyObject *array) {
    const unsigned long long keys = word(array, aten.keys);
    for (int i = 0; i < aten.plain_count; i++)
        if (aten.plain[i] == keys) return 1;
    PyObject *torch = PyDict_GetItemString(native.given.modules, "torch"); /* Borrowed. */
    PyObject *answer = torch == NULL ? NULL : PyObject_CallFunctionObjArgs(native.given.is_plain, torch, array, NULL);
    Py_XDECREF(answer); /* Only compared. */
    if (answer == Py_True && aten.plain_count < MOST_KEYS) aten.plain[aten.plain_count++] = keys;
    return answer == Py_True;
}

int native_aten_has_no_gradient(PyObject *array) { return word(array, aten.gradient) == 0; }

int native_aten_view(native_call *call, PyObject *array, attile_tensor *tensor) {
    void *const handle = handle_of(array);
    int64_t rank, *shape, *stride;
    int32_t type, device, index;
    if (aten.get_dim(handle, &rank) != 0 || rank > 4 || aten.get_sizes(handle, &shape) != 0 || aten.get_strides(handle, &stride) != 0 ||
        aten.get_dtype(handle, &type) != 0 || type < 0 || type >= MOST_TYPES || aten.types[type] == 0 ||
        aten.get_device_type(handle, &device) != 0)
        return -1;
    memset(tensor, 0, sizeof *tensor);
    tensor->dtype = aten.types[type];
    tensor->rank = (int32_t)rank;
    for (int64_t axis = 0; axis < rank; axis++) {
        tensor->shape[axis] = shape[axis];
        tensor->stride[axis] = stride[axis];
    }
    if (aten.get_data_ptr(handle, &tensor->data) != 0 || tensor->data == NULL) return -1; /* No memory: empty. */
    if (device == aten.cpu) return 0;
    if (device != aten.cuda || aten.get_current_cuda_stream == NULL || aten.get_device_index(handle, &index) != 0) return -1;
    if (call->stream == NULL && call->asked != index + 1) {
        if (aten.get_current_cuda_stream(index, &call->stream) != 0) return -1;
        call->asked = index + 1;
    }
    return 0;
}

/* The object in Python of a new tensor, whose handle ends here. */
static PyObject *object_of(void *handle) {
    void *made = NULL;
    if (aten.to_pyobject != NULL) {
        if (aten.to_pyobject(handle, NULL, &made) != 0) made = NULL;
    } else {
        PyObject *capsule = PyCapsule_New(handle, NULL, NULL);
        if (capsule != NULL) made = PyObject_CallFunctionObjArgs(aten.to_python, capsule, NULL);
        Py_XDECREF(capsule);
    }
    aten.delete_tensor_object(handle);
    return made;
}

PyObject *native_aten_empty(PyObject *like, int32_t type, int32_t rank, const int64_t *shape, attile_tensor *tensor) {
    void *handle;
    int32_t number = 0, device, index;
    int64_t elements = 1;
    memset(tensor, 0, sizeof *tensor);
    tensor->dtype = type;
    tensor->rank = rank;
    for (int32_t axis = rank - 1; axis >= 0; axis--) {
        tensor->shape[axis] = shape[axis];
        tensor->stride[axis] = elements;
        if (shape[axis] <= 0 || shape[axis] > MOST_ELEMENTS / elements) return NULL;
        elements *= shape[axis];
    }
    while (number < MOST_TYPES && aten.types[number] != type) number++;
    if (number == MOST_TYPES || aten.get_device_type(handle_of(like), &device) != 0 || aten.get_device_index(handle_of(like), &index) != 0)
        return NULL;
    PyThreadState *const saved = PyEval_SaveThread(); /* PyTorch's allocators may wait for another thread that wants the GIL. */
    const int failed = aten.empty_strided(rank, tensor->shape, tensor->stride, number, device, index, &handle) != 0;
    PyEval_RestoreThread(saved);
    if (failed) return NULL;
    if (aten.get_data_ptr(handle, &tensor->data) != 0 || tensor->data == NULL) {
        aten.delete_tensor_object(handle);
        return NULL;
    }
    return object_of(handle);
}
