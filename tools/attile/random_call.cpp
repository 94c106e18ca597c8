// SPDX-License-Identifier: Apache-2.0
// The operands and arguments of drawn problems.
#include "random_call.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cli.h"
#include "random_elements.h"

namespace attile::cli {

OperandMemory::OperandMemory(attile_context *context) : context_(context) {
    constexpr int32_t kTypes[] = {ATTILE_F32, ATTILE_F64, ATTILE_F16, ATTILE_BF16, ATTILE_I8, ATTILE_F8_E4M3, ATTILE_BOOL, 0};
    for (size_t i = 0; i < arenas_.size(); ++i) arenas_[i].dtype = kTypes[i];
}

OperandMemory::~OperandMemory() { release(); }

void OperandMemory::release() {
    attile_synchronize(context_, nullptr);
    for (Arena &arena : arenas_) {
        attile_free(context_, arena.memory);
        arena.memory = nullptr;
        arena.capacity = 0;
    }
}

void OperandMemory::count() {
    counting_ = true;
    for (Arena &arena : arenas_) arena.counted = 0;
}

int64_t OperandMemory::counted() const {
    return std::accumulate(arenas_.begin(), arenas_.end(), int64_t{0}, [](int64_t sum, const Arena &arena) { return sum + arena.counted; });
}

int32_t OperandMemory::grow(Arena &arena, int64_t bytes) {
    if (bytes <= arena.capacity) return ATTILE_OK;
    if (const int32_t status = attile_synchronize(context_, nullptr)) return status;
    attile_free(context_, arena.memory);
    arena.memory = nullptr;
    arena.capacity = 0;
    bytes += bytes / 4;  // Not anew for each problem that is a little larger.
    void *memory = nullptr;
    if (const int32_t status = attile_alloc(context_, ATTILE_MEMORY_DEVICE, bytes, &memory)) return status;
    arena.memory = static_cast<unsigned char *>(memory);
    arena.capacity = bytes;
    if (arena.dtype == 0) return ATTILE_OK;
    // The first values are drawn; the rest repeats them, at a distance that is a multiple of no common extent.
    constexpr int64_t kDrawn = 4194301;
    const int64_t size = element_bytes(arena.dtype), drawn = std::min(kDrawn, bytes / size);
    std::vector<unsigned char> values(static_cast<size_t>(drawn * size));
    bench::RandomElements(static_cast<uint64_t>(arena.dtype)).fill(arena.dtype, drawn, values.data());
    if (const int32_t status = attile_copy(context_, memory, values.data(), drawn * size, nullptr)) return status;
    for (int64_t done = drawn * size; done < bytes;) {
        const int64_t part = std::min(done, bytes - done);
        if (const int32_t status = attile_copy(context_, arena.memory + done, memory, part, nullptr)) return status;
        done += part;
    }
    return attile_synchronize(context_, nullptr);
}

void OperandMemory::provide(int copies) {
    const auto grow_all = [&] {
        for (Arena &arena : arenas_)
            if (const int32_t status = grow(arena, arena.counted * copies)) return status;
        return static_cast<int32_t>(ATTILE_OK);
    };
    if (grow_all() != ATTILE_OK) {  // What other problems needed may be in the way.
        release();
        check(grow_all());
    }
    counting_ = false;
    for (Arena &arena : arenas_) arena.used = 0;
}

void *OperandMemory::piece(Arena &arena, int64_t bytes) {
    bytes = (bytes + 255) / 256 * 256;
    if (counting_) {
        arena.counted += bytes;
        return nullptr;
    }
    unsigned char *at = arena.memory + arena.used;
    arena.used += bytes;
    if (arena.used > arena.capacity) throw Failure("a problem takes more memory than was counted");
    return at;
}

void *OperandMemory::take_random(int32_t dtype, int64_t elements) {
    const auto arena = std::find_if(arenas_.begin(), arenas_.end(), [&](const Arena &each) { return each.dtype == dtype; });
    return piece(*arena, elements * element_bytes(dtype));
}

void *OperandMemory::take(int64_t bytes) { return piece(arenas_.back(), bytes); }

void *OperandMemory::put(const void *data, int64_t bytes) {
    void *to = take(bytes);
    if (to != nullptr) check(attile_copy(context_, to, data, bytes, nullptr));
    return to;
}

ProblemCall::ProblemCall(attile_context *context, const Problem &problem, OperandMemory &memory)
    : context_(context), problem_(problem), memory_(memory) {
    switch (problem_.operation) {
        case Operation::kGemmGrouped:  // Is not drawn.
        case Operation::kGemm:
            describe_gemm();
            break;
        case Operation::kAttention:
            describe_attention(args_.emplace<attile_attention_args>());
            break;
        case Operation::kAttentionBackward:
            describe_backward();
            break;
        case Operation::kAttentionMerge:
            describe_merge();
            break;
        case Operation::kReduce:
        case Operation::kSoftmax:
            describe_rows();
            break;
    }
}

attile_tensor ProblemCall::tensor(int32_t dtype, std::initializer_list<int64_t> shape, Layout layout, bool random) {
    attile_tensor made;
    check(attile_tensor_init(&made, nullptr, dtype, static_cast<int32_t>(shape.size()), shape.begin()));
    const int rank = made.rank;
    const bool transposed = layout == Layout::kTransposed || layout == Layout::kTransposedOdd;
    if (layout == Layout::kHeadsInside) {
        made.stride[1] = made.shape[3];
        made.stride[2] = made.shape[1] * made.shape[3];
    } else if (rank > 1) {
        // Rows, or columns where it is transposed, that follow each other; odd ones with a gap of one element.
        const bool odd = layout == Layout::kOdd || layout == Layout::kTransposedOdd;
        const int inner = transposed ? rank - 2 : rank - 1, outer = transposed ? rank - 1 : rank - 2;
        made.stride[inner] = 1;
        made.stride[outer] = made.shape[inner] + (odd ? 1 : 0);
        if (rank > 2) made.stride[rank - 3] = made.stride[outer] * made.shape[outer];
        for (int i = rank - 4; i >= 0; --i) made.stride[i] = made.stride[i + 1] * made.shape[i + 1];
    }
    int64_t elements = 1;
    for (int i = 0; i < rank; ++i) elements += (made.shape[i] - 1) * made.stride[i];
    made.data = random ? memory_.take_random(dtype, elements) : memory_.take(elements * element_bytes(dtype));
    return made;
}

attile_tensor ProblemCall::numbers(const std::vector<int32_t> &values, std::initializer_list<int64_t> shape) {
    attile_tensor made;
    check(attile_tensor_init(&made, nullptr, ATTILE_I32, static_cast<int32_t>(shape.size()), shape.begin()));
    made.data = memory_.put(values.data(), static_cast<int64_t>(values.size()) * 4);
    return made;
}

void ProblemCall::describe_gemm() {
    auto &args = args_.emplace<attile_gemm_args>();
    attile_gemm_init(&args, sizeof args);
    const Problem &p = problem_;
    const bool odd = p.has("odd");
    const int32_t out = p.has("f32_out") ? ATTILE_F32 : p.dtype;
    const auto layout = [&](bool transposed) {
        return transposed ? (odd ? Layout::kTransposedOdd : Layout::kTransposed) : (odd ? Layout::kOdd : Layout::kDense);
    };
    const auto matrix = [&](int32_t dtype, int64_t rows, int64_t columns, bool transposed, bool random, bool shared = false) {
        if (p.batch == 1 || shared) return tensor(dtype, {rows, columns}, layout(transposed), random);
        return tensor(dtype, {p.batch, rows, columns}, layout(transposed), random);
    };
    args.a = matrix(p.dtype, p.m, p.k, p.trans_a, true);
    args.b = matrix(p.dtype, p.k, p.n, p.trans_b, true, p.has("shared_b"));
    args.d = matrix(out, p.m, p.n, false, false);
    if (p.has("beta")) {
        args.c = matrix(out, p.m, p.n, false, true);
        args.beta = 0.5;
    }
    if (p.has("bias")) args.bias = tensor(out, {p.n}, Layout::kDense, true), args.bias_axis = ATTILE_BIAS_COLUMNS;
    if (p.has("bias_rows")) args.bias = tensor(out, {p.m}, Layout::kDense, true), args.bias_axis = ATTILE_BIAS_ROWS;
    args.activation = p.has("relu")        ? ATTILE_ACTIVATION_RELU
                      : p.has("gelu")      ? ATTILE_ACTIVATION_GELU
                      : p.has("gelu_tanh") ? ATTILE_ACTIVATION_GELU_TANH
                      : p.has("silu")      ? ATTILE_ACTIVATION_SILU
                                           : ATTILE_ACTIVATION_NONE;
}

void ProblemCall::describe_attention(attile_attention_args &args) {
    attile_attention_init(&args, sizeof args);
    const Problem &p = problem_;
    const std::vector<Entry> all = entries(p);
    const Layout layout = p.has("odd") ? Layout::kOdd : p.has("blhd") || p.has("packed") ? Layout::kHeadsInside : Layout::kDense;
    int64_t entries_q = p.batch, rows = p.len_q, entries_k = p.batch, keys = p.len_k;
    Layout layout_k = layout;
    if (p.has("packed")) {
        entries_q = entries_k = 1;
        rows = keys = 0;
        for (const Entry &entry : all) rows += entry.len_q, keys += entry.len_k;
    } else if (p.has("paged")) {
        entries_k = 0;
        for (const Entry &entry : all) entries_k += (entry.len_k + p.page_size - 1) / p.page_size;
        keys = p.page_size;
        layout_k = Layout::kHeadsInside;
    }
    const bool e4m3 = p.has("e4m3");
    args.q = tensor(e4m3 ? ATTILE_F8_E4M3 : p.dtype, {entries_q, p.heads_q, rows, p.head_dim}, layout, true);
    const int32_t cached = e4m3 ? ATTILE_F8_E4M3 : p.has("cache_i8") ? ATTILE_I8 : p.dtype;
    args.k = tensor(cached, {entries_k, p.heads_kv, keys, p.head_dim}, layout_k, true);
    args.v = tensor(cached, {entries_k, p.heads_kv, keys, p.head_dim_v}, layout_k, true);
    if (p.has("cache_i8"))  // one for each token and head
        for (attile_tensor *scale : {&args.k_scale, &args.v_scale})
            *scale = tensor(ATTILE_F32, {entries_k, p.heads_kv, keys, 1}, Layout::kDense, true);
    if (e4m3) {  // one for each head
        args.flags = ATTILE_FLAG_FAST_ACCUMULATION;
        args.q_scale = tensor(ATTILE_F32, {p.heads_q, 1, 1}, Layout::kDense, true);
        for (attile_tensor *scale : {&args.k_scale, &args.v_scale}) *scale = tensor(ATTILE_F32, {p.heads_kv, 1, 1}, Layout::kDense, true);
    }
    args.o = tensor(p.dtype, {entries_q, p.heads_q, rows, p.head_dim_v}, layout, false);
    if (p.has("lse") || p.operation == Operation::kAttentionBackward)
        args.lse = tensor(p.dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32, {entries_q, p.heads_q, rows}, Layout::kDense, false);
    if (p.has("causal")) args.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    if (p.has("window")) args.mask = ATTILE_MASK_WINDOW_BOTTOM_RIGHT, args.window_left = p.window;
    if (p.has("softcap")) args.softcap = 30;
    if (p.has("bias")) args.bias = tensor(p.dtype, {1, 1, p.len_q, p.len_k}, Layout::kDense, true);
    if (p.has("bias_heads")) args.bias = tensor(p.dtype, {1, p.heads_q, p.len_q, p.len_k}, Layout::kDense, true);
    if (p.has("mask")) args.allowed = tensor(ATTILE_BOOL, {1, 1, p.len_q, p.len_k}, Layout::kDense, true);
    if (p.has("sinks")) args.sinks = tensor(ATTILE_F32, {p.heads_q}, Layout::kDense, true);
    if (p.has("alibi")) {
        std::vector<float> slopes(static_cast<size_t>(p.heads_q));
        for (size_t h = 0; h < slopes.size(); ++h) slopes[h] = std::exp2(-8.0f * static_cast<float>(h + 1) / static_cast<float>(p.heads_q));
        check(attile_tensor_init(&args.alibi_slopes, nullptr, ATTILE_F32, 1, &p.heads_q));
        args.alibi_slopes.data = memory_.put(slopes.data(), p.heads_q * 4);
    }
    if (p.has("blocks")) args.block_mask = block_mask();
    if (p.has("tree")) args.tree_mask = tensor(ATTILE_BOOL, {1, 1, p.len_q, p.len_q}, Layout::kDense, true);
    describe_lengths(args, all);
}

// Each block of rows is shown as many blocks of keys, anywhere, and its own, which causal rows would else see nothing but.
attile_tensor ProblemCall::block_mask() {
    const int64_t rows = mask_blocks(problem_.len_q), keys = mask_blocks(problem_.len_k), shown = shown_blocks(problem_);
    std::vector<unsigned char> mask(static_cast<size_t>(rows * keys), 0);
    uint64_t state = static_cast<uint64_t>(rows * keys);
    for (int64_t i = 0; i < rows; ++i) {
        unsigned char *const row = mask.data() + i * keys;
        row[std::min(std::max<int64_t>(i + keys - rows, 0), keys - 1)] = 1;
        for (int64_t left = shown - 1; left > 0;) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            unsigned char &block = row[(state >> 33) % static_cast<uint64_t>(keys)];
            left -= block == 0 ? 1 : 0;
            block = 1;
        }
    }
    attile_tensor made;
    const int64_t shape[] = {rows, keys};
    check(attile_tensor_init(&made, nullptr, ATTILE_BOOL, 2, shape));
    made.data = memory_.put(mask.data(), rows * keys);
    return made;
}

void ProblemCall::describe_lengths(attile_attention_args &args, const std::vector<Entry> &all) {
    const Problem &p = problem_;
    std::vector<int32_t> lengths, starts_q = {0}, starts_k = {0};
    for (const Entry &entry : all) {
        lengths.push_back(static_cast<int32_t>(entry.len_k));
        starts_q.push_back(starts_q.back() + static_cast<int32_t>(entry.len_q));
        starts_k.push_back(starts_k.back() + static_cast<int32_t>(entry.len_k));
    }
    if (p.has("lengths") || p.has("paged")) args.key_lengths = numbers(lengths, {p.batch});
    if (p.has("packed")) {
        args.cu_len_q = numbers(starts_q, {p.batch + 1});
        args.cu_len_k = numbers(starts_k, {p.batch + 1});
        args.max_len_q = p.len_q;
        args.max_len_k = p.len_k;
    }
    if (!p.has("paged")) return;
    // Pages lie as they come to a server that has run for a while: anywhere.
    const int64_t pages = args.k.shape[0], most = (p.len_k + p.page_size - 1) / p.page_size;
    std::vector<int32_t> order(static_cast<size_t>(pages)), table(static_cast<size_t>(p.batch * most), -1);
    std::iota(order.begin(), order.end(), 0);
    uint64_t state = static_cast<uint64_t>(pages);
    for (size_t i = order.size(); i > 1; --i) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        std::swap(order[i - 1], order[(state >> 33) % i]);
    }
    size_t next = 0;
    for (size_t b = 0; b < all.size(); ++b)
        for (int64_t page = 0; page * p.page_size < all[b].len_k; ++page)
            table[b * static_cast<size_t>(most) + static_cast<size_t>(page)] = order[next++];
    args.block_table = numbers(table, {p.batch, most});
}

void ProblemCall::describe_backward() {
    auto &args = args_.emplace<attile_attention_backward_args>();
    attile_attention_backward_init(&args, sizeof args);
    describe_attention(forward_);
    args.forward = &forward_;
    const auto like = [&](const attile_tensor &other, int64_t last, bool random) {
        const Layout layout = problem_.has("odd")                              ? Layout::kOdd
                              : problem_.has("blhd") || problem_.has("packed") ? Layout::kHeadsInside
                                                                               : Layout::kDense;
        return tensor(problem_.dtype, {other.shape[0], other.shape[1], other.shape[2], last}, layout, random);
    };
    args.dout = like(forward_.o, problem_.head_dim_v, true);
    args.dq = like(forward_.q, problem_.head_dim, false);
    args.dk = like(forward_.k, problem_.head_dim, false);
    args.dv = like(forward_.v, problem_.head_dim_v, false);
    if (problem_.has("dbias"))
        args.dbias = tensor(problem_.dtype, {1, forward_.bias.shape[1], problem_.len_q, problem_.len_k}, Layout::kDense, false);
}

void ProblemCall::describe_merge() {
    auto &args = args_.emplace<attile_attention_merge_args>();
    attile_attention_merge_init(&args, sizeof args);
    const Problem &p = problem_;
    const int32_t lse = p.dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32;
    const Layout layout = p.has("odd") ? Layout::kOdd : Layout::kDense;
    for (int64_t i = 0; i < p.parts; ++i) {
        part_o_.push_back(tensor(p.dtype, {p.batch, p.heads_q, p.len_q, p.head_dim_v}, layout, true));
        part_lse_.push_back(tensor(lse, {p.batch, p.heads_q, p.len_q}, Layout::kDense, true));
    }
    args.o_parts = part_o_.data();
    args.lse_parts = part_lse_.data();
    args.parts = p.parts;
    args.o = tensor(p.dtype, {p.batch, p.heads_q, p.len_q, p.head_dim_v}, layout, false);
    if (p.has("lse")) args.lse = tensor(lse, {p.batch, p.heads_q, p.len_q}, Layout::kDense, false);
}

void ProblemCall::describe_rows() {
    const Problem &p = problem_;
    const Layout layout = p.has("odd") ? Layout::kOdd : Layout::kDense;
    const int32_t out = p.has("f32_out") ? ATTILE_F32 : p.dtype, axis = p.has("over_rows") ? 0 : 1;
    if (p.operation == Operation::kReduce) {
        auto &args = args_.emplace<attile_reduce_args>();
        attile_reduce_init(&args, sizeof args);
        args.x = tensor(p.dtype, {p.rows, p.columns}, layout, true);
        args.y = tensor(out, {axis == 0 ? 1 : p.rows, axis == 0 ? p.columns : 1}, Layout::kDense, false);
        args.op = p.has("sum")   ? ATTILE_REDUCE_SUM
                  : p.has("max") ? ATTILE_REDUCE_MAX
                  : p.has("min") ? ATTILE_REDUCE_MIN
                                 : ATTILE_REDUCE_MEAN;
        args.axis = axis;
        return;
    }
    auto &args = args_.emplace<attile_softmax_args>();
    attile_softmax_init(&args, sizeof args);
    args.x = tensor(p.dtype, {p.rows, p.columns}, layout, true);
    args.y = tensor(out, {p.rows, p.columns}, layout, false);
    args.axis = axis;
    if (!p.has("in_place")) return;
    first_values_ = args.x.data;
    args.x = args.y;
}

int32_t ProblemCall::query(attile_support &support) const {
    attile_support_init(&support, sizeof support);
    struct Query {
        attile_context *context;
        attile_support *support;
        int32_t operator()(const attile_gemm_args &args) const { return attile_gemm_query(context, &args, support); }
        int32_t operator()(const attile_attention_args &args) const { return attile_attention_query(context, &args, support); }
        int32_t operator()(const attile_attention_backward_args &args) const {
            return attile_attention_backward_query(context, &args, support);
        }
        int32_t operator()(const attile_attention_merge_args &args) const { return attile_attention_merge_query(context, &args, support); }
        int32_t operator()(const attile_reduce_args &args) const { return attile_reduce_query(context, &args, support); }
        int32_t operator()(const attile_softmax_args &args) const { return attile_softmax_query(context, &args, support); }
    };
    return std::visit(Query{context_, &support}, args_);
}

void ProblemCall::prepare() {
    if (problem_.operation == Operation::kAttentionBackward) check(attile_attention(context_, &forward_));
    if (first_values_ == nullptr) return;
    const attile_tensor &x = std::get<attile_softmax_args>(args_).x;
    check(attile_copy(context_, x.data, first_values_, ((x.shape[0] - 1) * x.stride[0] + x.shape[1]) * element_bytes(x.dtype), nullptr));
}

int32_t ProblemCall::run() const {
    struct Run {
        attile_context *context;
        int32_t operator()(const attile_gemm_args &args) const { return attile_gemm(context, &args); }
        int32_t operator()(const attile_attention_args &args) const { return attile_attention(context, &args); }
        int32_t operator()(const attile_attention_backward_args &args) const { return attile_attention_backward(context, &args); }
        int32_t operator()(const attile_attention_merge_args &args) const { return attile_attention_merge(context, &args); }
        int32_t operator()(const attile_reduce_args &args) const { return attile_reduce(context, &args); }
        int32_t operator()(const attile_softmax_args &args) const { return attile_softmax(context, &args); }
    };
    return std::visit(Run{context_}, args_);
}

}  // namespace attile::cli
