/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forward pass of a Llama model, by attile.h: products with the weights by attile_gemm(), attention over keys and values in pages by
 * attile_attention(), both prepared once and launched for every layer and token. RMSNorm, RoPE and the product of SwiGLU, which have little
 * to compute, are loops of C on managed memory, which the host and the device both reach; on a CPU that is ordinary memory.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "llm.h"

enum { kPageKeys = 64 }; /* Keys of a page, and the most tokens that pass through the layers at once. */

struct llm_model {
    attile_context *context;
    llm_config config;
    llm_weights weights;
    int64_t length, pages; /* Tokens so far; pages that there are. */

    float *x, *normed;                        /* [kPageKeys, hidden]: what passes from layer to layer, and its normalised form */
    float *q;                                 /* [kPageKeys, heads, head_dim] */
    float *kv;                                /* [2, kPageKeys, heads_kv, head_dim]: new keys and values on their way to their page */
    float *gate, *up;                         /* [kPageKeys, inner] */
    float *logits;                            /* [vocab] */
    void *normed_in, *q_in, *kv_in, *gate_in; /* The same in config.type, as products and attention take it: for float32 the same memory. */
    void *attended;                           /* [kPageKeys, heads, head_dim], of config.type */
    char *k_cache, *v_cache;                  /* [layers, pages, kPageKeys, heads_kv, head_dim] of config.type, on the device */
    int32_t *table, *key_length;              /* [pages]: where each run of kPageKeys keys lies; [1] */
    float *rotation; /* [kPageKeys, head_dim / 2, 2]: cosine and sine of the positions of this pass, in host memory */

    int64_t rows; /* How many tokens these calls are prepared for. */
    attile_prepared *to_q, *to_kv, *attend, *from_heads, *to_gate, *to_up, *from_inner;
    attile_prepared *to_logits; /* One row, always. */
};

/* d[rows, outputs] = activation(a[rows, inputs] w^T), or d += a w^T. Weights lie as [outputs, inputs], so their transpose is a matter of
 * strides. */
static int prepare_product(llm_model *m, int64_t rows, void *a, int64_t inputs, void *w, void *d, int64_t outputs, int add,
                           int32_t activation, attile_prepared **call) {
    attile_gemm_args args;
    attile_gemm_init(&args, sizeof args);
    attile_tensor_init(&args.a, a, m->config.type, 2, (const int64_t[]){rows, inputs});
    attile_tensor_init(&args.b, w, m->config.type, 2, (const int64_t[]){inputs, outputs});
    args.b.stride[0] = 1;
    args.b.stride[1] = inputs;
    attile_tensor_init(&args.d, d, ATTILE_F32, 2, (const int64_t[]){rows, outputs});
    if (add) args.c = args.d, args.beta = 1;
    args.activation = activation;
    return attile_gemm_prepare(m->context, &args, call);
}

static int run_product(attile_prepared *call, void *w, void *d) {
    attile_gemm_pointers at; /* What stays NULL is where it was prepared. */
    attile_gemm_pointers_init(&at, sizeof at);
    at.b = w;
    at.d = d;
    return attile_gemm_run(call, &at);
}

/* Heads lie side by side in a token's row: [rows, heads, head_dim] in memory, [1, heads, rows, head_dim] for the library. */
static attile_tensor heads_of(const llm_model *m, void *data, int64_t outer, int64_t heads, int64_t rows) {
    const int64_t head_dim = m->config.head_dim;
    attile_tensor tensor;
    attile_tensor_init(&tensor, data, m->config.type, 4, (const int64_t[]){outer, heads, rows, head_dim});
    tensor.stride[1] = head_dim;
    tensor.stride[2] = heads * head_dim;
    return tensor;
}

static int prepare_attention(llm_model *m, int64_t rows) {
    const llm_config *c = &m->config;
    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    args.q = heads_of(m, m->q_in, 1, c->heads, rows);
    args.o = heads_of(m, m->attended, 1, c->heads, rows);
    args.k = heads_of(m, m->k_cache, m->pages, c->heads_kv, kPageKeys);
    args.v = heads_of(m, m->v_cache, m->pages, c->heads_kv, kPageKeys);
    attile_tensor_init(&args.block_table, m->table, ATTILE_I32, 2, (const int64_t[]){1, m->pages});
    attile_tensor_init(&args.key_lengths, m->key_length, ATTILE_I32, 1, (const int64_t[]){1});
    args.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT; /* The rows are the last of the sequence, and each sees what is before it. */
    return attile_attention_prepare(m->context, &args, &m->attend);
}

static void forget_calls(llm_model *m) {
    attile_prepared **calls[] = {&m->to_q, &m->to_kv, &m->attend, &m->from_heads, &m->to_gate, &m->to_up, &m->from_inner};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; ++i) attile_prepared_destroy(*calls[i]), *calls[i] = NULL;
    m->rows = 0;
}

static int prepare_calls(llm_model *m, int64_t rows) {
    if (m->rows == rows) return 0;
    const llm_config *c = &m->config;
    const llm_layer *w = m->weights.layers;
    const int64_t dim_q = c->heads * c->head_dim, dim_kv = c->heads_kv * c->head_dim;
    forget_calls(m);
    if (prepare_product(m, rows, m->normed_in, c->hidden, w->q, m->q, dim_q, 0, ATTILE_ACTIVATION_NONE, &m->to_q) ||
        prepare_product(m, rows, m->normed_in, c->hidden, w->k, m->kv, dim_kv, 0, ATTILE_ACTIVATION_NONE, &m->to_kv) ||
        prepare_product(m, rows, m->attended, dim_q, w->o, m->x, c->hidden, 1, ATTILE_ACTIVATION_NONE, &m->from_heads) ||
        prepare_product(m, rows, m->normed_in, c->hidden, w->gate, m->gate, c->inner, 0, ATTILE_ACTIVATION_SILU, &m->to_gate) ||
        prepare_product(m, rows, m->normed_in, c->hidden, w->up, m->up, c->inner, 0, ATTILE_ACTIVATION_NONE, &m->to_up) ||
        prepare_product(m, rows, m->gate_in, c->inner, w->down, m->x, c->hidden, 1, ATTILE_ACTIVATION_NONE, &m->from_inner) ||
        prepare_attention(m, rows))
        return 1;
    m->rows = rows;
    return 0;
}

/* What products and attention take, of what the host computed. */
static void convert(const llm_model *m, const float *from, int64_t count, void *to) {
    if (m->config.type == ATTILE_BF16) llm_narrow(from, count, to);
}

static void rms_norm(const llm_config *c, const float *x, const float *weight, float *out) {
    double squares = 0;
    for (int64_t i = 0; i < c->hidden; ++i) squares += (double)x[i] * x[i];
    const float scale = (float)(1 / sqrt(squares / (double)c->hidden + c->norm_eps));
    for (int64_t i = 0; i < c->hidden; ++i) out[i] = x[i] * scale * weight[i];
}

static void compute_rotation(llm_model *m, int64_t rows) {
    const int64_t pairs = m->config.head_dim / 2;
    for (int64_t i = 0; i < rows * pairs; ++i) {
        const double angle = (double)(m->length + i / pairs) * pow(m->config.rope_theta, -(double)(i % pairs) / (double)pairs);
        m->rotation[2 * i] = (float)cos(angle);
        m->rotation[2 * i + 1] = (float)sin(angle);
    }
}

/* RoPE: column i of a head and column i + head_dim / 2 are a point that is turned by an angle that grows with the position. */
static void rotate(const llm_model *m, float *x, int64_t rows, int64_t heads) {
    const int64_t pairs = m->config.head_dim / 2;
    for (int64_t row = 0; row < rows; ++row)
        for (int64_t h = 0; h < heads; ++h, x += 2 * pairs)
            for (int64_t i = 0; i < pairs; ++i) {
                const float *turn = m->rotation + 2 * (row * pairs + i), a = x[i], b = x[i + pairs];
                x[i] = a * turn[0] - b * turn[1];
                x[i + pairs] = b * turn[0] + a * turn[1];
            }
}

/* Bytes of one token's keys, or values, in one layer. */
static int64_t row_bytes(const llm_model *m) { return m->config.heads_kv * m->config.head_dim * (m->config.type == ATTILE_BF16 ? 2 : 4); }

/* New keys or values go behind those of the sequence, all within one page. */
static int append_to_page(llm_model *m, char *cache, int64_t layer, const char *new_rows, int64_t rows) {
    const int64_t page = m->table[m->length / kPageKeys], row = (layer * m->pages + page) * kPageKeys + m->length % kPageKeys;
    return attile_copy(m->context, cache + row * row_bytes(m), new_rows, rows * row_bytes(m), NULL);
}

static int attention_block(llm_model *m, int64_t layer, int64_t rows) {
    const llm_config *c = &m->config;
    const llm_layer *w = &m->weights.layers[layer];
    const int64_t dim_kv = c->heads_kv * c->head_dim;
    float *v = m->kv + kPageKeys * dim_kv;
    char *k_in = m->kv_in, *v_in = k_in + kPageKeys * row_bytes(m);
    for (int64_t i = 0; i < rows; ++i) rms_norm(c, m->x + i * c->hidden, w->norm_attention, m->normed + i * c->hidden);
    convert(m, m->normed, rows * c->hidden, m->normed_in);
    if (run_product(m->to_q, w->q, NULL) || run_product(m->to_kv, w->k, NULL) || run_product(m->to_kv, w->v, v)) return 1;
    if (attile_synchronize(m->context, NULL)) return 1; /* The host reads what the device wrote. */
    rotate(m, m->q, rows, c->heads);
    rotate(m, m->kv, rows, c->heads_kv);
    convert(m, m->q, rows * c->heads * c->head_dim, m->q_in);
    convert(m, m->kv, rows * dim_kv, k_in);
    convert(m, v, rows * dim_kv, v_in);
    if (append_to_page(m, m->k_cache, layer, k_in, rows) || append_to_page(m, m->v_cache, layer, v_in, rows)) return 1;

    attile_attention_pointers at;
    attile_attention_pointers_init(&at, sizeof at);
    at.k = m->k_cache + layer * m->pages * kPageKeys * row_bytes(m);
    at.v = m->v_cache + layer * m->pages * kPageKeys * row_bytes(m);
    return attile_attention_run(m->attend, &at) || run_product(m->from_heads, w->o, NULL) || attile_synchronize(m->context, NULL);
}

static int mlp_block(llm_model *m, int64_t layer, int64_t rows) {
    const llm_config *c = &m->config;
    const llm_layer *w = &m->weights.layers[layer];
    for (int64_t i = 0; i < rows; ++i) rms_norm(c, m->x + i * c->hidden, w->norm_mlp, m->normed + i * c->hidden);
    convert(m, m->normed, rows * c->hidden, m->normed_in);
    if (run_product(m->to_gate, w->gate, NULL) || run_product(m->to_up, w->up, NULL) || attile_synchronize(m->context, NULL)) return 1;
    for (int64_t i = 0; i < rows * c->inner; ++i) m->gate[i] *= m->up[i]; /* SwiGLU: the gate's SiLU came with its product. */
    convert(m, m->gate, rows * c->inner, m->gate_in);
    return run_product(m->from_inner, w->down, NULL) || attile_synchronize(m->context, NULL);
}

/* Tokens that all fit into the page that the sequence has reached. */
static int pass(llm_model *m, const int32_t *tokens, int64_t rows) {
    const llm_config *c = &m->config;
    if (prepare_calls(m, rows)) return 1;
    for (int64_t i = 0; i < rows; ++i)
        memcpy(m->x + i * c->hidden, m->weights.embedding + tokens[i] * c->hidden, (size_t)c->hidden * sizeof *m->x);
    compute_rotation(m, rows);
    *m->key_length = (int32_t)(m->length + rows);
    for (int64_t layer = 0; layer < c->layers; ++layer)
        if (attention_block(m, layer, rows) || mlp_block(m, layer, rows)) return 1;
    m->length += rows;
    return 0;
}

int llm_model_forward(llm_model *m, const int32_t *tokens, size_t count, const float **logits) {
    const llm_config *c = &m->config;
    if (!count || (int64_t)count > m->pages * kPageKeys - m->length)
        return llm_failed("%lld tokens do not fit behind the %lld that the sequence has", (long long)count, (long long)m->length);
    int64_t rows = 0;
    for (size_t done = 0; done < count; done += (size_t)rows) {
        rows = kPageKeys - m->length % kPageKeys;
        if (rows > (int64_t)(count - done)) rows = (int64_t)(count - done);
        if (pass(m, tokens + done, rows)) return llm_library_failed();
    }
    rms_norm(c, m->x + (rows - 1) * c->hidden, m->weights.norm, m->normed);
    convert(m, m->normed, c->hidden, m->normed_in);
    if (attile_gemm_run(m->to_logits, NULL) || attile_synchronize(m->context, NULL)) return llm_library_failed();
    *logits = m->logits;
    return 0;
}

static int allocate(llm_model *m) {
    const llm_config *c = &m->config;
    const int64_t dim_q = c->heads * c->head_dim, dim_kv = c->heads_kv * c->head_dim,
                  cache = c->layers * m->pages * kPageKeys * row_bytes(m);
    const int64_t all = sizeof(float), in = c->type == ATTILE_BF16 ? 2 : 0; /* Bytes of an element; 0: it is not needed. */
    const struct {
        void *to;
        int64_t bytes;
        int32_t kind;
    } parts[] = {{&m->x, kPageKeys * c->hidden * all, ATTILE_MEMORY_MANAGED},
                 {&m->normed, kPageKeys * c->hidden * all, ATTILE_MEMORY_MANAGED},
                 {&m->q, kPageKeys * dim_q * all, ATTILE_MEMORY_MANAGED},
                 {&m->kv, 2 * kPageKeys * dim_kv * all, ATTILE_MEMORY_MANAGED},
                 {&m->gate, kPageKeys * c->inner * all, ATTILE_MEMORY_MANAGED},
                 {&m->up, kPageKeys * c->inner * all, ATTILE_MEMORY_MANAGED},
                 {&m->normed_in, kPageKeys * c->hidden * in, ATTILE_MEMORY_MANAGED},
                 {&m->q_in, kPageKeys * dim_q * in, ATTILE_MEMORY_MANAGED},
                 {&m->kv_in, 2 * kPageKeys * dim_kv * in, ATTILE_MEMORY_MANAGED},
                 {&m->gate_in, kPageKeys * c->inner * in, ATTILE_MEMORY_MANAGED},
                 {&m->attended, kPageKeys * dim_q * all, ATTILE_MEMORY_MANAGED},
                 {&m->logits, c->vocab * all, ATTILE_MEMORY_MANAGED},
                 {&m->table, m->pages * all, ATTILE_MEMORY_MANAGED},
                 {&m->key_length, all, ATTILE_MEMORY_MANAGED},
                 {&m->k_cache, cache, ATTILE_MEMORY_DEVICE},
                 {&m->v_cache, cache, ATTILE_MEMORY_DEVICE},
                 {&m->rotation, kPageKeys * c->head_dim * all, ATTILE_MEMORY_HOST}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i) {
        void *memory;
        if (attile_alloc(m->context, parts[i].kind, parts[i].bytes, &memory)) return llm_library_failed();
        memcpy(parts[i].to, &memory, sizeof memory);
    }
    if (!in) m->normed_in = m->normed, m->q_in = m->q, m->kv_in = m->kv, m->gate_in = m->gate;
    /* One sequence takes the pages in any order; a program with many sequences would hand out those that are free. */
    for (int64_t i = 0; i < m->pages; ++i) m->table[i] = (int32_t)(m->pages - 1 - i);
    return 0;
}

llm_model *llm_model_open(attile_context *context, const char *folder, const llm_config *config, int64_t capacity) {
    llm_model *m = calloc(1, sizeof *m);
    if (!m) return llm_failed("there is no memory for the model"), NULL;
    m->context = context;
    m->config = *config;
    m->pages = (capacity + kPageKeys - 1) / kPageKeys;
    int failed = llm_read_weights(context, folder, config, &m->weights) || allocate(m);
    if (!failed && prepare_product(m, 1, m->normed_in, config->hidden, m->weights.output, m->logits, config->vocab, 0,
                                   ATTILE_ACTIVATION_NONE, &m->to_logits))
        failed = llm_library_failed();
    if (!failed) return m;
    llm_model_close(m);
    return NULL;
}

void llm_model_close(llm_model *m) {
    if (!m) return;
    forget_calls(m);
    attile_prepared_destroy(m->to_logits);
    llm_weights_free(&m->weights, m->config.layers); /* The context releases what is on the device. */
    free(m);
}
