#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds a static libattile that holds reference and cpu, and installs it. What it exports is attile.map's; programs in C find it by find_package and by
# pkg-config and multiply on each backend without a folder of plugins, and on a plugin; a shared library that holds it exports none of it and stays loaded.
# Then a shared libattile with cpu linked in, for one set of instructions: a program multiplies on it without a folder of plugins.
# usage: static_library.sh CMAKE SOURCE WORK [CC]
set -euo pipefail
cmake=$1 source=$2 work=$3 cc=${4-cc}
unset "${!ATTILE_@}" LD_LIBRARY_PATH LD_PRELOAD LIBRARY_PATH CPATH C_INCLUDE_PATH PKG_CONFIG_PATH CMAKE_PREFIX_PATH attile_DIR attile_ROOT DESTDIR

fail() {
    echo "static library: $*" >&2
    exit 1
}
configure() { # folder, then arguments
    "$cmake" -S "$source" -B "$work/$1" -G Ninja -DBUILD_SHARED_LIBS=OFF -DATTILE_DEVELOPER=OFF -DCMAKE_INSTALL_LIBDIR=lib "-DCMAKE_INSTALL_PREFIX=$work/prefix" "${@:2}" >"$work/$1.log" 2>&1
}
refused() { # sentence, then arguments of the configuration
    if configure refused "${@:2}"; then fail "configures with ${*:2}"; fi
    tr -s '\n ' ' ' <"$work/refused.log" | grep -qF "$1" || { cat "$work/refused.log"; fail "does not say: $1"; }
    rm -rf "$work/refused"
}

rm -rf "$work/prefix" "$work/consumer" "$work/plugins" "$work/single_prefix" && mkdir -p "$work/plugins"
refused "the tests are of the shared library" -DATTILE_BUILD_TESTS=ON
refused "ATTILE_BUILTIN_BACKENDS names 'cuda'" "-DATTILE_BUILTIN_BACKENDS=reference;cuda"

configure build || { tail -20 "$work/build.log"; fail "does not configure"; }
"$cmake" --build "$work/build" >"$work/build.log" 2>&1 || { tail -20 "$work/build.log"; fail "does not build"; }
"$cmake" --install "$work/build" >>"$work/build.log"
archive=$work/prefix/lib/libattile.a
diff <(grep -oE '^ +attile_[a-z_]+' "$source/core/attile.map" | tr -d ' ' | sort) <(nm -g --defined-only "$archive" | awk 'NF == 3 {print $3}' | sort) ||
    fail "the archive's global names are not those of attile.map"
[ -z "$(find "$work/prefix" -name '*.so*')" ] || fail "a shared library was installed"

"$cmake" -S "$source/tests/install/consumer" -B "$work/consumer" -G Ninja "-DCMAKE_PREFIX_PATH=$work/prefix" -DCMAKE_C_COMPILER="$cc" >"$work/consumer.log" 2>&1 &&
    "$cmake" --build "$work/consumer" >>"$work/consumer.log" 2>&1 || { tail -20 "$work/consumer.log"; fail "find_package: the consumer does not build"; }
eval "libraries=($(PKG_CONFIG_LIBDIR="$work/prefix/lib/pkgconfig" pkg-config --cflags --libs attile))"
"$cc" -std=c99 "$source/tests/install/consumer/consumer.c" -o "$work/consumer/by_pkg_config" "${libraries[@]}"
"$cc" -shared -fPIC "-I$source/include" "$source/examples/backend/tiny_backend.c" -D_GNU_SOURCE -o "$work/plugins/libattile_backend_tiny.so"
for program in "$work/consumer/consumer" "$work/consumer/by_pkg_config"; do
    if readelf -d "$program" | grep -q 'NEEDED.*libattile'; then fail "$program wants a shared libattile"; fi
    for backend in cpu reference tiny; do
        said=$(cd / && ATTILE_BACKEND=$backend ATTILE_BACKEND_PATH=$work/plugins "$program") || fail "$program: $backend fails"
        [[ $said == "backend $backend,"* ]] || fail "$program: $backend: $said"
    done
    said=$(cd / && "$program") && [[ $said == "backend cpu,"* ]] || fail "$program: auto: $said"
    # A static library has no place of its own: the program's folder is not searched.
    mkdir -p "$work/consumer/attile-1" && cp "$work/plugins/libattile_backend_tiny.so" "$work/consumer/attile-1/"
    if said=$(cd / && ATTILE_BACKEND=tiny "$program" 2>&1); then fail "$program finds a plugin beside itself"; fi
    [[ $said == *"no file libattile_backend_tiny.so in $work/prefix/lib/attile-1" ]] || fail "$program: tiny: $said"
    rm -rf "$work/consumer/attile-1"
done

printf '#include <attile/attile.h>\nint holder_version(void);\nint holder_version(void) { return attile_version(); }\n' >"$work/consumer/holder.c"
"$cc" -shared -fPIC "$work/consumer/holder.c" -o "$work/consumer/libholder.so" "${libraries[@]}"
readelf -d "$work/consumer/libholder.so" | grep -q NODELETE || fail "a shared library that holds it may be unloaded"
exported=$(nm -D --defined-only "$work/consumer/libholder.so" | awk '{print $3}' | grep attile || true)
[ -z "$exported" ] || fail "a shared library that holds it exports $(tr '\n' ' ' <<<"$exported")"
echo "static library: $(stat -c %s "$archive") bytes, $(nm -g --defined-only "$archive" | grep -c attile_) names; programs passed"

single=(-DBUILD_SHARED_LIBS=ON "-DATTILE_BUILTIN_BACKENDS=reference;cpu" -DATTILE_CPU_TARGETS=avx2 "-DCMAKE_INSTALL_PREFIX=$work/single_prefix")
configure single "${single[@]}" && "$cmake" --build "$work/single" >"$work/single.log" 2>&1 && "$cmake" --install "$work/single" >>"$work/single.log" || { tail -20 "$work/single.log"; fail "a single shared library is not built"; }
[ "$(find "$work/single_prefix" -name '*.so*' -type f | wc -l)" = 1 ] || fail "a single shared library has others beside it"
eval "libraries=($(PKG_CONFIG_LIBDIR="$work/single_prefix/lib/pkgconfig" pkg-config --cflags --libs attile))"
"$cc" -std=c99 "$source/tests/install/consumer/consumer.c" -o "$work/consumer/single" "${libraries[@]}"
said=$(cd / && LD_LIBRARY_PATH=$work/single_prefix/lib "$work/consumer/single") && [[ $said == "backend cpu,"* ]] || fail "a single shared library: $said"
echo "single shared library: passed"
