#!/usr/bin/env python3
"""A slow, plain model of every supported architecture: token ids in, logits at every position out.

The oracle for whole-model tests. It shares no code with kvasir: files are read by the `gguf` package, weights are
decoded by `gguf.quants`, and the mathematics is numpy over whole sequences: no cache, no chunks, no spans. What it
computes is set out in the models' papers and configurations; how a GGUF file spells it is documented at
github.com/ggml-org/llama.cpp.

    reference.py MODEL.gguf --ids 1,2,3 --top 20 --json
    reference.py --batch JOBS.json --out LOGITS.npz     many runs in one process

JOBS.json is a list of {"name", "model", "ids"} and, optionally, any keyword of `Reference.logits` and "precision";
the .npz then holds one f32 array [n, vocab] per name.
"""

import argparse
import dataclasses
import json
import math
import pathlib
import sys

import gguf
import numpy as np


@dataclasses.dataclass(frozen=True)
class Family:
    """What an architecture's name implies and no key or tensor of the file says."""

    rope_pairs: str  # "adjacent": dimensions (0,1), (2,3) ... turn together; "halves": (0, n/2), (1, n/2 + 1) ...
    activation: str = "silu"
    scale_embedding: bool = False  # by sqrt(n_embd)
    renormalize_experts: bool = False  # the chosen experts' weights are made to sum to 1
    window_period: int | None = None  # every window_period-th layer attends to everything, the others to the window
    local_rope_base: float | None = None  # rope base of windowed layers; None: the model's own
    wide_query_layers: int | None = None  # a model this deep scales queries by 1/sqrt(n_embd/n_head), not head_dim


FAMILIES = {
    "llama": Family("adjacent", renormalize_experts=True),
    "qwen2": Family("halves"),
    "qwen2moe": Family("halves"),
    "qwen3": Family("halves"),
    "qwen3moe": Family("halves", renormalize_experts=True),
    "olmoe": Family("halves"),
    "phi3": Family("halves"),
    "gemma2": Family("halves", "gelu", scale_embedding=True, window_period=2, wide_query_layers=46),
    "gemma3": Family(
        "halves", "gelu", scale_embedding=True, window_period=6, local_rope_base=10000.0, wide_query_layers=62
    ),
}


def read_metadata(reader: gguf.GGUFReader) -> dict:
    return {key: field.contents() for key, field in reader.fields.items() if not key.startswith("tokenizer.")}


class Config:
    """The numbers of one model, from its metadata."""

    def __init__(self, metadata: dict):
        self.architecture = metadata["general.architecture"]
        if self.architecture not in FAMILIES:
            raise ValueError(f"architecture {self.architecture} has no reference")
        self.family = FAMILIES[self.architecture]

        def get(key, default=None):
            return metadata.get(f"{self.architecture}.{key}", default)

        self.layers = get("block_count")
        self.width = get("embedding_length")
        self.context = get("context_length")
        self.heads = get("attention.head_count")
        self.kv_heads = get("attention.head_count_kv", self.heads)
        self.head_dim = get("attention.key_length", self.width // self.heads)
        self.value_dim = get("attention.value_length", self.width // self.heads)
        self.epsilon = get("attention.layer_norm_rms_epsilon")
        self.attention_softcap = get("attn_logit_softcapping", 0.0)
        self.final_softcap = get("final_logit_softcapping", 0.0)
        self.experts = get("expert_count", 0)
        self.experts_used = get("expert_used_count", 0)
        self.renormalize_experts = get("expert_weights_norm", self.family.renormalize_experts)
        self.experts_scale = get("expert_weights_scale", 0.0) or 1.0

        wide = self.family.wide_query_layers == self.layers
        query_dim = self.width // self.heads if wide else self.head_dim
        self.query_scale = get("attention.scale") or 1.0 / math.sqrt(query_dim)

        self.window = get("attention.sliding_window", 0) or 0
        period = get("attention.sliding_window_pattern", self.family.window_period)
        if isinstance(period, list):
            self.windowed = [bool(w) for w in period]
        elif period:
            self.windowed = [layer % period < period - 1 for layer in range(self.layers)]
        else:
            self.windowed = [True] * self.layers
        if not self.window:
            self.windowed = [False] * self.layers

        self.rope_dims = get("rope.dimension_count", self.head_dim)
        self.rope_base = get("rope.freq_base", 10000.0)
        self.local_rope_base = get("rope.freq_base_swa", self.family.local_rope_base or self.rope_base)
        self.rope_scaling = get("rope.scaling.type", "none")
        self.rope_factor = get("rope.scaling.factor", 1.0) or 1.0
        if self.rope_scaling == "none" and get("rope.scaling.factor") is not None:
            self.rope_scaling = "linear"  # files from before the type was written
        self.rope_magnitude = get("rope.scaling.attn_factor", 1.0)
        self.original_context = get("rope.scaling.original_context_length", self.context)
        # Not rope.scaling.yarn_attn_factor: in some files it is what multiplies YaRN's own magnitude (`attn_factor` of
        # the authors' code: 1), in others the product (`attention_factor` of transformers). Computing it suits both.
        self.yarn_magnitude = 1.0 + 0.1 * math.log(self.rope_factor)
        self.yarn_beta_fast = get("rope.scaling.yarn_beta_fast", 32.0)
        self.yarn_beta_slow = get("rope.scaling.yarn_beta_slow", 1.0)
        self.yarn_extrapolation = get("rope.scaling.yarn_ext_factor", 1.0)


def rms_norm(x: np.ndarray, weight: np.ndarray, epsilon: float) -> np.ndarray:
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon) * weight


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def silu(x: np.ndarray) -> np.ndarray:
    return x * sigmoid(x)


def gelu(x: np.ndarray) -> np.ndarray:
    """The tanh form, which is the one these models were trained with."""
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


FLOAT_TYPES = (gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.F16, gguf.GGMLQuantizationType.BF16)
ACTIVATIONS = {"silu": silu, "gelu": gelu}


def softcap(x: np.ndarray, cap: float) -> np.ndarray:
    return cap * np.tanh(x / cap) if cap else x


def round_to_int8(x: np.ndarray) -> np.ndarray:
    """What is left of activations that are kept as int8 with one scale per 32 values of a row."""
    blocks = x.reshape(*x.shape[:-1], -1, 32)
    scale = np.max(np.abs(blocks), axis=-1, keepdims=True) / 127.0
    return (np.round(blocks / np.where(scale == 0.0, 1.0, scale)) * scale).reshape(x.shape)


def round_to_bf16(x: np.ndarray) -> np.ndarray:
    mantissa, exponent = np.frexp(x)
    return np.ldexp(np.round(mantissa * 256.0) / 256.0, exponent)


class Rope:
    """Rotation angles per position, and how to apply them.

    Pair i turns by position * base^(-2i/dims) / factors[i], further divided by the scaling factor: for all pairs
    (linear), or for the slow pairs only with a ramp in between, and with longer vectors (YaRN,
    arxiv.org/abs/2309.00071 section 3).
    """

    def __init__(self, config: Config, local: bool, factors: np.ndarray | None, positions: np.ndarray):
        self.pairs = config.family.rope_pairs
        self.dims = config.rope_dims
        base = config.local_rope_base if local else config.rope_base
        # Gemma 3 scales its global layers only; a family without a local base scales every layer.
        scaled = not (local and config.family.local_rope_base is not None)
        factor = config.rope_factor if scaled and config.rope_scaling in ("linear", "yarn") else 1.0

        pair = np.arange(self.dims // 2)
        frequency = base ** (-2.0 * pair / self.dims)
        if factors is not None:
            frequency = frequency / factors
        magnitude = config.rope_magnitude
        if config.rope_scaling == "yarn" and scaled:
            magnitude *= config.yarn_magnitude

            def pair_that_turns(times: float) -> float:
                return self.dims * math.log(config.original_context / (times * 2 * math.pi)) / (2 * math.log(base))

            first = max(0, math.floor(pair_that_turns(config.yarn_beta_fast)))
            last = min(self.dims - 1, math.ceil(pair_that_turns(config.yarn_beta_slow)))
            slow = np.clip((pair - first) / max(0.001, last - first), 0.0, 1.0)
            keep = (1.0 - slow) * config.yarn_extrapolation
            frequency = frequency / factor * (1.0 - keep) + frequency * keep
        else:
            frequency = frequency / factor
        angle = positions[:, None] * frequency
        self.cos = (np.cos(angle) * magnitude)[:, None, :]
        self.sin = (np.sin(angle) * magnitude)[:, None, :]

    def apply(self, x: np.ndarray) -> np.ndarray:
        """x: [n, heads, head_dim]. Dimensions past rope.dimension_count stay as they are."""
        rotated = x.copy()
        if self.pairs == "adjacent":
            first, second = slice(0, self.dims, 2), slice(1, self.dims, 2)
        else:
            first, second = slice(0, self.dims // 2), slice(self.dims // 2, self.dims)
        a, b = x[..., first], x[..., second]
        rotated[..., first] = a * self.cos - b * self.sin
        rotated[..., second] = a * self.sin + b * self.cos
        return rotated


class Reference:
    def __init__(self, path, precision: str = "f64"):
        self.reader = gguf.GGUFReader(path)
        self.config = Config(read_metadata(self.reader))
        self.tensors = {t.name: t for t in self.reader.tensors}
        self.dtype = {"f64": np.float64, "f32": np.float32}[precision]
        self.decoded: dict[str, np.ndarray] = {}
        self.rounding = False
        self.smallest_routing_margin = math.inf

    # Weights

    def has(self, name: str) -> bool:
        return name in self.tensors

    def weight(self, name: str) -> np.ndarray:
        """Row-major, [rows, columns] or [experts, rows, columns]: GGUF names dimensions from the innermost out."""
        if name not in self.decoded:
            tensor = self.tensors[name]
            values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            self.decoded[name] = values.reshape(tensor.shape[::-1].tolist()).astype(self.dtype)
        return self.decoded[name]

    def embedding(self, ids: list[int]) -> np.ndarray:
        tensor = self.tensors["token_embd.weight"]
        vocabulary = int(tensor.shape[1])
        bad = [i for i in ids if not 0 <= i < vocabulary]
        if bad:
            raise ValueError(f"token id {bad[0]} is not in the vocabulary of {vocabulary}")
        return gguf.quants.dequantize(tensor.data[np.asarray(ids)], tensor.tensor_type).astype(self.dtype)

    def round(self, x: np.ndarray, weight: str) -> np.ndarray:
        """Activations as a fast path would multiply them with this weight."""
        if not self.rounding:
            return x
        return round_to_bf16(x) if self.tensors[weight].tensor_type in FLOAT_TYPES else round_to_int8(x)

    def product(self, x: np.ndarray, stem: str, expert: int | None = None) -> np.ndarray:
        weight = self.weight(f"{stem}.weight")
        return self.round(x, f"{stem}.weight") @ (weight if expert is None else weight[expert]).T

    def linear(self, x: np.ndarray, stem: str) -> np.ndarray:
        y = self.product(x, stem)
        return y + self.weight(f"{stem}.bias") if self.has(f"{stem}.bias") else y

    def norm(self, x: np.ndarray, stem: str) -> np.ndarray:
        return rms_norm(x, self.weight(f"{stem}.weight"), self.config.epsilon)

    # One layer

    def project(self, x: np.ndarray, block: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """q, k, v: [n, heads, dim], normed where the model does that, not yet rotated."""
        c = self.config
        if self.has(f"{block}.attn_qkv.weight"):
            widths = (c.heads * c.head_dim, c.kv_heads * c.head_dim)
            q, k, v = np.split(self.linear(x, f"{block}.attn_qkv"), (widths[0], widths[0] + widths[1]), axis=-1)
        else:
            q, k, v = (self.linear(x, f"{block}.attn_{name}") for name in "qkv")

        def heads(y: np.ndarray, count: int, dim: int, norm: str) -> np.ndarray:
            split = y.reshape(len(x), count, dim)
            if not self.has(f"{norm}.weight"):
                return split
            # The length of its weight says whether a norm is over each head (Qwen3, Gemma 3) or over all (OLMoE).
            if len(self.weight(f"{norm}.weight")) == dim:
                return self.norm(split, norm)
            return self.norm(y, norm).reshape(split.shape)

        return (
            heads(q, c.heads, c.head_dim, f"{block}.attn_q_norm"),
            heads(k, c.kv_heads, c.head_dim, f"{block}.attn_k_norm"),
            v.reshape(len(x), c.kv_heads, c.value_dim),
        )

    def attention(self, x: np.ndarray, block: str, rope: Rope, visible: np.ndarray) -> np.ndarray:
        c = self.config
        q, k, v = self.project(x, block)
        q, k = rope.apply(q), rope.apply(k)
        if self.rounding:
            k, v = (y.astype(np.float16).astype(self.dtype) for y in (k, v))
        out = np.empty((len(x), c.heads, c.value_dim), dtype=self.dtype)
        for head in range(c.heads):
            kv_head = head // (c.heads // c.kv_heads)
            scores = softcap(q[:, head] @ k[:, kv_head].T * c.query_scale, c.attention_softcap)
            out[:, head] = softmax(np.where(visible, scores, -np.inf)) @ v[:, kv_head]
        return self.linear(out.reshape(len(x), -1), f"{block}.attn_output")

    def gated(self, gate: np.ndarray, up: np.ndarray) -> np.ndarray:
        return ACTIVATIONS[self.config.family.activation](gate) * up

    def feed_forward(self, x: np.ndarray, block: str) -> np.ndarray:
        if self.has(f"{block}.ffn_gate_inp.weight"):
            return self.mixture(x, block)
        if self.has(f"{block}.ffn_gate.weight"):
            gate, up = self.linear(x, f"{block}.ffn_gate"), self.linear(x, f"{block}.ffn_up")
        else:  # Phi-3: one matrix, the gate's rows first
            gate, up = np.split(self.linear(x, f"{block}.ffn_up"), 2, axis=-1)
        return self.linear(self.gated(gate, up), f"{block}.ffn_down")

    def expert(self, x: np.ndarray, block: str, index: int) -> np.ndarray:
        """One expert's feed-forward, from whichever of the three ways to store its weights the file uses."""
        if self.has(f"{block}.ffn_gate_up_exps.weight"):
            gate, up = np.split(self.product(x, f"{block}.ffn_gate_up_exps", index), 2, axis=-1)
            return self.product(self.gated(gate, up), f"{block}.ffn_down_exps", index)
        if self.has(f"{block}.ffn_gate_exps.weight"):
            gate, up = (self.product(x, f"{block}.ffn_{part}_exps", index) for part in ("gate", "up"))
            return self.product(self.gated(gate, up), f"{block}.ffn_down_exps", index)
        gate, up = (self.product(x, f"{block}.ffn_{part}.{index}") for part in ("gate", "up"))
        return self.product(self.gated(gate, up), f"{block}.ffn_down.{index}")

    def mixture(self, x: np.ndarray, block: str) -> np.ndarray:
        c = self.config
        probabilities = softmax(x @ self.weight(f"{block}.ffn_gate_inp.weight").T)
        ranked = np.argsort(-probabilities, axis=-1, kind="stable")  # equal ones: the lower index first
        chosen = ranked[:, : c.experts_used]
        weights = np.take_along_axis(probabilities, chosen, axis=-1)
        if c.experts_used < c.experts:
            next_best = np.take_along_axis(probabilities, ranked[:, c.experts_used, None], axis=-1)[:, 0]
            margin = float(np.min(np.log(weights[:, -1] / next_best)))
            self.smallest_routing_margin = min(self.smallest_routing_margin, margin)
        if c.renormalize_experts:
            weights = weights / np.sum(weights, axis=-1, keepdims=True)
        weights = weights * c.experts_scale

        out = np.zeros_like(x)
        for index in range(c.experts):
            rows, ranks = np.nonzero(chosen == index)
            if len(rows):
                out[rows] += weights[rows, ranks, None] * self.expert(x[rows], block, index)

        if self.has(f"{block}.ffn_gate_shexp.weight"):
            gate, up = self.linear(x, f"{block}.ffn_gate_shexp"), self.linear(x, f"{block}.ffn_up_shexp")
            shared = self.linear(self.gated(gate, up), f"{block}.ffn_down_shexp")
            if self.has(f"{block}.ffn_gate_inp_shexp.weight"):
                shared = shared * sigmoid(x @ self.weight(f"{block}.ffn_gate_inp_shexp.weight").reshape(-1, 1))
            out = out + shared
        return out

    # The whole

    def rope_factors(self, context: int) -> np.ndarray | None:
        """Divisors of the frequencies: Llama 3's, or Phi-3's for the context that the model is run with."""
        if self.has("rope_freqs.weight"):
            return self.weight("rope_freqs.weight")
        name = "rope_factors_long.weight" if context > self.config.original_context else "rope_factors_short.weight"
        return self.weight(name) if self.has(name) else None

    def logits(
        self, ids: list[int], *, last_only: bool = False, context: int | None = None, rounding: bool = False
    ) -> np.ndarray:
        """Logits [n, vocab] (of the last position only: [1, vocab]).

        `context` is the window the model is run with, by default its own; only Phi-3's choice of factors depends on it.
        `rounding` imitates an engine that multiplies int8 activations with quantized weights and bf16 ones with float
        weights, and keeps f16 keys and values: how far that moves the logits is how far a correct fast path may.
        """
        c = self.config
        self.rounding = rounding
        self.smallest_routing_margin = math.inf
        positions = np.arange(len(ids), dtype=self.dtype)
        age = positions[:, None] - positions[None, :]
        causal = age >= 0
        in_window = causal & (age < c.window) if c.window else causal
        factors = self.rope_factors(context or c.context)
        ropes = {local: Rope(c, local, factors, positions) for local in (False, True)}

        x = self.embedding(ids)
        if c.family.scale_embedding:
            x = x * math.sqrt(c.width)
        for layer in range(c.layers):
            block = f"blk.{layer}"
            local = c.windowed[layer]
            y = self.attention(self.norm(x, f"{block}.attn_norm"), block, ropes[local], in_window if local else causal)
            if self.has(f"{block}.post_attention_norm.weight"):
                y = self.norm(y, f"{block}.post_attention_norm")
            x = x + y
            y = self.feed_forward(self.norm(x, f"{block}.ffn_norm"), block)
            if self.has(f"{block}.post_ffw_norm.weight"):
                y = self.norm(y, f"{block}.post_ffw_norm")
            x = x + y
        x = self.norm(x[-1:] if last_only else x, "output_norm")
        head = "output" if self.has("output.weight") else "token_embd"
        return softcap(self.linear(x, head), c.final_softcap)


def log_sum_exp(logits: np.ndarray) -> np.ndarray:
    peak = np.max(logits, axis=-1, keepdims=True)
    return (peak + np.log(np.sum(np.exp(logits - peak), axis=-1, keepdims=True)))[..., 0]


def run_batch(jobs_path: pathlib.Path, out_path: pathlib.Path) -> None:
    results = {}
    loaded: tuple[tuple, Reference] | None = None
    for job in json.loads(jobs_path.read_text()):
        job = dict(job)
        name, ids = job.pop("name"), job.pop("ids")
        key = (job.pop("model"), job.pop("precision", "f64"))
        if loaded is None or loaded[0] != key:
            loaded = (key, Reference(*key))
        results[name] = loaded[1].logits(ids, **job).astype(np.float32)
    np.savez(out_path, **results)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=pathlib.Path)
    parser.add_argument("--ids", type=lambda text: [int(i) for i in text.split(",")])
    parser.add_argument("--top", type=int, default=20)
    parser.add_argument("--all", action="store_true", help="every position, not just the last")
    parser.add_argument("--context", type=int)
    parser.add_argument("--rounding", action="store_true", help="imitate int8 activations and f16 KV")
    parser.add_argument("--precision", choices=("f32", "f64"), default="f64")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--batch", type=pathlib.Path, metavar="JOBS.json")
    parser.add_argument("--out", type=pathlib.Path, metavar="LOGITS.npz")
    args = parser.parse_args()
    if args.batch:
        if not args.out:
            parser.error("--batch needs --out")
        run_batch(args.batch, args.out)
        return 0
    if not args.model or not args.ids:
        parser.error("a model and --ids, or --batch and --out")

    model = Reference(args.model, args.precision)
    logits = model.logits(args.ids, last_only=not args.all, context=args.context, rounding=args.rounding)
    first = 0 if args.all else len(args.ids) - 1
    rows = []
    for row, total in zip(logits, log_sum_exp(logits)):
        order = np.argsort(-row, kind="stable")[: args.top]
        top = [[int(i), float(row[i])] for i in order]
        rows.append({"position": first + len(rows), "top": top, "logsumexp": float(total)})
    if args.json:
        print(json.dumps({"model": str(args.model), "prompt_tokens": args.ids, "logits": rows}))
    else:
        for row in rows:
            print(f"position {row['position']}  logsumexp {row['logsumexp']:.5f}")
            for token, value in row["top"]:
                print(f"  {token:8d} {value:12.5f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
