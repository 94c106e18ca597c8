// SPDX-License-Identifier: Apache-2.0
// Windows' own text is UTF-16, the program's is UTF-8.
#pragma once

#include <string>

namespace attile::cli {

std::wstring wide(const std::string &text);
std::string narrow(const std::wstring &text);

// The system's sentence about GetLastError().
std::string last_words();

}  // namespace attile::cli
