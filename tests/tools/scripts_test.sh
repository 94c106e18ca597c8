#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/setup, tools/demo and tools/test for a user who may not install anything, or may not write to the source, in a folder with spaces and
# umlauts: status 1 and one sentence that says what to do. Nothing is installed or built.
# usage: scripts_test.sh SOURCE WORK
set -euo pipefail
source=$1 work=$2
unset ATTILE_BUILD_DIR XDG_CACHE_HOME
rm -rf "$work"
mkdir -p "$work/bin" "$work/ein Ordner mit Ü/attile"
cp -r "$source/tools" "$work/ein Ordner mit Ü/attile/tools"
cd "$work/ein Ordner mit Ü/attile"

# Somebody who is not root, on a system without any package, whose sudo lets nothing be done.
printf '#!/bin/sh\necho 1000\n' >"$work/bin/id"
for program in dpkg-query sudo; do printf '#!/bin/sh\nexit 1\n' >"$work/bin/$program"; done
for program in apt-get apt-cache cmake ctest; do printf '#!/bin/sh\necho "%s was run" >&2\nexit 1\n' $program >"$work/bin/$program"; done
chmod +x "$work"/bin/*
export PATH=$work/bin:$PATH

# refused SENTENCE COMMAND...: ends with status 1 and on standard error has this sentence alone.
refused() {
    local sentence=$1 status=0
    shift
    "$@" >"$work/out" 2>"$work/err" || status=$?
    if [ $status != 1 ] || [ "$(wc -l <"$work/err")" != 1 ] || ! grep -q -- "$sentence" "$work/err"; then
        echo "'$*' ended with status $status, and does not say '$sentence' alone:" >&2
        cat "$work/err" >&2
        exit 1
    fi
}

. /etc/os-release
case "${ID:-} ${ID_LIKE:-}" in
  *debian*)
    refused 'only root can install what is missing here: apt-get install .* g++ cmake ninja-build' tools/setup
    refused 'only root can install what is missing here: apt-get install .* doxygen' tools/setup docs
    refused 'only root can install what is missing here: apt-get install .* g++ cmake ninja-build' tools/demo ;;
  *) refused 'Install these by hand' tools/setup ;;
esac
refused 'nowhere/x cannot be written; ATTILE_BUILD_DIR names a folder' env ATTILE_BUILD_DIR=/dev/null/nowhere/x tools/demo
rm -rf build && touch build # what cannot be made a folder of, by root either
refused 'build, which cannot be written' tools/test cpu
refused 'build, which cannot be written' tools/verify_targets
refused 'build/demo cannot be written; ATTILE_BUILD_DIR names a folder' env -u HOME tools/demo
export HOME=$work/home
tools/demo >"$work/out" 2>"$work/err" && exit 1
grep -q "^the source cannot be written: building in $work/home/.cache/attile/demo-" "$work/out" || { cat "$work/out"; exit 1; }
echo "scripts test passed"
