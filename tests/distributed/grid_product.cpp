// SPDX-License-Identifier: Apache-2.0
#include "grid_product.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "test_element.h"
#include "test_tensor.h"

namespace attile::test {
namespace {

constexpr double kOutside = 77;  // of d, beyond the part

/// An entry that depends on where it is alone.
double entry(const GridProduct &p, std::uint64_t which, std::int64_t i, std::int64_t j) {
    Random random((p.seed + which) * 1000003 + static_cast<std::uint64_t>(i * 4099 + j));
    const double whole = static_cast<double>(random.between(p.positive ? 0 : -2, 2));
    return p.wide_range ? std::ldexp(whole, static_cast<int>(random.between(-12, 12))) : whole;
}

/// A matrix over the ranks as one of them has it. The rule is ScaLAPACK's, written down again.
class Spread {
  public:
    Spread(const GridSide &side, std::int64_t rows, std::int64_t columns, std::int32_t dtype, int rank, int ranks) : side_(side) {
        attile_grid_init(&grid_, sizeof grid_);
        grid_.rows = side.columns == 0 ? 1 : side.rows;
        grid_.columns = side.columns == 0 ? ranks : side.columns;
        grid_.order = side.order;
        const bool by_columns = side.columns != 0 && side.order == ATTILE_GRID_COLUMN_MAJOR;
        at_[0] = by_columns ? rank % grid_.rows : rank / grid_.columns;
        at_[1] = by_columns ? rank / grid_.rows : rank % grid_.columns;
        whole_[0] = side.row + rows + side.below;
        whole_[1] = side.column + columns + side.behind;
        const std::int64_t blocks[2] = {side.block_rows, side.block_columns};
        const std::int32_t sources[2] = {side.source_row, side.source_column}, places[2] = {grid_.rows, grid_.columns};
        for (int axis = 0; axis < 2; ++axis) {
            const std::int64_t block =
                blocks[axis] != 0 ? blocks[axis] : std::max<std::int64_t>(1, (whole_[axis] + places[axis] - 1) / places[axis]);
            for (std::int64_t i = 0; i < whole_[axis]; ++i) {
                if (sources[axis] < 0 || (i / block + sources[axis]) % places[axis] == at_[axis]) own_[axis].push_back(i);
            }
        }
        attile_distributed_matrix_init(&matrix, sizeof matrix);
        matrix.grid = side.columns == 0 ? nullptr : &grid_;
        matrix.rows = whole_[0];
        matrix.columns = whole_[1];
        matrix.block_rows = side.block_rows;
        matrix.block_columns = side.block_columns;
        matrix.source_row = side.source_row;
        matrix.source_column = side.source_column;
        matrix.row = side.row;
        matrix.column = side.column;
        matrix.local = local(dtype, &memory, side.row_major != (side.mixed && rank % 2 == 1));
    }
    Spread(const Spread &) = delete;
    Spread &operator=(const Spread &) = delete;

    /// As many elements as this rank has, in memory of their own; lines are two elements longer than what they hold.
    attile_tensor local(std::int32_t dtype, std::vector<std::byte> *bytes, bool row_major) const {
        const std::int64_t rows = count(0), columns = count(1), line = (row_major ? columns : rows) + 2;
        bytes->assign(static_cast<std::size_t>(line * std::max<std::int64_t>(1, row_major ? rows : columns) * (dtype & 0xff) / 8),
                      std::byte{0x5a});
        attile_tensor tensor{};
        tensor.data = bytes->data();
        tensor.dtype = dtype;
        tensor.rank = 2;
        tensor.shape[0] = rows;
        tensor.shape[1] = columns;
        tensor.stride[0] = row_major ? line : 1;
        tensor.stride[1] = row_major ? 1 : line;
        return tensor;
    }

    std::int64_t count(int axis) const { return static_cast<std::int64_t>(own_[axis].size()); }
    /// Where an own row or column is in the part that the call works on; outside of it negative or too large.
    std::int64_t index(int axis, std::int64_t local) const {
        return own_[axis][static_cast<std::size_t>(local)] - (axis == 0 ? side_.row : side_.column);
    }

    template <class Value>
    void fill(const attile_tensor &tensor, Value &&value) const {
        for (std::int64_t i = 0; i < count(0); ++i) {
            for (std::int64_t j = 0; j < count(1); ++j) encode(tensor.dtype, value(index(0, i), index(1, j)), address(tensor, i, j));
        }
    }
    static std::byte *address(const attile_tensor &tensor, std::int64_t i, std::int64_t j) {
        return static_cast<std::byte *>(tensor.data) + (i * tensor.stride[0] + j * tensor.stride[1]) * ((tensor.dtype & 0xff) / 8);
    }

    attile_distributed_matrix matrix;
    std::vector<std::byte> memory;  ///< of matrix.local

  private:
    const GridSide side_;
    attile_grid grid_;
    std::int64_t whole_[2];
    int at_[2];
    std::vector<std::int64_t> own_[2];
};

/// The memory of a tensor moved to where a rank has its tensors, as long as this lives.
class Placed {
  public:
    Placed(const RankOfCase &rank, attile_tensor *tensor, std::vector<std::byte> *host) : tensor_(tensor), host_(host), before_(*tensor) {
        if (rank.placement == Placement::kHost || host->empty()) return;
        memory_ = Memory(rank.context, rank.placement, static_cast<std::int64_t>(host->size()));
        memory_.upload(*host);
        tensor->data = memory_.data();
    }
    Placed(const Placed &) = delete;
    Placed &operator=(const Placed &) = delete;
    void bring_back() {
        if (memory_.data() != nullptr) memory_.fetch(*host_);
        *tensor_ = before_;
    }

  private:
    attile_tensor *const tensor_;
    std::vector<std::byte> *const host_;
    const attile_tensor before_;
    Memory memory_;
};

bool inside(std::int64_t i, std::int64_t j, std::int64_t rows, std::int64_t columns) { return i >= 0 && i < rows && j >= 0 && j < columns; }

double activated(std::int32_t activation, double x) {
    switch (activation) {
        case ATTILE_ACTIVATION_RELU:
            return std::max(x, 0.0);
        case ATTILE_ACTIVATION_GELU:
            return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
        case ATTILE_ACTIVATION_GELU_TANH:
            return x / 2 * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
        case ATTILE_ACTIVATION_SILU:
            return x / (1 + std::exp(-x));
        default:
            return x;
    }
}

/// `size_of_terms`: of all together, whatever their signs.
double expected(const GridProduct &p, std::int64_t i, std::int64_t j, double *size_of_terms) {
    double sum = 0, size = 0;
    if (p.alpha != 0) {
        for (std::int64_t x = 0; x < p.k; ++x) {
            const double product = entry(p, 0, i, x) * entry(p, 1, x, j);
            sum += product;
            size += std::fabs(product);
        }
    }
    sum *= p.alpha;
    if (p.beta != 0) sum += p.beta * entry(p, 2, i, j);
    if (p.bias_axis == ATTILE_BIAS_COLUMNS) sum += entry(p, 3, 0, j);
    if (p.bias_axis == ATTILE_BIAS_ROWS) sum += entry(p, 3, i, 0);
    *size_of_terms = size;
    return activated(p.activation, sum);
}

/// Exact where no function is taken; one rounding to the type of the result besides.
double allowed_error(const GridProduct &p, double value, double size) {
    const bool exact = p.activation == ATTILE_ACTIVATION_NONE || p.activation == ATTILE_ACTIVATION_RELU;
    const double scale = std::fabs(value) + (exact ? 0 : 0.1);
    const double rounding = p.out_dtype == ATTILE_BF16 ? 0x1p-8 : p.out_dtype == ATTILE_F16 ? 0x1p-11 : 0;
    const double sums = p.wide_range ? (size + std::fabs(value)) * 1e-5 : 0;  // some fifty terms in float32
    return sums + scale * (rounding + (exact ? 0 : p.out_dtype == ATTILE_F64 ? 1e-13 : 4e-6));
}

std::string judge(const GridProduct &p, const Spread &d) {
    for (std::int64_t i = 0; i < d.count(0); ++i) {
        for (std::int64_t j = 0; j < d.count(1); ++j) {
            const std::int64_t row = d.index(0, i), column = d.index(1, j);
            const bool part = inside(row, column, p.m, p.n);
            double size = 0;
            const double value = decode(p.out_dtype, Spread::address(d.matrix.local, i, j));
            const double right = part ? expected(p, row, column, &size) : kOutside;
            if (std::fabs(value - right) <= (part ? allowed_error(p, right, size) : 0)) continue;
            std::ostringstream text;
            text << "d[" << row << ", " << column << "] is " << value << "; expected " << right << (part ? "" : ", beyond the part");
            return text.str();
        }
    }
    return "";
}

GridSide random_side(int ranks, Random &random) {
    GridSide side;
    std::vector<std::int32_t> divisors;
    for (std::int32_t rows = 1; rows <= ranks; ++rows) {
        if (ranks % rows == 0) divisors.push_back(rows);
    }
    side.rows = divisors[random.bits() % divisors.size()];
    side.columns = random.chance(0.1) ? 0 : ranks / side.rows;
    side.order = random.chance(0.5) ? ATTILE_GRID_ROW_MAJOR : ATTILE_GRID_COLUMN_MAJOR;
    side.block_rows = random.chance(0.2) ? 0 : random.between(1, 9);
    side.block_columns = random.chance(0.2) ? 0 : random.between(1, 9);
    const std::int32_t rows = side.columns == 0 ? 1 : side.rows, columns = side.columns == 0 ? ranks : side.columns;
    side.source_row = static_cast<std::int32_t>(random.chance(0.2) ? ATTILE_REPLICATED : random.between(0, rows - 1));
    side.source_column = static_cast<std::int32_t>(random.chance(0.2) ? ATTILE_REPLICATED : random.between(0, columns - 1));
    if (random.chance(0.5)) {
        side.row = random.between(0, 11);
        side.column = random.between(0, 11);
        side.below = random.between(0, 5);
        side.behind = random.between(0, 5);
    }
    side.row_major = random.chance(0.5);
    side.mixed = random.chance(0.3);
    return side;
}

}  // namespace

std::string describe(const GridProduct &p) {
    std::ostringstream text;
    text << "seed " << p.seed << ": m " << p.m << " n " << p.n << " k " << p.k << (p.transa ? " T" : " N") << (p.transb ? "T" : "N")
         << " method " << p.method << " panel " << p.panel << " alpha " << p.alpha << " beta " << p.beta << " bias " << p.bias_axis
         << " activation " << p.activation << std::hex << " types 0x" << p.dtype << " 0x" << p.out_dtype << std::dec;
    for (const GridSide *side : {&p.a, &p.b, &p.d}) {
        text << " | grid " << side->rows << "x" << side->columns << (side->order != 0 ? "c" : "r") << " block " << side->block_rows << "x"
             << side->block_columns << " source " << side->source_row << "," << side->source_column << " origin " << side->row << ","
             << side->column;
    }
    return text.str();
}

GridProduct random_product(int ranks, std::uint64_t seed) {
    Random random(seed);
    GridProduct p;
    p.seed = seed;
    p.dtype = random.pick<std::int32_t>({ATTILE_F32, ATTILE_F64, ATTILE_F16, ATTILE_BF16});
    const bool half = p.dtype == ATTILE_F16 || p.dtype == ATTILE_BF16;
    p.out_dtype = half && random.chance(0.3) ? ATTILE_F32 : p.dtype;
    const auto extent = [&] { return random.chance(0.05) ? 0 : random.chance(0.1) ? 1 : random.between(2, 45); };
    p.m = extent();
    p.n = extent();
    p.k = extent();
    p.transa = random.chance(0.5);
    p.transb = random.chance(0.5);
    p.alpha = random.pick({1.0, 1.0, -2.0, 0.5, 0.0});
    p.beta = random.pick({0.0, 1.0, -1.0, 2.0});
    p.c_is_d = random.chance(0.5);
    p.bias_axis = static_cast<std::int32_t>(random.between(0, 2));
    p.activation = static_cast<std::int32_t>(random.chance(0.5) ? 0 : random.between(0, 4));
    p.method = random.pick({ATTILE_METHOD_AUTO, ATTILE_METHOD_STATIONARY_A, ATTILE_METHOD_STATIONARY_B, ATTILE_METHOD_STATIONARY_C});
    p.panel = random.chance(0.3) ? 0 : random.between(1, 20);
    for (GridSide *side : {&p.a, &p.b, &p.d}) *side = random_side(ranks, random);
    return p;
}

std::string run_product(const RankOfCase &rank, int ranks, const GridProduct &p, std::vector<std::byte> *bits) {
    Spread a(p.a, p.transa ? p.k : p.m, p.transa ? p.m : p.k, p.dtype, rank.rank, ranks);
    Spread b(p.b, p.transb ? p.n : p.k, p.transb ? p.k : p.n, p.dtype, rank.rank, ranks);
    Spread d(p.d, p.m, p.n, p.out_dtype, rank.rank, ranks);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    a.fill(a.matrix.local, [&](std::int64_t i, std::int64_t j) {
        if (p.transa) std::swap(i, j);
        return inside(i, j, p.m, p.k) ? entry(p, 0, i, j) : nan;
    });
    b.fill(b.matrix.local, [&](std::int64_t i, std::int64_t j) {
        if (p.transb) std::swap(i, j);
        return inside(i, j, p.k, p.n) ? entry(p, 1, i, j) : nan;
    });
    const bool in_place = p.beta != 0 && p.c_is_d;
    d.fill(d.matrix.local, [&](std::int64_t i, std::int64_t j) {
        return !inside(i, j, p.m, p.n) ? kOutside : in_place ? entry(p, 2, i, j) : nan;
    });
    std::vector<std::byte> c_memory;
    attile_gemm_distributed_args args;
    attile_gemm_distributed_init(&args, sizeof args);
    if (p.beta != 0 && !p.c_is_d) {
        args.c = d.local(p.out_dtype, &c_memory, !p.d.row_major);
        d.fill(args.c, [&](std::int64_t i, std::int64_t j) { return inside(i, j, p.m, p.n) ? entry(p, 2, i, j) : nan; });
    }
    std::vector<std::byte> bias;
    if (p.bias_axis != 0) {
        const int axis = p.bias_axis == ATTILE_BIAS_ROWS ? 0 : 1;
        std::int64_t count = 0;
        bias.reserve(static_cast<std::size_t>(d.count(axis) + 1) * sizeof(float));  // so that it has an address
        for (std::int64_t i = 0; i < d.count(axis); ++i) {
            const std::int64_t index = d.index(axis, i);
            if (index < 0 || index >= (axis == 0 ? p.m : p.n)) continue;
            bias.resize(static_cast<std::size_t>(++count) * sizeof(float));
            encode(ATTILE_F32, axis == 0 ? entry(p, 3, index, 0) : entry(p, 3, 0, index), &bias[bias.size() - sizeof(float)]);
        }
        attile_tensor_init(&args.bias, bias.data(), ATTILE_F32, 1, &count);
    }
    Placed d_there(rank, &d.matrix.local, &d.memory);
    const Placed a_there(rank, &a.matrix.local, &a.memory), b_there(rank, &b.matrix.local, &b.memory);
    const Placed bias_there(rank, &args.bias, &bias), c_there(rank, &args.c, &c_memory);
    if (in_place) args.c = d.matrix.local;
    args.transa = p.transa ? ATTILE_TRANS : ATTILE_NO_TRANS;
    args.transb = p.transb ? ATTILE_TRANS : ATTILE_NO_TRANS;
    args.m = p.m;
    args.n = p.n;
    args.k = p.k;
    args.a = &a.matrix;
    args.b = &b.matrix;
    args.d = &d.matrix;
    args.alpha = p.alpha;
    args.beta = p.beta;
    args.bias_axis = p.bias_axis;
    args.activation = p.activation;
    args.method = p.method;
    args.panel = p.panel;
    if (attile_gemm_distributed(rank.comm, &args) != ATTILE_OK) {
        char text[1024];
        attile_last_error(text, sizeof text);
        return text;
    }
    d_there.bring_back();
    if (bits != nullptr) {
        bits->clear();
        for (std::int64_t i = 0; i < d.count(0); ++i) {
            for (std::int64_t j = 0; j < d.count(1); ++j) {
                const std::byte *element = Spread::address(d.matrix.local, i, j);
                bits->insert(bits->end(), element, element + (p.out_dtype & 0xff) / 8);
            }
        }
    }
    return judge(p, d);
}

}  // namespace attile::test
