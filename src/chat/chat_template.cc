#include "chat/chat_template.h"

#include <algorithm>
#include <utility>

#include "chat/jinja/interpreter.h"
#include "chat/jinja/json_value.h"

namespace kvasir::chat {
namespace {

using jinja::Heap;
using jinja::Value;
using nlohmann::ordered_json;

// Role names that templates put between the brackets of a control token. Only these are trusted there: a client that
// could name any role could spell any token.
constexpr std::pair<std::string_view, Role> kRoles[] = {
    {"system", Role::kSystem},       {"developer", Role::kDeveloper}, {"user", Role::kUser},
    {"assistant", Role::kAssistant}, {"model", Role::kAssistant},     {"tool", Role::kTool},
    {"function", Role::kTool},       {"ipython", Role::kTool},        {"observation", Role::kTool}};

Role RoleOf(const ordered_json& message) {
  const auto it = message.find("role");
  if (it == message.end() || !it->is_string()) return Role::kNone;
  const std::string& name = *it->get_ptr<const std::string*>();
  const auto* const known =
      std::find_if(std::begin(kRoles), std::end(kRoles), [&](const auto& entry) { return entry.first == name; });
  return known == std::end(kRoles) ? Role::kOther : known->second;
}

Part PartOf(std::string_view key, Role role) {
  if (key == "role") return role == Role::kNone || role == Role::kOther ? Part::kField : Part::kRole;
  if (key == "content") return role == Role::kTool ? Part::kToolResult : Part::kContent;
  if (key == "reasoning_content" || key == "reasoning" || key == "thinking") return Part::kReasoning;
  if (key == "tool_calls" || key == "function_call") return Part::kToolCall;
  if (key == "tools") return Part::kToolSchema;
  return Part::kField;
}

Result<Value> MessageValue(Heap& heap, const ordered_json& message, int32_t index) {
  if (!message.is_object()) {
    return MakeError(ErrorCode::kInvalidArgument, "message {} is {}, not an object", index, message.type_name());
  }
  const Role role = RoleOf(message);
  jinja::Dict* dict = heap.NewDict({index, role, Part::kField});
  for (const auto& field : message.items()) {
    const Origin origin{index, role, PartOf(field.key(), role)};
    KVASIR_ASSIGN_OR_RETURN(const Value value, FromJson(heap, field.value(), origin));
    dict->Set(Value(heap.NewText(field.key(), {index, role, Part::kField})), value);
  }
  return Value(dict);
}

Result<Value> MessagesValue(Heap& heap, const ordered_json& messages) {
  if (!messages.is_array()) {
    return MakeError(ErrorCode::kInvalidArgument, "messages are {}, not an array", messages.type_name());
  }
  std::vector<Value> items;
  items.reserve(messages.size());
  for (const ordered_json& message : messages) {
    KVASIR_ASSIGN_OR_RETURN(Value value, MessageValue(heap, message, static_cast<int32_t>(items.size())));
    items.push_back(value);
  }
  return Value(heap.NewList(std::move(items)));
}

RenderedChat ToRendered(const jinja::Text& text) {
  RenderedChat rendered;
  rendered.text = text.view();
  size_t at = 0;
  text.ForEachRun([&](std::string_view bytes, Origin origin) {
    rendered.spans.push_back({at, at + bytes.size(), origin});
    at += bytes.size();
  });
  return rendered;
}

}  // namespace

Result<ChatTemplate> ChatTemplate::Parse(std::string source, ChatTemplateOptions options) {
  KVASIR_ASSIGN_OR_RETURN(jinja::Program program, jinja::Parse(source));
  ChatTemplate parsed;
  parsed.source_ = std::move(source);
  parsed.options_ = std::move(options);
  parsed.program_ = std::make_unique<const jinja::Program>(std::move(program));
  return parsed;
}

Result<RenderedChat> ChatTemplate::Render(const ChatInput& input) const {
  Heap heap(options_.limits);
  jinja::Runtime runtime{heap, input.now, options_.extensions};
  jinja::Interpreter interpreter(*program_, runtime);

  interpreter.Define("bos_token", Value(heap.NewText(options_.bos_token)));
  interpreter.Define("eos_token", Value(heap.NewText(options_.eos_token)));
  interpreter.Define("add_generation_prompt", Value::Bool(input.add_generation_prompt));
  interpreter.Define("documents", Value::None());
  KVASIR_ASSIGN_OR_RETURN(const Value messages, MessagesValue(heap, input.messages));
  interpreter.Define("messages", messages);
  if (input.tools.has_value()) {
    KVASIR_ASSIGN_OR_RETURN(const Value tools, FromJson(heap, *input.tools, {-1, Role::kNone, Part::kToolSchema}));
    interpreter.Define("tools", tools);
  }
  if (!input.extra.is_object()) {
    return MakeError(ErrorCode::kInvalidArgument, "template arguments are {}, not an object", input.extra.type_name());
  }
  for (const auto& variable : input.extra.items()) {
    KVASIR_ASSIGN_OR_RETURN(const Value value, FromJson(heap, variable.value(), {-1, Role::kNone, Part::kExtra}));
    interpreter.Define(variable.key(), value);
  }
  KVASIR_ASSIGN_OR_RETURN(const jinja::Text text, interpreter.Run());
  return ToRendered(text);
}

std::tm LocalTimeNow() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  return local;
}

}  // namespace kvasir::chat
