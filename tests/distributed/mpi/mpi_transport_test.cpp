// SPDX-License-Identifier: Apache-2.0
// The transport by itself, through its contract: order, sizes, requests that are ended, and memory that nobody touches afterwards.
// ATTILE_TEST_TIER=full: a message of more than 2^31 bytes, which takes 9 GB of memory.
#include <attile/attile_comm_plugin.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace attile::test {
namespace {

thread_local std::string words;

const attile_host_v1 kHost = {sizeof(attile_host_v1),
                              ATTILE_BACKEND_ABI_MINOR,
                              [](const char *text) { words = text; },
                              [](std::int32_t, const char *) {},
                              []() -> std::int32_t { return 0; },
                              [](const char *name) -> const char * { return std::getenv(name); }};

const attile_comm_plugin_v1 &plugin() {
    static const attile_comm_plugin_v1 *root = [] {
        void *library = dlopen(TRANSPORT, RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) return static_cast<const attile_comm_plugin_v1 *>(nullptr);
        return reinterpret_cast<attile_comm_plugin_entry_fn>(dlsym(library, ATTILE_COMM_PLUGIN_ENTRY))(&kHost);
    }();
    return *root;
}

class Transport : public testing::Test {
  protected:
    Transport() {
        attile_comm_plugin_options options{};
        options.struct_size = sizeof options;
        options.timeout_seconds = 20;
        link_.struct_size = sizeof link_;
        link_.calls = &calls_;
        opened_ = plugin().open(&options, &link_);
        EXPECT_EQ(opened_, ATTILE_OK) << words;
    }
    ~Transport() override {
        if (opened_ == ATTILE_OK) plugin().close(calls_.user);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    void *send(const void *data, std::int64_t bytes, std::int32_t to) {
        void *request = nullptr;
        EXPECT_EQ(calls_.send(calls_.user, data, bytes, to, &request), ATTILE_OK) << words;
        return request;
    }
    void *receive(void *data, std::int64_t bytes, std::int32_t from) {
        void *request = nullptr;
        EXPECT_EQ(calls_.receive(calls_.user, data, bytes, from, &request), ATTILE_OK) << words;
        return request;
    }
    std::int32_t wait(void *request, double seconds = 20) { return calls_.wait(calls_.user, request, seconds); }
    std::int32_t rank() const { return link_.rank; }

    std::int32_t opened_;
    attile_comm_plugin_link link_{};
    attile_comm_callbacks calls_{};
};

TEST_F(Transport, KeepsTheOrderOfMessages) {
    const std::vector<std::int64_t> sizes = {1, 1 << 20, 17, 65536, 3, 1 << 18, 100, 1};
    std::vector<std::vector<char>> data;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        data.emplace_back(static_cast<std::size_t>(sizes[i]), static_cast<char>(rank() == 0 ? i + 1 : 0));
    }
    for (int round = 0; round < 20; ++round) {
        std::vector<void *> requests;
        for (std::vector<char> &one : data) {
            const std::int64_t bytes = static_cast<std::int64_t>(one.size());
            if (rank() == 0) requests.push_back(send(one.data(), bytes, 1));
            if (rank() == 1) requests.push_back(receive(one.data(), bytes, 0));
        }
        for (std::size_t i = requests.size(); i-- > 0;) EXPECT_EQ(wait(requests[i]), ATTILE_OK) << words;
        for (std::size_t i = 0; i < data.size() && rank() < 2; ++i) {
            EXPECT_EQ(std::count(data[i].begin(), data[i].end(), static_cast<char>(i + 1)), sizes[i]);
        }
    }
}

// A receive that was ended takes nothing any more, whether its message comes then or was on its way.
class EndedReceive : public Transport {
  protected:
    void expect_untouched(std::int64_t bytes, bool sent_before) {
        std::vector<char> data(static_cast<std::size_t>(bytes), static_cast<char>(rank() == 1 ? 1 : 7));
        void *request = nullptr;
        if (rank() == 0 && sent_before) request = send(data.data(), bytes, 1);
        if (sent_before) MPI_Barrier(MPI_COMM_WORLD);
        if (rank() == 1) {
            const std::int32_t status = wait(receive(data.data(), bytes, 0), sent_before ? 0 : 0.05);
            EXPECT_EQ(status, ATTILE_ERROR_RANK_LATE);
            if (status != ATTILE_OK) std::fill(data.begin(), data.end(), 1);
        }
        if (!sent_before) MPI_Barrier(MPI_COMM_WORLD);
        if (rank() == 0 && !sent_before) request = send(data.data(), bytes, 1);
        if (rank() == 0) {
            const std::int32_t status = wait(request, 0.3);
            EXPECT_TRUE(status == ATTILE_OK || status == ATTILE_ERROR_RANK_LATE) << status;
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank() == 1) {
            EXPECT_EQ(std::count(data.begin(), data.end(), 1), bytes);
        }
    }
};

TEST_F(EndedReceive, OfASmallMessage) { expect_untouched(100, false); }
TEST_F(EndedReceive, OfALargeMessage) { expect_untouched(1 << 22, false); }
TEST_F(EndedReceive, OfAMessageOnItsWay) { expect_untouched(1 << 26, true); }

// A send that was ended has sent what the memory held then, if anything.
TEST_F(Transport, ReadsNothingAfterASendWasEnded) {
    const std::int64_t bytes = 1 << 22;
    std::vector<char> data(static_cast<std::size_t>(bytes), 7);
    if (rank() == 0) {
        EXPECT_EQ(wait(send(data.data(), bytes, 1), 0.2), ATTILE_ERROR_RANK_LATE);
        std::fill(data.begin(), data.end(), 9);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    void *request = rank() == 1 ? receive(data.data(), bytes, 0) : nullptr;
    if (rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank() == 1) {
        const std::int32_t status = wait(request, 1);
        EXPECT_TRUE(status == ATTILE_OK || status == ATTILE_ERROR_RANK_LATE) << status;
        EXPECT_EQ(std::count(data.begin(), data.end(), 7), bytes);
    }
}

TEST_F(Transport, SizesThatDifferAreAStatus) {
    char data[100] = "";
    if (rank() == 0) {
        EXPECT_EQ(wait(send(data, 50, 1)), ATTILE_OK);
        EXPECT_EQ(wait(send(data, 100, 1)), ATTILE_OK);
    }
    if (rank() == 1) {
        EXPECT_EQ(wait(receive(data, 100, 0)), ATTILE_ERROR_TRANSPORT);
        EXPECT_EQ(wait(receive(data, 50, 0)), ATTILE_ERROR_TRANSPORT);
    }
}

TEST_F(Transport, GivingUpIsHeardOf) {
    char data[8] = "";
    const auto begin = std::chrono::steady_clock::now();
    if (rank() == 0) {
        calls_.give_up(calls_.user, ATTILE_ERROR_INTERNAL, "rank 0 has had enough");
    } else {
        EXPECT_EQ(wait(receive(data, 8, 0)), ATTILE_ERROR_RANK_FAILED);
        EXPECT_EQ(words, "rank 0 has had enough");
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST_F(Transport, CarriesMoreThanAnIntCounts) {
    const char *tier = std::getenv("ATTILE_TEST_TIER");
    if (tier == nullptr || std::string(tier) != "full") GTEST_SKIP() << "ATTILE_TEST_TIER is not full";
    const std::int64_t count = (std::int64_t{1} << 28) + 12345, bytes = count * 8;
    std::vector<std::int64_t> data(rank() < 2 ? static_cast<std::size_t>(count) : 0);
    if (rank() == 0) {
        std::iota(data.begin(), data.end(), 0);
        EXPECT_EQ(wait(send(data.data(), bytes, 1)), ATTILE_OK) << words;
    }
    if (rank() == 1) {
        EXPECT_EQ(wait(receive(data.data(), bytes, 0)), ATTILE_OK) << words;
        std::int64_t wrong = 0;
        for (std::int64_t i = 0; i < count; ++i) wrong += data[static_cast<std::size_t>(i)] != i;
        EXPECT_EQ(wrong, 0);
    }
}

}  // namespace
}  // namespace attile::test
