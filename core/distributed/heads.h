// SPDX-License-Identifier: Apache-2.0
// Rows for heads: every rank gets all rows of some heads, and what it computed of them goes back to the ranks whose rows they are. Heads
// need not divide by the ranks: rank r has those from floor(r heads / ranks) on, and the key heads that these use.
#ifndef ATTILE_CORE_DISTRIBUTED_HEADS_H
#define ATTILE_CORE_DISTRIBUTED_HEADS_H

#include <vector>

#include "distributed/attention.h"

namespace attile::core {

// Which heads of a tensor a rank has: those of queries or of keys, or one that stands for all.
enum class HeadsOf { kQuery, kKey, kAll };

class HeadExchange {
  public:
    explicit HeadExchange(const DistributedAttention &problem)
        : problem_(problem), device_(problem.device_work()), out_(problem.ranks), in_(problem.ranks) {}
    // Goes before everything that moves rows.
    int32_t begin() { return device_.begin(); }

    Range heads(HeadsOf kind, int32_t rank) const;
    // Whether two ranks use one key head.
    bool shares_key_heads() const;

    // A tensor of the shard's rows on its way to all rows of this rank's heads.
    struct Input {
        bool present() const { return image.rank != 0; }
        HeadsOf kind = HeadsOf::kQuery;
        bool keys = false;      // rows of keys
        attile_tensor image{};  // four axes, in host memory, or on the device
        attile_tensor whole{};  // packed in the order of positions
        Buffer copy, outgoing, incoming, memory;
    };
    int32_t take(const attile_tensor &tensor, HeadsOf kind, bool keys, Input *input) const;
    int32_t exchange(Session &session, Input *input);

    // The way back: all rows of this rank's heads, and then the shard's rows of each rank's heads.
    struct Output {
        HeadsOf kind = HeadsOf::kQuery;
        bool keys = false;
        attile_tensor whole{};
        Buffer memory, blocks, back;
    };
    int32_t take(int32_t dtype, HeadsOf kind, bool keys, int64_t batch, int64_t width, Output *output) const;
    int32_t give_back(Session &session, Output *output);
    // What came from a rank, [batch, its heads, rows of the shard, width].
    attile_tensor returned(const Output &output, int32_t rank) const;
    // To where the caller wants it, each rank's heads at their place.
    int32_t write_returned(const Output &output, const attile_tensor &to) const;
    // The same, where several ranks have part of a head: added up in the order of ranks.
    int32_t sum_returned(const Output &output, const attile_tensor &to) const;

  private:
    struct Sizes {
        explicit Sizes(int32_t ranks) : bytes(static_cast<size_t>(ranks)), offsets(static_cast<size_t>(ranks)) {}
        std::vector<int64_t> bytes, offsets;
        void set(int32_t rank, int64_t size) {
            bytes[static_cast<size_t>(rank)] = size;
            offsets[static_cast<size_t>(rank)] = end;
            end += size;
        }
        int64_t end = 0;
    };
    const std::vector<Shard> &shards(bool keys) const { return keys ? problem_.k_shards : problem_.q_shards; }
    int64_t length(bool keys) const { return keys ? problem_.len_k : problem_.len_q; }

    int32_t pack(const Input &input) const;
    int32_t place(const Shard &shard, const attile_tensor &whole, unsigned char *block, bool to_whole) const;
    int32_t travel(Session &session, const Buffer &from, const Buffer &to);

    const DistributedAttention &problem_;
    DeviceRows device_;
    Sizes out_, in_;  // of the exchange that is under way
};

// The operands of forward and backward, and the local calls to make of them.
class WholeHeads {
  public:
    explicit WholeHeads(const DistributedAttention &problem) : problem_(problem), exchange_(problem) {}
    HeadExchange &exchange() { return exchange_; }
    int32_t take();
    int32_t run(Session &session);

    // Heads that one call computes: every key head serves as many query heads as any other in it.
    struct Call {
        Range heads, kv;
    };
    std::vector<Call> calls() const;
    // All of a forward call but o and lse.
    attile_attention_args args(const Call &call) const;
    // The call's part of a whole tensor with this rank's heads on axis 1.
    attile_tensor part(const attile_tensor &whole, HeadsOf kind, const Call &call) const;

  private:
    const DistributedAttention &problem_;
    HeadExchange exchange_;
    HeadExchange::Input q_, k_, v_, bias_, allowed_;
};

// How many heads a bias, mask or dbias has on a rank.
inline HeadsOf heads_of_scores(const attile_tensor &scores) { return scores.shape[1] == 1 ? HeadsOf::kAll : HeadsOf::kQuery; }

}  // namespace attile::core

#endif
