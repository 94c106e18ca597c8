// SPDX-License-Identifier: Apache-2.0
// Illegal arguments of the BLAS names.
#include "illegal_blas.h"

#include <limits>

namespace attile_test {
namespace {

using A = CallArguments;
using Op = Operation;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

void append_illegal_blas(std::vector<IllegalArgument> *table) {
    for (const Op operation : {Op::kSgemm, Op::kDgemm}) {
        const int64_t element = operation == Op::kSgemm ? 4 : 8;
        const auto add = [&](const std::string &what, int32_t status, const char *word, std::function<void(BlasArguments &)> spoil) {
            table->push_back(
                {std::string(operation_name(operation)) + "/" + what, operation, [spoil](A &c) { spoil(c.blas); }, status, word});
        };
        const auto shift = [](void *data, int64_t bytes) { return static_cast<void *>(static_cast<unsigned char *>(data) + bytes); };
        table->push_back({std::string(operation_name(operation)) + "/context_null", operation, [](A &c) { c.null_context = true; },
                          ATTILE_ERROR_INVALID_CONTEXT, "context"});
        for (const int32_t value : {0, 100, 103, INT32_MIN}) {
            add("order_" + std::to_string(value), ATTILE_ERROR_INVALID_VALUE, "order", [value](auto &b) { b.order = value; });
        }
        for (const int32_t value : {0, 110, 114, INT32_MAX}) {
            add("transa_" + std::to_string(value), ATTILE_ERROR_INVALID_VALUE, "transa", [value](auto &b) { b.transa = value; });
            add("transb_" + std::to_string(value), ATTILE_ERROR_INVALID_VALUE, "transb", [value](auto &b) { b.transb = value; });
        }
        add("m_negative", ATTILE_ERROR_INVALID_SHAPE, "m is", [](auto &b) { b.m = -1; });
        add("n_negative", ATTILE_ERROR_INVALID_SHAPE, "n is", [](auto &b) { b.n = INT64_MIN; });
        add("k_negative", ATTILE_ERROR_INVALID_SHAPE, "k is", [](auto &b) { b.k = -5; });
        add("lda_small", ATTILE_ERROR_INVALID_VALUE, "lda", [](auto &b) { b.lda = 4; });
        add("ldb_small", ATTILE_ERROR_INVALID_VALUE, "ldb", [](auto &b) { b.ldb = 4; });
        add("ldc_small", ATTILE_ERROR_INVALID_VALUE, "ldc", [](auto &b) { b.ldc = 3; });
        add("lda_small_transposed", ATTILE_ERROR_INVALID_VALUE, "lda", [](auto &b) {
            b.transa = ATTILE_CONJ_TRANS;
            b.lda = 2;
        });
        add("ldb_small_plain", ATTILE_ERROR_INVALID_VALUE, "ldb", [](auto &b) {
            b.transb = ATTILE_NO_TRANS;
            b.ldb = 3;
        });
        add("ldc_small_column_major", ATTILE_ERROR_INVALID_VALUE, "ldc", [](auto &b) {
            b.order = ATTILE_COL_MAJOR;
            b.ldc = 2;
        });
        add("lda_0", ATTILE_ERROR_INVALID_VALUE, "lda", [](auto &b) { b.m = b.k = b.lda = 0; });
        add("ldc_negative", ATTILE_ERROR_INVALID_VALUE, "ldc", [](auto &b) { b.ldc = -5; });
        add("lda_overflow", ATTILE_ERROR_OVERFLOW, "a", [](auto &b) { b.lda = INT64_MAX / 2; });
        add("alpha_nan", ATTILE_ERROR_INVALID_VALUE, "alpha", [](auto &b) { b.alpha = kNan; });
        if (operation == Op::kSgemm) add("beta_1e39", ATTILE_ERROR_INVALID_VALUE, "beta", [](auto &b) { b.beta = 1e39; });
        add("beta_infinite", ATTILE_ERROR_INVALID_VALUE, "beta", [](auto &b) { b.beta = kInfinity; });
        add("a_null", ATTILE_ERROR_NULL_ARGUMENT, "a.data", [](auto &b) { b.a = nullptr; });
        add("b_null", ATTILE_ERROR_NULL_ARGUMENT, "b.data", [](auto &b) { b.b = nullptr; });
        add("c_null", ATTILE_ERROR_NULL_ARGUMENT, "c.data", [](auto &b) { b.c = nullptr; });
        add("a_misaligned", ATTILE_ERROR_MISALIGNED, "a.data", [shift](auto &b) { b.a = shift(b.a, 1); });
        add("c_misaligned", ATTILE_ERROR_MISALIGNED, "c.data", [shift](auto &b) { b.c = shift(b.c, 2); });
        add("c_over_a", ATTILE_ERROR_ALIASING, "output c", [](auto &b) { b.c = b.a; });
        add("c_over_b", ATTILE_ERROR_ALIASING, "output c", [shift, element](auto &b) { b.c = shift(b.b, element); });
    }
}

}  // namespace attile_test
