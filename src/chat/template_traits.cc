#include "chat/template_traits.h"

#include <string>
#include <string_view>

namespace kvasir::chat {
namespace {

using nlohmann::ordered_json;

// Words that no template contains.
constexpr char kSystem[] = "qx-system", kUser[] = "qx-user", kReply[] = "qx-reply", kTool[] = "qx_tool",
               kKey[] = "qx_key", kValue[] = "qx-value", kResult[] = "qx-result", kReasoning[] = "qx-reasoning",
               kParameter[] = "qx_parameter";

ordered_json Message(const char* role, ordered_json content) {
  return {{"role", role}, {"content", std::move(content)}};
}

// The rendered text; empty when the template refuses.
std::string Show(const ChatTemplate& chat, ordered_json messages, ordered_json tools = nullptr) {
  ChatInput input;
  input.messages = std::move(messages);
  const bool no_tools = tools.is_null();
  input.tools = std::move(tools);
  auto rendered = chat.Render(input);
  if (!rendered.ok() && no_tools) {
    input.tools.reset();
    rendered = chat.Render(input);
  }
  return rendered.ok() ? rendered->text : std::string();
}

bool Has(const std::string& text, std::string_view word) {
  return text.find(word) != std::string::npos;
}

ordered_json CallConversation(ordered_json arguments) {
  ordered_json call = {
      {"id", "qxcall001"}, {"type", "function"}, {"function", {{"name", kTool}, {"arguments", std::move(arguments)}}}};
  ordered_json assistant = Message("assistant", "");
  assistant["tool_calls"] = ordered_json::array({std::move(call)});
  ordered_json result = Message("tool", kResult);
  result["tool_call_id"] = "qxcall001";
  result["name"] = kTool;
  return ordered_json::array({Message("user", kUser), std::move(assistant), std::move(result)});
}

ordered_json ToolList() {
  const ordered_json schema = {{"type", "object"},
                               {"properties", {{kParameter, {{"type", "string"}, {"description", "A text."}}}}},
                               {"required", ordered_json::array({kParameter})}};
  return ordered_json::array(
      {{{"type", "function"}, {"function", {{"name", kTool}, {"description", "A tool."}, {"parameters", schema}}}}});
}

}  // namespace

TemplateTraits ProbeTemplate(const ChatTemplate& chat) {
  TemplateTraits traits;
  traits.developer_role = Has(chat.source(), "developer");
  traits.system_role =
      Has(Show(chat, ordered_json::array({Message("system", kSystem), Message("user", kUser)})), kSystem);
  traits.late_system = Has(Show(chat, ordered_json::array({Message("user", kUser), Message("assistant", kReply),
                                                           Message("system", kSystem), Message("user", kUser)})),
                           kSystem);
  traits.repeated_roles =
      Has(Show(chat, ordered_json::array({Message("user", kUser), Message("user", kValue)})), kValue);

  const ordered_json part = {{"type", "text"}, {"text", kUser}};
  const std::string parts = Show(chat, ordered_json::array({Message("user", ordered_json::array({part}))}));
  traits.content_parts = Has(parts, kUser) && !Has(parts, "'text'") && !Has(parts, "\"text\"");

  traits.tools = Has(Show(chat, ordered_json::array({Message("user", kUser)}), ToolList()), kTool);

  const ordered_json arguments = {{kKey, kValue}};
  const std::string object = Show(chat, CallConversation(arguments), ToolList());
  const std::string text = Show(chat, CallConversation(arguments.dump()), ToolList());
  const auto shows_call = [](const std::string& shown) {
    return Has(shown, kTool) && Has(shown, kKey) && Has(shown, kValue) && Has(shown, kResult);
  };
  // Python's text of a dict is what a template prints that wants the JSON string; a quoted JSON string, one that wants
  // the object.
  const bool object_fits = shows_call(object) && !Has(object, "{'qx_key'");
  const bool text_fits = shows_call(text) && !Has(text, "\\\"qx_key");
  traits.tool_calls = object_fits || text_fits;
  traits.object_arguments = object_fits;

  ordered_json thoughtful = Message("assistant", kReply);
  thoughtful["reasoning_content"] = kReasoning;
  traits.reasoning = Has(Show(chat, ordered_json::array({Message("user", kUser), thoughtful})), kReasoning);
  return traits;
}

}  // namespace kvasir::chat
