#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes attile-sys/src/bindings.rs from attile_distributed.h, which includes attile.h, with bindgen 0.60 (Debian: bindgen).
# usage: generate.sh [--layout-tests] [OUT]     --layout-tests: and tests that compare every struct's size and offsets with the header's
set -euo pipefail
layout=--no-layout-tests
if [ "${1-}" = --layout-tests ]; then layout=--layout-tests; shift; fi
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/attile-sys/src/bindings.rs}
{
  echo '// SPDX-License-Identifier: Apache-2.0'
  echo '// attile.h and attile_distributed.h as bindgen sees them. Written by generate.sh; a test checks that writing it again changes nothing.'
  bindgen "$here/../../include/attile/attile_distributed.h" --no-doc-comments --use-core --rust-target 1.47 --default-macro-constant-type signed \
    --allowlist-function 'attile_.*' --allowlist-type 'attile_.*' --allowlist-var 'ATTILE_.*' --disable-header-comment \
    $([ $layout = --layout-tests ] || echo $layout) -- -I"$here/../../include"
} > "$out"
