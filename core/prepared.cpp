// SPDX-License-Identifier: Apache-2.0
// Prepared calls: what was validated and planned once is launched with operands elsewhere. What a few comparisons do not show to be right
// goes the way of an ordinary call, which finds out what is wrong with it, if anything is.
#include <algorithm>
#include <cstring>
#include <iterator>

#include "attention_problem.h"
#include "fork.h"
#include "gemm_problem.h"
#include "handle_table.h"
#include "process.h"

namespace attile::core {
namespace {

constexpr uint32_t kGemmPointersFirstSize = ATTILE_SIZE_UP_TO(attile_gemm_pointers, bias);
constexpr uint32_t kAttentionPointersFirstSize = ATTILE_SIZE_UP_TO(attile_attention_pointers, block_table);

// One operand: in the arguments, in the problem, and in the pointers of a launch.
template <typename Args, typename Problem, typename Pointers>
struct Row {
    const char *name;
    attile_tensor Args::*tensor;
    attile_operand Problem::*operand;
    void *Pointers::*pointer;
    bool is_output = false;
};

struct Gemm {
    using Args = attile_gemm_args;
    using Problem = attile_gemm_problem;
    using Pointers = attile_gemm_pointers;
    static constexpr const char *kPrepare = "gemm_prepare", *kRun = "gemm_run";
    static constexpr uint32_t kFirstSize = kGemmPointersFirstSize;
    static constexpr Row<Args, Problem, Pointers> kRows[] = {{"a", &Args::a, &Problem::a, &Pointers::a},
                                                             {"b", &Args::b, &Problem::b, &Pointers::b},
                                                             {"c", &Args::c, &Problem::c, &Pointers::c},
                                                             {"d", &Args::d, &Problem::d, &Pointers::d, true},
                                                             {"bias", &Args::bias, &Problem::bias, &Pointers::bias},
                                                             {"a_scale", &Args::a_scale, &Problem::a_scale, &Pointers::a_scale},
                                                             {"b_scale", &Args::b_scale, &Problem::b_scale, &Pointers::b_scale},
                                                             {"b_zero", &Args::b_zero, &Problem::b_zero, &Pointers::b_zero},
                                                             {"d_scale", &Args::d_scale, &Problem::d_scale, &Pointers::d_scale}};
    static const attile_gemm_interface *interface(const Context &context) { return context.interfaces.gemm; }
    static int32_t call(attile_context *context, const Args &args) { return attile_gemm(context, &args); }
    static int32_t read(const Call &call, const Args *args, Args *full, Problem *problem, bool *nothing_to_do) {
        GemmProblem gemm;
        ATTILE_TRY(read_gemm(call, args, full, &gemm));
        *problem = gemm.problem;
        *nothing_to_do = gemm.nothing_to_do;
        return ATTILE_OK;
    }
};

struct Attention {
    using Args = attile_attention_args;
    using Problem = attile_attention_problem;
    using Pointers = attile_attention_pointers;
    static constexpr const char *kPrepare = "attention_prepare", *kRun = "attention_run";
    static constexpr uint32_t kFirstSize = kAttentionPointersFirstSize;
    static constexpr Row<Args, Problem, Pointers> kRows[] = {
        {"q", &Args::q, &Problem::q, &Pointers::q},
        {"k", &Args::k, &Problem::k, &Pointers::k},
        {"v", &Args::v, &Problem::v, &Pointers::v},
        {"o", &Args::o, &Problem::o, &Pointers::o, true},
        {"lse", &Args::lse, &Problem::lse, &Pointers::lse, true},
        {"bias", &Args::bias, &Problem::bias, &Pointers::bias},
        {"allowed", &Args::allowed, &Problem::allowed, &Pointers::allowed},
        {"alibi_slopes", &Args::alibi_slopes, &Problem::alibi_slopes, &Pointers::alibi_slopes},
        {"sinks", &Args::sinks, &Problem::sinks, &Pointers::sinks},
        {"key_lengths", &Args::key_lengths, &Problem::key_lengths, &Pointers::key_lengths},
        {"cu_len_q", &Args::cu_len_q, &Problem::cu_len_q, &Pointers::cu_len_q},
        {"cu_len_k", &Args::cu_len_k, &Problem::cu_len_k, &Pointers::cu_len_k},
        {"block_table", &Args::block_table, &Problem::block_table, &Pointers::block_table},
        {"key_starts", &Args::key_starts, &Problem::key_starts, &Pointers::key_starts},
        {"causal_offset", &Args::causal_offset, &Problem::causal_offset, &Pointers::causal_offset},
        {"block_mask", &Args::block_mask, &Problem::block_mask, &Pointers::block_mask},
        {"tree_mask", &Args::tree_mask, &Problem::tree_mask, &Pointers::tree_mask},
        {"k_scale", &Args::k_scale, &Problem::k_scale, &Pointers::k_scale},
        {"v_scale", &Args::v_scale, &Problem::v_scale, &Pointers::v_scale},
        {"q_scale", &Args::q_scale, &Problem::q_scale, &Pointers::q_scale},
        {"o_scale", &Args::o_scale, &Problem::o_scale, &Pointers::o_scale}};
    static const attile_attention_interface *interface(const Context &context) { return context.interfaces.attention; }
    static int32_t call(attile_context *context, const Args &args) { return attile_attention(context, &args); }
    static int32_t read(const Call &call, const Args *args, Args *full, Problem *problem, bool *nothing_to_do) {
        return read_attention(call, args, full, problem, nothing_to_do);
    }
};

template <typename Operation>
inline constexpr std::size_t kOperands = std::size(Operation::kRows);

// The bytes of an operand around its first element, and what its address must be a multiple of. Without bytes: it is not looked at.
struct Span {
    uintptr_t below = 0, above = 0, alignment = 1;
};

template <typename Operation>
struct PreparedCall {
    typename Operation::Args args;
    typename Operation::Problem problem;
    bool nothing_to_do;
    int64_t workspace_bytes;  // That the backend wants, of operands aligned as these.
    Span span[kOperands<Operation>];
};

struct Prepared : Handled<Prepared> {
    attile_context *context = nullptr;
    uint64_t process = 0;  // process_generation() when it was prepared
    bool is_gemm = false;
    PreparedCall<Gemm> gemm = {};  // One of them is it.
    PreparedCall<Attention> attention = {};
};

constinit HandleTable<Prepared, 0x6170> prepared_table;

template <typename Operation>
PreparedCall<Operation> &call_of(Prepared &prepared) {
    if constexpr (std::is_same_v<Operation, Gemm>) {
        return prepared.gemm;
    } else {
        return prepared.attention;
    }
}

uint64_t number_of(const attile_prepared *handle) { return reinterpret_cast<uint64_t>(handle); }

[[gnu::noinline, gnu::cold]] int32_t refuse_handle(const char *operation, attile_prepared *handle) {
    if (handle == nullptr) return fail(ATTILE_ERROR_NULL_ARGUMENT, "%s: prepared is NULL", operation);
    return fail(
        ATTILE_ERROR_INVALID_VALUE,
        prepared_table.was_live(number_of(handle)) ? "%s: the prepared call %p was destroyed" : "%s: prepared is not a prepared call: %p",
        operation, static_cast<void *>(handle));
}

// Of a tensor that passed its checks.
Span span_of(const attile_tensor &tensor) {
    constexpr uintptr_t kMostAlignment = 16;
    Span span;
    int64_t below = 0, above = 0;
    if (is_empty(tensor) || !measure_tensor(tensor, &below, &above)) return {};
    span.below = static_cast<uintptr_t>(below);
    span.above = static_cast<uintptr_t>(above);
    const uintptr_t address = reinterpret_cast<uintptr_t>(tensor.data);
    span.alignment = std::min(address & (0 - address), kMostAlignment);
    return span;
}

template <typename Operation>
int32_t prepare(const Call &call, Context *context, attile_context *handle, const typename Operation::Args *args,
                attile_prepared **prepared) {
    PreparedCall<Operation> made;
    ATTILE_TRY(Operation::read(call, args, &made.args, &made.problem, &made.nothing_to_do));
    const auto *const interface = Operation::interface(*context);
    ATTILE_TRY(check_version(call, context, interface, made.problem));  // first, as calls and queries do
    if (!is_implemented(interface)) return fail_unsupported_operation(call, context);
    made.workspace_bytes = 0;
    if (!made.nothing_to_do) {
        attile_support support;
        ATTILE_TRY(ask_backend(call, context, interface, made.problem, &support));
        if (support.level == ATTILE_SUPPORT_NONE) return fail(support.status, "%s", support.text);
        made.workspace_bytes = support.workspace_bytes;
    }
    const attile_launch &launch = made.problem.launch;
    if (launch.workspace != nullptr && launch.workspace_bytes < made.workspace_bytes)
        return fail_workspace(call, launch, made.workspace_bytes);
    for (std::size_t i = 0; i < kOperands<Operation>; ++i) {
        const auto &row = Operation::kRows[i];
        made.span[i] = (made.problem.*row.operand).dtype != 0 ? span_of(made.args.*row.tensor) : Span();
    }
    Prepared *const entry = prepared_table.take(locks.contexts);
    if (entry == nullptr) return fail(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "%s: 65536 prepared calls are alive", call.operation);
    entry->context = handle;
    entry->process = process_generation();
    entry->is_gemm = std::is_same_v<Operation, Gemm>;
    call_of<Operation>(*entry) = made;
    *prepared = reinterpret_cast<attile_prepared *>(prepared_table.publish(entry));
    return ATTILE_OK;
}

template <typename Operation>
int32_t prepare_call(attile_context *handle, const typename Operation::Args *args, attile_prepared **prepared) {
    const Call call = {Operation::kPrepare};
    if (prepared == nullptr) return guarded([&] { return fail(ATTILE_ERROR_NULL_ARGUMENT, "%s: prepared is NULL", call.operation); });
    *prepared = nullptr;
    return on_context(handle, [&](Context *context) { return prepare<Operation>(call, context, handle, args, prepared); });
}

// Puts the operands where the launch has them. `is_plain`: nothing overlaps, and all are aligned as the prepared ones.
template <typename Operation>
int32_t place_operands(const Call &call, const PreparedCall<Operation> &prepared, const typename Operation::Pointers &given,
                       typename Operation::Problem *problem, bool *is_plain) {
    constexpr uintptr_t kLikeAlignment = 64;
    struct Range {
        uintptr_t low, high;
    } range[kOperands<Operation> + 1];
    *is_plain = true;
    for (std::size_t i = 0; i < kOperands<Operation>; ++i) {
        const auto &row = Operation::kRows[i];
        const Span &span = prepared.span[i];
        void *const data = given.*row.pointer;
        attile_operand &operand = problem->*row.operand;
        range[i] = {0, 0};
        if (span.above == 0) {
            if (data == nullptr || !is_absent(prepared.args.*row.tensor)) continue;
            return fail(ATTILE_ERROR_INVALID_VALUE, "%s: %s is given, but the prepared call has none", call.operation, row.name);
        }
        const uintptr_t before = reinterpret_cast<uintptr_t>(operand.data);
        if (data != nullptr) operand.data = data;
        const uintptr_t address = reinterpret_cast<uintptr_t>(operand.data);
        if (address % span.alignment != 0) {
            return fail(ATTILE_ERROR_MISALIGNED, "%s: %s is %p; expected a multiple of %d bytes, as it was prepared with", call.operation,
                        row.name, data, static_cast<int>(span.alignment));
        }
        range[i] = {address - span.below, address + span.above};
        *is_plain = *is_plain && address >= span.below && range[i].high > address && (address - before) % kLikeAlignment == 0;
    }
    const attile_launch &launch = problem->launch;
    const uintptr_t workspace = reinterpret_cast<uintptr_t>(launch.workspace);
    range[kOperands<Operation>] = {workspace, workspace + static_cast<uintptr_t>(launch.workspace != nullptr ? launch.workspace_bytes : 0)};
    const auto meets_another = [&](std::size_t i) {
        const auto meets = [&](const Range &other) {
            return &other != &range[i] && range[i].low < other.high && other.low < range[i].high;
        };
        return std::any_of(range, range + kOperands<Operation> + 1, meets);
    };
    for (std::size_t i = 0; i < kOperands<Operation>; ++i)
        if (Operation::kRows[i].is_output && meets_another(i)) *is_plain = false;
    if (launch.workspace != nullptr && meets_another(kOperands<Operation>)) *is_plain = false;
    return ATTILE_OK;
}

template <typename Operation>
int32_t run(const Call &call, const Context *context, attile_context *handle, const PreparedCall<Operation> &prepared,
            const typename Operation::Pointers *pointers) {
    typename Operation::Problem problem = prepared.problem;
    bool is_plain = true;
    typename Operation::Pointers given = {};
    if (pointers != nullptr) {
        ATTILE_TRY(read_args(call.operation, "pointers", Operation::kFirstSize, 0, pointers, &given));
        ATTILE_TRY(make_launch(call, given.stream, given.workspace, given.workspace_bytes, prepared.args.flags, &problem.launch));
        ATTILE_TRY(place_operands(call, prepared, given, &problem, &is_plain));
    }
    if (!is_plain) {
        typename Operation::Args args = prepared.args;
        args.stream = problem.launch.stream;
        args.workspace = problem.launch.workspace;
        args.workspace_bytes = problem.launch.workspace_bytes;
        for (const auto &row : Operation::kRows)
            if (given.*row.pointer != nullptr) (args.*row.tensor).data = given.*row.pointer;
        return Operation::call(handle, args);
    }
    if (prepared.nothing_to_do) return ATTILE_OK;
    const attile_launch &launch = problem.launch;
    const bool is_limited = launch.workspace != nullptr || (launch.flags & ATTILE_FLAG_NO_ALLOC) != 0;
    if (is_limited && launch.workspace_bytes < prepared.workspace_bytes) return fail_workspace(call, launch, prepared.workspace_bytes);
    const auto *const interface = Operation::interface(*context);
    return invoke_backend(call, context, [&] { return interface->run(context->state, &problem); });
}

template <typename Operation>
int32_t run_call(attile_prepared *handle, const typename Operation::Pointers *pointers) {
    return guarded([&]() -> int32_t {
        const Call call = {Operation::kRun};
        Prepared *const prepared = prepared_table.live(number_of(handle));
        if (prepared == nullptr) return refuse_handle(call.operation, handle);
        Context *context = nullptr;
        ATTILE_TRY(find_context(prepared->context, &context));
        if (prepared->is_gemm != std::is_same_v<Operation, Gemm>) {
            return fail(ATTILE_ERROR_INVALID_VALUE, "%s: the prepared call is one of %s", call.operation,
                        prepared->is_gemm ? "gemm" : "attention");
        }
        return run<Operation>(call, context, prepared->context, call_of<Operation>(*prepared), pointers);
    });
}

}  // namespace
}  // namespace attile::core

using namespace attile::core;

extern "C" {

int32_t attile_gemm_prepare(attile_context *context, const attile_gemm_args *args, attile_prepared **prepared) {
    return prepare_call<Gemm>(context, args, prepared);
}

int32_t attile_attention_prepare(attile_context *context, const attile_attention_args *args, attile_prepared **prepared) {
    return prepare_call<Attention>(context, args, prepared);
}

int32_t attile_gemm_run(attile_prepared *prepared, const attile_gemm_pointers *pointers) { return run_call<Gemm>(prepared, pointers); }

int32_t attile_attention_run(attile_prepared *prepared, const attile_attention_pointers *pointers) {
    return run_call<Attention>(prepared, pointers);
}

void attile_prepared_destroy(attile_prepared *handle) {
    (void)guarded([&]() -> int32_t {
        Prepared *const prepared = prepared_table.withdraw(number_of(handle));
        // A forked child leaves it alone, as it does contexts.
        if (prepared != nullptr && prepared->process == process_generation()) prepared_table.give(prepared, locks.contexts);
        return ATTILE_OK;
    });
}

}  // extern "C"
