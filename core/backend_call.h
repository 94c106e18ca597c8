// SPDX-License-Identifier: Apache-2.0
// The way the core calls into a backend: what it throws is caught, what it returns is checked, what it says is kept.
#ifndef ATTILE_CORE_BACKEND_CALL_H
#define ATTILE_CORE_BACKEND_CALL_H

#include <attile/attile_backend.h>

#include <string>

#include "guard.h"
#include "surroundings.h"

namespace attile::core {

// To be called before the first call into any backend. libattile has an unwinder of its own, whose tables are filled by its first use as
// the thrower; an exception that another copy of the unwinder leads here would find them empty and end the process.
void prepare_to_catch();

// The table of services handed to every backend.
const attile_host_v1 *host_table();

// While it lives, what a backend on this thread says through host->set_error goes into `sentence`, and the caller's last error stays as
// it is: a candidate that is refused is no failure of the call.
class SentenceCapture {
  public:
    explicit SentenceCapture(std::string *sentence);
    ~SentenceCapture();
    SentenceCapture(const SentenceCapture &) = delete;
    SentenceCapture &operator=(const SentenceCapture &) = delete;

  private:
    std::string *outer_;
};

// Fills in a sentence where the backend gave none, and turns a number that is no status code into ATTILE_ERROR_BACKEND_CONTRACT.
int32_t checked_status(int32_t status, std::string *sentence);

// Runs `call`, which returns a status of the backend's. The floating-point mode is afterwards what it was.
template <typename Call>
int32_t call_backend(std::string *sentence, Call &&call) {
    const SentenceCapture capture(sentence);
    const FloatingPointMode mode;
    int32_t status = ATTILE_OK;
    try {
        status = call();
    }
    ATTILE_LET_THREADS_END
    catch (...) {
        mode.put_back();
        *sentence = "the backend threw an exception";
        return ATTILE_ERROR_BACKEND_CONTRACT;
    }
    mode.put_back();
    return status == ATTILE_OK ? status : checked_status(status, sentence);
}

}  // namespace attile::core

#endif
