// SPDX-License-Identifier: Apache-2.0
#include "sharded_attention.h"

#include <stdexcept>

#include "checker.h"

namespace attile::test {
namespace {

// The values at some indices of an axis, counted from the last; an extent of 1 that stands for more stays.
Values take(const Values &values, std::size_t axis_from_end, const std::vector<std::int64_t> &indices) {
    if (values.shape.size() < axis_from_end) return values;
    const std::size_t axis = values.shape.size() - axis_from_end;
    if (values.shape[axis] == 1) return values;
    std::vector<std::int64_t> shape = values.shape;
    shape[axis] = static_cast<std::int64_t>(indices.size());
    std::int64_t outer = 1, inner = 1;
    for (std::size_t i = 0; i < axis; ++i) outer *= shape[i];
    for (std::size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
    Values taken(shape);
    std::size_t at = 0;
    for (std::int64_t i = 0; i < outer; ++i)
        for (const std::int64_t index : indices)
            for (std::int64_t j = 0; j < inner; ++j)
                taken.at[at++] = values.at[static_cast<std::size_t>((i * values.shape[axis] + index) * inner + j)];
    return taken;
}

// Of q, k and v, whose axis has all positions even where there is one.
Values take_rows(const Values &values, const std::vector<std::int64_t> &positions) {
    if (values.shape[2] != 1) return take(values, 2, positions);
    return positions.size() == 1 ? values : Values({values.shape[0], values.shape[1], 0, values.shape[3]});
}

// Puts rows back where they belong; axis 2.
void put(Values &whole, const Values &part, const std::vector<std::int64_t> &positions) {
    const std::int64_t inner = whole.shape.size() == 4 ? whole.shape[3] : 1;
    for (std::int64_t b = 0; b < whole.shape[0]; ++b)
        for (std::int64_t h = 0; h < whole.shape[1]; ++h)
            for (std::size_t i = 0; i < positions.size(); ++i)
                for (std::int64_t d = 0; d < inner; ++d) {
                    const std::int64_t line = b * whole.shape[1] + h;
                    whole.at[static_cast<std::size_t>((line * whole.shape[2] + positions[i]) * inner + d)] =
                        part.at[(static_cast<std::size_t>(line) * positions.size() + i) * static_cast<std::size_t>(inner) +
                                static_cast<std::size_t>(d)];
                }
}

}  // namespace

ShardedCase::ShardedCase(const AttentionCase &c)
    : data_(c), problem_(make_attention_problem(c, Contents::kDrawn)), honest_(problem_->honest()) {
    attile_context *reference = open_context("reference");
    {
        const std::unique_ptr<Call> exact = problem_->bind(reference, Placement::kHost, true);
        if (exact->run() != ATTILE_OK) throw std::runtime_error(last_error());
        exact->fetch();
        o_ = exact->outputs()[0].tensor->values();
        if (c.lse) lse_ = exact->outputs()[1].tensor->values();
    }
    attile_context_destroy(reference);
}

std::string ShardedCase::judge(const std::vector<std::vector<std::int64_t>> &positions, const std::vector<Values> &o,
                               const std::vector<Values> &lse) const {
    Values whole_o(o_.shape), whole_lse(lse_.shape.empty() ? std::vector<std::int64_t>{0} : lse_.shape);
    for (std::size_t rank = 0; rank < positions.size(); ++rank) {
        put(whole_o, o[rank], positions[rank]);
        if (data_.c.lse) put(whole_lse, lse[rank], positions[rank]);
    }
    Verdict verdict = check_values(whole_o, o_, honest_[0], data_.c.out_dtype, problem_->compute_dtype());
    if (!verdict.passed) return "o" + verdict.message;
    if (!data_.c.lse) return {};
    verdict = check_values(whole_lse, lse_, honest_[1], problem_->compute_dtype(), problem_->compute_dtype());
    return verdict.passed ? "" : "lse" + verdict.message;
}

ShardOfCase::ShardOfCase(attile_context *context, const AttentionData &data, const std::vector<std::int64_t> &rows,
                         const std::vector<std::int64_t> &keys) {
    const AttentionCase &c = data.c;
    const std::int32_t wide = compute_type(c.dtype);
    attile_attention_init(&args, sizeof args);
    args.flags = c.flags;
    args.scale = c.scale;
    args.softcap = c.softcap;
    args.mask = c.mask;
    args.window_left = c.window_left;
    args.window_right = c.window_right;
    const auto input = [&](std::int32_t dtype, const Values &values, const Layout &layout) {
        inputs.push_back(values.shape.empty() ? std::make_unique<TestTensor>()
                                              : std::make_unique<TestTensor>(context, Placement::kHost, dtype, values, layout));
        return inputs.back()->view();
    };
    const auto scores = [&](const Values &values) { return values.shape.empty() ? values : take(values, 2, rows); };
    args.q = input(c.dtype, take_rows(data.q, rows), c.q_layout);
    args.k = input(c.dtype, take_rows(data.k, keys), c.k_layout);
    args.v = input(c.dtype, take_rows(data.v, keys), c.v_layout);
    args.bias = input(c.bias_dtype, scores(data.bias), c.bias_layout);
    args.allowed = input(c.seed % 2 == 0 ? ATTILE_BOOL : ATTILE_U8, scores(data.allowed), c.allowed_layout);
    args.alibi_slopes = input(wide, data.slopes, c.numbers_layout);
    args.sinks = input(wide, data.sinks, c.numbers_layout);
    args.key_lengths = input(ATTILE_I32, data.key_lengths, c.numbers_layout);
    const std::int64_t count = static_cast<std::int64_t>(rows.size());
    o = TestTensor::output(context, Placement::kHost, c.out_dtype, {c.batch, c.heads_q, count, c.head_dim_v}, c.o_layout);
    args.o = o.view();
    if (!c.lse) return;
    lse = TestTensor::output(context, Placement::kHost, wide, {c.batch, c.heads_q, count}, c.lse_layout);
    args.lse = lse.view();
}

void ShardOfCase::fetch() {
    for (auto &input : inputs)
        if (input->present()) input->fetch();
    o.fetch();
    if (lse.present()) lse.fetch();
}

std::string ShardOfCase::damage() {
    for (auto &input : inputs)
        if (input->present() && !input->damage().empty()) return input->damage();
    if (!o.damage().empty()) return o.damage();
    return lse.present() ? lse.damage() : "";
}

std::vector<std::vector<std::int64_t>> positions_of(int layout, std::int64_t length, int ranks, const std::vector<std::int64_t> &cuts) {
    std::vector<std::vector<std::int64_t>> positions(static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
        std::vector<std::int64_t> &own = positions[static_cast<std::size_t>(rank)];
        if (!cuts.empty()) {
            const std::int64_t end = rank + 1 < ranks ? cuts[static_cast<std::size_t>(rank) + 1] : length;
            for (std::int64_t i = cuts[static_cast<std::size_t>(rank)]; i < end; ++i) own.push_back(i);
            continue;
        }
        for (int part = 0; part < (layout == ATTILE_SHARDS_ZIGZAG ? 2 : 1); ++part) {
            std::int64_t first = 0, count = 0, stride = 0;
            if (attile_shard_part(layout, length, rank, ranks, part, &first, &count, &stride) != ATTILE_OK)
                throw std::runtime_error(last_error());
            for (std::int64_t i = 0; i < count; ++i) own.push_back(first + i * stride);
        }
    }
    return positions;
}

std::string describe(const RunOfCase &run) {
    constexpr const char *kLayouts[] = {"contiguous", "zigzag", "striped"};
    constexpr const char *kMethods[] = {"auto", "ring", "all_gather", "all_to_all"};
    return std::to_string(run.ranks) + " ranks on " + run.backend + (run.mail != nullptr ? " by callbacks, " : " by threads, ") +
           kLayouts[run.layout] + (run.cuts_q.empty() ? "" : " uneven") + ", " + kMethods[run.method];
}

namespace {

// One rank's part of a job.
struct Part {
    std::string failure;
    Values o, lse;
    std::vector<std::byte> bytes;
};

void run_part(Rank &rank, const Job &job, Part *part) {
    if (rank.created != ATTILE_OK) {
        part->failure = rank.why;
        return;
    }
    const AttentionData &data = job.test_case->data();
    const RunOfCase &run = job.run;
    const std::size_t at = static_cast<std::size_t>(rank.rank);
    ShardOfCase shard(rank.context, data, positions_of(run.layout, data.c.len_q, run.ranks, run.cuts_q)[at],
                      positions_of(run.layout, data.c.len_k, run.ranks, run.cuts_k)[at]);
    attile_attention_distributed_args args;
    attile_attention_distributed_init(&args, sizeof args);
    args.local = &shard.args;
    args.layout = run.layout;
    args.method = run.method;
    args.len_q = data.c.len_q;
    args.len_k = data.c.len_k;
    if (attile_attention_distributed(rank.comm, &args) != ATTILE_OK) {
        part->failure = last_error();
        return;
    }
    shard.fetch();
    part->failure = shard.damage();
    part->o = shard.o.values();
    part->bytes = shard.o.element_bytes_in_order();
    if (!data.c.lse) return;
    part->lse = shard.lse.values();
    const std::vector<std::byte> more = shard.lse.element_bytes_in_order();
    part->bytes.insert(part->bytes.end(), more.begin(), more.end());
}

}  // namespace

void run_jobs(std::vector<Job> &jobs) {
    if (jobs.empty()) return;
    const RunOfCase &first = jobs.front().run;
    std::vector<std::vector<Part>> parts(jobs.size(), std::vector<Part>(static_cast<std::size_t>(first.ranks)));
    RanksOptions options;
    options.ranks = first.ranks;
    options.backend = first.backend;
    options.mail = first.mail;
    run_ranks(options, [&](Rank &rank) {
        for (std::size_t i = 0; i < jobs.size(); ++i) run_part(rank, jobs[i], &parts[i][static_cast<std::size_t>(rank.rank)]);
    });
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        Job &job = jobs[i];
        std::vector<Values> o, lse;
        for (Part &part : parts[i]) {
            if (!part.failure.empty() && job.wrong.empty())
                job.wrong = "rank " + std::to_string(&part - parts[i].data()) + ": " + part.failure;
            job.bytes.insert(job.bytes.end(), part.bytes.begin(), part.bytes.end());
            o.push_back(std::move(part.o));
            lse.push_back(std::move(part.lse));
        }
        if (!job.wrong.empty()) continue;
        job.wrong =
            job.test_case->judge(positions_of(job.run.layout, job.test_case->data().c.len_q, job.run.ranks, job.run.cuts_q), o, lse);
    }
}

std::string run_case(const ShardedCase &test_case, const RunOfCase &run, std::vector<std::byte> *bytes) {
    std::vector<Job> jobs = {{&test_case, run, {}, {}}};
    run_jobs(jobs);
    if (bytes != nullptr) *bytes = std::move(jobs[0].bytes);
    return jobs[0].wrong;
}

}  // namespace attile::test
