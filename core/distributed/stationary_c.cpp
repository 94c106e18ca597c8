// SPDX-License-Identifier: Apache-2.0
// Each rank computes its part of D. Panels of A and B, cut along k, come from whoever has them: the next one travels while this one is
// multiplied.
#include "distributed/grid_panels.h"
#include "distributed/grid_result.h"

namespace attile::core {
namespace {

class StationaryC final : public Method {
  public:
    StationaryC(const GridGemm &problem, int64_t panel)
        : panels_(problem.has_product() ? problem.k : 0, panel),
          result_(problem),
          a_(problem, problem.a, {{result_.layout().axis[0], whole_axis(problem.k)}}, 1, result_.device()),
          b_(problem, problem.b, {{whole_axis(problem.k), result_.layout().axis[1]}}, 0, result_.device()) {}

    int32_t prepare() override {
        ATTILE_TRY(result_.prepare(panels_.count() <= 1));
        if (panels_.count() == 0) return ATTILE_OK;
        ATTILE_TRY(a_.prepare(panels_.width()));
        return b_.prepare(panels_.width());
    }

    int32_t run(Session &session) override {
        Link &link = session.link();
        if (panels_.count() == 0) {
            ATTILE_TRY(session.take(guarded([&] { return result_.add_product({}, {}, true, true); })));
            return result_.finish(session);
        }
        ATTILE_TRY(start(session, 0));
        ATTILE_TRY(link.finish());
        for (int64_t i = 0; i < panels_.count(); ++i) {
            attile_tensor a, b;
            ATTILE_TRY(a_.land(session, panels_.at(i), &a));
            ATTILE_TRY(b_.land(session, panels_.at(i), &b));
            if (i + 1 < panels_.count()) ATTILE_TRY(start(session, i + 1));
            if (session.sound()) {
                ATTILE_TRY(session.take(guarded([&] { return result_.add_product(a, b, i == 0, i + 1 == panels_.count()); })));
            }
            ATTILE_TRY(link.finish());
        }
        return result_.finish(session);
    }

  private:
    int32_t start(Session &session, int64_t panel) {
        ATTILE_TRY(a_.start(session, panels_.at(panel)));
        ATTILE_TRY(b_.start(session, panels_.at(panel)));
        return session.link().flush();
    }

    const Panels panels_;
    GridResult result_;
    PanelSource a_, b_;
};

}  // namespace

std::unique_ptr<Method> make_stationary_c(const GridGemm &problem, int64_t panel) { return std::make_unique<StationaryC>(problem, panel); }

}  // namespace attile::core
