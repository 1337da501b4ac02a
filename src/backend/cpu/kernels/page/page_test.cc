#include "backend/cpu/kernels/page/page.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "backend/page_rows.h"
#include "base/half.h"

namespace kvasir::backend::cpu {
namespace {

struct Variant {
  Level level;
  KvType type;
};

constexpr Variant kVariants[] = {
#define KVASIR_ENCODE(level, isa, type) {Level::level, KvType::type},
#include "backend/cpu/kernels/page/kernels.inc"
#undef KVASIR_ENCODE
};

std::vector<float> RandomVector(int dim, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(dim));
  for (float& value : x) value = normal(random) * 3;
  return x;
}

// One vector as the type stores it, the slow way.
std::vector<float> Stored(KvType type, const std::vector<float>& x) {
  std::vector<float> out = x;
  for (size_t i = 0; i < x.size(); ++i) {
    if (type == KvType::kF16) out[i] = HalfToFloat(FloatToHalf(x[i]));
    if (type != KvType::kQ8_0) continue;
    float largest = 0;
    for (size_t j = i / 32 * 32; j < i / 32 * 32 + 32; ++j) largest = std::max(largest, std::fabs(x[j]));
    const float scale = HalfToFloat(FloatToHalf(largest / 127));
    out[i] = largest == 0 ? 0 : scale * std::nearbyint(x[i] * (127 / largest));
  }
  return out;
}

// Value d of row p by the words of backend/page_format.h.
float KeyAt(const std::byte* page, const PageFormat& f, int p, int d) {
  if (f.k == KvType::kF32) return reinterpret_cast<const float*>(page)[(p / 8 * f.dk + d) * 8 + p % 8];
  if (f.k == KvType::kF16) {
    return HalfToFloat(reinterpret_cast<const Half*>(page)[((p / 8 * (f.dk / 2) + d / 2) * 8 + p % 8) * 2 + d % 2]);
  }
  return HalfToFloat(reinterpret_cast<const Half*>(page + f.k_scales())[d / 32 * 32 + p]) *
         reinterpret_cast<const int8_t*>(page)[((p / 8 * (f.dk / 4) + d / 4) * 8 + p % 8) * 4 + d % 4];
}

float ValueAt(const std::byte* page, const PageFormat& f, int p, int d) {
  const std::byte* codes = page + f.v_codes();
  if (f.v == KvType::kF32) return reinterpret_cast<const float*>(codes)[p * f.dv + d];
  if (f.v == KvType::kF16) return HalfToFloat(reinterpret_cast<const Half*>(codes)[(p / 2 * f.dv + d) * 2 + p % 2]);
  return HalfToFloat(reinterpret_cast<const Half*>(page + f.v_scales())[d / 32 * 32 + p]) *
         reinterpret_cast<const int8_t*>(codes)[(p / 4 * f.dv + d) * 4 + p % 4];
}

struct alignas(64) Line {
  std::byte bytes[64];
};

std::byte* Bytes(std::vector<Line>& page) {
  return reinterpret_cast<std::byte*>(page.data());
}

class PageTest : public testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    if (!CpuHas(GetParam().level)) GTEST_SKIP() << "this CPU lacks " << Name(GetParam().level);
  }

  static std::vector<Line> NewPage(const PageFormat& format, int fill) {
    std::vector<Line> page(format.page_bytes() / 64);
    std::memset(page.data(), fill, format.page_bytes());
    return page;
  }

  void Encode(std::byte* page, const PageFormat& f, int row, const std::vector<float>& k, const std::vector<float>& v) {
    EncodeKey(GetParam().level, f.k)(k.data(), f.dk, row, page, page + f.k_scales());
    EncodeValue(GetParam().level, f.v)(v.data(), f.dv, row, page + f.v_codes(), page + f.v_scales());
  }
};

TEST_P(PageTest, RowsComeBackAsTheTypeRoundsThem) {
  for (const int dk : {4, 12, 32, 64, 80, 96, 128, 256}) {
    const PageFormat f{.k = GetParam().type, .v = GetParam().type, .dk = dk, .dv = dk == 96 ? 64 : dk};
    if (f.Unsupported()) continue;
    std::vector<Line> page = NewPage(f, 0xEE);
    std::byte* bytes = Bytes(page);
    for (int row = 31; row >= 0; --row) {
      Encode(bytes, f, row, RandomVector(f.dk, static_cast<uint32_t>(row)),
             RandomVector(f.dv, static_cast<uint32_t>(row + 50)));
    }
    for (int row = 0; row < 32; ++row) {
      const std::vector<float> k = Stored(f.k, RandomVector(f.dk, static_cast<uint32_t>(row)));
      const std::vector<float> v = Stored(f.v, RandomVector(f.dv, static_cast<uint32_t>(row + 50)));
      for (int d = 0; d < f.dk; ++d) ASSERT_EQ(KeyAt(bytes, f, row, d), k[static_cast<size_t>(d)]) << row << " " << d;
      for (int d = 0; d < f.dv; ++d) ASSERT_EQ(ValueAt(bytes, f, row, d), v[static_cast<size_t>(d)]) << row << " " << d;
    }
  }
}

TEST_P(PageTest, LevelsWriteTheSameBytes) {
  for (const int dim : {36, 64, 96, 128}) {
    const PageFormat f{.k = GetParam().type, .v = GetParam().type, .dk = dim, .dv = dim};
    if (f.Unsupported()) continue;
    std::vector<Line> page = NewPage(f, 0);
    std::vector<Line> want = NewPage(f, 0);
    for (int row = 0; row < 32; ++row) {
      std::vector<float> x = RandomVector(dim, static_cast<uint32_t>(row));
      if (row == 3) std::fill(x.begin(), x.end(), 0.0f);
      if (row == 4) std::fill(x.begin(), x.end(), 1e-39f);
      if (row == 5) x[7] = 1e6f;
      if (row == 6) x[9] = std::numeric_limits<float>::infinity();
      if (row == 7) std::fill(x.begin(), x.end(), -3e-5f);
      Encode(Bytes(page), f, row, x, x);
      EncodeKey(Level::kRef, f.k)(x.data(), dim, row, Bytes(want), Bytes(want) + f.k_scales());
      EncodeValue(Level::kRef, f.v)(x.data(), dim, row, Bytes(want) + f.v_codes(), Bytes(want) + f.v_scales());
    }
    EXPECT_EQ(std::memcmp(page.data(), want.data(), f.page_bytes()), 0) << dim;
  }
}

TEST_P(PageTest, EncodingARowTouchesNoOtherRow) {
  const PageFormat f{.k = GetParam().type, .v = GetParam().type, .dk = 64, .dv = 96};
  for (const int row : {0, 7, 8, 30, 31}) {
    std::vector<Line> page = NewPage(f, 0);
    Encode(Bytes(page), f, row, std::vector<float>(64, 2.0f), std::vector<float>(96, 2.0f));
    for (int other = 0; other < 32; ++other) {
      for (int d = 0; d < f.dk; ++d) ASSERT_EQ(KeyAt(Bytes(page), f, other, d) != 0, other == row);
      for (int d = 0; d < f.dv; ++d) ASSERT_EQ(ValueAt(Bytes(page), f, other, d) != 0, other == row);
    }
  }
}

TEST_P(PageTest, ClearedPageIsAsIfLaterRowsWereNeverWritten) {
  const PageFormat f{.k = GetParam().type, .v = KvType::kF16, .dk = 64, .dv = 64};
  const PageFormat g{.k = KvType::kF16, .v = GetParam().type, .dk = 64, .dv = 32};
  for (const PageFormat& format : {f, g}) {
    for (const int keep : {0, 1, 7, 8, 9, 15, 18, 31, 32}) {
      std::vector<Line> full = NewPage(format, 0);
      std::vector<Line> part = NewPage(format, 0);
      for (int row = 0; row < 32; ++row) {
        const std::vector<float> k = RandomVector(format.dk, static_cast<uint32_t>(row));
        const std::vector<float> v = RandomVector(format.dv, static_cast<uint32_t>(row) + 9);
        Encode(Bytes(full), format, row, k, v);
        if (row < keep) Encode(Bytes(part), format, row, k, v);
      }
      ClearPageRows(Bytes(full), format, keep);
      ASSERT_EQ(std::memcmp(full.data(), part.data(), format.page_bytes()), 0) << keep;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, PageTest, testing::ValuesIn(kVariants), [](const auto& test) {
  return fmt::format("{}_{}", Name(test.param.level), Name(test.param.type));
});

}  // namespace
}  // namespace kvasir::backend::cpu
