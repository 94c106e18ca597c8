// SPDX-License-Identifier: Apache-2.0
// From the arguments of a product over ranks to its problem, and what ranks tell each other of it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "alias.h"
#include "distributed/grid_gemm.h"
#include "gemm_problem.h"

namespace attile::core {
namespace {

constexpr uint32_t kGemmArgsFirstSize = ATTILE_SIZE_UP_TO(attile_gemm_distributed_args, panel);
constexpr uint32_t kMatrixFirstSize = ATTILE_SIZE_UP_TO(attile_distributed_matrix, local);
constexpr uint32_t kGridFirstSize = ATTILE_SIZE_UP_TO(attile_grid, reserved);
constexpr uint32_t kGemmDistributedFlags = ATTILE_FLAG_BATCH_INVARIANT | ATTILE_FLAG_ALLOW_SPLIT_TF32 | ATTILE_FLAG_ALLOW_NONDETERMINISTIC;

long long shown(int64_t value) { return static_cast<long long>(value); }

int32_t check_range(const char *operation, const char *name, const char *field, int64_t value, int64_t lowest, int64_t highest) {
    if (value >= lowest && value <= highest) return ATTILE_OK;
    return fail(ATTILE_ERROR_INVALID_VALUE, "%s: %s%s is %lld; expected %lld to %lld", operation, name, field, shown(value), shown(lowest),
                shown(highest));
}

int32_t read_transposition(const char *operation, const char *name, int32_t value, bool *transposed) {
    *transposed = value == ATTILE_TRANS || value == ATTILE_CONJ_TRANS;
    if (*transposed || value == ATTILE_NO_TRANS || value == 0) return ATTILE_OK;
    return fail(ATTILE_ERROR_INVALID_VALUE, "%s: %s is %d; expected 0, ATTILE_NO_TRANS, ATTILE_TRANS or ATTILE_CONJ_TRANS", operation, name,
                value);
}

// One axis of a whole matrix, its default filled in.
int32_t read_axis(const char *operation, const char *name, const char *const *fields, int64_t extent, int64_t *block, int32_t source,
                  int64_t origin, int32_t ranks, int32_t divide, GridAxis *axis) {
    ATTILE_TRY(check_range(operation, name, fields[0], extent, 0, kMostLines));
    ATTILE_TRY(check_range(operation, name, fields[1], *block, 0, INT64_MAX));
    ATTILE_TRY(check_range(operation, name, fields[2], source, ATTILE_REPLICATED, ranks - 1));
    ATTILE_TRY(check_range(operation, name, fields[3], origin, 0, extent));
    const int64_t most = std::max<int64_t>(1, extent);
    *block = *block == 0 ? (most + ranks - 1) / ranks : std::min(*block, most);
    *axis = {extent - origin, origin, *block, source, ranks, divide};
    return ATTILE_OK;
}

// A matrix of the call as it is read, before any transposition.
struct StoredMatrix {
    attile_distributed_matrix full{};
    attile_grid grid{};
    View view;  // of the part
};

// This rank's part of what the call works on, `rows` by `columns` from the origin on.
int32_t read_part(const Call &call, const char *name, int64_t rows, int64_t columns, int32_t rank, const StoredMatrix &stored,
                  const attile_tensor &whole, GridLayout *layout, attile_tensor *part) {
    const int64_t extents[2] = {rows, columns}, origins[2] = {stored.full.row, stored.full.column};
    const char *const fields[2][2] = {{"row", "rows"}, {"column", "columns"}};
    *part = whole;
    for (int32_t i = 0; i < 2; ++i) {
        GridAxis &axis = layout->axis[i];
        if (extents[i] > axis.extent) {
            return fail(ATTILE_ERROR_SHAPE_MISMATCH, "%s: %s->%s is %lld; expected at most %lld, so that %lld %s fit into %s->%s = %lld",
                        call.operation, name, fields[i][0], shown(origins[i]), shown(origins[i] + axis.extent - extents[i]),
                        shown(extents[i]), fields[i][1], name, fields[i][1], shown(origins[i] + axis.extent));
        }
        axis.extent = extents[i];
        *part = slice(*part, i, axis.whole_below(rank, axis.origin), axis.count(rank));
    }
    return ATTILE_OK;
}

int32_t check_local(const Call &call, const char *name, const attile_tensor &local, const TensorRule &rule, int32_t rank,
                    const GridLayout &layout, View *view) {
    ATTILE_TRY(check_tensor(call, name, local, rule, view));
    for (int32_t i = 0; i < 2; ++i) {
        const GridAxis &axis = layout.axis[i];
        const int64_t expected = axis.whole_below(rank, axis.origin + axis.extent);
        if (local.shape[i] == expected) continue;
        return fail(ATTILE_ERROR_SHAPE_MISMATCH, "%s: %s.shape[%d] is %lld; expected %lld, the %s that rank %d has", call.operation, name,
                    i, shown(local.shape[i]), shown(expected), i == 0 ? "rows" : "columns", rank);
    }
    return ATTILE_OK;
}

// One of a, b and d.
int32_t read_operand(const Call &call, const char *name, const char *local_name, const attile_distributed_matrix *given,
                     const TensorRule &rule, bool transposed_by_call, int64_t rows, int64_t columns, const GridGemm &p,
                     StoredMatrix *stored, GridMatrix *matrix) {
    GridLayout layout;
    ATTILE_TRY(read_grid_matrix(call.operation, name, given, p.ranks, &stored->full, &stored->grid, &layout));
    View whole;
    ATTILE_TRY(check_local(call, local_name, stored->full.local, rule, p.rank, layout, &whole));
    if (transposed_by_call) std::swap(rows, columns);
    ATTILE_TRY(read_part(call, name, rows, columns, p.rank, *stored, stored->full.local, &layout, &matrix->part));
    // Parts of one array may be apart though their whole spans are not.
    ATTILE_TRY(check_tensor(call, local_name, matrix->part, {rule.dtypes, 2, 2}, &stored->view));
    matrix->layout = layout;
    matrix->own_fast = std::abs(matrix->part.stride[0]) < std::abs(matrix->part.stride[1]) ? 0 : 1;
    return ATTILE_OK;
}

// c and bias, as this rank has them.
int32_t read_additions(const Call &call, const StoredMatrix &d, GridGemm *problem) {
    GridGemm &p = *problem;
    attile_gemm_args &local = p.local;
    if (local.beta == 0.0) {
        local.c = {};
    } else {
        if (is_absent(local.c)) return fail(ATTILE_ERROR_INVALID_VALUE, "%s: beta is %g, but c is absent", call.operation, local.beta);
        const attile_tensor whole = local.c;
        View view;
        GridLayout layout;
        attile_grid grid;
        attile_distributed_matrix full;
        ATTILE_TRY(read_grid_matrix(call.operation, "d", &d.full, p.ranks, &full, &grid, &layout));
        ATTILE_TRY(check_local(call, "c", whole, {dtype_bit(p.d.part.dtype), 2, 2}, p.rank, layout, &view));
        ATTILE_TRY(read_part(call, "d", p.m, p.n, p.rank, d, whole, &layout, &local.c));
        ATTILE_TRY(check_tensor(call, "c", local.c, {kFloats, 2, 2}, &view));
        ATTILE_TRY(refuse_partial_overlap(call, d.view, view));
    }
    const bool has_bias = !is_absent(local.bias);
    if (has_bias != (local.bias_axis != ATTILE_BIAS_NONE)) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: bias is %s, but bias_axis is %d", call.operation, has_bias ? "given" : "absent",
                    local.bias_axis);
    }
    if (!has_bias) return ATTILE_OK;
    View bias;
    ATTILE_TRY(check_tensor(call, "bias", local.bias, {dtype_bit(p.d.part.dtype) | kF32, 1, 1}, &bias));
    const bool rows = local.bias_axis == ATTILE_BIAS_ROWS;
    ATTILE_TRY(check_extent(call, bias, 0, rows ? "rows" : "columns", p.d.part.shape[rows ? 0 : 1],
                            rows ? "the rows that this rank has of the part of d" : "the columns that this rank has of the part of d"));
    return refuse_overlap(call, d.view, bias);
}

void describe_matrix(const StoredMatrix &matrix, int32_t which, std::vector<Matter> *matters) {
    static constexpr const char *kNames[3][12] = {
        {"a->local.dtype", "a->grid->rows", "a->grid->columns", "a->grid->order", "a->rows", "a->columns", "a->block_rows",
         "a->block_columns", "a->source_row", "a->source_column", "a->row", "a->column"},
        {"b->local.dtype", "b->grid->rows", "b->grid->columns", "b->grid->order", "b->rows", "b->columns", "b->block_rows",
         "b->block_columns", "b->source_row", "b->source_column", "b->row", "b->column"},
        {"d->local.dtype", "d->grid->rows", "d->grid->columns", "d->grid->order", "d->rows", "d->columns", "d->block_rows",
         "d->block_columns", "d->source_row", "d->source_column", "d->row", "d->column"}};
    const attile_distributed_matrix &full = matrix.full;
    const int64_t values[12] = {full.local.dtype, matrix.grid.rows,   matrix.grid.columns, matrix.grid.order,  full.rows, full.columns,
                                full.block_rows,  full.block_columns, full.source_row,     full.source_column, full.row,  full.column};
    for (int32_t i = 0; i < 12; ++i) matters->push_back({kNames[which][i], i == 0 ? Shown::kDtype : Shown::kNumber, values[i]});
}

// Everything that must be the same on all ranks.
void describe(const attile_gemm_distributed_args &args, bool transa, bool transb, const StoredMatrix *stored, const GridGemm &p,
              Announcement *announcement) {
    std::vector<Matter> &matters = announcement->matters;
    matters = {{"m", Shown::kNumber, p.m},
               {"n", Shown::kNumber, p.n},
               {"k", Shown::kNumber, p.k},
               {"transa", Shown::kNumber, transa ? ATTILE_TRANS : ATTILE_NO_TRANS},
               {"transb", Shown::kNumber, transb ? ATTILE_TRANS : ATTILE_NO_TRANS},
               {"alpha", Shown::kReal, real_bits(args.alpha)},
               {"beta", Shown::kReal, real_bits(args.beta)},
               {"bias_axis", Shown::kNumber, args.bias_axis},
               {"bias.dtype", Shown::kDtype, args.bias.dtype},
               {"activation", Shown::kNumber, args.activation},
               {"method", Shown::kNumber, args.method},
               {"panel", Shown::kNumber, args.panel},
               {"flags", Shown::kNumber, args.flags}};
    for (int32_t which = 0; which < 3; ++which) describe_matrix(stored[which], which, &matters);
    announcement->fast_axes = p.a.own_fast | p.b.own_fast << 1 | p.d.own_fast << 2;
}

void transpose(GridMatrix *matrix) {
    matrix->layout = transposed(matrix->layout);
    std::swap(matrix->part.shape[0], matrix->part.shape[1]);
    std::swap(matrix->part.stride[0], matrix->part.stride[1]);
    matrix->own_fast = 1 - matrix->own_fast;
    for (uint8_t &fast : matrix->fast) fast = 1 - fast;
}

}  // namespace

int32_t read_grid(const char *operation, const char *name, const attile_grid *given, int32_t ranks, attile_grid *grid) {
    *grid = {};
    if (given == nullptr) {
        grid->rows = 1;
        grid->columns = ranks;
        return ATTILE_OK;
    }
    ATTILE_TRY(read_args(operation, name, kGridFirstSize, 0, given, grid));
    if (grid->reserved != 0)
        return fail(ATTILE_ERROR_STRUCT_TOO_NEW, "%s: %s->reserved is %d; expected 0", operation, name, grid->reserved);
    if (grid->rows < 1 || grid->columns < 1 || int64_t{grid->rows} * grid->columns != ranks) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: %s is %d x %d; expected rows and columns of 1 or more, for %d ranks in all", operation,
                    name, grid->rows, grid->columns, ranks);
    }
    if (grid->order != ATTILE_GRID_ROW_MAJOR && grid->order != ATTILE_GRID_COLUMN_MAJOR) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: %s->order is %d; expected an ATTILE_GRID_ constant", operation, name, grid->order);
    }
    return ATTILE_OK;
}

int32_t read_grid_matrix(const char *operation, const char *name, const attile_distributed_matrix *given, int32_t ranks,
                         attile_distributed_matrix *matrix, attile_grid *grid, GridLayout *layout) {
    ATTILE_TRY(read_args(operation, name, kMatrixFirstSize, 0, given, matrix));
    char grid_name[32];
    std::snprintf(grid_name, sizeof grid_name, "%s->grid", name);
    ATTILE_TRY(read_grid(operation, grid_name, matrix->grid, ranks, grid));
    static constexpr const char *kRows[4] = {"->rows", "->block_rows", "->source_row", "->row"};
    static constexpr const char *kColumns[4] = {"->columns", "->block_columns", "->source_column", "->column"};
    const bool row_major = grid->order == ATTILE_GRID_ROW_MAJOR;
    ATTILE_TRY(read_axis(operation, name, kRows, matrix->rows, &matrix->block_rows, matrix->source_row, matrix->row, grid->rows,
                         row_major ? grid->columns : 1, &layout->axis[0]));
    return read_axis(operation, name, kColumns, matrix->columns, &matrix->block_columns, matrix->source_column, matrix->column,
                     grid->columns, row_major ? 1 : grid->rows, &layout->axis[1]);
}

GridGemm transposed(const GridGemm &problem) {
    GridGemm turned = problem;
    std::swap(turned.m, turned.n);
    std::swap(turned.a, turned.b);
    for (GridMatrix *matrix : {&turned.a, &turned.b, &turned.d}) transpose(matrix);
    std::swap(turned.local.c.shape[0], turned.local.c.shape[1]);
    std::swap(turned.local.c.stride[0], turned.local.c.stride[1]);
    if (turned.local.bias_axis != ATTILE_BIAS_NONE) {
        turned.local.bias_axis = turned.local.bias_axis == ATTILE_BIAS_ROWS ? ATTILE_BIAS_COLUMNS : ATTILE_BIAS_ROWS;
    }
    return turned;
}

void spread_fast_axes(const Agreement &agreement, GridGemm *problem) {
    int32_t bit = 0;
    for (GridMatrix *matrix : {&problem->a, &problem->b, &problem->d}) {
        matrix->fast.resize(static_cast<size_t>(problem->ranks));
        for (int32_t rank = 0; rank < problem->ranks; ++rank) {
            matrix->fast[static_cast<size_t>(rank)] = agreement.fast_axes(rank) >> bit & 1;
        }
        ++bit;
    }
}

int32_t read_grid_gemm(const CommState &comm, const char *operation, const attile_gemm_distributed_args *given, bool query,
                       GridGemm *problem, Announcement *announcement) {
    GridGemm &p = *problem;
    p.operation = operation;
    p.context = comm.context;
    p.host_memory = comm.host_memory;
    p.rank = comm.link.rank();
    p.ranks = comm.link.ranks();
    attile_gemm_distributed_args args;
    ATTILE_TRY(read_args(operation, "args", kGemmArgsFirstSize, kGemmDistributedFlags, given, &args));
    if (args.reserved != 0) return fail(ATTILE_ERROR_STRUCT_TOO_NEW, "%s: reserved is %d; expected 0", operation, args.reserved);
    bool transa = false, transb = false;
    ATTILE_TRY(read_transposition(operation, "transa", args.transa, &transa));
    ATTILE_TRY(read_transposition(operation, "transb", args.transb, &transb));
    const struct {
        const char *name;
        int64_t value;
    } extents[] = {{"m", args.m}, {"n", args.n}, {"k", args.k}};
    for (const auto &extent : extents) {
        if (extent.value >= 0) continue;
        return fail(ATTILE_ERROR_INVALID_SHAPE, "%s: %s is %lld; expected 0 or more", operation, extent.name, shown(extent.value));
    }
    const bool known =
        args.method == ATTILE_METHOD_AUTO || (args.method >= ATTILE_METHOD_STATIONARY_A && args.method <= ATTILE_METHOD_STATIONARY_C);
    if (!known) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: method is %d; expected ATTILE_METHOD_AUTO or a STATIONARY_ method, 6 to 8", operation,
                    args.method);
    }
    ATTILE_TRY(check_range(operation, "", "panel", args.panel, 0, INT64_MAX));
    p.m = args.m;
    p.n = args.n;
    p.k = args.k;
    p.method = args.method;
    p.panel = args.panel;
    attile_gemm_init(&p.local, sizeof p.local);
    p.local.flags = args.flags;
    p.local.stream = args.stream;
    p.local.alpha = args.alpha;
    p.local.beta = args.beta;
    p.local.c = args.c;
    p.local.bias = args.bias;
    p.local.bias_axis = args.bias_axis;
    p.local.activation = args.activation;

    const Call call = {operation, query};
    StoredMatrix stored[3];
    ATTILE_TRY(read_operand(call, "a", "a->local", args.a, {kFloats, 2, 2}, transa, p.m, p.k, p, &stored[0], &p.a));
    const DtypeSet type = dtype_bit(p.a.part.dtype);
    ATTILE_TRY(read_operand(call, "b", "b->local", args.b, {type, 2, 2}, transb, p.k, p.n, p, &stored[1], &p.b));
    const DtypeSet results = type | ((type & (kF16 | kBf16)) != 0 ? kF32 : kNoDtype);
    ATTILE_TRY(read_operand(call, "d", "d->local", args.d, {results, 2, 2, true}, false, p.m, p.n, p, &stored[2], &p.d));
    attile_gemm_args factors = p.local;
    factors.a.dtype = p.a.part.dtype;
    ATTILE_TRY(check_gemm_scalars(call, factors));
    ATTILE_TRY(read_additions(call, stored[2], &p));
    ATTILE_TRY(refuse_overlap(call, stored[2].view, stored[0].view));
    ATTILE_TRY(refuse_overlap(call, stored[2].view, stored[1].view));
    if (transa) transpose(&p.a);
    if (transb) transpose(&p.b);
    describe(args, transa, transb, stored, p, announcement);
    return ATTILE_OK;
}

}  // namespace attile::core
