// SPDX-License-Identifier: Apache-2.0
// How long a drawn problem takes, and how long nobody could do without.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli.h"
#include "random_call.h"

namespace attile::cli {

struct Roof {
    std::map<int32_t, double> flops;  // A second, by type.
    double bandwidth = 0;             // Bytes a second.
    double launch = 0;                // Seconds that each call may take besides.
    std::string from;                 // Where the peaks come from.

    double floor_seconds(const Work &work, int32_t dtype) const;
    bool by_memory(const Work &work, int32_t dtype) const { return work.bytes / bandwidth > work.flops / flops.at(dtype); }
};

// The context's peaks; what it does not know is measured by a large product and a large copy. `given` are "TYPE=RATE" that go before both.
Roof roof_of(const Context &context, OperandMemory &memory, const std::vector<std::string> &given);

// Empty, or what is wrong with a "TYPE=RATE".
std::string parse_peak(const std::string &given, std::string &type, double &rate);

struct Clocked {
    double seconds = 0;  // A call: the median of a device's samples, the fastest of a processor's.
    double spread = 0;   // Of the middle half, as a share of the median.
    int64_t calls = 0;   // That were timed.
    bool ahead = true;   // On a device: the host had queued every call before the first began.
};

class Clock {
  public:
    explicit Clock(const Context &context);
    ~Clock();
    Clock(const Clock &) = delete;
    Clock &operator=(const Clock &) = delete;

    // The calls one after the other, and from the first again. At most about so many seconds, unless one call takes longer.
    Clocked time(const std::vector<std::unique_ptr<ProblemCall>> &calls, double seconds);

  private:
    Clocked time_device(const std::vector<std::unique_ptr<ProblemCall>> &calls, double seconds, double once);
    double queue_delay(int copies);  // The seconds that a device is busy with it.
    void synchronize() const { check(attile_synchronize(context_, nullptr)); }

    const Context &context_;
    const bool on_device_;
    void *from_ = nullptr, *to_ = nullptr;  // Of the copies that keep a device busy.
    double copy_seconds_ = 0;
};

}  // namespace attile::cli
