// SPDX-License-Identifier: Apache-2.0
// The list of things worth timing, and a case made ready to run on a context. One list serves the Google Benchmark program, `attile bench`
// and `attile explain`, which describes a case of its own.
#pragma once

#include <attile/attile.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace attile::bench {

enum class Operation { kGemm, kGemmGrouped, kAttention, kAttentionBackward, kAttentionMerge, kReduce, kSoftmax };

// Tiny: a fraction of a second even by plain loops. Medium: for a CPU. Large: for a GPU.
enum class Size { kTiny, kMedium, kLarge };

struct BenchCase {
    std::string id;  // "gemm/f32/1024x1024x1024", fit for a regular expression and a file name's part
    Operation operation = Operation::kGemm;
    Size size = Size::kMedium;
    int32_t dtype = ATTILE_F32;
    int64_t batch = 1;

    // gemm: op(A) is m x k, op(B) k x n, both stored row-major before op.
    int64_t m = 0, n = 0, k = 0;
    bool trans_a = false, trans_b = false;
    int32_t b_dtype = 0;      // of B, if it is not that of A: numbers of 8 bits
    int64_t scale_group = 0;  // numbers along K of a column that share a scale of B; 0: no scales
    bool exact = false;       // EXACT_PRODUCTS
    bool fast = false;        // FAST_ACCUMULATION
    // Grouped: m rows in all. Groups have from least_rows to most_rows, evenly spread and mixed.
    int64_t groups = 0, least_rows = 0, most_rows = 0;

    int64_t rows_of(int64_t group) const;

    // Attention; a merge takes `parts` results of len_q rows.
    int64_t heads_q = 0, heads_kv = 0, len_q = 0, len_k = 0, head_dim = 0;
    int32_t mask = ATTILE_MASK_NONE;
    int64_t parts = 0;
    int32_t k_dtype = 0, v_dtype = 0;  // if it is not that of q; of 8 bits: with a scale for each token and head, of 4 for 32 numbers
                                       // or beside q of 8 bits, which has o in bf16, for each head

    // Reduce and softmax of rows x columns; reduce takes the columns together, or the rows.
    int64_t rows = 0, columns = 0;
    bool over_rows = false;

    bool memory_bound = false;  // Its rate is told in bytes, not in operations.
};

// Every case, in the order of the operations, smaller ones first.
std::vector<BenchCase> bench_cases();

// Ids as bench_cases() gives them, for cases made elsewhere.
BenchCase gemm_case(Size size, int32_t dtype, int64_t m, int64_t n, int64_t k, int64_t batch = 1, bool trans_a = false,
                    bool trans_b = false);
// Weights of 8 bits, stored as [N, K], and a scale for each `group` of a row; as a's type does or with operands alike.
BenchCase quantised_case(Size size, int32_t dtype, int32_t b_dtype, int64_t m, int64_t n, int64_t k, int64_t group);
// Groups of rows, each with its own weights, stored as [N, K].
BenchCase gemm_grouped_case(Size size, int32_t dtype, int64_t groups, int64_t least_rows, int64_t most_rows, int64_t n, int64_t k);
// 8-bit floats both, with scales of columns and FAST_ACCUMULATION.
BenchCase fast_case(Size size, int64_t m, int64_t n, int64_t k);
BenchCase exact(BenchCase one);  // the same with EXACT_PRODUCTS
BenchCase attention_case(Size size, int32_t dtype, int64_t batch, int64_t heads_q, int64_t heads_kv, int64_t len_q, int64_t len_k,
                         int64_t head_dim, int32_t mask = ATTILE_MASK_NONE);
// Attention over a cache of other types than q's.
BenchCase cached_case(Size size, int32_t dtype, int32_t k_dtype, int32_t v_dtype, int64_t batch, int64_t heads_q, int64_t heads_kv,
                      int64_t len_q, int64_t len_k, int64_t head_dim, int32_t mask = ATTILE_MASK_NONE);
// q, k and v of e4m3 or i8, with FAST_ACCUMULATION.
BenchCase fast_attention_case(Size size, int32_t dtype, int64_t batch, int64_t heads_q, int64_t heads_kv, int64_t len_q, int64_t len_k,
                              int64_t head_dim, int32_t mask = ATTILE_MASK_NONE);
BenchCase attention_backward_case(Size size, int32_t dtype, int64_t batch, int64_t heads, int64_t len, int64_t head_dim, int32_t mask);
BenchCase attention_merge_case(Size size, int32_t dtype, int64_t batch, int64_t heads, int64_t len, int64_t head_dim, int64_t parts);
BenchCase reduce_case(Size size, int32_t dtype, int64_t rows, int64_t columns, bool over_rows);
BenchCase softmax_case(Size size, int32_t dtype, int64_t rows, int64_t columns);

std::string_view operation_name(Operation operation);
std::string_view size_name(Size size);
std::string_view dtype_name(int32_t dtype);

// A case with its arguments, and with memory of its own after allocate(). The status of the failed call is returned everywhere; its
// sentence is in attile_last_error().
class BenchRun {
  public:
    BenchRun(attile_context *context, const BenchCase &bench_case);
    ~BenchRun();
    BenchRun(const BenchRun &) = delete;
    BenchRun &operator=(const BenchRun &) = delete;

    int32_t query(attile_support &support);  // Needs no memory.
    int32_t allocate(int32_t memory_kind);   // Allocates every tensor and fills the inputs with seeded random values.
    int32_t run();                           // Asynchronous on a device: follow with attile_synchronize(context, nullptr).

    // What allocate() will ask for.
    int64_t bytes() const;

    // The arguments, of a case of that operation; else NULL.
    const attile_attention_args *attention() const { return std::get_if<attile_attention_args>(&args_); }
    const attile_attention_backward_args *attention_backward() const { return std::get_if<attile_attention_backward_args>(&args_); }

  private:
    struct Operand {
        attile_tensor *tensor;
        bool input;
    };
    using Args = std::variant<attile_gemm_args, attile_gemm_grouped_args, attile_attention_args, attile_attention_backward_args,
                              attile_attention_merge_args, attile_reduce_args, attile_softmax_args>;

    void add(attile_tensor &tensor, int32_t dtype, std::initializer_list<int64_t> shape, bool input);
    void describe_gemm();
    void describe_gemm_grouped();
    int32_t give_offsets(const attile_tensor &offsets);
    void describe_attention(attile_attention_args &args);
    void add_cache(attile_tensor &tensor, attile_tensor &scale, int32_t dtype);
    void describe_attention_backward();
    void describe_attention_merge();
    void describe_rows();
    int32_t fill(const attile_tensor &tensor, uint64_t seed);

    attile_context *context_;
    const BenchCase case_;
    Args args_;
    attile_attention_args forward_;  // What a backward case refers to.
    std::vector<attile_tensor> part_o_, part_lse_;
    std::vector<Operand> operands_;
    std::vector<void *> memory_;
    int32_t status_ = ATTILE_OK;  // Of the description.
};

}  // namespace attile::bench
