// SPDX-License-Identifier: Apache-2.0
// Attention over shards: the checked problem, the partial results of a rank, and what a method is.
#ifndef ATTILE_CORE_DISTRIBUTED_ATTENTION_H
#define ATTILE_CORE_DISTRIBUTED_ATTENTION_H

#include <memory>
#include <string>
#include <vector>

#include "distributed/agreement.h"
#include "distributed/link.h"
#include "distributed/rows.h"
#include "distributed/shards.h"

namespace attile::core {

inline constexpr const char *kDistributed = "attention_distributed";

// Entries of the batch with one key length, and what their rows see.
struct EntryGroup {
    int64_t begin = 0, end = 0;
    Band band;
};

struct DistributedAttention {
    attile_context *context = nullptr;
    bool host_memory = true;
    int32_t rank = 0, ranks = 1;
    attile_attention_args local{};  // checked, full size, without a workspace
    int32_t layout = 0, method = 0;
    int64_t len_q = 0, len_k = 0;  // of all ranks
    std::vector<EntryGroup> groups;
    std::vector<Shard> q_shards, k_shards;  // of all ranks

    int64_t batch() const { return local.q.shape[0]; }
    int64_t heads_q() const { return local.q.shape[1]; }
    int64_t heads_kv() const { return local.k.shape[1]; }
    int64_t rows() const { return local.q.shape[2]; }  // of this rank
    int64_t head_dim() const { return local.q.shape[3]; }
    int64_t head_dim_v() const { return local.v.shape[3]; }
    // Of partial results, and of what is done to scores.
    int32_t wide() const { return local.q.dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32; }
    const Shard &q_shard() const { return q_shards[static_cast<size_t>(rank)]; }
    const Shard &k_shard(int32_t owner) const { return k_shards[static_cast<size_t>(owner)]; }

    int32_t to_host(const attile_tensor &tensor, Buffer *copy, attile_tensor *image) const {
        return bring_to_host(context, host_memory, local.stream, tensor, copy, image);
    }
};

// Whether any row of a rank sees any key of a piece.
bool sees(const DistributedAttention &problem, int32_t rank, const Piece &keys);

// The results of this rank's rows over the keys that were taken so far, in the wide type, so that results of 16 bits are rounded once.
class Partials {
  public:
    explicit Partials(const DistributedAttention &problem) : problem_(problem) {}
    int32_t take();
    // All rows against a piece of keys, whose k and v are [batch, heads_kv, count, ..].
    int32_t add(const Piece &keys, const attile_tensor &k, const attile_tensor &v);
    // Sinks, and the results to o and lse.
    int32_t finish();

  private:
    int32_t add_pair(size_t part, size_t group, const Piece &keys, const attile_tensor &k, const attile_tensor &v);
    int32_t attend(const EntryGroup &group, const Piece &rows, const Piece &keys, const Pair &pair, const attile_tensor &k,
                   const attile_tensor &v, const attile_tensor &o, const attile_tensor &lse);
    int32_t apply_alibi(const EntryGroup &group, const Piece &keys, const Pair &pair, attile_attention_args *args);
    attile_tensor o_view(const Buffer &buffer) const;
    attile_tensor lse_view(const Buffer &buffer) const;
    void forget(const attile_tensor &lse) const;

    const DistributedAttention &problem_;
    Buffer o_, lse_, next_o_, next_lse_, distances_, slopes_copy_, bias_copy_;
    attile_tensor slopes_{}, bias_{};
    std::vector<char> begun_;  // by part and group: whether o_ and lse_ hold anything
};

// How a call goes on this rank. A rank whose own work failed goes on sending where the transport cannot tell the others the reason at once.
class Session {
  public:
    explicit Session(Link &link) : link_(link) {}
    Link &link() { return link_; }
    const OwnStatus &own() const { return own_; }
    bool sound() const { return own_.sound(); }
    // What a step of this rank's own work came to. A failure is returned only if the call is to end at once.
    int32_t take(int32_t status);

  private:
    Link &link_;
    OwnStatus own_;
};

class Method {
  public:
    Method() = default;
    virtual ~Method() = default;
    Method(const Method &) = delete;
    Method &operator=(const Method &) = delete;
    // Memory, and whatever else can fail before data travels.
    virtual int32_t prepare() = 0;
    // Returns what the link failed with, and what the session says ends the call. What else can fail is given to the session.
    virtual int32_t run(Session &session) = 0;
};

std::unique_ptr<Method> make_ring(const DistributedAttention &problem);
std::unique_ptr<Method> make_gather(const DistributedAttention &problem);
std::unique_ptr<Method> make_all_to_all(const DistributedAttention &problem);

// The method that a call uses, why, and how many bytes a rank sends with it.
int32_t choose_method(const DistributedAttention &problem, std::string *why, int64_t *bytes_sent);
const char *method_name(int32_t method);

}  // namespace attile::core

#endif
