// SPDX-License-Identifier: Apache-2.0
// The attention file format and its reader. Little-endian: int32 B, N, d, all at least 1; then for each of the B batches Q, K and V of N*d
// float32 each. A result file is B*N*d float32, nothing else.
//
// Nothing here throws, but for std::bad_alloc when not even an error sentence fits: every function that can fail returns false and leaves
// the sentence in error(). Memory used does not depend on what a file claims, so any bytes at all may be handed to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace attile::cli {

struct AttentionFileShape {
    int64_t batch = 0;
    int64_t len = 0;
    int64_t head_dim = 0;

    int64_t matrix_floats() const { return len * head_dim; }      // One of Q, K, V or the result of one batch.
    int64_t batch_floats() const { return 3 * matrix_floats(); }  // Q, K and V of one batch.
};

inline constexpr int64_t kAttentionHeaderBytes = 12;

// Bytes of the file that holds this shape; false, with a sentence, if an extent is below 1 or beyond int32, or the size beyond 63 bits.
bool attention_file_bytes(const AttentionFileShape &shape, int64_t &bytes, std::string &error);

// The header as it stands in the file. The shape must have passed attention_file_bytes().
void encode_attention_header(const AttentionFileShape &shape, unsigned char (&header)[kAttentionHeaderBytes]);

// Turns floats as they stand in a file into the machine's, or back; does nothing on a little-endian machine.
void little_endian_floats(float *values, int64_t count);

class AttentionReader {
  public:
    AttentionReader() = default;
    ~AttentionReader();
    AttentionReader(const AttentionReader &) = delete;
    AttentionReader &operator=(const AttentionReader &) = delete;

    // Opens a file and checks its header; of a regular file also that its size is exactly what the header promises, and at most
    // `max_bytes`. A pipe is read as it comes.
    bool open(const char *path, int64_t max_bytes = INT64_MAX);

    const AttentionFileShape &shape() const { return shape_; }
    int64_t bytes() const { return bytes_; }

    // Reads the next `batches` batches, batch_floats() each. Asking for more than are left is an error.
    bool read(int64_t batches, float *values);

    // Rows of a matrix, 0 for Q, 1 for K and 2 for V, of any batch of a regular file, whatever read() has read. Several may be read at once
    // by readers of their own.
    bool read_rows(int64_t batch, int matrix, int64_t first, int64_t count, float *values);
    bool is_regular() const { return regular_; }

    // After the last batch: is there nothing more?
    bool finish();

    const std::string &error() const { return error_; }

    // Is `path` the very file that is open? False if it does not exist.
    bool is_same_file(const char *path) const;

  private:
    bool fail(const std::string &what);
    bool read_bytes(void *destination, int64_t count, int64_t &got);

    int file_ = -1;
    bool regular_ = false;
    std::string path_;
    std::string error_;
    AttentionFileShape shape_;
    int64_t bytes_ = 0;
    int64_t batches_left_ = 0;
};

}  // namespace attile::cli
