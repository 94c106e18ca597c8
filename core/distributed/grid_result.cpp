// SPDX-License-Identifier: Apache-2.0
#include "distributed/grid_result.h"

#include <algorithm>

#include "distributed/sums.h"
#include "message.h"
#include "tensor.h"

namespace attile::core {
namespace {

// A dense matrix with these extents, its neighbours near along `fast`.
attile_tensor dense_matrix(void *data, int32_t dtype, const int64_t *shape, int32_t fast) {
    attile_tensor tensor{};
    tensor.data = data;
    tensor.dtype = dtype;
    tensor.rank = 2;
    tensor.shape[0] = shape[0];
    tensor.shape[1] = shape[1];
    tensor.stride[fast] = 1;
    tensor.stride[1 - fast] = std::max<int64_t>(1, shape[fast]);
    return tensor;
}

void widen(const attile_tensor &from, const attile_tensor &to) {
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
      spread_(layout_, problem.d.layout, 0, Arrival::kCopy, problem.d.fast) {}

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
    if (p.host_memory || image_.data == nullptr || p.d.layout.elements(p.rank) == 0) return ATTILE_OK;
    int32_t kind = ATTILE_MEMORY_HOST;
    ATTILE_TRY(attile_memory_kind(p.context, image_.data, &kind));
    if (kind != ATTILE_MEMORY_DEVICE) return ATTILE_OK;
    ATTILE_TRY(image_memory_.take(p.operation, product({image_.shape[0], image_.shape[1]}), element_bytes(image_.dtype)));
    image_ = dense_matrix(image_memory_.at(), image_.dtype, image_.shape, p.d.own_fast);
    return ATTILE_OK;
}

// What sums of f16 and bf16 begin and end with, in float32 as they are.
int32_t GridResult::take_sums() {
    const GridGemm &p = problem_;
    const int64_t elements = product({sums_.shape[0], sums_.shape[1]});
    ATTILE_TRY(sums_memory_.take(p.operation, elements, element_bytes(p.wide())));
    sums_ = dense_matrix(sums_memory_.at(), p.wide(), sums_.shape, p.d.own_fast);
    if (p.local.beta != 0.0) {
        widen(c_, sums_);
        c_ = sums_;
    }
    if (is_absent(bias_) || bias_.dtype == ATTILE_F32) return ATTILE_OK;
    ATTILE_TRY(wide_bias_memory_.take(p.operation, bias_.shape[0], element_bytes(ATTILE_F32)));
    attile_tensor wide{};
    ATTILE_TRY(attile_tensor_init(&wide, wide_bias_memory_.at(), ATTILE_F32, 1, bias_.shape));
    widen(bias_, wide);
    bias_ = wide;
    return ATTILE_OK;
}

int32_t GridResult::prepare(bool one_product) {
    const GridGemm &p = problem_;
    ATTILE_TRY(take_image());
    sums_ = own_rows_and_columns(image_);
    if (shared_) {
        const int64_t width = std::max<int64_t>(1, p.d.layout.axis[0].extent);
        ATTILE_TRY(spread_.prepare(p.operation, p.rank, p.ranks, image_.dtype, width));
    }
    if (is_empty()) return ATTILE_OK;
    if (p.local.beta != 0.0)
        ATTILE_TRY(bring_to_host(p.context, p.host_memory, p.local.stream, own_rows_and_columns(p.local.c), &c_memory_, &c_));
    if (!is_absent(p.local.bias)) {
        const int32_t axis = p.local.bias_axis == ATTILE_BIAS_ROWS ? 0 : 1;
        const int64_t first = p.d.layout.axis[axis].below(p.rank, layout_.axis[axis].next(p.rank, 0).begin);
        ATTILE_TRY(bring_to_host(p.context, p.host_memory, p.local.stream, slice(p.local.bias, 0, first, sums_.shape[axis]), &bias_memory_,
                                 &bias_));
    }
    return one_product || image_.dtype == p.wide() ? ATTILE_OK : take_sums();
}

int32_t GridResult::synchronize() const {
    return problem_.host_memory ? ATTILE_OK : attile_synchronize(problem_.context, problem_.local.stream);
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
    return synchronize();
}

int32_t GridResult::end_sums() {
    if (is_absent(bias_) && problem_.local.activation == ATTILE_ACTIVATION_NONE) return ATTILE_OK;
    return add_product({}, {}, false, true);
}

int32_t GridResult::finish(Session &session) {
    const GridGemm &p = problem_;
    Link &link = session.link();
    if (session.sound() && !is_empty() && sums_.dtype != image_.dtype) {
        ATTILE_TRY(session.take(
            guarded([&] { return write_out(p.context, p.host_memory, p.local.stream, sums_, own_rows_and_columns(image_)); })));
    }
    if (shared_) {
        ATTILE_TRY(spread_.start(link, {0, p.d.layout.axis[0].extent}, own_rows_and_columns(image_), image_));
        ATTILE_TRY(link.finish());
        spread_.land();
    }
    if (!session.sound() || image_.data == p.d.part.data) return ATTILE_OK;
    return session.take(guarded([&] { return write_out(p.context, p.host_memory, p.local.stream, image_, p.d.part); }));
}

}  // namespace attile::core
