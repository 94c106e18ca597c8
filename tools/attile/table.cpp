// SPDX-License-Identifier: Apache-2.0
// Text for people.
#include "table.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cli.h"

namespace attile::cli {
namespace {

// Four significant digits at most, without an exponent.
std::string scaled(double value, double step, const std::vector<const char *> &units) {
    size_t unit = 0;
    // 999.95 would print as 1000.0: it belongs to the next unit.
    while (unit + 1 < units.size() && std::fabs(value) >= step * 0.99995) value /= step, ++unit;
    const double size = std::fabs(value);
    const int digits = value == std::floor(value) && unit == 0 ? 0 : size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
    return text("%.*f %s", digits, value, units[unit]);
}

std::string padded(const std::string &cell, size_t width, bool right) {
    const std::string space(width - std::min(width, display_width(cell)), ' ');
    return right ? space + cell : cell + space;
}

}  // namespace

std::string bytes_text(double bytes) { return scaled(bytes, 1024, {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}); }

std::string seconds_text(double seconds) {
    if (seconds >= 60) return text("%.1f s", seconds);
    return scaled(seconds * 1e9, 1000, {"ns", "us", "ms", "s"});
}

std::string flop_rate_text(double rate) { return scaled(rate, 1000, {"FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"}); }

std::string byte_rate_text(double rate) { return scaled(rate, 1000, {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"}); }

std::string count_text(double count, const char *unit) {
    static const char *const prefixes[] = {"", "k", "M", "G", "T", "P", "E"};
    size_t prefix = 0;
    while (prefix < 6 && count >= 999.5) count /= 1000, ++prefix;
    const int digits = prefix == 0 ? 0 : count < 9.995 ? 2 : count < 99.95 ? 1 : 0;
    return text("%.*f %s%s", digits, count, prefixes[prefix], unit);
}

std::string grouped_text(int64_t number) {
    std::string digits = std::to_string(number);
    for (size_t at = digits.size(); at > 3 + (number < 0);) digits.insert(at -= 3, " ");
    return digits;
}

size_t display_width(const std::string &text) {
    return static_cast<size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

Table::Table(std::vector<std::string> headings) {
    for (std::string &heading : headings) {
        right_.push_back(!heading.empty() && heading[0] == '>');
        if (right_.back()) heading.erase(0, 1);
    }
    rows_.push_back(std::move(headings));
}

void Table::row(std::vector<std::string> cells) {
    cells.resize(right_.size());
    rows_.push_back(std::move(cells));
}

std::string Table::str() const {
    std::vector<size_t> width(right_.size(), 0);
    for (const auto &cells : rows_)
        for (size_t i = 0; i < cells.size(); ++i) width[i] = std::max(width[i], display_width(cells[i]));
    std::string result;
    for (const auto &cells : rows_) {
        std::string line;
        for (size_t i = 0; i < cells.size(); ++i) line += (i ? "  " : "") + padded(cells[i], width[i], right_[i]);
        line.erase(line.find_last_not_of(' ') + 1);
        result += line + "\n";
    }
    return result;
}

void Facts::add(const std::string &name, const std::string &value) {
    if (!value.empty()) lines_.emplace_back(name, value);
}

std::string Facts::str() const {
    size_t width = 0;
    for (const auto &[name, value] : lines_) width = std::max(width, display_width(name));
    std::string result;
    for (const auto &[name, value] : lines_) result += padded(name, width, false) + "  " + value + "\n";
    return result;
}

}  // namespace attile::cli
