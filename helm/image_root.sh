#!/usr/bin/env bash
# Makes the whole content of the image: Recourse, nft for `recourse redirect`, the libraries of
# both, the CAs of the web, and what tells scanners of all that: the status of its Debian packages,
# and a list (SBOM). No shell, no package manager.
#
# usage: image_root.sh BINARY ROOT [SYSTEM]    (on Debian, with nftables, ca-certificates, llvm-19)
# SYSTEM: a Debian for arm64 to take from (proxy/package/arm64_root.sh) instead of this one.
set -euo pipefail

readonly BINARY=${1:?which binary?} ROOT=${2:?which directory?}
SYSTEM=${3:+$(realpath "$3")}
readonly SYSTEM RUNNER=(${SYSTEM:+qemu-aarch64-static -L "$SYSTEM"})
readonly DPKG=(dpkg-query --admindir="$SYSTEM/var/lib/dpkg")
readonly USER_ID=19080
readonly CAS=/etc/ssl/certs/ca-certificates.crt
readonly SBOM=/usr/share/sbom/recourse.spdx.json
# Compiled into the binary: there is no file of theirs.
readonly HEADERS_ONLY=(libboost1.81-dev libcli11-dev)
readonly OS_RELEASE=/usr/lib/os-release
CREATED=$(date -u -d "@${SOURCE_DATE_EPOCH:-0}" +%FT%TZ)
readonly CREATED

fail() {
  printf 'image_root: %s\n' "$*" >&2
  exit 1
}

declare -A packages=()  # what is in the image
taken=()  # files of packages

# take FILE: copies it, as the file that it leads to, to the same place.
take() {
  local file=$1
  mkdir -p "$ROOT$(dirname "$file")"
  cp -L "$SYSTEM$file" "$ROOT$file"
  file=$(readlink -f "$SYSTEM$file")
  taken+=("${file#"$SYSTEM"}")
}

# The Debian packages of the files, asked for at once: dpkg reads all its lists for each question.
# With merged /usr its database has either of two paths.
find_packages() {
  local path package
  local -A package_of=()
  while IFS=: read -r package path; do
    package_of[${path##* }]=$package
  done < <("${DPKG[@]}" -S "${taken[@]}" "${taken[@]#/usr}" "${taken[@]/#//usr}" 2>/dev/null)
  for path in "${taken[@]}"; do
    package=${package_of[$path]:-${package_of[${path#/usr}]:-${package_of[/usr$path]:-}}}
    if [[ -z $package ]]; then fail "no package has $path"; fi
    packages[$package]=1
  done
}

# take_libraries PROGRAM [LIBRARY]: with the loader, which lists itself too when it is asked as ldd
# does, and with a library that the program loads when it needs it.
take_libraries() {
  local library
  while read -r library; do
    if [[ ! -e $ROOT$library ]]; then take "$library"; fi
  done < <(LD_TRACE_LOADED_OBJECTS=1 LD_PRELOAD=${2:-} "${RUNNER[@]}" "$1" |
    awk '$2 == "=>" && $3 ~ /^\// { print $3 } $1 ~ /^\// { print $1 }')
}

make_tree() {
  local name
  mkdir -p "$ROOT"/{etc/recourse,etc/ssl/certs,proc,dev,run,tmp,var/lib/recourse}
  mkdir -p "$ROOT"/usr/{bin,sbin,lib/ssl,lib64} "$ROOT$(dirname "$SBOM")"
  for name in bin sbin lib lib64; do ln -s "usr/$name" "$ROOT/$name"; done
  printf 'root:x:0:0:root:/:/nonexistent\nrecourse:x:%s:%s:Recourse:/:/nonexistent\n' \
    "$USER_ID" "$USER_ID" >"$ROOT/etc/passwd"
  printf 'root:x:0:\nrecourse:x:%s:\n' "$USER_ID" >"$ROOT/etc/group"
  echo 'hosts: files dns' >"$ROOT/etc/nsswitch.conf"
}

take_trust() {
  [[ -e $SYSTEM$CAS ]] || fail "$CAS is missing: apt-get install ca-certificates"
  cp -L "$SYSTEM$CAS" "$ROOT$CAS"
  packages[ca-certificates]=1
  ln -s "$CAS" "$ROOT/usr/lib/ssl/cert.pem"  # where OpenSSL looks
  take /etc/ssl/openssl.cnf
  ln -s /etc/ssl/openssl.cnf "$ROOT/usr/lib/ssl/openssl.cnf"
}

take_licenses() {
  local name
  for name in "${!packages[@]}"; do
    mkdir -p "$ROOT/usr/share/doc/$name"
    cp -L "$SYSTEM/usr/share/doc/$name/copyright" "$ROOT/usr/share/doc/$name/"
  done
  mkdir -p "$ROOT/usr/share/doc/recourse"
  cp "$(dirname "${BASH_SOURCE[0]}")/../LICENSE" "$ROOT/usr/share/doc/recourse/copyright"
}

# As dpkg says it of a machine where nothing else is installed.
write_status() {
  mkdir -p "$ROOT/var/lib/dpkg"
  printf '%s\n' "${!packages[@]}" | sort | xargs "${DPKG[@]}" --status >"$ROOT/var/lib/dpkg/status"
}

spdx_id() { printf 'SPDXRef-%s' "${1//[^A-Za-z0-9.-]/-}"; }

# spdx_package NAME VERSION PURL
spdx_package() {
  printf '  {"SPDXID": "%s", "name": "%s", "versionInfo": "%s",\n' "$(spdx_id "$1")" "$1" "$2"
  printf '   "downloadLocation": "NOASSERTION", "filesAnalyzed": false,\n'
  printf '   "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", '
  printf '"referenceType": "purl", "referenceLocator": "%s"}]}' "$3"
}

# spdx_relation NAME WHAT NAME
spdx_relation() {
  printf ',\n  {"spdxElementId": "%s", "relationshipType": "%s", "relatedSpdxElement": "%s"}' \
    "$(spdx_id "$1")" "$2" "$(spdx_id "$3")"
}

# debian_purl NAME: with the source, by which Debian's advisories name it.
debian_purl() {
  local version architecture source release
  read -r version architecture source < <(
    "${DPKG[@]}" -W -f '${Version} ${Architecture} ${source:Package}\n' "$1"
  ) || fail "which $1?"
  version=${version//+/%2B}
  release=$(. "$SYSTEM$OS_RELEASE" && echo "$ID-$VERSION_ID")
  printf 'pkg:deb/debian/%s@%s?arch=%s&distro=%s&upstream=%s' "$1" "${version//:/%3A}" \
    "$architecture" "$release" "$source"
}

write_sbom() {
  local digest version name
  digest=$(sha256sum "$ROOT/usr/bin/recourse")
  version=$("${RUNNER[@]}" "$BINARY" --version)
  version=${version#recourse }
  {
    printf '{"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",\n'
    printf ' "name": "recourse-%s",\n' "$version"
    printf ' "documentNamespace": "urn:recourse:image:%s",\n' "${digest%% *}"
    printf ' "creationInfo": {"created": "%s", "creators": ["Tool: image_root.sh"]},\n' \
      "$CREATED"
    printf ' "documentDescribes": ["SPDXRef-recourse"],\n "packages": [\n'
    spdx_package recourse "$version" "pkg:generic/recourse@$version"
    while read -r name; do
      version=$("${DPKG[@]}" -W -f '${Version}\n' "$name")
      printf ',\n'
      spdx_package "$name" "${version%%$'\n'*}" "$(debian_purl "$name")"
    done < <(printf '%s\n' "${!packages[@]}" "${HEADERS_ONLY[@]}" | sort)
    printf '\n ],\n "relationships": [\n  {"spdxElementId": "SPDXRef-DOCUMENT", '
    printf '"relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-recourse"}'
    while read -r name; do spdx_relation recourse DEPENDS_ON "$name"; done < <(
      printf '%s\n' "${!packages[@]}" | sort
    )
    for name in "${HEADERS_ONLY[@]}"; do spdx_relation "$name" BUILD_DEPENDENCY_OF recourse; done
    printf '\n ]}\n'
  } >"$ROOT$SBOM"
}

main() {
  if [[ -e $ROOT && -n $(ls -A "$ROOT") ]]; then fail "$ROOT is not empty"; fi
  make_tree
  install -m 755 "$BINARY" "$ROOT/usr/bin/recourse"
  llvm-strip-19 --strip-all "$ROOT/usr/bin/recourse"  # nothing in the image reads its symbols
  take_libraries "$BINARY" libpq.so.5
  take /usr/sbin/nft
  take_libraries "$SYSTEM/usr/sbin/nft"
  take_trust
  take "$OS_RELEASE"
  ln -s "..$OS_RELEASE" "$ROOT/etc/os-release"
  find_packages
  take_licenses
  write_status
  write_sbom
  chmod -R u=rwX,go=rX "$ROOT"
  if [[ $EUID -eq 0 ]]; then chown "$USER_ID:$USER_ID" "$ROOT/var/lib/recourse"; fi
  printf '%s: %s packages, %s files, %s MiB (recourse: %s MiB); they are listed in %s\n' "$ROOT" \
    "${#packages[@]}" "$(find "$ROOT" -type f | wc -l)" "$(du -sm "$ROOT" | cut -f 1)" \
    "$(du -m "$ROOT/usr/bin/recourse" | cut -f 1)" "$SBOM"
}

main
