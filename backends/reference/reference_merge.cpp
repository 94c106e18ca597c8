// SPDX-License-Identifier: Apache-2.0
// Merging of partial attention results: lse = log sum_p exp(lse_p), o = sum_p exp(lse_p - lse) o_p.
#include <cmath>
#include <limits>

#include "reference_backend.h"
#include "reference_element.h"
#include "reference_exact.h"

namespace attile::reference {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

double merged_lse(const attile_attention_merge_problem *p, std::int64_t b, std::int64_t h, std::int64_t l) {
    double max = kMinusInfinity;
    for (std::int64_t part = 0; part < p->parts; ++part) {
        const double lse = load(p->lse_parts[part], b, h, l);
        if (lse > max || std::isnan(lse)) max = lse;
    }
    if (max == kMinusInfinity) return max;
    double sum = 0;
    for (std::int64_t part = 0; part < p->parts; ++part) sum += std::exp(load(p->lse_parts[part], b, h, l) - max);
    return max + std::log(sum);
}

std::int32_t run(void *, const attile_attention_merge_problem *p) {
    if (is_exact(p->launch)) return merge_exactly(p), ATTILE_OK;
    for (std::int64_t b = 0; b < p->batch; ++b)
        for (std::int64_t h = 0; h < p->heads; ++h)
            for (std::int64_t l = 0; l < p->len; ++l) {
                const double lse = merged_lse(p, b, h, l);
                for (std::int64_t d = 0; d < p->head_dim_v; ++d) {
                    double sum = 0;
                    for (std::int64_t part = 0; part < p->parts; ++part) {
                        const double part_lse = load(p->lse_parts[part], b, h, l);
                        if (part_lse != kMinusInfinity) sum += std::exp(part_lse - lse) * load(p->o_parts[part], b, h, l, d);
                    }
                    store(p->o, sum, b, h, l, d);
                }
                if (present(p->lse)) store(p->lse, lse, b, h, l);  // last: it may be a part's, which the loop above reads
            }
    return ATTILE_OK;
}

std::int32_t query(void *, const attile_attention_merge_problem *p, attile_support *support) {
    const double rows = static_cast<double>(p->batch) * static_cast<double>(p->heads) * static_cast<double>(p->len);
    const double parts = static_cast<double>(p->parts), dv = static_cast<double>(p->head_dim_v);
    const double read = parts * (dv * bytes_of(p->o_parts[0]) + bytes_of(p->lse_parts[0]));
    const double written = dv * bytes_of(p->o) + bytes_of(p->lse);
    answer(support, is_exact(p->launch) ? "reference_attention_merge_exact" : "reference_attention_merge", 0, 2 * rows * parts * dv,
           rows * (read + written));
    return ATTILE_OK;
}

}  // namespace

const attile_attention_merge_interface attention_merge_interface = {sizeof(attile_attention_merge_interface), 2, query, run};

}  // namespace attile::reference
