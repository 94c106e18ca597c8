// SPDX-License-Identifier: Apache-2.0
// Layouts, fences and poison of test tensors.
#include "test_tensor.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "test_element.h"

namespace attile::test {
namespace {

constexpr std::byte kPoison{0xff};  // all ones is NaN in every floating-point type, -1 or 255 in the integers
// What no output is: of int8, whose results are from -127 on, -128.
std::byte poison_of(std::int32_t dtype, bool is_output) { return is_output && dtype == ATTILE_I8 ? std::byte{0x80} : kPoison; }
constexpr std::int64_t kFenceBytes = 512;
constexpr std::int64_t kAlignment = 256;

thread_local int without_contents = 0;

void require(std::int32_t status, const char *what) {
    if (status == ATTILE_OK) return;
    char text[512];
    attile_last_error(text, sizeof text);
    throw std::runtime_error(std::string(what) + ": " + attile_status_name(status) + ": " + text);
}

std::int32_t kind_of(Placement placement) {
    switch (placement) {
        case Placement::kPinned:
            return ATTILE_MEMORY_PINNED;
        case Placement::kManaged:
            return ATTILE_MEMORY_MANAGED;
        case Placement::kDevice:
            return ATTILE_MEMORY_DEVICE;
        default:
            return ATTILE_MEMORY_HOST;
    }
}

// Axes from the slowest to the fastest in memory.
std::vector<int> memory_order(Order order, int rank) {
    std::vector<int> axes(static_cast<std::size_t>(rank));
    std::iota(axes.begin(), axes.end(), 0);
    if (order == Order::kFortran) std::reverse(axes.begin(), axes.end());
    if (order == Order::kHeadsInside && rank >= 3) std::swap(axes[1], axes[2]);
    return axes;
}

}  // namespace

WithoutContents::WithoutContents() { ++without_contents; }
WithoutContents::~WithoutContents() { --without_contents; }

Values::Values(std::vector<std::int64_t> extents, double fill) : shape(std::move(extents)) {
    at.assign(static_cast<std::size_t>(rows() * length()), fill);
}

std::int64_t Values::length() const { return shape.empty() ? 1 : shape.back(); }

std::int64_t Values::rows() const {
    std::int64_t count = 1;
    for (std::size_t axis = 0; axis + 1 < shape.size(); ++axis) count *= shape[axis];
    return count;
}

std::int64_t Values::offset(std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) const {
    const std::int64_t index[4] = {i0, i1, i2, i3};
    std::int64_t at_index = 0;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) at_index = at_index * shape[axis] + index[axis];
    return at_index;
}

std::string describe(const Layout &layout) {
    std::string text;
    const auto add = [&text](const std::string &word) { text += (text.empty() ? "" : "+") + word; };
    if (layout.order == Order::kFortran) add("fortran");
    if (layout.order == Order::kHeadsInside) add("heads-inside");
    if (layout.pad != 0) add("pad" + std::to_string(layout.pad));
    if (layout.step != 1) add("step" + std::to_string(layout.step));
    if (layout.offset != 0) add("offset" + std::to_string(layout.offset));
    if (layout.reversed != 0) add("reversed" + std::to_string(layout.reversed));
    if (layout.broadcast != 0) add("broadcast" + std::to_string(layout.broadcast));
    if (layout.absurd_unit_stride) add("absurd");
    return text.empty() ? "dense" : text;
}

const char *placement_name(Placement placement) {
    switch (placement) {
        case Placement::kPinned:
            return "pinned";
        case Placement::kManaged:
            return "managed";
        case Placement::kDevice:
            return "device";
        default:
            return "host";
    }
}

Memory::Memory(attile_context *context, Placement placement, std::int64_t bytes) : context_(context), placement_(placement), bytes_(bytes) {
    void *pointer = nullptr;
    if (placement == Placement::kHost) {
        pointer = ::operator new (static_cast<std::size_t>(bytes), std::align_val_t{kAlignment}, std::nothrow);
        if (pointer == nullptr) throw std::runtime_error("no memory for a test tensor");
    } else {
        require(attile_alloc(context, kind_of(placement), bytes, &pointer), "attile_alloc");
    }
    data_ = static_cast<std::byte *>(pointer);
}

Memory::~Memory() {
    if (placement_ == Placement::kHost)
        ::operator delete (data_, std::align_val_t{kAlignment});
    else
        attile_free(context_, data_);
}

Memory::Memory(Memory &&other) noexcept
    : context_(other.context_), placement_(other.placement_), data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

Memory &Memory::operator=(Memory &&other) noexcept {
    std::swap(context_, other.context_);
    std::swap(placement_, other.placement_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
}

void Memory::upload(const std::vector<std::byte> &from) {
    if (placement_ == Placement::kHost) {
        std::memcpy(data_, from.data(), from.size());
        return;
    }
    require(attile_copy(context_, data_, from.data(), static_cast<std::int64_t>(from.size()), nullptr), "attile_copy to the test tensor");
    require(attile_synchronize(context_, nullptr), "attile_synchronize");
}

void Memory::fetch(std::vector<std::byte> &to) const {
    to.resize(static_cast<std::size_t>(bytes_));
    if (placement_ == Placement::kHost) {
        std::memcpy(to.data(), data_, to.size());
        return;
    }
    require(attile_copy(context_, to.data(), data_, bytes_, nullptr), "attile_copy from the test tensor");
    require(attile_synchronize(context_, nullptr), "attile_synchronize");
}

TestTensor::TestTensor(attile_context *context, Placement placement, std::int32_t dtype, const std::vector<std::int64_t> &shape,
                       const Layout &layout, bool is_output)
    : is_output_(is_output), element_bits_(dtype & 0xff) {
    if (is_output && is_four_bits(dtype)) throw std::logic_error("outputs of 4 bits are not for this class");
    const int rank = static_cast<int>(shape.size());
    view_.dtype = dtype;
    view_.rank = rank;
    std::int64_t span = layout.step, lowest = 0;
    bool innermost = true;
    const std::vector<int> order = memory_order(layout.order, rank);
    for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
        const std::int64_t extent = shape[static_cast<std::size_t>(*axis)];
        view_.shape[*axis] = extent;
        if ((layout.broadcast >> *axis & 1) != 0) {
            view_.stride[*axis] = 0;
            continue;
        }
        const bool reversed = (layout.reversed >> *axis & 1) != 0;
        view_.stride[*axis] = reversed ? -span : span;
        if (reversed && extent > 1) lowest += (extent - 1) * span;
        span *= std::max<std::int64_t>(extent, 1);
        if (innermost) span += layout.pad;
        innermost = false;
        if (extent == 1 && layout.absurd_unit_stride) view_.stride[*axis] = std::int64_t{1} << 40;
    }
    origin_ = kFenceBytes + (layout.offset + lowest) * element_bits_ / 8;
    const std::int64_t bytes = kFenceBytes + (layout.offset + span) * element_bits_ / 8 + kFenceBytes;
    memory_ = Memory(context, placement, bytes);
    view_.data = memory_.data() + origin_;
    if (without_contents == 0) initial_.assign(static_cast<std::size_t>(bytes), poison_of(dtype, is_output));
}

TestTensor::TestTensor(attile_context *context, Placement placement, std::int32_t dtype, const Values &values, const Layout &layout)
    : TestTensor(context, placement, dtype, values.shape, layout, false) {
    fill(values);
}

TestTensor TestTensor::output(attile_context *context, Placement placement, std::int32_t dtype, const std::vector<std::int64_t> &shape,
                              const Layout &layout) {
    TestTensor tensor(context, placement, dtype, shape, layout, true);
    tensor.reset();
    return tensor;
}

TestTensor TestTensor::in_place(attile_context *context, Placement placement, std::int32_t dtype, const Values &values,
                                const Layout &layout) {
    TestTensor tensor(context, placement, dtype, values.shape, layout, true);
    tensor.fill(values);
    return tensor;
}

template <class F>
void TestTensor::for_each_run(F f) const {
    std::int64_t extent[4] = {1, 1, 1, 1}, stride[4] = {0, 0, 0, 0};
    for (int axis = 0; axis < view_.rank; ++axis) {
        extent[axis] = view_.shape[axis];
        stride[axis] = view_.shape[axis] == 1 ? 0 : view_.stride[axis];
    }
    const int last = std::max(view_.rank - 1, 0);
    const std::int64_t length = stride[last] == 1 ? std::exchange(extent[last], std::min<std::int64_t>(extent[last], 1)) : 1;
    std::size_t index = 0;
    for (std::int64_t i = 0; i < extent[0]; ++i)
        for (std::int64_t j = 0; j < extent[1]; ++j)
            for (std::int64_t k = 0; k < extent[2]; ++k)
                for (std::int64_t l = 0; l < extent[3]; ++l) {
                    const std::int64_t element = i * stride[0] + j * stride[1] + k * stride[2] + l * stride[3];
                    f(index, static_cast<std::size_t>(origin_ + element * element_bits_ / 8), static_cast<std::size_t>(length));
                    index += static_cast<std::size_t>(length);
                }
}

template <class F>
void TestTensor::for_each_element(F f) const {
    const auto bits = static_cast<std::size_t>(element_bits_);
    for_each_run([&](std::size_t index, std::size_t byte, std::size_t length) {
        for (std::size_t i = 0; i < length; ++i) f(index + i, byte + i * bits / 8);
    });
}

void TestTensor::fill(const Values &values) {
    if (without_contents > 0) return;
    if (is_four_bits(view_.dtype)) return fill_pairs(values);
    for_each_element([&](std::size_t index, std::size_t byte) { encode(view_.dtype, values.at[index], &initial_[byte]); });
    reset();
}

// Rows of an even length, side by side in memory.
void TestTensor::fill_pairs(const Values &values) {
    for_each_run([&](std::size_t index, std::size_t byte, std::size_t length) {
        if (length % 2 != 0) throw std::logic_error("numbers of 4 bits that are no pairs");
        for (std::size_t i = 0; i < length; i += 2) {
            const auto bits = [&](std::size_t at) { return static_cast<unsigned>(static_cast<int>(values.at[at])) & 15u; };
            initial_[byte + i / 2] = static_cast<std::byte>(bits(index + i) | bits(index + i + 1) << 4);
        }
    });
    reset();
}

void TestTensor::reset() {
    if (present() && without_contents == 0) memory_.upload(initial_);
}

void TestTensor::fetch() {
    if (present()) memory_.fetch(current_);
}

std::string TestTensor::damage() const {
    if (!present()) return {};
    std::vector<std::byte> except_elements;
    if (is_output_) {
        except_elements = current_;
        for_each_run([&](std::size_t, std::size_t byte, std::size_t length) {
            // Whatever an output's elements hold now is fine.
            std::copy_n(&initial_[byte], length * static_cast<std::size_t>(element_bits_) / 8, &except_elements[byte]);
        });
    }
    const std::vector<std::byte> &allowed = is_output_ ? except_elements : current_;
    if (allowed == initial_) return {};
    const auto [now, before] = std::mismatch(allowed.begin(), allowed.end(), initial_.begin());
    const std::int64_t at = now - allowed.begin() - origin_;
    return std::string(is_output_ ? "memory around the output" : "an input or memory around it") + " was written, at byte " +
           std::to_string(at) + " of the tensor's data";
}

Values TestTensor::values() const {
    Values result(std::vector<std::int64_t>(view_.shape, view_.shape + view_.rank));
    for_each_element([&](std::size_t index, std::size_t byte) { result.at[index] = decode(view_.dtype, &current_[byte]); });
    return result;
}

std::vector<std::byte> TestTensor::element_bytes_in_order() const {
    std::vector<std::byte> result;
    for_each_run([&](std::size_t, std::size_t byte, std::size_t length) {
        const auto first = current_.begin() + static_cast<std::ptrdiff_t>(byte);
        result.insert(result.end(), first, first + static_cast<std::ptrdiff_t>(length) * element_bits_ / 8);
    });
    return result;
}

std::vector<bool> TestTensor::untouched() const {
    std::vector<bool> result;
    const std::byte poison = poison_of(view_.dtype, is_output_);
    for_each_element([&](std::size_t, std::size_t byte) {
        const auto first = current_.begin() + static_cast<std::ptrdiff_t>(byte);
        result.push_back(std::all_of(first, first + element_bits_ / 8, [poison](std::byte b) { return b == poison; }));
    });
    return result;
}

TestWorkspace::TestWorkspace(attile_context *context, Placement placement, std::int64_t bytes) : bytes_(bytes) {
    if (bytes <= 0) return;
    memory_ = Memory(context, placement, bytes + 2 * kFence);
    memory_.upload(std::vector<std::byte>(static_cast<std::size_t>(memory_.bytes()), kPoison));
}

std::string TestWorkspace::damage() const {
    if (bytes_ <= 0) return {};
    std::vector<std::byte> now;
    memory_.fetch(now);
    const auto clean = [](auto first, auto last) { return std::all_of(first, last, [](std::byte b) { return b == kPoison; }); };
    if (!clean(now.begin(), now.begin() + kFence)) return "memory before the workspace was written";
    if (!clean(now.end() - kFence, now.end())) return "memory behind the workspace was written";
    return {};
}

}  // namespace attile::test
