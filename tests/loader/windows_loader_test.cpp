// SPDX-License-Identifier: Apache-2.0
// The loader of Windows: which directories count, which do not, and what is said of files that cannot be loaded. Paths are UTF-8
// throughout.
#include <attile/attile.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "portable.h"

namespace attile::test {
namespace {

namespace fs = std::filesystem;

constexpr const char *kFolder = "größe-数";  // no code page has both

fs::path path_of(const std::string &utf8) { return fs::path(std::u8string(utf8.begin(), utf8.end())); }
std::string utf8_of(const fs::path &path) {
    const std::u8string text = path.generic_u8string();
    return {text.begin(), text.end()};
}

void set_wide_variable(const char *name, const std::string &utf8) {
    SetEnvironmentVariableW(path_of(name).c_str(), utf8.empty() ? nullptr : path_of(utf8).c_str());
}

std::string last_error() {
    char text[2048];
    attile_last_error(text, sizeof text);
    return text;
}

std::string report() {
    std::string text(1 << 16, '\0');
    text.resize(static_cast<size_t>(attile_backend_report(text.data(), static_cast<int64_t>(text.size())) - 1));
    return text;
}

class WindowsLoader : public testing::Test {
  protected:
    WindowsLoader() : scratch_(fs::temp_directory_path() / testing::UnitTest::GetInstance()->current_test_info()->name()) {
        fs::remove_all(scratch_);
        fs::create_directories(scratch_ / path_of(kFolder));
        for (const char *name : {"ATTILE_BACKEND", "ATTILE_BACKEND_PATH", "ATTILE_LOG", "ATTILE_LOG_FILE"}) set_wide_variable(name, "");
        before_ = fs::current_path();
    }
    // The folder stays: what was loaded from it, or is open there, cannot be removed before the process ends.
    ~WindowsLoader() override { fs::current_path(before_); }

    static int32_t open(const std::string &backend) {
        attile_context_options options;
        attile_context_options_init(&options, sizeof options);
        options.backend = backend.c_str();
        attile_context *context = nullptr;
        const int32_t status = attile_context_create(&options, &context);
        attile_context_destroy(context);
        return status;
    }
    static fs::path fake(const std::string &name) { return path_of(FAKES "/all/libattile_backend_" + name + ".dll"); }
    fs::path folder() const { return scratch_ / path_of(kFolder); }
    fs::path copy(const std::string &name) const {
        const fs::path made = folder() / fake(name).filename();
        fs::copy_file(fake(name), made, fs::copy_options::overwrite_existing);
        return made;
    }

    fs::path scratch_, before_;
};

TEST_F(WindowsLoader, FindsTheBackendsBesideTheLibrary) {
    EXPECT_EQ(open("cpu"), ATTILE_OK) << last_error();
    EXPECT_NE(report().find(ATTILE_SUBDIR "/libattile_backend_cpu.dll): chosen"), std::string::npos) << report();
}

TEST_F(WindowsLoader, TakesAListOfDirectoriesInUtf8) {
    copy("good");
    set_wide_variable("ATTILE_BACKEND_PATH", "C:/nowhere;;" + utf8_of(folder()));
    EXPECT_EQ(open("good"), ATTILE_OK) << last_error();
    EXPECT_NE(report().find(std::string(kFolder) + "/libattile_backend_good.dll): chosen"), std::string::npos) << report();
}

TEST_F(WindowsLoader, TakesAnAddedDirectoryInUtf8) {
    copy("good");
    EXPECT_EQ(attile_add_backend_directory(utf8_of(folder()).c_str()), ATTILE_OK) << last_error();
    EXPECT_EQ(open("good"), ATTILE_OK) << last_error();
}

TEST_F(WindowsLoader, IgnoresWhatIsNoAbsolutePath) {
    copy("good");
    fs::current_path(folder());
    const std::string drive = utf8_of(folder().root_name()), rest = utf8_of(folder()).substr(drive.size());
    for (const std::string &directory : {std::string("."), std::string(kFolder), drive + ".", rest}) {
        set_wide_variable("ATTILE_BACKEND_PATH", directory);
        EXPECT_EQ(open("good"), ATTILE_ERROR_BACKEND_NOT_FOUND) << directory;
        EXPECT_NE(report().find("ATTILE_BACKEND_PATH: '" + directory + "' is ignored: not an absolute path"), std::string::npos)
            << report();
        EXPECT_EQ(attile_add_backend_directory(directory.c_str()), ATTILE_ERROR_INVALID_VALUE) << directory;
        EXPECT_NE(last_error().find("expected the absolute path of a directory"), std::string::npos) << last_error();
    }
    const std::string file = utf8_of(fake("good"));
    EXPECT_EQ(attile_add_backend_directory(file.c_str()), ATTILE_ERROR_INVALID_VALUE) << file;
}

TEST_F(WindowsLoader, SearchesNeitherTheCurrentDirectoryNorPath) {
    fs::current_path(path_of(FAKES "/all"));
    set_wide_variable("PATH", FAKES "/all");
    EXPECT_EQ(open("good"), ATTILE_ERROR_BACKEND_NOT_FOUND) << report();
}

// The dependency lies in the current directory and in one of PATH, where Windows looks by default.
TEST_F(WindowsLoader, FindsWhatABackendNeedsNeitherThereNorOnPath) {
    copy("needs_missing");
    ASSERT_TRUE(fs::exists(path_of(FAKES "/elsewhere/libattile_test_missing.dll")));
    fs::current_path(path_of(FAKES "/elsewhere"));
    set_wide_variable("PATH", FAKES "/elsewhere");
    set_wide_variable("ATTILE_BACKEND_PATH", utf8_of(folder()));
    EXPECT_EQ(open("needs_missing"), ATTILE_ERROR_BACKEND_LOAD) << report();
    EXPECT_NE(last_error().find("(error 126)"), std::string::npos) << last_error();
}

TEST_F(WindowsLoader, FindsWhatABackendNeedsBesideIt) {
    copy("needs_missing");
    fs::copy_file(path_of(FAKES "/elsewhere/libattile_test_missing.dll"), folder() / "libattile_test_missing.dll");
    set_wide_variable("ATTILE_BACKEND_PATH", utf8_of(folder()));
    EXPECT_EQ(open("needs_missing"), ATTILE_OK) << last_error();
}

TEST_F(WindowsLoader, SaysWhatIsWrongWithAFile) {
    set_wide_variable("ATTILE_BACKEND_PATH", utf8_of(folder()) + ";" FAKES "/all");
    std::ofstream(folder() / "libattile_backend_text.dll") << "no library";
    EXPECT_EQ(open("text"), ATTILE_ERROR_BACKEND_LOAD);
    EXPECT_NE(last_error().find("(error 193)"), std::string::npos) << last_error();
    const fs::path cut = copy("good");
    fs::resize_file(cut, fs::file_size(cut) / 3);
    fs::rename(cut, folder() / "libattile_backend_cut.dll");
    EXPECT_EQ(open("cut"), ATTILE_ERROR_BACKEND_LOAD) << report();
    fs::create_directory(folder() / "libattile_backend_folder.dll");
    EXPECT_EQ(open("folder"), ATTILE_ERROR_BACKEND_LOAD);
    EXPECT_NE(last_error().find("not a regular file"), std::string::npos) << last_error();
    EXPECT_EQ(open("no_entry"), ATTILE_ERROR_BACKEND_INCOMPATIBLE);
    EXPECT_NE(last_error().find("attile_backend_entry_v1"), std::string::npos) << last_error();
    EXPECT_EQ(open("wrong_major"), ATTILE_ERROR_BACKEND_INCOMPATIBLE) << last_error();
    EXPECT_EQ(open("throws_create"), ATTILE_ERROR_BACKEND_CONTRACT) << last_error();
    EXPECT_EQ(open("throws_own_runtime"), ATTILE_OK) << last_error();
}

TEST_F(WindowsLoader, WritesTheLogToAFileInUtf8) {
    const fs::path file = folder() / "attile.log";
    set_wide_variable("ATTILE_LOG", "debug");
    set_wide_variable("ATTILE_LOG_FILE", utf8_of(file));
    EXPECT_EQ(open("reference"), ATTILE_OK);
    std::ifstream log(file);
    const std::string text{std::istreambuf_iterator<char>(log), {}};
    EXPECT_NE(text.find("attile debug: backend 'reference'"), std::string::npos) << text;
    EXPECT_EQ(text.find('\r'), std::string::npos);
}

TEST_F(WindowsLoader, StaysLoaded) {
    const HMODULE library = GetModuleHandleW(L"libattile-1.dll");
    ASSERT_NE(library, nullptr);
    for (int i = 0; i < 100; ++i) FreeLibrary(library);
    EXPECT_EQ(GetModuleHandleW(L"libattile-1.dll"), library);
    EXPECT_GT(attile_version(), 0);
}

}  // namespace
}  // namespace attile::test
