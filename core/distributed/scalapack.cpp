// SPDX-License-Identifier: Apache-2.0
// ScaLAPACK's names: descriptors to the arguments of a product over ranks, and what CTXT_ stands for.
#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>

#include "distributed/comm.h"
#include "distributed/grid_gemm.h"
#include "fork.h"
#include "guard.h"
#include "shared_library.h"
#include "status.h"

namespace attile::core {
namespace {

// What a descriptor's CTXT_ stands for.
struct OpenGrid {
    int32_t number = 0;
    attile_comm *comm = nullptr;
    attile_grid grid{};
    attile_context *context = nullptr;  // made with the communicator, for a BLACS context; else NULL
    OpenGrid *next = nullptr;
};

// BLACS counts its contexts from 0.
constexpr int32_t kFirstNumber = 0x41000000;

// The list, and the number given out last: guarded by locks.contexts.
constinit OpenGrid *open_grids = nullptr;
constinit int32_t last_number = kFirstNumber;

void list(std::unique_ptr<OpenGrid> grid) {
    const std::lock_guard<std::mutex> hold(locks.contexts);
    grid->next = open_grids;
    open_grids = grid.release();
}

std::unique_ptr<OpenGrid> unlist(int32_t number) {
    const std::lock_guard<std::mutex> hold(locks.contexts);
    for (OpenGrid **at = &open_grids; *at != nullptr; at = &(*at)->next) {
        if ((*at)->number != number) continue;
        std::unique_ptr<OpenGrid> found(*at);
        *at = found->next;
        return found;
    }
    return nullptr;
}

bool find(int32_t number, OpenGrid *grid) {
    const std::lock_guard<std::mutex> hold(locks.contexts);
    for (const OpenGrid *at = open_grids; at != nullptr; at = at->next) {
        if (at->number != number) continue;
        *grid = *at;
        return true;
    }
    return false;
}

int32_t open_grid(attile_comm *comm, const attile_grid *given, int32_t *context) {
    constexpr const char *kName = "grid_open";
    if (context == nullptr) return fail(ATTILE_ERROR_NULL_ARGUMENT, "%s: context is NULL", kName);
    *context = 0;
    std::shared_ptr<CommState> state;
    ATTILE_TRY(find_comm(kName, comm, &state));
    auto made = std::make_unique<OpenGrid>();
    ATTILE_TRY(read_grid(kName, "grid", given, state->link.ranks(), &made->grid));
    made->grid.struct_size = sizeof made->grid;
    made->grid.flags = 0;
    made->comm = comm;
    {
        const std::lock_guard<std::mutex> hold(locks.contexts);
        if (last_number == INT32_MAX) return fail(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "%s: all numbers were given out", kName);
        made->number = ++last_number;
    }
    *context = made->number;
    list(std::move(made));
    return ATTILE_OK;
}

void close_grid(int32_t number) {
    const std::unique_ptr<OpenGrid> grid = unlist(number);
    if (grid == nullptr || grid->context == nullptr) return;
    attile_comm_destroy(grid->comm);
    attile_context_destroy(grid->context);
}

int32_t fail_context(const char *operation, int32_t number, const char *why) {
    return fail(ATTILE_ERROR_INVALID_COMM, "%s: CTXT_ of desca is %d, which is not a number from attile_grid_open(), and %s", operation,
                number, why);
}

// A communicator of the ranks of a BLACS grid. BLACS has them in the order of rows, and its functions for Fortran give MPI's communicator
// as Fortran's integer.
int32_t make_for_blacs(const char *operation, int32_t number, OpenGrid *grid) {
    using GridInfo = void (*)(const int32_t *, int32_t *, int32_t *, int32_t *, int32_t *);
    using Get = void (*)(const int32_t *, const int32_t *, int32_t *);
    const auto grid_info = reinterpret_cast<GridInfo>(process_symbol("blacs_gridinfo_"));
    const auto get = reinterpret_cast<Get>(process_symbol("blacs_get_"));
    if (grid_info == nullptr || get == nullptr) return fail_context(operation, number, "no BLACS library is in this process");
    int32_t rows = -1, columns = -1, row = -1, column = -1;
    grid_info(&number, &rows, &columns, &row, &column);
    if (rows < 1 || columns < 1 || row < 0 || column < 0) return fail_context(operation, number, "no BLACS grid that this rank is in");
    constexpr int32_t kSystemContextOfGrid = 10;
    int32_t communicator = 0;
    get(&number, &kSystemContextOfGrid, &communicator);

    auto made = std::make_unique<OpenGrid>();
    made->number = number;
    attile_grid_init(&made->grid, sizeof made->grid);
    made->grid.rows = rows;
    made->grid.columns = columns;
    ATTILE_TRY(attile_context_create(nullptr, &made->context));
    attile_comm_options options;
    attile_comm_options_init(&options, sizeof options);
    options.kind = "mpi";
    options.communicator = communicator;
    options.rank = row * columns + column;
    options.ranks = rows * columns;
    const int32_t status = attile_comm_create(made->context, &options, &made->comm);
    if (status != ATTILE_OK) {
        const KeptError why;
        attile_context_destroy(made->context);
        why.put_back();
        return status;
    }
    *grid = *made;
    list(std::move(made));
    return ATTILE_OK;
}

int32_t find_grid(const char *operation, int32_t number, OpenGrid *grid) {
    if (find(number, grid)) return ATTILE_OK;
    if (number >= kFirstNumber || number < 0) return fail_context(operation, number, "no BLACS context");
    return make_for_blacs(operation, number, grid);
}

// One operand as ScaLAPACK describes it.
struct Described {
    const char *name;  // "a"
    const void *data;
    int64_t i, j;  // from 1
    const int32_t *descriptor;
};
enum : int32_t { kType, kContext, kRows, kColumns, kBlockRows, kBlockColumns, kSourceRow, kSourceColumn, kLeading };
constexpr const char *kFields[9] = {"DTYPE_", "CTXT_", "M_", "N_", "MB_", "NB_", "RSRC_", "CSRC_", "LLD_"};

int32_t check_field(const char *operation, const Described &matrix, int32_t field, int64_t lowest, int64_t highest) {
    const int32_t value = matrix.descriptor[field];
    if (value >= lowest && value <= highest) return ATTILE_OK;
    return fail(ATTILE_ERROR_INVALID_VALUE, "%s: %s of desc%s is %d; expected %lld to %lld", operation, kFields[field], matrix.name, value,
                static_cast<long long>(lowest), static_cast<long long>(highest));
}

int32_t check_origin(const char *operation, const Described &matrix, char letter, int64_t value, int64_t extent) {
    const int64_t highest = extent + 1;
    if (value >= 1 && value <= highest) return ATTILE_OK;
    return fail(ATTILE_ERROR_INVALID_VALUE, "%s: %c%s is %lld; expected 1 to %lld", operation, letter, matrix.name,
                static_cast<long long>(value), static_cast<long long>(highest));
}

int32_t read_descriptor(const char *operation, const Described &matrix, const OpenGrid &open, int32_t rank, int32_t dtype,
                        attile_distributed_matrix *full) {
    const int32_t *descriptor = matrix.descriptor;
    ATTILE_TRY(check_field(operation, matrix, kType, 1, 1));
    ATTILE_TRY(check_field(operation, matrix, kContext, open.number, open.number));
    ATTILE_TRY(check_field(operation, matrix, kRows, 0, INT32_MAX));
    ATTILE_TRY(check_field(operation, matrix, kColumns, 0, INT32_MAX));
    ATTILE_TRY(check_field(operation, matrix, kBlockRows, 1, INT32_MAX));
    ATTILE_TRY(check_field(operation, matrix, kBlockColumns, 1, INT32_MAX));
    ATTILE_TRY(check_field(operation, matrix, kSourceRow, ATTILE_REPLICATED, open.grid.rows - 1));
    ATTILE_TRY(check_field(operation, matrix, kSourceColumn, ATTILE_REPLICATED, open.grid.columns - 1));
    ATTILE_TRY(check_origin(operation, matrix, 'i', matrix.i, descriptor[kRows]));
    ATTILE_TRY(check_origin(operation, matrix, 'j', matrix.j, descriptor[kColumns]));
    attile_distributed_matrix_init(full, sizeof *full);
    full->grid = &open.grid;
    full->rows = descriptor[kRows];
    full->columns = descriptor[kColumns];
    full->block_rows = descriptor[kBlockRows];
    full->block_columns = descriptor[kBlockColumns];
    full->source_row = descriptor[kSourceRow];
    full->source_column = descriptor[kSourceColumn];
    full->row = matrix.i - 1;
    full->column = matrix.j - 1;
    int64_t shape[2] = {0, 0};
    ATTILE_TRY(attile_distributed_extents(full, rank, open.grid.rows * open.grid.columns, &shape[0], &shape[1]));
    ATTILE_TRY(check_field(operation, matrix, kLeading, std::max<int64_t>(1, shape[0]), INT32_MAX));
    full->local = {const_cast<void *>(matrix.data), dtype, 2, {shape[0], shape[1], 0, 0}, {1, descriptor[kLeading], 0, 0}};
    return ATTILE_OK;
}

int32_t read_letter(int32_t value) {
    switch (value) {
        case 'N':
        case 'n':
            return ATTILE_NO_TRANS;
        case 'T':
        case 't':
            return ATTILE_TRANS;
        case 'C':
        case 'c':
            return ATTILE_CONJ_TRANS;
        default:
            return value == 0 ? -1 : value;  // 0 is no value here
    }
}

struct Scalars {
    int32_t transa, transb;
    int64_t m, n, k;
    double alpha, beta;
};

int32_t parallel_gemm(const char *operation, int32_t dtype, const Scalars &scalars, const Described &a, const Described &b,
                      const Described &c) {
    for (const Described *matrix : {&a, &b, &c}) {
        if (matrix->descriptor == nullptr) return fail(ATTILE_ERROR_NULL_ARGUMENT, "%s: desc%s is NULL", operation, matrix->name);
    }
    OpenGrid open;
    ATTILE_TRY(find_grid(operation, a.descriptor[kContext], &open));
    attile_distributed_matrix matrices[3];
    attile_gemm_distributed_args args;
    auto arguments = [&](const attile_gemm_distributed_args **given) -> int32_t {
        attile_comm_info info;
        attile_comm_info_init(&info, sizeof info);
        ATTILE_TRY(attile_comm_get_info(open.comm, &info));
        const Described *const described[3] = {&a, &b, &c};
        for (int32_t i = 0; i < 3; ++i) ATTILE_TRY(read_descriptor(operation, *described[i], open, info.rank, dtype, &matrices[i]));
        attile_gemm_distributed_init(&args, sizeof args);
        args.transa = read_letter(scalars.transa);
        args.transb = read_letter(scalars.transb);
        args.m = scalars.m;
        args.n = scalars.n;
        args.k = scalars.k;
        args.a = &matrices[0];
        args.b = &matrices[1];
        args.d = &matrices[2];
        args.c = matrices[2].local;
        args.alpha = scalars.alpha;
        args.beta = scalars.beta;
        *given = &args;
        return ATTILE_OK;
    };
    return gemm_over_ranks(operation, open.comm, std::ref(arguments));  // by reference it takes no memory
}

}  // namespace
}  // namespace attile::core

using namespace attile::core;

extern "C" {

int32_t attile_grid_open(attile_comm *comm, const attile_grid *grid, int32_t *context) {
    return guarded([&] { return open_grid(comm, grid, context); });
}

void attile_grid_close(int32_t context) {
    (void)guarded([&] {
        close_grid(context);
        return ATTILE_OK;
    });
}

int32_t attile_pdgemm(int32_t transa, int32_t transb, int64_t m, int64_t n, int64_t k, double alpha, const double *a, int64_t ia,
                      int64_t ja, const int32_t *desca, const double *b, int64_t ib, int64_t jb, const int32_t *descb, double beta,
                      double *c, int64_t ic, int64_t jc, const int32_t *descc) {
    return guarded([&] {
        return parallel_gemm("pdgemm", ATTILE_F64, {transa, transb, m, n, k, alpha, beta}, {"a", a, ia, ja, desca}, {"b", b, ib, jb, descb},
                             {"c", c, ic, jc, descc});
    });
}

int32_t attile_psgemm(int32_t transa, int32_t transb, int64_t m, int64_t n, int64_t k, double alpha, const float *a, int64_t ia, int64_t ja,
                      const int32_t *desca, const float *b, int64_t ib, int64_t jb, const int32_t *descb, double beta, float *c, int64_t ic,
                      int64_t jc, const int32_t *descc) {
    return guarded([&] {
        return parallel_gemm("psgemm", ATTILE_F32, {transa, transb, m, n, k, alpha, beta}, {"a", a, ia, ja, desca}, {"b", b, ib, jb, descb},
                             {"c", c, ic, jc, descc});
    });
}

int32_t attile_pdgemm_(const char *transa, const char *transb, const int32_t *m, const int32_t *n, const int32_t *k, const double *alpha,
                       const double *a, const int32_t *ia, const int32_t *ja, const int32_t *desca, const double *b, const int32_t *ib,
                       const int32_t *jb, const int32_t *descb, const double *beta, double *c, const int32_t *ic, const int32_t *jc,
                       const int32_t *descc) {
    return attile_pdgemm(*transa, *transb, *m, *n, *k, *alpha, a, *ia, *ja, desca, b, *ib, *jb, descb, *beta, c, *ic, *jc, descc);
}

int32_t attile_psgemm_(const char *transa, const char *transb, const int32_t *m, const int32_t *n, const int32_t *k, const float *alpha,
                       const float *a, const int32_t *ia, const int32_t *ja, const int32_t *desca, const float *b, const int32_t *ib,
                       const int32_t *jb, const int32_t *descb, const float *beta, float *c, const int32_t *ic, const int32_t *jc,
                       const int32_t *descc) {
    return attile_psgemm(*transa, *transb, *m, *n, *k, static_cast<double>(*alpha), a, *ia, *ja, desca, b, *ib, *jb, descb,
                         static_cast<double>(*beta), c, *ic, *jc, descc);
}

}  // extern "C"
