// SPDX-License-Identifier: Apache-2.0
// The gradient of a bias by a kernel of its own (attention_backward/mma/bias.cuh), for families whose kernels make the other gradients
// then as if nobody asked for it.
#pragma once

#include <type_traits>

#include "attention_backward/mma/bias.h"
#include "attention_backward/mma/plan.h"
#include "host/sizes.h"

namespace attile::gpu::mma {

struct BiasGradient {
    bool taken = false;
    BackwardBiasKernels kernels = {};
    AttentionBackwardPlan numbers;  // Of rows.
    int64_t tiles = 0, members = 0, parts = 1;
    int64_t sums = 0;  // Of parts, in elements.

    int64_t workspace() const;
    int32_t launch(Device &device, const attile_attention_backward_problem &problem, Workspace &workspace, Stream stream) const;
    // Says so in a plan's text.
    void name(attile_support &support) const;
};

// Not taken where the bias is broadcast along rows or keys, or a block's shared memory does not suffice. Operands are such as
// backward_examine() lets pass.
BiasGradient bias_gradient(Device &device, const attile_attention_backward_problem &problem, const BackwardBiasKernels &kernels);

// The problem without it.
inline void forget_bias_gradient(const attile_attention_backward_problem &problem, BackwardProblems &to) {
    to.copy(problem);
    to.backward.dbias = {};
}

template <class Choice>
struct BiasedChoice : Choice {
    BiasGradient bias;
};

// The choice that choose(device, problem) makes of the problem, or of the problem without the bias's gradient, for which `kernels` of a
// type are.
template <class Choose>
auto backward_with_bias(Device &device, const attile_attention_backward_problem &problem, BackwardBiasKernels (*kernels)(int32_t dtype),
                        const Choose &choose) {
    using Choice = BiasedChoice<std::decay_t<decltype(choose(device, problem))>>;
    if (is_present(problem.dbias)) {
        BackwardProblems without;
        forget_bias_gradient(problem, without);
        Choice choice = {choose(device, without.backward), {}};
        if (!choice.taken) return choice;
        choice.bias = bias_gradient(device, problem, kernels(problem.forward->q.dtype));
        if (choice.bias.taken) {
            choice.plan.workspace += choice.bias.workspace();
            return choice;
        }
    }
    return Choice{choose(device, problem), {}};
}

// A family's plan, besides which the bias's gradient may be made. `Plan` is made of a problem and a choice.
template <class Plan>
struct BiasedBackward {
    const attile_attention_backward_problem *problem;
    BiasedChoice<typename Plan::Choice> choice;

    int32_t describe(Device &device, attile_support &support) const {
        const int32_t status = Plan{problem, choice}.describe(device, support);
        if (choice.bias.taken) choice.bias.name(support);
        return status;
    }
    void move_to(const attile_attention_backward_problem &to) { problem = &to; }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        if (!choice.bias.taken) return Plan{problem, choice}.launch(device, workspace, stream);
        // First, since what comes before its kernel clears the gradients of packed sequences.
        const int32_t status = choice.bias.launch(device, *problem, workspace, stream);
        if (status != ATTILE_OK) return status;
        BackwardProblems without;
        forget_bias_gradient(*problem, without);
        return Plan{&without.backward, choice}.launch(device, workspace, stream);
    }
};

}  // namespace attile::gpu::mma
