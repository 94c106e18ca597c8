// SPDX-License-Identifier: Apache-2.0
#include "gemm/exact/plan.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "gemm/exact/cut.h"
#include "gemm/families.h"
#include "gemm/problem.h"
#include "host/sizes.h"
#include "host/status.h"

namespace attile::gpu::exact {
namespace {

constexpr int64_t kMostExtent = 0x7fffffff - 512, kBlocksOfUnit = 16;

// Where a part begins.
struct Origin {
    int64_t x, y, row, column, depth;
};

// One call on its way through its parts.
class Run {
  public:
    Run(Device &device, const Cut &cut, Stream stream) : device_(device), cut_(cut), p_(cut.p), stream_(stream) {}

    int32_t run(Workspace &workspace) {
        if (cut_.has_product() && !memory_.take(cut_, workspace))
            return fail(ATTILE_ERROR_INTERNAL, "gemm: the workspace is smaller than the query asked for");
        int32_t status = ATTILE_OK;
        for (int64_t x = 0; x < p_.batch[0] && status == ATTILE_OK; ++x)
            for (int64_t y = 0; y < p_.batch[1] && status == ATTILE_OK; y += cut_.part.entries)
                status = run_entries(x, y, std::min(cut_.part.entries, p_.batch[1] - y));
        return status;
    }

  private:
    template <class Parameters>
    int32_t launch(void (*kernel)(Parameters), int64_t blocks, int threads, const Parameters &parameters) {
        return gpu::launch(device_, kernel, Dim3{static_cast<uint32_t>(std::max<int64_t>(blocks, 1)), 1, 1},
                           Dim3{static_cast<uint32_t>(threads), 1, 1}, 0, stream_, parameters);
    }
    int64_t at_most(int64_t blocks) const { return std::min(blocks, kBlocksOfUnit * std::max(1, device_.properties().compute_units)); }

    // Lines of A or B, from those of an origin on.
    Numbers numbers(bool of_a, const Origin &at, int64_t entries, int64_t lines) const {
        const attile_operand &x = of_a ? p_.a : p_.b;
        const int64_t outer = x.stride[of_a ? 2 : 3], depth = x.stride[of_a ? 3 : 2], first = of_a ? at.row : at.column;
        const int64_t offset = at.x * x.stride[0] + at.y * x.stride[1] + first * outer + at.depth * depth;
        const bool along_outer = depth != 1 && (outer == 1 || std::abs(outer) < std::abs(depth));
        return {static_cast<const char *>(x.data) + offset * (cut_.f64 ? 8 : 4),
                x.stride[1],
                outer,
                depth,
                cut_.entries_of(x, entries),
                lines,
                along_outer ? 1 : 0,
                0};
    }
    Line *lines_of(bool of_a, const Origin &at, int64_t entries) const {
        return memory_.lines + (of_a ? at.row : cut_.entries_of(p_.a, entries) * p_.m + at.column);
    }
    uint32_t *listed_of(bool of_a, const Origin &at, int64_t entries) const {
        return memory_.listed + (lines_of(of_a, at, entries) - memory_.lines) * kMostListed;
    }
    GemmOutput output(const attile_operand &x, const Origin &at) const {
        const int64_t offset = at.x * x.stride[0] + at.y * x.stride[1] + at.row * x.stride[2] + at.column * x.stride[3];
        return {
            static_cast<char *>(x.data) + offset * (x.dtype == ATTILE_F64 ? 8 : 4), 0, x.stride[1], x.stride[2], x.stride[3], x.dtype, 0};
    }

    int32_t run_entries(int64_t x, int64_t y, int64_t entries) {
        int32_t status = cut_.has_product() ? measure(x, y, entries) : ATTILE_OK;
        rows_made_ = columns_made_ = -1;
        for (int64_t row = 0; row < p_.m && status == ATTILE_OK; row += cut_.part.rows)
            for (int64_t column = 0; column < p_.n && status == ATTILE_OK; column += cut_.part.columns) {
                const Part part = {entries, std::min(cut_.part.rows, p_.m - row), std::min(cut_.part.columns, p_.n - column), 0};
                status = run_part({x, y, row, column, 0}, part);
            }
        return status;
    }

    int32_t measure(int64_t x, int64_t y, int64_t entries) {
        MeasureParams params = {};
        params.a = numbers(true, {x, y, 0, 0, 0}, entries, p_.m);
        params.b = numbers(false, {x, y, 0, 0, 0}, entries, p_.n);
        params.k = p_.k;
        params.part_depth = cut_.part_depth;
        params.parts = static_cast<int32_t>(cut_.parts);
        params.to = memory_.parts;
        const int64_t groups = ceil_div(params.a.entries * p_.m, kMeasureLines) + ceil_div(params.b.entries * p_.n, kMeasureLines);
        const int32_t status = launch(measure_kernel(cut_.f64), at_most(groups * cut_.parts), kMeasureThreads, params);
        if (status != ATTILE_OK) return status;
        const ScaleParams scale = {memory_.parts, memory_.lines, cut_.lines(entries), p_.k, cut_.most_bits, params.parts, 0};
        return launch(scale_kernel(), ceil_div(scale.lines, kScaleThreads), kScaleThreads, scale);
    }

    int32_t run_part(const Origin &at, Part part) {
        int32_t status = ATTILE_OK;
        for (int64_t depth = 0; depth < p_.k && status == ATTILE_OK; depth += cut_.part.depth) {
            part.depth = std::min(cut_.part.depth, p_.k - depth);
            status = make_residues({at.x, at.y, at.row, at.column, depth}, part);
            if (status == ATTILE_OK) status = multiply(part);
            if (status == ATTILE_OK && cut_.is_chunked()) status = fold(part, depth == 0);
        }
        return status == ATTILE_OK ? finish(at, part) : status;
    }

    // Those of the rows or columns of the part before are kept.
    int32_t make_residues(const Origin &at, const Part &part) {
        const bool has_a = !cut_.is_chunked() && rows_made_ == at.row, has_b = !cut_.is_chunked() && columns_made_ == at.column;
        rows_made_ = at.row;
        columns_made_ = at.column;
        ResidueParams params = {};
        params.a = {numbers(true, at, part.entries, part.rows),
                    lines_of(true, at, part.entries),
                    listed_of(true, at, part.entries),
                    p_.m,
                    memory_.a,
                    cut_.plane_a(part),
                    at.column == 0 ? 1 : 0,
                    0};
        params.b = {numbers(false, at, part.entries, part.columns),
                    lines_of(false, at, part.entries),
                    listed_of(false, at, part.entries),
                    p_.n,
                    memory_.b,
                    cut_.plane_b(part),
                    at.row == 0 ? 1 : 0,
                    0};
        if (has_a) params.a.numbers.entries = 0;
        if (has_b) params.b.numbers.entries = 0;
        params.first = at.depth;
        params.depth = part.depth;
        params.row = residue_row(part.depth);
        params.across = Divider(ceil_div(params.row, kResidueDepth));
        params.moduli = cut_.moduli;
        for (int i = 0; i < cut_.moduli; ++i) params.modulus[i] = residue_modulus(i);
        const int64_t groups = ceil_div(params.a.numbers.entries * part.rows, kResidueLines) +
                               ceil_div(params.b.numbers.entries * part.columns, kResidueLines);
        if (groups == 0) return ATTILE_OK;
        const bool is_wide = cut_.most_bits > kNarrowBits;
        const TensorCoreSteps *const steps = tensor_core_steps(device_);
        const ResidueKernel kernel = steps != nullptr ? steps->residues(cut_.f64, is_wide) : residue_kernel(cut_.f64, is_wide);
        return launch(kernel, at_most(groups * params.across.divisor), kResidueThreads, params);
    }

    int32_t multiply(const Part &part) {
        Workspace rest = memory_.rest;
        if (cut_.stores_residues) {
            const ResidueSums sums = cut_.residue_sums(part, memory_.a, memory_.b, memory_.sums);
            return plan_residue_sums(device_, sums).launch(device_, rest, stream_);
        }
        const attile_gemm_problem sums = cut_.sums(part, memory_.a, memory_.b, memory_.sums);
        const Planned<attile_gemm_problem> planned = plan_step(device_, sums, kGemmFamilies);
        if (planned.refusal() != ATTILE_OK) return fail(planned.refusal(), "%s", planned.sentence());
        return planned.launch(device_, rest, stream_);
    }

    int32_t fold(const Part &part, bool is_first) {
        FoldParams params = {};
        params.sums = static_cast<const int32_t *>(memory_.sums);
        params.totals = static_cast<int32_t *>(memory_.totals);
        params.plane = cut_.plane_d(part);
        params.moduli = cut_.moduli;
        params.is_first = is_first ? 1 : 0;
        for (int i = 0; i < cut_.moduli; ++i) params.modulus[i] = residue_modulus(i);
        return launch(fold_kernel(), at_most(ceil_div(params.plane / 4 * cut_.moduli, kFoldThreads)), kFoldThreads, params);
    }

    int32_t finish(const Origin &at, const Part &part) {
        JoinParams params = {};
        Block &block = params.block;
        if (p_.beta != 0) block.end.c = output(p_.c, at);
        block.end.d = output(p_.d, at);
        if (is_present(p_.bias)) block.end.bias = output(p_.bias, at);
        block.end.alpha = p_.alpha;
        block.end.beta = p_.beta;
        block.end.relu = p_.activation == ATTILE_ACTIVATION_RELU ? 1 : 0;
        block.end.is_plain = p_.alpha == 1 && p_.beta == 0 && !is_present(p_.bias) && block.end.relu == 0 ? 1 : 0;
        block.entries = part.entries;
        block.m = part.rows;
        block.n = part.columns;
        int32_t status = ATTILE_OK;
        if (cut_.has_product()) {
            block.rows = lines_of(true, at, part.entries);
            block.columns = lines_of(false, at, part.entries);
            block.row_step = p_.a.stride[1] != 0 ? p_.m : 0;
            block.column_step = p_.b.stride[1] != 0 ? p_.n : 0;
            block.undecided = memory_.undecided;
            block.undecided_count = memory_.undecided_count;
            params.sums = memory_.totals;
            params.of_residues = cut_.stores_residues ? 1 : 0;
            params.listed = {numbers(true, at, part.entries, part.rows),
                             numbers(false, at, part.entries, part.columns),
                             listed_of(true, at, part.entries),
                             listed_of(false, at, part.entries),
                             cut_.f64 ? 1 : 0,
                             0};
            params.plane = cut_.plane_d(part);
            params.sum_row = cut_.sum_row(part.columns);
            params.numbers = join_numbers(cut_.moduli);
            status = device_.fill_zero(memory_.undecided_count, sizeof(uint32_t), stream_);
        }
        const int64_t elements = part.entries * part.rows * part.columns;
        if (status == ATTILE_OK) status = cut_.stores_residues ? join_pieces(params, part) : join(params);
        if (status == ATTILE_OK && cut_.has_product())
            status = launch(refine_kernel(limbs_for(cut_.moduli)), at_most(ceil_div(elements, kRefineThreads)), kRefineThreads, params);
        if (status != ATTILE_OK || !cut_.has_product()) return status;
        const SumParams sums = {block, numbers(true, at, part.entries, part.rows), numbers(false, at, part.entries, part.columns), p_.k};
        return launch(sum_kernel(cut_.f64), at_most(ceil_div(elements, kSumThreads / 32)), kSumThreads, sums);
    }

    int32_t join(const JoinParams &params) {
        const Block &block = params.block;
        return launch(join_kernel(limbs_for(cut_.moduli)), at_most(ceil_div(block.entries * block.m * ceil_div(block.n, 4), kJoinThreads)),
                      kJoinThreads, params);
    }
    int32_t join_pieces(const JoinParams &of, const Part &part) {
        const TensorCoreSteps *const steps = tensor_core_steps(device_);
        if (steps == nullptr) return fail(ATTILE_ERROR_INTERNAL, "gemm: no kernel joins residues");
        const int64_t of_row = cut_.sum_row(part.columns) / kResidueRow;
        JoinPiecesParams params = {};
        params.block = of.block;
        params.residues = static_cast<const uint8_t *>(memory_.sums);
        params.plane = cut_.plane_d(part);
        params.pieces = static_cast<uint32_t>(params.plane / kResidueRow);
        params.of_row = Divider(of_row);
        params.of_entry = Divider(part.rows);
        params.numbers = join_numbers(cut_.moduli);
        return launch(steps->join_pieces(limbs_for(cut_.moduli)),
                      at_most(ceil_div(params.pieces, kJoinPiecesOfWarp * (kJoinPiecesThreads / 32))), kJoinPiecesThreads, params);
    }

    Device &device_;
    const Cut &cut_;
    const attile_gemm_problem &p_;
    Stream stream_;
    Memory memory_ = {};
    int64_t rows_made_ = -1, columns_made_ = -1;  // Of which there are residues.
};

struct ExactGemm {
    Cut cut;

    int32_t describe(Device &device, attile_support &support) const {
        int32_t status = ATTILE_OK;
        char by[sizeof support.kernel] = "";
        if (cut.has_product()) {
            const ResidueSums sums = cut.residue_sums(cut.part, nullptr, nullptr, nullptr);
            status = cut.stores_residues ? plan_residue_sums(device, sums).describe(device, support)
                                         : plan_step(device, sums.sums, kGemmFamilies).describe(device, support);
            std::memcpy(by, support.kernel, sizeof by);
            if (cut.swapped) std::swap(support.tile_m, support.tile_n);
            support.predicted_share /= cut.moduli;
        }
        gemm_work(cut.p, support);
        support.level = ATTILE_SUPPORT_NATIVE;
        support.status = ATTILE_OK;
        std::snprintf(support.kernel, sizeof support.kernel, "gemm_exact_residues_%s", cut.f64 ? "f64" : "f32");
        if (cut.has_product())
            std::snprintf(support.text, sizeof support.text, "%d moduli, by %.60s; elements left undecided are summed in fixed point",
                          cut.moduli, by);
        else
            std::snprintf(support.text, sizeof support.text, "no depth: only the epilogue is computed");
        return status;
    }
    void move_to(const attile_gemm_problem &to) { cut.move_to(to); }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const { return Run(device, cut, stream).run(workspace); }
};

}  // namespace

Planned<attile_gemm_problem> plan_gemm(Device &device, const attile_gemm_problem &p) {
    if ((p.launch.flags & ATTILE_FLAG_EXACT_PRODUCTS) == 0) return {};
    if (std::max({p.m, p.n, p.k, p.batch[0], p.batch[1]}) > kMostExtent)
        return Planned<attile_gemm_problem>::refused(ATTILE_ERROR_UNSUPPORTED_SHAPE,
                                                     "gemm: %lld x %lld x %lld: extents of exact products are below 2^31",
                                                     static_cast<long long>(p.m), static_cast<long long>(p.n), static_cast<long long>(p.k));
    const Cut cut(device, p);
    if (cut.has_product() && !cut.stores_residues) {
        const attile_gemm_problem sums = cut.sums(cut.part, nullptr, nullptr, nullptr);
        const Planned<attile_gemm_problem> planned = plan_step(device, sums, kGemmFamilies);
        if (planned.refusal() != ATTILE_OK) return Planned<attile_gemm_problem>::refused(planned.refusal(), "%s", planned.sentence());
    }
    return Planned<attile_gemm_problem>(ExactGemm{cut}, cut.workspace);
}

}  // namespace attile::gpu::exact
