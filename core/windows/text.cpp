// SPDX-License-Identifier: Apache-2.0
#include "windows/text.h"

#include <windows.h>

#include <algorithm>

namespace attile::core {

std::wstring wide(const std::string &text) {
    const int bytes = static_cast<int>(text.size());
    std::wstring result(static_cast<size_t>(MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text.data(), bytes, nullptr, 0)), L'\0');
    MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text.data(), bytes, result.data(), static_cast<int>(result.size()));
    return result;
}

std::string narrow(const std::wstring &text) {
    const int units = static_cast<int>(text.size());
    std::string result(static_cast<size_t>(WideCharToMultiByte(CP_UTF8, 0, text.data(), units, nullptr, 0, nullptr, nullptr)), '\0');
    WideCharToMultiByte(CP_UTF8, 0, text.data(), units, result.data(), static_cast<int>(result.size()), nullptr, nullptr);
    return result;
}

std::wstring wide_path(const std::string &path) {
    std::wstring result = wide(path);
    std::replace(result.begin(), result.end(), L'/', L'\\');
    return result;
}

std::string error_words(unsigned long error) {
    wchar_t words[512];
    const DWORD length = FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS | FORMAT_MESSAGE_MAX_WIDTH_MASK, nullptr,
                                        error, 0, words, static_cast<DWORD>(std::size(words)), nullptr);
    std::string text = narrow(std::wstring(words, length));
    while (!text.empty() && (text.back() == ' ' || text.back() == '.')) text.pop_back();
    return (text.empty() ? "error " : text + " (error ") + std::to_string(error) + (text.empty() ? "" : ")");
}

}  // namespace attile::core
