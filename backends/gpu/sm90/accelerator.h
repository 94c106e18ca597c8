// SPDX-License-Identifier: Apache-2.0
// Hopper's tensor-core kernels behind simt's interface. Each operation has a file of its own that says which problems it takes.
#pragma once

#include "host/accelerator.h"
#include "sm90/tensor_map.h"

namespace attile::sm90 {

class Sm90Accelerator final : public simt::Accelerator {
  public:
    // `encode`: the driver's cuTensorMapEncodeTiled.
    explicit Sm90Accelerator(void *encode) : maps_(encode) {}

    const char *name() const override { return "sm_90a"; }
    int32_t query(simt::Device &device, const attile_gemm_problem &problem, attile_support &support, bool &taken,
                  simt::Declined &declined) override;
    int32_t run(simt::Device &device, const attile_gemm_problem &problem, simt::Workspace &workspace, simt::Stream stream) override;
    int32_t query(simt::Device &device, const attile_attention_problem &problem, attile_support &support, bool &taken,
                  simt::Declined &declined) override;
    int32_t run(simt::Device &device, const attile_attention_problem &problem, simt::Workspace &workspace, simt::Stream stream) override;
    int32_t query(simt::Device &device, const attile_attention_backward_problem &problem, attile_support &support, bool &taken,
                  simt::Declined &declined) override;
    int32_t run(simt::Device &device, const attile_attention_backward_problem &problem, simt::Workspace &workspace,
                simt::Stream stream) override;

  private:
    const TensorMaps maps_;
};

}  // namespace attile::sm90
