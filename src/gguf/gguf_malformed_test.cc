// Files made to break a reader: every seed of the public advisories about GGUF parsers (string and array lengths,
// tensor counts and sizes that wrap, zero dimensions, alignment, nesting, offsets, versions, names), and ours. The
// small ones are the fuzz corpus.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gguf/gguf_file.h"
#include "gguf/raw_gguf.h"
#include "gguf/read_entry.h"

namespace kvasir::gguf {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMaxU64 = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint32_t kF32 = 0, kQ8_0 = 8, kI8 = 24;
constexpr size_t kMaxSeedBytes = 60000;

struct Malformed {
  int report;  // in the project's list of public reports; 0: ours
  std::string name;
  RawGguf raw;
  std::string sentence;  // part of the message
  ErrorCode code = ErrorCode::kCorrupt;
};

// A file with one tensor and `data` bytes for it.
RawGguf OneTensor(const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset, size_t data = 64) {
  RawGguf raw = RawGguf::WithHeader(1, 0);
  return raw.Tensor("w", dims, type, offset).AlignTo(32).Zeros(data);
}

RawGguf TwoTensors(uint64_t first_offset, uint64_t second_offset) {
  RawGguf raw = RawGguf::WithHeader(2, 0);
  raw.Tensor("first", {16}, kF32, first_offset).Tensor("second", {16}, kF32, second_offset);
  return raw.AlignTo(32).Zeros(256);
}

RawGguf Start(uint64_t tensors, uint64_t keys) {
  return RawGguf::WithHeader(tensors, keys);
}

RawGguf Nested(int depth) {
  RawGguf raw = RawGguf::WithHeader(0, 1);
  raw.Array("nest", ValueType::kArray, 1);
  for (int i = 1; i < depth; ++i) raw.ArrayHeader(ValueType::kArray, 1);
  return raw.ArrayHeader(ValueType::kUint8, 1).Put(uint8_t{7});
}

RawGguf Alignment(uint32_t value) {
  return Start(0, 1).Uint32("general.alignment", value);
}

std::vector<Malformed> LengthCases() {
  const auto type = ValueType::kString;
  return {
      {191, "KeyLengthOfAllOnes", Start(0, 1).StringOfSize(kMaxU64, "general.name").Zeros(16),
       "metadata key 0 of 1 ends"},
      {191, "StringLengthOfAllOnes", Start(0, 1).Key("general.name", type).StringOfSize(kMaxU64, "abc"),
       "key general.name has a string that ends beyond the file"},
      {191, "TensorNameLengthOfAllOnes", Start(1, 0).StringOfSize(kMaxU64, "weight").Zeros(32),
       "the name of tensor 0 of 1 ends beyond the file"},
      {193, "ArrayBytesWrap", Start(0, 1).Array("list", ValueType::kUint64, uint64_t{1} << 61).Zeros(8),
       "key list is an array of 2305843009213693952 x uint64 that ends beyond the file"},
      {193, "ArrayBytesWrapToOneElement",
       Start(0, 1).Array("list", ValueType::kUint64, (uint64_t{1} << 61) + 1).Zeros(8),
       "key list is an array of 2305843009213693953 x uint64 that ends beyond the file"},
      {193, "StringArrayCountWraps", Start(0, 1).Array("list", type, uint64_t{1} << 61).Zeros(64),
       "key list is an array"},
      {194, "TensorCountWraps", Start(uint64_t{1} << 60, 0).Zeros(64), "declares 1152921504606846976 tensors"},
      {194, "KeyCountWraps", Start(0, uint64_t{1} << 60).Zeros(64), "declares 1152921504606846976 metadata keys"},
      {196, "TokenLongerThanInt",
       Start(0, 1).Array("tokenizer.ggml.tokens", type, 2).String("a").StringOfSize((uint64_t{1} << 31) + 1, "b"),
       "key tokenizer.ggml.tokens has a string, number 1, that ends beyond the file"},
      {196, "TokenLengthWrapsInt", Start(0, 1).Array("tokenizer.ggml.tokens", type, 1).StringOfSize(4 * kGiB + 1, "b"),
       "key tokenizer.ggml.tokens has a string, number 0, that ends beyond the file"},
      {202, "GibibyteString", Start(0, 1).Key("general.name", type).StringOfSize(kGiB, "x"),
       "key general.name has a string"},
      {202, "GibibyteArray", Start(0, 1).Array("list", ValueType::kUint8, kGiB).Zeros(3),
       "key list is an array of 1073741824 x uint8 that ends beyond the file"},
      {202, "GibibyteAlignment", Alignment(1u << 30), "key general.alignment is 1073741824, outside 8 to 1048576"},
      {214, "ManyTensorsInAKilobyte", Start(uint64_t{1} << 31, 0).Zeros(1000), "declares 2147483648 tensors"},
      {214, "ManyKeysInAKilobyte", Start(0, uint64_t{1} << 31).Zeros(1000), "declares 2147483648 metadata keys"},
      {247, "TensorCountWrapsForOneStructSize", Start((uint64_t{1} << 63) / 400, 0).Zeros(400),
       "tensors, more than its"},
      {247, "TensorCountWrapsForOneStructSizeAndMore", Start((uint64_t{1} << 63) / 400 + 1, 0).Zeros(400),
       "tensors, more than its"},
      {247, "CountsThatAreNegativeWithSign", Start(kMaxU64, kMaxU64).Zeros(64), "metadata keys, more than its"},
      {0, "CountsThatOnlyEmptyNamesWouldFit", Start(10000, 0).Zeros(260000),
       "declares 0 metadata keys and 10000 tensors"},
      {0, "KeyCountThatOnlyEmptyNamesWouldFit", Start(0, 100000).Zeros(1400000), "declares 100000 metadata keys and 0"},
  };
}

std::vector<Malformed> TensorCases() {
  std::vector<Malformed> cases = {
      {199, "BytesOfATensorWrap", OneTensor({(uint64_t{1} << 63) - 32}, kQ8_0, 0),
       "tensor w: the bytes of 9223372036854775776 Q8_0 values leave 64 bits"},
      {199, "BytesNearTwoTo62", OneTensor({uint64_t{1} << 62}, kQ8_0, 0),
       "tensor w: 4899916394579099648 bytes at offset 0"},
      {199, "ElementsWrap", OneTensor({uint64_t{1} << 32, uint64_t{1} << 32}, kQ8_0, 0),
       "tensor w: its number of values leaves 64 bits"},
      {199, "ElementsWrapToZeroOverFourDimensions", OneTensor({1u << 16, 1u << 16, 1u << 16, 1u << 16}, kF32, 0),
       "tensor w: its number of values leaves 64 bits at dimension 3"},
      {199, "DimensionIsNegativeWithSign", OneTensor({kMaxU64}, kF32, 0),
       "tensor w: dimension 0 is 18446744073709551615"},
      {200, "ZeroDimension", OneTensor({0}, kF32, 0), "tensor w: dimension 0 is 0"},
      {200, "ZeroDimensionOfABlockType", OneTensor({0, 32}, kQ8_0, 0), "tensor w: dimension 0 is 0"},
      {200, "ZeroLastDimension", OneTensor({32, 1, 1, 0}, kF32, 0), "tensor w: dimension 3 is 0"},
      {200, "RowIsNotWholeBlocks", OneTensor({33}, kQ8_0, 0), "tensor w: rows of 33 values are not whole blocks of 32"},
      {200, "RowsAreNotWholeBlocksThoughTheirSumIs", OneTensor({16, 2}, kQ8_0, 0),
       "tensor w: rows of 16 values are not whole"},
      {206, "FiveDimensions", OneTensor({1, 1, 1, 1, 1}, kF32, 0), "tensor w: 5 dimensions; 4 is the limit"},
      {206, "NineDimensions", OneTensor({1, 1, 1, 1, 1, 1, 1, 1, 1}, kF32, 0), "tensor w: 9 dimensions"},
      {206, "DimensionsOfAllOnes", Start(1, 0).String("w").Put(~uint32_t{0}).Zeros(64),
       "tensor w: 4294967295 dimensions"},
      {215, "OffsetBeyondTheFile", OneTensor({16}, kF32, 64), "tensor w: 64 bytes at offset 64 end beyond the file"},
      {215, "TensorEndsBeyondTheFile", OneTensor({17}, kF32, 0), "tensor w: 68 bytes at offset 0 end beyond the file"},
      {215, "OffsetPlusBytesWraps", OneTensor({16}, kF32, kMaxU64 - 31),
       "tensor w: 64 bytes at offset 18446744073709551584"},
      {215, "OffsetOfAllOnes", OneTensor({16}, kF32, kMaxU64),
       "tensor w: offset 18446744073709551615 is not a multiple"},
      {215, "OffsetIsNegativeWithSign", OneTensor({16}, kF32, uint64_t{1} << 63), "tensor w: 64 bytes at offset"},
      {215, "OffsetIsNotAligned", OneTensor({8}, kF32, 16),
       "tensor w: offset 16 is not a multiple of the alignment 32"},
      {215, "TensorsOverlap", TwoTensors(0, 32), "tensors first and second overlap"},
      {215, "TensorsOverlapInTheOtherOrder", TwoTensors(96, 64), "tensors second and first overlap"},
      {215, "TensorsShareTheirBytes", TwoTensors(64, 64), "overlap"},
      {181, "EmptyTensorName", Start(1, 0).Tensor("", {16}, kF32, 0).AlignTo(32).Zeros(64),
       "the name of tensor 0 of 1 is empty"},
      {179, "FewerTensorsThanDeclared", Start(2, 0).Tensor("w", {1}, kF32, 0).AlignTo(32).Zeros(32), "tensor 1 of 2"},
      {250, "MoreThanTwoTo31Elements", OneTensor({uint64_t{1} << 31, 4}, kI8, 0),
       "tensor w: 8589934592 bytes at offset 0"},
      {250, "ElementsThatAreFewIn32Bits", OneTensor({(uint64_t{1} << 32) + 32}, kI8, 0), "tensor w: 4294967328 bytes"},
      {0, "UnknownTensorType", OneTensor({32}, 77, 0),
       "tensor w: type id 77 is unknown; this file needs a newer kvasir", ErrorCode::kUnsupported},
      {0, "DroppedTensorType", OneTensor({32}, 31, 0), "tensor w: type id 31 is no longer part of GGUF",
       ErrorCode::kUnsupported},
  };
  // The first two fit a wrapped sum, and so would the third.
  RawGguf sum = RawGguf::WithHeader(3, 0);
  sum.Tensor("a", {uint64_t{1} << 62}, kI8, 0).Tensor("b", {uint64_t{1} << 62}, kI8, uint64_t{1} << 62);
  sum.Tensor("c", {32}, kI8, uint64_t{1} << 63).AlignTo(32).Zeros(64);
  cases.push_back(
      {197, "SumOfTensorBytesWraps", sum, "tensor a: 4611686018427387904 bytes at offset 0 end beyond the file"});
  return cases;
}

std::vector<Malformed> FormatCases() {
  std::vector<Malformed> cases = {
      {203, "AlignmentIsAString", Start(0, 1).Key("general.alignment", ValueType::kString).String("32"),
       "key general.alignment is of type string, not an integer"},
      {203, "AlignmentIsAnArray", Start(0, 1).Array("general.alignment", ValueType::kUint32, 1).Put(uint32_t{32}),
       "key general.alignment is of type array of 1 x uint32, not an integer"},
      {203, "AlignmentThree", Alignment(3), "key general.alignment is 3, outside 8 to 1048576"},
      {203, "AlignmentThirtyThree", Alignment(33), "key general.alignment is 33, which is not a power of two"},
      {203, "AlignmentTwoTo31", Alignment(1u << 31), "key general.alignment is 2147483648, outside"},
      {203, "AlignmentOfAllOnes", Alignment(~0u), "key general.alignment is 4294967295, outside"},
      {211, "AlignmentZero", Alignment(0), "key general.alignment is 0, outside"},
      {208, "NestedArrays", Nested(9), "key nest nests arrays more than 8 deep"},
      {208, "NestedArraysOneHundredThousandDeep", Nested(100000), "key nest nests arrays more than 8 deep"},
      {217, "VersionZero", RawGguf::WithHeader(0, 0, 0), "version 0; versions 2 and 3 can be read",
       ErrorCode::kUnsupported},
      {217, "VersionOne", RawGguf::WithHeader(0, 0, 1), "version 1; versions 2 and 3 can be read",
       ErrorCode::kUnsupported},
      {217, "VersionFour", RawGguf::WithHeader(0, 0, 4),
       "version 4; versions 2 and 3 can be read; it needs a newer kvasir", ErrorCode::kUnsupported},
      {217, "VersionByteSwapped", RawGguf::WithHeader(0, 0, 0x03000000), "is a big-endian GGUF file",
       ErrorCode::kUnsupported},
      {217, "MagicByteSwapped", RawGguf().Text("FUGG").Zeros(20), "has its bytes swapped", ErrorCode::kUnsupported},
      {217, "AnotherFormat", RawGguf().Text("ggjt").Zeros(20), "is no GGUF file: it begins with \"ggjt\""},
      {218, "KeyIsNotUtf8", Start(0, 1).Uint32("gener\xff", 1),
       "metadata key 0 of 1 is not valid UTF-8: \"gener\\xff\""},
      {218, "KeyIsOverlongUtf8", Start(0, 1).Uint32("\xc0\xaf", 1), "is not valid UTF-8: \"\\xc0\\xaf\""},
      {218, "KeyIsOverlongUtf8OfThreeBytes", Start(0, 1).Uint32("\xe0\x80\xaf", 1), "is not valid UTF-8"},
      {218, "KeyIsOverlongUtf8OfFourBytes", Start(0, 1).Uint32("\xf0\x80\x80\xaf", 1), "is not valid UTF-8"},
      {218, "KeyIsASurrogate", Start(0, 1).Uint32("\xed\xa0\x80", 1), "is not valid UTF-8"},
      {218, "KeyEndsInsideACharacter", Start(0, 1).Uint32("a\xe2\x82", 1), "is not valid UTF-8"},
      {218, "KeyIsBeyondUnicode", Start(0, 1).Uint32("\xf4\x90\x80\x80", 1), "is not valid UTF-8"},
      {218, "NulInKey", Start(0, 1).Uint32(std::string_view("a\0b", 3), 1), "has a control character: \"a\\x00b\""},
      {218, "EscapeInKey", Start(0, 1).Uint32("\x1b[2J", 1), "has a control character: \"\\x1b[2J\""},
      {218, "DeleteInKey", Start(0, 1).Uint32("a\x7f", 1), "has a control character: \"a\\x7f\""},
      {218, "EmptyKey", Start(0, 1).Uint32("", 1), "metadata key 0 of 1 is empty"},
      {218, "KeyOf64KiB", Start(0, 1).Uint32(std::string(65536, 'k'), 1),
       "metadata key 0 of 1 has 65536 bytes; 65535 is"},
      {218, "TensorNameIsNotUtf8", Start(1, 0).Tensor("\x80", {1}, kF32, 0).AlignTo(32).Zeros(32),
       "the name of tensor 0 of 1 is not valid UTF-8"},
      {218, "TensorNameOf64KiB", Start(1, 0).Tensor(std::string(65536, 't'), {1}, kF32, 0).AlignTo(32).Zeros(32),
       "the name of tensor 0 of 1 has 65536 bytes"},
      {218, "DuplicateTensorName",
       Start(2, 0).Tensor("w", {1}, kF32, 0).Tensor("w", {1}, kF32, 32).AlignTo(32).Zeros(64),
       "tensor w appears twice"},
      {218, "DuplicateKey", Start(0, 3).Uint32("k", 1).Uint32("j", 1).Uint32("k", 2), "key k appears twice"},
      {0, "UnknownValueType", Start(0, 1).Key("k", static_cast<ValueType>(13)).Zeros(8),
       "key k has the unknown value type 13"},
      {0, "UnknownElementType", Start(0, 1).Array("k", static_cast<ValueType>(99), 1).Zeros(8),
       "key k is an array of unknown type 99"},
      {0, "UnknownNestedElementType",
       Start(0, 1).Array("k", ValueType::kArray, 1).ArrayHeader(static_cast<ValueType>(13), 0).Zeros(8),
       "key k is an array of unknown type 13"},
      {0, "NestedArrayIsCutShort",
       Start(0, 1).Array("k", ValueType::kArray, 2).ArrayHeader(ValueType::kUint8, 12).Zeros(12),
       "key k is an array whose header ends beyond the file"},
  };
  const std::string magic = std::string("GGUF\3\0\0\0", 8) + std::string(16, '\0');
  for (const size_t bytes : {0, 1, 2, 3, 4, 8, 12, 23}) {
    cases.push_back({209, "HeaderOf" + std::to_string(bytes) + "Bytes", RawGguf().Text(magic.substr(0, bytes)),
                     bytes < 4 ? "is no GGUF file" : "ends inside its header"});
  }
  return cases;
}

std::vector<Malformed> AllCases() {
  std::vector<Malformed> all;
  for (auto cases : {LengthCases(), TensorCases(), FormatCases()}) {
    all.insert(all.end(), std::make_move_iterator(cases.begin()), std::make_move_iterator(cases.end()));
  }
  return all;
}

std::string FullName(const Malformed& malformed) {
  return fmt::format("R{:03}_{}", malformed.report, malformed.name);
}

class MalformedGguf : public ::testing::TestWithParam<Malformed> {};

TEST_P(MalformedGguf, IsRefusedWithASentence) {
  const Result<GgufFile> file = GgufFile::Parse(GetParam().raw.bytes(), "bad.gguf");
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(file.error().message(), HasSubstr(GetParam().sentence));
  EXPECT_THAT(file.error().message(), HasSubstr("bad.gguf"));
  EXPECT_EQ(file.error().code(), GetParam().code);
}

INSTANTIATE_TEST_SUITE_P(Reports, MalformedGguf, ::testing::ValuesIn(AllCases()),
                         [](const auto& test) { return FullName(test.param); });

// What looks odd and is legal.

struct Legal {
  int report;
  std::string name;
  RawGguf raw;
};

// The costliest files for their size: nothing but short names.
RawGguf ManySmallTensors() {
  RawGguf raw = RawGguf::WithHeader(1500, 1);
  raw.Uint32("general.alignment", 8);
  for (uint64_t i = 0; i < 1500; ++i) raw.Tensor(fmt::format("{:x}", i), {}, kI8, 8 * i);
  return raw.AlignTo(8).Zeros(8 * 1500);
}

RawGguf ManySmallKeys() {
  RawGguf raw = RawGguf::WithHeader(0, 3000);
  for (int i = 0; i < 3000; ++i) raw.Key(fmt::format("{:x}", i), ValueType::kUint8).Put(static_cast<uint8_t>(i));
  return raw;
}

std::vector<Legal> LegalCases() {
  return {
      {178, "VocabularyOnly",
       Start(0, 2).Array("tokenizer.ggml.tokens", ValueType::kString, 2).String("a").String("b").Uint32("n", 2)},
      {208, "ArraysNestedToTheLimit", Nested(8)},
      {215, "TensorsOutOfOrderWithAGap", TwoTensors(160, 0)},
      {218, "KeyAtTheLimit", Start(0, 1).Uint32(std::string(65535, 'k'), 1)},
      {218, "StringThatIsNotUtf8", Start(0, 1).Key("s", ValueType::kString).String("\xff\xfe")},
      {218, "KeyInAnotherScript", Start(0, 1).Uint32("\xd0\xba\xd0\xbb\xd1\x8e\xd1\x87.\xf0\x9f\x94\x91", 1)},
      {0, "EmptyArrays", Start(0, 2).Array("a", ValueType::kString, 0).Array("b", ValueType::kArray, 0)},
      {0, "FourDimensions", OneTensor({4, 2, 2, 1}, kF32, 0)},
      {0, "Alignment8", Start(1, 1).Uint32("general.alignment", 8).Tensor("w", {1}, kF32, 0).AlignTo(8).Zeros(4)},
      {0, "ManySmallTensors", ManySmallTensors()},
      {0, "ManySmallKeys", ManySmallKeys()},
      {0, "DataAfterTheLastTensor", OneTensor({4}, kF32, 0, 4000)},
  };
}

class LegalGguf : public ::testing::TestWithParam<Legal> {};

TEST_P(LegalGguf, IsAccepted) {
  const Result<GgufFile> file = GgufFile::Parse(GetParam().raw.bytes(), "good.gguf");
  ASSERT_TRUE(file.ok()) << file.error().message();
  for (const MetadataEntry& entry : file->metadata()) ReadEntry(*file, entry);
  EXPECT_GE(TouchTensors(*file), file->tensors().size());
}

INSTANTIATE_TEST_SUITE_P(Reports, LegalGguf, ::testing::ValuesIn(LegalCases()),
                         [](const auto& test) { return fmt::format("R{:03}_{}", test.param.report, test.param.name); });

// A small model that uses most of the format; its last tensor ends with the file.
RawGguf SmallModel() {
  RawGguf raw = RawGguf::WithHeader(3, 9);
  raw.Key("general.architecture", ValueType::kString).String("llama");
  raw.Uint32("general.alignment", 32).Uint32("llama.block_count", 2);
  raw.Key("llama.rope.freq_base", ValueType::kFloat32).Put(10000.0f);
  raw.Array("llama.head_count", ValueType::kInt32, 3).Put(int32_t{4}).Put(int32_t{4}).Put(int32_t{8});
  raw.Array("tokenizer.ggml.tokens", ValueType::kString, 3).String("<s>").String("a").String("\xe2\x82\xac");
  raw.Array("tokenizer.ggml.scores", ValueType::kFloat32, 3).Put(0.0f).Put(-1.0f).Put(-2.0f);
  raw.Key("tokenizer.ggml.add_bos_token", ValueType::kBool).Put(uint8_t{1});
  raw.Array("nested", ValueType::kArray, 2);
  raw.ArrayHeader(ValueType::kUint16, 2)
      .Put(uint16_t{1})
      .Put(uint16_t{2})
      .ArrayHeader(ValueType::kString, 1)
      .String("x");
  raw.Tensor("token_embd.weight", {32, 2}, kQ8_0, 0).Tensor("blk.0.norm", {8}, kF32, 96).Tensor("scale", {}, kF32, 128);
  raw.AlignTo(32).Zeros(132);
  return raw;
}

TEST(MalformedGgufSweep, AFileCutAtAnyByteIsRefused) {
  const RawGguf raw = SmallModel();
  ASSERT_TRUE(GgufFile::Parse(raw.bytes(), "whole").ok());
  for (size_t size = 0; size < raw.bytes().size(); ++size) {
    // Copied so that a sanitizer sees a read behind the end.
    const std::vector<std::byte> cut(raw.bytes().begin(), raw.bytes().begin() + static_cast<std::ptrdiff_t>(size));
    const Result<GgufFile> file = GgufFile::Parse(cut, "cut.gguf");
    ASSERT_FALSE(file.ok()) << size;
    EXPECT_THAT(file.error().message(), HasSubstr("cut.gguf")) << size;
  }
}

TEST(MalformedGgufSweep, RandomlyChangedBytesNeverEscapeTheFile) {
  std::mt19937 random(20240229);
  const RawGguf raw = SmallModel();
  int accepted = 0;
  int refused = 0;
  for (int round = 0; round < 6000; ++round) {
    std::vector<std::byte> bytes = raw.bytes();
    const int changes = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < changes; ++i) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    const Result<GgufFile> file = GgufFile::Parse(bytes, "changed.gguf");
    if (!file.ok()) {
      ++refused;
      EXPECT_THAT(file.error().message(), HasSubstr("changed.gguf"));
      continue;
    }
    ++accepted;
    for (const MetadataEntry& entry : file->metadata()) ReadEntry(*file, entry);
    EXPECT_GE(TouchTensors(*file), file->tensors().size());
  }
  // Both ways were walked.
  EXPECT_GT(accepted, 500);
  EXPECT_GT(refused, 500);
}

// Every key of a wrong type or value: found when it is read.

TEST(MalformedGgufKeys, R212_AnIntegerKeyOfAnyOtherTypeIsNamed) {
  const std::vector<std::pair<std::string, RawGguf>> wrong = {
      {"string", Start(0, 1).Key("llama.block_count", ValueType::kString).String("2")},
      {"float32", Start(0, 1).Key("llama.block_count", ValueType::kFloat32).Put(2.0f)},
      {"float64", Start(0, 1).Key("llama.block_count", ValueType::kFloat64).Put(2.0)},
      {"bool", Start(0, 1).Key("llama.block_count", ValueType::kBool).Put(uint8_t{1})},
      {"array of 1 x uint32", Start(0, 1).Array("llama.block_count", ValueType::kUint32, 1).Put(uint32_t{2})},
  };
  for (const auto& [type, raw] : wrong) {
    const Result<GgufFile> file = GgufFile::Parse(raw.bytes(), "f");
    ASSERT_TRUE(file.ok()) << file.error().message();
    const std::string sentence = "f: key llama.block_count is of type " + type + ", not an integer";
    EXPECT_EQ(file->GetInt("llama.block_count").error().message(), sentence);
    EXPECT_EQ(file->GetIntOr("llama.block_count", 1).error().message(), sentence);
  }
}

TEST(MalformedGgufKeys, R184_R205_R248_ACountOutsideItsRangeIsNamed) {
  RawGguf raw = RawGguf::WithHeader(0, 5);
  raw.Uint32("llama.attention.head_count", 0).Key("llama.block_count", ValueType::kUint64).Put(uint64_t{1} << 63);
  raw.Uint32("qwen2.block_count", 1u << 31).Uint32("gemma3.block_count", 513).Uint32("clip.vision.image_size", 0);
  const GgufFile file = GgufFile::Parse(raw.bytes(), "f").value();
  EXPECT_EQ(file.GetInt("llama.attention.head_count", 1, 1024).error().message(),
            "f: key llama.attention.head_count is 0, outside 1 to 1024");
  EXPECT_EQ(file.GetInt("llama.block_count", 1, 512).error().message(),
            "f: key llama.block_count is 9223372036854775808, outside 1 to 512");
  EXPECT_EQ(file.GetInt("qwen2.block_count", 1, 512).error().message(),
            "f: key qwen2.block_count is 2147483648, outside 1 to 512");
  EXPECT_EQ(file.GetInt("gemma3.block_count", 1, 512).error().message(),
            "f: key gemma3.block_count is 513, outside 1 to 512");
  EXPECT_EQ(file.GetInt("clip.vision.image_size", 1, 1 << 16).error().message(),
            "f: key clip.vision.image_size is 0, outside 1 to 65536");
}

TEST(MalformedGgufKeys, R205_R248_AListForOtherThanAllLayersIsNamed) {
  RawGguf raw = RawGguf::WithHeader(0, 1);
  raw.Array("llama.attention.head_count_kv", ValueType::kUint32, 513);
  for (int i = 0; i < 513; ++i) raw.Put(uint32_t{2});
  const GgufFile file = GgufFile::Parse(raw.bytes(), "f").value();
  EXPECT_EQ(file.GetIntPerLayer("llama.attention.head_count_kv", 512, 1, 64).error().message(),
            "f: key llama.attention.head_count_kv has 513 values for 512 layers");
  EXPECT_EQ(file.GetIntPerLayer("llama.attention.head_count_kv", 513, 1, 64)->size(), 513u);
}

TEST(MalformedGgufKeys, R175_R176_R220_VocabularyKeysThatAreWrongOrMissingAreNamed) {
  RawGguf raw = RawGguf::WithHeader(0, 5);
  raw.Uint32("tokenizer.ggml.bos_token_id", 3).Uint32("tokenizer.ggml.eos_token_id", ~0u);
  raw.Key("tokenizer.ggml.eot_token_id", ValueType::kInt32).Put(int32_t{-1});
  raw.Array("tokenizer.ggml.tokens", ValueType::kUint32, 1).Put(uint32_t{0});
  raw.Array("tokenizer.ggml.scores", ValueType::kInt8, 1).Put(int8_t{0});
  const GgufFile file = GgufFile::Parse(raw.bytes(), "f").value();
  EXPECT_EQ(file.GetInt("tokenizer.ggml.bos_token_id", 0, 2).error().message(),
            "f: key tokenizer.ggml.bos_token_id is 3, outside 0 to 2");
  EXPECT_EQ(file.GetInt("tokenizer.ggml.eos_token_id", 0, 2).error().message(),
            "f: key tokenizer.ggml.eos_token_id is 4294967295, outside 0 to 2");
  EXPECT_EQ(file.GetIntOr("tokenizer.ggml.eot_token_id", 0, 0, 2).error().message(),
            "f: key tokenizer.ggml.eot_token_id is -1, outside 0 to 2");
  EXPECT_THAT(file.GetStrings("tokenizer.ggml.tokens").error().message(),
              HasSubstr("key tokenizer.ggml.tokens is of type"));
  EXPECT_THAT(file.GetFloats("tokenizer.ggml.scores").error().message(),
              HasSubstr("key tokenizer.ggml.scores is of type"));
  EXPECT_EQ(file.GetStrings("tokenizer.ggml.merges").error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(file.GetStrings("tokenizer.ggml.merges").error().message(), "f: key tokenizer.ggml.merges is missing");
}

TEST(MalformedGgufKeys, R250_ATensorOfMoreThanTwoTo31ElementsIsCountedIn64Bits) {
  constexpr uint64_t kElements = (uint64_t{1} << 31) + 256;
  constexpr uint64_t kBytes = kElements / 256 * 50;
  constexpr uint32_t kIQ1_S = 19;
  const RawGguf raw = OneTensor({256, kElements / 256}, kIQ1_S, 0, 0);
  const std::string path = ::testing::TempDir() + "/big_tensor.gguf";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(raw.bytes().data()), static_cast<std::streamsize>(raw.bytes().size()));
  // A hole in the file costs no disk.
  std::filesystem::resize_file(path, raw.bytes().size() + kBytes);
  const Result<GgufFile> file = GgufFile::Open(path);
  std::filesystem::remove(path);
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_EQ(file->tensors()[0].elements(), int64_t{kElements});
  EXPECT_EQ(file->tensors()[0].bytes.size(), kBytes);
  EXPECT_EQ(file->tensors()[0].bytes.back(), std::byte{0});
}

// The fuzzer starts from the small cases above, checked in under fuzz/corpus/gguf. KVASIR_UPDATE_CORPUS=1 writes them
// again.
TEST(GgufFuzzCorpus, HoldsEverySmallCase) {
  const std::filesystem::path folder = std::filesystem::path(KVASIR_SOURCE_DIR) / "fuzz/corpus/gguf";
  std::vector<std::pair<std::string, RawGguf>> seeds = {{"small_model", SmallModel()}};
  for (const Malformed& malformed : AllCases()) seeds.emplace_back(FullName(malformed), malformed.raw);
  for (const Legal& legal : LegalCases())
    seeds.emplace_back(fmt::format("R{:03}_{}", legal.report, legal.name), legal.raw);
  const bool update = std::getenv("KVASIR_UPDATE_CORPUS") != nullptr;
  for (const auto& [name, raw] : seeds) {
    if (raw.bytes().size() > kMaxSeedBytes) continue;
    const std::string bytes(reinterpret_cast<const char*>(raw.bytes().data()), raw.bytes().size());
    if (update) std::ofstream(folder / name, std::ios::binary) << bytes;
    std::ifstream stream(folder / name, std::ios::binary);
    ASSERT_TRUE(stream.is_open()) << folder / name;
    EXPECT_EQ(std::string((std::istreambuf_iterator<char>(stream)), {}), bytes) << name;
  }
}

}  // namespace
}  // namespace kvasir::gguf
