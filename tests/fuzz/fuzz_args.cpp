// SPDX-License-Identifier: Apache-2.0
// Whole sequences of calls made of the fuzzer's bytes, on several contexts of every backend that ATTILE_FUZZ_BACKENDS names
// (reference,cpu): contexts come and go, queries and runs of every operation, BLAS names, memory. fuzz_call.h says what must hold of each.
// Built with libFuzzer, and with fuzz_driver.cpp where there is none.
#include <attile/attile.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "fuzz_counts.h"
#include "fuzz_operations.h"

namespace attile_test {
namespace {

constexpr int kContexts = 3, kMostCalls = 32;

std::vector<FuzzTarget> &targets() {
    static std::vector<FuzzTarget> &all = *[] {
        static std::string names = std::getenv("ATTILE_FUZZ_BACKENDS") != nullptr ? std::getenv("ATTILE_FUZZ_BACKENDS") : "reference,cpu";
        auto *made = new std::vector<FuzzTarget>;
        for (size_t at = 0; at < names.size();) {
            const size_t comma = std::min(names.find(',', at), names.size());
            if (comma < names.size()) names[comma] = 0;
            FuzzTarget target;
            target.backend = names.c_str() + at;
            target.slow = std::string(target.backend).rfind("emulated", 0) == 0;
            made->push_back(target);
            at = comma + 1;
        }
        return made;
    }();
    return all;
}

// A context that a sequence of calls uses: one that stays, or one of its own.
struct Open {
    attile_context *context = nullptr;
    FuzzTarget *target = nullptr;
    bool own = false;
};

attile_context *must_open(const FuzzTarget &target, int32_t threads) {
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    options.backend = target.backend;
    options.threads = threads;
    attile_context *made = nullptr;
    const int32_t status = attile_context_create(&options, &made);
    if (status != ATTILE_OK) {
        char text[512];
        attile_last_error(text, sizeof text);
        std::fprintf(stderr, "%s: %s\n", target.backend, text);
    }
    ATTILE_FUZZ_CHECK(status == ATTILE_OK);
    return made;
}

// A context that stays open, so that an input does the same whatever came before it.
Open lasting_context(FuzzInput &input) {
    const auto index = static_cast<size_t>(input.below(static_cast<int64_t>(targets().size())));
    const auto threads = static_cast<int32_t>(1 + 2 * input.below(2));
    static std::vector<attile_context *> &kept = *new std::vector<attile_context *>(4 * targets().size());
    attile_context *&context = kept[4 * index + static_cast<size_t>(threads)];
    if (context == nullptr) context = must_open(targets()[index], threads);
    return {context, &targets()[index], false};
}

// A new context, its options sometimes anything.
Open open_context(FuzzInput &input, FuzzTarget *target) {
    Open open = {nullptr, target, true};
    FuzzTarget::Count &count = target->counts[static_cast<int>(FuzzOperation::kContext)];
    struct {
        attile_context_options options;
        unsigned char tail[64];
    } padded;
    std::memset(&padded, 0, sizeof padded);
    attile_context_options &options = padded.options;
    attile_context_options_init(&options, sizeof options);
    options.backend = target->backend;
    options.threads = static_cast<int32_t>(input.below(4));
    if (input.rarely(4)) {
        if (input.rarely(2)) options.struct_size = static_cast<uint32_t>(input.below(sizeof padded + 1));
        if (input.rarely(4)) options.flags = input.byte();
        if (input.rarely(4)) options.threads = -1 - input.byte();
        if (input.rarely(4)) options.reserved = input.byte();
        if (input.rarely(4)) options.pool_bytes = input.raw<int64_t>();
        if (input.rarely(4)) padded.tail[input.below(64)] = input.byte();
    }
    ++count.runs;
    const int32_t status = attile_context_create(&options, &open.context);
    check_sentence(status);
    ATTILE_FUZZ_CHECK((status == ATTILE_OK) == (open.context != nullptr));
    if (status == ATTILE_OK) {
        ++count.worked;
        return open;
    }
    ATTILE_FUZZ_CHECK(status / 1000 == 1);
    open.context = must_open(*target, 1);
    return open;
}

// A context that is gone answers so, however often it is destroyed.
void close_context(const Open &open) {
    attile_context_destroy(open.context);
    attile_support support;
    attile_support_init(&support, sizeof support);
    attile_gemm_args args;
    attile_gemm_init(&args, sizeof args);
    ATTILE_FUZZ_CHECK(attile_gemm_query(open.context, &args, &support) == ATTILE_ERROR_INVALID_CONTEXT);
    ATTILE_FUZZ_CHECK(attile_gemm(open.context, &args) == ATTILE_ERROR_INVALID_CONTEXT);
    attile_context_destroy(open.context);
}

void check_info(FuzzInput &input, const Open &open) {
    struct {
        attile_context_info info;
        unsigned char tail[64];
    } padded;
    std::memset(&padded, 0, sizeof padded);
    attile_context_info_init(&padded.info, sizeof padded.info);
    if (input.rarely(4)) padded.info.struct_size = input.raw<uint16_t>() % (sizeof padded.info + 65);
    const auto before = padded;
    const int32_t status = attile_context_get_info(open.context, &padded.info);
    check_sentence(status);
    ATTILE_FUZZ_CHECK(std::memcmp(before.tail, padded.tail, sizeof before.tail) == 0);
    if (status != ATTILE_OK) ATTILE_FUZZ_CHECK(std::memcmp(&before, &padded, sizeof before) == 0);
}

void one_call(FuzzInput &input, Open &open) {
    const auto operation = static_cast<FuzzOperation>(input.below(static_cast<int64_t>(FuzzOperation::kCount)));
    if (operation == FuzzOperation::kContext) {
        if (!input.rarely(32)) return check_info(input, open);
        const Open before = open;
        open = open_context(input, before.target);
        if (before.own) close_context(before);
        return;
    }
    Call call(&input, open.context, open.target, operation);
    constexpr void (*operations[])(Call *) = {fuzz_gemm,         fuzz_attention, fuzz_backward, fuzz_merge,  fuzz_merge_backward,
                                              fuzz_reduce,       fuzz_softmax,   fuzz_blas,     fuzz_memory, fuzz_quantize,
                                              fuzz_gemm_grouped, fuzz_append,    fuzz_repack};
    operations[static_cast<int>(operation)](&call);
}

}  // namespace

void print_counts() {
    for (const FuzzTarget &target : targets()) {
        int64_t queries = 0, runs = 0, worked = 0;
        for (int i = 0; i < static_cast<int>(FuzzOperation::kCount); ++i) {
            const FuzzTarget::Count &count = target.counts[i];
            std::printf("  %-10s %-24s %9lld queries %9lld runs %9lld worked\n", target.backend,
                        fuzz_operation_name(static_cast<FuzzOperation>(i)), static_cast<long long>(count.queries),
                        static_cast<long long>(count.runs), static_cast<long long>(count.worked));
            queries += count.queries;
            runs += count.runs;
            worked += count.worked;
        }
        std::printf("%s: %lld calls (%lld queries, %lld runs, of which %lld worked)\n", target.backend,
                    static_cast<long long>(queries + runs), static_cast<long long>(queries), static_cast<long long>(runs),
                    static_cast<long long>(worked));
    }
}

int64_t count_calls() {
    int64_t calls = 0;
    for (const FuzzTarget &target : targets())
        for (const FuzzTarget::Count &count : target.counts) calls += count.queries + count.runs;
    return calls;
}

}  // namespace attile_test

// A sanitizer's allocator ends the process at a size that malloc() refuses, and such sizes are asked for here.
extern "C" ATTILE_API const char *__asan_default_options() { return "allocator_may_return_null=1"; }
extern "C" ATTILE_API const char *__tsan_default_options() { return "allocator_may_return_null=1"; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    using namespace attile_test;
    FuzzInput input(data, size);
    Open contexts[kContexts];
    for (Open &open : contexts) open = lasting_context(input);
    for (int i = 0; i < kMostCalls && !input.empty(); ++i) one_call(input, contexts[input.below(kContexts)]);
    for (const Open &open : contexts)
        if (open.own) close_context(open);
    return 0;
}
