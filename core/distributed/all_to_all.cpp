// SPDX-License-Identifier: Apache-2.0
// All-to-all over heads (Ulysses): ranks exchange rows for heads, each computes whole sequences of its heads by the local call as it is,
// and the results go back. Heads need not divide by the ranks: rank r has those from floor(r heads / ranks) on, and the key heads that
// these use.
#include <algorithm>
#include <cstring>

#include "distributed/attention.h"
#include "guard.h"
#include "message.h"
#include "status.h"
#include "tensor.h"

namespace attile::core {
namespace {

struct Range {
    int64_t begin = 0, end = 0;
    int64_t count() const { return end - begin; }
};

// All rows of some heads, packed in the order of positions.
struct Gathered {
    Buffer memory;
    attile_tensor view{};
};

class AllToAll final : public Method {
  public:
    explicit AllToAll(const DistributedAttention &problem) : problem_(problem), out_(problem.ranks), in_(problem.ranks) {}

    int32_t prepare() override {
        const DistributedAttention &p = problem_;
        const attile_attention_args &local = p.local;
        const bool used[kInputs] = {true, true, true, !is_absent(local.bias), !is_absent(local.allowed)};
        const attile_tensor *tensors[kInputs] = {&local.q, &local.k, &local.v, &local.bias, &local.allowed};
        for (int32_t i = 0; i < kInputs; ++i) {
            if (!used[i]) continue;
            ATTILE_TRY(p.to_host(with_four_axes(*tensors[i]), &copies_[i], &images_[i]));
            ATTILE_TRY(prepare_input(i));
        }
        const Range heads = heads_q_of(p.rank);
        const int64_t lines = product({p.len_q, p.batch(), heads.count()});
        ATTILE_TRY(o_.memory.take(kDistributed, lines, p.head_dim_v() * element_bytes(o_dtype())));
        ATTILE_TRY(lse_.memory.take(kDistributed, lines, element_bytes(p.wide())));
        o_.view = packed_view(o_.memory.at(), o_dtype(), p.len_q, p.batch(), heads.count(), p.head_dim_v());
        lse_.view = packed_view(lse_.memory.at(), p.wide(), p.len_q, p.batch(), heads.count(), 1);
        const int64_t rows = product({p.rows(), p.batch(), p.heads_q()});
        ATTILE_TRY(back_o_.take(kDistributed, rows, p.head_dim_v() * element_bytes(o_dtype())));
        ATTILE_TRY(back_lse_.take(kDistributed, rows, element_bytes(p.wide())));
        ATTILE_TRY(blocks_o_.take(kDistributed, lines, p.head_dim_v() * element_bytes(o_dtype())));
        return blocks_lse_.take(kDistributed, lines, element_bytes(p.wide()));
    }

    int32_t run(Session &session) override {
        Link &link = session.link();
        for (int32_t i = 0; i < kInputs; ++i) {
            if (images_[i].rank != 0) ATTILE_TRY(exchange(link, i));
        }
        if (session.sound()) ATTILE_TRY(session.take(guarded([&] { return compute(); })));
        ATTILE_TRY(give_back(link, o_.view, blocks_o_, back_o_));
        ATTILE_TRY(give_back(link, lse_.view, blocks_lse_, back_lse_));
        return session.sound() ? session.take(guarded([&] { return finish(); })) : ATTILE_OK;
    }

  private:
    static constexpr int32_t kInputs = 5;  // q, k, v, bias, allowed

    Range heads_q_of(int32_t rank) const {
        const auto begin = [&](int32_t r) { return static_cast<int64_t>(static_cast<__int128>(problem_.heads_q()) * r / problem_.ranks); };
        return {begin(rank), begin(rank + 1)};
    }
    Range heads_kv_of(int32_t rank) const {
        const Range heads = heads_q_of(rank);
        if (heads.count() == 0) return {};
        const int64_t group = problem_.heads_q() / problem_.heads_kv();
        return {heads.begin / group, (heads.end - 1) / group + 1};
    }
    // Of an input; a bias or mask that is one for all heads goes to every rank.
    Range heads_of(int32_t input, int32_t rank) const {
        if (input == 1 || input == 2) return heads_kv_of(rank);
        const Range heads = heads_q_of(rank);
        if (input >= 3 && images_[input].shape[1] == 1) return {0, heads.count() == 0 ? 0 : 1};
        return heads;
    }
    // A merge of float64 parts takes their lse in float64 alone.
    int32_t o_dtype() const { return problem_.wide() == ATTILE_F64 ? ATTILE_F64 : problem_.local.o.dtype; }
    const std::vector<Shard> &shards_of(int32_t input) const { return input == 1 || input == 2 ? problem_.k_shards : problem_.q_shards; }
    int64_t length_of(int32_t input) const { return input == 1 || input == 2 ? problem_.len_k : problem_.len_q; }
    int64_t line_bytes(const attile_tensor &view) const { return view.shape[3] * element_bytes(view.dtype); }

    int32_t prepare_input(int32_t input) {
        const attile_tensor &image = images_[input];
        const int64_t heads = heads_of(input, problem_.rank).count(), rows = length_of(input);
        Gathered &whole = gathered_[input];
        ATTILE_TRY(whole.memory.take(kDistributed, rows * image.shape[0] * heads, line_bytes(image)));
        whole.view = packed_view(whole.memory.at(), image.dtype, rows, image.shape[0], heads, image.shape[3]);
        int64_t outgoing = 0;
        const int64_t own = shards_of(input)[static_cast<size_t>(problem_.rank)].length();
        for (int32_t rank = 0; rank < problem_.ranks; ++rank) outgoing += heads_of(input, rank).count();
        ATTILE_TRY(outgoing_[input].take(kDistributed, outgoing * own * image.shape[0], line_bytes(image)));
        return incoming_[input].take(kDistributed, rows * image.shape[0] * heads, line_bytes(image));
    }

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

    // Rows of a shard between their places in the whole sequence and one block of them.
    static void place(const Shard &shard, int64_t row_bytes, unsigned char *whole, unsigned char *block, bool to_whole) {
        for (const Piece &piece : shard.pieces) {
            for (int64_t i = 0; i < piece.count; ++i) {
                unsigned char *in_whole = whole + (piece.first + i * piece.stride) * row_bytes;
                unsigned char *in_block = block + (piece.local + i) * row_bytes;
                std::memcpy(to_whole ? in_whole : in_block, to_whole ? in_block : in_whole, static_cast<size_t>(row_bytes));
            }
        }
    }

    int32_t exchange(Link &link, int32_t input) {
        const attile_tensor &image = images_[input];
        const std::vector<Shard> &shards = shards_of(input);
        const int64_t own = shards[static_cast<size_t>(problem_.rank)].length(), line = image.shape[0] * line_bytes(image);
        const int64_t heads = heads_of(input, problem_.rank).count();
        out_.end = in_.end = 0;
        for (int32_t rank = 0; rank < problem_.ranks; ++rank) {
            const size_t at = static_cast<size_t>(rank);
            const Range theirs = heads_of(input, rank);
            out_.set(rank, own * theirs.count() * line);
            in_.set(rank, shards[at].length() * heads * line);
            if (out_.bytes[at] != 0) pack_rows(image, 0, own, theirs.begin, theirs.count(), outgoing_[input].at(out_.offsets[at]));
        }
        ATTILE_TRY(link.all_to_all(outgoing_[input].at(), out_.bytes.data(), out_.offsets.data(), incoming_[input].at(), in_.bytes.data(),
                                   in_.offsets.data()));
        for (int32_t rank = 0; rank < problem_.ranks; ++rank) {
            const size_t at = static_cast<size_t>(rank);
            if (in_.bytes[at] == 0) continue;
            place(shards[at], heads * line, gathered_[input].memory.at(), incoming_[input].at(in_.offsets[at]), true);
        }
        return ATTILE_OK;
    }

    // The rows of each rank go home; they come from each rank as a block of its heads.
    int32_t give_back(Link &link, const attile_tensor &whole, const Buffer &blocks, const Buffer &back) {
        const int64_t line = problem_.batch() * line_bytes(whole), row = whole.shape[1] * line;
        out_.end = in_.end = 0;
        for (int32_t rank = 0; rank < problem_.ranks; ++rank) {
            const size_t at = static_cast<size_t>(rank);
            const Shard &shard = problem_.q_shards[at];
            out_.set(rank, shard.length() * row);
            in_.set(rank, problem_.rows() * heads_q_of(rank).count() * line);
            if (out_.bytes[at] != 0) place(shard, row, static_cast<unsigned char *>(whole.data), blocks.at(out_.offsets[at]), false);
        }
        return link.all_to_all(blocks.at(), out_.bytes.data(), out_.offsets.data(), back.at(), in_.bytes.data(), in_.offsets.data());
    }

    // Runs of this rank's heads in which every key head serves as many query heads as in any other: the call takes no other.
    int32_t compute() {
        const Range heads = heads_q_of(problem_.rank);
        if (heads.count() == 0 || problem_.len_q == 0) return ATTILE_OK;
        const int64_t group = problem_.heads_q() / problem_.heads_kv();
        for (int64_t head = heads.begin; head < heads.end;) {
            const int64_t left = heads.end - head;
            int64_t count = head % group == 0 && left >= group ? left / group * group : std::min(left, group - head % group);
            ATTILE_TRY(attend({head, head + count}, {head / group, (head + count - 1) / group + 1}));
            head += count;
        }
        return ATTILE_OK;
    }

    int32_t attend(const Range &heads, const Range &kv) {
        const DistributedAttention &p = problem_;
        const Range own = heads_q_of(p.rank), own_kv = heads_kv_of(p.rank);
        const auto of = [](const attile_tensor &view, const Range &mine, const Range &wanted) {
            return slice(view, 1, wanted.begin - mine.begin, wanted.count());
        };
        attile_attention_args args = p.local;
        args.q = of(gathered_[0].view, own, heads);
        args.k = of(gathered_[1].view, own_kv, kv);
        args.v = of(gathered_[2].view, own_kv, kv);
        args.o = of(o_.view, own, heads);
        args.lse = of(lse_.view, own, heads);
        args.lse.rank = 3;
        attile_tensor *scores[2] = {&args.bias, &args.allowed};
        for (int32_t i = 0; i < 2; ++i) {
            const attile_tensor &whole = gathered_[3 + i].view;
            if (whole.rank == 0) continue;
            *scores[i] = images_[3 + i].shape[1] == 1 ? whole : of(whole, own, heads);
        }
        if (!is_absent(args.alibi_slopes)) {
            args.alibi_slopes = slice(args.alibi_slopes, args.alibi_slopes.rank - 1, heads.begin, heads.count());
        }
        if (!is_absent(args.sinks)) args.sinks = slice(args.sinks, 0, heads.begin, heads.count());
        return attile_attention(p.context, &args);
    }

    // A merge of one part is a copy of o and lse, to memory of any kind and layout.
    int32_t finish() {
        const DistributedAttention &p = problem_;
        if (p.rows() == 0 || p.batch() == 0) return ATTILE_OK;
        int64_t before = 0;
        for (int32_t rank = 0; rank < p.ranks; ++rank) {
            const Range heads = heads_q_of(rank);
            if (heads.count() == 0) continue;
            const int64_t lines = before * p.rows() * p.batch();
            const attile_tensor o = packed_view(back_o_.at(lines * p.head_dim_v() * element_bytes(o_dtype())), o_dtype(), p.rows(),
                                                p.batch(), heads.count(), p.head_dim_v());
            attile_tensor lse = packed_view(back_lse_.at(lines * element_bytes(p.wide())), p.wide(), p.rows(), p.batch(), heads.count(), 1);
            lse.rank = 3;
            attile_attention_merge_args merge;
            attile_attention_merge_init(&merge, sizeof merge);
            merge.stream = p.local.stream;
            merge.o_parts = &o;
            merge.lse_parts = &lse;
            merge.parts = 1;
            merge.o = slice(p.local.o, 1, heads.begin, heads.count());
            if (!is_absent(p.local.lse)) merge.lse = slice(p.local.lse, 1, heads.begin, heads.count());
            ATTILE_TRY(attile_attention_merge(p.context, &merge));
            before += heads.count();
        }
        return p.host_memory ? ATTILE_OK : attile_synchronize(p.context, p.local.stream);
    }

    const DistributedAttention &problem_;
    attile_tensor images_[kInputs] = {};
    Buffer copies_[kInputs], outgoing_[kInputs], incoming_[kInputs];
    Gathered gathered_[kInputs];
    Gathered o_, lse_;
    Buffer blocks_o_, blocks_lse_, back_o_, back_lse_;
    Sizes out_, in_;  // of the exchange that is under way
};

}  // namespace

std::unique_ptr<Method> make_all_to_all(const DistributedAttention &problem) { return std::make_unique<AllToAll>(problem); }

}  // namespace attile::core
