// SPDX-License-Identifier: Apache-2.0
// The tensor-core kernels for capability 8.0 and later behind gpu's interface. Each operation has a file of its own that says which
// problems it takes.
#pragma once

#include "host/accelerator.h"

namespace attile::gpu::sm80 {

// Any kernel of this folder: whether the build has code for a device is asked of it.
const void *some_kernel();

class Sm80Accelerator final : public gpu::Accelerator {
  public:
    // Behind faster kernels gemm of 16-bit types is left to them and to SIMT: they take whatever would be worth it here.
    explicit Sm80Accelerator(bool is_behind) : takes_gemm16_(!is_behind) {}

    const char *name() const override { return "sm_80"; }
    int32_t query(Device &device, const attile_gemm_problem &problem, attile_support &support, bool &taken, Declined &declined) override;
    int32_t run(Device &device, const attile_gemm_problem &problem, Workspace &workspace, Stream stream) override;
    int32_t query(Device &device, const attile_attention_problem &problem, attile_support &support, bool &taken,
                  Declined &declined) override;
    int32_t run(Device &device, const attile_attention_problem &problem, Workspace &workspace, Stream stream) override;
    int32_t query(Device &device, const attile_attention_backward_problem &problem, attile_support &support, bool &taken,
                  Declined &declined) override;
    int32_t run(Device &device, const attile_attention_backward_problem &problem, Workspace &workspace, Stream stream) override;

  private:
    const bool takes_gemm16_;
};

}  // namespace attile::gpu::sm80
