// SPDX-License-Identifier: Apache-2.0
// The gradient of a bias: gradients of scores, summed over the batch entries and heads that share an element of the bias. A block keeps
// sums of 128 rows by 128 keys in registers, in float32, and goes over those entries and heads one after the other: S = scale Q K^T,
// P = exp(S - lse), dP = dO V^T, sums += P (dP - delta). So scores are computed anew, two products besides the five of the other gradients.
// What would be written and read instead is 8 bytes of each pair of row and key and head: more time than the products take, and more
// memory than there is.
//
// An element takes part in its own row and key alone, so NaN and infinities go where they belong without more ado. Shared memory: 3 x 32 KB
// for stages of 64 columns of two operands, by cp.async, 2 KB for lse and delta, and 64 KB for the bias of the tile, which all entries and
// heads share: 162 KB. A warp has 64 rows by 32
// keys. Bound: the L2 cache, 128 bytes a row and column of 64 for 4 * 128 products, beside mma.sync.
#pragma once

#include "attention/block.h"
#include "attention/numbers.h"
#include "attention/score.h"
#include "attention_backward/mma/bias.h"
#include "attention_backward/tiles.h"
#include "mma/shared_rows.cuh"

namespace attile::gpu::mma {

// Where a thread's element i of a tile is: [16 rows][8 keys][element of a product's result].
struct BiasPlace {
    int row, key;
    __device__ __forceinline__ explicit BiasPlace(int i) {
        const int lane = static_cast<int>(threadIdx.x) % kWarpThreads, warp = static_cast<int>(threadIdx.x) / kWarpThreads;
        row = warp % 2 * 64 + i / 16 * 16 + lane / 4 + (i & 2) * 4;
        key = warp / 2 * 32 + i / 4 % 4 * 8 + (lane & 3) * 2 + (i & 1);
    }
};

// Which tile a block has.
struct BiasTile {
    int batch, head, row, key;  // The entry and head of the bias; the first row and key.
    __device__ __forceinline__ BiasTile(const BackwardBiasTask &a, int tile) {
        const int of_rows = tile / a.key_tiles, of_heads = of_rows / a.row_tiles, heads = static_cast<int>(a.p.bias_extent[1]);
        key = (tile - of_rows * a.key_tiles) * kBiasTile;
        row = (of_rows - of_heads * a.row_tiles) * kBiasTile;
        batch = of_heads / heads;
        head = of_heads - batch * heads;
    }
};

// Where two neighbours along the keys lie in an operand of so many rows and keys, and how many of the two there are.
struct BiasPair {
    int64_t at;
    int count;
    __device__ __forceinline__ BiasPair(const AttentionOperand &x, const BiasTile &tile, int i, int64_t rows, int64_t keys) {
        const BiasPlace place(i);
        const int64_t row = tile.row + place.row, key = tile.key + place.key;
        at = tile.batch * x.stride[0] + tile.head * x.stride[1] + row * x.stride[2] + key * x.stride[3];
        count = row < rows && key < keys ? key + 1 < keys ? 2 : 1 : 0;
    }
};
// Has the operand all of the tile, in pairs that lie side by side at a multiple of their size?
__device__ __forceinline__ bool has_whole_pairs(const AttentionOperand &x, const BiasTile &tile, int64_t rows, int64_t keys, int bytes) {
    return x.stride[3] == 1 && ((x.stride[0] | x.stride[1] | x.stride[2]) & 1) == 0 &&
           reinterpret_cast<uintptr_t>(x.data) % (2 * bytes) == 0 && tile.row + kBiasTile <= rows && tile.key + kBiasTile <= keys;
}

// kCount of a thread's elements, from element `first` on, to the caller's array.
template <int kCount, class Number>
__device__ __forceinline__ void store_bias_as(const BackwardBiasTask &a, const BiasTile &tile, int first, const float *sums) {
    const AttentionOperand &x = a.p.dbias;
    Number *const to = static_cast<Number *>(const_cast<void *>(x.data));
    const int64_t rows = a.p.bias_extent[2], keys = a.p.bias_extent[3];
    if (has_whole_pairs(x, tile, rows, keys, sizeof(Number))) {
#pragma unroll
        for (int i = 0; i < kCount; i += 2) {
            Number *const pair = to + BiasPair(x, tile, first + i, rows, keys).at;
            if constexpr (sizeof(Number) == 4)
                *reinterpret_cast<float2 *>(pair) = make_float2(sums[i], sums[i + 1]);
            else
                *reinterpret_cast<uint32_t *>(pair) = narrow_pair<Number>(sums[i], sums[i + 1]);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < kCount; i += 2) {
        const BiasPair pair(x, tile, first + i, rows, keys);
        if (pair.count > 0) to[pair.at] = from_compute<Number>(sums[i]);
        if (pair.count > 1) to[pair.at + x.stride[3]] = from_compute<Number>(sums[i + 1]);
    }
}
template <int kCount>
__device__ __forceinline__ void store_bias(const BackwardBiasTask &a, const BiasTile &tile, int first, const float *sums) {
    switch (a.p.dbias.storage) {
        case AttentionStorage::kF32:
            return store_bias_as<kCount, float>(a, tile, first, sums);
        case AttentionStorage::kF16:
            return store_bias_as<kCount, F16>(a, tile, first, sums);
        default:
            return store_bias_as<kCount, BF16>(a, tile, first, sums);
    }
}

// One thread finds members, each well before anyone looks at it; in shared memory and by calls, for want of registers.

// Fills in the member of an entry and head, if it sees any of the tile.
__device__ __forceinline__ void fill_member(const BackwardBiasTask &a, const BiasTile &tile, BiasMember &to, int batch, int head) {
    const AttentionParams &f = a.p.forward;
    const AttentionEntry entry(f, batch);
    to.rows = entry.len_q - tile.row;
    to.keys = entry.len_k - tile.key;
    const int rows = min(to.rows, kBiasTile), keys = min(to.keys, kBiasTile), shift = entry.shift + tile.row - tile.key;
    to.low = shift - f.window_left;
    to.high = shift + f.window_right;
    if (rows < 1 || keys < 1 || 1 - rows > to.high || keys - 1 < to.low) return;
    to.is_there = 1;
    to.is_whole = rows == kBiasTile && keys == kBiasTile && 1 - kBiasTile >= to.low && kBiasTile - 1 <= to.high;
    to.batch = batch;
    to.head = head;
    const auto place = [&](const AttentionOperand &x, int of_head, int64_t first) {
        return static_cast<const char *>(x.data) + (batch * x.stride[0] + of_head * x.stride[1] + first * x.stride[2]) * 2;
    };
    const int head_k = static_cast<int>(quotient(static_cast<uint32_t>(head), f.group));
    to.q = place(f.q, head, entry.first_q + tile.row);
    to.dout = place(a.p.dout, head, entry.first_q + tile.row);
    to.k = place(f.k, head_k, entry.first_k + tile.key);
    to.v = place(f.v, head_k, entry.first_k + tile.key);
    to.numbers =
        static_cast<const char *>(a.p.rows) + ((static_cast<int64_t>(batch) * f.heads.divisor + head) * a.p.rows_allotted + tile.row) * 8;
}
// The next that sees any of the tile.
__device__ __noinline__ void find_member(const BackwardBiasTask &a, BiasMembers &members, int number) {
    const BiasTile tile(a, static_cast<int>(blockIdx.x) % a.tiles);
    const int heads = a.p.bias_extent[1] == 1 ? static_cast<int>(a.p.forward.heads.divisor) : 1;
    BiasMember &to = members.known[number % BiasMembers::kKnown];
    to.is_there = 0;
    for (; members.left > 0 && to.is_there == 0; --members.left) {
        fill_member(a, tile, to, tile.batch + members.batch, tile.head + members.head);
        if (++members.head == heads) {
            members.head = 0;
            ++members.batch;
        }
    }
}
// The first two of the block's part.
__device__ __noinline__ void begin_members(const BackwardBiasTask &a, BiasMembers &members) {
    const int part = static_cast<int>(blockIdx.x) / a.tiles,
              heads = a.p.bias_extent[1] == 1 ? static_cast<int>(a.p.forward.heads.divisor) : 1,
              first = static_cast<int>(static_cast<int64_t>(a.members) * part / a.parts);
    members.batch = first / heads;
    members.head = first - members.batch * heads;
    members.left = static_cast<int>(static_cast<int64_t>(a.members) * (part + 1) / a.parts) - first;
    find_member(a, members, 0);
    find_member(a, members, 1);
}

template <class Element>
class BiasSums {
  public:
    __device__ __forceinline__ BiasSums(const BackwardBiasTask &task, unsigned char *memory)
        : a_(task),
          f_(task.p.forward),
          members_(*reinterpret_cast<BiasMembers *>(memory + kBiasMembersAt)),
          memory_(shared_address(memory)),
          tile_(task, static_cast<int>(blockIdx.x) % task.tiles),
          chunks_k_((f_.head_dim + kBiasColumns - 1) / kBiasColumns),
          chunks_(chunks_k_ + (f_.head_dim_v + kBiasColumns - 1) / kBiasColumns) {}

    __device__ __forceinline__ void run() {
        if (threadIdx.x == 0) begin_members(a_, members_);
        keep_bias();
#pragma unroll
        for (int i = 0; i < kScores; ++i) sums_[i] = 0;
        __syncthreads();
        Walk loaded = {0, 0}, at = {0, 0};
#pragma unroll
        for (int i = 0; i < kBiasStages - 1; ++i) load(loaded, i);
        for (int number = 0; member(at).is_there != 0; number = number + 1 == kBiasStages ? 0 : number + 1) {
            copy_wait<kBiasStages - 2>();
            __syncthreads();  // The chunk has come, and no warp uses the one before any more: the next one takes its stage.
            load(loaded, number == 0 ? kBiasStages - 1 : number - 1);
            step(at, stage(number));
            advance(at);
        }
        store();
    }

  private:
    static constexpr int kScores = kBiasOfThread;
    using Rows = SharedRows<kBiasColumns>;

    // A member, counted from the part's first, and which of its chunks of columns: of Q and K, then of dO and V.
    struct Walk {
        int member, chunk;
    };
    __device__ __forceinline__ const BiasMember &member(const Walk &walk) const {
        return members_.known[walk.member % BiasMembers::kKnown];
    }
    __device__ __forceinline__ void advance(Walk &walk) const {
        if (++walk.chunk == chunks_) walk = {walk.member + 1, 0};
    }

    __device__ __forceinline__ uint32_t stage(int number) const { return memory_ + number * (2 * kBiasOperandBytes); }
    __device__ __forceinline__ uint32_t numbers(const Walk &walk) const {
        return memory_ + kBiasNumbersAt + (walk.member & 1) * kBiasNumberBytes;
    }
    // Each thread's own elements, [element / 4][thread][4].
    __device__ __forceinline__ uint32_t kept_bias(int i) const {
        return memory_ + kBiasAt + (i / 4 * kBiasThreads + static_cast<int>(threadIdx.x)) * 16;
    }
    // Past the last row and key it is 0.
    template <class Number>
    __device__ __forceinline__ void keep_bias_as() const {
        const AttentionOperand &x = f_.bias;
        const Number *const from = static_cast<const Number *>(x.data);
        if (has_whole_pairs(x, tile_, f_.len_q, f_.len_k, sizeof(Number))) {
            float bias[kScores];  // All loads are under way before the first is waited for.
#pragma unroll
            for (int i = 0; i < kScores; i += 2) {
                const Number *const pair = from + BiasPair(x, tile_, i, f_.len_q, f_.len_k).at;
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
            const BiasPair pair(x, tile_, i, f_.len_q, f_.len_k);
            const float low = pair.count > 0 ? to_compute(from[pair.at]) : 0.0f;
            keep_pair(i, low, pair.count > 1 ? to_compute(from[pair.at + x.stride[3]]) : 0.0f);
        }
    }
    __device__ __forceinline__ void keep_pair(int i, float low, float high) const {
        asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(kept_bias(i) + i % 4 * 4), "f"(low), "f"(high) : "memory");
    }
    __device__ __forceinline__ void keep_bias() const {
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
        const BiasMember &from = member(walk);
        if (from.is_there != 0) {
            if (walk.chunk == 0) {
                if (threadIdx.x == 0 && walk.member > 0) find_member(a_, members_, walk.member + 1);
                __syncwarp();
                if (threadIdx.x < kBiasNumberBytes / 16) copy_async(numbers(walk) + threadIdx.x * 16, from.numbers + threadIdx.x * 16);
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

    __device__ __forceinline__ void step(const Walk &walk, uint32_t from) {
        if (walk.chunk < chunks_k_) {
            multiply_chunk(s_, from, walk.chunk == 0, f_.head_dim - walk.chunk * kBiasColumns);
            if (walk.chunk == chunks_k_ - 1) make_probabilities(member(walk), numbers(walk));
        } else {
            const int chunk = walk.chunk - chunks_k_;
            multiply_chunk(d_, from, chunk == 0, f_.head_dim_v - chunk * kBiasColumns);
            if (walk.chunk == chunks_ - 1) add(numbers(walk));
        }
    }
    // to += rows keys^T of up to 64 columns.
    __device__ __forceinline__ void multiply_chunk(float (&to)[kScores], uint32_t from, bool is_first, int columns) const {
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

    // Calls take(i, row of the tile, key of the tile) for each of the thread's elements.
    template <class Take>
    static __device__ __forceinline__ void for_each(const Take &take) {
#pragma unroll
        for (int i = 0; i < kScores; ++i) {
            const BiasPlace place(i);
            take(i, place.row, place.key);
        }
    }
    // Calls take(element of a product's result, its row's lse and delta) for each of the thread's elements, row by row.
    template <class Take>
    static __device__ __forceinline__ void for_each_of_rows(uint32_t numbers, const Take &take) {
#pragma unroll
        for (int m = 0; m < 4; ++m) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float lse, delta;
                asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                             : "=f"(lse), "=f"(delta)
                             : "r"(numbers + 8 * BiasPlace(16 * m + 2 * half).row)
                             : "memory");
#pragma unroll
                for (int n = 0; n < 4; ++n) {
#pragma unroll
                    for (int e = 0; e < 2; ++e) take(16 * m + 4 * n + 2 * half + e, lse, delta);
                }
            }
        }
    }
    // From products to probabilities, by one option after the other; not in units of log2, in which a bias may be infinite that is not.
    // What is hidden becomes -0, which no probability is.
    __device__ __forceinline__ void make_probabilities(const BiasMember &member, uint32_t numbers) {
        const float scale = a_.p.scale;
#pragma unroll
        for (float &x : s_) x *= scale;
        if (f_.softcap_log2 != 0) {
            const float cap = static_cast<float>(f_.softcap);
#pragma unroll
            for (float &x : s_) x = cap * tanhf(x / cap);
        }
#pragma unroll
        for (int i = 0; i < kScores; i += 4) {
            float bias[4];
            asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(bias[0]), "=f"(bias[1]), "=f"(bias[2]), "=f"(bias[3])
                         : "r"(kept_bias(i))
                         : "memory");
#pragma unroll
            for (int e = 0; e < 4; ++e) s_[i + e] = bias[e] == -INFINITY ? -INFINITY : s_[i + e] + bias[e];
        }
        modify(member);
        for_each_of_rows(numbers, [&](int i, float lse, float) {
            const float x = exp2_fast((s_[i] - lse) * kLog2EHigh);
            s_[i] = s_[i] == -INFINITY || lse == INFINITY ? -0.0f : x;
        });
    }
    // What ALiBi adds, and what `allowed` and the mask hide.
    __device__ __forceinline__ void modify(const BiasMember &member) {
        const int rows = member.rows, keys = member.keys;
        if (f_.alibi_slopes.data) {
            const float slope =
                load_number(f_.alibi_slopes, member.batch * f_.alibi_slopes.stride[0] + member.head * f_.alibi_slopes.stride[1]);
            const int diagonal = -(member.low + f_.window_left);  // Of the tile's first row and key.
            for_each([&](int i, int row, int key) {
                s_[i] = fused_multiply_add(-slope, fabsf(static_cast<float>(diagonal + key - row)), s_[i]);
            });
        }
        if (f_.allowed.data) {
            const AttentionOperand &x = f_.allowed;
            const uint8_t *const from = static_cast<const uint8_t *>(x.data) + member.batch * x.stride[0] + member.head * x.stride[1] +
                                        tile_.row * x.stride[2] + tile_.key * x.stride[3];
            for_each([&](int i, int row, int key) {
                if (from[min(row, rows - 1) * x.stride[2] + min(key, keys - 1) * x.stride[3]] == 0) s_[i] = -INFINITY;
            });
        }
        if (member.is_whole != 0) return;
        const int low = member.low, high = member.high;
        for_each([&](int i, int row, int key) {
            if (key - row < low || key - row > high || row >= rows || key >= keys) s_[i] = -INFINITY;
        });
    }
    __device__ __forceinline__ void add(uint32_t numbers) {
        for_each_of_rows(numbers, [&](int i, float, float delta) {
            const float gradient = s_[i] * (d_[i] - delta);
            if (__float_as_uint(s_[i]) != 0x80000000u) sums_[i] += gradient;
        });
    }

    __device__ __forceinline__ void store() const {
        if (a_.sums == nullptr) return store_bias<kScores>(a_, tile_, 0, sums_);
        float4 *const to =
            reinterpret_cast<float4 *>(a_.sums) + static_cast<int64_t>(blockIdx.x) * (kScores / 4 * kBiasThreads) + threadIdx.x;
#pragma unroll
        for (int i = 0; i < kScores / 4; ++i)
            to[i * kBiasThreads] = make_float4(sums_[4 * i], sums_[4 * i + 1], sums_[4 * i + 2], sums_[4 * i + 3]);
    }

    const BackwardBiasTask &a_;
    const AttentionParams &f_;
    BiasMembers &members_;
    const uint32_t memory_;
    const BiasTile tile_;
    const int chunks_k_, chunks_;
    float sums_[kScores], s_[kScores], d_[kScores];
};

template <class Element>
__global__ void ATTILE_LAUNCH_BOUNDS(kBiasThreads, 1) attention_backward_bias(const __grid_constant__ BackwardBiasTask a) {
    extern __shared__ __align__(1024) unsigned char memory[];
    BiasSums<Element>(a, memory).run();
}

// Adds up the parts of a tile, in their order: a block has four elements of each thread of the other kernel's.
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
    store_bias<4>(a, BiasTile(a, tile), 4 * first, sums);
}

}  // namespace attile::gpu::mma
