// SPDX-License-Identifier: Apache-2.0
// `attile explain occupancy`, `roofline` and `tiling` as a user asks them: the textbook's exercises, and questions that have no answer.
#include <gtest/gtest.h>

#include "run_program.h"

namespace {

using namespace attile::test;
using testing::IsNotSubstring;
using testing::IsSubstring;

Finished explain(const std::string &words) {
    std::vector<std::string> command = {ATTILE_PROGRAM, "explain"};
    for (size_t at = 0; at < words.size();) {
        const size_t end = std::min(words.find(' ', at), words.size());
        command.push_back(words.substr(at, end - at));
        at = end + 1;
    }
    return run_program(command);
}

void expect_answer(const std::string &words, const std::vector<std::string> &parts) {
    const Finished run = explain(words);
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(run.err, "");
    for (const std::string &part : parts) EXPECT_PRED_FORMAT2(IsSubstring, part, run.out);
}

void expect_refusal(const std::string &words, int code, const std::string &sentence) {
    const Finished run = explain(words);
    EXPECT_EQ(run.code, code) << words;
    EXPECT_EQ(run.out, "") << words;
    EXPECT_PRED_FORMAT2(IsSubstring, sentence, run.err);
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
}

TEST(ExplainOccupancyTest, Exercises) {
    const std::string unit = " --sm-threads 2048 --sm-blocks 32 --sm-registers 64K --sm-shared 96KB";
    expect_answer("occupancy --threads 64 --registers 27 --shared 4KB" + unit,
                  {"24 blocks, 1 536 of 2 048 threads, occupancy 75 %, limited by shared memory\n"});
    expect_answer("occupancy --threads 256 --registers 31 --shared 8192" + unit,
                  {"8 blocks, 2 048 of 2 048 threads, occupancy 100 %: full\n"});
    expect_answer("occupancy --threads 32 --registers 29 --sm-threads 2048 --sm-blocks 32 --sm-registers 65536",
                  {"32 blocks, 1 024 of 2 048 threads, occupancy 50 %, limited by blocks\n", "not known"});
}

TEST(ExplainOccupancyTest, PlainNumbersAndThoseOfADevice) {
    expect_answer("occupancy --threads 256 --registers 33 --capability 6.1",
                  {"in plain numbers  7 blocks", "as allocated      6 blocks, 1 536 of 2 048 threads, occupancy 75 %, limited by registers",
                   "256 registers at a time to a warp of 32, in 4 partitions; 256 bytes of shared memory at a time\n"});
    expect_answer("occupancy --threads 64 --shared 4KB --capability 9.0 --sm-shared 96KB",
                  {"in plain numbers  24 blocks", "as allocated      19 blocks", "1024 more a block for the system"});
    expect_answer("occupancy --threads 1024 --registers 100 --capability 90", {"none: a block needs more registers than a unit has"});
}

TEST(ExplainOccupancyTest, QuestionsWithoutAnAnswer) {
    expect_refusal("occupancy", 2, "--threads is required (see attile explain occupancy --help)");
    expect_refusal("occupancy --threads 0 --capability 6.1", 2, "--threads");
    expect_refusal("occupancy --threads 64 --shared -1 --capability 6.1", 2, "--shared");
    expect_refusal("occupancy --threads 64", 1, "--capability");
    expect_refusal("occupancy --threads 64 --capability 6.4", 1, "compute capability 6.4");
    expect_refusal("occupancy --threads 64 --capability pascal", 1, "'pascal' is not a compute capability");
    expect_refusal("occupancy --threads 2048 --capability 6.1", 1, "threads a block are at most 1024");
    expect_refusal("occupancy --threads 64 --registers 256 --capability 6.1", 1, "registers a thread are at most 255");
    expect_refusal("occupancy --threads 64 --shared 64KB --capability 6.1", 1, "bytes of shared memory a block are at most 49152");
    expect_refusal("occupancy --threads 64 --dtype f32", 2, "--dtype");
}

TEST(ExplainRooflineTest, Exercises) {
    expect_answer("roofline --flop 36 --bytes 28 --flops 200e9 --bandwidth 100e9",
                  {"intensity      1.286 FLOP/B", "balance point  2 FLOP/B", "bound by       memory", "129 GFLOP/s, 64.3 % of the peak"});
    expect_answer("roofline --flop 36 --bytes 28 --flops 300e9 --bandwidth 250e9",
                  {"balance point  1.2 FLOP/B", "bound by       arithmetic", "300 GFLOP/s, 100 % of the peak"});
}

TEST(ExplainRooflineTest, QuestionsWithoutAnAnswer) {
    expect_refusal("roofline --flop 36 --bytes 28 --flops 200e9 --backend reference", 1, "--bandwidth");
    expect_refusal("roofline --flop 36", 2, "--bytes");
    expect_refusal("roofline --flop 36 --bytes 28 --flops -1 --bandwidth 1", 2, "--flops: '-1' is not a number above 0");
    for (const char *bad : {"nan", "inf", "1e999", "0", "1x"})
        expect_refusal("roofline --bytes 28 --flop " + std::string(bad), 2, "--flop");
}

TEST(ExplainTilingTest, Exercises) {
    expect_answer("tiling --n 1024 --tile 16",
                  {"reads without a tile  2 147 483 648 elements of 4 B: 0.25 FLOP/B\n",
                   "reads with this tile  134 217 728 elements of 4 B, 1/16 of them: 4 FLOP/B\n",
                   "an element of A       1 024 times without a tile, 64 times with it\n", "2 048 bytes a block"});
    expect_answer("tiling --m 100 --n 50 --k 30 --tile 128 32 --element-bytes 2",
                  {"M = 100, N = 50, K = 30", "300 000 elements of 2 B", "7 500 elements of 2 B, 1/40 of them",
                   "an element of A       50 times without a tile, 2 times with it"});
    expect_answer("tiling --n 4096 --tile 128 --flops 8.87e12 --bandwidth 320e9",
                  {"32 FLOP/B, arithmetic binds", "square tiles from 111 on"});
}

TEST(ExplainTilingTest, QuestionsWithoutAnAnswer) {
    expect_refusal("tiling --n 1024", 2, "--tile");
    expect_refusal("tiling --n 0 --tile 16", 2, "--n");
    expect_refusal("tiling --n 1024 --tile 0", 2, "--tile");
}

TEST(ExplainTest, AsksForAnOperationOrAQuestion) {
    expect_refusal("", 2, "OP is required");
    expect_refusal("gemm", 2, "SHAPE is required");
    for (const char *words : {"--help", "occupancy --help", "roofline --help", "tiling --help"}) EXPECT_EQ(explain(words).code, 0) << words;
}

}  // namespace
