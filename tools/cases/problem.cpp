// SPDX-License-Identifier: Apache-2.0
// What calls of every operation have in common.
#include "problem.h"

#include <type_traits>
#include <utility>

#include "test_element.h"

namespace attile::test {

void Call::reset() {
    for (TestTensor &tensor : tensors_) tensor.reset();
}

void Call::begin_as(const Call &other) {
    auto next = other.tensors_.begin();
    for (TestTensor &tensor : tensors_) tensor.begin_as(*next++);
}

void Call::fetch() {
    for (TestTensor &tensor : tensors_) tensor.fetch();
}

std::string Call::damage() const {
    for (const TestTensor &tensor : tensors_) {
        std::string what = tensor.damage();
        if (what.empty()) continue;
        for (const Output &out : outputs_)
            if (out.tensor == &tensor) what = out.name + ": " + what;
        return what;
    }
    return {};
}

attile_tensor Call::keep(TestTensor tensor, const char *output_name) {
    tensors_.push_back(std::move(tensor));
    if (output_name != nullptr) outputs_.push_back({output_name, &tensors_.back()});
    return tensors_.back().view();
}

attile_tensor Call::input(std::int32_t dtype, const Values &values, const Layout &layout) {
    if (values.shape.empty()) return {};
    if (!widened_) return keep(TestTensor(context_, placement_, dtype, values, layout), nullptr);
    return keep(TestTensor(context_, Placement::kHost, is_float(dtype) ? ATTILE_F64 : dtype, values), nullptr);
}

attile_tensor Call::output(const char *name, std::int32_t dtype, const std::vector<std::int64_t> &shape, const Layout &layout) {
    if (!widened_) return keep(TestTensor::output(context_, placement_, dtype, shape, layout), name);
    return keep(TestTensor::output(context_, Placement::kHost, ATTILE_F64, shape), name);
}

attile_tensor Call::in_place(const char *name, std::int32_t dtype, const Values &values, const Layout &layout) {
    return keep(TestTensor::in_place(context_, placement_, dtype, values, layout), name);
}

std::unique_ptr<Problem> make_problem(const Case &test_case, Contents contents) {
    return std::visit(
        [contents](const auto &c) {
            using T = std::decay_t<decltype(c)>;
            if constexpr (std::is_same_v<T, GemmCase>) return make_gemm_problem(c, contents);
            if constexpr (std::is_same_v<T, GroupedCase>) return make_grouped_problem(c, contents);
            if constexpr (std::is_same_v<T, AttentionCase>) return make_attention_problem(c, contents);
            if constexpr (std::is_same_v<T, BackwardCase>) return make_backward_problem(c, contents);
            if constexpr (std::is_same_v<T, MergeCase>) return make_merge_problem(c);
            if constexpr (std::is_same_v<T, MergeBackwardCase>) return make_merge_backward_problem(c);
            if constexpr (std::is_same_v<T, ReduceCase>) return make_reduce_problem(c);
            if constexpr (std::is_same_v<T, SoftmaxCase>) return make_softmax_problem(c);
        },
        test_case.problem);
}

}  // namespace attile::test
