// SPDX-License-Identifier: Apache-2.0
// Quantisation and back: how x is cut into tiles, and the interface.
#include "quantize/quantize.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "element.h"
#include "threads/threads.h"

namespace attile::cpu {
namespace {

constexpr int64_t kElementsForThreads = 1 << 15;

// A tile is the rows of a block, along the first three axes, and some columns: whole blocks of up to a piece, or one block whose columns
// are several pieces. A step is a piece of one row. Tiles that are few and large are cut into parts, which find their maxima by themselves.
struct Plan {
    attile_quantize_problem p;  // an axis along which elements lie together comes last
    int64_t rows = 1;           // of a tile
    int64_t width = 1;          // columns of a tile
    int64_t pieces = 1;         // of a tile's row
    int64_t across = 1;         // tiles along the last axis
    int64_t tiles = 1;
    int64_t parts = 1;  // of a tile
    int64_t batch = 1;  // tiles that a task takes
    int threads = 1;
    bool finds_scales = false;
    int64_t workspace_bytes = 0;

    int64_t group() const { return std::min(p.group[3], kQuantizePiece); }
    int64_t scales() const { return pieces > 1 ? 1 : ceil_div(width, p.group[3]); }  // of a tile
    int64_t ends() const { return p.q.dtype == ATTILE_U4 ? 2 : 1; }                  // maxima for each: of a range it is both ends
};

// Of u4 from 0 up.
float largest_number(int32_t dtype) {
    switch (dtype) {
        case ATTILE_I8:
            return 127;
        case ATTILE_I4:
            return 7;
        case ATTILE_U4:
            return 15;
        default:
            return dtype == ATTILE_F8_E4M3 ? 448.0f : 57344.0f;
    }
}

bool is_float(int32_t dtype) { return dtype == ATTILE_F32 || dtype == ATTILE_F16 || dtype == ATTILE_BF16; }

void swap_axes(attile_quantize_problem *p, int a, int b) {
    for (attile_operand *x : {&p->x, &p->q, &p->scale, &p->zero}) std::swap(x->stride[a], x->stride[b]);
    std::swap(p->shape[a], p->shape[b]);
    std::swap(p->group[a], p->group[b]);
}

Plan make_plan(const State &state, const attile_quantize_problem &problem) {
    Plan plan;
    plan.p = problem;
    attile_quantize_problem &p = plan.p;
    const bool has_rows = p.rope_positions != 0 || p.append != 0;  // whose axes say where they are
    const auto lies_together = [&](int axis) { return p.shape[axis] > 1 && p.x.stride[axis] == 1 && p.q.stride[axis] == 1; };
    for (int axis = 2; axis >= 0 && p.hadamard == 0 && !has_rows && !lies_together(3); --axis) {
        if (lies_together(axis)) swap_axes(&p, axis, 3);
    }
    plan.rows = (Size(p.group[0]) * p.group[1] * p.group[2]).value();
    const int64_t group = p.group[3];
    plan.width = group > kQuantizePiece ? group : least(p.shape[3], kQuantizePiece / group * group);
    plan.pieces = ceil_div(plan.width, kQuantizePiece);
    plan.across = ceil_div(p.shape[3], plan.width);
    plan.tiles = (Size(p.shape[0] / p.group[0]) * (p.shape[1] / p.group[1]) * (p.shape[2] / p.group[2]) * plan.across).value();
    plan.finds_scales = p.scale_given == 0;
    const int64_t steps = (Size(plan.rows) * plan.pieces).value(), of_tile = (Size(plan.rows) * plan.width).value();
    if ((Size(of_tile) * plan.tiles).value() >= kElementsForThreads) plan.threads = state.threads;
    if (plan.threads > 1 && plan.tiles < 4 * plan.threads) plan.parts = least(steps, ceil_div(4 * plan.threads, plan.tiles));
    plan.batch = most(1, kElementsForThreads / 4 / of_tile);
    if (plan.finds_scales && plan.parts > 1) {
        plan.workspace_bytes = bytes_for<int32_t>(plan.tiles, plan.parts, plan.scales(), plan.ends()).value();
    }
    return plan;
}

int64_t integer_at(const attile_operand &x, int64_t i, int64_t j) {
    const int64_t at = i * x.stride[0] + j * x.stride[1];
    return x.dtype == ATTILE_I64 ? static_cast<const int64_t *>(x.data)[at] : static_cast<const int32_t *>(x.data)[at];
}

// The key that a row of a batch entry is; without lengths they are counted from 0.
int64_t key_of(const attile_quantize_problem &p, int64_t entry, int64_t row) {
    return p.key_lengths.dtype != 0 ? integer_at(p.key_lengths, entry, 0) - p.shape[2] + row : row;
}

struct Rotation {
    float cosine, sine;
};

// The angles of a row.
class RopeRow {
  public:
    RopeRow(const attile_quantize_problem &p, const int64_t *at)
        : cosine_stride_(p.rope_cos.stride[1]), sine_stride_(p.rope_sin.stride[1]) {
        const int64_t asked = p.positions.dtype != 0 ? integer_at(p.positions, at[0], at[2]) : key_of(p, at[0], at[2]);
        const int64_t position = std::clamp<int64_t>(asked, 0, p.rope_positions - 1);
        cosines_ = static_cast<const float *>(p.rope_cos.data) + position * p.rope_cos.stride[0];
        sines_ = static_cast<const float *>(p.rope_sin.data) + position * p.rope_sin.stride[0];
    }
    Rotation at(int64_t pair) const { return {cosines_[pair * cosine_stride_], sines_[pair * sine_stride_]}; }

  private:
    const float *cosines_, *sines_;
    int64_t cosine_stride_, sine_stride_;
};

// One tile, or a part of one.
class Tile {
  public:
    Tile(const Plan &plan, const QuantizeKernels<float> &kernels, int64_t index) : plan_(plan), kernels_(kernels), p_(plan.p) {
        begin_[3] = index % plan.across * plan.width;
        index /= plan.across;
        for (int axis = 2; axis >= 0; --axis) {
            const int64_t blocks = p_.shape[axis] / p_.group[axis];
            begin_[axis] = index % blocks * p_.group[axis];
            index /= blocks;
        }
        width_ = least(plan.width, p_.shape[3] - begin_[3]);
        scales_ = plan.pieces > 1 ? 1 : ceil_div(width_, p_.group[3]);
        for (int axis = 0; axis < 4; ++axis) block_[axis] = begin_[axis] / p_.group[axis];
        if (p_.append != 0) find_place();
    }

    void find_maxima(int64_t part, int32_t *maxima) const {
        std::fill(maxima, maxima + plan_.scales() * plan_.ends(), 0);
        if (!has_place_) return;
        for_steps(part, [&](const int64_t *at, int64_t count) {
            alignas(64) float room[kQuantizePiece];
            const float *const x = load(at, count, room);
            if (plan_.ends() == 1) return kernels_.maximum(x, count, plan_.group(), Sign::kEither, maxima);
            kernels_.maximum(x, count, plan_.group(), Sign::kPlus, maxima);
            kernels_.maximum(x, count, plan_.group(), Sign::kMinus, maxima + plan_.scales());
        });
    }

    // Maxima to scales and zero points, in memory.
    void write_scales(const int32_t *maxima) const {
        if (!has_place_) return;
        const float most = largest_number(p_.q.dtype);
        const int32_t *const minima = maxima + plan_.scales();
        for (int64_t i = 0; i < scales_; ++i) {
            const bool has_zero = plan_.ends() == 2;
            const bool is_number = maxima[i] < 0x7f800000 && (!has_zero || minima[i] < 0x7f800000);
            const float low = has_zero && is_number ? -std::bit_cast<float>(minima[i]) : 0;
            const float scale = is_number ? std::bit_cast<float>(maxima[i]) / most - low / most : std::numeric_limits<float>::quiet_NaN();
            *at_block(p_.scale, i) = scale;
            if (has_zero) *at_block(p_.zero, i) = is_number && scale != 0 ? std::nearbyint(-low / scale) : 0;
        }
    }

    void convert(int64_t part) const {
        if (!has_place_) return;
        alignas(64) float scales[kQuantizePiece], zeros_room[kQuantizePiece];
        for (int64_t i = 0; i < scales_; ++i) scales[i] = p_.scale.dtype != 0 ? *at_block(p_.scale, i) : 1.0f;
        const float *const zeros = p_.zero.dtype != 0 ? zeros_room : nullptr;
        for (int64_t i = 0; zeros != nullptr && i < scales_; ++i) zeros_room[i] = *at_block(p_.zero, i);
        for_steps(part, [&](const int64_t *at, int64_t count) {
            alignas(64) float room[kQuantizePiece];
            const int64_t to[4] = {p_.append != 0 ? block_[0] : at[0], at[1], p_.append != 0 ? block_[2] : at[2], at[3]};
            const Strip q = strip(p_.q, to, count);
            if (p_.back != 0) return kernels_.widen(q, plan_.group(), scales, zeros, p_.hadamard, room, strip(p_.x, at, count));
            const float *const x = load(at, count, room);
            if (is_float(q.dtype)) return kernels_.store(x, q);
            kernels_.narrow(x, count, plan_.group(), scales, zeros, q);
        });
    }

  private:
    // The row that is appended becomes a key, of pages one of a page.
    void find_place() {
        const int64_t key = key_of(p_, begin_[0], begin_[2]);
        has_place_ = key >= 0 && key < p_.len_k;
        block_[2] = key;
        if (p_.page_size == 0 || !has_place_) return;
        block_[0] = integer_at(p_.block_table, begin_[0], key / p_.page_size);
        block_[2] = key % p_.page_size;
        has_place_ = block_[0] >= 0 && block_[0] < p_.pages;
    }
    // Part of a row of x, its pairs rotated.
    const float *load(const int64_t *at, int64_t count, float *room) const {
        if (p_.rope_positions == 0) return kernels_.load(strip(p_.x, at, count), p_.hadamard, room);
        alignas(64) float partners[kQuantizePiece];
        const float *const own = kernels_.load(strip(p_.x, at, count), 0, room);
        const int64_t begin = at[3], end = begin + count, pairs = p_.rope_pairs;
        const RopeRow angles(p_, at);
        if (p_.rope_layout == ATTILE_ROPE_INTERLEAVED) {
            int64_t i = 0;
            for (; begin + i < least(end, 2 * pairs); i += 2) {
                const Rotation by = angles.at((begin + i) / 2);
                const float first = own[i], second = own[i + 1];
                room[i] = first * by.cosine - second * by.sine;
                room[i + 1] = second * by.cosine + first * by.sine;
            }
            if (own != room) std::copy(own + i, own + count, room + i);
        } else {
            const int64_t middle = std::clamp(pairs, begin, end), last = std::clamp(2 * pairs, begin, end);
            const auto partner = [&](int64_t from, int64_t number) {
                const int64_t place[4] = {at[0], at[1], at[2], from};
                return kernels_.load(strip(p_.x, place, number), 0, partners);
            };
            if (begin < middle) {
                const float *const second = partner(begin + pairs, middle - begin);
                for (int64_t i = 0; i < middle - begin; ++i) {
                    const Rotation by = angles.at(begin + i);
                    room[i] = own[i] * by.cosine - second[i] * by.sine;
                }
            }
            if (middle < last) {
                const float *const first = partner(middle - pairs, last - middle);
                for (int64_t i = 0; i < last - middle; ++i) {
                    const Rotation by = angles.at(middle - pairs + i);
                    float &to = room[middle - begin + i];
                    to = own[middle - begin + i] * by.cosine + first[i] * by.sine;
                }
            }
            if (own != room) std::copy(own + (last - begin), own + count, room + (last - begin));
        }
        return kernels_.load({room, ATTILE_F32, 1, count}, p_.hadamard, room);
    }
    // Of the tile's block `i`.
    float *at_block(const attile_operand &x, int64_t i) const {
        int64_t offset = i * x.stride[3];
        for (int axis = 0; axis < 4; ++axis) offset += block_[axis] * x.stride[axis];
        return static_cast<float *>(x.data) + offset;
    }
    static Strip strip(const attile_operand &x, const int64_t *at, int64_t count) {
        const int64_t offset = at[0] * x.stride[0] + at[1] * x.stride[1] + at[2] * x.stride[2] + at[3] * x.stride[3];
        return {static_cast<char *>(x.data) + offset * dtype_bits(x.dtype) / 8, x.dtype, x.stride[3], count};
    }
    // visit(place, count) for each piece of each row of the part.
    template <class Visit>
    void for_steps(int64_t part, Visit &&visit) const {
        const int64_t steps = plan_.rows * plan_.pieces, share = ceil_div(steps, plan_.parts);
        for (int64_t step = part * share; step < least(steps, (part + 1) * share); ++step) {
            const int64_t row = step / plan_.pieces, column = step % plan_.pieces * kQuantizePiece;
            const int64_t at[4] = {begin_[0] + row / p_.group[2] / p_.group[1], begin_[1] + row / p_.group[2] % p_.group[1],
                                   begin_[2] + row % p_.group[2], begin_[3] + column};
            visit(at, least(kQuantizePiece, width_ - column));
        }
    }

    const Plan &plan_;
    const QuantizeKernels<float> &kernels_;
    const attile_quantize_problem &p_;
    int64_t begin_[4];
    int64_t block_[4];  // indices of the first block: of one that is appended, where its row goes
    int64_t width_, scales_;
    bool has_place_ = true;
};

void run_plan(const State &state, const Plan &plan, int32_t *partial) {
    const QuantizeKernels<float> &kernels = quantize_kernels<float>(state.target);
    if (plan.parts == 1) {
        parallel_for(plan.threads, ceil_div(plan.tiles, plan.batch), [&](int64_t task, int) {
            for (int64_t i = task * plan.batch; i < least(plan.tiles, (task + 1) * plan.batch); ++i) {
                const Tile tile(plan, kernels, i);
                int32_t maxima[2 * kQuantizePiece];
                if (plan.finds_scales) tile.find_maxima(0, maxima);
                if (plan.finds_scales) tile.write_scales(maxima);
                tile.convert(0);
            }
        });
        return;
    }
    const int64_t count = plan.tiles * plan.parts, scales = plan.scales() * plan.ends();
    const auto find = [&](int64_t i, int) { Tile(plan, kernels, i / plan.parts).find_maxima(i % plan.parts, partial + i * scales); };
    const auto join = [&](int64_t i, int) {
        int32_t *const whole = partial + i * plan.parts * scales;
        for (int64_t part = 1; part < plan.parts; ++part) {
            for (int64_t s = 0; s < scales; ++s) whole[s] = std::max(whole[s], whole[part * scales + s]);
        }
        Tile(plan, kernels, i).write_scales(whole);
    };
    const auto convert = [&](int64_t i, int) { Tile(plan, kernels, i / plan.parts).convert(i % plan.parts); };
    parallel_in_turn(plan.threads, Loop{plan.finds_scales ? count : 0, find}, Loop{plan.finds_scales ? plan.tiles : 0, join},
                     Loop{count, convert});
}

int32_t query(void *opaque, const attile_quantize_problem *problem, attile_support *support) {
    const State &state = *static_cast<State *>(opaque);
    const attile_quantize_problem &p = *problem;
    const Plan plan = make_plan(state, p);
    support->level = ATTILE_SUPPORT_NATIVE;
    support->status = ATTILE_OK;
    support->workspace_bytes = plan.workspace_bytes;
    std::snprintf(support->kernel, sizeof support->kernel, "cpu_%s_%s", p.back != 0 ? "dequantize" : "quantize",
                  kernel_target_name(state.target));
    double count = 1, blocks = 1;
    for (int axis = 0; axis < 4; ++axis) {
        count *= static_cast<double>(p.shape[axis]);
        blocks *= static_cast<double>(p.shape[axis] / p.group[axis]);
    }
    // A comparison and a quotient, or a product; the sums of a rotation.
    double steps = plan.finds_scales ? 2 : 1;
    for (int32_t apart = 1; apart < p.hadamard; apart *= 2) steps += 1;
    if (p.rope_positions != 0) steps += 6.0 * static_cast<double>(p.rope_pairs) / static_cast<double>(p.shape[3]);
    support->flops = steps * count;
    support->bytes =
        count * (dtype_bits(p.x.dtype) + dtype_bits(p.q.dtype)) / 8 + blocks * (dtype_bytes(p.scale.dtype) + dtype_bytes(p.zero.dtype));
    support->tile_m = reported(plan.rows);
    support->tile_n = reported(plan.width);
    support->threads = 1;
    support->blocks = plan.parts == 1 ? ceil_div(plan.tiles, plan.batch) : (Size(plan.tiles) * plan.parts).value();
    support->splits = reported(plan.parts);
    return ATTILE_OK;
}

int32_t run(void *opaque, const attile_quantize_problem *problem) {
    State &state = *static_cast<State *>(opaque);
    const Plan plan = make_plan(state, *problem);
    const Workspace workspace(state, problem->launch, plan.workspace_bytes);
    if (workspace.failed()) return out_of_workspace(plan.workspace_bytes);
    run_plan(state, plan, reinterpret_cast<int32_t *>(workspace.data()));
    return ATTILE_OK;
}

}  // namespace

const attile_quantize_interface g_quantize_interface = {sizeof(attile_quantize_interface), 1, query, run};

}  // namespace attile::cpu
