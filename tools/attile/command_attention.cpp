// SPDX-License-Identifier: Apache-2.0
// attile attention: softmax(Q K^T / sqrt(d)) V of a file, some batches at a time, so that files larger than memory work too.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "attention_call.h"
#include "attention_file.h"
#include "cli.h"
#include "commands.h"
#include "progress.h"
#include "replace_file.h"
#include "table.h"

namespace attile::cli {
namespace {

// Asks before anything is read or written, so that what the backend cannot do fails at once.
attile_support ask(attile_context *context, const attile_attention_args &args) {
    attile_support support;
    attile_support_init(&support, sizeof support);
    check(attile_attention_query(context, &args, &support));
    if (support.level == ATTILE_SUPPORT_NONE) throw Failure(text("this backend cannot run it: %s", support.text));
    return support;
}

struct Cost {
    double seconds = 0;
    double flops = 0;
    std::string kernel;
};

Cost stream(AttentionReader &reader, ReplaceFile &writer, const Context &context, const AttentionOptions &options, int64_t chunk) {
    const AttentionFileShape &shape = reader.shape();
    const Buffer input(context, chunk * shape.batch_floats()), output(context, chunk * shape.matrix_floats());
    Cost cost;
    Progress progress("attention", shape.batch, "batches");
    for (int64_t done = 0; done < shape.batch;) {
        const int64_t batch = std::min(chunk, shape.batch - done);
        if (!reader.read(batch, input.data())) throw Failure(reader.error());
        const attile_attention_args args = attention_arguments(shape, batch, options.causal, input.data(), output.data());
        const attile_support support = ask(context, args);
        const auto start = std::chrono::steady_clock::now();
        check(attile_attention(context, &args));
        check(attile_synchronize(context, nullptr));
        cost.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        cost.flops += support.flops;
        cost.kernel = support.kernel;
        const int64_t floats = batch * shape.matrix_floats();
        little_endian_floats(output.data(), floats);
        if (!writer.write(output.data(), floats * int64_t{sizeof(float)})) throw Failure(writer.error());
        done += batch;
        progress.advance(batch);
    }
    if (!reader.finish()) throw Failure(reader.error());
    return cost;
}

}  // namespace

int run_attention(const AttentionOptions &options) {
    if (options.ranks.wanted) return run_attention_on_ranks(options);
    const auto start = std::chrono::steady_clock::now();
    AttentionReader reader;
    if (!reader.open(options.input.c_str())) throw Failure(reader.error());
    if (reader.is_same_file(options.output.c_str())) throw Failure("'" + options.output + "' is both the input and the output");

    const Context context(options.backend, options.threads);
    const AttentionFileShape &shape = reader.shape();
    const int64_t batch_bytes = (shape.batch_floats() + shape.matrix_floats()) * int64_t{sizeof(float)};
    const int64_t memory = static_cast<int64_t>(std::min<uint64_t>(options.memory, INT64_MAX));
    const int64_t chunk = std::clamp<int64_t>(memory / batch_bytes, 1, shape.batch);
    ask(context, attention_arguments(shape, chunk, options.causal, nullptr, nullptr));

    ReplaceFile writer;
    if (!writer.open(options.output.c_str())) throw Failure(writer.error());
    const Cost cost = stream(reader, writer, context, options, chunk);
    if (!writer.commit()) throw Failure(writer.error());
    const double total = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

    Facts facts;
    facts.add("backend", context.description());
    facts.add("kernel", cost.kernel);
    facts.add("shape", text("B = %lld, N = %lld, d = %lld, float32%s", static_cast<long long>(shape.batch),
                            static_cast<long long>(shape.len), static_cast<long long>(shape.head_dim), options.causal ? ", causal" : ""));
    if (chunk < shape.batch)
        facts.add("in parts of", text("%lld batch%s, %s", static_cast<long long>(chunk), chunk == 1 ? "" : "es",
                                      bytes_text(static_cast<double>(chunk * batch_bytes)).c_str()));
    facts.add("time", text("%.3f ms for attention, %.3f ms with reading and writing", cost.seconds * 1e3, total * 1e3));
    if (cost.seconds > 0) facts.add("rate", text("%.2f GFLOP/s", cost.flops / cost.seconds / 1e9));
    facts.add("output", options.output);
    std::fputs(facts.str().c_str(), is_standard_output(options.output.c_str()) ? stderr : stdout);
    return 0;
}

}  // namespace attile::cli
