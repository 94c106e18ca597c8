// SPDX-License-Identifier: Apache-2.0
// A product of matrices over a grid: the checked problem, and its methods.
#ifndef ATTILE_CORE_DISTRIBUTED_GRID_GEMM_H
#define ATTILE_CORE_DISTRIBUTED_GRID_GEMM_H

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "distributed/grid_axis.h"
#include "distributed/session.h"

namespace attile::core {

inline constexpr const char *kGemmDistributed = "gemm_distributed";

// op(X), the part of it that the call works on.
struct GridMatrix {
    GridLayout layout;
    attile_tensor part{};       // what this rank has of it, where the caller has it
    std::vector<uint8_t> fast;  // of each rank: the axis along which neighbours are near in its memory
    uint8_t own_fast = 0;
};

struct GridGemm {
    const char *operation = kGemmDistributed;
    attile_context *context = nullptr;
    bool host_memory = true;
    DeviceBlocks *device_blocks = nullptr;  // where what travels lies in the device's memory
    int32_t rank = 0, ranks = 1;
    int64_t m = 0, n = 0, k = 0;
    GridMatrix a, b, d;
    attile_gemm_args local{};  // stream, flags, factors and epilogue; c and bias as this rank has them; no a, b and d
    int32_t method = 0;
    int64_t panel = 0;  // as asked for

    // Of sums.
    int32_t wide() const { return a.part.dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32; }
    // Whether there is anything to multiply.
    bool has_product() const { return m != 0 && n != 0 && k != 0 && local.alpha != 0.0; }

    bool on_device() const { return device_blocks != nullptr; }
    DeviceWork device_work() const { return {operation, context, local.stream, local.flags, wide(), device_blocks}; }
    int32_t take(Buffer *buffer, int64_t count, int64_t bytes) const { return buffer->take(operation, count, bytes, device_blocks); }
    // A tensor where messages and sums of it can lie.
    int32_t bring(const attile_tensor &tensor, Buffer *copy, attile_tensor *image) const {
        return bring_to_host(context, host_memory || on_device(), local.stream, tensor, copy, image);
    }
    // What was queued is done.
    int32_t settle() const { return host_memory ? ATTILE_OK : attile_synchronize(context, local.stream); }
};

// The same product with A and B exchanged: D^T = op(B)^T op(A)^T.
GridGemm transposed(const GridGemm &problem);

// Reads and validates this rank's own arguments.
int32_t read_grid_gemm(const CommState &comm, const char *operation, const attile_gemm_distributed_args *args, bool query,
                       GridGemm *problem, Announcement *announcement);

// A grid of so many ranks, its default filled in. `name` is how the caller has it.
int32_t read_grid(const char *operation, const char *name, const attile_grid *given, int32_t ranks, attile_grid *grid);
// How the whole matrix lies, its defaults filled in and `grid` where it was read to. `local` is not looked at.
int32_t read_grid_matrix(const char *operation, const char *name, const attile_distributed_matrix *given, int32_t ranks,
                         attile_distributed_matrix *matrix, attile_grid *grid, GridLayout *layout);
// The axes along which all ranks' matrices are dense, from what they announced.
void spread_fast_axes(const Agreement &agreement, GridGemm *problem);

// What a call does, the same on all ranks.
struct GridPlan {
    int32_t method = 0;
    int64_t panel = 0;      // width
    double bytes_sent = 0;  // by all ranks together
    std::string why;
};
GridPlan plan_grid_gemm(const GridGemm &problem);

std::unique_ptr<Method> make_stationary_c(const GridGemm &problem, int64_t panel);
// Of B as well, with the transposed problem.
std::unique_ptr<Method> make_stationary_a(const GridGemm &problem, int64_t panel);

// The body of a call, for the names that share it. `arguments` is part of reading them: a failure of it reaches the other ranks. What it
// points to lives as long as the call.
using GridArguments = std::function<int32_t(const attile_gemm_distributed_args **)>;
int32_t gemm_over_ranks(const char *operation, attile_comm *comm, const GridArguments &arguments);

}  // namespace attile::core

#endif
