// SPDX-License-Identifier: Apache-2.0
#include "gemm/exact_lines.h"

#include <cmath>

namespace attile::cpu {

double bits_of(const Lines &lines) {
    double bits = 0;
    for (int64_t i = 0; i < lines.count; ++i) bits = lines.line[i].found.special ? bits : std::fmax(bits, lines.line[i].needed);
    return bits;
}

void choose_scales(double most_bits, int64_t depth, Lines *lines) {
    for (int64_t i = 0; i < lines->count; ++i) {
        Line &line = lines->line[i];
        line.rounds = false;
        lines->scale[i] = 0;
        lines->size[i] = lines->error[i] = line.found.special ? HUGE_VAL : 0;
        if (line.found.special || line.found.last_bit == 0) continue;
        const bool exact = line.needed <= most_bits;
        const int scale = exact ? -std::ilogb(line.found.last_bit) : static_cast<int>(std::floor(most_bits - line.bits - 1e-6));
        lines->scale[i] = scale;
        line.rounds = !exact;
        lines->error[i] = exact ? 0 : 0.5 * std::sqrt(static_cast<double>(depth)) * (1 + 0x1p-20);
        lines->size[i] = std::ldexp(std::sqrt(line.found.squares), line.found.exponent + scale) * (1 + 0x1p-20) + lines->error[i];
    }
    lines->words = most_bits <= kWordBits - 2 ? 1 : most_bits <= 2 * kWordBits - 2 ? 2 : 3;
}

int moduli_for(double bits) {
    int moduli = 1;
    while (moduli < kMostModuli && exact_bits(moduli) - kBitsBelowModulus < bits) ++moduli;
    return moduli;
}

double usual_bits(const Lines &rows, const Lines &columns, int64_t depth) {
    // Where lines need little more than their norms' bits, few of their numbers are rounded, and fewer bits do.
    constexpr double kUsual = 62, kFewer = 59.5, kLittle = 6;
    double sum = 0, count = 0;
    for (const Lines *lines : {&rows, &columns})
        for (int64_t i = 0; i < lines->count; ++i) {
            if (lines->line[i].needed == 0) continue;
            sum += lines->line[i].needed;
            count += 1;
        }
    const double of_depth = std::log2(static_cast<double>(depth) + 1);
    return (count > 0 && sum > (kFewer + of_depth + kLittle) * count ? kUsual : kFewer) + of_depth;
}

}  // namespace attile::cpu
