// SPDX-License-Identifier: Apache-2.0
// What attile_backend_report() tells: every candidate backend that a selection looked at, and what became of it.
#ifndef ATTILE_CORE_REPORT_H
#define ATTILE_CORE_REPORT_H

#include <cstdint>
#include <string>

namespace attile::core {

// Forgets what was noted of a candidate: it is being looked at afresh. `label` is "name" or "name:device".
void report_forget(const std::string &label);

// Notes what became of a candidate's file (or "built in", ...): `status` is ATTILE_OK if it was chosen, else why it was refused.
void report_candidate(const std::string &label, const std::string &where, int32_t status, const std::string &text);

// Notes something about the search as a whole, once: a variable ignored, a directory that is no absolute path.
void report_remark(const std::string &remark);

}  // namespace attile::core

#endif
