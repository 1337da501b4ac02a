// chat/adapt.h
// Makes a client's conversation one that the template can render, without losing a word of it.
//
// Clients send what templates were not written for: a developer role, content in parts, null content beside tool calls,
// arguments as a JSON string or not even JSON, system messages in mid-conversation, two user messages in a row. Form is
// always fitted to the template's traits. Order and roles are changed only where the traits say that the template would
// drop or refuse a message, or after it has refused, the mildest change first: a late system message becomes part of
// the user's turn (moving it to the front would change every token after it), neighbours of one role are joined, a
// system prompt goes into the first user message. What was changed is told, so that a server can say so. If nothing
// helps, the error is the template's own for the first attempt.
//
// Spans name messages of the request: text of joined messages carries the index of the first of them.
//
// Thread rule: pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "chat/chat_template.h"
#include "chat/span.h"
#include "chat/template_traits.h"

namespace kvasir::chat {

struct AdaptedChat {
  RenderedChat rendered;
  std::vector<std::string> changes;  // sentences; empty when order and roles are as sent
};

// Form only, message by message: roles, content, tool-call arguments. Never fails; what it does not understand it
// leaves.
nlohmann::ordered_json FitMessages(nlohmann::ordered_json messages, const TemplateTraits& traits);

// Errors: as ChatTemplate::Render.
Result<AdaptedChat> RenderAdapted(const ChatTemplate& chat, const TemplateTraits& traits, ChatInput input);

}  // namespace kvasir::chat
