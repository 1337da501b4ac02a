// Chat templates of real models, byte for byte as python jinja2 renders them in the environment of the transformers
// library.
//
// KVASIR_GOLDEN names the folder of facts (default: ../shared/golden beside the source); if it is missing, that is
// printed and skipped.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "chat/chat_template.h"

namespace kvasir::chat {
namespace {

using nlohmann::ordered_json;

std::filesystem::path GoldenFolder() {
  const char* folder = std::getenv("KVASIR_GOLDEN");
  return folder != nullptr && *folder != '\0'
             ? std::filesystem::path(folder)
             : std::filesystem::path(KVASIR_SOURCE_DIR).parent_path() / "shared" / "golden";
}

ordered_json ReadJson(const std::filesystem::path& path) {
  std::ifstream in(path);
  return ordered_json::parse(in);
}

std::vector<std::filesystem::path> GoldenFiles() {
  std::vector<std::filesystem::path> files;
  if (!std::filesystem::is_directory(GoldenFolder())) return files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(GoldenFolder())) {
    const auto& path = entry.path();
    const bool chat = path.filename() == "chat.json" || path.parent_path().filename() == "templates";
    if (chat && path.extension() == ".json" && path.filename() != "chat_inputs.json") files.push_back(path);
  }
  std::sort(files.begin(), files.end());
  return files;
}

ChatInput InputOf(const ordered_json& inputs, const ordered_json& test) {
  ChatInput input;
  input.messages = inputs["messages"][test["messages"].get<std::string>()];
  input.add_generation_prompt = test["add_generation_prompt"];
  if (test.contains("tools_undefined")) input.tools.reset();
  if (test.contains("tools")) {
    ordered_json tools = ordered_json::array();
    for (const auto& name : test["tools"]) tools.push_back(inputs["tools"][name.get<std::string>()]);
    input.tools = tools;
  }
  if (test.contains("extra")) input.extra = test["extra"];
  // 2024-07-26T12:34:56, a Friday, day 208 of the year
  input.now.tm_year = 124;
  input.now.tm_mon = 6;
  input.now.tm_mday = 26;
  input.now.tm_hour = 12;
  input.now.tm_min = 34;
  input.now.tm_sec = 56;
  input.now.tm_wday = 5;
  input.now.tm_yday = 207;
  return input;
}

void ExpectSpansCover(const RenderedChat& rendered) {
  size_t at = 0;
  for (const Span& span : rendered.spans) {
    ASSERT_EQ(span.begin, at);
    ASSERT_LT(span.begin, span.end);
    at = span.end;
  }
  ASSERT_EQ(at, rendered.text.size());
}

class ChatGolden : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(ChatGolden, RendersByteForByteAndFailsWhereJinjaFails) {
  const ordered_json file = ReadJson(GetParam());
  ASSERT_EQ(file["strftime_now"], "2024-07-26T12:34:56");
  const ordered_json inputs = file.contains("inputs") ? ReadJson(GetParam().parent_path() / file["inputs"]) : file;
  // As transformers: templates that change lists raise there.
  ChatTemplateOptions options{file["bos_token"], file["eos_token"], /*extensions=*/false, {}};
  const auto parsed = ChatTemplate::Parse(file["template"], options);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message();
  ASSERT_FALSE(file["cases"].empty());
  for (const ordered_json& test : file["cases"]) {
    ordered_json name = test;
    name.erase("out");
    const auto rendered = parsed->Render(InputOf(inputs, test));
    if (test.contains("out")) {
      if (!rendered.ok()) {
        ADD_FAILURE() << name << "\n" << rendered.error().message();
        continue;
      }
      EXPECT_EQ(rendered->text, test["out"].get<std::string>()) << name;
      ExpectSpansCover(*rendered);
      continue;
    }
    if (rendered.ok()) {
      ADD_FAILURE() << name << " should fail";
      continue;
    }
    const bool raised = test["raised_by_template"];
    EXPECT_EQ(rendered.error().code(), raised ? ErrorCode::kInvalidArgument : ErrorCode::kUnsupported) << name;
    if (!raised) continue;
    EXPECT_EQ("TemplateError: " + rendered.error().message(), test["error"].get<std::string>());
  }
}

std::string NameOf(const testing::TestParamInfo<std::filesystem::path>& info) {
  std::string name = info.param.parent_path().filename().string() + "_" + info.param.stem().string();
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Files, ChatGolden, testing::ValuesIn(GoldenFiles()), NameOf);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ChatGolden);

TEST(ChatGoldenFiles, AreThere) {
  if (GoldenFiles().empty()) {
    std::cout << "skipped: no golden files in " << GoldenFolder() << " (KVASIR_GOLDEN)\n";
    GTEST_SKIP();
  }
}

}  // namespace
}  // namespace kvasir::chat
