// SPDX-License-Identifier: Apache-2.0
#include "illegal_merges.h"

#include <cstdint>
#include <functional>
#include <string>

namespace attile_test {
namespace {

using A = CallArguments;
using Op = Operation;
using Table = std::vector<IllegalArgument>;

void append_forward(Table *table) {
    const auto add = [&](const char *what, int32_t status, const char *word,
                         std::function<void(attile_attention_merge_args &, A &)> spoil) {
        table->push_back({std::string("attention_merge/") + what, Op::kAttentionMerge, [spoil](A &c) { spoil(c.attention_merge.args, c); },
                          status, word});
    };
    for (const int64_t parts : {int64_t{0}, int64_t{-1}, INT64_MIN, INT64_MAX}) {
        add(("parts_" + std::to_string(parts)).c_str(), ATTILE_ERROR_INVALID_VALUE, "parts", [parts](auto &m, A &) { m.parts = parts; });
    }
    add("o_parts_null", ATTILE_ERROR_NULL_ARGUMENT, "o_parts", [](auto &m, A &) { m.o_parts = nullptr; });
    add("lse_parts_null", ATTILE_ERROR_NULL_ARGUMENT, "lse_parts", [](auto &m, A &) { m.lse_parts = nullptr; });
    add("parts_of_two_types", ATTILE_ERROR_INVALID_DTYPE, "o_parts[1]", [](auto &, A &c) {
        c.o_parts[1] = c.make(ATTILE_F64, {2, 4, 3, 3});
    });
    add("o_wider", ATTILE_ERROR_INVALID_DTYPE, "o.dtype", [](auto &m, A &c) { m.o = c.make(ATTILE_F64, {2, 4, 3, 3}); });
    add("lse_part_wider", ATTILE_ERROR_INVALID_DTYPE, "lse_parts[0]", [](auto &, A &c) { c.lse_parts[0] = c.make(ATTILE_F64, {2, 4, 3}); });
    add("two_parts_in_the_place_of_o", ATTILE_ERROR_ALIASING, "o_parts[1]", [](auto &m, A &c) { m.o = c.o_parts[0] = c.o_parts[1]; });
    add("two_parts_in_the_place_of_lse", ATTILE_ERROR_ALIASING, "lse_parts[1]",
        [](auto &m, A &c) { m.lse = c.lse_parts[0] = c.lse_parts[1]; });
    for (int32_t axis = 0; axis < 4; ++axis) {
        add(("o_parts[1]/extent_" + std::to_string(axis)).c_str(), ATTILE_ERROR_SHAPE_MISMATCH, "o_parts[1]",
            [axis](auto &, A &c) { c.o_parts[1].shape[axis] -= 1; });
    }
    for (int32_t axis = 0; axis < 3; ++axis) {
        add(("lse_parts[0]/extent_" + std::to_string(axis)).c_str(), ATTILE_ERROR_SHAPE_MISMATCH, "lse_parts[0]",
            [axis](auto &, A &c) { c.lse_parts[0].shape[axis] -= 1; });
        add(("lse/extent_" + std::to_string(axis)).c_str(), ATTILE_ERROR_SHAPE_MISMATCH, "lse",
            [axis](auto &m, A &) { m.lse.shape[axis] -= 1; });
    }
}

// Of the forward call inside a call for gradients.
void append_inner(Table *table) {
    const auto add = [&](const char *what, int32_t status, const char *word,
                         std::function<void(attile_attention_merge_args &, A &)> spoil) {
        table->push_back({std::string("attention_merge_backward/forward->") + what, Op::kAttentionMergeBackward,
                          [spoil](A &c) { spoil(c.attention_merge.args, c); }, status, word});
    };
    for (const int64_t parts : {int64_t{0}, int64_t{-1}, INT64_MAX}) {
        add(("parts_" + std::to_string(parts)).c_str(), ATTILE_ERROR_INVALID_VALUE, "forward->parts",
            [parts](auto &m, A &) { m.parts = parts; });
    }
    add("o_parts_null", ATTILE_ERROR_NULL_ARGUMENT, "forward->o_parts", [](auto &m, A &) { m.o_parts = nullptr; });
    add("lse_parts_null", ATTILE_ERROR_NULL_ARGUMENT, "forward->lse_parts", [](auto &m, A &) { m.lse_parts = nullptr; });
    add("struct_size", ATTILE_ERROR_STRUCT_SIZE, "forward", [](auto &m, A &) { m.struct_size = 0; });
    add("flags", ATTILE_ERROR_INVALID_FLAGS, "forward", [](auto &m, A &) { m.flags = 0x100; });
    add("next", ATTILE_ERROR_INVALID_FLAGS, "forward", [](auto &m, A &c) { m.next = &c; });
    add("o_wider", ATTILE_ERROR_INVALID_DTYPE, "forward->o.dtype", [](auto &m, A &c) { m.o = c.make(ATTILE_F64, {2, 4, 3, 3}); });
    // The part is gone.
    add("o/is_a_part", ATTILE_ERROR_ALIASING, "forward->o_parts[1]", [](auto &m, A &c) { m.o = c.o_parts[1]; });
    add("lse/is_a_part", ATTILE_ERROR_ALIASING, "forward->lse_parts[0]", [](auto &m, A &c) { m.lse = c.lse_parts[0]; });
    for (int32_t axis = 0; axis < 3; ++axis) {
        add(("lse/extent_" + std::to_string(axis)).c_str(), ATTILE_ERROR_SHAPE_MISMATCH, "forward->lse",
            [axis](auto &m, A &) { m.lse.shape[axis] -= 1; });
    }
}

void append_backward(Table *table) {
    using Args = attile_attention_merge_backward_args;
    const auto add = [&](const std::string &what, int32_t status, const std::string &word, std::function<void(Args &, A &)> spoil) {
        table->push_back({"attention_merge_backward/" + what, Op::kAttentionMergeBackward,
                          [spoil](A &c) { spoil(c.attention_merge_backward.args, c); }, status, word});
    };
    add("forward_null", ATTILE_ERROR_NULL_ARGUMENT, "forward", [](Args &b, A &) { b.forward = nullptr; });
    add("do_parts_null", ATTILE_ERROR_NULL_ARGUMENT, "do_parts", [](Args &b, A &) { b.do_parts = nullptr; });
    add("dlse_parts_null", ATTILE_ERROR_NULL_ARGUMENT, "dlse_parts", [](Args &b, A &) { b.dlse_parts = nullptr; });
    add("dout_wider", ATTILE_ERROR_INVALID_DTYPE, "dout.dtype", [](Args &b, A &c) { b.dout = c.make(ATTILE_F64, {2, 4, 3, 3}); });
    add("dlse_wider", ATTILE_ERROR_INVALID_DTYPE, "dlse.dtype", [](Args &b, A &c) { b.dlse = c.make(ATTILE_F64, {2, 4, 3}); });
    add("do_part_narrower", ATTILE_ERROR_INVALID_DTYPE, "do_parts[0]", [](Args &, A &c) {
        c.do_parts[0] = c.make(ATTILE_F16, {2, 4, 3, 3});
    });
    // Each is legal by itself.
    add("do_parts_of_two_types", ATTILE_ERROR_INVALID_DTYPE, "do_parts[1]", [](Args &b, A &c) {
        for (int i = 0; i < 2; ++i) c.o_parts[i] = c.make(ATTILE_BF16, {2, 4, 3, 3});
        c.attention_merge.args.o = c.make(ATTILE_BF16, {2, 4, 3, 3});
        b.dout = c.attention_merge.args.o;
        c.do_parts[1] = c.make(ATTILE_BF16, {2, 4, 3, 3});
    });
    const struct {
        const char *name;
        std::function<attile_tensor &(A &)> get;
        int32_t axes;
    } tensors[] = {{"dout", [](A &c) -> attile_tensor & { return c.attention_merge_backward.args.dout; }, 4},
                   {"dlse", [](A &c) -> attile_tensor & { return c.attention_merge_backward.args.dlse; }, 3},
                   {"do_parts[1]", [](A &c) -> attile_tensor & { return c.do_parts[1]; }, 4},
                   {"dlse_parts[0]", [](A &c) -> attile_tensor & { return c.dlse_parts[0]; }, 3}};
    for (const auto &tensor : tensors) {
        for (int32_t axis = 0; axis < tensor.axes; ++axis) {
            const auto get = tensor.get;
            add(std::string(tensor.name) + "/extent_" + std::to_string(axis), ATTILE_ERROR_SHAPE_MISMATCH, tensor.name,
                [get, axis](Args &, A &c) { get(c).shape[axis] -= 1; });
        }
    }
}

}  // namespace

void append_illegal_merges(Table *table) {
    append_forward(table);
    append_inner(table);
    append_backward(table);
}

}  // namespace attile_test
