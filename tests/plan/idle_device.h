// SPDX-License-Identifier: Apache-2.0
// The backend "idle": one device with an H200's properties that takes every launch and does nothing, asks no driver, and gives every call
// the same workspace. What a call takes there is the library's own.
#pragma once

namespace attile::test {

void register_idle_backend();

}  // namespace attile::test
