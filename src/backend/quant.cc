#include "backend/quant.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace kvasir::backend {
namespace {

template <typename T>
T Read(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// `elements` values of a plain arithmetic type.
template <typename T>
void DecodePlain(const std::byte* from, int64_t elements, float* out) {
  for (int64_t i = 0; i < elements; ++i) out[i] = static_cast<float>(Read<T>(from + i * int64_t{sizeof(T)}));
}

void DecodeScaledIntegers(TensorType type, const QuantCodes& codes, const std::byte* blocks, int64_t elements,
                          float* out) {
  for (int64_t index = 0; index < elements / 32; ++index) {
    const QuantBlock block = UnpackQuantBlock(type, blocks, index);
    for (int i = 0; i < 32; ++i) {
      const size_t half = static_cast<size_t>(i / 16);
      const uint8_t stored = block.codes[static_cast<size_t>(i)];
      const int code = codes.codebook != nullptr ? (*codes.codebook)[stored] : stored - codes.offset;
      out[index * 32 + i] = (block.d * static_cast<float>(block.sub_scale[half])) * static_cast<float>(code) +
                            block.m * static_cast<float>(block.sub_min[half]);
    }
  }
}

// Unsigned e4m3, bias 7; 0x7F is not a number and counts as zero.
float E4M3ToFloat(uint8_t bits) {
  if (bits == 0x7F) return 0;
  const int exponent = (bits >> 3) & 15;
  const float mantissa = static_cast<float>(bits & 7);
  return exponent == 0 ? mantissa * 0x1p-9f : (1 + mantissa / 8) * std::ldexp(1.0f, exponent - 7);
}

// 64 values: four scales, then for each 16 values 8 bytes, low nibbles first. The codebook holds doubled e2m1 values.
void DecodeNvfp4(const std::byte* block, float* out) {
  const auto& codebook = *FindQuantCodes(TensorType::kMXFP4)->codebook;
  for (int sub = 0; sub < 4; ++sub) {
    const float scale = E4M3ToFloat(Read<uint8_t>(block + sub)) * 0.5f;
    for (int i = 0; i < 8; ++i) {
      const uint8_t pair = Read<uint8_t>(block + 4 + sub * 8 + i);
      out[sub * 16 + i] = scale * static_cast<float>(codebook[pair & 15]);
      out[sub * 16 + 8 + i] = scale * static_cast<float>(codebook[pair >> 4]);
    }
  }
}

// One block of a type that is not a row of plain values or of scaled integers.
void DecodeBlock(TensorType type, const std::byte* block, float* out) {
  switch (type) {
    case TensorType::kQ8_K: {
      const float scale = Read<float>(block);
      for (int i = 0; i < 256; ++i) out[i] = scale * static_cast<float>(Read<int8_t>(block + 4 + i));
      return;
    }
    case TensorType::kNVFP4:
      return DecodeNvfp4(block, out);
    case TensorType::kTQ1_0:
    case TensorType::kTQ2_0:
      return internal::DecodeTernary(type, block, out);
    default:
      return internal::DecodeIq(type, block, out);
  }
}

}  // namespace

void Decode(TensorType type, const std::byte* blocks, int64_t elements, float* out) {
  const TensorTypeTraits& traits = Traits(type);
  KVASIR_CHECK(elements % traits.block_elements == 0, "{} values are not whole blocks of {}", elements, traits.name);
  switch (type) {
    case TensorType::kF32:
      std::memcpy(out, blocks, static_cast<size_t>(elements) * sizeof(float));
      return;
    case TensorType::kF16:
      for (int64_t i = 0; i < elements; ++i) out[i] = HalfToFloat(Read<Half>(blocks + 2 * i));
      return;
    case TensorType::kBF16:
      for (int64_t i = 0; i < elements; ++i) out[i] = BFloat16ToFloat(Read<BFloat16>(blocks + 2 * i));
      return;
    case TensorType::kF64:
      return DecodePlain<double>(blocks, elements, out);
    case TensorType::kI8:
      return DecodePlain<int8_t>(blocks, elements, out);
    case TensorType::kI16:
      return DecodePlain<int16_t>(blocks, elements, out);
    case TensorType::kI32:
      return DecodePlain<int32_t>(blocks, elements, out);
    case TensorType::kI64:
      return DecodePlain<int64_t>(blocks, elements, out);
    default:
      break;
  }
  if (const QuantCodes* codes = FindQuantCodes(type)) return DecodeScaledIntegers(type, *codes, blocks, elements, out);
  for (int64_t i = 0; i < elements; i += traits.block_elements, blocks += traits.block_bytes) {
    DecodeBlock(type, blocks, out + i);
  }
}

}  // namespace kvasir::backend
