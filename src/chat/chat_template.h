// chat/chat_template.h
// A model's chat template: messages in, prompt text with spans out.
//
// Variables are those the transformers library passes (messages, tools, documents, add_generation_prompt, bos_token,
// eos_token and the request's own), so templates render byte for byte as their authors tested them. Every byte of the
// result is labelled (chat/span.h). Nothing is repaired here: a conversation the template refuses is an error with the
// template's own sentence; chat/adapt.h knows what may be tried next.
//
// Thread rule: const after Parse; any thread may render.
#pragma once

#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "chat/jinja/heap.h"
#include "chat/jinja/parser.h"
#include "chat/span.h"

namespace kvasir::chat {

struct ChatInput {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  // null is Python's None, as transformers passes it; nothing leaves the variable undefined.
  std::optional<nlohmann::ordered_json> tools = nlohmann::ordered_json();
  bool add_generation_prompt = true;
  // More variables, by name: documents, enable_thinking, reasoning_effort, ... Override the above.
  nlohmann::ordered_json extra = nlohmann::ordered_json::object();
  // What strftime_now shows. A session should keep its first value: a date that changes moves every byte after it.
  std::tm now = {};
};

struct ChatTemplateOptions {
  std::string bos_token, eos_token;  // their texts; template bytes, so they become control tokens
  // What engines other than transformers allow and some templates need: list.append and its like, from_json, tojson of
  // what map and select return.
  bool extensions = true;
  jinja::Limits limits;
};

class ChatTemplate {
 public:
  // Errors: kCorrupt with the line, for source that does not parse.
  static Result<ChatTemplate> Parse(std::string source, ChatTemplateOptions options);

  // Errors: kInvalidArgument, the template raised an exception (the message is its own) or the input is malformed;
  // kUnsupported, the template failed on this input (with line); kResourceExhausted, a limit.
  Result<RenderedChat> Render(const ChatInput& input) const;

  const std::string& source() const { return source_; }

 private:
  ChatTemplate() = default;

  std::string source_;
  ChatTemplateOptions options_;
  std::unique_ptr<const jinja::Program> program_;
};

// The wall clock's local time now, for ChatInput::now.
std::tm LocalTimeNow();

}  // namespace kvasir::chat
