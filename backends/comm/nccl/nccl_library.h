// SPDX-License-Identifier: Apache-2.0
// NCCL, or RCCL, which has the same functions: what is used of them, declared here in words of our own, and the library that the process
// has loaded. None is opened beside it: the caller's communicator is a thing of that very one.
#ifndef ATTILE_COMM_NCCL_LIBRARY_H
#define ATTILE_COMM_NCCL_LIBRARY_H

#include <attile/attile_comm_plugin.h>

#include <climits>
#include <cstddef>

namespace attile::nccl {

// The core's services; set by the entry, before anything else is called.
extern const attile_host_v1 *host;

// Sets the error sentence, and gives back the status.
int32_t refuse(int32_t status, const char *format, ...) __attribute__((format(printf, 2, 3)));

using Comm = void *;
inline constexpr int kSuccess = 0, kInProgress = 7;  // results
inline constexpr int kByte = 0;                      // a type of elements
inline constexpr int kNoColour = -1;                 // of a rank that a split leaves out
inline constexpr int kUnset = INT_MIN;

// The first members of a communicator's options, those that version 2.18 has. The library takes the rest for unset.
struct Config {
    size_t size = sizeof(Config);
    unsigned magic = 0xcafebeef;
    unsigned version = 21800;
    int blocking = kUnset;
    int group_size = kUnset, least_blocks = kUnset, most_blocks = kUnset;
    const char *network = nullptr;
    int shares = kUnset;
    int padding = kUnset;
};
static_assert(offsetof(Config, network) == 32 && sizeof(Config) == 48);

struct Library {
    const char *file;
    int version;
    const char *(*error_string)(int result);
    const char *(*last_error)(Comm comm);
    int (*count)(Comm comm, int *ranks);
    int (*user_rank)(Comm comm, int *rank);
    int (*device)(Comm comm, int *device);
    int (*async_error)(Comm comm, int *result);
    int (*split)(Comm comm, int colour, int key, Comm *made, Config *config);
    int (*finalize)(Comm comm);
    int (*destroy)(Comm comm);
    int (*abort)(Comm comm);
    int (*group_start)();
    int (*group_end)();
    int (*send)(const void *data, size_t count, int type, int peer, Comm comm, void *stream);
    int (*receive)(void *data, size_t count, int type, int peer, Comm comm, void *stream);
};

// Of the device's vendor, if the process has it and it can be used; else a status and its sentence.
int32_t find_library(int32_t device_type, const Library **library);
// ATTILE_OK if there is one for any device.
int32_t find_any_library();

// A result as a sentence: what failed, and the library's words.
int32_t refuse_result(const Library &library, const char *what, int result);

}  // namespace attile::nccl

#endif
