# The part of ./dev that tests; sourced by it, and no program of its own.
# shellcheck shell=bash

readonly E2E_SECONDS_MAX=3600        # of one preset; quiet it takes a tenth of that
# They wait more than they compute, but for those that a sanitizer slows down.
readonly E2E_WORKERS=11 SANITIZED_WORKERS=8
# What a sanitizer makes slower: waits of the end-to-end tests are this many times longer.
readonly SANITIZED_PATIENCE=4
readonly FUZZ_CORPUS=tests/fuzz/corpus

# Runs pytest over tests/e2e; what a sanitizer has to say goes to files beside the results.
# e2e PRESET JUNIT_FILE [PYTEST_ARGUMENT...]
e2e() {
  local preset=$1 junit=$2 set=() files=(tests/e2e) program=$PWD/build/$1/recourse
  local workers=$E2E_WORKERS
  shift 2
  local report=log_path=$PWD/build/$preset/results/sanitizer
  case $preset in
    asan | tsan)
      workers=$SANITIZED_WORKERS
      set=(RECOURSE_E2E_PATIENCE="$SANITIZED_PATIENCE" ASAN_OPTIONS="$report"
        TSAN_OPTIONS="$report" UBSAN_OPTIONS="$report:print_stacktrace=1")
      mapfile -t files < <(sed '/^#/d; s|^|tests/e2e/|' tests/e2e/sanitized.txt)
      ;;
    arm64)
      set=(RECOURSE_E2E_PATIENCE="$SANITIZED_PATIENCE" RECOURSE_OTHER_BIN="$PWD/build/dev/recourse"
        RECOURSE_ARM64_ROOT="$PWD/$ARM64_ROOT")
      mapfile -t files < <(sed '/^#/d; s|^|tests/e2e/|' tests/e2e/arm64.txt)
      program=$PWD/build/arm64/run/recourse
      ;;
    coverage)
      set=(LLVM_PROFILE_FILE="$PWD/build/coverage/profiles/%m%c")
      # A program that counts its lines is large.
      set -- "$@" --deselect \
        tests/e2e/test_image.py::test_two_builds_give_the_same_bytes_which_are_few
      ;;
  esac
  # What one process compiles all others read: for Python it takes longer than any of them works.
  set=(-u PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX="$PWD/build/pycache"
    NODE_COMPILE_CACHE="$PWD/build/node-cache" RECOURSE_BIN="$program" "${set[@]}")
  env "${set[@]}" "$PYTHON" -m pytest "${files[@]}" --collect-only -q -p no:cacheprovider \
    >/dev/null || true
  timeout --foreground --signal=INT --kill-after=30s "$E2E_SECONDS_MAX" \
    env "${set[@]}" "$PYTHON" -m pytest "${files[@]}" -q -n "$workers" --dist loadgroup \
    --junitxml="$junit" --durations=25 --durations-min=1 \
    -o cache_dir="$PWD/build/$preset/results/pytest" "$@"
}

# Ends with 1 when a sanitizer reported anything, whatever became of the test around it.
sanitizer_was_silent() {
  local reports
  mapfile -t reports < <(compgen -G "$1/sanitizer.*")
  if ((${#reports[@]} == 0)); then return 0; fi
  head -n 60 "${reports[@]:0:5}"
  say "a sanitizer reported ${#reports[@]} times; the files are $1/sanitizer.*"
  return 1
}

install_test_packages() {
  install_packages "${BUILD_PACKAGES[@]}" "${DEMO_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
  install_node
  install_npm_packages "$NODE_DIR"
  install_npm_packages "$HELM_DIR"
}

# The C++ tests that a pattern reaches, each as "FOLDER SUITE.NAME".
unit_tests_of() {
  grep -roPzh --include='*_test.cpp' '\nTEST(_F|_P)?\(\s*\w+,\s*\w+\)' tests --with-filename |
    tr -d '\n' | tr '\0' '\n' |
    sed -E 's|^tests/([^/]+)/[^:]*:TEST[_FP]*\(\s*(\w+),\s*(\w+)\)|\1 \1.\2.\3|' |
    awk -v pattern="$1" '$2 ~ pattern { sub(/^[^.]*\./, "", $2); print }' | sort -u
}

# Is it a name, or a part of one, that some end-to-end test has? What may be an expression of
# pytest counts as one that does.
reaches_e2e() {
  [[ $1 == *' '* ]] || grep -qE "def test_\w*($1)" -r tests/e2e --include='test_*.py' ||
    find tests/e2e -name "test_*.py" | grep -qE "$1"
}

# What a log of ctest says of tests that failed. One that did not end is named by its last RUN.
failures_of_ctest() {
  awk '/^\[ RUN / { run = $0; next }
       /^\[ +OK |^\[ +SKIPPED / { run = ""; next }
       / Passed | Start +[0-9]+:|^\[-----|^\{"ts"/ { next }
       { if (run != "") print run; run = ""; print }' "$1"
}

# run_unit_tests PRESET RESULTS PATTERN ["FOLDER TEST"...]: the tests that the pattern reaches.
run_unit_tests() {
  local preset=$1 results=$2 pattern=$3 seconds_max=600 without='^e2e$' folders filter
  if [[ $preset == asan || $preset == tsan ]]; then
    seconds_max=1800
    without='^(e2e|rules)$'
  fi
  if [[ -n $pattern ]]; then
    folders=$(printf '%s\n' "${@:4}" | cut -d' ' -f1 | sort -u | paste -sd'|')
    # A test with parameters has a name around it.
    filter=$(printf '%s\n' "${@:4}" | awk 'NF { printf "%s:*/%s/*:", $2, $2 }')
    pattern="^(${folders:-none})[.][0-9]+\$|$pattern"
  fi
  env ${filter:+GTEST_FILTER="$filter"} \
    ctest --test-dir "build/$preset" -j "$(nproc)" --timeout "$seconds_max" --output-on-failure \
    --label-exclude "$without" ${pattern:+-R "$pattern"} --output-junit "$results/ctest.xml" \
    >"$results/ctest.log" 2>&1 && return
  failures_of_ctest "$results/ctest.log"
  say "all that was printed stands in $results/ctest.log"
  return 1
}

# What computes gets the time that the end-to-end tests spend with waiting: a third of both cores.
# Sets unit_code and e2e_code of its caller.
# run_both PRESET RESULTS PATTERN ["FOLDER TEST"...]
run_both() {
  local preset=$1 results=$2 pattern=$3 unit_tests_pid
  run_unit_tests "$@" >"$results/ctest.failures" &
  unit_tests_pid=$!
  # Bash lets a job in the background ignore Ctrl-C.
  trap 'pkill -TERM -P "$unit_tests_pid"; exit 130' INT TERM
  e2e "$preset" "$results/e2e.xml" ${pattern:+-k "${pattern//|/ or }"} || e2e_code=$?
  # Only a pattern may leave nothing to do.
  if [[ -z $pattern ]] && ((e2e_code == 5)); then e2e_code=1; fi
  wait "$unit_tests_pid" || unit_code=$?
  trap - INT TERM
  cat "$results/ctest.failures"
}

cmd_test() {
  local preset=dev targets=()
  if [[ ${1:-} == --preset ]]; then
    preset=${2:-}
    shift $(($# < 2 ? $# : 2))
  fi
  case $preset in
    dev | asan | tsan) ;;
    *) fail "tests run with the presets dev, asan and tsan; '$preset' is none of them" ;;
  esac
  if [[ ${1:-} == -* || $# -gt 1 ]]; then
    fail "./dev test [--preset dev|asan|tsan] [PATTERN]; '$*' is no pattern"
  fi
  local pattern=${1:-} results=$PWD/build/$preset/results counted=() unit_tests=()
  if [[ -n $pattern ]]; then mapfile -t unit_tests < <(unit_tests_of "$pattern"); fi
  # One unit test needs its binary, and nothing of the rest.
  if [[ -n $pattern && -e build/$preset/build.ninja ]] && ! reaches_e2e "$pattern"; then
    mapfile -t targets < <(printf '%s\n' "${unit_tests[@]%% *}" | sed '/^$/d' | sort -u)
  fi
  if ((${#targets[@]} == 0)); then
    install_test_packages
  fi
  build "$preset" "${targets[@]/%/_test}"
  rm -rf "$results"
  mkdir -p "$results/parts"  # parts that make it at the same time fail
  local unit_code=0 e2e_code=0
  if ((${#targets[@]} > 0)); then
    step "C++ tests ($preset): $pattern" \
      run_unit_tests "$preset" "$results" "$pattern" "${unit_tests[@]}" || unit_code=$?
  else
    step "C++ and end-to-end tests ($preset)${pattern:+: $pattern}" \
      run_both "$preset" "$results" "$pattern" "${unit_tests[@]}"
    counted=("$results/e2e.xml=$e2e_code")
  fi
  counted+=("$results/ctest.xml=$unit_code")
  sanitizer_was_silent "$results" || fail "the program is not clean under $preset"
  "$PYTHON" tests/count_results.py --seconds "$SECONDS" "${counted[@]}"
}

cmd_sim() {
  local variable
  case ${1:-} in
    '') variable=RECOURSE_SIM_SEEDS=20000 ;;
    --seed) variable=RECOURSE_SIM_SEED=${2:-} ;;
    --seeds) variable=RECOURSE_SIM_SEEDS=${2:-} ;;
    *) fail "./dev sim [--seed N | --seeds N]; '$1' is neither" ;;
  esac
  if ! [[ ${variable#*=} =~ ^[1-9][0-9]{0,9}$ ]]; then
    fail "which? ./dev sim [--seed N | --seeds N]"
  fi
  install_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
  build dev sim_test
  env "$variable" build/dev/tests/sim_test --gtest_brief=1 ||
    fail "a run broke its promise; its seed is above"
}

# What the fuzzer learns stays in build/fuzz/TARGET; what it finds is printed with its file.
fuzz_target() {
  local target=$1 seconds=$2 work=build/fuzz/$1 log=build/fuzz/$1.log
  mkdir -p "$work"
  if "build/asan/tests/fuzz/${target}_fuzz" -max_total_time="$seconds" -timeout=60 \
    -rss_limit_mb=2048 -max_len=16384 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/$target-" \
    "$work" "$FUZZ_CORPUS/$target" >"$log" 2>&1; then
    say "$target: $(awk '/number_of_executed_units/ { print $2 }' "$log") inputs, nothing found"
    return
  fi
  tail -n 30 "$log" >&2
  say "$target: FOUND something; the input is in build/fuzz/$target-*." \
    "Keep it in $FUZZ_CORPUS/$target once it is mended: every build runs what is there"
  return 1
}

# One target for each core at a time.
cmd_fuzz() {
  local seconds=${1:-} only=${2:-} target failures=build/fuzz/failures
  if ! [[ $seconds =~ ^[1-9][0-9]{0,5}$ ]]; then
    fail "for how many seconds each? ./dev fuzz SECONDS [TARGET]"
  fi
  if [[ -n $only && ! -d $FUZZ_CORPUS/$only ]]; then
    fail "there is no target '$only'; there are:" \
      "$(find "$FUZZ_CORPUS" -mindepth 1 -maxdepth 1 -printf '%f ')"
  fi
  local targets=("${only:-}")
  if [[ -z $only ]]; then mapfile -t targets < <(ls "$FUZZ_CORPUS"); fi
  install_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
  build asan "${targets[@]/%/_fuzz}"
  mkdir -p build/fuzz
  : >"$failures"
  for target in "${targets[@]}"; do
    while (($(jobs -rp | wc -l) >= $(nproc))); do wait -n || true; done
    fuzz_target "$target" "$seconds" || echo "$target" >>"$failures" &
  done
  wait
  if [[ -s $failures ]]; then fail "fuzz targets that failed: $(paste -sd' ' "$failures")"; fi
}

cmd_soak() {
  if ! [[ ${1:-} =~ ^[0-9]{1,4}(\.[0-9]{1,3})?$ ]]; then
    fail "for how many hours? ./dev soak HOURS"
  fi
  install_test_packages
  build dev
  mapfile -t targets < <(ls "$FUZZ_CORPUS")
  build asan "${targets[@]/%/_fuzz}"
  exec env PYTHONDONTWRITEBYTECODE=1 "$PYTHON" tests/soak.py --hours "$1"
}

cmd_fleet() {
  install_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
  if [[ " $* " == *" --patroni "* ]]; then install_packages "${CLUSTER_PACKAGES[@]}"; fi
  build dev recourse
  exec env PYTHONDONTWRITEBYTECODE=1 RECOURSE_BIN="$PWD/build/dev/recourse" \
    "$PYTHON" tests/fleet "$@"
}

cmd_kube() {
  install_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}" "${KUBE_PACKAGES[@]}"
  install_node
  install_npm_packages "$HELM_DIR"
  build dev recourse
  exec env PYTHONDONTWRITEBYTECODE=1 RECOURSE_BIN="$PWD/build/dev/recourse" \
    "$PYTHON" tests/kube "$@"
}

# The program as one that runs here: qemu carries out its instructions and gives its calls to the
# kernel. A file that is mapped takes from it as much memory as it may grow to.
cmd_arm64() {
  install_packages "${BUILD_PACKAGES[@]}" "${DEMO_PACKAGES[@]}" "${TEST_PACKAGES[@]}" \
    "${ARM64_PACKAGES[@]}"
  unpack_arm64_root
  build dev recourse
  build arm64 recourse
  local runner=$PWD/build/arm64/run/recourse results=$PWD/build/arm64/results code=0
  mkdir -p "${runner%/*}" "$results"
  printf '#!/bin/sh\nexec qemu-aarch64-static -E "RECOURSE_LEDGER_MAX=%s" -L "%s" "%s" "$@"\n' \
    "\${RECOURSE_LEDGER_MAX:-1GiB}" "$PWD/$ARM64_ROOT" "$PWD/build/arm64/recourse" >"$runner"
  chmod 755 "$runner"
  step "end-to-end tests (arm64)" e2e arm64 "$results/e2e.xml" || code=$?
  "$PYTHON" tests/count_results.py --seconds "$SECONDS" "$results/e2e.xml=$code"
}

# Processes are killed in these tests, so each counts into a file that it maps, and many into one.
cmd_coverage() {
  install_test_packages
  local results=$PWD/build/coverage/results profiles=$PWD/build/coverage/profiles
  local programs=() code=0
  export LLVM_PROFILE_FILE=$profiles/%m%c
  build coverage
  rm -rf "$results" "$profiles"
  mkdir -p "$results" "$profiles"
  step "C++ tests (coverage)" run_unit_tests coverage "$results" '' || code=1
  step "end-to-end tests (coverage)" e2e coverage "$results/e2e.xml" || code=1
  mapfile -t programs < <(find build/coverage -type f -executable -not -name '*.so' \
    -exec sh -c 'readelf -S "$1" | grep -q __llvm_covmap' _ {} \; -print | sed 's/^/-object=/')
  llvm-profdata-19 merge -sparse -o build/coverage/all.profdata "$profiles"/*
  # The table of every file is kept; the last line is what people ask for.
  llvm-cov-19 report "${programs[@]}" -instr-profile=build/coverage/all.profdata \
    -ignore-filename-regex='^(/|build/|tests/|bench/)' >"$results/coverage.txt"
  head -n 1 "$results/coverage.txt"
  tail -n 1 "$results/coverage.txt"
  ended coverage
  return "$code"
}

cmd_mutants() {
  install_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
  exec env PYTHONDONTWRITEBYTECODE=1 "$PYTHON" tests/mutants.py --jobs "$(job_count)" "$@"
}
