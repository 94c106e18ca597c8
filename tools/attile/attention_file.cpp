// SPDX-License-Identifier: Apache-2.0
// Reader of the attention file format. Every number in a file is checked before it is used for anything.
#include "attention_file.h"

#include <bit>
#include <cerrno>
#include <cstring>

#include "file.h"

namespace attile::cli {
namespace {

std::string shape_text(const AttentionFileShape &shape) {
    return "B = " + std::to_string(shape.batch) + ", N = " + std::to_string(shape.len) + ", d = " + std::to_string(shape.head_dim);
}

std::string quoted(const std::string &path) { return "'" + path + "'"; }

int32_t decode_int32(const unsigned char *bytes) {
    const uint32_t value = uint32_t{bytes[0]} | uint32_t{bytes[1]} << 8 | uint32_t{bytes[2]} << 16 | uint32_t{bytes[3]} << 24;
    return std::bit_cast<int32_t>(value);
}

void encode_int32(int64_t value, unsigned char *bytes) {
    for (int i = 0; i < 4; ++i) bytes[i] = static_cast<unsigned char>(static_cast<uint64_t>(value) >> (8 * i));
}

}  // namespace

bool attention_file_bytes(const AttentionFileShape &shape, int64_t &bytes, std::string &error) {
    for (int64_t extent : {shape.batch, shape.len, shape.head_dim}) {
        if (extent < 1 || extent > INT32_MAX) {
            error = "B, N and d must be from 1 to 2147483647; here " + shape_text(shape);
            return false;
        }
    }
    int64_t size = 0;
    if (__builtin_mul_overflow(shape.len * shape.head_dim, int64_t{3 * sizeof(float)}, &size) ||
        __builtin_mul_overflow(size, shape.batch, &size) || __builtin_add_overflow(size, kAttentionHeaderBytes, &size)) {
        error = "B N d is too large for any file: " + shape_text(shape);
        return false;
    }
    bytes = size;
    return true;
}

void encode_attention_header(const AttentionFileShape &shape, unsigned char (&header)[kAttentionHeaderBytes]) {
    encode_int32(shape.batch, header);
    encode_int32(shape.len, header + 4);
    encode_int32(shape.head_dim, header + 8);
}

void little_endian_floats(float *values, int64_t count) {
    if constexpr (std::endian::native == std::endian::big) {
        for (int64_t i = 0; i < count; ++i) {
            const uint32_t bits = std::bit_cast<uint32_t>(values[i]);
            values[i] = std::bit_cast<float>(__builtin_bswap32(bits));
        }
    } else {
        static_cast<void>(values);
        static_cast<void>(count);
    }
}

AttentionReader::~AttentionReader() {
    if (file_ >= 0) close_file(file_);
}

bool AttentionReader::fail(const std::string &what) {
    error_ = quoted(path_) + " " + what;
    return false;
}

// `got` falls short of `count` only at the end of the file.
bool AttentionReader::read_bytes(void *destination, int64_t count, int64_t &got) {
    auto *to = static_cast<unsigned char *>(destination);
    got = 0;
    while (got < count) {
        const int64_t n = read_on(file_, to + got, count - got);
        if (n < 0) return fail(std::string("cannot be read: ") + std::strerror(errno));
        if (n == 0) break;
        got += n;
    }
    return true;
}

bool AttentionReader::open(const char *path, int64_t max_bytes) {
    path_ = path;
    if (file_ >= 0) return fail("is opened twice by one reader");
    file_ = open_to_read(path);
    if (file_ < 0 && errno == EISDIR) return fail("is a directory, not an attention file");
    if (file_ < 0) return fail(std::string("cannot be opened: ") + std::strerror(errno));
    FileFacts facts;
    if (!facts_of_file(file_, facts)) return fail(std::string("cannot be examined: ") + std::strerror(errno));
    if (facts.is_directory) return fail("is a directory, not an attention file");
    regular_ = facts.is_regular;
    if (regular_ && facts.bytes == 0) return fail("is empty");

    unsigned char header[kAttentionHeaderBytes];
    int64_t got = 0;
    if (!read_bytes(header, kAttentionHeaderBytes, got)) return false;
    if (got == 0) return fail("is empty");
    if (got < kAttentionHeaderBytes)
        return fail("is too short for an attention file: the header takes 12 bytes, it has " + std::to_string(got));

    const AttentionFileShape shape{decode_int32(header), decode_int32(header + 4), decode_int32(header + 8)};
    int64_t expected = 0;
    std::string why;
    if (!attention_file_bytes(shape, expected, why)) return fail("has a header that makes no sense: " + why);
    if (expected > max_bytes)
        return fail("is larger than the limit of " + std::to_string(max_bytes) + " bytes: its header (" + shape_text(shape) +
                    ") asks for " + std::to_string(expected));
    if (regular_ && facts.bytes != expected)
        return fail(std::string(facts.bytes < expected ? "is truncated" : "has bytes after its end") + ": its header (" +
                    shape_text(shape) + ") asks for " + std::to_string(expected) + " bytes, it has " + std::to_string(facts.bytes));
    shape_ = shape;
    bytes_ = expected;
    batches_left_ = shape.batch;
    return true;
}

bool AttentionReader::read(int64_t batches, float *values) {
    if (batches < 0 || batches > batches_left_)
        return fail("has " + std::to_string(batches_left_) + " batches left, not " + std::to_string(batches));
    const int64_t floats = batches * shape_.batch_floats();  // Fits: attention_file_bytes() computed more.
    const int64_t want = floats * int64_t{sizeof(float)};
    int64_t got = 0;
    if (!read_bytes(values, want, got)) return false;
    if (got < want)
        return fail("is truncated: its header (" + shape_text(shape_) + ") asks for " + std::to_string(bytes_) + " bytes, it ends " +
                    std::to_string(want - got + (batches_left_ - batches) * shape_.batch_floats() * int64_t{sizeof(float)}) + " short");
    batches_left_ -= batches;
    little_endian_floats(values, floats);
    return true;
}

bool AttentionReader::read_rows(int64_t batch, int matrix, int64_t first, int64_t count, float *values) {
    if (!regular_) return fail("is not a regular file, of which rows can be read");
    if (batch < 0 || batch >= shape_.batch || matrix < 0 || matrix > 2 || first < 0 || count < 0 || first > shape_.len - count)
        return fail("has no rows " + std::to_string(first) + " to " + std::to_string(first + count) + " of matrix " +
                    std::to_string(matrix) + " of batch " + std::to_string(batch));
    const int64_t floats = count * shape_.head_dim, want = floats * int64_t{sizeof(float)};
    const int64_t start =
        kAttentionHeaderBytes + ((batch * 3 + matrix) * shape_.matrix_floats() + first * shape_.head_dim) * int64_t{sizeof(float)};
    auto *to = reinterpret_cast<unsigned char *>(values);
    for (int64_t got = 0; got < want;) {
        const int64_t n = read_at(file_, to + got, want - got, start + got);
        if (n < 0) return fail(std::string("cannot be read: ") + std::strerror(errno));
        if (n == 0) return fail("is truncated: it has become shorter since it was opened");
        got += n;
    }
    little_endian_floats(values, floats);
    return true;
}

bool AttentionReader::finish() {
    unsigned char more = 0;
    int64_t got = 0;
    if (batches_left_ > 0) return fail("has batches that were not read");
    if (!read_bytes(&more, 1, got)) return false;
    if (got > 0)
        return fail("has bytes after its end: its header (" + shape_text(shape_) + ") asks for " + std::to_string(bytes_) + " bytes");
    return true;
}

bool AttentionReader::is_same_file(const char *path) const {
    FileFacts mine, other;
    return file_ >= 0 && facts_of_file(file_, mine) && facts_of_path(path, other) && mine.device == other.device &&
           mine.number == other.number;
}

}  // namespace attile::cli
