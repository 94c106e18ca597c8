// SPDX-License-Identifier: Apache-2.0
#include "attention/simt/run_plan.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "attention/run.h"
#include "attention/simt/decode_params.h"
#include "host/sizes.h"
#include "host/status.h"

namespace attile::gpu::simt {
namespace {

// A number that no other call has and that chance does not leave in a workspace: one after the other from somewhere.
unsigned long long next_call() {
    static const char place = 0;
    static std::atomic<uint64_t> next{static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) *
                                          0x9e3779b97f4a7c15 ^
                                      reinterpret_cast<uintptr_t>(&place) * 0xbf58476d1ce4e5b9};
    // Odd above the count's bits: all numbers come before the first again.
    constexpr uint64_t kStep = uint64_t{0x2545f4914f6cdd1d} << DecodeParams::kCountBits;
    constexpr uint64_t kCount = (uint64_t{1} << DecodeParams::kCountBits) - 1;
    uint64_t call = next.fetch_add(kStep, std::memory_order_relaxed) & ~kCount;
    if (call == 0) call = next.fetch_add(kStep, std::memory_order_relaxed) & ~kCount;
    return call;
}

}  // namespace

int32_t run_plan(Device &device, const attile_attention_problem &p, const AttentionPlan &plan, Workspace workspace, Stream stream) {
    if (plan.path == AttentionPath::kNothing) return ATTILE_OK;
    DecodeParams params;  // Other kernels take what it begins with.
    static_cast<AttentionParams &>(params) = attention_params(p, plan);
    float *copy_k = nullptr, *copy_v = nullptr;
    if (plan.convert) {
        copy_k = workspace.take<float>(plan.convert_k);
        copy_v = workspace.take<float>(plan.convert_v);
        if (copy_k == nullptr || copy_v == nullptr) return fail(ATTILE_ERROR_INTERNAL, "attention: the workspace is smaller than planned");
    }
    if (plan.splits > 1) {
        params.part_o = workspace.take<float>(plan.part_rows * p.head_dim_v);
        params.part_lse = workspace.take<float>(plan.part_rows);
        const int64_t sums = attention_part_sums(p, plan);
        if (sums > 0) params.part_sum = workspace.take<float>(sums);
        if (params.part_o == nullptr || params.part_lse == nullptr || (sums > 0 && params.part_sum == nullptr))
            return fail(ATTILE_ERROR_INTERNAL, "attention: the workspace is smaller than planned");
        const auto move_back = [](float *x, int64_t floats) {
            return reinterpret_cast<float *>(reinterpret_cast<uintptr_t>(x) - 4 * floats);
        };
        params.part_o = move_back(params.part_o, plan.first_part * p.head_dim_v);
        params.part_lse = move_back(params.part_lse, plan.first_part);
        if (sums > 0) params.part_sum = move_back(params.part_sum, plan.first_part);
    }
    if (plan.merges) {
        params.counts = workspace.take<unsigned long long>(plan.arrivals);
        params.call = next_call();
        if (params.counts == nullptr) return fail(ATTILE_ERROR_INTERNAL, "attention: the workspace is smaller than planned");
    }
    const int64_t heads = p.batch * p.heads_q / plan.pack, per_kv = p.heads_q / plan.pack / p.heads_kv;
    for (int64_t first = 0; first < heads; first += plan.slice) {
        const int64_t count = std::min(plan.slice, heads - first);
        if (plan.convert && (first == 0 || !is_present(p.cu_len_k))) {
            const bool packed = is_present(p.cu_len_k);
            DenseCut cut = {p.heads_kv,     packed ? p.total_k : p.len_k,
                            p.head_dim,     plan.depth,
                            first / per_kv, count / per_kv,
                            packed,         is_present(p.block_table) ? &p : nullptr};
            cut.scales = params.k_scale;
            int32_t status = attention_densify(device, p.k, cut, copy_k, params.k, stream);
            cut.cols = p.head_dim_v;
            cut.padded_cols = ceil_div(p.head_dim_v, 4) * 4;
            cut.scales = params.v_scale;
            if (status == ATTILE_OK) status = attention_densify(device, p.v, cut, copy_v, params.v, stream);
            if (status != ATTILE_OK) return status;
        }
        params.first_head = static_cast<uint32_t>(first);
        params.head_count = Divider(count);
        params.split_blocks = Divider(plan.row_blocks * count - plan.whole_blocks);
        Dim3 grid, block;
        grid.x = static_cast<uint32_t>(plan.blocks_of(count));
        block.x = static_cast<uint32_t>(plan.threads);
        void *arguments[] = {static_cast<AttentionParams *>(&params)};
        const int32_t status = plan.awaits ? device.launch_early(plan.kernel, grid, block, plan.shared, arguments, stream)
                                           : device.launch(plan.kernel, grid, block, plan.shared, arguments, stream);
        if (status != ATTILE_OK) return status;
    }
    return plan.splits > 1 && !plan.merges ? attention_combine(device, params, p, stream) : ATTILE_OK;
}

}  // namespace attile::gpu::simt
