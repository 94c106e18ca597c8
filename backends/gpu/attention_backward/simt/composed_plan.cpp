// SPDX-License-Identifier: Apache-2.0
#include "attention_backward/simt/composed_plan.h"

#include <algorithm>
#include <cstdio>

#include "attention/simt/dense_rows.h"
#include "attention_backward/run.h"
#include "attention_backward/simt/composed.h"
#include "attention_backward/simt/launcher.h"
#include "host/status.h"

namespace attile::gpu::simt {
namespace {

// Of the multiply-add roof, that the general kernels reach in float64; in float32 it was not measured.
constexpr double kGeneralShare = 0.013, kGeneralShare32 = 0.01;
constexpr double kGeneralSeconds = 1.5e-5;  // Of their launches and ends.

struct ComposedBackward {
    const attile_attention_backward_problem *problem;
    AttentionBackwardPlan steps;  // Rows' numbers, sums of dbias, and the general kernels.
    HeadCut cut;
    int64_t product_bytes;
    double share;

    int32_t describe(Device &device, attile_support &support) const;
    void move_to(const attile_attention_backward_problem &to) { problem = &to; }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const;
};

// V past an entry's keys meets no probability: gradients of hidden scores are 0 whatever it is.
DenseOperands dense_of(const attile_attention_backward_problem &problem) {
    const attile_attention_problem &p = *problem.forward;
    const bool moves_keys = is_present(p.cu_len_k);
    return {is_present(p.cu_len_q) || are_converted(p, {&p.q, &problem.dout, &problem.dq}),
            moves_keys || is_present(p.key_lengths) || are_converted(p, {&p.k}),
            moves_keys || are_converted(p, {&p.v, &problem.dk, &problem.dv})};
}

// Are dk and dv of all members of a group one product each? Their rows, or those of their copies, must be those of one matrix.
bool sums_members_at_once(const attile_attention_backward_problem &problem) {
    const attile_attention_problem &p = *problem.forward;
    if ((p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0) return false;
    const auto follow = [&](const attile_operand &x) { return x.stride[1] == p.len_q * x.stride[2]; };
    return dense_of(problem).rows || (follow(p.q) && follow(problem.dout));
}

CutCosts costs_of(const attile_attention_backward_problem &problem, const AttentionBackwardPlan &steps) {
    const attile_attention_problem &p = *problem.forward;
    const DenseOperands dense = dense_of(problem);
    const bool at_once = sums_members_at_once(problem);
    const double bytes = static_cast<double>(number_bytes(p));
    CutCosts costs = {};
    costs.buffers = 2;
    costs.row_numbers = dense.rows ? 2 * p.head_dim + p.head_dim_v : 0;
    costs.tile_numbers = steps.bias ? p.len_k : 0;
    costs.tile_rows = steps.rows;
    costs.key_numbers = (dense.keys ? p.head_dim : 0) + (dense.values ? p.head_dim + 2 * p.head_dim_v : 0);
    costs.least_rows = steps.bias ? steps.rows : 8;
    costs.flops = 2 * static_cast<double>(3 * p.head_dim + 2 * p.head_dim_v);
    costs.product_bytes = 5 * bytes;  // S and dP written, P read once, dS twice.
    costs.key_bytes = bytes * static_cast<double>(2 * p.head_dim + p.head_dim_v);
    costs.member_bytes = at_once ? 0 : 2 * bytes * static_cast<double>(p.head_dim + p.head_dim_v);  // dk and dv, added to.
    costs.score_bytes = bytes * (steps.bias ? 6 : 4);
    costs.launches = 4 + 3 * dense.rows + 2 * steps.bias + 2 * at_once;
    costs.member_launches = at_once ? 0 : 2;
    return costs;
}

double seconds_of_general(const DeviceProperties &device, const attile_attention_problem &p) {
    const double flops = 2 * attention_visible_pairs(p) * static_cast<double>(3 * p.head_dim + 2 * p.head_dim_v);
    return kGeneralSeconds + wide_seconds(device, p, flops, p.compute == ATTILE_F64 ? kGeneralShare : kGeneralShare32);
}

// Copies of a slice's rows, of the keys of its heads, and gradients that are stored from there; none in a plan.
struct DenseCopies {
    void *q = nullptr, *dout = nullptr, *dq = nullptr, *k = nullptr, *v = nullptr, *dk = nullptr, *dv = nullptr;
};
// Calls take(copy, numbers) for each there is.
template <class Take>
void for_copies(const attile_attention_backward_problem &problem, const HeadCut &cut, DenseCopies &copies, const Take &take) {
    const attile_attention_problem &p = *problem.forward;
    const DenseOperands dense = dense_of(problem);
    const int64_t pairs = cut.entries * cut.heads, rows = pairs * cut.members * cut.rows, keys = pairs * p.len_k;
    if (dense.rows) {
        take(copies.q, rows * p.head_dim);
        take(copies.dout, rows * p.head_dim_v);
        take(copies.dq, rows * p.head_dim);
    }
    if (dense.keys) take(copies.k, keys * p.head_dim);
    if (dense.values) {
        take(copies.v, keys * p.head_dim_v);
        take(copies.dk, keys * p.head_dim);
        take(copies.dv, keys * p.head_dim_v);
    }
}

// What a slice's products are made of; what is copied lies in the copy.
struct SliceGradients {
    HeadMatrix q, dout, dq, k, v, dk, dv, scores, gradients;

    SliceGradients(const attile_attention_backward_problem &problem, const SlicePlace &at, const DenseCopies &copies, const void *s,
                   const void *ds) {
        const attile_attention_problem &p = *problem.forward;
        const DenseOperands dense = dense_of(problem);
        q = rows_matrix(p.q, p, at, p.head_dim, dense.rows, copies.q);
        dout = rows_matrix(problem.dout, p, at, p.head_dim_v, dense.rows, copies.dout);
        dq = rows_matrix(problem.dq, p, at, p.head_dim, dense.rows, copies.dq);
        k = keys_matrix(p.k, p, at, p.head_dim, dense.keys, copies.k);
        v = keys_matrix(p.v, p, at, p.head_dim_v, dense.values, copies.v);
        dk = keys_matrix(problem.dk, p, at, p.head_dim, dense.values, copies.dk);
        dv = keys_matrix(problem.dv, p, at, p.head_dim_v, dense.values, copies.dv);
        scores = score_matrix(at, s);
        gradients = score_matrix(at, ds);
    }
};

// The products of a slice, one kind after the other.
class SliceProducts {
  public:
    SliceProducts(const attile_attention_backward_problem &problem, const SlicePlace &at, const SliceGradients &x)
        : p_(*problem.forward), problem_(problem), at_(at), x_(x) {}

    HeadProduct scores() const { return product(x_.q, transposed(x_.k), x_.scores, at_.rows, at_.keys, p_.head_dim, p_.scale); }
    HeadProduct of_values() const { return product(x_.dout, transposed(x_.v), x_.gradients, at_.rows, at_.keys, p_.head_dim_v, 1); }
    HeadProduct dq() const { return product(x_.gradients, x_.k, x_.dq, at_.rows, p_.head_dim, at_.keys, p_.scale); }
    // Of one member of each group, whose sum is all members', or of all of them at once, whose rows are then those of one product.
    HeadProduct dk(int64_t member, bool is_added) const { return sum(x_.gradients, x_.q, x_.dk, member, p_.head_dim, p_.scale, is_added); }
    HeadProduct dv(int64_t member, bool is_added) const { return sum(x_.scores, x_.dout, x_.dv, member, p_.head_dim_v, 1, is_added); }
    int64_t members_summed_at_once() const { return sums_members_at_once(problem_) ? at_.members : 1; }

  private:
    HeadProduct product(const HeadMatrix &a, const HeadMatrix &b, const HeadMatrix &d, int64_t m, int64_t n, int64_t k,
                        double alpha) const {
        HeadProduct product = head_product(p_, at_);
        product.a = a;
        product.b = b;
        product.d = d;
        product.m = m;
        product.n = n;
        product.k = k;
        product.alpha = alpha;
        return product;
    }
    HeadProduct sum(const HeadMatrix &scores, const HeadMatrix &rows, const HeadMatrix &d, int64_t member, int64_t cols, double alpha,
                    bool is_added) const {
        HeadProduct to = product(transposed(of_member(p_, scores, member)), of_member(p_, rows, member), d, at_.keys, cols,
                                 members_summed_at_once() * at_.rows, alpha);
        to.members = 1;
        to.is_added = is_added;
        return to;
    }

    const attile_attention_problem &p_;
    const attile_attention_backward_problem &problem_;
    const SlicePlace &at_;
    const SliceGradients &x_;
};

// One call on its way through its slices.
class ComposedBackwardRun {
  public:
    ComposedBackwardRun(Device &device, const ComposedBackward &plan, Stream stream)
        : device_(device),
          plan_(plan),
          problem_(*plan.problem),
          p_(*problem_.forward),
          stream_(stream),
          dense_(dense_of(problem_)),
          steps_(is_f64() ? attention_backward_steps_f64() : attention_backward_steps_f32()),
          params_(attention_backward_params(problem_, plan.steps)),
          passes_{device, params_.forward, is_f64(), stream},
          launcher_(device, stream) {}

    int32_t run(Workspace &workspace) {
        const AttentionBackwardPlan &steps = plan_.steps;
        if (!take_workspace(workspace)) return fail(ATTILE_ERROR_INTERNAL, "attention_backward: the workspace is smaller than planned");
        launcher_.zero(params_.irregular++, 4 * steps.irregular);  // One for all comes before the pairs'.
        if (steps.sum_bias > 0) launcher_.zero(params_.sum_bias, number_bytes(p_) * steps.sum_bias);
        if (is_present(p_.cu_len_q) || is_present(p_.cu_len_k))
            launcher_.step(attention_backward_clear_kernel(),
                           p_.heads_q * p_.total_q * p_.head_dim + p_.heads_kv * p_.total_k * p_.head_dim_v, params_);
        const int64_t runs = steps.row_numbers / kBackwardPrepareRun + steps.pairs * ceil_div(p_.len_k, kBackwardPrepareRun);
        launcher_.step(steps_.prepare, BackwardLauncher::kLanesOfTask * runs, params_);
        params_.irregular_only = 1;
        if (launcher_.goes_on())
            launcher_.keep(for_slices(
                p_, plan_.cut, [&](const SlicePlace &at) { return begin(at); }, [&](const SlicePlace &at) { return take(at); },
                [&](const SlicePlace &at) { return end(at); }));
        repair();
        if (steps.sum_bias > 0) launcher_.step(steps_.store_bias, steps.sum_bias, params_);
        if (steps.sinks) launcher_.launch_blocks(steps_.sinks, p_.heads_q, kBackwardThreads, params_);
        return launcher_.status();
    }

  private:
    bool is_f64() const { return p_.compute == ATTILE_F64; }
    bool take_workspace(Workspace &workspace) {
        const AttentionBackwardPlan &steps = plan_.steps;
        bool has_all = true;
        const auto take = [&](int64_t numbers) -> void * {
            void *const piece = numbers > 0 ? workspace.take<char>(number_bytes(p_) * numbers) : nullptr;
            has_all = has_all && (numbers == 0 || piece != nullptr);
            return piece;
        };
        params_.rows = take(2 * steps.row_numbers);
        params_.irregular = workspace.take<uint32_t>(steps.irregular);
        scores_ = take(most_scores(p_, plan_.cut));
        gradients_ = take(most_scores(p_, plan_.cut));
        params_.part_bias = take(steps.part_bias);
        params_.sum_bias = take(steps.sum_bias);
        for_copies(problem_, plan_.cut, copies_, [&](void *&copy, int64_t numbers) { copy = take(numbers); });
        rest_ = workspace;
        return has_all && params_.irregular != nullptr;
    }
    enum Kind { kScores, kOfValues, kDq, kDk, kDv, kKinds };
    int32_t multiply(Kind kind, const HeadProduct &product) { return launch_product(device_, product, last_[kind], rest_, stream_); }

    // Keys and values of the slice's heads; their gradients begin at 0, unless its first rows see all keys.
    int32_t begin(const SlicePlace &at) {
        int32_t status = ATTILE_OK;
        const AttentionParams &f = params_.forward;
        if (dense_.keys) status = passes_.copy(at, f.k, p_.head_dim, true, copies_.k);
        if (status == ATTILE_OK && dense_.values) status = passes_.copy(at, f.v, p_.head_dim_v, true, copies_.v);
        SlicePlace first = at;
        first.rows = std::min(plan_.cut.rows, p_.len_q);
        find_keys(p_, first);
        is_added_ = first.keys != p_.len_k;
        if (!is_added_ || status != ATTILE_OK) return status;
        const SliceGradients x(problem_, at, copies_, nullptr, nullptr);
        for (HeadProduct product : {SliceProducts(problem_, at, x).dk(0, false), SliceProducts(problem_, at, x).dv(0, false)}) {
            product.k = 0;
            if (status == ATTILE_OK) status = multiply(kDk, product);
        }
        return status;
    }
    int32_t take(const SlicePlace &at) {
        const AttentionParams &f = params_.forward;
        int32_t status = ATTILE_OK;
        if (dense_.rows) status = passes_.copy(at, f.q, p_.head_dim, false, copies_.q);
        if (status == ATTILE_OK && dense_.rows) status = passes_.copy(at, params_.dout, p_.head_dim_v, false, copies_.dout);
        const SliceGradients x(problem_, at, copies_, scores_, gradients_);
        const SliceProducts products(problem_, at, x);
        if (status == ATTILE_OK) status = multiply(kScores, products.scores());
        if (status == ATTILE_OK) status = multiply(kOfValues, products.of_values());
        if (status == ATTILE_OK) status = make_gradients(at);
        if (status == ATTILE_OK) status = multiply(kDq, products.dq());
        if (status == ATTILE_OK && dense_.rows) status = passes_.store(at, params_.dq, p_.head_dim, false, copies_.dq);
        for (int64_t member = 0; member < at.members; member += products.members_summed_at_once(), is_added_ = true) {
            if (status == ATTILE_OK) status = multiply(kDv, products.dv(member, is_added_));
            if (status == ATTILE_OK) status = multiply(kDk, products.dk(member, is_added_));
        }
        return status == ATTILE_OK ? sum_bias(at) : status;
    }
    int32_t make_gradients(const SlicePlace &at) {
        set_launch(at);
        const GradientParams params = {params_, head_slice(at), scores_, gradients_};
        const GradientKernel kernel = attention_backward_composed_kernel(is_f64(), takes_blocks(at.keys), attention_has_sparse_mask(p_));
        return launch(device_, kernel, Dim3{score_blocks(params.slice), 1, 1}, Dim3{kWideThreads, 1, 1}, 0, stream_, params);
    }
    // A slice's pairs and units follow one another.
    void set_launch(const SlicePlace &at) {
        const AttentionBackwardPlan &steps = plan_.steps;
        params_.first_pair = static_cast<uint32_t>(at.entry * p_.heads_kv + at.head);
        params_.pairs = Divider(at.entries * at.heads);
        const int64_t first = at.member * steps.row_tiles + at.row / steps.rows;
        params_.first_unit = static_cast<int32_t>(first);
        params_.end_unit = static_cast<int32_t>(first + (at.members - 1) * steps.row_tiles + ceil_div(at.rows, steps.rows));
    }
    // What the slice's rows of scores add to dbias; of irregular pairs by the general kernel, with their dq.
    int32_t sum_bias(const SlicePlace &at) {
        if (!plan_.steps.bias) return ATTILE_OK;
        const int64_t rows = at.entries * at.heads * (params_.end_unit - params_.first_unit) * plan_.steps.rows;
        launcher_.one_by_one(steps_.rows, rows, params_);
        if (plan_.steps.sum_bias > 0) launcher_.add_bias(steps_.add_bias, plan_.steps.sum_bias, problem_.bias_extent[3] == 1, params_);
        return launcher_.status();
    }
    int32_t end(const SlicePlace &at) {
        if (!dense_.values) return ATTILE_OK;
        const int32_t status = passes_.store(at, params_.dk, p_.head_dim, true, copies_.dk);
        return status == ATTILE_OK ? passes_.store(at, params_.dv, p_.head_dim_v, true, copies_.dv) : status;
    }
    // Pairs with infinities or NaN, which a probability of 0 must not meet, again by the general kernels.
    void repair() {
        const AttentionBackwardPlan &steps = plan_.steps;
        params_.first_pair = 0;
        params_.pairs = Divider(steps.pairs);
        params_.first_unit = 0;
        params_.end_unit = static_cast<int32_t>(steps.units);
        if (!steps.bias) launcher_.one_by_one(steps_.rows, steps.pairs * steps.units * steps.rows, params_);
        launcher_.one_by_one(steps_.keys, steps.pairs * p_.len_k, params_);
    }

    Device &device_;
    const ComposedBackward &plan_;
    const attile_attention_backward_problem &problem_;
    const attile_attention_problem &p_;
    Stream stream_;
    const DenseOperands dense_;
    const AttentionBackwardSteps steps_;
    AttentionBackwardParams params_;
    const DenseRows passes_;
    BackwardLauncher launcher_;
    DenseCopies copies_;
    void *scores_ = nullptr, *gradients_ = nullptr;
    bool is_added_ = false;  // To what dk and dv hold.
    LastProduct last_[kKinds];
    Workspace rest_;
};

int32_t ComposedBackward::launch(Device &device, Workspace &workspace, Stream stream) const {
    return ComposedBackwardRun(device, *this, stream).run(workspace);
}

int32_t ComposedBackward::describe(Device &device, attile_support &support) const {
    const attile_attention_problem &p = *problem->forward;
    const SlicePlace at = first_slice(p, cut);
    const SliceGradients x(*problem, at, DenseCopies(), nullptr, nullptr);
    const SliceProducts products(*problem, at, x);
    char first[64] = "", second[64] = "";
    int32_t status = name_product(device, products.scores(), first, sizeof first);
    if (status == ATTILE_OK) status = name_product(device, products.dk(0, true), second, sizeof second);
    if (status != ATTILE_OK) return status;
    support.status = ATTILE_OK;
    const bool is_f64 = p.compute == ATTILE_F64;
    std::snprintf(support.kernel, sizeof support.kernel, is_f64 ? "attention_backward_products_f64" : "attention_backward_products_f32");
    attention_backward_count(*problem, support);
    support.predicted_share = share;
    const GradientKernel kernel = attention_backward_composed_kernel(is_f64, takes_blocks(at.keys), attention_has_sparse_mask(p));
    status = describe_slices(device, reinterpret_cast<const void *>(kernel), p, cut, first, second, support);
    if (are_converted(p, {&p.q, &p.k, &p.v, &problem->dout, &problem->dq, &problem->dk, &problem->dv}))
        support.level = ATTILE_SUPPORT_EMULATED;
    count_matrix_units(device.properties(), p.q.dtype, support);
    return status;
}

Planned<attile_attention_backward_problem> declined(const char *why) {
    Declined reason;
    std::snprintf(reason.text, sizeof reason.text, "%s", why);
    return Planned<attile_attention_backward_problem>(reason);
}

// Do products take less time than the general kernels? With BATCH_INVARIANT as a lone head would say.
bool are_faster(const DeviceProperties &device, const attile_attention_problem &p, const ComposedBackward &plan) {
    const bool are_asked_for = device.gradients_by == GradientsBy::kProducts;
    if ((p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) == 0) return are_asked_for || plan.cut.seconds < seconds_of_general(device, p);
    const attile_attention_problem lone = lone_head(p);
    attile_attention_backward_problem lone_problem = *plan.problem;
    lone_problem.forward = &lone;
    HeadCut cut;
    return find_cut(device, lone, costs_of(lone_problem, plan.steps), cut) &&
           (are_asked_for || cut.seconds < seconds_of_general(device, lone));
}

}  // namespace

Planned<attile_attention_backward_problem> plan_attention_backward_composed(Device &device,
                                                                            const attile_attention_backward_problem &problem,
                                                                            const AttentionBackwardPlan &general) {
    const DeviceProperties &properties = device.properties();
    const attile_attention_problem &p = *problem.forward;
    if (general.kernel != nullptr) return {};
    if (properties.gradients_by == GradientsBy::kTiles) return declined("the environment asks for other kernels");
    const attile_operand &k = p.k, &v = p.v;
    if (p.batch < 1 || p.heads_kv < 1 || p.heads_q < 1) return declined("there is nothing to multiply");
    if (const char *const why = why_no_products(p, {&p.q, &k, &v, &problem.dout, &problem.dq, &problem.dk, &problem.dv}))
        return declined(why);
    ComposedBackward plan = {&problem, general, {}, 0, 0};
    const CutCosts costs = costs_of(problem, general);
    if (!find_cut(properties, p, costs, plan.cut)) return declined("the scores of a few rows do not fit the workspace");
    if (!are_faster(properties, p, plan)) return declined("so few scores take less time in general kernels");
    attile_support work = {};
    attention_backward_count(problem, work);
    plan.share = wide_share(properties, p, work.flops, work.bytes, plan.cut.seconds);

    const HeadCut &cut = plan.cut;
    AttentionBackwardPlan &steps = plan.steps;
    steps.irregular = steps.pairs + 1;
    const int64_t units = cut.members == p.heads_q / p.heads_kv && cut.rows == p.len_q ? steps.units : ceil_div(cut.rows, steps.rows);
    steps.part_bias = steps.bias ? cut.entries * cut.heads * units * steps.rows * p.len_k : 0;
    const auto want = [&](const HeadProduct &product) {
        plan.product_bytes = std::max(plan.product_bytes, product_workspace(device, product));
    };
    for_slice_sizes(p, cut, [&](const SlicePlace &at) {
        const SliceGradients x(problem, at, DenseCopies(), nullptr, nullptr);
        const SliceProducts products(problem, at, x);
        for (const HeadProduct &product : {products.scores(), products.of_values(), products.dq(), products.dk(0, true),
                                           products.dk(0, false), products.dv(0, true), products.dv(0, false)})
            want(product);
    });
    const auto piece = [&](int64_t numbers) { return workspace_piece(number_bytes(p) * numbers); };
    int64_t bytes = piece(2 * steps.row_numbers) + workspace_piece(4 * steps.irregular) + 2 * piece(most_scores(p, cut)) +
                    piece(steps.part_bias) + piece(steps.sum_bias) + plan.product_bytes;
    DenseCopies copies;
    for_copies(problem, cut, copies, [&](const void *, int64_t numbers) { bytes += piece(numbers); });
    return Planned<attile_attention_backward_problem>(plan, bytes);
}

}  // namespace attile::gpu::simt
