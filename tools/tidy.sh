#!/usr/bin/env bash
# Runs clang-tidy (.clang-tidy) over source files, two or more at a time. Tests and benches are left out: they cost most of the time
# and find least.
# Usage: tools/tidy.sh                  all of src/
#        tools/tidy.sh --changed [REV]  files that differ from REV (default: HEAD); all of them when a header does
#        tools/tidy.sh FILE...
set -euo pipefail
cd "$(dirname "$0")/.."

all() { git ls-files --cached --others --exclude-standard -- 'src/*.cc' | grep -vE '_(test|bench)\.cc$'; }

case "${1:-}" in
  "") mapfile -t files < <(all) ;;
  --changed)
    rev=${2:-HEAD}
    changed=$(git diff --name-only --diff-filter=d "$rev" -- src; git ls-files --others --exclude-standard -- src)
    if grep -qE '\.(h|inc)$' <<<"$changed"; then
      mapfile -t files < <(all)
    else
      mapfile -t files < <(grep -E '\.cc$' <<<"$changed" | grep -vE '_(test|bench)\.cc$' || true)
    fi
    ;;
  -*) sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  *) files=("$@") ;;
esac

# Only the compile commands are needed, so nothing is built.
[ -f build/tidy/compile_commands.json ] || cmake --preset tidy >/dev/null
existing=()
for file in "${files[@]}"; do [ -f "$file" ] && existing+=("$file"); done
[ ${#existing[@]} -gt 0 ] || exit 0
tool=$(command -v clang-tidy-14 || command -v clang-tidy)
printf '%s\0' "${existing[@]}" | xargs -0 -n 1 -P "$(nproc)" "$tool" --quiet -p build/tidy 2> >(grep -v 'warnings\? generated' >&2)
