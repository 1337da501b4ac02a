#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <optional>
#include <string>

#include "gguf/gguf_file.h"
#include "gguf/gguf_writer.h"

namespace kvasir::gguf {
namespace {

using ::testing::HasSubstr;

// A model of three parts in a folder of its own; part i holds tensor "t<i>", filled with i.
class SplitModel : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = ::testing::TempDir() + "/split_" + test->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    for (int number = 0; number < 3; ++number) WritePart(number, {});
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  struct Change {
    std::optional<uint32_t> number = {};
    std::optional<uint32_t> count = {};
    std::optional<std::string> tensor = {};
    int total = 3;
  };
  void WritePart(int number, const Change& change) {
    GgufWriter writer;
    if (number == 0) writer.AddString("general.architecture", "test");
    writer.AddUint32("split.no", change.number.value_or(static_cast<uint32_t>(number)));
    writer.AddUint32("split.count", change.count.value_or(3));
    writer.AddInt32("split.tensors.count", change.total);
    writer.AddTensor(change.tensor.value_or("t" + std::to_string(number)), TensorType::kI8, std::array<int64_t, 1>{40},
                     std::vector<std::byte>(40, static_cast<std::byte>(number)));
    ASSERT_TRUE(writer.Write(Path(number)).ok());
  }
  std::string Path(int number) const { return folder_ + "/m-0000" + std::to_string(number + 1) + "-of-00003.gguf"; }
  std::string ErrorOfOpening(int number) const {
    const Result<GgufFile> file = GgufFile::Open(Path(number));
    return file.ok() ? "no error" : file.error().message();
  }

  std::string folder_;
};

TEST_F(SplitModel, AnyPartOpensTheWholeModelWithTheMetadataOfTheFirst) {
  for (int number = 0; number < 3; ++number) {
    const Result<GgufFile> file = GgufFile::Open(Path(number));
    ASSERT_TRUE(file.ok()) << file.error().message();
    EXPECT_EQ(file->path(), Path(number));
    EXPECT_EQ(*file->GetString("general.architecture"), "test");
    EXPECT_EQ(*file->GetInt("split.no"), 0);
    ASSERT_EQ(file->tensors().size(), 3u);
    int64_t total = 0;
    for (int part = 0; part < 3; ++part) {
      const TensorInfo* tensor = file->FindTensor("t" + std::to_string(part));
      ASSERT_EQ(tensor, &file->tensors()[static_cast<size_t>(part)]);
      EXPECT_EQ(tensor->bytes[39], static_cast<std::byte>(part));
      total += static_cast<int64_t>(std::filesystem::file_size(Path(part)));
    }
    EXPECT_EQ(file->total_bytes(), total);
    file->Release(file->tensors()[2]);
    EXPECT_EQ(file->tensors()[2].bytes[0], std::byte{2});
  }
}

TEST_F(SplitModel, AMissingPartIsNotFoundAndNamed) {
  std::filesystem::remove(Path(1));
  const Result<GgufFile> file = GgufFile::Open(Path(2));
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(file.error().message(), HasSubstr("part 2 of 3 of a split model"));
  EXPECT_THAT(file.error().message(), HasSubstr(Path(1)));
}

TEST_F(SplitModel, AFileNameThatDoesNotLeadToTheOtherPartsIsAnErrorThatSaysWhichWould) {
  std::filesystem::rename(Path(1), folder_ + "/renamed.gguf");
  const Result<GgufFile> file = GgufFile::Open(folder_ + "/renamed.gguf");
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(file.error().message(), HasSubstr("must end in -00002-of-00003.gguf"));
}

TEST_F(SplitModel, AFileNameShorterThanThePartNumberIsAnErrorAsWell) {
  std::filesystem::rename(Path(1), folder_ + "/m.gguf");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  const Result<GgufFile> file = GgufFile::Open("m.gguf");
  std::filesystem::current_path(before);
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(file.error().message(), HasSubstr("must end in -00002-of-00003.gguf"));
}

TEST_F(SplitModel, PartsMustAgreeAboutTheirPlace) {
  WritePart(1, {.number = 2});
  EXPECT_THAT(ErrorOfOpening(0), HasSubstr("m-00002-of-00003.gguf: key split.no is 2, not 1"));
  WritePart(1, {.count = 4});
  EXPECT_THAT(ErrorOfOpening(0), HasSubstr("m-00002-of-00003.gguf: key split.count is 4, not 3"));
  WritePart(0, {.number = 3});
  EXPECT_THAT(ErrorOfOpening(0), HasSubstr("key split.no is 3, outside 0 to 2"));
  WritePart(0, {.count = 70000});
  EXPECT_THAT(ErrorOfOpening(0), HasSubstr("key split.count is 70000, outside 0 to 65535"));
}

TEST_F(SplitModel, ATensorInTwoPartsIsAnError) {
  WritePart(2, {.tensor = "t0"});
  EXPECT_THAT(ErrorOfOpening(0), HasSubstr("tensor t0 appears twice"));
}

TEST_F(SplitModel, TheDeclaredTotalOfTensorsMustBeThere) {
  WritePart(0, {.total = 4});
  EXPECT_THAT(ErrorOfOpening(1), HasSubstr("key split.tensors.count is 4, not 3"));
}

TEST_F(SplitModel, ACorruptPartIsNamed) {
  std::filesystem::resize_file(Path(2), std::filesystem::file_size(Path(2)) - 32);
  EXPECT_THAT(ErrorOfOpening(0),
              HasSubstr("m-00003-of-00003.gguf: tensor t2: 40 bytes at offset 0 end beyond the file"));
}

}  // namespace
}  // namespace kvasir::gguf
