// SPDX-License-Identifier: Apache-2.0
// What the inline assembly of wgmma has in common: of so many sums of a thread, the numbers of their operands, which come first, and the
// registers themselves, from `sums[i]` on.
#pragma once

// clang-format off
#define ATTILE_WGMMA_SUMS_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define ATTILE_WGMMA_SUMS_16 ATTILE_WGMMA_SUMS_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define ATTILE_WGMMA_SUMS_32 ATTILE_WGMMA_SUMS_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define ATTILE_WGMMA_SUMS_40 ATTILE_WGMMA_SUMS_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define ATTILE_WGMMA_SUMS_48 ATTILE_WGMMA_SUMS_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define ATTILE_WGMMA_SUMS_64 ATTILE_WGMMA_SUMS_48 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define ATTILE_WGMMA_SUMS_128 ATTILE_WGMMA_SUMS_64 \
    ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" \
    ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95" \
    ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" \
    ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define ATTILE_WGMMA_BIND_4(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
#define ATTILE_WGMMA_BIND_8(i) ATTILE_WGMMA_BIND_4(i), ATTILE_WGMMA_BIND_4(i + 4)
#define ATTILE_WGMMA_BIND_16(i) ATTILE_WGMMA_BIND_8(i), ATTILE_WGMMA_BIND_8(i + 8)
#define ATTILE_WGMMA_BIND_32(i) ATTILE_WGMMA_BIND_16(i), ATTILE_WGMMA_BIND_16(i + 16)
#define ATTILE_WGMMA_BIND_40(i) ATTILE_WGMMA_BIND_32(i), ATTILE_WGMMA_BIND_8(i + 32)
#define ATTILE_WGMMA_BIND_48(i) ATTILE_WGMMA_BIND_32(i), ATTILE_WGMMA_BIND_16(i + 32)
#define ATTILE_WGMMA_BIND_64(i) ATTILE_WGMMA_BIND_32(i), ATTILE_WGMMA_BIND_32(i + 32)
#define ATTILE_WGMMA_BIND_128(i) ATTILE_WGMMA_BIND_64(i), ATTILE_WGMMA_BIND_64(i + 64)
// clang-format on
