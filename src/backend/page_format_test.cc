#include "backend/page_format.h"

#include <gtest/gtest.h>

namespace kvasir::backend {
namespace {

TEST(PageFormat, OffsetsFollowTheDocumentedLayout) {
  const PageFormat f16{.k = KvType::kF16, .v = KvType::kF16, .dk = 64, .dv = 64};
  EXPECT_EQ(f16.v_codes(), 4096u);
  EXPECT_EQ(f16.page_bytes(), 8192u);
  const PageFormat q8{.k = KvType::kQ8_0, .v = KvType::kQ8_0, .dk = 64, .dv = 64};
  EXPECT_EQ(q8.k_scales(), 2048u);
  EXPECT_EQ(q8.v_codes(), 2048u + 128);
  EXPECT_EQ(q8.v_scales(), 4096u + 128);
  EXPECT_EQ(q8.page_bytes(), 4352u);
  const PageFormat mixed{.k = KvType::kQ8_0, .v = KvType::kF32, .dk = 96, .dv = 20};
  EXPECT_EQ(mixed.v_codes(), 3072u + 192);
  EXPECT_EQ(mixed.page_bytes(), 3264u + 2560);
}

TEST(PageFormat, UnsupportedShapesAreNamed) {
  EXPECT_FALSE((PageFormat{.dk = 80, .dv = 80}.Unsupported()));
  EXPECT_TRUE((PageFormat{.dk = 66, .dv = 64}.Unsupported()));
  EXPECT_TRUE((PageFormat{.k = KvType::kQ8_0, .dk = 80, .dv = 80}.Unsupported()));
  EXPECT_TRUE((PageFormat{.v = KvType::kQ8_0, .dk = 64, .dv = 48}.Unsupported()));
  EXPECT_TRUE((PageFormat{.dk = 0, .dv = 64}.Unsupported()));
  EXPECT_TRUE((PageFormat{.dk = 2048, .dv = 64}.Unsupported()));
}

TEST(PageFormat, TypeNamesRoundTrip) {
  for (const KvType type : kKvTypes) EXPECT_EQ(ParseKvType(Name(type)), type);
  EXPECT_FALSE(ParseKvType("q5_1"));
}

}  // namespace
}  // namespace kvasir::backend
