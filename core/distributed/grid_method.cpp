// SPDX-License-Identifier: Apache-2.0
// Which method a product over ranks uses, and how wide its panels are. Both follow from what all ranks know alike.
#include <algorithm>
#include <cstdio>

#include "distributed/attention.h"
#include "distributed/grid_gemm.h"
#include "distributed/transfer.h"
#include "message.h"

namespace attile::core {
namespace {

// A panel is this many bytes of a row wide: sums of so many products are worth the reading and writing of D.
constexpr int64_t kPanelRowBytes = 4096;
// Or wider, until a rank's panels have this many bytes together: a message costs time by itself.
constexpr int64_t kPanelBytes = int64_t{4} << 20;

double spread_bytes(const GridGemm &p) {
    return Transfer::count_bytes(unshared(p.d.layout), p.d.layout, Arrival::kCopy, p.ranks, element_bytes(p.d.part.dtype));
}

double stationary_c_bytes(const GridGemm &p) {
    const GridLayout result = unshared(p.d.layout);
    const int32_t bytes = element_bytes(p.a.part.dtype);
    return Transfer::count_bytes(p.a.layout, {{result.axis[0], whole_axis(p.k)}}, Arrival::kCopy, p.ranks, bytes) +
           Transfer::count_bytes(p.b.layout, {{whole_axis(p.k), result.axis[1]}}, Arrival::kCopy, p.ranks, bytes) + spread_bytes(p);
}

double stationary_a_bytes(const GridGemm &p) {
    const GridLayout own = unshared(p.a.layout);
    return Transfer::count_bytes(p.b.layout, {{own.axis[1], whole_axis(p.n)}}, Arrival::kCopy, p.ranks, element_bytes(p.a.part.dtype)) +
           Transfer::count_bytes({{own.axis[0], whole_axis(p.n)}}, unshared(p.d.layout), Arrival::kSum, p.ranks, element_bytes(p.wide())) +
           spread_bytes(p);
}

int64_t panel_width(const GridGemm &p, int32_t method) {
    const bool stays_c = method == ATTILE_METHOD_STATIONARY_C, stays_b = method == ATTILE_METHOD_STATIONARY_B;
    const int64_t extent = stays_c ? p.k : stays_b ? p.m : p.n, most = std::max<int64_t>(1, extent);
    if (p.panel != 0) return std::min(p.panel, most);
    const GridLayout &stays = stays_c ? p.d.layout : stays_b ? p.b.layout : p.a.layout;
    int64_t lines = 2;  // of a rank's two panels: what comes, and what comes as well or is made
    for (const GridAxis &axis : stays.axis) lines += axis.extent / axis.ranks;
    const int64_t bytes = element_bytes(p.a.part.dtype);
    return std::min(most, std::max(kPanelRowBytes / bytes, kPanelBytes / bytes / lines));
}

}  // namespace

GridPlan plan_grid_gemm(const GridGemm &p) {
    GridPlan plan;
    plan.method = p.method;
    if (p.ranks == 1) {
        plan.method = ATTILE_METHOD_LOCAL;
        plan.why = std::string(method_name(plan.method)) + ": there is one rank";
        return plan;
    }
    const char *const asked = p.method == ATTILE_METHOD_AUTO ? "" : " (asked for)";
    if (!p.has_product()) {
        if (p.method == ATTILE_METHOD_AUTO) plan.method = ATTILE_METHOD_STATIONARY_C;
        plan.bytes_sent = spread_bytes(p);
        plan.panel = panel_width(p, plan.method);
        plan.why = std::string(method_name(plan.method)) + asked + ": there is nothing to multiply";
        return plan;
    }
    const double c = stationary_c_bytes(p), a = stationary_a_bytes(p), b = stationary_a_bytes(transposed(p));
    if (p.method == ATTILE_METHOD_AUTO) {
        plan.method = c <= a && c <= b ? ATTILE_METHOD_STATIONARY_C : a <= b ? ATTILE_METHOD_STATIONARY_A : ATTILE_METHOD_STATIONARY_B;
    }
    plan.bytes_sent = plan.method == ATTILE_METHOD_STATIONARY_C ? c : plan.method == ATTILE_METHOD_STATIONARY_A ? a : b;
    plan.panel = panel_width(p, plan.method);
    constexpr double kMiB = 1024 * 1024;
    char text[200];
    std::snprintf(text, sizeof text, "%s%s: ranks send %.3g MiB with C, %.3g with A and %.3g with B stationary; panels are %lld wide",
                  method_name(plan.method), asked, c / kMiB, a / kMiB, b / kMiB, static_cast<long long>(plan.panel));
    plan.why = text;
    return plan;
}

}  // namespace attile::core
