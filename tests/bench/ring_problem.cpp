// SPDX-License-Identifier: Apache-2.0
#include "ring_problem.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <stdexcept>

namespace attile::bench {
namespace {

void need(std::int32_t status) {
    if (status == ATTILE_OK) return;
    char text[1024];
    attile_last_error(text, sizeof text);
    throw std::runtime_error(text);
}

std::int64_t bytes_of(std::int32_t dtype) { return dtype == ATTILE_BF16 ? 2 : 4; }

float from_bf16(std::uint16_t bits) {
    const std::uint32_t wide = std::uint32_t{bits} << 16;
    float value = 0;
    std::memcpy(&value, &wide, sizeof value);
    return value;
}

std::uint16_t to_bf16(float value) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return static_cast<std::uint16_t>((bits + 0x8000) >> 16);
}

}  // namespace

RingProblem::RingProblem(int ranks, std::int64_t rows, std::int64_t heads, std::int64_t head_dim)
    : ranks_(ranks), rows_(rows), heads_(heads), head_dim_(head_dim) {
    need(attile_context_create(nullptr, &context_));
    attile_context_info info;
    attile_context_info_init(&info, sizeof info);
    need(attile_context_get_info(context_, &info));
    device_ = std::string(info.backend) + " on " + info.device_name;
    for (Rows *one : {&q_, &k_, &v_, &o_, &dout_, &dq_, &dk_, &dv_, &q_s_, &k_s_, &v_s_, &o_s_, &dout_s_, &dq_s_, &dk_s_, &dv_s_}) {
        *one = make(ATTILE_BF16, head_dim, false, ranks);
    }
    for (Rows *one : {&lse_, &lse_s_}) *one = make(ATTILE_F32, 1, true, ranks);
    for (Rows *one : {&partial_o_, &next_o_}) *one = make(ATTILE_F32, head_dim, true, 1);
    for (Rows *one : {&partial_lse_, &next_lse_}) *one = make(ATTILE_F32, 1, true, 1);
    for (Sums *sums : {&dq_sums_, &dk_sums_, &dv_sums_}) {
        for (Rows &slot : sums->slots) slot = make(ATTILE_F32, head_dim, true, ranks);
    }
    zero_.memory = allocate(sizeof(float));
    const float zero = 0;
    need(attile_copy(context_, zero_.memory, &zero, sizeof zero, nullptr));
    fill(&q_, &q_s_, 1);
    fill(&k_, &k_s_, 2);
    fill(&v_, &v_s_, 3);
    fill(&dout_, &dout_s_, 4);
}

RingProblem::~RingProblem() {
    for (void *memory : allocated_) attile_free(context_, memory);
    attile_context_destroy(context_);
}

void RingProblem::synchronize() { need(attile_synchronize(context_, nullptr)); }

void *RingProblem::allocate(std::int64_t bytes) {
    void *memory = nullptr;
    need(attile_alloc(context_, ATTILE_MEMORY_DEVICE, bytes, &memory));
    allocated_.push_back(memory);
    return memory;
}

RingProblem::Rows RingProblem::make(std::int32_t dtype, std::int64_t width, bool heads_first, std::int64_t shards) {
    return {allocate(shards * rows_ * heads_ * width * bytes_of(dtype)), dtype, heads_first, width};
}

std::int64_t RingProblem::row_bytes(const Rows &rows) const { return heads_ * rows.width * bytes_of(rows.dtype); }

attile_tensor RingProblem::shard(const Rows &rows, int rank, ChunkRange chunks) const {
    const std::int64_t chunk = rows_ / 2, first = chunks.begin * chunk, width = rows.width;
    const std::int64_t row = rows.heads_first ? width : heads_ * width, head = rows.heads_first ? rows_ * width : width;
    const std::int64_t shape[4] = {1, heads_, (chunks.end - chunks.begin) * chunk, width},
                       stride[4] = {rows_ * heads_ * width, head, row, 1};
    attile_tensor tensor{};
    tensor.data = static_cast<char *>(rows.memory) + rank * rows_ * row_bytes(rows) + first * row * bytes_of(rows.dtype);
    tensor.dtype = rows.dtype;
    tensor.rank = 4;
    std::copy_n(shape, 4, tensor.shape);
    std::copy_n(stride, 4, tensor.stride);
    return tensor;
}

attile_tensor RingProblem::lines(const Rows &rows, int rank, ChunkRange chunks) const {
    attile_tensor tensor = shard(rows, rank, chunks);
    tensor.rank = 3;
    return tensor;
}

attile_tensor RingProblem::whole(const Rows &rows) const {
    const std::int64_t length = ranks_ * rows_, shape[4] = {1, heads_, length, rows.width};
    attile_tensor tensor{};
    need(attile_tensor_init(&tensor, rows.memory, rows.dtype, rows.width == 1 ? 3 : 4, shape));
    if (rows.heads_first) return tensor;
    tensor.stride[1] = rows.width;
    tensor.stride[2] = heads_ * rows.width;
    return tensor;
}

void RingProblem::fill(Rows *all, Rows *shards, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<std::uint16_t> block(65536);
    for (std::uint16_t &one : block) one = to_bf16(normal(random));
    const std::int64_t count = ranks_ * rows_ * heads_ * head_dim_;
    std::vector<std::uint16_t> values(static_cast<std::size_t>(count));
    // Numbers repeat, at a distance that is no multiple of a row's.
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = block[i % 65521];
    need(attile_copy(context_, all->memory, values.data(), count * 2, nullptr));
    copy_to_shards(*all, *shards);
}

void RingProblem::copy_to_shards(const Rows &all, const Rows &shards) {
    const std::int64_t chunk = rows_ / 2, length = ranks_ * rows_;
    for (int number = 0; number < 2 * ranks_; ++number) {
        const int rank = std::min(number, 2 * ranks_ - 1 - number), place = number < ranks_ ? 0 : 1;
        const char *const from = static_cast<const char *>(all.memory);
        char *const to = static_cast<char *>(shards.memory) + rank * rows_ * row_bytes(shards);
        const std::int64_t blocks = all.heads_first ? heads_ : 1, row = row_bytes(all) / blocks;
        for (std::int64_t block = 0; block < blocks; ++block) {
            need(attile_copy(context_, to + (block * rows_ + place * chunk) * row, from + (block * length + number * chunk) * row,
                             chunk * row, nullptr));
        }
    }
}

void RingProblem::whole_forward(bool causal) {
    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    args.q = whole(q_);
    args.k = whole(k_);
    args.v = whole(v_);
    args.o = whole(o_);
    args.lse = whole(lse_);
    args.mask = causal ? ATTILE_MASK_CAUSAL_TOP_LEFT : ATTILE_MASK_NONE;
    need(attile_attention(context_, &args));
}

void RingProblem::whole_backward(bool causal) {
    attile_attention_args forward;
    attile_attention_init(&forward, sizeof forward);
    forward.q = whole(q_);
    forward.k = whole(k_);
    forward.v = whole(v_);
    forward.o = whole(o_);
    forward.lse = whole(lse_);
    forward.mask = causal ? ATTILE_MASK_CAUSAL_TOP_LEFT : ATTILE_MASK_NONE;
    attile_attention_backward_args args;
    attile_attention_backward_init(&args, sizeof args);
    args.forward = &forward;
    args.dout = whole(dout_);
    args.dq = whole(dq_);
    args.dk = whole(dk_);
    args.dv = whole(dv_);
    need(attile_attention_backward(context_, &args));
}

void RingProblem::take_whole_results() {
    copy_to_shards(o_, o_s_);
    copy_to_shards(lse_, lse_s_);
}

void RingProblem::merge(const attile_tensor *o, const attile_tensor *lse, std::int64_t parts, const attile_tensor &to,
                        const attile_tensor &to_lse) {
    attile_attention_merge_args args;
    attile_attention_merge_init(&args, sizeof args);
    args.o_parts = o;
    args.lse_parts = lse;
    args.parts = parts;
    args.o = to;
    args.lse = to_lse;
    need(attile_attention_merge(context_, &args));
}

void RingProblem::ring_forward(const std::vector<Meeting> &meetings, bool calls, bool merges) {
    bool begun[2] = {};
    for (std::size_t i = 0; i < meetings.size(); ++i) {
        const Meeting &one = meetings[i];
        if (i == 0 || one.rank != meetings[i - 1].rank) begun[0] = begun[1] = false;
        bool is_first = true;
        for (int chunk = one.rows.begin; chunk < one.rows.end; ++chunk) is_first = is_first && !begun[chunk];
        const attile_tensor o[2] = {shard(partial_o_, 0, one.rows), shard(next_o_, 0, one.rows)};
        const attile_tensor lse[2] = {lines(partial_lse_, 0, one.rows), lines(next_lse_, 0, one.rows)};
        attile_attention_args args;
        attile_attention_init(&args, sizeof args);
        args.q = shard(q_s_, one.rank, one.rows);
        args.k = shard(k_s_, one.owner, one.keys);
        args.v = shard(v_s_, one.owner, one.keys);
        args.flags = ATTILE_FLAG_FAST_ACCUMULATION;  // as the calls of attile_attention_distributed have it
        args.o = o[is_first ? 0 : 1];
        args.lse = lse[is_first ? 0 : 1];
        args.mask = one.causal ? ATTILE_MASK_CAUSAL_TOP_LEFT : ATTILE_MASK_NONE;
        if (calls) need(attile_attention(context_, &args));
        if (merges && !is_first) merge(o, lse, 2, o[0], lse[0]);
        for (int chunk = one.rows.begin; chunk < one.rows.end; ++chunk) begun[chunk] = true;
        if (!merges || (i + 1 < meetings.size() && meetings[i + 1].rank == one.rank)) continue;
        const ChunkRange both = {0, 2};
        const attile_tensor all = shard(partial_o_, 0, both), all_lse = lines(partial_lse_, 0, both);
        merge(&all, &all_lse, 1, shard(o_s_, one.rank, both), lines(lse_s_, one.rank, both));
    }
}

// Where a call's sums go: to a slot that none of the chunks' sums is in.
attile_tensor RingProblem::place(Sums &sums, int rank, ChunkRange chunks) const {
    bool used[3] = {};
    for (int chunk = chunks.begin; chunk < chunks.end; ++chunk) {
        const int at = sums.at[static_cast<std::size_t>(2 * rank + chunk)];
        if (at >= 0) used[at] = true;
    }
    sums.part = static_cast<int>(std::find(used, used + 3, false) - used);
    return shard(sums.slots[sums.part], rank, chunks);
}

void RingProblem::add(Sums &sums, int rank, ChunkRange chunks, bool run) {
    for (int chunk = chunks.begin; chunk < chunks.end; ++chunk) {
        int &at = sums.at[static_cast<std::size_t>(2 * rank + chunk)];
        if (at < 0) {
            at = sums.part;
            continue;
        }
        const int to = 3 - at - sums.part;
        const ChunkRange own = {chunk, chunk + 1};
        attile_reduce_args args;
        attile_reduce_init(&args, sizeof args);
        args.x = shard(sums.slots[at], rank, own);
        args.y = shard(sums.slots[to], rank, own);
        args.x.shape[0] = 2;
        args.x.stride[0] =
            static_cast<const float *>(shard(sums.slots[sums.part], rank, own).data) - static_cast<const float *>(args.x.data);
        args.op = ATTILE_REDUCE_SUM;
        args.axis = 0;
        if (run) need(attile_reduce(context_, &args));
        at = to;
    }
}

void RingProblem::convert(const Sums &sums, const Rows &to) {
    for (int rank = 0; rank < ranks_; ++rank) {
        for (int chunk = 0; chunk < 2; ++chunk) {
            const ChunkRange own = {chunk, chunk + 1};
            const attile_tensor part = shard(sums.slots[sums.at[static_cast<std::size_t>(2 * rank + chunk)]], rank, own);
            attile_tensor lse = part;
            lse.data = zero_.memory;
            lse.rank = 3;
            std::fill_n(lse.stride, 3, 0);
            merge(&part, &lse, 1, shard(to, rank, own), {});
        }
    }
}

void RingProblem::ring_backward(const std::vector<Meeting> &meetings, bool calls, bool merges) {
    for (Sums *sums : {&dq_sums_, &dk_sums_, &dv_sums_}) sums->at.assign(static_cast<std::size_t>(2 * ranks_), -1);
    for (const Meeting &one : meetings) {
        attile_attention_args forward;
        attile_attention_init(&forward, sizeof forward);
        forward.q = shard(q_s_, one.rank, one.rows);
        forward.k = shard(k_s_, one.owner, one.keys);
        forward.v = shard(v_s_, one.owner, one.keys);
        forward.o = shard(o_s_, one.rank, one.rows);
        forward.lse = lines(lse_s_, one.rank, one.rows);
        forward.mask = one.causal ? ATTILE_MASK_CAUSAL_TOP_LEFT : ATTILE_MASK_NONE;
        attile_attention_backward_args args;
        attile_attention_backward_init(&args, sizeof args);
        args.forward = &forward;
        args.dout = shard(dout_s_, one.rank, one.rows);
        args.dq = place(dq_sums_, one.rank, one.rows);
        args.dk = place(dk_sums_, one.owner, one.keys);
        args.dv = place(dv_sums_, one.owner, one.keys);
        if (calls) need(attile_attention_backward(context_, &args));
        add(dq_sums_, one.rank, one.rows, merges);
        add(dk_sums_, one.owner, one.keys, merges);
        add(dv_sums_, one.owner, one.keys, merges);
    }
    if (!merges) return;
    convert(dq_sums_, dq_s_);
    convert(dk_sums_, dk_s_);
    convert(dv_sums_, dv_s_);
}

double RingProblem::largest_difference(const Rows &all, const Rows &shards) {
    const std::size_t count = static_cast<std::size_t>(ranks_ * rows_ * heads_ * head_dim_),
                      chunk = static_cast<std::size_t>(rows_ / 2 * heads_ * head_dim_);
    std::vector<std::uint16_t> expected(count), got(count);
    need(attile_copy(context_, expected.data(), all.memory, static_cast<std::int64_t>(count * 2), nullptr));
    need(attile_copy(context_, got.data(), shards.memory, static_cast<std::int64_t>(count * 2), nullptr));
    double largest = 0;
    for (std::size_t number = 0; number < static_cast<std::size_t>(2 * ranks_); ++number) {
        const std::size_t ranks = static_cast<std::size_t>(ranks_), rank = std::min(number, 2 * ranks - 1 - number);
        const std::uint16_t *const own = got.data() + (2 * rank + (number < ranks ? 0 : 1)) * chunk;
        for (std::size_t i = 0; i < chunk; ++i) {
            const double one = from_bf16(expected[number * chunk + i]), other = from_bf16(own[i]);
            const double off = std::abs(one - other) / std::max(1.0, std::abs(one));
            largest = off <= largest ? largest : off;  // NaN stays
        }
    }
    return largest;
}

double RingProblem::difference(bool backward) {
    synchronize();
    if (!backward) return largest_difference(o_, o_s_);
    return std::max({largest_difference(dq_, dq_s_), largest_difference(dk_, dk_s_), largest_difference(dv_, dv_s_)});
}

}  // namespace attile::bench
