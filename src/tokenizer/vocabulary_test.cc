#include "tokenizer/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "tokenizer/tiny_vocabulary.h"

namespace kvasir::tokenizer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TinyVocabulary Good() {
  TinyVocabulary tiny = TinyVocabulary::ByteLevel({"a b", "ab c"});
  tiny.Add("<|endoftext|>", TinyVocabulary::kControl);
  return tiny;
}

void ExpectCorrupt(const TinyVocabulary& tiny, const std::string& key) {
  const auto tokenizer = tiny.Load();
  ASSERT_FALSE(tokenizer.ok()) << key;
  EXPECT_EQ(tokenizer.error().code(), ErrorCode::kCorrupt) << tokenizer.error().message();
  EXPECT_THAT(tokenizer.error().message(), HasSubstr(key));
}

TEST(VocabularyLoad, AcceptsASmallGoodFile) {
  EXPECT_TRUE(Good().Load().ok()) << Good().Load().error().message();
}

TEST(VocabularyLoad, FileWithoutATokenizerIsNotFound) {
  gguf::GgufWriter writer;
  writer.AddString("general.architecture", "llama");
  const auto bytes = writer.Serialize();
  auto file = gguf::GgufFile::Parse(bytes, "bare");
  ASSERT_TRUE(file.ok());
  const auto tokenizer = Tokenizer::FromGguf(*file);
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.error().code(), ErrorCode::kNotFound);
}

TEST(VocabularyLoad, UnknownModelIsUnsupported) {
  TinyVocabulary tiny = Good();
  tiny.model = "rwkv";
  const auto tokenizer = tiny.Load();
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.error().code(), ErrorCode::kUnsupported);
}

TEST(VocabularyLoad, ArraysOfAnotherLengthThanTheTokensAreNamed) {
  for (const int change : {-1, 1}) {
    TinyVocabulary tiny = Good();
    tiny.types.resize(tiny.tokens.size() + static_cast<size_t>(change), 1);
    ExpectCorrupt(tiny, "tokenizer.ggml.token_type");
    TinyVocabulary spm = TinyVocabulary::SentencePiece({"a"});
    spm.scores.resize(spm.tokens.size() + static_cast<size_t>(change));
    ExpectCorrupt(spm, "tokenizer.ggml.scores");
  }
  TinyVocabulary spm = TinyVocabulary::SentencePiece({"a"});
  spm.scores.clear();
  ExpectCorrupt(spm, "tokenizer.ggml.scores");
}

TEST(VocabularyLoad, IdsOutsideTheVocabularyAreNamed) {
  for (const char* key :
       {"bos_token_id", "eos_token_id", "eot_token_id", "eom_token_id", "unknown_token_id", "seperator_token_id",
        "padding_token_id", "mask_token_id", "fim_pre_token_id", "fim_sep_token_id"}) {
    for (const int32_t id : {-1, static_cast<int32_t>(Good().tokens.size()), std::numeric_limits<int32_t>::max()}) {
      TinyVocabulary tiny = Good();
      tiny.ids = {{key, id}};
      ExpectCorrupt(tiny, std::string("tokenizer.ggml.") + key);
    }
  }
}

TEST(VocabularyLoad, FlagsNeedTheirToken) {
  TinyVocabulary tiny = Good();
  tiny.flags = {{"add_bos_token", true}};
  ExpectCorrupt(tiny, "tokenizer.ggml.add_bos_token");
  tiny.flags = {{"add_eos_token", true}};
  ExpectCorrupt(tiny, "tokenizer.ggml.add_eos_token");
}

TEST(VocabularyLoad, MergesMustNameTokens) {
  TinyVocabulary tiny = Good();
  tiny.merges.clear();
  ExpectCorrupt(tiny, "tokenizer.ggml.merges");
  // Unknown parts, an unknown result, no separator, an empty part (a merge that leads back to its own left token).
  for (const char* merge : {"a qq", "qq a", "c d", "ab", "a ", " a", ""}) {
    TinyVocabulary bad = Good();
    bad.merges.emplace_back(merge);
    ExpectCorrupt(bad, "tokenizer.ggml.merges");
  }
}

TEST(VocabularyLoad, TypesOutOfRangeAndFalseBytesAreNamed) {
  for (const int32_t type : {-1, 7, 1000}) {
    TinyVocabulary tiny = Good();
    tiny.types[3] = type;
    ExpectCorrupt(tiny, "tokenizer.ggml.token_type");
  }
  TinyVocabulary tiny = Good();
  tiny.types.back() = TinyVocabulary::kByte;
  ExpectCorrupt(tiny, "tokenizer.ggml.token_type");
}

TEST(VocabularyLoad, TokensMustDifferAndBeOfSaneLength) {
  TinyVocabulary tiny = Good();
  tiny.Add("<|endoftext|>");
  ExpectCorrupt(tiny, "tokenizer.ggml.tokens");
  tiny = Good();
  tiny.Add(std::string(70000, 'a'));
  ExpectCorrupt(tiny, "tokenizer.ggml.tokens");
  tiny = Good();
  tiny.Add("");  // is given a name
  EXPECT_TRUE(tiny.Load().ok());
}

TEST(VocabularyLoad, ScoresMustBeNumbers) {
  TinyVocabulary spm = TinyVocabulary::SentencePiece({"a"});
  spm.scores[5] = std::numeric_limits<float>::quiet_NaN();
  ExpectCorrupt(spm, "tokenizer.ggml.scores");
}

TEST(VocabularyRoles, AreRecognisedByTextWhereTheFileIsSilent) {
  TinyVocabulary tiny = Good();
  const Token im_end = tiny.Add("<|im_end|>", TinyVocabulary::kControl);
  const Token prefix = tiny.Add("<|fim_prefix|>");
  const Token file_sep = tiny.Add("<|file_sep|>");
  const auto loaded = tiny.Load();
  ASSERT_TRUE(loaded.ok());
  const Tokenizer& tokenizer = *loaded;
  EXPECT_EQ(tokenizer.special().eos, kNoToken);
  EXPECT_EQ(tokenizer.special().eot, im_end);
  EXPECT_EQ(tokenizer.special().fim_pre, prefix);
  EXPECT_EQ(tokenizer.special().fim_sep, file_sep);
  EXPECT_TRUE(tokenizer.IsControl(prefix));
  EXPECT_THAT(tokenizer.end_of_generation(), ElementsAre(258, im_end, file_sep));
  EXPECT_TRUE(tokenizer.IsEndOfGeneration(258));
  EXPECT_FALSE(tokenizer.IsEndOfGeneration(prefix));
}

TEST(VocabularyRoles, EndOfMessageIsNotEndOfGenerationBesideCalls) {
  TinyVocabulary tiny = Good();
  const Token end = tiny.Add("<|end|>", TinyVocabulary::kControl);
  const Token ret = tiny.Add("<|return|>", TinyVocabulary::kControl);
  const Token call = tiny.Add("<|call|>", TinyVocabulary::kControl);
  const Token channel = tiny.Add("<|channel|>", TinyVocabulary::kControl);
  const auto loaded = tiny.Load();
  ASSERT_TRUE(loaded.ok());
  EXPECT_FALSE(loaded->IsEndOfGeneration(end));
  EXPECT_TRUE(loaded->IsEndOfGeneration(ret));
  EXPECT_TRUE(loaded->IsEndOfGeneration(call));
  EXPECT_EQ(loaded->Piece(channel, false), "<|channel|>");
  EXPECT_EQ(loaded->Piece(ret, false), "");
  for (const Token token : loaded->Encode("<|channel|>", {.add_special = false, .parse_special = false})) {
    EXPECT_NE(token, channel);
  }
}

TEST(VocabularyPre, UnknownAndMissingNamesLoadButAreNotVerified) {
  TinyVocabulary tiny = Good();
  EXPECT_TRUE(tiny.Load().value().pre_verified());
  tiny.pre = "something-new";
  EXPECT_FALSE(tiny.Load().value().pre_verified());
  EXPECT_EQ(tiny.Load().value().pre(), "something-new");
  tiny.pre = "";
  EXPECT_FALSE(tiny.Load().value().pre_verified());
  EXPECT_EQ(tiny.Load().value().pre(), "default");
}

TEST(ByteAlphabet, IsOneToOne) {
  for (int byte = 0; byte < 256; ++byte) {
    const char raw = static_cast<char>(byte);
    std::string back;
    EXPECT_TRUE(PrintableToBytes(BytesToPrintable({&raw, 1}), back));
    EXPECT_EQ(back, std::string(1, raw));
  }
  EXPECT_EQ(BytesToPrintable(" A\n"),
            "\xC4\xA0"
            "A\xC4\x8A");
  std::string back;
  EXPECT_FALSE(PrintableToBytes("a b", back));
  EXPECT_FALSE(PrintableToBytes("\xF0\x9F\x98\x80", back));
}

}  // namespace
}  // namespace kvasir::tokenizer
