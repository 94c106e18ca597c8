// SPDX-License-Identifier: Apache-2.0
// What happens later than it is asked for: copies, transaction barriers, clusters. Each copy is put off until somebody waits for it, and
// leaves NaN in its place until then: a kernel that does not wait reads that, and so does one that asks before others are done there.
#include <cstring>

#include "async.h"

namespace attile::virtual_gpu {
namespace {

// cp.async. In 16 bytes, which std::function keeps without memory of its own.
constexpr uint64_t kPointer = (uint64_t{1} << 56) - 1;
struct LaneCopy {
    uint64_t to : 56, bytes : 8;
    uint64_t from : 56, have : 8;
    void operator()() const {
        unsigned char *at = reinterpret_cast<unsigned char *>(uint64_t{to});
        if (have > 0) std::memcpy(at, reinterpret_cast<const void *>(uint64_t{from}), have);
        std::memset(at + have, 0, bytes - have);
    }
};

Outcome lane_copy(Warp &warp, const Instruction &instruction, Mask lanes) {
    const std::vector<Argument> &arguments = instruction.arguments;
    for_lanes(lanes, [&](int lane) {
        const uint64_t bytes = value(warp, arguments[2].value, lane);
        const uint64_t have = arguments.size() > 3 ? value(warp, arguments[3].value, lane) : bytes;
        if (have > bytes) fault("cp.async: " + std::to_string(have) + " bytes of " + std::to_string(bytes));
        unsigned char *const to = shared_at(*warp.block, warp.address(arguments[0], lane), bytes, bytes);
        const unsigned char *from = nullptr;
        clear_way(warp, *warp.block, to, bytes);
        note_written(warp, static_cast<std::size_t>(to - warp.block->shared_base()), bytes);
        if (have > 0) {
            const uint64_t address = warp.address(arguments[1], lane);
            if (address % bytes != 0) fault("cp.async: a source that is no multiple of its bytes");
            from = global_at(address, have, 1, false);
        }
        LaneCopy copy;
        copy.to = reinterpret_cast<uint64_t>(to) & kPointer;
        copy.bytes = bytes & 0xff;
        copy.from = reinterpret_cast<uint64_t>(from) & kPointer;
        copy.have = have & 0xff;
        warp.copies[lane].emplace_back(copy);
    });
    return Outcome::kNext;
}
Outcome lane_copy_commit(Warp &warp, const Instruction &, Mask lanes) {
    for_lanes(lanes, [&](int lane) {
        warp.groups[lane].emplace_back(std::move(warp.copies[lane]));
        warp.copies[lane].clear();
    });
    return Outcome::kNext;
}

Outcome lane_copy_wait(Warp &warp, const Instruction &instruction, Mask lanes) {
    if (instruction.arguments.empty()) lane_copy_commit(warp, instruction, lanes);  // wait_all
    for_lanes(lanes, [&](int lane) {
        finish_groups(warp.groups[lane], instruction.arguments.empty() ? 0 : value(warp, instruction.arguments[0].value, lane));
    });
    return Outcome::kNext;
}

// Transaction barriers.
void expect(TransactionBarrier &barrier, uint64_t bytes) {
    if (bytes >= 1 << 20) fault("mbarrier: " + std::to_string(bytes) + " bytes are more than one counts");
    barrier.bytes += static_cast<int64_t>(bytes);
}
Outcome barrier_init(Warp &warp, const Instruction &instruction, Mask lanes) {
    for_lanes(lanes, [&](int lane) {
        const uint64_t address = warp.address(instruction.arguments[0], lane), count = value(warp, instruction.arguments[1].value, lane);
        uint32_t at;
        Block &block = block_of(*warp.block, shared_address(address), &at);
        shared_at(*warp.block, address, 8, 8);
        if (&block != warp.block) fault("mbarrier.init: in another block");
        if (count < 1 || count >= 1 << 20) fault("mbarrier.init: " + std::to_string(count) + " arrivals");
        TransactionBarrier barrier;
        barrier.count = barrier.pending = static_cast<int64_t>(count);
        if (!block.transactions.emplace(at, std::move(barrier)).second) fault("mbarrier.init: of a barrier that is in use");
    });
    return Outcome::kNext;
}
Outcome barrier_inval(Warp &warp, const Instruction &instruction, Mask lanes) {
    for_lanes(lanes, [&](int lane) {
        const Place place = barrier_at(*warp.block, warp.address(instruction.arguments[0], lane));
        if (!place.barrier->late.empty()) fault("mbarrier.inval: of a barrier that copies are to arrive at");
        place.block->transactions.erase(place.address);
    });
    return Outcome::kNext;
}

enum Arrival : int64_t { kArrive, kArriveExpect, kExpect };
Outcome barrier_arrive(Warp &warp, const Instruction &instruction, Mask lanes) {
    const std::vector<Argument> &arguments = instruction.arguments;
    const int64_t what = instruction.number[0];
    const std::size_t first = what == kExpect ? 0 : 1;  // The address.
    for_lanes(lanes, [&](int lane) {
        const Place place = barrier_at(*warp.block, warp.address(arguments[first], lane));
        if (instruction.number[1] != 0 && place.block != warp.block) fault("mbarrier: another block's by shared::cta");
        TransactionBarrier &barrier = *place.barrier;
        const uint64_t number = arguments.size() > first + 1 ? value(warp, arguments[first + 1].value, lane) : 1;
        if (first == 1 && arguments[0].value.kind == Kind::kWide) warp.row<uint64_t>(arguments[0].value)[lane] = barrier.phase;
        if (what != kArrive) expect(barrier, number);
        if (what == kExpect) return;
        const int64_t arrivals = what == kArrive ? static_cast<int64_t>(number) : 1;
        if (arrivals < 1 || arrivals > barrier.pending)
            fault("mbarrier.arrive: " + std::to_string(arrivals) + " arrivals where " + std::to_string(barrier.pending) + " are missing");
        barrier.pending -= arrivals;
        if (place.block != warp.block) arrive_at(warp, *place.block);
        release_to(warp, barrier.gathered);
        settle(barrier);
    });
    // Whom it lets go on goes on first: products that this warp has yet to wait for are not done by then.
    return warp.reading.empty() && warp.reading_groups.empty() ? Outcome::kNext : Outcome::kRest;
}

Outcome barrier_wait(Warp &warp, const Instruction &instruction, Mask lanes) {
    const std::vector<Argument> &arguments = instruction.arguments;
    Mask done = 0;
    for_lanes(lanes, [&](int lane) {
        const Place place = barrier_at(*warp.block, warp.address(arguments[1], lane));
        if (place.block != warp.block) fault("mbarrier: a wait for another block's");
        const uint64_t parity = value(warp, arguments[2].value, lane);  // Or the state that an arrival gave.
        if (instruction.number[0] != 0 && parity > 1) fault("mbarrier: a parity of " + std::to_string(parity));
        TransactionBarrier &barrier = *place.barrier;
        while (barrier.phase % 2 == parity % 2 && !barrier.late.empty()) {
            const std::function<void()> copy = std::move(barrier.late.front());
            barrier.late.pop_front();
            copy();
        }
        if (barrier.phase % 2 == parity % 2) return;
        acquire_from(warp, barrier.released);
        done |= Mask{1} << lane;
    });
    warp.set_predicate(arguments[0].value, done, lanes);
    return done == lanes ? Outcome::kNext : Outcome::kYield;
}

// st.async, of one or of more 32-bit values.
Outcome store_async(Warp &warp, const Instruction &instruction, Mask lanes) {
    const std::vector<Argument> &arguments = instruction.arguments;
    const bool is_one = arguments[1].braces.empty();
    const std::size_t count = is_one ? 1 : arguments[1].braces.size();
    for_lanes(lanes, [&](int lane) {
        const uint64_t address = warp.address(arguments[0], lane);
        const Place place = barrier_at(*warp.block, warp.address(arguments[2], lane));
        uint32_t offset, words[4];
        if (&block_of(*warp.block, shared_address(address), &offset) != place.block) fault("st.async: the barrier is in another block");
        unsigned char *to = shared_at(*warp.block, address, 4 * count, 4 * count);
        for (std::size_t i = 0; i < count; ++i)
            words[i] = static_cast<uint32_t>(value(warp, is_one ? arguments[1].value : arguments[1].braces[i], lane));
        for (std::size_t i = count; i < 4; ++i) words[i] = 0;
        clear_way(warp, *place.block, to, 4 * count);
        put_off(warp, place, 4 * count, [=] { std::memcpy(to, words, 4 * count); });
    });
    return Outcome::kNext;
}

// Clusters.
Outcome map_address(Warp &warp, const Instruction &instruction, Mask lanes) {
    const std::vector<Argument> &arguments = instruction.arguments;
    const std::size_t blocks = warp.block->cluster == nullptr ? 1 : warp.block->cluster->blocks.size();
    for_lanes(lanes, [&](int lane) {
        const uint32_t own = static_cast<uint32_t>(value(warp, arguments[1].value, lane)) & ((1u << kRankShift) - 1);
        const uint64_t rank = value(warp, arguments[2].value, lane);
        if (rank >= blocks) fault("mapa: block " + std::to_string(rank) + " of a cluster of " + std::to_string(blocks));
        warp.row<uint32_t>(arguments[0].value)[lane] = own + static_cast<uint32_t>((rank + 1) << kRankShift);
    });
    return Outcome::kNext;
}

// A lane that has arrived has the generation that it waits for, others 0.
Outcome cluster_arrive(Warp &warp, const Instruction &instruction, Mask lanes) {
    Cluster &cluster = *warp.block->cluster;
    for_lanes(lanes, [&](int lane) {
        if (warp.cluster_generation[lane] != 0) fault("barrier.cluster.arrive: twice without a wait");
        warp.cluster_generation[lane] = cluster.generation + 1;
    });
    if (instruction.number[0] != 0)
        release_fenced_to(warp, cluster.gathered);
    else
        release_to(warp, cluster.gathered);
    cluster_ended(cluster);
    return Outcome::kNext;
}
Outcome cluster_wait(Warp &warp, const Instruction &, Mask lanes) {
    const uint32_t generation = warp.block->cluster->generation;
    bool waits = false;
    for_lanes(lanes, [&](int lane) {
        if (warp.cluster_generation[lane] == 0) fault("barrier.cluster.wait: without an arrival");
        waits = waits || warp.cluster_generation[lane] > generation;
    });
    if (waits) return Outcome::kWait;
    for_lanes(lanes, [&](int lane) { warp.cluster_generation[lane] = 0; });
    acquire_from(warp, warp.block->cluster->released);
    return Outcome::kNext;
}

Outcome elect(Warp &warp, const Instruction &instruction, Mask lanes) {
    const Argument &to = instruction.arguments[0];
    const Mask among = static_cast<Mask>(value(warp, instruction.arguments[1].value, __builtin_ctz(lanes))) & lanes;
    if (among == 0) fault("elect.sync: among no lanes");
    const int elected = __builtin_ctz(among);
    if (to.value.kind == Kind::kNarrow) for_lanes(lanes, [&](int lane) { warp.row<int32_t>(to.value)[lane] = elected; });
    warp.set_predicate(to.second, Mask{1} << elected, lanes);
    return Outcome::kNext;
}
Outcome proxy_fence(Warp &warp, const Instruction &, Mask) {
    warp.fenced = warp.block->writes;
    return Outcome::kNext;
}
Outcome thread_fence(Warp &warp, const Instruction &, Mask) {
    fence(warp);
    return Outcome::kNext;
}
Outcome nothing(Warp &, const Instruction &, Mask) { return Outcome::kNext; }
Outcome yield(Warp &, const Instruction &, Mask) { return Outcome::kYield; }

// Leaves `run` empty where it does not know the opcode.
void decode_barrier(const Opcode &opcode, Instruction *instruction) {
    const std::size_t count = instruction->arguments.size();
    const std::string_view what = opcode.parts.size() > 1 ? opcode.parts[1] : std::string_view();
    Run &run = instruction->run;
    if (what == "init" && count == 2) {
        run = barrier_init;
    } else if (what == "inval" && count == 1) {
        run = barrier_inval;
    } else if (what == "expect_tx" && count == 2) {
        instruction->number[0] = kExpect;
        run = barrier_arrive;
    } else if (what == "arrive" && !opcode.has("noComplete")) {
        const bool expects = opcode.has("expect_tx");
        instruction->number[0] = expects ? kArriveExpect : kArrive;
        if (count == 3 || (count == 2 && !expects)) run = barrier_arrive;
    } else if ((what == "try_wait" || what == "test_wait") && count >= 3) {
        instruction->number[0] = opcode.has("parity");
        run = barrier_wait;
    }
    instruction->number[1] = run == barrier_arrive && !opcode.has("shared::cluster");
}

}  // namespace

Block &block_of(Block &own, uint32_t address, uint32_t *offset) {
    *offset = address & ((1u << kRankShift) - 1);
    const uint32_t rank = address >> kRankShift;
    if (rank == 0 || (own.rank == static_cast<int>(rank) - 1 && own.cluster == nullptr)) return own;
    if (own.cluster == nullptr || rank > own.cluster->blocks.size()) fault("shared memory: an address in a block that the cluster has not");
    Block &block = *own.cluster->blocks[rank - 1];
    if (&block != &own && block.threads > 0 && block.ended == block.threads) fault("shared memory: of a block that has ended");
    return block;
}

unsigned char *shared_at(Block &own, uint64_t address, std::size_t bytes, std::size_t alignment) {
    uint32_t offset;
    Block &block = block_of(own, shared_address(address), &offset);
    if (offset + bytes > block.shared_size || offset + bytes < bytes)
        fault("shared memory: " + std::to_string(bytes) + " bytes at address " + std::to_string(offset) + ", of which the block has " +
              std::to_string(block.shared_size));
    if ((offset & (alignment - 1)) != 0)
        fault("shared memory: " + std::to_string(bytes) + " bytes at address " + std::to_string(offset) + ", which is no multiple of " +
              std::to_string(alignment));
    return block.shared_base() + offset;
}

uint32_t shared_address(uint64_t address) {
    if (address >> 32 != 0) address -= kSharedWindow;
    if (address >> 32 != 0) fault("shared memory: an address that is not of it");
    return static_cast<uint32_t>(address);
}

Place barrier_at(Block &own, uint64_t address) {
    Place place;
    place.block = &block_of(own, shared_address(address), &place.address);
    shared_at(own, address, 8, 8);
    const auto found = place.block->transactions.find(place.address);
    if (found == place.block->transactions.end()) fault("mbarrier: none was initialised at address " + std::to_string(place.address));
    place.barrier = &found->second;
    return place;
}

void settle(TransactionBarrier &barrier) {
    if (barrier.pending > 0 || barrier.bytes != 0) return;
    ++barrier.phase;
    barrier.released = std::move(barrier.gathered);
    barrier.gathered.clear();
    barrier.pending = barrier.count;
}

void finish_groups(Groups &groups, std::size_t pending) {
    for (; groups.size() > pending; groups.pop_front())
        for (const std::function<void()> &copy : groups.front()) copy();
}

// Looked for among the threads, because one may arrive and end.
void cluster_ended(Cluster &cluster) {
    bool is_any = false;
    for (const std::unique_ptr<Block> &block : cluster.blocks) {
        if (block->warps.empty() && (block->threads == 0 || block->ended < block->threads)) return;
        for (const Warp &warp : block->warps) {
            for (Mask rest = warp.lanes; rest != 0; rest &= rest - 1)
                if (warp.cluster_generation[__builtin_ctz(rest)] != cluster.generation + 1) return;
            is_any = is_any || warp.lanes != 0;
        }
    }
    if (!is_any) return;
    ++cluster.generation;
    cluster.released = std::move(cluster.gathered);
    cluster.gathered.clear();
}

bool decode_async(const Opcode &opcode, Instruction *instruction) {
    const std::vector<std::string_view> &parts = opcode.parts;
    const std::size_t count = instruction->arguments.size();
    const std::string_view second = parts.size() > 1 ? parts[1] : std::string_view();
    Run &run = instruction->run;
    if (opcode.is("fence") && opcode.has("proxy") && (opcode.has("async") || opcode.has("async::shared::cta"))) {
        run = proxy_fence;
    } else if (opcode.is("fence") || opcode.is("membar")) {
        run = thread_fence;
    } else if (opcode.is("griddepcontrol") || opcode.is("prefetch") || opcode.is("prefetchu") || opcode.is("discard") ||
               opcode.is("applypriority")) {
        run = nothing;
    } else if (opcode.is("setmaxnreg")) {
        instruction->is_together = true;
        run = nothing;
    } else if (opcode.is("nanosleep")) {
        run = yield;
    } else if (opcode.is("elect") && second == "sync" && count == 2) {
        instruction->is_together = true;
        run = elect;
    } else if (opcode.is("mapa") && opcode.has("shared::cluster") && opcode.has("u32") && count == 3) {
        run = map_address;
    } else if (opcode.is("barrier") && second == "cluster" && parts.size() > 2) {
        instruction->is_together = opcode.has("aligned");
        instruction->number[0] = opcode.has("relaxed");
        run = parts[2] == "arrive" ? cluster_arrive : parts[2] == "wait" ? cluster_wait : nullptr;
    } else if (opcode.is("mbarrier")) {
        decode_barrier(opcode, instruction);
    } else if (opcode.is("st") && second == "async") {
        const std::size_t words = count == 3 && !instruction->arguments[1].braces.empty() ? instruction->arguments[1].braces.size() : 1;
        const bool is_known = opcode.has("b32") || opcode.has("f32") || opcode.has("u32") || opcode.has("s32");
        if (is_known && count == 3 && words == (opcode.has("v4") ? 4u : opcode.has("v2") ? 2u : 1u)) run = store_async;
    } else if (opcode.is("cp")) {
        if (opcode.has("bulk")) return decode_tma(opcode, instruction);
        const std::string_view third = parts.size() > 2 ? parts[2] : std::string_view();
        if (third == "commit_group") {
            run = lane_copy_commit;
        } else if ((third == "wait_group" && count == 1) || third == "wait_all") {
            run = lane_copy_wait;
        } else if ((third == "ca" || third == "cg") && (count == 3 || count == 4) && !opcode.has("L2::cache_hint")) {
            if (count == 3 || instruction->arguments[3].value.kind != Kind::kPredicate) run = lane_copy;
        }
    }
    return run != nullptr;
}

}  // namespace attile::virtual_gpu
