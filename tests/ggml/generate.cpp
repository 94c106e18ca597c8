// SPDX-License-Identifier: Apache-2.0
// Tokens of a model by llama.cpp as it is: a prompt of fixed tokens, then the most likely token each time. ggml loads the backend that
// GGML_BACKEND_PATH names, as in every program of llama.cpp.
//
// usage: ggml_generate MODEL --flash on|off [--prompt N] [--tokens N] [--threads N] [--prompt-threads N]
// Prints the tokens; on standard error by how much the least certain one was chosen, and the processor times of the prompt and of a token.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "llama.h"

namespace {

struct Options {
    const char *model = nullptr;
    bool flash = false;
    int prompt = 40, tokens = 24, threads = 1, prompt_threads = 2;  // Two numbers of threads, which alternate.
};

// Processor time of all threads, which other work on the machine lengthens less than the clock's.
double seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

bool read(int argc, char **argv, Options *options) {
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        const char *value = i + 1 < argc ? argv[i + 1] : nullptr;
        if (options->model == nullptr && word[0] != '-') {
            options->model = argv[i];
            continue;
        }
        if (value == nullptr) return false;
        if (word == "--flash") {
            options->flash = std::strcmp(value, "on") == 0;
        } else if (word == "--prompt") {
            options->prompt = std::atoi(value);
        } else if (word == "--tokens") {
            options->tokens = std::atoi(value);
        } else if (word == "--threads") {
            options->threads = std::atoi(value);
        } else if (word == "--prompt-threads") {
            options->prompt_threads = std::atoi(value);
        } else {
            return false;
        }
        ++i;
    }
    return options->model != nullptr && options->prompt > 0 && options->tokens > 0 && options->threads > 0 && options->prompt_threads > 0;
}

// Warnings and errors alone, and what backends are loaded.
void log(ggml_log_level level, const char *text, void *) {
    if (level == GGML_LOG_LEVEL_WARN || level == GGML_LOG_LEVEL_ERROR || std::strstr(text, "load_backend") != nullptr)
        std::fputs(text, stderr);
}

// How far the most likely token's logit is above the next one's, in standard deviations of all.
double lead(const float *logits, int count) {
    std::vector<float> sorted(logits, logits + count);
    std::nth_element(sorted.begin(), sorted.begin() + 1, sorted.end(), std::greater<float>());
    double sum = 0, squares = 0;
    for (const float value : sorted) {
        sum += static_cast<double>(value);
        squares += static_cast<double>(value) * static_cast<double>(value);
    }
    return static_cast<double>(sorted[0] - sorted[1]) / std::sqrt(squares / count - sum / count * (sum / count));
}

bool generate(llama_context *context, const llama_vocab *vocabulary, const Options &options) {
    std::vector<llama_token> batch;
    for (int i = 0; i < options.prompt; ++i) batch.push_back((i * 37 + 11) % llama_vocab_n_tokens(vocabulary));
    llama_sampler *greedy = llama_sampler_init_greedy();
    double start = seconds(), closest = INFINITY;
    bool right = true;
    for (int i = 0; i < options.tokens && right; ++i) {
        right = llama_decode(context, llama_batch_get_one(batch.data(), static_cast<int32_t>(batch.size()))) == 0;
        if (!right) break;
        batch = {llama_sampler_sample(greedy, context, -1)};
        std::printf("%d ", batch[0]);
        closest = std::min(closest, lead(llama_get_logits_ith(context, -1), llama_vocab_n_tokens(vocabulary)));
        if (i == 0) {
            std::fprintf(stderr, "prompt: %.3f ms\n", 1e3 * (seconds() - start));
            start = seconds();
        }
    }
    std::printf("\n");
    std::fprintf(stderr, "smallest lead: %.3f\n", closest);
    if (options.tokens > 1) std::fprintf(stderr, "token: %.3f ms\n", 1e3 * (seconds() - start) / (options.tokens - 1));
    llama_sampler_free(greedy);
    return right;
}

}  // namespace

int main(int argc, char **argv) {
    Options options;
    if (!read(argc, argv, &options)) {
        std::fprintf(stderr, "usage: ggml_generate MODEL --flash on|off [--prompt N] [--tokens N] [--threads N] [--prompt-threads N]\n");
        return 2;
    }
    llama_log_set(log, nullptr);
    ggml_backend_load_all();
    llama_model *model = llama_model_load_from_file(options.model, llama_model_default_params());
    if (model == nullptr) return 1;
    llama_context_params params = llama_context_default_params();
    params.n_ctx = static_cast<uint32_t>(options.prompt + options.tokens);
    params.n_batch = static_cast<uint32_t>(options.prompt);
    params.n_threads = options.threads;
    params.n_threads_batch = options.prompt_threads;
    params.flash_attn_type = options.flash ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    llama_context *context = llama_init_from_model(model, params);
    const bool right = context != nullptr && generate(context, llama_model_get_vocab(model), options);
    llama_free(context);
    llama_model_free(model);
    llama_backend_free();
    return right ? 0 : 1;
}
