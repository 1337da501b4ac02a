#!/usr/bin/env bash
# Everything that has to pass: `make test` and CI run this. Each stage says how long it took; the last lines are CTest's summary.
#
# Builds: dev (g++, Debug, assertions; unit tests), fuzz (clang, address and undefined-behaviour sanitizers; unit tests and fuzz
# targets), release (clang, what users run; every test). Both compilers treat warnings as errors.
#
# KVASIR_MODELS   where models lie (default: ~/.cache/kvasir/models)
# KVASIR_GOLDEN   facts about more models than tests/data/golden has (default: none)
# FUZZ_SECONDS    for each fuzz target (default: 20)
set -euo pipefail
cd "$(dirname "$0")/.."

export KVASIR_MODELS=${KVASIR_MODELS:-$HOME/.cache/kvasir/models}
jobs=$(nproc)
names=()
times=()

stage() {  # NAME COMMAND...
  local name=$1 began=$SECONDS
  shift
  printf '\n== %s\n' "$name"
  if ! "$@"; then
    printf '\n== %s: FAILED after %d s\n' "$name" $((SECONDS - began))
    exit 1
  fi
  names+=("$name")
  times+=($((SECONDS - began)))
  printf '== %s: %d s\n' "$name" "${times[-1]}"
}

build() {  # PRESET
  cmake --preset "$1" -DKVASIR_WERROR=ON >build/configure.log || { cat build/configure.log; return 1; }
  # Without a terminal ninja prints a line for each file; what matters is what goes wrong.
  cmake --build "build/$1" -j "$jobs" -- --quiet
}

unit_tests() {  # PRESET
  ctest --test-dir "build/$1" -L unit -j "$jobs" --output-on-failure --timeout 300 --no-tests=error
}

fuzz_targets() {
  local target name work options
  for target in build/fuzz/bin/*_fuzz; do
    name=$(basename "$target")
    # What it finds goes to a copy, not into the repository.
    work=build/fuzz/corpus/$name
    mkdir -p "$work" build/fuzz/artifacts
    options=(-max_total_time="${FUZZ_SECONDS:-20}" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0
             -artifact_prefix="build/fuzz/artifacts/$name-")
    [ -f "fuzz/${name%_fuzz}.dict" ] && options+=(-dict="fuzz/${name%_fuzz}.dict")
    echo "$name"
    "$target" "${options[@]}" "$work" "fuzz/corpus/${name%_fuzz}" 2>build/fuzz/"$name".log || { cat build/fuzz/"$name".log; return 1; }
    grep -E 'number_of_executed_units|peak_rss_mb' build/fuzz/"$name".log
  done
}

reference_venv() {
  # The independent reference reads GGUF with its own reader, so that the two share no code.
  [ -x build/venv/bin/python ] || python3 -m venv --system-site-packages build/venv
  build/venv/bin/pip install --quiet --disable-pip-version-check -r tests/reference/requirements.txt
}

mkdir -p build
stage "layers" tools/check_layers.py
stage "format" tools/format.sh --check
stage "model" tools/fetch-model
[ ! -f tests/reference/requirements.txt ] || stage "reference venv" reference_venv
stage "build dev (g++)" build dev
stage "unit tests dev" unit_tests dev
stage "build fuzz (clang, sanitizers)" build fuzz
stage "unit tests with sanitizers" unit_tests fuzz
stage "fuzz" fuzz_targets
stage "clang-tidy" tools/tidy.sh
stage "build release (clang)" build release

printf '\n%-34s %8s\n' "stage" "seconds"
for i in "${!names[@]}"; do printf '%-34s %8d\n' "${names[$i]}" "${times[$i]}"; done
printf '%-34s %8d\n\n' "so far" "$SECONDS"

# Every label, one at a time: tests of whole models use all cores themselves.
exec ctest --test-dir build/release --output-on-failure --timeout 900 --no-tests=error
