// SPDX-License-Identifier: Apache-2.0
#include "fuzz_call.h"

#include <algorithm>

namespace attile_test {
namespace {

// Of a tensor that a call is run on, an axis of no extent counted as one: kernels may visit every key of heads without a size.
constexpr int64_t kMostElements = 2048;
constexpr int64_t kMargin = 64;  // bytes around a tensor that are watched

__extension__ using Wide = __int128;

// Bytes of a tensor from its data on: [low, high). False if they are more than any slot has.
bool reach_of(const attile_tensor &tensor, int64_t *low, int64_t *high) {
    const int64_t bytes = (tensor.dtype & 0xff) / 8;
    Wide first = 0, end = bytes, elements = 1;
    for (int32_t i = 0; i < tensor.rank; ++i) {
        const int64_t extent = std::max<int64_t>(tensor.shape[i], 1);
        // Nothing overflows 128 bits: 63 + 64 + 3 bits would, but no axis that large stays inside.
        if (extent > kMostElements) return false;
        elements *= extent;
        const Wide reach = Wide(tensor.stride[i]) * (extent - 1) * bytes;
        (reach < 0 ? first : end) += reach;
    }
    if (elements > kMostElements || end - first > FuzzMemory::kSlotBytes) return false;
    *low = static_cast<int64_t>(first);
    *high = static_cast<int64_t>(end);
    return true;
}

bool is_well_formed(const attile_tensor &tensor) {
    constexpr int32_t types[] = {ATTILE_F32, ATTILE_F64,  ATTILE_F16, ATTILE_BF16,    ATTILE_I32,    ATTILE_I64,
                                 ATTILE_U8,  ATTILE_BOOL, ATTILE_I8,  ATTILE_F8_E4M3, ATTILE_F8_E5M2};
    if (std::find(std::begin(types), std::end(types), tensor.dtype) == std::end(types)) return false;
    if (tensor.rank < 1 || tensor.rank > 4) return false;
    return std::none_of(tensor.shape, tensor.shape + tensor.rank, [](int64_t extent) { return extent < 0; });
}

bool is_empty(const attile_tensor &tensor) {
    return std::any_of(tensor.shape, tensor.shape + tensor.rank, [](int64_t extent) { return extent == 0; });
}

template <typename F>
void for_each_element(const attile_tensor &tensor, F f) {
    const int64_t bytes = (tensor.dtype & 0xff) / 8;
    int64_t count = 1;
    for (int32_t i = 0; i < tensor.rank; ++i) count *= tensor.shape[i];
    for (int64_t index = 0; index < count; ++index) {
        int64_t rest = index, at = 0;
        for (int32_t i = tensor.rank - 1; i >= 0; --i) {
            at += rest % tensor.shape[i] * tensor.stride[i] * bytes;
            rest /= tensor.shape[i];
        }
        f(static_cast<unsigned char *>(tensor.data) + at, bytes);
    }
}

}  // namespace

const char *fuzz_operation_name(FuzzOperation operation) {
    constexpr const char *names[] = {"gemm",
                                     "attention",
                                     "attention_backward",
                                     "attention_merge",
                                     "attention_merge_backward",
                                     "reduce",
                                     "softmax",
                                     "blas",
                                     "memory",
                                     "quantize",
                                     "gemm_grouped",
                                     "append",
                                     "repack",
                                     "context"};
    return names[static_cast<int>(operation)];
}

Place place_of(const attile_tensor &tensor) {
    if (!is_well_formed(tensor)) return Place::kMalformed;
    int64_t low = 0, high = 0;
    if (!reach_of(tensor, &low, &high)) return Place::kOutside;
    if (is_empty(tensor)) return Place::kInside;
    if (tensor.data == nullptr) return Place::kMalformed;
    const uintptr_t first = reinterpret_cast<uintptr_t>(tensor.data) + static_cast<uintptr_t>(low);
    return FuzzMemory::instance().slot_of(first, high - low) >= 0 ? Place::kInside : Place::kOutside;
}

bool g_print_calls = false;

void print_call(const char *backend, const char *operation, const std::vector<const attile_tensor *> &tensors) {
    if (!g_print_calls) return;
    std::printf("%s %s\n", backend, operation);
    for (const attile_tensor *tensor : tensors) {
        if (tensor->dtype == 0 && tensor->data == nullptr) continue;
        std::printf("  %p dtype 0x%04x rank %d", tensor->data, static_cast<unsigned>(tensor->dtype), tensor->rank);
        for (int32_t i = 0; i < std::clamp(tensor->rank, 0, 4); ++i)
            std::printf(" %lld:%lld", static_cast<long long>(tensor->shape[i]), static_cast<long long>(tensor->stride[i]));
        const Place place = place_of(*tensor);
        std::printf("%s\n", place == Place::kInside ? "" : place == Place::kOutside ? " outside" : " malformed");
    }
    std::fflush(stdout);
}

void print_answer(int32_t answer, const attile_support &support) {
    if (!g_print_calls) return;
    std::printf("  query: %s, level %d %s, %lld bytes, %s %s\n", attile_status_name(answer), support.level,
                attile_status_name(support.status), static_cast<long long>(support.workspace_bytes), support.kernel, support.text);
    std::fflush(stdout);
}

void check_sentence(int32_t status) {
    ATTILE_FUZZ_CHECK(std::strcmp(attile_status_name(status), "ATTILE_ERROR_UNKNOWN") != 0);
    if (status == ATTILE_OK) return;
    char text[16];
    std::memset(text, 'x', sizeof text);
    ATTILE_FUZZ_CHECK(attile_last_error(text, 12) > 12);  // no sentence is as short as that
    ATTILE_FUZZ_CHECK(text[11] == 0 && text[12] == 'x' && std::strlen(text) == 11);
}

Call::Call(FuzzInput *bytes, attile_context *on, FuzzTarget *counted, FuzzOperation operation)
    : input(*bytes),
      context(on),
      target(*counted),
      count_(counted->counts[static_cast<int>(operation)]),
      operation_(operation),
      type_(pick_type()) {}

int32_t Call::pick_type() {
    constexpr int32_t types[] = {ATTILE_F32, ATTILE_F64, ATTILE_F16, ATTILE_BF16, ATTILE_F32, ATTILE_I32, ATTILE_U8, ATTILE_BOOL};
    const int64_t pick = input.byte();
    return types[pick < 240 ? pick % 5 : pick % 8];
}

int64_t Call::extent() {
    const int64_t pick = input.byte();
    if (pick < 20) return 0;
    if (pick < 216) return 1 + pick % 4;
    return pick < 248 ? 5 + input.byte() % 66 : input.raw<uint16_t>() % 2100;
}

double Call::scalar() { return input.rarely() ? input.raw<double>() : static_cast<double>(input.below(9)) / 4.0 - 1.0; }

int64_t Call::any_number() {
    switch (input.below(4)) {
        case 0:
            return input.below(9) - 4;
        case 1:
            return input.raw<int64_t>();
        default: {
            const uint64_t power = uint64_t{1} << input.below(64);
            const uint64_t number = power + static_cast<uint64_t>(input.below(3)) - 1;
            return static_cast<int64_t>(input.rarely(4) ? 0 - number : number);
        }
    }
}

attile_tensor Call::tensor(std::initializer_list<int64_t> about, int32_t dtype) {
    return tensor(about.begin(), static_cast<int32_t>(about.size()), dtype);
}

attile_tensor Call::tensor(const int64_t *about, int32_t rank, int32_t dtype) {
    attile_tensor made = {};
    made.dtype = dtype != 0 ? dtype : type_;
    made.rank = rank;
    std::copy(about, about + rank, made.shape);
    // One byte says whether this tensor is as it should be, as most are.
    const int64_t odd = input.byte();
    if (odd == 1) made.dtype = input.rarely(4) ? input.raw<int32_t>() : pick_type();
    if (odd == 2) made.rank = input.rarely(4) ? input.raw<int32_t>() : static_cast<int32_t>(input.below(7)) - 1;
    if (odd >= 3 && odd < 8) made.shape[input.below(4)] = input.rarely(2) ? any_number() : input.below(5);
    lay_out(&made);
    put(&made);
    if (odd == 8) made.data = static_cast<unsigned char *>(made.data) + input.below(16) - 8;
    if (odd == 9) made.data = nullptr;
    if (odd == 10) made = {};
    // Another tensor's place, or a part of it.
    int64_t low = 0, high = 0;
    if (odd >= 11 && odd < 14 && next_slot_ > 1 && is_well_formed(made) && reach_of(made, &low, &high)) {
        const int64_t slot = input.below(next_slot_);
        unsigned char *const data = FuzzMemory::instance().slot_end(slot) - high - input.raw<uint16_t>() % 1024 / 8 * 8;
        if (data + low >= FuzzMemory::instance().slot(slot)) {
            made.data = data;
            note(slot, data + low, data + high);
        }
    }
    return made;
}

// Dense, with axes in some order of memory, sometimes padded, reversed, broadcast or anything.
void Call::lay_out(attile_tensor *made) {
    const int32_t rank = std::clamp(made->rank, 0, 4);
    uint64_t stride = 1;
    const int64_t how = input.byte();
    const int32_t turn = rank > 0 && how % 4 == 3 ? static_cast<int32_t>(input.below(rank)) : 0;
    for (int32_t i = rank - 1; i >= 0; --i) {
        const int32_t axis = (i + turn) % rank;
        made->stride[axis] = static_cast<int64_t>(stride);
        const uint64_t padding = how >= 240 ? static_cast<uint64_t>(input.below(4)) : 0;
        stride = stride * static_cast<uint64_t>(made->shape[axis]) + padding;
    }
    if (how / 4 % 16 == 1) made->stride[input.below(4)] = input.rarely(2) ? any_number() : input.below(9) - 4;
    if (how / 4 % 16 == 2 && rank > 0) {
        int64_t &reversed = made->stride[input.below(rank)];
        reversed = static_cast<int64_t>(0 - static_cast<uint64_t>(reversed));
    }
}

// Into a slot of its own, against its end or, sometimes, its beginning.
void Call::put(attile_tensor *made) {
    const FuzzMemory &memory = FuzzMemory::instance();
    const int64_t slot = next_slot_++;
    ATTILE_FUZZ_CHECK(next_slot_ < FuzzMemory::kSlots - 1);
    int64_t low = 0, high = 0;
    made->data = memory.slot(slot) + 128;
    if (!is_well_formed(*made) || !reach_of(*made, &low, &high)) return;
    if (input.rarely(4))
        made->data = memory.slot(slot) - low;
    else
        made->data = memory.slot_end(slot) - high;
    auto *data = static_cast<unsigned char *>(made->data);
    note(slot, data + low, data + high);
}

unsigned char *Call::workspace(int64_t bytes) {
    const FuzzMemory &memory = FuzzMemory::instance();
    const int64_t slot = next_slot_++;
    unsigned char *at = memory.slot_end(slot) - (std::max<int64_t>(bytes, 0) + 255) / 256 * 256;
    note(slot, at, memory.slot_end(slot));
    return at;
}

void *Call::place(const void *args, size_t size, int64_t readable, unsigned char rest, int64_t slot) {
    const int64_t bytes = (std::clamp<int64_t>(readable, 4, FuzzMemory::kSlotBytes) + 7) / 8 * 8;  // aligned as every struct is
    unsigned char *at = FuzzMemory::instance().slot_end(slot) - bytes;
    std::memset(at, rest, static_cast<size_t>(bytes));
    std::memcpy(at, args, std::min(size, static_cast<size_t>(bytes)));
    return at;
}

void Call::note(int64_t slot, unsigned char *first, unsigned char *end) {
    const FuzzMemory &memory = FuzzMemory::instance();
    first = std::max(memory.slot(slot), first - kMargin);
    end = std::min(memory.slot_end(slot), end + kMargin);
    memory.fill(first, end);
    regions_.push_back({slot, first, end, {}});
}

void Call::take_snapshot() {
    for (Region &region : regions_) region.before.assign(region.first, region.end);
}

bool Call::unchanged() const {
    return std::all_of(regions_.begin(), regions_.end(),
                       [](const Region &region) { return std::equal(region.first, region.end, region.before.begin()); });
}

void Call::restore() {
    for (const Region &region : regions_) std::copy(region.before.begin(), region.before.end(), region.first);
}

void Call::check_writes(const std::vector<const attile_tensor *> &outputs, const unsigned char *workspace, int64_t workspace_bytes) const {
    if (unchanged()) return;
    std::vector<std::vector<unsigned char>> wanted;
    for (const Region &region : regions_) wanted.push_back(region.before);
    const auto accept = [&](const unsigned char *at, int64_t bytes) {
        // A region about one tensor may end within an element of another that lies in the same slot.
        for (size_t r = 0; r < regions_.size(); ++r) {
            const unsigned char *const first = std::max<const unsigned char *>(at, regions_[r].first);
            const unsigned char *const end = std::min<const unsigned char *>(at + bytes, regions_[r].end);
            if (first < end) std::copy(first, end, wanted[r].begin() + (first - regions_[r].first));
        }
    };
    for (const attile_tensor *tensor : outputs)
        if (place_of(*tensor) == Place::kInside && !is_empty(*tensor)) for_each_element(*tensor, accept);
    for (int64_t i = 0; i < workspace_bytes && workspace != nullptr; ++i) accept(workspace + i, 1);
    for (size_t r = 0; r < regions_.size(); ++r) ATTILE_FUZZ_CHECK(std::equal(wanted[r].begin(), wanted[r].end(), regions_[r].first));
}

std::vector<unsigned char> Call::bytes_of(const std::vector<const attile_tensor *> &outputs) const {
    std::vector<unsigned char> all;
    for (const attile_tensor *tensor : outputs)
        if (place_of(*tensor) == Place::kInside && !is_empty(*tensor))
            for_each_element(*tensor, [&](const unsigned char *at, int64_t bytes) { all.insert(all.end(), at, at + bytes); });
    return all;
}

}  // namespace attile_test
