#!/usr/bin/env python3
"""Checks the layers of src/ and the size of source files.

Usage: tools/check_layers.py [ROOT]

src/LAYERS names every folder (or single file) of src/ and what it may include; the longest entry that a path starts with decides. Checked:
  - every quoted #include in src/ is a path from src/ to a file that exists, in the same layer or an allowed one;
  - allowed layers come earlier in the file, so there are no cycles;
  - every file of src/ belongs to an entry (main.cc, at the top, may include anything);
  - the DEPS of a folder's kvasir_library() are allowed, and reach all that is allowed;
  - no source file is over 1,000 lines, and one over 600 says why in its first comment ("Over 600 lines because ...").
Prints one line per finding. Exit status: 0 none, 1 some.
"""
import pathlib
import re
import sys

SOURCE_SUFFIXES = {".cc", ".h", ".inc", ".cu", ".cuh", ".py"}
SIZED_FOLDERS = ("src", "tests", "bench", "fuzz", "tools")
SOFT_LINES, HARD_LINES = 600, 1000
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
LIBRARY = re.compile(r"kvasir_library\(\s*(\w+)([^)]*)\)")


def read_layers(path):
    """({entry: allowed entries}, findings)"""
    layers, findings = {}, []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        name, colon, allowed = line.partition(":")
        if not colon or name in layers:
            findings.append(f"LAYERS:{number}: expected one `folder: allowed ...` line per folder, got `{line}`")
            continue
        for other in allowed.split():
            if other not in layers:
                findings.append(f"LAYERS:{number}: {name} may not include {other}, which does not come before it")
        layers[name] = set(allowed.split())
    return layers, findings


def layer_of(path, layers):
    """The longest entry that `path` (relative to src/) lies in; None when there is none."""
    for candidate in (path, *path.parents):
        if candidate.as_posix() in layers:
            return candidate.as_posix()
    return None


def check_includes(src, layers):
    for file in sorted(p for p in src.rglob("*") if p.suffix in SOURCE_SUFFIXES):
        path = file.relative_to(src)
        if path.parent == pathlib.PurePath("."):
            continue
        layer = layer_of(path, layers)
        if layer is None:
            yield f"src/{path}: folder {path.parts[0]} is not in src/LAYERS"
            continue
        for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            target = pathlib.PurePosixPath(match[1])
            if not (src / target).is_file():
                yield f'src/{path}:{number}: "{target}" is not a file of src/; write includes from src/ on, others in <>'
                continue
            other = layer_of(target, layers)
            if other != layer and other not in layers[layer]:
                yield f"src/{path}:{number}: {layer} may not include {other} ({target})"


def check_libraries(src, layers):
    folders = {name for name in layers if "/" not in name}
    deps = {}
    for name in folders:
        file = src / name / "CMakeLists.txt"
        match = LIBRARY.search(file.read_text()) if file.is_file() else None
        if not match or match[1] != name:
            yield f"src/{name}/CMakeLists.txt: no kvasir_library({name} ...)"
            continue
        words = match[2].split()
        start = words.index("DEPS") + 1 if "DEPS" in words else len(words)
        end = words.index("LIBS") if "LIBS" in words else len(words)
        deps[name] = set(words[start:end])

    def reach(name):
        seen = set()
        stack = [name]
        while stack:
            for other in deps.get(stack.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    stack.append(other)
        return seen

    for name in sorted(deps):
        allowed = layers[name] & folders
        for other in sorted(deps[name] - allowed):
            yield f"src/{name}/CMakeLists.txt: DEPS {other} is not allowed by src/LAYERS"
        for other in sorted(allowed - reach(name)):
            yield f"src/{name}/CMakeLists.txt: src/LAYERS allows {other}, DEPS do not reach it"


def first_comment(text, suffix):
    """The leading comment (or docstring) of a file, as one line."""
    if suffix == ".py":
        match = re.search(r'"""(.*?)"""', text, re.DOTALL)
        return " ".join(match[1].split()) if match else ""
    lines = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        lines.append(line.lstrip("/ "))
    return " ".join(lines)


def check_sizes(root):
    for folder in SIZED_FOLDERS:
        for file in sorted(p for p in (root / folder).rglob("*") if p.suffix in SOURCE_SUFFIXES):
            text = file.read_text(errors="replace")
            lines = text.count("\n")
            path = file.relative_to(root)
            if lines > HARD_LINES:
                yield f"{path}: {lines} lines; the limit is {HARD_LINES}"
            elif lines > SOFT_LINES and "over 600 lines because" not in first_comment(text, file.suffix).lower():
                yield f'{path}: {lines} lines; over {SOFT_LINES} needs "Over 600 lines because ..." in its first comment'


def check(root):
    """All findings for the repository at `root`, as printable lines."""
    src = root / "src"
    layers, findings = read_layers(src / "LAYERS")
    findings += check_includes(src, layers)
    findings += check_libraries(src, layers)
    findings += check_sizes(root)
    return findings


def main(arguments):
    root = pathlib.Path(arguments[0]) if arguments else pathlib.Path(__file__).resolve().parent.parent
    findings = check(root)
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
