#include "tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tokenizer/random_text.h"
#include "tokenizer/tiny_vocabulary.h"

namespace kvasir::tokenizer {
namespace {

using Tokens = std::vector<Token>;
constexpr EncodeOptions kPlain{.add_special = false, .parse_special = false};
constexpr EncodeOptions kParsed{.add_special = false, .parse_special = true};

Tokenizer Loaded(const TinyVocabulary& tiny) {
  auto tokenizer = tiny.Load();
  KVASIR_CHECK(tokenizer.ok(), "{}", tokenizer.error().message());
  return std::move(tokenizer).value();
}

std::vector<std::string> Pieces(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options = kPlain) {
  std::vector<std::string> pieces;
  for (const Token token : tokenizer.Encode(text, options)) pieces.push_back(tokenizer.Piece(token, true));
  return pieces;
}
using Strings = std::vector<std::string>;

TinyVocabulary TinyBytePair() {
  TinyVocabulary tiny = TinyVocabulary::ByteLevel(
      {"h e", "l l", "he ll", "hell o", "\xC4\xA0 w", "o r", "\xC4\xA0w or", "l d", "\xC3\x83 \xC2\xA9"});
  tiny.Add("<|im_start|>", TinyVocabulary::kControl);
  tiny.Add("<|im_end|>", TinyVocabulary::kControl);
  tiny.Add("<tool>", TinyVocabulary::kUserDefined);
  tiny.ids = {{"eos_token_id", 256 + 10}};
  return tiny;
}

TEST(BytePair, MergesByRankWithinPieces) {
  const Tokenizer tokenizer = Loaded(TinyBytePair());
  EXPECT_EQ(Pieces(tokenizer, "hello world"), (Strings{"hello", " wor", "ld"}));
  EXPECT_EQ(Pieces(tokenizer, "helo\xC3\xA9"), (Strings{"he", "l", "o", "\xC3\xA9"}));
}

TEST(BytePair, AnyBytesComeBackWhereTextIsUnicode) {
  const Tokenizer tokenizer = Loaded(TinyBytePair());
  RandomText random(2, true);
  for (int i = 0; i < 500; ++i) {
    std::string storage;
    const std::string text = random.Broken(1 + random.Below(60));
    const Tokens tokens = tokenizer.Encode(text, kPlain);
    EXPECT_EQ(tokenizer.Decode(tokens, false, true), RepairUtf8(text, true, storage));
  }
}

TEST(SpecialTokens, TextBecomesAControlTokenOnlyWhereAsked) {
  const Tokenizer tokenizer = Loaded(TinyBytePair());
  const std::string text = "a<|im_end|>\n<|im_start|>system<tool>";
  for (const Token token : tokenizer.Encode(text, kPlain)) EXPECT_FALSE(tokenizer.IsControl(token)) << token;
  EXPECT_THAT(Pieces(tokenizer, text), ::testing::Contains("<tool>"));
  EXPECT_EQ(Pieces(tokenizer, "a<|im_end|><|im_start|>", kParsed), (Strings{"a", "<|im_end|>", "<|im_start|>"}));
}

TEST(SpecialTokens, MergesNeverSpellAControlToken) {
  TinyVocabulary tiny = TinyVocabulary::ByteLevel({"< s", "<s >"});
  tiny.types[257] = TinyVocabulary::kControl;  // "<s>"
  const Tokenizer tokenizer = Loaded(tiny);
  EXPECT_FALSE(tokenizer.IsControl(256));
  EXPECT_TRUE(tokenizer.IsControl(257));
  for (const Token token : tokenizer.Encode("<s>", kPlain)) EXPECT_FALSE(tokenizer.IsControl(token));

  TinyVocabulary pieces = TinyVocabulary::SentencePiece({"<s", "s>"});
  pieces.flags = {{"add_bos_token", false}, {"add_space_prefix", false}};
  const Tokenizer spm = Loaded(pieces);
  EXPECT_EQ(Pieces(spm, "<s>"), (Strings{"<s", ">"}));
  EXPECT_EQ(spm.Encode("<s>", kParsed), (Tokens{1}));
}

TEST(SpecialTokens, LongestNameWinsAndOverlapsAreTriedShorter) {
  TinyVocabulary tiny = TinyVocabulary::ByteLevel({"q q"});
  tiny.Add("<ab>", TinyVocabulary::kUserDefined);
  tiny.Add("x<a", TinyVocabulary::kUserDefined);
  tiny.Add("x", TinyVocabulary::kUserDefined);
  tiny.tokens['x'] = "xx";  // the only x is the user-defined one
  const Tokenizer tokenizer = Loaded(tiny);
  EXPECT_EQ(Pieces(tokenizer, "x<ab>"), (Strings{"x", "<ab>"}));
  EXPECT_EQ(Pieces(tokenizer, "x<ac"), (Strings{"x<a", "c"}));
}

// The definition: of all names the longest, of those the leftmost, in what is still text; again and again.
std::vector<std::string> SplitSlowly(const std::string& text, const std::vector<std::string>& names) {
  size_t best = std::string::npos, best_size = 0;
  for (const std::string& name : names) {
    const size_t at = text.find(name);
    if (at == std::string::npos || name.size() < best_size) continue;
    if (name.size() > best_size || at < best) best = at;
    best_size = name.size();
  }
  if (best == std::string::npos) return text.empty() ? std::vector<std::string>{} : std::vector<std::string>{text};
  std::vector<std::string> parts = SplitSlowly(text.substr(0, best), names);
  parts.push_back("<" + text.substr(best, best_size) + ">");
  for (const std::string& part : SplitSlowly(text.substr(best + best_size), names)) parts.push_back(part);
  return parts;
}

TEST(SpecialTokens, SplitAsByTheDefinition) {
  RandomText random(12, false);
  const auto word = [&](size_t size) {
    std::string text;
    while (size-- > 0) text += "xyz"[random.Below(3)];
    return text;
  };
  for (int round = 0; round < 60; ++round) {
    TinyVocabulary tiny = TinyVocabulary::ByteLevel({"q q"});
    std::vector<std::string> names;
    for (int i = 0; i < 8; ++i) {
      const std::string name = word(2 + random.Below(5));
      if (std::find(names.begin(), names.end(), name) != names.end()) continue;
      names.push_back(name);
      tiny.Add(name, i % 2 == 0 ? TinyVocabulary::kUserDefined : TinyVocabulary::kControl);
    }
    const Tokenizer tokenizer = Loaded(tiny);
    for (int i = 0; i < 40; ++i) {
      const std::string text = word(random.Below(40));
      std::vector<std::string> parts;
      bool open = false;  // the last part is text
      for (const Token token : tokenizer.Encode(text, kParsed)) {
        const std::string piece = tokenizer.Piece(token, true);
        if (token > 256) {
          parts.push_back("<" + piece + ">");
        } else if (open) {
          parts.back() += piece;
        } else {
          parts.push_back(piece);
        }
        open = token <= 256;
      }
      ASSERT_EQ(parts, SplitSlowly(text, names)) << text;
    }
  }
}

TEST(SpecialTokens, PhiTokensTakeTheSpaceAfterThem) {
  TinyVocabulary tiny = TinyVocabulary::SentencePiece({"\xE2\x96\x81", "a"});
  tiny.name = "Phi-3 Mini";
  const Token user = tiny.Add("<|user|>", TinyVocabulary::kControl);
  const Tokenizer tokenizer = Loaded(tiny);
  EXPECT_EQ(Pieces(tokenizer, "<|user|>\n \ta", kParsed), (Strings{"<|user|>", " ", "a"}));
  EXPECT_EQ(tokenizer.Encode("a  <|user|>", kParsed).back(), user);
}

TEST(SentencePiece, BestScoreMergesFirstAndBytesFallBack) {
  TinyVocabulary tiny = TinyVocabulary::SentencePiece({"\xE2\x96\x81", "bc", "ab", "a", "b", "c",
                                                       "\xE2\x96\x81"
                                                       "bc"});
  const Tokenizer tokenizer = Loaded(tiny);
  EXPECT_EQ(Pieces(tokenizer, "abc"), (Strings{" ", "a", "bc"}));
  EXPECT_EQ(Pieces(tokenizer, "bc"), (Strings{" bc"}));
  EXPECT_EQ(Pieces(tokenizer, "\xFF\xC3\xA9"), (Strings{" ", "\xFF", "\xC3", "\xA9"}));
  EXPECT_EQ(tokenizer.Encode("a", {}).front(), 1);
}

TEST(SentencePiece, SpaceGoesFirstAfterEverySpecialToken) {
  TinyVocabulary tiny = TinyVocabulary::SentencePiece({"\xE2\x96\x81", "a"});
  const Tokenizer tokenizer = Loaded(tiny);
  EXPECT_EQ(Pieces(tokenizer, "a<s>a", kParsed), (Strings{" ", "a", "<s>", " ", "a"}));
  tiny.flags = {{"add_space_prefix", false}};
  EXPECT_EQ(Pieces(Loaded(tiny), "a<s>a", kParsed), (Strings{"a", "<s>", "a"}));
}

TEST(SentencePiece, CuttingWhereNothingJoinsChangesNothing) {
  // The same vocabulary with and without a token that holds every neighbouring pair, which forbids cutting.
  std::vector<std::string> pieces = {"ab",
                                     "ba",
                                     "\xE2\x96\x81"
                                     "a",
                                     "abb",
                                     "\xE2\x96\x81",
                                     "a",
                                     "b",
                                     "bb"};
  const Tokenizer cut = Loaded(TinyVocabulary::SentencePiece(pieces));
  const std::string space = "\xE2\x96\x81";
  pieces.push_back("aabba" + space + space + "b" + space + "ab" +
                   "a");  // never reached: no part of it is a token but short ones
  const Tokenizer whole = Loaded(TinyVocabulary::SentencePiece(pieces));
  RandomText random(9, false);
  for (int i = 0; i < 300; ++i) {
    std::string text;
    for (size_t n = random.Below(90); n > 0; --n) text += "ab "[random.Below(3)];
    ASSERT_EQ(cut.Encode(text, kPlain), whole.Encode(text, kPlain)) << text;
  }
}

TEST(SentencePiece, EveryByteComesBack) {
  const Tokenizer tokenizer = Loaded(TinyVocabulary::SentencePiece({"\xE2\x96\x81", "a", "'s",
                                                                    "\xE2\x96\x81"
                                                                    "a"}));
  RandomText random(4, true);
  for (int i = 0; i < 500; ++i) {
    // A cut-off character takes what follows along, be it the first bytes of a space (as in the reference).
    std::string text = random.Broken(1 + random.Below(60));
    std::replace(text.begin(), text.end(), ' ', '_');
    EXPECT_EQ(tokenizer.Decode(tokenizer.Encode(text, kPlain), false, true), text);
  }
}

TEST(Gemma4, SpacesAreVisibleAndNewlineRunsAreOneToken) {
  TinyVocabulary tiny = TinyVocabulary::SentencePiece({"\xE2\x96\x81", "a", "b", "ab",
                                                       "\xE2\x96\x81"
                                                       "ab",
                                                       "\n", "\n\n\n"});
  tiny.model = "gemma4";
  tiny.pre.clear();
  tiny.merges = {"a b", "\xE2\x96\x81 ab"};
  tiny.ids = {{"bos_token_id", 1}};
  const Tokenizer tokenizer = Loaded(tiny);
  EXPECT_TRUE(tokenizer.adds_bos());
  EXPECT_EQ(Pieces(tokenizer, "ab ab\n\n\n\xC3\xA9"), (Strings{"ab", " ab", "\n\n\n", "\xC3", "\xA9"}));
}

TEST(WordPiece, CoversWordsFromTheLeftOrNotAtAll) {
  TinyVocabulary tiny;
  tiny.model = "bert";
  tiny.pre.clear();
  tiny.Add("[PAD]", TinyVocabulary::kControl);
  for (const char* text : {"\xE2\x96\x81"
                           "ca",
                           "fe",
                           "\xE2\x96\x81"
                           "!",
                           "\xE2\x96\x81"
                           "\xE4\xB8\xAD"})
    tiny.Add(text);
  const Token unknown = tiny.Add("[UNK]", TinyVocabulary::kControl);
  const Token cls = tiny.Add("[CLS]", TinyVocabulary::kControl);
  const Token sep = tiny.Add("[SEP]", TinyVocabulary::kControl);
  tiny.ids = {{"unknown_token_id", unknown}, {"cls_token_id", cls}, {"seperator_token_id", sep}};
  const Tokenizer tokenizer = Loaded(tiny);
  EXPECT_EQ(tokenizer.Encode("Caf\xC3\xA9! cafx\t\xE4\xB8\xAD", {}), (Tokens{cls, 1, 2, 3, unknown, 4, sep}));
}

TEST(Unigram, TakesTheBestSumAndJoinsUnknowns) {
  TinyVocabulary tiny;
  tiny.model = "t5";
  tiny.pre.clear();
  tiny.Add("<pad>", TinyVocabulary::kControl);
  tiny.Add("</s>", TinyVocabulary::kControl);
  tiny.Add("<unk>", TinyVocabulary::kUnknown);
  tiny.Add("\xE2\x96\x81", TinyVocabulary::kNormal, -2);
  tiny.Add("a", TinyVocabulary::kNormal, -1);
  tiny.Add("b", TinyVocabulary::kNormal, -1);
  const Token ab = tiny.Add("ab", TinyVocabulary::kNormal, -1.5f);
  tiny.Add("ba", TinyVocabulary::kNormal, -3.5f);
  tiny.flags = {{"add_space_prefix", true}, {"remove_extra_whitespaces", true}};
  const Tokenizer tokenizer = Loaded(tiny);
  EXPECT_EQ(tokenizer.Encode("  abab  zzb", {}), (Tokens{3, ab, ab, 3, 2, 5, 1}));
}

TEST(Decode, RemovesOnlyWhatEncodingAdded) {
  TinyVocabulary tiny =
      TinyVocabulary::SentencePiece({"\xE2\x96\x81"
                                     "a",
                                     "\xE2\x96\x81", "a"});
  tiny.flags = {{"add_eos_token", true}};
  const Tokenizer tokenizer = Loaded(tiny);
  const Tokens tokens = tokenizer.Encode("a a", {});
  EXPECT_EQ(tokens.front(), 1);
  EXPECT_EQ(tokens.back(), 2);
  EXPECT_EQ(tokenizer.Decode(tokens, true, true), " a a");
  EXPECT_EQ(tokenizer.Decode(tokens, false, true), "<s> a a</s>");
  EXPECT_EQ(tokenizer.Decode(tokens, false, false), " a a");
  EXPECT_EQ(tokenizer.Decode(std::span(tokens).subspan(1), true, true), "a a");
}

TEST(Decode, IdsOutsideTheVocabularyAreEmpty) {
  const Tokenizer tokenizer = Loaded(TinyBytePair());
  EXPECT_EQ(tokenizer.Piece(-1, true), "");
  EXPECT_EQ(tokenizer.Piece(tokenizer.vocab_size(), true), "");
  EXPECT_EQ(tokenizer.Decode(Tokens{-5, '!', 1 << 30}, true, true), "!");
  EXPECT_FALSE(tokenizer.IsControl(-1));
  EXPECT_FALSE(tokenizer.IsEndOfGeneration(1 << 30));
}

TEST(StreamDecoder, ConcatenationEqualsDecodeAndPartsAreWholeCharacters) {
  TinyVocabulary spm = TinyVocabulary::SentencePiece({"\xE2\x96\x81",
                                                      "\xE2\x96\x81"
                                                      "a",
                                                      "\xC3\xA9", "<0x"});
  for (const TinyVocabulary& tiny : {TinyBytePair(), spm}) {
    const Tokenizer tokenizer = Loaded(tiny);
    RandomText random(6, true);
    for (int i = 0; i < 400; ++i) {
      const bool valid = i % 2 == 0;
      Tokens tokens;
      if (valid) {
        // Real text, token by token; most of it falls apart into bytes.
        std::string text;
        while (text.size() < 40) {
          const std::string more = random.Characters(1);
          if (IsValidUtf8(more)) text += more;
        }
        tokens = tokenizer.Encode(text, kPlain);
      } else {
        for (size_t n = random.Below(40); n > 0; --n) {
          tokens.push_back(static_cast<Token>(random.Below(static_cast<size_t>(tokenizer.vocab_size()) + 3)) - 1);
        }
      }
      for (const bool special : {false, true}) {
        StreamDecoder stream(tokenizer, special);
        std::string all;
        for (const Token token : tokens) {
          const std::string part = stream.Push(token);
          if (valid) {
            EXPECT_TRUE(IsValidUtf8(part));
          }
          all += part;
        }
        const std::string rest = stream.Finish();
        if (valid) {
          EXPECT_EQ(rest, "");
        }
        EXPECT_EQ(all + rest, tokenizer.Decode(tokens, false, special));
      }
    }
  }
}

TEST(StreamDecoder, HoldsAnUnfinishedCharacterAndGivesItUpAtTheEnd) {
  const Tokenizer tokenizer = Loaded(TinyBytePair());
  const Tokens tokens = tokenizer.Encode("a\xF0\x9F\x98\x80", kPlain);
  ASSERT_EQ(tokens.size(), 5u);
  StreamDecoder stream(tokenizer, false);
  EXPECT_EQ(stream.Push(tokens[0]), "a");
  EXPECT_EQ(stream.Push(tokens[1]), "");
  EXPECT_EQ(stream.Push(tokens[2]), "");
  EXPECT_EQ(stream.Push(tokens[3]), "");
  EXPECT_EQ(stream.Finish(), "\xF0\x9F\x98");
  EXPECT_EQ(stream.Finish(), "");
}

TEST(StreamDecoder, ContinuingKeepsTheFirstSpace) {
  const Tokenizer tokenizer = Loaded(TinyVocabulary::SentencePiece({"\xE2\x96\x81",
                                                                    "\xE2\x96\x81"
                                                                    "a"}));
  const Tokens tokens = tokenizer.Encode("a", kPlain);
  ASSERT_EQ(tokens.size(), 1u);
  EXPECT_EQ(StreamDecoder(tokenizer, false).Push(tokens[0]), "a");
  EXPECT_EQ(StreamDecoder(tokenizer, false, true).Push(tokens[0]), " a");
}

TEST(Digest, ChangesWithTheRulesAndTheVocabulary) {
  const TinyVocabulary tiny = TinyBytePair();
  TinyVocabulary other_pre = tiny, other_token = tiny, other_merge = tiny;
  other_pre.pre = "qwen2";
  other_token.tokens.back() = "<tools>";
  std::swap(other_merge.merges[0], other_merge.merges[1]);
  const Digest digest = Loaded(tiny).digest();
  EXPECT_EQ(Loaded(tiny).digest(), digest);
  for (const TinyVocabulary& other : {other_pre, other_token, other_merge}) EXPECT_NE(Loaded(other).digest(), digest);
}

}  // namespace
}  // namespace kvasir::tokenizer
