// SPDX-License-Identifier: Apache-2.0
// Packed sequences whose offsets decrease: a row that one sequence has holds its result, and a row of several that of one of them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "over_ranks.h"
#include "ranks.h"
#include "test_random.h"

namespace attile::test {
namespace {

using Positions = std::vector<std::int64_t>;

constexpr std::int64_t kHeads = 2, kRows = 12, kKeys = 14, kDim = 4;
constexpr int kRanks = 3;

struct Operands {
    Values q{{1, kHeads, kRows, kDim}}, k{{1, kHeads, kKeys, kDim}}, v = k, dout = q;
    Values o = q, lse{{1, kHeads, kRows}};  ///< as backward reads them: of rows that sequences share, those of the first one
    Operands() {
        Random random(1);
        for (Values *values : {&q, &k, &v, &dout}) {
            for (double &value : values->at) value = random.normal();
        }
    }
};

struct Offsets {
    std::vector<std::int32_t> rows, keys;
    Values values(bool of_keys) const {
        Values numbers({static_cast<std::int64_t>(rows.size())});
        numbers.at.assign((of_keys ? keys : rows).begin(), (of_keys ? keys : rows).end());
        return numbers;
    }
};

Positions between(std::int32_t first, std::int32_t end) {
    Positions positions;
    for (std::int64_t i = first; i < end; ++i) positions.push_back(i);
    return positions;
}

/// A forward call and its gradients, of a sequence or of a rank.
struct Calls {
    GuardedTensors forward_tensors, tensors;
    attile_attention_args forward;
    attile_attention_backward_args backward;

    Calls(const RankOfCase &rank, const Operands &operands, const Positions &rows, const Positions &keys)
        : forward_tensors(rank), tensors(rank), rows_(static_cast<std::int64_t>(rows.size())) {
        attile_attention_init(&forward, sizeof forward);
        forward.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;  // goes by the length of a whole sequence
        forward.q = forward_tensors.input(ATTILE_F64, take_rows(operands.q, rows), {});
        forward.k = forward_tensors.input(ATTILE_F64, take_rows(operands.k, keys), {});
        forward.v = forward_tensors.input(ATTILE_F64, take_rows(operands.v, keys), {});
        forward.o = forward_tensors.output(ATTILE_F64, {1, kHeads, rows_, kDim}, {});
        forward.lse = forward_tensors.output(ATTILE_F64, {1, kHeads, rows_}, {});
        attile_attention_backward_init(&backward, sizeof backward);
        backward.dout = tensors.input(ATTILE_F64, take_rows(operands.dout, rows), {});
        const std::int64_t key_count = static_cast<std::int64_t>(keys.size());
        backward.dq = tensors.output(ATTILE_F64, {1, kHeads, rows_, kDim}, {});
        backward.dk = tensors.output(ATTILE_F64, {1, kHeads, key_count, kDim}, {});
        backward.dv = tensors.output(ATTILE_F64, {1, kHeads, key_count, kDim}, {});
    }
    Calls(const Calls &) = delete;
    Calls &operator=(const Calls &) = delete;

    void pack(const Offsets &offsets) {
        forward.cu_len_q = forward_tensors.input(ATTILE_I32, offsets.values(false), {});
        forward.cu_len_k = forward_tensors.input(ATTILE_I32, offsets.values(true), {});
    }
    /// Gradients beside these results.
    void begin_gradients(const Values &o, const Values &lse) {
        forward.o = tensors.input(ATTILE_F64, o, {});
        forward.lse = tensors.input(ATTILE_F64, lse, {});
        backward.forward = &forward;
    }
    static std::vector<Values> fetch(GuardedTensors &from) {
        ResultsOfRank results;
        from.fetch(&results);
        EXPECT_EQ(results.failure, "");
        return results.outputs;
    }

  private:
    std::int64_t rows_;
};

/// What a sequence gives as a call of its own.
struct Sequence {
    Positions rows, keys;
    Values o, lse, dq, dk, dv;
};

std::vector<Sequence> sequences_of(const Offsets &offsets, Operands *operands) {
    std::vector<Sequence> sequences;
    RankOfCase alone;
    alone.context = open_context("reference");
    for (std::size_t i = 0; i + 1 < offsets.rows.size(); ++i) {
        Sequence one;
        one.rows = between(offsets.rows[i], offsets.rows[i + 1]);
        one.keys = between(offsets.keys[i], offsets.keys[i + 1]);
        if (one.rows.empty()) continue;
        Calls calls(alone, *operands, one.rows, one.keys);
        EXPECT_EQ(attile_attention(alone.context, &calls.forward), ATTILE_OK) << last_error();
        const std::vector<Values> results = Calls::fetch(calls.forward_tensors);
        one.o = results.at(0);
        one.lse = results.at(1);
        calls.begin_gradients(one.o, one.lse);
        EXPECT_EQ(attile_attention_backward(alone.context, &calls.backward), ATTILE_OK) << last_error();
        const std::vector<Values> gradients = Calls::fetch(calls.tensors);
        one.dq = gradients.at(0);
        one.dk = gradients.at(1);
        one.dv = gradients.at(2);
        sequences.push_back(one);
    }
    attile_context_destroy(alone.context);
    for (auto one = sequences.rbegin(); one != sequences.rend(); ++one) {
        put(operands->o, one->o, 2, one->rows);
        put(operands->lse, one->lse, 1, one->rows);
    }
    return sequences;
}

bool is_near(double got, double expected) { return got == expected || std::abs(got - expected) < 1e-12; }

/// A row of a tensor of heads, rows and, but for lse, columns.
bool is_row(const Values &got, std::int64_t row, const Values &expected, std::int64_t expected_row) {
    const std::int64_t columns = got.shape.size() == 4 ? kDim : 1;
    for (std::int64_t h = 0; h < kHeads; ++h) {
        for (std::int64_t d = 0; d < columns; ++d) {
            const double one = columns == 1 ? got(0, h, row) : got(0, h, row, d);
            if (!is_near(one, columns == 1 ? expected(0, h, expected_row) : expected(0, h, expected_row, d))) return false;
        }
    }
    return true;
}

/// Each row of what a rank got is that of a sequence. Of rows that several have: of one of them, or, where `alone`, not looked at.
void expect_rows(const Values &got, const Positions &positions, const std::vector<Sequence> &sequences, Values Sequence::*which, bool alone,
                 const std::string &where) {
    for (std::size_t i = 0; i < positions.size(); ++i) {
        int owners = 0, right = 0;
        for (const Sequence &one : sequences) {
            if (positions[i] < one.rows.front() || positions[i] > one.rows.back()) continue;
            ++owners;
            if (is_row(got, static_cast<std::int64_t>(i), one.*which, positions[i] - one.rows.front())) ++right;
        }
        if (owners == 0 || (alone && owners > 1)) continue;
        EXPECT_GT(right, 0) << where << ", row " << positions[i];
    }
}

/// Sums over sequences.
void expect_keys(const Values &got, const Positions &positions, const std::vector<Sequence> &sequences, Values Sequence::*which,
                 const std::string &where) {
    Values sum({1, kHeads, kKeys, kDim});
    for (const Sequence &one : sequences) {
        for (std::int64_t h = 0; h < kHeads; ++h) {
            for (std::size_t j = 0; j < one.keys.size(); ++j) {
                for (std::int64_t d = 0; d < kDim; ++d) sum(0, h, one.keys[j], d) += (one.*which)(0, h, static_cast<std::int64_t>(j), d);
            }
        }
    }
    for (std::size_t i = 0; i < positions.size(); ++i)
        EXPECT_TRUE(is_row(got, static_cast<std::int64_t>(i), sum, positions[i])) << where << ", key " << positions[i];
}

struct Run {
    int layout, method;
    bool replicated;
};

void expect_results(Rank &rank, const Operands &operands, const Offsets &offsets, const std::vector<Sequence> &sequences, const Run &run) {
    const auto at = static_cast<std::size_t>(rank.rank);
    const Positions rows = run.replicated ? between(0, kRows) : positions_of(run.layout, kRows, kRanks)[at];
    const Positions keys = positions_of(run.layout, kKeys, kRanks)[at];
    const std::string where = "offsets from " + std::to_string(offsets.rows[0]) + ", layout " + std::to_string(run.layout) + ", method " +
                              std::to_string(run.method) + ", rank " + std::to_string(rank.rank);
    Calls calls(rank, operands, rows, keys);
    calls.pack(offsets);
    attile_attention_distributed_args args;
    attile_attention_distributed_init(&args, sizeof args);
    args.local = &calls.forward;
    args.layout = run.layout;
    args.method = run.method;
    args.rows = run.replicated ? ATTILE_ROWS_REPLICATED : ATTILE_ROWS_SHARDED;
    args.len_q = kRows;
    args.len_k = kKeys;
    ASSERT_EQ(attile_attention_distributed(rank.comm, &args), ATTILE_OK) << last_error();
    const std::vector<Values> results = Calls::fetch(calls.forward_tensors);
    expect_rows(results.at(0), rows, sequences, &Sequence::o, false, where + ", o");
    expect_rows(results.at(1), rows, sequences, &Sequence::lse, false, where + ", lse");
    if (run.replicated) return;
    calls.begin_gradients(take(operands.o, 2, rows), take(operands.lse, 1, rows));
    attile_attention_backward_distributed_args backward;
    attile_attention_backward_distributed_init(&backward, sizeof backward);
    backward.local = &calls.backward;
    backward.layout = run.layout;
    backward.method = run.method;
    backward.len_q = kRows;
    backward.len_k = kKeys;
    ASSERT_EQ(attile_attention_backward_distributed(rank.comm, &backward), ATTILE_OK) << last_error();
    const std::vector<Values> gradients = Calls::fetch(calls.tensors);
    expect_rows(gradients.at(0), rows, sequences, &Sequence::dq, true, where + ", dq");
    std::size_t rows_of_all = 0;
    std::set<std::int64_t> distinct;
    for (const Sequence &one : sequences) {
        rows_of_all += one.rows.size();
        distinct.insert(one.rows.begin(), one.rows.end());
    }
    if (distinct.size() != rows_of_all) return;  // whose part in dk and dv a shared row has is not said
    expect_keys(gradients.at(1), keys, sequences, &Sequence::dk, where + ", dk");
    expect_keys(gradients.at(2), keys, sequences, &Sequence::dv, where + ", dv");
}

TEST(DecreasingOffsets, RowsOfOneSequenceHaveItsResult) {
    const Offsets cases[] = {
        {{5, 10, 0, 3}, {0, 4, 8, 14}},                // rows below others
        {{9, 12, 4, 7, 0, 2}, {0, 5, 5, 9, 9, 14}},    // ever farther below
        {{4, 6, 0, 10}, {0, 4, 4, 14}},                // rows on both sides of others'
        {{3, 5, 1, 2, 0, 12}, {0, 3, 3, 6, 6, 14}},    // likewise of two
        {{2, 8, 5, 11, 1, 3}, {0, 4, 4, 10, 10, 14}},  // rows beside others', and shared ones
    };
    for (const std::string &backend : backends()) {
        for (const Offsets &offsets : cases) {
            Operands operands;
            const std::vector<Sequence> sequences = sequences_of(offsets, &operands);
            RanksOptions options;
            options.ranks = kRanks;
            options.backend = backend;
            run_ranks(options, [&](Rank &rank) {
                ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
                for (int layout = ATTILE_SHARDS_CONTIGUOUS; layout <= ATTILE_SHARDS_STRIPED; ++layout) {
                    for (int method = ATTILE_METHOD_RING; method <= ATTILE_METHOD_ALL_TO_ALL; ++method)
                        expect_results(rank, operands, offsets, sequences, {layout, method, false});
                    expect_results(rank, operands, offsets, sequences, {layout, ATTILE_METHOD_TREE, true});
                }
            });
        }
    }
}

}  // namespace
}  // namespace attile::test
