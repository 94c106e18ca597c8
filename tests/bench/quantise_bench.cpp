// SPDX-License-Identifier: Apache-2.0
// Rates of attile_quantize and attile_dequantize on a matrix in the device's memory, of normal numbers: the median of some samples, each of
// several calls in a row. Bytes are those of x, q, scales and zero points, once. Then rows that are appended to a paged cache, rotated or
// not. usage: attile_bench_quantise [--rows N] [--columns N] [--samples N] [--only TEXT]
//   --only  the lines that have TEXT
#include <attile/attile.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr int kCalls = 8;  // Of a sample.

struct Options {
    int64_t rows = 8192, columns = 8192;
    int samples = 9;
    const char *only = "";
};

struct Line {
    const char *name;
    int32_t x, q;
    int64_t row_group, column_group;  // 0: the whole axis.
    int32_t hadamard;
};

constexpr Line kLines[] = {
    {"f32 -> i8, 32 of a row", ATTILE_F32, ATTILE_I8, 1, 32, 0},
    {"f32 -> i8, a row", ATTILE_F32, ATTILE_I8, 1, 0, 0},
    {"f32 -> i8, a column", ATTILE_F32, ATTILE_I8, 0, 1, 0},
    {"f32 -> i8, 32 of a column", ATTILE_F32, ATTILE_I8, 32, 1, 0},
    {"f32 -> i8, all", ATTILE_F32, ATTILE_I8, 0, 0, 0},
    {"f32 -> f8_e4m3, 128 x 128", ATTILE_F32, ATTILE_F8_E4M3, 128, 128, 0},
    {"bf16 -> i8, 32 of a row", ATTILE_BF16, ATTILE_I8, 1, 32, 0},
    {"bf16 -> i8, a row", ATTILE_BF16, ATTILE_I8, 1, 0, 0},
    {"bf16 -> f8_e4m3, 128 of a row", ATTILE_BF16, ATTILE_F8_E4M3, 1, 128, 0},
    {"bf16 -> f8_e4m3, 128 x 128", ATTILE_BF16, ATTILE_F8_E4M3, 128, 128, 0},
    {"bf16 -> f8_e5m2, 128 of a row", ATTILE_BF16, ATTILE_F8_E5M2, 1, 128, 0},
    {"bf16 -> i8, 128 of a row, rotated by 128", ATTILE_BF16, ATTILE_I8, 1, 128, 128},
    {"bf16 -> i4, 32 of a row", ATTILE_BF16, ATTILE_I4, 1, 32, 0},
    {"bf16 -> u4, 32 of a row", ATTILE_BF16, ATTILE_U4, 1, 32, 0},
};

// Rows of 128 numbers of 8 heads, to pages of 16 rows, one scale each: of `batch` entries `rows` are new.
struct AppendLine {
    const char *name;
    int32_t x, q;
    int64_t batch, rows;
    int64_t pairs;  // 0: not rotated.
};

constexpr AppendLine kAppendLines[] = {
    {"append bf16 -> i8, 64 x 1 rows", ATTILE_BF16, ATTILE_I8, 64, 1, 0},
    {"append bf16 -> i8, 64 x 1 rows, rotated", ATTILE_BF16, ATTILE_I8, 64, 1, 64},
    {"append bf16 -> i8, 4 x 4096 rows", ATTILE_BF16, ATTILE_I8, 4, 4096, 0},
    {"append bf16 -> i8, 4 x 4096 rows, rotated", ATTILE_BF16, ATTILE_I8, 4, 4096, 64},
    {"append bf16 -> bf16, 4 x 4096 rows, rotated", ATTILE_BF16, ATTILE_BF16, 4, 4096, 64},
};

void expect_ok(int32_t status, const char *what) {
    if (status == ATTILE_OK) return;
    char sentence[512] = "";
    attile_last_error(sentence, sizeof sentence);
    std::fprintf(stderr, "attile_bench_quantise: %s: %s\n", what, sentence);
    std::exit(1);
}

int64_t bits_of(int32_t dtype) { return dtype & 0xff; }

class Bench {
  public:
    explicit Bench(const Options &of) : of_(of) {
        expect_ok(attile_context_create(nullptr, &context_), "no context");
        std::printf(
            "%lld x %lld, median of %d samples of %d calls\n\n| type, one scale for | kernel | quantise, us | GB/s | back, us | GB/s |\n"
            "|---|---|---|---|---|---|\n",
            static_cast<long long>(of.rows), static_cast<long long>(of.columns), of.samples, kCalls);
    }
    ~Bench() { attile_context_destroy(context_); }
    Bench(const Bench &) = delete;
    Bench &operator=(const Bench &) = delete;

    void run(const Line &line) {
        attile_tensor x = tensor(line.x, of_.rows, of_.columns), q = tensor(line.q, of_.rows, of_.columns);
        const int64_t down = line.row_group == 0 ? 1 : of_.rows / line.row_group,
                      across = line.column_group == 0 ? 1 : of_.columns / line.column_group;
        attile_tensor scale = tensor(ATTILE_F32, down, across), zero = {};
        if (line.q == ATTILE_U4) zero = tensor(ATTILE_F32, down, across);
        fill(x);
        attile_quantize_args to;
        attile_quantize_init(&to, sizeof to);
        attile_dequantize_args from;
        attile_dequantize_init(&from, sizeof from);
        to.x = from.x = x;
        to.q = from.q = q;
        to.scale = from.scale = scale;
        to.zero = from.zero = zero;
        to.hadamard = from.hadamard = line.hadamard;
        attile_support support;
        attile_support_init(&support, sizeof support);
        expect_ok(attile_quantize_query(context_, &to, &support), line.name);
        const double there = time([&] { return attile_quantize(context_, &to); }),
                     back = time([&] { return attile_dequantize(context_, &from); });
        std::printf("| %s | %s | %.1f | %.0f | %.1f | %.0f |\n", line.name, support.kernel, there * 1e6, support.bytes / there / 1e9,
                    back * 1e6, support.bytes / back / 1e9);
        for (const attile_tensor *one : {&x, &q, &scale, &zero})
            if (one->data != nullptr) attile_free(context_, one->data);
    }

    void run(const AppendLine &line) {
        constexpr int64_t kHeads = 8, kDim = 128, kPage = 16;
        const int64_t pages = (line.rows + kPage - 1) / kPage;  // of an entry
        attile_quantize_args to;
        attile_quantize_init(&to, sizeof to);
        to.x = tensor(line.x, {line.batch, kHeads, line.rows, kDim});
        to.q = tensor(line.q, {line.batch * pages, kHeads, kPage, kDim});
        if (bits_of(line.q) == 8) to.scale = tensor(ATTILE_F32, {line.batch * pages, kHeads, kPage, 1});
        to.append = 1;
        to.key_lengths = tensor(ATTILE_I32, {line.batch});
        to.block_table = tensor(ATTILE_I32, {line.batch, pages});
        if (line.pairs != 0) {
            to.rope_cos = tensor(ATTILE_F32, {line.rows, line.pairs});
            to.rope_sin = tensor(ATTILE_F32, {line.rows, line.pairs});
            fill(to.rope_cos);
            fill(to.rope_sin);
        }
        fill(to.x);
        const std::vector<int32_t> lengths(static_cast<std::size_t>(line.batch), static_cast<int32_t>(line.rows));
        std::vector<int32_t> table(static_cast<std::size_t>(line.batch * pages));
        for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>(table.size() - 1 - i);
        send(to.key_lengths, lengths.data());
        send(to.block_table, table.data());
        attile_support support;
        attile_support_init(&support, sizeof support);
        expect_ok(attile_quantize_query(context_, &to, &support), line.name);
        const double seconds = time([&] { return attile_quantize(context_, &to); });
        std::printf("| %s | %s | %.1f | %.0f | | |\n", line.name, support.kernel, seconds * 1e6, support.bytes / seconds / 1e9);
        for (const attile_tensor *one : {&to.x, &to.q, &to.scale, &to.key_lengths, &to.block_table, &to.rope_cos, &to.rope_sin})
            if (one->data != nullptr) attile_free(context_, one->data);
    }

  private:
    static int64_t count_of(const attile_tensor &x) {
        int64_t count = 1;
        for (int32_t axis = 0; axis < x.rank; ++axis) count *= x.shape[axis];
        return count;
    }

    attile_tensor tensor(int32_t dtype, std::initializer_list<int64_t> shape) {
        attile_tensor made;
        expect_ok(attile_tensor_init(&made, nullptr, dtype, static_cast<int32_t>(shape.size()), shape.begin()), "no tensor");
        expect_ok(attile_alloc(context_, ATTILE_MEMORY_DEVICE, count_of(made) * bits_of(dtype) / 8, &made.data), "no memory");
        return made;
    }
    attile_tensor tensor(int32_t dtype, int64_t rows, int64_t columns) { return tensor(dtype, {rows, columns}); }

    void send(const attile_tensor &x, const void *from) {
        expect_ok(attile_copy(context_, x.data, from, count_of(x) * bits_of(x.dtype) / 8, nullptr), "a copy failed");
    }

    void fill(const attile_tensor &x) {
        std::mt19937 random(1);
        std::normal_distribution<float> normal;
        std::vector<float> some(1 << 16);
        for (float &value : some) value = normal(random);
        std::vector<char> bytes(static_cast<std::size_t>(count_of(x) * bits_of(x.dtype) / 8));
        const std::size_t size = static_cast<std::size_t>(bits_of(x.dtype) / 8);
        for (std::size_t i = 0; i < bytes.size() / size; ++i)  // The upper half of a float is a bfloat16.
            std::memcpy(&bytes[i * size], reinterpret_cast<const char *>(&some[i * 7 % some.size()]) + 4 - size, size);
        send(x, bytes.data());
    }

    template <class Call>
    double time(const Call &call) {
        std::vector<double> seconds;
        for (int sample = -1; sample < of_.samples; ++sample) {
            expect_ok(attile_synchronize(context_, nullptr), "the device failed");
            const auto begin = std::chrono::steady_clock::now();
            for (int i = 0; i < kCalls; ++i) expect_ok(call(), "a call failed");
            expect_ok(attile_synchronize(context_, nullptr), "the device failed");
            const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
            if (sample >= 0) seconds.push_back(took.count() / kCalls);
        }
        std::nth_element(seconds.begin(), seconds.begin() + of_.samples / 2, seconds.end());
        return seconds[static_cast<std::size_t>(of_.samples / 2)];
    }

    Options of_;
    attile_context *context_ = nullptr;
};

}  // namespace

int main(int count, char **words) {
    Options options;
    for (int i = 1; i + 1 < count; i += 2) {
        const std::string word = words[i];
        if (word == "--rows") options.rows = std::atoll(words[i + 1]);
        if (word == "--columns") options.columns = std::atoll(words[i + 1]);
        if (word == "--samples") options.samples = std::max(1, std::atoi(words[i + 1]));
        if (word == "--only") options.only = words[i + 1];
    }
    Bench bench(options);
    for (const Line &line : kLines)
        if (std::strstr(line.name, options.only) != nullptr) bench.run(line);
    for (const AppendLine &line : kAppendLines)
        if (line.rows <= options.rows && std::strstr(line.name, options.only) != nullptr) bench.run(line);
    return 0;
}
