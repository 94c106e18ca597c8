// SPDX-License-Identifier: Apache-2.0
// What the file of float64's instances makes of the settings in gemm/sm80/instances.cmake.
#pragma once

#include "gemm/sm80/instance.cuh"
#include "gemm/sm80/instances_f64.h"
