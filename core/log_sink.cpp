// SPDX-License-Identifier: Apache-2.0
#include "log_sink.h"

#include "environment.h"

namespace attile::core {
namespace {

constinit LogFile own;  // of ATTILE_LOG_FILE, once open
constinit bool has_complained = false;

}  // namespace

LogFile log_file(const char **complaint) {
    *complaint = nullptr;
    const char *path = environment("ATTILE_LOG_FILE");
    if (path == nullptr || path[0] == '\0' || has_complained) return find_standard_error();
    if (is_still(own)) return own;
    *complaint = open_log_file(path, &own);
    if (*complaint == nullptr) return own;
    has_complained = true;
    return find_standard_error();
}

}  // namespace attile::core
