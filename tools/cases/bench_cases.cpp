// SPDX-License-Identifier: Apache-2.0
// The list of things worth timing. A row earns its place by telling something that no other row tells.
#include "bench_cases.h"

namespace attile::bench {
namespace {

std::string extents(std::initializer_list<int64_t> values) {
    std::string result;
    for (int64_t value : values) result += (result.empty() ? "" : "x") + std::to_string(value);
    return result;
}

std::string id(std::string_view operation, int32_t dtype, const std::string &rest) {
    return std::string(operation) + "/" + std::string(dtype_name(dtype)) + "/" + rest;
}

std::string mask_suffix(int32_t mask) { return mask == ATTILE_MASK_NONE ? "" : "/causal"; }

void add_gemm(std::vector<BenchCase> &cases) {
    constexpr int32_t f32 = ATTILE_F32, f64 = ATTILE_F64, f16 = ATTILE_F16, bf16 = ATTILE_BF16;
    cases.push_back(gemm_case(Size::kTiny, f32, 1, 1, 1));  // What a call costs.
    cases.push_back(gemm_case(Size::kTiny, f32, 64, 64, 64));
    cases.push_back(gemm_case(Size::kTiny, f32, 128, 128, 128));
    cases.push_back(gemm_case(Size::kTiny, f64, 128, 128, 128));
    for (int64_t n : {256, 512, 1024, 2048}) cases.push_back(gemm_case(Size::kMedium, f32, n, n, n));
    cases.push_back(gemm_case(Size::kMedium, f32, 1000, 1001, 999));                   // Nothing divides anything.
    cases.push_back(gemm_case(Size::kMedium, f32, 1024, 1024, 1024, 1, true, false));  // Transposed.
    cases.push_back(gemm_case(Size::kMedium, f32, 1024, 1024, 1024, 1, false, true));
    cases.push_back(gemm_case(Size::kMedium, f32, 1, 4096, 4096, 1, false, true));   // One row: bound by reading B.
    cases.push_back(gemm_case(Size::kMedium, f32, 16, 4096, 1024, 1, false, true));  // A few rows.
    cases.push_back(gemm_case(Size::kMedium, f32, 64, 64, 65536));                   // The sum is all there is.
    cases.push_back(gemm_case(Size::kMedium, f32, 64, 64, 64, 512));                 // Many small ones.
    cases.push_back(gemm_case(Size::kMedium, f64, 1024, 1024, 1024));
    cases.push_back(gemm_case(Size::kMedium, f16, 1024, 1024, 1024));
    cases.push_back(gemm_case(Size::kMedium, bf16, 1024, 1024, 1024));
    for (int64_t m : {1, 4, 16}) cases.push_back(quantised_case(Size::kMedium, f32, ATTILE_I8, m, 4096, 4096, 32));
    cases.push_back(quantised_case(Size::kMedium, bf16, ATTILE_F8_E4M3, 1, 4096, 4096, 4096));
    cases.push_back(quantised_case(Size::kMedium, f32, ATTILE_I8, 1024, 1024, 1024, 32));
    cases.push_back(quantised_case(Size::kMedium, ATTILE_I8, ATTILE_I8, 1024, 1024, 1024, 0));
    cases.push_back(quantised_case(Size::kMedium, ATTILE_F8_E4M3, ATTILE_F8_E4M3, 1024, 1024, 1024, 128));
    cases.push_back(fast_case(Size::kMedium, 1024, 1024, 1024));
    for (int32_t dtype : {f64, f32}) cases.push_back(exact(gemm_case(Size::kMedium, dtype, 1024, 1024, 1024)));
    for (int64_t n : {1024, 4096, 8192}) cases.push_back(gemm_case(Size::kLarge, f32, n, n, n));
    cases.push_back(gemm_case(Size::kLarge, f32, 4095, 4097, 4093));
    cases.push_back(gemm_case(Size::kLarge, f32, 4096, 4096, 4096, 1, true, false));
    cases.push_back(gemm_case(Size::kLarge, f32, 4096, 4096, 4096, 1, false, true));
    cases.push_back(gemm_case(Size::kLarge, f32, 1, 8192, 8192, 1, false, true));
    cases.push_back(gemm_case(Size::kLarge, f32, 16, 8192, 8192, 1, false, true));
    cases.push_back(gemm_case(Size::kLarge, f32, 256, 256, 262144));
    cases.push_back(gemm_case(Size::kLarge, f32, 128, 128, 128, 2048));
    cases.push_back(gemm_case(Size::kLarge, f64, 4096, 4096, 4096));
    cases.push_back(gemm_case(Size::kLarge, f16, 4096, 4096, 4096));
    cases.push_back(gemm_case(Size::kLarge, bf16, 4096, 4096, 4096));

    // Each beside one product of as many rows.
    const auto add_groups = [&](const BenchCase &grouped) {
        cases.push_back(grouped);
        cases.push_back(gemm_case(grouped.size, grouped.dtype, grouped.m, grouped.n, grouped.k, 1, false, true));
    };
    cases.push_back(gemm_grouped_case(Size::kTiny, f32, 4, 1, 32, 64, 64));
    for (const int32_t dtype : {f32, bf16}) add_groups(gemm_grouped_case(Size::kMedium, dtype, 8, 32, 128, 1024, 1024));
    cases.push_back(gemm_grouped_case(Size::kMedium, bf16, 64, 0, 2, 1024, 1024));  // Few rows each: bound by reading B.
    add_groups(gemm_grouped_case(Size::kLarge, f32, 16, 128, 512, 4096, 4096));
    add_groups(gemm_grouped_case(Size::kLarge, bf16, 64, 128, 512, 4096, 4096));
    cases.push_back(gemm_grouped_case(Size::kLarge, bf16, 64, 0, 2, 4096, 4096));
}

void add_attention(std::vector<BenchCase> &cases) {
    constexpr int32_t f32 = ATTILE_F32, f64 = ATTILE_F64, f16 = ATTILE_F16, bf16 = ATTILE_BF16, causal = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    cases.push_back(attention_case(Size::kTiny, f32, 1, 2, 2, 128, 128, 64));
    cases.push_back(attention_case(Size::kTiny, f32, 1, 2, 2, 128, 128, 64, causal));
    cases.push_back(attention_case(Size::kMedium, f32, 1, 8, 8, 512, 512, 64));
    cases.push_back(attention_case(Size::kMedium, f32, 1, 8, 8, 2048, 2048, 64));
    cases.push_back(attention_case(Size::kMedium, f32, 1, 8, 8, 2048, 2048, 64, causal));
    cases.push_back(attention_case(Size::kMedium, f32, 1, 8, 2, 1024, 1024, 128, causal));  // Grouped queries.
    cases.push_back(attention_case(Size::kMedium, f32, 16, 8, 8, 128, 128, 32));            // Many short ones.
    cases.push_back(attention_case(Size::kMedium, f64, 1, 8, 8, 512, 512, 64));
    cases.push_back(attention_case(Size::kMedium, f16, 1, 8, 8, 1024, 1024, 64, causal));
    cases.push_back(attention_case(Size::kMedium, bf16, 1, 8, 8, 1024, 1024, 64, causal));
    for (int64_t len : {1024, 4096, 16384}) cases.push_back(attention_case(Size::kLarge, f32, 1, 16, 16, len, len, 64));
    cases.push_back(attention_case(Size::kLarge, f32, 1, 16, 16, 4096, 4096, 64, causal));
    cases.push_back(attention_case(Size::kLarge, f32, 1, 16, 16, 4096, 4096, 128));
    cases.push_back(attention_case(Size::kLarge, f32, 1, 32, 8, 4096, 4096, 128, causal));
    cases.push_back(attention_case(Size::kLarge, f32, 64, 16, 16, 256, 256, 64));
    cases.push_back(attention_case(Size::kLarge, f32, 1, 16, 16, 2048, 2048, 256));
    cases.push_back(attention_case(Size::kLarge, f16, 1, 16, 16, 4096, 4096, 128, causal));
    cases.push_back(attention_case(Size::kLarge, bf16, 1, 16, 16, 4096, 4096, 128, causal));
    for (const int32_t dtype : {ATTILE_F8_E4M3, ATTILE_I8}) {
        cases.push_back(fast_attention_case(Size::kMedium, dtype, 1, 8, 8, 1024, 1024, 64, causal));
        cases.push_back(fast_attention_case(Size::kLarge, dtype, 1, 16, 16, 4096, 4096, 128));
        cases.push_back(fast_attention_case(Size::kLarge, dtype, 1, 16, 16, 4096, 4096, 128, causal));
    }
    for (const int64_t head_dim : {64, 128}) cases.push_back(attention_case(Size::kLarge, ATTILE_I8, 1, 16, 16, 4096, 4096, head_dim));

    // Decode: one row per sequence against its cache of keys.
    cases.push_back(attention_case(Size::kTiny, f32, 1, 8, 2, 1, 512, 64));
    cases.push_back(attention_case(Size::kMedium, f32, 1, 32, 8, 1, 4096, 128));
    cases.push_back(attention_case(Size::kMedium, f32, 8, 8, 8, 1, 2048, 64));
    cases.push_back(attention_case(Size::kMedium, bf16, 1, 32, 8, 1, 4096, 128));
    cases.push_back(attention_case(Size::kLarge, f32, 1, 32, 8, 1, 32768, 128));
    cases.push_back(attention_case(Size::kLarge, f32, 32, 32, 8, 1, 4096, 128));
    cases.push_back(attention_case(Size::kLarge, f16, 32, 32, 8, 1, 4096, 128));
    cases.push_back(attention_case(Size::kLarge, bf16, 1, 32, 8, 1, 32768, 128));
    for (const int32_t cache : {ATTILE_BF16, ATTILE_I8, ATTILE_I4, ATTILE_F8_E4M3}) {
        cases.push_back(cached_case(Size::kMedium, f32, cache, cache, 1, 32, 8, 1, 4096, 128));
        cases.push_back(cached_case(Size::kLarge, f32, cache, cache, 1, 32, 8, 1, 32768, 128));
    }
    for (const int32_t cache : {ATTILE_I8, ATTILE_I4})
        cases.push_back(cached_case(Size::kMedium, bf16, cache, cache, 1, 32, 8, 1, 4096, 128));

    cases.push_back(attention_backward_case(Size::kTiny, f32, 1, 2, 64, 64, causal));
    cases.push_back(attention_backward_case(Size::kMedium, f32, 1, 8, 512, 64, causal));
    cases.push_back(attention_backward_case(Size::kLarge, f32, 1, 16, 4096, 64, causal));
    cases.push_back(attention_backward_case(Size::kLarge, f32, 1, 16, 4096, 128, ATTILE_MASK_NONE));

    cases.push_back(attention_merge_case(Size::kTiny, f32, 1, 8, 16, 64, 4));
    cases.push_back(attention_merge_case(Size::kMedium, f32, 1, 8, 2048, 64, 4));
    cases.push_back(attention_merge_case(Size::kLarge, f32, 1, 32, 8192, 128, 4));
}

void add_rows(std::vector<BenchCase> &cases) {
    constexpr int32_t f32 = ATTILE_F32;
    cases.push_back(reduce_case(Size::kTiny, f32, 128, 512, false));
    cases.push_back(reduce_case(Size::kMedium, f32, 4096, 1024, false));
    cases.push_back(reduce_case(Size::kMedium, f32, 4096, 1024, true));
    cases.push_back(reduce_case(Size::kMedium, f32, 1, 1 << 22, false));  // One long row.
    cases.push_back(reduce_case(Size::kMedium, ATTILE_BF16, 4096, 1024, false));
    cases.push_back(reduce_case(Size::kLarge, f32, 65536, 4096, false));
    cases.push_back(reduce_case(Size::kLarge, f32, 65536, 4096, true));
    cases.push_back(reduce_case(Size::kLarge, f32, 1, 1 << 28, false));
    cases.push_back(softmax_case(Size::kTiny, f32, 128, 512));
    cases.push_back(softmax_case(Size::kMedium, f32, 4096, 1024));
    cases.push_back(softmax_case(Size::kMedium, f32, 128, 32768));
    cases.push_back(softmax_case(Size::kMedium, ATTILE_BF16, 4096, 1024));
    cases.push_back(softmax_case(Size::kLarge, f32, 65536, 1024));
    cases.push_back(softmax_case(Size::kLarge, f32, 1024, 131072));
}

}  // namespace

std::string_view operation_name(Operation operation) {
    switch (operation) {
        case Operation::kGemm:
            return "gemm";
        case Operation::kGemmGrouped:
            return "gemm_grouped";
        case Operation::kAttention:
            return "attention";
        case Operation::kAttentionBackward:
            return "attention_backward";
        case Operation::kAttentionMerge:
            return "attention_merge";
        case Operation::kReduce:
            return "reduce";
        case Operation::kSoftmax:
            return "softmax";
    }
    return "";
}

std::string_view size_name(Size size) { return size == Size::kTiny ? "tiny" : size == Size::kMedium ? "medium" : "large"; }

std::string_view dtype_name(int32_t dtype) {
    switch (dtype) {
        case ATTILE_F32:
            return "f32";
        case ATTILE_F64:
            return "f64";
        case ATTILE_F16:
            return "f16";
        case ATTILE_BF16:
            return "bf16";
        case ATTILE_I8:
            return "i8";
        case ATTILE_F8_E4M3:
            return "e4m3";
        case ATTILE_F8_E5M2:
            return "e5m2";
        case ATTILE_I4:
            return "i4";
        case ATTILE_U4:
            return "u4";
        default:
            return "other";
    }
}

BenchCase gemm_case(Size size, int32_t dtype, int64_t m, int64_t n, int64_t k, int64_t batch, bool trans_a, bool trans_b) {
    BenchCase result;
    result.operation = Operation::kGemm;
    result.size = size;
    result.dtype = dtype;
    result.batch = batch;
    result.m = m, result.n = n, result.k = k;
    result.trans_a = trans_a, result.trans_b = trans_b;
    const std::string letters = trans_a || trans_b ? std::string("/") + (trans_a ? "T" : "N") + (trans_b ? "T" : "N") : "";
    result.id = id("gemm", dtype, (batch > 1 ? "b" + std::to_string(batch) + "_" : "") + extents({m, n, k}) + letters);
    result.memory_bound = m == 1 && n > 1;
    return result;
}

BenchCase quantised_case(Size size, int32_t dtype, int32_t b_dtype, int64_t m, int64_t n, int64_t k, int64_t group) {
    BenchCase result = gemm_case(size, dtype, m, n, k, 1, false, true);
    result.b_dtype = b_dtype;
    result.scale_group = group;
    const std::string types = std::string(dtype_name(dtype)) + (b_dtype == dtype ? "" : "_" + std::string(dtype_name(b_dtype)));
    result.id = "gemm/" + types + "/" + extents({m, n, k}) + (group == 0 ? "" : group == k ? "_columns" : "_g" + std::to_string(group));
    return result;
}

int64_t BenchCase::rows_of(int64_t group) const {
    constexpr int64_t kStride = 37;  // Neighbours differ; divides no usual number of groups.
    const int64_t place = group * kStride % groups;
    return groups > 1 ? least_rows + (most_rows - least_rows) * place / (groups - 1) : most_rows;
}

BenchCase gemm_grouped_case(Size size, int32_t dtype, int64_t groups, int64_t least_rows, int64_t most_rows, int64_t n, int64_t k) {
    BenchCase result = gemm_case(size, dtype, 0, n, k, 1, false, true);
    result.operation = Operation::kGemmGrouped;
    result.groups = groups;
    result.least_rows = least_rows;
    result.most_rows = most_rows;
    for (int64_t group = 0; group < groups; ++group) result.m += result.rows_of(group);
    result.id = id("gemm_grouped", dtype, "g" + std::to_string(groups) + "_" + extents({result.m, n, k}));
    result.memory_bound = result.m <= 4 * groups;
    return result;
}

BenchCase fast_case(Size size, int64_t m, int64_t n, int64_t k) {
    BenchCase result = quantised_case(size, ATTILE_F8_E4M3, ATTILE_F8_E4M3, m, n, k, k);
    result.fast = true;
    result.id += "_fast";
    return result;
}

BenchCase exact(BenchCase one) {
    one.exact = true;
    one.id += "_exact";
    return one;
}

BenchCase attention_case(Size size, int32_t dtype, int64_t batch, int64_t heads_q, int64_t heads_kv, int64_t len_q, int64_t len_k,
                         int64_t head_dim, int32_t mask) {
    BenchCase result;
    result.operation = Operation::kAttention;
    result.size = size;
    result.dtype = dtype;
    result.batch = batch;
    result.heads_q = heads_q, result.heads_kv = heads_kv;
    result.len_q = len_q, result.len_k = len_k, result.head_dim = head_dim;
    result.mask = mask;
    const bool decode = len_q == 1 && len_k > 1;
    const std::string heads = std::to_string(heads_q) + (heads_kv == heads_q ? "" : "g" + std::to_string(heads_kv));
    const std::string lengths = len_q == len_k ? std::to_string(len_q) : std::to_string(len_q) + "x" + std::to_string(len_k);
    result.id = id(decode ? "decode" : "attention", dtype,
                   "b" + std::to_string(batch) + "_h" + heads + "_l" + lengths + "_d" + std::to_string(head_dim) + mask_suffix(mask));
    result.memory_bound = decode;
    return result;
}

BenchCase cached_case(Size size, int32_t dtype, int32_t k_dtype, int32_t v_dtype, int64_t batch, int64_t heads_q, int64_t heads_kv,
                      int64_t len_q, int64_t len_k, int64_t head_dim, int32_t mask) {
    BenchCase result = attention_case(size, dtype, batch, heads_q, heads_kv, len_q, len_k, head_dim, mask);
    result.k_dtype = k_dtype, result.v_dtype = v_dtype;
    const std::string k = "_" + std::string(dtype_name(k_dtype)), v = k_dtype == v_dtype ? "" : "_" + std::string(dtype_name(v_dtype));
    if (k_dtype != dtype || v_dtype != dtype) result.id.insert(result.id.find('/', result.id.find('/') + 1), k + v);  // behind q's type
    return result;
}

BenchCase fast_attention_case(Size size, int32_t dtype, int64_t batch, int64_t heads_q, int64_t heads_kv, int64_t len_q, int64_t len_k,
                              int64_t head_dim, int32_t mask) {
    BenchCase result = attention_case(size, dtype, batch, heads_q, heads_kv, len_q, len_k, head_dim, mask);
    result.fast = true;
    result.id += "_fast";
    return result;
}

BenchCase attention_backward_case(Size size, int32_t dtype, int64_t batch, int64_t heads, int64_t len, int64_t head_dim, int32_t mask) {
    BenchCase result = attention_case(size, dtype, batch, heads, heads, len, len, head_dim, mask);
    result.operation = Operation::kAttentionBackward;
    result.id.replace(0, result.id.find('/'), "attention_backward");
    result.memory_bound = false;
    return result;
}

BenchCase attention_merge_case(Size size, int32_t dtype, int64_t batch, int64_t heads, int64_t len, int64_t head_dim, int64_t parts) {
    BenchCase result = attention_case(size, dtype, batch, heads, heads, len, len, head_dim);
    result.operation = Operation::kAttentionMerge;
    result.parts = parts;
    result.id.replace(0, result.id.find('/'), "attention_merge");
    result.id += "/" + std::to_string(parts) + "_parts";
    result.memory_bound = true;
    return result;
}

BenchCase reduce_case(Size size, int32_t dtype, int64_t rows, int64_t columns, bool over_rows) {
    BenchCase result;
    result.operation = Operation::kReduce;
    result.size = size;
    result.dtype = dtype;
    result.rows = rows, result.columns = columns;
    result.over_rows = over_rows;
    result.id = id("reduce", dtype, extents({rows, columns}) + (over_rows ? "/over_rows" : ""));
    result.memory_bound = true;
    return result;
}

BenchCase softmax_case(Size size, int32_t dtype, int64_t rows, int64_t columns) {
    BenchCase result = reduce_case(size, dtype, rows, columns, false);
    result.operation = Operation::kSoftmax;
    result.id.replace(0, result.id.find('/'), "softmax");
    return result;
}

std::vector<BenchCase> bench_cases() {
    std::vector<BenchCase> cases;
    add_gemm(cases);
    add_attention(cases);
    add_rows(cases);
    return cases;
}

}  // namespace attile::bench
