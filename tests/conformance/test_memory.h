// SPDX-License-Identifier: Apache-2.0
// Memory whose every byte a test knows, of the host or of the device.
#pragma once

#include <attile/attile.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "properties.h"

namespace attile::test {

using Bytes = std::vector<unsigned char>;

/// Memory of the host, or a copy of it on the device.
class KnownMemory {
  public:
    KnownMemory(attile_context *context, bool on_device, Bytes bytes) : context_(context), bytes_(std::move(bytes)) {
        if (!on_device || bytes_.empty()) return;
        EXPECT_TRUE(succeeded(attile_alloc(context, ATTILE_MEMORY_DEVICE, size(), &device_)));
        EXPECT_TRUE(succeeded(attile_copy(context, device_, bytes_.data(), size(), nullptr)));
    }
    ~KnownMemory() {
        if (device_ != nullptr) attile_free(context_, device_);
    }
    KnownMemory(const KnownMemory &) = delete;
    KnownMemory &operator=(const KnownMemory &) = delete;

    void *data() { return device_ != nullptr ? device_ : bytes_.data(); }
    const Bytes &fetch() {
        if (device_ != nullptr) {
            EXPECT_TRUE(succeeded(attile_copy(context_, bytes_.data(), device_, size(), nullptr)));
            EXPECT_TRUE(succeeded(attile_synchronize(context_, nullptr)));
        }
        return bytes_;
    }

  private:
    std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size()); }

    attile_context *context_;
    void *device_ = nullptr;
    Bytes bytes_;
};

/// NaN has one pattern here, and 0 one sign.
inline std::vector<float> numbers_of(const Bytes &bytes) {
    std::vector<float> numbers(bytes.size() / sizeof(float));
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
    for (float &number : numbers) number = std::isnan(number) ? 1e30f : number + 0.0f;
    return numbers;
}

}  // namespace attile::test
