// SPDX-License-Identifier: Apache-2.0
// Which registers live where, by the flow of the program; then places, the free ones first. A register keeps one place from its first write
// to its last use, in the order of the text. What one instruction reads and what it writes never share a place.
#include "ptx_places.h"

#include <algorithm>
#include <map>

namespace attile::virtual_gpu {
namespace {

// Calls act(operand, is_written, is_read) for every operand that is a register.
template <class Do>
void for_registers(Instruction &instruction, const Do &act) {
    const auto one = [&](Operand &operand, bool is_written, bool is_read) {
        if (operand.kind != Kind::kNone && !operand.is_constant) act(operand, is_written, is_read);
    };
    one(instruction.guard, false, true);
    for (std::size_t i = 0; i < instruction.arguments.size(); ++i) {
        Argument &argument = instruction.arguments[i];
        const bool is_written = i == 0 && instruction.writes_first;
        const bool is_read = !is_written || instruction.reads_first;
        one(argument.value, is_written, is_read);
        for (Operand &operand : argument.braces) one(operand, is_written, is_read);
        // "%p1|%p2" and "%r1|%p1" stand where results do.
        one(argument.second, is_written, is_read);
    }
}

class Lives {
  public:
    explicit Lives(Kernel *kernel) : kernel_(*kernel), words_((kernel->registers.size() + 63) / 64) { find_blocks(); }

    // The first and the last instruction of each register's life; {1, 0} where it has none.
    std::vector<std::pair<int32_t, int32_t>> spans() {
        flow();
        std::vector<std::pair<int32_t, int32_t>> spans(kernel_.registers.size(), {1, 0});
        const auto extend = [&](std::size_t number, int32_t at) {
            auto &[first, last] = spans[number];
            if (first > last)
                first = last = at;
            else
                first = std::min(first, at), last = std::max(last, at);
        };
        for (const Part &part : parts_) {
            for (std::size_t word = 0; word < words_; ++word) {
                for (uint64_t bits = part.in[word]; bits != 0; bits &= bits - 1)
                    extend(word * 64 + static_cast<std::size_t>(__builtin_ctzll(bits)), part.first);
                for (uint64_t bits = part.out[word]; bits != 0; bits &= bits - 1)
                    extend(word * 64 + static_cast<std::size_t>(__builtin_ctzll(bits)), part.end - 1);
            }
            for (int32_t at = part.first; at < part.end; ++at)
                for_registers(code(at), [&](const Operand &operand, bool, bool) { extend(static_cast<std::size_t>(operand.place), at); });
        }
        return spans;
    }

  private:
    struct Part {  // Of the program: entered at its first instruction, left after its last.
        int32_t first, end;
        std::vector<int32_t> next;
        std::vector<uint64_t> in, out, read, written;
    };

    Instruction &code(int32_t at) { return kernel_.code[static_cast<std::size_t>(at)]; }

    void find_blocks() {
        const int32_t count = static_cast<int32_t>(kernel_.code.size());
        std::vector<bool> starts(static_cast<std::size_t>(count) + 1, false);
        starts[0] = true;
        for (int32_t at = 0; at < count; ++at) {
            if (code(at).is_branch) starts[static_cast<std::size_t>(code(at).target)] = true;
            if (code(at).is_branch || code(at).is_end) starts[static_cast<std::size_t>(at) + 1] = true;
        }
        std::vector<int32_t> part_at(static_cast<std::size_t>(count));
        for (int32_t at = 0; at < count; ++at) {
            if (starts[static_cast<std::size_t>(at)]) parts_.push_back({at, at, {}, {}, {}, {}, {}});
            parts_.back().end = at + 1;
            part_at[static_cast<std::size_t>(at)] = static_cast<int32_t>(parts_.size()) - 1;
        }
        for (Part &part : parts_) {
            const Instruction &last = code(part.end - 1);
            const bool is_always = last.guard.kind == Kind::kNone;
            if (last.is_branch) part.next.push_back(part_at[static_cast<std::size_t>(last.target)]);
            if (part.end < count && !((last.is_branch || last.is_end) && is_always))
                part.next.push_back(part_at[static_cast<std::size_t>(part.end)]);
        }
    }

    void flow() {
        for (Part &part : parts_) {
            part.in.assign(words_, 0), part.out.assign(words_, 0), part.read.assign(words_, 0), part.written.assign(words_, 0);
            for (int32_t at = part.first; at < part.end; ++at) {
                Instruction &instruction = code(at);
                const auto bit = [](const Operand &operand) { return uint64_t{1} << (operand.place % 64); };
                const auto word = [](const Operand &operand) { return static_cast<std::size_t>(operand.place / 64); };
                for_registers(instruction, [&](const Operand &operand, bool, bool is_read) {
                    if (is_read && (part.written[word(operand)] & bit(operand)) == 0) part.read[word(operand)] |= bit(operand);
                });
                if (instruction.guard.kind != Kind::kNone) continue;  // What a guarded instruction writes may stay as it was.
                for_registers(instruction, [&](const Operand &operand, bool is_written, bool) {
                    if (is_written) part.written[word(operand)] |= bit(operand);
                });
            }
        }
        for (bool changes = true; changes;) {
            changes = false;
            for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
                for (std::size_t word = 0; word < words_; ++word) {
                    uint64_t out = 0;
                    for (const int32_t next : part->next) out |= parts_[static_cast<std::size_t>(next)].in[word];
                    const uint64_t in = part->read[word] | (out & ~part->written[word]);
                    if (in != part->in[word]) changes = true;
                    part->out[word] = out;
                    part->in[word] = in;
                }
            }
        }
    }

    Kernel &kernel_;
    std::size_t words_;
    std::vector<Part> parts_;
};

int32_t row_bytes(Kind kind) { return kind == Kind::kWide ? 8 * kLanes : kind == Kind::kNarrow ? 4 * kLanes : 4; }

}  // namespace

void give_places(Kernel *kernel) {
    std::vector<std::pair<int32_t, int32_t>> spans = Lives(kernel).spans();
    const int32_t end = static_cast<int32_t>(kernel->code.size());
    for (auto &[name, operand] : kernel->specials) spans[static_cast<std::size_t>(operand.place)] = {0, end};  // Filled beforehand.

    std::vector<std::vector<int32_t>> starting(static_cast<std::size_t>(end) + 1), ending(static_cast<std::size_t>(end) + 1);
    for (std::size_t number = 0; number < spans.size(); ++number) {
        const auto [first, last] = spans[number];
        if (first > last) continue;
        starting[static_cast<std::size_t>(first)].push_back(static_cast<int32_t>(number));
        ending[static_cast<std::size_t>(last)].push_back(static_cast<int32_t>(number));
    }
    std::vector<int32_t> place(spans.size(), 0);
    std::map<Kind, std::vector<int32_t>> free;
    int32_t rows = 0;  // Predicates come after all rows, so that rows lie at multiples of 128 bytes.
    int32_t predicates = 0;
    for (int32_t at = 0; at <= end; ++at) {
        for (const int32_t number : starting[static_cast<std::size_t>(at)]) {
            const Kind kind = kernel->registers[static_cast<std::size_t>(number)];
            std::vector<int32_t> &places = free[kind];
            int32_t &given = place[static_cast<std::size_t>(number)];
            if (!places.empty()) {
                given = places.back();
                places.pop_back();
            } else {
                int32_t &next = kind == Kind::kPredicate ? predicates : rows;
                given = next;
                next += row_bytes(kind);
            }
        }
        for (const int32_t number : ending[static_cast<std::size_t>(at)])
            free[kernel->registers[static_cast<std::size_t>(number)]].push_back(place[static_cast<std::size_t>(number)]);
    }
    const auto settle = [&](Operand &operand) {
        const std::size_t number = static_cast<std::size_t>(operand.place);
        operand.place = place[number] + (operand.kind == Kind::kPredicate ? rows : 0);
    };
    for (Instruction &instruction : kernel->code) for_registers(instruction, [&](Operand &operand, bool, bool) { settle(operand); });
    for (auto &[name, operand] : kernel->specials) settle(operand);
    kernel->register_bytes = rows + predicates;
    kernel->registers.clear();
    kernel->registers.shrink_to_fit();
}

}  // namespace attile::virtual_gpu
