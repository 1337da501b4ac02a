// Any bytes through every kind of tokenizer, with vocabularies built in memory: encoding and decoding never fail, text
// never becomes a control token unasked, what should come back comes back, and the scanners cut where their patterns
// do.
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/regex_splitter.h"
#include "tokenizer/scanners.h"
#include "tokenizer/tiny_vocabulary.h"
#include "tokenizer/unicode.h"

namespace kvasir::tokenizer {
namespace {

constexpr PassKind kScanned[] = {PassKind::kGpt2,          PassKind::kLlama3,       PassKind::kQwen2,
                                 PassKind::kQwen35,        PassKind::kTekken,       PassKind::kGpt4o,
                                 PassKind::kSingleNumbers, PassKind::kThreeNumbers, PassKind::kLines};

void Require(bool holds) {
  if (!holds) std::abort();
}

Tokenizer Loaded(const TinyVocabulary& tiny) {
  auto tokenizer = tiny.Load();
  Require(tokenizer.ok());
  return std::move(tokenizer).value();
}

struct Fixture {
  std::vector<Tokenizer> tokenizers;
  std::vector<RegexSplitter> patterns;

  Fixture() {
    for (const char* pre : {"gpt-2", "smollm", "qwen2", "llama-bpe", "deepseek-v3", "default"}) {
      TinyVocabulary tiny =
          TinyVocabulary::ByteLevel({"a b", "ab ab", "\xC4\xA0 a", "a a", "aa aa", "\xC4\xA0 \xC4\xA0", "< s", "<s >"});
      tiny.pre = pre;
      tiny.types.back() = TinyVocabulary::kControl;  // "<s>", which merges spell
      tiny.Add("<|x|>", TinyVocabulary::kControl);
      tiny.Add("<y>", TinyVocabulary::kUserDefined);
      tiny.ids = {{"bos_token_id", 0}};
      tokenizers.push_back(Loaded(tiny));
    }
    TinyVocabulary spm = TinyVocabulary::SentencePiece({"\xE2\x96\x81", "a", "aa",
                                                        "\xE2\x96\x81"
                                                        "a",
                                                        "ab", "<s", "\n\n"});
    spm.Add("<y>", TinyVocabulary::kUserDefined);
    tokenizers.push_back(Loaded(spm));
    spm.model = "gemma4";
    spm.merges = {"a a", "\xE2\x96\x81 a"};
    spm.ids = {{"bos_token_id", 1}};
    tokenizers.push_back(Loaded(spm));
    for (const PassKind kind : kScanned) {
      auto pattern = RegexSplitter::Create(PatternOf(kind));
      Require(pattern.ok());
      patterns.push_back(std::move(pattern).value());
    }
  }
};

void CheckTokenizer(const Tokenizer& tokenizer, const std::string& text) {
  const std::vector<Token> plain = tokenizer.Encode(text, {.add_special = false, .parse_special = false});
  for (const Token token : plain) Require(token >= 0 && token < tokenizer.vocab_size() && !tokenizer.IsControl(token));
  const std::string decoded = tokenizer.Decode(plain, false, true);
  std::string storage;
  if (tokenizer.model() != "llama") {
    // U+2581 is how Gemma 4 writes a space, so there it comes back as one.
    if (tokenizer.model() == "gpt2") Require(decoded == RepairUtf8(text, true, storage));
  } else if (IsValidUtf8(text) && text.find(kVisibleSpace) == std::string::npos &&
             text.find("<y>") == std::string::npos) {
    // A user-defined token is followed by a new first word, with its space.
    Require(decoded == text);
  }
  StreamDecoder stream(tokenizer, true);
  std::string streamed;
  for (const Token token : plain) {
    const std::string part = stream.Push(token);
    Require(!IsValidUtf8(decoded) || IsValidUtf8(part));
    streamed += part;
  }
  Require(streamed + stream.Finish() == decoded);
  tokenizer.Encode(text, {.add_special = true, .parse_special = true});
}

void CheckScanners(const Fixture& fixture, const std::string& text) {
  std::string storage;
  const std::string_view repaired = RepairUtf8(text, true, storage);
  if (repaired.empty()) return;
  const size_t whole[] = {repaired.size()};
  for (size_t i = 0; i < fixture.patterns.size(); ++i) {
    std::vector<size_t> scanned, expected;
    Scan(kScanned[i], repaired, 0, scanned);
    fixture.patterns[i].Split(repaired, whole, expected);
    Require(scanned == expected);
  }
}

}  // namespace
}  // namespace kvasir::tokenizer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const kvasir::tokenizer::Fixture fixture;
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const auto& tokenizer : fixture.tokenizers) kvasir::tokenizer::CheckTokenizer(tokenizer, text);
  kvasir::tokenizer::CheckScanners(fixture, text);
  return 0;
}
