// SPDX-License-Identifier: Apache-2.0
#include "system.h"

#include <windows.h>

#include <shellapi.h>

#include <fcntl.h>
#include <io.h>

#include <cstdio>

#include "windows/text.h"

namespace attile::cli {

std::vector<std::string> command_line(int, char **) {
    _setmode(_fileno(stdout), _O_BINARY);  // Lines end as everywhere, and results may be bytes.
    SetConsoleOutputCP(CP_UTF8);
    int count = 0;
    wchar_t **words = CommandLineToArgvW(GetCommandLineW(), &count);
    std::vector<std::string> list;
    for (int i = 1; i < count; ++i) list.push_back(narrow(words[i]));
    LocalFree(words);
    return list;
}

bool stderr_is_terminal() { return _isatty(_fileno(stderr)) != 0; }

int terminal_columns() {
    CONSOLE_SCREEN_BUFFER_INFO about;
    return GetConsoleScreenBufferInfo(GetStdHandle(STD_ERROR_HANDLE), &about) != 0 ? about.dwSize.X : 0;
}

// Benchmarks against other libraries are not built for Windows.
int run_beside(const std::string &, const std::vector<std::string> &, void (*)(const std::string &)) { return -1; }

}  // namespace attile::cli
