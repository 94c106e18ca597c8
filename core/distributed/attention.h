// SPDX-License-Identifier: Apache-2.0
// Attention over shards: the checked problem, and its methods.
#ifndef ATTILE_CORE_DISTRIBUTED_ATTENTION_H
#define ATTILE_CORE_DISTRIBUTED_ATTENTION_H

#include <memory>
#include <string>
#include <vector>

#include "distributed/rows.h"
#include "distributed/session.h"
#include "distributed/shards.h"

namespace attile::core {

inline constexpr const char *kDistributed = "attention_distributed";
inline constexpr const char *kDistributedBackward = "attention_backward_distributed";

// Entries of the batch with one key length, and what their rows see; or a run of rows of a packed sequence.
struct EntryGroup {
    int64_t begin = 0, end = 0;  // on the batch axis; a sequence: 0 and 1
    int64_t entry = 0;           // the first one in scores and slopes
    Band band;
    Segment rows, keys;  // positions that belong to them
};

struct DistributedAttention {
    const char *operation = kDistributed;
    attile_context *context = nullptr;
    bool host_memory = true;
    DeviceBlocks *device_blocks = nullptr;  // where what travels lies in the device's memory
    int32_t rank = 0, ranks = 1;
    bool backward = false;
    attile_attention_args local{};  // of the forward call: checked, full size, without a workspace; stream and flags are those to run with
    attile_attention_backward_args gradients{};  // likewise of a backward call, but for its `forward`
    int32_t layout = 0, method = 0;
    bool packed = false;           // sequences: len_q and len_k are those of all together
    bool replicated = false;       // every rank has all rows
    int32_t dbias_rank = 0;        // as it was given; `gradients` has four axes
    bool sums_bias_rows = false;   // dbias is one for the rows of all ranks
    int64_t len_q = 0, len_k = 0;  // of all ranks
    std::vector<EntryGroup> groups;
    std::vector<Shard> q_shards, k_shards;  // of all ranks

    int64_t batch() const { return local.q.shape[0]; }
    int64_t entries() const { return packed ? local.cu_len_q.shape[0] - 1 : batch(); }  // packed: sequences
    int64_t heads_q() const { return local.q.shape[1]; }
    int64_t heads_kv() const { return local.k.shape[1]; }
    int64_t rows() const { return local.q.shape[2]; }  // of this rank
    int64_t head_dim() const { return local.q.shape[3]; }
    int64_t head_dim_v() const { return local.v.shape[3]; }
    // Of partial results, and of what is done to scores.
    int32_t wide() const { return local.q.dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32; }
    const Shard &q_shard() const { return q_shards[static_cast<size_t>(rank)]; }
    const Shard &k_shard(int32_t owner) const { return k_shards[static_cast<size_t>(owner)]; }

    bool on_device() const { return device_blocks != nullptr; }
    DeviceWork device_work() const { return {operation, context, local.stream, local.flags, wide(), device_blocks}; }
    int32_t take(Buffer *buffer, int64_t count, int64_t bytes) const { return buffer->take(operation, count, bytes, device_blocks); }
    // What was queued is done: messages may read and write the memory that it used.
    int32_t settle() const { return on_device() ? attile_synchronize(context, local.stream) : ATTILE_OK; }

    int32_t to_host(const attile_tensor &tensor, Buffer *copy, attile_tensor *image) const {
        return bring_to_host(context, host_memory, local.stream, tensor, copy, image);
    }
};

// Whether any row of a rank sees any key of a piece.
bool sees(const DistributedAttention &problem, int32_t rank, const Piece &keys);

std::unique_ptr<Method> make_ring(const DistributedAttention &problem);
std::unique_ptr<Method> make_gather(const DistributedAttention &problem);
std::unique_ptr<Method> make_all_to_all(const DistributedAttention &problem);
std::unique_ptr<Method> make_tree(const DistributedAttention &problem);
std::unique_ptr<Method> make_ring_backward(const DistributedAttention &problem);
std::unique_ptr<Method> make_gather_backward(const DistributedAttention &problem);
std::unique_ptr<Method> make_all_to_all_backward(const DistributedAttention &problem);

// The method that a call uses, why, and how many bytes a rank sends with it.
int32_t choose_method(const DistributedAttention &problem, std::string *why, int64_t *bytes_sent);
const char *method_name(int32_t method);

}  // namespace attile::core

#endif
