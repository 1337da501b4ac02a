#!/usr/bin/env python3
"""Compares kvasir with the reference on every tiny model: all logits at every position.

For each model of tiny_models.MODELS and each of its prompts:
  exact  `kvasir run --compute f32`.
         Limit: |difference| <= F32_LIMIT times the standard deviation of the reference's logits.
  fast   `kvasir run`, at each KVASIR_ISA level of this machine.
         Limit: KL(reference || kvasir), averaged over the positions of all prompts, at most KL_FACTOR times what
         rounding activations and KV does to the reference itself (Reference.logits). In a mixture of experts the
         median stands for the mean: rounding sometimes picks another expert, and those few positions would decide.

Exit codes: 0 all agree, 1 something differs or does not run, 77 the `gguf` package is missing (skipped; in CI: 1).
"""

import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the matrices are tiny

try:
    import numpy as np
    from reference import Reference, log_sum_exp
    from tiny_models import MODELS, VOCABULARY, Model, write_model
except ModuleNotFoundError as error:
    print(f"{error}; needed: pip install -r tests/reference/requirements.txt (in build/venv)", file=sys.stderr)
    sys.exit(1 if os.environ.get("CI") else 77)

F32_LIMIT = 3e-4
KL_FACTOR = 3.0
KL_FLOOR = 1e-5  # two f32 computations of the same thing
SMALLEST_ROUTING_MARGIN = 1e-4  # log of the probability ratio of the last expert chosen to the first one not
TIMEOUT_S = 300


class Failure(Exception):
    """Something a person has to look at: one sentence."""


@dataclasses.dataclass
class Kvasir:
    binary: pathlib.Path

    def call(self, arguments: list[str], isa: str | None = None) -> dict:
        environment = dict(os.environ)
        environment.pop("KVASIR_ISA", None)
        if isa:
            environment["KVASIR_ISA"] = isa
        command = [str(self.binary), *arguments]
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise Failure(f"`{arguments[0]}` did not end within {TIMEOUT_S} s") from None
        if done.returncode != 0:
            said = " | ".join(done.stderr.strip().splitlines()[-3:]) or "nothing on stderr"
            raise Failure(f"`{arguments[0]}` exits with {done.returncode}: {said}")
        try:
            return json.loads(done.stdout)
        except json.JSONDecodeError as error:
            raise Failure(f"`{arguments[0]} --json` does not print one JSON object: {error}") from None

    def levels(self) -> list[str]:
        return self.call(["doctor", "--json"])["levels"]

    def logits(self, model: Model, path: pathlib.Path, ids: list[int], f32: bool, isa: str | None) -> np.ndarray:
        """[n, vocabulary]. Raises Failure if the answer is not a full set of logits."""
        arguments = ["run", "-m", str(path), "--ids", ",".join(map(str, ids)), "-n", "0", "--temp", "0", "-t", "1"]
        arguments += ["-c", str(model.context), "--logits-top", f"{VOCABULARY}@all", "--json"]
        arguments += ["--compute", "f32"] if f32 else ["-ctk", "f16", "-ctv", "f16"]
        answer = self.call(arguments, isa)
        if answer["prompt_tokens"] != ids:
            raise Failure("prompt_tokens are not the ids given")
        if [row["position"] for row in answer["logits"]] != list(range(len(ids))):
            raise Failure(f"logits are not those of positions 0..{len(ids) - 1}")
        out = np.full((len(ids), VOCABULARY), np.nan)
        for position, row in enumerate(answer["logits"]):
            tokens, values = zip(*row["top"])
            out[position, list(tokens)] = values
        if not np.isfinite(out).all():
            position, token = np.argwhere(~np.isfinite(out))[0]
            raise Failure(f"the logit of token {token} at position {position} is missing or not finite")
        stated = np.array([row["logsumexp"] for row in answer["logits"]])
        if np.max(np.abs(stated - log_sum_exp(out))) > 1e-3:
            raise Failure("logsumexp is not that of the logits")
        return out


def divergence(reference: np.ndarray, other: np.ndarray) -> np.ndarray:
    """KL(reference || other) per position."""
    p = reference - log_sum_exp(reference)[:, None]
    q = other - log_sum_exp(other)[:, None]
    return np.sum(np.exp(p) * (p - q), axis=-1)


def exact_error(truth: list[np.ndarray], answers: list[np.ndarray]) -> float:
    worst = 0.0
    for reference, logits in zip(truth, answers):
        error = np.abs(logits - reference) / np.std(reference)
        worst = max(worst, float(np.max(error)))
        if np.max(error) > F32_LIMIT:
            position, token = np.unravel_index(np.argmax(error), error.shape)
            first = int(np.argmax(np.max(error, axis=-1) > F32_LIMIT))
            raise Failure(
                f"prompt of {len(reference)}: f32 logits are off by {np.max(error):.2g} standard deviations (limit "
                f"{F32_LIMIT}), worst at position {position}, token {token}: {logits[position, token]:.4f}, reference "
                f"{reference[position, token]:.4f}; the first position over the limit is {first}"
            )
    return worst


def typical(model: Model, divergences: list[np.ndarray]) -> float:
    everything = np.concatenate(divergences)
    return float(np.median(everything) if model.experts else np.mean(everything))


def check(model: Model, kvasir: Kvasir, levels: list[str], folder: pathlib.Path) -> tuple[list[str], list[str]]:
    """The cells of the model's row in the table, and what is wrong with it."""
    path = write_model(model, folder)
    reference = Reference(path)
    prompts = model.tokens()
    truth, rounded, failures = [], [], []
    for ids in prompts:
        truth.append(reference.logits(ids, context=model.context))
        margin = reference.smallest_routing_margin
        if margin < SMALLEST_ROUTING_MARGIN:
            failures.append(f"the router comes within {margin:.1g} of a tie: give the model another seed")
        rounded.append(divergence(truth[-1], reference.logits(ids, context=model.context, rounding=True)))

    cells = []
    try:
        answers = [kvasir.logits(model, path, ids, True, None) for ids in prompts]
        cells.append(f"{exact_error(truth, answers):.1e}")
    except Failure as failure:
        cells.append("FAIL")
        failures.append(f"exact: {failure}")

    limit = KL_FACTOR * typical(model, rounded) + KL_FLOOR
    cells.append(f"{limit:.1e}")
    for level in levels:
        try:
            answers = [kvasir.logits(model, path, ids, False, level) for ids in prompts]
            parts = [divergence(t, a) for t, a in zip(truth, answers)]
            value = typical(model, parts)
            if value > limit:
                by_prompt = ", ".join(f"{np.mean(part):.2g} for {len(part)} tokens" for part in parts)
                raise Failure(f"KL {value:.2g} to the reference (limit {limit:.2g}); means: {by_prompt}")
            cells.append(f"{value:.1e}")
        except Failure as failure:
            cells.append("FAIL")
            failures.append(f"fast, {level}: {failure}")
    return cells, failures


def print_row(name: str, cells: list[str]) -> None:
    print(f"{name:22}" + "".join(f"{cell:>10}" for cell in cells), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kvasir", type=pathlib.Path, required=True, help="the built binary")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="a folder for the models")
    parser.add_argument("--group", choices=sorted({m.group for m in MODELS}))
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--isa", nargs="+", metavar="LEVEL", help="instead of every level that doctor lists")
    args = parser.parse_args()

    known = {m.name for m in MODELS}
    if unknown := sorted(set(args.only or ()) - known):
        parser.error(f"no model is called {unknown[0]}; there are {', '.join(sorted(known))}")
    models = [m for m in MODELS if args.group in (None, m.group) and (not args.only or m.name in args.only)]
    if not models:
        parser.error(f"none of these models is in the group {args.group}")
    args.work.mkdir(parents=True, exist_ok=True)
    kvasir = Kvasir(args.kvasir)
    started = time.monotonic()
    levels = args.isa or kvasir.levels()
    print(f"f32: largest difference in standard deviations, limit {F32_LIMIT}; levels: KL to the reference")
    print_row("model", ["f32", "KL limit", *levels])
    failed = 0
    for model in models:
        cells, failures = check(model, kvasir, levels, args.work)
        print_row(model.name, cells)
        for failure in failures:
            print(f"  {model.name}: {failure}", flush=True)
        failed += bool(failures)
    print(f"{len(models) - failed} of {len(models)} models agree, {time.monotonic() - started:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        print(failure, file=sys.stderr)
        sys.exit(1)
