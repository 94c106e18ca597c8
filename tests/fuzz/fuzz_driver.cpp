// SPDX-License-Identifier: Apache-2.0
// The argument fuzzer where there is no libFuzzer: bytes of a seeded generator, and every file of a corpus before them.
// usage: fuzz_calls [--seed N] [--calls N] [--input N [--write FILE]] [FILE...]
// --input: that one alone, as a failure names it, every call printed; --write: to a file, for the corpus, instead of being run
#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz_call.h"
#include "fuzz_counts.h"
#include "test_random.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

namespace {

// For the handler of a signal, in which nothing may be printed by ordinary means.
char g_again[512];

void say_again(int signal) {
    const ssize_t written = write(STDERR_FILENO, g_again, std::strlen(g_again));
    (void)written;
    std::signal(signal, SIG_DFL);
    std::raise(signal);
}

void run(const std::vector<uint8_t> &bytes) {
    alarm(30);  // no call takes as long
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

std::vector<uint8_t> input_of(uint64_t seed, uint64_t number) {
    attile::test::Random random(seed * 0x9e3779b97f4a7c15ull + number);
    std::vector<uint8_t> bytes(static_cast<size_t>(random.between(64, 2048)));
    for (uint8_t &byte : bytes) byte = static_cast<uint8_t>(random.bits() >> 56);
    return bytes;
}

}  // namespace

int main(int argc, char **argv) {
    unsigned long long seed = 1, calls = 100'000, first = 0;
    bool alone = false;
    std::vector<std::string> files;
    std::string write_to;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (word == "--seed" || word == "--calls" || word == "--input") {
            (word == "--seed" ? seed : word == "--calls" ? calls : first) = std::strtoull(value, nullptr, 10);
            alone = alone || word == "--input";
            attile_test::g_print_calls = alone;
            ++i;
        } else if (word == "--write") {
            write_to = value;
            ++i;
        } else {
            files.push_back(word);
        }
    }
    if (!write_to.empty()) {
        const std::vector<uint8_t> bytes = input_of(seed, first);
        std::ofstream(write_to, std::ios::binary)
            .write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
        return 0;
    }
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM}) std::signal(signal, say_again);
    for (const std::string &file : files) {
        std::snprintf(g_again, sizeof g_again, "fuzz_calls: this was %s\n", file.c_str());
        std::ifstream stream(file, std::ios::binary);
        if (!stream) {
            std::fprintf(stderr, "fuzz_calls: cannot read %s\n", file.c_str());
            return 1;
        }
        run(std::vector<uint8_t>(std::istreambuf_iterator<char>(stream), {}));
    }
    unsigned long long number = first;
    for (; alone ? number == first : static_cast<unsigned long long>(attile_test::count_calls()) < calls; ++number) {
        std::snprintf(g_again, sizeof g_again, "fuzz_calls: again: fuzz_calls --seed %llu --input %llu\n", seed, number);
        run(input_of(seed, number));
    }
    alarm(0);
    attile_test::print_counts();
    std::printf("%zu files and %llu inputs of seed %llu: %lld calls\n", files.size(), number - first, seed,
                static_cast<long long>(attile_test::count_calls()));
    return 0;
}
