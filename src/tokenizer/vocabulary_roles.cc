// Roles that a file does not name and that the texts of its tokens tell. The texts are those that llama.cpp looks for
// (src/llama-vocab.cpp); where a vocabulary has several, the first of the list is taken (there, hash order decides).
#include <algorithm>
#include <cctype>
#include <iterator>
#include <string>

#include "tokenizer/vocabulary.h"

namespace kvasir::tokenizer {
namespace {

constexpr std::string_view kEndOfTurn[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>",         "<|endoftext|>",     "<|end_of_text|>",
    "<EOT>",      "_<EOT>",     "[EOT]",   "<｜end▁of▁sentence｜>", "<end_of_utterance>"};
constexpr std::string_view kEndOfMessage[] = {"<|eom_id|>"};
constexpr std::string_view kFimPrefix[] = {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>",    "<｜fim▁begin｜>",
                                           "<PRE>",          "▁<PRE>",       "<|code_prefix|>", "<|prefix|>"};
constexpr std::string_view kFimSuffix[] = {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>",    "<｜fim▁hole｜>",
                                           "<SUF>",          "▁<SUF>",       "<|code_suffix|>", "<|suffix|>"};
constexpr std::string_view kFimMiddle[] = {"<|fim_middle|>", "<fim-middle>", "<fim_middle>",    "<｜fim▁end｜>",
                                           "<MID>",          "▁<MID>",       "<|code_middle|>", "<|middle|>"};
constexpr std::string_view kFimPad[] = {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"};
constexpr std::string_view kFimRepository[] = {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"};
constexpr std::string_view kFimSeparator[] = {"<|file_sep|>"};
constexpr std::string_view kEnds[] = {"<|eot_id|>",
                                      "<|im_end|>",
                                      "<|end|>",
                                      "<|return|>",
                                      "<|call|>",
                                      "<|flush|>",
                                      "<|calls|>",
                                      "<end_of_turn>",
                                      "<|endoftext|>",
                                      "</s>",
                                      "<|eom_id|>",
                                      "<EOT>",
                                      "_<EOT>",
                                      "[EOT]",
                                      "[EOS]",
                                      "<|end_of_text|>",
                                      "<end_of_utterance>",
                                      "<eos>",
                                      "<turn|>",
                                      "<|tool_response>",
                                      "<｜end▁of▁sentence｜>",
                                      "[e~["};
constexpr std::string_view kChannelMarks[] = {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"};

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

void Vocabulary::RecogniseRoles() {
  const auto recognise = [&](Token& role, auto& names) {
    for (const std::string_view name : names) {
      if (role != kNoToken) return;
      role = Find(name);
      if (role != kNoToken) token_traits[static_cast<size_t>(role)] |= kControlToken;
    }
  };
  recognise(special.eot, kEndOfTurn);
  recognise(special.eom, kEndOfMessage);
  recognise(special.fim_pre, kFimPrefix);
  recognise(special.fim_suf, kFimSuffix);
  recognise(special.fim_mid, kFimMiddle);
  recognise(special.fim_pad, kFimPad);
  recognise(special.fim_rep, kFimRepository);
  recognise(special.fim_sep, kFimSeparator);

  for (Token token = 0; token < size(); ++token) {
    if (Is(token, kControlToken) && Contains(Text(token), "unused")) {
      token_traits[static_cast<size_t>(token)] |= kUnusedToken;
    }
  }
}

void Vocabulary::RecogniseEndOfGeneration() {
  std::vector<Token>& ends = end_of_generation;
  const auto add = [&](Token token) {
    if (token != kNoToken) ends.push_back(token);
  };
  const auto ends_with = [&](std::string_view text) {
    const Token token = Find(text);
    return token != kNoToken && std::find(ends.begin(), ends.end(), token) != ends.end();
  };
  for (const Token token : {special.fim_pad, special.fim_rep, special.fim_sep}) add(token);
  for (const std::string_view text : kEnds) {
    const Token token = Find(text);
    if (token == kNoToken) continue;
    ends.push_back(token);
    token_traits[static_cast<size_t>(token)] |= kControlToken;
  }
  // gpt-oss answers contain these; they are shown, but unlike in the reference text does not turn into them.
  for (const std::string_view text : kChannelMarks) {
    if (const Token token = Find(text); token != kNoToken) {
      token_traits[static_cast<size_t>(token)] |= kControlToken | kShownToken;
    }
  }
  for (const Token token : {special.eos, special.eot, special.eom}) add(token);

  // <|end|> ends a message, not the answer, where there are tokens for the latter (gpt-oss, Solar).
  const bool calls = ends_with("<|call|>") || ends_with("<|calls|>");
  if (ends_with("<|end|>") && calls && (ends_with("<|return|>") || ends_with("<|flush|>"))) {
    const Token end = Find("<|end|>");
    std::erase(ends, end);
    token_traits[static_cast<size_t>(end)] |= kShownToken;
  }
  // In Gemma 4 </s> is an HTML tag.
  if (ends_with("<|tool_response>") && ends_with("</s>")) {
    const Token tag = Find("</s>");
    std::erase(ends, tag);
    token_traits[static_cast<size_t>(tag)] = kNormalToken;
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
}

void Vocabulary::RecogniseStripping(const gguf::GgufFile& file) {
  const auto text_of = [&](const char* key) {
    const auto value = file.GetStringOr(key, "");
    return value.ok() ? std::string(*value) : std::string();
  };
  std::string name = text_of("general.name");
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::string architecture = text_of("general.architecture");
  const auto set = [&](std::string_view text, TokenTraits traits, bool value) {
    const Token token = Find(text);
    if (token == kNoToken) return;
    TokenTraits& own = token_traits[static_cast<size_t>(token)];
    own = static_cast<TokenTraits>(value ? own | traits : own & ~traits);
  };
  if (Contains(pre, "jina-v2-de") || Contains(pre, "jina-v2-es") || Contains(pre, "jina-v2-code") ||
      Contains(architecture, "nomic-bert-moe") || Contains(architecture, "jina-bert-v3")) {
    set("<mask>", kStripsLeft, true);
  } else if (Contains(name, "phi-3") || Contains(name, "phi3")) {
    for (Token token = 0; token < size(); ++token) {
      if (Is(token, kControlToken | kUserDefinedToken | kUnknownToken)) {
        token_traits[static_cast<size_t>(token)] |= kStripsRight;
      }
    }
    set("</s>", kStripsRight, true);
    for (const std::string_view text : {"<unk>", "<s>", "<|endoftext|>"}) set(text, kStripsRight, false);
  } else if (Contains(name, "modern-bert")) {
    set("[MASK]", kStripsLeft, true);
  }
}

}  // namespace kvasir::tokenizer
