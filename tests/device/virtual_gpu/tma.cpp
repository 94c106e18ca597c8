// SPDX-License-Identifier: Apache-2.0
// TMA: boxes of tensors and plain runs of bytes between shared and global memory. Loads are done when somebody tries the
// barrier that they arrive at; stores read shared memory when that is waited for, and write when they are waited for themselves.
#include <algorithm>
#include <cstring>

#include "async.h"

namespace attile::virtual_gpu {
namespace {

// A box of a tensor, and its place in shared memory. Called, it loads the box.
struct Box {
    TensorMap map{};
    int32_t at[5] = {0, 0, 0, 0, 0};
    unsigned char *shared = nullptr;  // The block's.
    uint32_t address = 0;             // In it.

    std::size_t row_bytes() const { return std::size_t{map.box[0]} * map.element_bytes; }
    std::size_t bytes() const { return row_bytes() * map.box[1] * map.box[2] * map.box[3] * map.box[4]; }
    unsigned char *piece(std::size_t offset) const {
        static constexpr uint32_t kMasks[] = {0, 0x10, 0x30, 0x70};
        const uint32_t to = address + static_cast<uint32_t>(offset);
        return shared + (to ^ (to >> 3 & kMasks[map.swizzle]));
    }
    // act(row, global address, first byte of the row that is inside the tensor, number of them): for every row, empty ones too.
    template <class Act>
    void for_rows(const Act &act) const {
        const int64_t first = std::max<int64_t>(0, -static_cast<int64_t>(at[0]));
        const int64_t last = std::min<int64_t>(map.box[0], static_cast<int64_t>(map.extent[0]) - at[0]);
        int32_t i[5] = {0, 0, 0, 0, 0};
        for (std::size_t row = 0;; ++row) {
            bool is_inside = first < last;
            uint64_t from = map.base + static_cast<uint64_t>((at[0] + first) * map.element_bytes);
            for (int axis = 1; axis < 5; ++axis) {
                const int64_t x = static_cast<int64_t>(at[axis]) + i[axis];
                is_inside = is_inside && x >= 0 && x < map.extent[axis];
                if (axis < map.axes) from += static_cast<uint64_t>(x) * map.stride[axis - 1];
            }
            const std::size_t inside = is_inside ? static_cast<std::size_t>((last - first) * map.element_bytes) : 0;
            act(row, from, static_cast<std::size_t>(first) * map.element_bytes, inside);
            int axis = 1;
            while (axis < 5 && ++i[axis] == map.box[axis]) i[axis++] = 0;
            if (axis == 5) return;
        }
    }
    void operator()() const {
        std::vector<unsigned char> line(row_bytes());
        for_rows([&](std::size_t row, uint64_t from, std::size_t first, std::size_t inside) {
            std::fill(line.begin(), line.end(), static_cast<unsigned char>(0));
            if (inside > 0) std::memcpy(line.data() + first, global_at(from, inside, map.element_bytes, false), inside);
            for (std::size_t i = 0; i < line.size(); i += 16) std::memcpy(piece(row * line.size() + i), line.data() + i, 16);
        });
    }
};

// The map and the coordinates that stand in one argument.
Box box_of(Warp &warp, const Argument &argument, int64_t axes, int lane) {
    Box box;
    std::memcpy(&box.map, generic_at(warp, warp.address(argument, lane), sizeof box.map, 64, false), sizeof box.map);
    const TensorMap &map = box.map;
    if (map.axes != axes) fault("a tensor map of " + std::to_string(map.axes) + " axes where " + std::to_string(axes) + " are told");
    if (map.swizzle > 3) fault("a tensor map's swizzle is not known");
    if (box.row_bytes() == 0 || box.row_bytes() % 16 != 0 || (map.swizzle != 0 && box.row_bytes() != std::size_t{16} << map.swizzle))
        fault("a tensor map's row of " + std::to_string(box.row_bytes()) + " bytes is not known");
    for (int i = 0; i < axes; ++i) box.at[i] = static_cast<int32_t>(value(warp, argument.braces[static_cast<std::size_t>(i)], lane));
    return box;
}

Outcome tensor_load(Warp &warp, const Instruction &instruction, Mask lanes) {
    const std::vector<Argument> &arguments = instruction.arguments;
    Block &own = *warp.block;
    for_lanes(lanes, [&](int lane) {
        Box box = box_of(warp, arguments[1], instruction.number[0], lane);
        const uint32_t to = shared_address(warp.address(arguments[0], lane)), barrier = shared_address(warp.address(arguments[2], lane));
        const auto load = [&](uint32_t rank) {
            const Place place = barrier_at(own, barrier | rank);
            shared_at(own, to | rank, box.bytes(), 128);
            if (&block_of(own, to | rank, &box.address) != place.block) fault("a tensor's copy and its barrier are in different blocks");
            box.shared = place.block->shared_base();
            clear_way(warp, *place.block, box.shared + box.address, box.bytes());
            put_off(warp, place, box.bytes(), box);
        };
        if (instruction.number[1] == 0) return load(0);
        if ((to | barrier) >> kRankShift != 0) fault("a copy to several blocks by one block's address is not known");
        const uint64_t blocks = value(warp, arguments[3].value, lane);
        for (uint32_t rank = 0; rank < 16; ++rank)
            if ((blocks >> rank & 1) != 0) load((rank + 1) << kRankShift);
    });
    return Outcome::kNext;
}

void check_bulk(uint64_t bytes) {
    if (bytes % 16 != 0) fault("cp.async.bulk: " + std::to_string(bytes) + " bytes are no multiple of 16");
}

Outcome bulk_load(Warp &warp, const Instruction &instruction, Mask lanes) {
    const std::vector<Argument> &arguments = instruction.arguments;
    for_lanes(lanes, [&](int lane) {
        const uint64_t from = warp.address(arguments[1], lane), bytes = value(warp, arguments[2].value, lane);
        const uint64_t address = warp.address(arguments[0], lane);
        check_bulk(bytes);
        const Place place = barrier_at(*warp.block, warp.address(arguments[3], lane));
        uint32_t offset;
        if (&block_of(*warp.block, shared_address(address), &offset) != place.block)
            fault("a copy and its barrier are in different blocks");
        unsigned char *to = shared_at(*warp.block, address, bytes, 16);
        global_at(from, bytes, 16, false);
        clear_way(warp, *place.block, to, bytes);
        put_off(warp, place, bytes, [to, from, bytes] { std::memcpy(to, global_at(from, bytes, 16, false), bytes); });
    });
    return Outcome::kNext;
}

// Nothing is kept closer here; what is asked for must be memory that could be read.
Outcome bulk_prefetch(Warp &warp, const Instruction &instruction, Mask lanes) {
    for_lanes(lanes, [&](int lane) {
        const uint64_t bytes = value(warp, instruction.arguments[1].value, lane);
        check_bulk(bytes);
        global_at(warp.address(instruction.arguments[0], lane), bytes, 16, false);
    });
    return Outcome::kNext;
}

// Called, it writes what was read.
struct Store {
    Box box;  // Of a tensor; else only its place in shared memory counts.
    uint64_t to = 0;
    std::size_t bytes = 0;
    bool is_tensor = false, adds = false, has_read = false;
    std::vector<unsigned char> line;

    void read() {
        if (has_read) return;
        has_read = true;
        line.resize(bytes);
        for (std::size_t i = 0; i < bytes; i += 16) std::memcpy(line.data() + i, box.piece(i), 16);
    }
    void operator()() {
        read();
        if (is_tensor) {
            const std::size_t row_bytes = box.row_bytes();
            box.for_rows([&](std::size_t row, uint64_t at, std::size_t first, std::size_t inside) {
                const unsigned char *from = line.data() + row * row_bytes + first;
                if (inside > 0) std::memcpy(global_at(at, inside, box.map.element_bytes, true), from, inside);
            });
            return;
        }
        unsigned char *at = global_at(to, bytes, 16, true);
        if (adds) {
            for (std::size_t i = 0; i < bytes; i += sizeof(float)) {
                float sum, x;
                std::memcpy(&sum, at + i, sizeof sum);
                std::memcpy(&x, line.data() + i, sizeof x);
                sum += x;
                std::memcpy(at + i, &sum, sizeof sum);
            }
        } else {
            std::memcpy(at, line.data(), bytes);
        }
    }
};

enum Storing : int64_t { kTensor, kBulk, kBulkAdd };
Outcome bulk_store(Warp &warp, const Instruction &instruction, Mask lanes) {
    const std::vector<Argument> &arguments = instruction.arguments;
    for_lanes(lanes, [&](int lane) {
        Store store;
        store.is_tensor = instruction.number[1] == kTensor;
        store.adds = instruction.number[1] == kBulkAdd;
        if (store.is_tensor) {
            store.box = box_of(warp, arguments[0], instruction.number[0], lane);
            store.bytes = store.box.bytes();
        } else {
            store.box.map.swizzle = 0;
            store.to = warp.address(arguments[0], lane);
            store.bytes = value(warp, arguments[2].value, lane);
            check_bulk(store.bytes);
            global_at(store.to, store.bytes, 16, true);
        }
        const uint64_t from = warp.address(arguments[1], lane);
        shared_at(*warp.block, from, store.bytes, store.is_tensor ? 128 : 16);
        Block &block = block_of(*warp.block, shared_address(from), &store.box.address);
        if (&block != warp.block) fault("a store of another block's shared memory");
        store.box.shared = block.shared_base();
        need_fenced(warp, store.box.address, store.bytes);
        read_words(warp, store.box.address, store.bytes);
        warp.stores[lane].emplace_back(std::move(store));
    });
    return Outcome::kNext;
}
Outcome bulk_commit(Warp &warp, const Instruction &, Mask lanes) {
    for_lanes(lanes, [&](int lane) {
        warp.store_groups[lane].emplace_back(std::move(warp.stores[lane]));
        warp.stores[lane].clear();
    });
    return Outcome::kNext;
}
Outcome bulk_wait(Warp &warp, const Instruction &instruction, Mask lanes) {
    for_lanes(lanes, [&](int lane) {
        const std::size_t pending = value(warp, instruction.arguments[0].value, lane);
        Groups &groups = warp.store_groups[lane];
        if (instruction.number[0] == 0) return finish_groups(groups, pending);
        for (std::size_t i = 0; i + pending < groups.size(); ++i)
            for (std::function<void()> &store : groups[i]) store.target<Store>()->read();
    });
    return Outcome::kNext;
}

}  // namespace

// Shared memory is gone with the block: what is still to be read from it never comes.
void finish_stores(Warp &warp, int lane) {
    if (!warp.stores[lane].empty()) fault("a thread ends with bulk stores that it never committed");
    for (const std::vector<std::function<void()>> &group : warp.store_groups[lane])
        for (const std::function<void()> &store : group)
            if (!store.target<Store>()->has_read) fault("a thread ends while bulk stores still read shared memory");
    finish_groups(warp.store_groups[lane], 0);
}

bool decode_tma(const Opcode &opcode, Instruction *instruction) {
    const std::vector<std::string_view> &parts = opcode.parts;
    const std::size_t count = instruction->arguments.size();
    const auto is = [&](std::size_t first, std::initializer_list<std::string_view> names) {
        return parts.size() >= first + names.size() &&
               std::equal(names.begin(), names.end(), parts.begin() + static_cast<std::ptrdiff_t>(first));
    };
    // Cache hints, other ways to read tensors and the like are not known.
    for (const std::string_view &part : parts)
        if (part == "L2::cache_hint" || part == "im2col" || part == "cp_mask") return false;
    Run &run = instruction->run;
    if (opcode.is("cp") && is(1, {"reduce", "async", "bulk"})) {
        if (!is(4, {"global", "shared::cta", "bulk_group", "add", "f32"}) || parts.size() != 9 || count != 3) return false;
        instruction->number[1] = kBulkAdd;
        run = bulk_store;
    } else if (is(3, {"commit_group"})) {
        run = bulk_commit;
    } else if (is(3, {"wait_group"})) {
        if (count != 1) return false;
        instruction->number[0] = opcode.has("read");
        run = bulk_wait;
    } else if (is(3, {"tensor"})) {
        if (parts.size() < 8 || parts[4].size() != 2 || parts[4][1] != 'd') return false;
        const int64_t axes = instruction->number[0] = parts[4][0] - '0';
        if (axes < 1 || axes > 5) return false;
        const bool is_store = is(5, {"global", "shared::cta"});
        if (count < 3 - static_cast<std::size_t>(is_store)) return false;
        if (instruction->arguments[is_store ? 0 : 1].braces.size() != static_cast<std::size_t>(axes)) return false;
        if (is_store) {
            instruction->number[1] = kTensor;
            run = bulk_store;
            return opcode.has("bulk_group") && count == 2;
        }
        if (!is(5, {"shared::cluster", "global"}) && !is(5, {"shared::cta", "global"})) return false;
        instruction->number[1] = opcode.has("multicast::cluster");
        run = tensor_load;
        return opcode.has("mbarrier::complete_tx::bytes") && count == (instruction->number[1] != 0 ? 4u : 3u);
    } else if (is(3, {"shared::cluster", "global", "mbarrier::complete_tx::bytes"}) ||
               is(3, {"shared::cta", "global", "mbarrier::complete_tx::bytes"})) {
        if (parts.size() != 6 || count != 4) return false;
        run = bulk_load;
    } else if (is(3, {"prefetch", "L2", "global"})) {
        if (parts.size() != 6 || count != 2) return false;
        run = bulk_prefetch;
    } else if (is(3, {"global", "shared::cta", "bulk_group"})) {
        if (parts.size() != 6 || count != 3) return false;
        instruction->number[1] = kBulk;
        run = bulk_store;
    } else {
        return false;
    }
    return true;
}

}  // namespace attile::virtual_gpu
