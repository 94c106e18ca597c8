// SPDX-License-Identifier: Apache-2.0
// A backend that computes nothing and remembers what it was asked: the tests read there what the core makes of a call.
#ifndef ATTILE_TESTS_RECORDING_BACKEND_H
#define ATTILE_TESTS_RECORDING_BACKEND_H

#include <attile/attile_backend.h>

#include <functional>
#include <string>
#include <vector>

namespace attile_test {

// What was asked last, and how often.
struct Recording {
    int runs = 0, queries = 0;
    attile_gemm_problem gemm = {};
    attile_attention_problem attention = {};  // also the forward part of backward
    attile_attention_backward_problem backward = {};
    attile_attention_merge_problem merge = {};
    attile_attention_merge_backward_problem merge_backward = {};
    std::vector<attile_operand> o_parts, lse_parts;  // of merge or its gradients, whose arrays live during the call only
    std::vector<attile_operand> do_parts, dlse_parts;
    attile_reduce_problem reduce = {};
    attile_softmax_problem softmax = {};
    attile_quantize_problem quantize = {};
    attile_repack_problem repack = {};
    attile_gemm_grouped_problem grouped = {};  // its product is in gemm
};

// What to answer.
struct Answers {
    int32_t run_status = ATTILE_OK;
    const char *run_error = nullptr;  // handed to set_error if not NULL
    std::function<void()> in_run;     // called within run; may throw
    int32_t query_status = ATTILE_OK;
    const char *query_error = nullptr;
    std::function<void(attile_support *)> in_query;
    int64_t workspace_bytes = 0;
};

Recording &recording();
Answers &answers();

// A context on it; the backend is registered by the first.
enum class Recorder {
    kFull,           // every operation
    kBare,           // none
    kFirstVersions,  // every operation, as interfaces of version 1
};
attile_context *recording_context(Recorder recorder = Recorder::kFull);

std::string last_error();

}  // namespace attile_test

#endif
