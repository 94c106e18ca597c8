// SPDX-License-Identifier: Apache-2.0
// Attention of a sequence whose rows a zigzag ring has cut into chunks, by the public calls on one device.
#ifndef ATTILE_BENCH_RING_PROBLEM_H
#define ATTILE_BENCH_RING_PROBLEM_H

#include <attile/attile.h>

#include <cstdint>
#include <string>
#include <vector>

namespace attile::bench {

// Of results in bf16, beside a largest entry of about 1.
constexpr double kMostOff = 0.03;

// Of a rank's two chunks.
struct ChunkRange {
    int begin, end;
};

// A local call: chunks of a rank's rows against chunks of an owner's keys.
struct Meeting {
    int rank;
    ChunkRange rows;
    int owner;
    ChunkRange keys;
    bool causal;
};

// Throws std::runtime_error where the library refuses.
class RingProblem {
  public:
    RingProblem(int ranks, std::int64_t rows, std::int64_t heads, std::int64_t head_dim);
    ~RingProblem();
    RingProblem(const RingProblem &) = delete;
    RingProblem &operator=(const RingProblem &) = delete;

    const std::string &device() const { return device_; }
    void synchronize();
    void whole_forward(bool causal);
    void whole_backward(bool causal);
    // Gives the ranks the rows of o and lse that whole_forward() made.
    void take_whole_results();
    // `calls`: the local calls; `merges`: what puts their results together.
    void ring_forward(const std::vector<Meeting> &meetings, bool calls, bool merges);
    void ring_backward(const std::vector<Meeting> &meetings, bool calls, bool merges);
    // The largest distance of the ranks' results from those of the whole.
    double difference(bool backward);

  private:
    // Memory of all ranks' shards after each other, or of the whole.
    struct Rows {
        void *memory = nullptr;
        std::int32_t dtype = ATTILE_BF16;
        bool heads_first = false;  // of each shard [heads, rows, width] instead of [rows, heads, width]
        std::int64_t width = 0;
    };
    // Sums that change places: of each chunk, in which of three slots it is; -1: not begun.
    struct Sums {
        Rows slots[3];
        std::vector<int> at;
        int part = 0;  // the slot of the latest call's
    };

    Rows make(std::int32_t dtype, std::int64_t width, bool heads_first, std::int64_t shards);
    void *allocate(std::int64_t bytes);
    attile_tensor shard(const Rows &rows, int rank, ChunkRange chunks) const;
    attile_tensor lines(const Rows &rows, int rank, ChunkRange chunks) const;
    attile_tensor whole(const Rows &rows) const;
    void fill(Rows *whole, Rows *shards, unsigned seed);
    void copy_to_shards(const Rows &whole, const Rows &shards);
    std::int64_t row_bytes(const Rows &rows) const;
    void merge(const attile_tensor *o, const attile_tensor *lse, std::int64_t parts, const attile_tensor &to, const attile_tensor &to_lse);
    void convert(const Sums &sums, const Rows &to);
    attile_tensor place(Sums &sums, int rank, ChunkRange chunks) const;
    void add(Sums &sums, int rank, ChunkRange chunks, bool run);
    double largest_difference(const Rows &whole, const Rows &shards);

    const int ranks_;
    const std::int64_t rows_, heads_, head_dim_;
    std::string device_;
    attile_context *context_ = nullptr;
    std::vector<void *> allocated_;
    Rows q_, k_, v_, o_, dout_, dq_, dk_, dv_, lse_;                    // of the whole sequence
    Rows q_s_, k_s_, v_s_, o_s_, dout_s_, dq_s_, dk_s_, dv_s_, lse_s_;  // of the ranks
    Rows partial_o_, next_o_, partial_lse_, next_lse_;                  // of one rank at a time
    Rows zero_;
    Sums dq_sums_, dk_sums_, dv_sums_;
};

}  // namespace attile::bench

#endif
