// SPDX-License-Identifier: Apache-2.0
#include "attention/plan.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "attention/run.h"
#include "attention/seconds.h"
#include "attention/simt/decode_params.h"
#include "attention/simt/instances.h"
#include "attention/sm80/decode_narrow.h"
#include "attention/tile_plan.h"
#include "host/sizes.h"
#include "host/status.h"
#include "sm80/kernels.h"

namespace attile::gpu {
namespace {

constexpr double kLargestScale = 0x1p100;       // Of kernels that count scores in units of log2.
constexpr int64_t kDecodeRows = 16;             // Rows of a key head up to which keys are streamed for them.
constexpr int64_t kDecodeKeys = 128;            // Fewest keys of a split.
constexpr int64_t kConvertBytes = 256ll << 20;  // What a slice of rewritten K and V may take, unless one head takes more.
// What the choice between tiles and streamed keys goes by, measured on an H100. Of decode kernels: the share of the multiply-add roof of
// two blocks a multiprocessor, times as many where each score passes through modifiers or pages, or K and V are no vectors; what a block
// takes before and after its keys; the share of the bandwidth. Of tiles: what a block takes so, the first fetch of its code among that;
// times as many in the modified kernel; the share of the bandwidth that rewriting K and V gets.
constexpr double kDecodeRate = 0.3, kSlowDecode = 1.6, kDecodeEnds = 2.5e-6, kDecodeBandwidth = 0.75;
constexpr double kTileEnds = 4e-6, kModifiedTile = 1.25, kRewriteBandwidth = 0.7;

void refuse(AttentionPlan &plan, int32_t status, const char *format, ...) ATTILE_GPU_PRINTF(3, 4);
void refuse(AttentionPlan &plan, int32_t status, const char *format, ...) {
    plan.status = status;
    va_list list;
    va_start(list, format);
    std::vsnprintf(plan.text, sizeof plan.text, format, list);
    va_end(list);
}

// Could float rows of this operand be read as 16-byte vectors, whatever the address of the first?
bool has_vector_rows(const attile_operand &x, int64_t cols) {
    return x.dtype == ATTILE_F32 && (x.stride[3] == 1 || cols == 1) && cols % 4 == 0 && x.stride[0] % 4 == 0 && x.stride[1] % 4 == 0 &&
           x.stride[2] % 4 == 0;
}
bool has_plain_rows(const attile_operand &x, int64_t cols) { return x.dtype == ATTILE_F32 && (x.stride[3] == 1 || cols == 1); }

// Of a decode kernel's blocks, each of which sees up to `tiles` tiles of keys in all its splits.
double decode_seconds(const DeviceProperties &device, const attile_attention_problem &p, const AttentionPlan &plan, int64_t tiles,
                      bool is_plain) {
    const double tile = 2.0 * plan.rows * plan.keys * plan.depth * (is_plain ? 1 : kSlowDecode), units = std::max(device.compute_units, 1);
    const double blocks = static_cast<double>(p.batch * p.heads_kv * plan.row_blocks * plan.splits);
    const double seen = std::min(visible_share(p) * static_cast<double>(ceil_div(p.len_k, plan.keys)) + 0.5, static_cast<double>(tiles));
    const double share = kDecodeRate * latency_share(plan.blocks_per_unit, 2);
    double seconds =
        wave_seconds(device, blocks, seen / plan.splits * tile, static_cast<double>(plan.split_tiles) * tile, plan.blocks_per_unit, share);
    if (device.peak_bandwidth > 0) {
        const double numbers = static_cast<double>(p.batch * p.heads_kv * p.len_k) * static_cast<double>(p.head_dim + p.head_dim_v);
        const double bytes = numbers * (attention_has_narrow_keys(p) ? static_cast<double>(dtype_bits(p.k.dtype)) / 8 : 4.0);
        seconds = std::max(seconds, bytes / (kDecodeBandwidth * device.peak_bandwidth));
    }
    return seconds + kDecodeEnds * std::ceil(blocks / (units * plan.blocks_per_unit)) + split_seconds(p, plan.splits);
}

// Of a plan of tiles, as decode_seconds counts.
double tile_seconds(const DeviceProperties &device, const attile_attention_problem &p, const AttentionPlan &plan) {
    double seconds = kTileEnds + plan.cost * (plan.modifiers ? kModifiedTile : 1);
    if (plan.convert) {
        const double keys = static_cast<double>(p.heads_kv * p.total_k) * (is_present(p.cu_len_k) ? 1.0 : static_cast<double>(p.batch));
        const double bytes = 8.0 * keys * static_cast<double>(p.head_dim + p.head_dim_v), bandwidth = device.peak_bandwidth;
        seconds += 2 * kSplitLaunchSeconds + (bandwidth > 0 ? bytes / (kRewriteBandwidth * bandwidth) : 0);
    }
    return seconds;
}

// The decode kernel of as few columns as do, and of those what leaves the fewest blocks.
const simt::AttentionDecodeKernel &decode_kernel(const attile_attention_problem &p) {
    const int64_t rows = p.len_q * (p.heads_q / p.heads_kv);
    // Without keys any does that reads q.
    const int32_t type = attention_streams_keys(p) ? p.k.dtype : p.q.dtype;
    const simt::AttentionDecodeKernels kernels = type == ATTILE_F16       ? simt::attention_decode_f16()
                                                 : type == ATTILE_BF16    ? simt::attention_decode_bf16()
                                                 : type == ATTILE_I8      ? simt::attention_decode_i8()
                                                 : type == ATTILE_I4      ? simt::attention_decode_i4()
                                                 : type == ATTILE_F8_E4M3 ? simt::attention_decode_e4m3()
                                                                          : simt::attention_decode_f32();
    const simt::AttentionDecodeKernel *chosen = nullptr;
    for (int32_t i = 0; i < kernels.count; ++i) {
        const simt::AttentionDecodeKernel &kernel = kernels.all[i];
        if (kernel.cols < std::max(p.head_dim, p.head_dim_v)) continue;
        const auto waste = [&](const simt::AttentionDecodeKernel &k) { return ceil_div(rows, k.rows) * 1000 + k.rows; };
        if (chosen == nullptr || kernel.cols < chosen->cols || (kernel.cols == chosen->cols && waste(kernel) < waste(*chosen)))
            chosen = &kernel;
    }
    return *chosen;
}

// The kernel for tensor cores that streams keys in place of SIMT's; its kernel is null if there is none.
sm80::DecodeNarrowKernel tensor_kernel(Device &device, const attile_attention_problem &p) {
#if defined(ATTILE_GPU_HAS_SM80)
    if (attention_has_narrow_keys(p) && device.runs(sm80::kKernels)) return sm80::plan_decode_narrow(p, device.properties().shared_opt_in);
#endif
    static_cast<void>(device), static_cast<void>(p);
    return {};
}

void plan_decode(Device &device, const attile_attention_problem &p, const simt::AttentionDecodeKernel &kernel, AttentionPlan &plan) {
    const bool in_vectors = attention_operand(p.k, p.head_dim).vector != 0 && attention_operand(p.v, p.head_dim_v).vector != 0 &&
                            has_short_stride(p.k) && has_short_stride(p.v) && has_short_stride(p.k_scale) && has_short_stride(p.v_scale);
    const bool has_plain_rows = in_vectors && !is_present(p.block_table), is_plain = has_plain_rows && !plan.modifiers;
    const sm80::DecodeNarrowKernel tensor = in_vectors ? tensor_kernel(device, p) : sm80::DecodeNarrowKernel();
    const bool has_tensor = tensor.kernel != nullptr;
    plan.path = AttentionPath::kDecode;
    plan.name = has_tensor ? tensor.name : kernel.name;
    plan.kernel = has_tensor ? tensor.kernel : is_plain ? kernel.plain : has_plain_rows ? kernel.modified : kernel.kernel;
    plan.rows = has_tensor ? tensor.rows : kernel.rows;
    plan.threads = has_tensor ? tensor.threads : kernel.threads;
    plan.keys = has_tensor ? tensor.keys : kernel.step * kernel.threads / 32;
    // One block a multiprocessor: of two on each, some get less of the memory than others, and their ends are waited for.
    if (has_tensor) plan.shared = std::max(tensor.shared, static_cast<std::size_t>(device.properties().shared_per_unit / 2 + 1));
    plan.awaits = has_tensor;
    plan.depth = kernel.cols;
    plan.pack = static_cast<int32_t>(p.heads_q / p.heads_kv);
    plan.rows_per_head = p.len_q * plan.pack;
    plan.row_blocks = ceil_div(plan.rows_per_head, plan.rows);
    // Splits of 8 bits are cut for the kernel of rows in vectors, wherever they will lie: a query knows no addresses.
    const bool could_be_plain = attention_has_narrow_keys(p) && !is_present(p.block_table) && !plan.modifiers;
    const void *const usual = has_tensor ? tensor.kernel : could_be_plain ? kernel.plain : kernel.kernel;
    if (device.occupancy(usual, plan.threads, plan.shared, &plan.blocks_per_unit) != ATTILE_OK || plan.blocks_per_unit < 1)
        plan.blocks_per_unit = 1;
    const int64_t tiles = seen_tiles(p, plan.rows, plan.pack, plan.keys), base = p.batch * p.heads_kv * plan.row_blocks;
    const int64_t slots = static_cast<int64_t>(std::max(device.properties().compute_units, 1)) * plan.blocks_per_unit;
    const int64_t least = std::max<int64_t>(1, kDecodeKeys / plan.keys);
    // Tensor cores' tiles of more keys take more warps, and half as long again.
    const int64_t tile_cost = has_tensor && plan.keys > kDecodeKeys ? 3 : 2;
    int64_t best_cost = -1;
    for (int64_t splits = 1; splits <= kMostAttentionSplits; ++splits) {
        const int64_t split_tiles = std::max(ceil_div(tiles, splits), least);
        const int64_t count = std::max<int64_t>(ceil_div(tiles, split_tiles), 1);
        // In halves of tiles one after the other, with a fixed cost for each wave and for putting splits together.
        const int64_t waves = ceil_div(base * count, slots);
        const int64_t cost = waves * (split_tiles * tile_cost + 4) + (count > 1 ? 2 * (4 + count / 16) : 0);
        if (best_cost < 0 || cost < best_cost || (cost == best_cost && waves == 1)) {  // More of one wave, more loads under way.
            best_cost = cost;
            plan.split_tiles = split_tiles;
            plan.splits = static_cast<int32_t>(count);
        }
        if (split_tiles == least) break;
    }
    plan.share = 0.8;
    if (plan.splits > 1) plan.arrivals = base;
    plan.cost = decode_seconds(device.properties(), p, plan, tiles, is_plain || has_tensor);
    if (!is_plain) return;
    // Where a kernel behind this one is brought up early (early.h), it takes less time than the last block's merging, which such
    // code lacks. A kernel behind is right for any code, so where nothing is known.
    KernelResources resources;
    const bool brings_up_early = device.resources(plan.kernel, &resources) != ATTILE_OK || resources.source_version >= 90;
    plan.merges =
        plan.splits > 1 && !brings_up_early && simt::decode_merges(kernel.storage == AttentionStorage::kF32, kernel.rows, kernel.cols);
}

}  // namespace

// Scales that differ from key to key are shared by the columns of neighbouring lanes (DecodeLoader::kSharing).
bool attention_streams_keys(const attile_attention_problem &p) {
    if (p.k.dtype != p.v.dtype || p.k.dtype == ATTILE_F8_E5M2 || p.k.dtype == ATTILE_U4) return false;
    const auto fits = [&p](const attile_operand &scale, int64_t group, int64_t cols) {
        return !attention_scales_by_key(p, scale) || scale.stride[3] == 0 || group % 32 == 0 || group >= cols;
    };
    return !attention_has_narrow_keys(p) || (fits(p.k_scale, p.k_group, p.head_dim) && fits(p.v_scale, p.v_group, p.head_dim_v));
}

int64_t AttentionPlan::blocks_of(int64_t heads) const { return whole_blocks + (row_blocks * heads - whole_blocks) * splits; }

void attention_cut_launches(Device &device, const attile_attention_problem &p, AttentionPlan &plan) {
    const int64_t heads = p.heads_q / plan.pack;
    int64_t pairs = p.batch * p.heads_kv;  // (entry, key head) pairs
    plan.slice = pairs;
    if (plan.convert) {
        const int64_t entries = is_present(p.cu_len_k) ? 1 : p.batch, rows = is_present(p.cu_len_k) ? p.total_k : p.len_k;
        const int64_t k_cols = plan.depth, v_cols = ceil_div(p.head_dim_v, 4) * 4;
        const int64_t bytes = 4 * rows * (k_cols + v_cols);
        int64_t slice = entries * p.heads_kv;
        if (entries > 1 || p.batch == 1) {  // Packed sequences are rewritten as a whole: each launch needs all heads of an entry.
            const int64_t fill = ceil_div(8ll * std::max(device.properties().compute_units, 1),
                                          std::max<int64_t>(plan.row_blocks * plan.splits * (heads / p.heads_kv), 1));
            slice = std::min(slice, std::max({fill, kConvertBytes / std::max<int64_t>(bytes, 1), int64_t{1}}));
            plan.slice = slice;
        }
        plan.convert_k = slice * rows * k_cols;
        plan.convert_v = slice * rows * v_cols;
    }
    plan.slices = ceil_div(pairs, plan.slice);
    plan.slice = ceil_div(pairs, plan.slices);
    plan.slice *= heads / p.heads_kv;  // In heads of the launch.
    while (plan.blocks() > kMaxGridX) {
        plan.slice = ceil_div(plan.slice, 2 * (heads / p.heads_kv)) * (heads / p.heads_kv);
        if (plan.slice <= 1) break;
    }
    plan.slices = ceil_div(p.batch * heads, plan.slice);
    if (plan.splits > 1) plan.part_rows = plan.splits * (p.batch * p.heads_q * p.len_q - plan.first_part);
    const auto piece = [](int64_t floats) { return (floats * 4 + 255) / 256 * 256; };
    plan.workspace = piece(plan.convert_k) + piece(plan.convert_v) + piece(plan.part_rows * p.head_dim_v) + piece(plan.part_rows) +
                     piece(attention_part_sums(p, plan)) + piece(2 * plan.arrivals);
}

AttentionPlan plan_attention(Device &device, const attile_attention_problem &p, bool by_any) {
    AttentionPlan plan;
    if (p.len_q > kAttentionMaxLength || p.len_k > kAttentionMaxLength ||
        p.len_q * (p.heads_q / std::max<int64_t>(p.heads_kv, 1)) > kAttentionMaxLength) {
        refuse(plan, ATTILE_ERROR_UNSUPPORTED_SHAPE, "len_q %lld, len_k %lld: more than %lld rows or keys", static_cast<long long>(p.len_q),
               static_cast<long long>(p.len_k), static_cast<long long>(kAttentionMaxLength));
        return plan;
    }
    if (p.batch < 1 || p.heads_q < 1 || p.len_q < 1 || (p.head_dim_v < 1 && !is_present(p.lse))) return plan;  // kNothing
    const bool invariant = (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0;
    const int64_t group = p.heads_q / p.heads_kv;
    // The kernel for masks hides keys by their distance to the row alone.
    const bool modifies = attention_modifies_scores(p) || is_present(p.key_starts);
    plan.modifiers = modifies;
    const bool paged = is_present(p.block_table);
    // SIMT's kernels that stream keys for few rows do not know masks of blocks and trees, which would cost them registers.
    const bool wide = p.compute == ATTILE_F64, sparse = attention_has_sparse_mask(p) && tensor_kernel(device, p).kernel == nullptr;
    const bool mixed = !attention_streams_keys(p);

    // Kernels of tiles read four columns of V at least, which are not there where it has none; and count scores in units of log2, where the
    // largest that float32 holds are infinite.
    if (by_any || wide || std::fabs(p.scale) > kLargestScale || p.head_dim > 256 || p.head_dim_v > 256 || p.head_dim_v == 0) {
        const simt::AttentionAnyKernel kernel = wide                           ? simt::attention_any_f64()
                                                : attention_has_narrow_keys(p) ? simt::attention_any_f32_scaled()
                                                                               : simt::attention_any_f32();
        plan.path = AttentionPath::kAny;
        plan.name = kernel.name;
        plan.kernel = kernel.kernel;
        plan.rows = kernel.rows;
        plan.keys = kernel.keys;
        plan.threads = kernel.threads;
        plan.depth = static_cast<int32_t>(std::min<int64_t>(p.head_dim, INT32_MAX));
        plan.shared = static_cast<std::size_t>(kernel.rows) * static_cast<std::size_t>(std::max<int64_t>(p.head_dim, 1)) * kernel.element;
        plan.rows_per_head = p.len_q;
        plan.row_blocks = ceil_div(p.len_q, kernel.rows) * std::max<int64_t>(ceil_div(p.head_dim_v, kernel.cols), 1);
        plan.share = 0.1;
        if (plan.shared > static_cast<std::size_t>(device.properties().shared_per_block)) {
            refuse(plan, ATTILE_ERROR_UNSUPPORTED_SHAPE,
                   "head_dim %lld: %d rows of q take %zu bytes of shared memory, and a block has %lld", static_cast<long long>(p.head_dim),
                   kernel.rows, plan.shared, static_cast<long long>(device.properties().shared_per_block));
            return plan;
        }
        (void)device.occupancy(plan.kernel, plan.threads, plan.shared, &plan.blocks_per_unit);
    } else if ((p.len_q * group <= kDecodeRows && !invariant && !sparse && !mixed) || p.len_k == 0) {
        plan_decode(device, p, decode_kernel(p), plan);
    } else {
        const bool plain = has_plain_rows(p.k, p.head_dim) && has_plain_rows(p.v, p.head_dim_v) && !paged;
        const bool vector = plain && has_vector_rows(p.k, p.head_dim) && has_vector_rows(p.v, p.head_dim_v) && has_short_stride(p.k) &&
                            has_short_stride(p.v);
        plan.convert = !plain || !vector;
        // Addresses alone do not ask for workspace: a query may not know them yet.
        const bool unaligned = !plan.convert && (!is_aligned_16(p.k) || !is_aligned_16(p.v));
        // The modified kernel moves a row's reference by that row's scores alone, whatever other rows of its tile do, and takes any
        // address.
        plan.modifiers = plan.modifiers || paged || unaligned || invariant;
        const AttentionPlan start = plan;
        int32_t narrowest = 0;
        for (const simt::AttentionTileFn kernel : simt::kAttentionTilePlain) {
            const simt::AttentionTileKernel tile = kernel();
            if (tile.cols < p.head_dim_v || tile.depth < p.head_dim || (narrowest != 0 && tile.cols > narrowest)) continue;
            narrowest = tile.cols;
            plan_tile(device, p, tile, invariant, start, plan);
            if (invariant && plan.path != AttentionPath::kNothing) break;
        }
        if (plan.path == AttentionPath::kNothing) {
            refuse(plan, ATTILE_ERROR_INTERNAL, "attention: no kernel for head_dim %lld and %lld", static_cast<long long>(p.head_dim),
                   static_cast<long long>(p.head_dim_v));
            return plan;
        }
        const AttentionBy by = device.properties().attention_by;
        if (!invariant && !sparse && !mixed && by != AttentionBy::kTiles) {
            AttentionPlan streamed = start;
            streamed.convert = false;
            streamed.modifiers = modifies;
            plan_decode(device, p, decode_kernel(p), streamed);
            if (by == AttentionBy::kStreams || streamed.cost < tile_seconds(device.properties(), p, plan)) plan = streamed;
        }
    }

    attention_cut_launches(device, p, plan);
    return plan;
}

void print_plan(const AttentionPlan &plan, char *text, std::size_t capacity) {
    if (plan.path == AttentionPath::kNothing) {
        std::snprintf(text, capacity, "nothing to compute");
        return;
    }
    std::snprintf(text, capacity,
                  "%s%s%s: %d rows x %d keys, %d threads, %d heads as rows, %lld row blocks x %d splits x %lld heads x %lld launches",
                  plan.name, plan.modifiers ? ", modified scores" : "", plan.convert ? ", K and V rewritten" : "", plan.rows, plan.keys,
                  plan.threads, plan.pack, static_cast<long long>(plan.row_blocks), plan.splits, static_cast<long long>(plan.slice),
                  static_cast<long long>(plan.slices));
    const std::size_t length = std::strlen(text);
    if (plan.whole_blocks != 0)
        std::snprintf(text + length, capacity - length, "; splits of the last %lld row blocks alone",
                      static_cast<long long>(plan.row_blocks * plan.slice - plan.whole_blocks));
}

}  // namespace attile::gpu
