// SPDX-License-Identifier: Apache-2.0
// What is the same on every system.
#include "replace_file.h"

namespace attile::cli {

ReplaceFile::~ReplaceFile() { discard(); }

bool ReplaceFile::fail(const std::string &what) {
    error_ = "'" + path_ + "' " + what;
    discard();
    return false;
}

}  // namespace attile::cli
