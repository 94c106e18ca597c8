// SPDX-License-Identifier: Apache-2.0
// Gradients of merging: with w_p = exp(lse_p - lse), do_p = w_p dout and dlse_p = w_p (sum_d dout_d (o_p,d - o_d) + dlse).
#include <cmath>
#include <limits>

#include "reference_backend.h"
#include "reference_element.h"

namespace attile::reference {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

void one_row(const attile_attention_merge_backward_problem *p, std::int64_t part, std::int64_t b, std::int64_t h, std::int64_t l) {
    const double lse = load(p->lse, b, h, l), part_lse = load(p->lse_parts[part], b, h, l);
    if (lse == kMinusInfinity || part_lse == kMinusInfinity) {  // nothing of the part is in o, whatever it holds
        for (std::int64_t d = 0; d < p->head_dim_v; ++d) store(p->do_parts[part], 0, b, h, l, d);
        store(p->dlse_parts[part], 0, b, h, l);
        return;
    }
    const double weight = std::exp(part_lse - lse);
    double sum = 0;
    for (std::int64_t d = 0; d < p->head_dim_v; ++d) {
        const double dout = load(p->dout, b, h, l, d);
        sum += dout * (load(p->o_parts[part], b, h, l, d) - load(p->o, b, h, l, d));
        store(p->do_parts[part], weight * dout, b, h, l, d);
    }
    if (present(p->dlse)) sum += load(p->dlse, b, h, l);
    store(p->dlse_parts[part], weight * sum, b, h, l);
}

std::int32_t run(void *, const attile_attention_merge_backward_problem *p) {
    for (std::int64_t part = 0; part < p->parts; ++part)
        for (std::int64_t b = 0; b < p->batch; ++b)
            for (std::int64_t h = 0; h < p->heads; ++h)
                for (std::int64_t l = 0; l < p->len; ++l) one_row(p, part, b, h, l);
    return ATTILE_OK;
}

std::int32_t query(void *, const attile_attention_merge_backward_problem *p, attile_support *support) {
    const double rows = static_cast<double>(p->batch) * static_cast<double>(p->heads) * static_cast<double>(p->len);
    const double parts = static_cast<double>(p->parts), dv = static_cast<double>(p->head_dim_v);
    const double once = dv * (bytes_of(p->o) + bytes_of(p->dout)) + bytes_of(p->lse) + bytes_of(p->dlse);
    const double each = dv * (bytes_of(p->o_parts[0]) + bytes_of(p->do_parts[0])) + bytes_of(p->lse_parts[0]) + bytes_of(p->dlse_parts[0]);
    answer(support, "reference_attention_merge_backward", 0, 4 * rows * parts * dv, rows * (parts * each + once));
    return ATTILE_OK;
}

}  // namespace

const attile_attention_merge_backward_interface attention_merge_backward_interface = {sizeof(attile_attention_merge_backward_interface), 1,
                                                                                      query, run};

}  // namespace attile::reference
