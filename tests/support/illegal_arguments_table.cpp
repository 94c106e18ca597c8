// SPDX-License-Identifier: Apache-2.0
// The shared table of illegal arguments for a program in another language: one entry at a time, made here, called there, judged here.
#include <cstdio>
#include <memory>
#include <string>

#include "illegal_arguments.h"

namespace {

std::unique_ptr<attile_test::CallArguments> call;
const attile_test::IllegalArgument *entry = nullptr;
std::vector<unsigned char> before;

std::int32_t judge(std::int32_t status, const std::string &text) {
    std::string why;
    if (status != entry->status) why = std::string(attile_status_name(status)) + " instead of " + attile_status_name(entry->status);
    if (text.find(entry->word) == std::string::npos) why += " '" + text + "' lacks '" + entry->word + "'";
    if (before != call->memory()) why += " memory was written";
    if (!why.empty()) std::fprintf(stderr, "%s: %s\n", entry->id.c_str(), why.c_str());
    return why.empty();
}

}  // namespace

extern "C" {
std::int32_t illegal_count() { return static_cast<std::int32_t>(attile_test::illegal_arguments().size()); }

void illegal_make(std::int32_t i, std::int32_t *operation, void **args, std::int32_t *null_context) {
    entry = &attile_test::illegal_arguments()[static_cast<std::size_t>(i)];
    call = std::make_unique<attile_test::CallArguments>(entry->operation);
    entry->spoil(*call);
    before = call->memory();
    *operation = static_cast<std::int32_t>(entry->operation);
    void *head = call->head();
    *args = call->null_args ? nullptr : head ? head : &call->blas;
    *null_context = call->null_context;
}

std::int32_t illegal_judge(std::int32_t status) {
    char text[1024];
    attile_last_error(text, sizeof text);
    return judge(status, text);
}

std::int32_t illegal_judge_text(std::int32_t status, const char *text) { return judge(status, text); }
}
