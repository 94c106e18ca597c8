// SPDX-License-Identifier: Apache-2.0
// The process's context, the call, and what becomes of its status.
#include "product.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "copies.h"

namespace attile::blas {
namespace {

// Made by the first call and never destroyed, since no call is known to be the last. If several threads make the first call at once, each
// makes a context, and all but one are destroyed. A lock would avoid that, but a fork could leave it locked in the child.
constinit std::atomic<attile_context *> shared{nullptr};
// Whether it is a device's. Calls with arrays in the device's memory return before the result is there, which a call of BLAS must not.
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
            // The context is the parent's; the next round makes one for this process.
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
    // The library refuses factors that are not finite, arrays that are not aligned and arrays that overlap, and BLAS does not. Nothing was
    // written yet.
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
