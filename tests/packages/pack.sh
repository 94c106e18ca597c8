# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests of packages: packs a build tree and unpacks every Debian package into one root.

fail() {
    echo "packages test: $*" >&2
    exit 1
}

unset ATTILE_BACKEND ATTILE_BACKEND_PATH ATTILE_LIBRARY ATTILE_DIR ATTILE_LOG ATTILE_LOG_FILE LD_LIBRARY_PATH PYTHONPATH PKG_CONFIG_PATH CMAKE_PREFIX_PATH DESTDIR || true

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
