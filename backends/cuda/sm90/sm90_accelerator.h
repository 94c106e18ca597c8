// SPDX-License-Identifier: Apache-2.0
// Hopper's tensor-core kernels behind simt's interface. Each operation has a file of its own that says which problems it takes.
#pragma once

#include "host/accelerator.h"
#include "sm90_tensor_map.h"

namespace attile::sm90 {

class Sm90Accelerator final : public simt::Accelerator {
  public:
    // `encode`: the driver's cuTensorMapEncodeTiled.
    explicit Sm90Accelerator(void *encode) : maps_(encode) {}

  private:
    const TensorMaps maps_;
};

}  // namespace attile::sm90
