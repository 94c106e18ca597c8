// SPDX-License-Identifier: Apache-2.0
// attile attention --ranks: each rank reads its rows of every batch from the file, and writes its rows of the result.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>

#include "attention_call.h"
#include "attention_file.h"
#include "cli.h"
#include "commands.h"
#include "progress.h"
#include "ranks.h"
#include "replace_file.h"
#include "table.h"

namespace attile::cli {
namespace {

// Rows that follow each other in the file, and in the shard from `at` on.
struct Run {
    int64_t first, count, at;
};

class RankAttention {
  public:
    RankAttention(Rank &rank, const AttentionOptions &options) : rank_(rank), options_(options) {
        if (!reader_.open(options.input.c_str())) throw Failure(reader_.error());
        if (!reader_.is_regular())
            throw Failure("'" + options.input + "' is not a regular file, and with --ranks each rank reads its part of it");
        if (rank.first() && reader_.is_same_file(options.output.c_str()))
            throw Failure("'" + options.output + "' is both the input and the output");
        const int32_t parts = layout() == ATTILE_SHARDS_ZIGZAG ? 2 : 1;
        own_ = reader_.shape();
        own_.len = 0;
        for (int32_t part = 0; part < parts; ++part) {
            Run run{0, 0, own_.len};
            check(attile_shard_part(layout(), reader_.shape().len, rank.rank(), rank.ranks(), part, &run.first, &run.count, nullptr));
            own_.len += run.count;
            runs_.push_back(run);
        }
        // Every rank makes the same calls, so what it counts with is a rank's largest shard.
        AttentionFileShape largest = own_;
        largest.len = (reader_.shape().len + rank.ranks() - 1) / rank.ranks() + 1;
        const int64_t batch_bytes = (largest.batch_floats() + largest.matrix_floats()) * int64_t{sizeof(float)};
        const int64_t memory = static_cast<int64_t>(std::min<uint64_t>(options.memory, INT64_MAX));
        chunk_ = std::clamp<int64_t>(memory / batch_bytes, 1, own_.batch);
    }

    void compute() {
        const auto start = std::chrono::steady_clock::now();
        ask();
        open_output();
        const Buffer input(rank_.context(), floats(own_.batch_floats())), output(rank_.context(), floats(own_.matrix_floats()));
        {
            std::optional<Progress> progress;
            if (rank_.first()) progress.emplace("attention", own_.batch, "batches");
            for (int64_t done = 0; done < own_.batch;) {
                const int64_t batch = std::min(chunk_, own_.batch - done);
                read(done, batch, input.data());
                call(batch, input.data(), output.data());
                write(done, batch, output.data());
                done += batch;
                if (progress) progress->advance(batch);
            }
        }
        close_output();
        total_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        report();
    }

  private:
    // A causal mask gives ranks the same work only if each has early and late rows.
    int32_t layout() const { return options_.causal ? ATTILE_SHARDS_ZIGZAG : ATTILE_SHARDS_CONTIGUOUS; }

    // Of a chunk; a rank may have no rows at all.
    int64_t floats(int64_t of_batch) const { return std::max<int64_t>(1, chunk_ * of_batch); }

    attile_attention_distributed_args arguments(const attile_attention_args &local) const {
        attile_attention_distributed_args args;
        attile_attention_distributed_init(&args, sizeof args);
        args.local = &local;
        args.layout = layout();
        args.len_q = args.len_k = reader_.shape().len;
        return args;
    }

    // Before anything is read or written, so that what the backend cannot do fails at once.
    void ask() {
        const attile_attention_args local = attention_arguments(own_, own_.batch, options_.causal, nullptr, nullptr);
        const attile_attention_distributed_args args = arguments(local);
        attile_distributed_support_init(&support_, sizeof support_);
        check(attile_attention_distributed_query(rank_.comm(), &args, &support_));
        if (support_.level == ATTILE_SUPPORT_NONE) throw Failure(text("this backend cannot run it: %s", support_.text));
    }

    void open_output() {
        if (rank_.first()) {
            if (!writer_.open(options_.output.c_str())) throw Failure(writer_.error());
            if (writer_.temporary().empty())
                throw Failure("'" + options_.output + "' is not a regular file, and with --ranks each rank writes its part of it");
        }
        const std::string temporary = rank_.share_text(writer_.temporary());
        if (!rank_.first() && !writer_.join(options_.output.c_str(), temporary)) throw Failure(writer_.error());
    }

    void close_output() {
        if (!rank_.first() && !writer_.commit()) throw Failure(writer_.error());
        rank_.meet();
        if (rank_.first() && !writer_.commit()) throw Failure(writer_.error());
    }

    void read(int64_t from, int64_t batch, float *input) {
        for (int64_t b = 0; b < batch; ++b)
            for (int matrix = 0; matrix < 3; ++matrix)
                for (const Run &run : runs_) {
                    float *to = input + b * own_.batch_floats() + matrix * own_.matrix_floats() + run.at * own_.head_dim;
                    if (!reader_.read_rows(from + b, matrix, run.first, run.count, to)) throw Failure(reader_.error());
                }
    }

    void call(int64_t batch, float *input, float *output) {
        const attile_attention_args local = attention_arguments(own_, batch, options_.causal, input, output);
        const attile_attention_distributed_args args = arguments(local);
        const double before = rank_.transport_seconds();
        const auto start = std::chrono::steady_clock::now();
        check(attile_attention_distributed(rank_.comm(), &args));
        seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        in_transport_ += rank_.transport_seconds() - before;
    }

    void write(int64_t from, int64_t batch, float *output) {
        little_endian_floats(output, batch * own_.matrix_floats());
        constexpr int64_t kFloat = sizeof(float);
        for (int64_t b = 0; b < batch; ++b)
            for (const Run &run : runs_) {
                const int64_t offset = (from + b) * reader_.shape().matrix_floats() + run.first * own_.head_dim;
                const float *rows = output + b * own_.matrix_floats() + run.at * own_.head_dim;
                if (!writer_.write_at(offset * kFloat, rows, run.count * own_.head_dim * kFloat)) throw Failure(writer_.error());
            }
    }

    void report() const {
        const std::vector<std::vector<double>> times = rank_.share({seconds_, in_transport_});
        if (!rank_.first()) return;
        const auto slowest = std::max_element(times.begin(), times.end());
        const AttentionFileShape &shape = reader_.shape();
        Facts facts;
        facts.add("backend", rank_.context().description());
        facts.add("ranks", text("%d by %s, %s shards, %s", rank_.ranks(), rank_.transport().c_str(), layout_name(layout()),
                                method_name(support_.method)));
        facts.add("kernel", support_.kernel);
        facts.add("shape",
                  text("B = %lld, N = %lld, d = %lld, float32%s", static_cast<long long>(shape.batch), static_cast<long long>(shape.len),
                       static_cast<long long>(shape.head_dim), options_.causal ? ", causal" : ""));
        facts.add("time",
                  text("%.3f ms for attention on the slowest rank, %.0f %% of it in communication; %.3f ms with reading and writing",
                       slowest->at(0) * 1e3, slowest->at(0) > 0 ? 100 * slowest->at(1) / slowest->at(0) : 0.0, total_ * 1e3));
        if (slowest->at(0) > 0) facts.add("rate", text("%.2f GFLOP/s", support_.flops / slowest->at(0) / 1e9));
        facts.add("output", options_.output);
        std::fputs(facts.str().c_str(), stdout);
    }

    Rank &rank_;
    const AttentionOptions &options_;
    AttentionReader reader_;
    AttentionFileShape own_;  // as the file's, with this rank's rows
    std::vector<Run> runs_;
    int64_t chunk_ = 1;
    ReplaceFile writer_;
    attile_distributed_support support_;
    double seconds_ = 0, in_transport_ = 0, total_ = 0;
};

}  // namespace

int run_attention_on_ranks(const AttentionOptions &options) {
    run_on_ranks(options.ranks.threads, options.backend, options.threads, [&](Rank &rank) { RankAttention(rank, options).compute(); });
    return 0;
}

}  // namespace attile::cli
