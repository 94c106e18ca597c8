// SPDX-License-Identifier: Apache-2.0
// Families of kernels. Each operation has one list of them, best first (gemm/families.cpp and its like). A call gets one plan: that of the
// first family that takes the problem. A query describes it and a run launches it, so they cannot disagree.
#pragma once

#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "device.h"
#include "host/status.h"
#include "host/workspace.h"

namespace attile::gpu {

// Why a family does not take a problem: one clause, without a full stop. Empty: nothing that a caller could change.
struct Declined {
    char text[160] = {};
};

// What a family makes of a problem: a plan; or why it declines, and the next family is asked; or why no family can run it. Allocates
// nothing. The problem outlives it.
//
// A plan is a plain struct with `int32_t describe(Device &, attile_support &) const`, which leaves workspace_bytes alone, and
// `int32_t launch(Device &, Workspace &, Stream) const`, which gets at least the workspace that was asked for. It may depend on how
// the addresses of data are aligned, up to kSeenAlignment, a null pointer counting as aligned to 16 bytes, but never on what they point to.
// Those of operations that keep plans also have `void move_to(const Problem &)`: the problem is from then on the one given, which differs
// in the addresses of its operands alone. The plan was made for addresses that stand for them (host/operands.h).
template <class Problem>
class Planned {
  public:
    Planned() = default;  // Declined without a word.
    explicit Planned(const Declined &why) : reason_(why) {}
    Planned(const Planned &from) { *this = from; }
    // Of much that is mostly unused, what is used.
    Planned &operator=(const Planned &from) {
        if (this == &from) return *this;
        steps_ = from.steps_;
        workspace_bytes_ = from.workspace_bytes_;
        refusal_ = from.refusal_;
        if (has_plan()) {
            std::memcpy(place_, from.place_, steps_->bytes);
        } else {
            reason_ = from.reason_;
            std::memcpy(sentence_, from.sentence_, sizeof sentence_);
        }
        return *this;
    }
    template <class Plan>
    Planned(const Plan &plan, int64_t workspace_bytes) : steps_(&kStepsOf<Plan>), workspace_bytes_(workspace_bytes) {
        static_assert(std::is_trivially_copyable<Plan>::value && sizeof(Plan) <= kMostBytes && alignof(Plan) <= kAlignment,
                      "a plain struct");
        new (place_) Plan(plan);
    }
    // No family runs it: a code of block 2xxx and its sentence.
    static Planned refused(int32_t code, const char *format, ...) ATTILE_GPU_PRINTF(2, 3) {
        Planned planned;
        planned.refusal_ = code;
        va_list list;
        va_start(list, format);
        std::vsnprintf(planned.sentence_, sizeof planned.sentence_, format, list);
        va_end(list);
        return planned;
    }

    bool has_plan() const { return steps_ != nullptr; }
    bool is_declined() const { return !has_plan() && refusal_ == ATTILE_OK; }
    const Declined &declined() const { return reason_; }
    int32_t refusal() const { return refusal_; }
    const char *sentence() const { return sentence_; }

    int64_t workspace_bytes() const { return workspace_bytes_; }  // 0 without a plan.
    // Only of a plan; else they fail.
    int32_t describe(Device &device, attile_support &support) const {
        return has_plan() ? steps_->describe(place_, device, support) : fail(ATTILE_ERROR_INTERNAL, "no family takes the problem");
    }
    void move_to(const Problem &problem) {
        if (has_plan() && steps_->move_to != nullptr) steps_->move_to(place_, problem);
    }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        return has_plan() ? steps_->launch(place_, device, workspace, stream) : fail(ATTILE_ERROR_INTERNAL, "no family takes the problem");
    }

  private:
    static constexpr std::size_t kMostBytes = 4608, kAlignment = 64;
    template <class Plan, class = void>
    struct Mover {
        static_assert(!std::is_same_v<Problem, attile_gemm_problem> && !std::is_same_v<Problem, attile_attention_problem> &&
                          !std::is_same_v<Problem, attile_attention_backward_problem>,
                      "plans that are kept can be moved");
        static constexpr void (*kMoveTo)(void *, const Problem &) = nullptr;
    };
    template <class Plan>
    struct Mover<Plan, std::void_t<decltype(std::declval<Plan &>().move_to(std::declval<const Problem &>()))>> {
        static void move(void *plan, const Problem &problem) { std::launder(static_cast<Plan *>(plan))->move_to(problem); }
        static constexpr void (*kMoveTo)(void *, const Problem &) = move;
    };
    struct Steps {
        std::size_t bytes;
        void (*move_to)(void *plan, const Problem &problem);  // Null: such plans are not kept.
        int32_t (*describe)(const void *plan, Device &device, attile_support &support);
        int32_t (*launch)(const void *plan, Device &device, Workspace &workspace, Stream stream);
    };
    template <class Plan>
    static const Plan &plan_at(const void *place) {
        return *std::launder(static_cast<const Plan *>(place));
    }
    template <class Plan>
    static constexpr Steps kStepsOf = {
        sizeof(Plan), Mover<Plan>::kMoveTo,
        [](const void *plan, Device &device, attile_support &support) { return plan_at<Plan>(plan).describe(device, support); },
        [](const void *plan, Device &device, Workspace &workspace, Stream stream) {
            return plan_at<Plan>(plan).launch(device, workspace, stream);
        }};

    const Steps *steps_ = nullptr;
    int64_t workspace_bytes_ = 0;
    int32_t refusal_ = ATTILE_OK;
    Declined reason_;
    char sentence_[256] = "";
    alignas(kAlignment) unsigned char place_[kMostBytes];
};

template <class Problem>
struct Family {
    const KernelSet *set;     // Its kernels, which the device has to run; null: every device runs them.
    const KernelSet *unless;  // On a device that runs these the family is not asked; null: it always is.
    Planned<Problem> (*plan)(Device &device, const Problem &problem);
};

// Those of an operation, best first. The last one declines nothing: it has a plan or refuses.
template <class Problem>
struct Families {
    template <std::size_t kCount>
    constexpr explicit Families(const Family<Problem> (&all)[kCount]) : first(all), count(kCount) {}
    const Family<Problem> *begin() const { return first; }
    const Family<Problem> *end() const { return first + count; }
    const Family<Problem> &last() const { return first[count - 1]; }

    const Family<Problem> *first;
    std::size_t count;
};

// The plan of a problem that is a step of another operation's plan.
template <class Problem>
Planned<Problem> plan_step(Device &device, const Problem &problem, const Families<Problem> &families) {
    for (const Family<Problem> &family : families) {
        if (family.set != nullptr && !device.runs(*family.set)) continue;
        if (family.unless != nullptr && device.runs(*family.unless)) continue;
        const Planned<Problem> planned = family.plan(device, problem);
        if (!planned.is_declined()) return planned;
    }
    return {};
}
// The workspace that such a step may want, wherever its operands will lie.
template <class Problem>
int64_t step_workspace(Device &device, const Problem &problem, const Families<Problem> &families) {
    int64_t most = 0;
    for (const Family<Problem> &family : families) {
        if (family.set != nullptr && !device.runs(*family.set)) continue;
        if (family.unless != nullptr && device.runs(*family.unless)) continue;
        const int64_t bytes = family.plan(device, problem).workspace_bytes();
        most = most < bytes ? bytes : most;
    }
    return most;
}

// SIMT's plans predict a share of the roofline of float32 arithmetic. Makes it one of the roofline of the device's matrix units, where it
// has them for the type. The rest of `support` is filled in.
inline void count_matrix_units(const DeviceProperties &device, int32_t dtype, attile_support &support) {
    if ((dtype != ATTILE_F16 && dtype != ATTILE_BF16) || !(device.peak_flops_f16 > 0) || !(device.peak_bandwidth > 0)) return;
    const auto roof = [&](double peak) {
        const double memory = support.bytes / device.peak_bandwidth, arithmetic = support.flops / peak;
        return arithmetic < memory ? memory : arithmetic;
    };
    const double plain = roof(device.peak_flops_f32);
    if (plain > 0) support.predicted_share *= roof(device.peak_flops_f16) / plain;
}

}  // namespace attile::gpu
