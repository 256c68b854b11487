#!/usr/bin/env bash
# Unpacks Debian's packages for arm64, and all that they need, to build against and to take from.
# None of their scripts runs. What dpkg knows of packages that it installed is written down.
#
# usage: arm64_root.sh ROOT PACKAGE...    (on Debian, with mmdebstrap)
set -euo pipefail

# note ROOT: called back while the archives of the packages are there.
note() {
  local archive name kind
  mkdir -p "$1/DEBIAN" "$1/var/lib/dpkg/info"
  for archive in "$1"/var/cache/apt/archives/*.deb; do
    name=$(dpkg-deb --field "$archive" Package)
    dpkg-deb --field "$archive" | sed '1a Status: install ok installed'
    echo
    dpkg-deb --fsys-tarfile "$archive" | tar --list | sed 's|^\.||; s|/$||; s|^$|/.|' \
      >"$1/var/lib/dpkg/info/$name.list"
    # Where dpkg-shlibdeps looks for libraries of packages that are not installed.
    for kind in symbols shlibs; do
      dpkg-deb --info "$archive" "$kind" >>"$1/DEBIAN/$kind" 2>/dev/null || true
    done
  done >"$1/var/lib/dpkg/status"
  # As the package would do it once installed.
  cat "$1"/usr/share/ca-certificates/mozilla/*.crt >"$1/etc/ssl/certs/ca-certificates.crt"
}

if [[ ${1:-} == --note ]]; then
  note "${2:?which root?}"
else
  ROOT=${1:?which root?}
  shift
  mmdebstrap --quiet --arch=arm64 --variant=extract --include="$(IFS=, && echo "$*")" \
    --extract-hook="'$(realpath "$0")' --note \"\$1\"" bookworm "$ROOT"
fi
