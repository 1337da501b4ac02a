#!/usr/bin/env python3
"""Writes tiny GGUF models with random weights: one per architecture, per variant of it, per weight type.

A few hundred kilobytes each, a working byte-level tokenizer of 300 tokens, weights scaled so that activations stay
near 1, attention is far from uniform and logits differ: with weights of 0.02 every implementation of everything
agrees with every other. Keys and tensor names are those that llama.cpp's converter writes for the architecture
(gguf.constants; conversion/ in github.com/ggml-org/llama.cpp). To cover one more family or variant, add one entry to
MODELS.

    tiny_models.py --out DIR [NAME ...]
"""

import argparse
import dataclasses
import math
import pathlib
import sys

import gguf
import numpy as np
from quant_blocks import Type, random_rows

VOCABULARY = 300
LOGIT_SPREAD = 3.0  # standard deviation of the logits, roughly
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclasses.dataclass(frozen=True)
class Experts:
    count: int
    used: int
    hidden: int
    layout: str = "stacked"  # a tensor per part; "fused": gate and up in one; "separate": tensors per expert
    shared_hidden: int = 0  # > 0: an expert that every token visits, with a gate of its own


@dataclasses.dataclass(frozen=True)
class Model:
    name: str
    architecture: str
    group: str = "families"
    layers: int = 4
    width: int = 96
    heads: int = 3
    kv_heads: int = 1
    head_dim: int | None = None  # None: width / heads, and no key_length in the file
    hidden: int = 160
    weight_type: Type = Type.Q8_0
    tied: bool = False
    qkv_bias: bool = False
    qk_norm: str | None = None  # "head": over each head; "all": over the whole projection
    post_norms: bool = False
    fused_qkv: bool = False
    fused_gate_up: bool = False
    experts: Experts | None = None
    keys: dict = dataclasses.field(default_factory=dict)  # metadata, without the architecture's prefix
    rope_tensors: dict = dataclasses.field(default_factory=dict)  # name -> factors
    prompts: tuple[int, ...] = (3, 80, 640)  # lengths
    context: int = 2048  # the window to run it with
    seed: int = 0  # another one if the router of a mixture comes too near a tie

    @property
    def file_name(self) -> str:
        return f"{self.name}.gguf"

    def tokens(self) -> list[list[int]]:
        """The prompts: any tokens, control tokens among them; the same for every model."""
        return [np.random.default_rng([7, n]).integers(0, VOCABULARY, n).tolist() for n in self.prompts]


def llama3_factors(pairs: int, base: float, factor: float, original: int) -> list[float]:
    """What Llama 3's rope_scaling comes to: slow pairs are divided by `factor`, fast ones kept, a ramp between."""
    factors = []
    for i in range(pairs):
        turns = original * base ** (-i / pairs) / (2 * math.pi)  # in the original context
        keep = min(1.0, max(0.0, (turns - 1.0) / (4.0 - 1.0)))
        factors.append(1.0 / ((1.0 - keep) / factor + keep))
    return factors


def longrope_tensors(pairs: int) -> dict:
    i = np.arange(pairs)
    return {"rope_factors_short": 1.0 + 0.05 * i, "rope_factors_long": 1.0 + 1.5 * i}


def longrope_keys(context: int, original: int, dims: int) -> dict:
    return {
        "context_length": context,
        "rope.scaling.type": "longrope",
        "rope.scaling.original_context_length": original,
        "rope.scaling.attn_factor": math.sqrt(1 + math.log(context / original) / math.log(original)),
        "rope.dimension_count": dims,
    }


YARN = {"rope.scaling.type": "yarn", "rope.scaling.factor": 8.0, "rope.scaling.original_context_length": 1024}
# The key holds YaRN's own magnitude, 1 + 0.1 ln(factor), which is not to be applied twice.
YARN_NAMED = YARN | {
    "rope.scaling.yarn_attn_factor": 1.0 + 0.1 * math.log(8.0),
    "rope.scaling.yarn_beta_fast": 24.0,
    "rope.scaling.yarn_beta_slow": 2.0,
}
LINEAR = {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}
GEMMA = dict(tied=True, post_norms=True, heads=2, head_dim=64, hidden=128)
GEMMA2_KEYS = {"attention.sliding_window": 96, "attn_logit_softcapping": 4.0, "final_logit_softcapping": 7.0}
GEMMA3 = dict(GEMMA, architecture="gemma3", layers=7, qk_norm="head")
GEMMA3_KEYS = {"attention.sliding_window": 96, "rope.freq_base": 1e6}
PHI3 = dict(
    architecture="phi3", width=192, heads=2, kv_heads=1, hidden=128, fused_qkv=True, fused_gate_up=True, layers=3
)
PHI3_KEYS = {"attention.sliding_window": 0, "rope.dimension_count": 96, "rope.scaling.original_context_length": 2048}
PHI3_LONGROPE = dict(PHI3, rope_tensors=longrope_tensors(48), keys=PHI3_KEYS | longrope_keys(8192, 1024, 96))
MIXTRAL = dict(architecture="llama", layers=3, width=64, heads=4, kv_heads=2, head_dim=32)
QWEN3MOE = dict(architecture="qwen3moe", layers=3, width=64, heads=4, kv_heads=2, head_dim=32, qk_norm="head")
BY_TYPE = dict(
    architecture="llama", group="types", layers=2, width=256, heads=4, kv_heads=2, hidden=256, prompts=(3, 80)
)

FAMILY_MODELS = (
    Model("llama", "llama", keys={"rope.dimension_count": 32}),
    Model("llama-tied", "llama", tied=True, kv_heads=3),
    Model(
        "llama3-rope-freqs",
        "llama",
        keys={"rope.freq_base": 500000.0},
        rope_tensors={"rope_freqs": llama3_factors(16, 500000.0, 8.0, 64)},
    ),
    Model("mistral", "llama", width=128, heads=4, kv_heads=2, head_dim=40, keys={"rope.freq_base": 1e6}),
    Model("llama-linear", "llama", keys=LINEAR),
    Model("llama-yarn", "llama", keys=YARN),
    Model("qwen2", "qwen2", width=192, heads=6, kv_heads=2, qkv_bias=True, keys={"rope.freq_base": 1e6}),
    Model("qwen2-yarn", "qwen2", heads=3, qkv_bias=True, tied=True, keys=YARN | {"rope.freq_base": 1e6}),
    Model("qwen2-yarn-named", "qwen2", heads=3, qkv_bias=True, keys=YARN_NAMED),
    Model("qwen3", "qwen3", heads=4, kv_heads=2, head_dim=64, qk_norm="head", keys={"rope.freq_base": 1e6}),
    Model("gemma2", "gemma2", layers=5, keys=GEMMA2_KEYS, **GEMMA),
    Model("gemma2-27b", "gemma2", layers=46, keys=GEMMA2_KEYS, **GEMMA | dict(width=32, head_dim=32, hidden=32)),
    Model("gemma3", keys=GEMMA3_KEYS, **GEMMA3),
    Model("gemma3-linear", keys=GEMMA3_KEYS | LINEAR, **GEMMA3),
    Model("phi3", keys=PHI3_KEYS, **PHI3),
    Model("phi3-window", keys=PHI3_KEYS | {"attention.sliding_window": 96}, **PHI3),
    Model("phi3-longrope-short", context=1024, **PHI3_LONGROPE),
    Model("phi3-longrope-long", context=2048, **PHI3_LONGROPE),
    Model(
        "phi4-mini",
        tied=True,
        rope_tensors=longrope_tensors(24),
        keys=PHI3_KEYS | longrope_keys(8192, 1024, 48),
        **PHI3 | dict(width=128),
    ),
    Model("mixtral", experts=Experts(8, 2, 64), seed=9, **MIXTRAL),
    Model("mixtral-separate", experts=Experts(4, 2, 64, "separate"), seed=4, **MIXTRAL),
    Model(
        "qwen2moe",
        "qwen2moe",
        layers=3,
        width=128,
        heads=4,
        kv_heads=2,
        qkv_bias=True,
        experts=Experts(12, 4, 32, shared_hidden=96),
        seed=3,
        keys={"rope.freq_base": 1e6},
    ),
    Model("qwen3moe", experts=Experts(16, 4, 32), seed=4, **QWEN3MOE),
    Model("qwen3moe-fused", experts=Experts(8, 3, 64, "fused"), seed=11, **QWEN3MOE),
    Model("olmoe", "olmoe", layers=3, width=64, heads=2, kv_heads=2, qk_norm="all", experts=Experts(16, 4, 32), seed=4),
)

WEIGHT_TYPES = (
    *(Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1),
    *(Type.Q2_K, Type.Q3_K, Type.Q4_K, Type.Q5_K, Type.Q6_K, Type.IQ4_NL, Type.IQ4_XS, Type.MXFP4),
    *(Type.IQ1_S, Type.IQ1_M, Type.IQ2_XXS, Type.IQ2_XS, Type.IQ2_S, Type.IQ3_XXS, Type.IQ3_S, Type.TQ1_0, Type.TQ2_0),
)

MODELS = FAMILY_MODELS + tuple(Model(f"type-{t.name.lower()}", weight_type=t, **BY_TYPE) for t in WEIGHT_TYPES)


def byte_alphabet() -> list[str]:
    """GPT-2's spelling of bytes: printable Latin-1 stands for itself, the others are code points from 256 up."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(spare)) for byte in range(256)]


def add_tokenizer(writer: gguf.GGUFWriter) -> None:
    control = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = byte_alphabet()
    space, newline = alphabet[0x20], alphabet[0x0A]
    merges = "_ t,_ a,h e,i n,r e,o n,_t he,e r,_ s,a t,_ w,e n,_ o,o r,e s,i s,_ c,_ f,i t,o u,_ b,in g,e d,_ p,"
    merges += "a n,_a n,_an d,a l,_ m,_ d,_ in,_ _,/ /,l l,a r,_t o,_o f,1 2,l o,he ll,hell o"
    merges = merges.replace("_", space).replace("/", newline).split(",")
    tokens = control + alphabet + [merge.replace(" ", "") for merge in merges]
    assert len(tokens) == len(set(tokens)) == VOCABULARY
    types = [gguf.TokenType.CONTROL] * len(control) + [gguf.TokenType.NORMAL] * (VOCABULARY - len(control))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


class TensorWriter:
    """Random tensors of given shapes and sizes, each drawn from its own name."""

    def __init__(self, model: Model, writer: gguf.GGUFWriter):
        self.model = model
        self.writer = writer

    def random(self, name: str) -> np.random.Generator:
        return np.random.default_rng([self.model.seed, *self.model.name.encode(), *name.encode()])

    def matrix(self, name: str, shape: tuple[int, ...], gain: float, qtype: Type | None = None) -> None:
        """Rows of `shape[-1]` values, so scaled that inputs of rms 1 give outputs of rms `gain`."""
        qtype = qtype or self.model.weight_type
        sigma = gain / math.sqrt(shape[-1])
        rng = self.random(name)
        try:
            data = gguf.quants.quantize((rng.standard_normal(shape) * sigma).astype(np.float32), qtype)
        except NotImplementedError:
            data = random_rows(rng, qtype, shape, sigma)
        self.writer.add_tensor(f"{name}.weight", data, raw_dtype=qtype)

    def vector(self, name: str, length: int, mean: float, spread: float) -> None:
        values = mean + spread * self.random(name).standard_normal(length)
        self.writer.add_tensor(name, values.astype(np.float32))

    def norm(self, name: str, length: int, mean: float = 1.0) -> None:
        self.vector(f"{name}.weight", length, mean, 0.2 * mean)

    def attention(self, block: str) -> None:
        m = self.model
        head_dim = m.head_dim or m.width // m.heads
        q_rows, kv_rows = m.heads * head_dim, m.kv_heads * head_dim
        # Scores are q.k / sqrt(head_dim): with 1.5 each their spread is about 2, so a few keys get most of the weight.
        if m.fused_qkv:
            self.matrix(f"{block}.attn_qkv", (q_rows + 2 * kv_rows, m.width), 1.5)
        else:
            for part, rows in (("q", q_rows), ("k", kv_rows), ("v", kv_rows)):
                self.matrix(f"{block}.attn_{part}", (rows, m.width), 1.5)
                if m.qkv_bias:
                    self.vector(f"{block}.attn_{part}.bias", rows, 0.0, 0.7)
        if m.qk_norm:
            self.norm(f"{block}.attn_q_norm", head_dim if m.qk_norm == "head" else q_rows, 1.5)
            self.norm(f"{block}.attn_k_norm", head_dim if m.qk_norm == "head" else kv_rows, 1.5)
        self.matrix(f"{block}.attn_output", (m.width, q_rows), 1.0)

    def mixture(self, block: str) -> None:
        m, e = self.model, self.model.experts
        self.matrix(f"{block}.ffn_gate_inp", (e.count, m.width), 1.5, Type.F32)
        if e.layout == "separate":
            for i in range(e.count):
                self.matrix(f"{block}.ffn_gate.{i}", (e.hidden, m.width), 1.5)
                self.matrix(f"{block}.ffn_up.{i}", (e.hidden, m.width), 1.5)
                self.matrix(f"{block}.ffn_down.{i}", (m.width, e.hidden), 1.5)
        else:
            if e.layout == "fused":
                self.matrix(f"{block}.ffn_gate_up_exps", (e.count, 2 * e.hidden, m.width), 1.5)
            else:
                self.matrix(f"{block}.ffn_gate_exps", (e.count, e.hidden, m.width), 1.5)
                self.matrix(f"{block}.ffn_up_exps", (e.count, e.hidden, m.width), 1.5)
            self.matrix(f"{block}.ffn_down_exps", (e.count, m.width, e.hidden), 1.5)
        if e.shared_hidden:
            self.vector(f"{block}.ffn_gate_inp_shexp.weight", m.width, 0.0, 1.5 / math.sqrt(m.width))
            self.matrix(f"{block}.ffn_gate_shexp", (e.shared_hidden, m.width), 1.5)
            self.matrix(f"{block}.ffn_up_shexp", (e.shared_hidden, m.width), 1.5)
            self.matrix(f"{block}.ffn_down_shexp", (m.width, e.shared_hidden), 1.0)

    def feed_forward(self, block: str) -> None:
        m = self.model
        if m.fused_gate_up:
            self.matrix(f"{block}.ffn_up", (2 * m.hidden, m.width), 1.5)
        else:
            self.matrix(f"{block}.ffn_gate", (m.hidden, m.width), 1.5)
            self.matrix(f"{block}.ffn_up", (m.hidden, m.width), 1.5)
        self.matrix(f"{block}.ffn_down", (m.width, m.hidden), 1.0)

    def all(self) -> None:
        m = self.model
        # A tied head needs small embeddings: they are its rows.
        embedding = LOGIT_SPREAD / math.sqrt(m.width) if m.tied else 1.0
        self.matrix("token_embd", (VOCABULARY, m.width), embedding * math.sqrt(m.width))
        for layer in range(m.layers):
            block = f"blk.{layer}"
            self.norm(f"{block}.attn_norm", m.width)
            self.attention(block)
            self.norm(f"{block}.ffn_norm", m.width)
            if m.experts:
                self.mixture(block)
            else:
                self.feed_forward(block)
            if m.post_norms:
                # Gemma's embedding is large: layers that add less than it would leave every token predicting itself.
                self.norm(f"{block}.post_attention_norm", m.width, 2.0)
                self.norm(f"{block}.post_ffw_norm", m.width, 2.0)
        self.norm("output_norm", m.width)
        if not m.tied:
            self.matrix("output", (VOCABULARY, m.width), LOGIT_SPREAD)
        for name, factors in m.rope_tensors.items():
            self.writer.add_tensor(f"{name}.weight", np.asarray(factors, dtype=np.float32))


def add_metadata(model: Model, writer: gguf.GGUFWriter) -> None:
    keys = {
        "context_length": 2048,
        "embedding_length": model.width,
        "block_count": model.layers,
        "feed_forward_length": model.hidden,
        "attention.head_count": model.heads,
        "attention.head_count_kv": model.kv_heads,
        "attention.layer_norm_rms_epsilon": 1e-3,  # larger than any real one, so that leaving it out shows
        "rope.freq_base": 10000.0,
    }
    if model.head_dim:
        keys |= {"attention.key_length": model.head_dim, "attention.value_length": model.head_dim}
    if model.architecture == "llama":
        keys |= {"vocab_size": VOCABULARY, "rope.dimension_count": model.head_dim or model.width // model.heads}
    if model.architecture == "gemma2":
        del keys["rope.freq_base"]  # its converter writes none: 10000 is understood
    if e := model.experts:
        keys |= {"expert_count": e.count, "expert_used_count": e.used}
        if model.architecture in ("llama", "olmoe"):
            keys["feed_forward_length"] = e.hidden
        else:
            keys["expert_feed_forward_length"] = e.hidden
        if e.shared_hidden:
            keys["expert_shared_feed_forward_length"] = e.shared_hidden
    for key, value in (keys | model.keys).items():
        add = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}[type(value)]
        add(f"{model.architecture}.{key}", value)


def write_model(model: Model, folder: pathlib.Path) -> pathlib.Path:
    path = folder / model.file_name
    writer = gguf.GGUFWriter(path, model.architecture)
    writer.add_type("model")
    writer.add_name(model.name)
    writer.add_quantization_version(2)
    add_metadata(model, writer)
    add_tokenizer(writer)
    TensorWriter(model, writer).all()
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="which models; all when none is named")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    known = {m.name: m for m in MODELS}
    for name in args.names:
        if name not in known:
            parser.error(f"no model is called {name}; there are {', '.join(known)}")
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.names or known:
        write_model(known[name], args.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
