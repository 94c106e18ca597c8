// SPDX-License-Identifier: Apache-2.0
// Nodes of ggml by its CPU backend and by libggml-attile, alternating in one process, one thread each; prints a table of times and their
// ratios.
//
// usage: attile_bench_ggml LIBRARY [--rounds N] [--only WORDS] [--tiny]
// A time is the median of N rounds of the thread's own processor time, which other work on the machine lengthens less than the clock's.
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"

namespace {

struct Options {
    const char *library = nullptr;
    int rounds = 7;
    std::string only;
    bool tiny = false;
};

double thread_seconds() {
    timespec now = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Values between -0.5 and 0.5, in every type that is measured; an f16 mask of zeros stays one.
void fill(ggml_tensor *tensor) {
    std::vector<float> values(static_cast<size_t>(ggml_nelements(tensor)));
    uint32_t state = 1;
    for (float &value : values) {
        state = state * 1664525 + 1013904223;
        value = static_cast<float>(state >> 8) / 16777216.0f - 0.5f;
        if (std::strcmp(tensor->name, "mask") == 0) value = 0;
    }
    if (tensor->type == GGML_TYPE_F32) std::memcpy(tensor->data, values.data(), ggml_nbytes(tensor));
    if (tensor->type == GGML_TYPE_F16)
        ggml_fp32_to_fp16_row(values.data(), static_cast<ggml_fp16_t *>(tensor->data), ggml_nelements(tensor));
    if (tensor->type == GGML_TYPE_BF16)
        ggml_fp32_to_bf16_row(values.data(), static_cast<ggml_bf16_t *>(tensor->data), ggml_nelements(tensor));
}

using Build = std::function<ggml_tensor *(ggml_context *)>;

struct Case {
    std::string name;
    Build build;
};

Case product(ggml_type type, int64_t m, int64_t n, int64_t k) {
    const std::string name = std::string("MUL_MAT ") + ggml_type_name(type) + ", n = " + std::to_string(n) + ", " + std::to_string(m) +
                             " x " + std::to_string(k);
    return {name, [=](ggml_context *context) {
                return ggml_mul_mat(context, ggml_new_tensor_2d(context, type, k, m), ggml_new_tensor_2d(context, GGML_TYPE_F32, k, n));
            }};
}

Case attention(ggml_type type, int64_t head_dim, int64_t heads, int64_t heads_kv, int64_t rows, int64_t keys) {
    const std::string name = std::string("FLASH_ATTN_EXT ") + ggml_type_name(type) + ", " + std::to_string(rows) + " rows, " +
                             std::to_string(keys) + " keys, " + std::to_string(heads) + "/" + std::to_string(heads_kv) + " heads of " +
                             std::to_string(head_dim);
    return {name, [=](ggml_context *context) {
                ggml_tensor *q = ggml_new_tensor_3d(context, GGML_TYPE_F32, head_dim, rows, heads);
                ggml_tensor *k = ggml_new_tensor_3d(context, type, head_dim, keys, heads_kv);
                ggml_tensor *v = ggml_new_tensor_3d(context, type, head_dim, keys, heads_kv);
                ggml_tensor *mask = ggml_set_name(ggml_new_tensor_2d(context, GGML_TYPE_F16, keys, rows), "mask");
                return ggml_flash_attn_ext(context, q, k, v, mask, 0.1f, 0, 0);
            }};
}

Case softmax(int64_t keys, int64_t rows, int64_t heads) {
    const std::string name =
        "SOFT_MAX, " + std::to_string(rows) + " rows, " + std::to_string(keys) + " keys, " + std::to_string(heads) + " heads, mask";
    return {name, [=](ggml_context *context) {
                ggml_tensor *mask = ggml_set_name(ggml_new_tensor_2d(context, GGML_TYPE_F16, keys, rows), "mask");
                return ggml_soft_max_ext(context, ggml_new_tensor_3d(context, GGML_TYPE_F32, keys, rows, heads), mask, 0.1f, 0);
            }};
}

std::vector<Case> cases(bool tiny) {
    const ggml_type types[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16};
    std::vector<Case> all;
    for (const ggml_type type : types) {
        for (const int64_t n : {1, 16, 512}) all.push_back(tiny ? product(type, 64, n, 32) : product(type, 4096, n, 4096));
    }
    for (const ggml_type type : types) {
        if (tiny) {
            all.push_back(attention(type, 64, 4, 2, 3, 33));
            continue;
        }
        for (const int64_t keys : {1024, 8192}) all.push_back(attention(type, 128, 32, 8, 1, keys));
        all.push_back(attention(type, 64, 32, 8, 1, 8192));
        all.push_back(attention(type, 128, 32, 8, 512, 2048));
    }
    all.push_back(tiny ? softmax(33, 3, 2) : softmax(4096, 1, 32));
    if (!tiny) all.push_back(softmax(512, 512, 32));
    return all;
}

using Backend = std::unique_ptr<ggml_backend, decltype(&ggml_backend_free)>;

Backend open(ggml_backend_reg_t registry) {
    if (registry == nullptr || ggml_backend_reg_dev_count(registry) == 0) return {nullptr, ggml_backend_free};
    ggml_backend_t backend = ggml_backend_dev_init(ggml_backend_reg_dev_get(registry, 0), nullptr);
    auto set_threads =
        reinterpret_cast<ggml_backend_set_n_threads_t>(ggml_backend_reg_get_proc_address(registry, "ggml_backend_set_n_threads"));
    if (backend != nullptr && set_threads != nullptr) set_threads(backend, 1);
    return {backend, ggml_backend_free};
}

double median(std::vector<double> times) {
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
    return times[times.size() / 2];
}

// Both backends, alternating, on the same memory. False: one of them failed.
bool race(const Case &one, ggml_backend_t theirs, ggml_backend_t ours, int rounds) {
    const ggml_init_params params = {ggml_tensor_overhead() * 16 + ggml_graph_overhead(), nullptr, true};
    const std::unique_ptr<ggml_context, decltype(&ggml_free)> context(ggml_init(params), ggml_free);
    ggml_tensor *node = one.build(context.get());
    ggml_cgraph *graph = ggml_new_graph(context.get());
    ggml_build_forward_expand(graph, node);
    const std::unique_ptr<ggml_backend_buffer, decltype(&ggml_backend_buffer_free)> memory(
        ggml_backend_alloc_ctx_tensors(context.get(), theirs), ggml_backend_buffer_free);
    if (!memory) return false;
    for (ggml_tensor *tensor = ggml_get_first_tensor(context.get()); tensor != nullptr;
         tensor = ggml_get_next_tensor(context.get(), tensor)) {
        if (tensor != node) fill(tensor);
    }
    if (!ggml_backend_supports_op(ours, node)) {
        std::printf("| %s | refused |\n", one.name.c_str());
        return false;
    }
    ggml_backend_t backends[] = {theirs, ours};
    std::vector<double> times[2];
    for (int round = -1; round < rounds; ++round) {  // The first is not counted.
        for (int i = 0; i < 2; ++i) {
            int calls = 0;
            const double start = thread_seconds();
            double spent = 0;
            do {
                if (ggml_backend_graph_compute(backends[i], graph) != GGML_STATUS_SUCCESS) return false;
                ++calls;
                spent = thread_seconds() - start;
            } while (spent < 0.02);
            if (round >= 0) times[i].push_back(spent / calls);
        }
    }
    const double seconds[] = {median(times[0]), median(times[1])};
    std::printf("| %s | %.3f | %.3f | %.2f |\n", one.name.c_str(), 1e3 * seconds[0], 1e3 * seconds[1], seconds[0] / seconds[1]);
    std::fflush(stdout);
    return true;
}

bool read(int argc, char **argv, Options *options) {
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        if (word == "--tiny") {
            options->tiny = true;
        } else if (word == "--rounds" && i + 1 < argc) {
            options->rounds = std::atoi(argv[++i]);
        } else if (word == "--only" && i + 1 < argc) {
            options->only = argv[++i];
        } else if (options->library == nullptr && word[0] != '-') {
            options->library = argv[i];
        } else {
            return false;
        }
    }
    return options->library != nullptr && options->rounds > 0;
}

}  // namespace

int main(int argc, char **argv) {
    Options options;
    if (!read(argc, argv, &options)) {
        std::fprintf(stderr, "usage: attile_bench_ggml LIBRARY [--rounds N] [--only WORDS] [--tiny]\n");
        return 2;
    }
    const Backend theirs = open(ggml_backend_reg_by_name("CPU"));
    const Backend ours = open(ggml_backend_load(options.library));
    if (!theirs || !ours) {
        std::fprintf(stderr, "no backend\n");
        return 1;
    }
    std::printf("| node | ggml's CPU backend, ms | Attile, ms | ratio |\n|---|---|---|---|\n");
    bool right = true;
    for (const Case &one : cases(options.tiny)) {
        if (one.name.find(options.only) != std::string::npos) right = race(one, theirs.get(), ours.get(), options.rounds) && right;
    }
    return right ? 0 : 1;
}
