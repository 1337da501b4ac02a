#include "chat/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kvasir::chat {
namespace {

using nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;

ChatTemplate Parsed(const std::string& source, ChatTemplateOptions options = {}) {
  auto parsed = ChatTemplate::Parse(source, std::move(options));
  EXPECT_TRUE(parsed.ok()) << parsed.error().message();
  return std::move(parsed).value();
}

RenderedChat Rendered(const std::string& source, const ChatInput& input, ChatTemplateOptions options = {}) {
  auto rendered = Parsed(source, std::move(options)).Render(input);
  EXPECT_TRUE(rendered.ok()) << rendered.error().message();
  return rendered.ok() ? std::move(rendered).value() : RenderedChat{};
}

ChatInput Conversation(const std::string& messages) {
  ChatInput input;
  input.messages = ordered_json::parse(messages);
  return input;
}

// One line per span: "message part: bytes".
std::vector<std::string> Labels(const RenderedChat& rendered) {
  static constexpr const char* kParts[] = {"template", "role",   "content", "reasoning", "call",
                                           "result",   "schema", "field",   "extra"};
  std::vector<std::string> labels;
  size_t at = 0;
  for (const Span& span : rendered.spans) {
    EXPECT_EQ(span.begin, at);
    EXPECT_LT(span.begin, span.end);
    at = span.end;
    const std::string owner = span.origin.message < 0 ? "" : std::to_string(span.origin.message) + " ";
    labels.push_back(owner + kParts[static_cast<int>(span.origin.part)] + ": " +
                     rendered.text.substr(span.begin, span.end - span.begin));
  }
  EXPECT_EQ(at, rendered.text.size());
  return labels;
}

TEST(ChatTemplate, LabelsEveryByteWithItsMessageAndPart) {
  const ChatInput input = Conversation(R"([
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Yes", "reasoning_content": "hm", "tool_calls": [{"function": {"name": "f"}}]},
    {"role": "tool", "content": "21", "name": "f"}])");
  const std::string source =
      "{% for m in messages %}<{{ m.role }}>{{ m.reasoning_content }}{{ m.content }}"
      "{% for c in m.tool_calls %}{{ c.function.name }}{% endfor %}{{ m.name }}\n{% endfor %}";
  const RenderedChat rendered = Rendered(source, input);
  EXPECT_THAT(Labels(rendered), ElementsAre("template: <", "0 role: user", "template: >", "0 content: Hi",
                                            "template: \n<", "1 role: assistant", "template: >", "1 reasoning: hm",
                                            "1 content: Yes", "1 call: f", "template: \n<", "2 role: tool",
                                            "template: >", "2 result: 21", "2 field: f", "template: \n"));
  EXPECT_EQ(rendered.spans[3].origin.role, Role::kUser);
  EXPECT_EQ(rendered.spans[7].origin.role, Role::kAssistant);
  EXPECT_EQ(rendered.spans[13].origin.role, Role::kTool);
}

TEST(ChatTemplate, KeepsOriginsThroughEveryStringOperation) {
  const ChatInput input = Conversation(R"([{"role": "user", "content": "  a-B c  "}])");
  const auto labels = [&](const std::string& expression) {
    return Labels(Rendered("{% set c = messages[0].content %}{{ " + expression + " }}", input));
  };
  EXPECT_THAT(labels("'[' + c.strip() + ']'"), ElementsAre("template: [", "0 content: a-B c", "template: ]"));
  EXPECT_THAT(labels("c|trim|upper"), ElementsAre("0 content: A-B C"));
  EXPECT_THAT(labels("c.split('-')[1].lstrip()"), ElementsAre("0 content: B c  "));
  EXPECT_THAT(labels("c.replace('-', '+')"), ElementsAre("0 content:   a", "template: +", "0 content: B c  "));
  EXPECT_THAT(labels("c[2:5] ~ 1"), ElementsAre("0 content: a-B", "template: 1"));
  EXPECT_THAT(labels("c[::-1]"), ElementsAre("0 content:   c B-a  "));
  EXPECT_THAT(labels("[c, 'x']|join('|')"), ElementsAre("0 content:   a-B c  ", "template: |x"));
  EXPECT_THAT(labels("'%s!' % c"), ElementsAre("0 content:   a-B c  ", "template: !"));
  EXPECT_THAT(labels("'<{}>'.format(c)"), ElementsAre("template: <", "0 content:   a-B c  ", "template: >"));
  EXPECT_THAT(labels("('x\n' + c)|indent(1)"), ElementsAre("template: x\n ", "0 content:   a-B c  "));
  EXPECT_THAT(labels("c|e + '<'"), ElementsAre("0 content:   a-B c  ", "template: &lt;"));
}

TEST(ChatTemplate, KeepsOriginsThroughMacrosAndCapturedBlocks) {
  const ChatInput input = Conversation(R"([{"role": "user", "content": "x"}])");
  EXPECT_THAT(
      Labels(Rendered("{% macro m(t) %}<{{ t }}>{% endmacro %}{% set s %}{{ m(messages[0].content) }}!{% endset %}"
                      "{% filter upper %}{{ s }}{% endfilter %}",
                      input)),
      ElementsAre("template: <", "0 content: X", "template: >!"));
}

TEST(ChatTemplate, JsonOfTheRequestIsOneSpan) {
  ChatInput input =
      Conversation(R"([{"role": "assistant", "tool_calls": [{"arguments": {"a": [1, null], "b": 1.5}}]}])");
  input.tools = ordered_json::parse(R"([{"name": "f", "n": 3, "ok": true}])");
  EXPECT_THAT(Labels(Rendered("{{ tools|tojson }} {{ messages[0].tool_calls[0].arguments }}", input)),
              ElementsAre(R"(schema: [{"name": "f", "n": 3, "ok": true}])",
                          "template:  ", "0 call: {'a': [1, None], 'b': 1.5}"));
}

TEST(ChatTemplate, NumbersOfTheRequestAreNotTemplateBytes) {
  ChatInput input = Conversation(R"([{"role": "user", "content": 12}])");
  input.extra["budget"] = 7;
  EXPECT_THAT(Labels(Rendered("{{ messages[0].content }}{{ budget }}{{ budget + 1 }}", input)),
              ElementsAre("0 content: 12", "extra: 7", "template: 8"));
}

TEST(ChatTemplate, OnlyKnownRolesAreTrusted) {
  const RenderedChat rendered =
      Rendered("{% for m in messages %}<|{{ m.role }}|>{% endfor %}",
               Conversation(R"([{"role": "user", "content": ""}, {"role": "endoftext", "content": ""}])"));
  ASSERT_THAT(Labels(rendered),
              ElementsAre("template: <|", "0 role: user", "template: |><|", "1 field: endoftext", "template: |>"));
  EXPECT_TRUE(rendered.spans[1].origin.trusted());
  EXPECT_FALSE(rendered.spans[3].origin.trusted());
}

TEST(ChatTemplate, PassesTheVariablesOfTransformers) {
  ChatTemplateOptions options;
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  ChatInput input = Conversation("[]");
  input.add_generation_prompt = false;
  input.extra["enable_thinking"] = false;
  const std::string source =
      "{{ bos_token }}{{ eos_token }}{{ tools }}{{ documents }}{{ add_generation_prompt }}{{ enable_thinking }}";
  EXPECT_EQ(Rendered(source, input, options).text, "<s></s>NoneNoneFalseFalse");
  input.tools.reset();
  EXPECT_EQ(Rendered("{{ tools is defined }}", input).text, "False");
}

TEST(ChatTemplate, RaisedExceptionIsTheErrorWithItsOwnMessage) {
  const auto rendered = Parsed("{{ raise_exception('roles must alternate') }}").Render({});
  ASSERT_FALSE(rendered.ok());
  EXPECT_EQ(rendered.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(rendered.error().message(), "roles must alternate");
}

TEST(ChatTemplate, FailureNamesTheLineAndTheReason) {
  const auto rendered = Parsed("a\n{% if true %}\n{{ messages[0].content.foo.bar }}\n{% endif %}")
                            .Render(Conversation(R"([{"role": "user", "content": {"a": 1}}])"));
  ASSERT_FALSE(rendered.ok());
  EXPECT_EQ(rendered.error().code(), ErrorCode::kUnsupported);
  EXPECT_EQ(rendered.error().message(), "chat template, line 3: 'dict object' has no attribute 'foo'");
}

TEST(ChatTemplate, SyntaxErrorNamesTheLine) {
  const auto parsed = ChatTemplate::Parse("a\nb\n{% if %}", {});
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().code(), ErrorCode::kCorrupt);
  EXPECT_THAT(parsed.error().message(), HasSubstr("line 3"));
}

TEST(ChatTemplate, MalformedInputIsTheCallersError) {
  const ChatTemplate chat = Parsed("{{ messages }}");
  for (const char* messages : {"{}", "[1]", "\"x\"", "null"}) {
    const auto rendered = chat.Render(Conversation(messages));
    ASSERT_FALSE(rendered.ok()) << messages;
    EXPECT_EQ(rendered.error().code(), ErrorCode::kInvalidArgument);
  }
  ChatInput deep = Conversation(R"([{"role": "user"}])");
  ordered_json content = 1;
  for (int i = 0; i < 5000; ++i) content = ordered_json::array({std::move(content)});
  deep.messages[0]["content"] = std::move(content);
  EXPECT_EQ(chat.Render(deep).error().code(), ErrorCode::kInvalidArgument);
}

TEST(ChatTemplate, BytesThatAreNotUtf8PassThrough) {
  ChatInput input;
  input.messages = ordered_json::array({{{"role", "user"}, {"content", "a\xff\xc3 b\xe2\x82"}}});
  EXPECT_EQ(Rendered("{{ messages[0].content }}", input).text, "a\xff\xc3 b\xe2\x82");
  EXPECT_EQ(Rendered("{{ messages[0].content|upper|trim }}", input).text, "A\xff\xc3 B\xe2\x82");
  EXPECT_EQ(Rendered("{{ messages[0].content|length }}", input).text, "7");
}

TEST(ChatTemplate, ExtensionsChangeListsOnlyWhereAllowed) {
  const std::string source = "{% set l = [] %}{% set _ = l.append(3) %}{% set _ = l.append(4) %}{{ l.pop(0) }}{{ l }}";
  EXPECT_EQ(Rendered(source, {}).text, "3[4]");
  EXPECT_EQ(Rendered("{% set a = [1] %}{% set b = a + [2] %}{% set _ = a.append(3) %}{{ a }}{{ b }}", {}).text,
            "[1, 3][1, 2]");
  EXPECT_EQ(Rendered("{% set d = {} %}{% set _ = d.update({'a': 1}) %}{{ d }}{{ d.pop('a') }}{{ d }}", {}).text,
            "{'a': 1}1{}");
  EXPECT_EQ(Rendered("{{ '{\"a\": [1]}'|from_json }}", {}).text, "{'a': [1]}");
  ChatTemplateOptions options;
  options.extensions = false;
  for (const std::string& refused : {source, std::string("{{ '1'|from_json }}")}) {
    EXPECT_EQ(Parsed(refused, options).Render({}).error().code(), ErrorCode::kUnsupported);
  }
}

}  // namespace
}  // namespace kvasir::chat
