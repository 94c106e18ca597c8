// SPDX-License-Identifier: Apache-2.0
// What a conformance case is chiefly about: the first of its features in the order below, the rarer ones first.
#include "case_feature.h"

#include "cases.h"
#include "test_element.h"

namespace attile::cli {
namespace {

using test::AttentionCase;
using test::Layout;

bool is_dense(const Layout &layout) {
    return layout.order == test::Order::kRowMajor && layout.pad == 0 && layout.step == 1 && layout.offset == 0 && layout.reversed == 0 &&
           layout.broadcast == 0 && !layout.absurd_unit_stride;
}

template <typename... Layouts>
bool all_dense(const Layouts &...layouts) {
    return (is_dense(layouts) && ...);
}

std::string feature(const test::GemmCase &c) {
    if (test::is_quantised(c.type_of_b())) return "8 bits";
    if (!all_dense(c.a_layout, c.b_layout, c.c_layout, c.d_layout, c.bias_layout)) return "layouts";
    if (c.bias_axis != ATTILE_BIAS_NONE || c.activation != ATTILE_ACTIVATION_NONE) return "bias, activation";
    if (!c.batch.empty()) return "batch";
    if (c.alpha != 1 || c.beta != 0 || c.c_given) return "alpha, beta";
    if (c.pattern != test::GemmPattern::kNormal) return "hard values";
    return "shapes";
}

std::string feature(const AttentionCase &c) {
    if (test::is_quantised(c.k_storage.dtype) || test::is_quantised(c.v_storage.dtype)) return "8 bits";
    if (c.k_storage.dtype != 0 || c.v_storage.dtype != 0) return "several types";
    if (c.page_size > 0) return "paged";
    if (c.packed_q || c.packed_k) return "packed";
    if (c.key_lengths) return "key lengths";
    if (c.key_starts) return "left padding";
    if (c.causal_offset) return "causal offsets";
    if (c.block_mask != test::MaskBytes::kNone) return "block mask";
    if (c.tree_keys != 0) return "tree mask";
    if (c.alibi != 0) return "ALiBi";
    if (c.sinks) return "sinks";
    if (c.allowed != test::MaskBytes::kNone) return "boolean mask";
    if (c.bias != test::BiasKind::kNone) return "bias";
    if (c.softcap != 0) return "softcap";
    if (c.pattern != test::AttentionPattern::kNormal) return "hard values";
    if (!all_dense(c.q_layout, c.k_layout, c.v_layout, c.o_layout, c.lse_layout)) return "layouts";
    if (c.mask == ATTILE_MASK_WINDOW_TOP_LEFT || c.mask == ATTILE_MASK_WINDOW_BOTTOM_RIGHT) return "window";
    if (c.mask != ATTILE_MASK_NONE) return "causal";
    return "shapes";
}

std::string feature(const test::GroupedCase &c) {
    if (!c.offsets.empty()) return "hard values";
    if (!all_dense(c.a_layout, c.b_layout, c.c_layout, c.d_layout, c.bias_layout, c.offsets_layout)) return "layouts";
    return c.has_bias || c.activation != 0 || c.beta != 0 ? "epilogue" : "shapes";
}

std::string feature(const test::BackwardCase &c) { return feature(c.forward); }

std::string feature(const test::MergeCase &c) {
    if (!all_dense(c.part_layout, c.o_layout, c.lse_layout)) return "layouts";
    if (c.empty_share > 0) return "empty parts";
    return c.in_place >= 0 ? "in place" : "shapes";
}

std::string feature(const test::MergeBackwardCase &c) {
    if (!all_dense(c.dout_layout, c.grad_layout)) return "layouts";
    return feature(c.forward);
}

std::string feature(const test::ReduceCase &c) {
    switch (c.op) {
        case ATTILE_REDUCE_SUM:
            return "sum";
        case ATTILE_REDUCE_MAX:
            return "max";
        case ATTILE_REDUCE_MIN:
            return "min";
        default:
            return "mean";
    }
}

std::string feature(const test::SoftmaxCase &c) {
    if (!all_dense(c.x_layout, c.y_layout)) return "layouts";
    if (c.pattern != test::RowPattern::kNormal) return "hard values";
    return c.in_place ? "in place" : "shapes";
}

}  // namespace

std::string case_feature(const test::Case &one) {
    // Drawn cases combine everything.
    if (one.id.find(".random.") != std::string::npos) return "random";
    return std::visit([](const auto &problem) { return feature(problem); }, one.problem);
}

}  // namespace attile::cli
