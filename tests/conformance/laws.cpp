// SPDX-License-Identifier: Apache-2.0
#include "laws.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "case_text.h"

namespace attile::test {
namespace {

std::uint64_t hash(const char *text) {
    std::uint64_t h = 0xcbf29ce484222325ull;
    for (; *text != 0; ++text) h = (h ^ static_cast<unsigned char>(*text)) * 0x100000001b3ull;
    return h;
}

std::string last_error() {
    char text[512];
    attile_last_error(text, sizeof text);
    return text;
}

// What was held on which backend, printed at the end.
struct Tally {
    std::string law, backend;
    std::int64_t held, not_supported;
};

class TallyTable final : public testing::Environment {
  public:
    void add(Tally tally) { rows_.push_back(std::move(tally)); }
    void TearDown() override {
        for (const Backend &backend : tested_backends()) {
            std::int64_t laws = 0, held = 0, not_supported = 0;
            for (const Tally &row : rows_) {
                if (row.backend != backend.name) continue;
                laws += row.held > 0 ? 1 : 0;
                held += row.held;
                not_supported += row.not_supported;
            }
            std::printf("laws on %s: %lld laws held on %lld problems, %lld problems not supported\n", backend.name.c_str(),
                        static_cast<long long>(laws), static_cast<long long>(held), static_cast<long long>(not_supported));
        }
    }

  private:
    std::vector<Tally> rows_;
};

TallyTable *tally_table() {
    static TallyTable *const table = static_cast<TallyTable *>(testing::AddGlobalTestEnvironment(new TallyTable));
    return table;
}
[[maybe_unused]] TallyTable *const g_table_before_main = tally_table();

std::size_t product(const std::vector<std::int64_t> &shape, std::size_t begin, std::size_t end) {
    std::size_t count = 1;
    for (std::size_t i = begin; i < end; ++i) count *= static_cast<std::size_t>(shape[i]);
    return count;
}

}  // namespace

Draw::Draw(attile_context *on, std::uint64_t seed, const char *law, std::int64_t allowed_work)
    : random(seed * 0x9e3779b97f4a7c15ull ^ hash(law)), context(on), work(allowed_work) {
    attile_context_info info;
    attile_context_info_init(&info, sizeof info);
    attile_context_get_info(context, &info);
    places_ = {Placement::kHost};
    if (info.device_type != ATTILE_DEVICE_CPU) places_ = {Placement::kDevice, Placement::kDevice, Placement::kHost};
}

Placement Draw::place() { return places_[static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(places_.size()) - 1))]; }

TestTensor Draw::input(std::int32_t dtype, const Values &values) {
    if (values.shape.empty()) return {};
    Layout layout = random_layout(random, static_cast<int>(values.shape.size()), false);
    return TestTensor(context, place(), dtype, values, layout);
}

TestTensor Draw::output(std::int32_t dtype, const std::vector<std::int64_t> &shape) {
    return TestTensor::output(context, place(), dtype, shape, random_layout(random, static_cast<int>(shape.size()), false));
}

TestTensor Draw::in_place(std::int32_t dtype, const Values &values) {
    return TestTensor::in_place(context, place(), dtype, values, random_layout(random, static_cast<int>(values.shape.size()), false));
}

Values Draw::normal(std::int32_t dtype, std::vector<std::int64_t> shape, double factor) {
    Values values(std::move(shape));
    for (double &x : values.at) x = round_to(dtype, factor * random.normal());
    return values;
}

Values Draw::uniform(std::int32_t dtype, std::vector<std::int64_t> shape, double low, double high) {
    Values values(std::move(shape));
    for (double &x : values.at) x = round_to(dtype, low + (high - low) * random.uniform());
    return values;
}

std::vector<std::int64_t> Draw::permutation(std::int64_t count) {
    std::vector<std::int64_t> order = range(0, count);
    for (std::int64_t i = count - 1; i > 0; --i)
        std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(random.between(0, i))]);
    return order;
}

std::int64_t Draw::extent(std::int64_t most) {
    const std::int64_t drawn =
        random.pick<std::int64_t>({1, 2, 3, 5, 8, 16, 17, 31, 33, 64, 65, 70, 97, 128, 130, 200, 256, 300, 513, 700, 1030, 2100});
    return std::min(drawn, most);
}

template <class Args>
void perform(Draw &draw, const char *what, const Args &args, std::int32_t (*query)(attile_context *, const Args *, attile_support *),
             std::int32_t (*run)(attile_context *, const Args *), const std::vector<TestTensor *> &tensors) {
    attile_support support;
    attile_support_init(&support, sizeof support);
    if (query(draw.context, &args, &support) != ATTILE_OK) throw std::runtime_error(std::string(what) + " query: " + last_error());
    draw.story += std::string("\n  ") + what + " " + support.kernel;
    const std::int32_t status = run(draw.context, &args);
    if (status != support.status)
        throw std::runtime_error(std::string(what) + ": the query foretold " + attile_status_name(support.status) + ", the call returned " +
                                 attile_status_name(status) + ": " + last_error());
    if (support.level == ATTILE_SUPPORT_NONE) throw NotSupported();
    if (attile_synchronize(draw.context, nullptr) != ATTILE_OK) throw std::runtime_error(std::string(what) + ": " + last_error());
    for (TestTensor *tensor : tensors) {
        tensor->fetch();
        if (const std::string damage = tensor->damage(); !damage.empty()) throw std::runtime_error(std::string(what) + ": " + damage);
    }
}

#define ATTILE_PERFORM(operation)                                                                                  \
    template void perform(Draw &, const char *, const attile_##operation##_args &,                                 \
                          std::int32_t (*)(attile_context *, const attile_##operation##_args *, attile_support *), \
                          std::int32_t (*)(attile_context *, const attile_##operation##_args *), const std::vector<TestTensor *> &)
ATTILE_PERFORM(gemm);
ATTILE_PERFORM(attention);
ATTILE_PERFORM(attention_backward);
ATTILE_PERFORM(attention_merge);
ATTILE_PERFORM(attention_merge_backward);
ATTILE_PERFORM(reduce);
ATTILE_PERFORM(softmax);

std::int32_t wide(std::int32_t dtype) { return dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32; }

Values take(const Values &from, std::size_t axis, const std::vector<std::int64_t> &indices, bool broadcasts) {
    if (from.shape.empty() || (broadcasts && from.shape[axis] == 1)) return from;
    std::vector<std::int64_t> shape = from.shape;
    shape[axis] = static_cast<std::int64_t>(indices.size());
    Values to(shape);
    const std::size_t outer = product(shape, 0, axis), inner = product(shape, axis + 1, shape.size());
    const auto old = static_cast<std::size_t>(from.shape[axis]);
    for (std::size_t o = 0; o < outer; ++o)
        for (std::size_t i = 0; i < indices.size(); ++i)
            std::copy_n(from.at.data() + (o * old + static_cast<std::size_t>(indices[i])) * inner, inner,
                        to.at.data() + (o * indices.size() + i) * inner);
    return to;
}

Values slice(const Values &from, std::size_t axis, std::int64_t begin, std::int64_t end, bool broadcasts) {
    return take(from, axis, range(begin, end), broadcasts);
}

Values join(const std::vector<Values> &parts, std::size_t axis) {
    std::vector<std::int64_t> shape = parts.front().shape;
    shape[axis] = 0;
    for (const Values &part : parts) shape[axis] += part.shape[axis];
    Values to(shape);
    const std::size_t outer = product(shape, 0, axis), inner = product(shape, axis + 1, shape.size());
    std::size_t at = 0;
    for (std::size_t o = 0; o < outer; ++o)
        for (const Values &part : parts) {
            const std::size_t count = static_cast<std::size_t>(part.shape[axis]) * inner;
            std::copy_n(part.at.data() + o * count, count, to.at.data() + at);
            at += count;
        }
    return to;
}

Values times(const Values &values, double factor) {
    Values result = values;
    for (double &x : result.at) x *= factor;
    return result;
}

Values swapped(const Values &matrix, std::size_t axis) {
    std::vector<std::int64_t> shape = matrix.shape;
    const std::int64_t rows = shape[axis], columns = shape[axis + 1];
    std::swap(shape[axis], shape[axis + 1]);
    Values result(shape);
    const std::size_t outer = product(shape, 0, axis), inner = product(shape, axis + 2, shape.size());
    const std::size_t plane = static_cast<std::size_t>(rows * columns) * inner;
    for (std::size_t o = 0; o < outer; ++o)
        for (std::int64_t i = 0; i < rows; ++i)
            for (std::int64_t j = 0; j < columns; ++j)
                std::copy_n(matrix.at.data() + o * plane + static_cast<std::size_t>(i * columns + j) * inner, inner,
                            result.at.data() + o * plane + static_cast<std::size_t>(j * rows + i) * inner);
    return result;
}

std::vector<std::int64_t> range(std::int64_t begin, std::int64_t end) {
    std::vector<std::int64_t> indices(static_cast<std::size_t>(end - begin));
    std::iota(indices.begin(), indices.end(), begin);
    return indices;
}

double max_abs(const Values &values) {
    double most = 0;
    for (const double x : values.at)
        if (std::isfinite(x)) most = std::max(most, std::fabs(x));
    return most;
}

double max_norm(const Values &values) {
    double most = 0;
    const auto length = static_cast<std::size_t>(values.length());
    for (std::size_t row = 0; length > 0 && row < values.at.size(); row += length) {
        double sum = 0;
        for (std::size_t i = row; i < row + length; ++i) sum += values.at[i] * values.at[i];
        most = std::max(most, sum);
    }
    return std::sqrt(most);
}

double max_norm_across(const Values &values) { return max_norm(swapped(values, values.shape.size() - 2)); }

testing::AssertionResult close(const Values &got, const Values &want, double bound, double relative) {
    if (got.shape != want.shape)
        return testing::AssertionFailure() << "shapes differ: " << shape_text(got.shape) << ", " << shape_text(want.shape);
    std::size_t wrong = 0, first = 0;
    for (std::size_t i = 0; i < got.at.size(); ++i) {
        const bool same = got.at[i] == want.at[i];  // infinities too
        if (same || std::fabs(got.at[i] - want.at[i]) <= bound + relative * std::fabs(want.at[i])) continue;
        if (wrong++ == 0) first = i;
    }
    if (wrong == 0) return testing::AssertionSuccess();
    return testing::AssertionFailure() << wrong << " of " << got.at.size() << " elements differ; the first, of flat index " << first
                                       << " in " << shape_text(got.shape) << ", is " << got.at[first] << " here and " << want.at[first]
                                       << " there, which is more than " << bound + relative * std::fabs(want.at[first]) << " apart";
}

testing::AssertionResult equal(const Values &got, const Values &want, std::int32_t dtype, double factor) {
    const Precision p = precision_of(dtype);
    Values exact = want, here = got;
    const double smallest = std::ldexp(2.0 * std::max(factor, 1.0), p.min_exponent);
    if (got.shape == want.shape)
        for (std::size_t i = 0; i < exact.at.size(); ++i)
            if (std::fabs(exact.at[i]) < smallest && std::fabs(here.at[i] - exact.at[i]) <= 2 * p.tiny * std::max(factor, 1.0))
                here.at[i] = exact.at[i];
    return close(here, exact, 0);
}

void hold_law(const char *name, void (*law)(Draw &)) {
    unsigned long long first = 1, last = 8;
    if (const char *seeds = std::getenv("ATTILE_LAW_SEEDS")) std::sscanf(seeds, "%llu-%llu", &first, &last);
    const char *work = std::getenv("ATTILE_LAW_WORK");
    const auto failures = [] { return testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count(); };
    for (const Backend &backend : tested_backends()) {
        Tally tally = {name, backend.name, 0, 0};
        const int before = failures();
        for (unsigned long long seed = first; seed <= last && failures() == before; ++seed) {
            Draw draw(backend.context.get(), seed, name, work != nullptr ? std::atoll(work) : 300'000);
            try {
                law(draw);
                ++tally.held;
            } catch (const NotSupported &) {
                ++tally.not_supported;
            } catch (const std::exception &error) {
                ADD_FAILURE() << error.what();
            }
            if (failures() != before)
                ADD_FAILURE() << "the calls on " << backend.name << ":" << draw.story << "\n  again: ATTILE_TEST_BACKEND=" << backend.name
                              << " ATTILE_LAW_SEEDS=" << seed << "-" << seed << (work != nullptr ? " ATTILE_LAW_WORK=" : "")
                              << (work != nullptr ? work : "") << " attile_conformance_laws --gtest_filter=Laws." << name;
        }
        // Those that do everything have nothing to be excused from.
        if (failures() == before && (backend.name == "reference" || backend.name == "cpu")) {
            EXPECT_EQ(tally.not_supported, 0) << backend.name;
        }
        tally_table()->add(tally);
    }
}

}  // namespace attile::test
