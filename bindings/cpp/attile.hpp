// SPDX-License-Identifier: Apache-2.0
/**
 * @file attile.hpp
 * @brief C++17 skin over attile.h: ownership, views of contiguous ranges, and errors as values or as exceptions.
 *
 * Everything here is inline and adds no state of its own. Each call exists twice: `try_gemm` and the like return a Status that must be
 * looked at and never throw; the plain names throw Error. Define ATTILE_NO_EXCEPTIONS (or compile with -fno-exceptions) to have the first
 * kind only. The formulas, shapes and rules are those of attile.h; args structs are its own, initialised.
 */
#ifndef ATTILE_ATTILE_HPP
#define ATTILE_ATTILE_HPP

#include <attile/attile.h>

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>

#if !defined(ATTILE_NO_EXCEPTIONS) && !defined(__cpp_exceptions)
#define ATTILE_NO_EXCEPTIONS
#endif
#ifndef ATTILE_NO_EXCEPTIONS
#include <stdexcept>
#endif

namespace attile {

/** The calling thread's last error sentence. */
inline std::string last_error() {
    std::string text(static_cast<std::size_t>(attile_last_error(nullptr, 0)), '\0');
    attile_last_error(text.data(), static_cast<int64_t>(text.size()));
    text.resize(text.empty() ? 0 : text.size() - 1);
    return text;
}

/** Every backend tried so far and why it was taken or refused. */
inline std::string backend_report() {
    std::string text(static_cast<std::size_t>(attile_backend_report(nullptr, 0)), '\0');
    const int64_t needed = attile_backend_report(text.data(), static_cast<int64_t>(text.size()));
    if (needed <= static_cast<int64_t>(text.size())) text.resize(static_cast<std::size_t>(needed) - 1);
    return text;
}

#ifndef ATTILE_NO_EXCEPTIONS
/** A failed call: the code and the library's sentence. */
class Error : public std::runtime_error {
  public:
    /** Of a status and its sentence. */
    Error(int32_t code, const std::string &message)
        : std::runtime_error(std::string(attile_status_name(code)) + ": " + message), code_(code), message_(message) {}
    int32_t code() const noexcept { return code_; }                  /**< ATTILE_ERROR_ code. */
    const std::string &message() const noexcept { return message_; } /**< The sentence alone. */

  private:
    int32_t code_;
    std::string message_;
};
#endif

/** Outcome of a call. The sentence is fetched when asked for, so ask before this thread's next failure. */
class [[nodiscard]] Status {
  public:
    constexpr Status() noexcept = default;
    /** Of a code that a C function returned. */
    constexpr explicit Status(int32_t code) noexcept : code_(code) {}
    constexpr bool ok() const noexcept { return code_ == ATTILE_OK; }           /**< True on success. */
    constexpr explicit operator bool() const noexcept { return ok(); }          /**< True on success. */
    constexpr int32_t code() const noexcept { return code_; }                   /**< ATTILE_OK or a code. */
    const char *name() const noexcept { return attile_status_name(code_); }     /**< The code's name. */
    std::string message() const { return ok() ? std::string() : last_error(); } /**< The library's sentence. */
#ifndef ATTILE_NO_EXCEPTIONS
    /** Throws Error unless ok. */
    void or_throw() const {
        if (!ok()) throw Error(code_, last_error());
    }
#endif

  private:
    int32_t code_ = ATTILE_OK;
};

/** The dtype of a C++ element type. Specialise it for your types of 16 bits and your floats of 8. */
template <class T>
struct dtype_of;
template <>
struct dtype_of<float> : std::integral_constant<int32_t, ATTILE_F32> {};
template <>
struct dtype_of<double> : std::integral_constant<int32_t, ATTILE_F64> {};
template <>
struct dtype_of<int32_t> : std::integral_constant<int32_t, ATTILE_I32> {};
template <>
struct dtype_of<int64_t> : std::integral_constant<int32_t, ATTILE_I64> {};
template <>
struct dtype_of<int8_t> : std::integral_constant<int32_t, ATTILE_I8> {};
template <>
struct dtype_of<uint8_t> : std::integral_constant<int32_t, ATTILE_U8> {};
template <>
struct dtype_of<bool> : std::integral_constant<int32_t, ATTILE_BOOL> {};

/**
 * A dense row-major view of `data`. Change `stride` afterwards for another layout.
 * Wrong shapes are found by the call that uses the view, with the sentence that names the argument.
 */
template <class T>
attile_tensor view(T *data, std::initializer_list<int64_t> shape) noexcept {
    attile_tensor tensor{};
    tensor.data = const_cast<std::remove_const_t<T> *>(data);
    tensor.dtype = dtype_of<std::remove_const_t<T>>::value;
    tensor.rank = static_cast<int32_t>(shape.size());
    int64_t i = 0;
    for (const int64_t extent : shape) {
        if (i < 4) tensor.shape[i] = extent;
        ++i;
    }
    int64_t stride = 1;
    for (int64_t axis = (i < 4 ? i : 4) - 1; axis >= 0; --axis) {
        tensor.stride[axis] = stride;
        // An extent out of range is reported by the call; here it must only not overflow.
        stride = static_cast<int64_t>(static_cast<uint64_t>(stride) * static_cast<uint64_t>(tensor.shape[axis]));
    }
    return tensor;
}

/** The same of a contiguous range: std::span, std::vector, std::array. The range must hold at least the product of the extents. */
template <class Range, class T = std::remove_pointer_t<decltype(std::data(std::declval<Range &>()))>>
attile_tensor view(Range &&range, std::initializer_list<int64_t> shape) noexcept {
    attile_tensor tensor = view<T>(std::data(range), shape);
    uint64_t elements = 1;
    for (const int64_t extent : shape) elements = extent < 0 ? UINT64_MAX : elements * static_cast<uint64_t>(extent);
    // A range too short becomes a view of no memory, which every call refuses by name.
    if (elements > std::size(range)) tensor.data = nullptr;
    return tensor;
}

namespace detail {
template <class Args, void (*Init)(Args *, uint64_t)>
struct Initialised : Args {
    Initialised() noexcept { Init(this, sizeof(Args)); }
};
}  // namespace detail

using ContextOptions = detail::Initialised<attile_context_options, attile_context_options_init>; /**< Zeroed and stamped. */
using ContextInfo = detail::Initialised<attile_context_info, attile_context_info_init>;          /**< Zeroed and stamped. */
using Support = detail::Initialised<attile_support, attile_support_init>;                        /**< Zeroed and stamped. */
using GemmArgs = detail::Initialised<attile_gemm_args, attile_gemm_init>;                        /**< Zeroed and stamped, alpha 1. */
using GemmGroupedArgs = detail::Initialised<attile_gemm_grouped_args, attile_gemm_grouped_init>; /**< Likewise. */
using AttentionArgs = detail::Initialised<attile_attention_args, attile_attention_init>;         /**< Zeroed and stamped. */
using AttentionBackwardArgs = detail::Initialised<attile_attention_backward_args, attile_attention_backward_init>; /**< Likewise. */
using AttentionMergeArgs = detail::Initialised<attile_attention_merge_args, attile_attention_merge_init>;          /**< Likewise. */
using AttentionMergeBackwardArgs =
    detail::Initialised<attile_attention_merge_backward_args, attile_attention_merge_backward_init>;      /**< Likewise. */
using ReduceArgs = detail::Initialised<attile_reduce_args, attile_reduce_init>;                           /**< Zeroed and stamped. */
using SoftmaxArgs = detail::Initialised<attile_softmax_args, attile_softmax_init>;                        /**< Zeroed and stamped. */
using QuantizeArgs = detail::Initialised<attile_quantize_args, attile_quantize_init>;                     /**< Zeroed and stamped. */
using DequantizeArgs = detail::Initialised<attile_dequantize_args, attile_dequantize_init>;               /**< Zeroed and stamped. */
using RepackArgs = detail::Initialised<attile_repack_args, attile_repack_init>;                           /**< Zeroed and stamped. */
using GemmPointers = detail::Initialised<attile_gemm_pointers, attile_gemm_pointers_init>;                /**< Zeroed and stamped. */
using AttentionPointers = detail::Initialised<attile_attention_pointers, attile_attention_pointers_init>; /**< Zeroed and stamped. */

/** Owns an attile_prepared: a call that is launched many times with other memory. May be launched from many threads at once. */
class Prepared {
  public:
    /** Owns nothing; every launch of it fails with ATTILE_ERROR_NULL_ARGUMENT. */
    Prepared() noexcept = default;
    /** Takes over what attile_gemm_prepare() or attile_attention_prepare() made. */
    explicit Prepared(attile_prepared *prepared) noexcept : prepared_(prepared) {}
    /** Takes over what `other` owns. */
    Prepared(Prepared &&other) noexcept : prepared_(std::exchange(other.prepared_, nullptr)) {}
    /** Takes over what `other` owns. */
    Prepared &operator=(Prepared &&other) noexcept {
        if (this != &other) {
            attile_prepared_destroy(prepared_);
            prepared_ = std::exchange(other.prepared_, nullptr);
        }
        return *this;
    }
    Prepared(const Prepared &) = delete;
    Prepared &operator=(const Prepared &) = delete;
    ~Prepared() { attile_prepared_destroy(prepared_); }

    attile_prepared *get() const noexcept { return prepared_; } /**< The C handle, still owned. */

    Status try_run(const attile_gemm_pointers &at) const noexcept { return Status(attile_gemm_run(prepared_, &at)); }
    /**< attile_gemm_run() */
    Status try_run(const attile_attention_pointers &at) const noexcept { return Status(attile_attention_run(prepared_, &at)); }
    /**< attile_attention_run() */
#ifndef ATTILE_NO_EXCEPTIONS
    /** attile_gemm_run() or attile_attention_run(), throwing. */
    template <class Pointers>
    void run(const Pointers &at) const {
        try_run(at).or_throw();
    }
#endif

  private:
    attile_prepared *prepared_ = nullptr;
};

/** Owns an attile_context. Safe to use from many threads at once; destroy it from one. */
class Context {
  public:
    /** Owns nothing; every call on it fails with ATTILE_ERROR_INVALID_CONTEXT. */
    Context() noexcept = default;
    /** Takes over a context made by attile_context_create(). */
    explicit Context(attile_context *context) noexcept : context_(context) {}
    /** Takes over what `other` owns. */
    Context(Context &&other) noexcept : context_(std::exchange(other.context_, nullptr)) {}
    /** Takes over what `other` owns. */
    Context &operator=(Context &&other) noexcept {
        std::swap(context_, other.context_);
        return *this;
    }
    Context(const Context &) = delete;
    Context &operator=(const Context &) = delete;
    ~Context() { attile_context_destroy(context_); }

    /** Opens a backend into `out`. `backend` as attile_context_options::backend; NULL: the environment. */
    static Status try_create(Context &out, const char *backend = nullptr, int32_t threads = 0) noexcept {
        ContextOptions options;
        options.backend = backend;
        options.threads = threads;
        attile_context *context = nullptr;
        const Status status(attile_context_create(&options, &context));
        if (status) out = Context(context);
        return status;
    }
    attile_context *get() const noexcept { return context_; } /**< The C handle, still owned here. */

    Status try_info(attile_context_info &info) const noexcept {
        return Status(attile_context_get_info(context_, &info));
    }                                                                                                             /**< What it runs on. */
    Status try_gemm(const attile_gemm_args &args) const noexcept { return Status(attile_gemm(context_, &args)); } /**< attile_gemm() */
    /** attile_gemm_grouped() */
    Status try_gemm_grouped(const attile_gemm_grouped_args &args) const noexcept { return Status(attile_gemm_grouped(context_, &args)); }
    /** attile_attention() */
    Status try_attention(const attile_attention_args &args) const noexcept { return Status(attile_attention(context_, &args)); }
    /** attile_gemm_prepare() */
    Status try_prepare(const attile_gemm_args &args, Prepared &prepared) const noexcept {
        attile_prepared *made = nullptr;
        const Status status(attile_gemm_prepare(context_, &args, &made));
        prepared = Prepared(made);
        return status;
    }
    /** attile_attention_prepare() */
    Status try_prepare(const attile_attention_args &args, Prepared &prepared) const noexcept {
        attile_prepared *made = nullptr;
        const Status status(attile_attention_prepare(context_, &args, &made));
        prepared = Prepared(made);
        return status;
    }
    Status try_attention_backward(const attile_attention_backward_args &args) const noexcept {
        return Status(attile_attention_backward(context_, &args));
    } /**< attile_attention_backward() */
    Status try_attention_merge(const attile_attention_merge_args &args) const noexcept {
        return Status(attile_attention_merge(context_, &args));
    } /**< attile_attention_merge() */
    Status try_attention_merge_backward(const attile_attention_merge_backward_args &args) const noexcept {
        return Status(attile_attention_merge_backward(context_, &args));
    } /**< attile_attention_merge_backward() */
    /** attile_reduce() */
    Status try_reduce(const attile_reduce_args &args) const noexcept { return Status(attile_reduce(context_, &args)); }
    /** attile_softmax() */
    Status try_softmax(const attile_softmax_args &args) const noexcept { return Status(attile_softmax(context_, &args)); }
    /** attile_quantize() */
    Status try_quantize(const attile_quantize_args &args) const noexcept { return Status(attile_quantize(context_, &args)); }
    /** attile_dequantize() */
    Status try_dequantize(const attile_dequantize_args &args) const noexcept { return Status(attile_dequantize(context_, &args)); }
    /** attile_repack() */
    Status try_repack(const attile_repack_args &args) const noexcept { return Status(attile_repack(context_, &args)); }
    Status try_query(const attile_gemm_args &args, attile_support &support) const noexcept {
        return Status(attile_gemm_query(context_, &args, &support));
    } /**< attile_gemm_query() */
    Status try_query(const attile_gemm_grouped_args &args, attile_support &support) const noexcept {
        return Status(attile_gemm_grouped_query(context_, &args, &support));
    } /**< attile_gemm_grouped_query() */
    Status try_query(const attile_attention_args &args, attile_support &support) const noexcept {
        return Status(attile_attention_query(context_, &args, &support));
    } /**< attile_attention_query() */
    Status try_query(const attile_attention_backward_args &args, attile_support &support) const noexcept {
        return Status(attile_attention_backward_query(context_, &args, &support));
    } /**< attile_attention_backward_query() */
    Status try_query(const attile_attention_merge_args &args, attile_support &support) const noexcept {
        return Status(attile_attention_merge_query(context_, &args, &support));
    } /**< attile_attention_merge_query() */
    Status try_query(const attile_attention_merge_backward_args &args, attile_support &support) const noexcept {
        return Status(attile_attention_merge_backward_query(context_, &args, &support));
    } /**< attile_attention_merge_backward_query() */
    Status try_query(const attile_reduce_args &args, attile_support &support) const noexcept {
        return Status(attile_reduce_query(context_, &args, &support));
    } /**< attile_reduce_query() */
    Status try_query(const attile_softmax_args &args, attile_support &support) const noexcept {
        return Status(attile_softmax_query(context_, &args, &support));
    } /**< attile_softmax_query() */
    Status try_query(const attile_quantize_args &args, attile_support &support) const noexcept {
        return Status(attile_quantize_query(context_, &args, &support));
    } /**< attile_quantize_query() */
    Status try_query(const attile_dequantize_args &args, attile_support &support) const noexcept {
        return Status(attile_dequantize_query(context_, &args, &support));
    } /**< attile_dequantize_query() */
    Status try_query(const attile_repack_args &args, attile_support &support) const noexcept {
        return Status(attile_repack_query(context_, &args, &support));
    } /**< attile_repack_query() */
    Status try_copy(void *destination, const void *source, int64_t bytes, void *stream = nullptr) const noexcept {
        return Status(attile_copy(context_, destination, source, bytes, stream));
    } /**< attile_copy() */
    Status try_synchronize(void *stream = nullptr) const noexcept {
        return Status(attile_synchronize(context_, stream));
    } /**< attile_synchronize() */

#ifndef ATTILE_NO_EXCEPTIONS
    /** Opens a backend; throws Error. */
    explicit Context(const char *backend, int32_t threads = 0) { try_create(*this, backend, threads).or_throw(); }
    /** Opens what the environment selects; throws Error. */
    static Context create(const char *backend = nullptr, int32_t threads = 0) { return Context(backend, threads); }
    /** What it runs on; throws Error. */
    ContextInfo info() const {
        ContextInfo found;
        try_info(found).or_throw();
        return found;
    }
    /** How a call would run; throws Error if its arguments are wrong. */
    template <class Args>
    Support query(const Args &args) const {
        Support support;
        try_query(args, support).or_throw();
        return support;
    }
    void gemm(const attile_gemm_args &args) const { try_gemm(args).or_throw(); } /**< attile_gemm(), throwing. */
    void gemm_grouped(const attile_gemm_grouped_args &args) const {
        try_gemm_grouped(args).or_throw();
    }                                                                                           /**< attile_gemm_grouped(), throwing. */
    void attention(const attile_attention_args &args) const { try_attention(args).or_throw(); } /**< attile_attention(), throwing. */
    /** attile_gemm_prepare() or attile_attention_prepare(), throwing. */
    template <class Args>
    Prepared prepare(const Args &args) const {
        Prepared prepared;
        try_prepare(args, prepared).or_throw();
        return prepared;
    }
    void attention_backward(const attile_attention_backward_args &args) const {
        try_attention_backward(args).or_throw();
    } /**< attile_attention_backward(), throwing. */
    void attention_merge_backward(const attile_attention_merge_backward_args &args) const {
        try_attention_merge_backward(args).or_throw();
    } /**< attile_attention_merge_backward(), throwing. */
    void attention_merge(const attile_attention_merge_args &args) const {
        try_attention_merge(args).or_throw();
    }                                                                                        /**< attile_attention_merge(), throwing. */
    void reduce(const attile_reduce_args &args) const { try_reduce(args).or_throw(); }       /**< attile_reduce(), throwing. */
    void softmax(const attile_softmax_args &args) const { try_softmax(args).or_throw(); }    /**< attile_softmax(), throwing. */
    void quantize(const attile_quantize_args &args) const { try_quantize(args).or_throw(); } /**< attile_quantize(), throwing. */
    void dequantize(const attile_dequantize_args &args) const { try_dequantize(args).or_throw(); } /**< attile_dequantize(), throwing. */
    void repack(const attile_repack_args &args) const { try_repack(args).or_throw(); }             /**< attile_repack(), throwing. */
    void copy(void *destination, const void *source, int64_t bytes, void *stream = nullptr) const {
        try_copy(destination, source, bytes, stream).or_throw();
    }                                                                                      /**< attile_copy(), throwing. */
    void synchronize(void *stream = nullptr) const { try_synchronize(stream).or_throw(); } /**< attile_synchronize(), throwing. */
#endif

  private:
    attile_context *context_ = nullptr;
};

/** Owns memory from attile_alloc(). The context must outlive it. */
template <class T>
class Buffer {
    static_assert(std::is_trivially_copyable<T>::value, "elements are copied as bytes");

  public:
    Buffer() noexcept = default;
    /** Takes over what `other` owns. */
    Buffer(Buffer &&other) noexcept { swap(other); }
    /** Takes over what `other` owns. */
    Buffer &operator=(Buffer &&other) noexcept {
        swap(other);
        return *this;
    }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
    ~Buffer() {
        if (data_ != nullptr) attile_free(context_, data_);
    }
    /** Allocates `size` elements of a kind of memory into `out`. */
    static Status try_create(Buffer &out, const Context &context, int64_t size, int32_t kind = ATTILE_MEMORY_DEVICE) noexcept {
        if (size > INT64_MAX / static_cast<int64_t>(sizeof(T)))
            size = INT64_MAX / static_cast<int64_t>(sizeof(T));  // refused as out of memory
        void *data = nullptr;
        const Status status(attile_alloc(context.get(), kind, size * static_cast<int64_t>(sizeof(T)), &data));
        if (!status) return status;
        Buffer fresh;
        fresh.context_ = context.get();
        fresh.data_ = static_cast<T *>(data);
        fresh.size_ = size;
        out = std::move(fresh);
        return status;
    }
#ifndef ATTILE_NO_EXCEPTIONS
    /** Allocates; throws Error. */
    Buffer(const Context &context, int64_t size, int32_t kind = ATTILE_MEMORY_DEVICE) { try_create(*this, context, size, kind).or_throw(); }
#endif
    T *data() const noexcept { return data_; }                                         /**< First element. */
    std::size_t size() const noexcept { return static_cast<std::size_t>(size_); }      /**< Elements. */
    int64_t bytes() const noexcept { return size_ * static_cast<int64_t>(sizeof(T)); } /**< Bytes. */

  private:
    void swap(Buffer &other) noexcept {
        std::swap(context_, other.context_);
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
    }
    attile_context *context_ = nullptr;
    T *data_ = nullptr;
    int64_t size_ = 0;
};

/** Owns a stream from attile_stream_create(). The context must outlive it. */
class Stream {
  public:
    Stream() noexcept = default;
    /** Takes over what `other` owns. */
    Stream(Stream &&other) noexcept : context_(std::exchange(other.context_, nullptr)), stream_(std::exchange(other.stream_, nullptr)) {}
    /** Takes over what `other` owns. */
    Stream &operator=(Stream &&other) noexcept {
        std::swap(context_, other.context_);
        std::swap(stream_, other.stream_);
        return *this;
    }
    Stream(const Stream &) = delete;
    Stream &operator=(const Stream &) = delete;
    ~Stream() {
        if (stream_ != nullptr) attile_stream_destroy(context_, stream_);
    }
    /** Makes a stream into `out`. */
    static Status try_create(Stream &out, const Context &context) noexcept {
        Stream fresh;
        fresh.context_ = context.get();
        const Status status(attile_stream_create(context.get(), &fresh.stream_));
        if (status) out = std::move(fresh);
        return status;
    }
#ifndef ATTILE_NO_EXCEPTIONS
    /** Makes a stream; throws Error. */
    explicit Stream(const Context &context) { try_create(*this, context).or_throw(); }
#endif
    void *get() const noexcept { return stream_; } /**< The device's handle, for args.stream. */

  private:
    attile_context *context_ = nullptr;
    void *stream_ = nullptr;
};

}  // namespace attile

#endif  // ATTILE_ATTILE_HPP
