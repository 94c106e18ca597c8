// SPDX-License-Identifier: Apache-2.0
// libattile_blas as a program sees it that is linked to it and has handlers of its own: products against plain loops in double precision,
// the edges of BLAS's rules, illegal and hostile arguments.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "blas_calls.h"

using namespace attile_test;

namespace {

// What the handlers below were last told.
std::string reported_name;
int64_t reported_position = 0;

void note(const char *name, size_t length, int64_t position) {
    reported_name.assign(name, length);
    reported_position = position;
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)
void xerbla_(const char *name, const int32_t *position, size_t length);
void xerbla_64_(const char *name, const int64_t *position, size_t length);
void cblas_xerbla(int position, const char *name, const char *format, ...);
void cblas_xerbla_64(int64_t position, const char *name, const char *format, ...);
#pragma GCC visibility pop

void xerbla_(const char *name, const int32_t *position, size_t length) { note(name, length, *position); }
void xerbla_64_(const char *name, const int64_t *position, size_t length) { note(name, length, *position); }
void cblas_xerbla(int position, const char *name, const char *, ...) { note(name, std::strlen(name), position); }
void cblas_xerbla_64(int64_t position, const char *name, const char *, ...) { note(name, std::strlen(name), position); }
}

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

// The index of an element of op(X), X stored by rows or by columns.
int64_t index(int order, int trans, int64_t row, int64_t column, int64_t leading) {
    const bool rows_apart = (order == kRowMajor) == (trans == kNoTrans);
    return rows_apart ? row * leading + column : column * leading + row;
}

// What C has to become, and how far off it may be.
template <typename T>
void check_product(const Call<T> &x, const std::vector<T> &a, const std::vector<T> &b, const std::vector<T> &before,
                   const std::vector<T> &c) {
    std::vector<bool> inside(c.size());
    for (int64_t i = 0; i < x.m; ++i) {
        for (int64_t j = 0; j < x.n; ++j) {
            double sum = 0, size = 0;
            for (int64_t l = 0; x.alpha != 0 && l < x.k; ++l) {
                const double term = static_cast<double>(a[static_cast<size_t>(index(x.order, x.transa, i, l, x.lda))]) *
                                    static_cast<double>(b[static_cast<size_t>(index(x.order, x.transb, l, j, x.ldb))]);
                sum += term;
                size += std::abs(term);
            }
            const size_t at = static_cast<size_t>(index(x.order, kNoTrans, i, j, x.ldc));
            const double alpha = x.k > 0 ? static_cast<double>(x.alpha) : 0;
            double expected = alpha * sum;
            size *= std::abs(alpha);
            if (x.beta != 0) {
                const double term = static_cast<double>(x.beta) * static_cast<double>(before[at]);
                expected += term;
                size += std::abs(term);
            }
            const double bound = (static_cast<double>(x.k) + 4) * std::numeric_limits<T>::epsilon() * size;
            inside[at] = true;
            if (!std::isfinite(expected)) {
                EXPECT_TRUE(std::isnan(expected) ? std::isnan(c[at]) : static_cast<double>(c[at]) == expected)
                    << i << ", " << j << ": " << c[at] << ", not " << expected;
            } else {
                EXPECT_TRUE(std::abs(static_cast<double>(c[at]) - expected) <= bound)
                    << i << ", " << j << ": " << c[at] << ", not " << expected;
            }
        }
    }
    for (size_t i = 0; i < c.size(); ++i) {
        EXPECT_TRUE(inside[i] || std::memcmp(&c[i], &before[i], sizeof(T)) == 0) << "element " << i << " of C is not one of the matrix";
    }
}

template <typename T>
std::vector<T> random_array(size_t count, uint32_t seed) {
    std::mt19937 engine(seed);
    std::uniform_real_distribution<T> draw(-1, 1);
    std::vector<T> array(count);
    for (T &value : array) value = draw(engine);
    return array;
}

// Fills in arrays with leading dimensions `padding` longer than they need be, makes the call, looks at C and at the inputs.
template <typename T>
void run(int form, Call<T> x, int64_t padding) {
    SCOPED_TRACE(std::string(kFormNames[form]) + (x.order == kRowMajor ? " row-major " : " column-major ") + letter(x.transa) +
                 letter(x.transb) + " m " + std::to_string(x.m) + " n " + std::to_string(x.n) + " k " + std::to_string(x.k) + " alpha " +
                 std::to_string(x.alpha) + " beta " + std::to_string(x.beta));
    const auto leading = [&](int trans, int64_t rows, int64_t columns) {
        return std::max<int64_t>(1, (x.order == kRowMajor) == (trans == kNoTrans) ? columns : rows) + padding;
    };
    x.lda = leading(x.transa, x.m, x.k);
    x.ldb = leading(x.transb, x.k, x.n);
    x.ldc = leading(kNoTrans, x.m, x.n);
    const auto size = [](int64_t ld, int64_t p, int64_t q) { return static_cast<size_t>(ld * std::max<int64_t>({1, p, q})); };
    const std::vector<T> a = random_array<T>(size(x.lda, x.m, x.k), 1), b = random_array<T>(size(x.ldb, x.k, x.n), 2);
    std::vector<T> c = random_array<T>(size(x.ldc, x.m, x.n), 3);
    if (x.beta == 0) c.assign(c.size(), static_cast<T>(kNan));  // which is not read
    const std::vector<T> a_before = a, b_before = b, before = c;
    x.a = a.data();
    x.b = b.data();
    x.c = c.data();
    make(form, x);
    check_product(x, a, b, before, c);
    EXPECT_TRUE(a == a_before && b == b_before) << "an input was written to";
}

template <typename T>
void run_all(const Call<T> &call, int64_t padding) {
    for (int form = 0; form < kForms; ++form) {
        for (const int order : {kColMajor, kRowMajor}) {
            if (order == kRowMajor && is_fortran(form)) continue;
            Call<T> x = call;
            x.order = order;
            run(form, x, padding);
        }
    }
}

template <typename T>
class Blas : public testing::Test {
  protected:
    void SetUp() override { reported_position = 0; }
    void TearDown() override { EXPECT_EQ(reported_position, 0) << reported_name; }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Blas, Types);

TYPED_TEST(Blas, ProductsOfEveryTransposition) {
    const int64_t shapes[][3] = {{1, 1, 1}, {2, 3, 4}, {4, 4, 4}, {17, 5, 33}, {64, 48, 100}, {1, 97, 3}, {65, 1, 9}};
    for (const auto &shape : shapes)
        for (const int transa : {kNoTrans, kTrans, kConjTrans})
            for (const int transb : {kNoTrans, kTrans, kConjTrans})
                for (const int64_t padding : {0, 3}) {
                    Call<TypeParam> x{kColMajor, transa, transb, shape[0], shape[1], shape[2]};
                    run_all(x, padding);
                    x.alpha = static_cast<TypeParam>(-0.7);
                    x.beta = static_cast<TypeParam>(1.3);
                    run_all(x, padding);
                }
}

TYPED_TEST(Blas, FactorsThatAreNothingOrNotFinite) {
    for (const double alpha : {0.0, 1.0, kNan, kInfinity})
        for (const double beta : {0.0, 1.0, 0.5, kNan, -kInfinity})
            for (const int64_t k : {0, 5}) {
                Call<TypeParam> x{kColMajor, kNoTrans, kTrans, 6, 7, k};
                x.alpha = static_cast<TypeParam>(alpha);
                x.beta = static_cast<TypeParam>(beta);
                run_all(x, 2);
            }
}

// What a quick return must not look at: no pointer is valid.
TYPED_TEST(Blas, QuickReturnsReadNoArray) {
    TypeParam *const nowhere = reinterpret_cast<TypeParam *>(8);
    for (int form = 0; form < kForms; ++form)
        for (TypeParam *const pointer : {static_cast<TypeParam *>(nullptr), nowhere}) {
            Call<TypeParam> x{kColMajor, kNoTrans, kNoTrans, 0, 5, 5, 1, pointer, 5, pointer, 5, 0, pointer, 5};
            make(form, x);
            x.m = 5, x.n = 0;
            make(form, x);
            x.n = 5, x.k = 0, x.beta = 1;
            make(form, x);
            x.k = 5, x.alpha = 0;
            make(form, x);
            x.m = x.n = x.k = 0;
            x.lda = x.ldb = x.ldc = std::numeric_limits<int32_t>::max();
            make(form, x);
        }
}

// C is written, A and B are not read.
TYPED_TEST(Blas, NothingOfAAndBIsReadWithoutAProduct) {
    for (int form = 0; form < kForms; ++form)
        for (const int64_t k : {0, 5}) {
            TypeParam c[4] = {1, 2, 3, 4};
            const TypeParam alpha = k == 0 ? TypeParam(1) : TypeParam(0);
            make(form, Call<TypeParam>{kColMajor, kNoTrans, kNoTrans, 2, 2, k, alpha, nullptr, 2, nullptr, 5, TypeParam(0.5), c, 2});
            EXPECT_TRUE(c[0] == TypeParam(0.5) && c[1] == 1 && c[2] == TypeParam(1.5) && c[3] == 2) << kFormNames[form];
        }
}

// One column each: a leading dimension is then never used.
TYPED_TEST(Blas, HugeLeadingDimensionsOfOneColumn) {
    for (int form = 0; form < kForms; ++form) {
        const bool wide = has_64_bits(form);
        const int64_t huge = wide ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int32_t>::max();
        const TypeParam a[3] = {1, 2, 3}, b = 2;
        TypeParam c[3] = {0, 0, 0};
        make(form, Call<TypeParam>{kColMajor, kNoTrans, kNoTrans, 3, 1, 1, 1, a, huge, &b, huge, 0, c, huge});
        EXPECT_TRUE(c[0] == 2 && c[1] == 4 && c[2] == 6) << kFormNames[form];
    }
}

// LAPACK's blocks of one matrix lie between each other's columns; BLAS has never asked whether arrays are aligned, or apart.
TYPED_TEST(Blas, ArraysInOneAnother) {
    constexpr int64_t kSize = 24, kStep = 7;
    for (int form = 0; form < kForms; ++form) {
        std::vector<TypeParam> matrix = random_array<TypeParam>(kSize * kSize, 5);
        const std::vector<TypeParam> before = matrix;
        Call<TypeParam> x{kColMajor, kNoTrans, kNoTrans, kSize - kStep, kSize - kStep, kStep, -1, nullptr, kSize,
                          nullptr,   kSize,    1,        nullptr,       kSize};
        const int64_t left = kStep, above = kStep * kSize;
        x.a = &matrix[static_cast<size_t>(left)];
        x.b = &matrix[static_cast<size_t>(above)];
        x.c = &matrix[static_cast<size_t>(left + above)];
        make(form, x);
        const std::vector<TypeParam> a(before.begin() + left, before.end()), b(before.begin() + above, before.end()),
            c_before(before.begin() + left + above, before.end()), c(matrix.begin() + left + above, matrix.end());
        // The elements between the columns of C are those of A and B, and of nothing that may change.
        check_product(x, a, b, c_before, c);

        // C is A: as if A had been read first.
        std::vector<TypeParam> shared = random_array<TypeParam>(25, 6);
        const std::vector<TypeParam> old = shared, other = random_array<TypeParam>(25, 7);
        x = {kColMajor, kTrans, kNoTrans, 5, 5, 5, 2, shared.data(), 5, other.data(), 5, TypeParam(0.5), shared.data(), 5};
        make(form, x);
        check_product(x, old, other, old, shared);

        // All of them a byte off.
        std::vector<char> bytes[3] = {std::vector<char>(26 * sizeof(TypeParam)), std::vector<char>(26 * sizeof(TypeParam)),
                                      std::vector<char>(26 * sizeof(TypeParam))};
        std::memcpy(bytes[0].data() + 1, old.data(), 25 * sizeof(TypeParam));
        std::memcpy(bytes[1].data() + 1, other.data(), 25 * sizeof(TypeParam));
        std::memcpy(bytes[2].data() + 1, old.data(), 25 * sizeof(TypeParam));
        x.a = reinterpret_cast<TypeParam *>(bytes[0].data() + 1);
        x.b = reinterpret_cast<TypeParam *>(bytes[1].data() + 1);
        x.c = reinterpret_cast<TypeParam *>(bytes[2].data() + 1);
        make(form, x);
        std::memcpy(shared.data(), bytes[2].data() + 1, 25 * sizeof(TypeParam));
        check_product(x, old, other, old, shared);
    }
}

// Each argument made illegal, one after the other; everything that follows the first is illegal as well.
TYPED_TEST(Blas, IllegalArgumentsGoToTheProgramsHandler) {
    TypeParam data[64] = {};
    const Call<TypeParam> legal{kColMajor, kNoTrans, kTrans, 4, 3, 2, 1, data, 4, data + 16, 3, 1, data + 32, 4};
    struct Wrong {
        int position;  // in Fortran
        void (*spoil)(Call<TypeParam> &);
    };
    // Least first, so that each call below is illegal from its own argument on.
    const Wrong wrong[] = {{13, [](auto &x) { x.ldc = 2; }},     {10, [](auto &x) { x.ldb = 1; }},
                           {8, [](auto &x) { x.lda = 1; }},      {5, [](auto &x) { x.k = -1; }},
                           {4, [](auto &x) { x.n = -7; }},       {3, [](auto &x) { x.m = -2147483647; }},
                           {2, [](auto &x) { x.transb = 'x'; }}, {1, [](auto &x) { x.transa = '\0'; }}};
    const std::string fortran = sizeof(TypeParam) == 4 ? "SGEMM " : "DGEMM ",
                      cblas = sizeof(TypeParam) == 4 ? "cblas_sgemm" : "cblas_dgemm";
    for (int form = 0; form < kForms; ++form) {
        Call<TypeParam> all = legal;
        for (const Wrong &one : wrong) {
            Call<TypeParam> x = legal;
            one.spoil(x);
            one.spoil(all);
            for (const Call<TypeParam> &call : {x, all}) {
                reported_position = 0;
                make(form, call);
                EXPECT_EQ(reported_name, is_fortran(form) ? fortran : cblas);
                EXPECT_EQ(reported_position, is_fortran(form) ? one.position : one.position + 1) << kFormNames[form];
            }
        }
        if (is_fortran(form)) continue;
        Call<TypeParam> x = legal;
        x.order = 100;
        make(form, x);
        EXPECT_EQ(reported_position, 1);
        // By rows, the leading dimensions are at least the columns.
        const Wrong rows[] = {{13, [](auto &y) { y.ldc = 2; }}, {10, [](auto &y) { y.ldb = 1; }}, {8, [](auto &y) { y.lda = 1; }},
                              {5, [](auto &y) { y.k = -1; }},   {3, [](auto &y) { y.m = -1; }},   {4, [](auto &y) { y.n = -1; }}};
        for (const Wrong &one : rows) {
            x = legal;
            x.order = kRowMajor;
            one.spoil(x);
            make(form, x);
            EXPECT_EQ(reported_position, one.position + 1) << kFormNames[form] << " by rows";
        }
    }
    for (const TypeParam value : data) EXPECT_EQ(value, 0);
    reported_position = 0;
}

TYPED_TEST(Blas, ManyThreadsAtOnce) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i)
        threads.emplace_back([] {
            for (int round = 0; round < 20; ++round) run(kFortranForms, Call<TypeParam>{kRowMajor, kTrans, kNoTrans, 31, 33, 65}, 1);
        });
    for (std::thread &thread : threads) thread.join();
}

TYPED_TEST(Blas, AChildComputesOnAContextOfItsOwn) {
    run(0, Call<TypeParam>{kColMajor, kNoTrans, kNoTrans, 8, 8, 8}, 0);
    const pid_t child = fork();
    if (child == 0) {
        const Call<TypeParam> x{kColMajor, kNoTrans, kNoTrans, 200, 200, 200};
        run(0, x, 0);
        run(kFortranForms, x, 0);
        _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    run(0, Call<TypeParam>{kColMajor, kNoTrans, kNoTrans, 8, 8, 8}, 0);
}

// BLAS has no status, and a C that was not computed must not be taken for one that was.
class BlasDeathTest : public testing::Test {
  protected:
    void SetUp() override { testing::GTEST_FLAG(death_test_style) = DEATH_TEST_STYLE; }
};

TEST_F(BlasDeathTest, ABackendThatIsNotThereEndsTheProcess) {
    const double a = 1, b = 1;
    double c = 7;
    const Call<double> x{kColMajor, kNoTrans, kNoTrans, 1, 1, 1, 1, &a, 1, &b, 1, 0, &c, 1};
    EXPECT_EXIT((setenv("ATTILE_BACKEND", "nosuch", 1), make(0, x)), testing::KilledBySignal(SIGABRT),
                "libattile_blas: context_create: no backend can be used: nosuch: .*libattile_backend_nosuch.so");
}

TEST_F(BlasDeathTest, AQuickReturnNeedsNoBackend) {
    const Call<double> x{kColMajor, kNoTrans, kNoTrans, 0, 1, 1, kNan, nullptr, 1, nullptr, 1, 0, nullptr, 1};
    EXPECT_EXIT((setenv("ATTILE_BACKEND", "nosuch", 1), make(0, x), make(kFortranForms, x), _exit(0)), testing::ExitedWithCode(0), "^$");
}

TEST_F(BlasDeathTest, ArraysThatAreNowhereEndTheProcess) {
    const double a = 1, b = 1;
    double c = 7;
    for (int form = 0; form < kForms; ++form) {
        EXPECT_EXIT(make(form, Call<double>{kColMajor, kNoTrans, kNoTrans, 1, 1, 1, 1, nullptr, 1, &b, 1, 0, &c, 1}),
                    testing::KilledBySignal(SIGABRT), "libattile_blas: dgemm: a.data is NULL");
    }
    EXPECT_EXIT(make(0, Call<double>{kColMajor, kNoTrans, kNoTrans, 1, 1, 1, kNan, &a, 1, nullptr, 1, 0, &c, 1}),
                testing::KilledBySignal(SIGABRT), "libattile_blas: dgemm: b.data is NULL");
    EXPECT_EXIT(make(0, Call<double>{kColMajor, kNoTrans, kNoTrans, 1, 1, 0, 1, &a, 1, &b, 1, 0, nullptr, 1}),
                testing::KilledBySignal(SIGABRT), "libattile_blas: dgemm: c.data is NULL");
    constexpr int64_t kHuge = int64_t{1} << 62;  // in elements
    Call<double> x{kColMajor, kNoTrans, kNoTrans, kHuge, kHuge, 1, 1, &a, kHuge, &b, 1, 0, &c, kHuge};
    EXPECT_EXIT(make(1, x), testing::KilledBySignal(SIGABRT), "libattile_blas: dgemm: ");
    x.alpha = kNan;  // copies would be needed
    EXPECT_EXIT(make(1, x), testing::KilledBySignal(SIGABRT), "libattile_blas: gemm: no host memory for copies of the arrays");
}

}  // namespace
