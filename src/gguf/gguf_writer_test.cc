#include "gguf/gguf_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "gguf/gguf_file.h"

namespace kvasir::gguf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::byte> Filled(size_t count, int value) {
  return {count, static_cast<std::byte>(value)};
}

GgufWriter Sample() {
  GgufWriter writer;
  writer.AddString("general.architecture", "test");
  writer.AddUint32("u32", 4000000000u);
  writer.AddInt32("i32", -5);
  writer.AddUint64("u64", uint64_t{1} << 40);
  writer.AddFloat32("f32", 0.5f);
  writer.AddBool("yes", true);
  writer.AddStrings("strings", std::vector<std::string>{"a", "", "c"});
  writer.AddFloats("floats", std::vector<float>{1.0f, -1.0f});
  writer.AddInts("ints", std::vector<int32_t>{3, -4});
  writer.AddBools("bools", std::array{true, false, true});
  writer.AddTensor("q8", TensorType::kQ8_0, std::array<int64_t, 2>{64, 1}, Filled(68, 1));
  writer.AddTensor("f32", TensorType::kF32, std::array<int64_t, 4>{1, 2, 3, 1}, Filled(24, 2));
  return writer;
}

TEST(GgufWriter, WhatItWritesTheReaderReadsBack) {
  const std::vector<std::byte> bytes = Sample().Serialize();
  const Result<GgufFile> file = GgufFile::Parse(bytes, "sample");
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_EQ(file->version(), 3u);
  EXPECT_EQ(*file->GetString("general.architecture"), "test");
  EXPECT_EQ(*file->GetInt("u32"), 4000000000);
  EXPECT_EQ(*file->GetInt("i32"), -5);
  EXPECT_EQ(*file->GetInt("u64"), int64_t{1} << 40);
  EXPECT_EQ(*file->GetFloat("f32"), 0.5);
  EXPECT_TRUE(*file->GetBoolOr("yes", false));
  EXPECT_THAT(*file->GetStrings("strings"), ElementsAre("a", "", "c"));
  EXPECT_THAT(*file->GetFloats("floats"), ElementsAre(1.0f, -1.0f));
  EXPECT_THAT(*file->GetInts("ints"), ElementsAre(3, -4));
  EXPECT_THAT(*file->GetInts("bools"), ElementsAre(1, 0, 1));

  ASSERT_EQ(file->tensors().size(), 2u);
  EXPECT_EQ(file->tensors()[0].name, "q8");
  EXPECT_EQ(file->tensors()[0].bytes.size(), 68u);
  EXPECT_EQ(file->tensors()[0].bytes.back(), std::byte{1});
  EXPECT_THAT(file->tensors()[1].ne, ElementsAre(1, 2, 3, 1));
  EXPECT_EQ(file->tensors()[1].bytes.front(), std::byte{2});
}

TEST(GgufWriter, PadsEveryTensorToTheAlignment) {
  for (const uint32_t alignment : {8u, 32u, 256u}) {
    GgufWriter writer;
    writer.AddUint32("general.alignment", alignment);
    writer.AddTensor("a", TensorType::kF32, std::array<int64_t, 1>{1}, Filled(4, 1));
    writer.AddTensor("b", TensorType::kF32, std::array<int64_t, 1>{1}, Filled(4, 2));
    const std::vector<std::byte> bytes = writer.Serialize();
    EXPECT_EQ(bytes.size() % alignment, 0u);
    const Result<GgufFile> file = GgufFile::Parse(bytes, "aligned");
    ASSERT_TRUE(file.ok()) << file.error().message();
    EXPECT_EQ(file->tensors()[1].bytes.data() - file->tensors()[0].bytes.data(), alignment);
    EXPECT_EQ(file->tensors()[1].bytes.front(), std::byte{2});
  }
}

TEST(GgufWriter, AFileOfNothingIsItsHeader) {
  const std::vector<std::byte> bytes = GgufWriter().Serialize();
  EXPECT_EQ(bytes.size(), 24u);
  EXPECT_TRUE(GgufFile::Parse(bytes, "nothing").ok());
}

TEST(GgufWriter, WritesTheSerializedBytes) {
  const std::string path = ::testing::TempDir() + "/writer_test.gguf";
  ASSERT_TRUE(Sample().Write(path).ok());
  std::ifstream stream(path, std::ios::binary);
  const std::string found((std::istreambuf_iterator<char>(stream)), {});
  const std::vector<std::byte> expected = Sample().Serialize();
  EXPECT_EQ(found, std::string(reinterpret_cast<const char*>(expected.data()), expected.size()));
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
}

TEST(GgufWriter, AnImpossiblePathIsAnErrorThatNamesIt) {
  const Status status = Sample().Write("/nonexistent/model.gguf");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ErrorCode::kIo);
  EXPECT_THAT(status.error().message(), HasSubstr("/nonexistent/model.gguf"));
}

TEST(GgufWriter, AFullDiskLeavesNeitherFileNorRemains) {
  const std::string path = ::testing::TempDir() + "/writer_full.gguf";
  std::filesystem::remove(path);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit tiny{100, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tiny), 0);
  const Status status = Sample().Write(path);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);

  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ErrorCode::kIo);
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
}

TEST(GgufWriterDeathTest, MisuseIsABug) {
  GgufWriter writer = Sample();
  EXPECT_DEATH(writer.AddUint32("u32", 1), "key u32 is added twice");
  EXPECT_DEATH(writer.AddBool("", true), "is empty");
  EXPECT_DEATH(writer.AddTensor("q8", TensorType::kF32, std::array<int64_t, 1>{1}, Filled(4, 0)), "added twice");
  EXPECT_DEATH(writer.AddTensor("x", TensorType::kF32, std::array<int64_t, 1>{2}, Filled(4, 0)),
               "4 bytes for 2 values");
  EXPECT_DEATH(writer.AddTensor("x", TensorType::kQ8_0, std::array<int64_t, 2>{16, 2}, Filled(34, 0)), "whole blocks");
}

}  // namespace
}  // namespace kvasir::gguf
