// SPDX-License-Identifier: Apache-2.0
// Text for people: aligned tables, sizes and rates with a fitting unit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace attile::cli {

std::string bytes_text(double bytes);                    // "12.4 KiB"
std::string seconds_text(double seconds);                // "3.21 ms"
std::string flop_rate_text(double flops_per_second);     // "412.0 GFLOP/s"
std::string byte_rate_text(double bytes_per_second);     // "21.3 GB/s"
std::string count_text(double count, const char *unit);  // "1.07 GFLOP", powers of 1000
std::string grouped_text(int64_t number);                // "1 234 567"

// Columns padded to their widest cell. A heading that begins with '>' puts its column flush right.
class Table {
  public:
    explicit Table(std::vector<std::string> headings);
    void row(std::vector<std::string> cells);
    std::string str() const;

  private:
    std::vector<bool> right_;
    std::vector<std::vector<std::string>> rows_;
};

// "name      value" lines with the values in one column.
class Facts {
  public:
    void add(const std::string &name, const std::string &value);  // An empty value leaves the line out.
    std::string str() const;

  private:
    std::vector<std::pair<std::string, std::string>> lines_;
};

// Columns a terminal needs for UTF-8 text: continuation bytes take none.
size_t display_width(const std::string &text);

}  // namespace attile::cli
