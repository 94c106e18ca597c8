// SPDX-License-Identifier: Apache-2.0
// Which backends to test.
#include "conformance_backends.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

namespace attile::test {
namespace {

std::vector<std::string> names_in(const char *variable) {
    const char *text = std::getenv(variable);
    std::istringstream words(text != nullptr ? text : "");
    std::vector<std::string> names;
    for (std::string name; std::getline(words, name, ',');)
        if (!name.empty()) names.push_back(name);
    return names;
}

}  // namespace

ContextHandle open_backend(const std::string &selection, std::string *why) {
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    options.backend = selection.c_str();
    attile_context *context = nullptr;
    if (attile_context_create(&options, &context) != ATTILE_OK && why != nullptr) {
        char text[1024];
        attile_last_error(text, sizeof text);
        *why = text;
    }
    return ContextHandle(context);
}

std::vector<Backend> backends_under_test() {
    std::vector<std::string> required = names_in("ATTILE_TEST_BACKEND");
    std::vector<std::string> names = required;
    if (required.empty()) {
        names = {"reference", "cpu", "cuda", "hip"};
        required = names_in("ATTILE_TEST_REQUIRED");
        required.emplace_back("reference");
    }
    std::vector<Backend> backends;
    for (const std::string &name : names) {
        std::string why;
        ContextHandle context = open_backend(name, &why);
        if (context == nullptr && std::find(required.begin(), required.end(), name) != required.end())
            throw std::runtime_error("backend " + name + " must be tested and does not open: " + why);
        if (context == nullptr) continue;
        std::string label = name;
        std::replace(label.begin(), label.end(), ':', '_');
        backends.push_back({label, std::move(context)});
    }
    return backends;
}

int rerun_each() {
    const char *text = std::getenv("ATTILE_TEST_RERUNS");
    if (text == nullptr) return 1;
    const int each = std::atoi(text);
    if (each < 1) throw std::runtime_error("ATTILE_TEST_RERUNS is '" + std::string(text) + "'; it is a number from 1 on");
    return each;
}

}  // namespace attile::test
