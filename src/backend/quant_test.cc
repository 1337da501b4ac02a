#include "backend/quant.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace kvasir::backend {
namespace {

struct Vector {
  TensorType type;
  std::vector<std::byte> blocks;
  std::vector<float> values;
};

// tests/data/README.md gives the layout.
std::vector<Vector> ReadVectors() {
  std::ifstream file(KVASIR_SOURCE_DIR "/tests/data/quant_vectors.bin", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  size_t at = 4;
  const auto word = [&] {
    uint32_t value = 0;
    if (at + 4 <= bytes.size()) std::memcpy(&value, bytes.data() + at, 4);
    at += 4;
    return value;
  };
  std::vector<Vector> vectors;
  if (bytes.compare(0, 4, "KVQV") != 0 || word() != 1) return vectors;
  const uint32_t count = word();
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t id = word(), elements = word(), block_bytes = word(), blocks = word();
    Vector v{static_cast<TensorType>(id), std::vector<std::byte>(size_t{blocks} * block_bytes),
             std::vector<float>(size_t{blocks} * elements)};
    if (at + v.blocks.size() + v.values.size() * 4 > bytes.size()) return {};
    std::memcpy(v.blocks.data(), bytes.data() + at, v.blocks.size());
    at += (v.blocks.size() + 3) / 4 * 4;
    std::memcpy(v.values.data(), bytes.data() + at, v.values.size() * 4);
    at += v.values.size() * 4;
    vectors.push_back(std::move(v));
  }
  return vectors;
}

TEST(Decode, EqualsTheIndependentDecoderOnEveryType) {
  const std::vector<Vector> vectors = ReadVectors();
  ASSERT_EQ(vectors.size(), 26u) << "tests/data/quant_vectors.bin is missing or damaged";
  for (const Vector& v : vectors) {
    std::vector<float> out(v.values.size());
    Decode(v.type, v.blocks.data(), static_cast<int64_t>(out.size()), out.data());
    int wrong = 0;
    for (size_t i = 0; i < out.size() && wrong < 3; ++i) {
      if (out[i] == v.values[i]) continue;  // the sign of a zero is free
      ++wrong;
      ADD_FAILURE() << Name(v.type) << " value " << i << ": " << out[i] << " should be " << v.values[i];
    }
  }
}

TEST(UnpackQuantBlock, StepsByWholeBlocks) {
  for (const Vector& v : ReadVectors()) {
    if (FindQuantCodes(v.type) == nullptr) continue;
    // The last block, reached by its index, equals the same block at the front of a row.
    const TensorTypeTraits& traits = Traits(v.type);
    const int64_t last = static_cast<int64_t>(v.values.size()) / 32 - 1;
    const QuantBlock by_index = UnpackQuantBlock(v.type, v.blocks.data(), last);
    const std::byte* moved = v.blocks.data() + v.blocks.size() - static_cast<size_t>(traits.block_bytes);
    const QuantBlock at_front = UnpackQuantBlock(v.type, moved, last % (traits.block_elements / 32));
    EXPECT_EQ(by_index.codes, at_front.codes) << traits.name;
    EXPECT_EQ(by_index.sub_scale, at_front.sub_scale) << traits.name;
  }
}

TEST(Encode, RoundTripsWithinHalfAStep) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> x(320);
  for (float& value : x) value = normal(random);
  std::fill(x.begin() + 32, x.begin() + 64, 0.0f);
  const std::pair<TensorType, float> kSteps[] = {
      {TensorType::kF32, 0},      {TensorType::kF16, 0.001f}, {TensorType::kBF16, 0.01f}, {TensorType::kQ8_0, 0.01f},
      {TensorType::kQ5_0, 0.11f}, {TensorType::kQ5_1, 0.11f}, {TensorType::kQ4_0, 0.24f}, {TensorType::kQ4_1, 0.24f}};
  for (const auto& [type, error] : kSteps) {
    std::vector<std::byte> blocks(static_cast<size_t>(*TensorBytes(type, 320)));
    ASSERT_TRUE(Encode(type, x, blocks.data()).ok());
    std::vector<float> y(x.size());
    Decode(type, blocks.data(), 320, y.data());
    double worst = 0;
    for (size_t block = 0; block < 10; ++block) {
      float extreme = 0;
      for (size_t i = 0; i < 32; ++i) extreme = std::max(extreme, std::abs(x[block * 32 + i]));
      for (size_t i = 0; i < 32; ++i) {
        worst =
            std::max(worst, std::abs(double{y[block * 32 + i]} - double{x[block * 32 + i]}) / std::max(extreme, 1e-9f));
      }
    }
    EXPECT_LE(worst, error) << Name(type);
  }
}

TEST(Encode, NamesTheTypeItCannotWrite) {
  std::vector<float> x(256);
  std::vector<std::byte> blocks(256);
  const Status status = Encode(TensorType::kIQ2_XS, x, blocks.data());
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ErrorCode::kUnsupported);
  EXPECT_NE(status.error().message().find("IQ2_XS"), std::string::npos);
}

}  // namespace
}  // namespace kvasir::backend
