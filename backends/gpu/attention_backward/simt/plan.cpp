// SPDX-License-Identifier: Apache-2.0
#include "attention_backward/simt/plan.h"

#include <algorithm>
#include <cstdio>

#include "attention/run.h"
#include "attention/simt/dense_rows.h"
#include "attention_backward/run.h"
#include "attention_backward/simt/composed_plan.h"
#include "attention_backward/simt/launcher.h"
#include "host/sizes.h"
#include "host/status.h"

namespace attile::gpu::simt {
namespace {

// One call on its way through its launches.
class BackwardRun {
  public:
    BackwardRun(Device &device, const attile_attention_backward_problem &problem, const AttentionBackwardPlan &plan, Stream stream)
        : device_(device),
          problem_(problem),
          p_(*problem.forward),
          plan_(plan),
          stream_(stream),
          steps_(plan.wide ? attention_backward_steps_f64() : attention_backward_steps_f32()),
          params_(attention_backward_params(problem, plan)),
          launcher_(device, stream) {}

    int32_t run(Workspace &workspace) {
        if (!take(workspace)) return fail(ATTILE_ERROR_INTERNAL, "attention_backward: the workspace is smaller than planned");
        const bool tiled = plan_.kernel != nullptr;
        const int64_t number = plan_.wide ? 8 : 4;
        if (plan_.irregular > 0) launcher_.zero(params_.irregular++, 4 * plan_.irregular);  // One for all comes before the pairs'.
        if (plan_.sum_bias > 0) launcher_.zero(params_.sum_bias, number * plan_.sum_bias);
        const bool has_gaps = is_present(p_.cu_len_q) || is_present(p_.cu_len_k);
        if (has_gaps || plan_.units == 0 || plan_.key_blocks == 0)
            step(attention_backward_clear_kernel(), p_.heads_q * p_.total_q * p_.head_dim + p_.heads_kv * p_.total_k * p_.head_dim_v);
        const int64_t key_runs = tiled ? plan_.pairs * ceil_div(p_.len_k, kBackwardPrepareRun) : 0;
        step(steps_.prepare, kLanesOfTask * (plan_.row_numbers / kBackwardPrepareRun + key_runs));
        for (int64_t first = 0; first < plan_.pairs && plan_.slice > 0; first += plan_.slice)
            slice(first, std::min(plan_.slice, plan_.pairs - first));
        if (tiled && !plan_.bias && plan_.pairs > 0) {
            params_.first_pair = 0;
            params_.pairs = Divider(plan_.pairs);
            params_.first_unit = 0;
            params_.end_unit = static_cast<int32_t>(plan_.units);
            params_.irregular_only = 1;
            one_by_one(attention_backward_irregular_kernel(), std::max(plan_.pairs * plan_.units * plan_.rows, plan_.pairs * p_.len_k));
        }
        if (plan_.sum_bias > 0) step(steps_.store_bias, plan_.sum_bias);
        if (plan_.sinks) launch_blocks(steps_.sinks, p_.heads_q, kBackwardThreads);
        return launcher_.status();
    }

  private:
    static constexpr int64_t kLanesOfTask = BackwardLauncher::kLanesOfTask;

    bool take(Workspace &workspace) {
        bool is_enough = true;
        const auto piece = [&](auto *&to, int64_t count, int64_t bytes) {
            if (count == 0) return;
            to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(workspace.take<char>(count * bytes));
            is_enough = is_enough && to != nullptr;
        };
        const int64_t number = plan_.wide ? 8 : 4;
        char *rows = nullptr, *part_bias = nullptr, *sum_bias = nullptr;
        piece(rows, plan_.row_numbers, 2 * number);
        piece(params_.irregular, plan_.irregular, 4);
        if (plan_.copy_q) piece(copy_q_, plan_.copied_rows, 4);
        if (plan_.copy_dout) piece(copy_dout_, plan_.copied_rows, 4);
        if (plan_.copy_k) piece(copy_k_, plan_.copied_keys, 4);
        if (plan_.copy_v) piece(copy_v_, plan_.copied_keys, 4);
        piece(params_.part_q, plan_.part_q, 4);
        piece(params_.probabilities, plan_.scores, 4);
        piece(params_.gradients, plan_.scores, 4);
        piece(params_.sum_k, plan_.sums, 4);
        piece(params_.sum_v, plan_.sums, 4);
        piece(part_bias, plan_.part_bias, number);
        piece(sum_bias, plan_.sum_bias, number);
        params_.rows = rows;
        params_.part_bias = part_bias;
        params_.sum_bias = sum_bias;
        return is_enough;
    }

    void launch_blocks(AttentionBackwardKernel kernel, int64_t blocks, int32_t threads) {
        launcher_.launch_blocks(kernel, blocks, threads, params_);
    }
    void step(AttentionBackwardKernel kernel, int64_t tasks) { launcher_.step(kernel, tasks, params_); }
    void one_by_one(AttentionBackwardKernel kernel, int64_t tasks) { launcher_.one_by_one(kernel, tasks, params_); }
    void densify(const attile_operand &from, int64_t cols, bool of_keys, int64_t first, int64_t count, float *copy,
                 AttentionOperand &operand) {
        if (!launcher_.goes_on() || copy == nullptr) return;
        const bool has_gaps = is_present(p_.cu_len_q) || is_present(p_.cu_len_k);
        if (has_gaps && first != 0) return;  // There is one slice.
        const int64_t group = of_keys ? 1 : p_.heads_q / p_.heads_kv;
        const DenseCut cut = {of_keys ? p_.heads_kv : p_.heads_q,
                              of_keys ? p_.total_k : p_.total_q,
                              cols,
                              plan_.depth,
                              first * group,
                              count * group,
                              is_present(of_keys ? p_.cu_len_k : p_.cu_len_q),
                              nullptr};
        launcher_.keep(attention_densify(device_, from, cut, copy, operand, stream_));
    }

    // Unfused: some blocks of keys at a time.
    void multiply(int64_t count, int64_t units) {
        const AttentionBackwardProducts &by = plan_.products;
        params_.launch_units = Divider(units);
        params_.stores_keys = plan_.stores_keys && params_.end_unit == plan_.units;
        for (int64_t block = 0; block < plan_.key_blocks; block += plan_.key_chunk) {
            const int64_t blocks = std::min(plan_.key_chunk, plan_.key_blocks - block);
            params_.launch_blocks = Divider(blocks);
            params_.first_block = static_cast<int32_t>(block);
            params_.end_block = static_cast<int32_t>(block + blocks);
            params_.stores_rows = plan_.stores_rows && params_.end_block == plan_.key_blocks;
            launch_blocks(plan_.kernel, by.score_tiles * count * units * blocks, by.threads);
            launch_blocks(by.of_keys, 2 * by.key_tiles * by.col_tiles * count * blocks, by.threads);
            launch_blocks(by.of_rows, by.col_tiles * count * units, by.threads);
        }
    }

    void slice(int64_t first, int64_t count) {
        const bool tiled = plan_.kernel != nullptr;
        densify(p_.q, p_.head_dim, false, first, count, copy_q_, params_.forward.q);
        densify(problem_.dout, p_.head_dim_v, false, first, count, copy_dout_, params_.dout);
        densify(p_.k, p_.head_dim, true, first, count, copy_k_, params_.forward.k);
        densify(p_.v, p_.head_dim_v, true, first, count, copy_v_, params_.forward.v);
        params_.first_pair = static_cast<uint32_t>(first);
        params_.pairs = Divider(count);
        params_.irregular_only = tiled;
        for (int64_t unit = 0; unit < plan_.units; unit += plan_.chunk) {
            const int64_t units = std::min(plan_.chunk, plan_.units - unit);
            params_.first_unit = static_cast<int32_t>(unit);
            params_.end_unit = static_cast<int32_t>(unit + units);
            params_.continues = unit > 0;
            if (plan_.products.name != nullptr)
                multiply(count, units);
            else if (tiled)
                launch_blocks(plan_.kernel, plan_.key_blocks * plan_.splits * count, plan_.threads);
            if (tiled && !plan_.stores_rows) step(attention_backward_gather_kernel(), count * units * plan_.rows * (plan_.depth / 4));
            if (!tiled || plan_.bias) one_by_one(steps_.rows, count * units * plan_.rows);
            if (plan_.bias && plan_.sum_bias > 0)
                launcher_.add_bias(steps_.add_bias, plan_.sum_bias, problem_.bias_extent[3] == 1, params_);
        }
        if (tiled && plan_.units > 0 && !plan_.stores_keys) step(attention_backward_finish_kernel(), count * p_.len_k * (plan_.depth / 4));
        if (!tiled || plan_.bias) one_by_one(steps_.keys, count * p_.len_k);
    }

    Device &device_;
    const attile_attention_backward_problem &problem_;
    const attile_attention_problem &p_;
    const AttentionBackwardPlan &plan_;
    Stream stream_;
    AttentionBackwardSteps steps_;
    AttentionBackwardParams params_;
    float *copy_q_ = nullptr, *copy_k_ = nullptr, *copy_v_ = nullptr, *copy_dout_ = nullptr;
    BackwardLauncher launcher_;
};

struct SimtAttentionBackward {
    const attile_attention_backward_problem *problem;
    AttentionBackwardPlan plan;
    Declined products;  // Why it is not composed of GEMM's products.

    int32_t describe(Device &device, attile_support &support) const {
        const bool copies = plan.copy_q || plan.copy_k || plan.copy_v || plan.copy_dout;
        support.level = plan.kernel == nullptr || copies ? ATTILE_SUPPORT_EMULATED : ATTILE_SUPPORT_NATIVE;
        support.status = ATTILE_OK;
        std::snprintf(support.kernel, sizeof support.kernel, "%s", plan.name);
        print_plan(plan, support.text, sizeof support.text);
        say_why_no_products(products, support);
        attention_backward_count(*problem, support);
        support.tile_m = plan.rows;
        support.tile_n = plan.keys;
        support.tile_k = plan.depth;
        support.threads = plan.threads;
        support.splits = static_cast<int32_t>(plan.splits);
        const AttentionBackwardProducts &unfused = plan.products;
        support.blocks = plan.key_blocks * plan.splits * plan.pairs * (unfused.name != nullptr ? unfused.score_tiles * plan.units : 1);
        support.blocks_per_unit = plan.blocks_per_unit;
        support.predicted_share = plan.share;
        const AttentionBackwardKernel kernel = plan.kernel != nullptr ? plan.kernel : attention_backward_steps_f64().keys;
        KernelResources resources;
        if (device.resources(reinterpret_cast<const void *>(kernel), &resources) == ATTILE_OK) {
            support.registers = resources.registers;
            support.shared_bytes = resources.shared_static;
        }
        count_matrix_units(device.properties(), problem->forward->q.dtype, support);
        return ATTILE_OK;
    }
    void move_to(const attile_attention_backward_problem &to) { problem = &to; }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        return BackwardRun(device, *problem, plan, stream).run(workspace);
    }
};

}  // namespace

Planned<attile_attention_backward_problem> plan_attention_backward(Device &device, const attile_attention_backward_problem &problem) {
    const AttentionBackwardPlan plan = gpu::plan_attention_backward(device, problem);
    if (plan.status != ATTILE_OK) return Planned<attile_attention_backward_problem>::refused(plan.status, "%s", plan.text);
    const Planned<attile_attention_backward_problem> products = plan_attention_backward_composed(device, problem, plan);
    if (products.has_plan()) return products;
    return Planned<attile_attention_backward_problem>(SimtAttentionBackward{&problem, plan, products.declined()}, plan.workspace);
}

}  // namespace attile::gpu::simt
