// SPDX-License-Identifier: Apache-2.0
// Kernels that a vendor's backend adds to the SIMT ones because its chip has units that SIMT code cannot reach. The operations ask the
// device's accelerators first, one after the other, and go on to SIMT where all decline, keeping the reason for the caller. gpu/host knows
// no accelerator by name.
#pragma once

#include "device.h"
#include "host/workspace.h"

namespace attile::gpu {

// Why a problem was declined: one clause, without a full stop. Empty: nothing that a caller could change.
struct Declined {
    char text[160] = {};
};

// Thread-safe. The caller holds an Entered around calls. An operation that is not overridden is declined without a word.
class Accelerator {
  public:
    virtual ~Accelerator() = default;

    // What its kernels are for, as in "not for <name>: <why it declined>".
    virtual const char *name() const = 0;

    // Answers a query as the operation's own would and sets `taken`; or leaves `support` alone and fills `declined`. The answer may depend
    // on the addresses of data, a null pointer counting as aligned to 16 bytes, but never on what they point to.
    virtual int32_t query(Device &device, const attile_gemm_problem &problem, attile_support &support, bool &taken, Declined &declined);
    virtual int32_t query(Device &device, const attile_attention_problem &problem, attile_support &support, bool &taken,
                          Declined &declined);
    virtual int32_t query(Device &device, const attile_attention_backward_problem &problem, attile_support &support, bool &taken,
                          Declined &declined);

    // Only for problems that query took, with at least the workspace it asked for.
    virtual int32_t run(Device &device, const attile_gemm_problem &problem, Workspace &workspace, Stream stream);
    virtual int32_t run(Device &device, const attile_attention_problem &problem, Workspace &workspace, Stream stream);
    virtual int32_t run(Device &device, const attile_attention_backward_problem &problem, Workspace &workspace, Stream stream);
};

}  // namespace attile::gpu
