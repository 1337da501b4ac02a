// Tokenizations, detokenizations and vocabularies against the facts of an independent engine (llama.cpp), file by file.
//
// KVASIR_GOLDEN names the folder of facts (default: ../shared/golden beside the source), KVASIR_MODELS that of the
// models (default:
// ~/.cache/kvasir/models; vocabulary-only files in its vocab/). What is missing is printed and skipped.
#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "gguf/gguf_file.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode.h"
#include "tokenizer/vocabulary.h"

namespace kvasir::tokenizer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path FromEnvironment(const char* name, const fs::path& fallback) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? fs::path(value) : fallback;
}

fs::path GoldenFolder() {
  const fs::path source = KVASIR_SOURCE_DIR, beside = source.parent_path() / "shared/golden";
  return FromEnvironment("KVASIR_GOLDEN", fs::exists(beside) ? beside : source / "tests/data/golden");
}

fs::path ModelFolder() {
  const char* home = std::getenv("HOME");
  return FromEnvironment("KVASIR_MODELS", fs::path(home != nullptr ? home : "") / ".cache/kvasir/models");
}

std::vector<fs::path> FactFiles(const std::string& name) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const fs::path& folder : {GoldenFolder(), GoldenFolder() / "vocab"}) {
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      if (fs::exists(entry.path() / name)) files.push_back(entry.path() / name);
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::optional<gguf::GgufFile> OpenModel(const std::string& name) {
  for (const fs::path& folder : {ModelFolder(), ModelFolder() / "vocab"}) {
    if (!fs::exists(folder / name)) continue;
    auto file = gguf::GgufFile::Open((folder / name).string());
    EXPECT_TRUE(file.ok()) << file.error().message();
    if (file.ok()) return std::move(file).value();
  }
  return std::nullopt;
}

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

// Plain SHA-256, as the facts use it (Sha256 of base/hash.h frames its fields).
std::string PlainSha256(std::string_view bytes) {
  Digest digest{};
  unsigned int size = 0;
  EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()), &size, EVP_sha256(), nullptr);
  return ToHex(digest);
}

std::string InputOf(const json& fact) {
  if (fact.contains("hex")) return FromHex(fact["hex"]);
  const std::string unit = FromHex(fact["repeat_hex"]);
  std::string text;
  for (int i = 0; i < fact["count"].get<int>(); ++i) text += unit;
  return text;
}

std::string LittleEndian(const std::vector<Token>& tokens) {
  std::string bytes;
  for (const Token token : tokens) {
    for (int shift = 0; shift < 32; shift += 8)
      bytes += static_cast<char>(static_cast<uint32_t>(token) >> shift & 0xFF);
  }
  return bytes;
}

bool SameTokens(const std::vector<Token>& tokens, const json& fact) {
  if (fact.is_array()) return tokens == fact.get<std::vector<Token>>();
  return tokens.size() == fact["n"].get<size_t>() && PlainSha256(LittleEndian(tokens)) == fact["sha256_i32le"];
}

bool SameText(const std::string& text, const std::string& input, const json& fact) {
  if (fact.is_object()) return text.size() == fact["n"].get<size_t>() && PlainSha256(text) == fact["sha256"];
  return text == (fact == "same" ? input : FromHex(fact));
}

// What the other engine's detokenizer does to some models' text afterwards ("clean_up_tokenization_spaces"): it drops
// the space before ? ! . , and 's 'm 're 've, and those around a lone apostrophe. kvasir never does.
std::string CleanUp(const std::string& text) {
  std::string first;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i > 0 && text[i - 1] == ' ' && std::string_view("?!.,").find(text[i]) != std::string_view::npos)
      first.pop_back();
    first += text[i];
  }
  std::string second;
  for (size_t i = 0; i < first.size(); ++i) {
    const bool alone = i > 0 && i + 1 < first.size() && first[i] == '\'' && first[i - 1] == ' ' && first[i + 1] == ' ';
    if (alone) {
      second.pop_back();
      second += '\'';
      ++i;
      first[i] = '\0';
    } else {
      second += first[i];
    }
  }
  std::string third;
  for (size_t i = 0; i < second.size(); ++i) {
    if (i > 0 && second[i - 1] == ' ' && second[i] == '\'') {
      const std::string_view rest = std::string_view(second).substr(i + 1);
      if (rest.substr(0, 1) == "s" || rest.substr(0, 1) == "m" || rest.substr(0, 2) == "re" ||
          rest.substr(0, 2) == "ve") {
        third.pop_back();
      }
    }
    third += second[i];
  }
  return third;
}

bool HasAllBytes(const Tokenizer& tokenizer) {
  std::set<std::string> bytes;
  for (Token token = 0; token < tokenizer.vocab_size(); ++token) {
    const std::string piece = tokenizer.Piece(token, false);
    if (piece.size() == 1) bytes.insert(piece);
  }
  return bytes.size() == 256;
}

// How the other engine spells a token: where a byte-level text has a character outside the alphabet of bytes (emoji of
// command-r), it writes this; kvasir writes the text.
std::string PeerPiece(const Tokenizer& tokenizer, Token token, bool spell, std::string_view text, int64_t type) {
  constexpr int64_t kNormalType = 1;
  std::string bytes;
  const bool odd = tokenizer.model() == "gpt2" && type == kNormalType && !tokenizer.IsControl(token) &&
                   !PrintableToBytes(text, bytes);
  if (!odd) return tokenizer.Piece(token, spell);
  EXPECT_EQ(tokenizer.Piece(token, spell), text);
  EXPECT_EQ(CharAt(text, 0).size, text.size());
  return "[UNK_BYTE_0x" + ToHex(std::as_bytes(std::span(text))) + std::string(text) + "]";
}

struct Tally {
  int cases = 0, equal = 0, survived = 0;
  int texts = 0, equal_texts = 0;
  std::vector<std::string> different;
};

void CheckCase(const Tokenizer& tokenizer, const json& fact, Tally& tally) {
  const std::string id = fact["id"];
  const std::string input = InputOf(fact);
  if (fact.contains("peer_aborts")) {
    const std::vector<Token> tokens = tokenizer.Encode(input, {.add_special = false, .parse_special = false});
    if (HasAllBytes(tokenizer)) {
      EXPECT_EQ(tokenizer.Decode(tokens, false, true), input) << id << ": bytes are lost";
    }
    ++tally.survived;
    return;
  }
  ++tally.cases;
  bool equal = true;
  std::vector<Token> last;
  for (const std::string mode : {"ff", "tf", "ft", "tt"}) {
    json expected = fact["ids"][mode];
    while (expected.is_string()) expected = json(fact["ids"][expected.get<std::string>()]);
    last = tokenizer.Encode(input, {.add_special = mode[0] == 't', .parse_special = mode[1] == 't'});
    if (!SameTokens(last, expected)) {
      equal = false;
      tally.different.push_back(id + "/" + mode + ": " + json(last).dump().substr(0, 200) + " is not " +
                                expected.dump().substr(0, 200));
    }
  }
  tally.equal += equal;
  if (!equal) return;

  std::string pieces;
  for (const Token token : last) pieces += tokenizer.Piece(token, true);
  const std::string spelt = tokenizer.Decode(last, false, true);
  const std::string plain = tokenizer.Decode(last, true, false);
  const auto check = [&](const char* key, const std::string& text, bool may_be_cleaned) {
    if (!fact.contains(key)) return;
    ++tally.texts;
    const bool same = SameText(text, input, fact[key]) || (may_be_cleaned && SameText(CleanUp(text), input, fact[key]));
    tally.equal_texts += same;
    if (!same) {
      tally.different.push_back(id + "/" + key + ": '" + text.substr(0, 120) + "' is not " +
                                fact[key].dump().substr(0, 240));
    }
  };
  check("pieces_concat", pieces, false);
  check("back_special", spelt, true);
  check("back_plain", plain, true);

  StreamDecoder stream(tokenizer, true);
  std::string streamed;
  for (const Token token : last) streamed += stream.Push(token);
  streamed += stream.Finish();
  EXPECT_EQ(streamed, spelt) << id;
}

void CheckVocabulary(const Tokenizer& tokenizer, const gguf::GgufFile& file, const json& facts) {
  EXPECT_EQ(tokenizer.vocab_size(), facts["n_vocab"].get<int>());
  EXPECT_EQ(tokenizer.model(), facts["tokenizer_model"].get<std::string>());
  EXPECT_EQ(tokenizer.adds_bos(), facts["add_bos"].get<bool>());
  EXPECT_EQ(tokenizer.adds_eos(), facts["add_eos"].get<bool>());
  const SpecialTokens& special = tokenizer.special();
  const std::pair<const char*, Token> kRoles[] = {
      {"bos", special.bos},         {"eos", special.eos},         {"sep", special.sep},
      {"nl", special.nl},           {"pad", special.pad},         {"mask", special.mask},
      {"fim_pre", special.fim_pre}, {"fim_suf", special.fim_suf}, {"fim_mid", special.fim_mid},
      {"fim_pad", special.fim_pad}, {"fim_rep", special.fim_rep}, {"fim_sep", special.fim_sep}};
  for (const auto& [name, token] : kRoles) EXPECT_EQ(token, facts["special"][name].get<Token>()) << name;
  // With several end-of-turn texts in a vocabulary the other engine takes the first in hash order: any of them will do.
  const Token eot = facts["special"]["eot"];
  EXPECT_EQ(special.eot == kNoToken, eot == kNoToken);
  if (eot != kNoToken) {
    EXPECT_TRUE(tokenizer.IsEndOfGeneration(eot)) << eot;
  }

  EXPECT_EQ(std::vector<Token>(tokenizer.end_of_generation().begin(), tokenizer.end_of_generation().end()),
            facts["eog"].get<std::vector<Token>>());
  std::vector<Token> control;
  for (Token token = 0; token < tokenizer.vocab_size(); ++token) {
    if (tokenizer.IsControl(token)) control.push_back(token);
  }
  EXPECT_TRUE(SameTokens(control, facts["control"])) << json(control).dump().substr(0, 400);

  Vocabulary vocabulary;
  ASSERT_TRUE(vocabulary.Load(file).ok());
  EXPECT_EQ(PlainSha256(LittleEndian({vocabulary.token_traits.begin(), vocabulary.token_traits.end()})),
            facts["attrs_sha256"]);

  const auto texts = file.GetStrings("tokenizer.ggml.tokens");
  const auto types = file.GetInts("tokenizer.ggml.token_type");
  ASSERT_TRUE(texts.ok() && types.ok());
  for (const bool spell : {true, false}) {
    std::string bytes;
    for (Token token = 0; token < tokenizer.vocab_size(); ++token) {
      const std::string piece = PeerPiece(tokenizer, token, spell, (*texts)[static_cast<size_t>(token)],
                                          (*types)[static_cast<size_t>(token)]);
      bytes += LittleEndian({static_cast<Token>(piece.size())}) + piece;
    }
    EXPECT_EQ(PlainSha256(bytes), facts[spell ? "pieces_sha256_special" : "pieces_sha256_nospecial"]) << spell;
  }
}

TEST(GoldenTokenize, EveryFactHolds) {
  int checked = 0;
  const std::vector<fs::path> files = FactFiles("tokenize.json");
  for (const fs::path& path : files) {
    const json facts = json::parse(std::ifstream(path));
    const std::string model = facts["model"];
    SCOPED_TRACE(model);
    const auto file = OpenModel(model);
    if (!file) {
      std::printf("skipped %s: no such file in %s\n", model.c_str(), ModelFolder().c_str());
      continue;
    }
    const auto tokenizer = Tokenizer::FromGguf(*file);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message();
    ++checked;
    CheckVocabulary(*tokenizer, *file, facts);
    Tally tally;
    for (const json& fact : facts["cases"]) CheckCase(*tokenizer, fact, tally);
    std::printf("%-42s cases %d of %d equal, %d only survived; texts %d of %d equal\n", model.c_str(), tally.equal,
                tally.cases, tally.survived, tally.equal_texts, tally.texts);
    for (const std::string& line : tally.different) ADD_FAILURE() << line;
  }
  if (checked == 0) GTEST_SKIP() << "no facts in " << GoldenFolder() << " or no models in " << ModelFolder();
}

TEST(GoldenTokenize, PublishedVectorsHold) {
  int checked = 0;
  for (const fs::path& path : FactFiles("vectors.json")) {
    const json facts = json::parse(std::ifstream(path));
    const std::string model = facts["vocab"];
    SCOPED_TRACE(model);
    const auto file = OpenModel(model);
    if (!file) {
      std::printf("skipped %s: no such file in %s\n", model.c_str(), ModelFolder().c_str());
      continue;
    }
    const auto tokenizer = Tokenizer::FromGguf(*file);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message();
    ++checked;
    int equal = 0;
    for (const json& fact : facts["cases"]) {
      const std::string input = FromHex(fact["hex"]);
      const auto tokens = tokenizer->Encode(input, {.add_special = facts["add_special"].get<bool>(),
                                                    .parse_special = facts["parse_special"].get<bool>()});
      equal += tokens == fact["ids"].get<std::vector<Token>>();
      EXPECT_EQ(tokens, fact["ids"].get<std::vector<Token>>()) << fact["text"];
    }
    std::printf("%-42s vectors %d of %zu equal\n", model.c_str(), equal, facts["cases"].size());
  }
  if (checked == 0) GTEST_SKIP() << "no vectors in " << GoldenFolder() << " or no models in " << ModelFolder();
}

}  // namespace
}  // namespace kvasir::tokenizer
