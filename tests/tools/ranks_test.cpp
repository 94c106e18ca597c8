// SPDX-License-Identifier: Apache-2.0
// attile attention, verify and bench with --ranks, by threads: the numbers of one rank, the report, and the sentences of what goes wrong.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "run_program.h"

namespace {

using namespace attile::test;
using testing::IsSubstring;

const std::string kInput = std::string(ATTILE_EXAMPLE_DATA) + "/attention_small.bin";

// By how much two files of float32 differ at most; infinity if they are not of one length.
double difference(const std::string &a, const std::string &b) {
    const std::vector<float> x = floats_of(read_file(a)), y = floats_of(read_file(b));
    if (x.empty() || x.size() != y.size()) return INFINITY;
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
        const double off = std::fabs(double{x[i]} - double{y[i]});
        if (!(off <= worst)) worst = off;
    }
    return worst;
}

TEST(RanksTest, AttentionIsThatOfOneRank) {
    const ScratchDirectory scratch;
    for (const char *backend : {"reference", "cpu"}) {
        for (const bool causal : {false, true}) {
            std::vector<std::string> command = {"attention", kInput, scratch.file("one"), "--backend", backend};
            if (causal) command.push_back("--causal");
            ASSERT_EQ(run_attile(command).code, 0);
            for (const char *ranks : {"1", "2", "3", "4"}) {
                command[2] = scratch.file("all");
                std::vector<std::string> over_ranks = command;
                over_ranks.insert(over_ranks.end(), {"--ranks", ranks, "--memory", "1"});  // batch by batch
                const Finished run = run_attile(over_ranks);
                ASSERT_EQ(run.code, 0) << run.err;
                EXPECT_PRED_FORMAT2(IsSubstring, std::string(ranks) + " by threads, " + (causal ? "zigzag" : "contiguous") + " shards",
                                    run.out);
                EXPECT_PRED_FORMAT2(IsSubstring, "in communication", run.out);
                EXPECT_LE(difference(scratch.file("one"), scratch.file("all")), 2e-6) << ranks << " ranks on " << backend;
            }
        }
    }
    // More ranks than rows: some have none. `one` is now causal.
    const Finished many = run_attile({"attention", kInput, scratch.file("all"), "--causal", "--backend", "reference", "--ranks", "40"});
    EXPECT_EQ(many.code, 0) << many.err;
    EXPECT_LE(difference(scratch.file("one"), scratch.file("all")), 2e-6);
    EXPECT_EQ(scratch.names(), (std::vector<std::string>{"all", "one"}));  // and no file that was being made
}

#if defined(ATTILE_STAND_IN_PATH)
// Emulated GPUs, and the stand-in for NCCL's library.
TEST(RanksTest, AGpuEachByNccl) {
    const ScratchDirectory scratch;
    const std::string one = scratch.file("one"), all = scratch.file("all");
    ASSERT_EQ(run_attile({"attention", kInput, one, "--backend", "reference"}).code, 0);
    const auto run = [](std::vector<std::string> arguments, const char *devices, const char *library, const char *backend = "emulated") {
        arguments.insert(arguments.end(), {"--backend", backend, "--ranks", "2"});
        return run_attile(
            arguments, {{"ATTILE_BACKEND_PATH", ATTILE_EMULATED_PATH}, {"ATTILE_EMULATED_DEVICES", devices}, {"LD_LIBRARY_PATH", library}});
    };
    const Finished attention = run({"attention", kInput, all}, "2", ATTILE_STAND_IN_PATH);
    ASSERT_EQ(attention.code, 0) << attention.err;
    EXPECT_PRED_FORMAT2(IsSubstring, "2 by nccl, a GPU each, contiguous shards", attention.out);
    EXPECT_LE(difference(one, all), 2e-6);
    const Finished verify = run({"verify", "--case", "attention.scale.f32"}, "3", ATTILE_STAND_IN_PATH);
    EXPECT_EQ(verify.code, 0) << verify.err;
    EXPECT_PRED_FORMAT2(IsSubstring, "2 by nccl, a GPU each", verify.out);
    const Finished bench =
        run({"bench", "--size", "tiny", "--filter", "^attention/f32/b1_h2_l128_d64", "--seconds", "0.01"}, "2", ATTILE_STAND_IN_PATH);
    EXPECT_PRED_FORMAT2(IsSubstring, "2 by nccl, a GPU each; times", bench.out) << bench.err;
    // Otherwise the threads share one, and the report says why.
    const Finished few = run({"attention", kInput, all}, "1", ATTILE_STAND_IN_PATH);
    EXPECT_PRED_FORMAT2(IsSubstring, "2 by threads on one GPU (the backend finds 1), contiguous shards", few.out);
    EXPECT_LE(difference(one, all), 2e-6);
    const Finished named = run({"attention", kInput, all}, "2", ATTILE_STAND_IN_PATH, "emulated:1");
    EXPECT_PRED_FORMAT2(IsSubstring, "2 by threads, contiguous shards", named.out);
    const std::string broken = scratch.file("libnccl.so.2");
    std::ofstream(broken) << "no library";
    const Finished without = run({"attention", kInput, all}, "2", broken.substr(0, broken.rfind('/')).c_str());
    EXPECT_PRED_FORMAT2(IsSubstring, "2 by threads on one GPU (", without.out);
    EXPECT_PRED_FORMAT2(IsSubstring, "libnccl.so.2: ", without.out);
}
#endif

TEST(RanksTest, WhatGoesWrongLeavesNothing) {
    const ScratchDirectory scratch;
    const std::string output = scratch.file("out");
    const struct {
        std::vector<std::string> arguments;
        int code;
        const char *sentence;
    } cases[] = {
        {{"attention", "nosuch.bin", output, "--ranks", "2"}, 1, "attile: 'nosuch.bin' cannot be opened"},
        {{"attention", kInput, "/dev/null", "--ranks", "2"},
         1,
         "'/dev/null' is not a regular file, and with --ranks each rank writes its part"},
        {{"attention", "/dev/null", output, "--ranks", "2"}, 1, "/dev/null' "},
        {{"attention", kInput, scratch.file("no/out"), "--ranks", "3"}, 1, "out' cannot be written"},
        {{"attention", kInput, kInput, "--ranks", "3"}, 1, "is both the input and the output"},
        {{"attention", kInput, output, "--ranks", "2", "--backend", "nosuch"}, 1, "libattile_backend_nosuch.so"},
        {{"attention", "--ranks", kInput, output}, 1, "--ranks without a number is for ranks of MPI"},
        {{"attention", kInput, output, "--ranks"}, 1, "--ranks without a number is for ranks of MPI"},
        {{"attention", kInput, output, "--ranks", "0"}, 2, "'0' is not a number of ranks from 1 to 1024"},
        {{"attention", kInput, output, "--ranks=x"}, 2, "'x' is not a number of ranks"},
        {{"verify", "--ranks", "2", "--filter", "^gemm"}, 1, "--ranks is for cases of attention and attention_backward"},
        {{"verify", "--ranks", "2", "--list"}, 2, "--list excludes --ranks"},
        {{"verify", "--ranks", "2", "--memory", "host"}, 2, "excludes"},
        {{"bench", "--ranks", "2", "--filter", "^gemm"}, 1, "--ranks is for cases of attention and attention_backward"},
        {{"bench", "--ranks", "2", "--json", output}, 2, "excludes"},
        {{"explain", "gemm", "8", "8", "8", "--ranks", "2", "--link", "1e9"}, 1, "--ranks is for attention and attention_backward; the op"},
        {{"explain", "attention", "1", "1", "8", "8", "--ranks", "2"}, 2, "--ranks requires --link"},
        {{"explain", "attention", "1", "1", "8", "8", "--causal", "--len-k", "9", "--ranks", "2", "--link", "1e9", "--device-peak-flops",
          "1e9"},
         1,
         "--ranks with --causal takes as many keys as rows; --len-k is 9"},
    };
    for (const auto &one : cases) {
        const Finished run = run_attile(one.arguments, {{"OMPI_COMM_WORLD_SIZE", ""}, {"PMI_SIZE", ""}});
        EXPECT_EQ(run.code, one.code) << testing::PrintToString(one.arguments);
        EXPECT_PRED_FORMAT2(IsSubstring, one.sentence, run.err);
        EXPECT_EQ(lines(run.err), 1) << run.err;
        EXPECT_TRUE(scratch.names().empty()) << testing::PrintToString(one.arguments);
    }
}

TEST(RanksTest, Verify) {
    for (const char *backend : {"reference", "cpu"}) {
        for (const char *ranks : {"1", "2", "3", "4"}) {
            const Finished run = run_attile(
                {"verify", "--ranks", ranks, "--backend", backend, "--filter", "random\\.[1-3]$|^attention(_backward)?\\.(sinks)"});
            EXPECT_EQ(run.code, 0) << run.out << run.err;
            EXPECT_PRED_FORMAT2(IsSubstring, std::string(ranks) + " by threads", run.out);
            EXPECT_PRED_FORMAT2(IsSubstring, "\nattention_backward ", run.out);
            EXPECT_PRED_FORMAT2(IsSubstring, "\nall ", run.out);
        }
    }
    // Cases of what ranks refuse are left out.
    const Finished some = run_attile({"verify", "--ranks", "2", "--backend", "reference", "--filter",
                                      "\\.(left_padding|offset|rows_packed|lse|blocks|tree|sinks).*f64"});
    EXPECT_EQ(some.code, 0) << some.out << some.err;
    for (const char *refused : {"left padding", "causal offsets", "block mask", "tree mask"})
        EXPECT_PRED_FORMAT2(testing::IsNotSubstring, refused, some.out);
    const Finished one = run_attile({"verify", "--ranks", "3", "--case", "attention.random.7"});
    EXPECT_EQ(one.code, 0) << one.err;
    EXPECT_PRED_FORMAT2(IsSubstring, "seed=7, 3 ranks, ", one.out);
    EXPECT_PRED_FORMAT2(IsSubstring, "passed", one.out);
}

TEST(RanksTest, Bench) {
    for (const char *backend : {"reference", "cpu"}) {
        for (const char *ranks : {"1", "2", "3", "4"}) {
            const Finished run = run_attile({"bench", "--ranks", ranks, "--backend", backend, "--size", "tiny", "--seconds", "0.02"});
            ASSERT_EQ(run.code, 0) << run.err;
            for (const char *part : {" by threads; ", "communication", "attention/f32/b1_h2_l128_d64 ", "attention_backward/"})
                EXPECT_PRED_FORMAT2(IsSubstring, part, run.out);
        }
    }
    const Finished alone = run_attile({"bench", "--ranks", "1", "--size", "tiny", "--filter", "^attention/", "--seconds", "0.02"});
    EXPECT_PRED_FORMAT2(IsSubstring, " 0 to 0 % ", alone.out);
    const Finished list = run_attile({"bench", "--ranks", "2", "--size", "tiny", "--list"});
    EXPECT_PRED_FORMAT2(IsSubstring, "attention/f32/b1_h2_l128_d64\n", list.out);
    EXPECT_PRED_FORMAT2(testing::IsNotSubstring, "gemm", list.out);
}

}  // namespace
