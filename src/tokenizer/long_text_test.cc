// Long runs of one thing on a small stack: nothing in a tokenizer may recurse or be quadratic in the text (public crash
// reports of regex engines, tool results of one letter). No time is asserted; a quadratic step would not finish.
#include <gtest/gtest.h>
#include <pthread.h>

#include <functional>
#include <string>
#include <vector>

#include "tokenizer/tiny_vocabulary.h"
#include "tokenizer/unicode.h"

namespace kvasir::tokenizer {
namespace {

constexpr size_t kSmallStack = 256 << 10;

void OnASmallStack(std::function<void()> work) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kSmallStack), 0);
  pthread_t thread;
  const auto run = [](void* argument) -> void* {
    (*static_cast<std::function<void()>*>(argument))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &work), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

std::string Repeat(std::string_view unit, size_t bytes) {
  std::string text;
  text.reserve(bytes + unit.size());
  while (text.size() < bytes) text += unit;
  return text;
}

constexpr std::string_view kUnits[] = {"A",     "Z",   "us",           " ",        "\n",
                                       "\t ",   "7",   "\xE4\xB8\xAD", "!",        "'s",
                                       "aB",    "a ",  "\r\n",         "\xCC\x81", "\xF0\x9F\x98\x80",
                                       "<|x|>", "\xFF"};

void RoundTrip(const TinyVocabulary& tiny, size_t bytes) {
  const auto loaded = tiny.Load();
  ASSERT_TRUE(loaded.ok()) << loaded.error().message();
  OnASmallStack([&] {
    for (const std::string_view unit : kUnits) {
      const std::string text = Repeat(unit, bytes);
      const std::vector<Token> tokens = loaded->Encode(text, {.add_special = false, .parse_special = true});
      ASSERT_EQ(loaded->Decode(tokens, false, true), text) << loaded->pre() << " " << unit << " " << bytes;
    }
  });
}

std::vector<std::string> Merges() {
  return {"A A",
          "AA AA",
          "Z Z",
          "u s",
          "us us",
          "\xC4\xA0 \xC4\xA0",
          "\xC4\xA0\xC4\xA0 \xC4\xA0\xC4\xA0",
          "\xC4\x8A \xC4\x8A",
          "7 7",
          "' s",
          "a B"};
}

TEST(LongText, EveryScannerAndPatternTakesAHundredThousandOfAnything) {
  for (const char* pre : {"gpt-2",    "llama-bpe",      "qwen2",       "qwen35",       "tekken",  "gpt-4o", "kimi-k2",
                          "smollm",   "deepseek-coder", "deepseek-v3", "deepseek-llm", "default", "falcon", "tiny_aya",
                          "superbpe", "bailingmoe",     "exaone-moe",  "afmoe",        "youtu",   "jais-2"}) {
    TinyVocabulary tiny = TinyVocabulary::ByteLevel(Merges());
    tiny.pre = pre;
    tiny.Add("<|x|>", TinyVocabulary::kControl);
    tiny.ids = {{"bos_token_id", 0}};
    RoundTrip(tiny, 131072);
  }
}

TEST(LongText, AMillionInOnePiece) {
  TinyVocabulary tiny = TinyVocabulary::ByteLevel(Merges());
  tiny.Add("<|x|>", TinyVocabulary::kControl);
  RoundTrip(tiny, 1 << 20);

  TinyVocabulary spm = TinyVocabulary::SentencePiece({"\xE2\x96\x81", "\xE2\x96\x81\xE2\x96\x81", "A", "AA", "AAAA",
                                                      "us", "usus", "u", "s", "Z", "ZZ", "7", "77", "\n\n"});
  spm.Add("<|x|>", TinyVocabulary::kControl);
  RoundTrip(spm, 1 << 20);
}

}  // namespace
}  // namespace kvasir::tokenizer
