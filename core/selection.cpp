// SPDX-License-Identifier: Apache-2.0
// Parses the selection string. It comes from the environment, so nothing in it is trusted: names only, never paths.
#include "selection.h"

#include <cstring>
#include <string_view>

namespace attile::core {
namespace {

constexpr std::string_view kAuto = "auto";
constexpr size_t kMaxDeviceDigits = 6;

bool valid_name(std::string_view name) {
    if (name.empty() || name.size() > kMaxBackendName) return false;
    for (const char c : name) {
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-')) return false;
    }
    return true;
}

// For a message: control characters would let a variable forge lines of a log.
std::string printable(std::string_view text) {
    std::string out;
    for (const char c : text.substr(0, 64)) out += c >= ' ' && c <= '~' ? c : '?';
    return text.size() > 64 ? out + "..." : out;
}

bool parse_device(std::string_view digits, int32_t *device) {
    if (digits.empty() || digits.size() > kMaxDeviceDigits) return false;
    *device = 0;
    for (const char c : digits) {
        if (c < '0' || c > '9') return false;
        *device = *device * 10 + (c - '0');
    }
    return true;
}

void append_once(std::vector<Choice> *choices, Choice choice) {
    for (const Choice &known : *choices) {
        if (known.name == choice.name && known.device == choice.device) return;
    }
    choices->push_back(std::move(choice));
}

}  // namespace

bool valid_backend_name(const char *name) {
    return name != nullptr && valid_name({name, strnlen(name, kMaxBackendName + 1)}) && name != kAuto;
}

bool parse_selection(const char *text, const char *auto_order, std::vector<Choice> *choices, std::string *error) {
    choices->clear();
    const size_t length = strnlen(text, kMaxSelectionBytes + 1);
    if (length > kMaxSelectionBytes) {
        *error = "the backend selection is longer than 255 bytes";
        return false;
    }
    std::string_view rest(text, length);
    const std::string whole = printable(rest);
    for (size_t entry = 1;; ++entry) {
        const size_t comma = rest.find(',');
        const std::string_view item = rest.substr(0, comma);
        const size_t colon = item.find(':');
        const std::string_view name = item.substr(0, colon);
        Choice choice;
        if (!valid_name(name)) {
            *error = "entry " + std::to_string(entry) + " of the backend selection '" + whole + "' is '" + printable(item) +
                     "', expected a name of at most 31 characters a-z, 0-9, '_', '-' (names only, never paths), or name:device";
            return false;
        }
        if (colon != std::string_view::npos && (name == kAuto || !parse_device(item.substr(colon + 1), &choice.device))) {
            *error = "entry " + std::to_string(entry) + " of the backend selection '" + whole + "' is '" + printable(item) +
                     "', expected name:device with a device number of at most six digits, and none after 'auto'";
            return false;
        }
        if (name == kAuto) {
            std::string_view order(auto_order);
            while (!order.empty()) {
                const size_t end = order.find(',');
                append_once(choices, {std::string(order.substr(0, end)), 0, true});
                order = end == std::string_view::npos ? std::string_view() : order.substr(end + 1);
            }
        } else {
            choice.name = name;
            append_once(choices, std::move(choice));
        }
        if (comma == std::string_view::npos) return true;
        rest = rest.substr(comma + 1);
    }
}

}  // namespace attile::core
