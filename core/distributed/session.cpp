// SPDX-License-Identifier: Apache-2.0
#include "distributed/session.h"

namespace attile::core {

int32_t Session::take(int32_t status) {
    own_.take(status);
    if (status == ATTILE_OK || !link_.tells_why()) return ATTILE_OK;
    link_.give_up(status, own_.why());
    return status;
}

}  // namespace attile::core
