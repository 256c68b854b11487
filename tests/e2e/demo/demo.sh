#!/usr/bin/env bash
# The commands of the demo, once: `print` shows them to be pasted while `./dev run` is running,
# `play` runs them in order, shows what they print, and fails when one of them does.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

readonly PROXY=${PROXY:-127.0.0.1:19080} ADMIN=${ADMIN:-127.0.0.1:19081}
readonly BACKEND=${BACKEND:-127.0.0.1:19083} DEMO=${DEMO:-build/demo}
readonly TRACE=4bf92f3577b34da6a3ce929d0e0e4736

readonly ORDER="order() {
  curl -sS --retry 9 --retry-all-errors http://$PROXY/orders \\
    -H 'traceparent: 00-$TRACE-00f067aa0ba902b7-01' \\
    --json \"{\\\"customer_id\\\":\\\"ada\\\",\\\"cart_id\\\":\\\"\$1\\\"}\"
}"
readonly COMPARE="cmp $DEMO/first $DEMO/second && echo 'both answers: the same bytes'"
readonly COUNT="curl -sS http://$BACKEND/orders | jq -c '{rows: length}'"
readonly ASK="--admin $ADMIN --admin-token-file $DEMO/admin-token"

# One entry per comment or command.
readonly STEPS=(
  "# An agent places an order: plain HTTP, with the trace that its runtime sends anyway."
  "$ORDER"
  "# The same order twice: the shop has one row, and both answers are the same bytes."
  "order cart-1 | tee $DEMO/first; echo"
  "order cart-1 > $DEMO/second"
  "$COMPARE"
  "$COUNT"
  "# The same with a kill -9 between the two."
  "order cart-2 | tee $DEMO/first; echo"
  "kill -9 \$(cat $DEMO/recourse.pid)"
  "order cart-2 > $DEMO/second"
  "$COMPARE"
  "$COUNT"
  "# What Recourse remembers of this trace, and the proof that nobody edited it."
  "build/release/recourse events list --trace $TRACE \\
  $ASK"
  "build/release/recourse ledger verify \\
  $ASK"
)

print() {
  printf '\nRecourse listens on http://%s, in front of json-server on http://%s.\n' "$PROXY" \
    "$BACKEND"
  printf 'Paste these into a second terminal, in this directory. Ctrl-C here ends everything.\n'
  local step
  for step in "${STEPS[@]}"; do
    if [[ $step == \#* ]]; then printf '\n'; fi
    printf '%s\n' "$step"
  done
  printf '\n'
}

play() {
  local step
  for step in "${STEPS[@]}"; do
    if [[ $step == \#* ]]; then
      printf '\n%s\n' "$step"
    else
      printf '$ %s\n' "$step"
      eval "$step"
    fi
  done
}

case ${1:-} in
  print) print ;;
  play) play ;;
  *)
    echo "usage: demo.sh print | play" >&2
    exit 2
    ;;
esac
