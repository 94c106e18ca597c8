// SPDX-License-Identifier: Apache-2.0
// The conformance list for a binding in another language, as a shared object that it opens: the runner's calls of libattile's operations
// end here and go to the binding as an argument struct, from which it makes its own arrays and calls the library in its own way. The
// functions below are local to this object (binding_cases.map), so nobody else's calls come this way.
#include <attile/attile.h>

#include <cstdio>
#include <exception>

#include "call_arguments.h"
#include "runner.h"

namespace {

// Of the binding: makes the call that `args` describes and returns its status. Operations are numbered as attile_test::Operation has them.
using BindingCall = std::int32_t (*)(std::int32_t operation, const void *args);
BindingCall binding_call = nullptr;

std::int32_t pass(attile_test::Operation operation, const void *args) { return binding_call(static_cast<std::int32_t>(operation), args); }

}  // namespace

extern "C" {
std::int32_t attile_gemm(attile_context *, const attile_gemm_args *args) { return pass(attile_test::Operation::kGemm, args); }
std::int32_t attile_attention(attile_context *, const attile_attention_args *args) {
    return pass(attile_test::Operation::kAttention, args);
}
std::int32_t attile_attention_backward(attile_context *, const attile_attention_backward_args *args) {
    return pass(attile_test::Operation::kAttentionBackward, args);
}
std::int32_t attile_attention_merge(attile_context *, const attile_attention_merge_args *args) {
    return pass(attile_test::Operation::kAttentionMerge, args);
}
std::int32_t attile_attention_merge_backward(attile_context *, const attile_attention_merge_backward_args *args) {
    return pass(attile_test::Operation::kAttentionMergeBackward, args);
}
std::int32_t attile_reduce(attile_context *, const attile_reduce_args *args) { return pass(attile_test::Operation::kReduce, args); }
std::int32_t attile_softmax(attile_context *, const attile_softmax_args *args) { return pass(attile_test::Operation::kSoftmax, args); }

// Runs the quick cases whose id contains `filter` on the reference backend, one in seven again in a workspace, but those of more than a
// million multiply-adds: sizes are for kernels, and every option is in smaller cases. Says on stderr what failed. Returns how many did, -1
// if none ran.
std::int32_t binding_conformance(BindingCall call, const char *filter, std::int32_t *passed) {
    binding_call = call;
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    options.backend = "reference";
    attile_context *context = nullptr;
    if (attile_context_create(&options, &context) != ATTILE_OK) return -1;
    const auto show = [](const attile::test::Report &report, int, int) {
        if (report.outcome == attile::test::Outcome::kFailed) std::fprintf(stderr, "%s: %s\n", report.id.c_str(), report.message.c_str());
    };
    std::int32_t failed = -1;
    try {
        const attile::test::VerifySummary summary =
            attile::test::verify_backend(context, attile::test::Tier::kQuick, filter, {.rerun_each = 7, .most_work = 1e6}, show);
        *passed = summary.passed;
        // The reference backend supports everything, so a case that it refuses has been asked in the wrong way.
        failed = summary.failed + summary.unsupported;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
    }
    attile_context_destroy(context);
    return failed;
}
}
