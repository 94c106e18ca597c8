// SPDX-License-Identifier: Apache-2.0
// The process's context, the call, and what becomes of its status.
#include "product.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "copies.h"

namespace attile::blas {
namespace {

// Made by the first call and never destroyed, since nothing says which call is the last. Threads that come first together each make one,
// and all but one of them are destroyed: a lock could be held by another thread when the process forks.
constinit std::atomic<attile_context *> shared{nullptr};
// Of a device: its calls may return before it is done where the arrays are in its memory, and BLAS's never do.
constinit std::atomic<bool> is_device{false};

[[noreturn]] [[gnu::cold]] void end_process(const char *sentence) {
    std::fprintf(stderr, "libattile_blas: %s\n", sentence);
    std::abort();
}

[[noreturn]] [[gnu::cold]] void end_process() {
    char sentence[1024];
    (void)attile_last_error(sentence, sizeof sentence);
    end_process(sentence);
}

[[gnu::noinline]] attile_context *make_context() {
    attile_context *made = nullptr;
    attile_context_info info;
    attile_context_info_init(&info, sizeof info);
    if (attile_context_create(nullptr, &made) != ATTILE_OK || attile_context_get_info(made, &info) != ATTILE_OK) end_process();
    is_device.store(info.device_type != ATTILE_DEVICE_CPU, std::memory_order_relaxed);
    attile_context *first = nullptr;
    if (shared.compare_exchange_strong(first, made)) return made;
    attile_context_destroy(made);
    return first;
}

int32_t call(attile_context *context, const Product<float> &p) {
    return attile_sgemm(context, ATTILE_COL_MAJOR, p.transa, p.transb, p.m, p.n, p.k, static_cast<double>(p.alpha), p.a, p.lda, p.b, p.ldb,
                        static_cast<double>(p.beta), p.c, p.ldc);
}

int32_t call(attile_context *context, const Product<double> &p) {
    return attile_dgemm(context, ATTILE_COL_MAJOR, p.transa, p.transb, p.m, p.n, p.k, p.alpha, p.a, p.lda, p.b, p.ldb, p.beta, p.c, p.ldc);
}

template <typename T>
int32_t run(const Product<T> &product) {
    for (;;) {
        attile_context *context = shared.load(std::memory_order_acquire);
        if (context == nullptr) [[unlikely]]
            context = make_context();
        int32_t status = call(context, product);
        if (status == ATTILE_ERROR_AFTER_FORK) [[unlikely]] {
            // The parent's context. A child has one of its own, which the first of its threads to come here asks for.
            shared.compare_exchange_strong(context, nullptr);
            continue;
        }
        if (status == ATTILE_OK && is_device.load(std::memory_order_relaxed)) status = attile_synchronize(context, nullptr);
        return status;
    }
}

template <typename T>
void compute_product(const Product<T> &product) {
    const int32_t status = run(product);
    if (status == ATTILE_OK) [[likely]]
        return;
    // What BLAS allows, or has never looked at, and the library refuses: factors that are not finite, arrays at odd addresses, and arrays
    // that overlap. Nothing was written.
    const bool refused = status == ATTILE_ERROR_INVALID_VALUE || status == ATTILE_ERROR_MISALIGNED || status == ATTILE_ERROR_ALIASING;
    if (!refused) end_process();
    const int32_t second = compute_by_copies(product, run<T>);
    if (second == ATTILE_ERROR_OUT_OF_HOST_MEMORY) end_process("gemm: no host memory for copies of the arrays");
    if (second != ATTILE_OK) end_process();
}

}  // namespace

void compute(const Product<float> &product) { compute_product(product); }
void compute(const Product<double> &product) { compute_product(product); }

}  // namespace attile::blas
