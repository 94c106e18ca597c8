// SPDX-License-Identifier: Apache-2.0
// What the files of instances make of the settings in gemm/sm80/instances.cmake.
#pragma once

#include "gemm/sm80/instance.cuh"
#include "gemm/sm80/instances.h"
