// SPDX-License-Identifier: Apache-2.0
// The tensor maps that the driver made for a device's latest calls: a map depends on nothing but the address, type and shape that it was
// made of. Nobody waits: where another thread is at a place, the driver is asked as if nothing were there.
#pragma once

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
        Place &place = place_of(key);
        if (place.is_taken.test_and_set(std::memory_order_acquire)) return false;
        const bool is_found = place.is_filled && gpu::is_same(place.key, key);
        if (is_found) *map = place.map;
        place.is_taken.clear(std::memory_order_release);
        return is_found;
    }
    void keep(const Key &key, const gpu::TensorMap &map) {
        Place &place = place_of(key);
        if (place.is_taken.test_and_set(std::memory_order_acquire)) return;
        place.key = key;
        place.map = map;
        place.is_filled = true;
        place.is_taken.clear(std::memory_order_release);
    }

  private:
    struct Place {
        std::atomic_flag is_taken = ATOMIC_FLAG_INIT;
        bool is_filled = false;
        Key key;
        gpu::TensorMap map;
    };
    static constexpr std::size_t kPlaces = 256;  // As many as a step of a model has operands and layers, at least.
    Place &place_of(const Key &key) { return places_[gpu::hash_of(key) % kPlaces]; }

    std::array<Place, kPlaces> places_;
};

}  // namespace attile::cuda
