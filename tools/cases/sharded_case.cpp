// SPDX-License-Identifier: Apache-2.0
#include "sharded_case.h"

#include <stdexcept>

#include "checker.h"

namespace attile::test {
namespace {

std::string last_error() {
    char text[512];
    attile_last_error(text, sizeof text);
    return text;
}

}  // namespace

bool ResultsOfRank::take(std::int32_t status_of_call) {
    status = status_of_call;
    if (status != ATTILE_OK) failure = last_error();
    return status == ATTILE_OK;
}

std::string describe(const ShardedRun &run) {
    constexpr const char *kLayouts[] = {"contiguous", "zigzag", "striped"};
    constexpr const char *kMethods[] = {"auto", "ring", "all_gather", "all_to_all", "local", "tree"};
    return std::to_string(run.ranks) + " ranks, " + kLayouts[run.layout] + (run.cuts_k.empty() ? "" : " uneven") +
           (run.replicated ? ", all rows" : "") + ", " + kMethods[run.method] + (run.strides ? ", strides of 0" : "");
}

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

Values take_rows(const Values &values, const std::vector<std::int64_t> &positions) {
    if (values.shape[2] != 1) return take(values, 2, positions);
    return positions.size() == 1 ? values : Values({values.shape[0], values.shape[1], 0, values.shape[3]});
}

void put(Values &whole, const Values &part, std::size_t axis_from_end, const std::vector<std::int64_t> &positions) {
    const std::size_t axis = whole.shape.size() - axis_from_end;
    std::int64_t outer = 1, inner = 1;
    for (std::size_t i = 0; i < axis; ++i) outer *= whole.shape[i];
    for (std::size_t i = axis + 1; i < whole.shape.size(); ++i) inner *= whole.shape[i];
    std::size_t at = 0;
    for (std::int64_t i = 0; i < outer; ++i)
        for (const std::int64_t position : positions)
            for (std::int64_t j = 0; j < inner; ++j)
                whole.at[static_cast<std::size_t>((i * whole.shape[axis] + position) * inner + j)] = part.at.at(at++);
}

Expected::Expected(const Problem &problem) : honest(problem.honest()), compute_dtype(problem.compute_dtype()) {
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    options.backend = "reference";
    options.threads = 1;
    attile_context *reference = nullptr;
    if (attile_context_create(&options, &reference) != ATTILE_OK) throw std::runtime_error(last_error());
    {
        const std::unique_ptr<Call> exact = problem.bind(reference, Placement::kHost, true);
        if (exact->run() != ATTILE_OK) throw std::runtime_error(last_error());
        exact->fetch();
        for (const Call::Output &output : exact->outputs()) {
            values.push_back(output.tensor->values());
            names.push_back(output.name);
        }
    }
    attile_context_destroy(reference);
}

attile_tensor GuardedTensors::input(std::int32_t dtype, const Values &values, const Layout &layout) {
    if (values.shape.empty()) return {};
    inputs_.push_back(std::make_unique<TestTensor>(context_, placement_, dtype, values, layout));
    return inputs_.back()->view();
}

attile_tensor GuardedTensors::output(std::int32_t dtype, const std::vector<std::int64_t> &shape, const Layout &layout) {
    outputs_.push_back(std::make_unique<TestTensor>(TestTensor::output(context_, placement_, dtype, shape, layout)));
    return outputs_.back()->view();
}

void GuardedTensors::fetch(ResultsOfRank *results) {
    for (const auto *list : {&inputs_, &outputs_}) {
        for (const auto &tensor : *list) {
            tensor->fetch();
            if (results->failure.empty()) results->failure = tensor->damage();
        }
    }
    for (const auto &tensor : outputs_) {
        results->outputs.push_back(tensor->values());
        const std::vector<std::byte> bytes = tensor->element_bytes_in_order();
        results->bytes.insert(results->bytes.end(), bytes.begin(), bytes.end());
    }
}

void bind_shard(GuardedTensors &tensors, const AttentionData &data, const std::vector<std::int64_t> &rows,
                const std::vector<std::int64_t> &keys, attile_attention_args *args) {
    const AttentionCase &c = data.c;
    const std::int32_t wide = compute_type(c.dtype);
    attile_attention_init(args, sizeof *args);
    args->flags = c.flags;
    args->scale = c.scale;
    args->softcap = c.softcap;
    args->mask = c.mask;
    args->window_left = c.window_left;
    args->window_right = c.window_right;
    // Those of packed sequences go by their rows, not by the shard's.
    const auto scores = [&](const Values &values) { return values.shape.empty() || c.packed_q ? values : take(values, 2, rows); };
    args->q = tensors.input(c.dtype, take_rows(data.q, rows), c.q_layout);
    args->k = tensors.input(c.dtype, take_rows(data.k, keys), c.k_layout);
    args->v = tensors.input(c.dtype, take_rows(data.v, keys), c.v_layout);
    args->bias = tensors.input(c.bias_dtype, scores(data.bias), c.bias_layout);
    args->allowed = tensors.input(c.seed % 2 == 0 ? ATTILE_BOOL : ATTILE_U8, scores(data.allowed), c.allowed_layout);
    args->alibi_slopes = tensors.input(wide, data.slopes, c.numbers_layout);
    args->sinks = tensors.input(wide, data.sinks, c.numbers_layout);
    args->key_lengths = tensors.input(ATTILE_I32, data.key_lengths, c.numbers_layout);
    args->cu_len_q = tensors.input(ATTILE_I32, data.cu_len_q, c.numbers_layout);
    args->cu_len_k = tensors.input(ATTILE_I32, data.cu_len_k, c.numbers_layout);
    if (c.packed_q && c.give_max_len) args->max_len_q = c.len_q - c.max_len_cut;
    if (c.packed_k && c.give_max_len) args->max_len_k = c.len_k - c.max_len_cut;
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

}  // namespace attile::test
