// SPDX-License-Identifier: Apache-2.0
// The gemm front, shared by attile_gemm and the BLAS names.
#ifndef ATTILE_CORE_GEMM_PROBLEM_H
#define ATTILE_CORE_GEMM_PROBLEM_H

#include <attile/attile_backend.h>

#include <cstdint>

#include "operation.h"

namespace attile::core {

// A validated gemm.
struct GemmProblem {
    attile_gemm_problem problem;
    bool nothing_to_do;
};

// Reads, validates and normalises; `full` becomes the arguments as this version has them.
int32_t read_gemm(const Call &call, const attile_gemm_args *args, attile_gemm_args *full, GemmProblem *gemm);

// Factors, bias_axis and activation; the type of `args.a` is known.
int32_t check_gemm_scalars(const Call &call, const attile_gemm_args &args);
// Those of an operation without a bias_axis; `dtype` is that of the sums.
int32_t check_gemm_factors(const Call &call, int32_t dtype, double alpha, double beta);
int32_t check_activation(const Call &call, int32_t activation);

// What b may be beside an a, and d beside both if it is not of 8 bits; what c is beside a d.
DtypeSet types_of_b(DtypeSet a);
DtypeSet types_of_d(DtypeSet a);
DtypeSet type_of_c(int32_t d);

// A backend that knows an earlier version of the problem knows no exact products, or neither numbers of 8 bits nor their scales. What is
// asked of exact products that nobody has is refused here, too.
int32_t check_version(const Call &call, const Context *context, const attile_gemm_interface *interface, const attile_gemm_problem &problem);

// Validates arguments that were read to full size. `output_name` is what the caller calls d: "c" for the BLAS names.
int32_t normalise_gemm(const Call &call, const attile_gemm_args &args, const char *output_name, GemmProblem *gemm);

}  // namespace attile::core

#endif
