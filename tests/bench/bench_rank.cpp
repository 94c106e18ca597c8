// SPDX-License-Identifier: Apache-2.0
#include "bench_rank.h"

#include <stdexcept>

namespace attile::test {
namespace {

void need(std::int32_t status) {
    if (status != ATTILE_OK) throw std::runtime_error(last_error());
}

std::int64_t bytes_of(const attile_tensor &tensor) {
    std::int64_t bytes = tensor.dtype == ATTILE_BF16 ? 2 : 4;
    for (std::int32_t axis = 0; axis < tensor.rank; ++axis) bytes *= tensor.shape[axis];
    return bytes;
}

}  // namespace

BenchRank::BenchRank(const RankSizes &sizes, int rank, const std::string &backend) : sizes_(sizes), rank_(rank) {
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    options.backend = backend.c_str();
    need(attile_context_create(&options, &context_));
    attile_attention_init(&local_, sizeof local_);
    attile_attention_backward_init(&gradients_, sizeof gradients_);
    for (attile_tensor *tensor :
         {&local_.q, &local_.k, &local_.v, &local_.o, &gradients_.dout, &gradients_.dq, &gradients_.dk, &gradients_.dv})
        *tensor = rows();
    const std::int64_t lines[3] = {1, sizes.heads, sizes.rows};
    need(attile_tensor_init(&local_.lse, allocate(sizes.heads * sizes.rows * 4), ATTILE_F32, 3, lines));
    gradients_.forward = &local_;
}

BenchRank::~BenchRank() {
    leave();
    attile_context_destroy(context_);  // and its memory
}

void BenchRank::join(const NcclComms &comms) {
    attile_comm_options joining;
    attile_comm_options_init(&joining, sizeof joining);
    comms.join(rank_, &joining);
    need(attile_comm_create(context_, &joining, &comm_));
}

void BenchRank::leave() {
    attile_comm_destroy(comm_);
    comm_ = nullptr;
}

void BenchRank::call(int method, bool causal, bool backward) {
    local_.mask = causal ? ATTILE_MASK_CAUSAL_TOP_LEFT : ATTILE_MASK_NONE;
    const auto spread = [&](auto *args, auto *local) {
        args->local = local;
        args->layout = ATTILE_SHARDS_ZIGZAG;
        args->method = method;
        args->len_q = args->len_k = sizes_.ranks * sizes_.rows;
    };
    if (backward) {
        attile_attention_backward_distributed_args args;
        attile_attention_backward_distributed_init(&args, sizeof args);
        spread(&args, &gradients_);
        need(attile_attention_backward_distributed(comm_, &args));
    } else {
        attile_attention_distributed_args args;
        attile_attention_distributed_init(&args, sizeof args);
        spread(&args, &local_);
        need(attile_attention_distributed(comm_, &args));
    }
}

void BenchRank::synchronize() { need(attile_synchronize(context_, nullptr)); }

double BenchRank::transport_seconds() const {
    attile_comm_info info;
    attile_comm_info_init(&info, sizeof info);
    need(attile_comm_get_info(comm_, &info));
    return info.transport_seconds;
}

std::string BenchRank::device() const {
    attile_context_info info;
    attile_context_info_init(&info, sizeof info);
    need(attile_context_get_info(context_, &info));
    return std::string(info.backend) + " on " + info.device_name;
}

std::vector<std::vector<unsigned char>> BenchRank::results() const {
    std::vector<std::vector<unsigned char>> all;
    for (const attile_tensor *tensor : {&local_.o, &local_.lse, &gradients_.dq, &gradients_.dk, &gradients_.dv}) {
        all.emplace_back(static_cast<std::size_t>(bytes_of(*tensor)));
        need(attile_copy(context_, all.back().data(), tensor->data, bytes_of(*tensor), nullptr));
    }
    return all;
}

void BenchRank::forget_results() {
    for (const attile_tensor *tensor : {&local_.o, &local_.lse, &gradients_.dq, &gradients_.dk, &gradients_.dv}) {
        const std::vector<unsigned char> ones(static_cast<std::size_t>(bytes_of(*tensor)), 0xff);
        need(attile_copy(context_, tensor->data, ones.data(), bytes_of(*tensor), nullptr));
    }
}

void *BenchRank::allocate(std::int64_t bytes) {
    void *memory = nullptr;
    need(attile_alloc(context_, ATTILE_MEMORY_DEVICE, bytes, &memory));
    std::vector<std::uint16_t> values(static_cast<std::size_t>(bytes / 2));
    std::uint32_t state = static_cast<std::uint32_t>(16 * rank_ + ++made_) * 2654435761U + 1;
    for (std::uint16_t &value : values) {  // bf16 between 0.5 and 2, of both signs
        state = state * 1664525U + 1013904223U;
        value = static_cast<std::uint16_t>(0x3f00U + (state >> 24U) + ((state >> 8U & 1U) << 15U));
    }
    need(attile_copy(context_, memory, values.data(), bytes, nullptr));
    return memory;
}

attile_tensor BenchRank::rows() {
    const std::int64_t shape[4] = {1, sizes_.heads, sizes_.rows, sizes_.head_dim};
    attile_tensor tensor{};
    need(attile_tensor_init(&tensor, allocate(sizes_.rows * sizes_.heads * sizes_.head_dim * 2), ATTILE_BF16, 4, shape));
    tensor.stride[1] = sizes_.head_dim;
    tensor.stride[2] = sizes_.heads * sizes_.head_dim;
    return tensor;
}

}  // namespace attile::test
