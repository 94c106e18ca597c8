// SPDX-License-Identifier: Apache-2.0
// Attention's gradients by mma.sync, for capability 8.0 and later. A block keeps K and V of some keys in shared memory, while tiles of Q
// and dO of all query heads of the group stream by, and sums dK and dV of them: S^T = scale K Q^T, P^T = exp(S^T - lse), dP^T = V dO^T and
// dS^T = P^T (dP^T - delta), transposed, so that P^T and dS^T come out of the products as those of dV and dK want them on their left.
//
// dQ sums over keys, which other blocks have. A block leaves dS in memory, 16-bit and in the order of its registers, and another kernel
// multiplies it by K (attention_backward/mma/sum.cuh): five products in all, sums in one fixed order, no atomics and no waiting, for 2
// bytes written and read of each pair of row and key. Parts of dQ would be 8 bytes of each row, column and 64 keys: twice as much at
// d = 64, eight times at 256. Where dS of as many heads as fill the device finds no room, this kernel runs once more the other way round:
// it keeps Q and dO and sums dQ while K and V stream by, for two products more.
//
// A warp has 32 of the kept rows: a fragment of what streams, loaded once, serves two products. Where registers do not hold the sums of 32
// rows and all columns, warps of a group share them out: each makes scores of its part of the tile, all exchange P and dS through shared
// memory in the fragments' own order, and each then sums its columns.
#pragma once

#include "attention/score.h"
#include "attention_backward/mma/modify.cuh"
#include "attention_backward/sm80/loader.cuh"

namespace attile::gpu::sm80 {

using namespace mma;

inline constexpr int kBackwardSharedLimit = 227 * 1024;

template <class Element, class Config>
class BackwardWarp : BackwardLoader<Config> {
  public:
    __device__ __forceinline__ BackwardWarp(const BackwardTask &task, const BackwardSite &site, uint32_t memory)
        : Base(task, site, memory), modifiers_(task, Base::record(memory)), head_(next_head_) {}

    __device__ __forceinline__ void run() {
        begin();
        if (tiles_.first < tiles_.end) walk();
        store();
    }

  private:
    using Base = BackwardLoader<Config>;
    using Base::a_, Base::p_, Base::site_, Base::kept_, Base::places_, Base::tiles_, Base::next_head_;
    using Base::kKeptBytes, Base::kTileBytes;
    using Base::kShape, Base::kOfKeys, Base::kByElement, Base::kDepth, Base::kColumns, Base::kPart, Base::kTile, Base::kRowTiles;
    using Base::lane, Base::warp, Base::group, Base::split, Base::group_row, Base::kept, Base::place, Base::exchange, Base::kept_numbers;
    using Base::load_next;
    using typename Base::Rows;
    static constexpr bool kModifies = kShape.modifies() || kByElement;
    // Rows past the last repeat its bias, which may be anything where the last sees nothing.
    static constexpr bool kMasksRows = kOfKeys && kShape.bias;
    static constexpr int kSteps = kPart / 16;  // Of 16 streamed rows.
    static_assert(kShape.splits == 1 || kShape.parts == 1, "parts are exchanged once a tile");
    static_assert(kColumns % 64 == 0 && kPart % 16 == 0);
    using Modifiers = std::conditional_t<kShape.modifies(), BackwardModifiers<Element, Config, kPart, true>, NoBackwardModifiers>;
    static_assert(kOfKeys || !kShape.modifies(), "a thread has pairs of query rows where keys are kept");

    __device__ __forceinline__ void begin() {
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
            for (int i = 0; i < kColumns / 2; ++i) {
                sums_[t][i] = 0;
                if constexpr (kOfKeys) values_[t][i] = 0;
            }
        }
        if constexpr (kShape.modifies()) modifiers_.begin(site_, head_);
    }

    __device__ __forceinline__ void walk() {
        const int tiles = tiles_.end - tiles_.first, count = tiles * (kOfKeys ? static_cast<int>(p_.forward.group.divisor) : 1);
        const int kept_head = kOfKeys ? head_of_keys(p_, site_.head) : site_.head;
        Base::template load<kShape.rows(), false>(kept(false), false, kOfKeys, kept_head, site_.first, kept_);
        Base::template load<kShape.rows(), false>(kept(true), true, kOfKeys, kept_head, site_.first, kept_ + kKeptBytes);
        if constexpr (!kOfKeys) Base::template load_numbers<kShape.rows()>(site_.head, site_.first, kept_numbers());
        load_next(0);
        int tile = tiles_.first;
#pragma unroll 1
        for (int number = 0; number < count; ++number) {
            copy_wait<0>();
            __syncthreads();  // The tile has come, and everyone is done with the one before, whose place the next one takes.
            if (number + 1 < count) load_next(number + 1);
            step(place(number), tile * kTile);
            if (++tile == tiles_.end) {
                tile = tiles_.first;
                ++head_;
                if constexpr (kShape.modifies()) {
                    if (number + 1 < count) modifiers_.set_head(head_);
                }
            }
        }
    }

    // Key minus query row of what is seen lies in [low(), high()].
    __device__ __forceinline__ int low() const { return site_.entry.shift - p_.forward.window_left; }
    __device__ __forceinline__ int high() const { return site_.entry.shift + p_.forward.window_right; }
    // Do the group's kept rows see all of `count` streamed rows, or any?
    __device__ __forceinline__ bool sees(int first, int count, bool all) const {
        const int kept = site_.first + group_row();
        const int key = kOfKeys ? kept : first, keys = kOfKeys ? 32 : count, row = kOfKeys ? first : kept, rows = kOfKeys ? count : 32;
        const int least = key - (row + rows - 1), most = key + keys - 1 - row;
        return all ? least >= low() && most <= high() && key + keys <= site_.entry.len_k && (!kMasksRows || row + rows <= site_.entry.len_q)
                   : least <= high() && most >= low() && key < site_.entry.len_k;
    }

    __device__ __forceinline__ void step(uint32_t tile, int first) {
        if constexpr (kShape.splits == 1) {
#pragma unroll 1
            for (int i = 0; i < kShape.parts; ++i) {
                if (!sees(first + i * kPart, kPart, false)) continue;
                make_scores(tile, first, i * kPart);
                add_products(tile, i * kPart);
            }
        } else {
            const bool is_seen = sees(first, kTile, false);
            if (is_seen) {
                make_scores(tile, first, split() * kPart);
                give();
            }
            __syncthreads();
            if (!is_seen) return;
#pragma unroll 1
            for (int i = 0; i < kShape.splits; ++i) {
                take(i);
                add_products(tile, i * kPart);
            }
        }
    }

    // s_ = kept streamed^T of the first operands, d_ of the second; then P and dS, narrowed.
    __device__ __forceinline__ void make_scores(uint32_t tile, int first, int offset) {
        const int of_eight = lane() & 7, eighth = lane() >> 3;
        const uint32_t a = kept_ + Rows::at(group_row() + (lane() & 15), lane() >> 4);
        const uint32_t b = tile + Rows::at(of_eight + (eighth >> 1) * 8, eighth & 1) + offset * Rows::kBytes;
        float s[kRowTiles][kPart / 2], d[kRowTiles][kPart / 2];
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
            for (int i = 0; i < kPart / 2; ++i) s[t][i] = d[t][i] = 0;
        }
        const auto product = [&](float(&to)[kRowTiles][kPart / 2], uint32_t left, uint32_t right, int i) {
            uint32_t rows[kRowTiles][4];
#pragma unroll
            for (int t = 0; t < kRowTiles; ++t) load_matrices(rows[t], Rows::step(left, 2 * i) + t * 16 * Rows::kBytes);
#pragma unroll
            for (int j = 0; j < kSteps; ++j) {
                uint32_t columns[4];
                load_matrices(columns, Rows::step(right, 2 * i) + j * 16 * Rows::kBytes);
#pragma unroll
                for (int t = 0; t < kRowTiles; ++t) {
                    multiply<Element>(to[t] + 8 * j, rows[t], columns[0], columns[1]);
                    multiply<Element>(to[t] + 8 * j + 4, rows[t], columns[2], columns[3]);
                }
            }
        };
        [[maybe_unused]] typename Modifiers::Fetched fetched[kRowTiles];
        if constexpr (kShape.modifies()) {
#pragma unroll
            for (int t = 0; t < kRowTiles; ++t) modifiers_.fetch(head_, group_row() + 16 * t, first + offset, fetched[t]);
        }
#pragma unroll
        for (int i = 0; i < kDepth / 16; ++i) product(s, a, b, i);
        const bool sees_all = sees(first + offset, kPart, true);
#pragma unroll
        for (int i = 0; i < kDepth / 16; ++i) product(d, a + kKeptBytes, b + kTileBytes, i);
        if constexpr (kShape.modifies()) {
#pragma unroll
            for (int t = 0; t < kRowTiles; ++t)
                modifiers_.apply(sees_all && a_.exact_only == 0, head_, group_row() + 16 * t, first + offset, fetched[t], s[t]);
            if (!sees_all) mask(first + offset, s);
            exponentials(tile + 2 * kTileBytes + offset * 8, first + offset, fetched, s);
        }
        if constexpr (kShape.modifies()) {
            gradients_of_modified(tile + 2 * kTileBytes + offset * 8, first + offset, s, d);
        } else {
            if (!sees_all) mask(first + offset, s);
            gradients(tile, first, offset, s, d);
        }
        narrow(s, d);
        if (kOfKeys && a_.gradients != nullptr) leave_gradients(first + offset);
    }

    __device__ __forceinline__ void mask(int first, float (&s)[kRowTiles][kPart / 2]) const {
        const uint32_t width = static_cast<uint32_t>(high() - low());
        const float hidden = kModifies || p_.forward.scale_log2 > 0 ? -INFINITY : INFINITY;  // Plain scores are scaled after this.
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
            for (int i = 0; i < kPart / 2; ++i) {
                const int kept = site_.first + group_row() + 16 * t + lane() / 4 + (i & 2) * 4,
                          other = first + (i >> 2) * 8 + (lane() & 3) * 2 + (i & 1);
                const int key = kOfKeys ? kept : other, row = kOfKeys ? other : kept;
                if (static_cast<uint32_t>(key - row - low()) > width || key >= site_.entry.len_k ||
                    (kMasksRows && row >= site_.entry.len_q))
                    s[t][i] = hidden;
            }
        }
    }

    template <int kWords>
    static __device__ __forceinline__ void load_words(float (&to)[kWords], uint32_t from) {
        if constexpr (kWords == 4)
            asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
                         : "r"(from)
                         : "memory");
        else
            asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(to[0]), "=f"(to[1]) : "r"(from) : "memory");
    }

    // From scores to probabilities, before the products of dP, whose results need the registers of what scores pass through. numbers: where
    // lse and delta of the streamed rows lie, of which `first` is the first.
    template <class Fetched>
    __device__ __forceinline__ void exponentials(uint32_t numbers, int first, const Fetched &fetched,
                                                 float (&s)[kRowTiles][kPart / 2]) const {
#pragma unroll
        for (int j = 0; j < kPart / 8; ++j) {
            float rows[4];
            load_words<4>(rows, numbers + (8 * j + (lane() & 3) * 2) * 8);
#pragma unroll
            for (int t = 0; t < kRowTiles; ++t)
                modifiers_.exponentials(0, group_row() + 16 * t, first, j, {rows[0], rows[2]}, fetched[t], s[t] + 4 * j);
        }
    }
    // d = P (dP - delta), times what the softcap leaves of it.
    __device__ __forceinline__ void gradients_of_modified(uint32_t numbers, int first, const float (&s)[kRowTiles][kPart / 2],
                                                          float (&d)[kRowTiles][kPart / 2]) const {
        const bool caps = modifiers_.caps();
        const float inverse = caps ? modifiers_.inverse_cap() : 0.0f;
#pragma unroll
        for (int j = 0; j < kPart / 8; ++j) {
            float rows[4];
            load_words<4>(rows, numbers + (8 * j + (lane() & 3) * 2) * 8);
#pragma unroll
            for (int i = 0; i < 4 * kRowTiles; ++i) {
                const float p = s[i / 4][4 * j + i % 4];
                float &x = d[i / 4][4 * j + i % 4];
                x = p * (x - rows[i % 2 * 2 + 1]);
                if (caps) x *= modifiers_.slope_of_cap(p, rows[i % 2 * 2], inverse);
            }
        }
        if (p_.part_bias == nullptr) return;
        const int kept = site_.first + group_row() + lane() / 4, other = first + (lane() & 3) * 2;
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
            for (int i = 0; i < kPart / 2; ++i) leave_bias_gradient(other + (i >> 2) * 8 + (i & 1), kept + 16 * t + (i & 2) * 4, d[t][i]);
        }
    }

    // A score, from the product on; not in units of log2, in which a bias may be infinite that is not. Multiplies `slope` by what the
    // softcap leaves of the gradient.
    __device__ __forceinline__ float modified(float x, int row, int key, float &slope) const {
        const AttentionParams &f = p_.forward;
        if (x == -INFINITY || row >= site_.entry.len_q) return -INFINITY;
        x *= static_cast<float>(f.scale);
        if (f.softcap_log2 != 0) {
            const float cap = static_cast<float>(f.softcap), t = tanhf(x / cap);
            x = cap * t;
            slope *= 1.0f - t * t;
        }
        const int head = kOfKeys ? head_ : site_.head;
        return ScoreModifiers(f, site_.entry, head, row).template apply_to_capped<false>(x, key);
    }

    __device__ __forceinline__ void gradients(uint32_t tile, int first, int offset, float (&s)[kRowTiles][kPart / 2],
                                              float (&d)[kRowTiles][kPart / 2]) {
        const float c = p_.forward.scale_log2;
        const auto element = [&](float &s, float &d, int kept, int other, float lse, float delta) {
            float slope = 1;
            if constexpr (kByElement) s = kOfKeys ? modified(s, other, kept, slope) : modified(s, kept, other, slope);
            s = exp2_fast(kByElement ? (s - lse) * kLog2EHigh : fmaf(s, c, -lse * kLog2EHigh));
            d = s * (d - delta);
            if constexpr (kByElement) {
                if (kOfKeys && p_.part_bias != nullptr) leave_bias_gradient(other, kept, d);
                d *= slope;
            }
        };
        const int kept = site_.first + group_row() + lane() / 4, other = first + offset + (lane() & 3) * 2;
        if constexpr (kOfKeys) {
#pragma unroll
            for (int j = 0; j < kPart / 8; ++j) {
                float numbers[4];  // Log-sum-exp and delta of the lane's two streamed rows.
                load_words<4>(numbers, tile + 2 * kTileBytes + (offset + 8 * j + (lane() & 3) * 2) * 8);
#pragma unroll
                for (int e = 0; e < 2; ++e) {
#pragma unroll
                    for (int i = 0; i < 2 * kRowTiles; ++i)
                        element(s[i / 2][4 * j + i % 2 * 2 + e], d[i / 2][4 * j + i % 2 * 2 + e], kept + 8 * i, other + 8 * j + e,
                                numbers[2 * e], numbers[2 * e + 1]);
                }
            }
        } else {
#pragma unroll
            for (int i = 0; i < 2 * kRowTiles; ++i) {
                float row[2];
                load_words<2>(row, kept_numbers() + (group_row() + lane() / 4 + 8 * i) * 8);
#pragma unroll
                for (int j = 0; j < kPart / 4; ++j)
                    element(s[i / 2][j / 2 * 4 + i % 2 * 2 + j % 2], d[i / 2][j / 2 * 4 + i % 2 * 2 + j % 2], kept + 8 * i,
                            other + j / 2 * 8 + j % 2, row[0], row[1]);
            }
        }
    }
    __device__ __forceinline__ void narrow(const float (&s)[kRowTiles][kPart / 2], const float (&d)[kRowTiles][kPart / 2]) {
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
            for (int i = 0; i < kPart / 4; ++i) {
                if constexpr (kOfKeys) probabilities_[t][i] = narrow_pair<Element>(s[t][2 * i], s[t][2 * i + 1]);
                gradients_[t][i] = narrow_pair<Element>(d[t][2 * i], d[t][2 * i + 1]);
            }
        }
    }

    // Of a score: [pair of the launch][query head of the group][row][key].
    __device__ __forceinline__ void leave_bias_gradient(int row, int key, float gradient) const {
        if (row >= site_.entry.len_q || key >= site_.entry.len_k) return;
        const int64_t head = head_of_launch(head_);
        static_cast<float *>(p_.part_bias)[(head * p_.rows_allotted + row) * p_.forward.len_k + key] = gradient;
    }
    __device__ __forceinline__ int64_t head_of_launch(int head) const {
        return static_cast<int64_t>(site_.entry.batch) * p_.forward.heads.divisor + head -
               static_cast<int64_t>(p_.first_pair) * p_.forward.group.divisor;
    }

    // Leaves the gradients of kPart streamed rows from `first` on for the kernel of dQ.
    __device__ __forceinline__ void leave_gradients(int first) const {
        const int64_t head = head_of_launch(head_);
        const int64_t at = (head * a_.row_fragments + first / 16) * a_.key_fragments + (site_.first + group_row()) / 16;
        uint4 *const to = static_cast<uint4 *>(a_.gradients) + at * 32 + lane();
#pragma unroll
        for (int i = 0; i < kSteps; ++i) {
#pragma unroll
            for (int t = 0; t < kRowTiles; ++t) {
                const uint32_t *const x = gradients_[t] + 4 * i;
                to[(static_cast<int64_t>(i) * a_.key_fragments + t) * 32] = make_uint4(x[0], x[1], x[2], x[3]);
            }
        }
    }

    // Fragments of a group: [split][step][row tile][P, dS or dS alone][lane], 16 bytes.
    static constexpr int kFragments = kOfKeys ? 2 : 1, kSplitBytes = kSteps * kRowTiles * kFragments * 512;
    __device__ __forceinline__ uint32_t fragments(int of_split) const {
        return exchange() + (group() * kShape.splits + of_split) * kSplitBytes + lane() * 16;
    }
    __device__ __forceinline__ void give() const {
        const uint32_t to = fragments(split());
#pragma unroll
        for (int i = 0; i < kSteps; ++i) {
#pragma unroll
            for (int t = 0; t < kRowTiles; ++t) {
                const auto put = [&](const uint32_t *x, int fragment) {
                    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to + ((i * kRowTiles + t) * kFragments + fragment) * 512),
                                 "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
                                 : "memory");
                };
                put(gradients_[t] + 4 * i, 0);
                if constexpr (kOfKeys) put(probabilities_[t] + 4 * i, 1);
            }
        }
    }
    __device__ __forceinline__ void take(int of_split) {
        const uint32_t from = fragments(of_split);
#pragma unroll
        for (int i = 0; i < kSteps; ++i) {
#pragma unroll
            for (int t = 0; t < kRowTiles; ++t) {
                const auto get = [&](uint32_t *x, int fragment) {
                    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                                 : "r"(from + ((i * kRowTiles + t) * kFragments + fragment) * 512)
                                 : "memory");
                };
                get(gradients_[t] + 4 * i, 0);
                if constexpr (kOfKeys) get(probabilities_[t] + 4 * i, 1);
            }
        }
    }

    // sums_ += dS first operand, values_ += P second operand, over kPart streamed rows from `offset` on.
    __device__ __forceinline__ void add_products(uint32_t tile, int offset) {
        const uint32_t b = tile + Rows::at(lane() & 15, lane() >> 4) + offset * Rows::kBytes + split() * (kColumns * 2);
        const auto product = [&](float(&to)[kRowTiles][kColumns / 2], const uint32_t(&left)[kRowTiles][kPart / 4], uint32_t right, int i) {
#pragma unroll
            for (int j = 0; j < kColumns / 16; ++j) {
                uint32_t columns[4];
                load_matrices_turned(columns, Rows::step(right, 2 * j) + i * 16 * Rows::kBytes);
#pragma unroll
                for (int t = 0; t < kRowTiles; ++t) {
                    multiply<Element>(to[t] + 8 * j, left[t] + 4 * i, columns[0], columns[1]);
                    multiply<Element>(to[t] + 8 * j + 4, left[t] + 4 * i, columns[2], columns[3]);
                }
            }
        };
#pragma unroll
        for (int i = 0; i < kSteps; ++i) {
            if constexpr (kOfKeys) product(values_, probabilities_, b + kTileBytes, i);
            product(sums_, gradients_, b, i);
        }
    }

    __device__ __forceinline__ void store() const {
        const AttentionParams &f = p_.forward;
        const bool is_packed = (kOfKeys ? f.cu_len_k : f.cu_len_q) != nullptr;
        // Keys past a key length get zeros, those past a packed sequence belong to the next.
        const int end = kOfKeys ? (is_packed ? site_.entry.len_k : f.len_k) : site_.entry.len_q;
        const int64_t start = kOfKeys ? site_.entry.first_k : site_.entry.first_q;
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const int row = site_.first + group_row() + 16 * t + 8 * r + lane() / 4;
                store_gradient_row<Element, kColumns>(kOfKeys ? p_.dk : p_.dq, site_, start + row, row < end, f.head_dim,
                                                      split() * kColumns, sums_[t] + 2 * r, p_.scale);
                if constexpr (kOfKeys)
                    store_gradient_row<Element, kColumns>(p_.dv, site_, start + row, row < end, f.head_dim_v, split() * kColumns,
                                                          values_[t] + 2 * r, 1.0f);
            }
        }
    }

    Modifiers modifiers_;
    int head_;  // Of the rows at work, where scores are modified.
    float sums_[kRowTiles][kColumns / 2], values_[kOfKeys ? kRowTiles : 1][kOfKeys ? kColumns / 2 : 1];
    uint32_t gradients_[kRowTiles][kPart / 4], probabilities_[kOfKeys ? kRowTiles : 1][kOfKeys ? kPart / 4 : 1];
};

template <class Element, class Config>
__global__ void ATTILE_LAUNCH_BOUNDS(Config::kShape.threads(), Config::kShape.blocks)
    attention_backward(const __grid_constant__ BackwardTask a) {
    static_assert(Config::kShape.shared_bytes() <= kBackwardSharedLimit, "shared memory of a block");
    extern __shared__ __align__(1024) unsigned char memory[];
    constexpr bool kOfKeys = Config::kShape.of_keys;
    const BackwardSite site = backward_site<kOfKeys>(a, Config::kShape.rows(), static_cast<int>(blockIdx.x));
    const int head_kv = kOfKeys ? site.head : static_cast<int>(quotient(static_cast<uint32_t>(site.head), a.p.forward.group));
    if (a.p.irregular[site.entry.batch * a.p.heads_kv.divisor + head_kv] != 0) return;  // Taken pair by pair afterwards.
    BackwardWarp<Element, Config>(a, site, shared_address(memory)).run();
}

}  // namespace attile::gpu::sm80
