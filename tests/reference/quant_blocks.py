"""Random but valid blocks of every quantized tensor type.

Any bytes are valid codes; only the scale fields need care, so that the values they decode to are finite and of a
chosen size. Used for types that have no quantizer in the `gguf` package, and for the dequantizer vectors. The
decoding itself is `gguf.quants`, an implementation that is independent of kvasir's. Field offsets: ggml-common.h
(github.com/ggml-org/ggml).
"""

import dataclasses

import gguf
import numpy as np
from gguf.constants import GGML_QUANT_SIZES

Type = gguf.GGMLQuantizationType


@dataclasses.dataclass(frozen=True)
class ScaleFields:
    """Where a block keeps its floating-point scales."""

    scale: int  # byte offset of the f16 scale
    minimum: int | None = None  # byte offset of the second f16: the minimum, or what multiplies it
    centre: float = 0.0  # second field = centre * scale makes uniformly random codes decode to mean 0


# IQ1_M, MXFP4 and NVFP4 do not store a plain f16 and are written by hand below.
F16_SCALES = {
    Type.Q4_0: ScaleFields(0),
    Type.Q4_1: ScaleFields(0, 2, -7.5),
    Type.Q5_0: ScaleFields(0),
    Type.Q5_1: ScaleFields(0, 2, -15.5),
    Type.Q8_0: ScaleFields(0),
    Type.Q2_K: ScaleFields(80, 82, 1.5),
    Type.Q3_K: ScaleFields(108),
    Type.Q4_K: ScaleFields(0, 2, 7.5),
    Type.Q5_K: ScaleFields(0, 2, 15.5),
    Type.Q6_K: ScaleFields(208),
    Type.IQ1_S: ScaleFields(0),
    Type.IQ2_XXS: ScaleFields(0),
    Type.IQ2_XS: ScaleFields(0),
    Type.IQ2_S: ScaleFields(0),
    Type.IQ3_XXS: ScaleFields(0),
    Type.IQ3_S: ScaleFields(0),
    Type.IQ4_NL: ScaleFields(0),
    Type.IQ4_XS: ScaleFields(0),
    Type.TQ1_0: ScaleFields(52),
    Type.TQ2_0: ScaleFields(64),
}

QUANTIZED_TYPES = (*F16_SCALES, Type.IQ1_M, Type.MXFP4, Type.NVFP4)


def set_scales(blocks: np.ndarray, qtype: Type, scales: np.ndarray) -> None:
    """Overwrites the scale fields of `blocks` [n, block_bytes] u8 by `scales` [n], as closely as the format can."""
    scales = np.asarray(scales, dtype=np.float32)
    if qtype in F16_SCALES:
        fields = F16_SCALES[qtype]
        blocks[:, fields.scale : fields.scale + 2] = scales.astype("<f2").view(np.uint8).reshape(-1, 2)
        if fields.minimum is not None:
            minimum = (scales * fields.centre).astype("<f2")
            blocks[:, fields.minimum : fields.minimum + 2] = minimum.view(np.uint8).reshape(-1, 2)
    elif qtype == Type.IQ1_M:
        # The f16 is cut into four nibbles, low one first, each the top nibble of one of the four u16 at the end.
        bits = scales.astype("<f2").view("<u2")
        for i in range(4):
            high = 48 + 2 * i + 1
            nibble = ((bits >> (4 * i)) & 0xF).astype(np.uint8)
            blocks[:, high] = (blocks[:, high] & 0x0F) | (nibble << 4)
    elif qtype == Type.MXFP4:
        # One power of two, biased by 127; the codes are doubled, so the stored exponent is one higher than the scale's.
        exponent = np.round(np.log2(np.maximum(np.abs(scales), 1e-30))) + 128
        blocks[:, 0] = np.clip(exponent, 2, 250).astype(np.uint8)
    elif qtype == Type.NVFP4:
        # Four unsigned e4m3 (bias 7), one per 16 values; a mantissa of zero keeps them powers of two.
        exponent = np.round(np.log2(np.maximum(np.abs(scales), 1e-30))) + 8
        blocks[:, 0:4] = (np.clip(exponent, 1, 14).astype(np.uint8) << 3)[:, None]
    else:
        raise ValueError(f"{qtype.name} has no block scale")


def random_blocks(rng: np.random.Generator, qtype: Type, count: int) -> np.ndarray:
    """`count` blocks of random bytes, [count, block_bytes] u8. The scale fields are random too: call set_scales."""
    block_bytes = GGML_QUANT_SIZES[qtype][1]
    return rng.integers(0, 256, size=(count, block_bytes), dtype=np.uint8)


def random_rows(rng: np.random.Generator, qtype: Type, shape: tuple[int, ...], sigma: float) -> np.ndarray:
    """A random tensor of `shape` in `qtype` whose values have a spread of about `sigma`; u8, byte-shaped."""
    block_elements, block_bytes = GGML_QUANT_SIZES[qtype]
    if shape[-1] % block_elements != 0:
        raise ValueError(f"rows of {shape[-1]} are not whole blocks of {qtype.name} ({block_elements})")
    count = int(np.prod(shape)) // block_elements
    blocks = random_blocks(rng, qtype, count)
    probe = blocks[: min(count, 64)].copy()
    probe_scale = 1.0 if qtype in (Type.MXFP4, Type.NVFP4) else 2.0**-6
    set_scales(probe, qtype, np.full(len(probe), probe_scale))
    spread = float(np.std(gguf.quants.dequantize(probe, qtype))) / probe_scale
    # Scales that differ from block to block and in sign catch a kernel that reads the wrong block's scale.
    scales = sigma / spread * rng.uniform(0.7, 1.3, size=count) * rng.choice([-1.0, 1.0], size=count)
    set_scales(blocks, qtype, scales)
    return blocks.reshape(*shape[:-1], shape[-1] // block_elements * block_bytes)
