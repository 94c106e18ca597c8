// SPDX-License-Identifier: Apache-2.0
// Every operation with arguments made of the fuzzer's bytes, on the reference backend: tensors are small and lie in one arena, now and
// then any field is anything. Query and run must agree, a failed call writes nothing, a call that works writes its outputs alone.
#include <attile/attile.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "fuzz_input.h"

namespace {

using attile_test::FuzzInput;

constexpr int64_t kArena = 8192;
// Of a tensor that a call is run on, an axis of no extent counted as one: the reference backend is no fast one, and where head sizes are
// zero it still visits every key, and keeps a row of scores.
constexpr int64_t kMostElements = 512;

attile_context *context() {
    static attile_context *const instance = [] {
        attile_context_options options;
        attile_context_options_init(&options, sizeof options);
        options.backend = "reference";
        attile_context *made = nullptr;
        ATTILE_FUZZ_CHECK(attile_context_create(&options, &made) == ATTILE_OK);
        return made;
    }();
    return instance;
}

// Room behind a struct for one of a later version: a struct_size that is too large is still the size of readable memory.
template <typename Args>
struct Padded {
    Args args = {};
    unsigned char tail[8192] = {};
};

// Where a tensor lies in the arena.
enum class Place { kMalformed, kInside, kOutside };

class Call {
  public:
    explicit Call(FuzzInput *bytes) : input(*bytes), arena(fresh_arena()), type_(pick_type()) {}

    // A tensor of about this shape, of the call's type unless another is named.
    attile_tensor tensor(std::initializer_list<int64_t> about, int32_t dtype = 0) {
        attile_tensor made = {};
        made.dtype = dtype != 0 ? dtype : type_;
        made.rank = static_cast<int32_t>(about.size());
        std::copy(about.begin(), about.end(), made.shape);
        if (input.rarely()) made.dtype = input.rarely(4) ? input.raw<int32_t>() : pick_type();
        if (input.rarely(32)) made.rank = static_cast<int32_t>(input.below(7)) - 1;
        if (input.rarely()) made.shape[input.below(4)] = input.rarely(4) ? input.raw<int64_t>() : input.below(5);
        lay_out(&made);
        // Aligned to 8 bytes: to every type there is.
        made.data = arena.data() + 8 * (next_ % (kArena / 8));
        next_ += 24 + input.below(64);
        if (input.rarely()) made.data = arena.data() + input.raw<uint16_t>() % kArena;
        if (input.rarely(64)) made.data = nullptr;
        if (input.rarely(64)) made = {};
        return made;
    }
    attile_tensor maybe(std::initializer_list<int64_t> about, int32_t dtype = 0) {
        return input.rarely(3) ? tensor(about, dtype) : attile_tensor{};
    }

    int64_t extent() { return input.rarely(8) ? input.below(2) * 0 : 1 + input.below(4); }
    double scalar() { return input.rarely() ? input.raw<double>() : static_cast<double>(input.below(9)) / 4.0 - 1.0; }
    int32_t choice(int32_t count) { return input.rarely(32) ? input.raw<int32_t>() : static_cast<int32_t>(input.below(count)); }
    int32_t wide() const { return type_ == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32; }

    template <typename Args>
    void head(Args *args) {
        args->flags = input.rarely(8) ? input.byte() : 0;
        if (input.rarely(64)) args->struct_size = input.rarely(2) ? input.raw<uint16_t>() : args->struct_size + 8 * input.byte();
        if (input.rarely(64)) args->next = args;
        if (input.rarely(8)) {
            args->workspace = arena.data() + input.raw<uint16_t>() % kArena;
            args->workspace_bytes = input.raw<int16_t>();
        }
    }

    FuzzInput &input;
    std::vector<unsigned char> arena;

  private:
    static const std::vector<unsigned char> &fresh_arena() {
        static const std::vector<unsigned char> fresh = [] {
            std::vector<unsigned char> bytes(kArena);
            for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * 37 % 251);
            return bytes;
        }();
        return fresh;
    }

    int32_t pick_type() {
        constexpr int32_t types[] = {ATTILE_F32, ATTILE_F64, ATTILE_F16, ATTILE_BF16, ATTILE_F32, ATTILE_I32, ATTILE_U8, ATTILE_BOOL};
        return types[input.below(8)];
    }

    // Dense, with axes in some order of memory, sometimes padded, reversed, broadcast or anything.
    void lay_out(attile_tensor *made) {
        const int32_t rank = std::clamp(made->rank, 0, 4);
        int64_t stride = 1;
        const int32_t turn = rank > 0 && input.rarely(4) ? static_cast<int32_t>(input.below(rank)) : 0;
        for (int32_t i = rank - 1; i >= 0; --i) {
            const int32_t axis = (i + turn) % rank;
            made->stride[axis] = stride;
            const uint64_t padding = input.rarely() ? 1 : 0;
            stride = static_cast<int64_t>(static_cast<uint64_t>(stride) * static_cast<uint64_t>(made->shape[axis]) + padding);
        }
        if (!input.rarely(8)) return;
        int64_t &any = made->stride[input.below(4)];
        any = input.rarely(4) ? input.raw<int64_t>() : input.below(9) - 4;
    }

    int32_t type_;
    int64_t next_ = 0;
};

Place place_of(const attile_tensor &tensor, const std::vector<unsigned char> &arena) {
    constexpr int32_t types[] = {ATTILE_F32, ATTILE_F64, ATTILE_F16, ATTILE_BF16, ATTILE_I32, ATTILE_U8, ATTILE_BOOL};
    if (std::find(std::begin(types), std::end(types), tensor.dtype) == std::end(types)) return Place::kMalformed;
    if (tensor.rank < 1 || tensor.rank > 4) return Place::kMalformed;
    const int64_t bytes = (tensor.dtype & 0xff) / 8;
    __extension__ using Wide = __int128;
    Wide low = 0, high = bytes, elements = 1;
    bool empty = false;
    for (int32_t i = 0; i < tensor.rank; ++i) {
        if (tensor.shape[i] < 0) return Place::kMalformed;
        empty = empty || tensor.shape[i] == 0;
        const int64_t extent = std::max<int64_t>(tensor.shape[i], 1);
        // Nothing overflows 128 bits: 63 + 64 + 3 bits would, but no axis that large stays inside.
        if (extent > kMostElements) return Place::kOutside;
        elements *= extent;
        const Wide reach = Wide(tensor.stride[i]) * (extent - 1) * bytes;
        (reach < 0 ? low : high) += reach;
    }
    if (elements > kMostElements) return Place::kOutside;
    if (empty) return Place::kInside;
    if (tensor.data == nullptr) return Place::kMalformed;
    const Wide at = Wide(static_cast<unsigned char *>(tensor.data) - arena.data());
    return at + low >= 0 && at + high <= Wide(arena.size()) ? Place::kInside : Place::kOutside;
}

void mark(const attile_tensor &tensor, const std::vector<unsigned char> &arena, std::vector<bool> *written) {
    if (place_of(tensor, arena) != Place::kInside) return;
    const int64_t bytes = (tensor.dtype & 0xff) / 8;
    int64_t count = 1;
    for (int32_t i = 0; i < tensor.rank; ++i) count *= tensor.shape[i];
    for (int64_t index = 0; index < count; ++index) {
        int64_t rest = index, at = static_cast<unsigned char *>(tensor.data) - arena.data();
        for (int32_t i = tensor.rank - 1; i >= 0; --i) {
            at += rest % tensor.shape[i] * tensor.stride[i] * bytes;
            rest /= tensor.shape[i];
        }
        for (int64_t b = 0; b < bytes; ++b) (*written)[static_cast<size_t>(at + b)] = true;
    }
}

// Queries and runs a call, and holds the two against each other.
template <typename Args>
void check_call(Call *call, Args *args, int32_t (*query)(attile_context *, const Args *, attile_support *),
                int32_t (*run)(attile_context *, const Args *), const std::vector<const attile_tensor *> &inputs,
                const std::vector<const attile_tensor *> &outputs) {
    attile_support support;
    attile_support_init(&support, sizeof support);
    const std::vector<unsigned char> before = call->arena;
    const int32_t answer = query(context(), args, &support);
    ATTILE_FUZZ_CHECK(std::strcmp(attile_status_name(answer), "ATTILE_ERROR_UNKNOWN") != 0);
    ATTILE_FUZZ_CHECK(before == call->arena);
    // What lies outside the arena is not ours to read: such a call is only asked about.
    for (const auto *list : {&inputs, &outputs}) {
        for (const attile_tensor *tensor : *list) {
            if (place_of(*tensor, call->arena) == Place::kOutside) return;
        }
    }
    const auto *workspace = static_cast<unsigned char *>(args->workspace);
    const int64_t behind = workspace != nullptr ? kArena - (workspace - call->arena.data()) : 0;
    if (args->workspace_bytes > behind) args->workspace_bytes = behind;
    const int32_t status = run(context(), args);
    const bool reads_memory_matters = status == ATTILE_ERROR_NULL_ARGUMENT || status == ATTILE_ERROR_WORKSPACE_TOO_SMALL ||
                                      status == ATTILE_ERROR_ALIASING;  // of NULL data or a workspace, which queries do not look at
    if (answer != ATTILE_OK) {
        ATTILE_FUZZ_CHECK(status == answer || reads_memory_matters);
    } else if (support.level == ATTILE_SUPPORT_NONE) {
        ATTILE_FUZZ_CHECK(status == support.status || reads_memory_matters);
    } else {
        ATTILE_FUZZ_CHECK(status == ATTILE_OK || reads_memory_matters);
    }
    if (before == call->arena) return;
    ATTILE_FUZZ_CHECK(status == ATTILE_OK);
    std::vector<bool> may_change(call->arena.size());
    for (const attile_tensor *tensor : outputs) mark(*tensor, call->arena, &may_change);
    for (int64_t i = 0; i < args->workspace_bytes; ++i) may_change[static_cast<size_t>(kArena - behind + i)] = true;
    for (size_t i = 0; i < before.size(); ++i) ATTILE_FUZZ_CHECK(may_change[i] || before[i] == call->arena[i]);
}

void fuzz_gemm(Call *call) {
    Padded<attile_gemm_args> padded;
    attile_gemm_args &args = padded.args;
    attile_gemm_init(&args, sizeof args);
    call->head(&args);
    const int64_t x = call->extent(), y = call->extent(), m = call->extent(), n = call->extent(), k = call->extent();
    switch (call->input.below(3)) {
        case 0:
            args.a = call->tensor({m, k});
            args.b = call->tensor({k, n});
            args.c = call->maybe({m, n});
            args.d = call->tensor({m, n});
            break;
        case 1:
            args.a = call->tensor({y, m, k});
            args.b = call->tensor({1, k, n});
            args.c = call->maybe({m, n});
            args.d = call->tensor({y, m, n});
            break;
        default:
            args.a = call->tensor({m, k});
            args.b = call->tensor({x, y, k, n});
            args.c = call->maybe({y, m, n});
            args.d = call->tensor({x, y, m, n});
            break;
    }
    args.alpha = call->scalar();
    args.beta = call->scalar();
    if (call->input.rarely(3)) args.c = args.d;
    args.bias_axis = call->choice(3);
    if (args.bias_axis != ATTILE_BIAS_NONE) args.bias = call->tensor({args.bias_axis == ATTILE_BIAS_ROWS ? m : n});
    args.activation = call->choice(5);
    check_call(call, &args, attile_gemm_query, attile_gemm, {&args.a, &args.b, &args.c, &args.bias}, {&args.d});
}

void make_attention(Call *call, attile_attention_args *args) {
    attile_attention_init(args, sizeof *args);
    call->head(args);
    FuzzInput &input = call->input;
    const int64_t batch = call->extent(), heads_kv = call->extent(), heads_q = heads_kv * call->extent(), d = call->extent(),
                  dv = call->extent();
    int64_t len_q = call->extent(), len_k = call->extent();
    const bool packed = input.rarely(4), paged = input.rarely(4);
    const int64_t rows = packed ? 1 : batch, keys = paged ? call->extent() : packed ? 1 : batch;
    args->q = call->tensor({rows, heads_q, len_q, d});
    args->k = call->tensor({keys, heads_kv, len_k, d});
    args->v = call->tensor({keys, heads_kv, len_k, dv});
    args->o = call->tensor({rows, heads_q, len_q, dv});
    args->lse = call->maybe({rows, heads_q, len_q}, call->wide());
    if (packed) args->cu_len_q = call->tensor({batch + 1}, ATTILE_I32);
    if (packed && !paged) args->cu_len_k = call->tensor({batch + 1}, ATTILE_I32);
    if (packed && input.rarely(3)) args->max_len_q = len_q = call->extent();
    if (packed && !paged && input.rarely(3)) args->max_len_k = len_k = call->extent();
    if (paged) {
        const int64_t pages = call->extent();
        args->block_table = call->tensor({batch, pages}, ATTILE_I32);
        len_k *= pages;
    }
    if (paged || input.rarely(3)) args->key_lengths = call->tensor({batch}, ATTILE_I32);
    args->scale = call->scalar();
    args->softcap = input.rarely(3) ? call->scalar() : 0.0;
    args->mask = call->choice(5);
    if (args->mask >= ATTILE_MASK_WINDOW_TOP_LEFT) {
        args->window_left = input.rarely() ? input.raw<int64_t>() : input.below(6) - 1;
        args->window_right = input.rarely() ? input.raw<int64_t>() : input.below(6) - 1;
    }
    args->bias = input.rarely(3) ? call->maybe({batch, heads_q, 1, len_k}) : call->maybe({len_q, len_k});
    args->allowed = call->maybe({heads_q, len_q, 1}, ATTILE_BOOL);
    args->alibi_slopes = input.rarely(3) ? call->maybe({batch, heads_q}, call->wide()) : call->maybe({heads_q}, call->wide());
    args->sinks = call->maybe({heads_q}, call->wide());
    // The arena holds no lengths worth the name; give it some.
    for (const attile_tensor *lengths : {&args->key_lengths, &args->cu_len_q, &args->cu_len_k, &args->block_table}) {
        if (lengths->dtype != ATTILE_I32 || place_of(*lengths, call->arena) != Place::kInside || lengths->rank < 1) continue;
        auto *values = static_cast<unsigned char *>(lengths->data);
        if (values == nullptr) continue;
        for (int32_t i = 0; i < 6 && values + 4 * (i + 1) <= call->arena.data() + kArena; ++i) {
            const int32_t value = input.rarely(8) ? input.raw<int32_t>() : static_cast<int32_t>(input.below(6));
            std::memcpy(values + 4 * i, &value, sizeof value);
        }
    }
}

std::vector<const attile_tensor *> attention_inputs(const attile_attention_args &args) {
    return {&args.q,     &args.k,           &args.v,        &args.bias,     &args.allowed,    &args.alibi_slopes,
            &args.sinks, &args.key_lengths, &args.cu_len_q, &args.cu_len_k, &args.block_table};
}

void fuzz_attention(Call *call) {
    Padded<attile_attention_args> padded;
    attile_attention_args &args = padded.args;
    make_attention(call, &args);
    check_call(call, &args, attile_attention_query, attile_attention, attention_inputs(args), {&args.o, &args.lse});
}

// A dense tensor shaped like another.
attile_tensor like(Call *call, const attile_tensor &other) {
    const int64_t *s = other.shape;
    switch (other.rank) {
        case 1:
            return call->tensor({s[0]});
        case 2:
            return call->tensor({s[0], s[1]});
        case 3:
            return call->tensor({s[0], s[1], s[2]});
        default:
            return call->tensor({s[0], s[1], s[2], s[3]});
    }
}

void fuzz_backward(Call *call) {
    Padded<attile_attention_args> padded_forward;
    attile_attention_args &forward = padded_forward.args;
    make_attention(call, &forward);
    Padded<attile_attention_backward_args> padded;
    attile_attention_backward_args &args = padded.args;
    attile_attention_backward_init(&args, sizeof args);
    call->head(&args);
    args.forward = call->input.rarely(64) ? nullptr : &forward;
    args.dout = like(call, forward.o);
    args.dq = like(call, forward.q);
    args.dk = like(call, forward.k);
    args.dv = like(call, forward.v);
    if (forward.bias.dtype != 0 && call->input.rarely(2)) args.dbias = like(call, forward.bias);
    if (forward.sinks.dtype != 0 && call->input.rarely(2)) args.dsinks = like(call, forward.sinks);
    std::vector<const attile_tensor *> inputs = attention_inputs(forward);
    inputs.insert(inputs.end(), {&forward.o, &forward.lse, &args.dout});
    check_call(call, &args, attile_attention_backward_query, attile_attention_backward, inputs,
               {&args.dq, &args.dk, &args.dv, &args.dbias, &args.dsinks});
}

void fuzz_merge(Call *call) {
    constexpr int64_t kMost = 20;
    const int64_t b = call->extent(), h = call->extent(), l = call->extent(), d = call->extent();
    const int64_t parts = 1 + call->input.below(call->input.rarely(8) ? kMost : 3);
    attile_tensor o_parts[kMost], lse_parts[kMost];
    std::vector<const attile_tensor *> inputs;
    for (int64_t p = 0; p < parts; ++p) {
        o_parts[p] = call->tensor({b, h, l, d});
        lse_parts[p] = call->tensor({b, h, l}, call->wide());
        inputs.insert(inputs.end(), {&o_parts[p], &lse_parts[p]});
    }
    Padded<attile_attention_merge_args> padded;
    attile_attention_merge_args &args = padded.args;
    attile_attention_merge_init(&args, sizeof args);
    call->head(&args);
    args.o_parts = o_parts;
    args.lse_parts = lse_parts;
    args.parts = call->input.rarely(32) ? -call->input.below(9) : parts;
    args.o = call->input.rarely(4) ? o_parts[0] : call->tensor({b, h, l, d});
    args.lse = call->input.rarely(4) ? lse_parts[0] : call->maybe({b, h, l}, call->wide());
    check_call(call, &args, attile_attention_merge_query, attile_attention_merge, inputs, {&args.o, &args.lse});
}

void fuzz_reduce(Call *call) {
    Padded<attile_reduce_args> padded;
    attile_reduce_args &args = padded.args;
    attile_reduce_init(&args, sizeof args);
    call->head(&args);
    const int64_t shape[4] = {call->extent(), call->extent(), call->extent(), call->extent()};
    args.axis = static_cast<int32_t>(call->input.below(9)) - 4;
    int64_t kept[4];
    std::copy(shape, shape + 4, kept);
    kept[(args.axis + 4) % 4] = 1;
    args.x = call->tensor({shape[0], shape[1], shape[2], shape[3]});
    args.y = call->tensor({kept[0], kept[1], kept[2], kept[3]});
    args.op = 1 + call->choice(4) % INT32_MAX;
    check_call(call, &args, attile_reduce_query, attile_reduce, {&args.x}, {&args.y});
}

void fuzz_softmax(Call *call) {
    Padded<attile_softmax_args> padded;
    attile_softmax_args &args = padded.args;
    attile_softmax_init(&args, sizeof args);
    call->head(&args);
    const int64_t l = call->extent(), r = call->extent();
    args.axis = call->choice(2) - (call->input.rarely(2) ? 2 : 0) % 2;
    args.x = call->tensor({l, r});
    args.y = call->input.rarely(3) ? args.x : call->tensor({l, r});
    check_call(call, &args, attile_softmax_query, attile_softmax, {&args.x}, {&args.y});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    FuzzInput input(data, size);
    const int64_t operation = input.below(6);
    Call call(&input);
    switch (operation) {
        case 0:
            fuzz_gemm(&call);
            break;
        case 1:
            fuzz_attention(&call);
            break;
        case 2:
            fuzz_backward(&call);
            break;
        case 3:
            fuzz_merge(&call);
            break;
        case 4:
            fuzz_reduce(&call);
            break;
        default:
            fuzz_softmax(&call);
            break;
    }
    return 0;
}
