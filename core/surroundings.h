// SPDX-License-Identifier: Apache-2.0
// What a backend must leave as it was: the thread's floating-point mode and, as its constructors may touch it, the locale.
#ifndef ATTILE_CORE_SURROUNDINGS_H
#define ATTILE_CORE_SURROUNDINGS_H

#include <cstdint>
#include <string>

namespace attile::core {

// Rounding, denormals, traps and precision; not the record of exceptions that arithmetic leaves.
class FloatingPointMode {
  public:
#if defined(__x86_64__)
    FloatingPointMode() : mxcsr_(__builtin_ia32_stmxcsr()) { __asm__ volatile("fnstcw %0" : "=m"(x87_)); }
    // False if the mode is another by now; it is put back.
    bool put_back() const {
        const FloatingPointMode now;
        if (((now.mxcsr_ ^ mxcsr_) & kControl) == 0 && now.x87_ == x87_) return true;
        __builtin_ia32_ldmxcsr((mxcsr_ & kControl) | (now.mxcsr_ & ~kControl));
        __asm__ volatile("fldcw %0" : : "m"(x87_));
        return false;
    }

  private:
    static constexpr uint32_t kControl = ~0x3fU;
    uint32_t mxcsr_;
    uint16_t x87_;
#elif defined(__aarch64__)
    FloatingPointMode() { __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr_)); }
    bool put_back() const {
        const FloatingPointMode now;
        if (now.fpcr_ == fpcr_) return true;
        __asm__ volatile("msr fpcr, %0" : : "r"(fpcr_));
        return false;
    }

  private:
    uint64_t fpcr_;
#else
    bool put_back() const { return true; }
#endif
};

// While it lives a backend is loaded or opened; at its end what that changed is put back.
class Surroundings {
  public:
    Surroundings();
    ~Surroundings();
    Surroundings(const Surroundings &) = delete;
    Surroundings &operator=(const Surroundings &) = delete;

    // Puts back now, and says in the log and the report what was changed, if anything was.
    void put_back(const std::string &backend);

  private:
    bool put_back_locale() const;

    const FloatingPointMode mode_;
    void *const thread_locale_;
    const std::string locale_;
};

}  // namespace attile::core

#endif
