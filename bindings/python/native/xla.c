/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers of XLA's typed FFI for attile.jax. XLA calls them from threads of its own, without the GIL, on the context of the module's
   functions. Axes before those of an operation come of jax.vmap: an array has all of them, or extents of 1 where it is not mapped. */
#include "xla.h"

#include <string.h>

#include "native.h"
#include "operation.h"

enum { MOST_ARRAYS = 17 }; /* Those of a backward call with everything. */

/* Of the attribute "arrays". */
enum { HAS_BIAS = 1, HAS_MASK = 2, HAS_LENGTHS = 4, WANTS_DBIAS = 8, HAS_STARTS = 16, HAS_OFFSET = 32, HAS_BLOCKS = 64, HAS_TREE = 128 };
enum { TRANSPOSED_A = 1, TRANSPOSED_B = 2 }; /* Of the attribute "transposed". */

/* What an array is: how many axes it has, and in which order attile wants them. */
typedef enum { HEADS = 4, SCORES = -4, ROWS = 3, LENGTHS = 1, MATRIX = 2, TRANSPOSED = -2 } kind;

typedef struct {
    attile_tensor *into;
    const native_xla_buffer *buffer;
    int64_t outer; /* How many axes come before the operation's. */
} array;

typedef struct {
    array arrays[MOST_ARRAYS];
    int count;
    int64_t next_argument, next_result;
    const native_xla_call *call;
    const char *mistake; /* The first; NULL: none. */
} arrays;

static int32_t type_of(int type) {
    switch (type) {
        case NATIVE_XLA_F32:
            return ATTILE_F32;
        case NATIVE_XLA_F64:
            return ATTILE_F64;
        case NATIVE_XLA_F16:
            return ATTILE_F16;
        case NATIVE_XLA_BF16:
            return ATTILE_BF16;
        case NATIVE_XLA_S32:
            return ATTILE_I32;
        case NATIVE_XLA_PRED:
            return ATTILE_BOOL;
        default:
            return 0; /* The library refuses it. */
    }
}

static native_xla_error *fail(const native_xla_call *call, int code, const char *message) {
    native_xla_error_args args = {sizeof args, NULL, message, code};
    return call->api->make_error(&args);
}

/* The scalar of that name; 0 where it is not there, which is every option's default. */
static double number(const native_xla_call *call, const char *name) {
    const native_xla_attributes *all = &call->attributes;
    for (int64_t i = 0; i < all->count; i++) {
        if (all->names[i]->length != strlen(name) || memcmp(all->names[i]->text, name, strlen(name)) != 0) continue;
        const native_xla_scalar *scalar = all->values[i];
        if (all->kinds[i] != NATIVE_XLA_SCALAR) return 0;
        if (scalar->type == NATIVE_XLA_S64) return (double)*(const int64_t *)scalar->value;
        if (scalar->type == NATIVE_XLA_F64) return *(const double *)scalar->value;
    }
    return 0;
}

static void swap(int64_t *pair) {
    const int64_t first = pair[0];
    pair[0] = pair[1];
    pair[1] = first;
}

/* The operation's own axes of a buffer, at its first slice. A matrix gets a batch axis of 1, so that axis 0 counts slices or entries. */
static void describe(arrays *all, const native_xla_buffer *buffer, kind is, attile_tensor *into) {
    const int axes = is < 0 ? -is : is;
    if (buffer->rank < axes) {
        all->mistake = "an array of attile's call has too few dimensions";
        return;
    }
    const int first = is == MATRIX || is == TRANSPOSED;
    array *slot = &all->arrays[all->count++];
    slot->into = into;
    slot->buffer = buffer;
    slot->outer = buffer->rank - axes;
    memset(into, 0, sizeof *into);
    into->data = buffer->data;
    into->dtype = type_of(buffer->type);
    into->rank = axes + first;
    into->shape[0] = 1;
    int64_t step = 1;
    for (int axis = axes - 1; axis >= 0; axis--) {
        into->shape[axis + first] = buffer->shape[slot->outer + axis];
        into->stride[axis + first] = step;
        step *= into->shape[axis + first];
    }
    if (first) into->stride[0] = step;
    if (is == HEADS || is == TRANSPOSED) { /* [B, L, H, D] to [B, H, L, D]; rows and columns. */
        swap(into->shape + 1);
        swap(into->stride + 1);
    }
}

static void argument(arrays *all, kind is, attile_tensor *into) {
    const int64_t at = all->next_argument++;
    if (at >= all->call->arguments.count)
        all->mistake = "attile's call has too few arguments";
    else
        describe(all, all->call->arguments.buffers[at], is, into);
}

static void result(arrays *all, kind is, attile_tensor *into) {
    const int64_t at = all->next_result++;
    if (at >= all->call->results.count)
        all->mistake = "attile's call has too few results";
    else
        describe(all, all->call->results.buffers[at], is, into);
}

static int64_t product(const int64_t *extents, int64_t count) {
    int64_t found = 1;
    for (int64_t i = 0; i < count; i++) found *= extents[i];
    return found;
}

/* Put all slices into axis 0 where every array's strides can say so. `sums`: a result is a sum over axes that its array lacks, which must
   not run over slices. */
static int fold(arrays *all, const array *last, int64_t slices, int sums) {
    const int64_t batch = last->into->shape[0];
    if (sums) return 0;
    for (int write = 0; write < 2; write++) { /* Look at all of them first. */
        for (int i = 0; i < all->count; i++) {
            const array *x = &all->arrays[i];
            const int64_t own = product(x->buffer->shape, x->outer);
            attile_tensor *into = x->into;
            if (own == slices && into->shape[0] == batch) {
                if (write) into->shape[0] = slices * batch;
            } else if (own != 1 || into->shape[0] != 1) {
                return 0;
            } else if (write && batch == 1) {
                into->shape[0] = slices;
                into->stride[0] = 0;
            }
        }
    }
    return 1;
}

/* Move every array on to a slice. */
static void move_to(arrays *all, const array *last, int64_t slice) {
    for (int i = 0; i < all->count; i++) {
        const array *x = &all->arrays[i];
        const int64_t entry = product(x->buffer->shape + x->outer, x->buffer->rank - x->outer);
        int64_t rest = slice, at = 0, step = entry;
        for (int64_t axis = x->outer - 1; axis >= 0; axis--) { /* From the innermost; extents of 1 are broadcast. */
            const int64_t extent = last->buffer->shape[axis], own = x->buffer->shape[axis], index = rest % extent;
            rest /= extent;
            if (own != 1) at += index * step;
            step *= own;
        }
        x->into->data = (char *)x->buffer->data + at * ((x->into->dtype & 0xff) / 8);
    }
}

static native_xla_error *report(const native_xla_call *call, int32_t status) {
    char text[1024];
    if (status == ATTILE_OK) return NULL;
    native.functions.last_error(text, sizeof text);
    const int block = status / 1000;
    return fail(call,
                block == 1   ? NATIVE_XLA_INVALID_ARGUMENT
                : block == 2 ? NATIVE_XLA_UNIMPLEMENTED
                : block == 4 ? NATIVE_XLA_RESOURCE_EXHAUSTED
                             : NATIVE_XLA_INTERNAL,
                text);
}

typedef int32_t run(const void *args);
static int32_t run_gemm(const void *args) { return native.functions.gemm(NATIVE_CONTEXT(native.context), args); }
static int32_t run_attention(const void *args) { return native.functions.attention(NATIVE_CONTEXT(native.context), args); }
static int32_t run_backward(const void *args) { return native.functions.attention_backward(NATIVE_CONTEXT(native.context), args); }

/* One call for all slices, or one for each. The last array is a result, which has every axis. */
static native_xla_error *run_slices(arrays *all, run *operation, const void *args, int sums) {
    if (all->mistake == NULL && (all->next_argument != all->call->arguments.count || all->next_result != all->call->results.count))
        all->mistake = "attile's call has too many arguments or results";
    if (all->mistake != NULL) return fail(all->call, NATIVE_XLA_INVALID_ARGUMENT, all->mistake);
    if (native.context == NULL)
        return fail(all->call, NATIVE_XLA_INTERNAL, "attile's context is not open: this process was forked after the import of attile.jax");
    const array *last = &all->arrays[all->count - 1];
    const int64_t slices = product(last->buffer->shape, last->outer);
    for (int i = 0; i < all->count; i++) {
        const array *x = &all->arrays[i];
        int fits = x->outer == last->outer; /* Were one missing, nobody could say whether it is one of jax.vmap, in front, or one behind. */
        for (int64_t axis = 0; fits && axis < x->outer; axis++)
            fits = x->buffer->shape[axis] == 1 || x->buffer->shape[axis] == last->buffer->shape[axis];
        if (!fits)
            return fail(all->call, NATIVE_XLA_INVALID_ARGUMENT, "leading axes of attile's arrays do not broadcast to those of the result");
    }
    if (slices == 1 || fold(all, last, slices, sums)) return report(all->call, operation(args));
    for (int64_t slice = 0; slice < slices; slice++) {
        move_to(all, last, slice);
        native_xla_error *error = report(all->call, operation(args));
        if (error != NULL) return error;
    }
    return NULL;
}

static native_xla_error *gemm(native_xla_call *call, void *stream) {
    arrays all = {.call = call};
    attile_gemm_args x;
    NATIVE_STAMP(x);
    x.stream = stream;
    x.alpha = 1;
    const int transposed = (int)number(call, "transposed");
    argument(&all, transposed & TRANSPOSED_A ? TRANSPOSED : MATRIX, &x.a);
    argument(&all, transposed & TRANSPOSED_B ? TRANSPOSED : MATRIX, &x.b);
    result(&all, MATRIX, &x.d);
    return run_slices(&all, run_gemm, &x, 0);
}

/* Options of both calls of attention, and the arrays that only some calls have. */
static void options(arrays *all, int has, attile_attention_args *x) {
    x->scale = number(all->call, "scale");
    x->softcap = number(all->call, "softcap");
    x->mask = (int32_t)number(all->call, "mask");
    x->window_left = (int64_t)number(all->call, "left");
    x->window_right = (int64_t)number(all->call, "right");
    if (has & HAS_BIAS) argument(all, SCORES, &x->bias);
    if (has & HAS_MASK) argument(all, SCORES, &x->allowed);
    if (has & HAS_LENGTHS) argument(all, LENGTHS, &x->key_lengths);
    if (has & HAS_STARTS) argument(all, LENGTHS, &x->key_starts);
    if (has & HAS_OFFSET) argument(all, LENGTHS, &x->causal_offset);
    if (has & HAS_BLOCKS) argument(all, SCORES, &x->block_mask);
    if (has & HAS_TREE) argument(all, SCORES, &x->tree_mask);
}

static native_xla_error *attention(native_xla_call *call, void *stream) {
    arrays all = {.call = call};
    attile_attention_args x;
    NATIVE_STAMP(x);
    x.stream = stream;
    argument(&all, HEADS, &x.q);
    argument(&all, HEADS, &x.k);
    argument(&all, HEADS, &x.v);
    options(&all, (int)number(call, "arrays"), &x);
    result(&all, HEADS, &x.o);
    result(&all, ROWS, &x.lse);
    return run_slices(&all, run_attention, &x, 0);
}

static native_xla_error *attention_backward(native_xla_call *call, void *stream) {
    arrays all = {.call = call};
    attile_attention_args forward;
    attile_attention_backward_args x;
    NATIVE_STAMP(forward);
    NATIVE_STAMP(x);
    x.forward = &forward;
    x.stream = stream;
    const int has = (int)number(call, "arrays");
    argument(&all, HEADS, &x.dout);
    argument(&all, HEADS, &forward.q);
    argument(&all, HEADS, &forward.k);
    argument(&all, HEADS, &forward.v);
    argument(&all, HEADS, &forward.o);
    argument(&all, ROWS, &forward.lse);
    options(&all, has, &forward);
    if (has & WANTS_DBIAS) result(&all, SCORES, &x.dbias);
    result(&all, HEADS, &x.dq);
    result(&all, HEADS, &x.dk);
    result(&all, HEADS, &x.dv);
    return run_slices(&all, run_backward, &x, (has & WANTS_DBIAS) != 0);
}

/* XLA asks what a handler was built for before it takes it. 1: this call was that question. */
static int is_question(const native_xla_call *call) {
    for (native_xla_extension *at = call->extensions; at != NULL; at = at->next) {
        if (at->type != NATIVE_XLA_METADATA) continue;
        native_xla_metadata *metadata = ((native_xla_metadata_extension *)at)->metadata;
        const int theirs = call->api == NULL ? NATIVE_XLA_FIRST_MINOR : call->api->version.minor;
        metadata->version.major = NATIVE_XLA_MAJOR;
        metadata->version.minor = theirs < NATIVE_XLA_MINOR ? theirs : NATIVE_XLA_MINOR;
        metadata->traits = 0; /* Not for CUDA graphs: a call takes its workspace from the context's pool. */
        return 1;
    }
    return 0;
}

/* Each operation on the host, and on a GPU's stream. */
#define X(operation)                                                                                                                 \
    static native_xla_error *operation##_on_host(native_xla_call *call) { return is_question(call) ? NULL : operation(call, NULL); } \
    static native_xla_error *operation##_on_stream(native_xla_call *call) {                                                          \
        if (is_question(call)) return NULL;                                                                                          \
        native_xla_stream_args args = {sizeof args, NULL, call->context, NULL};                                                      \
        native_xla_error *error = call->api->find_stream(&args);                                                                     \
        return error != NULL ? error : operation(call, args.stream);                                                                 \
    }
#define HANDLED(X) X(gemm) X(attention) X(attention_backward)
HANDLED(X)
#undef X

static PyObject *capsule(native_xla_handler *handler) {
    void *address;
    memcpy(&address, &handler, sizeof address);
    return PyCapsule_New(address, NULL, NULL);
}

PyObject *native_xla_handlers(void) {
    return Py_BuildValue(
#define X(operation) "s(NN)"
        "{" HANDLED(X) "}"
#undef X
#define X(operation) , #operation, capsule(operation##_on_host), capsule(operation##_on_stream)
        HANDLED(X)
#undef X
    );
}
