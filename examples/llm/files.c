/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.json and model.safetensors of a Llama model. Each length is checked against the file before memory is allocated or data is read.
 *
 * A safetensors file is the length of its header (8 bytes, little-endian), the header, and the data. The header is JSON: for each tensor
 * its type, its shape, and where its data begin and end, counted from the end of the header.
 */
#define _FILE_OFFSET_BITS 64
#define _POSIX_C_SOURCE 200809L
#include <cjson/cJSON.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "llm.h"

enum { kMaxPath = 4096, kMaxHeader = 100 << 20 };

int llm_failed(const char *format, ...) {
    va_list values;
    va_start(values, format);
    fputs("llm: ", stderr);
    vfprintf(stderr, format, values);
    fputs("\n", stderr);
    va_end(values);
    return 1;
}

int llm_library_failed(void) {
    char why[1024];
    attile_last_error(why, sizeof why);
    return llm_failed("%s", why);
}

static FILE *open_file(const char *folder, const char *name, char path[kMaxPath], int64_t *size) {
    if (snprintf(path, kMaxPath, "%s/%s", folder, name) >= kMaxPath) return llm_failed("the name of the folder is too long"), NULL;
    FILE *file = fopen(path, "rb");
    if (!file) return llm_failed("%s cannot be opened", path), NULL;
    *size = fseeko(file, 0, SEEK_END) ? -1 : (int64_t)ftello(file);
    if (*size < 0 || fseeko(file, 0, SEEK_SET)) return llm_failed("%s cannot be read", path), fclose(file), NULL;
    return file;
}

unsigned char *llm_read_file(const char *folder, const char *name, size_t *size) {
    char path[kMaxPath];
    int64_t bytes;
    FILE *file = open_file(folder, name, path, &bytes);
    if (!file) return NULL;
    unsigned char *data = bytes <= kMaxHeader ? malloc((size_t)bytes + 1) : NULL;
    if (bytes > kMaxHeader)
        llm_failed("%s has %lld bytes, at most %d are read", path, (long long)bytes, (int)kMaxHeader);
    else if (!data)
        llm_failed("there is no memory for %s", path);
    else if (fread(data, 1, (size_t)bytes, file) != (size_t)bytes)
        llm_failed("%s cannot be read", path), free(data), data = NULL;
    else
        data[bytes] = 0;
    fclose(file);
    *size = (size_t)bytes;
    return data;
}

/* A whole number from `least` to `most`. Numbers of JSON are doubles here, exact up to 2^53. */
static int whole(const cJSON *item, double least, double most, int64_t *value) {
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= least && item->valuedouble <= most)) return 1;
    *value = (int64_t)item->valuedouble;
    return (double)*value != item->valuedouble;
}

static int read_config(const cJSON *json, llm_config *config) {
    const struct {
        const char *name;
        int64_t *value, most, otherwise; /* `otherwise` is what an absent field means; 0: it must be there. */
    } fields[] = {{"hidden_size", &config->hidden, 1 << 20, 0},
                  {"intermediate_size", &config->inner, 1 << 20, 0},
                  {"num_hidden_layers", &config->layers, 1 << 12, 0},
                  {"num_attention_heads", &config->heads, 1 << 12, 0},
                  {"num_key_value_heads", &config->heads_kv, 1 << 12, -1},
                  {"head_dim", &config->head_dim, 1 << 12, -1},
                  {"vocab_size", &config->vocab, 1 << 24, 0},
                  {"max_position_embeddings", &config->positions, 1 << 24, 2048}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; ++i) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, fields[i].name);
        *fields[i].value = fields[i].otherwise;
        if ((!item || cJSON_IsNull(item)) && fields[i].otherwise) continue;
        if (whole(item, 1, (double)fields[i].most, fields[i].value))
            return llm_failed("config.json: %s must be a whole number from 1 to %lld", fields[i].name, (long long)fields[i].most);
    }
    if (config->heads_kv < 0) config->heads_kv = config->heads;
    if (config->head_dim < 0) config->head_dim = config->hidden / config->heads;
    if (config->heads % config->heads_kv)
        return llm_failed("config.json: num_attention_heads %lld is not a multiple of num_key_value_heads %lld", (long long)config->heads,
                          (long long)config->heads_kv);
    if (config->head_dim < 2 || config->head_dim % 2)
        return llm_failed("config.json: head_dim is %lld, it must be even", (long long)config->head_dim);

    const cJSON *eps = cJSON_GetObjectItemCaseSensitive(json, "rms_norm_eps"),
                *theta = cJSON_GetObjectItemCaseSensitive(json, "rope_theta");
    config->norm_eps = cJSON_IsNumber(eps) ? eps->valuedouble : eps ? -1 : 1e-6;
    config->rope_theta = cJSON_IsNumber(theta) ? theta->valuedouble : theta ? -1 : 1e4;
    if (!(config->norm_eps >= 0 && config->norm_eps < 1)) return llm_failed("config.json: rms_norm_eps must be a number from 0 to 1");
    if (!(config->rope_theta >= 1 && config->rope_theta < 1e12))
        return llm_failed("config.json: rope_theta must be a number from 1 to 1e12");
    config->type = ATTILE_F32;
    config->tied = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "tie_word_embeddings"));

    const cJSON *scaling = cJSON_GetObjectItemCaseSensitive(json, "rope_scaling");
    if (scaling && !cJSON_IsNull(scaling)) return llm_failed("config.json: rope_scaling is not supported");
    const struct { const char *name, *value; } words[] = {{"model_type", "llama"}, {"hidden_act", "silu"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; ++i) {
        const char *word = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, words[i].name));
        if (!word || strcmp(word, words[i].value) != 0)
            return llm_failed("config.json: %s must be \"%s\", other models are not supported", words[i].name, words[i].value);
    }
    return 0;
}

int llm_read_config(const char *folder, llm_config *config) {
    size_t size;
    unsigned char *text = llm_read_file(folder, "config.json", &size);
    if (!text) return 1;
    cJSON *json = cJSON_ParseWithLength((const char *)text, size);
    free(text);
    const int failed = cJSON_IsObject(json) ? read_config(json, config) : llm_failed("%s/config.json is not a JSON object", folder);
    cJSON_Delete(json);
    return failed;
}

typedef struct tensors {
    char path[kMaxPath];
    FILE *file;
    cJSON *header;
    int64_t begin, bytes; /* Where the data begin in the file, and how many bytes of them there are. */
} tensors;

static void close_tensors(tensors *from) {
    cJSON_Delete(from->header);
    if (from->file) fclose(from->file);
}

static int open_tensors(const char *folder, tensors *from) {
    int64_t size;
    from->file = open_file(folder, "model.safetensors", from->path, &size);
    if (!from->file) return 1;
    unsigned char prefix[8];
    uint64_t header = 0;
    if (fread(prefix, 1, sizeof prefix, from->file) != sizeof prefix)
        return llm_failed("%s has %lld bytes, less than a safetensors file begins with", from->path, (long long)size);
    for (int i = 7; i >= 0; --i) header = header << 8 | prefix[i];
    if (header > kMaxHeader || (int64_t)header > size - 8)
        return llm_failed("%s: its header has %llu bytes, but the file has %lld: it is cut short, or not a safetensors file", from->path,
                          (unsigned long long)header, (long long)size);
    char *text = malloc((size_t)header + 1);
    if (!text) return llm_failed("there is no memory for the header of %s", from->path);
    if (fread(text, 1, (size_t)header, from->file) == header) from->header = cJSON_ParseWithLength(text, (size_t)header);
    free(text);
    if (!cJSON_IsObject(from->header)) return llm_failed("%s: its header is not a JSON object", from->path);
    from->begin = 8 + (int64_t)header;
    from->bytes = size - from->begin;
    return 0;
}

void llm_narrow(const float *from, int64_t count, void *to) {
    for (int64_t i = 0; i < count; ++i) {
        uint32_t bits;
        memcpy(&bits, from + i, sizeof bits);
        const uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
        const uint16_t brain = (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 64 : rounded >> 16); /* NaN stays NaN. */
        memcpy((unsigned char *)to + 2 * i, &brain, sizeof brain);
    }
}

static float of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float of_half(uint16_t half) {
    const uint32_t exponent = half >> 10 & 31, fraction = half & 1023, sign = (uint32_t)(half >> 15) << 31;
    const float magnitude = exponent == 31 ? of_bits(0x7f800000u | fraction << 13)
                                           : ldexpf((float)(fraction + (exponent ? 1024u : 0u)), (int)(exponent ? exponent : 1) - 25);
    return sign ? -magnitude : magnitude;
}

/* Where a tensor of the shape [rows, columns], or [columns] if rows is 0, lies in the file: its first byte, and the bytes of an element. */
static int find_tensor(tensors *from, const char *name, int64_t rows, int64_t columns, int64_t *begin, int64_t *size, int *brain) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(from->header, name);
    if (!item) return llm_failed("%s has no tensor %s", from->path, name);
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(item, "shape"), *offsets = cJSON_GetObjectItemCaseSensitive(item, "data_offsets");
    const int64_t wanted[2] = {rows ? rows : columns, columns};
    const int rank = rows ? 2 : 1;
    int64_t extent, end;
    int wrong = cJSON_GetArraySize(shape) != rank;
    for (int i = 0; i < rank && !wrong; ++i) wrong = whole(cJSON_GetArrayItem(shape, i), 0, 1e15, &extent) || extent != wanted[i];
    if (wrong) {
        char asked[64], *has = shape ? cJSON_PrintUnformatted(shape) : NULL;
        if (rows)
            snprintf(asked, sizeof asked, "[%lld,%lld]", (long long)rows, (long long)columns);
        else
            snprintf(asked, sizeof asked, "[%lld]", (long long)columns);
        llm_failed("%s: %s has the shape %.200s, config.json asks for %s", from->path, name, has ? has : "null", asked);
        cJSON_free(has);
        return 1;
    }
    const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "dtype"));
    if (!type || (strcmp(type, "F32") != 0 && strcmp(type, "BF16") != 0 && strcmp(type, "F16") != 0))
        return llm_failed("%s: %s has the type %.20s, expected F32, BF16 or F16", from->path, name, type ? type : "null");
    *brain = *type == 'B';
    *size = strcmp(type, "F32") == 0 ? 4 : 2;
    const int64_t bytes = wanted[0] * (rows ? columns : 1) * *size;
    if (cJSON_GetArraySize(offsets) != 2 || whole(cJSON_GetArrayItem(offsets, 0), 0, 9e15, begin) ||
        whole(cJSON_GetArrayItem(offsets, 1), 0, 9e15, &end) || end - *begin != bytes)
        return llm_failed("%s: the data_offsets of %s are not those of %lld bytes", from->path, name, (long long)bytes);
    if (end > from->bytes)
        return llm_failed("%s is cut short: %s ends at byte %lld of the data, which has %lld", from->path, name, (long long)end,
                          (long long)from->bytes);
    *begin += from->begin;
    return 0;
}

/* A tensor as float32, in memory to be freed. */
static int read_tensor(tensors *from, const char *name, int64_t rows, int64_t columns, float **values) {
    int64_t begin, size;
    int brain;
    if (find_tensor(from, name, rows, columns, &begin, &size, &brain)) return 1;
    const int64_t count = columns * (rows ? rows : 1);
    *values = malloc((size_t)count * sizeof **values);
    if (!*values) return llm_failed("there is no memory for %s", name);
    /* Narrow numbers are read into the end of the array and widened from its start. */
    unsigned char *raw = (unsigned char *)*values + (4 - size) * count;
    if (fseeko(from->file, (off_t)begin, SEEK_SET) || fread(raw, (size_t)size, (size_t)count, from->file) != (size_t)count)
        return llm_failed("%s: %s cannot be read", from->path, name);
    for (int64_t i = 0; i < count; ++i) {
        const unsigned char *at = raw + size * i;
        const uint32_t low = (uint32_t)at[0] | (uint32_t)at[1] << 8;
        (*values)[i] = size == 4 ? of_bits(low | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24)
                       : brain   ? of_bits(low << 16)
                                 : of_half((uint16_t)low);
    }
    return 0;
}

/* A tensor of the model, and where it goes: to host memory of its own, or into the block of device memory. */
typedef struct part {
    const char *name;
    int64_t rows, columns;
    float **host;
    void **device;
} part;
enum { kLayerParts = 9, kAlignment = 256 }; /* In bytes: where a tensor on the device may begin. */

/* What to do with a tensor: check it and count the device memory that it takes, or read it too. */
static int take_part(attile_context *context, tensors *from, const part *p, int32_t type, char *block, int64_t *used) {
    int64_t begin, size;
    int brain;
    float *values = NULL;
    const int64_t count = p->columns * (p->rows ? p->rows : 1), bytes = count * (type == ATTILE_BF16 ? 2 : 4);
    int failed = block ? read_tensor(from, p->name, p->rows, p->columns, &values)
                       : find_tensor(from, p->name, p->rows, p->columns, &begin, &size, &brain);
    if (!failed && block && p->device) {
        void *narrowed = type == ATTILE_BF16 ? malloc((size_t)bytes) : values;
        *p->device = block + *used;
        if (!narrowed)
            failed = llm_failed("there is no memory for %s", p->name);
        else if (narrowed != values)
            llm_narrow(values, count, narrowed);
        if (!failed && (attile_copy(context, *p->device, narrowed, bytes, NULL) || attile_synchronize(context, NULL)))
            failed = llm_library_failed();
        if (narrowed != values) free(narrowed);
    }
    if (p->device) *used += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (!failed && block && p->host)
        *p->host = values;
    else
        free(values);
    return failed;
}

/* With `block` NULL everything is only checked, so that nothing is loaded of a file that does not fit. */
static int take_weights(attile_context *context, tensors *from, const llm_config *c, llm_weights *w, char *block, int64_t *used) {
    const int64_t dim_q = c->heads * c->head_dim, dim_kv = c->heads_kv * c->head_dim;
    const part ends[] = {{"model.embed_tokens.weight", c->vocab, c->hidden, &w->embedding, c->tied ? &w->output : NULL},
                         {"model.norm.weight", 0, c->hidden, &w->norm, NULL},
                         {"lm_head.weight", c->vocab, c->hidden, NULL, &w->output}};
    *used = 0;
    for (int i = 0; i < (c->tied ? 2 : 3); ++i)
        if (take_part(context, from, &ends[i], c->type, block, used)) return 1;
    for (int64_t i = 0; i < c->layers; ++i) {
        llm_layer *layer = &w->layers[i];
        const part parts[kLayerParts] = {{"input_layernorm", 0, c->hidden, &layer->norm_attention, NULL},
                                         {"post_attention_layernorm", 0, c->hidden, &layer->norm_mlp, NULL},
                                         {"self_attn.q_proj", dim_q, c->hidden, NULL, &layer->q},
                                         {"self_attn.k_proj", dim_kv, c->hidden, NULL, &layer->k},
                                         {"self_attn.v_proj", dim_kv, c->hidden, NULL, &layer->v},
                                         {"self_attn.o_proj", c->hidden, dim_q, NULL, &layer->o},
                                         {"mlp.gate_proj", c->inner, c->hidden, NULL, &layer->gate},
                                         {"mlp.up_proj", c->inner, c->hidden, NULL, &layer->up},
                                         {"mlp.down_proj", c->hidden, c->inner, NULL, &layer->down}};
        for (int p = 0; p < kLayerParts; ++p) {
            char name[80];
            snprintf(name, sizeof name, "model.layers.%d.%s.weight", (int)i, parts[p].name);
            part named = parts[p];
            named.name = name;
            if (take_part(context, from, &named, c->type, block, used)) return 1;
        }
    }
    return 0;
}

static int read_weights(attile_context *context, tensors *from, const llm_config *c, llm_weights *w) {
    int64_t used;
    void *block; /* One block: the context releases it when it is destroyed. */
    w->layers = calloc((size_t)c->layers, sizeof *w->layers);
    if (!w->layers) return llm_failed("there is no memory for %lld layers", (long long)c->layers);
    if (take_weights(context, from, c, w, NULL, &used)) return 1;
    if (attile_alloc(context, ATTILE_MEMORY_DEVICE, used, &block)) return llm_library_failed();
    return take_weights(context, from, c, w, block, &used);
}

int llm_read_weights(attile_context *context, const char *folder, const llm_config *config, llm_weights *weights) {
    tensors from = {.file = NULL};
    const int failed = open_tensors(folder, &from) || read_weights(context, &from, config, weights);
    close_tensors(&from);
    return failed;
}

void llm_weights_free(llm_weights *weights, int64_t layers) {
    for (int64_t i = 0; weights->layers && i < layers; ++i) {
        free(weights->layers[i].norm_attention);
        free(weights->layers[i].norm_mlp);
    }
    free(weights->layers);
    free(weights->embedding);
    free(weights->norm);
}
