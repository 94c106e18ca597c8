// SPDX-License-Identifier: Apache-2.0
// What the plugin says to ONNX Runtimes of other versions, which stand here as the two functions that it asks first.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <onnxruntime_c_api.h>

#include <string>

namespace {

std::string version, sentence;
uint32_t newest = 0;  // The newest version of the interface that the stand-in has.
OrtApi table = {};

OrtStatus *ORT_API_CALL create_status(OrtErrorCode, const char *text) noexcept {
    sentence = text;
    return reinterpret_cast<OrtStatus *>(&sentence);
}

const OrtApi *ORT_API_CALL get_api(uint32_t asked) noexcept { return asked <= newest ? &table : nullptr; }
const char *ORT_API_CALL get_version() noexcept { return version.c_str(); }
const OrtEpApi *ORT_API_CALL get_ep_api() noexcept { return nullptr; }

// What CreateEpFactories says to a release; empty if it makes its factory.
std::string answer(const char *release, uint32_t newest_api) {
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return dlerror();
    const auto create = reinterpret_cast<CreateEpApiFactoriesFn>(dlsym(library, "CreateEpFactories"));
    const auto release_factory = reinterpret_cast<ReleaseEpApiFactoryFn>(dlsym(library, "ReleaseEpFactory"));
    version = release;
    newest = newest_api;
    table.CreateStatus = create_status;
    table.GetEpApi = get_ep_api;
    sentence.clear();
    const OrtApiBase base = {get_api, get_version};
    OrtEpFactory *factory = nullptr;
    size_t number = 7;
    const OrtStatus *status = create("attile", &base, nullptr, &factory, 1, &number);
    EXPECT_EQ(status == nullptr, number == 1);
    if (status != nullptr) {
        EXPECT_EQ(number, 0u);
        EXPECT_EQ(factory, nullptr);
        return sentence;
    }
    EXPECT_EQ(release_factory(factory), nullptr);
    return sentence;
}

std::string refusal(const char *release) {
    return "Attile: ONNX Runtime is version " + std::string(release) + ", expected 1.23 or later, below 2";
}

TEST(OnnxRuntimeVersion, TheOldestAndLaterOnesAreTaken) {
    EXPECT_EQ(answer("1.23.0", 23), "");
    EXPECT_EQ(answer("1.32.0", 32), "");
    EXPECT_EQ(answer("1.230.1", 230), "");
}

TEST(OnnxRuntimeVersion, OlderOnesAreRefusedWithTheRange) {
    EXPECT_EQ(answer("1.22.2", 22), refusal("1.22.2"));
    EXPECT_EQ(answer("1.2.0", 2), refusal("1.2.0"));
    EXPECT_EQ(answer("1.22.9", 23), refusal("1.22.9"));
}

TEST(OnnxRuntimeVersion, NewerOnesAreRefusedWithTheRange) {
    EXPECT_EQ(answer("2.0.0", 40), refusal("2.0.0"));
    EXPECT_EQ(answer("2.30.0", 23), refusal("2.30.0"));
}

TEST(OnnxRuntimeVersion, WhatIsNoVersionIsRefused) {
    EXPECT_EQ(answer("", 23), refusal(""));
    EXPECT_EQ(answer("nonsense", 23), refusal("nonsense"));
    EXPECT_EQ(answer("1.25.0", 22), refusal("1.25.0"));  // without the version of the interface
}

}  // namespace
