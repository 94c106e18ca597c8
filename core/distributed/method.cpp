// SPDX-License-Identifier: Apache-2.0
// Which method a call uses. The rule looks at what all ranks know alike, never at a shard, so that all come to the same.
#include <algorithm>
#include <cstdio>

#include "distributed/attention.h"
#include "message.h"
#include "tensor.h"

namespace attile::core {
namespace {

// Keys and values that together are no larger than this are gathered: the time of a message counts, not its bytes.
constexpr double kSmall = 4.0 * 1024 * 1024;

struct Traffic {
    double all_keys;    // bytes of all keys and values
    double ring;        // bytes that a rank sends
    double all_to_all;  // likewise
    double tree;        // likewise
};

// Results that a rank sends in a tree: log2(ranks) rounded up.
int32_t tree_steps(int32_t ranks) {
    int32_t steps = 0;
    while ((2 << steps) <= ranks) ++steps;
    return steps + ((1 << steps) < ranks ? 1 : 0);
}

Traffic measure(const DistributedAttention &p) {
    const double bytes = element_bytes(p.local.q.dtype), out = element_bytes(p.local.o.dtype), wide = element_bytes(p.wide());
    const double batch = static_cast<double>(p.batch()), ranks = p.ranks, others = p.ranks - 1;
    const double d = static_cast<double>(p.head_dim()), dv = static_cast<double>(p.head_dim_v());
    const double keys = batch * static_cast<double>(p.heads_kv()) * static_cast<double>(p.len_k);
    const double rows = batch * static_cast<double>(p.heads_q()) * static_cast<double>(p.len_q);
    Traffic traffic{};
    traffic.all_keys = keys * (d + dv) * bytes;
    traffic.tree = tree_steps(p.ranks) * rows * (dv + 1) * wide;
    if (!p.backward) {
        traffic.ring = traffic.all_keys / ranks * others;
        traffic.all_to_all = (rows * (d * bytes + dv * out + wide) + traffic.all_keys) / ranks / ranks * others;
        return traffic;
    }
    // dk and dv travel as sums on a ring, and as results where no two ranks share a key head.
    const attile_attention_backward_args &g = p.gradients;
    const double row = d * (bytes + element_bytes(g.dq.dtype)) + dv * (out + element_bytes(g.dout.dtype)) + wide;
    const double dk = p.heads_kv() % p.ranks == 0 ? element_bytes(g.dk.dtype) : wide;
    const double dv_bytes = p.heads_kv() % p.ranks == 0 ? element_bytes(g.dv.dtype) : wide;
    traffic.ring = keys * (d + dv) * (bytes + wide) / ranks * others;
    traffic.all_to_all = (rows * row + keys * (d * (bytes + dk) + dv * (bytes + dv_bytes))) / ranks / ranks * others;
    return traffic;
}

}  // namespace

const char *method_name(int32_t method) {
    switch (method) {
        case ATTILE_METHOD_RING:
            return "ring";
        case ATTILE_METHOD_ALL_GATHER:
            return "all-gather";
        case ATTILE_METHOD_ALL_TO_ALL:
            return "all-to-all over heads";
        case ATTILE_METHOD_LOCAL:
            return "local";
        case ATTILE_METHOD_TREE:
            return "tree";
        case ATTILE_METHOD_STATIONARY_A:
            return "stationary A";
        case ATTILE_METHOD_STATIONARY_B:
            return "stationary B";
        case ATTILE_METHOD_STATIONARY_C:
            return "stationary C";
        default:
            return "auto";
    }
}

int32_t choose_method(const DistributedAttention &problem, std::string *why, int64_t *bytes_sent) {
    const Traffic traffic = measure(problem);
    const auto answer = [&](int32_t method, const char *reason) {
        *why = std::string(method_name(method)) + ": " + reason;
        constexpr double kMost = 9e18;  // what the answer can hold
        const double bytes = method == ATTILE_METHOD_TREE         ? traffic.tree
                             : method == ATTILE_METHOD_ALL_TO_ALL ? traffic.all_to_all
                                                                  : traffic.ring;
        *bytes_sent = static_cast<int64_t>(std::min(bytes, kMost));
        return method;
    };
    if (problem.ranks == 1) return answer(ATTILE_METHOD_LOCAL, "there is one rank");
    if (problem.method != ATTILE_METHOD_AUTO) return answer(problem.method, "asked for");
    if (problem.replicated) return answer(ATTILE_METHOD_TREE, "every rank has all rows");
    char reason[200];
    constexpr double kMiB = 1024 * 1024;
    if (traffic.all_keys <= kSmall) {
        std::snprintf(reason, sizeof reason, "all keys and values are %.3g MiB, no more than %g", traffic.all_keys / kMiB, kSmall / kMiB);
        return answer(ATTILE_METHOD_ALL_GATHER, reason);
    }
    const int64_t ranks = problem.ranks;
    if (!is_absent(problem.local.bias) || !is_absent(problem.local.allowed)) {
        return answer(ATTILE_METHOD_RING, "rows of a bias or mask need not travel with it");
    }
    if (problem.heads_q() % ranks != 0 || problem.heads_kv() % ranks != 0) {
        std::snprintf(reason, sizeof reason, "%d ranks do not divide %lld query heads and %lld key heads", problem.ranks,
                      static_cast<long long>(problem.heads_q()), static_cast<long long>(problem.heads_kv()));
        return answer(ATTILE_METHOD_RING, reason);
    }
    const bool fewer = traffic.all_to_all < traffic.ring;
    std::snprintf(reason, sizeof reason, "a rank sends %.3g MiB, and %.3g with the %s", (fewer ? traffic.all_to_all : traffic.ring) / kMiB,
                  (fewer ? traffic.ring : traffic.all_to_all) / kMiB, method_name(fewer ? ATTILE_METHOD_RING : ATTILE_METHOD_ALL_TO_ALL));
    return answer(fewer ? ATTILE_METHOD_ALL_TO_ALL : ATTILE_METHOD_RING, reason);
}

}  // namespace attile::core
