#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packages of source, each built where no Attile is: pip installs that of Python, cargo builds the crates with the feature vendored. A program in each calculates on the
# cpu backend by the library that came with it. pip fetches NumPy and its own build tools, nothing else comes from a network.
# usage: source_packages.sh SOURCE WORK [python] [rust]        (none: both)
set -euo pipefail
source=$1 work=$2
shift 2
[ $# -gt 0 ] || set -- python rust
unset "${!ATTILE_@}" LD_LIBRARY_PATH LD_PRELOAD PYTHONPATH PKG_CONFIG_PATH
rm -rf "$work" && mkdir -p "$work"
fail() {
    echo "source packages: $*" >&2
    exit 1
}

test_python() {
    "$source/tools/wheel" --sdist --work "$work/sdist" --output "$work/sdist"
    python3 -m venv "$work/venv"
    grep -E '^(setuptools|wheel)==' "$source/cmake/packaging/wheel-requirements.txt" | "$work/venv/bin/pip" install --quiet numpy -r /dev/stdin
    if said=$(PATH=$work/venv/bin "$work/venv/bin/pip" install --no-index --no-deps --no-build-isolation "$work"/sdist/attile-*.tar.gz 2>&1); then fail "pip builds without cmake"; fi
    [[ $said == *"libattile is built with cmake"* ]] || fail "without cmake pip says: $said"
    "$work/venv/bin/pip" install --quiet --no-index --no-deps --no-build-isolation "$work"/sdist/attile-*.tar.gz
    (cd / && "$work/venv/bin/python" -c "
import attile, numpy as np
a = np.random.default_rng(1).standard_normal((70, 90), np.float32)
assert np.abs(attile.gemm(a, np.ascontiguousarray(a.T)) - a.astype(float) @ a.T).max() < 1e-4
assert attile.default_context().info.backend == 'cpu'
own = {line.split()[-1] for line in open('/proc/self/maps') if 'libattile' in line}
assert own and all(file.startswith('$work/venv/') for file in own), own
print('python:', *sorted(own))")
}

test_rust() {
    "$source/tools/crate" --work "$work/crate"
    # attile itself, which not every cargo packs before attile-sys is published, is taken as it was about to be packed.
    mkdir -p "$work/rust/attile-sys" "$work/rust/first/src"
    tar -C "$work/rust/attile-sys" --strip-components=1 -xzf "$work"/crate/target/package/attile-sys-*.crate
    cp -r "$work/crate/attile" "$work/rust/attile"
    sed -i '/^\[\[example\]\]/,$d' "$work/rust/attile/Cargo.toml"
    cp "$source/examples/rust/first_attention.rs" "$work/rust/first/src/main.rs"
    printf '[package]\nname = "first"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\nattile = { path = "../attile", features = ["vendored"] }\n' >"$work/rust/first/Cargo.toml"
    (cd "$work/rust/first" && cargo build --quiet --offline)
    if readelf -d "$work/rust/first/target/debug/first" | grep -q 'NEEDED.*libattile'; then fail "the program wants a shared libattile"; fi
    (cd / && ATTILE_BACKEND=cpu "$work/rust/first/target/debug/first" >"$work/rust/cpu.txt")
    (cd / && ATTILE_BACKEND=reference "$work/rust/first/target/debug/first" >"$work/rust/reference.txt")
    paste "$work/rust/cpu.txt" "$work/rust/reference.txt" | awk '!(($1 - $2) ^ 2 <= 1e-10) {exit 1} END {exit NR != 96}' || fail "cpu and reference differ in Rust"
    rm -rf "$work/rust/attile-sys/library"
    if said=$(cd "$work/rust/first" && cargo build --offline 2>&1); then fail "cargo builds without sources"; fi
    [[ $said == *"the feature vendored builds libattile from its sources"* ]] || fail "without sources cargo says: $said"
    echo "rust: passed"
}

for part in "$@"; do "test_$part"; done
