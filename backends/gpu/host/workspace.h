// SPDX-License-Identifier: Apache-2.0
// Scratch memory of one call, cut into aligned pieces. The host layer provides as much as the operation's query asked for.
#pragma once

#include <cstdint>

namespace attile::gpu {

inline constexpr int64_t kWorkspaceAlignment = 256;

// What a piece of `bytes` takes from a workspace; the sum over a call's pieces is what its query must ask for.
constexpr int64_t workspace_piece(int64_t bytes) { return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment; }

class Workspace {
  public:
    Workspace() = default;
    Workspace(void *data, int64_t bytes) : next_(static_cast<char *>(data)), left_(bytes) {}
    // A piece, aligned to kWorkspaceAlignment; nullptr if there is not enough, which is a fault of the query.
    template <class T>
    T *take(int64_t count) {
        const int64_t bytes = workspace_piece(count * static_cast<int64_t>(sizeof(T)));
        if (bytes > left_) return nullptr;
        char *piece = next_;
        next_ += bytes;
        left_ -= bytes;
        return reinterpret_cast<T *>(piece);
    }

  private:
    char *next_ = nullptr;
    int64_t left_ = 0;
};

}  // namespace attile::gpu
