// SPDX-License-Identifier: Apache-2.0
// A program that does to libattile what its arguments say, in order, and prints what came of it. Tests run it as a child, so that each
// starts with a process in which nothing is loaded.
#include <attile/attile.h>
#include <attile/attile_backend.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cfenv>
#include <clocale>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

extern "C" const attile_backend_v1 *attile_test_linked_entry(const attile_host_v1 *host);
extern "C" const attile_backend_v1 *attile_test_impostor_entry(const attile_host_v1 *host);

namespace {

attile_context *context = nullptr;
void *memory = nullptr;
void *stream = nullptr;

void print_status(const char *what, int32_t status) {
    char text[4096];
    attile_last_error(text, sizeof text);
    std::printf("%s: %s%s%s\n", what, attile_status_name(status), status == ATTILE_OK ? "" : ": ", status == ATTILE_OK ? "" : text);
}

int32_t add(const char *entry_name) {
    const bool linked = std::strcmp(entry_name, "linked") == 0;
    const attile_backend_entry_fn entry = linked ? attile_test_linked_entry : attile_test_impostor_entry;
    return attile_register_backend(reinterpret_cast<const void *(*)(const void *)>(entry));
}

int32_t create(const char *selection) {
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    options.backend = selection;
    options.threads = 3;
    options.pool_bytes = 4096;
    attile_context_destroy(context);  // an earlier one, dead or alive
    return attile_context_create(&options, &context);
}

int32_t gemm(bool query) {
    float one = 1;
    const int64_t shape[2] = {1, 1};
    attile_gemm_args args;
    attile_gemm_init(&args, sizeof args);
    attile_tensor_init(&args.a, &one, ATTILE_F32, 2, shape);
    args.b = args.a;
    float result = 0;
    attile_tensor_init(&args.d, &result, ATTILE_F32, 2, shape);
    if (!query) return attile_gemm(context, &args);
    attile_support support;
    attile_support_init(&support, sizeof support);
    const int32_t status = attile_gemm_query(context, &args, &support);
    std::printf("level %d, status %s\n", support.level, attile_status_name(support.status));
    return status;
}

int32_t info() {
    attile_context_info found;
    attile_context_info_init(&found, sizeof found);
    const int32_t status = attile_context_get_info(context, &found);
    std::printf("backend '%s' version '%s' device '%s' arch length %zu\n", found.backend, found.backend_version, found.device_name,
                strnlen(found.arch, sizeof found.arch));
    return status;
}

int32_t copy() {
    const int from = 42;
    int to = 0;
    const int32_t status = attile_copy(context, &to, &from, sizeof to, nullptr);
    if (status == ATTILE_OK && to != 42) std::printf("copy is wrong\n");
    return status;
}

int32_t kind() {
    int32_t found = -1;
    return attile_memory_kind(context, &found, &found);
}

int32_t destroy() {
    attile_context_destroy(context);
    return ATTILE_OK;
}

int32_t report() {
    std::string text(static_cast<size_t>(attile_backend_report(nullptr, 0)), '\0');
    attile_backend_report(text.data(), static_cast<int64_t>(text.size()));
    std::fputs(text.c_str(), stdout);
    return ATTILE_OK;
}

// What of the process a backend might have left changed.
int32_t surroundings() {
    uint32_t mode = 0;
#if defined(__x86_64__)
    mode = __builtin_ia32_stmxcsr() & ~0x3fU;
#endif
    std::printf("rounding %d mode %x locale %s\n", std::fegetround(), mode, std::setlocale(LC_ALL, nullptr));
    return ATTILE_OK;
}

int32_t fail_once() { return attile_free(context, &context); }

int32_t last() {
    char text[1024];
    attile_last_error(text, sizeof text);
    std::printf("last error: %s\n", text);
    return ATTILE_OK;
}

int32_t log_to_stdout() {
    return attile_set_log([](void *, int32_t level, const char *text) { std::printf("log %d: %s\n", level, text); }, nullptr,
                          ATTILE_LOG_TRACE);
}

}  // namespace

int main(int argc, char **argv) {
    const std::map<std::string, std::function<int32_t(const char *)>> with_value = {
        {"add-directory", attile_add_backend_directory}, {"register", add}, {"create", create}};
    const std::map<std::string, std::function<int32_t()>> bare = {
        {"create-default", [] { return attile_context_destroy(context), attile_context_create(nullptr, &context); }},
        {"alloc", [] { return attile_alloc(context, ATTILE_MEMORY_DEVICE, 1000, &memory); }},
        {"free", [] { return attile_free(context, memory); }},
        {"stream", [] { return attile_stream_create(context, &stream); }},
        {"end-stream", [] { return attile_stream_destroy(context, stream); }},
        {"synchronize", [] { return attile_synchronize(context, nullptr); }},
        {"prefetch", [] { return attile_prefetch(context, &context, 1, ATTILE_MEMORY_HOST, nullptr); }},
        {"gemm", [] { return gemm(false); }},
        {"gemm-query", [] { return gemm(true); }},
        {"info", info},
        {"copy", copy},
        {"kind", kind},
        {"destroy", destroy},
        {"surroundings", surroundings},
        {"fail-once", fail_once},
        {"last", last},
        {"report", report},
        {"log", log_to_stdout},
        {"privileged", [] { return std::printf("privileged %d\n", getauxval(AT_SECURE) != 0), ATTILE_OK; }}};
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        if (word == "chdir" && i + 1 < argc) {
            if (chdir(argv[++i]) != 0) return 2;
        } else if (with_value.count(word) != 0 && i + 1 < argc) {
            print_status(argv[i], with_value.at(word)(argv[i + 1]));
            ++i;
        } else if (bare.count(word) != 0) {
            print_status(argv[i], bare.at(word)());
        } else {
            std::printf("unknown word: %s\n", argv[i]);
            return 2;
        }
    }
    attile_context_destroy(context);
    return 0;
}
