// SPDX-License-Identifier: Apache-2.0
// The whole table of illegal arguments: right code, a sentence that names the argument, nothing written, the backend not bothered.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>

#include "illegal_arguments.h"
#include "recording_backend.h"

namespace attile_test {
namespace {

using Context = std::unique_ptr<attile_context, void (*)(attile_context *)>;

Context open(const char *backend) {
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    options.backend = backend;
    attile_context *context = nullptr;
    EXPECT_EQ(attile_context_create(&options, &context), ATTILE_OK) << last_error();
    return Context(context, attile_context_destroy);
}

TEST(IllegalArguments, HaveIdsOfTheirOwn) {
    std::set<std::string> ids;
    for (const IllegalArgument &illegal : illegal_arguments()) EXPECT_TRUE(ids.insert(illegal.id).second) << illegal.id;
    EXPECT_GT(ids.size(), 600u);
}

TEST(IllegalArguments, AreRefusedByRun) {
    const Context context(recording_context(), attile_context_destroy);
    for (const IllegalArgument &illegal : illegal_arguments()) {
        SCOPED_TRACE(illegal.id);
        CallArguments call(illegal.operation);
        illegal.spoil(call);
        const std::vector<unsigned char> before = call.memory();
        recording() = {};
        EXPECT_STREQ(attile_status_name(call.run(context.get())), attile_status_name(illegal.status)) << last_error();
        const std::string text = last_error();
        EXPECT_NE(text.find(illegal.word), std::string::npos) << text;
        if (illegal.status != ATTILE_ERROR_INVALID_CONTEXT) {
            EXPECT_EQ(text.find(std::string(operation_name(illegal.operation)) + ": "), 0u) << text;
        }
        EXPECT_TRUE(before == call.memory());
        EXPECT_EQ(recording().runs + recording().queries, 0);
    }
}

TEST(IllegalArguments, AreRefusedByQuery) {
    const Context context(recording_context(), attile_context_destroy);
    for (const IllegalArgument &illegal : illegal_arguments()) {
        if (illegal.operation == Operation::kSgemm || illegal.operation == Operation::kDgemm) continue;
        SCOPED_TRACE(illegal.id);
        CallArguments call(illegal.operation);
        illegal.spoil(call);
        attile_support support;
        attile_support_init(&support, sizeof support);
        const int32_t expected = illegal.only_run ? ATTILE_OK : illegal.status;
        EXPECT_STREQ(attile_status_name(call.query(context.get(), &support)), attile_status_name(expected)) << last_error();
        EXPECT_EQ(support.level, illegal.only_run ? ATTILE_SUPPORT_NATIVE : ATTILE_SUPPORT_NONE);
        EXPECT_EQ(recording().runs, 0);
    }
}

// The calls that the table breaks are legal before, and stay so in the two other layouts of attention.
TEST(IllegalArguments, StartFromLegalCalls) {
    const Context context = open("reference");
    for (const Operation operation :
         {Operation::kGemm, Operation::kAttention, Operation::kAttentionBackward, Operation::kAttentionMerge,
          Operation::kAttentionMergeBackward, Operation::kReduce, Operation::kSoftmax, Operation::kSgemm, Operation::kDgemm}) {
        SCOPED_TRACE(operation_name(operation));
        CallArguments call(operation);
        EXPECT_EQ(call.run(context.get()), ATTILE_OK) << last_error();
        attile_support support;
        attile_support_init(&support, sizeof support);
        EXPECT_EQ(call.query(context.get(), &support), ATTILE_OK) << last_error();
    }
    for (const bool paged : {false, true}) {
        CallArguments call(Operation::kAttention);
        paged ? call.make_paged() : call.make_packed();
        EXPECT_EQ(call.run(context.get()), ATTILE_OK) << last_error();
    }
}

}  // namespace
}  // namespace attile_test
