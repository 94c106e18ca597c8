// SPDX-License-Identifier: Apache-2.0
#include "distributed/pair_call.h"

#include <algorithm>
#include <cmath>

#include "distributed/sums.h"
#include "message.h"
#include "status.h"
#include "tensor.h"

namespace attile::core {
namespace {

void set_window(const Pair &pair, attile_attention_args *args) {
    if (pair.left < 0 && pair.right < 0) {
        args->mask = ATTILE_MASK_NONE;
    } else if (pair.left < 0 && pair.right == 0) {
        args->mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
    } else {
        args->mask = ATTILE_MASK_WINDOW_TOP_LEFT;
        args->window_left = pair.left;
        args->window_right = pair.right;
    }
}

}  // namespace

Meeting meet(const EntryGroup &group, const Piece &rows, const Piece &keys) {
    Meeting meeting;
    meeting.group = &group;
    meeting.rows = clip(rows, group.rows);
    meeting.keys = clip(keys, group.keys);
    meeting.pair = make_pair(meeting.rows, meeting.keys, group.band);
    meeting.key = (meeting.keys.local - keys.local) / keys.step + meeting.pair.key;
    return meeting;
}

namespace {

// Whether a call may be of rows or keys that lie side by side in memory, but not in the sequence.
bool joins(const DistributedAttention &problem) {
    const attile_attention_args &local = problem.local;
    return !problem.packed && is_absent(local.bias) && is_absent(local.allowed) && is_absent(local.alibi_slopes);
}

bool follows(const Piece &next, const Piece &piece) {
    return piece.step == next.step && piece.local + piece.count * piece.step == next.local;
}

// All rows see all keys.
bool is_whole(const Meeting &one) { return !one.pair.hidden && one.pair.left < 0 && one.pair.right < 0 && one.pair.rows == one.rows.count; }

}  // namespace

std::vector<std::vector<Piece>> list_runs(const std::vector<Piece> &pieces) {
    std::vector<std::vector<Piece>> runs;
    for (const Piece &piece : pieces) {
        if (piece.count == 0) continue;
        if (runs.empty() || !follows(piece, runs.back().back())) runs.emplace_back();
        runs.back().push_back(piece);
    }
    return runs;
}

Piece place_of(const std::vector<Piece> &run) {
    Piece place = run.front();
    place.count = 0;
    for (const Piece &piece : run) place.count += piece.count;
    return place;
}

std::vector<Meeting> meet_run(const DistributedAttention &problem, const EntryGroup &group, const Piece &rows,
                              const std::vector<Piece> &run) {
    std::vector<Meeting> meetings;
    for (const Piece &piece : run) {
        Meeting next = meet(group, rows, piece);
        if (next.pair.hidden) continue;
        next.key += (piece.local - run.front().local) / piece.step;
        const bool goes_on = !meetings.empty() && joins(problem) && is_whole(meetings.back()) && is_whole(next) &&
                             meetings.back().key + meetings.back().pair.keys == next.key;
        if (goes_on) {
            meetings.back().pair.keys += next.pair.keys;
        } else {
            meetings.push_back(next);
        }
    }
    return meetings;
}

bool join_rows(const DistributedAttention &problem, const std::vector<Meeting> &next, std::vector<Meeting> *meetings) {
    if (!joins(problem) || meetings->size() != next.size()) return false;
    for (size_t i = 0; i < next.size(); ++i) {
        const Meeting &one = (*meetings)[i], &other = next[i];
        if (!is_whole(one) || !is_whole(other) || one.key != other.key || one.pair.keys != other.pair.keys) return false;
        if (!follows(other.rows, one.rows)) return false;
    }
    for (size_t i = 0; i < next.size(); ++i) {
        Meeting &one = (*meetings)[i];
        one.rows.count += next[i].rows.count;
        one.pair.rows = one.rows.count;
    }
    return true;
}

bool sees(const DistributedAttention &problem, int32_t rank, const Piece &keys) {
    for (const Piece &rows : problem.q_shards[static_cast<size_t>(rank)].pieces) {
        for (const EntryGroup &group : problem.groups) {
            if (!meet(group, rows, keys).pair.hidden) return true;
        }
    }
    return false;
}

attile_tensor rows_of(const attile_tensor &tensor, const Meeting &meeting) {
    const attile_tensor entries = slice(tensor, 0, meeting.group->begin, meeting.batch());
    return slice(entries, 2, meeting.rows.local + meeting.rows.step * meeting.pair.row, meeting.pair.rows, meeting.rows.step);
}

attile_tensor keys_of(const attile_tensor &tensor, const Meeting &meeting) {
    return slice(slice(tensor, 0, meeting.group->begin, meeting.batch()), 2, meeting.key, meeting.pair.keys);
}

attile_tensor scores_of(const DistributedAttention &problem, const attile_tensor &tensor, const Meeting &meeting) {
    const Piece &rows = meeting.rows, &keys = meeting.keys;
    const Pair &pair = meeting.pair;
    attile_tensor part = slice_broadcast(with_four_axes(tensor), 0, meeting.group->entry, meeting.batch());
    part = problem.packed ? slice_broadcast(part, 2, rows.first + rows.stride * pair.row, pair.rows, rows.stride)
                          : slice_broadcast(part, 2, rows.local + rows.step * pair.row, pair.rows, rows.step);
    return slice_broadcast(part, 3, keys.first + keys.stride * pair.key, pair.keys, keys.stride);
}

std::vector<Piece> rows_with_results(const DistributedAttention &problem) {
    std::vector<Piece> all;
    if (!problem.packed) {
        Piece rows;
        rows.count = problem.rows();
        all.push_back(rows);
        return all;
    }
    for (const Piece &piece : problem.q_shard().pieces) {
        for (const EntryGroup &group : problem.groups) {
            const Piece part = clip(piece, group.rows);
            if (part.count == 0) continue;
            const bool goes_on =
                !all.empty() && all.back().step == part.step && all.back().local + all.back().count * part.step == part.local;
            if (goes_on) {
                all.back().count += part.count;
            } else {
                all.push_back(part);
            }
        }
    }
    return all;
}

int32_t PairCall::take() {
    const DistributedAttention &p = problem_;
    const bool has_slopes = !is_absent(p.local.alibi_slopes);
    if (has_slopes) ATTILE_TRY(p.to_host(p.local.alibi_slopes, &slopes_copy_, &slopes_));
    return !is_absent(p.local.bias) && (has_slopes || widens_bias()) ? p.to_host(p.local.bias, &bias_copy_, &bias_) : ATTILE_OK;
}

// The gradient of a call's bias has its type. Those of several calls are added up, so beside float64 none may be rounded to float32 before.
bool PairCall::widens_bias() const {
    return problem_.wide() == ATTILE_F64 && problem_.local.bias.dtype == ATTILE_F32 && !is_absent(problem_.gradients.dbias);
}

int32_t PairCall::widen_bias(attile_attention_args *args) {
    const attile_tensor given = args->bias;
    const int64_t *shape = given.shape;
    ATTILE_TRY(distances_.take(problem_.operation, product({shape[0], shape[1], shape[2]}), shape[3] * element_bytes(ATTILE_F64)));
    int64_t at = 0;
    for (int64_t b = 0; b < shape[0]; ++b) {
        for (int64_t h = 0; h < shape[1]; ++h) {
            for (int64_t i = 0; i < shape[2]; ++i) {
                for (int64_t j = 0; j < shape[3]; ++j, ++at) store_number(distances_.at(), ATTILE_F64, at, read_number(given, b, h, i, j));
            }
        }
    }
    ATTILE_TRY(bring_distances(at * element_bytes(ATTILE_F64)));
    return attile_tensor_init(&args->bias, distances().at(), ATTILE_F64, 4, shape);
}

int32_t PairCall::make(const Meeting &meeting, const attile_tensor &k, const attile_tensor &v, attile_attention_args *args) {
    const attile_attention_args &local = problem_.local;
    attile_attention_init(args, sizeof *args);
    args->flags = local.flags;
    args->stream = local.stream;
    args->scale = local.scale;
    args->softcap = local.softcap;
    args->q = rows_of(local.q, meeting);
    args->k = keys_of(k, meeting);
    args->v = keys_of(v, meeting);
    set_window(meeting.pair, args);
    if (!is_absent(local.allowed)) args->allowed = scores_of(problem_, local.allowed, meeting);
    if (!is_absent(local.bias)) args->bias = scores_of(problem_, local.bias, meeting);
    const bool widens = widens_bias();
    if (is_absent(local.alibi_slopes) && !widens) return ATTILE_OK;
    if (!is_absent(local.bias)) args->bias = scores_of(problem_, bias_, meeting);
    if (is_absent(local.alibi_slopes)) return widen_bias(args);
    ATTILE_TRY(apply_alibi(meeting, args));
    return widens && args->bias.dtype != ATTILE_F64 ? widen_bias(args) : ATTILE_OK;
}

double PairCall::slope(const EntryGroup &group, int64_t b, int64_t h) const {
    return slopes_.rank == 2 ? read_number(slopes_, group.entry + b, h) : read_number(slopes_, h);
}

// ALiBi goes by positions. Where the local call's own distances are those, it takes the slopes. Else the distances are a bias: one line of
// them a head holds all, since they depend on j - i alone, and strides of 1 and -1 make the matrix of it. Only together with a bias of the
// caller's is the sum of both written out.
int32_t PairCall::apply_alibi(const Meeting &meeting, attile_attention_args *args) {
    const EntryGroup &group = *meeting.group;
    const Piece &keys = meeting.keys;
    const Pair &pair = meeting.pair;
    const bool each = slopes_.rank == 2;
    if (keys.stride == 1 && (pair.diagonal == 0 || (args->mask == ATTILE_MASK_NONE && pair.diagonal == pair.keys - pair.rows))) {
        args->alibi_slopes = problem_.local.alibi_slopes;
        if (each) args->alibi_slopes = slice(args->alibi_slopes, 0, group.entry, meeting.batch());
        if (args->mask == ATTILE_MASK_NONE && pair.diagonal == 0) {
            args->mask = ATTILE_MASK_WINDOW_TOP_LEFT;  // whose distances begin at this corner
            args->window_left = args->window_right = -1;
        }
        return ATTILE_OK;
    }
    const int32_t dtype = problem_.wide();
    const int64_t heads = problem_.heads_q();
    const auto value = [&](double factor, int64_t steps) {
        return -factor * std::abs(static_cast<double>(keys.stride * steps - pair.diagonal));
    };
    if (is_absent(args->bias)) {
        const int64_t line = pair.rows + pair.keys - 1, batch = each ? meeting.batch() : 1;
        const int64_t count = batch * heads * line, bytes = element_bytes(dtype);
        ATTILE_TRY(distances_.take(problem_.operation, count, bytes));
        for (int64_t b = 0; b < batch; ++b) {
            for (int64_t h = 0; h < heads; ++h) {
                const double factor = slope(group, b, h);
                for (int64_t t = 0; t < line; ++t) {
                    store_number(distances_.at(), dtype, (b * heads + h) * line + t, value(factor, t - (pair.rows - 1)));
                }
            }
        }
        ATTILE_TRY(bring_distances(count * bytes));
        attile_tensor &bias = args->bias;
        bias.data = distances().at((pair.rows - 1) * bytes);
        bias.dtype = dtype;
        bias.rank = 4;
        const int64_t shape[4] = {batch, heads, pair.rows, pair.keys}, stride[4] = {heads * line, line, -1, 1};
        std::copy_n(shape, 4, bias.shape);
        std::copy_n(stride, 4, bias.stride);
        return ATTILE_OK;
    }
    const attile_tensor given = args->bias;
    const int64_t shape[4] = {meeting.batch(), heads, pair.rows, pair.keys};
    ATTILE_TRY(distances_.take(problem_.operation, shape[0] * shape[1] * shape[2], shape[3] * element_bytes(dtype)));
    const auto index = [&](int32_t axis, int64_t i) { return given.shape[axis] == 1 ? 0 : i; };
    int64_t at = 0;
    for (int64_t b = 0; b < shape[0]; ++b) {
        for (int64_t h = 0; h < shape[1]; ++h) {
            const double factor = slope(group, b, h);
            for (int64_t i = 0; i < shape[2]; ++i) {
                for (int64_t j = 0; j < shape[3]; ++j, ++at) {
                    const double own = read_number(given, index(0, b), index(1, h), index(2, i), index(3, j));
                    store_number(distances_.at(), dtype, at, own + value(factor, j - i));
                }
            }
        }
    }
    ATTILE_TRY(bring_distances(at * element_bytes(dtype)));
    return attile_tensor_init(&args->bias, distances().at(), dtype, 4, shape);
}

// To where the other operands are. On the stream of the calls, so that the call before has read what was there.
int32_t PairCall::bring_distances(int64_t bytes) {
    if (!problem_.on_device()) return ATTILE_OK;
    ATTILE_TRY(problem_.take(&device_distances_, bytes, 1));
    return attile_copy(problem_.context, device_distances_.at(), distances_.at(), bytes, problem_.local.stream);
}

}  // namespace attile::core
