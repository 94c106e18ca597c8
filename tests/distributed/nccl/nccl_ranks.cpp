// SPDX-License-Identifier: Apache-2.0
#include "nccl_ranks.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>

namespace attile::test {

Nccl &Nccl::instance() {
    static Nccl &nccl = *new Nccl;
    return nccl;
}

Nccl::Nccl() {
    const char *path = std::getenv("ATTILE_TEST_NCCL");
    is_stand_in_ = path == nullptr || path[0] == '\0';
    library_ = dlopen(is_stand_in_ ? STAND_IN : path, RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) failure_ = dlerror();
    if (is_stand_in_) setenv("ATTILE_EMULATED_PRODUCTS", "1", 0);  // the emulated device multiplies
}

void *Nccl::symbol(const char *name) const {
    void *found = library_ != nullptr ? dlsym(library_, name) : nullptr;
    EXPECT_NE(found, nullptr) << name << ": " << failure_;
    return found;
}

NcclComms::NcclComms(int ranks, const std::vector<int> &devices) : comms_(static_cast<std::size_t>(ranks)) {
    Nccl &nccl = Nccl::instance();
    std::vector<int> own(comms_.size());
    if (!nccl.is_stand_in()) std::iota(own.begin(), own.end(), 0);  // the emulated device is the only one
    const int *list = devices.empty() ? own.data() : devices.data();
    EXPECT_EQ(nccl.function<attile_nccl_init_all_fn>("ncclCommInitAll")(comms_.data(), ranks, list), 0);
}

NcclComms::~NcclComms() {
    const auto destroy = Nccl::instance().function<attile_nccl_end_fn>("ncclCommDestroy");
    for (ncclComm_t comm : comms_) destroy(comm);
}

void NcclComms::join(int rank, attile_comm_options *options) const {
    options->kind = "nccl";
    options->rank = options->ranks = 0;
    options->group = 0;
    options->communicator = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(at(rank)));
}

void NcclComms::abort() {
    if (!Nccl::instance().is_stand_in()) return comms_.clear();  // NCCL may still be in them
    const auto end = Nccl::instance().function<attile_nccl_end_fn>("ncclCommAbort");
    for (ncclComm_t comm : comms_) end(comm);
    comms_.clear();
}

std::string device_of_rank(int rank) { return Nccl::instance().is_stand_in() ? "emulated" : "cuda:" + std::to_string(rank); }

RanksOptions ranks_of(const NcclComms &comms, int ranks) {
    RanksOptions options;
    options.ranks = ranks;
    options.join = [&comms](int rank, attile_comm_options *one) { comms.join(rank, one); };
    for (int rank = 0; rank < ranks; ++rank) options.backends.push_back(device_of_rank(rank));
    return options;
}

}  // namespace attile::test
