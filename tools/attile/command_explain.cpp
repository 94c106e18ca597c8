// SPDX-License-Identifier: Apache-2.0
// attile explain: the roofline of one operation on one device, and how the backend would run it. Computes nothing.
#include <cstdio>

#include "bench_cases.h"
#include "cli.h"
#include "commands.h"
#include "explain_facts.h"
#include "ring_facts.h"
#include "table.h"

namespace attile::cli {
namespace {

using bench::BenchCase;
using bench::Size;

// The program has compared the names with those that the option takes.
int32_t dtype_of(const std::string &name) {
    for (int32_t dtype : {ATTILE_F32, ATTILE_F64, ATTILE_F16, ATTILE_BF16, ATTILE_I8, ATTILE_I4, ATTILE_U4, ATTILE_F8_E4M3, ATTILE_F8_E5M2})
        if (bench::dtype_name(dtype) == name) return dtype;
    throw Failure("'" + name + "' is not a data type");
}

void expect_extents(const ExplainOptions &options, size_t count, const char *names) {
    if (options.shape.size() != count)
        throw Failure(text("%s takes %lld extents, %s; here are %lld", options.operation.c_str(), static_cast<long long>(count), names,
                           static_cast<long long>(options.shape.size())));
    for (int64_t extent : options.shape)
        if (extent < 0) throw Failure(text("an extent cannot be negative: %lld", static_cast<long long>(extent)));
}

BenchCase describe(const ExplainOptions &options) {
    const int32_t dtype = dtype_of(options.dtype);
    const std::vector<int64_t> &shape = options.shape;
    const int32_t mask = options.causal ? ATTILE_MASK_CAUSAL_BOTTOM_RIGHT : ATTILE_MASK_NONE;
    if (options.operation == "gemm") {
        expect_extents(options, 3, "M N K");
        if (!options.b_dtype.empty()) {
            BenchCase result =
                bench::quantised_case(Size::kMedium, dtype, dtype_of(options.b_dtype), shape[0], shape[1], shape[2], shape[2]);
            result.batch = options.batch;
            result.fast = options.fast;
            return result;
        }
        return bench::gemm_case(Size::kMedium, dtype, shape[0], shape[1], shape[2], options.batch);
    }
    if (options.operation == "gemm_grouped") {
        expect_extents(options, 4, "GROUPS ROWS N K");
        return bench::gemm_grouped_case(Size::kMedium, dtype, shape[0], shape[1], shape[1], shape[2], shape[3]);
    }
    if (options.operation == "attention" || options.operation == "attention_backward") {
        expect_extents(options, 4, "BATCH HEADS LEN HEAD_DIM");
        const int64_t heads_kv = options.heads_kv > 0 ? options.heads_kv : shape[1];
        const int64_t len_k = options.len_k > 0 ? options.len_k : shape[2];
        const int32_t k_dtype = options.k_dtype.empty() ? dtype : dtype_of(options.k_dtype);
        const int32_t v_dtype = options.v_dtype.empty() ? dtype : dtype_of(options.v_dtype);
        BenchCase result =
            bench::cached_case(Size::kMedium, dtype, k_dtype, v_dtype, shape[0], shape[1], heads_kv, shape[2], len_k, shape[3], mask);
        result.fast = options.fast;
        if (options.operation == "attention_backward") result.operation = bench::Operation::kAttentionBackward;
        return result;
    }
    if (options.operation == "attention_merge") {
        expect_extents(options, 5, "BATCH HEADS LEN HEAD_DIM PARTS");
        return bench::attention_merge_case(Size::kMedium, dtype, shape[0], shape[1], shape[2], shape[3], shape[4]);
    }
    expect_extents(options, 2, "ROWS COLUMNS");
    if (options.operation == "reduce") return bench::reduce_case(Size::kMedium, dtype, shape[0], shape[1], false);
    return bench::softmax_case(Size::kMedium, dtype, shape[0], shape[1]);
}

std::string shape_text(const ExplainOptions &options, const BenchCase &one) {
    const auto number = [](int64_t value) { return std::to_string(value); };
    switch (one.operation) {
        case bench::Operation::kGemm:
            return (one.batch > 1 ? number(one.batch) + " times " : "") + "M = " + number(one.m) + ", N = " + number(one.n) +
                   ", K = " + number(one.k);
        case bench::Operation::kGemmGrouped:
            return number(one.groups) + " groups of " + number(one.most_rows) + " rows, N = " + number(one.n) + ", K = " + number(one.k);
        case bench::Operation::kAttention:
        case bench::Operation::kAttentionBackward:
            return "batch " + number(one.batch) + ", heads " + number(one.heads_q) +
                   (one.heads_kv != one.heads_q ? " over " + number(one.heads_kv) + " key heads" : "") + ", rows " + number(one.len_q) +
                   ", keys " + number(one.len_k) + ", head dim " + number(one.head_dim) + (options.causal ? ", causal" : "");
        case bench::Operation::kAttentionMerge:
            return number(one.parts) + " parts of batch " + number(one.batch) + ", heads " + number(one.heads_q) + ", rows " +
                   number(one.len_q) + ", head dim " + number(one.head_dim);
        default:
            return number(one.rows) + " rows of " + number(one.columns);
    }
}

// Behind the type.
std::string types_text(const ExplainOptions &options) {
    if (!options.b_dtype.empty()) return " times " + options.b_dtype;
    if (options.k_dtype.empty() && options.v_dtype.empty()) return "";
    const auto type = [&](const std::string &own) { return own.empty() ? options.dtype : own; };
    return ", k " + type(options.k_dtype) + ", v " + type(options.v_dtype);
}

bool is_float8(const std::string &type) { return type == "e4m3" || type == "e5m2"; }
bool is_narrow(const std::string &type) { return type == "i8" || is_float8(type); }

bool may_be_exact(const ExplainOptions &options) {
    if (options.operation == "reduce" || options.operation == "softmax" || options.operation == "attention_merge") return true;
    const bool is_of_one_type = options.b_dtype.empty() && options.k_dtype.empty() && options.v_dtype.empty();
    return (options.operation == "gemm" || options.operation == "attention") && is_of_one_type;
}

bool may_be_fast(const ExplainOptions &options) {
    if (options.operation != "attention") return is_float8(options.dtype) && is_float8(options.b_dtype);
    const auto is_like_q = [&](const std::string &own) { return own.empty() || own == options.dtype; };
    return (options.dtype == "e4m3" || options.dtype == "i8") && is_like_q(options.k_dtype) && is_like_q(options.v_dtype);
}

// Of attention over ranks.
void expect_ring(const ExplainOptions &options, const BenchCase &one, const Roofs &roofs) {
    const bool goes = one.operation == bench::Operation::kAttention || one.operation == bench::Operation::kAttentionBackward;
    if (!goes) throw Failure(text("--ranks is for attention and attention_backward; the operation is %s", options.operation.c_str()));
    if (!options.k_dtype.empty() || !options.v_dtype.empty()) throw Failure("--ranks takes q, k and v of one type");
    if (is_narrow(options.dtype)) throw Failure("--ranks takes no numbers of 8 bits");
    if (options.causal && one.len_k != one.len_q)
        throw Failure(text("--ranks with --causal takes as many keys as rows; --len-k is %lld", static_cast<long long>(one.len_k)));
    if (!(roofs.peak_flops > 0))
        throw Failure("--ranks needs the device's peak, which this backend does not know; --device-peak-flops gives one");
}

}  // namespace

int run_explain(const ExplainOptions &options) {
    if (!options.b_dtype.empty() && options.operation != "gemm")
        throw Failure(text("--b-dtype is for gemm; the operation is %s", options.operation.c_str()));
    for (const auto &[name, type] : {std::pair("--k-dtype", &options.k_dtype), std::pair("--v-dtype", &options.v_dtype)})
        if (!type->empty() && options.operation != "attention")
            throw Failure(text("%s is for attention; the operation is %s", name, options.operation.c_str()));
    if (options.exact && !may_be_exact(options))
        throw Failure("--exact is for gemm and attention of f64 and f32, reduce, softmax and attention_merge");
    const bool is_attention = options.operation == "attention";
    if (options.b_dtype.empty() && is_narrow(options.dtype) && !is_attention)
        throw Failure(text("--dtype %s is for attention, and for gemm with --b-dtype", options.dtype.c_str()));
    if (options.fast && !may_be_fast(options)) throw Failure("--fast is for gemm of 8-bit floats both, and for attention of e4m3 or i8");
    BenchCase one = describe(options);
    one.exact = options.exact;
    const Context context(options.backend, options.threads);
    bench::BenchRun run(context, one);
    attile_support support;
    check(run.query(support));

    Facts head;
    head.add("operation", options.operation + ", " + options.dtype + types_text(options) + (options.exact ? ", exact" : "") +
                              (options.fast ? ", fast accumulation" : ""));
    head.add("shape", shape_text(options, one));
    head.add("backend", context.description());
    std::printf("%s\n", head.str().c_str());
    if (support.level == ATTILE_SUPPORT_NONE) {
        std::fflush(stdout);
        throw Failure(text("this backend cannot run it: %s", support.text));
    }
    const Roofs roofs = roofs_of(options.peak_flops, options.bandwidth, &context.info(), one.dtype);
    if (options.ranks > 0) expect_ring(options, one, roofs);
    std::printf("%s\n%s", roof_facts(support, roofs).c_str(), kernel_facts(support, roofs).c_str());
    for (const std::string &part : {reads_facts(support, one, roofs), occupancy_facts(support, context.info())})
        if (!part.empty()) std::printf("\n%s", part.c_str());
    if (options.ranks > 0) std::printf("\n%s", ring_facts(one, support.flops, options.ranks, options.link, roofs.peak_flops).c_str());
    return 0;
}

}  // namespace attile::cli
