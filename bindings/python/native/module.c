/* SPDX-License-Identifier: Apache-2.0 */
/* The module attile._native: what Python gives it at its start, the base of Context and Prepared, and the methods. */
#include "native.h"

#include <stddef.h>
#include <string.h>
#include <structmember.h>

native_state native;

/* connect(addresses): the library's functions by name. */
static PyObject *connect(PyObject *module, PyObject *addresses) {
    (void)module;
    native_functions found;
    memset(&found, 0, sizeof found);
#define FIND(function)                                                                                               \
    do {                                                                                                             \
        PyObject *address_ = PyDict_GetItemString(addresses, "attile_" #function);                                   \
        if (address_ == NULL) return PyErr_Format(PyExc_KeyError, "the address of attile_" #function " is missing"); \
        const uintptr_t number_ = (uintptr_t)PyLong_AsVoidPtr(address_);                                             \
        if (PyErr_Occurred()) return NULL;                                                                           \
        memcpy(&found.function, &number_, sizeof number_);                                                           \
    } while (0);
#define X(operation) FIND(operation) FIND(operation##_query)
    NATIVE_OPERATIONS(X)
#undef X
    FIND(gemm_run)
    FIND(attention_run)
    FIND(last_error)
    native.functions = found;
    return Py_NewRef(Py_None);
}

/* setup(given): the objects of NATIVE_GIVEN by name. */
static PyObject *setup(PyObject *module, PyObject *given) {
    (void)module;
#define X(name)                                                                           \
    do {                                                                                  \
        PyObject *object_ = PyDict_GetItemString(given, #name);                           \
        if (object_ == NULL) return PyErr_Format(PyExc_KeyError, "setup() needs " #name); \
        PyObject *old_ = native.given.name;                                               \
        native.given.name = Py_NewRef(object_);                                           \
        Py_XDECREF(old_);                                                                 \
    } while (0);
    NATIVE_GIVEN(X)
#undef X
    return Py_NewRef(Py_None);
}

/* The context of the module's functions; a new reference. */
static PyObject *default_context(void) {
    if (native.context == NULL) {
        PyObject *opened = PyObject_CallFunctionObjArgs(native.given.default_context, NULL);
        if (opened == NULL) return NULL;
        native.context = opened;
    }
    return Py_NewRef(native.context);
}

/* forget_context(): it was that of the process from which this one was forked; the next call opens one. */
static PyObject *forget_context(PyObject *module, PyObject *nothing) {
    (void)module;
    (void)nothing;
    PyObject *old = native.context;
    native.context = NULL;
    Py_XDECREF(old);
    return Py_NewRef(Py_None);
}

#define X(operation)                                                                                                      \
    static PyObject *default_##operation(PyObject *module, PyObject *const *args, Py_ssize_t given, PyObject *keywords) { \
        (void)module;                                                                                                     \
        PyObject *context = default_context();                                                                            \
        PyObject *result = context == NULL ? NULL : native_##operation(context, args, given, keywords);                   \
        Py_XDECREF(context);                                                                                              \
        return result;                                                                                                    \
    }
NATIVE_OPERATIONS(X)
#undef X

#define FAST METH_FASTCALL | METH_KEYWORDS
#define CALLED(function) (PyCFunction)(void (*)(void))(function)
static PyMethodDef methods[NATIVE_METHODS] = {
#define X(operation) {#operation, CALLED(native_##operation), FAST, NULL},
    NATIVE_OPERATIONS(X)
#undef X
        {"run", CALLED(native_run), FAST, NULL},
};
static PyMethodDef functions[] = {
#define X(operation) {#operation, CALLED(default_##operation), FAST, NULL},
    NATIVE_OPERATIONS(X)
#undef X
};

static int find_method(const char *name) {
    int at = 0;
    while (at < NATIVE_METHODS && strcmp(methods[at].ml_name, name) != 0) at++;
    if (at == NATIVE_METHODS) PyErr_Format(PyExc_KeyError, "there is no method %s", name);
    return at == NATIVE_METHODS ? -1 : at;
}

/* method(owner, name, pure, text, parameters): the method for a subclass of Base. `text` is signature and documentation as CPython wants
 * them. */
static PyObject *method(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *owner, *pure, *parameters;
    const char *name, *text;
    if (!PyArg_ParseTuple(args, "OsOsO!", &owner, &name, &pure, &text, &PyTuple_Type, &parameters)) return NULL;
    const int at = find_method(name);
    if (at < 0) return NULL;
    const char *const *expected = native_parameters(at);
    Py_ssize_t count = 0;
    for (; expected[count] != NULL; count++) {
        PyObject *parameter = count < PyTuple_Size(parameters) ? PyTuple_GetItem(parameters, count) : NULL;
        if (parameter == NULL || PyUnicode_CompareWithASCIIString(parameter, expected[count]) != 0)
            return PyErr_Format(PyExc_ImportError, "parameter %zd of %s is %s in the extension and %R in Python", count, name,
                                expected[count], parameter == NULL ? Py_None : parameter);
    }
    if (count != PyTuple_Size(parameters)) return PyErr_Format(PyExc_ImportError, "%s has other parameters in the extension", name);
    char *kept = strdup(text); /* For as long as the process, as method tables must. */
    if (kept == NULL) return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *parameter = Py_NewRef(PyTuple_GetItem(parameters, i));
        PyUnicode_InternInPlace(&parameter);
        native.parameters[at][i] = parameter;
    }
    native.pure[at] = Py_NewRef(pure);
    methods[at].ml_doc = kept;
    return PyDescr_NewMethod((PyTypeObject *)owner, &methods[at]);
}

/* function(name, module_name): the function of the module, of the default context; its method must be there. */
static PyObject *function(PyObject *module, PyObject *args) {
    const char *name;
    PyObject *module_name;
    if (!PyArg_ParseTuple(args, "sO", &name, &module_name)) return NULL;
    const int at = find_method(name);
    if (at < 0) return NULL;
    if (methods[at].ml_doc == NULL || at == NATIVE_run) return PyErr_Format(PyExc_KeyError, "%s is not an operation of a context", name);
    functions[at].ml_doc = methods[at].ml_doc;
    return PyCFunction_NewEx(&functions[at], module, module_name);
}

/* xla_handlers(): handlers for JAX by the operation's name. They run on the default context, which is open from here on. */
static PyObject *xla_handlers(PyObject *module, PyObject *nothing) {
    (void)module;
    (void)nothing;
    PyObject *context = default_context();
    if (context == NULL) return NULL;
    Py_DECREF(context); /* Kept by the state. */
    return native_xla_handlers();
}

static PyMethodDef module_functions[] = {
    {"connect", connect, METH_O, NULL},
    {"setup", setup, METH_O, NULL},
    {"method", method, METH_VARARGS, NULL},
    {"forget_context", forget_context, METH_NOARGS, NULL},
    {"function", function, METH_VARARGS, NULL},
    {"xla_handlers", xla_handlers, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyObject *make_base(const char *name) {
    static PyMemberDef members[] = {
        {"_handle", T_ULONGLONG, offsetof(native_object, handle), 0, NULL},
        {"_args", T_ULONGLONG, offsetof(native_object, args), 0, NULL},
        {"_is_attention", T_INT, offsetof(native_object, is_attention), 0, NULL},
        {NULL, 0, 0, 0, NULL},
    };
    PyType_Slot slots[] = {{Py_tp_members, members}, {0, NULL}};
    PyType_Spec spec = {name, sizeof(native_object), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
    return PyType_FromSpec(&spec);
}

/* What is kept belongs to one interpreter; in another one Python goes without the extension. */
static int start(PyObject *module) {
    static int64_t owner = -1;
    const int64_t here = PyInterpreterState_GetID(PyInterpreterState_Get());
    if (owner >= 0 && owner != here) {
        PyErr_SetString(PyExc_ImportError, "attile._native serves one interpreter of a process");
        return -1;
    }
    owner = here;
#define X(name) \
    if (native.names.name == NULL && (native.names.name = PyUnicode_InternFromString(#name)) == NULL) return -1;
    NATIVE_NAMES(X)
#undef X
    const char *const bases[][2] = {{"attile._native.ContextBase", "ContextBase"}, {"attile._native.PreparedBase", "PreparedBase"}};
    for (int i = 0; i < 2; i++) {
        PyObject *base = make_base(bases[i][0]);
        if (base == NULL || PyModule_AddObjectRef(module, bases[i][1], base) < 0) return -1;
        Py_DECREF(base);
    }
    return 0;
}

PyMODINIT_FUNC PyInit__native(void) {
    static PyModuleDef_Slot slots[] = {{Py_mod_exec, start}, {0, NULL}};
    static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "attile._native", NULL, 0, module_functions, slots, NULL, NULL, NULL};
    return PyModuleDef_Init(&definition);
}
