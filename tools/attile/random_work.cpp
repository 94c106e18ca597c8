// SPDX-License-Identifier: Apache-2.0
// What a drawn problem is as work, and what it is counted under.
#include <algorithm>

#include "cli.h"
#include "random_problem.h"

namespace attile::cli {
namespace {

uint64_t hash(const std::string &text) {  // FNV-1a
    uint64_t value = 14695981039346656037u;
    for (char c : text) value = (value ^ static_cast<unsigned char>(c)) * 1099511628211u;
    return value;
}

struct Seen {
    double pairs = 0;  // Of a row and a key that it sees, of one head.
    double keys = 0;   // That some row sees.
};

Seen seen_of(const Problem &p, const Entry &e) {
    Seen seen;
    const int64_t shift = e.len_k - e.len_q;
    int64_t first = e.len_k, end = 0;
    for (int64_t i = 0; i < e.len_q; ++i) {
        const bool bounded = p.has("causal") || p.has("window");
        const int64_t high = bounded ? std::clamp(i + shift + 1, int64_t{0}, e.len_k) : e.len_k;
        const int64_t low = p.has("window") ? std::clamp(i + shift - p.window, int64_t{0}, e.len_k) : 0;
        if (high <= low) continue;
        seen.pairs += static_cast<double>(high - low);
        first = std::min(first, low);
        end = std::max(end, high);
    }
    seen.keys = static_cast<double>(std::max(int64_t{0}, end - first));
    return seen;
}

}  // namespace

int64_t mask_blocks(int64_t length) { return (length + ATTILE_MASK_BLOCK - 1) / ATTILE_MASK_BLOCK; }
int64_t shown_blocks(const Problem &p) { return std::max<int64_t>((mask_blocks(p.len_k) * p.shown + 50) / 100, 1); }

namespace {

Work attention_work(const Problem &p) {
    double pairs = 0, keys = 0, rows = 0, all_pairs = 0, all_keys = 0;
    for (const Entry &entry : entries(p)) {
        const Seen seen = seen_of(p, entry);
        pairs += seen.pairs;
        keys += seen.keys;
        rows += static_cast<double>(entry.len_q);
        all_keys += static_cast<double>(entry.len_k);
        all_pairs += static_cast<double>(p.len_q) * static_cast<double>(p.len_k);
    }
    if (p.has("blocks")) pairs *= static_cast<double>(shown_blocks(p)) / static_cast<double>(mask_blocks(p.len_k));
    const bool backward = p.operation == Operation::kAttentionBackward;
    const double heads = static_cast<double>(p.heads_q), heads_kv = static_cast<double>(p.heads_kv);
    const double dim = static_cast<double>(p.head_dim), dim_v = static_cast<double>(p.head_dim_v);
    const double size = static_cast<double>(element_bytes(p.dtype)), lse_size = std::max(size, 4.0);
    Work work;
    // Forward: Q K^T and P V; backward: both again, and dP, dQ, dK, dV, of which P V is not needed.
    work.flops = 2 * pairs * heads * (backward ? 3 * dim + 2 * dim_v : dim + dim_v);
    // Forward reads q and writes o; backward reads q, o and dout and writes dq. Of 8 bits are keys and values, or these and q.
    const double row = p.has("e4m3") ? dim + size * dim_v : size * (backward ? 2 * dim + 2 * dim_v : dim + dim_v);
    const double key = p.has("e4m3") ? dim + dim_v : p.has("cache_i8") ? dim + dim_v + 2 * sizeof(float) : size * (dim + dim_v);
    work.bytes = row * rows * heads + key * keys * heads_kv;
    if (backward) work.bytes += size * all_keys * heads_kv * (dim + dim_v);
    if (backward || p.has("lse")) work.bytes += lse_size * rows * heads;
    const double share = all_pairs > 0 ? std::min(1.0, pairs / all_pairs) : 0,
                 matrix = static_cast<double>(p.len_q) * static_cast<double>(p.len_k);
    const double bias = size * matrix * (p.has("bias_heads") ? heads : 1);
    if (p.has("bias") || p.has("bias_heads")) work.bytes += share * bias;
    if (p.has("dbias")) work.bytes += bias;
    if (p.has("mask")) work.bytes += share * matrix;
    return work;
}

// "65 to 256" and the like; a number by itself up to 1.
Group bucket(const char *kind, int64_t value) {
    constexpr int64_t kEnds[] = {1, 16, 64, 256, 1024, 4096};
    int64_t low = 0;
    for (int64_t end : kEnds) {
        if (value <= end) return {kind, end == 1 ? "1" : std::to_string(low + 1) + " to " + std::to_string(end), end};
        low = end;
    }
    return {kind, "above " + std::to_string(low), int64_t{1} << 40};
}

}  // namespace

std::vector<Entry> entries(const Problem &p) {
    std::vector<Entry> result(static_cast<size_t>(p.batch), Entry{p.len_q, p.len_k});
    if (!p.has("packed") && !p.has("lengths") && !p.has("paged")) return result;
    uint64_t state = hash(id_of(p));
    const auto length = [&](int64_t most) {  // A quarter of it to all of it.
        state = state * 6364136223846793005u + 1442695040888963407u;
        const int64_t least = std::max<int64_t>(1, most / 4);
        return least + static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(most - least + 1));
    };
    for (size_t i = 1; i < result.size() || i == 1; ++i) {  // The first one is the longest, unless it is alone.
        Entry &entry = result[result.size() == 1 ? 0 : i];
        if (p.has("packed")) {
            entry.len_q = length(p.len_q);
            entry.len_k = p.len_k == p.len_q ? entry.len_q : length(p.len_k);
        } else {
            entry.len_k = length(p.len_k);
        }
    }
    return result;
}

Work work_of(const Problem &p) {
    const auto d = [](int64_t value) { return static_cast<double>(value); };
    const double size = d(element_bytes(p.dtype)), out_size = p.has("f32_out") ? 4 : size;
    Work work;
    switch (p.operation) {
        case Operation::kGemmGrouped:  // Is not drawn.
        case Operation::kGemm: {
            const double batch = d(p.batch), m = d(p.m), n = d(p.n), k = d(p.k);
            work.flops = 2 * batch * m * n * k;
            work.bytes =
                size * (batch * m * k + (p.has("shared_b") ? 1 : batch) * k * n) + out_size * batch * m * n * (p.has("beta") ? 2 : 1);
            if (p.has("bias")) work.bytes += out_size * n;
            if (p.has("bias_rows")) work.bytes += out_size * m;
            break;
        }
        case Operation::kAttention:
        case Operation::kAttentionBackward:
            return attention_work(p);
        case Operation::kAttentionMerge: {
            const double rows = d(p.batch) * d(p.heads_q) * d(p.len_q), lse_size = std::max(size, 4.0);
            work.bytes = rows * (size * d(p.head_dim_v) * d(p.parts + 1) + lse_size * d(p.parts + (p.has("lse") ? 1 : 0)));
            break;
        }
        case Operation::kReduce:
            work.bytes = size * d(p.rows) * d(p.columns) + out_size * d(p.has("over_rows") ? p.columns : p.rows);
            break;
        case Operation::kSoftmax:
            work.bytes = (size + out_size) * d(p.rows) * d(p.columns);
            break;
    }
    return work;
}

std::vector<Group> groups_of(const Problem &p) {
    std::string option;
    int64_t order = 0;
    const std::vector<std::string> &names = option_names(p.operation);
    for (const std::string &name : p.options) {
        option += (option.empty() ? "" : "+") + name;
        order = order * 32 + (std::find(names.begin(), names.end(), name) - names.begin()) + 1;
    }
    std::vector<Group> groups = {{"option", option.empty() ? kPlain : option, order},
                                 {"type", std::string(bench::dtype_name(p.dtype)), element_bytes(p.dtype) * 1000 + p.dtype / 256}};
    switch (p.operation) {
        case Operation::kGemmGrouped:  // Is not drawn.
        case Operation::kGemm:
            groups.push_back({"layout", std::string(p.trans_a ? "t" : "n") + (p.trans_b ? "t" : "n"), p.trans_a * 2 + p.trans_b});
            groups.push_back(bucket("batch", p.batch));
            groups.push_back(bucket("rows M", p.m));
            groups.push_back(bucket("columns N", p.n));
            groups.push_back(bucket("depth K", p.k));
            break;
        case Operation::kAttention:
        case Operation::kAttentionBackward: {
            const bool one = p.heads_kv == p.heads_q;
            groups.push_back({"head dimension",
                              std::to_string(p.head_dim) + (p.head_dim_v != p.head_dim ? "/" + std::to_string(p.head_dim_v) : ""),
                              p.head_dim * 2 + (p.head_dim_v != p.head_dim)});
            groups.push_back(bucket("rows", p.len_q));
            groups.push_back(bucket("keys", p.len_k));
            groups.push_back({"heads", one ? "MHA" : p.heads_kv == 1 ? "MQA" : "GQA", one ? 0 : p.heads_kv == 1 ? 2 : 1});
            break;
        }
        case Operation::kAttentionMerge:
            groups.push_back({"head dimension", std::to_string(p.head_dim), p.head_dim});
            groups.push_back(bucket("rows", p.len_q));
            groups.push_back(bucket("parts", p.parts));
            break;
        case Operation::kReduce:
        case Operation::kSoftmax:
            groups.push_back(bucket("rows", p.rows));
            groups.push_back(bucket("columns", p.columns));
            break;
    }
    return groups;
}

}  // namespace attile::cli
