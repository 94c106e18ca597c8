// SPDX-License-Identifier: Apache-2.0
// Transports that are plugins: which are taken, which are refused, with which code and in whose words. This process has no MPI.
#include <gtest/gtest.h>

#include <string>

#include "ranks.h"

namespace attile::test {
namespace {

struct Refusal {
    const char *name;
    std::int32_t status;
    const char *words;
};

// Of these, and then of the one that is right: directories stay, the latest is looked at first, and what comes after is looked at, too.
constexpr Refusal kRefusals[] = {
    {"wrong_major", ATTILE_ERROR_BACKEND_INCOMPATIBLE, "it was built for version 2 of the transport contract, expected 1"},
    {"host_too_old", ATTILE_ERROR_BACKEND_INCOMPATIBLE, "it needs a libattile with transport contract 1.2 or newer, this one has 1.1"},
    {"short_root", ATTILE_ERROR_BACKEND_INCOMPATIBLE, "its root has 40 bytes"},
    {"misnamed", ATTILE_ERROR_BACKEND_CONTRACT, "it calls itself 'other', expected 'mpi'"},
    {"lacks_open", ATTILE_ERROR_BACKEND_CONTRACT, "its root lacks probe, open or close"},
    {"needs_missing", ATTILE_ERROR_BACKEND_REFUSED,
     "it needs libattile_test_absent" ATTILE_LIBRARY_SUFFIX ", which this process has not loaded"},
};

class Plugins : public testing::Test {
  protected:
    Plugins() : context_(open_context("reference")) {
        attile_comm_options_init(&options_, sizeof options_);
        options_.kind = "mpi";
        options_.communicator = 7;
    }
    ~Plugins() override { attile_context_destroy(context_); }

    static void add(const std::string &name) {
        EXPECT_EQ(attile_add_backend_directory((std::string(FAKES) + "/" + name).c_str()), ATTILE_OK) << last_error();
    }
    static std::string report() {
        std::string text(static_cast<std::size_t>(attile_backend_report(nullptr, 0)), '\0');
        attile_backend_report(text.data(), static_cast<std::int64_t>(text.size()));
        return text;
    }
    void expect_refused(std::int32_t status, const std::string &words) {
        attile_comm *comm = nullptr;
        EXPECT_EQ(attile_comm_create(context_, &options_, &comm), status) << words;
        EXPECT_EQ(comm, nullptr);
        EXPECT_NE(last_error().find(words), std::string::npos) << last_error();
    }

    attile_context *context_;
    attile_comm_options options_;
};

TEST_F(Plugins, AreChecked) {
    for (const Refusal &refusal : kRefusals) {
        add(refusal.name);
        expect_refused(refusal.status, refusal.words);
        const std::string line = std::string("transport mpi (") + FAKES + "/" + refusal.name +
                                 "/libattile_comm_mpi" ATTILE_LIBRARY_SUFFIX "): refused, " + attile_status_name(refusal.status) + ": " +
                                 refusal.words;
        EXPECT_NE(report().find(line), std::string::npos) << report();
        expect_refused(refusal.status, refusal.words);  // the answer of before
    }
    add("good");
    attile_comm *comm = nullptr;
    ASSERT_EQ(attile_comm_create(context_, &options_, &comm), ATTILE_OK) << last_error();
    EXPECT_NE(report().find("/good/libattile_comm_mpi" ATTILE_LIBRARY_SUFFIX "): chosen: version 1.2.3"), std::string::npos) << report();
    attile_comm_info info;
    attile_comm_info_init(&info, sizeof info);
    EXPECT_EQ(attile_comm_get_info(comm, &info), ATTILE_OK);
    EXPECT_STREQ(info.kind, "mpi");
    EXPECT_EQ(info.ranks, 1);
    attile_comm_destroy(comm);
    options_.communicator = 8;
    expect_refused(ATTILE_ERROR_INVALID_VALUE, "comm_create: the communicator is not 7");
}

TEST_F(Plugins, AreAskedWhetherTheyCanRun) {
    add("refuses");
    expect_refused(ATTILE_ERROR_BACKEND_REFUSED, "no transport of kind 'mpi' can be used: mpi: there is no fake network");
}

TEST_F(Plugins, ThatThrowAreAStatus) {
    add("throws");
    expect_refused(ATTILE_ERROR_BACKEND_CONTRACT, "threw an exception");
}

TEST_F(Plugins, HaveToGiveRanksInRange) {
    add("bad_ranks");
    expect_refused(ATTILE_ERROR_BACKEND_CONTRACT, "its rank or ranks are out of range");
}

TEST_F(Plugins, HaveToGiveTheirFunctions) {
    add("lacks_send");
    expect_refused(ATTILE_ERROR_BACKEND_CONTRACT, "it lacks send, receive or wait");
}

}  // namespace
}  // namespace attile::test
