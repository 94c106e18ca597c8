// SPDX-License-Identifier: Apache-2.0
// Merging of partial results: binding, computing honestly.
#include "merge_data.h"
#include "problem.h"

namespace attile::test {
namespace {

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
        parts_ = draw_merge_parts(c, random);
    }

    std::unique_ptr<Call> bind(attile_context *context, Placement placement, bool widened) const override {
        return std::make_unique<MergeCall>(context, placement, widened, c_, parts_.o, parts_.lse);
    }

    std::int32_t compute_dtype() const override { return compute_type(c_.dtype); }

    std::vector<Honest> honest() const override {
        const bool f64 = c_.dtype == ATTILE_F64;
        const MergedValues first = f64 ? merge_plainly<double>(parts_, false, false) : merge_plainly<float>(parts_, false, false);
        const MergedValues second = f64 ? merge_plainly<double>(parts_, true, false) : merge_plainly<float>(parts_, true, false);
        const MergedValues magnitude = merge_plainly<double>(parts_, false, true);
        std::vector<Honest> all = {{{}, first.o, second.o, magnitude.o}};
        if (c_.lse) all.push_back({{}, first.lse, second.lse, magnitude.lse});
        for (Honest &h : all) h.to_the_bit = (c_.flags & ATTILE_FLAG_EXACT_PRODUCTS) != 0;
        return all;
    }

  private:
    MergeCase c_;
    MergeParts parts_;
};

}  // namespace

std::unique_ptr<Problem> make_merge_problem(const MergeCase &c) { return std::make_unique<MergeProblem>(c); }

}  // namespace attile::test
