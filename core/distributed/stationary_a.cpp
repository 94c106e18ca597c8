// SPDX-License-Identifier: Apache-2.0
// Each rank multiplies its part of A by panels of B, cut along n, and the parts of sums go to the ranks that have D. The next panel of B
// and the sums of the last one travel while this one is multiplied. Of sums, ranks' parts are added in the order of ranks.
#include "distributed/grid_panels.h"
#include "distributed/grid_result.h"
#include "message.h"

namespace attile::core {
namespace {

class StationaryA final : public Method {
  public:
    StationaryA(const GridGemm &problem, int64_t panel)
        : problem_(problem),
          panels_(problem.has_product() ? problem.n : 0, panel),
          result_(problem),
          own_(unshared(problem.a.layout)),
          b_(problem, problem.b, {{own_.axis[1], whole_axis(problem.n)}}, 1, result_.device()),
          sums_({{own_.axis[0], whole_axis(problem.n)}}, result_.layout(), 1, Arrival::kSum, problem.d.fast, result_.device()) {}

    int32_t prepare() override {
        const GridGemm &p = problem_;
        ATTILE_TRY(result_.prepare(false));
        if (panels_.count() == 0) return ATTILE_OK;
        ATTILE_TRY(b_.prepare(panels_.width()));
        ATTILE_TRY(sums_.prepare(p.operation, p.rank, p.ranks, p.wide(), panels_.width()));
        ATTILE_TRY(p.bring(own_a(), &a_memory_, &a_));
        for (Buffer &memory : memory_) ATTILE_TRY(p.take(&memory, product({a_.shape[0], panels_.width()}), element_bytes(p.wide())));
        return ATTILE_OK;
    }

    int32_t run(Session &session) override {
        Link &link = session.link();
        const int64_t count = panels_.count();
        ATTILE_TRY(session.take(guarded([&] { return result_.begin_sums(); })));
        if (count != 0) {
            ATTILE_TRY(b_.start(session, panels_.at(0)));
            ATTILE_TRY(link.finish());
        }
        for (int64_t i = 0; i <= count && count != 0; ++i) {
            attile_tensor b{};
            if (i < count) ATTILE_TRY(b_.land(session, panels_.at(i), &b));
            if (i + 1 < count) ATTILE_TRY(b_.start(session, panels_.at(i + 1)));
            if (i > 0) ATTILE_TRY(sums_.start(session, panels_.at(i - 1), part(i - 1), place(i - 1)));
            ATTILE_TRY(link.flush());
            if (i < count && session.sound()) ATTILE_TRY(session.take(guarded([&] { return multiply(b, part(i)); })));
            ATTILE_TRY(link.finish());
            if (i > 0) ATTILE_TRY(sums_.land(session));
        }
        if (session.sound()) ATTILE_TRY(session.take(guarded([&] { return result_.end_sums(); })));
        return result_.finish(session);
    }

  private:
    // Of this rank's part of A the rows and columns that no other rank multiplies.
    attile_tensor own_a() const {
        attile_tensor own = problem_.a.part;
        for (int32_t axis = 0; axis < 2; ++axis) {
            const int64_t first = problem_.a.layout.axis[axis].below(problem_.rank, own_.axis[axis].next(problem_.rank, 0).begin);
            own = slice(own, axis, first, own_.axis[axis].count(problem_.rank));
        }
        return own;
    }

    // This rank's part of the sums of a panel. As D lies, which its messages go by.
    attile_tensor part(int64_t panel) const {
        const int64_t shape[2] = {a_.shape[0], panels_.at(panel).count()};
        return dense_matrix(memory_[panel % 2].at(), problem_.wide(), shape, problem_.d.own_fast);
    }

    // Where a panel's sums are, of those that this rank has.
    attile_tensor place(int64_t panel) const {
        const GridAxis &axis = result_.layout().axis[1];
        const int64_t first = axis.below(problem_.rank, panels_.at(panel).begin);
        return slice(result_.sums(), 1, first, axis.below(problem_.rank, panels_.at(panel).end) - first);
    }

    int32_t multiply(const attile_tensor &b, const attile_tensor &to) const {
        attile_gemm_args args = problem_.local;
        args.a = a_;
        args.b = b;
        args.d = to;
        args.c = args.bias = {};
        args.beta = 0.0;
        args.bias_axis = ATTILE_BIAS_NONE;
        args.activation = ATTILE_ACTIVATION_NONE;
        ATTILE_TRY(attile_gemm(problem_.context, &args));
        return problem_.settle();
    }

    const GridGemm &problem_;
    const Panels panels_;
    GridResult result_;
    const GridLayout own_;
    PanelSource b_;
    Transfer sums_;
    attile_tensor a_{};
    Buffer a_memory_, memory_[2];
};

}  // namespace

std::unique_ptr<Method> make_stationary_a(const GridGemm &problem, int64_t panel) { return std::make_unique<StationaryA>(problem, panel); }

}  // namespace attile::core
