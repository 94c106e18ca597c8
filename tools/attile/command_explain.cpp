// SPDX-License-Identifier: Apache-2.0
// attile explain: the roofline of one operation on one device, and how the backend would run it. Computes nothing.
#include <algorithm>
#include <cstdio>

#include "bench_cases.h"
#include "cli.h"
#include "commands.h"
#include "table.h"

namespace attile::cli {
namespace {

using bench::BenchCase;
using bench::Size;

int32_t dtype_of(const std::string &name) {
    for (int32_t dtype : {ATTILE_F32, ATTILE_F64, ATTILE_F16, ATTILE_BF16})
        if (bench::dtype_name(dtype) == name) return dtype;
    throw Failure("'" + name + "' is no data type of f32, f64, f16, bf16");
}

void expect_extents(const ExplainOptions &options, size_t count, const char *names) {
    if (options.shape.size() != count)
        throw Failure(text("%s takes %zu extents, %s; here are %zu", options.operation.c_str(), count, names, options.shape.size()));
    for (int64_t extent : options.shape)
        if (extent < 0) throw Failure(text("an extent cannot be negative: %lld", static_cast<long long>(extent)));
}

BenchCase describe(const ExplainOptions &options) {
    const int32_t dtype = dtype_of(options.dtype);
    const std::vector<int64_t> &shape = options.shape;
    const int32_t mask = options.causal ? ATTILE_MASK_CAUSAL_BOTTOM_RIGHT : ATTILE_MASK_NONE;
    if (options.operation == "gemm") {
        expect_extents(options, 3, "M N K");
        return bench::gemm_case(Size::kMedium, dtype, shape[0], shape[1], shape[2], options.batch);
    }
    if (options.operation == "attention" || options.operation == "attention_backward") {
        expect_extents(options, 4, "BATCH HEADS LEN HEAD_DIM");
        const int64_t heads_kv = options.heads_kv > 0 ? options.heads_kv : shape[1];
        const int64_t len_k = options.len_k > 0 ? options.len_k : shape[2];
        BenchCase result = bench::attention_case(Size::kMedium, dtype, shape[0], shape[1], heads_kv, shape[2], len_k, shape[3], mask);
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

double peak_of(const ExplainOptions &options, const attile_context_info &info, int32_t dtype) {
    if (options.peak_flops > 0) return options.peak_flops;
    if (dtype == ATTILE_F64) return info.peak_flops_f64;
    if ((dtype == ATTILE_F16 || dtype == ATTILE_BF16) && info.peak_flops_f16 > 0) return info.peak_flops_f16;
    return info.peak_flops_f32;
}

// The roofline: which of the two roofs is lower for this work.
std::string roof_facts(const attile_support &support, double peak, double bandwidth, bool assumed) {
    Facts facts;
    facts.add("operations", count_text(support.flops, "FLOP"));
    facts.add("memory traffic", bytes_text(support.bytes) + ", each input read once and each output written once");
    const double intensity = support.bytes > 0 ? support.flops / support.bytes : 0;
    facts.add("intensity", text("%.2f FLOP/B", intensity));
    facts.add("peak",
              peak > 0 ? flop_rate_text(peak) + (assumed ? " (given)" : "") : "not known for this device (--device-peak-flops gives one)");
    facts.add("bandwidth", bandwidth > 0 ? byte_rate_text(bandwidth) + (assumed ? " (given)" : "")
                                         : "not known for this device (--device-bandwidth gives one)");
    if (peak > 0 && bandwidth > 0) {
        const double balance = peak / bandwidth, compute = support.flops / peak, memory = support.bytes / bandwidth;
        facts.add("balance point", text("%.2f FLOP/B", balance));
        facts.add("bound by", compute >= memory ? text("arithmetic: the intensity is %.1f times the balance point", intensity / balance)
                                                : text("memory: the intensity is %.3g of the balance point", intensity / balance));
        facts.add("floor",
                  text("%.4g ms (arithmetic %.4g ms, memory %.4g ms)", std::max(compute, memory) * 1e3, compute * 1e3, memory * 1e3));
    }
    return facts.str();
}

std::string kernel_facts(const attile_support &support, double peak, double bandwidth) {
    static const char *const levels[] = {"none", "emulated", "native"};
    Facts facts;
    facts.add("support", support.level >= 0 && support.level <= 2 ? levels[support.level] : "");
    facts.add("kernel", support.kernel);
    facts.add("note", support.text);
    if (support.tile_m > 0 || support.tile_n > 0)
        facts.add("tile", text("%d x %d", support.tile_m, support.tile_n) + (support.tile_k > 0 ? text(", %d deep", support.tile_k) : ""));
    if (support.threads > 1) facts.add("threads a block", std::to_string(support.threads));
    if (support.registers > 0) facts.add("registers a thread", std::to_string(support.registers));
    if (support.shared_bytes > 0) facts.add("shared memory a block", bytes_text(support.shared_bytes));
    if (support.blocks_per_unit > 0) facts.add("blocks a unit", std::to_string(support.blocks_per_unit));
    if (support.blocks > 0) facts.add("blocks", grouped_text(support.blocks));
    if (support.splits > 1) facts.add("splits", std::to_string(support.splits));
    facts.add("workspace", support.workspace_bytes > 0 ? bytes_text(static_cast<double>(support.workspace_bytes)) : "none");
    if (support.predicted_share > 0) {
        std::string predicted = text("%.0f %% of the bound", 100 * support.predicted_share);
        if (peak > 0 && bandwidth > 0)
            predicted += text(", %.4g ms", std::max(support.flops / peak, support.bytes / bandwidth) / support.predicted_share * 1e3);
        facts.add("predicted", predicted);
    }
    return facts.str();
}

}  // namespace

int run_explain(const ExplainOptions &options) {
    const BenchCase one = describe(options);
    const Context context(options.backend, options.threads);
    bench::BenchRun run(context, one);
    attile_support support;
    check(run.query(support));

    const double peak = peak_of(options, context.info(), one.dtype);
    const double bandwidth = options.bandwidth > 0 ? options.bandwidth : context.info().peak_bandwidth;
    Facts head;
    head.add("operation", options.operation + ", " + options.dtype);
    head.add("shape", shape_text(options, one));
    head.add("backend", context.description());
    std::printf("%s\n", head.str().c_str());
    if (support.level == ATTILE_SUPPORT_NONE) {
        std::fflush(stdout);
        throw Failure(text("this backend cannot run it: %s", support.text));
    }
    std::printf("%s\n%s", roof_facts(support, peak, bandwidth, options.peak_flops > 0 || options.bandwidth > 0).c_str(),
                kernel_facts(support, peak, bandwidth).c_str());
    return 0;
}

}  // namespace attile::cli
