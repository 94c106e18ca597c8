// SPDX-License-Identifier: Apache-2.0
// Messages of every kind of memory, on a device whose copies wait on their streams until something makes them run: the transport by itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "nccl_ranks.h"
#include "transport_file.h"

namespace attile::test {
namespace {

constexpr std::int64_t kSmall = 16384;  // up to here messages of the host share one copy

// A copy to or from ordinary memory runs at once, behind what is on its stream; others run when the stand-in comes to their stream.
class QueueingDevice {
  public:
    attile_comm_device table() {
        attile_comm_device device{};
        device.struct_size = sizeof device;
        device.type = ATTILE_DEVICE_CUDA;
        device.context = this;
        device.alloc = [](void *self, std::int32_t kind, std::int64_t bytes, void **made) {
            *made = of(self).allocate(kind, bytes);
            return std::int32_t{ATTILE_OK};
        };
        device.free = [](void *self, void *memory) { return of(self).release(memory); };
        device.copy = [](void *self, void *to, const void *from, std::int64_t bytes, void *stream) {
            return of(self).copy(to, from, bytes, static_cast<Stream *>(stream));
        };
        device.memory_kind = [](void *self, const void *memory, std::int32_t *kind) {
            *kind = of(self).kind_of(memory);
            return std::int32_t{ATTILE_OK};
        };
        device.stream_create = [](void *, void **stream) {
            *stream = new Stream;
            return std::int32_t{ATTILE_OK};
        };
        device.stream_destroy = [](void *, void *stream) {
            delete static_cast<Stream *>(stream);
            return std::int32_t{ATTILE_OK};
        };
        return device;
    }
    static void run(void *stream) { static_cast<Stream *>(stream)->run(); }

    unsigned char *allocate(std::int32_t kind, std::int64_t bytes) {
        Block block{kind, std::vector<unsigned char>(static_cast<std::size_t>(bytes), 0xff)};
        unsigned char *const memory = block.bytes.data();
        const std::lock_guard<std::mutex> hold(lock_);
        blocks_.emplace(memory, std::move(block));
        return memory;
    }
    bool is_empty() const { return blocks_.empty(); }
    int waited = 0, queued = 0;  // copies

  private:
    struct Copy {
        void *to;
        const void *from;
        std::size_t bytes;
    };
    struct Stream {
        std::mutex lock;
        std::deque<Copy> copies;
        void run() {
            const std::lock_guard<std::mutex> hold(lock);
            for (; !copies.empty(); copies.pop_front()) carry_out(copies.front());
        }
        // A number may be a mark, which another thread looks at.
        static void carry_out(const Copy &copy) {
            std::uint32_t number = 0;
            if (copy.bytes != sizeof number) {
                std::memcpy(copy.to, copy.from, copy.bytes);
                return;
            }
            std::memcpy(&number, copy.from, sizeof number);
            std::atomic_ref(*static_cast<std::uint32_t *>(copy.to)).store(number, std::memory_order_release);
        }
    };
    struct Block {
        std::int32_t kind;
        std::vector<unsigned char> bytes;
    };

    static QueueingDevice &of(void *self) { return *static_cast<QueueingDevice *>(self); }
    std::int32_t release(void *memory) {
        const std::lock_guard<std::mutex> hold(lock_);
        return memory == nullptr || blocks_.erase(static_cast<unsigned char *>(memory)) == 1 ? ATTILE_OK : ATTILE_ERROR_UNKNOWN_POINTER;
    }
    std::int32_t kind_of(const void *memory) {
        const std::lock_guard<std::mutex> hold(lock_);
        const auto *const byte = static_cast<const unsigned char *>(memory);
        auto found = blocks_.upper_bound(const_cast<unsigned char *>(byte));
        if (found == blocks_.begin() || byte >= (--found)->first + found->second.bytes.size()) return ATTILE_MEMORY_HOST;
        return found->second.kind;
    }
    std::int32_t copy(void *to, const void *from, std::int64_t bytes, Stream *stream) {
        const bool waits = kind_of(to) == ATTILE_MEMORY_HOST || kind_of(from) == ATTILE_MEMORY_HOST;
        {
            const std::lock_guard<std::mutex> hold(stream->lock);
            stream->copies.push_back({to, from, static_cast<std::size_t>(bytes)});
        }
        ++(waits ? waited : queued);
        if (waits) stream->run();
        return ATTILE_OK;
    }

    std::mutex lock_;
    std::map<unsigned char *, Block> blocks_;
};

struct End {
    attile_comm_callbacks call{};
    attile_comm_plugin_link link{};
};

class NcclStaging : public testing::Test {
  protected:
    static constexpr int kRanks = 3;

    void SetUp() override {
        if (!Nccl::instance().is_stand_in()) GTEST_SKIP() << "the device here is no GPU";
        plugin_ = open_transport_file();
        ASSERT_NE(plugin_, nullptr) << dlerror();
        streams_ = Nccl::instance().function<attile_stand_in_streams_fn>("attile_stand_in_streams");
        streams_(QueueingDevice::run);
    }
    void TearDown() override {
        if (streams_ != nullptr) streams_(nullptr);
    }

    // `body` on every rank at once.
    void run(const std::function<void(int rank, QueueingDevice &, const End &)> &body) const {
        const NcclComms comms(kRanks);
        std::vector<std::thread> threads;
        for (int rank = 0; rank < kRanks; ++rank) {
            threads.emplace_back([&, rank] {
                QueueingDevice device;
                const attile_comm_device table = device.table();
                attile_comm_plugin_options options{};
                options.struct_size = sizeof options;
                options.communicator = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(comms.at(rank)));
                options.timeout_seconds = kSeconds;
                options.device = &table;
                End end;
                end.link.struct_size = sizeof end.link;
                end.link.calls = &end.call;
                ASSERT_EQ(plugin_->open(&options, &end.link), ATTILE_OK) << transport_words;
                device.waited = device.queued = 0;
                body(rank, device, end);
                plugin_->close(end.call.user);
                EXPECT_TRUE(device.is_empty());
            });
        }
        for (std::thread &thread : threads) thread.join();
    }

    static constexpr double kSeconds = 60;

  private:
    const attile_comm_plugin_v1 *plugin_ = nullptr;
    attile_stand_in_streams_fn streams_ = nullptr;
};

// Bytes of a message that both of its ends know.
std::vector<unsigned char> bytes_of(int from, int to, std::int64_t count, int time) {
    std::seed_seq seed{from, to, static_cast<int>(count), time};
    std::mt19937 random(seed);
    std::vector<unsigned char> bytes(static_cast<std::size_t>(count));
    for (unsigned char &byte : bytes) byte = static_cast<unsigned char>(random());
    return bytes;
}

struct Exchange {
    std::int32_t kind;
    std::int64_t bytes;
};

// Every rank sends to every other, so many bytes of such memory, all in one group; `alike`: the same bytes from the same memory.
void exchange(int rank, int ranks, QueueingDevice &device, const End &end, const std::vector<Exchange> &messages, bool alike, int time) {
    struct Part {
        std::vector<unsigned char> host;
        unsigned char *memory;
        std::vector<unsigned char> expected;
        void *request;
        bool receives, own;
    };
    std::deque<Part> parts;
    const auto place = [&](const Exchange &message, std::vector<unsigned char> content) {
        Part &part = parts.emplace_back();
        part.own = message.kind == ATTILE_MEMORY_HOST;
        if (part.own) part.host.resize(content.size());
        part.memory = part.own ? part.host.data() : device.allocate(message.kind, message.bytes);
        std::copy(content.begin(), content.end(), part.memory);
        return &part;
    };
    for (const Exchange &message : messages) {
        for (int other = 0; other < ranks; ++other) {
            if (other == rank) continue;
            Part &part = *place(message, std::vector<unsigned char>(static_cast<std::size_t>(message.bytes)));
            part.receives = true;
            part.expected = bytes_of(other, alike ? -1 : rank, message.bytes, time);
            ASSERT_EQ(end.call.receive(end.call.user, part.memory, message.bytes, other, &part.request), ATTILE_OK) << transport_words;
        }
        const Part *sent = nullptr;
        for (int other = 0; other < ranks; ++other) {
            if (other == rank) continue;
            if (sent == nullptr || !alike) sent = place(message, bytes_of(rank, alike ? -1 : other, message.bytes, time));
            Part &part = parts.emplace_back();
            part.receives = false;
            part.own = true;
            ASSERT_EQ(end.call.send(end.call.user, sent->memory, message.bytes, other, &part.request), ATTILE_OK) << transport_words;
        }
    }
    ASSERT_EQ(end.link.flush(end.call.user, 60), ATTILE_OK) << transport_words;
    for (const Part &part : parts) {
        if (part.request == nullptr) continue;
        ASSERT_EQ(end.call.wait(end.call.user, part.request, 60), ATTILE_OK) << transport_words;
        if (!part.receives) continue;
        EXPECT_TRUE(std::equal(part.expected.begin(), part.expected.end(), part.memory));
    }
    const attile_comm_device table = device.table();
    for (const Part &part : parts) {
        if (!part.own) table.free(table.context, part.memory);
    }
}

// Each is there when its wait returns, though no other copy runs than those on the stream of the group.
TEST_F(NcclStaging, EveryKindOfMemoryArrives) {
    run([](int rank, QueueingDevice &device, const End &end) {
        for (const std::int32_t kind : {ATTILE_MEMORY_HOST, ATTILE_MEMORY_PINNED, ATTILE_MEMORY_MANAGED, ATTILE_MEMORY_DEVICE}) {
            for (const std::int64_t bytes : {std::int64_t{1}, std::int64_t{848}, kSmall, kSmall + 1, std::int64_t{70001}}) {
                for (const bool alike : {false, true}) exchange(rank, kRanks, device, end, {{kind, bytes}}, alike, 0);
            }
        }
    });
}

// More small messages than the stage has room for, between others.
TEST_F(NcclStaging, ManyMessagesOfAGroupArrive) {
    run([](int rank, QueueingDevice &device, const End &end) {
        std::vector<Exchange> messages;
        for (int i = 0; i < 12; ++i) {
            for (const std::int32_t kind : {ATTILE_MEMORY_HOST, ATTILE_MEMORY_DEVICE}) messages.push_back({kind, kSmall - i});
        }
        for (int time = 0; time < 3; ++time) exchange(rank, kRanks, device, end, messages, false, time);
    });
}

// One copy to the device, one back, and the one that says that the group is over.
TEST_F(NcclStaging, SmallMessagesOfTheHostMakeNoRankWait) {
    run([](int rank, QueueingDevice &device, const End &end) {
        constexpr int kTimes = 4;
        for (int time = 0; time < kTimes; ++time) {
            exchange(rank, kRanks, device, end, {{ATTILE_MEMORY_HOST, 848}, {ATTILE_MEMORY_HOST, kSmall}}, time % 2 == 0, time);
        }
        EXPECT_EQ(device.waited, 0);
        EXPECT_EQ(device.queued, 3 * kTimes);
    });
}

}  // namespace
}  // namespace attile::test
