// SPDX-License-Identifier: Apache-2.0
// attile info: which library this is, what was selected, every backend tried and why, and the device chosen.
#include <attile/attile_distributed.h>

#include <cstdio>
#include <cstdlib>

#include "cli.h"
#include "commands.h"
#include "table.h"

namespace attile::cli {
namespace {

std::string selection(const InfoOptions &options) {
    if (!options.backend.empty()) return options.backend + " (--backend)";
    const char *variable = std::getenv("ATTILE_BACKEND");
    if (variable == nullptr || *variable == '\0') return "auto (ATTILE_BACKEND is not set)";
    return std::string(variable) + " (ATTILE_BACKEND)";
}

// Lines of the report that are of transports, or those that are not.
void print_report(const char *title, bool transports) {
    const std::string report = backend_report();
    std::printf("\n%s\n", title);
    for (size_t begin = 0; begin < report.size();) {
        const size_t end = std::min(report.find('\n', begin), report.size());
        const std::string line = report.substr(begin, end - begin);
        if (line.starts_with("transport ") == transports) std::printf("  %s\n", line.c_str());
        begin = end + 1;
    }
}

// This program is no rank of MPI or NCCL: that is what the refusal of a transport which is installed says.
void print_transports(attile_context *context) {
    for (const char *kind : {"mpi", "nccl"}) {
        attile_comm_options options;
        attile_comm_options_init(&options, sizeof options);
        options.kind = kind;
        attile_comm *comm = nullptr;
        if (attile_comm_create(context, &options, &comm) == ATTILE_OK) attile_comm_destroy(comm);
    }
    print_report("transports tried, beside threads and callbacks", true);
}

const char *device_type(int32_t type) {
    switch (type) {
        case ATTILE_DEVICE_CPU:
            return "CPU";
        case ATTILE_DEVICE_CUDA:
            return "CUDA";
        case ATTILE_DEVICE_ROCM:
            return "ROCm";
        default:
            return "device";
    }
}

std::string count(int64_t number) { return number > 0 ? grouped_text(number) : ""; }
std::string size(int64_t bytes) { return bytes > 0 ? bytes_text(static_cast<double>(bytes)) : ""; }
std::string rate(double flops) { return flops > 0 ? flop_rate_text(flops) : ""; }

std::string device_facts(const attile_context_info &info) {
    const bool cpu = info.device_type == ATTILE_DEVICE_CPU;
    Facts facts;
    facts.add("backend", std::string(info.backend) + " " + info.backend_version);
    facts.add("device",
              text("%s %d: %s", device_type(info.device_type), info.device_index, info.device_name[0] ? info.device_name : "unnamed"));
    facts.add("architecture", info.arch);
    facts.add(cpu ? "cores" : "compute units", count(info.compute_units));
    facts.add("threads a call uses", count(info.threads));
    facts.add(cpu ? "float32 lanes of a vector" : "lanes of a warp", count(info.lane_width));
    facts.add("threads a unit holds", count(info.max_threads_per_unit));
    facts.add("blocks a unit holds", count(info.max_blocks_per_unit));
    facts.add("registers of a unit", count(info.registers_per_unit));
    facts.add("shared memory of a unit", size(info.shared_per_unit));
    facts.add("shared memory a block", size(info.shared_per_block));
    facts.add("last shared cache", size(info.l2_bytes));
    if (info.memory_total > 0)
        facts.add("memory", size(info.memory_total) + (info.memory_free > 0 ? ", " + size(info.memory_free) + " free" : ""));
    if (info.clock_hz > 0) facts.add("clock", text("%.0f MHz", info.clock_hz / 1e6));
    facts.add("peak float32", rate(info.peak_flops_f32));
    facts.add("peak float64", rate(info.peak_flops_f64));
    facts.add("peak float16 matrix", rate(info.peak_flops_f16));
    facts.add("peak bandwidth", info.peak_bandwidth > 0 ? byte_rate_text(info.peak_bandwidth) : "");
    return facts.str();
}

}  // namespace

int run_info(const InfoOptions &options) {
    Facts library;
    library.add("library", "attile " + version_text(attile_version()));
    library.add("selection", selection(options));
    std::fputs(library.str().c_str(), stdout);
    try {
        const Context context(options.backend);
        print_report("backends tried", false);
        std::printf("\n%s", device_facts(context.info()).c_str());
        print_transports(context);
    } catch (const Failure &) {
        // Why nothing could be chosen is what this command is for.
        print_report("backends tried", false);
        std::fflush(stdout);
        throw;
    }
    return 0;
}

}  // namespace attile::cli
