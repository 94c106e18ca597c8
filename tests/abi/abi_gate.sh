#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The gate that no change of the binary interface passes unseen. What it compares is compiled from the headers alone, so compilers and their
# options do not show.
#   abi_gate.sh update ...    write the baseline anew: after an addition, with the change that makes it, in one commit
#   abi_gate.sh release ...   writes what every later header keeps of these, as released/VERSION.inc: when a version is released
#   abi_gate.sh check ...     exit status 1 if the headers differ from the baseline, or do not keep what was released
#   abi_gate.sh mutants ...   exit status 1 if one of several incompatible changes would pass, or an addition would not
set -euo pipefail
what=$1 here=$2 include=$3 work=$4 cc=$5 python=$6 abidw=$7 abidiff=$8
mkdir -p "$work"

reader() { PYTHONDONTWRITEBYTECODE=1 "$python" "$here/public_interface.py" "$@"; }

# A library with every function and type of the headers in $1, as $2.
surface() {
    reader surface "$1" >"$2.c"
    "$cc" -std=c99 -g -gdwarf-4 -O0 -fPIC -shared -Wl,-soname,libattile_abi.so -I"$1" "$2.c" -o "$2.so"
}

compare() { "$abidiff" "$here/attile_abi.xml" "$1.so" >"$1.txt" 2>&1; }

# Whether the headers in $1 keep what was released.
keeps_releases() {
    local failed=0 released
    for released in "$here"/released/*.inc; do
        "$cc" -std=gnu11 -fsyntax-only -I"$1" -x c "$released" || failed=1
    done
    return $failed
}

case $what in
update)
    surface "$include" "$work/surface"
    "$abidw" --no-comp-dir-path --no-corpus-path --no-show-locs --no-elf-needed "$work/surface.so" | sed "s|path='$work/|path='|" >"$here/attile_abi.xml" # no folder of one machine's
    reader exports "$include" >"$here/exports.txt"
    reader layout "$include" "$cc" >"$here/struct_layout.inc"
    ;;
check)
    failed=0
    surface "$include" "$work/surface"
    compare "$work/surface" || { cat "$work/surface.txt"; failed=1; }
    reader exports "$include" | diff "$here/exports.txt" - || failed=1
    reader layout "$include" "$cc" | diff "$here/struct_layout.inc" - || failed=1
    if [ $failed = 1 ]; then
        echo "The headers differ from the baseline in tests/abi. A change to what was released must be undone. An addition is made with"
        echo "its new baseline, in one commit: cmake --build BUILD --target abi_baseline"
    fi
    if ! keeps_releases "$include"; then
        echo "A program compiled with a released header would not run any longer. Undo it: docs/versioning.md says how the interface grows."
        failed=1
    fi
    exit $failed
    ;;
release)
    version=$(sed -nE 's/^#define ATTILE_VERSION_(MAJOR|MINOR|PATCH) ([0-9]+).*/\2/p' "$include/attile/attile.h" | paste -sd.)
    [ ! -e "$here/released/$version.inc" ] || { echo "$version was released already" >&2; exit 1; }
    mkdir -p "$here/released"
    reader release "$include" "$cc" >"$here/released/$version.inc"
    ;;
mutants)
    failed=0
    number=0
    rm -rf "$work/added"
    mkdir "$work/added"
    cp -r "$include/attile" "$work/added/"
    sed -i -E 's/^\} attile_gemm_args;/    attile_tensor later;\n&/; s/^ATTILE_API void attile_gemm_init/ATTILE_API int32_t attile_later(void);\n&/' "$work/added/attile/attile.h"
    surface "$work/added" "$work/addition"
    if compare "$work/addition"; then echo "an addition passes the baseline"; failed=1; fi
    keeps_releases "$work/added" || { echo "an addition breaks with a release"; failed=1; }
    while IFS='|' read -r header change; do
        number=$((number + 1))
        rm -rf "$work/mutant"
        mkdir -p "$work/mutant"
        cp -r "$include/attile" "$work/mutant/attile"
        sed -i -E "$change" "$work/mutant/attile/$header"
        if cmp -s "$include/attile/$header" "$work/mutant/attile/$header"; then
            echo "mutant $number changes nothing: $change"
            failed=1
            continue
        fi
        surface "$work/mutant" "$work/mutant$number"
        if compare "$work/mutant$number" && reader layout "$work/mutant" "$cc" | cmp -s "$here/struct_layout.inc" -; then
            echo "mutant $number passes the gate: $change"
            failed=1
        fi
        if keeps_releases "$work/mutant" >/dev/null 2>&1; then
            echo "mutant $number keeps what was released: $change"
            failed=1
        fi
    done <<'MUTANTS'
attile.h|s/int64_t pool_bytes;/int32_t pool_bytes;/
attile.h|s/double alpha;/double alpha; double gamma;/
attile.h|/ATTILE_API int32_t attile_synchronize/d
attile.h|s/(attile_free\(attile_context \*context, )void \*pointer/\1int64_t pointer/
attile.h|s/int64_t stride\[4\]/int64_t stride[5]/
attile.h|s/^ATTILE_API int64_t attile_last_error/ATTILE_API int32_t attile_last_error/
attile_backend.h|s/int32_t \(\*prefetch\)/int32_t (*renamed_prefetch)/
attile_backend.h|s/int64_t window_left; /int32_t window_left; /
attile_backend.h|s/int32_t \(\*synchronize\)\(void \*state, void \*stream\)/int32_t (*synchronize)(void *state)/
MUTANTS
    [ $number = 9 ] || failed=1
    exit $failed
    ;;
esac
