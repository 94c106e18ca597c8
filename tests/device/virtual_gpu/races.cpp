// SPDX-License-Identifier: Apache-2.0
// Two warps at one word of shared memory, one of which writes it, with nothing that makes the one come after the other. Each warp counts
// its releases (arrivals at barriers, copies asked for) and remembers how far it has heard of the others' counts; a barrier gathers what
// those who arrive know, and tells those who wait. So a word whose last writer or readers were at a count that a warp has not heard of is
// touched in no order, whatever order it happened to be this time. What lanes of one warp do to each other is not looked at.
#include <algorithm>

#include "ptx_machine.h"

namespace attile::virtual_gpu {
namespace {

std::size_t own(const Warp &warp) {
    return static_cast<std::size_t>(warp.block->rank) * warp.block->warps.size() + static_cast<std::size_t>(warp.number);
}
void join(Clocks &to, const Clocks &from) {
    if (to.size() < from.size()) to.resize(from.size(), 0);
    for (std::size_t i = 0; i < from.size(); ++i) to[i] = std::max(to[i], from[i]);
}
[[noreturn]] void race(const Warp &warp, const char *what, std::size_t word, std::size_t other, const char *done) {
    fault("shared memory: warp " + std::to_string(warp.number) + what + " the word at address " + std::to_string(4 * word) +
          " in no order with warp " + std::to_string(other % warp.block->warps.size()) + ", which " + done + " it");
}
bool follows(const Warp &warp, const Block::Writer &writer) { return writer.clock <= warp.clocks[writer.warp]; }

}  // namespace

void begin_clocks(Warp &warp) {
    warp.clocks.assign(warp.block->cluster->blocks.size() * warp.block->warps.size(), 0);
    warp.clocks[own(warp)] = 1;
    warp.at_fence.clear();
}
void release_to(Warp &warp, Clocks &gathered) {
    join(gathered, warp.clocks);
    ++warp.clocks[own(warp)];
}
void acquire_from(Warp &warp, const Clocks &released) { join(warp.clocks, released); }
void fence(Warp &warp) {
    warp.at_fence = warp.clocks;
    ++warp.clocks[own(warp)];
}
void release_fenced_to(const Warp &warp, Clocks &gathered) { join(gathered, warp.at_fence); }

void arrive_at(const Warp &warp, Block &other) {
    other.arrivals.resize(warp.clocks.size(), 0);
    other.arrivals[own(warp)] = warp.clocks[own(warp)];
}
void expect_all_arrived(const Block &block) {
    for (std::size_t i = 0; i < block.arrivals.size(); ++i) {
        bool is_known = block.arrivals[i] == 0;
        for (const Warp &warp : block.warps) is_known = is_known || block.arrivals[i] <= warp.clocks[i];
        if (!is_known)
            fault("mbarrier: the block ends, and has not heard of an arrival of warp " + std::to_string(i % block.warps.size()) +
                  " of another block, which may come later");
    }
}

void read_words(const Warp &warp, std::size_t first, std::size_t bytes) {
    Block &block = *warp.block;
    const std::size_t warps = block.warps.size();
    for (std::size_t word = first / 4; word <= (first + bytes - 1) / 4; ++word) {
        const Block::Writers &writers = block.writers[word];
        bool is_sure = follows(warp, writers.first);
        for (const Block::Writer &other : writers.others) is_sure = is_sure || (other.clock != 0 && follows(warp, other));
        if (!is_sure) race(warp, " reads", word, writers.first.warp, "wrote");
        block.readers[word * warps + static_cast<std::size_t>(warp.number)] = warp.clocks[own(warp)];
    }
}

void write_words(const Warp &warp, Block &block, std::size_t first, std::size_t bytes) {
    const std::size_t warps = block.warps.size(), before = static_cast<std::size_t>(block.rank) * warps, self = own(warp);
    for (std::size_t word = first / 4; word <= (first + bytes - 1) / 4; ++word) {
        Block::Writers &writers = block.writers[word];
        if (!follows(warp, writers.first)) race(warp, " writes", word, writers.first.warp, "wrote");
        for (const Block::Writer &other : writers.others)
            if (!follows(warp, other)) race(warp, " writes", word, other.warp, "wrote");
        for (std::size_t i = 0; i < warps; ++i) {
            uint32_t &clock = block.readers[word * warps + i];
            if (clock > warp.clocks[before + i] && before + i != self) race(warp, " writes", word, i, "read");
            clock = 0;
        }
        writers = {{static_cast<uint32_t>(self), warp.clocks[self]}, {}};
    }
}

void write_again(const Warp &warp, std::size_t first, std::size_t bytes) {
    const std::size_t self = own(warp);
    for (std::size_t word = first / 4; word <= (first + bytes - 1) / 4; ++word) {
        Block::Writers &writers = warp.block->writers[word];
        if (follows(warp, writers.first)) continue;
        for (Block::Writer &other : writers.others) {
            if (other.clock != 0 && other.warp != self) continue;
            other = {static_cast<uint32_t>(self), warp.clocks[self]};
            break;
        }
    }
}

}  // namespace attile::virtual_gpu
