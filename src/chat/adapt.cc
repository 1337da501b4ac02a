#include "chat/adapt.h"

#include <string_view>
#include <utility>

namespace kvasir::chat {
namespace {

using nlohmann::ordered_json;

std::string RoleOf(const ordered_json& message) {
  const auto it = message.is_object() ? message.find("role") : message.end();
  return it != message.end() && it->is_string() ? it->get<std::string>() : std::string();
}

bool IsTextPart(const ordered_json& part) {
  return part.is_object() && part.contains("text") && part["text"].is_string();
}

// Parts that are all text, as one text; anything else stays.
void FlattenContent(ordered_json& content) {
  if (!content.is_array()) return;
  std::string text;
  bool first = true;
  for (const ordered_json& part : content) {
    if (!IsTextPart(part)) return;
    if (!first) text += '\n';
    first = false;
    text += part["text"].get_ref<const std::string&>();
  }
  content = std::move(text);
}

void FitArguments(ordered_json& function, bool object) {
  const auto it = function.find("arguments");
  if (it == function.end() || it->is_null()) {
    function["arguments"] = object ? ordered_json::object() : ordered_json("{}");
    return;
  }
  if (!object) {
    if (!it->is_string()) *it = it->dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    return;
  }
  if (!it->is_string()) return;
  const std::string& text = it->get_ref<const std::string&>();
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    *it = ordered_json::object();
    return;
  }
  // Text that is no JSON object stays text: a history with a broken call must stay usable.
  ordered_json parsed = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_object()) *it = std::move(parsed);
}

void FitMessage(ordered_json& message, const TemplateTraits& traits) {
  if (!message.is_object()) return;
  if (RoleOf(message) == "developer" && !traits.developer_role) message["role"] = "system";
  ordered_json& content = message["content"];
  if (content.is_null()) content = "";
  if (!traits.content_parts || RoleOf(message) != "user") FlattenContent(content);
  const auto calls = message.find("tool_calls");
  if (calls == message.end()) return;
  if (!calls->is_array() || calls->empty()) {
    message.erase(calls);  // templates take its presence for a call
    return;
  }
  for (ordered_json& call : *calls) {
    if (!call.is_object()) continue;
    const auto function = call.find("function");
    if (function != call.end() && function->is_object()) FitArguments(*function, traits.object_arguments);
  }
}

// The conversation on its way through the changes, with the request's index of each message.
struct Conversation {
  ordered_json messages;
  std::vector<int32_t> sources;
};

bool Joinable(const ordered_json& a, const ordered_json& b) {
  const std::string role = RoleOf(a);
  // Results answer calls one by one, and calls follow the text they came with.
  if (role != RoleOf(b) || role == "tool" || role.empty()) return false;
  const auto has_text = [](const ordered_json& m) { return m.contains("content") && m["content"].is_string(); };
  return !a.contains("tool_calls") && has_text(a) && has_text(b);
}

void Join(ordered_json& first, const ordered_json& second) {
  std::string& text = first["content"].get_ref<std::string&>();
  const std::string& more = second["content"].get_ref<const std::string&>();
  if (!text.empty() && !more.empty()) text += "\n\n";
  text += more;
  for (const auto& field : second.items()) {
    if (!first.contains(field.key())) first[field.key()] = field.value();
  }
}

// Joins neighbours of one role; `only` limits it to that role unless empty.
bool JoinNeighbours(Conversation& chat, std::string_view only) {
  Conversation joined;
  joined.messages = ordered_json::array();
  for (size_t i = 0; i < chat.messages.size(); ++i) {
    ordered_json& message = chat.messages[i];
    const bool fits = only.empty() || RoleOf(message) == only;
    if (fits && !joined.messages.empty() && Joinable(joined.messages.back(), message)) {
      Join(joined.messages.back(), message);
      continue;
    }
    joined.messages.push_back(std::move(message));
    joined.sources.push_back(chat.sources[i]);
  }
  const bool changed = joined.messages.size() != chat.messages.size();
  chat = std::move(joined);
  return changed;
}

bool MoveLateSystemsToUsers(Conversation& chat) {
  bool changed = false;
  for (size_t i = 1; i < chat.messages.size(); ++i) {
    if (RoleOf(chat.messages[i]) != "system" && RoleOf(chat.messages[i]) != "developer") continue;
    chat.messages[i]["role"] = "user";
    changed = true;
  }
  return changed && (JoinNeighbours(chat, "user"), true);
}

bool MoveSystemToUser(Conversation& chat) {
  if (chat.messages.empty() || RoleOf(chat.messages[0]) != "system") return false;
  chat.messages[0]["role"] = "user";
  JoinNeighbours(chat, "user");
  return true;
}

// Index of the message that answers `call`: by its id, else by order.
size_t ResultOf(const ordered_json& call, const ordered_json& messages, size_t begin, size_t count, size_t order) {
  const auto id = call.is_object() ? call.find("id") : call.end();
  for (size_t i = begin; id != call.end() && i < begin + count; ++i) {
    const auto answered = messages[i].find("tool_call_id");
    if (answered != messages[i].end() && *answered == *id) return i;
  }
  return begin + order;
}

// Calls made together, as if they had been made one after another: each with its own result.
bool SplitCalls(Conversation& chat) {
  Conversation split;
  split.messages = ordered_json::array();
  bool changed = false;
  const auto push = [&](ordered_json message, size_t source) {
    split.messages.push_back(std::move(message));
    split.sources.push_back(chat.sources[source]);
  };
  for (size_t i = 0; i < chat.messages.size(); ++i) {
    const ordered_json& message = chat.messages[i];
    const auto calls = message.is_object() ? message.find("tool_calls") : message.end();
    size_t results = 0;
    while (i + 1 + results < chat.messages.size() && RoleOf(chat.messages[i + 1 + results]) == "tool") ++results;
    if (calls == message.end() || !calls->is_array() || calls->size() < 2 || calls->size() != results) {
      push(message, i);
      continue;
    }
    changed = true;
    for (size_t call = 0; call < results; ++call) {
      ordered_json single = message;
      single["tool_calls"] = ordered_json::array({(*calls)[call]});
      if (call > 0) single["content"] = "";
      push(std::move(single), i);
      const size_t result = ResultOf((*calls)[call], chat.messages, i + 1, results, call);
      push(chat.messages[result], result);
    }
    i += results;
  }
  chat = std::move(split);
  return changed;
}

bool JoinAll(Conversation& chat) {
  return JoinNeighbours(chat, "");
}
bool JoinSystems(Conversation& chat) {
  return JoinNeighbours(chat, "system");
}

struct Change {
  bool (*apply)(Conversation&);
  bool TemplateTraits::*
      unless;  // where the template lacks it, the change is made at once: refusal may be silent. May be null
  std::string_view sentence;
};
constexpr Change kChanges[] = {
    {JoinSystems, &TemplateTraits::late_system, "neighbouring system messages were joined"},
    {MoveLateSystemsToUsers, &TemplateTraits::late_system,
     "system messages after the first message became part of user messages"},
    {JoinAll, &TemplateTraits::repeated_roles, "neighbouring messages of one role were joined"},
    {MoveSystemToUser, &TemplateTraits::system_role, "the system message became part of the first user message"},
    {SplitCalls, nullptr, "tool calls made together were shown one after another"},
};

bool TemplateRefused(const Error& error) {
  return error.code() == ErrorCode::kInvalidArgument || error.code() == ErrorCode::kUnsupported;
}

void NameSources(RenderedChat& rendered, const std::vector<int32_t>& sources) {
  for (Span& span : rendered.spans) {
    if (span.origin.message >= 0) span.origin.message = sources[static_cast<size_t>(span.origin.message)];
  }
}

}  // namespace

ordered_json FitMessages(ordered_json messages, const TemplateTraits& traits) {
  if (!messages.is_array()) return messages;
  for (ordered_json& message : messages) FitMessage(message, traits);
  return messages;
}

Result<AdaptedChat> RenderAdapted(const ChatTemplate& chat, const TemplateTraits& traits, ChatInput input) {
  if (!input.messages.is_array()) return chat.Render(input).error();
  Conversation conversation{FitMessages(std::move(input.messages), traits), {}};
  for (size_t i = 0; i < conversation.messages.size(); ++i) conversation.sources.push_back(static_cast<int32_t>(i));
  std::vector<std::string> changes;
  const auto change = [&](const Change& step) {
    const bool changed = step.apply(conversation);
    if (changed) changes.emplace_back(step.sentence);
    return changed;
  };
  const auto render = [&]() -> Result<AdaptedChat> {
    input.messages = conversation.messages;
    auto rendered = chat.Render(input);
    if (!rendered.ok() && TemplateRefused(rendered.error()) && input.tools.has_value() && input.tools->is_null()) {
      // Some templates iterate over the tools without asking whether there are any.
      ChatInput without = input;
      without.tools.reset();
      if (auto again = chat.Render(without); again.ok()) rendered = std::move(again);
    }
    if (!rendered.ok()) return rendered.error();
    NameSources(*rendered, conversation.sources);
    return AdaptedChat{std::move(rendered).value(), changes};
  };

  for (const Change& step : kChanges) {
    if (step.unless != nullptr && !(traits.*step.unless)) change(step);
  }
  auto first = render();
  if (first.ok() || !TemplateRefused(first.error())) return first;
  for (const Change& step : kChanges) {
    if (!change(step)) continue;
    if (auto again = render(); again.ok()) return again;
  }
  return first;
}

}  // namespace kvasir::chat
