// SPDX-License-Identifier: Apache-2.0
// Callbacks over threads, as a program could write them: a courier carries messages in an order of its own, now and then late, and on
// demand loses some, fails or throws. Once it is made it takes no memory, so that what fails for want of it is a rank's own work.
#pragma once

#include <attile/attile_distributed.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "test_random.h"

namespace attile::test {

struct MailOptions {
    bool collectives = true;  ///< all_gather and all_to_all, too
    bool give_up = true;
    std::uint64_t seed = 1;
    int lost_rank = -1;    ///< messages of this rank never arrive
    int broken_rank = -1;  ///< functions of this rank fail from call number `broken_from` on
    int broken_from = 0;
    bool throws = false;  ///< they throw instead
};

class Mail {
  public:
    Mail(int ranks, const MailOptions &options);
    ~Mail();
    Mail(const Mail &) = delete;
    Mail &operator=(const Mail &) = delete;

    attile_comm_callbacks callbacks(int rank);
    std::int64_t bytes(int from, int to);  ///< carried so far

  private:
    /// One side of a message.
    struct Post {
        int from, to;
        bool sending;
        void *data;
        const void *source;
        std::int64_t bytes;
        bool done;
    };
    /// What a rank has, and uses alone.
    struct Box {
        Box(Mail *owner, int own_rank, int ranks);
        Post *take(const Post &wanted);

        Mail *mail;
        int rank;
        int calls = 0;
        std::vector<Post> posts;
        std::vector<Post *> unused;
        std::vector<void *> requests;
        std::vector<std::int64_t> sizes, own, places;  ///< of all_gather
    };

    static std::int32_t send(void *user, const void *data, std::int64_t bytes, std::int32_t to, void **request);
    static std::int32_t receive(void *user, void *data, std::int64_t bytes, std::int32_t from, void **request);
    static std::int32_t wait(void *user, void *request, double seconds);
    static std::int32_t all_gather(void *user, const void *send, void *receive, std::int64_t bytes, double seconds);
    static std::int32_t all_to_all(void *user, const void *send, const std::int64_t *send_bytes, const std::int64_t *send_offsets,
                                   void *receive, const std::int64_t *receive_bytes, const std::int64_t *receive_offsets, double seconds);
    static void give_up(void *user, std::int32_t status, const char *why);

    std::int32_t enter(Box &box) const;
    void post(Post *post);
    void carry();
    std::size_t line(int from, int to) const { return static_cast<std::size_t>(from * ranks_ + to); }

    const int ranks_;
    const MailOptions options_;
    std::vector<std::unique_ptr<Box>> boxes_;
    std::mutex lock_;
    std::condition_variable changed_;
    std::vector<std::vector<Post *>> sends_, receives_;
    std::vector<std::size_t> ready_;
    std::vector<std::int64_t> bytes_;
    Random random_;
    bool given_up_ = false, over_ = false;
    std::thread courier_;
};

}  // namespace attile::test
