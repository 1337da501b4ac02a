// tokenizer/tiny_vocabulary.h
// Small vocabularies as GGUF files in memory, for tests and fuzzing: no model file is needed to exercise a tokenizer.
//
// Thread rule: plain values.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gguf/gguf_file.h"
#include "gguf/gguf_writer.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace kvasir::tokenizer {

struct TinyVocabulary {
  enum Type : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

  std::string model = "gpt2";
  std::string pre = "gpt-2";
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<float> scores;
  std::vector<std::string> merges;
  std::vector<std::pair<std::string, int32_t>> ids;  // tokenizer.ggml.<first>
  std::vector<std::pair<std::string, bool>> flags;   // tokenizer.ggml.<first>
  std::string name;                                  // general.name

  Token Add(std::string_view text, Type type = kNormal, float score = 0) {
    tokens.emplace_back(text);
    types.push_back(type);
    scores.push_back(score);
    return static_cast<Token>(tokens.size() - 1);
  }

  // The bytes, then a token for every merge of "left right", in GPT-2's alphabet.
  static TinyVocabulary ByteLevel(std::vector<std::string> merges) {
    TinyVocabulary tiny;
    for (int byte = 0; byte < 256; ++byte) {
      const char raw = static_cast<char>(byte);
      tiny.Add(BytesToPrintable({&raw, 1}));
    }
    for (const std::string& merge : merges) {
      const size_t space = merge.find(' ', 1);
      tiny.Add(merge.substr(0, space) + merge.substr(space + 1));
    }
    tiny.merges = std::move(merges);
    return tiny;
  }

  // <unk> <s> </s>, the bytes, then `pieces` with falling scores.
  static TinyVocabulary SentencePiece(const std::vector<std::string>& pieces) {
    TinyVocabulary tiny;
    tiny.model = "llama";
    tiny.pre = "default";
    tiny.Add("<unk>", kUnknown);
    tiny.Add("<s>", kControl);
    tiny.Add("</s>", kControl);
    for (int byte = 0; byte < 256; ++byte) tiny.Add(fmt::format("<0x{:02X}>", byte), kByte);
    for (size_t i = 0; i < pieces.size(); ++i) tiny.Add(pieces[i], kNormal, -static_cast<float>(i));
    return tiny;
  }

  std::vector<std::byte> Serialize() const {
    gguf::GgufWriter writer;
    writer.AddString("general.architecture", "llama");
    if (!name.empty()) writer.AddString("general.name", name);
    writer.AddString("tokenizer.ggml.model", model);
    if (!pre.empty()) writer.AddString("tokenizer.ggml.pre", pre);
    writer.AddStrings("tokenizer.ggml.tokens", tokens);
    if (!types.empty()) writer.AddInts("tokenizer.ggml.token_type", types);
    if (!scores.empty()) writer.AddFloats("tokenizer.ggml.scores", scores);
    if (!merges.empty()) writer.AddStrings("tokenizer.ggml.merges", merges);
    for (const auto& [key, id] : ids) writer.AddInt32("tokenizer.ggml." + key, id);
    for (const auto& [key, flag] : flags) writer.AddBool("tokenizer.ggml." + key, flag);
    return writer.Serialize();
  }

  Result<Tokenizer> Load() const {
    const std::vector<std::byte> bytes = Serialize();
    KVASIR_ASSIGN_OR_RETURN(const auto file, gguf::GgufFile::Parse(bytes, "tiny"));
    return Tokenizer::FromGguf(file);
  }
};

}  // namespace kvasir::tokenizer
