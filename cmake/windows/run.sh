#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a program of Windows by Wine. The first one starts Wine's services, which keep its standard error open until no program is left, and
# ctest waits for whoever has that open. So they get a file, which is shown at the end.
# usage: run.sh WINE PROGRAM [ARGUMENT...]
errors=$(mktemp) || exit
trap 'rm -f "$errors"' EXIT
code=0
"$@" 2>"$errors" || code=$?
cat "$errors" >&2
exit $code
