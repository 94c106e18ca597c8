/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's tensors: by its functions in C (aten.c), else by DLPack's exchange in C, else by their attributes. */
#include <string.h>

#include "native.h"

/* Types of elements by PyTorch's names. */
static const struct {
    const char *name;
    int32_t type;
} types[] = {{"float32", ATTILE_F32},
             {"float64", ATTILE_F64},
             {"float16", ATTILE_F16},
             {"bfloat16", ATTILE_BF16},
             {"int32", ATTILE_I32},
             {"uint8", ATTILE_U8},
             {"bool", ATTILE_BOOL},
             /* Not of every PyTorch: */
             {"int8", ATTILE_I8},
             {"float8_e4m3fn", ATTILE_F8_E4M3},
             {"float8_e5m2", ATTILE_F8_E5M2}};

static int refuse(void) {
    PyErr_Clear();
    return -1;
}

/* A dotted name of a module; a new reference, or NULL with an error. */
static PyObject *find(PyObject *from, const char *dotted) {
    char name[32];
    PyObject *found = Py_NewRef(from);
    while (found != NULL && *dotted != '\0') {
        const size_t length = strcspn(dotted, ".");
        memcpy(name, dotted, length);
        name[length] = '\0';
        dotted += length + (dotted[length] == '.');
        PyObject *next = PyObject_GetAttrString(found, name);
        Py_DECREF(found);
        found = next;
    }
    return found;
}

/* Options of a call: the one named. */
static PyObject *option(const char *name, PyObject *value) { return value == NULL ? NULL : Py_BuildValue("{s:O}", name, value); }

static const native_exchange_api *find_exchange(PyObject *tensor_type) {
    PyObject *capsule = PyObject_GetAttrString(tensor_type, "__dlpack_c_exchange_api__");
    if (capsule == NULL) return NULL;
    const native_exchange_api *api = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    Py_DECREF(capsule); /* The table stays until the process ends. */
    while (api != NULL && api->major != 1) api = api->older;
    return api == NULL || api->describe == NULL || api->current_stream == NULL ? NULL : api;
}

static PyObject *find_types(PyObject *torch) {
    PyObject *found = PyDict_New();
    for (size_t i = 0; found != NULL && i < sizeof types / sizeof *types; i++) {
        PyObject *type = find(torch, types[i].name);
        if (type == NULL && (types[i].type & 0xff) == 8) {
            PyErr_Clear();
            continue;
        }
        PyObject *number = PyLong_FromLong(types[i].type);
        if (type == NULL || number == NULL || PyDict_SetItem(found, type, number) < 0) Py_CLEAR(found);
        Py_XDECREF(type);
        Py_XDECREF(number);
    }
    return found;
}

/* Once PyTorch was imported by somebody. A module that is PyTorch in part, or PyTorch for AMD, is left to Python. */
static int learn(void) {
    PyObject *torch = PyDict_GetItemString(native.given.modules, "torch");
    if (torch == NULL) return 0;
    PyObject *hip = find(torch, "version.hip");
    const int is_cuda = hip == Py_None;
    Py_XDECREF(hip);
    PyObject *tensor = find(torch, "Tensor");
    if (is_cuda && tensor != NULL && PyType_Check(tensor)) {
        native.torch.parameter = find(torch, "nn.Parameter");
        native.torch.empty_like = find(torch, "empty_like");
        native.torch.is_grad_enabled = find(torch, "is_grad_enabled");
        native.torch.forward_ad = find(torch, "autograd.forward_ad.__dict__");
        native.torch.increment_versions = PyObject_CallFunctionObjArgs(native.given.increment_versions, torch, NULL);
        native.torch.is_neg = find(tensor, "is_neg");
        native.torch.strided = find(torch, "strided");
        native.torch.float32 = find(torch, "float32");
        native.torch.float64 = find(torch, "float64");
        native.torch.make_float32 = option("dtype", native.torch.float32);
        native.torch.make_float64 = option("dtype", native.torch.float64);
        native.torch.new_empty = find(tensor, "new_empty");
        native.torch.dtypes = find_types(torch);
        native.exchange = find_exchange(tensor);
        PyErr_Clear();
        native_learn_aten(torch);
        if (native.torch.parameter && native.torch.empty_like && native.torch.is_grad_enabled && native.torch.forward_ad &&
            native.torch.strided && native.torch.make_float32 && native.torch.make_float64 && native.torch.new_empty &&
            native.torch.dtypes && native.torch.increment_versions) {
            native.torch.tensor = tensor;
            return 1;
        }
#define X(name) Py_CLEAR(native.torch.name);
        NATIVE_TORCH(X)
#undef X
    }
    Py_XDECREF(tensor);
    PyErr_Clear();
    return 0;
}

int native_is_torch(PyObject *array) {
    PyObject *type = (PyObject *)Py_TYPE(array);
    if (type == native.given.ndarray || (native.torch.tensor == NULL && !learn())) return 0;
    return type == native.torch.tensor || type == native.torch.parameter;
}

/* Whether an attribute is what it should be. */
static int is(PyObject *object, PyObject *name, PyObject *expected) {
    PyObject *value = PyObject_GetAttr(object, name);
    Py_XDECREF(value); /* Only compared. */
    return value == expected;
}

/* Whether a bit beside the memory says that the values are negated; -1 with an error. */
static int is_negated(PyObject *array) {
    PyObject *negated = PyObject_CallFunctionObjArgs(native.torch.is_neg, array, NULL);
    Py_XDECREF(negated); /* Only compared. */
    return negated == NULL ? -1 : negated != Py_False;
}

static int requires_no_gradient(PyObject *array) {
    return (native_has_aten() && native_aten_has_no_gradient(array)) || is(array, native.names.requires_grad, Py_False);
}

/* Whether values alone are enough: no gradient or tangent is lost, and no bit beside the memory says that they are negated. */
static int is_plain(native_call *call, PyObject *array) {
    if (!call->looked_at_ad) { /* A tangent exists within a level of forward differentiation only. */
        PyObject *level = PyDict_GetItemWithError(native.torch.forward_ad, native.names._current_level); /* Borrowed. */
        const long number = level == NULL ? 0 : PyLong_AsLong(level);
        if (number >= 0 || PyErr_Occurred()) return 0;
        call->looked_at_ad = 1;
    }
    if (!requires_no_gradient(array)) {
        PyObject *enabled = PyErr_Occurred() ? NULL : PyObject_CallFunctionObjArgs(native.torch.is_grad_enabled, NULL);
        Py_XDECREF(enabled);
        if (enabled != Py_False) return 0;
    }
    return native_has_aten() ? native_aten_is_plain(array) : is_negated(array) == 0;
}

static int view_exchanged(native_call *call, PyObject *array, attile_tensor *tensor) {
    native_dl_tensor found;
    if (native.exchange->describe(array, &found) != 0) return refuse();
    if (found.rank > 4 || found.type_lanes != 1 || found.data == NULL) return -1; /* No memory: empty, or a tensor of a transform. */
    memset(tensor, 0, sizeof *tensor);
    tensor->data = (char *)found.data + found.byte_offset;
    tensor->dtype = found.type_code * 256 + found.type_bits;
    tensor->rank = found.rank;
    int64_t step = 1;
    for (int axis = found.rank - 1; axis >= 0; axis--) {
        tensor->shape[axis] = found.shape[axis];
        tensor->stride[axis] = found.stride != NULL ? found.stride[axis] : step;
        step *= found.shape[axis];
    }
    if (found.device_type == ATTILE_DEVICE_CPU) return 0;
    if (found.device_type != ATTILE_DEVICE_CUDA) return -1;
    if (call->stream == NULL && call->asked != found.device_id + 1) {
        if (native.exchange->current_stream(ATTILE_DEVICE_CUDA, found.device_id, &call->stream) != 0) return refuse();
        call->asked = found.device_id + 1;
    }
    return 0;
}

/* A tuple of extents or strides. */
static int extents_of(PyObject *tuple, int64_t *into) {
    const Py_ssize_t rank = tuple == NULL || !PyTuple_Check(tuple) ? -1 : PyTuple_Size(tuple);
    for (Py_ssize_t axis = 0; rank <= 4 && axis < rank; axis++) into[axis] = PyLong_AsLongLong(PyTuple_GetItem(tuple, axis));
    Py_XDECREF(tuple);
    return rank < 0 || rank > 4 || PyErr_Occurred() ? -1 : (int)rank;
}

static int view_by_attributes(native_call *call, PyObject *array, attile_tensor *tensor) {
    const int on_gpu = is(array, native.names.is_cuda, Py_True);
    if (!is(array, native.names.layout, native.torch.strided) || (!on_gpu && !is(array, native.names.is_cpu, Py_True))) return refuse();
    memset(tensor, 0, sizeof *tensor);
    tensor->rank = extents_of(PyObject_GetAttr(array, native.names.shape), tensor->shape);
    if (tensor->rank < 0 || extents_of(PyObject_CallMethodObjArgs(array, native.names.stride, NULL), tensor->stride) < 0) return refuse();
    PyObject *type = PyObject_GetAttr(array, native.names.dtype);
    PyObject *number = type == NULL ? NULL : PyDict_GetItemWithError(native.torch.dtypes, type); /* Borrowed. */
    Py_XDECREF(type);
    if (number == NULL) return refuse();
    tensor->dtype = (int32_t)PyLong_AsLong(number);
    PyObject *address = PyObject_CallMethodObjArgs(array, native.names.data_ptr, NULL);
    tensor->data = address == NULL ? NULL : PyLong_AsVoidPtr(address);
    Py_XDECREF(address);
    if (PyErr_Occurred()) return refuse();
    if (on_gpu && call->stream == NULL) {
        PyObject *stream = PyObject_CallFunctionObjArgs(native.given.cuda_stream, array, NULL);
        call->stream = stream == NULL ? NULL : PyLong_AsVoidPtr(stream);
        Py_XDECREF(stream);
        if (PyErr_Occurred()) return refuse();
    }
    return 0;
}

int native_view_torch(native_call *call, PyObject *array, int is_new, attile_tensor *tensor) {
    if (!is_new && !is_plain(call, array)) return refuse();
    if (native_has_aten()) return native_aten_view(call, array, tensor);
    return native.exchange != NULL ? view_exchanged(call, array, tensor) : view_by_attributes(call, array, tensor);
}

/* Whether a tensor is of that shape and dense. */
static int is_dense_of(const attile_tensor *like, int32_t rank, const int64_t *shape) {
    int64_t step = 1;
    if (rank != like->rank) return 0;
    for (int axis = rank - 1; axis >= 0; axis--) {
        if (like->shape[axis] != shape[axis] || like->stride[axis] != step) return 0;
        step *= shape[axis];
    }
    return 1;
}

/* A call of the method with the extents one by one, which PyTorch parses faster than a tuple of them. */
static PyObject *new_empty(PyObject *array, int32_t rank, const int64_t *shape, PyObject *options) {
    PyObject *arguments = PyTuple_New(rank + 1), *made = NULL;
    if (arguments == NULL) return NULL;
    int failed = PyTuple_SetItem(arguments, 0, Py_NewRef(array)) < 0;
    for (int32_t i = 0; i < rank && !failed; i++) {
        PyObject *extent = PyLong_FromLongLong(shape[i]);
        failed = extent == NULL || PyTuple_SetItem(arguments, i + 1, extent) < 0; /* Takes the extent. */
    }
    if (!failed) made = PyObject_Call(native.torch.new_empty, arguments, options);
    Py_DECREF(arguments);
    return made;
}

/* By PyTorch's methods. */
static PyObject *make_empty(PyObject *like, const attile_tensor *like_tensor, int32_t type, int32_t rank, const int64_t *shape) {
    if (type != like_tensor->dtype)
        return new_empty(like, rank, shape, type == ATTILE_F64 ? native.torch.make_float64 : native.torch.make_float32);
    if (is_dense_of(like_tensor, rank, shape)) return PyObject_CallFunctionObjArgs(native.torch.empty_like, like, NULL);
    return new_empty(like, rank, shape, NULL);
}

PyObject *native_empty_torch(native_call *call, PyObject *like, const attile_tensor *like_tensor, int32_t type, int32_t rank,
                             const int64_t *shape, attile_tensor *tensor) {
    if (type == 0) type = like_tensor->dtype;
    PyObject *made = native_has_aten() ? native_aten_empty(like, type, rank, shape, tensor) : NULL;
    if (made != NULL || PyErr_Occurred()) return made;
    made = make_empty(like, like_tensor, type, rank, shape);
    if (made != NULL && native_view_torch(call, made, 1, tensor) < 0) Py_CLEAR(made);
    return made;
}

/* Tell PyTorch of one tensor as mark_written() in Python does. */
static int mark_in_python(PyObject *array) {
    PyObject *none = PyObject_CallFunctionObjArgs(native.given.mark_written, array, NULL);
    Py_XDECREF(none);
    return none == NULL ? -1 : 0;
}

int native_mark_torch(PyObject *const *arrays, int count) {
    if (native.torch.increment_versions == Py_None) {
        for (int i = 0; i < count; i++)
            if (mark_in_python(arrays[i]) < 0) return -1;
        return 0;
    }
    PyObject *all = PyTuple_New(count), *none = NULL;
    for (int i = 0; all != NULL && i < count; i++) PyTuple_SetItem(all, i, Py_NewRef(arrays[i]));
    if (all != NULL) none = PyObject_CallFunctionObjArgs(native.torch.increment_versions, all, NULL);
    Py_XDECREF(all);
    Py_XDECREF(none);
    return none == NULL ? -1 : 0;
}
