// SPDX-License-Identifier: Apache-2.0
// What the programs of hard moments share: giving up with a word, contexts, and one small call of every operation.
#ifndef ATTILE_TESTS_MOMENTS_H
#define ATTILE_TESTS_MOMENTS_H

#include <attile/attile.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "call_arguments.h"

namespace attile_test {

[[noreturn]] inline void give_up(const std::string &why) {
    std::fprintf(stdout, "%s\n", why.c_str());  // standard error may be what is tried
    std::fflush(stdout);
    _exit(1);
}

inline void expect(bool condition, const std::string &what) {
    if (!condition) give_up(what);
}

inline std::string error() {
    char text[2048];
    attile_last_error(text, sizeof text);
    return text;
}

inline attile_context *create(const char *backend = nullptr) {
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    options.backend = backend;
    attile_context *context = nullptr;
    if (attile_context_create(&options, &context) != ATTILE_OK) give_up("create: " + error());
    return context;
}

inline std::string report() {
    std::string text(static_cast<size_t>(attile_backend_report(nullptr, 0)) + 4096, '\0');
    attile_backend_report(text.data(), static_cast<int64_t>(text.size()));
    return text.c_str();
}

inline constexpr Operation kOperations[] = {Operation::kGemm,
                                            Operation::kAttention,
                                            Operation::kAttentionBackward,
                                            Operation::kAttentionMerge,
                                            Operation::kAttentionMergeBackward,
                                            Operation::kReduce,
                                            Operation::kSoftmax,
                                            Operation::kSgemm,
                                            Operation::kDgemm};

inline void use(attile_context *context) {
    for (const Operation operation : kOperations) {
        CallArguments call(operation);
        if (call.run(context) != ATTILE_OK) give_up(std::string(operation_name(operation)) + ": " + error());
    }
}

}  // namespace attile_test

#endif
