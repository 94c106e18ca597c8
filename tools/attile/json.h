// SPDX-License-Identifier: Apache-2.0
// Just enough JSON to write results: objects of strings and numbers.
#pragma once

#include <cmath>
#include <string>

#include "cli.h"

namespace attile::cli {

inline std::string json_string(const std::string &value) {
    std::string result = "\"";
    for (char c : value) {
        if (c == '"' || c == '\\') {
            result += '\\';
            result += c;
        } else if (static_cast<unsigned char>(c) < 0x20) {
            result += text("\\u%04x", c);
        } else {
            result += c;
        }
    }
    return result + "\"";
}

// JSON has no NaN and no infinity.
inline std::string json_number(double value) { return std::isfinite(value) ? text("%.9g", value) : "null"; }

// "{"a": 1, "b": "x"}", field by field.
class JsonObject {
  public:
    JsonObject &add(const char *name, const std::string &value) { return raw(name, json_string(value)); }
    JsonObject &add(const char *name, const char *value) { return raw(name, json_string(value)); }
    JsonObject &add(const char *name, double value) { return raw(name, json_number(value)); }
    JsonObject &raw(const char *name, const std::string &value) {
        fields_ += (fields_.empty() ? "" : ", ") + json_string(name) + ": " + value;
        return *this;
    }
    std::string str() const { return "{" + fields_ + "}"; }

  private:
    std::string fields_;
};

}  // namespace attile::cli
