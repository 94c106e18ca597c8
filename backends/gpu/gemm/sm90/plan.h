// SPDX-License-Identifier: Apache-2.0
// Which tile the sm_90a GEMM kernel uses, how a tile's depth is shared out, and whether operands are packed first: chosen by a model of the
// time each candidate takes.
#pragma once

#include "gemm/mma/operands.h"
#include "gemm/residue_sums.h"
#include "gemm/sm90/instances.h"

namespace attile::gpu::sm90 {

using namespace mma;

struct GemmChoice {
    GemmTile tile = kGemm128x128;
    bool transposed = false;  // The tile's rows are columns of D.
    int splits = 1;           // Blocks of a cluster that share a tile's depth.
    int multicast = 1;        // Blocks of a cluster that share a panel: B's,
    bool shares_a = false;    // or A's, where the blocks lie side by side along the columns.
    int parts = 1;            // That the depth is cut into of the tiles that do not fill a round of the device.

    const GemmTileShape &shape() const { return kGemmTileShapes[tile]; }
    int along_rows() const { return shares_a ? 1 : multicast; }  // Blocks of a cluster that have tiles of their own,
    int along_columns() const { return shares_a ? multicast : 1; }
};

// What elements of A and B are: numbers of 16 bits, or pairs of numbers of 8.
// Float8Groups: their scales change along the depth, every 128. RowGroups: of 16 bits, in groups of rows. Residues: int8, whose sums are
// stored modulo a number.
enum class GemmSource { kHalves, kInt8, kFloat8, kFloat8Groups, kRowGroups, kResidues };

struct GemmPlan : mma::GemmOperands {  // workspace_bytes is the whole plan's.
    GemmChoice choice;
    GemmWay way = kGemmGeneral;  // As in GemmArguments, as are the next.
    bool wide = false;           // Rows of D begin at multiples of 16 bytes.
    bool halves = false;
    int32_t fused = 0;                            // What there is to fuse, also where the way is general.
    int64_t tiles_a = 0, tiles_b = 0, tiles = 0;  // Of a cluster, if it shares a panel: along the tiles' rows, columns, in all.
    int64_t whole = 0;                            // Of these, those that are not cut into parts.
    int64_t blocks = 0;
    double seconds = 0;     // As the model predicts, packing included.
    bool is_asked = false;  // The environment names the choice.
    GemmSource source = GemmSource::kHalves;
    bool keeps_depth = false;    // A tile's depth is not to be cut into parts.
    bool column_scales = false;  // Of groups: columns of a tile have scales of their own.

    bool of_pairs() const { return source != GemmSource::kHalves && source != GemmSource::kRowGroups; }
    int64_t units() const { return whole + (tiles - whole) * choice.parts; }  // Of work, as in GemmArguments.
    int64_t partial_bytes() const;                                            // Of the parts' sums.
    // Narrowed and nothing else, in whole aligned lines of D.
    bool leaves_plainly() const { return way == kGemmNarrow && fused == 0 && wide && params.n % 8 == 0; }
    GemmEnd end() const {
        if (choice.shape().turned) return leaves_plainly() ? GemmEnd::kTurned : GemmEnd::kTurnedFused;
        if (of_pairs()) return GemmEnd::kFused;
        if (halves || leaves_plainly()) return GemmEnd::kPlain;
        return way == kGemmGeneral ? GemmEnd::kGeneral : GemmEnd::kFused;
    }
};

// Of pairs: the problem is that of pairs, which products of 8 bits have tiles for; it may have none, and says so in `declined`.
GemmPlan gemm_plan(const DeviceProperties &device, const attile_gemm_problem &problem, GemmSource source = GemmSource::kHalves);

// A plan for tiles, described and launched; scales of products of 8 bits.
int32_t describe_tiles(Device &device, const attile_gemm_problem &problem, const GemmPlan &plan, attile_support &support);
struct TileScales {
    GemmScales rows = {}, columns = {};
    bool columns_first = false, grouped = false;
};
int32_t launch_tiles(Device &device, const GemmPlan &plan, int32_t dtype, const TileScales &scales, Workspace &workspace, Stream stream,
                     const RowGroups *row_groups = nullptr, const GemmModuli *moduli = nullptr);

// How results leave for D, where the tile is made to have D's rows along its own, or, if it is turned, along its columns.
void set_way(GemmPlan &plan, int32_t dtype);

// Of f16 and bf16: by this kernel, or by those of small products or of few rows.
Planned<attile_gemm_problem> plan_gemm(Device &device, const attile_gemm_problem &problem);
// Of i8 with scales that are constant along the depth, and of e4m3 whose sums may lose bits, whose scales may also change every 128.
Planned<attile_gemm_problem> plan_gemm_eight_bits(Device &device, const attile_gemm_problem &problem);
// Of i8, whose sums are stored modulo a number.
Planned<ResidueSums> plan_residues(Device &device, const ResidueSums &problem);
// Of groups of rows of f16 and bf16.
Planned<attile_gemm_grouped_problem> plan_gemm_grouped(Device &device, const attile_gemm_grouped_problem &problem);

}  // namespace attile::gpu::sm90
