// SPDX-License-Identifier: Apache-2.0
// Short vectors that load and store in one access of up to 16 bytes. The address must be aligned to the vector's size: is_aligned() tells.
#pragma once

#include "lane.h"

namespace attile::gpu {

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Vec {
    static_assert(sizeof(T) * kCount <= 16 && (kCount & (kCount - 1)) == 0, "at most one 16-byte access");
    T at[kCount];
    __host__ __device__ __forceinline__ T &operator[](int i) { return at[i]; }
    __host__ __device__ __forceinline__ const T &operator[](int i) const { return at[i]; }
};

namespace vec_detail {
template <int kBytes>
struct Raw;
template <>
struct Raw<1> {
    using type = unsigned char;
};
template <>
struct Raw<2> {
    using type = unsigned short;
};
template <>
struct Raw<4> {
    using type = uint32_t;
};
#if defined(ATTILE_GPU_HIP)
template <>
struct Raw<8> {
    using type = uint64_t;
};
// The compiler's own vectors, of as many elements: HIP's uint4 is a class with a union inside, and of elements of another size, too, a
// vector is put together in scratch memory.
template <class T, int kCount>
struct RawOf {
    using type = typename Raw<sizeof(T)>::type __attribute__((ext_vector_type(kCount)));
};
template <class T>
struct RawOf<T, 1> {
    using type = typename Raw<sizeof(T)>::type;
};
#else
template <>
struct Raw<8> {
    using type = uint2;
};
template <>
struct Raw<16> {
    using type = uint4;
};
template <class T, int kCount>
struct RawOf {
    using type = typename Raw<sizeof(T) * kCount>::type;
};
#endif
}  // namespace vec_detail

template <int kCount, class T>
ATTILE_LANE_FN Vec<T, kCount> load_vec(const T *address) {
    using Raw = typename vec_detail::RawOf<T, kCount>::type;
    const Raw raw = *reinterpret_cast<const Raw *>(address);
    Vec<T, kCount> value;
    copy_bits(value, raw);
    return value;
}

// Memory is sent for that will be loaded soon; costs no register, and the address may be any.
ATTILE_LANE_FN void prefetch(const void *address) {
#if defined(ATTILE_GPU_HIP) || defined(ATTILE_GPU_EMULATED)
    static_cast<void>(address);
#else
    asm volatile("prefetch.global.L1 [%0];" ::"l"(address));
#endif
}

// As load_vec, of memory that nobody writes while the kernel runs: may go through the read-only cache.
template <int kCount, class T>
ATTILE_LANE_FN Vec<T, kCount> load_vec_const(const T *address) {
    using Raw = typename vec_detail::RawOf<T, kCount>::type;
#if defined(ATTILE_GPU_HIP)
    const Raw raw = *reinterpret_cast<const Raw *>(address);
#else
    const Raw raw = __ldg(reinterpret_cast<const Raw *>(address));
#endif
    Vec<T, kCount> value;
    copy_bits(value, raw);
    return value;
}

template <int kCount, class T>
ATTILE_LANE_FN void store_vec(T *address, const Vec<T, kCount> &value) {
    using Raw = typename vec_detail::RawOf<T, kCount>::type;
    Raw raw;
    copy_bits(raw, value);
    *reinterpret_cast<Raw *>(address) = raw;
}

// As load_vec, of memory not to be read again: it need not stay in the caches.
template <int kCount, class T>
ATTILE_LANE_FN Vec<T, kCount> load_vec_last(const T *address) {
#if defined(ATTILE_GPU_HIP)
    return load_vec<kCount>(address);
#else
    using Raw = typename vec_detail::RawOf<T, kCount>::type;
    const Raw raw = __ldcs(reinterpret_cast<const Raw *>(address));
    Vec<T, kCount> value;
    copy_bits(value, raw);
    return value;
#endif
}

// As store_vec, of memory not to be read soon.
template <int kCount, class T>
ATTILE_LANE_FN void store_vec_last(T *address, const Vec<T, kCount> &value) {
#if defined(ATTILE_GPU_HIP)
    store_vec(address, value);
#else
    using Raw = typename vec_detail::RawOf<T, kCount>::type;
    Raw raw;
    copy_bits(raw, value);
    __stcs(reinterpret_cast<Raw *>(address), raw);
#endif
}

// Host and device: may `address` and steps of `stride_bytes` from it be accessed `bytes` at a time?
inline __host__ __device__ bool is_aligned(const void *address, int bytes) {
    return reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(bytes) == 0;
}

}  // namespace attile::gpu
