// SPDX-License-Identifier: Apache-2.0
// attile generate: an attention input of any size, uniform in [-3, 3]. The same seed gives the same bytes everywhere.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "attention_file.h"
#include "cli.h"
#include "commands.h"
#include "progress.h"
#include "replace_file.h"
#include "table.h"

namespace attile::cli {
namespace {

// SplitMix64: small, has no state but a counter, and is easily written again in any language (examples/data/make_attention_data.py does).
class Uniform {
  public:
    explicit Uniform(uint64_t seed) : state_(seed) {}

    float next() {
        uint64_t z = state_ += 0x9E3779B97F4A7C15u;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        z ^= z >> 31;
        return static_cast<float>(6.0 * static_cast<double>(z >> 40) / 16777216.0 - 3.0);  // 24 bits: what a float32 can hold.
    }

  private:
    uint64_t state_;
};

}  // namespace

int run_generate(const GenerateOptions &options) {
    const AttentionFileShape shape{options.batch, options.len, options.head_dim};
    int64_t bytes = 0;
    std::string error;
    if (!attention_file_bytes(shape, bytes, error)) throw Failure(error);

    ReplaceFile file;
    if (!file.open(options.output.c_str())) throw Failure(file.error());
    unsigned char header[kAttentionHeaderBytes];
    encode_attention_header(shape, header);
    if (!file.write(header, kAttentionHeaderBytes)) throw Failure(file.error());

    Uniform uniform(options.seed);
    constexpr int64_t kFloats = 1 << 18;
    std::vector<float> buffer(kFloats);
    const int64_t total = (bytes - kAttentionHeaderBytes) / int64_t{sizeof(float)};
    {
        Progress progress("generate", bytes >> 20, "MiB");
        for (int64_t done = 0; done < total;) {
            const int64_t count = std::min(kFloats, total - done);
            std::generate_n(buffer.begin(), count, [&] { return uniform.next(); });
            little_endian_floats(buffer.data(), count);
            if (!file.write(buffer.data(), count * int64_t{sizeof(float)})) throw Failure(file.error());
            done += count;
            progress.advance(count * int64_t{sizeof(float)} >> 20);
        }
    }
    if (!file.commit()) throw Failure(file.error());
    std::FILE *const text_to = is_standard_output(options.output.c_str()) ? stderr : stdout;
    std::fprintf(text_to, "%s: B = %lld, N = %lld, d = %lld, seed %llu, %s\n", options.output.c_str(), static_cast<long long>(shape.batch),
                 static_cast<long long>(shape.len), static_cast<long long>(shape.head_dim), static_cast<unsigned long long>(options.seed),
                 bytes_text(static_cast<double>(bytes)).c_str());
    return 0;
}

}  // namespace attile::cli
