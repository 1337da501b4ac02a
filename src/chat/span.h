// chat/span.h
// Where every byte of a rendered prompt came from: the template, or which part of which message.
//
// The renderer carries an Origin with each run of bytes through every string operation, so that a consumer can tell
// what the template wrote (only that may become control tokens) from what a client wrote, and can weigh a tool result
// below a system prompt. An origin names a message by its index in the request; it does not hold the text.
//
// Thread rule: plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kvasir::chat {

enum class Part : uint8_t {
  kTemplate,    // literals of the template and what it computes
  kRole,        // a role name of the fixed known set: templates spell control tokens with it ("<|" + role + "|>")
  kContent,     // message text
  kReasoning,   // message reasoning
  kToolCall,    // calls in an assistant message
  kToolResult,  // content of a tool message
  kToolSchema,  // the request's tools
  kField,       // any other field of a message: name, tool_call_id, an unknown role
  kExtra,       // other variables of the request: documents, template arguments
};

enum class Role : uint8_t { kNone, kSystem, kDeveloper, kUser, kAssistant, kTool, kOther };

struct Origin {
  int32_t message = -1;  // index in the request's messages; -1: none
  Role role = Role::kNone;
  Part part = Part::kTemplate;

  // Bytes that no client chose freely.
  bool trusted() const { return part == Part::kTemplate || part == Part::kRole; }
  friend bool operator==(const Origin&, const Origin&) = default;
};

struct Span {
  size_t begin = 0, end = 0;  // byte offsets in RenderedChat::text
  Origin origin;
  friend bool operator==(const Span&, const Span&) = default;
};

// `spans` are contiguous, do not overlap, are not empty and cover `text`; neighbours differ in origin.
struct RenderedChat {
  std::string text;
  std::vector<Span> spans;
};

}  // namespace kvasir::chat
