// SPDX-License-Identifier: Apache-2.0
// attile bench --random and --problem: what is drawn, that an id is the problem again, what is refused, and what is written.
#include <gtest/gtest.h>

#include "random_problem.h"
#include "run_program.h"

namespace attile::test {
namespace {

using cli::Draw;
using cli::Operation;
using cli::Problem;
using testing::IsSubstring;

// Enough of JSON to see that brackets and quotes match and that nothing follows.
bool is_balanced(const std::string &json) {
    std::string open;
    bool in_string = false;
    for (size_t i = 0; i < json.size(); ++i) {
        const char c = json[i];
        if (in_string) {
            if (c == '\\') ++i;
            in_string = c != '"';
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            open += c;
        } else if (c == '}' || c == ']') {
            if (open.empty() || open.back() != (c == '}' ? '{' : '[')) return false;
            open.pop_back();
        }
    }
    return open.empty() && !in_string;
}

TEST(BenchRandomTest, AnIdIsTheProblemAgain) {
    for (const Operation operation : cli::operations())
        for (const bool on_device : {false, true}) {
            Draw draw(operation, 5, on_device), again(operation, 5, on_device), other(operation, 6, on_device);
            int same = 0;
            for (int i = 0; i < 300; ++i) {
                const Problem drawn = draw.next();
                const std::string id = cli::id_of(drawn);
                EXPECT_EQ(id, cli::id_of(again.next()));
                same += id == cli::id_of(other.next());
                Problem read;
                ASSERT_EQ(cli::parse_problem(id, read), "");
                EXPECT_EQ(cli::id_of(read), id);
                EXPECT_EQ(cli::why_not(drawn), "") << id;
                const cli::Work work = cli::work_of(drawn), same_work = cli::work_of(read);
                EXPECT_EQ(work.flops, same_work.flops) << id;
                EXPECT_EQ(work.bytes, same_work.bytes) << id;
                EXPECT_GT(work.bytes, 0) << id;
            }
            EXPECT_LT(same, 30);
        }
}

TEST(BenchRandomTest, EveryOptionIsDrawn) {
    for (const Operation operation : cli::operations())
        for (const std::string &option : cli::option_names(operation)) {
            if (option == "e4m3") continue;  // Of ids alone, so that a seed's problems stay as they are.
            Draw draw(operation, 1, true);
            bool found = false;
            for (int i = 0; i < 3000 && !found; ++i) found = draw.next().has(option.c_str());
            EXPECT_TRUE(found) << bench::operation_name(operation) << " " << option;
        }
}

TEST(BenchRandomTest, WorkCountsWhatRowsSee) {
    const auto work = [](const char *id) {
        Problem problem;
        EXPECT_EQ(cli::parse_problem(id, problem), "");
        return cli::work_of(problem);
    };
    EXPECT_EQ(work("gemm:bf16:b3:2x5x7:nn").flops, 2.0 * 3 * 2 * 5 * 7);
    EXPECT_EQ(work("gemm:bf16:b3:2x5x7:tt:f32_out:shared_b").bytes, 2.0 * (3 * 2 * 7 + 7 * 5) + 4.0 * 3 * 2 * 5);
    EXPECT_EQ(work("attention:f32:b2:h4/2:l3x5:d8").flops, 4.0 * 2 * 4 * 3 * 5 * 8);
    EXPECT_EQ(work("attention:f32:b2:h4/2:l3x5:d8:causal").flops, 4.0 * 2 * 4 * (3 + 4 + 5) * 8);
    EXPECT_EQ(work("attention:f32:b1:h4/2:l3x5:d8:window1").flops, 4.0 * 4 * (2 + 2 + 2) * 8);
    EXPECT_EQ(work("attention:f32:b1:h4/2:l3x5:d8:window1").bytes, 4.0 * (2 * 3 * 4 * 8 + 2 * 4 * 2 * 8));
    EXPECT_EQ(work("attention:f32:b1:h4/2:l3x5:d8:cache_i8").bytes, 4.0 * 2 * 3 * 4 * 8 + 5.0 * 2 * (2 * 8 + 2 * 4));
    EXPECT_EQ(work("attention:bf16:b1:h4/2:l3x5:d8:e4m3").bytes, 3.0 * 3 * 4 * 8 + 5.0 * 2 * 2 * 8);
    EXPECT_EQ(work("attention_backward:f64:b2:h4/2:l3x5:d8").flops, 10.0 * 2 * 4 * 3 * 5 * 8);
    EXPECT_EQ(work("softmax:f16:3x5:f32_out").bytes, 15.0 * 6);
    EXPECT_EQ(work("reduce:f16:3x5:sum:over_rows").bytes, 15.0 * 2 + 5 * 2);
    EXPECT_EQ(work("attention_merge:f32:b1:h2:l3:d4:p5").bytes, 4.0 * 2 * 3 * (4 * 6 + 5));
    EXPECT_LE(work("attention:f32:b8:h4/4:l64x64:d8:lengths").flops, work("attention:f32:b8:h4/4:l64x64:d8").flops);
}

TEST(BenchRandomTest, ListsWhatItWouldRun) {
    const std::vector<std::string> command = {"bench", "--backend", "reference", "--random", "1", "--seed", "3", "--count", "7", "--list"};
    const Finished all = run_attile(command), again = run_attile(command);
    EXPECT_EQ(all.code, 0) << all.err;
    EXPECT_EQ(lines(all.out), 7 * 6);
    EXPECT_EQ(all.out, again.out);
    std::vector<std::string> one = command;
    one.insert(one.end(), {"--operation", "softmax"});
    EXPECT_PRED_FORMAT2(IsSubstring, run_attile(one).out, all.out);
}

TEST(BenchRandomTest, RunsAndWritesJson) {
    const ScratchDirectory scratch;
    const Finished run = run_attile({"bench", "--backend", "reference", "--random", "0.1", "--operation", "reduce", "--peak", "memory=1e10",
                                     "--json", scratch.file("j")});
    ASSERT_EQ(run.code, 0) << run.err;
    for (const char *part : {"reduce: ", "median", "lowest tenth", "type", "rows", "memory 10.0 GB/s"})
        EXPECT_PRED_FORMAT2(IsSubstring, part, run.out);
    const std::string json = read_file(scratch.file("j"));
    EXPECT_TRUE(is_balanced(json)) << json;
    for (const char *part : {"\"distributions\": [", "\"roofline_seconds\": ", "\"seed\": 1", "\"problem\": \"reduce:"})
        EXPECT_PRED_FORMAT2(IsSubstring, part, json);
}

TEST(BenchRandomTest, RerunsProblemsOfEveryOperation) {
    const std::vector<std::string> ids = {"gemm:bf16:b2:5x7x9:tn:bias:gelu:odd",
                                          "gemm:f32:b2:4x4x4:nn:beta:shared_b",
                                          "attention:f32:b3:h4/2:l5x17:d8:causal:alibi:packed",
                                          "attention:f16:b2:h2/1:l1x40:d16/8:paged16",
                                          "attention:f64:b1:h2/2:l5x9:d8:bias_heads:mask:softcap:sinks:lse:lengths:odd",
                                          "attention:f32:b1:h2/2:l9x9:d8:window3:blhd",
                                          "attention_backward:f32:b2:h2/1:l9x9:d8:causal:bias:dbias:blhd",
                                          "attention_merge:f32:b1:h2:l3:d4:p3:lse:odd",
                                          "reduce:f16:9x7:mean:over_rows:f32_out",
                                          "softmax:f32:9x7:in_place:odd"};
    for (const char *backend : {"reference", "cpu,reference"}) {
        std::vector<std::string> command = {"bench", "--backend", backend, "--seconds", "0.01"};
        for (const std::string &id : ids) command.insert(command.end(), {"--problem", id});
        const Finished run = run_attile(command);
        EXPECT_EQ(run.code, 0) << run.err << run.out;
        for (const std::string &id : ids) EXPECT_PRED_FORMAT2(IsSubstring, id, run.out);
    }
}

TEST(BenchRandomTest, RefusesWithOneSentence) {
    const std::vector<std::pair<std::vector<std::string>, const char *>> wrong = {
        {{"--random", "0"}, "not a number above 0"},
        {{"--random", "-1"}, "not a number above 0"},
        {{"--random", "soon"}, "not a number above 0"},
        {{"--random", "1", "--operation", "nosuch"}, "nosuch"},
        {{"--random", "1", "--seed", "-3"}, "-3"},
        {{"--random", "1", "--count", "0"}, "--count"},
        {{"--random", "1", "--filter", "x"}, "--random"},
        {{"--seed", "1"}, "requires --random"},
        {{"--operation", "gemm"}, "requires --random"},
        {{"--peak", "f32=1e12"}, "--random or --problem is required"},
        {{"--problem", "reduce:f32:4x4:sum", "--list"}, "excludes"},
        {{"--problem", "reduce:f32:4x4:sum", "--filter", "x"}, "excludes"},
        {{"--peak", "f32=fast"}, "not a peak"},
        {{"--peak", "f8=1e12"}, "none of f32"},
        {{"--problem", ""}, "no operation ''"},
        {{"--problem", "conv:f32:1x1"}, "no operation 'conv'"},
        {{"--problem", "gemm"}, "f32, f64, f16 or bf16"},
        {{"--problem", "gemm:f8:b1:1x1x1:nn"}, "f32, f64, f16 or bf16"},
        {{"--problem", "gemm:f32:b1:1x1"}, "'1x1' is not MxNxK"},
        {{"--problem", "gemm:f32:b1:1x1x0:nn"}, "'1x1x0' is not MxNxK"},
        {{"--problem", "gemm:f32:b1:1x1x99999999999:nn"}, "is not MxNxK"},
        {{"--problem", "gemm:f32:b1:1x1x1"}, "ends before nn"},
        {{"--problem", "gemm:f32:b1:1x1x1:nn:causal"}, "'causal' is none of its options"},
        {{"--problem", "gemm:f32:b1:1x1x1:nn:relu:silu"}, "do not go together"},
        {{"--problem", "gemm:f32:b1:1x1x1:nn:f32_out"}, "f32_out is for"},
        {{"--problem", "attention:f32:b1:h4/3:l4x4:d8"}, "not a multiple"},
        {{"--problem", "attention:f32:b1:h4/4:l4x4:d8:e4m3"}, "e4m3 is for o of f16 and bf16"},
        {{"--problem", "attention:bf16:b1:h4/4:l4x4:d8:cache_i8:e4m3"}, "do not go together"},
        {{"--problem", "attention:f32:b1:h4/4:l4x4:d8:window"}, "'window' is none"},
        {{"--problem", "attention:f32:b1:h4/4:l4x4:d8:mask:mask"}, "twice"},
        {{"--problem", "attention:f32:b99999:h99999/1:l99999x1:d8"}, "too large"},
        {{"--problem", "reduce:f32:4x4"}, "sum, max, min or mean"},
    };
    for (const auto &[arguments, sentence] : wrong) {
        std::vector<std::string> command = {"bench", "--backend", "reference"};
        command.insert(command.end(), arguments.begin(), arguments.end());
        const Finished run = run_attile(command);
        EXPECT_EQ(run.code, 2) << testing::PrintToString(arguments);
        EXPECT_EQ(run.out, "");
        EXPECT_EQ(lines(run.err), 1) << run.err;
        EXPECT_PRED_FORMAT2(IsSubstring, sentence, run.err);
    }
}

}  // namespace
}  // namespace attile::test
