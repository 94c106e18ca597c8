// SPDX-License-Identifier: Apache-2.0
// Instructions by which lanes of a warp, and warps of a block, have to do with each other.
#include <algorithm>

#include "ptx_machine.h"

namespace attile::virtual_gpu {
namespace {

enum Shuffle : int64_t { kIndex, kButterfly, kUp, kDown };

Outcome shuffle(Warp &warp, const Instruction &i, Mask lanes) {
    const uint32_t *const from = warp.row<uint32_t>(i.arguments[1].value), *const by = warp.row<uint32_t>(i.arguments[2].value),
                          *const bound = warp.row<uint32_t>(i.arguments[3].value);
    uint32_t results[kLanes];
    Mask in_range = 0;
    for_lanes(lanes, [&](int lane) {
        const uint32_t segment = bound[lane] >> 8 & 31, clamp = bound[lane] & 31, self = static_cast<uint32_t>(lane);
        const uint32_t first = self & segment, last = first | (clamp & ~segment);
        uint32_t source = self;
        bool is_there = true;
        switch (i.number[0]) {
            case kIndex:
                source = first | (by[lane] & 31 & ~segment);
                is_there = source <= last;
                break;
            case kButterfly:
                source = self ^ (by[lane] & 31);
                is_there = source <= last;
                break;
            case kUp:
                is_there = self >= first + (by[lane] & 31);  // The bound is 0 here.
                source = self - (by[lane] & 31);
                break;
            default:
                source = self + (by[lane] & 31);
                is_there = source <= last;
        }
        if (!is_there) source = self;
        if ((lanes >> source & 1) == 0) fault("a shuffle reads lane " + std::to_string(source) + ", which takes no part");
        results[lane] = from[source];
        in_range |= static_cast<Mask>(is_there) << lane;
    });
    uint32_t *const to = warp.row<uint32_t>(i.arguments[0].value);
    for_lanes(lanes, [&](int lane) { to[lane] = results[lane]; });
    warp.set_predicate(i.arguments[0].second, in_range, lanes);
    return Outcome::kNext;
}

enum Vote : int64_t { kAny, kAll, kUniform, kBallot };

Outcome vote(Warp &warp, const Instruction &i, Mask lanes) {
    const Mask yes = warp.predicate(i.arguments[1].value) & lanes;
    if (i.number[0] == kBallot) {
        uint32_t *const to = warp.row<uint32_t>(i.arguments[0].value);
        for_lanes(lanes, [&](int lane) { to[lane] = yes; });
        return Outcome::kNext;
    }
    const bool result = i.number[0] == kAny ? yes != 0 : i.number[0] == kAll ? yes == lanes : yes == 0 || yes == lanes;
    warp.set_predicate(i.arguments[0].value, result ? ~Mask{0} : 0, lanes);
    return Outcome::kNext;
}

template <class T>
Outcome reduce(Warp &warp, const Instruction &i, Mask lanes) {
    const T *const from = warp.row<T>(i.arguments[1].value);
    T result = from[__builtin_ctz(lanes)];
    bool is_first = true;
    for_lanes(lanes, [&](int lane) {
        const T x = from[lane];
        if (!is_first)
            result = i.number[0] == 0   ? static_cast<T>(result + x)
                     : i.number[0] == 1 ? std::min(result, x)
                     : i.number[0] == 2 ? std::max(result, x)
                     : i.number[0] == 3 ? static_cast<T>(result & x)
                     : i.number[0] == 4 ? static_cast<T>(result | x)
                                        : static_cast<T>(result ^ x);
        is_first = false;
    });
    T *const to = warp.row<T>(i.arguments[0].value);
    for_lanes(lanes, [&](int lane) { to[lane] = result; });
    return Outcome::kNext;
}

Outcome meet(Warp &, const Instruction &, Mask) { return Outcome::kNext; }

enum Barrier : int64_t { kSync, kArrive, kReduce };

// A block's barriers: threads are counted, and a generation ends when there are as many as it wants.
Outcome barrier(Warp &warp, const Instruction &i, Mask lanes) {
    Block &block = *warp.block;
    const std::size_t at = i.number[0] == kReduce ? 1 : 0;
    const auto value = [&](std::size_t argument) { return warp.row<uint32_t>(i.arguments[argument].value)[__builtin_ctz(lanes)]; };
    const uint32_t number = value(at);
    if (number >= 16) fault("a block has 16 barriers, not one of number " + std::to_string(number));
    const std::size_t counts = i.number[0] == kReduce ? 3 : 2;
    const bool has_count = i.arguments.size() >= counts && i.number[1] == 0;
    const int wanted = has_count ? static_cast<int>(value(at + 1)) : block.threads - block.ended;
    if (wanted % kLanes != 0 && has_count) fault("a barrier of " + std::to_string(wanted) + " threads, which are no whole warps");
    Block::Named &named = block.named[number];
    const int lane = __builtin_ctz(lanes);
    if (!warp.is_waiting[lane]) {
        for_lanes(lanes, [&](int one) {
            warp.is_waiting[one] = i.number[0] != kArrive;
            warp.waiting_for[one] = named.generation;
        });
        named.arrived += __builtin_popcount(lanes);
        release_to(warp, named.gathered);
        if (i.number[0] == kReduce) {
            const Mask yes = warp.predicate(i.arguments.back().value) & lanes;
            named.all = named.all && yes == lanes;
            named.any = named.any || yes != 0;
        }
        if (named.arrived > wanted)
            fault("barrier " + std::to_string(number) + " wants " + std::to_string(wanted) + " threads, and " +
                  std::to_string(named.arrived) + " came");
    }
    if (named.arrived == wanted && warp.waiting_for[lane] == named.generation) {
        named.arrived = 0;
        ++named.generation;
        named.released = std::move(named.gathered);
        named.gathered.clear();
        named.last_all = named.all, named.last_any = named.any;
        named.all = true, named.any = false;
    }
    if (i.number[0] == kArrive) return Outcome::kNext;
    if (warp.waiting_for[lane] == named.generation) return Outcome::kWait;
    for_lanes(lanes, [&](int one) { warp.is_waiting[one] = false; });
    acquire_from(warp, named.released);
    if (i.number[0] == kReduce)
        warp.set_predicate(i.arguments[0].value, (i.number[2] != 0 ? named.last_all : named.last_any) ? ~Mask{0} : 0, lanes);
    return Outcome::kNext;
}

}  // namespace

bool decode_together(const Opcode &opcode, Instruction *instruction) {
    int64_t *const number = instruction->number;
    const std::string_view type = opcode.parts.back();
    if (opcode.is("shfl")) {
        number[0] = opcode.has("idx") ? kIndex : opcode.has("bfly") ? kButterfly : opcode.has("up") ? kUp : kDown;
        instruction->run = shuffle;
    } else if (opcode.is("vote")) {
        number[0] = opcode.has("ballot") ? kBallot : opcode.has("any") ? kAny : opcode.has("all") ? kAll : kUniform;
        instruction->run = vote;
    } else if (opcode.is("redux")) {
        number[0] = opcode.has("add")   ? 0
                    : opcode.has("min") ? 1
                    : opcode.has("max") ? 2
                    : opcode.has("and") ? 3
                    : opcode.has("or")  ? 4
                                        : 5;
        instruction->run = type == "s32" ? reduce<int32_t> : reduce<uint32_t>;
    } else if (opcode.is("bar") && opcode.has("warp")) {
        instruction->run = meet;
    } else if (opcode.has("popc")) {
        return false;
    } else if (opcode.is("bar") || (opcode.is("barrier") && !opcode.has("cluster"))) {
        number[0] = opcode.has("arrive") ? kArrive : opcode.has("red") ? kReduce : kSync;
        number[1] = number[0] == kReduce && instruction->arguments.size() < 4;  // bar.red p, barrier, q: no count.
        number[2] = opcode.has("and");
        instruction->run = barrier;
    }
    instruction->is_together = instruction->run != nullptr;
    return instruction->is_together;
}

}  // namespace attile::virtual_gpu
