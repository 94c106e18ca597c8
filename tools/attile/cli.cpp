// SPDX-License-Identifier: Apache-2.0
// What the subcommands share.
#include "cli.h"

#include <cstdarg>
#include <cstdio>

namespace attile::cli {

void check(int32_t status) {
    if (status == ATTILE_OK) return;
    const std::string why = last_error();
    throw Failure(why.empty() ? std::string(attile_status_name(status)) : why);
}

std::string text(const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    const int size = std::vsnprintf(nullptr, 0, format, arguments);
    va_end(arguments);
    std::string result(size > 0 ? static_cast<size_t>(size) : 0, '\0');
    if (size > 0) std::vsnprintf(result.data(), result.size() + 1, format, again);
    va_end(again);
    return result;
}

// Another thread may lengthen the text between the two calls; the second then gives what fits.
std::string last_error() {
    std::string result(static_cast<size_t>(attile_last_error(nullptr, 0)), '\0');
    attile_last_error(result.data(), static_cast<int64_t>(result.size()));
    result.resize(result.find('\0'));
    return result;
}

std::string backend_report() {
    std::string result(static_cast<size_t>(attile_backend_report(nullptr, 0)), '\0');
    attile_backend_report(result.data(), static_cast<int64_t>(result.size()));
    result.resize(result.find('\0'));
    return result;
}

std::string version_text(int32_t version) { return text("%d.%d.%d", version / 1000000, version / 1000 % 1000, version % 1000); }

Context::Context(const std::string &backend, int threads) {
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    options.backend = backend.empty() ? nullptr : backend.c_str();
    options.threads = threads;
    check(attile_context_create(&options, &context_));
    attile_context_info_init(&info_, sizeof info_);
    if (const int32_t status = attile_context_get_info(context_, &info_); status != ATTILE_OK) {
        attile_context_destroy(context_);
        check(status);
    }
}

Context::~Context() { attile_context_destroy(context_); }

std::string Context::description() const {
    std::string result = info_.backend;
    if (info_.device_name[0]) result += text(" on %s", info_.device_name);
    std::string detail = info_.arch;
    if (info_.threads > 0) detail += text("%s%d thread%s", detail.empty() ? "" : ", ", info_.threads, info_.threads == 1 ? "" : "s");
    if (!detail.empty()) result += " (" + detail + ")";
    return result;
}

}  // namespace attile::cli
