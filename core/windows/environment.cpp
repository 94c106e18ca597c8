// SPDX-License-Identifier: Apache-2.0
// Reads the environment as UTF-8: what getenv() gives is in the system's code page. No process counts as privileged. Windows runs a program
// with the rights of whoever starts it, and asks before it gives a program an administrator's.
#include "environment.h"

#include <windows.h>

#include <set>
#include <string>

#include "windows/text.h"

namespace attile::core {
namespace {

// False if the variable is unset.
bool read_variable(const char *name, std::wstring *value) {
    const std::wstring wide_name = wide(name);
    DWORD needed = 128;
    for (;;) {
        value->resize(needed);
        SetLastError(ERROR_SUCCESS);
        const DWORD got = GetEnvironmentVariableW(wide_name.c_str(), value->data(), needed);
        if (got == 0 && GetLastError() != ERROR_SUCCESS) return false;
        if (got < needed) {
            value->resize(got);
            return true;
        }
        needed = got;
    }
}

class Hold {
  public:
    explicit Hold(SRWLOCK *lock) : lock_(lock) { AcquireSRWLockExclusive(lock_); }
    ~Hold() { ReleaseSRWLockExclusive(lock_); }
    Hold(const Hold &) = delete;
    Hold &operator=(const Hold &) = delete;

  private:
    SRWLOCK *const lock_;
};

// Every value that was read. They are kept for as long as the process lives: callers hold pointers. Each is there once.
const char *kept(const std::wstring &value) {
    static constinit std::set<std::string> *values = nullptr;
    static SRWLOCK lock = SRWLOCK_INIT;
    const Hold hold(&lock);
    if (values == nullptr) values = new std::set<std::string>;
    return values->insert(narrow(value)).first->c_str();
}

}  // namespace

bool privileged_process() { return false; }

const char *environment(const char *name) {
    std::wstring value;
    return read_variable(name, &value) ? kept(value) : nullptr;
}

bool environment_ignored(const char *) { return false; }

}  // namespace attile::core
