#include "gguf/gguf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "gguf/gguf_writer.h"
#include "gguf/raw_gguf.h"

namespace kvasir::gguf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// One entry of every value type, two levels of arrays, and three tensors in an order other than that of their bytes.
RawGguf EveryType(uint32_t version = 3) {
  RawGguf raw = RawGguf::WithHeader(3, 17, version);
  raw.Key("u8", ValueType::kUint8).Put(uint8_t{200});
  raw.Key("i8", ValueType::kInt8).Put(int8_t{-100});
  raw.Key("u16", ValueType::kUint16).Put(uint16_t{60000});
  raw.Key("i16", ValueType::kInt16).Put(int16_t{-30000});
  raw.Key("u32", ValueType::kUint32).Put(uint32_t{4000000000});
  raw.Key("i32", ValueType::kInt32).Put(int32_t{-2000000000});
  raw.Key("f32", ValueType::kFloat32).Put(1.5f);
  raw.Key("bool", ValueType::kBool).Put(uint8_t{1});
  raw.Key("str", ValueType::kString).String("ab\ncd\x01");
  raw.Key("u64", ValueType::kUint64).Put(std::numeric_limits<uint64_t>::max());
  raw.Key("i64", ValueType::kInt64).Put(std::numeric_limits<int64_t>::min());
  raw.Key("f64", ValueType::kFloat64).Put(-0.25);
  raw.Array("ints", ValueType::kInt16, 3).Put(int16_t{-1}).Put(int16_t{0}).Put(int16_t{7});
  raw.Array("floats", ValueType::kFloat32, 2).Put(0.5f).Put(-2.0f);
  raw.Array("strings", ValueType::kString, 3).String("a").String("").String("\xff");
  raw.Array("bools", ValueType::kBool, 2).Put(uint8_t{1}).Put(uint8_t{0});
  raw.Array("nested", ValueType::kArray, 3);
  raw.ArrayHeader(ValueType::kUint8, 2).Put(uint8_t{1}).Put(uint8_t{2});
  raw.ArrayHeader(ValueType::kArray, 1).ArrayHeader(ValueType::kString, 1).String("deep");
  raw.ArrayHeader(ValueType::kUint64, 0);
  raw.Tensor("second", {4, 2}, 0, 64);
  raw.Tensor("first", {32, 1}, 8, 0);
  raw.Tensor("scalar", {}, 0, 96);
  raw.AlignTo(32);
  raw.Zeros(64);
  for (int i = 0; i < 8; ++i) raw.Put(static_cast<float>(i));
  return raw.Put(42.0f);
}

GgufFile ParseValid(const RawGguf& raw) {
  Result<GgufFile> file = GgufFile::Parse(raw.bytes(), "test.gguf");
  KVASIR_CHECK(file.ok(), "{}", file.error().message());
  return std::move(file).value();
}

template <typename T>
std::string ErrorOf(const Result<T>& result) {
  return result.ok() ? "no error" : result.error().message();
}

TEST(GgufFile, EveryIntegerTypeReadsAsInt64) {
  const RawGguf raw = EveryType();
  const GgufFile file = ParseValid(raw);
  EXPECT_EQ(*file.GetInt("u8"), 200);
  EXPECT_EQ(*file.GetInt("i8"), -100);
  EXPECT_EQ(*file.GetInt("u16"), 60000);
  EXPECT_EQ(*file.GetInt("i16"), -30000);
  EXPECT_EQ(*file.GetInt("u32"), 4000000000);
  EXPECT_EQ(*file.GetInt("i32"), -2000000000);
  EXPECT_EQ(*file.GetInt("i64"), std::numeric_limits<int64_t>::min());
  EXPECT_THAT(ErrorOf(file.GetInt("u64")), HasSubstr("key u64 is 18446744073709551615, outside"));
}

TEST(GgufFile, FloatsStringsAndBoolsReadAsTheyAre) {
  const RawGguf raw = EveryType();
  const GgufFile file = ParseValid(raw);
  EXPECT_EQ(*file.GetFloat("f32"), 1.5);
  EXPECT_EQ(*file.GetFloat("f64"), -0.25);
  EXPECT_EQ(*file.GetString("str"), "ab\ncd\x01");
  EXPECT_TRUE(*file.GetBoolOr("bool", false));
}

TEST(GgufFile, ArraysReadInOrder) {
  const RawGguf raw = EveryType();
  const GgufFile file = ParseValid(raw);
  EXPECT_THAT(*file.GetInts("ints"), ElementsAre(-1, 0, 7));
  EXPECT_THAT(*file.GetInts("bools"), ElementsAre(1, 0));
  EXPECT_THAT(*file.GetFloats("floats"), ElementsAre(0.5f, -2.0f));
  EXPECT_THAT(*file.GetStrings("strings"), ElementsAre("a", "", "\xff"));
}

TEST(GgufFile, AWrongTypeIsAnErrorThatNamesTheKeyAndBothTypes) {
  const RawGguf raw = EveryType();
  const GgufFile file = ParseValid(raw);
  EXPECT_EQ(ErrorOf(file.GetInt("f32")), "test.gguf: key f32 is of type float32, not an integer");
  EXPECT_EQ(ErrorOf(file.GetFloat("u32")), "test.gguf: key u32 is of type uint32, not a float");
  EXPECT_EQ(ErrorOf(file.GetString("ints")), "test.gguf: key ints is of type array of 3 x int16, not a string");
  EXPECT_EQ(ErrorOf(file.GetBoolOr("u8", true)), "test.gguf: key u8 is of type uint8, not a bool");
  EXPECT_EQ(ErrorOf(file.GetStrings("ints")),
            "test.gguf: key ints is of type array of 3 x int16, not an array of strings");
  EXPECT_EQ(ErrorOf(file.GetInts("u8")), "test.gguf: key u8 is of type uint8, not an array of integers");
  EXPECT_EQ(ErrorOf(file.GetFloats("ints")),
            "test.gguf: key ints is of type array of 3 x int16, not an array of float32");
  EXPECT_EQ(file.GetInt("f32").error().code(), ErrorCode::kCorrupt);
}

TEST(GgufFile, AMissingKeyIsNotFoundUnlessThereIsAFallback) {
  const RawGguf raw = EveryType();
  const GgufFile file = ParseValid(raw);
  EXPECT_FALSE(file.Has("none"));
  EXPECT_TRUE(file.Has("nested"));
  EXPECT_EQ(file.GetInt("none").error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(file.GetStrings("none").error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(ErrorOf(file.GetFloat("none")), "test.gguf: key none is missing");
  EXPECT_EQ(*file.GetIntOr("none", 5, 100, 200), 5);
  EXPECT_EQ(*file.GetFloatOr("none", 2.5), 2.5);
  EXPECT_EQ(*file.GetStringOr("none", "x"), "x");
  EXPECT_TRUE(*file.GetBoolOr("none", true));
}

TEST(GgufFile, IntegersAreHeldToTheirRange) {
  const RawGguf raw = EveryType();
  const GgufFile file = ParseValid(raw);
  EXPECT_EQ(*file.GetInt("u8", 200, 200), 200);
  EXPECT_EQ(ErrorOf(file.GetInt("u8", 0, 199)), "test.gguf: key u8 is 200, outside 0 to 199");
  EXPECT_EQ(ErrorOf(file.GetIntOr("i8", 0, -99, 0)), "test.gguf: key i8 is -100, outside -99 to 0");
  EXPECT_EQ(ErrorOf(file.GetInt("u8", 1, 1)), "test.gguf: key u8 is 200, not 1");
}

TEST(GgufFile, NumbersOfAnArrayMustFitInt64) {
  RawGguf raw = RawGguf::WithHeader(0, 2);
  raw.Array("fit", ValueType::kUint64, 2).Put(uint64_t{0}).Put(uint64_t{1} << 62);
  raw.Array("wide", ValueType::kUint64, 2).Put(uint64_t{0}).Put(uint64_t{1} << 63);
  const GgufFile file = ParseValid(raw);
  EXPECT_THAT(*file.GetInts("fit"), ElementsAre(0, int64_t{1} << 62));
  EXPECT_THAT(ErrorOf(file.GetInts("wide")), HasSubstr("key wide has a uint64 that is out of range"));
}

TEST(GgufFile, FloatsMustBeFinite) {
  RawGguf raw = RawGguf::WithHeader(0, 2);
  raw.Key("theta", ValueType::kFloat32).Put(std::numeric_limits<float>::quiet_NaN());
  raw.Array("scores", ValueType::kFloat32, 2).Put(0.0f).Put(std::numeric_limits<float>::infinity());
  const GgufFile file = ParseValid(raw);
  EXPECT_THAT(ErrorOf(file.GetFloat("theta")), HasSubstr("key theta is nan, not a finite number"));
  EXPECT_THAT(ErrorOf(file.GetFloats("scores")), HasSubstr("key scores has inf at 1, not a finite number"));
}

TEST(GgufFile, BoolsMustBeZeroOrOne) {
  RawGguf raw = RawGguf::WithHeader(0, 2);
  raw.Key("flag", ValueType::kBool).Put(uint8_t{2});
  raw.Array("flags", ValueType::kBool, 2).Put(uint8_t{1}).Put(uint8_t{255});
  const GgufFile file = ParseValid(raw);
  EXPECT_THAT(ErrorOf(file.GetBoolOr("flag", false)), HasSubstr("key flag is a bool of value 2"));
  EXPECT_THAT(ErrorOf(file.GetInts("flags")), HasSubstr("key flags has a bool that is out of range"));
}

TEST(GgufFile, PerLayerIsOneNumberForAllOrExactlyOneEach) {
  const RawGguf raw = EveryType();
  const GgufFile file = ParseValid(raw);
  EXPECT_THAT(*file.GetIntPerLayer("u8", 3, 0, 255), ElementsAre(200, 200, 200));
  EXPECT_THAT(*file.GetIntPerLayer("u8", 0, 0, 255), IsEmpty());
  EXPECT_THAT(*file.GetIntPerLayer("ints", 3, -1, 7), ElementsAre(-1, 0, 7));
  EXPECT_THAT(ErrorOf(file.GetIntPerLayer("ints", 2, -1, 7)), HasSubstr("key ints has 3 values for 2 layers"));
  EXPECT_THAT(ErrorOf(file.GetIntPerLayer("ints", 3, 0, 7)), HasSubstr("key ints is -1 for layer 0, outside 0 to 7"));
  EXPECT_THAT(ErrorOf(file.GetIntPerLayer("u8", 2, 0, 100)), HasSubstr("key u8 is 200, outside 0 to 100"));
  EXPECT_EQ(file.GetIntPerLayer("u8", int64_t{1} << 31, 0, 255).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(file.GetIntPerLayer("u8", -1, 0, 255).error().code(), ErrorCode::kInvalidArgument);
}

TEST(GgufFile, TensorsKeepFileOrderAndPointAtTheirBytes) {
  const RawGguf raw = EveryType();
  const GgufFile file = ParseValid(raw);
  ASSERT_THAT(file.tensors(), SizeIs(3));
  EXPECT_EQ(file.tensors()[0].name, "second");
  const TensorInfo* second = file.FindTensor("second");
  ASSERT_EQ(second, &file.tensors()[0]);
  EXPECT_EQ(second->n_dims, 2);
  EXPECT_THAT(second->ne, ElementsAre(4, 2, 1, 1));
  EXPECT_EQ(second->elements(), 8);
  EXPECT_EQ(second->rows(), 2);
  ASSERT_EQ(second->bytes.size(), 32u);
  float last = 0;
  std::memcpy(&last, &second->bytes[28], sizeof(last));
  EXPECT_EQ(last, 7.0f);

  EXPECT_EQ(file.FindTensor("first")->type, TensorType::kQ8_0);
  EXPECT_EQ(file.FindTensor("first")->bytes.size(), 34u);
  EXPECT_EQ(file.FindTensor("third"), nullptr);
  EXPECT_EQ(file.FindTensor(""), nullptr);
}

TEST(GgufFile, ATensorWithoutDimensionsIsOneValue) {
  const RawGguf raw = EveryType();
  const GgufFile file = ParseValid(raw);
  const TensorInfo* scalar = file.FindTensor("scalar");
  ASSERT_NE(scalar, nullptr);
  EXPECT_EQ(scalar->n_dims, 0);
  EXPECT_EQ(scalar->elements(), 1);
  EXPECT_EQ(scalar->bytes.size(), 4u);
}

TEST(GgufFile, EveryTensorTypeOfTheTableIsReadWithItsSize) {
  int types = 0;
  for (uint32_t id = 0; id < 64; ++id) {
    const TensorTypeTraits* traits = FindTensorType(id);
    if (traits == nullptr) continue;
    ++types;
    RawGguf raw = RawGguf::WithHeader(1, 0);
    raw.Tensor("t", {256, 2}, id, 0).AlignTo(32).Zeros(8192);
    const GgufFile file = ParseValid(raw);
    const auto bytes = static_cast<size_t>(512 / traits->block_elements * traits->block_bytes);
    EXPECT_EQ(file.tensors()[0].bytes.size(), bytes) << traits->name;
  }
  EXPECT_GE(types, 30);
}

TEST(GgufFile, VersionsTwoAndThreeReadAlike) {
  for (const uint32_t version : {2u, 3u}) {
    const RawGguf raw = EveryType(version);
    const GgufFile file = ParseValid(raw);
    EXPECT_EQ(file.version(), version);
    EXPECT_THAT(file.metadata(), SizeIs(17));
    EXPECT_THAT(file.tensors(), SizeIs(3));
    EXPECT_EQ(file.total_bytes(), static_cast<int64_t>(raw.bytes().size()));
  }
}

TEST(GgufFile, TensorDataBeginsAtTheAlignmentOfTheFile) {
  for (const uint32_t alignment : {8u, 16u, 64u, 4096u, 1u << 20}) {
    RawGguf raw = RawGguf::WithHeader(2, 1);
    raw.Uint32("general.alignment", alignment).Tensor("a", {1}, 0, 0).Tensor("b", {1}, 0, alignment);
    raw.AlignTo(alignment).Put(1.0f).AlignTo(alignment).Put(2.0f);
    const GgufFile file = ParseValid(raw);
    float b = 0;
    std::memcpy(&b, file.FindTensor("b")->bytes.data(), sizeof(b));
    EXPECT_EQ(b, 2.0f) << alignment;
  }
}

TEST(GgufFile, EntriesReadAsTextWithLongArraysCut) {
  const RawGguf raw = EveryType();
  const GgufFile file = ParseValid(raw);
  std::vector<std::string> lines;
  for (const MetadataEntry& entry : file.metadata()) {
    lines.push_back(std::string(entry.key) + " = " + file.ToText(entry, 2));
  }
  EXPECT_THAT(lines,
              ElementsAre("u8 = 200", "i8 = -100", "u16 = 60000", "i16 = -30000", "u32 = 4000000000",
                          "i32 = -2000000000", "f32 = 1.5", "bool = true", "str = \"ab\\ncd\\x01\"",
                          "u64 = 18446744073709551615", "i64 = -9223372036854775808", "f64 = -0.25",
                          "ints = [-1, 0, ... 3 in all]", "floats = [0.5, -2]", "strings = [\"a\", \"\", ... 3 in all]",
                          "bools = [true, false]", "nested = [[1, 2], [[\"deep\"]], ... 3 in all]"));
  EXPECT_EQ(file.ToText(file.metadata()[16], 0), "[... 3 in all]");
}

TEST(GgufFile, MovingAFileKeepsItsViews) {
  const RawGguf raw = EveryType();
  GgufFile file = ParseValid(raw);
  const TensorInfo* second = file.FindTensor("second");
  const GgufFile moved = std::move(file);
  EXPECT_EQ(moved.FindTensor("second"), second);
  EXPECT_EQ(second->name, "second");
}

TEST(GgufFile, OpenReadsWhatParseReads) {
  const RawGguf raw = EveryType();
  const std::string path = ::testing::TempDir() + "/open_reads.gguf";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(raw.bytes().data()), static_cast<std::streamsize>(raw.bytes().size()));
  Result<GgufFile> file = GgufFile::Open(path);
  ASSERT_TRUE(file.ok()) << ErrorOf(file);
  EXPECT_EQ(file->path(), path);
  EXPECT_EQ(*file->GetInt("u16"), 60000);
  file->Release(file->tensors()[0]);
  EXPECT_EQ(file->tensors()[0].bytes[3], std::byte{0});
  EXPECT_EQ(file->tensors()[0].bytes[31], std::byte{0x40});
}

TEST(GgufFile, WhatIsNoFileIsAnErrorWithItsPath) {
  EXPECT_EQ(GgufFile::Open("/nonexistent/model.gguf").error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(ErrorOf(GgufFile::Open("/nonexistent/model.gguf")), HasSubstr("/nonexistent/model.gguf"));
  EXPECT_EQ(GgufFile::Open(::testing::TempDir()).error().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace kvasir::gguf
