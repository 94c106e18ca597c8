#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# conda-build runs it in the source tree. The package finds the library of the environment that it is in.
set -euo pipefail
"$PYTHON" -m pip install ./bindings/python --no-deps --no-build-isolation -vv
