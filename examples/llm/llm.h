/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the example share: a Llama model, its tokenizer, and its files.
 *
 * A function that returns int returns 0, or 1 after it printed one sentence about what failed.
 */
#ifndef LLM_H
#define LLM_H

#include <attile/attile.h>
#include <stddef.h>
#include <stdint.h>

/* The shape of a model, as config.json gives it. */
typedef struct llm_config {
    int64_t hidden;    /* Numbers that stand for one token between the layers. */
    int64_t inner;     /* Width of the MLP. */
    int64_t layers;    /* Transformer blocks. */
    int64_t heads;     /* Query heads, */
    int64_t heads_kv;  /* and heads of keys and values: heads / heads_kv query heads share one. */
    int64_t head_dim;  /* Columns of a head. */
    int64_t vocab;     /* Tokens that the model knows. */
    int64_t positions; /* Tokens that a sequence may have. */
    double norm_eps;   /* RMSNorm adds it to the mean square. */
    double rope_theta; /* Base of RoPE's frequencies. */
    int tied;          /* Whether the output layer is the embedding. */
    int32_t type; /* Of weights, keys, values and what they are multiplied with: ATTILE_F32, or ATTILE_BF16 as the caller may choose. */
} llm_config;

/* Weights of one layer. A product's weights lie in device memory as the file has them, [outputs, inputs]. */
typedef struct llm_layer {
    float *norm_attention, *norm_mlp;       /* [hidden], in host memory */
    void *q, *k, *v, *o, *gate, *up, *down; /* on the device */
} llm_layer;

typedef struct llm_weights {
    float *embedding; /* [vocab, hidden], in host memory */
    float *norm;      /* [hidden], in host memory */
    void *output;     /* [vocab, hidden], on the device */
    llm_layer *layers;
} llm_weights;

/* files.c. Both structs are zero before and can be freed after a failure. Weights end with llm_weights_free(), before their context. */
int llm_read_config(const char *folder, llm_config *config);
int llm_read_weights(attile_context *context, const char *folder, const llm_config *config, llm_weights *weights);
void llm_weights_free(llm_weights *weights, int64_t layers);
/* To bfloat16, to nearest and ties to even. */
void llm_narrow(const float *from, int64_t count, void *to);
/* The bytes of FOLDER/NAME, to be freed, with a zero behind them; NULL after a failure. */
unsigned char *llm_read_file(const char *folder, const char *name, size_t *size);

/* tokenizer.c: a SentencePiece BPE model, tokenizer.model of Llama, Llama 2 and TinyLlama. */
typedef struct llm_tokenizer llm_tokenizer;
llm_tokenizer *llm_tokenizer_open(const char *folder, int64_t vocab); /* NULL after a failure */
void llm_tokenizer_close(llm_tokenizer *tokenizer);
/* The tokens of a text, the beginning-of-sequence token first. Their array is to be freed; NULL after a failure. */
int32_t *llm_encode(const llm_tokenizer *tokenizer, const char *text, size_t *count);
/* The bytes that a token stands for; they need not be a whole UTF-8 character. `first` leaves out the space that encoding put in front. */
void llm_print_token(const llm_tokenizer *tokenizer, int32_t token, int first);
int32_t llm_end_token(const llm_tokenizer *tokenizer);

/* model.c: a model, and the keys and values of one sequence. */
typedef struct llm_model llm_model;
llm_model *llm_model_open(attile_context *context, const char *folder, const llm_config *config,
                          int64_t capacity); /* NULL after a failure */
void llm_model_close(llm_model *model);
/* Append tokens to the sequence. *logits are those of the last one, [vocab], valid until the next call. */
int llm_model_forward(llm_model *model, const int32_t *tokens, size_t count, const float **logits);

/* files.c: print a sentence, or what the library says about its last failure; both return 1. */
int llm_failed(const char *format, ...);
int llm_library_failed(void);

#endif /* LLM_H */
