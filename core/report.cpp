// SPDX-License-Identifier: Apache-2.0
// The report on backends: bounded, whatever a program selects, and one line a candidate, whatever a loader's message contains.
#include "report.h"

#include <attile/attile.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

#include "guard.h"

namespace attile::core {
namespace {

constexpr size_t kMaxLines = 256;

struct Line {
    std::string key;
    std::string text;
};

struct Report {
    std::mutex lock;
    std::vector<Line> lines;
};

// Never destroyed: a thread may still be asking while the process ends.
Report &report() {
    static Report *const instance = new Report;
    return *instance;
}

void note(std::string key, std::string text) {
    for (char &c : text) {
        if (static_cast<unsigned char>(c) < ' ') c = ' ';
    }
    Report &all = report();
    const std::lock_guard<std::mutex> hold(all.lock);
    const auto known = std::find_if(all.lines.begin(), all.lines.end(), [&](const Line &line) { return line.key == key; });
    if (known != all.lines.end()) {
        known->text = std::move(text);
        return;
    }
    if (all.lines.size() == kMaxLines) all.lines.erase(all.lines.begin());
    all.lines.push_back({std::move(key), std::move(text)});
}

}  // namespace

void report_forget(const std::string &label) {
    const std::string prefix = label + '\n';
    Report &all = report();
    const std::lock_guard<std::mutex> hold(all.lock);
    std::erase_if(all.lines, [&](const Line &line) { return line.key.starts_with(prefix); });
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
            Report &all = report();
            const std::lock_guard<std::mutex> hold(all.lock);
            for (const Line &line : all.lines) text += line.text + '\n';
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
