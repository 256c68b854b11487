#!/usr/bin/env bash
# Makes the whole content of the image: Recourse, nft for `recourse redirect`, the libraries of
# both, the CAs of the web, and a list of all that (SBOM). No shell, no package manager.
#
# usage: image_root.sh BINARY ROOT    (on Debian, with nftables, ca-certificates and llvm-19)
set -euo pipefail

readonly BINARY=${1:?which binary?} ROOT=${2:?which directory?}
readonly USER_ID=19080
readonly CAS=/etc/ssl/certs/ca-certificates.crt
readonly SBOM=/usr/share/sbom/recourse.spdx.json
# Compiled into the binary: there is no file of theirs.
readonly HEADERS_ONLY=(libboost1.81-dev libcli11-dev)

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
  cp -L "$file" "$ROOT$file"
  taken+=("$(readlink -f "$file")")
}

# The Debian packages of the files, asked for at once: dpkg reads all its lists for each question.
# With merged /usr its database has either of two paths.
find_packages() {
  local path package
  local -A package_of=()
  while IFS=: read -r package path; do
    package_of[${path##* }]=$package
  done < <(dpkg-query -S "${taken[@]}" "${taken[@]#/usr}" "${taken[@]/#//usr}" 2>/dev/null)
  for path in "${taken[@]}"; do
    package=${package_of[$path]:-${package_of[${path#/usr}]:-${package_of[/usr$path]:-}}}
    if [[ -z $package ]]; then fail "no package has $path"; fi
    packages[$package]=1
  done
}

# take_libraries PROGRAM: with the loader, which ldd lists too.
take_libraries() {
  local library
  while read -r library; do
    if [[ ! -e $ROOT$library ]]; then take "$library"; fi
  done < <(ldd "$1" | awk '$2 == "=>" && $3 ~ /^\// { print $3 } $1 ~ /^\// { print $1 }')
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
  [[ -e $CAS ]] || fail "$CAS is missing: apt-get install ca-certificates"
  cp -L "$CAS" "$ROOT$CAS"
  packages[ca-certificates]=1
  ln -s "$CAS" "$ROOT/usr/lib/ssl/cert.pem"  # where OpenSSL looks
  take /etc/ssl/openssl.cnf
  ln -s /etc/ssl/openssl.cnf "$ROOT/usr/lib/ssl/openssl.cnf"
}

take_licenses() {
  local name
  for name in "${!packages[@]}"; do
    mkdir -p "$ROOT/usr/share/doc/$name"
    cp -L "/usr/share/doc/$name/copyright" "$ROOT/usr/share/doc/$name/"
  done
  mkdir -p "$ROOT/usr/share/doc/recourse"
  cp "$(dirname "${BASH_SOURCE[0]}")/../LICENSE" "$ROOT/usr/share/doc/recourse/copyright"
}

# spdx_package NAME VERSION [PURL]
spdx_package() {
  printf '  {"SPDXID": "SPDXRef-%s", "name": "%s", "versionInfo": "%s",\n' \
    "${1//[^A-Za-z0-9.-]/-}" "$1" "$2"
  printf '   "downloadLocation": "NOASSERTION", "filesAnalyzed": false'
  if [[ -n ${3:-} ]]; then
    printf ',\n   "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", '
    printf '"referenceType": "purl", "referenceLocator": "%s"}]' "$3"
  fi
  printf '}'
}

write_sbom() {
  local digest version name found architecture
  digest=$(sha256sum "$ROOT/usr/bin/recourse")
  version=$("$BINARY" --version)
  version=${version#recourse }
  {
    printf '{"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",\n'
    printf ' "name": "recourse-%s",\n' "$version"
    printf ' "documentNamespace": "urn:recourse:image:%s",\n' "${digest%% *}"
    printf ' "creationInfo": {"created": "%s", "creators": ["Tool: image_root.sh"]},\n' \
      "$(date -u -d "@${SOURCE_DATE_EPOCH:-0}" +%FT%TZ)"
    printf ' "documentDescribes": ["SPDXRef-recourse"],\n "packages": [\n'
    spdx_package recourse "$version"
    while read -r name; do
      found=$(dpkg-query -W -f '${Version} ${Architecture}\n' "$name") || fail "which $name?"
      read -r version architecture <<<"${found%%$'\n'*}"
      printf ',\n'
      spdx_package "$name" "$version" "pkg:deb/debian/$name@${version//+/%2B}?arch=$architecture"
    done < <(printf '%s\n' "${!packages[@]}" "${HEADERS_ONLY[@]}" | sort)
    printf '\n ]}\n'
  } >"$ROOT$SBOM"
}

main() {
  if [[ -e $ROOT && -n $(ls -A "$ROOT") ]]; then fail "$ROOT is not empty"; fi
  make_tree
  install -m 755 "$BINARY" "$ROOT/usr/bin/recourse"
  llvm-strip-19 --strip-debug "$ROOT/usr/bin/recourse"
  take_libraries "$BINARY"
  take /usr/sbin/nft
  take_libraries /usr/sbin/nft
  take_trust
  find_packages
  take_licenses
  write_sbom
  chmod -R u=rwX,go=rX "$ROOT"
  if [[ $EUID -eq 0 ]]; then chown "$USER_ID:$USER_ID" "$ROOT/var/lib/recourse"; fi
  printf '%s: %s packages, %s files, %s MiB (recourse: %s MiB); they are listed in %s\n' "$ROOT" \
    "${#packages[@]}" "$(find "$ROOT" -type f | wc -l)" "$(du -sm "$ROOT" | cut -f 1)" \
    "$(du -m "$ROOT/usr/bin/recourse" | cut -f 1)" "$SBOM"
}

main
