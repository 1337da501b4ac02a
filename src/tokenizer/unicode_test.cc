#include "tokenizer/unicode.h"

#include <gtest/gtest.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <vector>

#include "tokenizer/random_text.h"
#include "tokenizer/regex_splitter.h"

namespace kvasir::tokenizer {
namespace {

bool PcreHasOurUnicode() {
  char version[24] = {};
  pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, version);
  return std::string_view(version) == "14.0.0";
}

// A string of all code points but surrogates.
std::string Everything() {
  std::string text;
  for (uint32_t code = 0; code <= kMaxCodePoint; ++code) {
    if (code < 0xD800 || code >= 0xE000) AppendUtf8(text, code);
  }
  return text;
}

TEST(UnicodeClasses, EqualThoseOfPcre2AtTheSameUnicodeVersion) {
  if (!PcreHasOurUnicode()) GTEST_SKIP() << "this PCRE2 has another Unicode version";
  const std::string text = Everything();
  const std::pair<const char*, CharClass> kClasses[] = {{R"(\p{L})", kLetter},
                                                        {R"(\p{M})", kMark},
                                                        {R"(\p{N})", kNumber},
                                                        {R"(\p{Nd})", kDecimal},
                                                        {R"(\p{P})", kPunctuation},
                                                        {R"(\p{S})", kSymbol},
                                                        {R"(\p{White_Space})", kSpace},
                                                        {R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])", kUpperSide},
                                                        {R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])", kLowerSide}};
  for (const auto& [pattern, classes] : kClasses) {
    auto regex = RegexSplitter::Create(std::string(pattern) + "+");
    ASSERT_TRUE(regex.ok()) << regex.error().message();
    std::vector<size_t> expected, ends;
    const size_t whole[] = {text.size()};
    regex->Split(text, whole, expected);
    bool inside = (CharAt(text, 0).classes & classes) != 0;
    for (size_t at = 0; at < text.size();) {
      const Char c = CharAt(text, at);
      if (((c.classes & classes) != 0) != inside) {
        ends.push_back(at);
        inside = !inside;
      }
      at += c.size;
    }
    ends.push_back(text.size());
    EXPECT_EQ(ends, expected) << pattern;
  }
}

TEST(UnicodeClasses, SpacesAreWhiteSpaceAndNotTheMongolianSeparator) {
  for (const uint32_t code :
       {0x09u, 0x0Du, 0x20u, 0x85u, 0xA0u, 0x1680u, 0x2003u, 0x2028u, 0x202Fu, 0x205Fu, 0x3000u}) {
    EXPECT_EQ(ClassOf(code), kSpace) << code;
  }
  for (const uint32_t code : {0x1Cu, 0x180Eu, 0x200Bu, 0xFEFFu}) EXPECT_EQ(ClassOf(code) & kSpace, 0) << code;
}

TEST(UnicodeMaps, LowerAndBaseCharacters) {
  EXPECT_EQ(ToLower('A'), uint32_t{'a'});
  EXPECT_EQ(ToLower('a'), uint32_t{'a'});
  EXPECT_EQ(ToLower(0x130), uint32_t{'i'});
  EXPECT_EQ(ToLower(0x10400), 0x10428u);
  EXPECT_EQ(BaseCharacter(0xE9), uint32_t{'e'});
  EXPECT_EQ(BaseCharacter(0x1EC7), uint32_t{'e'});
  EXPECT_EQ(BaseCharacter(0xD55C), 0x1112u);
  EXPECT_EQ(BaseCharacter(0x4E2D), 0x4E2Du);
}

TEST(IsValidUtf8, FollowsTheStandard) {
  for (const std::string_view good :
       {"", "a", "\x7F", "\xC2\x80", "\xED\x9F\xBF", "\xEE\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(IsValidUtf8(good)) << good;
  }
  for (const std::string_view bad :
       {"\x80", "\xC0\xAF", "\xC1\xBF", "\xC2", "\xE0\x80\xAF", "\xED\xA0\x80", "\xF0\x80\x80\xAF", "\xF4\x90\x80\x80",
        "\xF8\x88\x80\x80\x80", "\xFF", "12345678\xE2\x96"}) {
    EXPECT_FALSE(IsValidUtf8(bad)) << bad;
  }
}

TEST(RepairUtf8, IsLenientAsTheReference) {
  std::string storage;
  const auto repair = [&](std::string_view text, bool keep) { return std::string(RepairUtf8(text, keep, storage)); };
  EXPECT_EQ(repair("abc\x80\xBF"
                   "def",
                   true),
            "abc\xEF\xBF\xBD\xEF\xBF\xBD"
            "def");
  EXPECT_EQ(repair("\xC0\xAF x \xE0\x80\xAF", true), "/ x /");
  EXPECT_EQ(repair("\xED\xA0\x80", true), "\xED\xA0\x80");
  EXPECT_EQ(repair("x\xF0\x9F\x98 y", true), "x\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD y");
  EXPECT_EQ(repair("\xF5\x80\x80\x80 \xFF", true), "\xF5\x80\x80\x80 \xFF");
  EXPECT_EQ(repair("\xF5\x80\x80\x80 \xFF", false), "\xEF\xBF\xBD \xEF\xBF\xBD");
}

TEST(RepairUtf8, IsIdempotentAndTheIdentityOnValidText) {
  RandomText random(1, true);
  for (int i = 0; i < 2000; ++i) {
    const std::string text = random.Broken(1 + random.Below(30));
    for (const bool keep : {false, true}) {
      std::string first, second;
      const std::string once(RepairUtf8(text, keep, first));
      EXPECT_EQ(RepairUtf8(once, keep, second), once);
      if (IsValidUtf8(text)) {
        EXPECT_EQ(once, text);
      }
    }
  }
}

TEST(UnfinishedTail, CountsTheBytesThatSomeContinuationCompletes) {
  const std::string_view kCharacters[] = {"\xC3\xA9", "\xE2\x96\x81", "\xED\x95\x9C", "\xF0\x9F\x98\x80",
                                          "\xF4\x8F\xBF\xBF"};
  for (const std::string_view character : kCharacters) {
    for (size_t cut = 1; cut < character.size(); ++cut) {
      EXPECT_EQ(UnfinishedTail("ab" + std::string(character.substr(0, cut))), cut);
    }
    EXPECT_EQ(UnfinishedTail(character), 0u);
  }
  for (const std::string_view hopeless : {"", "a", "\x80", "\xC0", "\xC1", "\xE0\x80", "\xED\xA0", "\xF0\x80",
                                          "\xF4\x90", "\xF5", "\xFF", "\xC3\xA9\x80", "\xE2\x96\x81\x81"}) {
    EXPECT_EQ(UnfinishedTail(hopeless), 0u) << hopeless;
  }
}

}  // namespace
}  // namespace kvasir::tokenizer
