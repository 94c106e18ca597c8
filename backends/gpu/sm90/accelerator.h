// SPDX-License-Identifier: Apache-2.0
// Hopper's tensor-core kernels behind gpu's interface. Each operation has a file of its own that says which problems it takes.
#pragma once

#include "host/accelerator.h"

namespace attile::gpu::sm90 {

class Sm90Accelerator final : public gpu::Accelerator {
  public:
    const char *name() const override { return "sm_90a"; }
    int32_t query(Device &device, const attile_gemm_problem &problem, attile_support &support, bool &taken, Declined &declined) override;
    int32_t run(Device &device, const attile_gemm_problem &problem, Workspace &workspace, Stream stream) override;
    int32_t query(Device &device, const attile_attention_problem &problem, attile_support &support, bool &taken,
                  Declined &declined) override;
    int32_t run(Device &device, const attile_attention_problem &problem, Workspace &workspace, Stream stream) override;
    int32_t query(Device &device, const attile_attention_backward_problem &problem, attile_support &support, bool &taken,
                  Declined &declined) override;
    int32_t run(Device &device, const attile_attention_backward_problem &problem, Workspace &workspace, Stream stream) override;
};

}  // namespace attile::gpu::sm90
