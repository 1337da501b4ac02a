#include "tokenizer/vocabulary.h"

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/log.h"
#include "tokenizer/unicode.h"

namespace kvasir::tokenizer {
namespace {

constexpr const char* kTokensKey = "tokenizer.ggml.tokens";
constexpr const char* kTypesKey = "tokenizer.ggml.token_type";
constexpr const char* kScoresKey = "tokenizer.ggml.scores";
constexpr const char* kMergesKey = "tokenizer.ggml.merges";

// Far above any real token; bounds every table that grows with the longest one.
constexpr size_t kLongestToken = 65535;

constexpr bool IsPrintableByte(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// The code point that GPT-2 writes for a byte: printable ones stand for themselves, the others follow from U+0100 on.
constexpr std::array<uint16_t, 256> PrintableAlphabet() {
  std::array<uint16_t, 256> alphabet{};
  uint16_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    alphabet[static_cast<size_t>(byte)] = IsPrintableByte(byte) ? static_cast<uint16_t>(byte) : next++;
  }
  return alphabet;
}
constexpr std::array<uint16_t, 256> kAlphabet = PrintableAlphabet();
constexpr size_t kAlphabetEnd = 0x100 + 68;

constexpr std::array<int16_t, kAlphabetEnd> BytesOfAlphabet() {
  std::array<int16_t, kAlphabetEnd> bytes{};
  for (auto& byte : bytes) byte = -1;
  for (size_t byte = 0; byte < 256; ++byte) bytes[kAlphabet[byte]] = static_cast<int16_t>(byte);
  return bytes;
}
constexpr std::array<int16_t, kAlphabetEnd> kBytes = BytesOfAlphabet();

// The byte of "<0x41>"; -1 for any other text.
int ByteOfName(std::string_view text) {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return -1;
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
  };
  const int high = digit(text[3]), low = digit(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

std::string WithSpaces(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (text.substr(at, kVisibleSpace.size()) == kVisibleSpace) {
      out += ' ';
      at += kVisibleSpace.size();
    } else {
      out += text[at++];
    }
  }
  return out;
}

}  // namespace

std::string BytesToPrintable(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) AppendUtf8(text, kAlphabet[static_cast<unsigned char>(byte)]);
  return text;
}

bool PrintableToBytes(std::string_view text, std::string& bytes) {
  bytes.clear();
  for (size_t at = 0; at < text.size();) {
    const Char c = CharAt(text, at);
    if (c.code >= kAlphabetEnd || kBytes[c.code] < 0) return false;
    bytes += static_cast<char>(kBytes[c.code]);
    at += c.size;
  }
  return true;
}

Status Vocabulary::Load(const gguf::GgufFile& file) {
  KVASIR_RETURN_IF_ERROR(LoadModel(file));
  KVASIR_RETURN_IF_ERROR(LoadTokens(file));
  KVASIR_RETURN_IF_ERROR(LoadTraits(file));
  KVASIR_RETURN_IF_ERROR(LoadScores(file));
  if (kind == ModelKind::kBytePair) {
    ChoosePreTokenizer();
    KVASIR_RETURN_IF_ERROR(LoadMerges(file));
  }
  KVASIR_RETURN_IF_ERROR(LoadRoles(file));
  RecogniseRoles();
  RecogniseEndOfGeneration();
  MakeByteTokens();
  KVASIR_RETURN_IF_ERROR(MakePieces());
  RecogniseStripping(file);
  return {};
}

Status Vocabulary::LoadModel(const gguf::GgufFile& file) {
  KVASIR_ASSIGN_OR_RETURN(const auto model_name, file.GetString("tokenizer.ggml.model"));
  KVASIR_ASSIGN_OR_RETURN(const auto pre_name, file.GetStringOr("tokenizer.ggml.pre", ""));
  model = std::string(model_name);
  pre = pre_name.empty() ? "default" : std::string(pre_name);
  if (model == "llama") {
    kind = ModelKind::kSentencePiece;
    add_bos = add_space_prefix = true;
  } else if (model == "gpt2") {
    kind = ModelKind::kBytePair;
    pre_verified = !pre_name.empty();
  } else if (model == "gemma4") {
    kind = ModelKind::kBytePair;
    pre = "gemma4";
  } else if (model == "bert") {
    kind = ModelKind::kWordPiece;
    add_bos = add_sep = true;
  } else if (model == "t5") {
    kind = ModelKind::kUnigram;
    add_eos = true;
    if (file.Has("tokenizer.ggml.precompiled_charsmap")) {
      KVASIR_ASSIGN_OR_RETURN(charsmap, file.GetInts("tokenizer.ggml.precompiled_charsmap"));
    }
  } else {
    return MakeError(ErrorCode::kUnsupported, "tokenizer.ggml.model is {}; known are llama, gpt2, gemma4, bert and t5",
                     model);
  }
  return {};
}

void Vocabulary::ChoosePreTokenizer() {
  rules = FindPreTokenizer(pre);
  if (rules == nullptr) {
    pre_verified = false;
    // Large vocabularies come from cl100k's pattern or Qwen's; the former's have three-digit tokens.
    const char* stand_in = size() < 100000 ? "gpt-2" : Find("000") != kNoToken ? "llama-bpe" : "qwen2";
    rules = FindPreTokenizer(stand_in);
    Log(LogLevel::kWarn, "tokenizer.ggml.pre is {}, which is unknown here: splitting as {}; expect worse answers", pre,
        stand_in);
  } else if (!pre_verified) {
    Log(LogLevel::kWarn, "the file has no tokenizer.ggml.pre: splitting by the default pattern; expect worse answers");
  }
  add_bos = rules->adds_bos;
  add_sep = rules->adds_sep;
}

Status Vocabulary::LoadTokens(const gguf::GgufFile& file) {
  KVASIR_ASSIGN_OR_RETURN(const auto tokens, file.GetStrings(kTokensKey));
  if (tokens.empty() || tokens.size() > static_cast<size_t>(std::numeric_limits<Token>::max())) {
    return MakeError(ErrorCode::kCorrupt, "{} has {} entries", kTokensKey, tokens.size());
  }
  size_t bytes = 0;
  for (const std::string_view text : tokens) bytes += text.size();
  texts.Reserve(tokens.size(), bytes);
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].size() > kLongestToken) {
      return MakeError(ErrorCode::kCorrupt, "{}: token {} is {} bytes long, more than {}", kTokensKey, i,
                       tokens[i].size(), kLongestToken);
    }
    if (tokens[i].empty()) {
      texts.Add(fmt::format("[EMPTY_{}]", i));  // the name that llama.cpp gives it
    } else {
      texts.Add(tokens[i]);
    }
  }
  index.Start(texts, tokens.size());
  for (int id = 0; id < size(); ++id) {
    longest_text = std::max(longest_text, Text(id).size());
    if (!index.Add(id)) {
      return MakeError(ErrorCode::kCorrupt, "{}: tokens {} and {} have the same text", kTokensKey, Find(Text(id)), id);
    }
  }
  return {};
}

Status Vocabulary::LoadTraits(const gguf::GgufFile& file) {
  token_traits.assign(static_cast<size_t>(size()), kNormalToken);
  if (!file.Has(kTypesKey)) return {};
  KVASIR_ASSIGN_OR_RETURN(const auto types, file.GetInts(kTypesKey));
  if (types.size() != token_traits.size()) {
    return MakeError(ErrorCode::kCorrupt, "{} has {} entries for {} tokens", kTypesKey, types.size(), size());
  }
  // In the order of the file's numbers, 0..6.
  constexpr TokenTraits kByType[] = {
      0, kNormalToken, kUnknownToken, kControlToken, kUserDefinedToken, kUnusedToken, kByteToken};
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] < 0 || types[i] > 6) {
      return MakeError(ErrorCode::kCorrupt, "{}: token {} is of type {}, not of 0..6", kTypesKey, i, types[i]);
    }
    token_traits[i] = kByType[types[i]];
    if (token_traits[i] == kByteToken && ByteOfName(Text(static_cast<Token>(i))) < 0) {
      return MakeError(ErrorCode::kCorrupt, "{}: token {} is of byte type but its text is not of the form <0x41>",
                       kTypesKey, i);
    }
  }
  return {};
}

Status Vocabulary::LoadScores(const gguf::GgufFile& file) {
  if (kind != ModelKind::kSentencePiece && kind != ModelKind::kUnigram) return {};
  if (!file.Has(kScoresKey)) {
    return MakeError(ErrorCode::kCorrupt, "{} is missing, which a {} vocabulary needs", kScoresKey, model);
  }
  KVASIR_ASSIGN_OR_RETURN(scores, file.GetFloats(kScoresKey));
  if (scores.size() != static_cast<size_t>(size())) {
    return MakeError(ErrorCode::kCorrupt, "{} has {} entries for {} tokens", kScoresKey, scores.size(), size());
  }
  for (size_t i = 0; i < scores.size(); ++i) {
    if (!std::isfinite(scores[i])) {
      return MakeError(ErrorCode::kCorrupt, "{}: the score of token {} is not a number", kScoresKey, i);
    }
  }
  return {};
}

Status Vocabulary::LoadMerges(const gguf::GgufFile& file) {
  if (!file.Has(kMergesKey)) {
    return MakeError(ErrorCode::kCorrupt, "{} is missing, which a {} vocabulary needs", kMergesKey, model);
  }
  KVASIR_ASSIGN_OR_RETURN(const auto lines, file.GetStrings(kMergesKey));
  if (lines.size() > std::numeric_limits<uint32_t>::max() / 2) {
    return MakeError(ErrorCode::kCorrupt, "{} has {} entries", kMergesKey, lines.size());
  }
  merges.reserve(lines.size());
  std::string joined;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string_view line = lines[i];
    // A token may begin with a space, so the first byte does not separate.
    const size_t space = line.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == line.size()) {
      return MakeError(ErrorCode::kCorrupt, "{}: entry {} is not two tokens with a space between", kMergesKey, i);
    }
    joined.assign(line.substr(0, space)).append(line.substr(space + 1));
    const Merge merge{Find(line.substr(0, space)), Find(line.substr(space + 1)), Find(joined)};
    if (merge.left == kNoToken || merge.right == kNoToken || merge.result == kNoToken) {
      return MakeError(ErrorCode::kCorrupt, "{}: entry {} ({}) names a token that {} has not", kMergesKey, i, line,
                       kTokensKey);
    }
    merges.push_back(merge);
  }
  return {};
}

Status Vocabulary::LoadRoles(const gguf::GgufFile& file) {
  // What llama.cpp takes where the keys are missing, as far as the vocabulary agrees.
  const auto assume = [&](Token& role, Token id, TokenTraits traits) {
    if (id < size() && Is(id, traits)) role = id;
  };
  constexpr TokenTraits kAny = 0xFFFF;
  if (kind == ModelKind::kSentencePiece) {
    assume(special.bos, 1, kControlToken);
    assume(special.eos, 2, kControlToken);
    assume(special.unk, 0, kUnknownToken);
  } else if (kind == ModelKind::kWordPiece) {
    assume(special.pad, 0, kAny);
    assume(special.unk, 100, kAny);
    assume(special.bos, 101, kAny);
    assume(special.sep, 102, kAny);
    assume(special.mask, 103, kAny);
  } else if (kind == ModelKind::kUnigram) {
    assume(special.pad, 0, kAny);
    assume(special.eos, 1, kAny);
    assume(special.unk, 2, kAny);
  }
  const std::pair<const char*, Token*> roles[] = {
      {"tokenizer.ggml.cls_token_id", kind == ModelKind::kWordPiece ? &special.bos : nullptr},
      {"tokenizer.ggml.bos_token_id", &special.bos},
      {"tokenizer.ggml.eos_token_id", &special.eos},
      {"tokenizer.ggml.eot_token_id", &special.eot},
      {"tokenizer.ggml.eom_token_id", &special.eom},
      {"tokenizer.ggml.unknown_token_id", &special.unk},
      {"tokenizer.ggml.seperator_token_id", &special.sep},
      {"tokenizer.ggml.padding_token_id", &special.pad},
      {"tokenizer.ggml.mask_token_id", &special.mask},
      {"tokenizer.ggml.prefix_token_id", &special.fim_pre},
      {"tokenizer.ggml.suffix_token_id", &special.fim_suf},
      {"tokenizer.ggml.middle_token_id", &special.fim_mid},
      {"tokenizer.ggml.fim_pre_token_id", &special.fim_pre},
      {"tokenizer.ggml.fim_suf_token_id", &special.fim_suf},
      {"tokenizer.ggml.fim_mid_token_id", &special.fim_mid},
      {"tokenizer.ggml.fim_pad_token_id", &special.fim_pad},
      {"tokenizer.ggml.fim_rep_token_id", &special.fim_rep},
      {"tokenizer.ggml.fim_sep_token_id", &special.fim_sep},
  };
  for (const auto& [key, role] : roles) {
    if (role == nullptr || !file.Has(key)) continue;
    KVASIR_ASSIGN_OR_RETURN(const auto id, file.GetInt(key, 0, size() - 1));
    *role = static_cast<Token>(id);
  }

  const std::pair<const char*, bool*> flags[] = {
      {"tokenizer.ggml.add_bos_token", &add_bos},
      {"tokenizer.ggml.add_eos_token", &add_eos},
      {"tokenizer.ggml.add_sep_token", &add_sep},
      {"tokenizer.ggml.add_space_prefix", &add_space_prefix},
      {"tokenizer.ggml.remove_extra_whitespaces", &remove_extra_spaces},
      {"tokenizer.ggml.normalizer.lowercase", &lower_case},
  };
  for (const auto& [key, flag] : flags) {
    KVASIR_ASSIGN_OR_RETURN(*flag, file.GetBoolOr(key, *flag));
  }
  KVASIR_ASSIGN_OR_RETURN(strip_accents, file.GetBoolOr("tokenizer.ggml.normalizer.strip_accents", lower_case));
  // Files of Gemma 4 were made with the flag off by mistake (llama.cpp corrects it too).
  if (model == "gemma4") add_bos = true;

  const auto needs = [](bool flag, Token role, const char* what) -> Status {
    if (!flag || role != kNoToken) return {};
    return MakeError(ErrorCode::kCorrupt, "tokenizer.ggml.add_{0}_token is true, but the file names no {0} token",
                     what);
  };
  KVASIR_RETURN_IF_ERROR(needs(add_bos, special.bos, "bos"));
  KVASIR_RETURN_IF_ERROR(needs(add_eos, special.eos, "eos"));
  KVASIR_RETURN_IF_ERROR(needs(add_sep, special.sep, "sep"));
  return {};
}

void Vocabulary::MakeByteTokens() {
  byte_tokens.assign(256, kNoToken);
  int missing = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const char raw = static_cast<char>(byte);
    Token token;
    if (kind == ModelKind::kBytePair && !rules->visible_spaces) {
      token = Find(BytesToPrintable({&raw, 1}));
    } else {
      token = Find(fmt::format("<0x{:02X}>", byte));
      if (token == kNoToken) token = Find({&raw, 1});
    }
    if (token != kNoToken && Is(token, kControlToken | kUnknownToken)) token = kNoToken;
    byte_tokens[static_cast<size_t>(byte)] = token;
    missing += token == kNoToken;
  }
  covers_all_bytes = missing == 0;
  if (missing > 0 && kind == ModelKind::kBytePair) {
    Log(LogLevel::kDebug, "{}: {} of 256 bytes have no token; text with such bytes loses them", kTokensKey, missing);
  }
}

Status Vocabulary::MakePieces() {
  pieces.Reserve(texts.size(), texts.all().size());
  std::string bytes;
  for (Token token = 0; token < size(); ++token) {
    const std::string_view text = Text(token);
    if (Is(token, kControlToken | kUnknownToken | kUserDefinedToken)) {
      pieces.Add(text);
    } else if (Is(token, kNormalToken)) {
      if (kind != ModelKind::kBytePair || rules->visible_spaces) {
        pieces.Add(WithSpaces(text));
      } else {
        pieces.Add(PrintableToBytes(text, bytes) ? std::string_view(bytes) : text);
      }
    } else if (Is(token, kByteToken)) {
      const char byte = static_cast<char>(ByteOfName(text));
      pieces.Add({&byte, 1});
    } else {
      pieces.Add("");
    }
  }
  return {};
}

}  // namespace kvasir::tokenizer
