// SPDX-License-Identifier: Apache-2.0
// What tensor cores and TMA read of shared memory. Products are done when they are issued; that their operands stay as they are
// until they are waited for is watched over instead, and that what threads wrote is fenced before others than threads read it.
#include <cstring>

#include "async.h"
#include "products.h"

namespace attile::virtual_gpu {
namespace {

void need_unread(const Block &block, std::size_t first, std::size_t bytes) {
    if (block.reading == 0) return;
    const auto overlaps = [&](const std::vector<Bytes> &all) {
        for (const Bytes &one : all)
            if (one.first < first + bytes && first < one.end) return true;
        return false;
    };
    for (const Warp &warp : block.warps) {
        bool reads = overlaps(warp.reading);
        for (const std::vector<Bytes> &group : warp.reading_groups) reads = reads || overlaps(group);
        if (reads)
            fault("shared memory: " + std::to_string(bytes) + " bytes at address " + std::to_string(first) +
                  " are written while products of warp " + std::to_string(warp.number) + " may read them");
    }
}

}  // namespace

void begin_reading(Warp &warp, uint32_t first, uint32_t end) {
    std::vector<Bytes> &bytes = warp.reading;
    if (!bytes.empty() && bytes.back().first == first && bytes.back().end == end) return;
    bytes.push_back({first, end});
    ++warp.block->reading;
}

Outcome commit_products(Warp &warp, const Instruction &, Mask) {
    warp.reading_groups.emplace_back(std::move(warp.reading));
    warp.reading.clear();
    return Outcome::kNext;
}

Outcome wait_products(Warp &warp, const Instruction &instruction, Mask) {
    const std::size_t pending = value(warp, instruction.arguments[0].value, 0);
    for (; warp.reading_groups.size() > pending; warp.reading_groups.pop_front())
        warp.block->reading -= static_cast<int>(warp.reading_groups.front().size());
    return Outcome::kNext;
}

void write_shared(Warp &warp, unsigned char *to, const void *from, std::size_t bytes) {
    Block &block = *warp.block;
    const std::size_t first = static_cast<std::size_t>(to - block.shared_base());
    if (std::memcmp(to, from, bytes) == 0) return write_again(warp, first, bytes);
    need_unread(block, first, bytes);
    write_words(warp, block, first, bytes);
    note_written(warp, first, bytes);
    std::memcpy(to, from, bytes);
}

void note_written(Warp &warp, std::size_t first, std::size_t bytes) {
    Block &block = *warp.block;
    if (block.written.empty()) return;
    ++block.writes;
    for (std::size_t i = first / 16; i <= (first + bytes - 1) / 16; ++i)
        block.written[i] = {block.writes, static_cast<uint32_t>(warp.number)};
}

void need_fenced(const Warp &warp, uint32_t first, std::size_t bytes) {
    const Block &block = *warp.block;
    if (block.written.empty()) return;
    for (std::size_t i = first / 16; i <= (first + bytes - 1) / 16; ++i) {
        const Block::Written &written = block.written[i];
        if (written.order > warp.fenced && written.order > block.warps[written.warp].fenced)
            fault("shared memory: 16 bytes at address " + std::to_string(16 * i) + ", written by warp " + std::to_string(written.warp) +
                  ", are read through the async proxy without a fence");
    }
}

void clear_way(const Warp &warp, Block &block, unsigned char *to, std::size_t bytes) {
    const std::size_t first = static_cast<std::size_t>(to - block.shared_base());
    need_unread(block, first, bytes);
    write_words(warp, block, first, bytes);
    std::memset(to, 0xff, bytes);
    if (!block.written.empty())
        for (std::size_t i = first / 16; i <= (first + bytes - 1) / 16; ++i) block.written[i].order = 0;
}

}  // namespace attile::virtual_gpu
