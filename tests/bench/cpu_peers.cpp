// SPDX-License-Identifier: Apache-2.0
#include "cpu_peers.h"

#include <dlfcn.h>
#include <omp.h>

namespace attile::bench {
namespace {

void *open_first(std::initializer_list<const char *> names) {
    for (const char *name : names) {
        if (void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
    }
    return nullptr;
}

template <class Fn>
Fn find(void *library, const char *name) {
    return library == nullptr ? nullptr : reinterpret_cast<Fn>(dlsym(library, name));
}

}  // namespace

Peers::Peers() {
    // The variants with POSIX threads first, as tools/setup installs them: one whose number of threads cannot be set is of no use here.
    void *openblas = open_first({"openblas-pthread/libopenblas.so.0", "libopenblas.so.0"});
    void *blis = open_first({"blis-pthread/libblis.so.4", "libblis.so.4"});
    void *onednn = open_first({"libdnnl.so.3", "libdnnl.so.2"});
    openblas_s = find<CblasGemm<float>>(openblas, "cblas_sgemm");
    openblas_d = find<CblasGemm<double>>(openblas, "cblas_dgemm");
    openblas_threads_ = find<void (*)(int)>(openblas, "openblas_set_num_threads");
    blis_s = find<CblasGemm<float>>(blis, "cblas_sgemm");
    blis_d = find<CblasGemm<double>>(blis, "cblas_dgemm");
    blis_threads_ = find<void (*)(int64_t)>(blis, "bli_thread_set_num_threads");
    onednn_s = find<DnnlSgemm>(onednn, "dnnl_sgemm");

    if (const auto config = find<const char *(*)()>(openblas, "openblas_get_config")) {
        versions.emplace_back("openblas", config());
    } else {
        missing.emplace_back("openblas");
    }
    if (const auto version = find<const char *(*)()>(blis, "bli_info_get_version_str")) {
        std::string text = version();
        const auto id = find<int (*)()>(blis, "bli_arch_query_id");
        const auto name = find<const char *(*)(int)>(blis, "bli_arch_string");
        if (id != nullptr && name != nullptr) text += std::string(" ") + name(id());
        versions.emplace_back("blis", text);
    } else {
        missing.emplace_back("blis");
    }
    struct DnnlVersion {
        int major, minor, patch;
    };
    if (const auto version = find<const DnnlVersion *(*)()>(onednn, "dnnl_version")) {
        const DnnlVersion v = *version();
        versions.emplace_back("onednn", std::to_string(v.major) + "." + std::to_string(v.minor) + "." + std::to_string(v.patch));
    } else {
        missing.emplace_back("onednn");
    }
}

void Peers::set_threads(int threads) const {
    if (openblas_threads_ != nullptr) openblas_threads_(threads);
    if (blis_threads_ != nullptr) blis_threads_(threads);
    omp_set_num_threads(threads);  // oneDNN
}

}  // namespace attile::bench
