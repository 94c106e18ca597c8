// SPDX-License-Identifier: Apache-2.0
// Which library of NCCL is taken, and why one is refused. Each test is a process: what was loaded stays.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "ranks.h"
#include "stand_in.h"
#include "transport_file.h"

namespace attile::test {
namespace {

class NcclLibrary : public testing::Test {
  protected:
    NcclLibrary() : context_(open_context("emulated")) {}
    ~NcclLibrary() override { attile_context_destroy(context_); }

    void expect_refused(const std::string &words) {
        attile_comm_options options;
        attile_comm_options_init(&options, sizeof options);
        options.kind = "nccl";
        options.communicator = 64;
        attile_comm *comm = nullptr;
        EXPECT_EQ(attile_comm_create(context_, &options, &comm), ATTILE_ERROR_BACKEND_REFUSED);
        EXPECT_NE(last_error().find("no transport of kind 'nccl' can be used: nccl: " + words), std::string::npos) << last_error();
        std::string report(static_cast<std::size_t>(attile_backend_report(nullptr, 0)), '\0');
        attile_backend_report(report.data(), static_cast<std::int64_t>(report.size()));
        EXPECT_NE(report.find("transport nccl ("), std::string::npos) << report;
        EXPECT_NE(report.find("refused, ATTILE_ERROR_BACKEND_REFUSED: " + words), std::string::npos) << report;
    }

    attile_context *context_;
};

TEST_F(NcclLibrary, HasToBeInTheProcess) {
    expect_refused("the process has not loaded libnccl.so.2 (NCCL), whose communicator the program passes");
}

TEST_F(NcclLibrary, HasToBeNewEnough) {
    ASSERT_NE(dlopen(STAND_IN, RTLD_NOW), nullptr) << dlerror();
    setenv("ATTILE_STAND_IN_VERSION", "21703", 1);
    expect_refused("libnccl.so.2 is version 2.17.3; expected 2.18.0 or newer");
    setenv("ATTILE_STAND_IN_VERSION", "2804", 1);
    expect_refused("libnccl.so.2 is version 2.8.4; expected 2.18.0 or newer");
}

TEST_F(NcclLibrary, HasToHaveEveryFunction) {
    ASSERT_NE(dlopen(STAND_IN_WITHOUT_SPLIT, RTLD_NOW), nullptr) << dlerror();
    expect_refused("libnccl.so.2 has no function ncclCommSplit");
}

attile_comm_device rocm_device(attile_context *context) {
    attile_comm_device device{};
    device.struct_size = sizeof device;
    device.type = ATTILE_DEVICE_ROCM;
    device.context = context;
    const auto of = [](void *given) { return static_cast<attile_context *>(given); };
    static const auto cast = of;
    device.alloc = [](void *c, std::int32_t kind, std::int64_t bytes, void **p) { return attile_alloc(cast(c), kind, bytes, p); };
    device.free = [](void *c, void *p) { return attile_free(cast(c), p); };
    device.copy = [](void *c, void *to, const void *from, std::int64_t n, void *s) { return attile_copy(cast(c), to, from, n, s); };
    device.memory_kind = [](void *c, const void *p, std::int32_t *kind) { return attile_memory_kind(cast(c), p, kind); };
    device.stream_create = [](void *c, void **s) { return attile_stream_create(cast(c), s); };
    device.stream_destroy = [](void *c, void *s) { return attile_stream_destroy(cast(c), s); };
    return device;
}

TEST_F(NcclLibrary, IsRcclForDevicesOfHip) {
    void *library = dlopen(STAND_IN_RCCL, RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    ncclComm_t comm = nullptr;
    ASSERT_EQ(reinterpret_cast<attile_nccl_init_all_fn>(dlsym(library, "ncclCommInitAll"))(&comm, 1, nullptr), 0);
    const attile_comm_plugin_v1 *plugin = open_transport_file();
    ASSERT_NE(plugin, nullptr) << dlerror();
    EXPECT_EQ(plugin->probe(), ATTILE_OK) << transport_words;
    attile_comm_device device = rocm_device(context_);
    attile_comm_plugin_options options{};
    options.struct_size = sizeof options;
    options.communicator = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(comm));
    options.timeout_seconds = 20;
    options.device = &device;
    attile_comm_callbacks calls{};
    attile_comm_plugin_link link{};
    link.struct_size = sizeof link;
    link.calls = &calls;
    ASSERT_EQ(plugin->open(&options, &link), ATTILE_OK) << transport_words;
    EXPECT_EQ(link.ranks, 1);
    EXPECT_EQ(link.flags, ATTILE_COMM_PLUGIN_REACHES_DEVICE);
    plugin->close(calls.user);
    device.type = ATTILE_DEVICE_CUDA;
    EXPECT_EQ(plugin->open(&options, &link), ATTILE_ERROR_BACKEND_REFUSED);
    EXPECT_NE(transport_words.find("libnccl.so.2"), std::string::npos) << transport_words;
    EXPECT_EQ(reinterpret_cast<attile_nccl_end_fn>(dlsym(library, "ncclCommDestroy"))(comm), 0);
}

}  // namespace
}  // namespace attile::test
