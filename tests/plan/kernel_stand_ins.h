// SPDX-License-Identifier: Apache-2.0
// The tensor-core kernels' names without their code, which only nvcc takes, and those of SIMT's attention, which takes long: the files of
// instances, compiled as C++, find these in place of the headers that CMakeLists.txt names, and so make the very tables that plans go by.
#pragma once

#include "attention/params.h"
#include "attention/simt/shape.h"
#include "attention/sm80/decode_narrow_shape.h"
#include "attention/sm80/shapes.h"
#include "attention/sm80/wide_shapes.h"
#include "attention/sm90/arguments.h"
#include "attention/sm90/tf32x3_shapes.h"
#include "attention_backward/mma/add_parts.h"
#include "attention_backward/mma/bias.h"
#include "attention_backward/mma/prepare.h"
#include "attention_backward/mma/sum.h"
#include "attention_backward/mma/task.h"
#include "attention_backward/sm80/shapes.h"
#include "attention_backward/sm90/arguments.h"
#include "eight_bits.h"
#include "gemm/exact/kernels.h"
#include "gemm/sm80/few_narrow_shape.h"
#include "gemm/sm80/tiles.h"
#include "gemm/sm90/arguments.h"
#include "gemm/sm90/few_rows.h"
#include "numeric.h"

namespace attile::gpu::simt {

template <class C, AttentionKind kKind>
void attention_tile_kernel(AttentionParams) {}

}  // namespace attile::gpu::simt

namespace attile::gpu::exact {

template <class T, int kWords>
void make_residues_mma(ResidueParams) {}
template <int kLimbs>
void join_pieces(JoinPiecesParams) {}

}  // namespace attile::gpu::exact

namespace attile::gpu::mma {

template <class Element>
void attention_backward_add_parts() {}
template <class Element>
void attention_backward_bias() {}
template <int kBlocks>
void attention_backward_add_bias_parts() {}
template <class Element, int kLanes, bool kChecks>
void attention_backward_prepare() {}
template <class Element, class Config>
void attention_backward_sum() {}

}  // namespace attile::gpu::mma

namespace attile::gpu::sm80 {

using namespace mma;

template <class Element, int kRows, int kColumns, int kStages, bool kOuterA, bool kOuterB>
struct GemmConfig;
template <class Config>
void gemm_kernel() {}
template <class Element, class Config>
void attention_forward() {}
template <class Element, class Config>
void attention_wide_forward() {}
template <class Config>
void attention_decode_narrow_kernel() {}
template <class Config>
void gemm_few_narrow() {}
template <class Element, class Config>
void attention_backward() {}

}  // namespace attile::gpu::sm80

namespace attile::gpu::sm90 {

enum class GemmEnd;
template <class Element, int kRows, int kColumns, int kOuterA, int kOuterB, GemmEnd kEnd, class Source = Element>
struct GemmConfig;
template <class Config>
void gemm_kernel() {}
template <class Element, bool kAlongDepth, int kRows>
struct FewRowsConfig;
template <class Config>
void gemm_few_rows() {}
inline void gemm_add_parts() {}
inline void attention_transpose_values() {}
template <class Element, class Config>
void attention_forward() {}
template <class Config>
void attention_tf32x3_forward() {}
template <class Element, class Config>
void attention_backward() {}
template <class Element, class Config>
void attention_backward_finish() {}
template <class Element, class Config>
void attention_backward_wide() {}

}  // namespace attile::gpu::sm90
