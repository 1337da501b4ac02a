#!/usr/bin/env bash
# Formats every C++ file of the repository with clang-format 14, or with --check only names those that are not formatted.
# Usage: tools/format.sh [--check]
set -euo pipefail
cd "$(dirname "$0")/.."

tool=$(command -v clang-format-14 || command -v clang-format)
if ! "$tool" --version | grep -q 'version 14\.'; then
  echo "format.sh: needs clang-format 14 (versions differ in what they do), got: $("$tool" --version)" >&2
  exit 2
fi

mode=(-i)
case "${1:-}" in
  --check) mode=(--dry-run --Werror -ferror-limit=1) ;;
  "") ;;
  *) echo "usage: tools/format.sh [--check]" >&2; exit 2 ;;
esac

# Files that git knows or would add: what is ignored is not ours.
git ls-files -z --cached --others --exclude-standard -- '*.cc' '*.h' '*.cu' '*.cuh' |
  while IFS= read -r -d '' file; do [ -f "$file" ] && printf '%s\0' "$file"; done |
  xargs -0 -r -n 32 -P "$(nproc)" "$tool" "${mode[@]}"
