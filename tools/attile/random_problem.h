// SPDX-License-Identifier: Apache-2.0
// A problem drawn from the space that attile.h allows: its shape and options, the id that says both, the work it is, and the data that
// its lengths are. Uses no context.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench_cases.h"

namespace attile::cli {

using bench::Operation;

struct Problem {
    Operation operation = Operation::kGemm;
    int32_t dtype = ATTILE_F32;
    int64_t batch = 1;

    int64_t m = 0, n = 0, k = 0;  // gemm
    bool trans_a = false, trans_b = false;

    // Attention; a merge takes `parts` results of len_q rows. Packed: batch counts sequences, and no length is longer than these.
    int64_t heads_q = 0, heads_kv = 0, len_q = 0, len_k = 0, head_dim = 0, head_dim_v = 0;
    int64_t window = 0;     // Keys before the diagonal.
    int64_t page_size = 0;  // Paged.
    int64_t shown = 0;      // Per cent of the key blocks that a block mask shows each block of rows.
    int64_t parts = 0;

    int64_t rows = 0, columns = 0;  // reduce and softmax

    std::vector<std::string> options;  // In the order of option_names(), each once.

    bool has(const char *option) const;
    bool is_attention() const { return operation == Operation::kAttention || operation == Operation::kAttentionBackward; }
};

const std::vector<Operation> &operations();

// Options that an operation has, in the order in which an id names them.
const std::vector<std::string> &option_names(Operation operation);

// "attention:bf16:b2:h32/8:l512x2048:d128:causal:alibi"
std::string id_of(const Problem &problem);

// The other way. Empty, or the sentence that says what is wrong with the id.
std::string parse_problem(const std::string &id, Problem &problem);

// Empty, or why attile.h does not allow the problem.
std::string why_not(const Problem &problem);

// Rows and keys of one batch entry or packed sequence.
struct Entry {
    int64_t len_q, len_k;
};
// Lengths follow from the id alone, so an id reruns them as well.
std::vector<Entry> entries(const Problem &problem);

// Operations and bytes that nobody can do without: pairs of a row and a key that it sees; every operand once, of keys, values, bias and
// mask only what some row sees.
struct Work {
    double flops = 0, bytes = 0;
};
Work work_of(const Problem &problem);
int64_t element_bytes(int32_t dtype);

// Blocks of a mask along rows or keys, and how many of those along the keys a block of rows is shown.
int64_t mask_blocks(int64_t length);
int64_t shown_blocks(const Problem &problem);

// What a problem is counted under: "rows", "257 to 1024". Keys of a kind are listed by `order`.
struct Group {
    std::string kind, key;
    int64_t order;
};
std::vector<Group> groups_of(const Problem &problem);
constexpr const char *kPlain = "plain";

// Draws problems as users have them: heads, lengths and types of models more often than odd ones, each option as often as another, and
// every third problem without one. The same seed gives the same problems. A device's are larger than a processor's.
class Draw {
  public:
    Draw(Operation operation, uint64_t seed, bool on_device);
    Problem next();

  private:
    uint64_t bits();
    int64_t below(int64_t count);              // 0 to count - 1
    int64_t between(double low, double high);  // A power of two with an exponent in that range, whole.
    bool chance(double share);
    int64_t pick(const std::vector<int64_t> &values) { return values[static_cast<size_t>(below(static_cast<int64_t>(values.size())))]; }
    int32_t dtype();
    Problem attempt();
    void gemm(Problem &p);
    void attention(Problem &p);
    void attention_options(Problem &p);
    void merge(Problem &p);
    void rows(Problem &p);

    const Operation operation_;
    const bool on_device_;
    uint64_t state_;
};

}  // namespace attile::cli
