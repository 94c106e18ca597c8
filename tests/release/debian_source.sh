#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes Debian's source package of the files that git knows, builds it as Debian's builders do, and shows source and packages to lintian.
# Needs debhelper, dh-python, lintian and the build dependencies of cmake/packaging/debian/control.
# DEBFULLNAME and DEBEMAIL are its maintainer.
# usage: debian_source.sh SOURCE WORK
set -euo pipefail
source=$1 work=$2
unset "${!ATTILE_@}" CMAKE_GENERATOR
version=$(sed -nE '1s/^attile \((.*)-[0-9]+\).*/\1/p' "$source/cmake/packaging/debian/changelog")
rm -rf "$work" && mkdir -p "$work/attile-$version"
git -C "$source" ls-files -z | tar -C "$source" --null -T - -c | tar -C "$work/attile-$version" -x
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner -cJf "$work/attile_$version.orig.tar.xz" "attile-$version"
cd "$work/attile-$version"
cp -r cmake/packaging/debian debian
sed 1d cmake/packaging/copyright.in >debian/copyright # it speaks of binaries, so the source's is not in the format that its first line names
sed -i "s/Attile maintainers <root@localhost>/${DEBFULLNAME-Attile maintainers} <${DEBEMAIL-root@localhost}>/" debian/control debian/changelog
DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS-parallel=$(nproc)}" dpkg-buildpackage -us -uc >"$work/build.log" 2>&1 || { tail -40 "$work/build.log"; exit 1; }
ls "$work"/*.dsc "$work"/*.deb
suppressed=()
[ -n "${DEBEMAIL-}" ] || suppressed=(--suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog,root-in-contact) # nobody's address yet
lintian --no-cfg --allow-root --fail-on warning --tag-display-limit 0 "${suppressed[@]}" "$work"/*.changes
