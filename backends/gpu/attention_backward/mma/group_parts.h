// SPDX-License-Identifier: Apache-2.0
// Gradients of attention with few key heads. A block of keys sums dk and dv over all query heads of its group, so that few key heads make
// few blocks, each of which takes long. Where they would leave the device idle, groups are cut into equal parts: each part of a key head
// stands for a key head with dk and dv of its own, in float32, while K and V stay where they are (head_of_keys() in
// attention_backward/tiles.h). A part also keeps less between kernels than its group. The parts are added up in their order in the end. All
// else, as the marks of NaN and infinities and dq, is that of a problem with so many key heads.
#pragma once

#include <type_traits>

#include "attention_backward/mma/plan.h"

namespace attile::gpu::mma {

struct BackwardParts {
    int64_t count = 1;                     // Of a group.
    int64_t elements = 0, elements_v = 0;  // Of dk and of dv, of all parts.

    int64_t workspace() const { return count > 1 ? workspace_piece(4 * elements) + workspace_piece(4 * elements_v) : 0; }
    // The problem of the parts, whose dk and dv have no addresses.
    void plan_for(const attile_attention_backward_problem &problem, BackwardProblems &to) const;
    // The same with their places; false: the workspace is too small.
    bool place(const attile_attention_backward_problem &problem, BackwardProblems &to, Workspace &workspace) const;
    // Of packed sequences: keys that none has get 0, which no kernel stores there.
    int32_t clear(Device &device, const BackwardProblems &parted, Stream stream) const;
    // dk and dv of `problem` from those of its parts.
    int32_t add(Device &device, const attile_attention_backward_problem &problem, const BackwardProblems &parted, Stream stream) const;
};

// The parts that groups are to be cut into, which such a choice takes whole or has no room for: one where more of them would save little.
BackwardParts backward_parts(Device &device, const attile_attention_backward_problem &problem, const BackwardChoice &whole);

// Says so in a plan's text.
void backward_name_parts(attile_support &support, const BackwardParts &parts);

// A family's choice for the problem of the parts, if there are several.
template <class Choice>
struct PartedChoice : Choice {
    BackwardParts parts;
};

// The choice that choose(device, problem) makes of the problem, or of that of its parts.
template <class Choose>
auto backward_with_parts(Device &device, const attile_attention_backward_problem &problem, const Choose &choose) {
    using Choice = PartedChoice<std::decay_t<decltype(choose(device, problem))>>;
    const Choice whole = {choose(device, problem), {}};
    if (!whole.taken && !(whole.pairs_at_once < 1)) return whole;
    const BackwardParts parts = backward_parts(device, problem, whole);
    if (parts.count == 1) return whole;
    BackwardProblems problems;
    parts.plan_for(problem, problems);
    Choice parted = {choose(device, problems.backward), parts};
    if (!parted.taken) return whole;
    parted.plan.group_parts = parts.count;
    parted.plan.workspace += parts.workspace();
    return parted;
}

// A family's plan, for the problem itself or for that of its parts. `Plan` is made of a problem and a choice.
template <class Plan>
struct PartedBackward {
    using Choice = PartedChoice<typename Plan::Choice>;
    const attile_attention_backward_problem *problem;
    Choice choice;

    int32_t describe(Device &device, attile_support &support) const {
        const int32_t status = Plan{problem, choice}.describe(device, support);
        if (choice.parts.count > 1) backward_name_parts(support, choice.parts);
        return status;
    }
    void move_to(const attile_attention_backward_problem &to) { problem = &to; }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        if (choice.parts.count == 1) return Plan{problem, choice}.launch(device, workspace, stream);
        BackwardProblems parted;
        if (!choice.parts.place(*problem, parted, workspace))
            return fail(ATTILE_ERROR_INTERNAL, "attention_backward: the workspace is smaller than planned");
        int32_t status = choice.parts.clear(device, parted, stream);
        if (status == ATTILE_OK) status = Plan{&parted.backward, choice}.launch(device, workspace, stream);
        return status != ATTILE_OK ? status : choice.parts.add(device, *problem, parted, stream);
    }
};

}  // namespace attile::gpu::mma
