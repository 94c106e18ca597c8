/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a Llama model: continues a text, on whatever backend ATTILE_BACKEND names.
 *
 *     cc llm.c model.c files.c tokenizer.c $(pkg-config --cflags --libs attile libcjson) -lm -o llm
 *     ./llm FOLDER "Once upon a time" -n 100
 *
 * FOLDER holds config.json, model.safetensors and tokenizer.model, as models of Llama's architecture are published. README.md says more.
 */
#define _POSIX_C_SOURCE 200809L
#include "llm.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef struct options {
    const char *folder, *prompt;
    long long tokens, seed;
    double temperature, top_p;
    int ids, verbose, brain;
} options;

static int usage(void) {
    fputs(
        "usage: llm FOLDER PROMPT [-n TOKENS] [-t TEMPERATURE] [-p TOP_P] [-s SEED] [-b] [-i] [-v]\n"
        "  -n  tokens to add at most (64)         -t  temperature, 0 takes the likeliest token (0)\n"
        "  -p  draw from the likeliest tokens that have this share of the probability (0.9)\n"
        "  -s  seed of the draws (1)              -i  print the numbers of the tokens, not text\n"
        "  -b  round to bfloat16 for half the memory  -v  print the backend and the tokens per second to stderr\n",
        stderr);
    return 1;
}

static int number(const char *text, double least, double most, double *value) {
    char *end;
    *value = strtod(text, &end);
    return end == text || *end || !(*value >= least && *value <= most);
}

static int parse(int argc, char **argv, options *o) {
    *o = (options){.tokens = 64, .seed = 1, .top_p = 0.9};
    double value;
    const char *words[2];
    int count = 0;
    while (optind < argc) { /* Words and options in any order. */
        const int option = getopt(argc, argv, "n:t:p:s:ivb");
        switch (option) {
            case 'n':
                if (number(optarg, 1, 1e9, &value)) return llm_failed("-n is %s, expected a number of tokens from 1", optarg);
                o->tokens = (long long)value;
                break;
            case 's':
                if (number(optarg, 0, 9e15, &value)) return llm_failed("-s is %s, expected a whole number from 0", optarg);
                o->seed = (long long)value;
                break;
            case 't':
                if (number(optarg, 0, 100, &o->temperature)) return llm_failed("-t is %s, expected a temperature from 0 to 100", optarg);
                break;
            case 'p':
                if (number(optarg, 0, 1, &o->top_p)) return llm_failed("-p is %s, expected a probability from 0 to 1", optarg);
                break;
            case 'i':
                o->ids = 1;
                break;
            case 'v':
                o->verbose = 1;
                break;
            case 'b':
                o->brain = 1;
                break;
            case -1:
                if (count == 2) return usage();
                if (optind < argc) words[count++] = argv[optind++];
                break;
            default:
                return usage();
        }
    }
    if (count != 2) return usage();
    o->folder = words[0];
    o->prompt = words[1];
    return 0;
}

/* SplitMix64: the same numbers for a seed in every language. From 0 up to, not including, 1. */
static double next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

typedef struct candidate {
    double share;
    int32_t token;
} candidate;

static int by_share(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->share != y->share) return x->share < y->share ? 1 : -1;
    return (x->token > y->token) - (x->token < y->token);
}

/* Greedy at temperature 0; else a draw from the likeliest tokens that together have the probability top_p. -1: a logit is not finite. */
static int32_t sample(const float *logits, int64_t vocab, const options *o, candidate *order, uint64_t *random) {
    int32_t best = 0;
    for (int32_t i = 0; i < vocab; ++i) {
        if (!isfinite(logits[i])) return -1;
        if (logits[i] > logits[best]) best = i;
    }
    if (o->temperature == 0) return best;

    double all = 0, nucleus = 0;
    int64_t kept = 0;
    for (int32_t i = 0; i < vocab; ++i) {
        order[i] = (candidate){exp(((double)logits[i] - logits[best]) / o->temperature), i};
        all += order[i].share;
    }
    qsort(order, (size_t)vocab, sizeof *order, by_share);
    while (kept < vocab && (kept == 0 || nucleus < o->top_p * all)) nucleus += order[kept++].share;
    double left = next_random(random) * nucleus;
    for (int64_t i = 0; i < kept; ++i) {
        left -= order[i].share;
        if (left < 0) return order[i].token;
    }
    return order[kept - 1].token;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void print(const llm_tokenizer *tokenizer, const options *o, const int32_t *tokens, size_t count, int first) {
    for (size_t i = 0; i < count; ++i) {
        if (o->ids)
            printf("%d\n", tokens[i]);
        else
            llm_print_token(tokenizer, tokens[i], first && i == 1);
    }
    fflush(stdout);
}

/* The prompt passes through the model at once, then each new token. */
static int generate(llm_model *model, const llm_tokenizer *tokenizer, const llm_config *config, const options *o, const int32_t *prompt,
                    size_t count) {
    candidate *order = malloc((size_t)config->vocab * sizeof *order);
    if (!order) return llm_failed("there is no memory for %lld candidates", (long long)config->vocab);
    uint64_t random = (uint64_t)o->seed;
    const float *logits;
    const long long room = (long long)config->positions - (long long)count, most = o->tokens < room ? o->tokens : room;
    const double start = seconds();
    int failed = llm_model_forward(model, prompt, count, &logits);
    const double decoding = seconds();
    long long made = 0;
    while (!failed) {
        const int32_t token = made < most ? sample(logits, config->vocab, o, order, &random) : llm_end_token(tokenizer);
        if (token < 0) failed = llm_failed("the model gives numbers that are not finite");
        if (!failed && !made) print(tokenizer, o, prompt, count, 1); /* Not before something can follow. */
        if (failed || token == llm_end_token(tokenizer)) break;
        print(tokenizer, o, &token, 1, 0);
        if (++made < most) failed = llm_model_forward(model, &token, 1, &logits);
    }
    if (!failed && !o->ids) putchar('\n');
    if (!failed && (fflush(stdout) || ferror(stdout))) failed = llm_failed("the text cannot be written");
    if (!failed && o->verbose)
        fprintf(stderr, "%lld tokens of the prompt in %.3f s, then %.2f tokens/s\n", (long long)count, decoding - start,
                made > 1 ? (double)(made - 1) / (seconds() - decoding) : 0.0);
    free(order);
    return failed;
}

static int run(const options *o, attile_context **context, llm_model **model, llm_tokenizer **tokenizer, int32_t **prompt) {
    llm_config config;
    size_t count;
    if (llm_read_config(o->folder, &config)) return 1;
    if (o->brain) config.type = ATTILE_BF16;
    *tokenizer = llm_tokenizer_open(o->folder, config.vocab);
    if (!*tokenizer) return 1;
    *prompt = llm_encode(*tokenizer, o->prompt, &count);
    if (!*prompt) return 1;
    if ((int64_t)count > config.positions)
        return llm_failed("the prompt has %lld tokens, the model takes at most %lld", (long long)count, (long long)config.positions);
    if (attile_context_create(NULL, context)) return llm_library_failed();
    if (o->verbose) {
        attile_context_info info;
        attile_context_info_init(&info, sizeof info);
        if (attile_context_get_info(*context, &info)) return llm_library_failed();
        fprintf(stderr, "%s: %s %s\n", info.backend, info.device_name, info.arch);
    }
    const int64_t wanted = (int64_t)count + o->tokens;
    *model = llm_model_open(*context, o->folder, &config, wanted < config.positions ? wanted : config.positions);
    return !*model || generate(*model, *tokenizer, &config, o, *prompt, count);
}

int main(int argc, char **argv) {
    options o;
    attile_context *context = NULL;
    llm_model *model = NULL;
    llm_tokenizer *tokenizer = NULL;
    int32_t *prompt = NULL;
    const int failed = parse(argc, argv, &o) || run(&o, &context, &model, &tokenizer, &prompt);
    free(prompt);
    llm_model_close(model);
    llm_tokenizer_close(tokenizer);
    attile_context_destroy(context);
    return failed;
}
