// SPDX-License-Identifier: Apache-2.0
// What the core does with a backend's answers: workspaces, missing operations, failures without a sentence, exceptions, nonsense.
#include <cstring>
#include <new>
#include <stdexcept>

#include "front_test.h"

namespace attile_test {
namespace {

class OperationTest : public FrontTest {
  protected:
    OperationTest() {
        attile_softmax_init(&args, sizeof args);
        args.x = dense(ATTILE_F32, {3, 5});
        args.y = dense(ATTILE_F32, {3, 5});
        attile_support_init(&support, sizeof support);
    }
    int32_t run() { return attile_softmax(context, &args); }
    int32_t query() { return attile_softmax_query(context, &args, &support); }

    attile_softmax_args args;
    attile_support support;
    alignas(256) unsigned char workspace[1024];
};

TEST_F(OperationTest, WorkspaceIsHeldAgainstTheQuery) {
    answers().workspace_bytes = 512;
    EXPECT_EQ(run(), ATTILE_OK);
    EXPECT_EQ(recording().queries, 0) << "the pool's business";
    args.workspace = workspace;
    args.workspace_bytes = 511;
    EXPECT_EQ(run(), ATTILE_ERROR_WORKSPACE_TOO_SMALL);
    EXPECT_EQ(last_error(), "softmax: workspace_bytes is 511; expected at least 512");
    EXPECT_EQ(recording().runs, 1);
    args.workspace_bytes = 512;
    EXPECT_EQ(run(), ATTILE_OK);
    EXPECT_EQ(recording().softmax.launch.workspace, workspace);
    EXPECT_EQ(recording().softmax.launch.workspace_bytes, 512);
    args.workspace = nullptr;
    EXPECT_EQ(run(), ATTILE_OK);
    EXPECT_EQ(recording().softmax.launch.workspace_bytes, 0) << "bytes of no workspace";
    args.flags = ATTILE_FLAG_NO_ALLOC;
    EXPECT_EQ(run(), ATTILE_ERROR_WORKSPACE_TOO_SMALL);
    args.workspace = workspace;
    EXPECT_EQ(run(), ATTILE_OK);
    answers().workspace_bytes = 0;
    args.workspace = nullptr;
    args.workspace_bytes = 0;
    EXPECT_EQ(run(), ATTILE_OK) << "nothing to allocate";
}

TEST_F(OperationTest, QueryDoesNotDependOnTheWorkspace) {
    answers().workspace_bytes = 512;
    args.workspace = workspace;
    args.workspace_bytes = 1;
    ASSERT_EQ(query(), ATTILE_OK);
    EXPECT_EQ(support.workspace_bytes, 512);
    EXPECT_EQ(recording().softmax.launch.workspace, nullptr);
}

TEST_F(OperationTest, MissingOperation) {
    attile_context *bare = recording_context(Recorder::kBare);
    EXPECT_EQ(attile_softmax(bare, &args), ATTILE_ERROR_UNSUPPORTED_OPERATION);
    EXPECT_EQ(last_error(), "softmax: the backend 'bare' does not have this operation");
    EXPECT_EQ(attile_softmax_query(bare, &args, &support), ATTILE_OK);
    EXPECT_EQ(support.level, ATTILE_SUPPORT_NONE);
    EXPECT_EQ(support.status, ATTILE_ERROR_UNSUPPORTED_OPERATION);
    EXPECT_STREQ(support.text, "softmax: the backend 'bare' does not have this operation");
    attile_context_destroy(bare);
}

TEST_F(OperationTest, RefusalOfTheBackend) {
    answers().query_status = ATTILE_ERROR_UNSUPPORTED_SHAPE;
    answers().query_error = "softmax: too long";
    EXPECT_EQ(attile_tensor_init(nullptr, nullptr, 0, 0, nullptr), ATTILE_ERROR_NULL_ARGUMENT);
    const std::string before = last_error();
    EXPECT_EQ(query(), ATTILE_OK);
    EXPECT_EQ(support.level, ATTILE_SUPPORT_NONE);
    EXPECT_EQ(support.status, ATTILE_ERROR_UNSUPPORTED_SHAPE);
    EXPECT_STREQ(support.text, "softmax: too long");
    EXPECT_EQ(last_error(), before);
    args.workspace = workspace;
    args.workspace_bytes = sizeof workspace;
    EXPECT_EQ(run(), ATTILE_ERROR_UNSUPPORTED_SHAPE);
    EXPECT_EQ(last_error(), "softmax: too long");
    EXPECT_EQ(recording().runs, 0);
    answers() = {};
    answers().run_status = ATTILE_ERROR_DEVICE_FAULT;
    answers().run_error = "the device burned";
    EXPECT_EQ(run(), ATTILE_ERROR_DEVICE_FAULT);
    EXPECT_EQ(last_error(), "the device burned");
}

TEST_F(OperationTest, FailureWithoutASentenceGetsOne) {
    answers().run_status = ATTILE_ERROR_DEVICE_LAUNCH;
    EXPECT_EQ(run(), ATTILE_ERROR_DEVICE_LAUNCH);
    EXPECT_EQ(last_error(), "softmax: the backend 'recorder' answered ATTILE_ERROR_DEVICE_LAUNCH and gave no reason");
    for (const int32_t nonsense : {1, -1, 999, 10000, INT32_MIN}) {
        answers().run_status = nonsense;
        EXPECT_EQ(run(), ATTILE_ERROR_BACKEND_CONTRACT) << nonsense;
    }
}

TEST_F(OperationTest, ExceptionsOfTheBackendStayInside) {
    answers().in_run = [] { throw std::runtime_error("boo"); };
    EXPECT_EQ(run(), ATTILE_ERROR_BACKEND_CONTRACT);
    answers().in_run = [] { throw std::bad_alloc(); };
    EXPECT_EQ(run(), ATTILE_ERROR_OUT_OF_HOST_MEMORY);
    answers().in_run = [] { throw 7; };
    EXPECT_EQ(run(), ATTILE_ERROR_BACKEND_CONTRACT);
    answers().in_query = [](attile_support *) { throw 7; };
    EXPECT_EQ(query(), ATTILE_ERROR_BACKEND_CONTRACT);
    EXPECT_EQ(support.level, 0);
}

TEST_F(OperationTest, NonsenseInAQuery) {
    const std::function<void(attile_support *)> nonsense[] = {
        [](attile_support *s) { s->level = 3; },
        [](attile_support *s) { s->level = -1; },
        [](attile_support *s) { s->level = ATTILE_SUPPORT_NONE; },
        [](attile_support *s) { s->status = ATTILE_ERROR_UNSUPPORTED_DTYPE; },
        [](attile_support *s) { s->workspace_bytes = -1; },
    };
    for (const auto &wrong : nonsense) {
        answers().in_query = wrong;
        EXPECT_EQ(query(), ATTILE_ERROR_BACKEND_CONTRACT);
    }
    answers().in_query = [](attile_support *s) {
        std::memset(s->kernel, 'k', sizeof s->kernel);
        std::memset(s->text, 't', sizeof s->text);
    };
    EXPECT_EQ(query(), ATTILE_OK);
    EXPECT_EQ(std::strlen(support.kernel), sizeof support.kernel - 1);
    EXPECT_EQ(std::strlen(support.text), sizeof support.text - 1);
}

TEST_F(OperationTest, SupportStructs) {
    EXPECT_EQ(attile_softmax_query(context, &args, nullptr), ATTILE_ERROR_NULL_ARGUMENT);
    support.struct_size = 8;
    EXPECT_EQ(query(), ATTILE_ERROR_STRUCT_SIZE);
    struct {
        attile_support known;
        unsigned char tail[32];
    } newer;
    attile_support_init(&newer.known, sizeof newer);
    newer.tail[5] = 9;
    ASSERT_EQ(attile_softmax_query(context, &args, &newer.known), ATTILE_OK) << "the caller's own bytes stay";
    EXPECT_EQ(newer.known.struct_size, sizeof newer);
    EXPECT_EQ(newer.known.level, ATTILE_SUPPORT_NATIVE);
    EXPECT_EQ(newer.tail[5], 9);
}

TEST_F(OperationTest, DestroyedContext) {
    attile_context *gone = recording_context();
    attile_context_destroy(gone);
    EXPECT_EQ(attile_softmax(gone, &args), ATTILE_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(attile_softmax_query(gone, &args, &support), ATTILE_ERROR_INVALID_CONTEXT);
}

}  // namespace
}  // namespace attile_test
