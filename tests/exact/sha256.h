// SPDX-License-Identifier: Apache-2.0
#ifndef ATTILE_TESTS_SHA256_H
#define ATTILE_TESTS_SHA256_H

#include <string>
#include <vector>

namespace attile::test {

// The digest of FIPS 180-4, in hexadecimal.
std::string sha256(const std::vector<unsigned char> &bytes);

}  // namespace attile::test

#endif  // ATTILE_TESTS_SHA256_H
