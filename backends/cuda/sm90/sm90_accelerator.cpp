// SPDX-License-Identifier: Apache-2.0
// Which operation goes to which file: each says what it takes, and why it declines the rest.
#include "sm90_accelerator.h"

namespace attile::sm90 {}  // namespace attile::sm90
