#!/usr/bin/env bash
# Makes the image of what image_root.sh made, without a builder or a daemon: an archive in OCI's
# layout that `docker load` (from 23 on), `podman load`, `ctr images import` (containerd 1.5)
# and `skopeo copy` take.
#
# usage: image_archive.sh ROOT FILE    (how it is run: the last lines of the Dockerfile)
set -euo pipefail

ROOT=$(realpath "${1:?which root?}")
FILE=$(realpath -m "${2:?to which file?}")
DOCKERFILE=$(dirname "$(realpath "${BASH_SOURCE[0]}")")/Dockerfile
# Said by the root's own lists, since its programs may be those of another processor.
VERSION=$(sed -n 's/^ "name": "recourse-\(.*\)",$/\1/p' "$ROOT/usr/share/sbom/recourse.spdx.json")
ARCHITECTURE=$(awk '$1 == "Architecture:" && $2 != "all" { print $2; exit }' \
  "$ROOT/var/lib/dpkg/status")
WORK=$(mktemp -d)
CREATED=$(date -u -d "@${SOURCE_DATE_EPOCH:-0}" +%FT%TZ)
PLATFORM="\"architecture\": \"$ARCHITECTURE\", \"os\": \"linux\""
readonly ROOT FILE DOCKERFILE VERSION ARCHITECTURE WORK CREATED PLATFORM
readonly OCI=application/vnd.oci.image
readonly DATA=var/lib/recourse  # the one directory that its user owns
trap 'rm -rf "$WORK"' EXIT

# said KEY: the words of the Dockerfile after it.
said() { sed -n "s/^$1 //p" "$DOCKERFILE"; }

digest_of() { sha256sum <"$1" | cut -d ' ' -f 1; }

# blob FILE: moves it to where its digest names it; prints the digest.
blob() {
  local digest
  digest=$(digest_of "$1")
  mv "$1" "$WORK/blobs/sha256/$digest"
  echo "$digest"
}

# reference MEANING DIGEST: as one document refers to another.
reference() {
  printf '{"mediaType": "%s.%s", "digest": "sha256:%s", "size": %s' "$OCI" "$1" "$2" \
    "$(stat -c %s "$WORK/blobs/sha256/$2")"
}

# The same bytes for the same root.
pack() { tar --create --numeric-owner --format=gnu --sort=name --mtime="$CREATED" "$@"; }

make_layer() {
  pack --directory "$ROOT" --owner=0 --group=0 --exclude="./$DATA" --file "$1" .
  tar --append --numeric-owner --format=gnu --mtime="$CREATED" --no-recursion --directory "$ROOT" \
    --owner="$2" --group="$2" --file "$1" "./$DATA"
}

main() {
  local user layer content config manifest
  user=$(said USER)
  mkdir -p "$WORK/blobs/sha256"
  make_layer "$WORK/layer" "${user%%:*}"
  content=$(digest_of "$WORK/layer")
  # A fifth smaller than gzip. The same bytes on each machine: one thread.
  zstd --quiet --rm -19 -T1 "$WORK/layer" -o "$WORK/layer.zst"
  layer=$(blob "$WORK/layer.zst")
  printf '{"created": "%s", %s,\n "config": {"User": "%s", "Entrypoint": %s, "Cmd": %s},\n' \
    "$CREATED" "$PLATFORM" "$user" "$(said ENTRYPOINT)" "$(said CMD)" >"$WORK/config"
  printf ' "rootfs": {"type": "layers", "diff_ids": ["sha256:%s"]}}\n' "$content" >>"$WORK/config"
  config=$(blob "$WORK/config")
  printf '{"schemaVersion": 2, "mediaType": "%s.manifest.v1+json",\n "config": %s},\n' "$OCI" \
    "$(reference config.v1+json "$config")" >"$WORK/manifest"
  printf ' "layers": [%s}]}\n' "$(reference layer.v1.tar+zstd "$layer")" >>"$WORK/manifest"
  manifest=$(blob "$WORK/manifest")
  printf '{"imageLayoutVersion": "1.0.0"}' >"$WORK/oci-layout"
  {
    printf '{"schemaVersion": 2, "mediaType": "%s.index.v1+json",\n "manifests": [%s,\n' "$OCI" \
      "$(reference manifest.v1+json "$manifest")"
    printf '  "platform": {%s},\n  "annotations": {' "$PLATFORM"
    printf '"io.containerd.image.name": "docker.io/library/recourse:%s", ' "$VERSION"
    printf '"org.opencontainers.image.ref.name": "%s"}}]}\n' "$VERSION"
  } >"$WORK/index.json"
  # What Docker before 25 reads.
  printf '[{"Config": "blobs/sha256/%s", "RepoTags": ["recourse:%s"], ' "$config" "$VERSION" \
    >"$WORK/manifest.json"
  printf '"Layers": ["blobs/sha256/%s"]}]\n' "$layer" >>"$WORK/manifest.json"
  pack --directory "$WORK" --owner=0 --group=0 --file "$FILE" \
    oci-layout index.json manifest.json blobs
  printf '%s: %s KiB, sha256:%s; docker load --input %s\n' "$FILE" "$(du -k "$FILE" | cut -f 1)" \
    "$manifest" "$FILE"
}

main
