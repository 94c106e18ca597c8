// SPDX-License-Identifier: Apache-2.0
// Where backends are looked for and where not, and what lies there in a backend's place.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "probe_run.h"

namespace fs = std::filesystem;

namespace attile::test {

ScratchDirectory::ScratchDirectory() {
    std::string name = ::testing::TempDir() + "attile-loader-XXXXXX";
    if (mkdtemp(name.data()) != nullptr) path_ = fs::canonical(name).string();
}
ScratchDirectory::~ScratchDirectory() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
}

namespace {

constexpr const char *kFile = "libattile_backend_odd.so";

// What selecting "odd" gives when `scratch` is searched, which holds something of that name.
void expect_load_failure(const ScratchDirectory &scratch, const std::string &words) {
    const std::string out =
        probe({"add-directory", scratch.path(), "add-directory", kAll, "create", "odd", "report", "create", "odd,good"});
    EXPECT_TRUE(has(out, "create: ATTILE_ERROR_BACKEND_LOAD: "));
    EXPECT_TRUE(has(out, words));
    EXPECT_TRUE(has(out, "odd (" + (scratch / kFile) + "): refused, ATTILE_ERROR_BACKEND_LOAD"));
    EXPECT_TRUE(has(out, "create: ATTILE_OK"));
}

TEST(Files, AnEmptyFile) {
    const ScratchDirectory scratch;
    std::ofstream(scratch / kFile).flush();
    expect_load_failure(scratch, "file too short");
}

TEST(Files, ATextFile) {
    const ScratchDirectory scratch;
    std::ofstream(scratch / kFile) << std::string(10000, '#');
    expect_load_failure(scratch, "invalid ELF header");
}

TEST(Files, HalfAnElfFile) {
    const ScratchDirectory scratch;
    fs::copy_file(kAll + "/libattile_backend_good.so", scratch / kFile);
    fs::resize_file(scratch / kFile, 600);
    expect_load_failure(scratch, kFile);
}

TEST(Files, ADirectory) {
    const ScratchDirectory scratch;
    fs::create_directory(scratch / kFile);
    expect_load_failure(scratch, "not a regular file");
}

TEST(Files, APipeDoesNotHang) {
    const ScratchDirectory scratch;
    ASSERT_EQ(mkfifo((scratch / kFile).c_str(), 0600), 0);
    expect_load_failure(scratch, "not a regular file");
}

TEST(Files, ADanglingLink) {
    const ScratchDirectory scratch;
    fs::create_symlink("/nonexistent/file", scratch / kFile);
    expect_load_failure(scratch, "No such file or directory");
}

TEST(Files, ALinkToABackendIsABackend) {
    const ScratchDirectory scratch;
    fs::create_symlink(kAll + "/libattile_backend_good.so", scratch / "libattile_backend_good.so");
    EXPECT_TRUE(has(probe({"add-directory", scratch.path(), "create", "good"}), "create: ATTILE_OK"));
}

TEST(Files, TheFirstDirectoryWins) {
    const std::string first = kFakes + "/first", second = kFakes + "/second";
    EXPECT_TRUE(has(probe({"add-directory", second, "add-directory", first, "create", "twin", "info"}), "version 'first'"));
    EXPECT_TRUE(has(probe({"create", "twin", "info"}, {{"ATTILE_BACKEND_PATH", first + ":" + second}}), "version 'first'"));
    EXPECT_TRUE(has(probe({"create", "twin", "info"}, {{"ATTILE_BACKEND_PATH", second + ":" + first}}), "version 'second'"));
    EXPECT_TRUE(has(probe({"add-directory", first, "create", "twin", "info"}, {{"ATTILE_BACKEND_PATH", second}}), "version 'first'"))
        << "a directory that the program added goes before the variable's";
    EXPECT_TRUE(
        has(probe({"add-directory", first, "create", "twin", "add-directory", second, "create", "twin", "info"}), "version 'first'"))
        << "what is loaded is not replaced";
}

TEST(Files, ABadFileDoesNotHideAGoodOneInALaterDirectory) {
    const std::string out =
        probe({"create", "twin", "info", "report"}, {{"ATTILE_BACKEND_PATH", kFakes + "/broken:" + kFakes + "/second"}});
    EXPECT_TRUE(has(out, "version 'second'"));
    EXPECT_TRUE(has(out, "twin (" + kFakes + "/broken/libattile_backend_twin.so): refused, ATTILE_ERROR_BACKEND_INCOMPATIBLE"));
    EXPECT_TRUE(has(out, "twin (" + kFakes + "/second/libattile_backend_twin.so): chosen"));
}

TEST(Files, ADirectoryAddedLaterIsSearched) {
    const std::string out = probe({"create", "good", "add-directory", kAll, "create", "good"});
    EXPECT_TRUE(has(out, "create: ATTILE_ERROR_BACKEND_NOT_FOUND"));
    EXPECT_TRUE(has(out, "create: ATTILE_OK"));
}

TEST(Files, OnlyAbsoluteDirectoriesCanBeAdded) {
    for (const std::string &path : {std::string("."), std::string(""), std::string("all"), std::string("/nonexistent"),
                                    kAll + "/libattile_backend_good.so", "/" + std::string(5000, 'a')}) {
        EXPECT_TRUE(
            has(probe({"add-directory", path}), "add-directory: ATTILE_ERROR_INVALID_VALUE: attile_add_backend_directory: path is "));
    }
}

// loader_probe lies in kAll too, so this covers the executable's directory as well.
TEST(Files, NeitherTheCurrentNorTheProgramsDirectoryIsSearched) {
    const std::string out = probe({"create", "good", "chdir", kAll, "create", "good"}, {}, kAll);
    EXPECT_TRUE(lacks(out, "create: ATTILE_OK"));
    EXPECT_TRUE(has(out, "create: ATTILE_ERROR_BACKEND_NOT_FOUND"));
}

TEST(Files, BesideTheResolvedLibrary) {
    const ScratchDirectory scratch;
    fs::create_directories(scratch / ("real/" ATTILE_SUBDIR));
    fs::create_directories(scratch / "links");
    fs::copy_file(fs::canonical(ATTILE_LIBRARY), scratch / "real/libattile.so.1.0.0");
    fs::create_symlink(scratch / "real/libattile.so.1.0.0", scratch / "links/libattile.so.1");
    fs::copy_file(kFakes + "/beside/libattile_backend_besides.so", scratch / ("real/" ATTILE_SUBDIR "/libattile_backend_besides.so"));
    const std::string out = probe({"create", "besides", "report"}, {{"LD_LIBRARY_PATH", scratch / "links"}});
    EXPECT_TRUE(has(out, "besides (" + (scratch / ("real/" ATTILE_SUBDIR "/libattile_backend_besides.so")) + "): chosen"));
}

// A relative name is resolved against a directory that somebody else may have chosen since.
TEST(Files, NotBesideALibraryLoadedByARelativeName) {
    const ScratchDirectory scratch;
    fs::create_directories(scratch / ("lib/" ATTILE_SUBDIR));
    fs::copy_file(fs::canonical(ATTILE_LIBRARY), scratch / "lib/libattile.so.1");
    fs::copy_file(kFakes + "/beside/libattile_backend_besides.so", scratch / ("lib/" ATTILE_SUBDIR "/libattile_backend_besides.so"));
    const std::string out = probe({"create", "besides", "report"}, {{"LD_LIBRARY_PATH", "lib"}}, scratch.path());
    EXPECT_TRUE(has(out, "create: ATTILE_ERROR_BACKEND_NOT_FOUND"));
    EXPECT_TRUE(has(out, "libattile was loaded by the relative path lib/libattile.so.1"));
}

}  // namespace
}  // namespace attile::test
