// SPDX-License-Identifier: Apache-2.0
// Drawing problems as users have them.
#include <algorithm>
#include <cmath>

#include "random_problem.h"

namespace attile::cli {
namespace {

// Most that a problem may be: calls of a few milliseconds at the roofline of a large GPU, and of a processor of a few cores.
struct Most {
    double flops, flops_wide, bytes;  // Wide: float32 and float64.
};
constexpr Most kDevice = {3e12, 4e11, 2e9}, kProcessor = {1.6e9, 1.6e9, 1.2e8};

}  // namespace

Draw::Draw(Operation operation, uint64_t seed, bool on_device) : operation_(operation), on_device_(on_device), state_(seed) {
    // Scrambled: the states of neighbouring seeds are no neighbours in the sequence.
    state_ = bits() ^ (static_cast<uint64_t>(operation) + 1) * 0xD1342543DE82EF95u;
    state_ = bits();
}

uint64_t Draw::bits() {  // splitmix64
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

int64_t Draw::below(int64_t count) { return static_cast<int64_t>((bits() >> 16) % static_cast<uint64_t>(count)); }

bool Draw::chance(double share) { return static_cast<double>(bits() >> 11) * 0x1p-53 < share; }

int64_t Draw::between(double low, double high) {
    const double at = static_cast<double>(bits() >> 11) * 0x1p-53;
    return std::max<int64_t>(1, static_cast<int64_t>(std::exp2(low + at * (high - low))));
}

int32_t Draw::dtype() {
    constexpr int32_t f32 = ATTILE_F32, f64 = ATTILE_F64, f16 = ATTILE_F16, bf16 = ATTILE_BF16;
    if (on_device_) return static_cast<int32_t>(pick({bf16, bf16, bf16, bf16, bf16, bf16, f16, f16, f16, f32, f32, f64}));
    return static_cast<int32_t>(pick({f32, f32, f32, f32, f32, f32, bf16, bf16, f16, f64}));
}

Problem Draw::next() {
    const Most &most = on_device_ ? kDevice : kProcessor;
    for (;;) {
        Problem problem = attempt();
        if (!why_not(problem).empty()) continue;
        const Work work = work_of(problem);
        if (work.flops <= (element_bytes(problem.dtype) == 2 ? most.flops : most.flops_wide) && work.bytes <= most.bytes) return problem;
    }
}

Problem Draw::attempt() {
    Problem p;
    p.operation = operation_;
    p.dtype = dtype();
    switch (operation_) {
        case Operation::kGemmGrouped:  // Is not drawn.
        case Operation::kGemm:
            gemm(p);
            break;
        case Operation::kAttention:
        case Operation::kAttentionBackward:
            attention(p);
            break;
        case Operation::kAttentionMerge:
            merge(p);
            break;
        case Operation::kReduce:
        case Operation::kSoftmax:
            rows(p);
            break;
    }
    // In the order of the names.
    std::vector<std::string> sorted;
    for (const std::string &name : option_names(p.operation))
        if (p.has(name.c_str())) sorted.push_back(name);
    p.options = sorted;
    return p;
}

void Draw::gemm(Problem &p) {
    const double high = on_device_ ? 13.5 : 11;
    if (chance(0.3)) {
        // A linear layer of a model: few to many rows, sizes of hidden states.
        const std::vector<int64_t> hidden = on_device_ ? std::vector<int64_t>{768, 1024, 2048, 2560, 4096, 5120, 8192, 11008, 14336}
                                                       : std::vector<int64_t>{128, 256, 384, 512, 768, 1024, 2048};
        p.m = chance(0.4) ? pick({1, 2, 4, 8, 16, 32}) : between(5, high - 1);
        p.n = pick(hidden);
        p.k = pick(hidden);
        p.trans_b = chance(0.7);
    } else {
        p.m = between(0, high);
        p.n = between(on_device_ ? 3 : 0, high);
        p.k = between(on_device_ ? 3 : 0, high);
        if (chance(0.6))
            for (int64_t *extent : {&p.m, &p.n, &p.k})
                if (*extent > 8) *extent -= *extent % 8;
        p.batch = pick(on_device_ ? std::vector<int64_t>{1, 1, 1, 4, 16, 64} : std::vector<int64_t>{1, 1, 1, 8});
        p.trans_a = chance(0.3);
        p.trans_b = chance(0.5);
    }
    if (chance(0.33)) return;
    switch (below(9)) {
        case 0:
            p.options = {"bias"};
            break;
        case 1:
            p.options = {"bias", "gelu"};
            break;
        case 2:
            p.options = {"bias", "gelu_tanh"};
            break;
        case 3:
            p.options = {"silu"};
            break;
        case 4:
            p.options = {"relu"};
            break;
        case 5:
            p.options = {"beta"};
            break;
        case 6:
            p.options = {element_bytes(p.dtype) == 2 ? "f32_out" : "bias_rows"};
            break;
        case 7:
            p.options = {"odd"};
            break;
        default:
            p.options = {p.batch > 1 ? "shared_b" : "bias"};
    }
}

void Draw::attention(Problem &p) {
    const bool backward = p.operation == Operation::kAttentionBackward;
    p.head_dim = pick({64, 128, 64, 128, 64, 128, 64, 128, 32, 40, 72, 80, 96, 112, 160, 192, 256});
    p.head_dim_v = p.head_dim == 192 && chance(0.5) ? 128 : p.head_dim;
    p.heads_q = pick(on_device_ ? std::vector<int64_t>{4, 8, 12, 16, 32, 32, 40} : std::vector<int64_t>{1, 4, 8, 12, 32});
    const int64_t group = pick({1, 1, 2, 4, 8, p.heads_q});
    p.heads_kv = p.heads_q % group == 0 ? p.heads_q / group : p.heads_q;
    p.batch = pick(on_device_ ? std::vector<int64_t>{1, 1, 2, 4, 16} : std::vector<int64_t>{1, 1, 1, 4});
    if (chance(0.2)) {
        p.len_q = between(backward ? 6 : 0, on_device_ ? 12 : 10);
    } else if (on_device_) {
        p.len_q = pick(backward ? std::vector<int64_t>{128, 200, 512, 1000, 1024, 2048, 4096}
                                : std::vector<int64_t>{1, 1, 2, 4, 16, 64, 128, 200, 512, 1000, 2048, 4096});
    } else {
        p.len_q = pick(backward ? std::vector<int64_t>{33, 100, 128, 200, 256, 512, 1000}
                                : std::vector<int64_t>{1, 1, 2, 4, 16, 33, 100, 128, 200, 512, 1000});
    }
    if (on_device_)
        p.len_k = pick({p.len_q, p.len_q, 1024, 4096, 5000, backward ? p.len_q : 32768});
    else
        p.len_k = pick({p.len_q, p.len_q, 128, 512, 1000, backward ? p.len_q : 4096});
    p.len_k = std::max(p.len_k, p.len_q);
    if (p.len_q == 1 && on_device_ && chance(0.4)) p.batch = pick({16, 32, 64});  // Decoding for many users at once.
    attention_options(p);
}

void Draw::attention_options(Problem &p) {
    const bool backward = p.operation == Operation::kAttentionBackward;
    const int64_t kind = below(9);
    if (kind < 3) return;
    if (kind < 5) {
        p.options = {"causal"};
        return;
    }
    const std::vector<const char *> all =
        backward ? std::vector<const char *>{"window", "bias",    "bias_heads", "dbias", "mask", "alibi",  "softcap",
                                             "sinks",  "lengths", "packed",     "blhd",  "odd",  "blocks", "tree"}
                 : std::vector<const char *>{"window",  "bias",   "bias_heads", "mask", "alibi", "softcap", "sinks", "lse",
                                             "lengths", "packed", "paged",      "blhd", "odd",   "blocks",  "tree",  "cache_i8"};
    const std::string option = all[static_cast<size_t>(below(static_cast<int64_t>(all.size())))];
    p.options = {option == "cache_i8" && p.dtype == ATTILE_F64 ? "lse" : option};
    if (option == "dbias") p.options = {"bias", "dbias"};
    if (option == "window") p.window = pick({127, 255, 1023, 4095});
    if (option == "blocks") p.shown = pick({10, 25, 50});
    if (option == "tree") p.len_q = std::min<int64_t>(p.len_q, p.len_k);
    if (option == "paged") p.page_size = pick({16, 16, 64, 128, 256});
    if (option == "packed" && p.batch == 1) p.batch = pick({2, 4, 8});
    if (option != "window" && chance(0.4)) p.options.insert(p.options.begin(), "causal");
}

void Draw::merge(Problem &p) {
    p.head_dim = p.head_dim_v = pick({64, 128, 64, 128, 32, 80, 96, 256});
    p.heads_q = pick({8, 12, 16, 32, 40});
    p.batch = pick({1, 1, 2, 4, 16});
    p.len_q = chance(0.3) ? 1 : between(0, on_device_ ? 13 : 10);
    p.parts = pick({2, 2, 3, 4, 8, 16});
    if (chance(0.4)) p.options = {"lse"};
    if (chance(0.15)) p.options.push_back("odd");
}

void Draw::rows(Problem &p) {
    const bool reduce = p.operation == Operation::kReduce;
    const double high = on_device_ ? 17 : 13;
    p.rows = chance(0.1) ? 1 : between(0, high);
    p.columns = between(0, high + (p.rows < 1024 ? 4 : 0));
    if (chance(0.5))
        for (int64_t *extent : {&p.rows, &p.columns})
            if (*extent > 8) *extent -= *extent % 8;
    if (reduce) p.options = {std::vector<const char *>{"sum", "sum", "max", "min", "mean"}[static_cast<size_t>(below(5))]};
    if (chance(0.4)) return;
    const std::string option =
        std::vector<const char *>{"over_rows", "f32_out", "odd", "in_place"}[static_cast<size_t>(below(reduce ? 3 : 4))];
    p.options.push_back(option == "f32_out" && element_bytes(p.dtype) != 2 ? "over_rows" : option);
}

}  // namespace attile::cli
