#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packs a build tree, unpacks the packages into an empty root, and there builds and runs the first program of every language.
# usage: packages_test.sh CMAKE BUILD SOURCE WORK LIBDIR CC CXX FORTRAN|none CARGO|none PYTHON
set -euo pipefail
cmake=$1 build=$2 source=$3 work=$4 libdir=$5 cc=$6 cxx=$7 fc=$8 cargo=$9 python=${10}
# shellcheck source=tests/packages/pack.sh
. "${BASH_SOURCE[0]%/*}/pack.sh"

rm -rf "$work"
mkdir -p "$work/root" "$work/bare" "$work/moved" "$work/programs"
pack "$cmake" "$build" "$work"

echo "== what the packages say of themselves"
version=$(dpkg-deb -f "${deb[libattile1]}" Version)
unpack "$work"
[[ "$(depends libattile1)" == *libc6* ]] || fail "libattile1 does not depend on the C library"
[[ "$(depends libattile-dev)" == *"libattile1 (= $version)"* ]] || fail "libattile-dev fits another libattile1"
dpkg-deb --ctrl-tarfile "${deb[libattile1]}" | tar -xO ./shlibs | grep -q '^libattile 1 libattile1' || fail "libattile1 has no shlibs"
dpkg-deb --ctrl-tarfile "${deb[libattile1]}" | tar -xO ./triggers | grep -q ldconfig || fail "libattile1 does not make the loader's cache anew"
[[ "$(dpkg-deb -f "${deb[libattile1]}" Description)" == "attention and matrix multiplication: shared library"* ]] || fail "the summary is not the package's own"
lib=$work/root/usr/$libdir
[ ! -e "$lib/attile-1/libattile_backend_cpu.so" ] || [ -n "${deb[libattile1-backend-cpu]-}" ] || fail "the cpu backend is not in a package of its own"
for transport in "$lib"/attile-1/libattile_comm_*.so; do
    [ -e "$transport" ] || continue
    name=${transport##*libattile_comm_}
    name=libattile1-comm-$(tr _ - <<<"${name%.so}")
    [ -n "${deb[$name]-}" ] || fail "$transport is not in a package of its own"
    # NCCL is the program's, found at run time.
    [[ $name == *-nccl || "$(depends "$name")" =~ lib(open)?mpi ]] || fail "the package of $transport does not depend on its MPI"
done
if [ -e "$lib/libattile_blas.so.1" ]; then
    [ -n "${deb[libattile-blas1]-}" ] || fail "libattile_blas is not in a package of its own"
    dpkg-deb --ctrl-tarfile "${deb[libattile-blas1]}" | tar -xO ./shlibs | grep -q '^libattile_blas 1 libattile-blas1' || fail "libattile-blas1 has no shlibs"
    [[ "$(depends libattile-dev)" == *"libattile-blas1 (= $version)"* ]] || fail "libattile-dev fits another libattile-blas1"
fi
check_no_leak "$work" "$build" "$source"

echo "== what lintian says of them"
# Who packs for others gives an address and configures for /usr; this build has neither.
if command -v lintian >/dev/null; then
    lintian --no-cfg --allow-root --fail-on warning --tag-display-limit 0 "${deb[@]}" \
        --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog,root-in-contact,pkg-config-unavailable-for-cross-compilation ||
        fail "lintian has found something"
else
    echo "no lintian here: left out"
fi

echo "== one runtime package alone: the reference backend runs, a plugin that is not installed is refused by name"
dpkg-deb -x "${deb[libattile1]}" "$work/bare"
dpkg-deb -x "${deb[attile]}" "$work/bare"
close_off "$work/bare/usr/$libdir/libattile.so.1"
(cd / && LD_LIBRARY_PATH=$work/bare/usr/$libdir "$work/bare/usr/bin/attile" info) >"$work/info" || fail "attile info failed"
grep -qi 'reference' "$work/info" || fail "attile info does not name the reference backend"
if (cd / && LD_LIBRARY_PATH=$work/bare/usr/$libdir ATTILE_BACKEND=cpu "$work/bare/usr/bin/attile" info) >"$work/info" 2>&1; then fail "a backend that is not installed was opened"; fi
grep -q 'no file libattile_backend_cpu.so' "$work/info" || { cat "$work/info"; fail "the refusal does not name what is missing"; }

programs=$work/programs
# Everything from here on knows one installed prefix and nothing of the source tree but what was installed.
build_programs() {
    local prefix=$1 out=$2 examples=$1/share/attile/examples flags
    mkdir -p "$out"
    export PKG_CONFIG_LIBDIR=$prefix/$libdir/pkgconfig LD_LIBRARY_PATH=$prefix/$libdir
    eval "flags=($(pkg-config --cflags --libs attile))" # its answer is quoted for a shell
    "$cc" -std=c99 "$examples/c/first_attention.c" -o "$out/c" "${flags[@]}"
    "$cxx" -std=c++17 "$examples/cpp/cpp_first_attention.cpp" -o "$out/cpp" "${flags[@]}"
    for example in gemm attention_file choose_backend; do
        "$cc" -std=c99 "$examples/c/$example.c" -o "$out/c_$example" "${flags[@]}"
        "$cxx" -std=c++17 "$examples/cpp/cpp_$example.cpp" -o "$out/cpp_$example" "${flags[@]}"
    done
    if [ -e "$1/$libdir/libattile_blas.so" ]; then
        eval "flags=($(pkg-config --libs attile-blas))"
        "$cc" -std=c99 "$source/tests/install/consumer/blas_consumer.c" -o "$out/blas" "${flags[@]}"
        (cd / && "$out/blas") || fail "a program that calls BLAS"
    fi
    if [ "$fc" != none ]; then
        eval "flags=($(pkg-config --cflags --libs attile-fortran))"
        for example in first_attention gemm attention_file choose_backend; do
            "$fc" "$examples/fortran/fortran_$example.f90" -o "$out/fortran_$example" "${flags[@]}"
        done
    fi
}

echo "== C, C++ and Fortran by pkg-config"
build_programs "$work/root/usr" "$programs"
prefix=$work/root/usr examples=$work/root/usr/share/attile/examples

if [ "$fc" != none ]; then
    echo "== Fortran, the module's files beside the program's"
    mkdir -p "$programs/modules"
    # shellcheck disable=SC2046  # several words each
    (cd "$programs/modules" && "$fc" $(pkg-config --variable=fortran_sources attile) "$examples/fortran/fortran_first_attention.f90" \
        -o "$programs/fortran_of_sources" $(pkg-config --cflags --libs attile))
fi

echo "== C, C++ and Fortran by find_package"
mkdir -p "$programs/cmake"
languages="C CXX" fortran_lines=""
if [ "$fc" != none ]; then
    languages="C CXX Fortran"
    fortran_lines="add_executable(fortran [[$examples/fortran/fortran_first_attention.f90]])
target_link_libraries(fortran PRIVATE attile::fortran)"
fi
cat >"$programs/cmake/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.16)
project(consumer LANGUAGES $languages)
set(CMAKE_CXX_STANDARD 17)
find_package(attile 1.0 REQUIRED)
add_executable(c [[$examples/c/first_attention.c]])
target_link_libraries(c PRIVATE attile::attile)
add_executable(cpp [[$examples/cpp/cpp_first_attention.cpp]])
target_link_libraries(cpp PRIVATE attile::attile)
$fortran_lines
END
"$cmake" -S "$programs/cmake" -B "$programs/cmake/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" >"$work/configure.log"
"$cmake" --build "$programs/cmake/build" >"$work/build.log"

export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$prefix/lib/python3/dist-packages
commands=() # one command a line of the array, quoted for the shell
add_command() { commands+=("$(printf '%q ' "$@")"); }
for program in cpp cmake/build/c cmake/build/cpp; do add_command "$programs/$program"; done
add_command "$python" "$examples/python/first_attention.py"
[ "$fc" = none ] || for program in fortran_first_attention fortran_of_sources cmake/build/fortran; do add_command "$programs/$program"; done

if [ "$cargo" != none ]; then
    for way in ATTILE_DIR pkg-config; do
        echo "== Rust by $way"
        rust=$programs/rust-$way
        mkdir -p "$rust/src"
        cp "$examples/rust/first_attention.rs" "$rust/src/main.rs"
        printf '[package]\nname = "first"\nversion = "1.0.0"\nedition = "2021"\n[dependencies]\nattile = { path = "%s" }\n[workspace]\n' \
            "$prefix/share/attile/bindings/rust/attile" >"$rust/Cargo.toml"
        (
            cd "$rust"
            if [ $way = ATTILE_DIR ]; then export PKG_CONFIG_LIBDIR=/nonexistent; export ATTILE_DIR=$prefix; fi
            CARGO_TARGET_DIR=$rust/target "$cargo" build --quiet --offline
        )
        add_command "$rust/target/debug/first"
    done
fi

if "$python" -m pip --version >/dev/null 2>&1 && "$python" -c "import setuptools" 2>/dev/null; then
    echo "== Python by pip, from the sources"
    cp -r "$source/bindings/python" "$work/python-source" # pip builds in place
    # attile.h comes from the package of headers. Without a compiler the same package comes out, but for the extension.
    export ATTILE_INCLUDE=$prefix/include
    "$python" -m pip install --quiet --no-index --no-deps --no-build-isolation --target "$work/python-pip" "$work/python-source" >"$work/pip.log" 2>&1 ||
        { cat "$work/pip.log"; fail "pip"; }
    diff -r -x __pycache__ -x '_native*.so' "$work/python-pip/attile" "$prefix/lib/python3/dist-packages/attile" || fail "pip installs other files than the package"
    if [ -e "$prefix/lib/python3/dist-packages/attile/_native.abi3.so" ]; then
        for package in "$prefix/lib/python3/dist-packages" "$work/python-pip"; do
            PYTHONPATH=$package "$python" -c "import attile, sys; sys.exit(not attile.compiled)" || fail "the extension in $package is not taken"
        done
    fi
    rm -rf "$work/python-source" "$work/python-without"
    cp -r "$source/bindings/python" "$work/python-source"
    CC=/nonexistent/cc "$python" -m pip install --quiet --no-index --no-deps --no-build-isolation --target "$work/python-without" "$work/python-source" >"$work/pip.log" 2>&1 ||
        { cat "$work/pip.log"; fail "pip without a compiler"; }
    PYTHONPATH=$work/python-without "$python" -c "import attile, sys; sys.exit(attile.compiled)" || fail "without a compiler there is an extension"
    (cd / && PYTHONPATH=$work/python-without "$python" "$examples/python/first_attention.py") >/dev/null || fail "the package without the extension"
fi

for backend in reference default; do
    echo "== the same bits and the same sentence in every language, backend: $backend"
    if [ $backend = reference ]; then export ATTILE_BACKEND=reference; else unset ATTILE_BACKEND; fi
    for command in "${commands[@]}"; do
        eval "words=($command)"
        (cd / && "$python" "$source/tests/bindings/same_bits.py" "$programs/c" -- "${words[@]}") >"$work/bits" || { cat "$work/bits"; fail "$command"; }
        printf '%s: %s\n' "${words[*]##*/}" "$(cat "$work/bits")"
    done
    for example in gemm choose_backend; do
        (cd / && "$programs/c_$example" && "$programs/cpp_$example" && "$python" "$examples/python/$example.py") >"$work/output" || fail "$example"
        [ "$fc" = none ] || "$programs/fortran_$example" >"$work/output" || fail "fortran_$example"
    done
    "$programs/c_attention_file" "$examples/data/attention_small.bin" "$work/c.bin" >"$work/output"
    same_file() {
        "$@" "$examples/data/attention_small.bin" "$work/other.bin" >"$work/output"
        cmp "$work/c.bin" "$work/other.bin" || fail "$*"
    }
    same_file "$programs/cpp_attention_file"
    same_file "$python" "$examples/python/attention_file.py"
    [ "$fc" = none ] || same_file "$programs/fortran_attention_file"
done

echo "== the archives, unpacked together and moved"
for file in "$work"/packages/*.tar.gz; do tar -xzf "$file" -C "$work/moved"; done
mv "$work"/moved/attile-* "$work/moved/somewhere"
close_off "$work/moved/somewhere/$libdir/libattile.so.1"
build_programs "$work/moved/somewhere" "$work/moved/programs"
(cd / && "$work/moved/programs/cpp_gemm") >"$work/output"
(cd / && env -u LD_LIBRARY_PATH "$work/moved/somewhere/bin/attile" info) >"$work/info"
if [ -n "${deb[libattile1-backend-cpu]-}" ]; then
    (cd / && ATTILE_BACKEND=cpu "$work/moved/programs/c_choose_backend") | grep -q '^backend: cpu' || fail "the cpu backend was not found beside the moved library"
fi
echo "packages test passed"
