// SPDX-License-Identifier: Apache-2.0
// Puts back what a backend's loading changed. The locale is only set where it differs, for setting it is not safe beside other threads.
#include "surroundings.h"

#include <locale.h>

#include "guard.h"
#include "log.h"
#include "report.h"
#include "this_thread.h"

namespace attile::core {
namespace {

std::string locale_now() {
    const char *name = setlocale(LC_ALL, nullptr);
    return name != nullptr ? name : "";
}

}  // namespace

Surroundings::Surroundings() : thread_locale_(thread_locale()), locale_(locale_now()) {}

Surroundings::~Surroundings() {
    mode_.put_back();
    put_back_locale();
}

// False if it was another.
bool Surroundings::put_back_locale() const {
    const bool same_of_thread = thread_locale() == thread_locale_;
    if (!same_of_thread) set_thread_locale(thread_locale_);
    const char *name = setlocale(LC_ALL, nullptr);
    const bool same = name != nullptr && locale_ == name;
    if (!same && !locale_.empty()) setlocale(LC_ALL, locale_.c_str());
    return same && same_of_thread;
}

void Surroundings::put_back(const std::string &backend) {
    const bool same_mode = mode_.put_back(), same_locale = put_back_locale();
    if (same_mode && same_locale) return;
    const char *what = same_mode ? "locale" : same_locale ? "floating-point mode" : "floating-point mode and the locale";
    try {
        const std::string text = "backend '" + backend + "' changed the " + what + "; that was put back";
        report_remark(text);
        log(ATTILE_LOG_WARN, "%s", text.c_str());
    }
    ATTILE_LET_THREADS_END
    catch (...) {
        // No memory to say it.
    }
}

}  // namespace attile::core
