# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests of packages: packs a build tree and unpacks every Debian package into one root.

fail() {
    echo "packages test: $*" >&2
    exit 1
}

# Nothing of an Attile that this machine has already may stand in for what was packed: not what the caller's environment names, nor what
# pkg-config, CMake and Python find in the system.
unset "${!ATTILE_@}" LD_LIBRARY_PATH LD_PRELOAD LIBRARY_PATH CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH PYTHONPATH PKG_CONFIG_PATH CMAKE_PREFIX_PATH attile_DIR attile_ROOT DESTDIR
export PKG_CONFIG_LIBDIR=/nonexistent

# pack CMAKE BUILD WORK [COMPONENT...]: the packages of these components, or of all, are then in WORK/packages, and their files by name in deb[].
pack() {
    local cmake=$1 build=$2 work=$3 file only=()
    shift 3
    [ $# -eq 0 ] || only=(-D "CPACK_COMPONENTS_ALL=$(IFS=';' && echo "$*")")
    (cd "$build" && "${cmake%/*}/cpack" --config "$build/CPackConfig.cmake" -B "$work/packages" "${only[@]}") >"$work/cpack.log" 2>&1 ||
        { cat "$work/cpack.log"; fail "cpack failed"; }
    rm -rf "$work/packages/_CPack_Packages"
    declare -gA deb=()
    for file in "$work"/packages/*.deb; do deb[$(dpkg-deb -f "$file" Package)]=$file; done
}

# close_off LIBRARY: libattile looks last in a directory that is fixed when it is built, and this machine may hold plugins there. In an unpacked
# copy it is another, of a name as long, that is not there.
close_off() {
    local fixed above nowhere
    fixed=$(sed -n 's/.*installed_directory = "\(.*\)";$/\1/p' "$build/core/build_config.cpp")
    [ -n "$fixed" ] && LC_ALL=C grep -qaF "$fixed" "$1" || fail "$1 does not hold the directory '$fixed' that it searches last"
    above=${fixed%/*} # the last part may be another string's, too: the folder beside the library
    nowhere=/$(printf '%*s' $((${#above} - 1)) '' | tr ' ' x)/${fixed##*/}
    LC_ALL=C sed -i --follow-symlinks "s|$fixed|$nowhere|g" "$1"
}

depends() { dpkg-deb -f "${deb[$1]}" Depends; }

# unpack WORK: checks what every package says of itself, and unpacks all into WORK/root.
unpack() {
    local work=$1 package field path
    for package in "${!deb[@]}"; do
        for field in Description Maintainer Section Architecture; do
            [ -n "$(dpkg-deb -f "${deb[$package]}" $field)" ] || fail "$package has no $field"
        done
        [ "$package" = libattile1 ] || [[ "$(depends "$package")" == *"libattile1 ("* ]] || fail "$package does not depend on libattile1: $(depends "$package")"
        dpkg-deb -x "${deb[$package]}" "$work/one"
        [ -s "$work/one/usr/share/doc/$package/copyright" ] || fail "$package does not carry its licence"
        # Two packages with the same file cannot be installed together.
        while read -r path; do
            [ ! -e "$work/root/$path" ] || fail "$path of $package is in another package, too"
        done < <(cd "$work/one" && find . ! -type d)
        [ "$package" != libattile1 ] || close_off "$work/one/usr/$libdir/libattile.so.1"
        cp -a "$work/one/." "$work/root/"
        rm -rf "$work/one"
        printf '%s: %s\n' "$package" "$(depends "$package")"
    done
}

# check_no_leak WORK BUILD SOURCE: no installed text names the place of the build.
check_no_leak() {
    local work=$1 build=$2 source=$3 leak
    leak=(--fixed-strings -e "$build" -e "$source")
    case ${source#/} in
      */*) ;;
      *) leak=(--extended-regexp -e "$build" -e "(^|[^[:alnum:]_./-])$source([^[:alnum:]_-]|\$)") ;; # /attile is also a part of /usr/include/attile
    esac
    if grep -rIl "${leak[@]}" "$work/root"; then fail "files above name the place of the build"; fi
}
