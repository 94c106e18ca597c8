/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tokenizer of a Llama model: byte-pair encoding with the pieces and scores of a SentencePiece model (tokenizer.model).
 *
 * The file is a message of protocol buffers. Its field 1, repeated, is a piece: 1 the text, 2 a float32 score, 3 the kind. A text is
 * encoded with a space in front, spaces written as U+2581. It begins as characters; of all neighbours that together are a piece, those of
 * the highest score are joined, the leftmost first, until none are left. What is then no piece becomes the pieces of its bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "llm.h"

enum { kNormal = 1, kUnknown = 2, kControl = 3, kByte = 6 };
static const char kSpace[] = "\xe2\x96\x81";
enum { kSpaceBytes = 3 };

typedef struct piece {
    const char *text; /* Within the file's bytes, without a zero at its end. */
    size_t length;
    float score;
    int32_t kind, id;
} piece;

struct llm_tokenizer {
    unsigned char *file;
    piece *pieces;        /* [count], by id */
    const piece **sorted; /* [count_sorted], the pieces that a text may be made of, by their text */
    size_t count, count_sorted;
    int32_t bytes[256], begin, end, unknown; /* -1: there is none */
};

/* The next field of a message of protocol buffers. Fields of length: the bytes are at `data`; others: `value` is set. */
typedef struct field {
    uint64_t number, value;
    const unsigned char *data;
} field;

static int varint(const unsigned char **at, const unsigned char *end, uint64_t *value) {
    *value = 0;
    for (int shift = 0; shift < 64 && *at < end; shift += 7) {
        const unsigned char byte = *(*at)++;
        *value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return 0;
    }
    return 1;
}

static int next_field(const unsigned char **at, const unsigned char *end, field *out) {
    uint64_t tag;
    if (varint(at, end, &tag)) return 1;
    out->number = tag >> 3;
    out->data = NULL;
    const uint64_t kind = tag & 7, fixed = kind == 1 ? 8 : kind == 5 ? 4 : 0;
    if (kind == 0) return varint(at, end, &out->value);
    if (kind == 2 && varint(at, end, &out->value)) return 1;
    if (kind != 2 && !fixed) return 1;
    const uint64_t length = fixed ? fixed : out->value;
    if (length > (uint64_t)(end - *at)) return 1;
    if (fixed) {
        out->value = 0;
        for (uint64_t i = 0; i < fixed; ++i) out->value |= (uint64_t)(*at)[i] << 8 * i;
    } else {
        out->data = *at;
    }
    *at += length;
    return 0;
}

static int read_piece(const field *message, piece *out) {
    const unsigned char *at = message->data, *end = message->data + message->value;
    *out = (piece){.text = (const char *)at, .kind = kNormal};
    while (at < end) {
        field part;
        if (next_field(&at, end, &part)) return 1;
        if (part.number == 1 && part.data) out->text = (const char *)part.data, out->length = (size_t)part.value;
        if (part.number == 2 && !part.data) {
            const uint32_t bits = (uint32_t)part.value;
            memcpy(&out->score, &bits, sizeof bits);
            if (out->score != out->score) return 1;
        }
        if (part.number == 3 && !part.data) out->kind = part.value < 7 ? (int32_t)part.value : kControl;
    }
    return 0;
}

/* All pieces, counted where `pieces` is NULL. */
static int read_pieces(const unsigned char *at, const unsigned char *end, piece *pieces, size_t *count) {
    *count = 0;
    while (at < end) {
        field part;
        piece ignored;
        if (next_field(&at, end, &part)) return 1;
        if (part.number != 1) continue;
        if (!part.data || read_piece(&part, pieces ? &pieces[*count] : &ignored)) return 1;
        if (pieces) pieces[*count].id = (int32_t)*count;
        ++*count;
    }
    return 0;
}

static int compare(const char *a, size_t length_a, const char *b, size_t length_b) {
    const int order = memcmp(a, b, length_a < length_b ? length_a : length_b);
    return order ? order : (length_a > length_b) - (length_a < length_b);
}

static int by_text(const void *a, const void *b) {
    const piece *x = *(const piece *const *)a, *y = *(const piece *const *)b;
    const int order = compare(x->text, x->length, y->text, y->length);
    return order ? order : (x->id > y->id) - (x->id < y->id);
}

static const piece *find(const llm_tokenizer *t, const char *text, size_t length) {
    size_t low = 0, high = t->count_sorted;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare(t->sorted[middle]->text, t->sorted[middle]->length, text, length) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    const piece *found = low < t->count_sorted ? t->sorted[low] : NULL;
    return found && compare(found->text, found->length, text, length) == 0 ? found : NULL;
}

static int is(const piece *p, const char *text) { return p->length == strlen(text) && memcmp(p->text, text, p->length) == 0; }

/* The byte that a piece like <0x0A> stands for, or -1. */
static int byte_of(const piece *p) {
    char text[7] = {0}, *end;
    if (p->length != 6 || memcmp(p->text, "<0x", 3) != 0) return -1;
    memcpy(text, p->text, 6);
    const long value = strtol(text + 3, &end, 16);
    return end == text + 5 && *end == '>' && value >= 0 ? (int)value : -1;
}

static int index_pieces(llm_tokenizer *t, const char *folder) {
    for (int i = 0; i < 256; ++i) t->bytes[i] = -1;
    for (size_t i = 0; i < t->count; ++i) {
        const piece *p = &t->pieces[i];
        const int byte = p->kind == kByte ? byte_of(p) : -1;
        if (p->kind == kByte && byte < 0)
            return llm_failed("%s/tokenizer.model: piece %lld is of the kind byte and names none", folder, (long long)i);
        if (byte >= 0) t->bytes[byte] = p->id;
        if (p->kind == kUnknown) t->unknown = p->id;
        if (p->kind == kControl && is(p, "<s>")) t->begin = p->id;
        if (p->kind == kControl && is(p, "</s>")) t->end = p->id;
        if (p->kind == kNormal && p->length) t->sorted[t->count_sorted++] = p;
    }
    if (t->begin < 0 || t->end < 0 || t->unknown < 0)
        return llm_failed("%s/tokenizer.model has no piece %s", folder,
                          t->unknown < 0 ? "for what is unknown"
                          : t->begin < 0 ? "<s>"
                                         : "</s>");
    qsort(t->sorted, t->count_sorted, sizeof *t->sorted, by_text);
    return 0;
}

llm_tokenizer *llm_tokenizer_open(const char *folder, int64_t vocab) {
    size_t size, count;
    llm_tokenizer *t = calloc(1, sizeof *t);
    if (!t) return llm_failed("there is no memory for the tokenizer"), NULL;
    t->begin = t->end = t->unknown = -1;
    t->file = llm_read_file(folder, "tokenizer.model", &size);
    int failed = !t->file;
    if (!failed && (read_pieces(t->file, t->file + size, NULL, &count) || !count))
        failed = llm_failed("%s/tokenizer.model is cut short, or not a SentencePiece model", folder);
    if (!failed && (int64_t)count != vocab)
        failed = llm_failed("%s/tokenizer.model has %lld pieces, but the model has %lld: it belongs to another model", folder,
                            (long long)count, (long long)vocab);
    if (!failed) {
        t->pieces = malloc(count * sizeof *t->pieces);
        t->sorted = malloc(count * sizeof *t->sorted);
        if (!t->pieces || !t->sorted) failed = llm_failed("there is no memory for the tokenizer");
    }
    if (!failed) failed = read_pieces(t->file, t->file + size, t->pieces, &t->count) || index_pieces(t, folder);
    if (!failed) return t;
    llm_tokenizer_close(t);
    return NULL;
}

void llm_tokenizer_close(llm_tokenizer *t) {
    if (!t) return;
    free(t->sorted);
    free(t->pieces);
    free(t->file);
    free(t);
}

/* Bytes of the character of UTF-8 that a text begins with; 1 where it is none. */
static size_t character(const char *text, size_t left) {
    const unsigned char first = (unsigned char)*text;
    const size_t length = first < 0xc2 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 1;
    if (length > left) return 1;
    for (size_t i = 1; i < length; ++i)
        if (((unsigned char)text[i] & 0xc0) != 0x80) return 1;
    return length;
}

static char *with_spaces_written(const char *text, size_t *length) {
    const size_t size = strlen(text);
    char *out = malloc(kSpaceBytes * (size + 1));
    if (!out) return NULL;
    memcpy(out, kSpace, kSpaceBytes);
    *length = kSpaceBytes;
    for (size_t i = 0; i < size; ++i) {
        if (text[i] == ' ')
            memcpy(out + *length, kSpace, kSpaceBytes), *length += kSpaceBytes;
        else
            out[(*length)++] = text[i];
    }
    return out;
}

int32_t *llm_encode(const llm_tokenizer *t, const char *text, size_t *count) {
    size_t length = 0, parts = 0;
    char *spaced = with_spaces_written(text, &length);
    size_t *starts = malloc((length + 1) * sizeof *starts); /* Part i is what lies from starts[i] to starts[i + 1]. */
    int32_t *tokens = malloc((length + 1) * sizeof *tokens);
    if (!spaced || !starts || !tokens) {
        llm_failed("there is no memory for the prompt");
        free(tokens), tokens = NULL;
        length = 0;
    }
    for (size_t at = 0; at < length && *text; at += character(spaced + at, length - at)) starts[parts++] = at;
    if (starts) starts[parts] = length;
    for (;;) {
        const piece *best = NULL;
        size_t where = 0;
        for (size_t i = 0; i + 1 < parts; ++i) {
            const piece *joined = find(t, spaced + starts[i], starts[i + 2] - starts[i]);
            if (joined && (!best || joined->score > best->score)) best = joined, where = i;
        }
        if (!best) break;
        memmove(starts + where + 1, starts + where + 2, (parts - where - 1) * sizeof *starts);
        --parts;
    }
    *count = 0;
    if (tokens) tokens[(*count)++] = t->begin;
    for (size_t i = 0; i < parts; ++i) {
        const piece *p = find(t, spaced + starts[i], starts[i + 1] - starts[i]);
        if (p)
            tokens[(*count)++] = p->id;
        else
            for (size_t at = starts[i]; at < starts[i + 1]; ++at) {
                const int32_t byte = t->bytes[(unsigned char)spaced[at]];
                tokens[(*count)++] = byte < 0 ? t->unknown : byte;
            }
    }
    free(starts);
    free(spaced);
    return tokens;
}

void llm_print_token(const llm_tokenizer *t, int32_t token, int first) {
    const piece *p = &t->pieces[token];
    if (p->kind == kByte) putchar(byte_of(p));
    if (p->kind == kControl || p->kind == kByte) return;
    for (size_t i = 0; i < p->length; ++i) {
        if (p->length - i >= kSpaceBytes && memcmp(p->text + i, kSpace, kSpaceBytes) == 0) {
            if (i || !first) putchar(' ');
            i += kSpaceBytes - 1;
        } else {
            putchar(p->text[i]);
        }
    }
}

int32_t llm_end_token(const llm_tokenizer *t) { return t->end; }
