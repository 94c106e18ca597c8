/* SPDX-License-Identifier: Apache-2.0 */
#include "operation.h"

/* What the forward and the backward call share behind q, k and v; LATER is behind the block table. */
#define OPTIONS(X) \
    X(scale)       \
    X(softcap)     \
    X(mask) X(window) X(bias) X(allowed) X(alibi_slopes) X(sinks) X(key_lengths) X(cu_len_q) X(cu_len_k) X(max_len_q) X(max_len_k)
#define LAST(X) X(flags) X(stream) X(workspace) X(query)
#define LATER(X) X(key_starts) X(causal_offset) X(block_mask) X(tree_mask)
#define FORWARD(X) X(q) X(k) X(v) X(out) X(lse) OPTIONS(X) X(block_table) LATER(X) X(k_scale) X(v_scale) X(q_scale) X(o_scale) LAST(X)
#define BACKWARD(X) X(dout) X(q) X(k) X(v) X(out) X(lse) X(dq) X(dk) X(dv) X(dbias) X(dsinks) OPTIONS(X) LATER(X) X(dlse) LAST(X)
NATIVE_PARAMETERS(attention, FORWARD)
NATIVE_PARAMETERS(attention_backward, BACKWARD)
const char *const *const native_attention_names = attention_names;
const char *const *const native_attention_backward_names = attention_backward_names;

static int window(PyObject *pair, attile_attention_args *x) {
    if (pair == NULL) return 0;
    PyObject *both = PySequence_Tuple(pair);
    int found = -1;
    if (both != NULL && PyTuple_Size(both) == 2)
        found =
            native_integer(PyTuple_GetItem(both, 0), &x->window_left) < 0 ? -1 : native_integer(PyTuple_GetItem(both, 1), &x->window_right);
    Py_XDECREF(both);
    if (found < 0) PyErr_Clear();
    return found;
}

/* Everything but o, lse, the block table and the scales, of either call's values. */
#define FILL(call, v, x)                                                                                                       \
    (native_number((v).scale, &(x).scale) < 0 || native_number((v).softcap, &(x).softcap) < 0 ||                               \
     native_choice((v).mask, native.given.masks, &(x).mask) < 0 || window((v).window, &(x)) < 0 ||                             \
     native_integer((v).max_len_q, &(x).max_len_q) < 0 || native_integer((v).max_len_k, &(x).max_len_k) < 0 ||                 \
     native_view(call, (v).q, &(x).q) < 0 || native_view(call, (v).k, &(x).k) < 0 || native_view(call, (v).v, &(x).v) < 0 ||   \
     native_view(call, (v).bias, &(x).bias) < 0 || native_view(call, (v).allowed, &(x).allowed) < 0 ||                         \
     native_view(call, (v).alibi_slopes, &(x).alibi_slopes) < 0 || native_view(call, (v).sinks, &(x).sinks) < 0 ||             \
     native_view(call, (v).key_lengths, &(x).key_lengths) < 0 || native_view(call, (v).cu_len_q, &(x).cu_len_q) < 0 ||         \
     native_view(call, (v).cu_len_k, &(x).cu_len_k) < 0 || native_view(call, (v).key_starts, &(x).key_starts) < 0 ||           \
     native_view(call, (v).causal_offset, &(x).causal_offset) < 0 || native_view(call, (v).block_mask, &(x).block_mask) < 0 || \
     native_view(call, (v).tree_mask, &(x).tree_mask) < 0)

PyObject *native_attention(PyObject *self, PyObject *const *args, Py_ssize_t given, PyObject *keywords) {
    attention_values v = {0};
    native_call call = {0};
    attile_attention_args x;
    PyObject *out = NULL, *lse = NULL, *result = NULL;
    NATIVE_STAMP(x);
    if (native_sort(NATIVE_attention, 3, 3, args, given, keywords, (PyObject **)&v) < 0 || v.q == Py_None || FILL(&call, v, x) ||
        native_view(&call, v.block_table, &x.block_table) < 0 || native_view(&call, v.k_scale, &x.k_scale) < 0 ||
        native_view(&call, v.v_scale, &x.v_scale) < 0 || native_view(&call, v.q_scale, &x.q_scale) < 0 ||
        native_view(&call, v.o_scale, &x.o_scale) < 0)
        goto pure;
    const int64_t shape[4] = {x.q.shape[0], x.q.shape[1], x.q.shape[2], x.v.shape[3]};
    const int32_t type = (x.q.dtype & 0xff) == 8 ? ATTILE_F32 : 0; /* Results of 8 bits are the caller's. */
    if (native_output(&call, v.out, v.q, &x.q, type, 4, shape, &x.o, &out) < 0) goto pure;
    if (NATIVE_IS_GIVEN(v.lse) && v.lse != Py_False &&
        native_output(&call, v.lse == Py_True ? NULL : v.lse, v.q, &x.q, x.q.dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32, 3, shape,
                      &x.lse, &lse) < 0)
        goto pure;
    if (NATIVE_FINISH(&call, v, x) < 0) goto pure;
    if (call.is_query) {
        NATIVE_QUERY(result, attention, self, x);
    } else {
        int32_t status;
        NATIVE_RUN(status, attention, self, x);
        if (native_settle(&call, status) == 0) result = lse == NULL ? Py_NewRef(out) : PyTuple_Pack(2, out, lse);
    }
    goto done;
pure:
    result = native_pure(NATIVE_attention, self, args, given, keywords);
done:
    Py_XDECREF(out);
    Py_XDECREF(lse);
    return result;
}

PyObject *native_attention_backward(PyObject *self, PyObject *const *args, Py_ssize_t given, PyObject *keywords) {
    attention_backward_values v = {0};
    native_call call = {0};
    attile_attention_args forward;
    attile_attention_backward_args x;
    PyObject *made[5] = {NULL}, *result = NULL; /* dq, dk, dv, and dbias and dsinks where the caller gives them. */
    NATIVE_STAMP(forward);
    NATIVE_STAMP(x);
    x.forward = &forward;
    if (native_sort(NATIVE_attention_backward, 6, 6, args, given, keywords, (PyObject **)&v) < 0 || v.q == Py_None || v.k == Py_None ||
        v.v == Py_None || FILL(&call, v, forward) || native_view(&call, v.out, &forward.o) < 0 ||
        native_view(&call, v.lse, &forward.lse) < 0 || native_view(&call, v.dout, &x.dout) < 0 || native_view(&call, v.dlse, &x.dlse) < 0)
        goto pure;
    PyObject *const outputs[5] = {v.dq, v.dk, v.dv, v.dbias, v.dsinks}, *const like[3] = {v.q, v.k, v.v};
    const attile_tensor *const like_tensor[3] = {&forward.q, &forward.k, &forward.v};
    attile_tensor *const into[5] = {&x.dq, &x.dk, &x.dv, &x.dbias, &x.dsinks};
    for (int i = 0; i < 5; i++) {
        if (i >= 3 && !NATIVE_IS_GIVEN(outputs[i])) continue;
        const int wanted = i < 3;
        if (native_output(&call, outputs[i], wanted ? like[i] : NULL, wanted ? like_tensor[i] : NULL, 0, 4,
                          wanted ? like_tensor[i]->shape : NULL, into[i], &made[i]) < 0)
            goto pure;
    }
    if (NATIVE_FINISH(&call, v, x) < 0) goto pure;
    if (call.is_query) {
        NATIVE_QUERY(result, attention_backward, self, x);
    } else {
        int32_t status;
        NATIVE_RUN(status, attention_backward, self, x);
        if (native_settle(&call, status) == 0) result = PyTuple_Pack(3, made[0], made[1], made[2]);
    }
    goto done;
pure:
    result = native_pure(NATIVE_attention_backward, self, args, given, keywords);
done:
    for (int i = 0; i < 5; i++) Py_XDECREF(made[i]);
    return result;
}
