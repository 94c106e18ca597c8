// SPDX-License-Identifier: Apache-2.0
// Ids of drawn problems, both ways.
#include "random_problem.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>

#include "cli.h"

namespace attile::cli {
namespace {

constexpr int64_t kMostExtent = int64_t{1} << 30;
constexpr double kMostElements = 1e12;  // Of a tensor: none of the sums made of extents comes near 63 bits.

constexpr int32_t kTypes[] = {ATTILE_F32, ATTILE_F64, ATTILE_F16, ATTILE_BF16};

std::vector<std::string> split(const std::string &whole, char by) {
    std::vector<std::string> parts(1);
    for (char c : whole) {
        if (c == by)
            parts.emplace_back();
        else
            parts.back() += c;
    }
    return parts;
}

// A whole number from 1 on, written without a sign or a leading zero; 0: it is none.
int64_t number(const std::string &word) {
    if (word.empty() || word.size() > 10 || word[0] == '0') return 0;
    int64_t value = 0;
    for (char c : word) {
        if (!std::isdigit(static_cast<unsigned char>(c))) return 0;
        value = 10 * value + (c - '0');
    }
    return value <= kMostExtent ? value : 0;
}

// `word` is `prefix` and as many numbers as there are targets, with `by` between them.
bool numbers(const std::string &word, const std::string &prefix, char by, std::initializer_list<int64_t *> targets) {
    if (word.compare(0, prefix.size(), prefix) != 0) return false;
    const std::vector<std::string> parts = split(word.substr(prefix.size()), by);
    if (parts.size() != targets.size()) return false;
    size_t at = 0;
    for (int64_t *target : targets)
        if ((*target = number(parts[at++])) == 0) return false;
    return true;
}

// Words of the shape: those after the type, in this order.
struct ShapeWord {
    const char *form;  // What is told of it where it is wrong.
    bool (*read)(const std::string &word, Problem &p);
};

bool read_layout(const std::string &word, Problem &p) {
    if (word.size() != 2 || (word[0] != 'n' && word[0] != 't') || (word[1] != 'n' && word[1] != 't')) return false;
    p.trans_a = word[0] == 't';
    p.trans_b = word[1] == 't';
    return true;
}

bool read_head_dim(const std::string &word, Problem &p) {
    if (numbers(word, "d", '/', {&p.head_dim, &p.head_dim_v})) return true;
    if (!numbers(word, "d", '/', {&p.head_dim})) return false;
    p.head_dim_v = p.head_dim;
    return true;
}

std::vector<ShapeWord> shape_words(Operation operation) {
    const ShapeWord batch = {"b and the batch (b2)", [](const std::string &w, Problem &p) { return numbers(w, "b", '/', {&p.batch}); }};
    const ShapeWord dim = {"d and the head dimension (d128, d192/128)", read_head_dim};
    switch (operation) {
        case Operation::kGemmGrouped:  // Is not drawn.
        case Operation::kGemm:
            return {batch,
                    {"MxNxK (512x512x64)",
                     [](const std::string &w, Problem &p) {
                         return numbers(w, "", 'x', {&p.m, &p.n, &p.k});
                     }},
                    {"nn, nt, tn or tt", read_layout}};
        case Operation::kAttention:
        case Operation::kAttentionBackward:
            return {batch,
                    {"h, query heads and key heads (h32/8)",
                     [](const std::string &w, Problem &p) {
                         return numbers(w, "h", '/', {&p.heads_q, &p.heads_kv});
                     }},
                    {"l, rows and keys (l512x2048)",
                     [](const std::string &w, Problem &p) {
                         return numbers(w, "l", 'x', {&p.len_q, &p.len_k});
                     }},
                    dim};
        case Operation::kAttentionMerge:
            return {
                batch,
                {"h and the heads (h32)", [](const std::string &w, Problem &p) { return numbers(w, "h", '/', {&p.heads_q}); }},
                {"l and the rows (l512)", [](const std::string &w, Problem &p) { return numbers(w, "l", 'x', {&p.len_q}); }},
                {"d and the head dimension (d128)",
                 [](const std::string &w, Problem &p) { return numbers(w, "d", 'x', {&p.head_dim}) && (p.head_dim_v = p.head_dim) > 0; }},
                {"p and the parts (p4)", [](const std::string &w, Problem &p) { return numbers(w, "p", 'x', {&p.parts}); }}};
        case Operation::kReduce:
        case Operation::kSoftmax:
            return {{"ROWSxCOLUMNS (4096x1024)", [](const std::string &w, Problem &p) {
                         return numbers(w, "", 'x', {&p.rows, &p.columns});
                     }}};
    }
    return {};
}

std::string listed(const std::vector<std::string> &words) {
    std::string result;
    for (size_t i = 0; i < words.size(); ++i) result += (i == 0 ? "" : i + 1 < words.size() ? ", " : " or ") + words[i];
    return result;
}

// An option's word, with its number where it has one.
bool read_option(const std::string &word, Problem &p, std::string &name) {
    const std::vector<std::string> &known = option_names(p.operation);
    name = word;
    if (numbers(word, "window", '/', {&p.window}))
        name = "window";
    else if (numbers(word, "paged", '/', {&p.page_size}))
        name = "paged";
    else if (numbers(word, "blocks", '/', {&p.shown}))
        name = "blocks";
    else if (word == "window" || word == "paged" || word == "blocks")
        return false;
    return std::find(known.begin(), known.end(), name) != known.end();
}

double largest_tensor(const Problem &p) {
    const auto product = [](std::initializer_list<int64_t> extents) {
        double result = 1;
        for (int64_t extent : extents) result *= static_cast<double>(extent);
        return result;
    };
    const int64_t dim = std::max(p.head_dim, p.head_dim_v) + 1;
    switch (p.operation) {
        case Operation::kGemmGrouped:  // Is not drawn.
        case Operation::kGemm:
            return std::max(
                {product({p.batch, p.m + 1, p.k + 1}), product({p.batch, p.k + 1, p.n + 1}), product({p.batch, p.m + 1, p.n + 1})});
        case Operation::kAttention:
        case Operation::kAttentionBackward:
            return std::max({product({p.batch, p.heads_q, p.len_q, dim}), product({p.batch, p.heads_kv, p.len_k + p.page_size, dim}),
                             product({p.heads_q, p.len_q, p.len_k + 1})});
        case Operation::kAttentionMerge:
            return product({p.batch, p.heads_q, p.len_q, dim, p.parts});
        case Operation::kReduce:
        case Operation::kSoftmax:
            return product({p.rows + 1, p.columns + 1});
    }
    return 0;
}

}  // namespace

int64_t element_bytes(int32_t dtype) { return (dtype & 0xff) / 8; }

bool Problem::has(const char *option) const { return std::find(options.begin(), options.end(), option) != options.end(); }

const std::vector<Operation> &operations() {
    static const std::vector<Operation> all = {Operation::kGemm,           Operation::kAttention, Operation::kAttentionBackward,
                                               Operation::kAttentionMerge, Operation::kReduce,    Operation::kSoftmax};
    return all;
}

const std::vector<std::string> &option_names(Operation operation) {
    static const std::vector<std::string> gemm = {"bias", "bias_rows", "relu",    "gelu",     "gelu_tanh",
                                                  "silu", "beta",      "f32_out", "shared_b", "odd"};
    static const std::vector<std::string> attention = {"causal",  "window",  "bias",   "bias_heads", "mask", "alibi",
                                                       "softcap", "blocks",  "tree",   "cache_i8",   "e4m3", "sinks",
                                                       "lse",     "lengths", "packed", "paged",      "blhd", "odd"};
    static const std::vector<std::string> backward = {"causal", "window", "bias",  "bias_heads", "dbias",  "mask", "alibi", "softcap",
                                                      "blocks", "tree",   "sinks", "lengths",    "packed", "blhd", "odd"};
    static const std::vector<std::string> merge = {"lse", "odd"};
    static const std::vector<std::string> reduce = {"sum", "max", "min", "mean", "over_rows", "f32_out", "odd"};
    static const std::vector<std::string> softmax = {"over_rows", "in_place", "f32_out", "odd"};
    switch (operation) {
        case Operation::kGemmGrouped:  // Is not drawn.
        case Operation::kGemm:
            return gemm;
        case Operation::kAttention:
            return attention;
        case Operation::kAttentionBackward:
            return backward;
        case Operation::kAttentionMerge:
            return merge;
        case Operation::kReduce:
            return reduce;
        case Operation::kSoftmax:
            break;
    }
    return softmax;
}

std::string id_of(const Problem &p) {
    const auto n = [](int64_t value) { return std::to_string(value); };
    std::string id = std::string(bench::operation_name(p.operation)) + ":" + std::string(bench::dtype_name(p.dtype)) + ":";
    const std::string dim = ":d" + n(p.head_dim) + (p.head_dim_v != p.head_dim ? "/" + n(p.head_dim_v) : "");
    switch (p.operation) {
        case Operation::kGemmGrouped:  // Is not drawn.
        case Operation::kGemm:
            id += "b" + n(p.batch) + ":" + n(p.m) + "x" + n(p.n) + "x" + n(p.k) + ":" + (p.trans_a ? "t" : "n") + (p.trans_b ? "t" : "n");
            break;
        case Operation::kAttention:
        case Operation::kAttentionBackward:
            id += "b" + n(p.batch) + ":h" + n(p.heads_q) + "/" + n(p.heads_kv) + ":l" + n(p.len_q) + "x" + n(p.len_k) + dim;
            break;
        case Operation::kAttentionMerge:
            id += "b" + n(p.batch) + ":h" + n(p.heads_q) + ":l" + n(p.len_q) + dim + ":p" + n(p.parts);
            break;
        case Operation::kReduce:
        case Operation::kSoftmax:
            id += n(p.rows) + "x" + n(p.columns);
            break;
    }
    for (const std::string &option : p.options)
        id += ":" + option + (option == "window" ? n(p.window) : option == "paged" ? n(p.page_size) : option == "blocks" ? n(p.shown) : "");
    return id;
}

std::string parse_problem(const std::string &id, Problem &problem) {
    const std::vector<std::string> words = split(id, ':');
    const std::string where = "'" + id + "' is not the id of a problem: ";
    Problem p;
    const auto operation =
        std::find_if(operations().begin(), operations().end(), [&](Operation o) { return bench::operation_name(o) == words[0]; });
    if (operation == operations().end()) return where + "there is no operation '" + words[0] + "'";
    p.operation = *operation;
    const auto type =
        std::find_if(std::begin(kTypes), std::end(kTypes), [&](int32_t t) { return words.size() > 1 && bench::dtype_name(t) == words[1]; });
    if (type == std::end(kTypes)) return where + "after the operation comes f32, f64, f16 or bf16";
    p.dtype = *type;
    size_t at = 2;
    for (const ShapeWord &word : shape_words(p.operation)) {
        if (at >= words.size()) return where + "it ends before " + word.form;
        if (!word.read(words[at], p)) return where + "'" + words[at] + "' is not " + word.form;
        ++at;
    }
    std::vector<std::string> given;
    for (; at < words.size(); ++at) {
        std::string name;
        if (!read_option(words[at], p, name))
            return where + "'" + words[at] + "' is none of its options " + listed(option_names(p.operation)) +
                   " (window255, paged16 and blocks25, of which 25 % are shown, with a number)";
        if (std::find(given.begin(), given.end(), name) != given.end())
            return std::string(where).append("it has '").append(name).append("' twice");
        given.push_back(name);
    }
    for (const std::string &name : option_names(p.operation))
        if (std::find(given.begin(), given.end(), name) != given.end()) p.options.push_back(name);
    if (const std::string why = why_not(p); !why.empty()) return where + why;
    problem = p;
    return "";
}

std::string why_not(const Problem &p) {
    struct Pair {
        const char *one, *other;
    };
    constexpr Pair kApart[] = {{"causal", "window"},  {"bias", "bias_heads"}, {"packed", "paged"},   {"lengths", "packed"},
                               {"lengths", "paged"},  {"blhd", "odd"},        {"bias", "bias_rows"}, {"relu", "gelu"},
                               {"relu", "gelu_tanh"}, {"relu", "silu"},       {"gelu", "gelu_tanh"}, {"gelu", "silu"},
                               {"gelu_tanh", "silu"}, {"sum", "max"},         {"sum", "min"},        {"sum", "mean"},
                               {"max", "min"},        {"max", "mean"},        {"min", "mean"},       {"in_place", "f32_out"},
                               {"paged", "blhd"},     {"packed", "blhd"},     {"paged", "odd"},      {"cache_i8", "e4m3"}};
    for (const Pair &pair : kApart)
        if (p.has(pair.one) && p.has(pair.other)) return std::string(pair.one) + " and " + pair.other + " do not go together";
    if (p.shown > 100) return "more than 100 % of the blocks are shown";
    if (p.has("tree") && p.len_q > p.len_k) return "a tree has a column for each row, and there are fewer keys";
    if (p.has("cache_i8") && p.dtype == ATTILE_F64) return "cache_i8 is for f32, f16 and bf16";
    if (p.has("e4m3") && element_bytes(p.dtype) != 2) return "e4m3 is for o of f16 and bf16";
    if (p.has("f32_out") && element_bytes(p.dtype) != 2) return "f32_out is for f16 and bf16";
    if (p.has("dbias") && !p.has("bias") && !p.has("bias_heads")) return "dbias needs a bias";
    if (p.has("shared_b") && p.batch == 1) return "shared_b needs a batch";
    if (p.operation == Operation::kReduce && !p.has("sum") && !p.has("max") && !p.has("min") && !p.has("mean"))
        return "it does not say sum, max, min or mean";
    if (p.is_attention() && p.heads_q % p.heads_kv != 0) return "the query heads are not a multiple of the key heads";
    if (largest_tensor(p) > kMostElements) return "it is too large";
    return "";
}

}  // namespace attile::cli
