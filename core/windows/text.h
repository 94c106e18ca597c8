// SPDX-License-Identifier: Apache-2.0
// Windows' own text is UTF-16, the library's is UTF-8. And the system's words for an error.
#ifndef ATTILE_CORE_WINDOWS_TEXT_H
#define ATTILE_CORE_WINDOWS_TEXT_H

#include <string>

namespace attile::core {

// Empty if the text is not well formed.
std::wstring wide(const std::string &text);

// What has no counterpart, half a pair of surrogates, becomes U+FFFD.
std::string narrow(const std::wstring &text);

// The same for a path, with the backslashes that LoadLibraryEx() insists on.
std::wstring wide_path(const std::string &path);

// Windows' sentence about an error's number, and the number.
std::string error_words(unsigned long error);

}  // namespace attile::core

#endif
