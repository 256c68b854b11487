#!/usr/bin/env bash
# Makes the Debian package of a binary, for the release of Debian that it runs on: the binary,
# manual pages and completions that the binary itself tells, the service and its policy.
#
# usage: deb.sh BINARY FOLDER [SYSTEM]    (on Debian, with dpkg-dev, help2man and llvm-19)
# SYSTEM: the Debian for arm64 (arm64_root.sh) that the binary is for, instead of this one; that
# needs qemu-user-static and binutils-aarch64-linux-gnu too.
# DEBEMAIL: the address of who answers for it, as of all tools of Debian.
set -euo pipefail

BINARY=$(realpath "${1:?which binary?}")
FOLDER=$(realpath "${2:?to which folder?}")
HERE=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
SYSTEM=${3:+$(realpath "$3")}
readonly SYSTEM RUNNER=(${SYSTEM:+qemu-aarch64-static -L "$SYSTEM"})
ARCHITECTURE=$(cat "${SYSTEM:-/nowhere}/var/lib/dpkg/arch" 2>/dev/null || dpkg --print-architecture)
VERSION=$("${RUNNER[@]}" "$BINARY" --version)
VERSION=${VERSION#recourse }
readonly BINARY FOLDER HERE ARCHITECTURE VERSION POLICY=/etc/recourse/policy.yaml

fail() {
  printf 'deb: %s\n' "$*" >&2
  exit 1
}

# As Debian's tools want it: the files in debian/PACKAGE.
WORK=$(mktemp -d)
readonly WORK ROOT=$WORK/debian/recourse
trap 'rm -rf "$WORK"' EXIT

# put FILE PATH [MODE]
put() { install -D -m "${3:-644}" "$1" "$ROOT$2"; }

# manual MEANING [WORD...]: the page of the whole program, or of a command; and those of the
# commands below it.
manual() {
  local meaning=$1 path name words command told
  shift
  path="recourse${*:+ $*}" name=recourse$(printf -- '-%s' "$@")
  if (($# == 0)); then name=recourse; fi
  words=(--no-info --manual Recourse --source "Recourse $VERSION" --version-string "$VERSION")
  if (($# == 0)); then words+=(--include "$HERE/man.h2m"); fi
  # It takes the program for the command, and the title must be that of the file.
  help2man "${words[@]}" --name "$meaning" "$path" </dev/null |
    sed "s/^\.TH RECOURSE [^\"]*/.TH ${name^^} /; s/^$path *\\\\- /$name \\\\- /" |
    gzip -9n >"$ROOT/usr/share/man/man1/$name.1.gz"
  told=$($path --help | sed -n '/^Subcommands:$/,/^$/s/^  \([a-z-]\+ \)/\1/p')
  while read -r command meaning; do
    if [[ -n $command ]]; then manual "$meaning" "$@" "$command"; fi
  done <<<"$told"
}

put_what_the_binary_tells() {
  local shell
  printf '#!/bin/sh\nexec %s "%s" "$@"\n' "${RUNNER[*]@Q}" "$ROOT/usr/bin/recourse" \
    >"$WORK/recourse"
  chmod 755 "$WORK/recourse"
  PATH=$WORK:$PATH
  mkdir -p "$ROOT/usr/share/man/man1"
  manual 'make the writes of agents repeatable, remembered and undoable'
  for shell in bash-completion/completions/recourse=bash zsh/vendor-completions/_recourse=zsh \
    fish/vendor_completions.d/recourse.fish=fish; do
    put <(recourse completion "${shell#*=}") "/usr/share/${shell%=*}"
  done
}

# The packages of the libraries that the binary needs.
libraries() {
  local found
  printf 'Source: recourse\n\nPackage: recourse\nArchitecture: any\n' >"$WORK/debian/control"
  found=$(cd "$WORK" && DEB_HOST_ARCH=$ARCHITECTURE dpkg-shlibdeps ${SYSTEM:+-S"$SYSTEM"} -O \
    debian/recourse/usr/bin/recourse) ||
    fail "dpkg-shlibdeps does not know the libraries of $BINARY"
  echo "${found#shlibs:Depends=}, libpq5 (>= 14~~)"  # loaded by the binary when it needs it
}

control() {
  cat <<TEXT
Package: recourse
Version: $VERSION
Architecture: $ARCHITECTURE
Maintainer: Recourse maintainers <${DEBEMAIL:-maintainers@recourse.invalid}>
Section: net
Priority: optional
Installed-Size: $(du -sk --apparent-size "$ROOT" | cut -f 1)
Depends: $1, init-system-helpers, systemd | systemd-standalone-sysusers | systemd-sysusers
Recommends: ca-certificates
Suggests: nftables
Description: proxy that makes the writes of agents repeatable, remembered and undoable
 Stands between agents and their HTTP and MCP tools. Repeats of a call are answered from a ledger,
 outcomes that nobody knows are found out, and flows that break are undone.
TEXT
}

main() {
  local depends name
  if [[ -z ${SOURCE_DATE_EPOCH:-} ]]; then
    SOURCE_DATE_EPOCH=$(git -C "$HERE" log -1 --format=%ct 2>/dev/null || date +%s)
  fi
  export SOURCE_DATE_EPOCH
  umask 022
  mkdir -p "$ROOT/DEBIAN" "$FOLDER"
  put "$BINARY" /usr/bin/recourse 755
  llvm-strip-19 --strip-debug "$ROOT/usr/bin/recourse"
  put "$HERE/policy.yaml" "$POLICY"
  put "$HERE/recourse.service" /usr/lib/systemd/system/recourse.service
  put "$HERE/sysusers.conf" /usr/lib/sysusers.d/recourse.conf
  put "$HERE/tmpfiles.conf" /usr/lib/tmpfiles.d/recourse.conf
  put "$HERE/../../LICENSE" /usr/share/doc/recourse/copyright
  # The chart's own, for those who run none.
  for name in alerts.yaml dashboard.json; do
    put "$HERE/../../helm/recourse/files/$name" "/usr/share/recourse/$name"
  done
  put "$HERE/../../filters/ledger/verify_export.py" /usr/share/recourse/verify_export.py 755
  put_what_the_binary_tells
  "${RUNNER[@]}" "$BINARY" policy check "$ROOT$POLICY" >/dev/null ||
    fail "the package's own policy has errors"
  depends=$(libraries)
  control "$depends" >"$ROOT/DEBIAN/control"
  echo "$POLICY" >"$ROOT/DEBIAN/conffiles"
  for name in postinst prerm postrm; do put "$HERE/$name" "/DEBIAN/$name" 755; done
  (cd "$ROOT" && find usr -type f -exec md5sum {} + | LC_ALL=C sort -k 2 >DEBIAN/md5sums)
  dpkg-deb --root-owner-group --build "$ROOT" "$FOLDER" >/dev/null
  name=$FOLDER/recourse_${VERSION}_$ARCHITECTURE.deb
  echo "$name: $(du -k "$name" | cut -f 1) KiB; apt install $name"
}

main
