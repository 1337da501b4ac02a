#include "backend/cpu/kernels/attend/attend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/kernels/attend/attend_variants.h"
#include "backend/cpu/kernels/page/page.h"
#include "backend/page_rows.h"
#include "base/half.h"

namespace kvasir::backend::cpu {
namespace {

struct Shape {
  int dk = 64, dv = 64, group = 1, rows = 1, keys = 32, first_position = 31, span_begin = 0, window = 0;
  float softcap = 0;
  float spread = 1;        // of the scores
  float value_growth = 1;  // from one position to the next
};

std::string Describe(const Shape& s) {
  return fmt::format("dk {} dv {} group {} rows {} keys {} first {} span {} window {} softcap {} spread {}", s.dk, s.dv,
                     s.group, s.rows, s.keys, s.first_position, s.span_begin, s.window, s.softcap, s.spread);
}

// A page's bytes read by the words of backend/page_format.h, one value at a time.
double DecodedKey(const std::byte* page, const PageFormat& f, int p, int d) {
  const int g = f.k == KvType::kF32 ? 1 : (f.k == KvType::kF16 ? 2 : 4);
  const int index = p / 8 * (f.dk / g) * 8 * g + d / g * 8 * g + p % 8 * g + d % g;
  switch (f.k) {
    case KvType::kF32:
      return reinterpret_cast<const float*>(page)[index];
    case KvType::kF16:
      return HalfToFloat(reinterpret_cast<const Half*>(page)[index]);
    case KvType::kQ8_0:
      break;
  }
  const Half scale = reinterpret_cast<const Half*>(page + f.k_scales())[d / 32 * 32 + p];
  return double{HalfToFloat(scale)} * reinterpret_cast<const int8_t*>(page)[index];
}

double DecodedValue(const std::byte* page, const PageFormat& f, int p, int d) {
  const int g = f.v == KvType::kF32 ? 1 : (f.v == KvType::kF16 ? 2 : 4);
  const int index = p / g * f.dv * g + d * g + p % g;
  const std::byte* codes = page + f.v_codes();
  switch (f.v) {
    case KvType::kF32:
      return reinterpret_cast<const float*>(codes)[index];
    case KvType::kF16:
      return HalfToFloat(reinterpret_cast<const Half*>(codes)[index]);
    case KvType::kQ8_0:
      break;
  }
  const Half scale = reinterpret_cast<const Half*>(page + f.v_scales())[d / 32 * 32 + p];
  return double{HalfToFloat(scale)} * reinterpret_cast<const int8_t*>(codes)[index];
}

// Random pages and queries, and what a partial of them must be.
class Problem {
 public:
  Problem(KvType k, KvType v, const Shape& shape)
      : shape_(shape), format_{.k = k, .v = v, .dk = shape.dk, .dv = shape.dv} {
    std::mt19937 random(static_cast<uint32_t>(shape.dk * 7 + shape.keys + shape.rows));
    std::normal_distribution<float> normal;
    pages_.resize(kSpanBlocks * format_.page_bytes() / sizeof(float) + 16);
    std::vector<float> key(static_cast<size_t>(shape.dk)), value(static_cast<size_t>(shape.dv));
    float growth = 1;
    for (int p = 0; p < shape.keys; ++p) {
      for (float& x : key) x = normal(random);
      for (float& x : value) x = (normal(random) + 0.5f) * growth;
      growth *= shape.value_growth;
      std::byte* page = Page(p / 32);
      EncodeKey(Level::kRef, k)(key.data(), shape.dk, p % 32, page, page + format_.k_scales());
      EncodeValue(Level::kRef, v)(value.data(), shape.dv, p % 32, page + format_.v_codes(), page + format_.v_scales());
    }
    for (int p = 0; p < shape.keys; ++p) {
      for (int d = 0; d < shape.dk; ++d) keys_.push_back(DecodedKey(Page(p / 32), format_, p % 32, d));
      for (int d = 0; d < shape.dv; ++d) values_.push_back(DecodedValue(Page(p / 32), format_, p % 32, d));
    }
    q_.resize(static_cast<size_t>(shape.rows * shape.group * shape.dk));
    const float scale = shape.spread / std::sqrt(static_cast<float>(shape.dk));
    for (float& x : q_) x = normal(random) * scale;
  }

  std::byte* Page(int index) {
    const auto base = (reinterpret_cast<uintptr_t>(pages_.data()) + 63) / 64 * 64;
    return reinterpret_cast<std::byte*>(base) + static_cast<size_t>(index) * format_.page_bytes();
  }

  // Rows [row_begin, row_end), heads [head_begin, head_end) of the group; records in (row, head) order.
  std::vector<float> Attend(Level level, int row_begin, int row_end, int head_begin, int head_end) {
    const int heads = head_end - head_begin;
    SpanTask task{.q = q_.data() + (row_begin * shape_.group + head_begin) * shape_.dk,
                  .q_stride = shape_.group * shape_.dk,
                  .rows = row_end - row_begin,
                  .group = heads,
                  .dk = shape_.dk,
                  .dv = shape_.dv,
                  .first_position = shape_.first_position + row_begin,
                  .span_begin = shape_.span_begin,
                  .keys = shape_.keys,
                  .window = shape_.window,
                  .softcap = shape_.softcap,
                  .k_scales = format_.k_scales(),
                  .v_codes = format_.v_codes(),
                  .v_scales = format_.v_scales(),
                  .partial_stride = PartialStride(shape_.dv)};
    for (int i = 0; i * 32 < shape_.keys; ++i) task.pages[i] = Page(i);
    std::vector<float> partial(static_cast<size_t>((row_end - row_begin) * heads * PartialStride(shape_.dv)), -7.0f);
    task.partial = partial.data();
    AttendSpan(level, format_.k, format_.v)(task);
    return partial;
  }

  std::vector<float> AttendAll(Level level) { return Attend(level, 0, shape_.rows, 0, shape_.group); }

  // Compares every record with softmax in double over the decoded pages.
  void ExpectRight(Level level) {
    const std::vector<float> got = AttendAll(level);
    const bool rounds_q = level != Level::kRef && format_.k == KvType::kQ8_0;
    const bool rounds_p = level != Level::kRef && format_.v == KvType::kQ8_0;
    const double score_tolerance = (rounds_q ? 3e-4 : 1e-5) * (1 + shape_.spread);
    for (int row = 0; row < shape_.rows; ++row) {
      for (int head = 0; head < shape_.group; ++head) {
        const float* record = got.data() + (row * shape_.group + head) * PartialStride(shape_.dv);
        const int position = shape_.first_position + row;
        std::vector<std::pair<int, double>> scores;
        double m = -std::numeric_limits<double>::infinity();
        for (int p = 0; p < shape_.keys; ++p) {
          const int at = shape_.span_begin + p;
          if (at > position || (shape_.window > 0 && at <= position - shape_.window)) continue;
          double s = 0;
          for (int d = 0; d < shape_.dk; ++d) {
            s += double{q_[static_cast<size_t>((row * shape_.group + head) * shape_.dk + d)]} *
                 keys_[static_cast<size_t>(p * shape_.dk + d)];
          }
          if (shape_.softcap > 0) s = shape_.softcap * std::tanh(s / double{shape_.softcap});
          scores.emplace_back(p, s);
          m = std::max(m, s);
        }
        if (scores.empty()) {
          for (int c = 0; c < shape_.dv; ++c) ASSERT_EQ(record[c], 0.0f);
          ASSERT_EQ(record[shape_.dv], -std::numeric_limits<float>::infinity());
          ASSERT_EQ(record[shape_.dv + 1], 0.0f);
          continue;
        }
        ASSERT_NEAR(record[shape_.dv], m, score_tolerance);
        double l = 0;
        for (auto& [p, s] : scores) {
          s = std::exp(s - m);
          l += s;
        }
        ASSERT_NEAR(std::log(double{record[shape_.dv + 1]}) + double{record[shape_.dv]}, std::log(l) + m,
                    score_tolerance);
        std::vector<double> o(static_cast<size_t>(shape_.dv));
        for (const auto& [p, s] : scores) {
          for (size_t c = 0; c < o.size(); ++c) o[c] += s / l * values_[static_cast<size_t>(p) * o.size() + c];
        }
        for (int c = 0; c < shape_.dv; ++c) {
          ASSERT_NEAR(record[c] / record[shape_.dv + 1], o[static_cast<size_t>(c)],
                      4 * score_tolerance + (rounds_p ? 1e-3 : 1e-5))
              << "row " << row << " head " << head << " channel " << c;
        }
        for (int c = shape_.dv + 2; c < PartialStride(shape_.dv); ++c) ASSERT_EQ(record[c], 0.0f);
      }
    }
  }

 private:
  Shape shape_;
  PageFormat format_;
  std::vector<float> pages_;
  std::vector<double> keys_;    // [keys, dk]
  std::vector<double> values_;  // [keys, dv]
  std::vector<float> q_;        // [rows, group, dk]
};

class AttendTest : public testing::TestWithParam<AttendVariant> {
 protected:
  void SetUp() override {
    if (!CpuHas(GetParam().level)) GTEST_SKIP() << "this CPU lacks " << Name(GetParam().level);
  }
  Level level() const { return GetParam().level; }
  bool Stores(const Shape& s) const {
    return !PageFormat{.k = GetParam().k, .v = GetParam().v, .dk = s.dk, .dv = s.dv}.Unsupported();
  }
  void ExpectRight(const Shape& shape) {
    if (!Stores(shape)) return;
    SCOPED_TRACE(Describe(shape));
    Problem(GetParam().k, GetParam().v, shape).ExpectRight(level());
  }
};

TEST_P(AttendTest, DecodeOfEveryGroupAndHeadDimAgreesWithDoubles) {
  for (const int group : {1, 2, 3, 4, 5, 6, 7, 8, 16}) {
    ExpectRight({.group = group, .keys = 256, .first_position = 255});
  }
  for (const int dim : {80, 96, 128, 256}) {
    ExpectRight({.dk = dim, .dv = dim, .group = 4, .keys = 64, .first_position = 63});
    ExpectRight({.dk = dim, .dv = dim, .group = 7, .keys = 64, .first_position = 63});
  }
}

TEST_P(AttendTest, OddHeadDimsAgreeWithDoubles) {
  for (const int dim : {4, 12, 36, 44, 100, 112}) {
    ExpectRight({.dk = dim, .dv = dim, .group = 5, .keys = 40, .first_position = 39});
  }
  ExpectRight({.dk = 192, .dv = 128, .group = 3, .keys = 70, .first_position = 69});
  ExpectRight({.dk = 64, .dv = 160, .group = 3, .keys = 70, .first_position = 69});
  ExpectRight({.dk = kMaxHeadDim, .dv = kMaxHeadDim, .group = 8, .keys = 33, .first_position = 32});
}

TEST_P(AttendTest, PartSpansAgreeWithDoubles) {
  for (const int keys : {1, 31, 32, 33, 255, 256}) {
    ExpectRight({.group = 7, .keys = keys, .first_position = 512 + keys - 1, .span_begin = 512});
  }
}

TEST_P(AttendTest, RowsSeeNoKeyAfterThem) {
  for (const auto& [rows, first] : {std::pair{2, 0}, {5, 20}, {33, 0}, {33, 63}, {64, 20}}) {
    ExpectRight({.group = 3, .rows = rows, .keys = first + rows, .first_position = first});
  }
  // The span starts after the first rows.
  ExpectRight({.group = 2, .rows = 64, .keys = 40, .first_position = 232, .span_begin = 256});
}

TEST_P(AttendTest, RowsSeeOnlyTheirWindow) {
  for (const int window : {1, 7, 32, 100}) {
    ExpectRight({.group = 2, .rows = 33, .keys = 256, .first_position = 240, .window = window});
    // The window leaves the span part of the way.
    ExpectRight({.group = 2, .rows = 33, .keys = 256, .first_position = 256 + window - 20, .window = window});
  }
}

TEST_P(AttendTest, SoftcapBoundsScores) {
  ExpectRight(
      {.dk = 128, .dv = 128, .group = 4, .rows = 5, .keys = 100, .first_position = 95, .softcap = 2, .spread = 4});
}

TEST_P(AttendTest, PeakedScoresKeepTheirTails) {
  ExpectRight({.group = 4, .rows = 3, .keys = 256, .first_position = 253, .spread = 12});
}

TEST_P(AttendTest, BitsDoNotDependOnRowsOrHeadsBesideThem) {
  for (const Shape& shape : {Shape{.dk = 128, .dv = 128, .group = 7, .rows = 17, .keys = 256, .first_position = 200},
                             Shape{.group = 3, .rows = 40, .keys = 200, .first_position = 110, .window = 60},
                             Shape{.dk = 96,
                             .dv = 64,
                             .group = 8,
                             .rows = 5,
                             .keys = 77,
                             .first_position = 60,
                             .softcap = 3,
                             .value_growth = 1.05f}}) {
    SCOPED_TRACE(Describe(shape));
    Problem problem(GetParam().k, GetParam().v, shape);
    const std::vector<float> all = problem.AttendAll(level());
    const size_t record = static_cast<size_t>(PartialStride(shape.dv));
    for (int row = 0; row < shape.rows; ++row) {
      const std::vector<float> one = problem.Attend(level(), row, row + 1, 0, shape.group);
      const size_t at = static_cast<size_t>(row * shape.group) * record;
      ASSERT_EQ(std::memcmp(one.data(), all.data() + at, one.size() * sizeof(float)), 0) << "row " << row;
      const int head = row % shape.group;
      const std::vector<float> alone = problem.Attend(level(), row, row + 1, head, head + 1);
      ASSERT_EQ(std::memcmp(alone.data(), all.data() + at + static_cast<size_t>(head) * record, record * sizeof(float)),
                0)
          << "row " << row << " head " << head;
    }
    for (const int cut : {1, 2, shape.rows / 2}) {
      const std::vector<float> tail = problem.Attend(level(), cut, shape.rows, 0, shape.group);
      ASSERT_EQ(std::memcmp(tail.data(), all.data() + static_cast<size_t>(cut * shape.group) * record,
                            tail.size() * sizeof(float)),
                0);
    }
  }
}

// Keys that a row cannot see must be as good as absent for it, whatever they hold.
TEST_P(AttendTest, LaterKeysChangeNoBit) {
  const Shape shape{.group = 3, .rows = 33, .keys = 256, .first_position = 90, .value_growth = 1.05f};
  Problem problem(GetParam().k, GetParam().v, shape);
  const std::vector<float> before = problem.Attend(level(), 0, 1, 0, 3);
  const std::vector<float> all = problem.AttendAll(level());
  EXPECT_EQ(std::memcmp(before.data(), all.data(), before.size() * sizeof(float)), 0);
  const PageFormat format{.k = GetParam().k, .v = GetParam().v, .dk = shape.dk, .dv = shape.dv};
  // Row 0 stands at position 90, row 26 of its page.
  ClearPageRows(problem.Page(2), format, 27);
  for (int page = 3; page < 8; ++page) std::memset(problem.Page(page), 0xFF, format.page_bytes());
  const std::vector<float> after = problem.Attend(level(), 0, 1, 0, 3);
  EXPECT_EQ(std::memcmp(before.data(), after.data(), before.size() * sizeof(float)), 0);
}

TEST_P(AttendTest, KeysBeforeTheWindowChangeNoBit) {
  const Shape shape{.group = 3, .rows = 2, .keys = 256, .first_position = 200, .window = 50, .value_growth = 0.9f};
  Problem problem(GetParam().k, GetParam().v, shape);
  const std::vector<float> before = problem.AttendAll(level());
  const PageFormat format{.k = GetParam().k, .v = GetParam().v, .dk = shape.dk, .dv = shape.dv};
  // Row 0 sees positions from 151 on, row 23 of its page.
  for (int page = 0; page < 4; ++page) std::memset(problem.Page(page), 0xFF, format.page_bytes());
  const std::vector<float> zero(static_cast<size_t>(shape.dk));
  for (int row = 0; row < 23; ++row) {
    std::byte* page = problem.Page(4);
    EncodeKey(Level::kRef, format.k)(zero.data(), shape.dk, row, page, page + format.k_scales());
    EncodeValue(Level::kRef, format.v)(zero.data(), shape.dv, row, page + format.v_codes(), page + format.v_scales());
  }
  const std::vector<float> after = problem.AttendAll(level());
  EXPECT_EQ(std::memcmp(before.data(), after.data(), before.size() * sizeof(float)), 0);
}

INSTANTIATE_TEST_SUITE_P(Variants, AttendTest, testing::ValuesIn(AttendVariants().begin(), AttendVariants().end()),
                         [](const auto& test) {
                           return fmt::format("{}_{}_{}", Name(test.param.level), Name(test.param.k),
                                              Name(test.param.v));
                         });

}  // namespace
}  // namespace kvasir::backend::cpu
