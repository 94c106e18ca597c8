// SPDX-License-Identifier: Apache-2.0
// Families of kernels. Each operation has one list of them, best first (gemm/families.cpp and its like); a call gets the plan of the first
// that takes it. A query describes the plan, a run launches it, so that they cannot disagree.
#pragma once

#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <new>
#include <type_traits>

#include "device.h"
#include "host/status.h"
#include "host/workspace.h"

namespace attile::gpu {

// Why a family does not take a problem: one clause, without a full stop. Empty: nothing that a caller could change.
struct Declined {
    char text[160] = {};
};

// What a family makes of a problem: a plan; or why it declines, and the next one is asked; or why nobody can run it; or a failure. May be
// copied, and allocates nothing. The problem outlives it.
//
// A plan is a plain struct with `int32_t describe(Device &, attile_support &) const`, which need not fill in workspace_bytes, and
// `int32_t launch(Device &, Workspace &, Stream) const`, which gets at least the workspace that was asked for. It may go by the addresses
// of data, a null pointer counting as aligned to 16 bytes, but never by what they point to.
template <class Problem>
class Planned {
  public:
    Planned() = default;  // Declined without a word.
    explicit Planned(const Declined &why) : reason_(why) {}
    template <class Plan>
    Planned(const Plan &plan, int64_t workspace_bytes) : steps_(&kStepsOf<Plan>), workspace_bytes_(workspace_bytes) {
        static_assert(std::is_trivially_copyable<Plan>::value && sizeof(Plan) <= kMostBytes && alignof(Plan) <= kAlignment,
                      "a plain struct");
        new (place_) Plan(plan);
    }
    // The device failed, and the sentence is set.
    static Planned failed(int32_t status) {
        Planned planned;
        planned.failure_ = status;
        return planned;
    }
    // Nobody runs it: a code of block 2xxx and its sentence.
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
    bool is_declined() const { return !has_plan() && failure_ == ATTILE_OK && refusal_ == ATTILE_OK; }
    const Declined &declined() const { return reason_; }
    int32_t failure() const { return failure_; }
    int32_t refusal() const { return refusal_; }
    const char *sentence() const { return sentence_; }

    // Only of a plan.
    int64_t workspace_bytes() const { return workspace_bytes_; }
    int32_t describe(Device &device, attile_support &support) const { return steps_->describe(place_, device, support); }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const { return steps_->launch(place_, device, workspace, stream); }

  private:
    static constexpr std::size_t kMostBytes = 4096, kAlignment = 64;
    struct Steps {
        int32_t (*describe)(const void *plan, Device &device, attile_support &support);
        int32_t (*launch)(const void *plan, Device &device, Workspace &workspace, Stream stream);
    };
    template <class Plan>
    static const Plan &plan_at(const void *place) {
        return *std::launder(static_cast<const Plan *>(place));
    }
    template <class Plan>
    static constexpr Steps kStepsOf = {
        [](const void *plan, Device &device, attile_support &support) { return plan_at<Plan>(plan).describe(device, support); },
        [](const void *plan, Device &device, Workspace &workspace, Stream stream) {
            return plan_at<Plan>(plan).launch(device, workspace, stream);
        }};

    const Steps *steps_ = nullptr;
    int64_t workspace_bytes_ = 0;
    int32_t failure_ = ATTILE_OK, refusal_ = ATTILE_OK;
    Declined reason_;
    char sentence_[256] = {};
    alignas(kAlignment) unsigned char place_[kMostBytes];
};

template <class Problem>
struct Family {
    const KernelSet *set;     // What the device has to run; null: every device runs it.
    const KernelSet *unless;  // Where the device runs these, the family is left out; null: nowhere.
    Planned<Problem> (*plan)(Device &device, const Problem &problem);
};

// An operation's, best first. The last takes what it does not refuse.
template <class Problem>
struct Families {
    template <std::size_t kCount>
    constexpr explicit Families(const Family<Problem> (&all)[kCount]) : first(all), count(kCount) {}
    const Family<Problem> *begin() const { return first; }
    const Family<Problem> *end() const { return first + count; }

    const Family<Problem> *first;
    std::size_t count;
};

// A share of the roof that counts the peak of float32 arithmetic, as one of the roof of the device's matrix units where it has them for the
// type. `support` is filled in but for that.
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
