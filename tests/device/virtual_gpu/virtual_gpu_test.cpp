// SPDX-License-Identifier: Apache-2.0
// The virtual GPU is what other tests believe: that it computes, and that it finds what kernels do wrong. What happens later than it is
// asked for has tests of its own (virtual_gpu_async_test.cpp).
#include <cmath>
#include <random>

#include "virtual_gpu_run.h"

namespace attile::virtual_gpu {
namespace {

TEST(VirtualGpuTest, LanesPartAndMeetAgain) {
    const Array<uint32_t> array(numbers(64));
    // Collatz steps of the thread's number, so that each lane leaves the loop at another time; then a shuffle that all must be there for.
    run(R"(
        mov.u32 %r3, 0;
        mov.u32 %r4, %r1;
        loop:
        setp.le.u32 %p1, %r4, 1;
        @%p1 bra done;
        and.b32 %r5, %r4, 1;
        setp.eq.s32 %p2, %r5, 1;
        @%p2 mad.lo.s32 %r4, %r4, 3, 1;
        @!%p2 shr.u32 %r4, %r4, 1;
        add.s32 %r3, %r3, 1;
        bra.uni loop;
        done:
        shfl.sync.bfly.b32 %r6|%p3, %r3, 1, 31, -1;
        st.global.u32 [%rd2], %r6;
        )",
        array.data(), {1, 64, 1});
    for (uint32_t i = 0; i < 64; ++i) {
        uint32_t steps = 0;
        for (uint32_t x = i ^ 1; x > 1; ++steps) x = x % 2 == 1 ? 3 * x + 1 : x / 2;
        EXPECT_EQ(array.data()[i], steps) << i;
    }
}

TEST(VirtualGpuTest, Arithmetic) {
    const std::vector<float> values = {1.5f, -2.25f, 1e-30f, 3e38f, INFINITY, 0.1f, 7.0f, -0.0f};
    std::vector<float> repeated;
    for (int i = 0; i < 32; ++i) repeated.push_back(values[static_cast<std::size_t>(i) % values.size()]);
    const Array<float> array(repeated);
    run(R"(
        ld.global.f32 %f1, [%rd2];
        fma.rn.f32 %f2, %f1, 0f40400000, 0fBF800000;
        cvt.rn.bf16x2.f32 %r3, %f2, %f1;
        { .reg .b16 low, high; mov.b32 {low, high}, %r3; mov.b32 %r4, {high, low}; }
        cvt.rzi.s32.f32 %r5, %f1;
        shl.b32 %r6, %r5, 2;
        xor.b32 %r4, %r4, %r6;
        st.global.u32 [%rd2], %r4;
        )",
        array.data());
    for (std::size_t i = 0; i < repeated.size(); ++i) {
        const float x = repeated[i];
        const double whole = std::trunc(static_cast<double>(x));
        const int32_t integer = whole >= 2147483647.0 ? INT32_MAX : static_cast<int32_t>(whole);
        const uint32_t wanted =
            (static_cast<uint32_t>(to_bf16(x)) << 16 | to_bf16(std::fma(x, 3.0f, -1.0f))) ^ (static_cast<uint32_t>(integer) << 2);
        uint32_t got;
        std::memcpy(&got, &array.data()[i], 4);
        EXPECT_EQ(got, wanted) << x;
    }
}

TEST(VirtualGpuTest, HalfPrecision) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
        const float x = from_f16(static_cast<uint16_t>(bits));
        if (x != x) continue;
        ASSERT_EQ(to_f16(x), bits);
        if (std::isinf(x) || bits % 0x8000 == 0x7bff) continue;
        const float next = from_f16(static_cast<uint16_t>(bits + 1));
        ASSERT_EQ(to_f16(x + (next - x) * 0.5f), bits + bits % 2);  // Halfway: to the even one.
    }
    EXPECT_EQ(from_f16(0x3c01), 1 + 1 / 1024.0f);
    EXPECT_EQ(to_bf16(1 + 1 / 256.0f), 0x3f80);
    EXPECT_TRUE(std::isnan(from_f16(to_f16(NAN))));
    EXPECT_TRUE(std::isnan(from_bf16(to_bf16(NAN))));
}

// Of a function: its registers and labels are its own, its local memory too, and it returns from two places. One calls another.
TEST(VirtualGpuTest, Calls) {
    const std::string functions = R"(
        .func (.param .b32 func_retval0) halved(.param .b32 halved_param_0)
        ;
        .func (.param .b32 func_retval0) step(
            .param .b32 step_param_0,
            .param .align 8 .b8 step_param_1[16]
        )
        {
        .local .align 8 .b8 depot[8];
        .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<4>;
        mov.u64 %rd1, depot;
        ld.param.u32 %r1, [step_param_0];
        ld.param.u32 %r4, [step_param_1+4];
        st.local.u32 [%rd1+4], %r4;
        and.b32 %r2, %r1, 1;
        setp.eq.s32 %p1, %r2, 1;
        @%p1 bra odd;
        {
        .param .b32 param0;
        st.param.b32 [param0+0], %r1;
        .param .b32 retval0;
        call.uni (retval0), halved, (param0);
        ld.param.b32 %r3, [retval0+0];
        }
        st.param.b32 [func_retval0], %r3;
        ret;
        odd:
        ld.local.u32 %r4, [%rd1+4];
        mad.lo.s32 %r3, %r1, 3, %r4;
        st.param.b32 [func_retval0], %r3;
        ret;
        }
        .func (.param .b32 func_retval0) halved(.param .b32 halved_param_0)
        {
        .local .align 8 .b8 depot[8];
        .reg .b32 %r<3>; .reg .b64 %rd<2>;
        mov.u64 %rd1, depot;
        ld.param.u32 %r1, [halved_param_0];
        shr.u32 %r2, %r1, 1;
        st.local.u32 [%rd1+4], %r2;
        st.param.b32 [func_retval0], %r2;
        ret;
        }
        )";
    const std::string call = R"(
        {
        .param .b32 param0;
        st.param.b32 [param0], %r3;
        .param .align 8 .b8 param1[16];
        st.param.b32 [param1+4], %r5;
        .param .b32 retval0;
        call.uni (retval0),
        step,
        (
        param0,
        param1
        );
        ld.param.b32 %r3, [retval0];
        }
        )";
    const Array<uint32_t> array(numbers(32));
    run("mov.u32 %r3, %r1; mov.u32 %r5, 1;" + call + "mov.u32 %r5, 2;" + call + "st.global.u32 [%rd2], %r3;", array.data(), {}, functions);
    const auto step = [](uint32_t x, uint32_t plus) { return x % 2 == 1 ? 3 * x + plus : x / 2; };
    for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(array.data()[i], step(step(i, 1), 2)) << i;
    EXPECT_THAT(fault_of("call.uni nobody;", array.data()), HasSubstr("'call nobody'"));
    EXPECT_THAT(fault_of("call.uni again; ret; } .func again() { call.uni again; ret;", array.data()), HasSubstr("without an end"));
    EXPECT_THAT(fault_of("call.uni none, (a); ret; } .func none() { ret;", array.data()), HasSubstr("other arguments"));
}

// A product of a warp, its operands loaded as the instruction's table in the manual has them; with half the depth, those of its first half.
TEST(VirtualGpuTest, ProductOfAWarp) {
    std::mt19937 engine(3);
    std::uniform_int_distribution<int> quarter(-8, 8);
    const auto random = [&] { return static_cast<float>(quarter(engine)) / 4; };
    float a[16][16], b[16][8];
    for (auto &row : a)
        for (float &x : row) x = random();
    for (auto &row : b)
        for (float &x : row) x = random();
    std::vector<uint32_t> words;
    const auto pair = [&](float low, float high) { words.push_back(static_cast<uint32_t>(to_bf16(high)) << 16 | to_bf16(low)); };
    for (int lane = 0; lane < 32; ++lane) {
        const int row = lane / 4, at = lane % 4 * 2;
        for (const int depth : {0, 8})
            for (const int below : {0, 8}) pair(a[row + below][at + depth], a[row + below][at + depth + 1]);
        for (const int depth : {0, 8}) pair(b[at + depth][row], b[at + depth + 1][row]);
        words.insert(words.end(), 2, 0);
    }
    const auto check = [&](int depth, const char *product) {
        const Array<uint32_t> array(words);
        const std::string text = std::string(R"(
        mul.wide.u32 %rd3, %r1, 32;
        add.s64 %rd3, %rd1, %rd3;
        ld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%rd3];
        ld.global.v2.u32 {%r7, %r8}, [%rd3+16];
        mov.f32 %f1, 0f3F800000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
        )") + product + "\nst.global.v4.f32 [%rd3], {%f1, %f2, %f3, %f4};";
        run(text, array.data());
        for (int lane = 0; lane < 32; ++lane) {
            for (int i = 0; i < 4; ++i) {
                const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
                float sum = 1, got;
                for (int k = 0; k < depth; ++k) sum += a[row][k] * b[k][column];
                std::memcpy(&got, &array.data()[8 * lane + i], 4);
                EXPECT_EQ(got, sum) << row << ", " << column;
            }
        }
    };
    check(16,
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1, %f2, %f3, %f4}, {%r3, %r4, %r5, %r6}, {%r7, %r8}, {%f1, %f2, %f3, "
          "%f4};");
    check(8, "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%f1, %f2, %f3, %f4}, {%r3, %r4}, {%r7}, {%f1, %f2, %f3, %f4};");
}

TEST(VirtualGpuTest, LocalMemoryIsALanesOwn) {
    const Array<uint32_t> array(numbers(32));
    run(R"(
        .local .align 8 .b8 depot[16];
        .loc 1 2 3
        mov.u64 %rd3, depot;
        st.local.u32 [%rd3+4], %r1;
        ld.local.u32 %r3, [%rd3+4];
        ld.local.u32 %r4, [%rd3];
        xor.b32 %r3, %r3, %r4;
        st.global.u32 [%rd2], %r3;
        )",
        array.data());
    for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(array.data()[i], ~i);  // Memory that nobody wrote is all ones.
}

// Blocks that wait for each other run beside each other.
TEST(VirtualGpuTest, BlocksTellEachOther) {
    const Array<uint32_t> array(std::vector<uint32_t>(8, 0));
    run(R"(
        setp.ne.u32 %p1, %r1, 0;
        @%p1 bra end;
        setp.eq.u32 %p2, %r2, 1;
        @%p2 bra tell;
        wait:
        ld.acquire.gpu.global.u32 %r3, [%rd1];
        setp.eq.u32 %p3, %r3, 0;
        @%p3 bra wait;
        ld.global.u32 %r4, [%rd1+4];
        st.global.u32 [%rd1+8], %r4;
        bra.uni end;
        tell:
        st.global.u32 [%rd1+4], 7;
        st.release.gpu.global.u32 [%rd1], 1;
        end:
        )",
        array.data(), {2, 32, 1});
    EXPECT_EQ(array.data()[2], 7u);
}

TEST(VirtualGpuTest, MemoryThatIsNotTheKernels) {
    const Array<uint32_t> array(numbers(32));
    EXPECT_THAT(fault_of("ld.global.u32 %r3, [%rd2+4];", array.data()), HasSubstr("reads 4 bytes"));
    EXPECT_THAT(fault_of("st.global.u32 [%rd2+128], %r1;", array.data()), HasSubstr("writes 4 bytes"));
    EXPECT_THAT(fault_of("ld.global.u32 %r3, [%rd2+2];", array.data()), HasSubstr("multiple of"));
    EXPECT_THAT(fault_of("st.shared.u32 [%r1+65536], %r1;", array.data()), HasSubstr("shared memory"));
    EXPECT_EQ(array.values(), numbers(32));
}

TEST(VirtualGpuTest, LanesThatDoNotMeet) {
    const Array<uint32_t> array(numbers(64));
    EXPECT_THAT(fault_of(R"(
        setp.lt.u32 %p1, %r1, 5;
        @%p1 bra away;
        bar.sync 0;
        bra.uni end;
        away:
        bar.sync 0;
        end:
        )",
                         array.data()),
                HasSubstr("wait for what never comes"));
    EXPECT_THAT(fault_of("setp.lt.u32 %p1, %r1, 5; @%p1 shfl.sync.idx.b32 %r3, %r1, 9, 31, -1;", array.data()), HasSubstr("takes no part"));
    EXPECT_THAT(fault_of("setp.ge.u32 %p1, %r1, 32; @%p1 bra end; bar.sync 1, 64; end:", array.data(), {1, 64, 1}),
                HasSubstr("wait for what never comes"));
}

// One lane that waits for ever, as the others do for it.
TEST(VirtualGpuTest, PartedLanesThatWait) {
    const Array<uint32_t> array(numbers(32));
    EXPECT_THAT(fault_of(R"(
        mov.u32 %r3, memory;
        setp.ne.u32 %p1, %r1, 0;
        @%p1 bra end;
        mbarrier.init.shared::cta.b64 [%r3], 1;
        again:
        mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
        @!%p2 bra again;
        end:
        bar.warp.sync -1;
        )",
                         array.data()),
                HasSubstr("wait for what never comes"));
}

TEST(VirtualGpuTest, WhatItDoesNotKnowItSays) {
    EXPECT_THAT(fault_of("frobnicate.rn.f32 %f1, %f2;", nullptr), HasSubstr("frobnicate.rn.f32"));
    for (const char *const one : {"add.rz.f32 %f1, %f2, %f3;", "fma.rn.sat.f32 %f1, %f2, %f3, %f4;", "cvt.rz.bf16x2.f32 %r3, %f1, %f2;"})
        EXPECT_THAT(fault_of(one, nullptr), HasSubstr("not known"));
    EXPECT_THAT(fault_of("add.s32 %r1, %r2, nowhere;", nullptr), HasSubstr("nowhere"));
    EXPECT_THAT(fault_of("bra nowhere;", nullptr), HasSubstr("nowhere"));
}

}  // namespace
}  // namespace attile::virtual_gpu
