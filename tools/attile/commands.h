// SPDX-License-Identifier: Apache-2.0
// The subcommands: what main.cpp parses into, and what it calls. Each returns the exit code and throws Failure with the sentence to print.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace attile::cli {

// --ranks: not at all, on so many threads, or with 0 on the ranks of MPI.
struct RanksChoice {
    bool wanted = false;
    int threads = 0;
};

struct InfoOptions {
    std::string backend;
};
int run_info(const InfoOptions &options);

struct AttentionOptions {
    std::string input, output;
    std::string backend;
    bool causal = false;
    int threads = 0;
    uint64_t memory = uint64_t{1} << 30;  // Bytes of batches held at a time; with ranks, on each.
    RanksChoice ranks;
};
int run_attention(const AttentionOptions &options);
int run_attention_on_ranks(const AttentionOptions &options);

struct GenerateOptions {
    std::string output;
    int64_t batch = 0, len = 0, head_dim = 0;
    uint64_t seed = 1;
};
int run_generate(const GenerateOptions &options);

struct VerifyOptions {
    std::string backend;
    std::string case_id;
    std::string filter;
    std::string memory = "host";  // Where the operands lie.
    bool full = false;
    bool fail_fast = false;
    bool list = false;
    int threads = 0;
    RanksChoice ranks;
};
int run_verify(const VerifyOptions &options);
int run_verify_on_ranks(const VerifyOptions &options);

struct BenchOptions {
    std::string backend;
    std::string filter;
    std::string json;
    std::string size;    // Empty: what suits the device.
    double seconds = 1;  // Most a case may take.
    int threads = 0;
    bool list = false;
    bool exact = false;  // Each case that EXACT_PRODUCTS serves, without the flag and with it.
    bool peers = true;   // Compare with other libraries as well, where that program is.
    RanksChoice ranks;

    // Drawn problems instead of the cases: seconds an operation; 0: none. Or problems by their ids.
    double random = 0;
    uint64_t seed = 1;
    std::string operation;  // Empty: each.
    int64_t count = 0;      // Most problems of an operation; 0: as many as the seconds allow.
    std::vector<std::string> problems;
    std::vector<std::string> peaks;  // "bf16=800e12"
};
int run_bench(const BenchOptions &options);
int run_random(const BenchOptions &options);
int run_bench_on_ranks(const BenchOptions &options);

struct ExplainOptions {
    std::string operation;
    std::vector<int64_t> shape;
    std::string backend;
    std::string dtype = "f32";
    std::string b_dtype;           // of gemm: empty, as dtype
    std::string k_dtype, v_dtype;  // of attention, likewise
    bool exact = false;            // of gemm
    bool fast = false;             // of gemm and attention: FAST_ACCUMULATION
    int64_t batch = 1;
    int64_t heads_kv = 0;  // 0: as many as there are query heads.
    int64_t len_k = 0;     // 0: as many as rows.
    bool causal = false;
    double peak_flops = 0;  // 0: the device's.
    double bandwidth = 0;   // 0: the device's.
    int threads = 0;
    int64_t ranks = 0;  // 0: none.
    double link = 0;    // Bytes a second.
};
int run_explain(const ExplainOptions &options);

// attile explain occupancy, roofline and tiling: the same arithmetic, of numbers that the user gives.
struct OccupancyOptions {
    int64_t threads = 0;    // A block.
    int64_t registers = 0;  // A thread; 0: not given, as below.
    uint64_t shared = 0;    // A block, in bytes.
    std::string capability;
    int64_t unit_threads = 0, unit_blocks = 0;  // 0: the capability's, or no limit.
    uint64_t unit_registers = 0, unit_shared = 0;
};
int run_occupancy(const OccupancyOptions &options);

struct RooflineOptions {
    double flops = 0, bytes = 0;
    double peak_flops = 0, bandwidth = 0;  // 0: those of the backend's device.
    std::string backend;
};
int run_roofline(const RooflineOptions &options);

struct TilingOptions {
    int64_t m = 0, n = 0, k = 0;  // 0: as n.
    std::vector<int64_t> tile;    // One or two extents.
    int64_t element_bytes = 4;
    double peak_flops = 0, bandwidth = 0;  // 0: not reckoned with.
};
int run_tiling(const TilingOptions &options);

}  // namespace attile::cli
