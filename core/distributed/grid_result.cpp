// SPDX-License-Identifier: Apache-2.0
#include "distributed/grid_result.h"

#include <algorithm>

#include "distributed/sums.h"
#include "message.h"
#include "tensor.h"

namespace attile::core {
namespace {

void widen_on_host(const attile_tensor &from, const attile_tensor &to) {
    const int64_t columns = to.rank == 2 ? to.shape[1] : 1;
    for (int64_t i = 0; i < to.shape[0]; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
            store_number(to.data, to.dtype, i * to.stride[0] + j * (to.rank == 2 ? to.stride[1] : 0), read_number(from, i, j));
        }
    }
}

}  // namespace

GridResult::GridResult(const GridGemm &problem)
    : problem_(problem),
      layout_(unshared(problem.d.layout)),
      shared_(problem.d.layout.axis[0].replicated() || problem.d.layout.axis[1].replicated()),
      device_(problem.device_work()),
      spread_(layout_, problem.d.layout, 0, Arrival::kCopy, problem.d.fast, device()) {}

// Of this rank's part of D, or of what lies as it does: the rows and columns that it computes.
attile_tensor GridResult::own_rows_and_columns(const attile_tensor &part) const {
    attile_tensor own = part;
    for (int32_t axis = 0; axis < 2; ++axis) {
        const int64_t first = layout_.axis[axis].next(problem_.rank, 0).begin;
        own = slice(own, axis, problem_.d.layout.axis[axis].below(problem_.rank, first), layout_.axis[axis].count(problem_.rank));
    }
    return own;
}

int32_t GridResult::take_image() {
    const GridGemm &p = problem_;
    image_ = p.d.part;
    if (p.host_memory || p.on_device() || image_.data == nullptr || p.d.layout.elements(p.rank) == 0) return ATTILE_OK;
    int32_t kind = ATTILE_MEMORY_HOST;
    ATTILE_TRY(attile_memory_kind(p.context, image_.data, &kind));
    if (kind != ATTILE_MEMORY_DEVICE) return ATTILE_OK;
    ATTILE_TRY(image_memory_.take(p.operation, product({image_.shape[0], image_.shape[1]}), element_bytes(image_.dtype)));
    image_ = dense_matrix(image_memory_.at(), image_.dtype, image_.shape, p.d.own_fast);
    return ATTILE_OK;
}

int32_t GridResult::widen(const attile_tensor &from, const attile_tensor &to) const {
    if (!problem_.on_device()) {
        widen_on_host(from, to);
        return ATTILE_OK;
    }
    attile_tensor one = from;  // part of a sum
    one.rank = from.rank + 1;
    one.shape[0] = 1;
    std::copy_n(from.shape, from.rank, one.shape + 1);
    std::copy_n(from.stride, from.rank, one.stride + 1);
    return device_.sum(one, to);
}

// What sums of f16 and bf16 begin and end with, in float32 as they are.
int32_t GridResult::take_sums() {
    const GridGemm &p = problem_;
    const int64_t elements = product({sums_.shape[0], sums_.shape[1]});
    ATTILE_TRY(p.take(&sums_memory_, elements, element_bytes(p.wide())));
    sums_ = dense_matrix(sums_memory_.at(), p.wide(), sums_.shape, p.d.own_fast);
    if (p.local.beta != 0.0) {
        ATTILE_TRY(widen(c_, sums_));
        c_ = sums_;
    }
    if (is_absent(bias_) || bias_.dtype == ATTILE_F32) return ATTILE_OK;
    ATTILE_TRY(p.take(&wide_bias_memory_, bias_.shape[0], element_bytes(ATTILE_F32)));
    attile_tensor wide{};
    ATTILE_TRY(attile_tensor_init(&wide, wide_bias_memory_.at(), ATTILE_F32, 1, bias_.shape));
    ATTILE_TRY(widen(bias_, wide));
    bias_ = wide;
    return ATTILE_OK;
}

int32_t GridResult::prepare(bool one_product) {
    const GridGemm &p = problem_;
    ATTILE_TRY(device_.begin());
    ATTILE_TRY(take_image());
    sums_ = own_rows_and_columns(image_);
    if (shared_) {
        const int64_t width = std::max<int64_t>(1, p.d.layout.axis[0].extent);
        ATTILE_TRY(spread_.prepare(p.operation, p.rank, p.ranks, image_.dtype, width));
    }
    if (is_empty()) return ATTILE_OK;
    if (p.local.beta != 0.0) ATTILE_TRY(p.bring(own_rows_and_columns(p.local.c), &c_memory_, &c_));
    if (!is_absent(p.local.bias)) {
        const int32_t axis = p.local.bias_axis == ATTILE_BIAS_ROWS ? 0 : 1;
        const int64_t first = p.d.layout.axis[axis].below(p.rank, layout_.axis[axis].next(p.rank, 0).begin);
        ATTILE_TRY(p.bring(slice(p.local.bias, 0, first, sums_.shape[axis]), &bias_memory_, &bias_));
    }
    return one_product || image_.dtype == p.wide() ? ATTILE_OK : take_sums();
}

int32_t GridResult::add_product(const attile_tensor &a, const attile_tensor &b, bool first, bool last) {
    if (is_empty()) return ATTILE_OK;
    attile_gemm_args args = problem_.local;
    args.d = sums_;
    args.a = a;
    args.b = b;
    if (is_absent(a)) {
        // A sum of nothing: of the types that lead to these sums.
        const int64_t a_shape[2] = {sums_.shape[0], 0}, b_shape[2] = {0, sums_.shape[1]};
        ATTILE_TRY(attile_tensor_init(&args.a, nullptr, problem_.a.part.dtype, 2, a_shape));
        ATTILE_TRY(attile_tensor_init(&args.b, nullptr, problem_.a.part.dtype, 2, b_shape));
    }
    args.c = first ? c_ : sums_;
    args.beta = first ? problem_.local.beta : 1.0;
    args.bias = last ? bias_ : attile_tensor{};
    args.bias_axis = last ? problem_.local.bias_axis : ATTILE_BIAS_NONE;
    args.activation = last ? problem_.local.activation : ATTILE_ACTIVATION_NONE;
    ATTILE_TRY(attile_gemm(problem_.context, &args));
    return problem_.settle();
}

int32_t GridResult::end_sums() {
    if (is_absent(bias_) && problem_.local.activation == ATTILE_ACTIVATION_NONE) return ATTILE_OK;
    return add_product({}, {}, false, true);
}

int32_t GridResult::finish(Session &session) {
    const GridGemm &p = problem_;
    if (session.sound() && !is_empty() && sums_.dtype != image_.dtype) {
        ATTILE_TRY(session.take(guarded([&] {
            const attile_tensor rounded = own_rows_and_columns(image_);
            return p.on_device() ? device_.copy(with_four_axes(sums_), with_four_axes(rounded))
                                 : write_out(p.context, p.host_memory, p.local.stream, sums_, rounded);
        })));
    }
    if (shared_) {
        ATTILE_TRY(spread_.start(session, {0, p.d.layout.axis[0].extent}, own_rows_and_columns(image_), image_));
        ATTILE_TRY(session.link().finish());
        ATTILE_TRY(spread_.land(session));
    }
    if (!session.sound()) return ATTILE_OK;
    if (image_.data == p.d.part.data) return session.take(guarded([&] { return p.settle(); }));
    return session.take(guarded([&] { return write_out(p.context, p.host_memory, p.local.stream, image_, p.d.part); }));
}

}  // namespace attile::core
