#!/usr/bin/env python3
"""Writes tests/data/quant_vectors.bin: blocks of every tensor type and the f32 values they decode to.

The values come from the `gguf` package's decoders, which share no code with kvasir. The layout is documented in
tests/data/README.md. The output is a function of this script alone; `--check` verifies that the committed file is it.
"""

import argparse
import os
import pathlib
import struct
import sys

try:
    import gguf
    import numpy as np
    from gguf.constants import GGML_QUANT_SIZES
    from quant_blocks import F16_SCALES, QUANTIZED_TYPES, Type, random_blocks, set_scales
except ModuleNotFoundError as error:
    print(f"{error}; needed: pip install -r tests/reference/requirements.txt (in build/venv)", file=sys.stderr)
    sys.exit(1 if os.environ.get("CI") else 77)

DEFAULT_PATH = pathlib.Path(__file__).resolve().parent.parent / "data" / "quant_vectors.bin"
BLOCKS_PER_TYPE = 8
SEED = 20250101


def float_vectors(qtype: Type) -> tuple[np.ndarray, np.ndarray]:
    """Bytes and values of the plain float types: normals, subnormals, both zeros, infinities, the largest value."""
    rng = np.random.default_rng([SEED, int(qtype)])
    if qtype == Type.F32:
        values = np.concatenate([rng.standard_normal(26), [0.0, -0.0, 1e-42, -3.4028235e38, np.inf, -np.inf]]).astype(
            "<f4"
        )
        return values.view(np.uint8), values
    if qtype == Type.F16:
        special = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x3C00, 0xBC00]
        bits = np.concatenate([special, rng.integers(0, 0x7C00, 52)]).astype("<u2")
        return bits.view(np.uint8), bits.view("<f2").astype("<f4")
    if qtype == Type.BF16:
        special = [0x0000, 0x8000, 0x0001, 0x8001, 0x007F, 0x0080, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x3F80, 0xBF80]
        bits = np.concatenate([special, rng.integers(0, 0x7F80, 52)]).astype("<u2")
        return bits.view(np.uint8), (bits.astype("<u4") << np.uint32(16)).view("<f4")
    raise ValueError(qtype.name)


def block_vectors(qtype: Type) -> tuple[np.ndarray, np.ndarray]:
    """Blocks 0 and 1: all codes zero, all codes ones. Block 2: the smallest scale. The rest: random, either sign."""
    rng = np.random.default_rng([SEED, int(qtype)])
    blocks = random_blocks(rng, qtype, BLOCKS_PER_TYPE)
    blocks[0] = 0x00
    blocks[1] = 0xFF
    scales = 2.0 ** rng.uniform(-6, -2, BLOCKS_PER_TYPE) * rng.choice([-1.0, 1.0], BLOCKS_PER_TYPE)
    scales[2] = 2.0**-24
    set_scales(blocks, qtype, scales)
    if qtype in F16_SCALES and F16_SCALES[qtype].minimum is not None:
        # Minima that do not follow from the scale, or a decoder that ignores them would pass.
        offset = F16_SCALES[qtype].minimum
        minima = rng.uniform(-4, 4, BLOCKS_PER_TYPE - 4).astype("<f2")
        blocks[4:, offset : offset + 2] = minima.view(np.uint8).reshape(-1, 2)
    if qtype == Type.MXFP4:
        blocks[3, 0] = 0  # 2^-128 and 2^-127: the scales whose decoding is a subnormal f32
        blocks[4, 0] = 1
    if qtype == Type.NVFP4:
        blocks[3:, 0:4] = rng.integers(0, 0x7F, size=(BLOCKS_PER_TYPE - 3, 4), dtype=np.uint8)
        blocks[3, 0] = 0x03  # a subnormal e4m3
    values = gguf.quants.dequantize(blocks, qtype).astype("<f4")
    if not np.isfinite(values).all():
        raise AssertionError(f"{qtype.name}: a vector is not finite")
    return blocks.reshape(-1), values.reshape(-1)


def build() -> bytes:
    types = sorted({Type.F32, Type.F16, Type.BF16, *QUANTIZED_TYPES})
    out = bytearray(b"KVQV" + struct.pack("<II", 1, len(types)))
    for qtype in types:
        make = float_vectors if qtype in (Type.F32, Type.F16, Type.BF16) else block_vectors
        data, values = make(qtype)
        block_elements, block_bytes = GGML_QUANT_SIZES[qtype]
        count = len(data) // block_bytes
        assert count * block_elements == len(values)
        out += struct.pack("<IIII", int(qtype), block_elements, block_bytes, count)
        out += data.tobytes() + bytes(-len(data) % 4)
        out += values.tobytes()
    return bytes(out)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=DEFAULT_PATH)
    parser.add_argument("--check", action="store_true", help="compare with the existing file instead of writing it")
    args = parser.parse_args()
    content = build()
    if not args.check:
        args.out.write_bytes(content)
        return 0
    if args.out.read_bytes() != content:
        print(f"{args.out} is not what this script writes with gguf and numpy {np.__version__}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
