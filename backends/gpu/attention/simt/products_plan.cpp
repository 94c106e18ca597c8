// SPDX-License-Identifier: Apache-2.0
#include "attention/simt/products_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "attention/run.h"
#include "attention/simt/dense_rows.h"
#include "attention/simt/head_cut.h"
#include "attention/simt/products.h"
#include "host/sizes.h"
#include "host/status.h"

namespace attile::gpu::simt {
namespace {

// Of the multiply-add roof, that the general kernel reaches in float64 and in float32.
constexpr double kGeneralShare = 0.04, kGeneralShare32 = 0.015;
constexpr double kGeneralSeconds = 5e-6;  // Of its launch and ends.

struct ProductAttention {
    const attile_attention_problem *problem;
    AttentionPlan general;
    HeadCut cut;
    int64_t product_bytes;
    double share;

    int32_t describe(Device &device, attile_support &support) const;
    void move_to(const attile_attention_problem &to) { problem = &to; }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const;
};

DenseOperands dense_of(const attile_attention_problem &p) {
    const bool moves_keys = is_present(p.cu_len_k) || is_present(p.block_table);
    return {is_present(p.cu_len_q) || are_converted(p, {&p.q, &p.o}), moves_keys || are_converted(p, {&p.k}),
            moves_keys || is_present(p.key_lengths) || are_converted(p, {&p.v})};
}

CutCosts costs_of(const attile_attention_problem &p) {
    const DenseOperands dense = dense_of(p);
    const double bytes = static_cast<double>(number_bytes(p));
    CutCosts costs = {};
    costs.buffers = 1;
    costs.row_numbers = dense.rows ? p.head_dim + p.head_dim_v : 0;
    costs.key_numbers = (dense.keys ? p.head_dim : 0) + (dense.values ? p.head_dim_v : 0);
    costs.least_rows = 8;
    costs.flops = 2 * static_cast<double>(p.head_dim + p.head_dim_v);
    costs.product_bytes = costs.score_bytes = 2 * bytes;  // Written by one product, read by the other; read and written between them.
    costs.key_bytes = bytes * static_cast<double>(p.head_dim + p.head_dim_v);
    costs.launches = 4 + dense.rows;
    return costs;
}

double general_seconds(const DeviceProperties &device, const attile_attention_problem &p, const AttentionPlan &general) {
    const double heads = static_cast<double>(p.batch * p.heads_q), units = std::max(device.compute_units, 1);
    const double keys = attention_visible_pairs(p) / (heads * static_cast<double>(p.len_q));
    const double blocks = heads * static_cast<double>(ceil_div(p.len_q, general.rows) * std::max<int64_t>(ceil_div(p.head_dim_v, 256), 1));
    const double block = general.rows * (keys + general.keys) * 2 * static_cast<double>(p.head_dim + p.head_dim_v);
    const double share = p.compute == ATTILE_F64 ? kGeneralShare : kGeneralShare32;
    return kGeneralSeconds + wide_seconds(device, p, std::ceil(blocks / units) * units * block, share);
}

// The two products of a slice; what is copied lies in the copy.
struct SliceOperands {
    HeadMatrix q, k, v, o;
};
HeadProduct score_product(const attile_attention_problem &p, const SlicePlace &at, const SliceOperands &x, const void *scores) {
    HeadProduct product = head_product(p, at);
    product.a = x.q;
    product.b = transposed(x.k);
    product.d = score_matrix(at, scores);
    product.m = at.rows;
    product.n = at.keys;
    product.k = p.head_dim;
    product.alpha = p.scale;
    return product;
}
HeadProduct value_product(const attile_attention_problem &p, const SlicePlace &at, const SliceOperands &x, const void *scores) {
    HeadProduct product = head_product(p, at);
    product.a = score_matrix(at, scores);
    product.b = x.v;
    product.d = x.o;
    product.m = at.rows;
    product.n = p.head_dim_v;
    product.k = at.keys;
    return product;
}

// Copies of a slice's rows and of the keys of its heads; none in a plan.
struct DenseCopies {
    void *q = nullptr, *k = nullptr, *v = nullptr, *o = nullptr;
};
int64_t most_rows(const HeadCut &cut) { return cut.entries * cut.heads * cut.members * cut.rows; }
// Calls take(copy, numbers) for each there is.
template <class Take>
void for_copies(const attile_attention_problem &p, const HeadCut &cut, DenseCopies &copies, const Take &take) {
    const DenseOperands dense = dense_of(p);
    const int64_t pairs = cut.entries * cut.heads, rows = pairs * cut.members * cut.rows, keys = pairs * p.len_k;
    if (dense.rows) take(copies.q, rows * p.head_dim);
    if (dense.rows) take(copies.o, rows * p.head_dim_v);
    if (dense.keys) take(copies.k, keys * p.head_dim);
    if (dense.values) take(copies.v, keys * p.head_dim_v);
}
SliceOperands slice_operands(const attile_attention_problem &p, const SlicePlace &at, const DenseCopies &copies) {
    const DenseOperands dense = dense_of(p);
    return {rows_matrix(p.q, p, at, p.head_dim, dense.rows, copies.q), keys_matrix(p.k, p, at, p.head_dim, dense.keys, copies.k),
            keys_matrix(p.v, p, at, p.head_dim_v, dense.values, copies.v), rows_matrix(p.o, p, at, p.head_dim_v, dense.rows, copies.o)};
}

// One call on its way through its slices.
class ProductRun {
  public:
    ProductRun(Device &device, const ProductAttention &plan, Stream stream)
        : device_(device),
          plan_(plan),
          p_(*plan.problem),
          stream_(stream),
          dense_(dense_of(p_)),
          params_(wide_params(p_)),
          passes_{device, params_, is_f64(), stream} {}

    int32_t run(Workspace &workspace) {
        const int64_t pairs = p_.batch * p_.heads_kv;
        irregular_ = workspace.take<uint32_t>(pairs);
        const auto take = [&](int64_t numbers) { return workspace.take<char>(number_bytes(p_) * numbers); };
        scores_ = take(most_scores(p_, plan_.cut));
        divisors_ = take(most_rows(plan_.cut));
        bool has_all = true;
        for_copies(p_, plan_.cut, copies_, [&](void *&copy, int64_t numbers) {
            copy = take(numbers);
            has_all = has_all && copy != nullptr;
        });
        if (irregular_ == nullptr || scores_ == nullptr || divisors_ == nullptr || !has_all)
            return fail(ATTILE_ERROR_INTERNAL, "attention: the workspace is smaller than planned");
        rest_ = workspace;
        int32_t status = device_.fill_zero(irregular_, 4 * pairs, stream_);
        if (status == ATTILE_OK) status = look();
        if (status == ATTILE_OK)
            status = for_slices(
                p_, plan_.cut, [&](const SlicePlace &at) { return copy_keys(at); }, [&](const SlicePlace &at) { return multiply(at); },
                [](const SlicePlace &) { return ATTILE_OK; });
        return status == ATTILE_OK ? repair() : status;
    }

  private:
    bool is_f64() const { return p_.compute == ATTILE_F64; }
    int32_t look() {
        LookParams params = {params_, Divider(p_.len_k), Divider(p_.heads_kv), static_cast<uint32_t>(p_.batch * p_.heads_kv), irregular_};
        constexpr int64_t kGroups = kWideThreads / 32, kMostBlocks = 1 << 16;
        const int64_t blocks = std::min(ceil_div(p_.batch * p_.heads_kv * p_.len_k, kGroups), kMostBlocks);
        return gpu::launch(device_, attention_products_look_kernel(is_f64()), Dim3{static_cast<uint32_t>(blocks), 1, 1},
                           Dim3{kWideThreads, 1, 1}, 0, stream_, params);
    }
    int32_t copy_keys(const SlicePlace &at) {
        int32_t status = ATTILE_OK;
        if (dense_.keys) status = passes_.copy(at, params_.k, p_.head_dim, true, copies_.k);
        if (status == ATTILE_OK && dense_.values) status = passes_.copy(at, params_.v, p_.head_dim_v, true, copies_.v);
        return status;
    }
    int32_t multiply(const SlicePlace &at) {
        int32_t status = ATTILE_OK;
        if (dense_.rows) status = passes_.copy(at, params_.q, p_.head_dim, false, copies_.q);
        const SliceOperands operands = slice_operands(p_, at, copies_);
        if (status == ATTILE_OK) status = launch_product(device_, score_product(p_, at, operands, scores_), last_[0], rest_, stream_);
        if (status == ATTILE_OK) {
            const ScoreParams params = {params_, head_slice(at), scores_, divisors_};
            status = gpu::launch(device_, attention_products_softmax_kernel(is_f64(), takes_blocks(at.keys), attention_has_sparse_mask(p_)),
                                 Dim3{score_blocks(params.slice), 1, 1}, Dim3{kWideThreads, 1, 1}, 0, stream_, params);
        }
        if (status == ATTILE_OK) status = launch_product(device_, value_product(p_, at, operands, scores_), last_[1], rest_, stream_);
        return status == ATTILE_OK ? passes_.divide(at, params_.o, p_.head_dim_v, copies_.o, divisors_) : status;
    }
    // Heads whose V holds infinities or NaN, which a probability of 0 must not meet, again by the general kernel.
    int32_t repair() {
        const AttentionPlan &by = plan_.general;
        IrregularParams params = {attention_params(p_, by), irregular_};
        const int64_t heads = p_.batch * p_.heads_q;
        for (int64_t first = 0; first < heads; first += by.slice) {
            const int64_t count = std::min(by.slice, heads - first);
            params.attention.first_head = static_cast<uint32_t>(first);
            params.attention.head_count = Divider(count);
            params.attention.split_blocks = Divider(by.row_blocks * count);
            const int32_t status =
                gpu::launch(device_, attention_any_irregular_kernel(is_f64()), Dim3{static_cast<uint32_t>(by.blocks_of(count)), 1, 1},
                            Dim3{static_cast<uint32_t>(by.threads), 1, 1}, by.shared, stream_, params);
            if (status != ATTILE_OK) return status;
        }
        return ATTILE_OK;
    }

    Device &device_;
    const ProductAttention &plan_;
    const attile_attention_problem &p_;
    Stream stream_;
    const DenseOperands dense_;
    const AttentionParams params_;
    const DenseRows passes_;
    DenseCopies copies_;
    uint32_t *irregular_ = nullptr;
    void *scores_ = nullptr, *divisors_ = nullptr;
    LastProduct last_[2];  // Of scores, of values.
    Workspace rest_;
};

int32_t ProductAttention::launch(Device &device, Workspace &workspace, Stream stream) const {
    return ProductRun(device, *this, stream).run(workspace);
}

int32_t ProductAttention::describe(Device &device, attile_support &support) const {
    const attile_attention_problem &p = *problem;
    attention_report(device, p, general, support);  // Operations and bytes.
    const SlicePlace at = first_slice(p, cut);
    const SliceOperands operands = slice_operands(p, at, DenseCopies());
    char first[64] = "", second[64] = "";
    int32_t status = name_product(device, score_product(p, at, operands, nullptr), first, sizeof first);
    if (status == ATTILE_OK) status = name_product(device, value_product(p, at, operands, nullptr), second, sizeof second);
    if (status != ATTILE_OK) return status;
    const bool is_f64 = p.compute == ATTILE_F64;
    std::snprintf(support.kernel, sizeof support.kernel, is_f64 ? "attention_products_f64" : "attention_products_f32");
    const ScoreKernel kernel = attention_products_softmax_kernel(is_f64, takes_blocks(at.keys), attention_has_sparse_mask(p));
    support.predicted_share = share;
    status = describe_slices(device, reinterpret_cast<const void *>(kernel), p, cut, first, second, support);
    if (are_converted(p, {&p.q, &p.k, &p.v, &p.o})) support.level = ATTILE_SUPPORT_EMULATED;
    count_matrix_units(device.properties(), p.q.dtype, support);
    return status;
}

Planned<attile_attention_problem> declined(const char *why) {
    Declined reason;
    std::snprintf(reason.text, sizeof reason.text, "%s", why);
    return Planned<attile_attention_problem>(reason);
}

}  // namespace

Planned<attile_attention_problem> plan_attention_products(Device &device, const attile_attention_problem &p, const AttentionPlan &usual) {
    const DeviceProperties &properties = device.properties();
    const AttentionBy by = properties.attention_by;
    if (usual.path == AttentionPath::kNothing || (usual.path != AttentionPath::kAny && by != AttentionBy::kProducts)) return {};
    if (by != AttentionBy::kExpectedTime && by != AttentionBy::kProducts) return declined("the environment asks for other kernels");
    if (const char *const why = why_no_products(p, {&p.q, &p.k, &p.v, &p.o})) return declined(why);
    const AttentionPlan general = usual.path == AttentionPath::kAny ? usual : plan_attention(device, p, true);
    if (general.status != ATTILE_OK) return declined("the kernel that takes anything does not take it");
    ProductAttention plan = {&p, general, {}, 0, 0};
    const CutCosts costs = costs_of(p);
    if (!find_cut(properties, p, costs, plan.cut)) return declined("the scores of a few rows do not fit the workspace");
    const double flops = 2 * attention_visible_pairs(p) * static_cast<double>(p.head_dim + p.head_dim_v);
    plan.share = wide_share(properties, p, flops, attention_bytes(p), plan.cut.seconds);
    // With BATCH_INVARIANT as a lone head would say, whatever rows there are.
    const bool is_invariant = (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0;
    const attile_attention_problem asked = is_invariant ? lone_head(p) : p;
    HeadCut cut = plan.cut;
    if (is_invariant && !find_cut(properties, asked, costs_of(asked), cut))
        return declined("the scores of a few rows of a lone head do not fit the workspace");
    if (by == AttentionBy::kExpectedTime && general_seconds(properties, asked, general) <= cut.seconds)
        return declined("so few scores take less time in one kernel");
    const auto want = [&](const SlicePlace &at) {
        const SliceOperands x = slice_operands(p, at, DenseCopies());
        plan.product_bytes = std::max({plan.product_bytes, product_workspace(device, score_product(p, at, x, nullptr)),
                                       product_workspace(device, value_product(p, at, x, nullptr))});
    };
    for_slice_sizes(p, plan.cut, want);
    const auto piece = [&](int64_t numbers) { return workspace_piece(number_bytes(p) * numbers); };
    int64_t bytes =
        workspace_piece(4 * p.batch * p.heads_kv) + piece(most_scores(p, plan.cut)) + piece(most_rows(plan.cut)) + plan.product_bytes;
    DenseCopies copies;
    for_copies(p, plan.cut, copies, [&](const void *, int64_t numbers) { bytes += piece(numbers); });
    return Planned<attile_attention_problem>(plan, bytes);
}

}  // namespace attile::gpu::simt
