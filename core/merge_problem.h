// SPDX-License-Identifier: Apache-2.0
// From the arguments of attile_attention_merge to the problem a backend solves; its gradients start from the same.
#ifndef ATTILE_CORE_MERGE_PROBLEM_H
#define ATTILE_CORE_MERGE_PROBLEM_H

#include <attile/attile_backend.h>

#include <cstdint>
#include <memory>

#include "operation.h"

namespace attile::core {

inline constexpr uint32_t kMergeFirstSize = ATTILE_SIZE_UP_TO(attile_attention_merge_args, lse);
inline constexpr uint32_t kMergeFlags = ATTILE_FLAG_BATCH_INVARIANT | ATTILE_FLAG_NO_ALLOC;  // of gradients
inline constexpr uint32_t kForwardMergeFlags = kMergeFlags | ATTILE_FLAG_EXACT_PRODUCTS;

// As many parts as are common need no allocation.
inline constexpr int64_t kInlineParts = 16;

// Items of a call, of which there are some for each part. Takes memory where there are more than kInline.
template <class Item, int64_t kInline>
class PerPart {
  public:
    Item *take(int64_t count) {
        if (count <= kInline) return inline_;
        more_ = std::make_unique<Item[]>(static_cast<size_t>(count));
        return more_.get();
    }

  private:
    Item inline_[kInline];
    std::unique_ptr<Item[]> more_;
};

// Whether o and lse are written, or read as the gradients do.
enum class MergePass { kForward, kBackward };

struct MergeViews {
    View o, lse;
};

// The type of lse and of its gradients: f32, of f64 parts f64.
inline DtypeSet merge_lse_type(DtypeSet part_type) { return part_type == kF64 ? kF64 : kF32; }

// Checks that there are parts at all, and not absurdly many.
int32_t check_part_count(const Call &call, const attile_attention_merge_args &args);

// Validates arguments that were read to full size and whose parts were counted, also against the launch's workspace, and fills everything
// of `problem` but its launch. There is room for two `operands` a part and, unless NULL, two `part_views`: those of o_parts, then those of
// lse_parts.
int32_t normalise_merge(const Call &call, const attile_attention_merge_args &args, const attile_launch &launch, MergePass pass,
                        attile_operand *operands, View *part_views, MergeViews *views, attile_attention_merge_problem *problem);

}  // namespace attile::core

#endif
