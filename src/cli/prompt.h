// cli/prompt.h
// From what the user gave (text, file, ids, lines of a chat) to prompt tokens.
//
// With a chat template the text is a user message and only the template's own bytes may become control tokens; --raw,
// or a model without a template, takes the text as it is.
//
// Thread rule: one thread.
#pragma once

#include <istream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "chat/chat_template.h"
#include "cli/flags.h"
#include "engine/engine.h"

namespace kvasir::cli {

struct PromptFlags {
  std::optional<std::string> text;
  std::string file;  // "-": standard input
  std::vector<int64_t> ids;
  std::string system;
  std::string template_file;
  bool raw = false;
  bool parse_special = false;

  void AddTo(Flags& flags);
  // kInvalidArgument unless there is exactly one source of the prompt (none, where `interactive`).
  Status Validate(bool interactive) const;
};

// The messages of a chat so far.
class Conversation {
 public:
  explicit Conversation(const std::string& system);
  void Ask(const std::string& text);
  void Answer(const std::string& text);
  const nlohmann::ordered_json& messages() const { return messages_; }

 private:
  nlohmann::ordered_json messages_ = nlohmann::ordered_json::array();
};

class Prompter {
 public:
  // Errors: a template that does not parse, or is missing where one is needed.
  static Result<Prompter> Create(const engine::Engine& engine, const PromptFlags& flags);

  // The tokens of a one-shot prompt.
  Result<std::vector<kv::Token>> First(std::istream& in) const;
  // The tokens of the whole chat with one more line of the user.
  Conversation Begin() const { return Conversation(flags_->system); }
  Result<std::vector<kv::Token>> Turn(Conversation& conversation, const std::string& line) const;

 private:
  Prompter(const engine::Engine& engine, const PromptFlags& flags) : engine_(&engine), flags_(&flags) {}
  Result<std::vector<kv::Token>> Render(const Conversation& conversation) const;

  const engine::Engine* engine_;
  const PromptFlags* flags_;
  std::optional<chat::ChatTemplate> template_;
};

}  // namespace kvasir::cli
