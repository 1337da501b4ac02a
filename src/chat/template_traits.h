// chat/template_traits.h
// What a chat template can express, learned by rendering small conversations with marked words and looking for the
// marks.
//
// Templates differ silently: one drops tool messages, one prints a list of content parts as Python text, one wants tool
// arguments as an object and another as the JSON string. Asking the template once, at load, replaces a table of model
// names. It knows nothing of the syntax a template uses, only whether and in which form the words arrive.
//
// Thread rule: pure.
#pragma once

#include "chat/chat_template.h"

namespace kvasir::chat {

struct TemplateTraits {
  bool system_role = false;       // a leading system message is rendered
  bool late_system = false;       // so is one after the first exchange
  bool developer_role = false;    // the source knows the role by name
  bool repeated_roles = false;    // two user messages in a row are accepted
  bool content_parts = false;     // [{"type": "text", "text": ...}] is rendered as its text
  bool tools = false;             // the tool list is rendered
  bool tool_calls = false;        // calls of the assistant and their results are rendered
  bool object_arguments = false;  // call arguments should be JSON objects, else the JSON text
  bool reasoning = false;         // reasoning_content of the last assistant turn is rendered
};

TemplateTraits ProbeTemplate(const ChatTemplate& chat);

}  // namespace kvasir::chat
