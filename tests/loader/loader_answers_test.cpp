// SPDX-License-Identifier: Apache-2.0
// What backends answer, and what they leave behind, is looked at after every load and call.
#include "probe_run.h"

namespace attile::test {
namespace {

std::string with(const std::string &backend, std::vector<std::string> more) {
    std::vector<std::string> words = {"add-directory", kAll, "surroundings", "create", backend};
    words.insert(words.end(), more.begin(), more.end());
    return probe(words);
}

TEST(Answers, CodesThatAreNoneAreTold) {
    EXPECT_TRUE(has(with("unknown_status", {"copy"}),
                    "copy: ATTILE_ERROR_BACKEND_CONTRACT: copy: backend 'unknown_status': the backend returned 5099"));
    EXPECT_TRUE(has(with("unknown_probe_status", {}), "create: ATTILE_ERROR_BACKEND_CONTRACT: "));
    const std::string run = with("unknown_run_status", {"gemm", "gemm-query"});
    EXPECT_TRUE(
        has(run, "gemm: ATTILE_ERROR_BACKEND_CONTRACT: gemm: the backend 'unknown_run_status' returned 2999, which is not a status code"));
    EXPECT_TRUE(has(with("unknown_query_status", {"gemm-query"}), "gemm-query: ATTILE_ERROR_BACKEND_CONTRACT: "));
    EXPECT_TRUE(has(with("strange_memory", {"kind"}),
                    "kind: ATTILE_ERROR_BACKEND_CONTRACT: memory_kind: backend 'strange_memory' answered 7, expected"));
}

TEST(Answers, AFailureHasASentence) {
    EXPECT_TRUE(has(with("null_sentence", {"fail-once", "copy"}),
                    "copy: ATTILE_ERROR_DEVICE_FAULT: copy: backend 'null_sentence': the backend gave no reason"));
    EXPECT_TRUE(has(with("null_run_sentence", {"fail-once", "gemm"}),
                    "gemm: ATTILE_ERROR_DEVICE_FAULT: gemm: the backend 'null_run_sentence' answered "
                    "ATTILE_ERROR_DEVICE_FAULT and gave no reason"));
}

TEST(Answers, ASuccessLeavesTheLastErrorAsItIs) {
    const std::string out = with("talks", {"fail-once", "gemm", "last"});
    EXPECT_TRUE(has(out, "gemm: ATTILE_OK"));
    EXPECT_TRUE(lacks(out, "said beside a success"));
    EXPECT_TRUE(has(out, "last error: free: "));
}

TEST(Answers, ModeAndLocaleArePutBack) {
    for (const char *name : {"changes_mode", "changes_locale"}) {
        const std::string out = with(name, {"gemm", "surroundings", "report"});
        EXPECT_TRUE(has(out, "gemm: ATTILE_OK"));
        const size_t first = out.find("rounding "), second = out.find("rounding ", first + 1);
        ASSERT_NE(second, std::string::npos);
        EXPECT_EQ(out.substr(first, out.find('\n', first) - first), out.substr(second, out.find('\n', second) - second)) << name;
        EXPECT_TRUE(has(out, std::string("backend '") + name + "' changed the "));
    }
}

}  // namespace
}  // namespace attile::test
