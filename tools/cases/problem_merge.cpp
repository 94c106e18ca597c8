// SPDX-License-Identifier: Apache-2.0
// Merging of partial results: drawing, binding, computing honestly.
#include <algorithm>
#include <cmath>
#include <limits>

#include "attention_data.h"
#include "problem.h"
#include "test_element.h"
#include "test_random.h"

namespace attile::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kEmpty = -std::numeric_limits<double>::infinity();

class MergeCall final : public Call {
  public:
    MergeCall(attile_context *context, Placement placement, bool widened, const MergeCase &c, const std::vector<Values> &o_parts,
              const std::vector<Values> &lse_parts)
        : Call(context, placement, widened) {
        attile_attention_merge_init(&args_, sizeof args_);
        args_.flags = c.flags;
        args_.parts = c.parts;
        for (std::int64_t part = 0; part < c.parts; ++part) {
            const auto p = static_cast<std::size_t>(part);
            const bool here = !widened && part == c.in_place;
            const std::int32_t lse_type = compute_type(c.dtype);
            o_.push_back(here ? in_place("o", c.dtype, o_parts[p], c.o_layout) : input(c.dtype, o_parts[p], c.part_layout));
            if (here) args_.o = o_.back();
            lse_.push_back(here && c.lse ? in_place("lse", lse_type, lse_parts[p], c.lse_layout)
                                         : input(lse_type, lse_parts[p], c.part_layout));
            if (here && c.lse) args_.lse = lse_.back();
        }
        if (widened || c.in_place < 0) {
            args_.o = output("o", c.out_dtype, o_parts[0].shape, c.o_layout);
            if (c.lse) args_.lse = output("lse", compute_type(c.dtype), lse_parts[0].shape, c.lse_layout);
        }
        args_.o_parts = o_.data();
        args_.lse_parts = lse_.data();
    }
    std::int32_t query(attile_support *support) const override { return attile_attention_merge_query(context_, &args_, support); }
    std::int32_t run() const override { return attile_attention_merge(context_, &args_); }
    void set_workspace(void *workspace, std::int64_t bytes, std::uint32_t flags) override {
        args_.workspace = workspace;
        args_.workspace_bytes = bytes;
        args_.flags |= flags;
    }
    void set_stream(void *stream) override { args_.stream = stream; }

  private:
    attile_attention_merge_args args_ = {};
    std::vector<attile_tensor> o_, lse_;
};

class MergeProblem final : public Problem {
  public:
    explicit MergeProblem(const MergeCase &c) : c_(c) {
        Random random(c.seed * 0xfedcbull + 3);
        const bool constant = c.in_place < 0;
        for (std::int64_t part = 0; part < c.parts; ++part) {
            Values o({c.batch, c.heads, c.len, c.head_dim_v}), lse({c.batch, c.heads, c.len});
            for (double &x : o.at) x = round_to(c.dtype, random.normal());
            for (double &x : lse.at) x = round_to(compute_type(c.dtype), c.spread * random.normal());
            for (std::size_t row = 0; row < lse.at.size(); ++row)
                if (random.chance(c.empty_share)) lse.at[row] = kEmpty;
            for (std::size_t row = 0; row < lse.at.size() && c.nan_share > 0; ++row)
                if (random.chance(c.nan_share)) lse.at[row] = kNan;
            if (constant) {
                make_constant(o, c.part_layout.broadcast);
                make_constant(lse, c.part_layout.broadcast);
            }
            // What a part without keys holds does not matter; a line of stride 0 is shared with rows that do have keys.
            for (std::size_t row = 0; row < lse.at.size() && c.part_layout.broadcast == 0; ++row)
                if (lse.at[row] == kEmpty) std::fill_n(o.at.begin() + static_cast<std::ptrdiff_t>(row) * c.head_dim_v, c.head_dim_v, kNan);
            o_.push_back(std::move(o));
            lse_.push_back(std::move(lse));
        }
    }

    std::unique_ptr<Call> bind(attile_context *context, Placement placement, bool widened) const override {
        return std::make_unique<MergeCall>(context, placement, widened, c_, o_, lse_);
    }

    std::int32_t compute_dtype() const override { return compute_type(c_.dtype); }

    std::vector<Honest> honest() const override {
        const bool f64 = c_.dtype == ATTILE_F64;
        const Pair first = f64 ? computed<double>(false, false) : computed<float>(false, false);
        const Pair second = f64 ? computed<double>(true, false) : computed<float>(true, false);
        const Pair magnitude = computed<double>(false, true);
        std::vector<Honest> all = {{{}, first.o, second.o, magnitude.o}};
        if (c_.lse) all.push_back({{}, first.lse, second.lse, magnitude.lse});
        return all;
    }

  private:
    struct Pair {
        Values o, lse;
    };

    template <class T>
    Pair computed(bool backwards, bool magnitude) const {
        Pair result = {Values(o_[0].shape), Values(lse_[0].shape)};
        for (std::size_t row = 0; row < lse_[0].at.size(); ++row) {
            T max = -std::numeric_limits<T>::infinity();
            for (const Values &lse : lse_) max = std::max(max, static_cast<T>(lse.at[row]));
            if (max == -std::numeric_limits<T>::infinity()) {
                result.lse.at[row] = magnitude ? 0 : kEmpty;
                continue;
            }
            std::vector<T> o(static_cast<std::size_t>(c_.head_dim_v));
            T sum = 0, size = 0;
            for (std::size_t step = 0; step < o_.size(); ++step) {
                const std::size_t part = backwards ? o_.size() - 1 - step : step;
                const T lse = static_cast<T>(lse_[part].at[row]);
                if (lse == -std::numeric_limits<T>::infinity()) continue;
                const T weight = std::exp(lse - max);
                sum += weight;
                // A weight's rounding grows with the numbers that were subtracted to make it.
                const T factor = magnitude ? weight * (1 + std::fabs(lse) + std::fabs(max)) : weight;
                size += factor;
                for (std::size_t d = 0; d < o.size(); ++d) {
                    const T x = static_cast<T>(o_[part].at[row * o.size() + d]);
                    o[d] += factor * (magnitude ? std::fabs(x) : x);
                }
            }
            const T lse = max + std::log(sum);
            result.lse.at[row] = static_cast<double>(magnitude ? size / sum + std::fabs(lse) : lse);
            for (std::size_t d = 0; d < o.size(); ++d) result.o.at[row * o.size() + d] = static_cast<double>(o[d] / sum);
        }
        return result;
    }

    MergeCase c_;
    std::vector<Values> o_, lse_;
};

}  // namespace

std::unique_ptr<Problem> make_merge_problem(const MergeCase &c) { return std::make_unique<MergeProblem>(c); }

}  // namespace attile::test
