// SPDX-License-Identifier: Apache-2.0
// The virtual GPU's copies, transaction barriers and what tensor cores read of shared memory: that they come late, and that it finds who
// does not wait.
#include <tuple>

#include "virtual_gpu_run.h"

namespace attile::virtual_gpu {
namespace {

// %r3: 16 bytes of shared memory that are the thread's own.
const std::string kOwnPlace = "mov.u32 %r3, memory; mul.lo.s32 %r4, %r1, 16; add.s32 %r3, %r3, %r4;";

// A copy that a thread does not wait for is not there before it waits.
TEST(VirtualGpuTest, CopiesComeWhenTheyAreWaitedFor) {
    const Array<uint32_t> array(numbers(160, 1));
    run(kOwnPlace + R"(
        mul.wide.u32 %rd3, %r1, 16;
        add.s64 %rd3, %rd1, %rd3;
        cp.async.cg.shared.global [%r3], [%rd3], 16;
        cp.async.commit_group;
        ld.shared.u32 %r5, [%r3];
        cp.async.wait_group 0;
        ld.shared.u32 %r6, [%r3];
        st.global.u32 [%rd2+512], %r5;
        bar.sync 0;
        st.global.u32 [%rd2], %r6;
        )",
        array.data());
    for (uint32_t i = 0; i < 32; ++i) {
        EXPECT_EQ(array.data()[128 + i], ~0u) << i;
        EXPECT_EQ(array.data()[i], 4 * i + 1) << i;
    }
}

// From the moment it is asked for, its place is no longer what it was.
TEST(VirtualGpuTest, CopiesLeaveNothingInTheirPlace) {
    const Array<uint32_t> array(numbers(160, 1));
    run(kOwnPlace + R"(
        st.shared.u32 [%r3], %r1;
        ld.shared.u32 %r5, [%r3];
        cp.async.cg.shared.global [%r3], [%rd1], 16;
        ld.shared.u32 %r6, [%r3];
        cp.async.wait_all;
        bar.sync 0;
        st.global.u32 [%rd2], %r5;
        st.global.u32 [%rd2+512], %r6;
        )",
        array.data());
    for (uint32_t i = 0; i < 32; ++i) {
        EXPECT_EQ(array.data()[i], i);
        EXPECT_EQ(array.data()[128 + i], ~0u) << i;
    }
}

// Operands of a product stay as they are until it is waited for.
TEST(VirtualGpuTest, ProductsStillRead) {
    const Array<uint32_t> array(numbers(128));
    const std::string product = R"(
        mov.b64 %rd5, 0x0000001000080000;
        mov.pred %p1, 0;
        setp.eq.u32 %p2, %r1, 0;
        wgmma.fence.sync.aligned;
        wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, %rd5, %rd5, %p1, 1, 1, 0, 0;
        wgmma.commit_group.sync.aligned;
        mov.u32 %r3, memory;
        )";
    const std::string wait = "wgmma.wait_group.sync.aligned 0;", elsewhere = "add.s32 %r3, %r3, 4096;",
                      store = "@%p2 st.shared.u32 [%r3], 5;", copy = "@%p2 cp.async.cg.shared.global [%r3], [%rd1], 16; cp.async.wait_all;";
    const Shape shape = {1, 128, 1};
    for (const std::string &write : {store, copy}) {
        EXPECT_THAT(fault_of(product + write + wait, array.data(), shape), HasSubstr("products of warp"));
        EXPECT_EQ(fault_of(product + elsewhere + write + wait, array.data(), shape), "");
        EXPECT_EQ(fault_of(product + wait + "bar.sync 0;" + write, array.data(), shape), "");
    }
    EXPECT_THAT(fault_of(product, array.data(), shape), HasSubstr("did not wait for"));
}

// What is added to sums of 8-bit floats is cut off at 2^-13 of the largest.
TEST(VirtualGpuTest, SumsOfFloat8LoseBits) {
    for (const auto &[kept, added, sum] : {std::tuple(1.0f, "0x38", 33.0f),
                                           {8192.0f, "0x38", 8224.0f},
                                           {16384.0f, "0x38", 16384.0f},
                                           {16384.0f, "0x40", 16448.0f},
                                           {32767.0f, "0xb8", 32766.0f}}) {
        const Array<float> array(std::vector<float>(128, kept));
        run(R"(
            mov.u32 %r3, memory;
            mul.lo.s32 %r4, %r1, 4;
            add.s32 %r3, %r3, %r4;
            mov.u32 %r5, )" +
                std::string(added) + R"(;
            mul.lo.u32 %r6, %r5, 0x01010101;
            mov.u32 %r5, 0x38383838;
            st.shared.u32 [%r3], %r6;
            st.shared.u32 [%r3+512], %r6;
            st.shared.u32 [%r3+1024], %r6;
            st.shared.u32 [%r3+1536], %r6;
            st.shared.u32 [%r3+2048], %r5;
            st.shared.u32 [%r3+2560], %r5;
            fence.proxy.async;
            bar.sync 0;
            ld.global.f32 %f1, [%rd2];
            mov.f32 %f2, %f1;
            mov.f32 %f3, %f1;
            mov.f32 %f4, %f1;
            mov.b64 %rd5, 0x0000001000080000;
            mov.b64 %rd6, 0x0000001000080080;
            mov.pred %p1, -1;
            wgmma.fence.sync.aligned;
            wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f1, %f2, %f3, %f4}, %rd5, %rd6, %p1, 1, 1;
            wgmma.commit_group.sync.aligned;
            wgmma.wait_group.sync.aligned 0;
            st.global.f32 [%rd2], %f1;
            )",
            array.data(), {1, 128, 1});
        EXPECT_EQ(array.values(), std::vector<float>(128, sum)) << kept << " and 32 times " << added;
    }
}

// What a thread wrote is fenced, by it or by who has it read, before tensor cores or TMA read it.
TEST(VirtualGpuTest, FencesBetweenProxies) {
    const Array<uint32_t> array(numbers(128));
    const std::string product = R"(
        mov.b64 %rd5, 0x0000001000080000;
        mov.pred %p1, 0;
        wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, %rd5, %rd5, %p1, 1, 1, 0, 0;
        wgmma.commit_group.sync.aligned;
        wgmma.wait_group.sync.aligned 0;
        )";
    const std::string copy = R"(
        setp.ne.u32 %p1, %r1, 64;
        @%p1 bra end;
        cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r4], 16;
        cp.async.bulk.commit_group;
        cp.async.bulk.wait_group 0;
        end:
        )";
    const std::string store = "mov.u32 %r4, memory; mul.lo.s32 %r3, %r1, 4; add.s32 %r3, %r4, %r3; st.shared.u32 [%r3], 5;";
    const std::string fence = "fence.proxy.async;", meet = "bar.sync 0;";
    const Shape shape = {1, 128, 1};
    for (const std::string &read : {product, copy}) {
        EXPECT_THAT(fault_of(store + meet + read, array.data(), shape), HasSubstr("without a fence"));
        EXPECT_EQ(fault_of(store + fence + meet + read, array.data(), shape), "");
        EXPECT_EQ(fault_of(store + meet + fence + read, array.data(), shape), "");
    }
    EXPECT_EQ(array.data()[0], 5u);
}

// A barrier of each block of a cluster, by its first thread; %p1: the others. %r3: the block's rank.
const std::string kInitInCluster = R"(
        mov.u32 %r20, memory;
        mov.u32 %r3, %cluster_ctarank;
        setp.ne.u32 %p1, %r1, 0;
        @!%p1 mbarrier.init.shared::cta.b64 [%r20], 1;
        )";

// The same of TMA and its barrier, into another block of the cluster; who looks before it waits is found.
TEST(VirtualGpuTest, TransactionsOfACluster) {
    const Array<uint32_t> array(numbers(128));
    const std::string send = kInitInCluster + R"(
        barrier.cluster.arrive.aligned;
        barrier.cluster.wait.aligned;
        setp.ne.u32 %p2, %r3, 0;
        @%p2 bra receive;
        @%p1 bra end;
        mapa.shared::cluster.u32 %r4, %r20, 1;
        mov.b32 %f1, 42;
        add.s32 %r5, %r4, 64;
        st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%r5], {%f1, %f1, %f1, %f1}, [%r4];
        bra.uni end;
        receive:
        @!%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], 16;
        )";
    const std::string look = "ld.shared.u32 %r6, [%r20+64];";
    const std::string receive = R"(
        wait:
        mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r20], 0;
        @!%p3 bra wait;
        ld.shared.u32 %r7, [%r20+64];
        st.global.u32 [%rd2+256], %r7;
        end:
        barrier.cluster.arrive.aligned;
        barrier.cluster.wait.aligned;
        )";
    EXPECT_EQ(fault_of(send + receive, array.data(), {2, 32, 2}), "");
    for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(array.data()[64 + i], 42u) << i;
    EXPECT_THAT(fault_of(send + look + receive, array.data(), {2, 32, 2}), HasSubstr("in no order"));
}

// A block that ends before it has heard of all arrivals of another one at its barrier. A relaxed arrival at the cluster's barrier tells of
// none.
TEST(VirtualGpuTest, ArrivalsThatMayComeLate) {
    const Array<uint32_t> array(numbers(128));
    const std::string send = kInitInCluster + R"(
        fence.mbarrier_init.release.cluster;
        barrier.cluster.arrive.relaxed.aligned;
        barrier.cluster.wait.acquire.aligned;
        setp.eq.u32 %p2, %r3, 0;
        @%p1 bra met;
        @%p2 bra receive;
        mapa.shared::cluster.u32 %r4, %r20, 0;
        mbarrier.arrive.shared::cluster.b64 _, [%r4];
        bra met;
        receive:
        )";
    const std::string wait = R"(
        again:
        mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r20], 0;
        @!%p3 bra again;
        )";
    const auto meet = [](const std::string &how) {
        return "met: bar.warp.sync 0xffffffff; barrier.cluster.arrive." + how + ".aligned; barrier.cluster.wait.acquire.aligned;";
    };
    EXPECT_EQ(fault_of(send + wait + meet("relaxed"), array.data(), {2, 32, 2}), "");
    EXPECT_EQ(fault_of(send + meet("release"), array.data(), {2, 32, 2}), "");
    EXPECT_THAT(fault_of(send + meet("relaxed"), array.data(), {2, 32, 2}), HasSubstr("which may come later"));
}

// Warps at one word with nothing between them, whatever order they happen to be run in.
TEST(VirtualGpuTest, WarpsInNoOrder) {
    const Array<uint32_t> array(numbers(128));
    const std::string where = R"(
        mov.u32 %r20, memory;
        setp.eq.u32 %p1, %r1, 0;
        setp.eq.u32 %p2, %r1, 32;
        @%p1 mbarrier.init.shared::cta.b64 [%r20+1024], 1;
        bar.sync 0;
        )";
    const std::string first_writes = "@%p1 st.shared.u32 [%r20], 5;", first_reads = "@%p1 ld.shared.u32 %r3, [%r20];",
                      second_writes = "@%p2 st.shared.u32 [%r20], 6;", second_reads = "@%p2 ld.shared.u32 %r4, [%r20];";
    const std::string tell = "@%p1 mbarrier.arrive.shared::cta.b64 _, [%r20+1024];";
    const std::string hear = "again: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r20+1024], 0; @!%p3 bra again;";
    const Shape shape = {1, 64, 1};
    const auto run_both = [&](const std::string &first, const std::string &between, const std::string &second) {
        return fault_of(where + first + between + second, array.data(), shape);
    };
    EXPECT_THAT(run_both(first_writes, "", second_reads), HasSubstr("in no order"));
    EXPECT_THAT(run_both(first_writes, "", second_writes), HasSubstr("in no order"));
    EXPECT_THAT(run_both(first_reads, "", second_writes), HasSubstr("in no order"));
    EXPECT_EQ(run_both(first_reads, "", second_reads), "");
    EXPECT_EQ(run_both(first_writes, "bar.sync 0;", second_writes), "");
    EXPECT_EQ(run_both(first_reads, tell + hear, second_writes), "");
    EXPECT_THAT(run_both("", tell + first_writes + hear, second_reads), HasSubstr("in no order"));
}

// What a thread leaves behind when it ends: stores that nobody waited for read memory that is no more.
TEST(VirtualGpuTest, CopiesLeftBehind) {
    const Array<uint32_t> array(numbers(32));
    const std::string store = R"(
        mov.u32 %r3, memory;
        setp.ne.u32 %p1, %r1, 0;
        @%p1 bra end;
        st.shared.u32 [%r3], 5;
        fence.proxy.async.shared::cta;
        cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r3], 16;
        )";
    const std::string commit = "cp.async.bulk.commit_group;";
    EXPECT_THAT(fault_of(store + "end:", array.data()), HasSubstr("never committed"));
    EXPECT_THAT(fault_of(store + commit + "end:", array.data()), HasSubstr("still read shared memory"));
    EXPECT_EQ(fault_of(store + commit + "cp.async.bulk.wait_group.read 0; end:", array.data()), "");
    EXPECT_EQ(array.data()[0], 5u);
}

TEST(VirtualGpuTest, PrefetchesOfMemoryThatIsThere) {
    const Array<uint32_t> array(numbers(32));
    EXPECT_EQ(fault_of("cp.async.bulk.prefetch.L2.global [%rd1], 128;", array.data()), "");
    EXPECT_THAT(fault_of("cp.async.bulk.prefetch.L2.global [%rd1], 8;", array.data()), HasSubstr("multiple of 16"));
    EXPECT_NE(fault_of("cp.async.bulk.prefetch.L2.global [%rd1+4], 16;", array.data()), "");
    EXPECT_NE(fault_of("cp.async.bulk.prefetch.L2.global [%rd1], 1048576;", array.data()), "");
}

TEST(VirtualGpuTest, BarriersMisused) {
    const Array<uint32_t> array(numbers(32));
    const std::string wait = "mov.u32 %r3, memory; again: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r3], 0; @!%p1 bra again;";
    EXPECT_NE(fault_of(wait, array.data()), "");  // Never made.
    EXPECT_THAT(fault_of("mov.u32 %r3, memory; setp.eq.u32 %p2, %r1, 0; @%p2 mbarrier.init.shared::cta.b64 [%r3], 2; bar.sync 0;" + wait,
                         array.data()),
                HasSubstr("wait for what never comes"));
    EXPECT_THAT(fault_of("mov.u32 %r3, memory; setp.eq.u32 %p2, %r1, 0; @%p2 mbarrier.init.shared::cta.b64 [%r3], 2; bar.sync 0; "
                         "mbarrier.arrive.shared::cta.b64 _, [%r3], 3;",
                         array.data()),
                HasSubstr("arrivals"));
}

}  // namespace
}  // namespace attile::virtual_gpu
