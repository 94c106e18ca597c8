// SPDX-License-Identifier: Apache-2.0
#include "distributed/seen_keys.h"

#include <algorithm>

#include "message.h"
#include "status.h"

namespace attile::core {

int32_t SeenKeys::take() {
    const DistributedAttention &p = problem_;
    const int64_t bytes = element_bytes(p.local.q.dtype), lines = product({p.batch(), p.heads_kv()});
    k_row_ = product({lines, p.head_dim(), bytes});
    v_row_ = product({lines, p.head_dim_v(), bytes});
    list_pieces();
    ATTILE_TRY(p.take(&k_, count(), k_row_));
    ATTILE_TRY(p.take(&v_, count(), v_row_));
    const int64_t own = p.local.k.shape[2];
    ATTILE_TRY(p.take(&own_k_, own, k_row_));
    ATTILE_TRY(p.take(&own_v_, own, v_row_));
    if (p.on_device()) return take_from_device();
    Buffer k_copy, v_copy;
    attile_tensor k, v;
    ATTILE_TRY(p.to_host(p.local.k, &k_copy, &k));
    ATTILE_TRY(p.to_host(p.local.v, &v_copy, &v));
    pack_rows(k, 0, own, 0, p.heads_kv(), own_k_.at());
    pack_rows(v, 0, own, 0, p.heads_kv(), own_v_.at());
    for (const Seen &piece : seen_) {
        if (piece.owner != p.rank) continue;
        pack_rows(k, piece.keys.local, piece.keys.count, 0, p.heads_kv(), k_.at(piece.place * k_row_));
        pack_rows(v, piece.keys.local, piece.keys.count, 0, p.heads_kv(), v_.at(piece.place * v_row_));
    }
    return ATTILE_OK;
}

int32_t SeenKeys::take_from_device() {
    const DistributedAttention &p = problem_;
    ATTILE_TRY(device_.begin());
    const auto copy = [&](const attile_tensor &from, const Piece &keys, unsigned char *to) {
        const attile_tensor part = slice(from, 2, keys.local, keys.count);
        return device_.copy(part, packed_view(to, part.dtype, keys.count, p.batch(), p.heads_kv(), part.shape[3]));
    };
    const Piece all = {.count = p.local.k.shape[2]};
    ATTILE_TRY(copy(p.local.k, all, own_k_.at()));
    ATTILE_TRY(copy(p.local.v, all, own_v_.at()));
    for (const Seen &piece : seen_) {
        if (piece.owner != p.rank) continue;
        ATTILE_TRY(copy(p.local.k, piece.keys, k_.at(piece.place * k_row_)));
        ATTILE_TRY(copy(p.local.v, piece.keys, v_.at(piece.place * v_row_)));
    }
    return p.settle();
}

void SeenKeys::list_pieces() {
    for (int32_t owner = 0; owner < problem_.ranks; ++owner) {
        for (const Piece &keys : problem_.k_shard(owner).pieces) {
            if (keys.count != 0 && sees(problem_, problem_.rank, keys)) seen_.push_back({owner, keys, 0});
        }
    }
    std::sort(seen_.begin(), seen_.end(), [](const Seen &a, const Seen &b) { return a.keys.first < b.keys.first; });
    int64_t place = 0;
    for (Seen &piece : seen_) {
        piece.place = place;
        place += piece.keys.count;
    }
}

// The order of pieces between two ranks is that of the owner's shard, on both sides.
int32_t SeenKeys::exchange(Link &link) {
    const DistributedAttention &p = problem_;
    for (int32_t step = 1; step < p.ranks; ++step) {
        const int32_t from = (p.rank + p.ranks - step) % p.ranks;
        for (const Piece &keys : p.k_shard(from).pieces) {
            for (const Seen &piece : seen_) {
                if (piece.owner != from || piece.keys.local != keys.local || keys.count == 0) continue;
                ATTILE_TRY(link.receive(k_.at(piece.place * k_row_), keys.count * k_row_, from));
                ATTILE_TRY(link.receive(v_.at(piece.place * v_row_), keys.count * v_row_, from));
            }
        }
    }
    for (int32_t step = 1; step < p.ranks; ++step) {
        const int32_t to = (p.rank + step) % p.ranks;
        for (const Piece &keys : p.k_shard(p.rank).pieces) {
            if (keys.count == 0 || !sees(p, to, keys)) continue;
            ATTILE_TRY(link.send(own_k_.at(keys.local * k_row_), keys.count * k_row_, to));
            ATTILE_TRY(link.send(own_v_.at(keys.local * v_row_), keys.count * v_row_, to));
        }
    }
    return link.finish();
}

int64_t SeenKeys::count() const { return seen_.empty() ? 0 : seen_.back().place + seen_.back().keys.count; }

int64_t SeenKeys::longest_run() const {
    int64_t longest = 0;
    for (const Run &run : runs()) longest = std::max(longest, run.keys.count);
    return longest;
}

std::vector<SeenKeys::Run> SeenKeys::runs() const {
    std::vector<Run> runs;
    for (size_t i = 0; i < seen_.size();) {
        Run run = {seen_[i].keys, seen_[i].place};
        for (++i; i < seen_.size() && run.keys.stride == 1 && seen_[i].keys.first == run.keys.first + run.keys.count; ++i) {
            run.keys.count += seen_[i].keys.count;
        }
        runs.push_back(run);
    }
    return runs;
}

void SeenKeys::view(const Run &run, attile_tensor *k, attile_tensor *v) const {
    const DistributedAttention &p = problem_;
    const int32_t dtype = p.local.q.dtype;
    *k = packed_view(k_.at(run.place * k_row_), dtype, run.keys.count, p.batch(), p.heads_kv(), p.head_dim());
    *v = packed_view(v_.at(run.place * v_row_), dtype, run.keys.count, p.batch(), p.heads_kv(), p.head_dim_v());
}

}  // namespace attile::core
