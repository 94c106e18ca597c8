// SPDX-License-Identifier: Apache-2.0
// Gradients of merging: drawing, binding, computing honestly.
#include <cmath>
#include <limits>

#include "attention_data.h"
#include "merge_data.h"
#include "problem.h"
#include "test_element.h"

namespace attile::test {
namespace {

constexpr double kEmpty = -std::numeric_limits<double>::infinity();

struct GradientData {
    MergeParts parts;
    MergedValues merged;
    Values dout, dlse;
};

class MergeBackwardCall final : public Call {
  public:
    MergeBackwardCall(attile_context *context, Placement placement, bool widened, const MergeBackwardCase &c, const GradientData &data)
        : Call(context, placement, widened) {
        const MergeCase &f = c.forward;
        const std::int32_t lse_type = compute_type(f.dtype);
        attile_attention_merge_init(&forward_, sizeof forward_);
        attile_attention_merge_backward_init(&args_, sizeof args_);
        args_.flags = f.flags;
        args_.forward = &forward_;
        forward_.parts = f.parts;
        for (const Values &o : data.parts.o) o_.push_back(input(f.dtype, o, f.part_layout));
        for (const Values &lse : data.parts.lse) lse_.push_back(input(lse_type, lse, f.part_layout));
        forward_.o_parts = o_.data();
        forward_.lse_parts = lse_.data();
        forward_.o = input(f.out_dtype, data.merged.o, f.o_layout);
        forward_.lse = input(lse_type, data.merged.lse, f.lse_layout);
        args_.dout = input(c.dout_dtype, data.dout, c.dout_layout);
        if (c.dlse) args_.dlse = input(lse_type, data.dlse, f.lse_layout);
        for (std::int64_t p = 0; p < f.parts; ++p)
            do_.push_back(output(("do_parts[" + std::to_string(p) + "]").c_str(), c.grad_dtype, data.merged.o.shape, c.grad_layout));
        for (std::int64_t p = 0; p < f.parts; ++p)
            dlse_.push_back(output(("dlse_parts[" + std::to_string(p) + "]").c_str(), lse_type, data.merged.lse.shape, c.grad_layout));
        args_.do_parts = do_.data();
        args_.dlse_parts = dlse_.data();
    }
    std::int32_t query(attile_support *support) const override { return attile_attention_merge_backward_query(context_, &args_, support); }
    std::int32_t run() const override { return attile_attention_merge_backward(context_, &args_); }
    void set_workspace(void *workspace, std::int64_t bytes, std::uint32_t flags) override {
        args_.workspace = workspace;
        args_.workspace_bytes = bytes;
        args_.flags |= flags;
    }
    void set_stream(void *stream) override { args_.stream = stream; }

  private:
    attile_attention_merge_args forward_ = {};
    attile_attention_merge_backward_args args_ = {};
    std::vector<attile_tensor> o_, lse_, do_, dlse_;
};

// What one part's gradients are computed from, a row at a time.
struct GradientRow {
    const double *o_part, *o, *dout;
    double lse_part, lse, dlse;
    std::size_t length;
};

// In T; `backwards` along the row. `magnitude`: the absolute values that make the results.
template <class T>
void gradient_row(const GradientRow &row, bool backwards, bool magnitude, double *do_part, double *dlse_part) {
    *dlse_part = 0;
    for (std::size_t d = 0; d < row.length; ++d) do_part[d] = 0;
    if (row.lse == kEmpty || row.lse_part == kEmpty) return;
    const T difference = static_cast<T>(row.lse_part) - static_cast<T>(row.lse);
    T weight = std::exp(difference);
    if (magnitude) weight *= 1 + std::fabs(difference);  // The difference was rounded.
    T sum = 0;
    for (std::size_t step = 0; step < row.length; ++step) {
        const std::size_t d = backwards ? row.length - 1 - step : step;
        const T dout = static_cast<T>(row.dout[d]), part = static_cast<T>(row.o_part[d]), o = static_cast<T>(row.o[d]);
        sum += magnitude ? std::fabs(dout) * (std::fabs(part) + std::fabs(o)) : dout * (part - o);
        do_part[d] = static_cast<double>(weight * (magnitude ? std::fabs(dout) : dout));
    }
    const T dlse = static_cast<T>(row.dlse);
    *dlse_part = static_cast<double>(weight * (sum + (magnitude ? std::fabs(dlse) : dlse)));
}

class MergeBackwardProblem final : public Problem {
  public:
    explicit MergeBackwardProblem(const MergeBackwardCase &c) : c_(c) {
        const MergeCase &f = c.forward;
        Random random(f.seed * 0xfedcbull + 5);
        data_.parts = draw_merge_parts(f, random);
        data_.merged = merge_plainly<double>(data_.parts, false, false);
        for (double &x : data_.merged.o.at) x = round_to(f.out_dtype, x);
        for (double &x : data_.merged.lse.at) x = round_to(compute_type(f.dtype), x);
        data_.dout = Values(data_.merged.o.shape);
        for (double &x : data_.dout.at) x = round_to(c.dout_dtype, random.normal());
        make_constant(data_.dout, c.dout_layout.broadcast);
        data_.dlse = Values(data_.merged.lse.shape);
        for (double &x : data_.dlse.at) x = c.dlse ? round_to(compute_type(f.dtype), random.normal()) : 0;
        // A row that no part knows anything of has no gradient, whatever comes in.
        const std::size_t length = static_cast<std::size_t>(f.head_dim_v);
        for (std::size_t row = 0; row < data_.dlse.at.size() && c.dout_layout.broadcast == 0; ++row) {
            if (data_.merged.lse.at[row] != kEmpty) continue;
            for (std::size_t d = 0; d < length; ++d) data_.dout.at[row * length + d] = std::numeric_limits<double>::quiet_NaN();
            data_.dlse.at[row] = std::numeric_limits<double>::quiet_NaN();
        }
    }

    std::unique_ptr<Call> bind(attile_context *context, Placement placement, bool widened) const override {
        return std::make_unique<MergeBackwardCall>(context, placement, widened, c_, data_);
    }

    std::int32_t compute_dtype() const override { return compute_type(c_.forward.dtype); }

    std::vector<Honest> honest() const override {
        const bool f64 = c_.forward.dtype == ATTILE_F64;
        std::vector<Honest> o, lse;
        for (std::size_t part = 0; part < data_.parts.o.size(); ++part) {
            const MergedValues first = f64 ? computed<double>(part, false, false) : computed<float>(part, false, false);
            const MergedValues second = f64 ? computed<double>(part, true, false) : computed<float>(part, true, false);
            const MergedValues magnitude = computed<double>(part, false, true);
            o.push_back({{}, first.o, second.o, magnitude.o});
            lse.push_back({{}, first.lse, second.lse, magnitude.lse});
        }
        o.insert(o.end(), lse.begin(), lse.end());
        return o;
    }

  private:
    // The gradients of one part's o and lse.
    template <class T>
    MergedValues computed(std::size_t part, bool backwards, bool magnitude) const {
        MergedValues result = {Values(data_.merged.o.shape), Values(data_.merged.lse.shape)};
        const std::size_t length = static_cast<std::size_t>(c_.forward.head_dim_v);
        for (std::size_t row = 0; row < data_.merged.lse.at.size(); ++row) {
            const std::size_t at = row * length;
            const GradientRow values = {data_.parts.o[part].at.data() + at,
                                        data_.merged.o.at.data() + at,
                                        data_.dout.at.data() + at,
                                        data_.parts.lse[part].at[row],
                                        data_.merged.lse.at[row],
                                        data_.dlse.at[row],
                                        length};
            gradient_row<T>(values, backwards, magnitude, result.o.at.data() + at, &result.lse.at[row]);
        }
        return result;
    }

    MergeBackwardCase c_;
    GradientData data_;
};

}  // namespace

std::unique_ptr<Problem> make_merge_backward_problem(const MergeBackwardCase &c) { return std::make_unique<MergeBackwardProblem>(c); }

}  // namespace attile::test
