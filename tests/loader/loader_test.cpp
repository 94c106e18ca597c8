// SPDX-License-Identifier: Apache-2.0
// The handshake: which backends are taken, which are refused, with which code and in whose words.
#include "probe_run.h"

namespace attile::test {
namespace {

std::string create(const std::string &name, std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"add-directory", kAll, "create", name};
    words.insert(words.end(), more.begin(), more.end());
    return probe(words);
}

struct Refusal {
    const char *name;
    const char *code;
    const char *words;
};
class Refused : public ::testing::TestWithParam<Refusal> {};

TEST_P(Refused, WithCodeAndReasonAndTheRestGoesOn) {
    const Refusal &expected = GetParam();
    const std::string out = create(expected.name, {"report", "create", std::string(expected.name) + ",good", "info"});
    EXPECT_TRUE(has(out, std::string("create: ") + expected.code + ": "));
    EXPECT_TRUE(has(out, expected.words));
    EXPECT_TRUE(
        has(out, std::string(expected.name) + " (" + kAll + "/libattile_backend_" + expected.name + ".so): refused, " + expected.code));
    EXPECT_TRUE(has(out, "create: ATTILE_OK")) << "a bad candidate must not spoil the next";
    EXPECT_TRUE(has(out, "backend 'good'"));
}

INSTANTIATE_TEST_SUITE_P(
    Handshake, Refused,
    ::testing::Values(Refusal{"wrong_major", "ATTILE_ERROR_BACKEND_INCOMPATIBLE", "version 2 of the backend contract, expected 1"},
                      Refusal{"host_too_old", "ATTILE_ERROR_BACKEND_INCOMPATIBLE", "backend contract 1.7 or newer, this one has 1.1"},
                      Refusal{"no_entry", "ATTILE_ERROR_BACKEND_INCOMPATIBLE", "undefined symbol: attile_backend_entry_v1"},
                      Refusal{"entry_null", "ATTILE_ERROR_BACKEND_INCOMPATIBLE", "this fake works with no host"},
                      Refusal{"short_root", "ATTILE_ERROR_BACKEND_INCOMPATIBLE", "its root has 40 bytes"},
                      Refusal{"unresolved", "ATTILE_ERROR_BACKEND_LOAD", "attile_test_symbol_that_nobody_defines"},
                      Refusal{"needs_missing", "ATTILE_ERROR_BACKEND_LOAD", "libattile_test_missing.so: cannot open shared object file"},
                      Refusal{"misnamed", "ATTILE_ERROR_BACKEND_CONTRACT", "it calls itself 'other_name', expected 'misnamed'"},
                      Refusal{"null_probe", "ATTILE_ERROR_BACKEND_CONTRACT", "lacks probe"},
                      Refusal{"no_memory", "ATTILE_ERROR_BACKEND_CONTRACT", "lacks the device or the memory interface"},
                      Refusal{"tiny_table", "ATTILE_ERROR_BACKEND_CONTRACT", "its memory interface has 4 bytes"},
                      Refusal{"table_version", "ATTILE_ERROR_BACKEND_CONTRACT", "version 2, expected"},
                      Refusal{"throws_entry", "ATTILE_ERROR_BACKEND_CONTRACT", "threw an exception"},
                      Refusal{"throws_interface", "ATTILE_ERROR_BACKEND_CONTRACT", "threw an exception"},
                      Refusal{"throws_probe", "ATTILE_ERROR_BACKEND_CONTRACT", "threw an exception"},
                      Refusal{"throws_create", "ATTILE_ERROR_BACKEND_CONTRACT", "threw an exception"},
                      Refusal{"refuses", "ATTILE_ERROR_BACKEND_REFUSED", "no driver of the fake kind"},
                      Refusal{"refuses_silently", "ATTILE_ERROR_BACKEND_REFUSED", "the backend gave no reason"},
                      Refusal{"no_device", "ATTILE_ERROR_BACKEND_REFUSED", "device 0 is asked for, there are 0"},
                      Refusal{"busy", "ATTILE_ERROR_OUT_OF_DEVICE_MEMORY", "the fake device is busy"}),
    [](const ::testing::TestParamInfo<Refusal> &one) { return std::string(one.param.name); });

TEST(Handshake, AGoodBackendWorks) {
    const std::string out = create(
        "good", {"info", "alloc", "stream", "copy", "kind", "prefetch", "synchronize", "gemm-query", "gemm", "end-stream", "free", "free"});
    EXPECT_TRUE(has(out, "backend 'good' version '1.2.3' device 'fake device' arch length 63"));
    for (const char *call : {"alloc", "stream", "copy", "kind", "prefetch", "synchronize", "gemm-query", "gemm", "end-stream", "free"}) {
        EXPECT_TRUE(has(out, std::string(call) + ": ATTILE_OK\n"));
    }
    EXPECT_TRUE(has(out, "free: ATTILE_ERROR_UNKNOWN_POINTER: "));
}

TEST(Handshake, ANewerBackendWorks) {
    const std::string out = create("newer_minor", {"alloc", "copy", "free"});
    EXPECT_TRUE(has(out, "create: ATTILE_OK"));
    EXPECT_TRUE(has(out, "copy: ATTILE_OK"));
    EXPECT_TRUE(has(out, "free: ATTILE_OK"));
}

TEST(Handshake, AnOlderBackendLacksWhatItsTableDoesNotReach) {
    const std::string out = create("older_minor", {"alloc", "copy", "prefetch", "kind", "free"});
    EXPECT_TRUE(has(out, "alloc: ATTILE_OK"));
    EXPECT_TRUE(has(out, "copy: ATTILE_ERROR_UNSUPPORTED_OPERATION: copy: backend 'older_minor' does not have it"));
    EXPECT_TRUE(has(out, "prefetch: ATTILE_ERROR_UNSUPPORTED_OPERATION"));
    EXPECT_TRUE(has(out, "kind: ATTILE_ERROR_UNSUPPORTED_OPERATION"));
    EXPECT_TRUE(has(out, "free: ATTILE_OK"));
}

TEST(Handshake, NullEntriesAreNotImplemented) {
    const std::string out =
        create("null_entries", {"info", "alloc", "stream", "copy", "kind", "prefetch", "synchronize", "gemm", "gemm-query", "destroy"});
    EXPECT_TRUE(has(out, "create: ATTILE_OK"));
    EXPECT_TRUE(has(out, "backend 'null_entries' version '1.2.3' device '' arch length 0"));
    for (const char *call : {"alloc", "stream", "copy", "kind", "prefetch", "synchronize", "gemm"}) {
        EXPECT_TRUE(has(out, std::string(call) + ": ATTILE_ERROR_UNSUPPORTED_OPERATION"));
    }
    EXPECT_TRUE(has(out, "level 0, status ATTILE_ERROR_UNSUPPORTED_OPERATION"));
}

// Both with the program's C++ runtime and with one of the backend's own; the first call that is caught is another each time.
TEST(Handshake, WhatCallsThrowGoesNoFurther) {
    const std::vector<std::string> calls = {"info", "alloc", "stream", "copy", "synchronize", "gemm", "gemm-query"};
    for (const char *name : {"throws_calls", "throws_own_runtime"}) {
        for (const std::string &first : calls) {
            std::vector<std::string> words = {first};
            words.insert(words.end(), calls.begin(), calls.end());
            words.insert(words.end(), {"destroy", "create", "throws_destroy", "destroy", "create", "throws_probe,good", "alloc"});
            const std::string out = create(name, words);
            for (const std::string &call : calls) EXPECT_TRUE(has(out, call + ": ATTILE_ERROR_BACKEND_CONTRACT"));
            EXPECT_TRUE(has(out, "alloc: ATTILE_OK"));
        }
    }
}

TEST(Handshake, WhatBackendsReturnIsChecked) {
    EXPECT_TRUE(
        has(create("bad_status", {"copy"}), "copy: ATTILE_ERROR_BACKEND_CONTRACT: copy: backend 'bad_status': the backend returned 17"));
    EXPECT_TRUE(has(create("silent_status", {"copy"}),
                    "copy: ATTILE_ERROR_DEVICE_FAULT: copy: backend 'silent_status': the backend gave no reason"));
    EXPECT_TRUE(has(create("misaligned", {"alloc"}), "alloc: ATTILE_ERROR_BACKEND_CONTRACT"));
}

TEST(Handshake, OptionsAndDeviceReachTheBackend) {
    EXPECT_TRUE(has(create("good:1", {"report"}), "good:1 (" + kAll + "/libattile_backend_good.so): chosen"));
    EXPECT_TRUE(has(probe({"log", "add-directory", kAll, "create", "good:1"}), "fake create: device 1 threads 3 pool 4096"));
    EXPECT_TRUE(has(create("good:2"),
                    "ATTILE_ERROR_BACKEND_REFUSED: context_create: no backend can be used: good:2: device 2 is asked for, there are 2"));
}

TEST(Handshake, DestroyGivesBackWhatTheProgramLeft) {
    const std::string out = probe({"log", "add-directory", kAll, "create", "good", "alloc", "alloc", "free", "stream", "destroy", "alloc"});
    EXPECT_TRUE(has(out, "fake destroy: 0 allocations, 0 streams left"));
    EXPECT_TRUE(has(out, "alloc: ATTILE_ERROR_INVALID_CONTEXT: the context"));
}

TEST(Handshake, ARefusedFileIsAskedOnce) {
    const std::string out =
        probe({"log", "add-directory", kAll, "create", "misnamed", "create", "misnamed", "create", "good", "create", "good"});
    size_t calls = 0;
    for (size_t at = 0; (at = out.find("fake entry called", at)) != std::string::npos; ++at) ++calls;
    EXPECT_EQ(calls, 2u) << out;
}

TEST(Register, ALinkedBackendWorksOnce) {
    const std::string out =
        probe({"register", "linked", "register", "linked", "create", "linked", "info", "report", "register", "impostor"});
    EXPECT_TRUE(has(out, "register: ATTILE_OK"));
    EXPECT_TRUE(has(out, "register: ATTILE_ERROR_BACKEND_EXISTS: attile_register_backend: there is a backend 'linked' already"));
    EXPECT_TRUE(has(out, "register: ATTILE_ERROR_BACKEND_EXISTS: attile_register_backend: there is a backend 'reference' already"));
    EXPECT_TRUE(has(out, "backend 'linked'"));
    EXPECT_TRUE(has(out, "linked (registered by the program): chosen"));
}

TEST(Selection, TheBuiltInReferenceCannotBeReplacedByAFile) {
    EXPECT_TRUE(has(probe({"add-directory", kAll, "create", "reference", "report"}), "reference (built in): chosen"));
}

TEST(Selection, AutoReachesTheReference) {
    const std::string out = probe({"log", "create", "auto", "report"});
    EXPECT_TRUE(has(out, "create: ATTILE_OK"));
    EXPECT_TRUE(has(out, ": chosen"));
    EXPECT_TRUE(has(out, "chosen, device 0"));
}

TEST(Selection, ASingleNameIsStrict) {
    const std::string out = probe({"create", "nosuch", "alloc"});
    EXPECT_TRUE(has(out,
                    "create: ATTILE_ERROR_BACKEND_NOT_FOUND: context_create: no backend can be used: nosuch: no file "
                    "libattile_backend_nosuch.so in /"));
    EXPECT_TRUE(has(out, "alloc: ATTILE_ERROR_INVALID_CONTEXT: the context is NULL"));
}

TEST(Selection, TheLastOfAListGivesTheCode) {
    EXPECT_TRUE(has(probe({"add-directory", kAll, "create", "nosuch,refuses"}), "create: ATTILE_ERROR_BACKEND_REFUSED"));
    EXPECT_TRUE(has(probe({"add-directory", kAll, "create", "refuses,nosuch"}), "create: ATTILE_ERROR_BACKEND_NOT_FOUND"));
}

TEST(Selection, Malformed) {
    for (const char *text : {"",
                             ",",
                             "cuda,",
                             ",cuda",
                             "Cuda",
                             "cuda cpu",
                             "../cuda",
                             "/etc/passwd",
                             "./libattile_backend_good.so",
                             "cuda:",
                             "cuda:x",
                             "cuda:-1",
                             "cuda:1234567",
                             "cuda:1:2",
                             "auto:1",
                             ":1",
                             "cuda\n",
                             "a,,b",
                             "abcdefghijklmnopqrstuvwxyzabcdef",
                             "\xff\xfe"}) {
        EXPECT_TRUE(has(probe({"create", text}), "create: ATTILE_ERROR_BACKEND_SELECTION: context_create: options->backend: ")) << text;
    }
    EXPECT_TRUE(has(probe({"create", std::string(256, 'a')}), "longer than 255 bytes"));
    EXPECT_TRUE(has(probe({"create", std::string(100000, ',')}), "longer than 255 bytes"));
}

}  // namespace
}  // namespace attile::test
