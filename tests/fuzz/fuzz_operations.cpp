// SPDX-License-Identifier: Apache-2.0
#include "fuzz_operations.h"

#include <algorithm>
#include <cmath>

namespace attile_test {
namespace {

double product(std::initializer_list<int64_t> factors) {
    double all = 1;
    for (const int64_t factor : factors) all *= static_cast<double>(std::max<int64_t>(factor, 1));
    return all;
}

// Numbers that lengths, offsets and pages may be, in place of the slot's bytes.
void give_lengths(Call *call, const attile_tensor &lengths) {
    if (lengths.dtype != ATTILE_I32 || place_of(lengths) != Place::kInside || lengths.data == nullptr || lengths.rank < 1) return;
    if (reinterpret_cast<uintptr_t>(lengths.data) % 4 != 0) return;
    const int64_t rows = lengths.rank == 2 ? lengths.shape[0] : 1, columns = lengths.rank == 2 ? lengths.shape[1] : lengths.shape[0];
    if (lengths.rank > 2) return;
    auto *values = static_cast<int32_t *>(lengths.data);
    int32_t sum = 0;
    const bool rising = call->input.rarely(2);
    for (int64_t i = 0; i < std::min<int64_t>(rows, 8); ++i)
        for (int64_t j = 0; j < std::min<int64_t>(columns, 8); ++j) {
            const int32_t value = call->input.rarely(8) ? call->input.raw<int32_t>() : static_cast<int32_t>(call->input.below(6));
            sum = static_cast<int32_t>(static_cast<uint32_t>(sum) + static_cast<uint32_t>(value));
            values[i * lengths.stride[0] + j * (lengths.rank == 2 ? lengths.stride[1] : lengths.stride[0])] = rising ? sum : value;
        }
}

// Whether starts of sequences never go back. Anything that is no such list counts as one that does.
bool is_rising(const attile_tensor &starts) {
    if (starts.dtype == 0) return true;
    if (starts.dtype != ATTILE_I32 || starts.rank != 1 || place_of(starts) != Place::kInside) return false;
    const auto *values = static_cast<const unsigned char *>(starts.data);
    int32_t before = INT32_MIN;
    for (int64_t i = 0; i < starts.shape[0]; ++i) {
        int32_t value = 0;
        std::memcpy(&value, values + i * starts.stride[0] * 4, sizeof value);
        if (value < before) return false;
        before = value;
    }
    return true;
}

// Draws the arguments; gives back about how many multiply-adds and visits they ask for.
double make_attention(Call *call, attile_attention_args *args) {
    attile_attention_init(args, sizeof *args);
    call->head(args);
    FuzzInput &input = call->input;
    const int64_t batch = call->extent(), heads_kv = call->extent(), heads_q = heads_kv * (1 + input.below(4)), d = call->extent(),
                  dv = input.rarely(4) ? call->extent() : d;
    int64_t len_q = call->extent(), len_k = call->extent();
    const bool packed = input.rarely(4), paged = input.rarely(4);
    const bool packed_keys = packed && !paged && !input.rarely(3);
    const int64_t rows = packed ? 1 : batch, keys = paged ? call->extent() : packed_keys ? 1 : batch;
    constexpr int32_t stored[] = {ATTILE_I8, ATTILE_F8_E4M3, ATTILE_F8_E5M2, ATTILE_F16, ATTILE_BF16};
    const int32_t narrow = input.rarely(8) ? stored[input.below(3)] : 0;
    args->q = call->tensor({rows, heads_q, len_q, d}, narrow);
    if (narrow != 0 && input.rarely(2)) args->q_scale = call->maybe({heads_q, len_q, input.rarely(2) ? 1 : d}, ATTILE_F32);
    const auto cache = [&](int64_t width, attile_tensor *scale) {
        if (!input.rarely(6)) return call->tensor({keys, heads_kv, len_k, width});
        if (input.rarely(2)) *scale = call->maybe({heads_kv, len_k, input.rarely(2) ? 1 : width}, ATTILE_F32);
        return call->tensor({keys, heads_kv, len_k, width}, stored[input.below(5)]);
    };
    args->k = cache(d, &args->k_scale);
    args->v = cache(dv, &args->v_scale);
    args->o = call->tensor({rows, heads_q, len_q, dv});
    args->lse = call->maybe({rows, heads_q, len_q}, call->wide());
    if (packed) args->cu_len_q = call->tensor({batch + 1}, ATTILE_I32);
    if (packed_keys) args->cu_len_k = call->tensor({batch + 1}, ATTILE_I32);
    const auto most = [&] { return input.rarely(4) ? call->any_number() : call->extent(); };
    if (packed && input.rarely(3)) args->max_len_q = len_q = most();
    if (packed_keys && input.rarely(3)) args->max_len_k = len_k = most();
    if (paged) {
        const int64_t pages = call->extent();
        args->block_table = call->tensor({batch, pages}, ATTILE_I32);
        len_k *= pages;
    }
    if (paged || input.rarely(3)) args->key_lengths = call->tensor({batch}, ATTILE_I32);
    if (input.rarely(4)) args->key_starts = call->tensor({batch}, ATTILE_I32);
    args->scale = call->scalar();
    args->softcap = input.rarely(3) ? std::fabs(call->scalar()) : input.rarely(32) ? call->scalar() : 0.0;
    args->mask = call->choice(5);
    if (args->mask >= ATTILE_MASK_WINDOW_TOP_LEFT || input.rarely(64)) {
        args->window_left = input.rarely(8) ? call->any_number() : input.below(6) - 1;
        args->window_right = input.rarely(8) ? call->any_number() : input.below(6) - 1;
    }
    if (input.rarely(args->mask == ATTILE_MASK_NONE ? 16 : 4)) args->causal_offset = call->tensor({batch}, ATTILE_I32);
    args->bias = input.rarely(3) ? call->maybe({batch, heads_q, 1, len_k}) : call->maybe({len_q, len_k});
    args->allowed = call->maybe({heads_q, len_q, 1}, ATTILE_BOOL);
    const auto blocks = [](int64_t length) { return length / ATTILE_MASK_BLOCK + (length % ATTILE_MASK_BLOCK != 0); };
    if (input.rarely(4)) args->block_mask = call->maybe({heads_q, blocks(len_q), blocks(len_k)}, ATTILE_BOOL);
    if (input.rarely(4)) args->tree_mask = call->maybe({batch, 1, len_q, call->extent()}, ATTILE_U8);
    args->alibi_slopes = input.rarely(3) ? call->maybe({batch, heads_q}, call->wide()) : call->maybe({heads_q}, call->wide());
    args->sinks = call->maybe({heads_q}, call->wide());
    for (const attile_tensor *lengths :
         {&args->key_lengths, &args->cu_len_q, &args->cu_len_k, &args->block_table, &args->key_starts, &args->causal_offset})
        give_lengths(call, *lengths);
    call->writes_twice = !is_rising(args->cu_len_q);
    const attile_tensor &q = args->q, &k = args->k;
    const bool is_packed = args->cu_len_q.dtype != 0, is_paged = args->block_table.dtype != 0;
    return product({is_packed ? args->cu_len_q.shape[0] : q.shape[0], q.shape[1], q.shape[2], k.shape[2],
                    is_paged ? args->block_table.shape[1] : 1, std::max(q.shape[3], args->v.shape[3])});
}

std::vector<const attile_tensor *> attention_inputs(const attile_attention_args &args) {
    return {&args.q,           &args.k,        &args.v,        &args.bias,        &args.allowed,    &args.alibi_slopes,  &args.sinks,
            &args.key_lengths, &args.cu_len_q, &args.cu_len_k, &args.block_table, &args.key_starts, &args.causal_offset, &args.block_mask,
            &args.tree_mask,   &args.k_scale,  &args.v_scale,  &args.q_scale,     &args.o_scale};
}

// The call in two steps, which must come to the same. Handles that are none are refused before and after.
template <typename Pointers>
int32_t run_prepared(attile_prepared *prepared, int32_t (*run)(attile_prepared *, const Pointers *), const Pointers &pointers) {
    const int32_t status = run(prepared, &pointers);
    attile_prepared_destroy(prepared);
    attile_prepared_destroy(prepared);
    if (status == ATTILE_OK) ATTILE_FUZZ_CHECK(run(prepared, &pointers) == ATTILE_ERROR_INVALID_VALUE);
    return status;
}

int32_t gemm_in_two_steps(attile_context *context, const attile_gemm_args *args) {
    attile_prepared *prepared = nullptr;
    const int32_t status = attile_gemm_prepare(context, args, &prepared);
    ATTILE_FUZZ_CHECK((status == ATTILE_OK) == (prepared != nullptr));
    if (status != ATTILE_OK) return status;
    attile_gemm_pointers at;
    attile_gemm_pointers_init(&at, sizeof at);
    at.stream = args->stream;
    at.workspace = args->workspace;
    at.workspace_bytes = args->workspace_bytes;
    at.a = args->a.data;
    at.b = args->b.data;
    at.c = args->c.data;
    at.d = args->d.data;
    at.bias = args->bias.data;
    return run_prepared(prepared, attile_gemm_run, at);
}

int32_t attention_in_two_steps(attile_context *context, const attile_attention_args *args) {
    attile_prepared *prepared = nullptr;
    const int32_t status = attile_attention_prepare(context, args, &prepared);
    ATTILE_FUZZ_CHECK((status == ATTILE_OK) == (prepared != nullptr));
    if (status != ATTILE_OK) return status;
    attile_attention_pointers at;
    attile_attention_pointers_init(&at, sizeof at);
    at.stream = args->stream;
    at.workspace = args->workspace;
    at.workspace_bytes = args->workspace_bytes;
    at.q = args->q.data;
    at.k = args->k.data;
    at.v = args->v.data;
    at.o = args->o.data;
    at.lse = args->lse.data;
    at.block_table = args->block_table.data;  // The others stay as prepared.
    return run_prepared(prepared, attile_attention_run, at);
}

// Makes numbers of 8 bits of some operands, which take no more memory, and gives them scales.
void quantise(Call *call, attile_gemm_args *args, int64_t m, int64_t n, int64_t k) {
    args->b.dtype = call->narrow_type();
    if (call->input.rarely(2)) {
        args->a.dtype = call->input.rarely(8) ? ATTILE_I8 : args->b.dtype;
        if (args->d.dtype == ATTILE_F32 && call->input.rarely(3)) args->d.dtype = ATTILE_I32;
    }
    const int64_t groups = call->input.rarely(3) ? k / (int64_t{32} << call->input.below(3)) : 1;
    if (call->input.rarely(2)) args->a_scale = call->tensor({call->input.rarely(2) ? m : 1, groups}, ATTILE_F32);
    if (!call->input.rarely(4)) args->b_scale = call->tensor({groups, call->input.rarely(2) ? n : 1}, ATTILE_F32);
}

}  // namespace

void fuzz_gemm(Call *call) {
    attile_gemm_args args;
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
    // A depth that no memory holds, by strides of 0: only asked about.
    if (call->input.rarely(32)) {
        const int64_t depth = call->any_number(), a = std::clamp(args.a.rank, 1, 4) - 1, b = std::clamp(args.b.rank, 2, 4) - 2;
        args.a.shape[a] = args.b.shape[b] = depth;
        args.a.stride[a] = args.b.stride[b] = 0;
    }
    args.alpha = call->scalar();
    args.beta = args.c.dtype != 0 || call->input.rarely() ? call->scalar() : 0.0;
    if (call->input.rarely(3)) args.c = args.d;
    args.bias_axis = call->choice(3);
    if (args.bias_axis != ATTILE_BIAS_NONE) args.bias = call->tensor({args.bias_axis == ATTILE_BIAS_ROWS ? m : n});
    args.activation = call->choice(5);
    if (call->input.rarely(4)) quantise(call, &args, m, n, k);
    if (call->input.rarely(8)) {
        args.d.dtype = call->narrow_type();  // In the same place.
        args.d_scale = call->maybe({call->input.rarely(2) ? m : 1, call->input.rarely(2) ? n : 1}, ATTILE_F32);
    }
    const double depth = static_cast<double>(std::max<int64_t>(args.a.shape[std::clamp(args.a.rank, 1, 4) - 1], 1));
    const auto run = call->input.rarely(3) ? gemm_in_two_steps : attile_gemm;
    call->check(args, attile_gemm_query, run, {&args.a, &args.b, &args.c, &args.bias, &args.a_scale, &args.b_scale, &args.d_scale},
                {&args.d}, product({x, y, m, n}) * depth);
}

void fuzz_attention(Call *call) {
    attile_attention_args args;
    const double work = make_attention(call, &args);
    if (call->input.rarely(8)) {
        args.o.dtype = call->narrow_type();
        args.o_scale = call->maybe({args.o.shape[1], call->input.rarely(2) ? args.o.shape[2] : 1, 1}, ATTILE_F32);
    }
    const auto run = call->input.rarely(3) ? attention_in_two_steps : attile_attention;
    call->check(args, attile_attention_query, run, attention_inputs(args), {&args.o, &args.lse}, work);
}

void fuzz_backward(Call *call) {
    attile_attention_args forward;
    const double work = make_attention(call, &forward);
    if (forward.lse.dtype == 0 && !call->input.rarely()) forward.lse = call->tensor(forward.q.shape, 3, call->wide());
    attile_attention_backward_args args;
    attile_attention_backward_init(&args, sizeof args);
    call->head(&args);
    args.dout = call->like(forward.o);
    args.dq = call->like(forward.q);
    args.dk = call->like(forward.k);
    args.dv = call->like(forward.v);
    if (forward.bias.dtype != 0 && call->input.rarely(2)) args.dbias = call->like(forward.bias);
    if (forward.sinks.dtype != 0 && call->input.rarely(2)) args.dsinks = call->like(forward.sinks);
    if (forward.lse.dtype != 0 && call->input.rarely(3)) args.dlse = call->like(forward.lse);
    args.forward = call->input.rarely(64) ? nullptr : call->place(forward, FuzzMemory::kSlots - 2);
    std::vector<const attile_tensor *> inputs = attention_inputs(forward);
    inputs.insert(inputs.end(), {&forward.o, &forward.lse, &args.dout, &args.dlse});
    call->check(args, attile_attention_backward_query, attile_attention_backward, inputs,
                {&args.dq, &args.dk, &args.dv, &args.dbias, &args.dsinks}, 4 * work);
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
    attile_attention_merge_args args;
    attile_attention_merge_init(&args, sizeof args);
    call->head(&args);
    args.o_parts = o_parts;
    args.lse_parts = lse_parts;
    args.parts = call->input.rarely(32) ? -call->input.below(9) : parts;
    args.o = call->input.rarely(4) ? o_parts[0] : call->tensor({b, h, l, d});
    if (call->input.rarely(4)) args.o = call->tensor({b, h, l, d}, ATTILE_F16);
    args.lse = call->input.rarely(4) ? lse_parts[0] : call->maybe({b, h, l}, call->wide());
    call->check(args, attile_attention_merge_query, attile_attention_merge, inputs, {&args.o, &args.lse}, product({b, h, l, d, parts}));
}

void fuzz_merge_backward(Call *call) {
    constexpr int64_t kMost = 14;  // Four tensors each, and four more: as many as there are slots for.
    const int64_t b = call->extent(), h = call->extent(), l = call->extent(), d = call->extent();
    const int64_t parts = 1 + call->input.below(call->input.rarely(8) ? kMost : 3);
    attile_tensor o_parts[kMost], lse_parts[kMost], do_parts[kMost], dlse_parts[kMost];
    std::vector<const attile_tensor *> inputs, outputs;
    for (int64_t p = 0; p < parts; ++p) {
        o_parts[p] = call->tensor({b, h, l, d});
        lse_parts[p] = call->tensor({b, h, l}, call->wide());
        do_parts[p] = call->tensor({b, h, l, d}, call->input.rarely(4) ? ATTILE_F32 : 0);
        dlse_parts[p] = call->tensor({b, h, l}, call->wide());
        inputs.insert(inputs.end(), {&o_parts[p], &lse_parts[p]});
        outputs.insert(outputs.end(), {&do_parts[p], &dlse_parts[p]});
    }
    attile_attention_merge_args forward;
    attile_attention_merge_init(&forward, sizeof forward);
    forward.o_parts = o_parts;
    forward.lse_parts = lse_parts;
    forward.parts = call->input.rarely(32) ? -call->input.below(9) : parts;
    forward.o = call->input.rarely(16) ? o_parts[0] : call->tensor({b, h, l, d});
    forward.lse = call->input.rarely(16) ? lse_parts[0] : call->tensor({b, h, l}, call->wide());
    attile_attention_merge_backward_args args;
    attile_attention_merge_backward_init(&args, sizeof args);
    call->head(&args);
    args.dout = call->like(forward.o);
    args.dlse = call->maybe({b, h, l}, call->wide());
    args.do_parts = call->input.rarely(64) ? nullptr : do_parts;
    args.dlse_parts = call->input.rarely(64) ? nullptr : dlse_parts;
    args.forward = call->input.rarely(64) ? nullptr : call->place(forward, FuzzMemory::kSlots - 2);
    inputs.insert(inputs.end(), {&forward.o, &forward.lse, &args.dout, &args.dlse});
    call->check(args, attile_attention_merge_backward_query, attile_attention_merge_backward, inputs, outputs,
                product({b, h, l, d, parts}));
}

void fuzz_reduce(Call *call) {
    attile_reduce_args args;
    attile_reduce_init(&args, sizeof args);
    call->head(&args);
    const int64_t shape[4] = {call->extent(), call->extent(), call->extent(), call->extent()};
    const auto rank = static_cast<int32_t>(1 + call->input.below(4));
    args.axis = call->input.rarely() ? call->choice(9) : static_cast<int32_t>(call->input.below(2 * rank)) - rank;
    int64_t kept[4];
    std::copy(shape, shape + 4, kept);
    kept[((args.axis % rank) + rank) % rank] = 1;
    args.x = call->tensor(shape, rank, 0);
    args.y = call->tensor(kept, rank, 0);
    args.op = call->input.rarely(16) ? call->choice(6) : 1 + static_cast<int32_t>(call->input.below(4));
    call->check(args, attile_reduce_query, attile_reduce, {&args.x}, {&args.y});
}

void fuzz_softmax(Call *call) {
    attile_softmax_args args;
    attile_softmax_init(&args, sizeof args);
    call->head(&args);
    const int64_t l = call->extent(), r = call->extent();
    args.axis = call->input.rarely() ? call->choice(9) : static_cast<int32_t>(call->input.below(4)) - 2;
    args.x = call->tensor({l, r});
    args.y = call->input.rarely(3) ? args.x : call->tensor({l, r});
    call->check(args, attile_softmax_query, attile_softmax, {&args.x}, {&args.y});
}

void fuzz_quantize(Call *call) {
    const int64_t x = call->extent(), l = call->extent(), r = call->input.rarely(2) ? 32 * call->extent() : call->extent();
    const auto scales = [call](int64_t extent) {
        return call->input.rarely(2) ? 1 : call->input.rarely(2) ? extent : extent / (int64_t{32} << call->input.below(3));
    };
    attile_quantize_args args;
    attile_quantize_init(&args, sizeof args);
    call->head(&args);
    args.x = call->tensor({x, l, r});
    args.q = call->tensor({x, l, r}, call->narrow_type());
    args.scale = call->maybe({call->input.rarely(2) ? 1 : x, scales(l), scales(r)}, ATTILE_F32);
    args.scale_mode = call->choice(2);
    args.hadamard = call->input.rarely(4) ? 1 << call->input.below(10) : call->choice(1);
    if (args.scale_mode == ATTILE_SCALE_GIVEN && call->input.rarely(2)) {
        attile_dequantize_args back;
        attile_dequantize_init(&back, sizeof back);
        call->head(&back);
        back.q = args.q;
        back.scale = args.scale;
        back.x = args.x;
        back.hadamard = args.hadamard;
        return call->check(back, attile_dequantize_query, attile_dequantize, {&back.q, &back.scale}, {&back.x});
    }
    const attile_tensor none = {};
    const bool given = args.scale_mode == ATTILE_SCALE_GIVEN;
    call->check(args, attile_quantize_query, attile_quantize, {&args.x, given ? &args.scale : &none},
                {&args.q, given ? &none : &args.scale});
}

void fuzz_gemm_grouped(Call *call) {
    attile_gemm_grouped_args args;
    attile_gemm_grouped_init(&args, sizeof args);
    call->head(&args);
    const int64_t groups = call->extent(), m = call->extent(), n = call->extent(), k = call->extent();
    args.a = call->tensor({m, k});
    args.b = call->tensor({call->input.rarely() ? 1 : groups, k, n}, call->input.rarely(4) ? call->narrow_type() : 0);
    if (call->input.rarely(4)) args.b_scale = call->maybe({groups, 1, n}, ATTILE_F32);
    args.c = call->maybe({m, n});
    args.d = call->tensor({m, n});
    args.row_offsets = call->tensor({groups + 1}, ATTILE_I32);
    give_lengths(call, args.row_offsets);
    args.alpha = call->scalar();
    args.beta = args.c.dtype != 0 || call->input.rarely() ? call->scalar() : 0.0;
    if (call->input.rarely(3)) args.c = args.d;
    args.bias = call->maybe({groups, n});
    args.activation = call->choice(5);
    const double depth = static_cast<double>(std::max<int64_t>(args.a.shape[std::clamp(args.a.rank, 1, 4) - 1], 1));
    call->check(args, attile_gemm_grouped_query, attile_gemm_grouped,
                {&args.a, &args.b, &args.c, &args.row_offsets, &args.bias, &args.b_scale}, {&args.d}, product({m, n}) * depth);
}

void fuzz_append(Call *call) {
    FuzzInput &input = call->input;
    const int64_t batch = call->extent(), heads = call->extent(), rows = call->extent(), keys = call->extent();
    const int64_t d = input.rarely(2) ? 2 * call->extent() : call->extent();
    const bool paged = input.rarely(2), appends = !input.rarely(4);
    constexpr int32_t types[] = {ATTILE_I8, ATTILE_F8_E4M3, ATTILE_F8_E5M2, ATTILE_F16, ATTILE_BF16, ATTILE_F32};
    const int32_t type = types[input.below(6)];
    const int64_t outer = paged ? call->extent() : batch, inner = appends ? keys : rows;
    attile_quantize_args args;
    attile_quantize_init(&args, sizeof args);
    call->head(&args);
    args.x = call->tensor({batch, heads, rows, d});
    args.q = call->tensor({appends ? outer : batch, heads, inner, d}, type);
    const int64_t groups = input.rarely(2) ? 1 : d;
    if ((type & 0xff) <= 8 || input.rarely()) args.scale = call->tensor({appends ? outer : batch, heads, inner, groups}, ATTILE_F32);
    if (input.rarely()) args.zero = call->tensor({appends ? outer : batch, heads, inner, groups}, ATTILE_F32);
    args.scale_mode = input.rarely(4) ? call->choice(2) : 0;
    args.append = appends ? 1 : call->choice(1);
    if (input.rarely(2)) {
        const int64_t angles = call->extent(), pairs = std::max<int64_t>(d / 2, 1);
        args.rope_cos = call->tensor({angles, pairs}, ATTILE_F32);
        args.rope_sin = call->tensor({angles, pairs}, ATTILE_F32);
        args.rope_layout = call->choice(2);
        if (input.rarely(3)) args.positions = call->tensor({batch, rows}, input.rarely(2) ? ATTILE_I64 : ATTILE_I32);
        give_lengths(call, args.positions);
    }
    if (appends || input.rarely()) args.key_lengths = call->tensor({batch}, ATTILE_I32);
    if (appends && paged) args.block_table = call->tensor({batch, call->extent()}, ATTILE_I32);
    give_lengths(call, args.key_lengths);
    give_lengths(call, args.block_table);
    call->writes_twice = appends;  // rows of several entries in one page
    const attile_tensor none = {};
    const bool given = args.scale_mode == ATTILE_SCALE_GIVEN;
    call->check(args, attile_quantize_query, attile_quantize,
                {&args.x, given ? &args.scale : &none, given ? &args.zero : &none, &args.rope_cos, &args.rope_sin, &args.positions,
                 &args.key_lengths, &args.block_table},
                {&args.q, given ? &none : &args.scale, given ? &none : &args.zero}, product({batch, heads, rows, d}));
}

void fuzz_repack(Call *call) {
    FuzzInput &input = call->input;
    constexpr struct {
        int32_t format;
        int64_t numbers, bytes;
    } formats[] = {{ATTILE_GGML_Q8_0, 32, 34}, {ATTILE_GGML_Q6_K, 256, 210}};  // those of bytes
    const auto &of = formats[input.below(2)];
    const int64_t rows = call->extent(), blocks = input.rarely(2) ? 1 : call->extent();
    attile_repack_args args;
    attile_repack_init(&args, sizeof args);
    call->head(&args);
    args.format = input.rarely(8) ? call->choice(16) : of.format;
    args.blocks = call->tensor({rows, blocks * of.bytes}, ATTILE_U8);
    args.q = call->tensor({rows, blocks * of.numbers}, ATTILE_I8);
    args.scale = call->tensor({rows, blocks * of.numbers / 32}, ATTILE_F32);
    if (input.rarely()) args.zero = call->tensor({rows, blocks * of.numbers / 32}, ATTILE_F32);
    call->check(args, attile_repack_query, attile_repack, {&args.blocks}, {&args.q, &args.scale, &args.zero},
                product({rows, blocks, of.numbers}));
}

}  // namespace attile_test
