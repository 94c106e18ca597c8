// SPDX-License-Identifier: Apache-2.0
// Where attention's kernels read keys and values: in place if their layout allows it, else from a block into which they are copied (other
// storage types, wide strides, pages).
#if defined(ATTILE_CPU_ATTENTION_KEYS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_ATTENTION_KEYS_INL_H
#undef ATTILE_CPU_ATTENTION_KEYS_INL_H
#else
#define ATTILE_CPU_ATTENTION_KEYS_INL_H
#endif

#include <cmath>
#include <limits>

#include "attention/attention.h"
#include "attention/tile-inl.h"
#include "simd-inl.h"
#include "unpack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

template <class T, class S>
HWY_INLINE void copy_row(const S *from, int64_t step, int64_t count, T *to) {
    if constexpr (kIsFourBits<S>) {
        unpack(from, 0, count, to);  // side by side, as the interface wants them
    } else if constexpr (std::is_same_v<T, S> && sizeof(S) <= 2) {
        if (step == 1) {
            std::memcpy(to, from, static_cast<size_t>(count) * sizeof(S));
        } else {
            for (int64_t c = 0; c < count; ++c) to[c] = from[c * step];
        }
    } else if (step == 1) {
        const Tag<T> d;
        for (int64_t c = 0; c < count; c += kLanes<T>) store_first(d, load_as(d, from + c, count - c), to + c, count - c);
    } else {
        for (int64_t c = 0; c < count; ++c) to[c] = to_compute<T>(from[c * step]);
    }
}

// Numbers of a row times their scales, `group` side by side one each.
template <class T>
HWY_INLINE void scale_row(const float *scale, int64_t step, int64_t group, int64_t count, T *row) {
    const Tag<T> d;
    for (int64_t c = 0; c < count; c += group, scale += step) {
        const Vec<T> factor = hn::Set(d, static_cast<T>(*scale));
        const int64_t end = least(c + group, count);
        for (int64_t at = c; at < end; at += kLanes<T>)
            store_first(d, hn::Mul(load_first(d, row + at, end - at), factor), row + at, end - at);
    }
}

// Is every element of `count` rows finite? Then their products with 0 sum to 0.
template <class S, class T = std::conditional_t<sizeof(S) == 8, double, float>>
HWY_NOINLINE bool all_finite(const S *rows, int64_t step, int64_t count, int64_t width) {
    const Tag<T> d;
    Vec<T> even = hn::Zero(d), odd = hn::Zero(d);
    for (int64_t j = 0; j < count; ++j, rows += step) {
        int64_t c = 0;
        for (; c + 2 * kLanes<T> <= width; c += 2 * kLanes<T>) {
            even = hn::MulAdd(load_as(d, rows + c), hn::Zero(d), even);
            odd = hn::MulAdd(load_as(d, rows + c + kLanes<T>), hn::Zero(d), odd);
        }
        for (; c < width; c += kLanes<T>) even = hn::MulAdd(load_as(d, rows + c, width - c), hn::Zero(d), even);
    }
    return hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd))) == 0;
}

// S: what they are read as, T or their own type of 16 bits. Blocks have room for elements of T.
template <class T, class S = T>
class KeySource {
  public:
    KeySource(const attile_attention_problem &p, const AttentionEntry &entry, int64_t kv_head, T *k_block, T *v_block, uint8_t *key_hidden)
        : p_(p),
          entry_(entry),
          kv_head_(kv_head),
          k_block_(reinterpret_cast<S *>(k_block)),
          v_block_(reinterpret_cast<S *>(v_block)),
          key_hidden_(key_hidden) {
        k_in_place_ = lies_well(p.k, p.head_dim);
        v_in_place_ = lies_well(p.v, p.head_dim_v);
    }

    // Makes keys begin .. begin + count (at most kBlockKeys) readable.
    void bring(int64_t begin, int64_t count) {
        begin_ = begin;
        count_ = count;
        values_finite_ = keys_finite_ = kUnknown;
        any_hidden_ = false;
        if (!k_in_place_) fill(p_.k, p_.k_scale, p_.k_group, p_.head_dim, k_block_);
        if (!v_in_place_) fill(p_.v, p_.v_scale, p_.v_group, p_.head_dim_v, v_block_);
    }

    const S *key(int64_t j) const { return k_in_place_ ? place(p_.k, j) : k_block_ + (j - begin_) * p_.head_dim; }
    const S *value(int64_t j) const { return v_in_place_ ? place(p_.v, j) : v_block_ + (j - begin_) * p_.head_dim_v; }
    int64_t key_step() const { return k_in_place_ ? p_.k.stride[2] : p_.head_dim; }
    int64_t value_step() const { return v_in_place_ ? p_.v.stride[2] : p_.head_dim_v; }
    // The scale of each key that was brought, one for all its numbers; whether all are finite. Written up to a whole vector.
    bool scales(const attile_operand &x, T *to) const {
        bool finite = true;
        for (int64_t j = 0; j < round_up(count_, kLanes<T>); ++j) {
            int64_t at[3] = {entry_.b, kv_head_, entry_.k_start + begin_ + j};
            const bool is_there = j < count_ && locate(begin_ + j, at);
            to[j] = is_there ? static_cast<T>(*operand_at<float>(x, at[0], at[1], at[2])) : T{0};
            finite = finite && to[j] - to[j] == 0;
        }
        return finite;
    }
    // Marks of keys whose page does not exist, from key j on; NULL if there are none.
    const uint8_t *hidden(int64_t j) const { return any_hidden_ ? key_hidden_ + (j - begin_) : nullptr; }

    // Rows begin .. begin + count, to be prefetched in `panels` equal parts, each over the tiles of a panel; none where rows are copied.
    Coming keys_coming(int64_t begin, int64_t count, int64_t panels) const {
        return k_in_place_ ? coming(p_.k, p_.head_dim, begin, count, panels * tile_count(kBlockKeys)) : Coming{};
    }
    Coming values_coming(int64_t begin, int64_t count, int64_t panels) const {
        return v_in_place_ ? coming(p_.v, p_.head_dim_v, begin, count, panels * tile_count(p_.head_dim_v)) : Coming{};
    }

    bool values_finite() {
        if (values_finite_ == kUnknown) values_finite_ = rows_finite(value(begin_), value_step(), p_.head_dim_v);
        return values_finite_ == 1;
    }
    bool keys_finite() {
        if (keys_finite_ == kUnknown) keys_finite_ = rows_finite(key(begin_), key_step(), p_.head_dim);
        return keys_finite_ == 1;
    }

  private:
    static constexpr int kUnknown = -1;
    int rows_finite(const S *rows, int64_t step, int64_t width) const { return all_finite(rows, step, count_, width) ? 1 : 0; }
    bool lies_well(const attile_operand &x, int64_t width) const {
        // Rows far apart would share a few sets of the L1 cache, and take a page each.
        constexpr int64_t kFarthest = 2048 / static_cast<int64_t>(sizeof(S));
        return p_.block_table.data == nullptr && x.dtype == kDtype<S> && (x.stride[3] == 1 || width <= 1) && x.stride[2] >= 0 &&
               x.stride[2] <= kFarthest;
    }
    Coming coming(const attile_operand &x, int64_t width, int64_t begin, int64_t count, int64_t tiles) const {
        if (count <= 0 || tiles <= 0) return {};
        constexpr int64_t kSize = static_cast<int64_t>(sizeof(S));
        return {reinterpret_cast<const char *>(place(x, begin)), x.stride[2] * kSize, width * kSize, count, ceil_div(count, tiles)};
    }
    const S *place(const attile_operand &x, int64_t j) const { return operand_at<S>(x, entry_.b, kv_head_, entry_.k_start + j); }

    // Axes 0 to 2 of key j in k and v, those of an unpaged key on entry. False: its page does not exist.
    bool locate(int64_t j, int64_t (&at)[3]) const {
        if (p_.block_table.data == nullptr) return true;
        at[0] = page_of(p_, entry_.b, j);
        at[2] = j % p_.page_size;
        return at[0] >= 0;
    }

    // Scales are put to numbers that become floats.
    void fill(const attile_operand &x, const attile_operand &scale, int64_t group, int64_t width, S *block) {
        with_key_storage<T>(x.dtype, [&](auto s) HWY_ATTR {
            using From = decltype(s);
            constexpr int64_t kInElement = kIsFourBits<From> ? 2 : 1;
            if constexpr (sizeof(S) < sizeof(T) && !std::is_same_v<S, From>) return;  // read as what it is
            for (int64_t j = 0; j < count_; ++j) {
                S *row = block + j * width;
                int64_t at[3] = {entry_.b, kv_head_, entry_.k_start + begin_ + j};
                const bool is_there = locate(begin_ + j, at);
                if (p_.block_table.data != nullptr) key_hidden_[j] = !is_there;
                if (!is_there) {
                    any_hidden_ = true;
                    for (int64_t c = 0; c < width; ++c) row[c] = S{0};
                    continue;
                }
                if constexpr (sizeof(S) == sizeof(T) || std::is_same_v<S, From>) {
                    const auto *const from = static_cast<const From *>(x.data) + offset_of(x, at[0], at[1], at[2]) / kInElement;
                    copy_row<S, From>(from, x.stride[3], width, row);
                }
                if constexpr (std::is_same_v<S, float> && sizeof(From) == 1) {
                    if (scale.data != nullptr) scale_row(operand_at<float>(scale, at[0], at[1], at[2]), scale.stride[3], group, width, row);
                }
            }
        });
    }

    const attile_attention_problem &p_;
    const AttentionEntry &entry_;
    int64_t kv_head_;
    S *k_block_, *v_block_;
    uint8_t *key_hidden_;
    int64_t begin_ = 0, count_ = 0;
    bool k_in_place_, v_in_place_, any_hidden_ = false;
    int values_finite_ = kUnknown, keys_finite_ = kUnknown;
};

// sums = sums x correction + values^T weights, leaving out pairs whose score is -inf. The order of the sums is that of add_values.
template <class T>
HWY_NOINLINE void add_seen_values(int64_t head_dim_v, const T *values, int64_t value_step, int64_t count, const T *weights, const T *scores,
                                  const T *correction, T *sums) {
    const Tag<T> d;
    const Vec<T> hidden = hn::Set(d, -std::numeric_limits<T>::infinity());
    for (int64_t c = 0; c < head_dim_v; ++c) {
        for (int64_t w = 0; w < kPanel<T>; w += kLanes<T>) {
            Vec<T> acc = hn::Zero(d);
            for (int64_t j = 0; j < count; ++j) {
                const Vec<T> more = hn::MulAdd(hn::Set(d, values[j * value_step + c]), hn::Load(d, weights + j * kPanel<T> + w), acc);
                acc = hn::IfThenElse(hn::Eq(hn::Load(d, scores + j * kPanel<T> + w), hidden), acc, more);
            }
            T *sum = sums + c * kPanel<T> + w;
            hn::Store(hn::MulAdd(hn::Load(d, sum), hn::Load(d, correction + w), acc), d, sum);
        }
    }
}

// How a row ends: what its sums are multiplied by, and lse.
template <class T>
struct SoftmaxEnd {
    T factor, lse;
};

// Sink -inf: none.
template <class T>
inline SoftmaxEnd<T> softmax_end(T maximum, T sum, T sink, bool want_lse) {
    constexpr T kHidden = -std::numeric_limits<T>::infinity();
    // sink - sink is NaN if the sink is NaN or infinite: no key can change that.
    if (maximum == kHidden && sum == 0) return sink == kHidden ? SoftmaxEnd<T>{0, sink} : SoftmaxEnd<T>{sink - sink, sink + (sink - sink)};
    T factor = 1;
    if (!(sink == kHidden)) {
        const T top = maximum > sink ? maximum : sink;
        factor = std::exp(maximum - top);
        sum = sum * factor + std::exp(sink - top);
        maximum = top;
    }
    return {factor / sum, want_lse ? maximum + std::log(sum) : T{0}};
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
