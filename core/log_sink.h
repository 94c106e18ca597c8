// SPDX-License-Identifier: Apache-2.0
// The file that log lines are written to: ATTILE_LOG_FILE's, else standard error.
#ifndef ATTILE_CORE_LOG_SINK_H
#define ATTILE_CORE_LOG_SINK_H

#include "log_file.h"

namespace attile::core {

// The file to write to now, its descriptor -1 if there is none. With the log's lock held. `complaint`: why ATTILE_LOG_FILE is not used, the
// first time that is found, else NULL.
LogFile log_file(const char **complaint);

}  // namespace attile::core

#endif
