// SPDX-License-Identifier: Apache-2.0
#include "mpi_rank.h"

#include <algorithm>

#include "two_calls.h"

namespace attile::test {

int world_rank() {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

int world_ranks() {
    int ranks = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    return ranks;
}

attile_comm_options mpi_options(double timeout) {
    attile_comm_options options;
    attile_comm_options_init(&options, sizeof options);
    options.kind = "mpi";
    options.timeout_seconds = timeout;
    return options;
}

MpiRank::MpiRank(const std::string &backend, const attile_comm_options &options) {
    rank_.context = open_context(backend);
    rank_.created = attile_comm_create(rank_.context, &options, &rank_.comm);
    if (rank_.created != ATTILE_OK) {
        rank_.why = last_error();
        return;
    }
    attile_comm_info info;
    attile_comm_info_init(&info, sizeof info);
    EXPECT_EQ(attile_comm_get_info(rank_.comm, &info), ATTILE_OK);
    EXPECT_STREQ(info.kind, "mpi");
    rank_.rank = info.rank;
    ranks_ = info.ranks;
}

MpiRank::~MpiRank() {
    attile_comm_destroy(rank_.comm);
    attile_context_destroy(rank_.context);
}

void MpiRank::call(const std::function<void(SmallCall &)> &prepare, std::int32_t *first, std::string *why, std::int32_t *second) {
    SmallCall problem(ranks_);
    prepare(problem);
    *first = attile_attention_distributed(comm(), &problem.args);
    *why = *first == ATTILE_OK ? "" : last_error();
    SmallCall right(ranks_);
    *second = attile_attention_distributed(comm(), &right.args);
}

std::vector<std::int32_t> of_all(std::int32_t own) {
    std::vector<std::int32_t> all(static_cast<std::size_t>(world_ranks()));
    MPI_Allgather(&own, 1, MPI_INT32_T, all.data(), 1, MPI_INT32_T, MPI_COMM_WORLD);
    return all;
}

std::vector<Values> gather(const Values &own) {
    constexpr int kMostAxes = 8;
    std::int64_t head[1 + kMostAxes] = {static_cast<std::int64_t>(own.shape.size())};
    std::copy(own.shape.begin(), own.shape.end(), head + 1);
    const int ranks = world_ranks(), count = static_cast<int>(own.at.size());
    std::vector<std::int64_t> heads(static_cast<std::size_t>(ranks * (1 + kMostAxes)));
    std::vector<int> counts(static_cast<std::size_t>(ranks)), places(counts.size());
    MPI_Gather(head, 1 + kMostAxes, MPI_INT64_T, heads.data(), 1 + kMostAxes, MPI_INT64_T, 0, MPI_COMM_WORLD);
    MPI_Gather(&count, 1, MPI_INT, counts.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (std::size_t i = 1; i < counts.size(); ++i) places[i] = places[i - 1] + counts[i - 1];
    std::vector<double> all(static_cast<std::size_t>(places.back() + counts.back()));
    MPI_Gatherv(own.at.data(), count, MPI_DOUBLE, all.data(), counts.data(), places.data(), MPI_DOUBLE, 0, MPI_COMM_WORLD);
    std::vector<Values> gathered;
    if (world_rank() != 0) return gathered;
    for (std::size_t i = 0; i < counts.size(); ++i) {
        const std::int64_t *one = heads.data() + i * (1 + kMostAxes);
        Values values;
        values.shape.assign(one + 1, one + 1 + one[0]);
        values.at.assign(all.begin() + places[i], all.begin() + places[i] + counts[i]);
        gathered.push_back(std::move(values));
    }
    return gathered;
}

}  // namespace attile::test
