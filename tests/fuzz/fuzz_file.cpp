// SPDX-License-Identifier: Apache-2.0
// The reader of attention files: any bytes, as a regular file and as a pipe, are read to their end or refused with a sentence.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "attention_file.h"
#include "fuzz_input.h"

namespace {

using attile::cli::AttentionReader;

constexpr int64_t kMostFloats = 1 << 16;  // of a batch that is worth memory here; a pipe's header may claim more

// True if the whole was read without an error.
bool read_all(int file) {
    AttentionReader reader;
    const std::string path = "/proc/self/fd/" + std::to_string(file);
    if (!reader.open(path.c_str())) {
        ATTILE_FUZZ_CHECK(!reader.error().empty());
        return false;
    }
    const int64_t floats = reader.shape().batch_floats();
    ATTILE_FUZZ_CHECK(reader.shape().batch >= 1 && reader.shape().len >= 1 && reader.shape().head_dim >= 1);
    if (floats > kMostFloats) return false;
    std::vector<float> values(static_cast<size_t>(floats));
    for (int64_t batch = 0; batch < reader.shape().batch; ++batch) {
        if (!reader.read(1, values.data())) {
            ATTILE_FUZZ_CHECK(!reader.error().empty());
            return false;
        }
    }
    ATTILE_FUZZ_CHECK(!reader.read(1, values.data()));
    return reader.finish();
}

bool exact_size(const uint8_t *data, size_t size) {
    if (size < static_cast<size_t>(attile::cli::kAttentionHeaderBytes)) return false;
    int32_t header[3];
    std::memcpy(header, data, sizeof header);
    const attile::cli::AttentionFileShape shape = {header[0], header[1], header[2]};
    int64_t bytes = 0;
    std::string error;
    return attile::cli::attention_file_bytes(shape, bytes, error) && bytes == static_cast<int64_t>(size);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const int file = memfd_create("attention", 0);
    ATTILE_FUZZ_CHECK(file >= 0);
    ATTILE_FUZZ_CHECK(write(file, data, size) == static_cast<ssize_t>(size));
    ATTILE_FUZZ_CHECK(read_all(file) == exact_size(data, size));
    close(file);

    // What fits into a pipe's buffer can be written before anybody reads.
    constexpr size_t kPipe = 4096;
    int ends[2];
    ATTILE_FUZZ_CHECK(pipe(ends) == 0);
    const size_t sent = std::min(size, kPipe);
    ATTILE_FUZZ_CHECK(write(ends[1], data, sent) == static_cast<ssize_t>(sent));
    close(ends[1]);
    read_all(ends[0]);
    close(ends[0]);
    return 0;
}
