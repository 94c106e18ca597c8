// SPDX-License-Identifier: Apache-2.0
// The gradient of a bias: gradients of scores, summed over the batch entries and heads that share an element of the bias. A block keeps
// sums of 128 rows by 128 keys in registers, in float32, and goes over those entries and heads one after the other: S = scale Q K^T,
// P = exp(S - lse), dP = dO V^T, sums += P (dP - delta). So scores are computed anew, two products besides the five of the other gradients.
// How products are made is a template's argument: WarpBiasProducts here, those of warpgroups in attention_backward/sm90/bias.cuh.
// What would be written and read instead is 8 bytes of each pair of row and key and head: more time than the products take, and more
// memory than there is.
//
// An element takes part in its own row and key alone, so NaN and infinities go where they belong without more ado. Shared memory: 3 x 32 KB
// for stages of 64 columns of two operands, by cp.async, 2 KB for lse and delta, and 64 KB for the bias of the tile, which all entries and
// heads share: 162 KB. Bound: the L2 cache, 128 bytes a row and column of 64 for 4 * 128 products, beside mma.sync.
#pragma once

#include "attention/block.h"
#include "attention/numbers.h"
#include "attention/score.h"
#include "attention_backward/mma/bias_members.cuh"
#include "attention_backward/mma/bias_tile.cuh"
#include "attention_backward/tiles.h"
#include "mma/shared_rows.cuh"

namespace attile::gpu::mma {

// Products by mma.sync, of 64 rows by 32 keys a warp.
template <class Of>
struct WarpBiasProducts {
    using Element = Of;
    using Rows = SharedRows<kBiasColumns>;
    static constexpr int kBlocks = kWarpBiasBlocks, kFound = kWarpBiasFound;
    static constexpr bool kAreLater = false;  // Done when end() has returned, and not already when begin() has?
    static constexpr bool kCaps = true;       // Are there problems with softcap?

    // to += rows keys^T of up to 64 columns of a stage, or is that.
    static __device__ __forceinline__ void begin(float (&to)[kBiasOfThread], uint32_t from, bool is_first, int columns) {
        const int lane = static_cast<int>(threadIdx.x) % kWarpThreads, warp = static_cast<int>(threadIdx.x) / kWarpThreads;
        const int of_eight = lane & 7, eighth = lane >> 3;
        const uint32_t left = from + Rows::at(warp % 2 * 64 + (lane & 15), lane >> 4);
        const uint32_t right = from + kBiasOperandBytes + Rows::at(warp / 2 * 32 + of_eight + (eighth >> 1) * 8, eighth & 1);
        if (is_first) {
#pragma unroll
            for (float &x : to) x = 0;
        }
#pragma unroll
        for (int i = 0; i < kBiasColumns / 16; ++i) {
            if (16 * i >= columns) break;
            uint32_t rows[4][4], keys[2][4];
#pragma unroll
            for (int m = 0; m < 4; ++m) load_matrices(rows[m], Rows::step(left, 2 * i) + m * 16 * Rows::kBytes);
#pragma unroll
            for (int n = 0; n < 2; ++n) load_matrices(keys[n], Rows::step(right, 2 * i) + n * 16 * Rows::kBytes);
#pragma unroll
            for (int m = 0; m < 4; ++m) {
#pragma unroll
                for (int n = 0; n < 4; ++n)
                    multiply<Element>(to + 16 * m + 4 * n, rows[m], keys[n / 2][n % 2 * 2], keys[n / 2][n % 2 * 2 + 1]);
            }
        }
    }
    static __device__ __forceinline__ void end(float (&)[kBiasOfThread]) {}
    // Before a barrier behind which products read what this thread has copied to shared memory.
    static __device__ __forceinline__ void publish() {}
};

template <class Products>
class BiasSums {
    using Place = BiasPlace<Products::kBlocks>;
    using Members = BiasMembers<Products::kFound>;

  public:
    __device__ __forceinline__ BiasSums(const BackwardBiasTask &task, unsigned char *memory)
        : a_(task),
          f_(task.p.forward),
          members_(*reinterpret_cast<Members *>(memory + kBiasMembersAt)),
          memory_(shared_address(memory)),
          tile_(task, static_cast<int>(blockIdx.x) % task.tiles),
          chunks_k_((f_.head_dim + kBiasColumns - 1) / kBiasColumns),
          chunks_(chunks_k_ + (f_.head_dim_v + kBiasColumns - 1) / kBiasColumns) {}

    __device__ __forceinline__ void run() {
        if (threadIdx.x < kWarpThreads) begin_members(a_, members_);
        keep_bias();
#pragma unroll
        for (int i = 0; i < kScores; ++i) sums_[i] = 0;
        __syncthreads();
        Walk loaded = {0, 0};
#pragma unroll 1
        for (int i = 0; i < kBiasStages - 1; ++i) load(loaded, i);
        int number = 0;
        const auto load_next = [&] { load(loaded, number == 0 ? kBiasStages - 1 : number - 1); };
        // Adds the products of the next chunk to `to`, or stores them there. meanwhile() runs beside them if they are made later.
        const auto step = [&](float(&to)[kScores], bool is_first, int columns, const auto &meanwhile) {
            copy_wait<kBiasStages - 2>();
            Products::publish();
            __syncthreads();  // The chunk has come, and no warp uses the one before any more: the next one takes its stage.
            if (!Products::kAreLater) load_next();
            Products::begin(to, stage(number), is_first, columns);
            if (Products::kAreLater) load_next();  // Issuing copies takes as long as products do.
            meanwhile();
            Products::end(to);
            number = number + 1 == kBiasStages ? 0 : number + 1;
        };
        const auto nothing = [] {};
#pragma unroll 1
        for (int at = 0; member(at).is_there != 0; ++at) {
            // The next one is loaded while products with this one are made.
            if (threadIdx.x < kWarpThreads && at + 1 >= members_.found && members_.next < members_.end) find_members(a_, members_);
#pragma unroll 1
            for (int chunk = 0; chunk < chunks_k_; ++chunk) {
                step(s_, chunk == 0, f_.head_dim - chunk * kBiasColumns, nothing);
            }
            if (!Products::kAreLater) make_probabilities(member(at), numbers(at));
            step(d_, true, f_.head_dim_v, [&] {
                if (Products::kAreLater) make_probabilities(member(at), numbers(at));
            });
#pragma unroll 1
            for (int chunk = 1; chunk < chunks_ - chunks_k_; ++chunk) {
                step(d_, false, f_.head_dim_v - chunk * kBiasColumns, nothing);
            }
            add(numbers(at));
        }
        store();
    }

  private:
    static constexpr int kScores = kBiasOfThread;

    // A member, counted from the part's first, and which of its chunks of columns: of Q and K, then of dO and V.
    struct Walk {
        int member, chunk;
    };
    __device__ __forceinline__ const BiasMember &member(int number) const { return members_.known[number % Members::kKnown]; }
    __device__ __forceinline__ void advance(Walk &walk) const {
        if (++walk.chunk == chunks_) walk = {walk.member + 1, 0};
    }

    __device__ __forceinline__ uint32_t stage(int number) const { return memory_ + number * (2 * kBiasOperandBytes); }
    __device__ __forceinline__ uint32_t numbers(int member) const { return memory_ + kBiasNumbersAt + (member & 1) * kBiasNumberBytes; }
    // Each thread's own elements, [element / 4][thread][4].
    __device__ __forceinline__ uint32_t kept_bias(int i) const {
        return memory_ + kBiasAt + (i / 4 * kBiasThreads + static_cast<int>(threadIdx.x)) * 16;
    }
    // Past the last row and key it is 0.
    template <class Number>
    __device__ __forceinline__ void keep_bias_as() {
        const AttentionOperand &x = f_.bias;
        const Number *const from = static_cast<const Number *>(x.data);
        if (has_whole_pairs(x, tile_, f_.len_q, f_.len_k, sizeof(Number))) {
            float bias[kScores];  // All loads are under way before the first is waited for.
#pragma unroll
            for (int i = 0; i < kScores; i += 2) {
                const Number *const pair = from + BiasPair<Place>(x, tile_, i, f_.len_q, f_.len_k).at;
                float2 two;
                if constexpr (sizeof(Number) == 4)
                    two = __ldg(reinterpret_cast<const float2 *>(pair));
                else
                    two = widen_pair<Number>(__ldg(reinterpret_cast<const uint32_t *>(pair)));
                bias[i] = two.x;
                bias[i + 1] = two.y;
            }
#pragma unroll
            for (int i = 0; i < kScores; i += 2) keep_pair(i, bias[i], bias[i + 1]);
            return;
        }
#pragma unroll 4
        for (int i = 0; i < kScores; i += 2) {
            const BiasPair<Place> pair(x, tile_, i, f_.len_q, f_.len_k);
            const float low = pair.count > 0 ? to_compute(from[pair.at]) : 0.0f;
            keep_pair(i, low, pair.count > 1 ? to_compute(from[pair.at + x.stride[3]]) : 0.0f);
        }
    }
    __device__ __forceinline__ void keep_pair(int i, float low, float high) {
        if (Products::kAreLater) hides_ = hides_ || low == -INFINITY || high == -INFINITY;
        asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(kept_bias(i) + i % 4 * 4), "f"(low), "f"(high) : "memory");
    }
    __device__ __forceinline__ void keep_bias() {
        switch (f_.bias.storage) {
            case AttentionStorage::kF32:
                return keep_bias_as<float>();
            case AttentionStorage::kF16:
                return keep_bias_as<F16>();
            default:
                return keep_bias_as<BF16>();
        }
    }

    // Copies what comes next to a stage, and moves on. Past the end nothing, so that the count of groups says which chunk has come.
    __device__ __forceinline__ void load(Walk &walk, int number) {
        const BiasMember &from = member(walk.member);
        if (from.is_there != 0) {
            if (walk.chunk == 0) {
                if (threadIdx.x < kBiasNumberBytes / 16)
                    copy_async(numbers(walk.member) + threadIdx.x * 16, from.numbers + threadIdx.x * 16);
            }
            const bool is_second = walk.chunk >= chunks_k_;
            const int column = (is_second ? walk.chunk - chunks_k_ : walk.chunk) * kBiasColumns,
                      columns = (is_second ? f_.head_dim_v : f_.head_dim) - column;
            load_rows<kBiasColumns, kBiasTile, kBiasThreads, true>(stage(number), (is_second ? from.dout : from.q) + column * 2,
                                                                   (is_second ? a_.p.dout : f_.q).stride[2] * 2, columns, 0, from.rows);
            load_rows<kBiasColumns, kBiasTile, kBiasThreads, true>(stage(number) + kBiasOperandBytes,
                                                                   (is_second ? from.v : from.k) + column * 2,
                                                                   (is_second ? f_.v : f_.k).stride[2] * 2, columns, 0, from.keys);
            advance(walk);
        }
        copy_commit();
    }

    // Calls take(i) for each of the thread's elements.
    template <class Take>
    static __device__ __forceinline__ void for_each(const Take &take) {
#pragma unroll
        for (int i = 0; i < kScores; ++i) take(i);
    }
    // Calls take(element of a product's result, its row's lse and delta) for each of the thread's elements, row by row.
    template <class Take>
    static __device__ __forceinline__ void for_each_of_rows(uint32_t numbers, const Take &take) {
#pragma unroll
        for (int m = 0; m < Products::kBlocks; ++m) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int first = 4 * Place::kEights * m + 2 * half;
                float lse, delta;
                asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(lse), "=f"(delta) : "r"(numbers + 8 * Place(first).row) : "memory");
#pragma unroll
                for (int n = 0; n < Place::kEights; ++n) {
#pragma unroll
                    for (int e = 0; e < 2; ++e) take(first + 4 * n + e, lse, delta);
                }
            }
        }
    }
    // Calls take(i, bias) for each of the thread's elements.
    template <class Take>
    __device__ __forceinline__ void for_each_bias(const Take &take) const {
#pragma unroll
        for (int i = 0; i < kScores; i += 4) {
            float bias[4];
            asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(bias[0]), "=f"(bias[1]), "=f"(bias[2]), "=f"(bias[3])
                         : "r"(kept_bias(i))
                         : "memory");
#pragma unroll
            for (int e = 0; e < 4; ++e) take(i + e, bias[e]);
        }
    }
    // Does nothing hide a score of the warp's, and nothing but the bias change it? A row whose lse is infinite sees no key.
    __device__ __forceinline__ bool shows_all(const BiasMember &member, uint32_t numbers) const {
        bool shows = !hides_ && member.is_whole != 0 && !f_.alibi_slopes.data && !f_.allowed.data;
        for_each_of_rows(numbers, [&](int, float lse, float) { shows = shows && lse != INFINITY; });
        return __all_sync(~0u, shows) != 0;
    }
    // From products to probabilities, by one option after the other; not in units of log2, in which a bias may be infinite that is not.
    // What is hidden becomes -0, which no probability is.
    __device__ __forceinline__ void make_probabilities(const BiasMember &member, uint32_t numbers) {
        const float scale = a_.p.scale;
        if constexpr (Products::kAreLater) {
            shows_all_ = shows_all(member, numbers);
            if (shows_all_) {
                for_each_bias([&](int i, float bias) { s_[i] = fused_multiply_add(s_[i], scale, bias); });
                for_each_of_rows(numbers, [&](int i, float lse, float) { s_[i] = exp2_fast((s_[i] - lse) * kLog2EHigh); });
                return;
            }
        }
#pragma unroll
        for (float &x : s_) x *= scale;
        if (Products::kCaps && f_.softcap_log2 != 0) {
            const float cap = static_cast<float>(f_.softcap);
#pragma unroll
            for (float &x : s_) x = cap * tanhf(x / cap);
        }
        for_each_bias([&](int i, float bias) { s_[i] = bias == -INFINITY ? -INFINITY : s_[i] + bias; });
        modify(member);
        for_each_of_rows(numbers, [&](int i, float lse, float) {
            const float x = exp2_fast((s_[i] - lse) * kLog2EHigh);
            s_[i] = s_[i] == -INFINITY || lse == INFINITY ? -0.0f : x;
        });
    }
    // What ALiBi adds, and what `allowed` and the mask hide.
    __device__ __forceinline__ void modify(const BiasMember &member) {
        // As seen from the thread's first element: numbers that the compiler would otherwise keep of each.
        const Place first(0);
        const int rows = member.rows - first.row, keys = member.keys - first.key, distance = first.key - first.row;
        if (f_.alibi_slopes.data) {
            const float slope =
                load_number(f_.alibi_slopes, member.batch * f_.alibi_slopes.stride[0] + member.head * f_.alibi_slopes.stride[1]);
            const int diagonal = distance - (member.low + f_.window_left);
            for_each([&](int i) {
                s_[i] = fused_multiply_add(-slope, fabsf(static_cast<float>(diagonal + (Place::key_of(i) - Place::row_of(i)))), s_[i]);
            });
        }
        if (f_.allowed.data) {
            const AttentionOperand &x = f_.allowed;
            const uint8_t *const from = static_cast<const uint8_t *>(x.data) + member.batch * x.stride[0] + member.head * x.stride[1] +
                                        (tile_.row + first.row) * x.stride[2] + (tile_.key + first.key) * x.stride[3];
            for_each([&](int i) {
                if (from[min(Place::row_of(i), rows - 1) * x.stride[2] + min(Place::key_of(i), keys - 1) * x.stride[3]] == 0)
                    s_[i] = -INFINITY;
            });
        }
        if (member.is_whole != 0) return;
        const int low = member.low - distance, high = member.high - distance;
        for_each([&](int i) {
            const int row = Place::row_of(i), key = Place::key_of(i);
            if (key - row < low || key - row > high || row >= rows || key >= keys) s_[i] = -INFINITY;
        });
    }
    __device__ __forceinline__ void add(uint32_t numbers) {
        if (Products::kAreLater && shows_all_) {
            for_each_of_rows(numbers, [&](int i, float, float delta) { sums_[i] = fused_multiply_add(s_[i], d_[i] - delta, sums_[i]); });
            return;
        }
        for_each_of_rows(numbers, [&](int i, float, float delta) {
            const float gradient = s_[i] * (d_[i] - delta);
            if (__float_as_uint(s_[i]) != 0x80000000u) sums_[i] += gradient;
        });
    }

    __device__ __forceinline__ void store() const {
        if (a_.sums == nullptr) return store_bias<Place, kScores>(a_, tile_, 0, sums_);
        float4 *const to =
            reinterpret_cast<float4 *>(a_.sums) + static_cast<int64_t>(blockIdx.x) * (kScores / 4 * kBiasThreads) + threadIdx.x;
#pragma unroll
        for (int i = 0; i < kScores / 4; ++i)
            to[i * kBiasThreads] = make_float4(sums_[4 * i], sums_[4 * i + 1], sums_[4 * i + 2], sums_[4 * i + 3]);
    }

    const BackwardBiasTask &a_;
    const AttentionParams &f_;
    Members &members_;
    const uint32_t memory_;
    const BiasTile tile_;
    const int chunks_k_, chunks_;
    bool hides_ = false;      // The bias, a score of the thread's?
    bool shows_all_ = false;  // Of the member.
    float sums_[kScores], s_[kScores], d_[kScores];
};

template <class Element>
__global__ void ATTILE_LAUNCH_BOUNDS(kBiasThreads, 1) attention_backward_bias(const __grid_constant__ BackwardBiasTask a) {
    extern __shared__ __align__(1024) unsigned char memory[];
    BiasSums<WarpBiasProducts<Element>>(a, memory).run();
}

// Adds up the parts of a tile, in their order: a block has four elements of each thread of the other kernel's.
template <int kBlocks>
__global__ void ATTILE_LAUNCH_BOUNDS(kBiasThreads, 1) attention_backward_add_bias_parts(const __grid_constant__ BackwardBiasTask a) {
    constexpr int kOfTile = kBiasOfThread / 4;
    const int tile = static_cast<int>(blockIdx.x) / kOfTile, first = static_cast<int>(blockIdx.x) % kOfTile;
    const float4 *from =
        reinterpret_cast<const float4 *>(a.sums) + (static_cast<int64_t>(tile) * kOfTile + first) * kBiasThreads + threadIdx.x;
    float sums[4] = {};
#pragma unroll 4
    for (int part = 0; part < a.parts; ++part, from += static_cast<int64_t>(a.tiles) * kOfTile * kBiasThreads) {
        const float4 x = __ldcs(from);
        sums[0] += x.x;
        sums[1] += x.y;
        sums[2] += x.z;
        sums[3] += x.w;
    }
    store_bias<BiasPlace<kBlocks>, 4>(a, BiasTile(a, tile), 4 * first, sums);
}

}  // namespace attile::gpu::mma
