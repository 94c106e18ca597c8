// SPDX-License-Identifier: Apache-2.0
#include "distributed/bias_axes.h"

#include "attention_problem.h"
#include "message.h"
#include "status.h"
#include "tensor.h"

namespace attile::core {
namespace {

// Axes of bias and mask, as sets of bits have them.
constexpr int32_t kAxes[4] = {0, 1, 3, 2};

// Those with such extents; of rows only where every rank has all of them.
template <typename Match>
int64_t set_of_axes(const DistributedAttention &p, const attile_tensor &tensor, const Match &match) {
    if (is_absent(tensor)) return 0;
    const attile_tensor wide = with_four_axes(tensor);
    int64_t set = 0;
    for (int32_t bit = 0; bit < (p.packed ? 4 : 3); ++bit) set |= match(wide.shape[kAxes[bit]]) ? 1 << bit : 0;
    return set;
}

// Those that a dbias says nothing of: where it has no element, strides do not tell whether an extent is summed over.
int64_t unknown_axes(const DistributedAttention &p) {
    const attile_tensor &dbias = p.gradients.dbias;
    return set_of_axes(p, dbias, [&](int64_t extent) { return extent > 1 && is_empty(dbias); });
}

// What a dbias says about its rows. One row on a rank of one row says nothing, nor does one without elements, but for an extent of 1.
enum : int64_t { kUnknownRows = 0, kOwnRows = 1, kSummedRows = 2 };

int64_t rows_of_dbias(const DistributedAttention &p) {
    const attile_tensor &dbias = p.gradients.dbias;
    if (is_absent(dbias)) return kUnknownRows;
    if (p.packed) return kSummedRows;
    if (p.dbias_rank < 2) return kSummedRows;
    if (p.rows() == 1) return kUnknownRows;
    if (dbias.shape[2] == 1) return kSummedRows;
    return is_empty(dbias) ? kUnknownRows : kOwnRows;
}

int32_t agree_on_rows(const Agreement &agreement, DistributedAttention *p) {
    int32_t own = -1, summed = -1;
    for (int32_t rank = 0; rank < p->ranks; ++rank) {
        if (agreement.bias_rows(rank) == kOwnRows) own = rank;
        if (agreement.bias_rows(rank) == kSummedRows) summed = rank;
    }
    p->sums_bias_rows = summed >= 0;
    if (own < 0 || summed < 0) return ATTILE_OK;
    return fail(ATTILE_ERROR_RANKS_DISAGREE, "%s: ranks disagree: local->dbias is one for all rows on rank %d and has rows on rank %d",
                p->operation, summed, own);
}

// A rank that says nothing of an axis has it as the others do; where none says anything it is not summed over.
int32_t agree_on_axes(const Agreement &agreement, DistributedAttention *p) {
    if (is_absent(p->gradients.dbias)) return ATTILE_OK;
    for (int32_t bit = 0; bit < 4; ++bit) {
        const auto has = [&](int64_t set) { return (set >> bit & 1) != 0; };
        int32_t own = -1, summed = -1;
        for (int32_t rank = 0; rank < p->ranks; ++rank) {
            if (has(agreement.summed_axes(rank))) {
                summed = rank;
            } else if (!has(agreement.unknown_axes(rank))) {
                own = rank;
            }
        }
        if (own >= 0 && summed >= 0) {
            return fail(ATTILE_ERROR_RANKS_DISAGREE,
                        "%s: ranks disagree: the set of axes that local->bias broadcasts is %lld on rank %d and %lld on rank %d",
                        p->operation, static_cast<long long>(agreement.summed_axes(summed)), summed,
                        static_cast<long long>(agreement.summed_axes(own)), own);
        }
        if (summed >= 0) p->local.bias.shape[kAxes[bit]] = p->gradients.dbias.shape[kAxes[bit]] = 1;
    }
    return ATTILE_OK;
}

}  // namespace

void name_sums(DistributedAttention *p) {
    attile_tensor &bias = p->local.bias, &dbias = p->gradients.dbias;
    if (is_absent(dbias)) return;
    bias = with_four_axes(bias);
    dbias = with_four_axes(dbias);
    for (int32_t axis = 0; axis < 4; ++axis) {
        if (is_summed_axis(bias, dbias, axis)) bias.shape[axis] = dbias.shape[axis] = 1;
    }
}

int64_t broadcast_axes(const DistributedAttention &p, const attile_tensor &tensor) {
    return set_of_axes(p, tensor, [](int64_t extent) { return extent == 1; });
}

void describe_sums(const DistributedAttention &p, Announcement *announcement) {
    announcement->bias_rows = rows_of_dbias(p);
    announcement->summed_axes = broadcast_axes(p, p.gradients.dbias);
    announcement->unknown_axes = unknown_axes(p);
}

int32_t agree_on_sums(const Agreement &agreement, DistributedAttention *problem) {
    ATTILE_TRY(agree_on_axes(agreement, problem));
    return agree_on_rows(agreement, problem);
}

}  // namespace attile::core
