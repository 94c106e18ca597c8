// SPDX-License-Identifier: Apache-2.0
// Status names, the last error of a thread, exceptions at the border, struct heads.
#include "status.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "args_head.h"
#include "guard.h"
#include "message.h"

namespace {

using namespace attile::core;

TEST(Status, HasANameForEveryCodeOfTheHeader) {
    int found = 0;
    for (const char *file : {"attile.h", "attile_distributed.h"}) {
        std::ifstream header(std::string(ATTILE_HEADERS) + file);
        ASSERT_TRUE(header.is_open());
        for (std::string line; std::getline(header, line);) {
            std::istringstream words(line);
            std::string directive, name;
            std::int32_t code = -1;
            if (!(words >> directive >> name >> code) || directive != "#define") continue;
            if (name != "ATTILE_OK" && !name.starts_with("ATTILE_ERROR_")) continue;
            EXPECT_EQ(attile_status_name(code), name);
            ++found;
        }
    }
    EXPECT_GE(found, 42);
    for (const int32_t code : {-1, 1, 1000, 1016, 6000, 6007, 9999, INT32_MAX, INT32_MIN})
        EXPECT_STREQ(attile_status_name(code), "ATTILE_ERROR_UNKNOWN");
    EXPECT_EQ(attile_version(), ATTILE_VERSION_MAJOR * 1000000 + ATTILE_VERSION_MINOR * 1000 + ATTILE_VERSION_PATCH);
}

TEST(LastError, IsCutToTheBufferAndTellsTheWhole) {
    EXPECT_EQ(fail(ATTILE_ERROR_INVALID_VALUE, "%s is %d", "x", 42), ATTILE_ERROR_INVALID_VALUE);
    char buffer[16];
    EXPECT_EQ(attile_last_error(buffer, sizeof buffer), 8);
    EXPECT_STREQ(buffer, "x is 42");
    std::memset(buffer, '#', sizeof buffer);
    EXPECT_EQ(attile_last_error(buffer, 4), 8);
    EXPECT_EQ(std::memcmp(buffer, "x i\0#", 5), 0);
    EXPECT_EQ(attile_last_error(buffer, 1), 8);
    EXPECT_EQ(buffer[0], '\0');
    EXPECT_EQ(attile_last_error(nullptr, 0), 8);
    EXPECT_EQ(attile_last_error(nullptr, 100), 8);
    EXPECT_EQ(attile_last_error(buffer, -5), 8);
}

TEST(LastError, BelongsToItsThread) {
    fail(ATTILE_ERROR_INVALID_VALUE, "mine");
    std::thread([] {
        char buffer[16];
        EXPECT_EQ(attile_last_error(buffer, sizeof buffer), 1);
        EXPECT_STREQ(buffer, "");
        fail(ATTILE_ERROR_INVALID_VALUE, "another's");
    }).join();
    EXPECT_STREQ(error_text(), "mine");
}

TEST(LastError, TakesLongSentencesAndItsOwnText) {
    const std::string endless(5000, 'a');
    set_error_text(endless.c_str());
    EXPECT_EQ(std::strlen(error_text()), static_cast<size_t>(kErrorCapacity - 1));
    fail(ATTILE_ERROR_INTERNAL, "%s", endless.c_str());
    EXPECT_EQ(std::strlen(error_text()), static_cast<size_t>(kErrorCapacity - 1));
    set_error_text("abcdef");
    set_error_text(error_text() + 2);
    EXPECT_STREQ(error_text(), "cdef");
    set_error_text(nullptr);
    EXPECT_STREQ(error_text(), "");
}

TEST(LastError, CanBePutBack) {
    set_error_text("before");
    const KeptError kept;
    set_error_text("between");
    kept.put_back();
    EXPECT_STREQ(error_text(), "before");
}

TEST(Guard, TurnsExceptionsIntoCodes) {
    EXPECT_EQ(guarded([]() -> int32_t { return 17; }), 17);
    EXPECT_EQ(guarded([]() -> int32_t { throw std::bad_alloc(); }), ATTILE_ERROR_OUT_OF_HOST_MEMORY);
    EXPECT_EQ(guarded([]() -> int32_t { throw std::runtime_error("why not"); }), ATTILE_ERROR_INTERNAL);
    EXPECT_NE(std::strstr(error_text(), "why not"), nullptr);
    EXPECT_EQ(guarded([]() -> int32_t { throw 3; }), ATTILE_ERROR_INTERNAL);
}

struct Example {
    uint32_t struct_size;
    uint32_t flags;
    const void *next;
    int64_t old_field;
    int64_t new_field;
};
constexpr uint32_t kFirst = 24;

int32_t read(const Example *source, Example *target) { return read_args("test", "args", kFirst, 0x3u, source, target); }

TEST(StructHead, OlderStructsGetZeroForWhatTheyLack) {
    const Example old = {kFirst, 1, nullptr, 5, 99};
    Example full;
    ASSERT_EQ(read(&old, &full), ATTILE_OK);
    EXPECT_EQ(full.struct_size, sizeof full);
    EXPECT_EQ(full.flags, 1u);
    EXPECT_EQ(full.old_field, 5);
    EXPECT_EQ(full.new_field, 0);
}

TEST(StructHead, NewerStructsWorkWhileTheirTailIsZero) {
    struct {
        Example known;
        unsigned char tail[4096];
    } newer = {{sizeof(Example) + 4096, 2, nullptr, 5, 6}, {}};
    Example full;
    ASSERT_EQ(read(&newer.known, &full), ATTILE_OK);
    EXPECT_EQ(full.new_field, 6);
    for (const size_t at : {size_t{0}, size_t{7}, sizeof newer.tail - 1}) {
        newer.tail[at] = 1;
        EXPECT_EQ(read(&newer.known, &full), ATTILE_ERROR_STRUCT_TOO_NEW) << at;
        newer.tail[at] = 0;
    }
    newer.known.struct_size += 8;
    EXPECT_EQ(read(&newer.known, &full), ATTILE_ERROR_STRUCT_SIZE) << "not a version, garbage";
}

TEST(StructHead, RefusesOthers) {
    Example full;
    EXPECT_EQ(read(nullptr, &full), ATTILE_ERROR_NULL_ARGUMENT);
    for (const uint32_t size : {0u, 1u, 16u, 23u, 25u, 0xffffffffu}) {
        const Example wrong = {size, 0, nullptr, 0, 0};
        EXPECT_EQ(read(&wrong, &full), ATTILE_ERROR_STRUCT_SIZE) << size;
    }
    const Example flags = {sizeof(Example), 4, nullptr, 0, 0}, next = {sizeof(Example), 0, &full, 0, 0};
    EXPECT_EQ(read(&flags, &full), ATTILE_ERROR_INVALID_FLAGS);
    EXPECT_EQ(read(&next, &full), ATTILE_ERROR_INVALID_FLAGS);
}

TEST(StructHead, OutputsAreFilledAsFarAsTheyReach) {
    const Example filled = {sizeof(Example), 7, &filled, 1, 2};
    Example caller = {kFirst, 0, nullptr, 0, 55};
    ASSERT_EQ(check_output("test", "out", kFirst, &caller), ATTILE_OK);
    write_output(filled, &caller);
    EXPECT_EQ(caller.struct_size, kFirst) << "the head is the caller's";
    EXPECT_EQ(caller.flags, 0u);
    EXPECT_EQ(caller.next, nullptr);
    EXPECT_EQ(caller.old_field, 1);
    EXPECT_EQ(caller.new_field, 55);
}

template <typename Args, typename Init>
void check_init(Init init) {
    struct {
        Args args;
        unsigned char fence[16];
    } made;
    std::memset(&made, 0xee, sizeof made);
    init(&made.args, sizeof made.args);
    EXPECT_EQ(made.args.struct_size, sizeof(Args));
    for (const unsigned char byte : made.fence) EXPECT_EQ(byte, 0xee);
    made.args.struct_size = 0;
    if constexpr (std::is_same_v<Args, attile_gemm_args> || std::is_same_v<Args, attile_gemm_grouped_args>) {
        EXPECT_EQ(made.args.alpha, 1.0);
        made.args.alpha = 0.0;
    }
    const unsigned char *bytes = reinterpret_cast<const unsigned char *>(&made.args);
    EXPECT_TRUE(std::all_of(bytes, bytes + sizeof(Args), [](unsigned char byte) { return byte == 0; }));
    // Sizes that no struct has, and none at all.
    init(nullptr, sizeof(Args));
    std::memset(&made, 0xee, sizeof made);
    init(&made.args, 0);
    init(&made.args, 15);
    init(&made.args, uint64_t{1} << 32);
    EXPECT_EQ(made.args.struct_size, 0xeeeeeeeeu);
    // A program built against a smaller struct.
    init(&made.args, 64);
    EXPECT_EQ(made.args.struct_size, 64u);
    EXPECT_EQ(reinterpret_cast<const unsigned char *>(&made.args)[64], 0xee);
}

TEST(StructHead, InitZeroesAndStamps) {
    check_init<attile_context_info>(attile_context_info_init);
    check_init<attile_support>(attile_support_init);
    check_init<attile_gemm_args>(attile_gemm_init);
    check_init<attile_attention_args>(attile_attention_init);
    check_init<attile_attention_backward_args>(attile_attention_backward_init);
    check_init<attile_attention_merge_args>(attile_attention_merge_init);
    check_init<attile_attention_merge_backward_args>(attile_attention_merge_backward_init);
    check_init<attile_reduce_args>(attile_reduce_init);
    check_init<attile_softmax_args>(attile_softmax_init);
    check_init<attile_quantize_args>(attile_quantize_init);
    check_init<attile_dequantize_args>(attile_dequantize_init);
    check_init<attile_repack_args>(attile_repack_init);
    check_init<attile_gemm_grouped_args>(attile_gemm_grouped_init);
    attile_context_options options;
    std::memset(&options, 0xee, sizeof options);
    attile_context_options_init(&options, sizeof options);
    EXPECT_EQ(options.struct_size, sizeof options);
    EXPECT_EQ(options.backend, nullptr);
}

TEST(Message, NamesTypesAndArguments) {
    EXPECT_STREQ(DtypeText(ATTILE_BF16).text, "bf16 (0x0410)");
    EXPECT_STREQ(DtypeText(0x7777).text, "unknown (0x7777)");
    EXPECT_STREQ(DtypeSetText(kF32).text, "f32");
    EXPECT_STREQ(DtypeSetText(kF32 | kF64).text, "f32 or f64");
    EXPECT_STREQ(DtypeSetText(kFloats | kI32 | kU8 | kBool).text, "f32, f64, f16, bf16, i32, u8 or bool");
    EXPECT_STREQ(NameText({"gemm"}, "a").text, "a");
    EXPECT_STREQ(NameText({"attention_backward", false, "forward->"}, "q").text, "forward->q");
    EXPECT_STREQ(NameText({"attention_merge"}, {"o_parts", 3}).text, "o_parts[3]");
}

}  // namespace
