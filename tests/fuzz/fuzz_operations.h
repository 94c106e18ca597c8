// SPDX-License-Identifier: Apache-2.0
// The operations that the argument fuzzer calls: each draws its arguments from the call's bytes and checks the call.
#ifndef ATTILE_TESTS_FUZZ_OPERATIONS_H
#define ATTILE_TESTS_FUZZ_OPERATIONS_H

#include "fuzz_call.h"

namespace attile_test {

void fuzz_gemm(Call *call);
void fuzz_attention(Call *call);
void fuzz_backward(Call *call);
void fuzz_merge(Call *call);
void fuzz_merge_backward(Call *call);
void fuzz_reduce(Call *call);
void fuzz_softmax(Call *call);
void fuzz_blas(Call *call);
void fuzz_memory(Call *call);
void fuzz_quantize(Call *call);  // and back
void fuzz_gemm_grouped(Call *call);
void fuzz_append(Call *call);  // attile_quantize with angles and caches
void fuzz_repack(Call *call);

}  // namespace attile_test

#endif
