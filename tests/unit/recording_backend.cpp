// SPDX-License-Identifier: Apache-2.0
// The recording backend, in three flavours: "recorder" with every operation, "bare" with none, and "older" with interfaces of version 1.
#include "recording_backend.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "portable.h"

namespace attile_test {
namespace {

const attile_host_v1 *host = nullptr;

int32_t answer_run() {
    ++recording().runs;
    if (answers().in_run) answers().in_run();
    if (answers().run_error != nullptr) host->set_error(answers().run_error);
    return answers().run_status;
}

int32_t answer_query(attile_support *support) {
    ++recording().queries;
    EXPECT_EQ(support->struct_size, sizeof *support);
    support->level = ATTILE_SUPPORT_NATIVE;
    support->workspace_bytes = answers().workspace_bytes;
    std::strcpy(support->kernel, "recorder");
    if (answers().in_query) answers().in_query(support);
    if (answers().query_error != nullptr) host->set_error(answers().query_error);
    return answers().query_status;
}

void record(const attile_gemm_problem &problem) { recording().gemm = problem; }
void record(const attile_attention_problem &problem) { recording().attention = problem; }
void record(const attile_attention_backward_problem &problem) {
    recording().backward = problem;
    recording().attention = *problem.forward;
}
void record(const attile_attention_merge_problem &problem) {
    recording().merge = problem;
    recording().o_parts.assign(problem.o_parts, problem.o_parts + problem.parts);
    recording().lse_parts.assign(problem.lse_parts, problem.lse_parts + problem.parts);
}
void record(const attile_attention_merge_backward_problem &problem) {
    recording().merge_backward = problem;
    recording().o_parts.assign(problem.o_parts, problem.o_parts + problem.parts);
    recording().lse_parts.assign(problem.lse_parts, problem.lse_parts + problem.parts);
    recording().do_parts.assign(problem.do_parts, problem.do_parts + problem.parts);
    recording().dlse_parts.assign(problem.dlse_parts, problem.dlse_parts + problem.parts);
}
void record(const attile_reduce_problem &problem) { recording().reduce = problem; }
void record(const attile_softmax_problem &problem) { recording().softmax = problem; }
void record(const attile_quantize_problem &problem) { recording().quantize = problem; }
void record(const attile_repack_problem &problem) { recording().repack = problem; }
void record(const attile_gemm_grouped_problem &problem) {
    recording().grouped = problem;
    recording().gemm = *problem.product;
}

template <typename Problem>
int32_t query(void *, const Problem *problem, attile_support *support) {
    EXPECT_EQ(problem->struct_size, sizeof *problem);
    record(*problem);
    return answer_query(support);
}

template <typename Problem>
int32_t run(void *, const Problem *problem) {
    EXPECT_EQ(problem->struct_size, sizeof *problem);
    record(*problem);
    return answer_run();
}

constexpr attile_device_interface kDevice = {
    sizeof(attile_device_interface),
    1,
    [](void *, attile_context_info *) { return ATTILE_OK; },
    [](void *, void **stream) {
        *stream = nullptr;
        return ATTILE_OK;
    },
    [](void *, void *) { return ATTILE_OK; },
    [](void *, void *) { return ATTILE_OK; },
};

constexpr attile_memory_interface kMemory = {
    sizeof(attile_memory_interface),
    1,
    [](void *, int32_t, int64_t bytes, void **pointer) {
        *pointer = attile::test::aligned_block(256, static_cast<size_t>(bytes));
        return *pointer != nullptr ? ATTILE_OK : ATTILE_ERROR_OUT_OF_HOST_MEMORY;
    },
    [](void *, int32_t, void *pointer) {
        attile::test::free_aligned_block(pointer);
        return ATTILE_OK;
    },
    [](void *, void *destination, const void *source, int64_t bytes, void *) {
        std::memcpy(destination, source, static_cast<size_t>(bytes));
        return ATTILE_OK;
    },
    [](void *, const void *, int64_t, int32_t, void *) { return ATTILE_OK; },
    [](void *, const void *, int32_t *kind) {
        *kind = ATTILE_MEMORY_HOST;
        return ATTILE_OK;
    },
};

template <typename Interface, typename Problem, uint32_t version = 1>
constexpr Interface kTable = {sizeof(Interface), version, query<Problem>, run<Problem>};

const void *bare_interface(uint32_t id, uint32_t) {
    if (id == ATTILE_INTERFACE_DEVICE) return &kDevice;
    return id == ATTILE_INTERFACE_MEMORY ? &kMemory : nullptr;
}

// Of the interfaces that have grown once, and twice.
template <uint32_t once, uint32_t twice>
const void *full_interface(uint32_t id, uint32_t version) {
    switch (id) {
        case ATTILE_INTERFACE_GEMM:
            return &kTable<attile_gemm_interface, attile_gemm_problem, twice>;
        case ATTILE_INTERFACE_ATTENTION:
            return &kTable<attile_attention_interface, attile_attention_problem, twice>;
        case ATTILE_INTERFACE_ATTENTION_BACKWARD:
            return &kTable<attile_attention_backward_interface, attile_attention_backward_problem, once>;
        case ATTILE_INTERFACE_ATTENTION_MERGE:
            return &kTable<attile_attention_merge_interface, attile_attention_merge_problem, once>;
        case ATTILE_INTERFACE_ATTENTION_MERGE_BACKWARD:
            return &kTable<attile_attention_merge_backward_interface, attile_attention_merge_backward_problem>;
        case ATTILE_INTERFACE_REDUCE:
            return &kTable<attile_reduce_interface, attile_reduce_problem, once>;
        case ATTILE_INTERFACE_SOFTMAX:
            return &kTable<attile_softmax_interface, attile_softmax_problem, once>;
        case ATTILE_INTERFACE_QUANTIZE:
            return &kTable<attile_quantize_interface, attile_quantize_problem>;
        case ATTILE_INTERFACE_REPACK:
            return &kTable<attile_repack_interface, attile_repack_problem>;
        case ATTILE_INTERFACE_GEMM_GROUPED:
            return &kTable<attile_gemm_grouped_interface, attile_gemm_grouped_problem>;
        default:
            return bare_interface(id, version);
    }
}

int32_t probe(int32_t, attile_backend_probe *found) {
    found->device_count = 1;
    return ATTILE_OK;
}

int32_t create(const attile_backend_options *, void **state) {
    static int some_state;
    *state = &some_state;
    return ATTILE_OK;
}

void destroy(void *) {}

const char *name_of(Recorder recorder) {
    switch (recorder) {
        case Recorder::kBare:
            return "bare";
        case Recorder::kFirstVersions:
            return "older";
        default:
            return "recorder";
    }
}

template <Recorder recorder>
const attile_backend_v1 *entry(const attile_host_v1 *given_host) {
    host = given_host;
    constexpr auto full = recorder == Recorder::kFirstVersions ? full_interface<1, 1> : full_interface<2, 3>;
    static const attile_backend_v1 root = {sizeof(attile_backend_v1),
                                           ATTILE_BACKEND_ABI_MAJOR,
                                           ATTILE_BACKEND_ABI_MINOR,
                                           0,
                                           name_of(recorder),
                                           "1",
                                           probe,
                                           create,
                                           destroy,
                                           recorder == Recorder::kBare ? bare_interface : full};
    return &root;
}

}  // namespace

Recording &recording() {
    static Recording instance;
    return instance;
}

Answers &answers() {
    static Answers instance;
    return instance;
}

attile_context *recording_context(Recorder recorder) {
    static const bool registered = [] {
        for (const attile_backend_entry_fn given : {entry<Recorder::kFull>, entry<Recorder::kBare>, entry<Recorder::kFirstVersions>}) {
            EXPECT_EQ(attile_register_backend(reinterpret_cast<const void *(*)(const void *)>(given)), ATTILE_OK) << last_error();
        }
        return true;
    }();
    EXPECT_TRUE(registered);
    recording() = {};
    answers() = {};
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    options.backend = name_of(recorder);
    attile_context *context = nullptr;
    EXPECT_EQ(attile_context_create(&options, &context), ATTILE_OK) << last_error();
    return context;
}

std::string last_error() {
    char text[2048];
    attile_last_error(text, sizeof text);
    return text;
}

}  // namespace attile_test
