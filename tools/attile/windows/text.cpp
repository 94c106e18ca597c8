// SPDX-License-Identifier: Apache-2.0
#include "windows/text.h"

#include <windows.h>

#include <system_error>

namespace attile::cli {

std::wstring wide(const std::string &text) {
    const int bytes = static_cast<int>(text.size());
    std::wstring result(static_cast<size_t>(MultiByteToWideChar(CP_UTF8, 0, text.data(), bytes, nullptr, 0)), L'\0');
    MultiByteToWideChar(CP_UTF8, 0, text.data(), bytes, result.data(), static_cast<int>(result.size()));
    return result;
}

std::string narrow(const std::wstring &text) {
    const int units = static_cast<int>(text.size());
    std::string result(static_cast<size_t>(WideCharToMultiByte(CP_UTF8, 0, text.data(), units, nullptr, 0, nullptr, nullptr)), '\0');
    WideCharToMultiByte(CP_UTF8, 0, text.data(), units, result.data(), static_cast<int>(result.size()), nullptr, nullptr);
    return result;
}

std::string last_words() { return std::system_category().message(static_cast<int>(GetLastError())); }

}  // namespace attile::cli
