// SPDX-License-Identifier: Apache-2.0
// Illegal arguments that are tensors wrong by themselves or overlapping.
#include "illegal_tensors.h"

namespace attile_test {
namespace {

using A = CallArguments;

std::vector<TensorField> make_fields() {
    std::vector<TensorField> fields;
    const auto add = [&](Operation operation, const char *name, bool required, bool output,
                         std::function<attile_tensor &(CallArguments &)> get) {
        fields.push_back({operation, name, std::move(get), required, output});
    };
#define ATTILE_FIELD(operation, call, field, required, output) \
    add(Operation::operation, #field, required, output, [](A &c) -> attile_tensor & { return c.call.args.field; })
    ATTILE_FIELD(kGemm, gemm, a, true, false);
    ATTILE_FIELD(kGemm, gemm, b, true, false);
    ATTILE_FIELD(kGemm, gemm, c, false, false);
    ATTILE_FIELD(kGemm, gemm, d, true, true);
    ATTILE_FIELD(kGemm, gemm, bias, false, false);
    ATTILE_FIELD(kAttention, attention, q, true, false);
    ATTILE_FIELD(kAttention, attention, k, true, false);
    ATTILE_FIELD(kAttention, attention, v, true, false);
    ATTILE_FIELD(kAttention, attention, o, true, true);
    ATTILE_FIELD(kAttention, attention, lse, false, true);
    ATTILE_FIELD(kAttention, attention, bias, false, false);
    ATTILE_FIELD(kAttention, attention, allowed, false, false);
    ATTILE_FIELD(kAttention, attention, alibi_slopes, false, false);
    ATTILE_FIELD(kAttention, attention, sinks, false, false);
    ATTILE_FIELD(kAttention, attention, key_lengths, false, false);
    ATTILE_FIELD(kAttention, attention, key_starts, false, false);
    ATTILE_FIELD(kAttention, attention, causal_offset, false, false);
    ATTILE_FIELD(kAttention, attention, block_mask, false, false);
    ATTILE_FIELD(kAttention, attention, tree_mask, false, false);
    ATTILE_FIELD(kAttentionBackward, attention_backward, dout, true, false);
    ATTILE_FIELD(kAttentionBackward, attention_backward, dq, true, true);
    ATTILE_FIELD(kAttentionBackward, attention_backward, dk, true, true);
    ATTILE_FIELD(kAttentionBackward, attention_backward, dv, true, true);
    ATTILE_FIELD(kAttentionBackward, attention_backward, dbias, false, true);
    ATTILE_FIELD(kAttentionBackward, attention_backward, dsinks, false, true);
    ATTILE_FIELD(kAttentionBackward, attention_backward, dlse, false, false);
    ATTILE_FIELD(kAttentionMerge, attention_merge, o, true, true);
    ATTILE_FIELD(kAttentionMerge, attention_merge, lse, false, true);
    ATTILE_FIELD(kAttentionMergeBackward, attention_merge_backward, dout, true, false);
    ATTILE_FIELD(kAttentionMergeBackward, attention_merge_backward, dlse, false, false);
    ATTILE_FIELD(kReduce, reduce, x, true, false);
    ATTILE_FIELD(kReduce, reduce, y, true, true);
    ATTILE_FIELD(kSoftmax, softmax, x, true, false);
    ATTILE_FIELD(kSoftmax, softmax, y, true, true);
#undef ATTILE_FIELD
    const auto add_parts = [&](Operation operation, const char *name, bool output, attile_tensor(A::*parts)[2]) {
        for (size_t i = 0; i < 2; ++i) {
            const std::string one = std::string(name) + "[" + std::to_string(i) + "]";
            add(operation, one.c_str(), true, output, [parts, i](A &c) -> attile_tensor & { return (c.*parts)[i]; });
        }
    };
    add_parts(Operation::kAttentionMerge, "o_parts", false, &A::o_parts);
    add_parts(Operation::kAttentionMerge, "lse_parts", false, &A::lse_parts);
    add_parts(Operation::kAttentionMergeBackward, "do_parts", true, &A::do_parts);
    add_parts(Operation::kAttentionMergeBackward, "dlse_parts", true, &A::dlse_parts);
    // What a forward call writes, a backward call reads.
    const size_t own = fields.size();
    for (size_t i = 0; i < own; ++i) {
        const bool is_merge = fields[i].operation == Operation::kAttentionMerge;
        if (fields[i].operation != Operation::kAttention && !is_merge) continue;
        const bool required = fields[i].required || fields[i].name == "lse";
        const Operation backward = is_merge ? Operation::kAttentionMergeBackward : Operation::kAttentionBackward;
        fields.push_back({backward, "forward->" + fields[i].name, fields[i].get, required, false});
    }
    return fields;
}

void append_one_tensor(const TensorField &field, std::vector<IllegalArgument> *table) {
    const auto get = field.get;
    const auto add = [&](const char *what, int32_t status, bool only_run, std::function<void(attile_tensor &)> spoil) {
        table->push_back({std::string(operation_name(field.operation)) + "/" + field.name + "/" + what, field.operation,
                          [get, spoil](A &c) { spoil(get(c)); }, status, field.name, only_run});
    };
    add("dtype_unknown", ATTILE_ERROR_INVALID_DTYPE, false, [](attile_tensor &t) { t.dtype = 0x7777; });
    add("dtype_negative", ATTILE_ERROR_INVALID_DTYPE, false, [](attile_tensor &t) { t.dtype = -1; });
    add("dtype_0", ATTILE_ERROR_INVALID_DTYPE, false, [](attile_tensor &t) { t.dtype = 0; });
    add("dtype_of_another_kind", ATTILE_ERROR_INVALID_DTYPE, false,
        [](attile_tensor &t) { t.dtype = t.dtype == ATTILE_I32 ? ATTILE_F32 : ATTILE_I32; });
    add("rank_0", ATTILE_ERROR_INVALID_RANK, false, [](attile_tensor &t) { t.rank = 0; });
    add("rank_5", ATTILE_ERROR_INVALID_RANK, false, [](attile_tensor &t) { t.rank = 5; });
    add("rank_negative", ATTILE_ERROR_INVALID_RANK, false, [](attile_tensor &t) { t.rank = -2; });
    add("rank_huge", ATTILE_ERROR_INVALID_RANK, false, [](attile_tensor &t) { t.rank = INT32_MAX; });
    add("extent_negative", ATTILE_ERROR_INVALID_SHAPE, false, [](attile_tensor &t) { t.shape[t.rank - 1] = -1; });
    add("extent_lowest", ATTILE_ERROR_INVALID_SHAPE, false, [](attile_tensor &t) { t.shape[0] = INT64_MIN; });
    // Every tensor of the valid calls has a first axis longer than 1.
    add("stride_overflow", ATTILE_ERROR_OVERFLOW, false, [](attile_tensor &t) { t.stride[0] = INT64_MAX / 2; });
    add("stride_lowest", ATTILE_ERROR_OVERFLOW, false, [](attile_tensor &t) { t.stride[0] = INT64_MIN; });
    add("extent_overflow", ATTILE_ERROR_OVERFLOW, false, [](attile_tensor &t) { t.shape[0] = INT64_MAX; });
    add("data_null", ATTILE_ERROR_NULL_ARGUMENT, true, [](attile_tensor &t) { t.data = nullptr; });
    const auto is_named = [&](const char *word) { return field.name.find(word) != std::string::npos; };
    if (!is_named("allowed") && !is_named("_mask")) {  // bytes are aligned anywhere
        add("data_misaligned", ATTILE_ERROR_MISALIGNED, false, [](attile_tensor &t) { t.data = static_cast<unsigned char *>(t.data) + 1; });
    }
    if (field.required) add("absent", ATTILE_ERROR_NULL_ARGUMENT, false, [](attile_tensor &t) { t = {}; });
    if (field.output) {
        add("stride_0", ATTILE_ERROR_INVALID_STRIDE, false, [](attile_tensor &t) { t.stride[0] = 0; });
        if (field.name != "dsinks") {
            add("strides_meet", ATTILE_ERROR_INVALID_STRIDE, false, [](attile_tensor &t) { t.stride[0] = t.stride[t.rank - 1]; });
        }
    }
}

// Pairs that may be one view: c and d, x and y of softmax, a part and the merged result.
bool may_coincide(const TensorField &output, const TensorField &other) {
    switch (output.operation) {
        case Operation::kGemm:
            return other.name == "c";
        case Operation::kSoftmax:
            return true;
        case Operation::kAttentionMerge:
            return other.name.find(output.name + "_parts") == 0;
        default:
            return false;
    }
}

// Each output laid over each other tensor of its call: at its start, or one element into it where the whole would be legal.
void append_overlaps(std::vector<IllegalArgument> *table) {
    for (const TensorField &output : tensor_fields()) {
        if (!output.output) continue;
        for (const TensorField &other : tensor_fields()) {
            if (other.operation != output.operation || other.name == output.name) continue;
            const int64_t shift = may_coincide(output, other) ? 4 : 0;
            const auto get_output = output.get;
            const auto get_other = other.get;
            table->push_back(
                {std::string(operation_name(output.operation)) + "/" + output.name + "/overlaps_" + other.name, output.operation,
                 [get_output, get_other, shift](A &c) { get_output(c).data = static_cast<unsigned char *>(get_other(c).data) + shift; },
                 ATTILE_ERROR_ALIASING, output.name});
        }
    }
}

}  // namespace

const std::vector<TensorField> &tensor_fields() {
    static const std::vector<TensorField> fields = make_fields();
    return fields;
}

void append_illegal_tensors(std::vector<IllegalArgument> *table) {
    for (const TensorField &field : tensor_fields()) append_one_tensor(field, table);
    append_overlaps(table);
}

}  // namespace attile_test
