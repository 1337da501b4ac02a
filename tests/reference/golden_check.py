#!/usr/bin/env python3
"""Checks the reference itself: its logits for real models against an independent engine's (tests/data/golden).

KVASIR_MODELS names the folder of the model files (default ~/.cache/kvasir/models), KVASIR_GOLDEN that of the facts.
Exit codes: 0 all agree, 1 something differs, 77 no model is there or the `gguf` package is missing (CTest: skipped).
"""

import json
import os
import pathlib
import sys

try:
    import numpy as np
    from reference import Reference, log_sum_exp
except ModuleNotFoundError as error:
    print(f"{error}; needed: pip install -r tests/reference/requirements.txt (in build/venv)", file=sys.stderr)
    sys.exit(1 if os.environ.get("CI") else 77)

LONGEST_PROMPT = 400
LARGEST_FILE_BYTES = 600 << 20  # decoded, a model takes ten times as much memory


def limit(architecture: str) -> float:
    return 2e-2 if architecture.startswith("gemma") else 2e-4


def worst_difference(model: Reference, prompt: dict) -> float:
    logits = model.logits(prompt["ids"], last_only=True)
    top = max(abs(logits[0, token] - value) for token, value in prompt["top20"])
    return max(top, abs(log_sum_exp(logits)[0] - prompt["lse"]), abs(float(np.mean(logits)) - prompt["mean"]))


def main() -> int:
    default_golden = pathlib.Path(__file__).resolve().parent.parent / "data" / "golden"
    golden = pathlib.Path(os.environ.get("KVASIR_GOLDEN") or default_golden)
    models = pathlib.Path(os.environ.get("KVASIR_MODELS") or pathlib.Path.home() / ".cache/kvasir/models")
    checked = failed = 0
    for facts_path in sorted(golden.glob("*/logits_f32.json")):
        name = facts_path.parent.name
        path = models / f"{name}.gguf"
        if not path.exists() or path.stat().st_size > LARGEST_FILE_BYTES:
            print(f"{name}: skipped, {'too large' if path.exists() else 'not in ' + str(models)}")
            continue
        model = Reference(path)
        allowed = limit(model.config.architecture)
        checked += 1
        for prompt in json.loads(facts_path.read_text())["prompts"]:
            if len(prompt["ids"]) > LONGEST_PROMPT:
                continue
            worst = worst_difference(model, prompt)
            verdict = "ok" if worst <= allowed else "FAIL"
            failed += verdict == "FAIL"
            print(
                f"{name} {prompt['id']} ({len(prompt['ids'])} tokens): {worst:.1e}, limit {allowed:.0e} {verdict}",
                flush=True,
            )
    if failed:
        return 1
    return 0 if checked else 77


if __name__ == "__main__":
    sys.exit(main())
