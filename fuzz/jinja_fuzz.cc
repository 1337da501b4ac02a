// Any bytes as a chat template, rendered over a small conversation; what follows a NUL byte is the user's message.
// Nothing may crash, hang or recurse without bound, spans must cover the text, and rendering twice must give the same.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "chat/chat_template.h"

namespace {

using kvasir::chat::ChatInput;
using kvasir::chat::ChatTemplate;
using kvasir::chat::ChatTemplateOptions;
using nlohmann::ordered_json;

ChatInput Conversation(std::string_view content) {
  ChatInput input;
  const ordered_json call = {{"id", "c1"},
                             {"function", {{"name", "f"}, {"arguments", {{"x", 1}, {"y", {1.5, nullptr}}}}}}};
  input.messages = ordered_json::array({
      {{"role", "system"}, {"content", "Be brief."}},
      {{"role", "user"}, {"content", std::string(content)}},
      {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", ordered_json::array({call})}},
      {{"role", "tool"}, {"content", "21.5"}},
  });
  input.tools = ordered_json::array(
      {{{"type", "function"}, {"function", {{"name", "f"}, {"parameters", ordered_json::object()}}}}});
  input.now.tm_year = 124;
  input.now.tm_mday = 1;
  return input;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t nul = bytes.find('\0');
  const std::string_view content = nul == std::string_view::npos ? "H\xc3\xa9llo <b> world" : bytes.substr(nul + 1);

  ChatTemplateOptions options;
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  options.limits.steps = 100'000;
  options.limits.heap_bytes = size_t{8} << 20;
  options.limits.output_bytes = size_t{1} << 20;
  const auto parsed = ChatTemplate::Parse(std::string(bytes.substr(0, nul)), options);
  if (!parsed.ok()) {
    KVASIR_CHECK(parsed.error().code() == kvasir::ErrorCode::kCorrupt);
    return 0;
  }
  const ChatInput input = Conversation(content);
  const auto rendered = parsed->Render(input), again = parsed->Render(input);
  KVASIR_CHECK(rendered.ok() == again.ok());
  if (!rendered.ok()) {
    KVASIR_CHECK(rendered.error().message() == again.error().message());
    return 0;
  }
  KVASIR_CHECK(rendered->text == again->text && rendered->spans == again->spans);
  size_t at = 0;
  for (const auto& span : rendered->spans) {
    KVASIR_CHECK(span.begin == at && span.end > at);
    at = span.end;
  }
  KVASIR_CHECK(at == rendered->text.size());
  return 0;
}
