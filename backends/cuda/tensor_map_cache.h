// SPDX-License-Identifier: Apache-2.0
// The tensor maps that the driver made for a device's latest calls: a map depends on nothing but the address, type and shape that it was
// made of. Nobody waits: where another thread is at a set, the driver is asked as if nothing were there.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "host/plan_cache.h"
#include "tensor_map.h"

namespace attile::cuda {

class TensorMapCache {
  public:
    // Without padding, as keys are compared byte by byte.
    struct Key {
        const void *data = nullptr;
        int32_t dtype = 0, axes = 0;
        int64_t extent[gpu::kMostAxes] = {}, stride[gpu::kMostAxes] = {};
        int32_t box[gpu::kMostAxes] = {};
        int32_t is_fetched_by_lines = 0;

        Key() = default;
        Key(const void *at, int32_t type, const gpu::TensorMapShape &shape)
            : data(at), dtype(type), axes(shape.axes), is_fetched_by_lines(shape.is_fetched_by_lines ? 1 : 0) {
            for (int i = 0; i < shape.axes; ++i) {
                extent[i] = shape.extent[i];
                stride[i] = i > 0 ? shape.stride[i] : 0;
                box[i] = shape.box[i];
            }
        }
    };

    bool find(const Key &key, gpu::TensorMap *map) {
        Set &set = set_of(key);
        if (set.is_taken.test_and_set(std::memory_order_acquire)) return false;
        const auto *const found =
            std::find_if(set.kept.begin(), set.kept.end(), [&](const Kept &each) { return each.is_filled && gpu::is_same(each.key, key); });
        const bool is_found = found != set.kept.end();
        if (is_found) *map = found->map;
        set.is_taken.clear(std::memory_order_release);
        return is_found;
    }
    void keep(const Key &key, const gpu::TensorMap &map) {
        Set &set = set_of(key);
        if (set.is_taken.test_and_set(std::memory_order_acquire)) return;
        set.kept[set.oldest] = {true, key, map};
        set.oldest = (set.oldest + 1) % kOfSet;
        set.is_taken.clear(std::memory_order_release);
    }

  private:
    struct Kept {
        bool is_filled = false;
        Key key;
        gpu::TensorMap map;
    };
    // As many as a step of a model has operands and layers, at least. In sets, for of single places two operands of a call would now and
    // then share one, and both maps be made anew in every call.
    static constexpr std::size_t kSets = 64, kOfSet = 4;
    struct Set {
        std::atomic_flag is_taken = ATOMIC_FLAG_INIT;
        std::size_t oldest = 0;
        std::array<Kept, kOfSet> kept;
    };
    Set &set_of(const Key &key) { return sets_[gpu::hash_of(key) % kSets]; }

    std::array<Set, kSets> sets_;
};

}  // namespace attile::cuda
