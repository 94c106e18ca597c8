// SPDX-License-Identifier: Apache-2.0
// The reader of the attention file format: every way in which a file can be wrong.
#include "attention_file.h"

#include <gtest/gtest.h>

#include <cstring>

#include "run_program.h"

namespace {

using attile::cli::attention_file_bytes;
using attile::cli::AttentionFileShape;
using attile::cli::AttentionReader;
using attile::test::ScratchDirectory;
using attile::test::write_file;

std::string header(int32_t batch, int32_t len, int32_t head_dim) {
    const int32_t values[3] = {batch, len, head_dim};
    std::string bytes(sizeof values, '\0');
    std::memcpy(bytes.data(), values, sizeof values);
    return bytes;
}

class AttentionFileTest : public testing::Test {
  protected:
    // The sentence, or "" if the file is taken.
    std::string problem_with(const std::string &bytes, int64_t limit = INT64_MAX) {
        write_file(scratch_.file("x"), bytes);
        AttentionReader reader;
        return reader.open(scratch_.file("x").c_str(), limit) ? "" : reader.error();
    }
    ScratchDirectory scratch_;
};

TEST_F(AttentionFileTest, TakesAWholeFile) {
    EXPECT_EQ(problem_with(header(1, 1, 1) + std::string(12, 'x')), "");
    EXPECT_EQ(problem_with(header(2, 3, 5) + std::string(2 * 3 * 15 * 4, 'x')), "");
}

TEST_F(AttentionFileTest, NamesWhatIsWrong) {
    using testing::IsSubstring;
    EXPECT_PRED_FORMAT2(IsSubstring, "is empty", problem_with(""));
    EXPECT_PRED_FORMAT2(IsSubstring, "too short", problem_with("123"));
    EXPECT_PRED_FORMAT2(IsSubstring, "it has 11", problem_with(header(1, 1, 1).substr(0, 11)));
    EXPECT_PRED_FORMAT2(IsSubstring, "is truncated", problem_with(header(1, 1, 1)));
    EXPECT_PRED_FORMAT2(IsSubstring, "is truncated", problem_with(header(1, 1, 1) + std::string(11, 'x')));
    EXPECT_PRED_FORMAT2(IsSubstring, "after its end", problem_with(header(1, 1, 1) + std::string(13, 'x')));
    EXPECT_PRED_FORMAT2(IsSubstring, "B = 0", problem_with(header(0, 1, 1)));
    EXPECT_PRED_FORMAT2(IsSubstring, "N = -1", problem_with(header(1, -1, 1)));
    EXPECT_PRED_FORMAT2(IsSubstring, "d = -2147483648", problem_with(header(1, 1, INT32_MIN)));
    EXPECT_PRED_FORMAT2(IsSubstring, "too large for any file", problem_with(header(INT32_MAX, INT32_MAX, INT32_MAX)));
    EXPECT_PRED_FORMAT2(IsSubstring, "too large for any file", problem_with(header(1, INT32_MAX, INT32_MAX)));
    EXPECT_PRED_FORMAT2(IsSubstring, "limit of 100 bytes", problem_with(header(1, 10, 10) + std::string(1200, 'x'), 100));
}

TEST_F(AttentionFileTest, RefusesWhatIsNoFile) {
    AttentionReader directory, missing;
    EXPECT_FALSE(directory.open("/"));
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "is a directory", directory.error());
    EXPECT_FALSE(missing.open(scratch_.file("missing").c_str()));
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "No such file", missing.error());
}

TEST_F(AttentionFileTest, ReadsBatchesAndNoMore) {
    std::string bytes = header(2, 1, 2);
    for (int i = 0; i < 12; ++i) {
        const float value = static_cast<float>(i);
        bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
    }
    write_file(scratch_.file("x"), bytes);
    AttentionReader reader;
    ASSERT_TRUE(reader.open(scratch_.file("x").c_str()));
    EXPECT_EQ(reader.bytes(), 60);
    EXPECT_EQ(reader.shape().batch_floats(), 6);
    float values[6];
    ASSERT_TRUE(reader.read(1, values));
    EXPECT_EQ(values[5], 5.0f);
    EXPECT_FALSE(reader.finish());
    ASSERT_TRUE(reader.read(1, values));
    EXPECT_EQ(values[0], 6.0f);
    EXPECT_FALSE(reader.read(1, values));
    EXPECT_FALSE(reader.read(-1, values));
    EXPECT_TRUE(reader.finish());
}

TEST_F(AttentionFileTest, ShrunkWhileBeingRead) {
    const std::string bytes = header(2, 1, 2) + std::string(48, 'x');
    write_file(scratch_.file("x"), bytes);
    AttentionReader reader;
    ASSERT_TRUE(reader.open(scratch_.file("x").c_str()));
    write_file(scratch_.file("x"), bytes.substr(0, 40));
    float values[12];
    EXPECT_FALSE(reader.read(2, values));
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "it ends 20 short", reader.error());
}

TEST(AttentionFileBytesTest, LimitsOfTheFormat) {
    int64_t bytes = 0;
    std::string why;
    EXPECT_TRUE(attention_file_bytes({1, 1, 1}, bytes, why));
    EXPECT_EQ(bytes, 24);
    EXPECT_TRUE(attention_file_bytes({1, 715827882, INT32_MAX / 2}, bytes, why)) << why;
    EXPECT_FALSE(attention_file_bytes({INT32_MAX, INT32_MAX, 1}, bytes, why));
    EXPECT_FALSE(attention_file_bytes({int64_t{1} << 32, 1, 1}, bytes, why));
    EXPECT_FALSE(attention_file_bytes({1, 0, 1}, bytes, why));
}

}  // namespace
