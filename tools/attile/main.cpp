// SPDX-License-Identifier: Apache-2.0
// The attile program: what its command line looks like. The work is in command_*.cpp. Exit codes: 0 done, 1 failed, 2 a wrong command line.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <new>

#include "cli.h"
#include "commands.h"
#include "random_clock.h"
#include "random_problem.h"
#include "system.h"

namespace attile::cli {
namespace {

using Command = std::function<int()>;

// CLI11's own says what the largest double is, digit by digit.
const CLI::Validator kPositive(
    [](const std::string &word) {
        char *end = nullptr;
        const double value = std::strtod(word.c_str(), &end);
        const bool fits = end != word.c_str() && *end == '\0' && value > 0 && std::isfinite(value);
        return fits ? std::string() : "'" + word + "' is not a number above 0";
    },
    "");

bool is_number(const std::string &word) { return !word.empty() && word.find_first_not_of("0123456789") == std::string::npos; }

void add_backend(CLI::App *command, std::string &backend) {
    command->add_option("--backend", backend, "Backend, or list of backends, as in ATTILE_BACKEND, e.g. cuda:1 or cuda,cpu")
        ->type_name("NAME");
}

void add_threads(CLI::App *command, int &threads) {
    command->add_option("--threads", threads, "Threads that a call may use on a CPU; 0: the library chooses")
        ->type_name("N")
        ->check(CLI::Range(0, 1 << 20).description(""));
}

// `--ranks` alone becomes "--ranks=mpi" before the parser sees it: a value that may be missing would take the next word for it.
CLI::Option *add_ranks(CLI::App *command, RanksChoice &ranks) {
    constexpr int kMost = 1024;
    return command
        ->add_option_function<std::string>(
            "--ranks",
            [&ranks](const std::string &word) {
                ranks.wanted = true;
                ranks.threads = word == "mpi" ? 0 : std::atoi(word.c_str());
            },
            "Spread the work over N ranks, which are threads, with a GPU each where there are so many; without N over the ranks of MPI "
            "that mpiexec started")
        ->check(CLI::Validator(
            [](const std::string &word) {
                const bool fits = word == "mpi" ||
                                  (is_number(word) && word.size() < 5 && std::atoi(word.c_str()) >= 1 && std::atoi(word.c_str()) <= kMost);
                return fits ? std::string() : "'" + word + "' is not a number of ranks from 1 to " + std::to_string(kMost);
            },
            ""))
        ->type_name("[N]");
}

void add_info(CLI::App &app, Command &chosen) {
    auto options = std::make_shared<InfoOptions>();
    CLI::App *command = app.add_subcommand("info", "Print the library, every backend that was tried, and the device");
    add_backend(command, options->backend);
    command->callback([options, &chosen] { chosen = [options] { return run_info(*options); }; });
}

void add_attention(CLI::App &app, Command &chosen) {
    auto options = std::make_shared<AttentionOptions>();
    CLI::App *command = app.add_subcommand("attention", "Compute attention of a file: softmax(Q K^T / sqrt(d)) V for each batch");
    command->add_option("IN", options->input, "Input: int32 B, N, d, then for each batch Q, K, V of N*d float32, all little-endian")
        ->required()
        ->type_name("FILE");
    command->add_option("OUT", options->output, "Output: B*N*d float32; appears only when it is complete")->required()->type_name("FILE");
    command->add_flag("--causal", options->causal, "Row i sees only keys 0 to i");
    add_backend(command, options->backend);
    add_threads(command, options->threads);
    command->add_option("--memory", options->memory, "Memory for batches, e.g. 512MB or 4GB; always enough for one batch; default 1GB")
        ->type_name("SIZE")
        ->transform(CLI::AsSizeValue(false).description(""));
    add_ranks(command, options->ranks);
    command->callback([options, &chosen] { chosen = [options] { return run_attention(*options); }; });
}

void add_generate(CLI::App &app, Command &chosen) {
    auto options = std::make_shared<GenerateOptions>();
    CLI::App *command = app.add_subcommand("generate", "Write an input for `attile attention`, with values uniform in [-3, 3]");
    command->add_option("OUT", options->output, "File to write")->required()->type_name("FILE");
    command->add_option("--batch,-B", options->batch, "Batches B")->required()->type_name("B");
    command->add_option("--length,-N", options->len, "Rows N of each matrix")->required()->type_name("N");
    command->add_option("--dim,-d", options->head_dim, "Columns d of each matrix")->required()->type_name("D");
    command->add_option("--seed", options->seed, "The same seed gives the same bytes; default 1")->type_name("S");
    command->callback([options, &chosen] { chosen = [options] { return run_generate(*options); }; });
}

void add_verify(CLI::App &app, Command &chosen) {
    auto options = std::make_shared<VerifyOptions>();
    CLI::App *command = app.add_subcommand("verify", "Compare a backend with the reference backend, case by case");
    add_backend(command, options->backend);
    add_threads(command, options->threads);
    command->add_option("--memory", options->memory, "Memory of the operands: host, pinned, managed or device; default host")
        ->check(CLI::IsMember({"host", "pinned", "managed", "device"}).description(""))
        ->type_name("KIND");
    command->add_flag("--full", options->full, "Run every case, not only the quick ones");
    command->add_option("--case", options->case_id, "Run only the case with this id")->type_name("ID");
    command->add_option("--filter", options->filter, "Run only cases whose id matches this regular expression")->type_name("RE");
    command->add_flag("--fail-fast", options->fail_fast, "Stop at the first case that fails");
    CLI::Option *list = command->add_flag("--list", options->list, "Print the ids and run nothing");
    add_ranks(command, options->ranks)->excludes(command->get_option("--memory"))->excludes(list);
    command->callback([options, &chosen] { chosen = [options] { return run_verify(*options); }; });
}

// The parser takes -1 for the largest number without a sign.
const CLI::Validator kNoSign(
    [](const std::string &word) { return word[0] == '-' ? "'" + word + "' is not a number from 0 on" : std::string(); }, "");

const CLI::Validator kProblem(
    [](const std::string &word) {
        Problem problem;
        return parse_problem(word, problem);
    },
    "");

const CLI::Validator kPeak(
    [](const std::string &word) {
        std::string type;
        double rate = 0;
        return parse_peak(word, type, rate);
    },
    "");

// Drawn and named problems instead of the bench cases.
void add_bench_random(CLI::App *command, BenchOptions &options) {
    CLI::Option *random = command->add_option(
        "--random", options.random,
        "Run random problems for this many seconds per operation. Print the share of the roofline that they reach, by option, "
        "type, head dimension and rows, and the thirty slowest");
    random->check(kPositive)->type_name("S");
    command->add_option("--seed", options.seed, "Seed of the random problems; default 1")->check(kNoSign)->needs(random)->type_name("N");
    command
        ->add_option("--operation", options.operation,
                     "Run random problems of this operation only: gemm, attention, attention_backward, attention_merge, reduce or softmax")
        ->check(CLI::IsMember({"gemm", "attention", "attention_backward", "attention_merge", "reduce", "softmax"}).description(""))
        ->needs(random)
        ->type_name("OP");
    command
        ->add_option("--count", options.count,
                     "Run at most this many problems per operation; with --list, print this many ids, default 1000")
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 30).description(""))
        ->needs(random)
        ->type_name("N");
    CLI::Option *problem =
        command->add_option("--problem", options.problems, "Run the problem with this id, as --random prints it; may be repeated");
    problem->check(kProblem)->excludes(random)->allow_extra_args(false)->type_name("ID");
    command
        ->add_option("--peak", options.peaks,
                     "A peak for the roofline, e.g. bf16=800e12 or memory=4.2e12, in FLOP/s and B/s; default: the device's, or measured")
        ->check(kPeak)
        ->allow_extra_args(false)
        ->type_name("TYPE=RATE");
    for (const char *other : {"--filter", "--size"})
        for (CLI::Option *one : {random, problem}) one->excludes(command->get_option(other));
    problem->excludes(command->get_option("--list"));
}

void add_bench(CLI::App &app, Command &chosen) {
    auto options = std::make_shared<BenchOptions>();
    CLI::App *command = app.add_subcommand("bench", "Measure the operations on this machine: median time and rate");
    add_backend(command, options->backend);
    add_threads(command, options->threads);
    command->add_option("--filter", options->filter, "Run only cases whose id matches this regular expression")->type_name("RE");
    command->add_option("--size", options->size, "Run cases of this size: tiny, medium or large; default: the size that suits the device")
        ->check(CLI::IsMember({"tiny", "medium", "large"}).description(""))
        ->type_name("SIZE");
    command
        ->add_option("--seconds", options->seconds,
                     "Time limit for a case, in seconds; cases expected to take longer are left out; default 1")
        ->check(kPositive)
        ->type_name("S");
    command->add_option("--json", options->json, "Also write the results to a file")->type_name("FILE");
    command->add_flag("--list", options->list, "Print the ids and run nothing");
    CLI::Option *exact =
        command->add_flag("--exact", options->exact,
                          "Run the cases that ATTILE_FLAG_EXACT_PRODUCTS serves, each without it and with it, and print the "
                          "least time over that without it");
    command->add_flag("!--no-peers", options->peers, "Do not compare with other libraries; the comparison is only there if it was built");
    add_bench_random(command, *options);
    CLI::Option *ranks = add_ranks(command, options->ranks);
    for (const char *other : {"--json", "--random", "--problem"}) ranks->excludes(command->get_option(other));
    for (const char *other : {"--ranks", "--random", "--problem"}) exact->excludes(command->get_option(other));
    command->callback([options, &chosen] {
        const bool random = options->random > 0 || !options->problems.empty();
        if (!random && !options->peaks.empty()) throw CLI::RequiredError("--random or --problem");
        chosen = [options, random] { return random ? run_random(*options) : run_bench(*options); };
    });
}

const CLI::Validator kExtent = CLI::Range(int64_t{1}, int64_t{1} << 30).description("");

void add_roofs(CLI::App *command, const char *peak_names, double &peak_flops, const char *bandwidth_names, double &bandwidth,
               const char *otherwise) {
    command->add_option(peak_names, peak_flops, std::string("The device's peak in FLOP/s, e.g. 9.3e12; ") + otherwise)
        ->check(kPositive)
        ->type_name("R");
    command->add_option(bandwidth_names, bandwidth, std::string("Its memory's bandwidth in B/s, e.g. 732e9; ") + otherwise)
        ->check(kPositive)
        ->type_name("R");
}

void add_occupancy(CLI::App *explain, Command &chosen) {
    auto options = std::make_shared<OccupancyOptions>();
    CLI::App *command = explain->add_subcommand("occupancy", "How many blocks a multiprocessor holds, and what limits them");
    const auto size = CLI::AsSizeValue(false).description("");
    command->add_option("--threads", options->threads, "Threads per block")->required()->check(kExtent)->type_name("N");
    command->add_option("--registers", options->registers, "Registers per thread")->check(kExtent)->type_name("N");
    command->add_option("--shared", options->shared, "Shared memory per block, e.g. 4096 or 4KB")
        ->transform(size)
        ->check(CLI::Range(0, 1 << 30).description(""))
        ->type_name("SIZE");
    command
        ->add_option("--capability", options->capability,
                     "Compute capability, e.g. 6.1; it sets the limits of a multiprocessor and its allocation units")
        ->type_name("C");
    command->add_option("--sm-threads", options->unit_threads, "Threads that a multiprocessor holds")->check(kExtent)->type_name("N");
    command->add_option("--sm-blocks", options->unit_blocks, "Blocks that a multiprocessor holds")->check(kExtent)->type_name("N");
    command->add_option("--sm-registers", options->unit_registers, "Registers of a multiprocessor, e.g. 65536 or 64K")
        ->transform(size)
        ->check(kExtent)
        ->type_name("N");
    command->add_option("--sm-shared", options->unit_shared, "Shared memory of a multiprocessor, e.g. 98304 or 96KB")
        ->transform(size)
        ->check(kExtent)
        ->type_name("SIZE");
    command->callback([options, &chosen] { chosen = [options] { return run_occupancy(*options); }; });
}

void add_roofline(CLI::App *explain, Command &chosen) {
    auto options = std::make_shared<RooflineOptions>();
    CLI::App *command = explain->add_subcommand("roofline", "Whether arithmetic or memory limits a given amount of work");
    command->add_option("--flop", options->flops, "Operations, of one thread or of all threads")
        ->required()
        ->check(kPositive)
        ->type_name("N");
    command->add_option("--bytes", options->bytes, "Bytes of memory traffic of the same threads")
        ->required()
        ->check(kPositive)
        ->type_name("N");
    add_roofs(command, "--flops", options->peak_flops, "--bandwidth", options->bandwidth, "default: the backend's");
    add_backend(command, options->backend);
    command->callback([options, &chosen] { chosen = [options] { return run_roofline(*options); }; });
}

void add_tiling(CLI::App *explain, Command &chosen) {
    auto options = std::make_shared<TilingOptions>();
    CLI::App *command = explain->add_subcommand("tiling", "How much global memory a matrix product reads, with and without tiles");
    command->add_option("--n", options->n, "Columns of the product")->required()->check(kExtent)->type_name("N");
    command->add_option("--m", options->m, "Rows of the product; default N")->check(kExtent)->type_name("M");
    command->add_option("--k", options->k, "Depth of the product; default N")->check(kExtent)->type_name("K");
    command->add_option("--tile", options->tile, "Rows and columns that a block computes; one number for a square")
        ->required()
        ->expected(1, 2)
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 20).description(""))
        ->type_name("T");
    command->add_option("--element-bytes", options->element_bytes, "Bytes of an element; default 4")
        ->check(CLI::Range(1, 16).description(""))
        ->type_name("B");
    add_roofs(command, "--flops", options->peak_flops, "--bandwidth", options->bandwidth, "default: not used");
    command->callback([options, &chosen] { chosen = [options] { return run_tiling(*options); }; });
}

void add_explain(CLI::App &app, Command &chosen) {
    auto options = std::make_shared<ExplainOptions>();
    CLI::App *command = app.add_subcommand("explain", "Explain what bounds an operation on the device, and which kernel runs it");
    add_occupancy(command, chosen);
    add_roofline(command, chosen);
    add_tiling(command, chosen);
    command->add_option("OP", options->operation, "gemm, gemm_grouped, attention, attention_backward, attention_merge, reduce or softmax")
        ->check(CLI::IsMember({"gemm", "gemm_grouped", "attention", "attention_backward", "attention_merge", "reduce", "softmax"})
                    .description(""))
        ->type_name("OP");
    command
        ->add_option("SHAPE", options->shape,
                     "gemm: M N K; gemm_grouped: GROUPS ROWS N K, as many rows each; attention: BATCH HEADS LEN HEAD_DIM; attention_merge: "
                     "BATCH HEADS LEN HEAD_DIM PARTS; "
                     "reduce and softmax: ROWS COLUMNS, over the columns")
        ->type_name("N");
    command
        ->add_option("--dtype", options->dtype,
                     "f32, f64, f16 or bf16; attention and gemm with --b-dtype: also i8, e4m3 or e5m2; default f32")
        ->check(CLI::IsMember({"f32", "f64", "f16", "bf16", "i8", "e4m3", "e5m2"}).description(""))
        ->type_name("TYPE");
    command->add_option("--b-dtype", options->b_dtype, "gemm: i8, e4m3 or e5m2: B in 8 bits, with a scale for each column")
        ->check(CLI::IsMember({"i8", "e4m3", "e5m2"}).description(""))
        ->type_name("TYPE");
    for (const auto &[name, into] : {std::pair("--k-dtype", &options->k_dtype), std::pair("--v-dtype", &options->v_dtype)})
        command
            ->add_option(
                name, *into,
                "attention: f32, f16, bf16, i8, i4, u4, e4m3 or e5m2, if not as --dtype; of 8 bits with a scale for each token, of "
                "4 with one for 32 numbers")
            ->check(CLI::IsMember({"f32", "f16", "bf16", "i8", "i4", "u4", "e4m3", "e5m2"}).description(""))
            ->type_name("TYPE");
    command->add_flag("--exact", options->exact,
                      "gemm and attention of f64 or f32, reduce, softmax, attention_merge: exact sums, by EXACT_PRODUCTS");
    command->add_flag("--fast", options->fast,
                      "gemm of 8-bit floats both, attention of e4m3 or i8: sums or weights may lose bits, by FAST_ACCUMULATION");
    command->add_option("--batch", options->batch, "gemm: number of products")->check(kPositive)->type_name("N");
    command->add_option("--heads-kv", options->heads_kv, "attention: key heads, if fewer than query heads")->type_name("N");
    command->add_option("--len-k", options->len_k, "attention: keys, if not as many as rows")->type_name("N");
    command->add_flag("--causal", options->causal, "attention: the last row sees every key, each row above it one key less");
    add_backend(command, options->backend);
    add_threads(command, options->threads);
    add_roofs(command, "--device-peak-flops", options->peak_flops, "--device-bandwidth", options->bandwidth, "default: the backend's");
    CLI::Option *link = command->add_option("--link", options->link, "With --ranks: bytes a second between two ranks, e.g. 370e9")
                            ->check(kPositive)
                            ->type_name("R");
    CLI::Option *ranks =
        command->add_option("--ranks", options->ranks, "attention and attention_backward: the time of each step on a ring of N ranks")
            ->check(CLI::Range(1, 1024).description(""))
            ->type_name("N");
    link->needs(ranks);
    ranks->needs(link);
    command->callback([command, options, &chosen] {
        if (!command->get_subcommands().empty()) return;
        if (options->operation.empty()) throw CLI::RequiredError("OP");  // Only of a call without a question.
        if (options->shape.empty()) throw CLI::RequiredError("SHAPE");
        chosen = [options] { return run_explain(*options); };
    });
}

// The command line, the last word first, as the parser takes it; the number of --ranks, or "mpi", is part of the word.
std::vector<std::string> words_for_parser(const std::vector<std::string> &line) {
    std::vector<std::string> words;
    bool options = true;  // Behind "--" are none.
    for (size_t i = 0; i < line.size(); ++i) {
        std::string word = line[i];
        if (word == "--") options = false;
        if (options && word == "--ranks") word += "=" + (i + 1 < line.size() && is_number(line[i + 1]) ? line[++i] : "mpi");
        words.insert(words.begin(), word);
    }
    return words;
}

int run(const std::vector<std::string> &line) {
    CLI::App app("Attention and matrix multiplication on CPUs and GPUs.", "attile");
    app.set_version_flag("--version", [] { return "attile " + version_text(attile_version()); });
    app.require_subcommand(1);
    app.footer(
        "Environment: ATTILE_BACKEND selects the backend, ATTILE_BACKEND_PATH adds directories with backends, ATTILE_LOG=info logs "
        "what happens.");
    Command chosen;
    add_info(app, chosen);
    add_generate(app, chosen);
    add_attention(app, chosen);
    add_verify(app, chosen);
    add_bench(app, chosen);
    add_explain(app, chosen);
    if (line.empty()) {
        std::fputs(app.help().c_str(), stderr);
        return 2;
    }
    const std::string &first = line[0];
    if (!first.starts_with('-') && app.get_subcommands([&](const CLI::App *one) { return one->get_name() == first; }).empty()) {
        std::fprintf(stderr, "attile: there is no command '%s' (see attile --help)\n", first.c_str());
        return 2;
    }
    try {
        app.parse(words_for_parser(line));
    } catch (const CLI::ParseError &problem) {
        if (problem.get_exit_code() == 0) return app.exit(problem);  // --help, --version
        std::string names;
        for (auto commands = app.get_subcommands(); !commands.empty(); commands = commands[0]->get_subcommands())
            names += commands[0]->get_name() + " ";
        std::fprintf(stderr, "attile: %s (see attile %s--help)\n", problem.what(), names.c_str());
        return 2;
    }
    return chosen();
}

}  // namespace
}  // namespace attile::cli

int main(int argc, char **argv) {
    try {
        const int code = attile::cli::run(attile::cli::command_line(argc, argv));
        // A full disk behind stdout shows only here.
        if (std::fflush(stdout) != 0) throw attile::cli::Failure("the result cannot be written to standard output");
        return code;
    } catch (const std::bad_alloc &) {
        std::fputs("attile: out of memory\n", stderr);
    } catch (const std::exception &problem) {
        std::fprintf(stderr, "attile: %s\n", problem.what());
    }
    return 1;
}
