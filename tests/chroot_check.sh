#!/usr/bin/env bash
# Proves that ./dev does all its set-up: in a clean Debian 12 that has none of our packages, a copy
# of the tree starts the demo, and then runs every test.
#
# usage: chroot_check.sh [--user] [--keep] [run] [test] [image]    (root only; default: run test)
#   --user   as a user with sudo instead of root
#   --keep   leave the chroot for a look around
#   image    the steps of helm/Dockerfile, and then the tests of the image, with what they made
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

as_user=0 keep=0 parts=()
for argument in "$@"; do
  case $argument in
    --user) as_user=1 ;;
    --keep) keep=1 ;;
    run | test | image) parts+=("$argument") ;;
    *)
      sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2
      exit 2
      ;;
  esac
done
if [[ ${#parts[@]} -eq 0 ]]; then parts=(run test); fi

say() { printf '\n### %s\n' "$*"; }
fail() {
  printf 'chroot-check: %s\n' "$*" >&2
  exit 1
}

# Own mounts, and own process ids: whatever is still running at the end goes with the namespace.
enter_namespace() {
  if [[ $EUID -ne 0 ]]; then fail "only root can make a chroot"; fi
  command -v debootstrap >/dev/null || fail "debootstrap is missing: apt-get install debootstrap"
  if [[ -z ${RECOURSE_CHROOT:-} ]]; then
    mkdir -p build
    RECOURSE_CHROOT=$(mktemp -d "$PWD/build/chroot.XXXXXX")
    export RECOURSE_CHROOT
    chmod 755 "$RECOURSE_CHROOT"  # apt downloads as a user of its own
    local status=0
    unshare --mount --mount-proc --pid --fork --kill-child "$0" "$@" || status=$?
    if ((keep)); then
      say "the chroot is kept in $RECOURSE_CHROOT"
    else
      rm -rf --one-file-system "$RECOURSE_CHROOT"
    fi
    exit "$status"
  fi
}

# The Debian sources of this machine, as apt itself lists them; no others, so that nothing but
# Debian can be installed.
debian_sources() {
  apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' \
    'Created-By: Packages' 'Origin: Debian' | sort -u
}

make_root() {
  local root=$1 mirror
  mirror=$(debian_sources | awk '$3 == "bookworm" { print $2; exit }')
  say "a clean Debian 12 in $root"
  debootstrap --variant=minbase bookworm "$root" ${mirror:+"$mirror"} \
    >"$root.log" 2>&1 || {
    tail -n 20 "$root.log" >&2
    fail "debootstrap failed"
  }
  rm -f "$root.log"
  debian_sources >"$root/etc/apt/sources.list"
  local file
  for file in /etc/apt/apt.conf.d/*; do  # how this machine reaches the network
    if grep -qi 'proxy\|check-valid\|check-date' "$file"; then
      cp "$file" "$root/etc/apt/apt.conf.d/"
    fi
  done
  cp /etc/hosts /etc/resolv.conf "$root/etc/"
  # A network that signs TLS anew has an authority of its own, which this machine trusts.
  cp /etc/ssl/certs/ca-certificates.crt "$root/etc/host-authorities.pem"
  mount --bind "$root" "$root"  # tests make mount namespaces, for which / must be a mount
  mount -t proc proc "$root/proc"
  mount -t tmpfs tmpfs "$root/dev/shm"
  mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
  ln -sf pts/ptmx "$root/dev/ptmx"
}

copy_tree() {
  local root=$1
  mkdir "$root/src"
  git ls-files -z --cached --others --exclude-standard | tar --null -T - -c | tar -x -C "$root/src"
  if ((as_user)); then
    in_root "$root" sh -c 'apt-get -qq update && apt-get -qq -y install sudo >/dev/null 2>&1'
    in_root "$root" useradd -m developer
    echo 'developer ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/developer"
    in_root "$root" chown -R developer /src
  fi
}

# in_root ROOT COMMAND...: with a clean environment, as root.
in_root() {
  local root=$1
  shift
  chroot "$root" env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
    NODE_EXTRA_CA_CERTS=/etc/host-authorities.pem DEBIAN_FRONTEND=noninteractive "$@"
}

# in_tree ROOT SCRIPT: in the copy of the tree, as the one who develops.
in_tree() {
  local become=()
  if ((as_user)); then
    become=(runuser -u developer --preserve-environment -- env HOME=/home/developer)
  fi
  in_root "$1" "${become[@]}" bash -euc "cd /src; $2"
}

# The demo as a person meets it: ./dev run in one terminal, its commands in another, Ctrl-C.
check_run() {
  local root=$1
  say "./dev run, and the commands that it prints"
  in_tree "$root" '
    export RECOURSE_DEMO_PORT=29080
    ./dev run >/tmp/run.log 2>&1 & dev=$!
    until grep -q "^Paste these" /tmp/run.log; do
      kill -0 $dev 2>/dev/null || { cat /tmp/run.log; exit 1; }
      sleep 1
    done
    sed -n "1,/^Paste these/p" /tmp/run.log
    PROXY=127.0.0.1:29080 ADMIN=127.0.0.1:29081 BACKEND=127.0.0.1:29083 DEMO=build/demo-29080 \
      tests/e2e/demo/demo.sh play
    kill -TERM $dev
    wait $dev
    for port in 29080 29081 29082 29083; do
      if (exec 3<>/dev/tcp/127.0.0.1/$port) 2>/dev/null; then
        echo "port $port is still served after the end"; exit 1
      fi
    done
    echo "nothing is left running"'
}

check_test() {
  say "./dev test"
  in_tree "$1" './.ci/run'
}

# What the build stage of the Dockerfile runs, as one script.
dockerfile_steps() {
  awk '/^FROM scratch/ { exit }
    /^RUN / { sub(/^RUN /, ""); is_step = 1 }
    is_step { print; is_step = /\\$/ }' helm/Dockerfile
}

check_image() {
  local root=$1
  say "the image, by the steps of helm/Dockerfile"
  in_root "$root" bash -euc "cd /src; $(dockerfile_steps)
    helm/image_root.sh build/release/recourse /image-again"
  # The tests run beside the chroot, in a tree that may be fresh.
  if [[ ! -d tests/helm/node_modules ]]; then
    npm --prefix tests/helm ci --ignore-scripts --no-audit --no-fund --silent
  fi
  RECOURSE_IMAGE=$root/image RECOURSE_IMAGE_AGAIN=$root/image-again \
    RECOURSE_BIN=$root/src/build/release/recourse \
    /usr/bin/python3 -B -m pytest tests/e2e/test_image.py -q -p no:cacheprovider
}

# Installing must not leave services behind, neither running nor to be started at the next boot.
check_traces() {
  local root=$1 left
  if [[ -e $root/usr/sbin/policy-rc.d ]]; then fail "policy-rc.d was left behind"; fi
  left=$(find "$root"/etc/rc[2-5].d "$root"/etc/systemd/system/*.wants \
    -regextype posix-extended \
    -regex '.*/(S[0-9]*)?(nginx|haproxy|prometheus)(\.service)?' 2>/dev/null || true)
  if [[ -n $left ]]; then fail "services would start at boot: $left"; fi
}

main() {
  local part
  enter_namespace "$@"
  make_root "$RECOURSE_CHROOT"
  copy_tree "$RECOURSE_CHROOT"
  for part in "${parts[@]}"; do
    SECONDS=0
    "check_$part" "$RECOURSE_CHROOT"
    say "./dev $part took $((SECONDS / 60)) min $((SECONDS % 60)) s"
  done
  check_traces "$RECOURSE_CHROOT"
  say "a clean Debian 12 is enough"
}

main "$@"
