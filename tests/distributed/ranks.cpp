// SPDX-License-Identifier: Apache-2.0
#include "ranks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "barrier.h"

namespace attile::test {

std::string last_error() {
    char text[1024];
    attile_last_error(text, sizeof text);
    return text;
}

bool opens(const std::string &backend) {
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    options.backend = backend.c_str();
    attile_context *context = nullptr;
    const bool done = attile_context_create(&options, &context) == ATTILE_OK;
    attile_context_destroy(context);
    return done;
}

attile_context *open_context(const std::string &backend) {
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    options.backend = backend.c_str();
    options.threads = 1;
    attile_context *context = nullptr;
    EXPECT_EQ(attile_context_create(&options, &context), ATTILE_OK) << last_error();
    return context;
}

void run_ranks(const RanksOptions &options, const std::function<void(Rank &)> &body) {
    static std::atomic<std::int64_t> next_group{1000};
    const std::int64_t group = next_group.fetch_add(1);
    std::vector<std::thread> threads;
    Barrier tried(options.ranks);
    for (int rank = 0; rank < options.ranks; ++rank) {
        threads.emplace_back([&, rank] {
            Rank own;
            own.rank = rank;
            own.context = open_context(options.backends.empty() ? options.backend : options.backends[static_cast<std::size_t>(rank)]);
            attile_comm_options comm;
            attile_comm_options_init(&comm, sizeof comm);
            comm.flags = options.flags;
            comm.kind = options.mail != nullptr ? "callbacks" : "threads";
            comm.rank = rank;
            comm.ranks = options.ranks;
            comm.group = group;
            comm.timeout_seconds = options.timeout;
            attile_comm_callbacks callbacks;
            if (options.mail != nullptr) {
                callbacks = options.mail->callbacks(rank);
                if (options.change) options.change(&callbacks);
                comm.callbacks = &callbacks;
            }
            if (options.join) options.join(rank, &comm);
            own.placement = options.placement;
            own.created = attile_comm_create(own.context, &comm, &own.comm);
            if (own.created != ATTILE_OK) own.why = last_error();
            tried.arrive_and_wait();  // what a body does is no fault of joining
            body(own);
            attile_comm_destroy(own.comm);
            attile_context_destroy(own.context);
        });
    }
    for (std::thread &thread : threads) thread.join();
}

}  // namespace attile::test
