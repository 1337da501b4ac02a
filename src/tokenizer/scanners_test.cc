#include "tokenizer/scanners.h"

#include <gtest/gtest.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <string>
#include <vector>

#include "tokenizer/random_text.h"
#include "tokenizer/regex_splitter.h"

namespace kvasir::tokenizer {
namespace {

constexpr PassKind kScanned[] = {PassKind::kGpt2,         PassKind::kLlama3,        PassKind::kQwen2,
                                 PassKind::kQwen35,       PassKind::kTekken,        PassKind::kGpt4o,
                                 PassKind::kKimi,         PassKind::kSingleNumbers, PassKind::kThreeNumbers,
                                 PassKind::kNumberGroups, PassKind::kDecimalGroups, PassKind::kLines};

std::vector<std::string> Pieces(PassKind kind, std::string_view text) {
  std::vector<size_t> ends;
  Scan(kind, text, 0, ends);
  std::vector<std::string> pieces;
  size_t begin = 0;
  for (const size_t end : ends) {
    pieces.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return pieces;
}

using Strings = std::vector<std::string>;

TEST(Scanners, Gpt2) {
  EXPECT_EQ(Pieces(PassKind::kGpt2, "Hello  world's 42nd!\n\n x"),
            (Strings{"Hello", " ", " world", "'s", " 42", "nd", "!", "\n\n", " x"}));
  EXPECT_EQ(Pieces(PassKind::kGpt2, "I'LL   "), (Strings{"I", "'", "LL", "   "}));
}

TEST(Scanners, Cl100kTakesThreeDigitsAndQwenOne) {
  EXPECT_EQ(Pieces(PassKind::kLlama3, "I'LL pay $12345.\n\n  ok"),
            (Strings{"I", "'LL", " pay", " $", "123", "45", ".\n\n", " ", " ok"}));
  EXPECT_EQ(Pieces(PassKind::kQwen2, "x 12"), (Strings{"x", " ", "1", "2"}));
  EXPECT_EQ(Pieces(PassKind::kQwen2, "a \n \n b"), (Strings{"a", " \n \n", " b"}));
}

TEST(Scanners, MarksJoinTheWordOnlyInQwen35) {
  EXPECT_EQ(Pieces(PassKind::kQwen2, "e\xCC\x81x"), (Strings{"e", "\xCC\x81x"}));
  EXPECT_EQ(Pieces(PassKind::kQwen35, "e\xCC\x81x"), (Strings{"e\xCC\x81x"}));
}

TEST(Scanners, CasedWordsSplitBeforeCapitals) {
  EXPECT_EQ(Pieces(PassKind::kTekken, "camelCase HTTPServer's"), (Strings{"camel", "Case", " HTTPServer", "'s"}));
  EXPECT_EQ(Pieces(PassKind::kGpt4o, "HTTPServer's a/\nb"), (Strings{"HTTPServer's", " a", "/\n", "b"}));
  EXPECT_EQ(Pieces(PassKind::kKimi,
                   "a\xE4\xB8\xAD\xE6\x96\x87"
                   "b"),
            (Strings{"a", "\xE4\xB8\xAD\xE6\x96\x87", "b"}));
}

TEST(Scanners, GroupsOfDigitsCountFromTheRight) {
  EXPECT_EQ(Pieces(PassKind::kNumberGroups, "ab12345c"), (Strings{"ab", "12", "345", "c"}));
  EXPECT_EQ(Pieces(PassKind::kDecimalGroups, "12345 1234x"), (Strings{"12", "345", " 1234x"}));
}

// The patterns and the scanners see the same text; each cut must be the same.
TEST(Scanners, CutWhereTheirPatternsCut) {
  char version[24] = {};
  pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, version);
  const bool same_unicode = std::string_view(version) == "14.0.0";
  for (const PassKind kind : kScanned) {
    auto regex = RegexSplitter::Create(PatternOf(kind));
    ASSERT_TRUE(regex.ok()) << regex.error().message();
    RandomText random(static_cast<uint64_t>(kind) + 7, same_unicode);
    for (int i = 0; i < 3000; ++i) {
      const std::string broken = random.Broken(1 + random.Below(24));
      std::string storage;
      const std::string text(RepairUtf8(i % 2 == 0 ? random.Characters(1 + random.Below(24)) : broken, true, storage));
      std::vector<size_t> scanned, expected;
      Scan(kind, text, 0, scanned);
      const size_t whole[] = {text.size()};
      regex->Split(text, whole, expected);
      ASSERT_EQ(scanned, expected) << PatternOf(kind) << "\n" << ::testing::PrintToString(text);
    }
  }
}

TEST(RegexSplitter, EmptyMatchesCut) {
  auto regex = RegexSplitter::Create(R"((?=(\d{3})+(?!\d)))");
  ASSERT_TRUE(regex.ok());
  std::vector<size_t> ends;
  const size_t whole[] = {7};
  regex->Split("1234567", whole, ends);
  EXPECT_EQ(ends, (std::vector<size_t>{1, 4, 7}));
}

TEST(RegexSplitter, PiecesAreCutByThemselves) {
  auto regex = RegexSplitter::Create(R"(a+(?!b))");
  ASSERT_TRUE(regex.ok());
  std::vector<size_t> ends;
  const size_t pieces[] = {2, 5};
  regex->Split("aaaab", pieces, ends);
  EXPECT_EQ(ends, (std::vector<size_t>{2, 3, 5}));
}

TEST(RegexSplitter, BadPatternIsAnErrorWithItsPlace) {
  auto regex = RegexSplitter::Create("a(");
  ASSERT_FALSE(regex.ok());
  EXPECT_EQ(regex.error().code(), ErrorCode::kUnsupported);
}

// Groups that repeat need stack per repetition on the JIT; the text is far longer than the stack it may have.
TEST(RegexSplitter, OverflowingTheJitStackFallsBackToTheHeap) {
  auto regex = RegexSplitter::Create(R"((?:(?:a|b)(?=[abc]))+|c)");
  ASSERT_TRUE(regex.ok());
  std::vector<size_t> ends;
  const std::string text = "c" + std::string(400000, 'a') + std::string(400000, 'b') + "c";
  const size_t whole[] = {text.size()};
  regex->Split(text, whole, ends);
  EXPECT_EQ(ends, (std::vector<size_t>{1, text.size() - 1, text.size()}));
}

TEST(PreTokenizer, EveryRuleCompilesAndCoversItsText) {
  RandomText random(3, true);
  int rules_seen = 0;
  for (const char* name :
       {"default",    "llama-bpe",  "minicpm5", "qwen2",  "laguna",       "qwen35",         "tekken",      "gpt-4o",
        "kimi-k2",    "gpt-2",      "smollm",   "gemma4", "deepseek-llm", "deepseek-coder", "deepseek-v3", "spark2_5",
        "falcon",     "youtu",      "jais-2",   "bloom",  "viking",       "chameleon",      "tiny_aya",    "superbpe",
        "bailingmoe", "seed-coder", "ufakzeka", "afmoe",  "exaone-moe"}) {
    const PreTokenizerRules* rules = FindPreTokenizer(name);
    ASSERT_NE(rules, nullptr) << name;
    auto pre_tokenizer = PreTokenizer::Create(*rules);
    ASSERT_TRUE(pre_tokenizer.ok()) << name << ": " << pre_tokenizer.error().message();
    ++rules_seen;
    for (int i = 0; i < 200; ++i) {
      std::string storage;
      const std::string text(RepairUtf8(random.Broken(1 + random.Below(40)), true, storage));
      std::vector<size_t> ends;
      pre_tokenizer->Split(text, ends);
      ASSERT_FALSE(ends.empty()) << name;
      ASSERT_EQ(ends.back(), text.size()) << name;
      for (size_t k = 1; k < ends.size(); ++k) ASSERT_LT(ends[k - 1], ends[k]) << name;
    }
  }
  EXPECT_EQ(rules_seen, 29);
  EXPECT_EQ(FindPreTokenizer("no-such-name"), nullptr);
}

TEST(PreTokenizer, LaterPassesDoNotSeePastTheirPiece) {
  auto pre_tokenizer = PreTokenizer::Create(*FindPreTokenizer("smollm"));
  ASSERT_TRUE(pre_tokenizer.ok());
  std::vector<size_t> ends;
  pre_tokenizer->Split("a   1", ends);
  EXPECT_EQ(ends, (std::vector<size_t>{1, 4, 5}));  // were the digit seen, two spaces would be cut off: a, "  ", " ", 1
}

}  // namespace
}  // namespace kvasir::tokenizer
