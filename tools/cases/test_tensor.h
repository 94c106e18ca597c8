// SPDX-License-Identifier: Apache-2.0
// Tensors for tests: any layout in any kind of memory, poisoned with NaN between their elements and fenced on both sides.
#pragma once

#include <attile/attile.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace attile::test {

/// A dense row-major array of doubles: contents without a layout.
struct Values {
    std::vector<std::int64_t> shape;
    std::vector<double> at;

    Values() = default;
    explicit Values(std::vector<std::int64_t> extents, double fill = 0);
    std::int64_t rows() const;    ///< Product of all extents but the last.
    std::int64_t length() const;  ///< The last extent.
    std::int64_t offset(std::int64_t i0, std::int64_t i1 = 0, std::int64_t i2 = 0, std::int64_t i3 = 0) const;
    double &operator()(std::int64_t i0, std::int64_t i1 = 0, std::int64_t i2 = 0, std::int64_t i3 = 0) {
        return at[static_cast<std::size_t>(offset(i0, i1, i2, i3))];
    }
    double operator()(std::int64_t i0, std::int64_t i1 = 0, std::int64_t i2 = 0, std::int64_t i3 = 0) const {
        return at[static_cast<std::size_t>(offset(i0, i1, i2, i3))];
    }
};

enum class Order : std::uint8_t {
    kRowMajor,     ///< last axis innermost
    kHeadsInside,  ///< rank 4: axes 1 and 2 change places, as in [B, L, H, D] storage; rank 3 likewise
    kFortran,      ///< first axis innermost
};

/// How a tensor lies in memory.
struct Layout {
    Order order = Order::kRowMajor;
    std::uint8_t pad = 0;             ///< Elements left free after each line of the innermost axis.
    std::uint8_t step = 1;            ///< Distance between neighbours of the innermost axis.
    std::uint8_t offset = 0;          ///< Elements by which `data` misses 256-byte alignment.
    std::uint8_t reversed = 0;        ///< Bit per axis: its stride is negative.
    std::uint8_t broadcast = 0;       ///< Bit per axis: its stride is 0. Inputs only.
    bool absurd_unit_stride = false;  ///< Axes of extent 1 get a stride that nobody could follow.
};

std::string describe(const Layout &layout);

enum class Placement : std::uint8_t { kHost, kPinned, kManaged, kDevice };

const char *placement_name(Placement placement);

/// Memory of a context's, or ordinary memory. Throws std::runtime_error where the library refuses.
class Memory {
  public:
    Memory() = default;
    Memory(attile_context *context, Placement placement, std::int64_t bytes);
    ~Memory();
    Memory(Memory &&other) noexcept;
    Memory &operator=(Memory &&other) noexcept;
    std::byte *data() const { return data_; }
    std::int64_t bytes() const { return bytes_; }
    void upload(const std::vector<std::byte> &from);
    void fetch(std::vector<std::byte> &to) const;

  private:
    attile_context *context_ = nullptr;
    Placement placement_ = Placement::kHost;
    std::byte *data_ = nullptr;
    std::int64_t bytes_ = 0;
};

/// While one of these lives, its thread's tensors are only asked about: they have memory, but nothing is written there.
class WithoutContents {
  public:
    WithoutContents();
    ~WithoutContents();
    WithoutContents(const WithoutContents &) = delete;
    WithoutContents &operator=(const WithoutContents &) = delete;
};

/// One operand of a call. Everything that is not an element is filled with NaN bytes and must stay so.
class TestTensor {
  public:
    TestTensor() = default;  ///< absent
    /// An input.
    TestTensor(attile_context *context, Placement placement, std::int32_t dtype, const Values &values, const Layout &layout = {});
    /// An output, prefilled with NaN bytes, of int8 with -128.
    static TestTensor output(attile_context *context, Placement placement, std::int32_t dtype, const std::vector<std::int64_t> &shape,
                             const Layout &layout = {});
    /// An input that the call overwrites.
    static TestTensor in_place(attile_context *context, Placement placement, std::int32_t dtype, const Values &values,
                               const Layout &layout = {});

    bool present() const { return view_.dtype != 0; }
    const attile_tensor &view() const { return view_; }
    void reset();  ///< Puts the first contents back.
    /// The first contents are from now on those of a tensor of the same type, shape and layout; reset() puts them there.
    void begin_as(const TestTensor &other) { initial_ = other.initial_; }
    void fetch();  ///< Brings the contents here, for the functions below.
    /// Empty, or what was written where nobody may write.
    std::string damage() const;
    Values values() const;
    /// Bytes of the elements in index order: equal for bitwise equal results.
    std::vector<std::byte> element_bytes_in_order() const;
    /// Per element, whether it still is the prefill: nobody wrote it.
    std::vector<bool> untouched() const;

  private:
    TestTensor(attile_context *context, Placement placement, std::int32_t dtype, const std::vector<std::int64_t> &shape,
               const Layout &layout, bool is_output);
    void fill(const Values &values);
    void fill_pairs(const Values &values);
    /// f(index of an element, its byte, elements that lie side by side from there on), along the last axis.
    template <class F>
    void for_each_run(F f) const;
    /// f(index, byte)
    template <class F>
    void for_each_element(F f) const;

    attile_tensor view_ = {};
    bool is_output_ = false;
    std::int64_t element_bits_ = 0;
    std::int64_t origin_ = 0;  ///< Byte of the memory at which view_.data points.
    Memory memory_;
    std::vector<std::byte> initial_, current_;
};

/// A scratch area filled with NaN bytes and fenced; size 0 gives a null pointer.
class TestWorkspace {
  public:
    TestWorkspace(attile_context *context, Placement placement, std::int64_t bytes);
    void *data() const { return bytes_ > 0 ? memory_.data() + kFence : nullptr; }
    std::int64_t bytes() const { return bytes_; }
    std::string damage() const;

  private:
    static constexpr std::int64_t kFence = 512;
    std::int64_t bytes_;
    Memory memory_;
};

}  // namespace attile::test
