// SPDX-License-Identifier: Apache-2.0
// The plans of a table of problems on a table of devices, as queries answer them, against a committed file: a change of heuristics shows as
// its diff. Nothing is launched, and no device is needed.
//
// usage: plan_test PROBLEMS KERNELS EXPECTED [--update]
//   PROBLEMS  problems.txt       KERNELS  a table of tests/budget
//   EXPECTED  the plans; --update writes it anew, for a change that is meant
#include <attile/attile.h>
#include <attile/attile_backend.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "host/context.h"
#include "plan_problems.h"
#include "planned_device.h"

namespace attile::test {
namespace {

int32_t probe(int32_t device, attile_backend_probe *found) {
    const auto count = static_cast<int32_t>(device_rows().size());
    found->device_count = count;
    if (device < 0 || device >= count) return ATTILE_ERROR_BACKEND_REFUSED;
    std::snprintf(found->device_name, sizeof found->device_name, "%s", device_rows()[static_cast<std::size_t>(device)].name);
    return ATTILE_OK;
}

int32_t context_create(const attile_backend_options *options, void **state) {
    return gpu::context_make(make_device(device_rows().at(static_cast<std::size_t>(options->device))), *options, state);
}

const attile_backend_v1 kRoot = {
    sizeof(attile_backend_v1), ATTILE_BACKEND_ABI_MAJOR, ATTILE_BACKEND_ABI_MINOR, 0, "planned", "1.0.0", probe, context_create,
    gpu::context_destroy,      gpu::query_interface};

const void *entry(const void *host) {
    gpu::set_host(static_cast<const attile_host_v1 *>(host));
    return &kRoot;
}

struct Context {
    explicit Context(std::size_t device) {
        attile_context_options options;
        attile_context_options_init(&options, sizeof options);
        const std::string name = "planned:" + std::to_string(device);
        options.backend = name.c_str();
        if (attile_context_create(&options, &handle) != ATTILE_OK) throw std::runtime_error(error());
    }
    ~Context() { attile_context_destroy(handle); }
    static std::string error() {
        char text[1024] = {};
        attile_last_error(text, sizeof text);
        return text;
    }

    attile_context *handle = nullptr;
};

std::string plan_of(const Context &context, const std::string &problem) {
    attile_support s;
    attile_support_init(&s, sizeof s);
    const int32_t status = query_problem(context.handle, problem, &s);
    if (status != ATTILE_OK) throw std::runtime_error(problem + ": " + Context::error());
    if (s.level == ATTILE_SUPPORT_NONE) return std::string("none, ") + attile_status_name(s.status) + ": " + s.text;
    char line[1024];
    std::snprintf(
        line, sizeof line,
        "%s, tile %dx%dx%d, %d threads, splits %d, blocks %lld, %d a unit, workspace %lld, %s, share %.4f, flops %.6g, bytes %.6g%s%s",
        s.kernel, s.tile_m, s.tile_n, s.tile_k, s.threads, s.splits, static_cast<long long>(s.blocks), s.blocks_per_unit,
        static_cast<long long>(s.workspace_bytes), s.level == ATTILE_SUPPORT_NATIVE ? "native" : "emulated", s.predicted_share, s.flops,
        s.bytes, s.text[0] != '\0' ? ": " : "", s.text);
    return line;
}

std::vector<std::string> lines_of(const std::string &path) {
    std::ifstream file(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
}

// A paragraph for each problem, a line for each device.
std::vector<std::string> plans_of(const std::string &problems) {
    std::vector<std::unique_ptr<Context>> contexts;
    for (std::size_t device = 0; device < device_rows().size(); ++device) contexts.push_back(std::make_unique<Context>(device));
    std::vector<std::string> plans;
    for (const std::string &problem : lines_of(problems)) {
        if (problem.empty() || problem[0] == '#') continue;
        if (!plans.empty()) plans.emplace_back();
        plans.push_back(problem);
        for (std::size_t device = 0; device < contexts.size(); ++device)
            plans.push_back(std::string("  ") + device_rows()[device].name + " -> " + plan_of(*contexts[device], problem));
    }
    return plans;
}

// Prints what differs, problem by problem; both files have the same order.
int compare(const std::vector<std::string> &expected, const std::vector<std::string> &found) {
    const auto split = [](const std::vector<std::string> &lines) {
        std::vector<std::pair<std::string, std::vector<std::string>>> parts;
        for (const std::string &line : lines) {
            if (line.empty()) continue;
            if (line[0] != ' ')
                parts.push_back({line, {}});
            else
                parts.back().second.push_back(line);
        }
        return parts;
    };
    const auto before = split(expected), after = split(found);
    int differences = 0;
    for (std::size_t i = 0; i < std::max(before.size(), after.size()); ++i) {
        if (i < before.size() && i < after.size() && before[i] == after[i]) continue;
        std::printf("%s\n", i < after.size() ? after[i].first.c_str() : "(no problem)");
        if (i < before.size() && i < after.size() && before[i].first != after[i].first) std::printf("- %s\n", before[i].first.c_str());
        const std::vector<std::string> none, &was = i < before.size() ? before[i].second : none,
                                             &is = i < after.size() ? after[i].second : none;
        for (std::size_t j = 0; j < std::max(was.size(), is.size()); ++j) {
            if (j < was.size() && j < is.size() && was[j] == is[j]) continue;
            if (j < was.size()) std::printf("-%s\n", was[j].c_str());
            if (j < is.size()) std::printf("+%s\n", is[j].c_str());
            ++differences;
        }
    }
    return differences;
}

int run(int count, char **arguments) {
    const bool updates = count == 5 && std::strcmp(arguments[4], "--update") == 0;
    if (count != 4 && !updates) {
        std::fprintf(stderr, "usage: plan_test PROBLEMS KERNELS EXPECTED [--update]\n");
        return 2;
    }
    read_kernels(arguments[2]);
    if (attile_register_backend(entry) != ATTILE_OK) throw std::runtime_error(Context::error());
    const std::vector<std::string> plans = plans_of(arguments[1]);
    if (updates) {
        std::ofstream file(arguments[3]);
        for (const std::string &line : plans) file << line << '\n';
        return file.good() ? 0 : 1;
    }
    const int differences = compare(lines_of(arguments[3]), plans);
    std::printf("%zu lines of plans, %d differ\n", plans.size(), differences);
    return differences == 0 ? 0 : 1;
}

}  // namespace
}  // namespace attile::test

int main(int count, char **arguments) {
    try {
        return attile::test::run(count, arguments);
    } catch (const std::exception &failure) {
        std::fprintf(stderr, "plan_test: %s\n", failure.what());
        return 1;
    }
}
