// SPDX-License-Identifier: Apache-2.0
// The log: silent unless ATTILE_LOG or attile_set_log() asks for it.
#ifndef ATTILE_CORE_LOG_H
#define ATTILE_CORE_LOG_H

#include <cstdint>

namespace attile::core {

// Most detailed level that anybody listens to: ATTILE_LOG_ constant. One atomic load after the first call.
int32_t log_level();

// One line. Costs one comparison if nobody listens to that level; never throws.
void log(int32_t level, const char *format, ...) __attribute__((format(printf, 2, 3)));

// The same for a text that is ready.
void log_text(int32_t level, const char *text);

}  // namespace attile::core

#endif
