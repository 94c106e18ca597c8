// SPDX-License-Identifier: Apache-2.0
// What lists of cases with keys and values of 8 or 4 bits are made with.
#pragma once

#include <string>
#include <vector>

#include "cases_attention_list.h"
#include "cases_quantised.h"
#include "test_element.h"

namespace attile::test {

// Types of q, k, v and the bias.
struct Types {
    std::int32_t q, k, v, bias;
};
inline std::string name_of(const Types &types) {
    std::string name = dtype_name(types.q);
    for (const std::int32_t type : {types.k, types.v}) name += std::string("_") + dtype_name(type);
    return name;
}

inline void set_types(AttentionCase &c, const Types &types) {
    c.dtype = c.out_dtype = types.q;
    c.bias_dtype = types.bias;
    c.k_storage.dtype = types.k == types.q ? 0 : types.k;
    c.v_storage.dtype = types.v == types.q ? 0 : types.v;
}

// Numbers of 4 bits lie in pairs along a row.
inline void pair_up(const CacheStorage &storage, std::int64_t *width, Layout *layout) {
    if (!is_four_bits(storage.dtype)) return;
    *width += *width % 2;
    if (layout->order == Order::kFortran) layout->order = Order::kHeadsInside;
    layout->pad += layout->pad % 2;
    layout->offset += layout->offset % 2;
    layout->step = 1;
    layout->reversed &= 7;
}
inline void pair_up(AttentionCase &c) {
    pair_up(c.k_storage, &c.head_dim, &c.k_layout);
    pair_up(c.v_storage, &c.head_dim_v, &c.v_layout);
}

// To what is of 8 or 4 bits.
inline void give_scales(AttentionCase &c, std::int64_t group, std::uint8_t axes) {
    for (CacheStorage *storage : {&c.k_storage, &c.v_storage}) {
        storage->scaled = is_quantised(storage->dtype);
        storage->group = group;
        storage->axes = axes;
    }
}

class Adder {
  public:
    Adder(std::vector<Case> &list, const Types &types) : list_(list), types_(types) {}
    // Scales: one for a token of a head unless said otherwise.
    void operator()(const std::string &name, AttentionCase c, std::int64_t group = 0, std::uint8_t axes = 7) const {
        set_types(c, types_);
        pair_up(c);
        give_scales(c, group, axes);
        list_.push_back({"attention.cache_" + name + "." + name_of(types_), c});
    }

  private:
    std::vector<Case> &list_;
    const Types &types_;
};

// Of a type of the tensor cores' kernels for few rows (cases_streamed.cpp).
void append_streamed_cases(const Adder &add);

}  // namespace attile::test
