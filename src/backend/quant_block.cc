// The scaled-integer formats of backend/quant.h taken apart into codes and scales.
#include <cstring>

#include "backend/quant.h"
#include "base/check.h"

namespace kvasir::backend {
namespace {

// IQ4_NL and IQ4_XS: a fixed non-linear grid. MXFP4: the e2m1 values, doubled to be integers.
constexpr std::array<int8_t, 16> kNonLinear = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};
constexpr std::array<int8_t, 16> kE2M1 = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

constexpr QuantCodes kOffset0{0, nullptr}, kOffset4{4, nullptr}, kOffset8{8, nullptr}, kOffset16{16, nullptr},
    kOffset32{32, nullptr}, kOffset128{128, nullptr}, kNonLinearCodes{0, &kNonLinear}, kE2M1Codes{0, &kE2M1};

const uint8_t* Bytes(const std::byte* from) {
  return reinterpret_cast<const uint8_t*>(from);
}

float HalfAt(const uint8_t* from) {
  return HalfToFloat(static_cast<Half>(from[0] | from[1] << 8));
}

// 16 bytes hold 32 nibbles: value i in the low half of byte i, value 16 + i in the high half.
void SplitNibbles(const uint8_t* from, uint8_t* codes) {
  for (int i = 0; i < 16; ++i) {
    codes[i] = from[i] & 15;
    codes[16 + i] = from[i] >> 4;
  }
}

// A 32-bit plane whose bit i is the fifth bit of code i.
void AddFifthBits(const uint8_t* from, uint8_t* codes) {
  for (int byte = 0; byte < 4; ++byte) {
    // Eight bits to eight bytes: bit i alone in byte i, then carried to the top of its byte and down to bit 4.
    const uint64_t alone = from[byte] * 0x0101010101010101u & 0x8040201008040201u;
    const uint64_t fifth = ((alone + 0x7F7F7F7F7F7F7F7Fu) >> 3) & 0x1010101010101010u;
    uint64_t eight;
    std::memcpy(&eight, codes + 8 * byte, 8);
    eight |= fifth;
    std::memcpy(codes + 8 * byte, &eight, 8);
  }
}

// Q4_K and Q5_K: eight 6-bit scales and eight 6-bit minima in 12 bytes.
void ScaleAndMin(const uint8_t* packed, int sub, QuantBlock& block) {
  int scale, minimum;
  if (sub < 4) {
    scale = packed[sub] & 63;
    minimum = packed[sub + 4] & 63;
  } else {
    scale = (packed[sub + 4] & 15) | (packed[sub - 4] >> 6) << 4;
    minimum = (packed[sub + 4] >> 4) | (packed[sub] >> 6) << 4;
  }
  block.sub_scale.fill(static_cast<int16_t>(scale));
  block.sub_min.fill(static_cast<int16_t>(minimum));
}

// Q3_K: sixteen 6-bit scales in 12 bytes: four low bits in the first eight, two high bits in the last four.
int16_t SixBitScale(const uint8_t* packed, int i) {
  const int low = i < 8 ? packed[i] & 15 : packed[i - 8] >> 4;
  const int high = (packed[8 + i % 4] >> (2 * (i / 4))) & 3;
  return static_cast<int16_t>((low | high << 4) - 32);
}

// The formats with super-blocks of 256; `sub` is the 32-value part, 0..7. Byte offsets are those of the structs in
// ggml-common.h.
void UnpackSuper(TensorType type, const uint8_t* b, int sub, QuantBlock& block) {
  const int half = sub / 4;  // 128 values share a run of code bytes
  const int shift = 2 * (sub % 4);
  uint8_t* codes = block.codes.data();
  switch (type) {
    case TensorType::kQ2_K:  // scales [16], codes [64], d, dmin
      for (int i = 0; i < 32; ++i) codes[i] = (b[16 + half * 32 + i] >> shift) & 3;
      for (size_t h = 0; h < 2; ++h) {
        const uint8_t packed = b[static_cast<size_t>(2 * sub) + h];
        block.sub_scale[h] = packed & 15;
        block.sub_min[h] = packed >> 4;
      }
      block.d = HalfAt(b + 80);
      block.m = -HalfAt(b + 82);
      return;
    case TensorType::kQ3_K:  // high bits [32], codes [64], scales [12], d
      for (int i = 0; i < 32; ++i) {
        codes[i] = static_cast<uint8_t>(((b[32 + half * 32 + i] >> shift) & 3) | ((b[i] >> sub) & 1) << 2);
      }
      for (size_t h = 0; h < 2; ++h) block.sub_scale[h] = SixBitScale(b + 96, 2 * sub + static_cast<int>(h));
      block.d = HalfAt(b + 108);
      return;
    case TensorType::kQ4_K:  // d, dmin, scales [12], codes [128]
      for (int i = 0; i < 32; ++i) codes[i] = (b[16 + sub / 2 * 32 + i] >> (4 * (sub % 2))) & 15;
      ScaleAndMin(b + 4, sub, block);
      block.d = HalfAt(b);
      block.m = -HalfAt(b + 2);
      return;
    case TensorType::kQ5_K:  // d, dmin, scales [12], high bits [32], codes [128]
      for (int i = 0; i < 32; ++i) {
        codes[i] =
            static_cast<uint8_t>(((b[48 + sub / 2 * 32 + i] >> (4 * (sub % 2))) & 15) | ((b[16 + i] >> sub) & 1) << 4);
      }
      ScaleAndMin(b + 4, sub, block);
      block.d = HalfAt(b);
      block.m = -HalfAt(b + 2);
      return;
    case TensorType::kQ6_K:  // low bits [128], high bits [64], scales [16], d
      for (int i = 0; i < 32; ++i) {
        const int low = (b[half * 64 + sub % 2 * 32 + i] >> (4 * (sub % 4 / 2))) & 15;
        const int high = (b[128 + half * 32 + i] >> shift) & 3;
        codes[i] = static_cast<uint8_t>(low | high << 4);
      }
      for (size_t h = 0; h < 2; ++h)
        block.sub_scale[h] = static_cast<int8_t>(b[192 + static_cast<size_t>(2 * sub) + h]);
      block.d = HalfAt(b + 208);
      return;
    case TensorType::kIQ4_XS: {  // d, high scale bits u16, low scale bits [4], codes [128]
      const int low = (b[4 + sub / 2] >> (4 * (sub % 2))) & 15;
      const int high = ((b[2] | b[3] << 8) >> (2 * sub)) & 3;
      SplitNibbles(b + 8 + sub * 16, codes);
      block.sub_scale.fill(static_cast<int16_t>((low | high << 4) - 32));
      block.d = HalfAt(b);
      return;
    }
    default:
      KVASIR_CHECK(false, "{} has no super-blocks", Name(type));
  }
}

bool HasSuperBlocks(TensorType type) {
  return (type >= TensorType::kQ2_K && type <= TensorType::kQ6_K) || type == TensorType::kIQ4_XS;
}

// Traits(type).block_bytes, without a search: loading a model asks once for every 32 weights.
int BlockBytes(TensorType type) {
  switch (type) {
    case TensorType::kQ4_0:
    case TensorType::kIQ4_NL:
      return 18;
    case TensorType::kQ4_1:
      return 20;
    case TensorType::kQ5_0:
      return 22;
    case TensorType::kQ5_1:
      return 24;
    case TensorType::kQ8_0:
      return 34;
    case TensorType::kQ8_1:
      return 36;
    case TensorType::kQ2_K:
      return 84;
    case TensorType::kQ3_K:
      return 110;
    case TensorType::kQ4_K:
      return 144;
    case TensorType::kQ5_K:
      return 176;
    case TensorType::kQ6_K:
      return 210;
    case TensorType::kIQ4_XS:
      return 136;
    case TensorType::kMXFP4:
      return 17;
    default:
      return Traits(type).block_bytes;
  }
}

}  // namespace

const QuantCodes* FindQuantCodes(TensorType type) {
  switch (type) {
    case TensorType::kQ4_1:
    case TensorType::kQ5_1:
    case TensorType::kQ2_K:
    case TensorType::kQ4_K:
    case TensorType::kQ5_K:
      return &kOffset0;
    case TensorType::kQ3_K:
      return &kOffset4;
    case TensorType::kQ4_0:
      return &kOffset8;
    case TensorType::kQ5_0:
      return &kOffset16;
    case TensorType::kQ6_K:
      return &kOffset32;
    case TensorType::kQ8_0:
    case TensorType::kQ8_1:
      return &kOffset128;
    case TensorType::kIQ4_NL:
    case TensorType::kIQ4_XS:
      return &kNonLinearCodes;
    case TensorType::kMXFP4:
      return &kE2M1Codes;
    default:
      return nullptr;
  }
}

QuantBlock UnpackQuantBlock(TensorType type, const std::byte* row, int64_t index) {
  const int block_bytes = BlockBytes(type);
  QuantBlock block;
  if (HasSuperBlocks(type)) {
    UnpackSuper(type, Bytes(row + index / 8 * block_bytes), static_cast<int>(index % 8), block);
    return block;
  }
  const uint8_t* b = Bytes(row + index * block_bytes);
  uint8_t* codes = block.codes.data();
  if (type != TensorType::kMXFP4) block.d = HalfAt(b);
  switch (type) {
    case TensorType::kQ4_0:
    case TensorType::kIQ4_NL:
      SplitNibbles(b + 2, codes);
      break;
    case TensorType::kQ4_1:
      block.m = HalfAt(b + 2);
      SplitNibbles(b + 4, codes);
      break;
    case TensorType::kQ5_0:
      SplitNibbles(b + 6, codes);
      AddFifthBits(b + 2, codes);
      break;
    case TensorType::kQ5_1:
      block.m = HalfAt(b + 2);
      SplitNibbles(b + 8, codes);
      AddFifthBits(b + 4, codes);
      break;
    case TensorType::kQ8_0:
    case TensorType::kQ8_1: {
      const uint8_t* from = b + (type == TensorType::kQ8_0 ? 2 : 4);
      for (int i = 0; i < 32; ++i) codes[i] = from[i] ^ 0x80;  // two's complement to offset 128
      break;
    }
    case TensorType::kMXFP4: {
      // 2^(e - 128), subnormal below 2.
      const uint32_t bits = b[0] < 2 ? 0x00200000u << b[0] : static_cast<uint32_t>(b[0] - 1) << 23;
      std::memcpy(&block.d, &bits, sizeof bits);
      SplitNibbles(b + 1, codes);
      break;
    }
    default:
      KVASIR_CHECK(false, "{} is not made of scaled integers", Name(type));
  }
  return block;
}

}  // namespace kvasir::backend
