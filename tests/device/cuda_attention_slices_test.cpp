// SPDX-License-Identifier: Apache-2.0
// What queries say of calls whose rewritten operands do not find room at once: tensor cores take them in slices, in the workspace of one.
#include <algorithm>

#include "cuda_test_context.h"

namespace attile::test {
namespace {

class CudaAttentionSlices : public TensorCoreTest, public testing::WithParamInterface<const char *> {
  protected:
    void SetUp() override {
        open(GetParam());
        if (generation.empty()) GTEST_SKIP() << "no kernels for tensor cores";
        attile_context_info info;
        attile_context_info_init(&info, sizeof info);
        ASSERT_EQ(attile_context_get_info(context, &info), ATTILE_OK) << last_error();
        room_ = std::min(info.memory_total / 16, int64_t{1} << 30);
    }
    // Of a cache of i8 that as bf16 fills the room so many times, in entries of kKeys keys and kHeads heads.
    attile_support ask(int64_t times, int64_t batch, int64_t heads, uint32_t flags = 0) {
        constexpr int64_t kColumns = 128;
        const int64_t keys = times * room_ / (batch * heads * kColumns * 2 * 2);
        attile_attention_args args;
        attile_attention_init(&args, sizeof args);
        const auto tensor = [&](attile_tensor &to, int32_t dtype, int64_t rows) {
            const int64_t shape[] = {batch, heads, rows, kColumns};
            ASSERT_EQ(attile_tensor_init(&to, nullptr, dtype, 4, shape), ATTILE_OK) << last_error();
        };
        tensor(args.q, ATTILE_BF16, 64);
        tensor(args.k, ATTILE_I8, keys);
        tensor(args.v, ATTILE_I8, keys);
        tensor(args.o, ATTILE_BF16, 64);
        args.flags = flags;
        attile_support support;
        attile_support_init(&support, sizeof support);
        EXPECT_EQ(attile_attention_query(context, &args, &support), ATTILE_OK) << last_error();
        return support;
    }
    static bool says(const attile_support &support, const char *what) { return std::strstr(support.text, what) != nullptr; }

    int64_t room_ = 0;
};

TEST_P(CudaAttentionSlices, AreAsFewAsFit) {
    struct Asked {
        int64_t times, batch, heads;
        const char *slices;
    };
    for (const Asked &of : {Asked{1, 4, 2, nullptr},
                            {2, 4, 2, "in 2 slices"},
                            {2, 1, 8, "in 2 slices"},
                            {2, 5, 4, "in 2 slices"},
                            {2, 5, 3, "in 3 slices"},
                            {3, 5, 7, "in 5 slices"},
                            {8, 4, 2, "in 8 slices"}}) {
        const attile_support support = ask(of.times, of.batch, of.heads);
        SCOPED_TRACE(support.text);
        EXPECT_NE(std::strstr(support.kernel, generation.c_str()), nullptr) << support.kernel;
        EXPECT_TRUE(of.slices != nullptr ? says(support, of.slices) : !says(support, "slices"));
        if (support.splits == 1) {
            EXPECT_LE(support.workspace_bytes, room_ + 4096);
        }
    }
}

TEST_P(CudaAttentionSlices, AreNotMadeInVain) {
    const attile_support invariant = ask(4, 4, 2, ATTILE_FLAG_BATCH_INVARIANT), long_head = ask(16, 2, 4);
    for (const attile_support *support : {&invariant, &long_head}) {
        EXPECT_EQ(std::strstr(support->kernel, generation.c_str()), nullptr) << support->kernel;
        EXPECT_FALSE(says(*support, "slices")) << support->text;
    }
}

INSTANTIATE_TEST_SUITE_P(Kernels, CudaAttentionSlices, testing::Values("", "80"), tensor_core_name);

}  // namespace
}  // namespace attile::test
