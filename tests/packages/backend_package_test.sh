#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packs a GPU backend with the library and the program, unpacks the packages into an empty root, and sees the backend refuse clearly where
# there is no such GPU (or open where there is one), while the default goes on working.
# usage: backend_package_test.sh BACKEND CMAKE BUILD SOURCE WORK LIBDIR REFUSAL
#   REFUSAL  extended regular expression of which a refusal must be, e.g. 'no NVIDIA driver: .+|...'
set -euo pipefail
backend=$1 cmake=$2 build=$3 source=$4 work=$5 libdir=$6 refusal=$7
# shellcheck source=tests/packages/pack.sh
. "${BASH_SOURCE[0]%/*}/pack.sh"

rm -rf "$work"
mkdir -p "$work/root"
pack "$cmake" "$build" "$work" runtime tools "backend_$backend"

echo "== what the packages say of themselves"
unpack "$work"
package=libattile1-backend-$backend
if [ ${#deb[@]} != 3 ] || [ -z "${deb[$package]-}" ]; then fail "packages made: ${!deb[*]}"; fi
plugin=$work/root/usr/$libdir/attile-1/libattile_backend_$backend.so
[ -s "$plugin" ] || fail "$package does not hold its plugin"
[ "$(dpkg-deb -c "${deb[$package]}" | grep -c '\.so')" = 1 ] || fail "$package holds other libraries, too"
# Driver and runtime are found at run time: to install the package needs no GPU.
if [[ "$(depends "$package")" =~ cuda|nvidia|hip|rocm ]]; then fail "$package depends on a GPU's software: $(depends "$package")"; fi
check_no_leak "$work" "$build" "$source"

run() { (cd / && env LD_LIBRARY_PATH="$work/root/usr/$libdir" "$@"); }
attile=$work/root/usr/bin/attile

echo "== by name: no other backend in its place"
if run ATTILE_BACKEND="$backend" "$attile" info >"$work/info" 2>"$work/error"; then
    grep -q "^backend  *$backend " "$work/info" || { cat "$work/info"; fail "ATTILE_BACKEND=$backend opened another backend"; }
    echo "there is a device for $backend here"
else
    status=$?
    [ $status = 1 ] || fail "attile info ended with $status, not 1, where $backend is refused"
    # In the report, with the place of the plugin, and as the sentence of the failed call.
    grep -Eq "^  $backend \($plugin\): refused, ATTILE_ERROR_BACKEND_REFUSED: ($refusal)" "$work/info" ||
        { cat "$work/info"; fail "the report does not say why $backend was refused"; }
    grep -Eq "^attile: context_create: no backend can be used: $backend: ($refusal)" "$work/error" ||
        { cat "$work/error"; fail "the sentence does not say why $backend was refused"; }
    cat "$work/error"
    if run ATTILE_BACKEND="$backend" "$attile" attention "$source/examples/data/attention_small.bin" "$work/none.bin" 2>"$work/error"; then
        fail "attile attention ran on another backend than $backend"
    fi
    [ ! -e "$work/none.bin" ] || fail "a failed attile attention left a file"
fi

echo "== by default: the best that can run"
run "$attile" info >"$work/info" || { cat "$work/info"; fail "attile info"; }
grep -q "^  $backend (" "$work/info" || { cat "$work/info"; fail "the default did not try $backend"; }
grep -q '^device ' "$work/info" || { cat "$work/info"; fail "the default opened nothing"; }
for choice in '' reference; do
    run ${choice:+ATTILE_BACKEND=$choice} "$attile" attention "$source/examples/data/attention_small.bin" "$work/out$choice.bin" >"$work/output"
done
[ "$(stat -c %s "$work/out.bin")" = "$(stat -c %s "$work/outreference.bin")" ] || fail "the default's result has another size than the reference's"
run "$attile" verify --backend reference --case gemm.1x1x1.f32 >"$work/output" || { cat "$work/output"; fail "attile verify"; }

echo "== the package gone: refused by name, the default works"
rm "$plugin"
if run ATTILE_BACKEND="$backend" "$attile" info >"$work/info" 2>"$work/error"; then fail "$backend opened without its plugin"; fi
grep -q "no file libattile_backend_$backend.so" "$work/error" || { cat "$work/error"; fail "the sentence does not say what is missing"; }
run "$attile" info >"$work/info" || fail "attile info without $backend"
echo "package test of $backend passed"
