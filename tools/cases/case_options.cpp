// SPDX-License-Identifier: Apache-2.0
#include "case_options.h"

#include "cases_exact.h"
#include "cases_quantised.h"

namespace attile::test {
namespace {

template <class Problem>
const Problem &in(const Case &c) {
    return std::get<Problem>(c.problem);
}
template <class Problem>
Problem &in(Case &c) {
    return std::get<Problem>(c.problem);
}

constexpr Layout kOdd = {.pad = 3, .offset = 1}, kHeadsInside = {.order = Order::kHeadsInside}, kColumns = {.order = Order::kFortran};

bool is_odd(const Layout &layout) { return layout.offset != 0 || layout.pad != 0; }
bool is_plain(const Layout &layout) { return layout.order == Order::kRowMajor && layout.step == 1 && layout.broadcast == 0; }

// An option that is a field with one value.
#define ATTILE_OPTION(Problem, name, field, value)                                         \
    CaseOption {                                                                           \
        name, [](const Case &c) { return in<Problem>(c).field == (value); }, [](Case &c) { \
            in<Problem>(c).field = (value);                                                \
            return true;                                                                   \
        }                                                                                  \
    }
#define ATTILE_FLAG_OPTION(Problem, name, flag)                                                 \
    CaseOption {                                                                                \
        name, [](const Case &c) { return (in<Problem>(c).flags & (flag)) != 0; }, [](Case &c) { \
            in<Problem>(c).flags |= (flag);                                                     \
            return true;                                                                        \
        }                                                                                       \
    }
#define ATTILE_LAYOUT_OPTION(Problem, name, field, test, value)                       \
    CaseOption {                                                                      \
        name, [](const Case &c) { return test(in<Problem>(c).field); }, [](Case &c) { \
            if (!is_plain(in<Problem>(c).field)) return false;                        \
            in<Problem>(c).field = (value);                                           \
            return true;                                                              \
        }                                                                             \
    }

bool is_columns(const Layout &layout) { return layout.order == Order::kFortran; }
bool is_heads_inside(const Layout &layout) { return layout.order == Order::kHeadsInside; }

// ---- Types: that of the operands, and that of the result where it differs.

std::int32_t *input_type(Case &c) {
    return std::visit(
        [](auto &problem) {
            if constexpr (requires { problem.forward; })
                return &problem.forward.dtype;
            else
                return &problem.dtype;
        },
        c.problem);
}

std::int32_t *output_type(Case &c) {
    return std::visit(
        [](auto &problem) {
            if constexpr (requires { problem.forward; })
                return &problem.grad_dtype;
            else
                return &problem.out_dtype;
        },
        c.problem);
}

template <std::int32_t kIn, std::int32_t kOut>
bool has_types(const Case &c) {
    Case &same = const_cast<Case &>(c);  // only read
    return *input_type(same) == kIn && *output_type(same) == kOut;
}

template <std::int32_t kIn, std::int32_t kOut>
bool give_types(Case &c) {
    *input_type(c) = kIn;
    *output_type(c) = kOut;
    if (auto *gemm = std::get_if<GemmCase>(&c.problem)) gemm->bias_dtype = kOut;
    if (auto *attention = std::get_if<AttentionCase>(&c.problem)) attention->bias_dtype = kIn;
    if (auto *backward = std::get_if<BackwardCase>(&c.problem)) {
        backward->forward.out_dtype = backward->forward.bias_dtype = backward->dout_dtype = kIn;
        backward->dbias_dtype = kOut;
    }
    if (auto *backward = std::get_if<MergeBackwardCase>(&c.problem)) backward->forward.out_dtype = backward->dout_dtype = kIn;
    return true;
}

template <std::int32_t kIn, std::int32_t kOut>
CaseOption types(const char *name) {
    return {name, has_types<kIn, kOut>, give_types<kIn, kOut>};
}

void add_types(std::vector<CaseOption> &options) {
    options.insert(options.end(), {types<ATTILE_F32, ATTILE_F32>("f32"), types<ATTILE_F16, ATTILE_F16>("f16"),
                                   types<ATTILE_F16, ATTILE_F32>("f16_f32"), types<ATTILE_BF16, ATTILE_BF16>("bf16"),
                                   types<ATTILE_BF16, ATTILE_F32>("bf16_f32"), types<ATTILE_F64, ATTILE_F64>("f64"), exact_option()});
}

// ---- gemm

bool give_batch(Case &c, std::vector<std::int64_t> batch) {
    GemmCase &gemm = in<GemmCase>(c);
    if (!gemm.batch.empty()) return false;
    gemm.batch = std::move(batch);
    return true;
}

std::vector<CaseOption> gemm_options() {
    using G = GemmCase;
    return {
        ATTILE_OPTION(G, "bias_columns", bias_axis, ATTILE_BIAS_COLUMNS),
        ATTILE_OPTION(G, "bias_rows", bias_axis, ATTILE_BIAS_ROWS),
        ATTILE_OPTION(G, "relu", activation, ATTILE_ACTIVATION_RELU),
        ATTILE_OPTION(G, "gelu", activation, ATTILE_ACTIVATION_GELU),
        ATTILE_OPTION(G, "gelu_tanh", activation, ATTILE_ACTIVATION_GELU_TANH),
        ATTILE_OPTION(G, "silu", activation, ATTILE_ACTIVATION_SILU),
        ATTILE_OPTION(G, "nan_and_infinity", pattern, GemmPattern::kSpecial),
        ATTILE_LAYOUT_OPTION(G, "a_by_columns", a_layout, is_columns, kColumns),
        ATTILE_LAYOUT_OPTION(G, "b_by_columns", b_layout, is_columns, kColumns),
        ATTILE_LAYOUT_OPTION(G, "d_by_columns", d_layout, is_columns, kColumns),
        ATTILE_LAYOUT_OPTION(G, "a_odd", a_layout, is_odd, kOdd),
        ATTILE_LAYOUT_OPTION(G, "b_odd", b_layout, is_odd, kOdd),
        ATTILE_LAYOUT_OPTION(G, "d_odd", d_layout, is_odd, kOdd),
        ATTILE_FLAG_OPTION(G, "batch_invariant", ATTILE_FLAG_BATCH_INVARIANT),
        {"beta", [](const Case &c) { return in<G>(c).beta != 0; },
         [](Case &c) {
             in<G>(c).beta = -0.5;
             return true;
         }},
        {"c_is_d", [](const Case &c) { return in<G>(c).in_place; },
         [](Case &c) {
             in<G>(c).beta = 1;
             in<G>(c).in_place = true;
             in<G>(c).c_form = BatchForm::kFull;
             return true;
         }},
        {"c_unread", [](const Case &c) { return in<G>(c).c_given && in<G>(c).beta == 0; },
         [](Case &c) {
             in<G>(c).c_given = in<G>(c).beta == 0 && !in<G>(c).in_place;
             return in<G>(c).c_given;
         }},
        {"alpha", [](const Case &c) { return in<G>(c).alpha != 1 && in<G>(c).alpha != 0; },
         [](Case &c) {
             in<G>(c).alpha = -2;
             return true;
         }},
        {"batch", [](const Case &c) { return in<G>(c).batch.size() == 1; }, [](Case &c) { return give_batch(c, {3}); }},
        {"batch_of_two_axes", [](const Case &c) { return in<G>(c).batch.size() == 2; },
         [](Case &c) {
             return give_batch(c, {2, 3});
         }},
        {"b_shared", [](const Case &c) { return !in<G>(c).batch.empty() && in<G>(c).b_form != BatchForm::kFull; },
         [](Case &c) {
             in<G>(c).b_form = BatchForm::kMissing;
             return !in<G>(c).batch.empty();
         }},
        {"bias_in_f32",
         [](const Case &c) { return in<G>(c).bias_axis != 0 && in<G>(c).out_dtype != ATTILE_F32 && in<G>(c).bias_dtype == ATTILE_F32; },
         [](Case &c) {
             if (in<G>(c).out_dtype == ATTILE_F32) return false;
             if (in<G>(c).bias_axis == 0) in<G>(c).bias_axis = ATTILE_BIAS_COLUMNS;
             in<G>(c).bias_dtype = ATTILE_F32;
             return true;
         }},
    };
}

std::vector<CaseOption> joined(std::vector<CaseOption> options, const std::vector<CaseOption> &more) {
    options.insert(options.end(), more.begin(), more.end());
    return options;
}

// ---- attention, forward and backward: options of the forward call

AttentionCase &forward(Case &c) {
    if (auto *backward = std::get_if<BackwardCase>(&c.problem)) return backward->forward;
    return in<AttentionCase>(c);
}
const AttentionCase &forward(const Case &c) { return forward(const_cast<Case &>(c)); }
bool is_backward(const Case &c) { return std::holds_alternative<BackwardCase>(c.problem); }

#define ATTILE_FORWARD_OPTION(name, field, value)                                      \
    CaseOption {                                                                       \
        name, [](const Case &c) { return forward(c).field == (value); }, [](Case &c) { \
            forward(c).field = (value);                                                \
            return true;                                                               \
        }                                                                              \
    }

bool give_window(Case &c, std::int32_t mask) {
    forward(c).mask = mask;
    forward(c).window_left = 20;
    forward(c).window_right = 3;
    return true;
}

bool give_layout(Case &c, const Layout &layout) {
    AttentionCase &a = forward(c);
    for (const Layout *each : {&a.q_layout, &a.k_layout, &a.v_layout, &a.o_layout})
        if (!is_plain(*each)) return false;
    a.q_layout = a.k_layout = a.v_layout = a.o_layout = layout;
    return true;
}

std::vector<CaseOption> score_options() {
    using A = AttentionCase;
    return {
        ATTILE_FORWARD_OPTION("causal_top_left", mask, ATTILE_MASK_CAUSAL_TOP_LEFT),
        ATTILE_FORWARD_OPTION("causal_bottom_right", mask, ATTILE_MASK_CAUSAL_BOTTOM_RIGHT),
        {"window_top_left", [](const Case &c) { return forward(c).mask == ATTILE_MASK_WINDOW_TOP_LEFT; },
         [](Case &c) { return give_window(c, ATTILE_MASK_WINDOW_TOP_LEFT); }},
        {"window_bottom_right", [](const Case &c) { return forward(c).mask == ATTILE_MASK_WINDOW_BOTTOM_RIGHT; },
         [](Case &c) { return give_window(c, ATTILE_MASK_WINDOW_BOTTOM_RIGHT); }},
        {"scale", [](const Case &c) { return forward(c).scale != 0; },
         [](Case &c) {
             forward(c).scale = -0.3;
             return true;
         }},
        {"softcap", [](const Case &c) { return forward(c).softcap != 0; },
         [](Case &c) {
             forward(c).softcap = 1.5;
             return true;
         }},
        {"bias", [](const Case &c) { return forward(c).bias != BiasKind::kNone && forward(c).bias_axes == 15; },
         [](Case &c) {
             forward(c).bias = BiasKind::kNormal;
             forward(c).bias_axes = 15;
             forward(c).bias_rank = 4;
             return true;
         }},
        {"bias_of_keys", [](const Case &c) { return forward(c).bias != BiasKind::kNone && forward(c).bias_axes == 8; },
         [](Case &c) {
             forward(c).bias = BiasKind::kNormal;
             forward(c).bias_axes = 8;
             forward(c).bias_rank = 1;
             return true;
         }},
        {"bias_hides", [](const Case &c) { return forward(c).bias == BiasKind::kSomeHidden || forward(c).bias == BiasKind::kRowsHidden; },
         [](Case &c) {
             forward(c).bias = BiasKind::kSomeHidden;
             return true;
         }},
        {"bias_in_f32",
         [](const Case &c) {
             return forward(c).dtype != ATTILE_F32 && forward(c).bias != BiasKind::kNone && forward(c).bias_dtype == ATTILE_F32;
         },
         [](Case &c) {
             if (forward(c).dtype == ATTILE_F32 || is_backward(c)) return false;
             if (forward(c).bias == BiasKind::kNone) forward(c).bias = BiasKind::kNormal;
             forward(c).bias_dtype = ATTILE_F32;
             return true;
         }},
        {"allowed", [](const Case &c) { return forward(c).allowed != MaskBytes::kNone && forward(c).allowed_axes == 15; },
         [](Case &c) {
             forward(c).allowed = MaskBytes::kRandom;
             forward(c).allowed_axes = 15;
             forward(c).allowed_rank = 4;
             return true;
         }},
        {"allowed_of_rows_and_keys", [](const Case &c) { return forward(c).allowed != MaskBytes::kNone && forward(c).allowed_axes == 12; },
         [](Case &c) {
             forward(c).allowed = MaskBytes::kRandom;
             forward(c).allowed_axes = 12;
             forward(c).allowed_rank = 2;
             return true;
         }},
        ATTILE_FORWARD_OPTION("alibi", alibi, 1),
        ATTILE_FORWARD_OPTION("alibi_of_batch", alibi, 2),
        ATTILE_FORWARD_OPTION("sinks", sinks, true),
        ATTILE_FORWARD_OPTION("key_lengths", key_lengths, true),
        ATTILE_FORWARD_OPTION("key_starts", key_starts, true),
        {"causal_offset", [](const Case &c) { return forward(c).causal_offset; },
         [](Case &c) {
             forward(c).causal_offset = forward(c).mask != ATTILE_MASK_NONE || forward(c).alibi != 0;
             return forward(c).causal_offset;
         }},
        ATTILE_FORWARD_OPTION("block_mask", block_mask, MaskBytes::kRandom),
        {"tree_mask", [](const Case &c) { return forward(c).tree_keys != 0; },
         [](Case &c) {
             forward(c).tree_keys = std::min<std::int64_t>(forward(c).len_k - forward(c).max_len_cut, 40);
             return forward(c).tree_keys > 0;
         }},
        {"rows_packed", [](const Case &c) { return forward(c).packed_q && !forward(c).packed_k; },
         [](Case &c) {
             forward(c).packed_q = !forward(c).packed_k;
             return forward(c).packed_q;
         }},
        {"packed", [](const Case &c) { return forward(c).packed_q && forward(c).packed_k; },
         [](Case &c) {
             A &a = forward(c);
             if (a.page_size != 0) return false;
             if (a.packed_q && !a.packed_k) return false;
             a.packed_q = a.packed_k = true;
             return true;
         }},
        {"heads_grouped", [](const Case &c) { return forward(c).heads_q > forward(c).heads_kv; },
         [](Case &c) {
             if (forward(c).heads_q % 2 != 0) forward(c).heads_q *= 2;
             forward(c).heads_kv = forward(c).heads_q / 2;
             return forward(c).heads_kv > 0;
         }},
        {"narrower_v", [](const Case &c) { return forward(c).head_dim_v < forward(c).head_dim; },
         [](Case &c) {
             forward(c).head_dim_v = forward(c).head_dim / 2;
             return forward(c).head_dim_v > 0;
         }},
        {"blhd", [](const Case &c) { return is_heads_inside(forward(c).q_layout); }, [](Case &c) { return give_layout(c, kHeadsInside); }},
        {"odd", [](const Case &c) { return is_odd(forward(c).k_layout); }, [](Case &c) { return give_layout(c, kOdd); }},
        {"batch_invariant", [](const Case &c) { return (forward(c).flags & ATTILE_FLAG_BATCH_INVARIANT) != 0; },
         [](Case &c) {
             forward(c).flags |= ATTILE_FLAG_BATCH_INVARIANT;
             return true;
         }},
    };
}

std::vector<CaseOption> attention_options() {
    std::vector<CaseOption> options = score_options();
    options.push_back(ATTILE_FORWARD_OPTION("no_lse", lse, false));
    options.push_back({"paged", [](const Case &c) { return forward(c).page_size != 0; },
                       [](Case &c) {
                           if (forward(c).packed_k) return false;
                           forward(c).page_size = 16;
                           return true;
                       }});
    // No option of a call, but of a kernel's path: sums are rescaled late.
    options.push_back(ATTILE_FORWARD_OPTION("huge_late_key", pattern, AttentionPattern::kHugeLateKey));
    return options;
}

std::vector<CaseOption> backward_options() {
    std::vector<CaseOption> options = score_options();
    options.push_back({"no_dbias", [](const Case &c) { return forward(c).bias != BiasKind::kNone && !in<BackwardCase>(c).dbias; },
                       [](Case &c) {
                           in<BackwardCase>(c).dbias = false;
                           return forward(c).bias != BiasKind::kNone;
                       }});
    options.push_back(ATTILE_OPTION(BackwardCase, "dlse", dlse, true));
    options.push_back(ATTILE_FORWARD_OPTION("huge_late_key", pattern, AttentionPattern::kHugeLateKey));
    return options;
}

// ---- attention_merge and its gradients, reduce, softmax

std::vector<CaseOption> merge_options() {
    using M = MergeCase;
    return {
        ATTILE_OPTION(M, "no_lse", lse, false),
        ATTILE_OPTION(M, "in_place", in_place, 0),
        {"many_parts", [](const Case &c) { return in<M>(c).parts > 2; },
         [](Case &c) {
             in<M>(c).parts = 5;
             return true;
         }},
        {"empty_parts", [](const Case &c) { return in<M>(c).empty_share > 0; },
         [](Case &c) {
             in<M>(c).empty_share = 0.5;
             return true;
         }},
        ATTILE_LAYOUT_OPTION(M, "parts_odd", part_layout, is_odd, kOdd),
        ATTILE_LAYOUT_OPTION(M, "o_odd", o_layout, is_odd, kOdd),
        ATTILE_LAYOUT_OPTION(M, "parts_blhd", part_layout, is_heads_inside, kHeadsInside),
    };
}

std::vector<CaseOption> merge_backward_options() {
    using M = MergeBackwardCase;
    return {
        ATTILE_OPTION(M, "no_dlse", dlse, false),
        {"many_parts", [](const Case &c) { return in<M>(c).forward.parts > 2; },
         [](Case &c) {
             in<M>(c).forward.parts = 5;
             return true;
         }},
        {"empty_parts", [](const Case &c) { return in<M>(c).forward.empty_share > 0; },
         [](Case &c) {
             in<M>(c).forward.empty_share = 0.5;
             return true;
         }},
        ATTILE_LAYOUT_OPTION(M, "parts_odd", forward.part_layout, is_odd, kOdd),
        ATTILE_LAYOUT_OPTION(M, "gradients_odd", grad_layout, is_odd, kOdd),
        ATTILE_LAYOUT_OPTION(M, "dout_odd", dout_layout, is_odd, kOdd),
        ATTILE_LAYOUT_OPTION(M, "parts_blhd", forward.part_layout, is_heads_inside, kHeadsInside),
    };
}

template <class Rows>
void add_row_options(std::vector<CaseOption> &options) {
    options.insert(options.end(), {
                                      ATTILE_OPTION(Rows, "minus_infinity", pattern, RowPattern::kMinusInfinity),
                                      ATTILE_OPTION(Rows, "nan", pattern, RowPattern::kNan),
                                      ATTILE_OPTION(Rows, "infinity", pattern, RowPattern::kInfinity),
                                      ATTILE_LAYOUT_OPTION(Rows, "x_odd", x_layout, is_odd, kOdd),
                                      ATTILE_LAYOUT_OPTION(Rows, "y_odd", y_layout, is_odd, kOdd),
                                      ATTILE_FLAG_OPTION(Rows, "batch_invariant", ATTILE_FLAG_BATCH_INVARIANT),
                                  });
}

std::vector<CaseOption> reduce_options() {
    std::vector<CaseOption> options = {
        ATTILE_OPTION(ReduceCase, "max", op, ATTILE_REDUCE_MAX),
        ATTILE_OPTION(ReduceCase, "min", op, ATTILE_REDUCE_MIN),
        ATTILE_OPTION(ReduceCase, "mean", op, ATTILE_REDUCE_MEAN),
    };
    add_row_options<ReduceCase>(options);
    return options;
}

std::vector<CaseOption> softmax_options() {
    std::vector<CaseOption> options = {{"in_place", [](const Case &c) { return in<SoftmaxCase>(c).in_place; },
                                        [](Case &c) {
                                            in<SoftmaxCase>(c).in_place = true;
                                            in<SoftmaxCase>(c).out_dtype = in<SoftmaxCase>(c).dtype;
                                            return true;
                                        }},
                                       ATTILE_OPTION(SoftmaxCase, "large", pattern, RowPattern::kLarge)};
    add_row_options<SoftmaxCase>(options);
    return options;
}

}  // namespace

const std::vector<CaseOption> &options_of(std::string_view operation) {
    const auto with_types = [](std::vector<CaseOption> options) {
        add_types(options);
        return options;
    };
    static const std::vector<CaseOption> none, gemm = with_types(joined(gemm_options(), quantised_options())),
                                               attention = with_types(joined(attention_options(), cached_options())),
                                               backward = with_types(backward_options()), merge = with_types(merge_options()),
                                               merge_backward = with_types(merge_backward_options()), reduce = with_types(reduce_options()),
                                               softmax = with_types(softmax_options());
    return operation == "gemm"                       ? gemm
           : operation == "attention"                ? attention
           : operation == "attention_backward"       ? backward
           : operation == "attention_merge"          ? merge
           : operation == "attention_merge_backward" ? merge_backward
           : operation == "reduce"                   ? reduce
           : operation == "softmax"                  ? softmax
                                                     : none;
}

}  // namespace attile::test
