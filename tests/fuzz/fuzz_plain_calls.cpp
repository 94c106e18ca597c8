// SPDX-License-Identifier: Apache-2.0
// The functions that take no args struct: BLAS names, memory and streams, tensors.
#include <algorithm>
#include <cmath>
#include <limits>

#include "fuzz_operations.h"

namespace attile_test {
namespace {

// Elements that a matrix of BLAS reaches over, if it lies in a slot.
int64_t blas_elements(int64_t lines, int64_t length, int64_t leading) {
    if (lines <= 0 || length <= 0) return 0;
    __extension__ using Wide = __int128;
    const Wide all = Wide(lines - 1) * leading + length;
    return leading < 0 || all > FuzzMemory::kSlotBytes ? -1 : static_cast<int64_t>(all);
}

template <typename Value, typename Function>
void blas(Call *call, Function gemm) {
    FuzzInput &input = call->input;
    FuzzTarget::Count &count = call->target.counts[static_cast<int>(FuzzOperation::kBlas)];
    const auto one_of = [&](std::initializer_list<int32_t> values) {
        return input.rarely(64) ? input.raw<int32_t>() : values.begin()[input.below(static_cast<int64_t>(values.size()))];
    };
    const int32_t order = one_of({ATTILE_ROW_MAJOR, ATTILE_COL_MAJOR});
    const int32_t trans_a = one_of({ATTILE_NO_TRANS, ATTILE_TRANS, ATTILE_CONJ_TRANS}), trans_b = one_of({ATTILE_NO_TRANS, ATTILE_TRANS});
    const auto extent = [&] { return input.rarely(32) ? call->any_number() : call->extent() % 64; };
    const int64_t m = extent(), n = extent(), k = extent();
    const bool columns = order == ATTILE_COL_MAJOR;
    struct {
        int64_t lines, length, leading, elements;
        Value *data;
    } matrices[3] = {{}, {}, {}};
    for (int i = 0; i < 3; ++i) {
        auto &matrix = matrices[i];
        const bool transposed = i < 2 && (i == 0 ? trans_a : trans_b) != ATTILE_NO_TRANS;
        const int64_t rows = i == 1 ? k : m, width = i == 0 ? k : n;
        matrix.lines = columns != transposed ? width : rows;
        matrix.length = columns != transposed ? rows : width;
        const bool odd = input.rarely(32);
        matrix.leading = odd                    ? call->any_number()
                         : matrix.length < 4096 ? std::max<int64_t>(matrix.length, 1) + input.below(3)
                                                : matrix.length;
        matrix.elements = blas_elements(matrix.lines, matrix.length, matrix.leading);
        const int64_t bytes = std::max<int64_t>(matrix.elements, 0) * static_cast<int64_t>(sizeof(Value));
        if (bytes > FuzzMemory::kSlotBytes) matrix.elements = -1;
        unsigned char *end = FuzzMemory::instance().slot_end(i);
        matrix.data = reinterpret_cast<Value *>(end - (matrix.elements > 0 ? bytes : 0));
        if (matrix.elements > 0) FuzzMemory::instance().fill(reinterpret_cast<unsigned char *>(matrix.data), end);
        if (input.rarely(64)) matrix.data = nullptr;
    }
    const double alpha = call->scalar(), beta = call->scalar();
    const bool legal = (order == ATTILE_ROW_MAJOR || columns) && trans_a >= ATTILE_NO_TRANS && trans_a <= ATTILE_CONJ_TRANS &&
                       trans_b >= ATTILE_NO_TRANS && trans_b <= ATTILE_CONJ_TRANS && std::min({m, n, k}) >= 0 && std::isfinite(alpha) &&
                       std::isfinite(beta);
    // A legal call on memory that is not there is the caller's fault, not the library's.
    for (const auto &matrix : matrices)
        if (legal && matrix.leading >= std::max<int64_t>(1, matrix.length) && matrix.elements < 0) return;
    if (legal && static_cast<double>(std::max<int64_t>(m, 1)) * static_cast<double>(std::max<int64_t>(n, 1)) *
                         static_cast<double>(std::max<int64_t>(k, 1)) >
                     1e6)
        return;
    if (call->target.slow && legal && !input.rarely(16)) return;
    ++count.runs;
    const int32_t status = gemm(call->context, order, trans_a, trans_b, m, n, k, alpha, matrices[0].data, matrices[0].leading,
                                matrices[1].data, matrices[1].leading, beta, matrices[2].data, matrices[2].leading);
    check_sentence(status);
    ATTILE_FUZZ_CHECK(status == ATTILE_OK || status / 1000 == 1 || (call->target.slow && status / 1000 == 2));
    ATTILE_FUZZ_CHECK(legal || status != ATTILE_OK);
    if (status == ATTILE_OK) ++count.worked;
}

void check_tensor_init(FuzzInput &input, Call *call) {
    attile_tensor tensor;
    std::memset(&tensor, 0x5a, sizeof tensor);
    const int64_t shape[4] = {call->any_number(), call->any_number(), call->extent(), call->extent()};
    const int32_t dtype = call->choice(3) == 0 ? input.raw<int32_t>() : ATTILE_F32;
    const int32_t status = attile_tensor_init(&tensor, nullptr, dtype, call->choice(6), shape);
    check_sentence(status);
    const attile_tensor zero = {};
    if (status != ATTILE_OK) ATTILE_FUZZ_CHECK(std::memcmp(&tensor, &zero, sizeof zero) == 0);
}

}  // namespace

void fuzz_blas(Call *call) {
    if (call->input.rarely(2))
        blas<float>(call, attile_sgemm);
    else
        blas<double>(call, attile_dgemm);
}

void fuzz_memory(Call *call) {
    FuzzInput &input = call->input;
    FuzzTarget::Count &count = call->target.counts[static_cast<int>(FuzzOperation::kMemory)];
    attile_context *const context = call->context;
    check_tensor_init(input, call);
    void *stream = nullptr, *memory = &memory;
    const bool streams = attile_stream_create(context, &stream) == ATTILE_OK;
    if (!streams) ATTILE_FUZZ_CHECK(stream == nullptr);
    // No sizes that a machine might have or might not have.
    int64_t bytes = input.rarely(4) ? call->any_number() : input.raw<uint16_t>();
    if (bytes > (1 << 20) && bytes < (int64_t{1} << 50)) bytes = 1 << 20;
    const int32_t kind = call->choice(4);
    int32_t status = attile_alloc(context, kind, bytes, &memory);
    check_sentence(status);
    ATTILE_FUZZ_CHECK(status == ATTILE_OK || memory == nullptr);
    ATTILE_FUZZ_CHECK((kind >= 0 && kind <= 3 && bytes >= 0) || status == ATTILE_ERROR_INVALID_VALUE);
    count.runs += 6;
    if (status == ATTILE_OK && bytes > 0) {
        ++count.worked;
        ATTILE_FUZZ_CHECK(memory != nullptr && reinterpret_cast<uintptr_t>(memory) % 256 == 0);
        unsigned char *const here = FuzzMemory::instance().slot(0);
        const int64_t some = std::min<int64_t>(bytes, FuzzMemory::kSlotBytes);
        FuzzMemory::instance().fill(here, here + some);
        const std::vector<unsigned char> before(here, here + some);
        ATTILE_FUZZ_CHECK(attile_copy(context, memory, here, some, stream) == ATTILE_OK);
        ATTILE_FUZZ_CHECK(attile_synchronize(context, stream) == ATTILE_OK);
        std::memset(here, 0, static_cast<size_t>(some));
        ATTILE_FUZZ_CHECK(attile_copy(context, here, memory, some, stream) == ATTILE_OK);
        ATTILE_FUZZ_CHECK(attile_synchronize(context, stream) == ATTILE_OK);
        ATTILE_FUZZ_CHECK(std::equal(before.begin(), before.end(), here));
        int32_t found = -1;
        ATTILE_FUZZ_CHECK(attile_memory_kind(context, memory, &found) == ATTILE_OK && found >= 0 && found <= 3);
        check_sentence(attile_prefetch(context, memory, some, call->choice(4), stream));
        const int64_t negative = -1 - input.byte();
        ATTILE_FUZZ_CHECK(attile_copy(context, memory, here, negative, stream) == ATTILE_ERROR_INVALID_VALUE);
        ATTILE_FUZZ_CHECK(attile_free(context, static_cast<char *>(memory) + 256) == ATTILE_ERROR_UNKNOWN_POINTER);
    }
    status = attile_free(context, memory);
    ATTILE_FUZZ_CHECK(status == ATTILE_OK);
    if (memory != nullptr) ATTILE_FUZZ_CHECK(attile_free(context, memory) == ATTILE_ERROR_UNKNOWN_POINTER);
    ATTILE_FUZZ_CHECK(attile_free(context, &status) == ATTILE_ERROR_UNKNOWN_POINTER);
    if (streams) ATTILE_FUZZ_CHECK(attile_stream_destroy(context, stream) == ATTILE_OK);
}

}  // namespace attile_test
