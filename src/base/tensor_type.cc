#include "base/tensor_type.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/check.h"

namespace kvasir {
namespace {

constexpr std::array kTypes = {
    TensorTypeTraits{TensorType::kF32, "F32", 1, 4},
    TensorTypeTraits{TensorType::kF16, "F16", 1, 2},
    TensorTypeTraits{TensorType::kQ4_0, "Q4_0", 32, 18},
    TensorTypeTraits{TensorType::kQ4_1, "Q4_1", 32, 20},
    TensorTypeTraits{TensorType::kQ5_0, "Q5_0", 32, 22},
    TensorTypeTraits{TensorType::kQ5_1, "Q5_1", 32, 24},
    TensorTypeTraits{TensorType::kQ8_0, "Q8_0", 32, 34},
    TensorTypeTraits{TensorType::kQ8_1, "Q8_1", 32, 36},
    TensorTypeTraits{TensorType::kQ2_K, "Q2_K", 256, 84},
    TensorTypeTraits{TensorType::kQ3_K, "Q3_K", 256, 110},
    TensorTypeTraits{TensorType::kQ4_K, "Q4_K", 256, 144},
    TensorTypeTraits{TensorType::kQ5_K, "Q5_K", 256, 176},
    TensorTypeTraits{TensorType::kQ6_K, "Q6_K", 256, 210},
    TensorTypeTraits{TensorType::kQ8_K, "Q8_K", 256, 292},
    TensorTypeTraits{TensorType::kIQ2_XXS, "IQ2_XXS", 256, 66},
    TensorTypeTraits{TensorType::kIQ2_XS, "IQ2_XS", 256, 74},
    TensorTypeTraits{TensorType::kIQ3_XXS, "IQ3_XXS", 256, 98},
    TensorTypeTraits{TensorType::kIQ1_S, "IQ1_S", 256, 50},
    TensorTypeTraits{TensorType::kIQ4_NL, "IQ4_NL", 32, 18},
    TensorTypeTraits{TensorType::kIQ3_S, "IQ3_S", 256, 110},
    TensorTypeTraits{TensorType::kIQ2_S, "IQ2_S", 256, 82},
    TensorTypeTraits{TensorType::kIQ4_XS, "IQ4_XS", 256, 136},
    TensorTypeTraits{TensorType::kI8, "I8", 1, 1},
    TensorTypeTraits{TensorType::kI16, "I16", 1, 2},
    TensorTypeTraits{TensorType::kI32, "I32", 1, 4},
    TensorTypeTraits{TensorType::kI64, "I64", 1, 8},
    TensorTypeTraits{TensorType::kF64, "F64", 1, 8},
    TensorTypeTraits{TensorType::kIQ1_M, "IQ1_M", 256, 56},
    TensorTypeTraits{TensorType::kBF16, "BF16", 1, 2},
    TensorTypeTraits{TensorType::kTQ1_0, "TQ1_0", 256, 54},
    TensorTypeTraits{TensorType::kTQ2_0, "TQ2_0", 256, 66},
    TensorTypeTraits{TensorType::kMXFP4, "MXFP4", 32, 17},
    TensorTypeTraits{TensorType::kNVFP4, "NVFP4", 64, 36},
};

}  // namespace

const TensorTypeTraits* FindTensorType(uint32_t id) {
  const auto it = std::find_if(kTypes.begin(), kTypes.end(),
                               [id](const TensorTypeTraits& t) { return static_cast<uint32_t>(t.type) == id; });
  return it == kTypes.end() ? nullptr : &*it;
}

const TensorTypeTraits* FindTensorType(std::string_view name) {
  const auto it = std::find_if(kTypes.begin(), kTypes.end(), [name](const TensorTypeTraits& t) {
    return std::equal(t.name.begin(), t.name.end(), name.begin(), name.end(),
                      [](unsigned char a, unsigned char b) { return std::toupper(a) == std::toupper(b); });
  });
  return it == kTypes.end() ? nullptr : &*it;
}

const TensorTypeTraits& Traits(TensorType type) {
  const TensorTypeTraits* traits = FindTensorType(static_cast<uint32_t>(type));
  KVASIR_CHECK(traits != nullptr, "tensor type {} is not in the table", static_cast<uint32_t>(type));
  return *traits;
}

std::optional<int64_t> TensorBytes(TensorType type, int64_t elements) {
  const TensorTypeTraits& traits = Traits(type);
  if (elements < 0 || elements % traits.block_elements != 0) return std::nullopt;
  int64_t bytes = 0;
  if (__builtin_mul_overflow(elements / traits.block_elements, int64_t{traits.block_bytes}, &bytes))
    return std::nullopt;
  return bytes;
}

}  // namespace kvasir
