// SPDX-License-Identifier: Apache-2.0
// The report on backends: bounded, whatever a program selects, and one line a candidate, whatever a loader's message contains.
#include "report.h"

#include <attile/attile.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "fork.h"
#include "guard.h"
#include "message.h"

namespace attile::core {
namespace {

constexpr size_t kMaxLines = 256;

struct Line {
    std::string key;
    std::string text;
};

// With the lock held. Never destroyed: a thread may still be asking while the process ends.
std::vector<Line> &report_lines() {
    static constinit std::vector<Line> *lines = nullptr;
    if (lines == nullptr) lines = new std::vector<Line>;
    return *lines;
}

void note(std::string key, std::string text) {
    make_printable(text.data());
    const std::lock_guard<std::mutex> hold(locks.report);
    std::vector<Line> &lines = report_lines();
    const auto known = std::find_if(lines.begin(), lines.end(), [&](const Line &line) { return line.key == key; });
    if (known != lines.end()) {
        known->text = std::move(text);
        return;
    }
    if (lines.size() == kMaxLines) lines.erase(lines.begin());
    lines.push_back({std::move(key), std::move(text)});
}

}  // namespace

void report_forget(const std::string &label) {
    const std::string prefix = label + '\n';
    const std::lock_guard<std::mutex> hold(locks.report);
    std::erase_if(report_lines(), [&](const Line &line) { return line.key.starts_with(prefix); });
}

void report_candidate(const std::string &label, const std::string &where, int32_t status, const std::string &text) {
    const std::string verdict = status == ATTILE_OK ? "chosen" : "refused, " + std::string(attile_status_name(status));
    note(label + '\n' + where, label + " (" + where + "): " + verdict + ": " + text);
}

void report_remark(const std::string &remark) { note('\n' + remark, remark); }

}  // namespace attile::core

extern "C" int64_t attile_backend_report(char *buffer, int64_t capacity) {
    using namespace attile::core;
    int64_t needed = 1;
    if (buffer != nullptr && capacity > 0) buffer[0] = '\0';
    (void)guarded([&]() -> int32_t {
        std::string text;
        {
            const std::lock_guard<std::mutex> hold(locks.report);
            for (const Line &line : report_lines()) text += line.text + '\n';
        }
        needed = static_cast<int64_t>(text.size()) + 1;
        if (buffer != nullptr && capacity > 0) {
            const size_t fits = std::min(text.size(), static_cast<size_t>(capacity - 1));
            std::memcpy(buffer, text.data(), fits);
            buffer[fits] = '\0';
        }
        return ATTILE_OK;
    });
    return needed;
}
