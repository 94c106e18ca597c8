// SPDX-License-Identifier: Apache-2.0
// The attile program and the example, run as a user runs them: results against the committed data, and every way of failing.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>

#include "run_program.h"

namespace {

using namespace attile::test;
using testing::IsSubstring;

const std::string kExample = ATTILE_EXAMPLE_ATTENTION;
const std::string kData = ATTILE_EXAMPLE_DATA;
const std::string kInput = kData + "/attention_small.bin";

void expect_close(const std::string &path, const std::string &expected_path, double tolerance) {
    const std::vector<float> values = floats_of(read_file(path)), expected = floats_of(read_file(expected_path));
    ASSERT_EQ(values.size(), expected.size());
    for (size_t i = 0; i < values.size(); ++i)
        if (!(std::fabs(values[i] - expected[i]) <= tolerance))
            FAIL() << "element " << i << ": " << values[i] << ", expected " << expected[i];
}

// "" is the default backend. The reference rounds once, at the end; others compute in float32, with scores of up to some tens.
class AttentionTest : public testing::TestWithParam<std::string> {
  protected:
    Environment environment() const { return {{"ATTILE_BACKEND", GetParam()}}; }
    double tolerance() const { return GetParam() == "reference" ? 2.5e-7 : 1e-5; }
    ScratchDirectory scratch_;
};

TEST_P(AttentionTest, AgreesWithTheIndependentResult) {
    const Finished run = run_attile({"attention", kInput, scratch_.file("out")}, environment());
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(run.err, "");
    EXPECT_PRED_FORMAT2(IsSubstring, "B = 2, N = 33, d = 16", run.out);
    EXPECT_PRED_FORMAT2(IsSubstring, "GFLOP/s", run.out);
    expect_close(scratch_.file("out"), kData + "/attention_small_expected.bin", tolerance());
}

TEST_P(AttentionTest, CausalAgreesWithTheIndependentResult) {
    const Finished run = run_attile({"attention", "--causal", kInput, scratch_.file("out")}, environment());
    ASSERT_EQ(run.code, 0) << run.err;
    expect_close(scratch_.file("out"), kData + "/attention_small_causal_expected.bin", tolerance());
}

TEST_P(AttentionTest, ExampleAgreesWithTheIndependentResult) {
    const Finished run = run_program({kExample, kInput, scratch_.file("out")}, environment());
    ASSERT_EQ(run.code, 0) << run.err;
    expect_close(scratch_.file("out"), kData + "/attention_small_expected.bin", tolerance());
}

TEST_P(AttentionTest, BatchByBatchGivesTheSame) {
    ASSERT_EQ(run_attile({"attention", kInput, scratch_.file("whole")}, environment()).code, 0);
    const Finished run = run_attile({"attention", kInput, scratch_.file("parts"), "--memory", "1"}, environment());
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_PRED_FORMAT2(IsSubstring, "1 batch", run.out);
    expect_close(scratch_.file("parts"), scratch_.file("whole"), tolerance());
}

INSTANTIATE_TEST_SUITE_P(Backends, AttentionTest, testing::Values("reference", ""),
                         [](const auto &instance) { return instance.param.empty() ? std::string("default") : instance.param; });

class FailureTest : public testing::Test {
  protected:
    // One sentence on stderr, nothing on stdout, nothing left behind, and what was there before untouched.
    void expect_failure(const std::string &input, const std::string &sentence, const Environment &environment = {}) {
        write_file(scratch_.file("out"), "precious");
        const std::vector<std::string> before = scratch_.names();
        const Finished run = run_attile({"attention", input, scratch_.file("out")}, environment);
        EXPECT_EQ(run.code, 1);
        EXPECT_EQ(run.out, "");
        EXPECT_EQ(lines(run.err), 1) << run.err;
        EXPECT_PRED_FORMAT2(IsSubstring, sentence, run.err);
        EXPECT_EQ(read_file(scratch_.file("out")), "precious");
        EXPECT_EQ(scratch_.names(), before);
    }
    ScratchDirectory scratch_;
};

TEST_F(FailureTest, WrongFiles) {
    const std::string whole = read_file(kInput);
    write_file(scratch_.file("empty"), "");
    write_file(scratch_.file("truncated"), whole.substr(0, whole.size() - 1));
    write_file(scratch_.file("oversized"), whole + "x");
    write_file(scratch_.file("negative"), std::string("\1\0\0\0\377\377\377\377\1\0\0\0", 12));
    expect_failure(scratch_.file("empty"), "is empty");
    expect_failure(scratch_.file("truncated"), "is truncated");
    expect_failure(scratch_.file("oversized"), "after its end");
    expect_failure(scratch_.file("negative"), "N = -1");
    expect_failure(scratch_.file("missing"), "No such file");
    expect_failure(scratch_.file("out"), "too short");
    for (const char *name : {"empty", "truncated", "oversized", "negative", "missing"}) {
        const Finished run = run_program({kExample, scratch_.file(name), scratch_.file("example")});
        EXPECT_NE(run.code, 0) << name;
        EXPECT_NE(run.err, "") << name;
    }
    EXPECT_THROW(read_file(scratch_.file("example")), std::runtime_error);
}

TEST_F(FailureTest, UnknownBackend) {
    expect_failure(kInput, "libattile_backend_nosuch.so", {{"ATTILE_BACKEND", "nosuch"}});
    expect_failure(kInput, "nosuch", {{"ATTILE_BACKEND", "nosuch,nosuch2"}});
    expect_failure(kInput, "attile: ", {{"ATTILE_BACKEND", "../cpu"}});
}

TEST_F(FailureTest, InputIsOutput) {
    write_file(scratch_.file("both"), read_file(kInput));
    const Finished run = run_attile({"attention", scratch_.file("both"), scratch_.file("both")});
    EXPECT_EQ(run.code, 1);
    EXPECT_PRED_FORMAT2(IsSubstring, "both the input and the output", run.err);
    EXPECT_EQ(read_file(scratch_.file("both")), read_file(kInput));
}

TEST_F(FailureTest, PipeWithTooMuch) {
    ASSERT_EQ(mkfifo(scratch_.file("pipe").c_str(), 0600), 0);
    const pid_t process = start_program({ATTILE_PROGRAM, "attention", scratch_.file("pipe"), scratch_.file("out")});
    write_file(scratch_.file("pipe"), read_file(kInput) + "x");
    EXPECT_EQ(wait_for_program(process).code, 1);
    EXPECT_EQ(scratch_.names(), std::vector<std::string>{"pipe"});
}

TEST_F(FailureTest, WrongCommandLines) {
    const std::vector<std::vector<std::string>> wrong = {{},
                                                         {"nosuch"},
                                                         {"attention"},
                                                         {"attention", "x"},
                                                         {"attention", "x", "y", "--nosuch"},
                                                         {"attention", "x", "y", "--threads", "-1"},
                                                         {"bench", "--size", "huge"},
                                                         {"explain", "nosuch", "1"},
                                                         {"explain", "gemm", "x"}};
    for (const auto &arguments : wrong) {
        const Finished run = run_attile(arguments);
        EXPECT_EQ(run.code, 2) << testing::PrintToString(arguments);
        EXPECT_NE(run.err, "");
        EXPECT_EQ(run.out, "");
    }
    EXPECT_EQ(run_attile({"explain", "gemm", "1", "2"}).code, 1);
    EXPECT_EQ(run_attile({"bench", "--filter", "("}).code, 1);
    EXPECT_EQ(run_attile({"bench", "--filter", "nothing-has-this-name"}).code, 1);
}

TEST(GenerateTest, MakesTheCommittedInput) {
    const ScratchDirectory scratch;
    const Finished run = run_attile({"generate", scratch.file("x"), "--batch", "2", "--length", "33", "--dim", "16", "--seed", "1"});
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(read_file(scratch.file("x")), read_file(kInput));
    ASSERT_EQ(run_attile({"generate", scratch.file("y"), "-B", "2", "-N", "33", "-d", "16", "--seed", "2"}).code, 0);
    EXPECT_NE(read_file(scratch.file("x")), read_file(scratch.file("y")));
}

TEST(GenerateTest, RefusesWhatNoFileHolds) {
    const ScratchDirectory scratch;
    for (const char *batch : {"0", "-1", "2147483647", "4294967296", "99999999999999999999", "1.5"}) {
        const Finished run = run_attile({"generate", scratch.file("x"), "-B", batch, "-N", "2147483647", "-d", "2147483647"});
        EXPECT_NE(run.code, 0) << batch;
        EXPECT_NE(run.err, "") << batch;
    }
    EXPECT_TRUE(scratch.names().empty());
}

TEST(InfoTest, TellsWhatWasTried) {
    const Finished run = run_attile({"info"}, {{"ATTILE_BACKEND", "nosuch,reference"}});
    EXPECT_EQ(run.code, 0) << run.err;
    for (const char *part : {"attile 1.", "nosuch,reference (ATTILE_BACKEND)", "libattile_backend_nosuch.so", "chosen", "transports tried",
                             "transport mpi (no file): refused", "transport nccl ("})
        EXPECT_PRED_FORMAT2(IsSubstring, part, run.out);
    const Finished failed = run_attile({"info", "--backend", "nosuch"});
    EXPECT_EQ(failed.code, 1);
    EXPECT_PRED_FORMAT2(IsSubstring, "libattile_backend_nosuch.so", failed.out);
    EXPECT_EQ(lines(failed.err), 1);
}

TEST(BenchTest, ShortRunAndJson) {
    const ScratchDirectory scratch;
    const Finished run = run_attile({"bench", "--backend", "reference", "--size", "tiny", "--filter", "gemm/f32/64x", "--seconds", "0.05",
                                     "--json", scratch.file("j")});
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_PRED_FORMAT2(IsSubstring, "reference_gemm", run.out);
    EXPECT_PRED_FORMAT2(IsSubstring, "\"median_seconds\": ", read_file(scratch.file("j")));
    const Finished exact = run_attile(
        {"bench", "--backend", "reference", "--size", "tiny", "--filter", "^(softmax|gemm_grouped)", "--seconds", "0.05", "--exact"});
    ASSERT_EQ(exact.code, 0) << exact.err;
    for (const char *part : {"times  kernel", "softmax/f32/128x512 ", "softmax/f32/128x512_exact ", "reference_softmax"})
        EXPECT_PRED_FORMAT2(IsSubstring, part, exact.out);
    EXPECT_EQ(exact.out.find("gemm_grouped"), std::string::npos) << exact.out;
    const Finished none = run_attile({"bench", "--backend", "reference", "--exact", "--filter", "^gemm_grouped"});
    EXPECT_EQ(none.code, 1);
    EXPECT_PRED_FORMAT2(IsSubstring, "none of these cases is served with ATTILE_FLAG_EXACT_PRODUCTS", none.err);
    const Finished list = run_attile({"bench", "--backend", "reference", "--size", "large", "--list"});
    EXPECT_EQ(list.code, 0);
    EXPECT_PRED_FORMAT2(IsSubstring, "gemm/f32/4096x4096x4096\n", list.out);
}

TEST(VerifyTest, OneCase) {
    const Finished run = run_attile({"verify", "--case", "gemm.2x3x5.f32"});
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_PRED_FORMAT2(IsSubstring, "passed", run.out);
    EXPECT_EQ(run_attile({"verify", "--backend", "reference", "--case", "attention.random.7"}).code, 0);
    const Finished unknown = run_attile({"verify", "--case", "gemm.nosuch"});
    EXPECT_EQ(unknown.code, 1);
    EXPECT_PRED_FORMAT2(IsSubstring, "no case 'gemm.nosuch'", unknown.err);
    const Finished backend = run_attile({"verify", "--backend", "nosuch"});
    EXPECT_EQ(backend.code, 1);
    EXPECT_PRED_FORMAT2(IsSubstring, "libattile_backend_nosuch.so", backend.err);
}

TEST(VerifyTest, SomeCases) {
    const Finished some = run_attile({"verify", "--filter", "^gemm.(2x3x5|1x1x1).f32$", "--list"});
    EXPECT_EQ(some.code, 0) << some.err;
    EXPECT_EQ(lines(some.out), 3) << some.out;  // and the table's head
    EXPECT_EQ(run_attile({"verify", "--backend", "reference", "--filter", "gemm.2x3x5", "--fail-fast"}).code, 0);
    const Finished none = run_attile({"verify", "--filter", "nosuch"});
    EXPECT_EQ(none.code, 1);
    EXPECT_PRED_FORMAT2(IsSubstring, "no case matches 'nosuch'", none.err);
}

TEST(VerifyTest, List) {
    const Finished quick = run_attile({"verify", "--list"}), full = run_attile({"verify", "--list", "--full"});
    EXPECT_EQ(quick.code, 0);
    EXPECT_PRED_FORMAT2(IsSubstring, "\ngemm.2x3x5.f32 ", quick.out);
    EXPECT_GE(lines(full.out), lines(quick.out));
}

TEST(ExplainTest, Roofline) {
    const Finished run = run_attile(
        {"explain", "gemm", "1000", "1000", "1000", "--backend", "reference", "--device-peak-flops", "1e13", "--device-bandwidth", "1e12"});
    ASSERT_EQ(run.code, 0) << run.err;
    for (const char *part : {"2.00 GFLOP", "10.00 FLOP/B", "arithmetic", "floor", "0.2 ms", "reference_gemm"})
        EXPECT_PRED_FORMAT2(IsSubstring, part, run.out);
    for (const std::vector<std::string> &shape :
         std::vector<std::vector<std::string>>{{"attention", "1", "8", "512", "64", "--heads-kv", "2", "--causal"},
                                               {"attention", "4", "8", "1", "64", "--len-k", "4096", "--dtype", "f16"},
                                               {"attention", "1", "8", "1", "64", "--k-dtype", "i8", "--v-dtype", "bf16"},
                                               {"attention_backward", "1", "8", "512", "64"},
                                               {"attention_merge", "1", "8", "512", "64", "4"},
                                               {"reduce", "100", "1000"},
                                               {"softmax", "100", "1000", "--dtype", "f64"}}) {
        std::vector<std::string> arguments = shape;
        arguments.insert(arguments.begin(), {"explain", "--backend", "reference"});  // It has every operation.
        EXPECT_EQ(run_attile(arguments).code, 0) << testing::PrintToString(shape);
    }
}

TEST(ExplainTest, FastAccumulation) {
    const auto explained = [&](std::vector<std::string> more) {
        more.insert(more.begin(), {"explain", "gemm", "64", "64", "64", "--backend", "reference"});
        return run_attile(more);
    };
    const Finished fast = explained({"--dtype", "e4m3", "--b-dtype", "e4m3", "--fast"});
    ASSERT_EQ(fast.code, 0) << fast.err;
    EXPECT_PRED_FORMAT2(IsSubstring, "gemm, e4m3 times e4m3, fast accumulation", fast.out);
    EXPECT_PRED_FORMAT2(IsSubstring, "--fast is for gemm of 8-bit floats both, and for attention of e4m3",
                        explained({"--b-dtype", "e4m3", "--fast"}).err);
    EXPECT_PRED_FORMAT2(IsSubstring, "--dtype e5m2 is for attention, and for gemm with --b-dtype", explained({"--dtype", "e5m2"}).err);
}

TEST(ExplainTest, TypesOfKeysAndValues) {
    const std::vector<std::string> decode = {"attention", "1", "8", "1", "64", "--len-k", "1024", "--backend", "reference"};
    const auto explained = [&](std::vector<std::string> more) {
        more.insert(more.begin(), decode.begin(), decode.end());
        more.insert(more.begin(), "explain");
        return run_attile(more);
    };
    const Finished mixed = explained({"--dtype", "bf16", "--k-dtype", "e4m3"});
    ASSERT_EQ(mixed.code, 0) << mixed.err;
    EXPECT_PRED_FORMAT2(IsSubstring, "attention, bf16, k e4m3, v bf16", mixed.out);
    const Finished narrow = explained({"--dtype", "e4m3", "--fast"});
    ASSERT_EQ(narrow.code, 0) << narrow.err;
    EXPECT_PRED_FORMAT2(IsSubstring, "attention, e4m3, fast accumulation", narrow.out);
    EXPECT_EQ(explained({"--dtype", "i8", "--k-dtype", "bf16"}).code, 0);
    const Finished integers = explained({"--dtype", "i8", "--fast"});
    ASSERT_EQ(integers.code, 0) << integers.err;
    EXPECT_PRED_FORMAT2(IsSubstring, "attention, i8, fast accumulation", integers.out);
    EXPECT_PRED_FORMAT2(IsSubstring, "and for attention of e4m3 or i8", explained({"--dtype", "i8", "--v-dtype", "e4m3", "--fast"}).err);
    EXPECT_PRED_FORMAT2(IsSubstring, "and for attention of e4m3", explained({"--dtype", "e4m3", "--v-dtype", "e5m2", "--fast"}).err);
    EXPECT_PRED_FORMAT2(IsSubstring, "--ranks takes no numbers of 8 bits",
                        explained({"--dtype", "i8", "--ranks", "2", "--link", "1e9", "--device-peak-flops", "1e12"}).err);
    EXPECT_PRED_FORMAT2(IsSubstring, "k.dtype is i8", explained({"--dtype", "f64", "--k-dtype", "i8"}).err);
    EXPECT_PRED_FORMAT2(IsSubstring, "--ranks takes q, k and v of one type",
                        explained({"--v-dtype", "i8", "--ranks", "2", "--link", "1e9", "--device-peak-flops", "1e12"}).err);
    EXPECT_PRED_FORMAT2(IsSubstring, "--v-dtype is for attention", run_attile({"explain", "gemm", "1", "2", "3", "--v-dtype", "i8"}).err);
}

}  // namespace
