#include "chat/adapt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace kvasir::chat {
namespace {

using nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Accepts everything, content as it is, arguments as objects.
constexpr char kTolerant[] =
    "{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
    "{{ p.text }}{% endfor %}{% endif %}{% for c in m.tool_calls %}[{{ c.function.name }} "
    "{{ c.function.arguments|tojson }}]{% endfor %}{% endfor %}{% for t in tools or [] %}{{ t|tojson }}{% endfor %}";
// One system message, first; users and assistants in turns; text only.
constexpr char kStrict[] =
    "{% set ns = namespace(last='') %}{% for m in messages %}"
    "{% if m.role == 'system' and not loop.first %}{{ raise_exception('system must be first') }}{% endif %}"
    "{% if m.role == ns.last %}{{ raise_exception('roles must alternate') }}{% endif %}{% set ns.last = m.role %}"
    "<{{ m.role }}>{{ '' + m.content }}{% endfor %}";
constexpr char kNoSystem[] =
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    "<{{ m.role }}>{{ '' + m.content }}{% endfor %}";
// Drops what it does not know.
constexpr char kSilent[] =
    "{% if messages[0].role == 'system' %}<system>{{ messages[0].content }}{% endif %}"
    "{% for m in messages %}{% if m.role in ['user', 'assistant'] %}<{{ m.role }}>{{ m.content }}{% endif %}{% endfor "
    "%}";
// Wants the JSON text.
constexpr char kTextArguments[] =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls %}{{ c.function.name + ' ' + "
    "c.function.arguments }}{% endfor %}{% endfor %}";

ChatTemplate Parsed(const char* source) {
  auto parsed = ChatTemplate::Parse(source, {});
  EXPECT_TRUE(parsed.ok()) << parsed.error().message();
  return std::move(parsed).value();
}

AdaptedChat Adapted(const char* source, const std::string& messages) {
  const ChatTemplate chat = Parsed(source);
  ChatInput input;
  input.messages = ordered_json::parse(messages);
  auto adapted = RenderAdapted(chat, ProbeTemplate(chat), input);
  EXPECT_TRUE(adapted.ok()) << adapted.error().message();
  return adapted.ok() ? std::move(adapted).value() : AdaptedChat{};
}

TEST(ProbeTemplate, LearnsWhatATemplateCanExpress) {
  const TemplateTraits tolerant = ProbeTemplate(Parsed(kTolerant));
  EXPECT_TRUE(tolerant.system_role && tolerant.late_system && tolerant.repeated_roles && tolerant.content_parts);
  EXPECT_TRUE(tolerant.tools && tolerant.tool_calls && tolerant.object_arguments);
  EXPECT_FALSE(tolerant.developer_role || tolerant.reasoning);
  const TemplateTraits strict = ProbeTemplate(Parsed(kStrict));
  EXPECT_TRUE(strict.system_role);
  EXPECT_FALSE(strict.late_system || strict.repeated_roles || strict.content_parts || strict.tools ||
               strict.tool_calls);
  EXPECT_FALSE(ProbeTemplate(Parsed(kNoSystem)).system_role);
  EXPECT_FALSE(ProbeTemplate(Parsed(kSilent)).late_system);
  const TemplateTraits text = ProbeTemplate(Parsed(kTextArguments));
  EXPECT_TRUE(text.tool_calls);
  EXPECT_FALSE(text.object_arguments);
}

TEST(RenderAdapted, ChangesNothingThatTheTemplateAccepts) {
  const AdaptedChat chat = Adapted(kTolerant, R"([{"role": "system", "content": "a"}, {"role": "user", "content": "b"},
    {"role": "user", "content": "c"}, {"role": "system", "content": "d"}])");
  EXPECT_EQ(chat.rendered.text, "<system>a<user>b<user>c<system>d");
  EXPECT_THAT(chat.changes, IsEmpty());
}

TEST(RenderAdapted, DeveloperIsSystemUnlessTheTemplateKnowsIt) {
  const std::string messages = R"([{"role": "developer", "content": "a"}, {"role": "user", "content": "b"}])";
  EXPECT_EQ(Adapted(kTolerant, messages).rendered.text, "<system>a<user>b");
  EXPECT_EQ(Adapted("{# developer #}{% for m in messages %}<{{ m.role }}>{% endfor %}", messages).rendered.text,
            "<developer><user>");
}

TEST(RenderAdapted, SystemThenDeveloperBecomeOneSystemMessage) {
  const AdaptedChat chat =
      Adapted(kStrict, R"([{"role": "system", "content": "a"}, {"role": "developer", "content": "b"},
    {"role": "user", "content": "c"}])");
  EXPECT_EQ(chat.rendered.text, "<system>a\n\nb<user>c");
  EXPECT_EQ(chat.changes.size(), 1U);
}

TEST(RenderAdapted, LateSystemMessageJoinsTheUserTurnWhereItStands) {
  for (const char* source : {kStrict, kSilent}) {
    const AdaptedChat chat = Adapted(source, R"([{"role": "system", "content": "a"}, {"role": "user", "content": "b"},
      {"role": "assistant", "content": "c"}, {"role": "system", "content": "d"}, {"role": "user", "content": "e"}])");
    EXPECT_EQ(chat.rendered.text, "<system>a<user>b<assistant>c<user>d\n\ne") << source;
    EXPECT_EQ(chat.changes.size(), 1U);
  }
}

TEST(RenderAdapted, RepeatedRolesAreJoinedAndSpansNameTheRequestsMessages) {
  const AdaptedChat chat = Adapted(kStrict, R"([{"role": "user", "content": "a"}, {"role": "user", "content": "b"},
    {"role": "assistant", "content": "c"}, {"role": "assistant", "content": "d"}, {"role": "user", "content": "e"}])");
  EXPECT_EQ(chat.rendered.text, "<user>a\n\nb<assistant>c\n\nd<user>e");
  std::vector<int32_t> owners;
  for (const Span& span : chat.rendered.spans) {
    if (span.origin.part == Part::kContent) owners.push_back(span.origin.message);
  }
  EXPECT_THAT(owners, ElementsAre(0, 2, 4));
}

TEST(RenderAdapted, SystemPromptMovesWhereThereIsNoSystemRole) {
  const AdaptedChat chat =
      Adapted(kNoSystem, R"([{"role": "system", "content": "a"}, {"role": "user", "content": "b"}])");
  EXPECT_EQ(chat.rendered.text, "<user>a\n\nb");
  EXPECT_EQ(chat.changes.size(), 1U);
}

TEST(RenderAdapted, ContentIsFittedToTheTemplate) {
  const std::string messages =
      R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    {"role": "assistant", "content": null}])";
  EXPECT_EQ(Adapted(kTolerant, messages).rendered.text, "<user>ab<assistant>");
  EXPECT_EQ(Adapted(kStrict, messages).rendered.text, "<user>a\nb<assistant>");
}

TEST(RenderAdapted, ToolArgumentsArriveAsTheTemplateWantsThem) {
  const auto messages = [](const std::string& arguments) {
    return R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": )" + arguments + "}}]}]";
  };
  EXPECT_EQ(Adapted(kTolerant, messages(R"("{\"a\": 1}")")).rendered.text, R"(<assistant>[f {"a": 1}])");
  EXPECT_EQ(Adapted(kTolerant, messages(R"({"a": 1})")).rendered.text, R"(<assistant>[f {"a": 1}])");
  EXPECT_EQ(Adapted(kTextArguments, messages(R"({"a":1})")).rendered.text, R"(<assistant>f {"a":1})");
  EXPECT_EQ(Adapted(kTextArguments, messages(R"("{\"a\": 1}")")).rendered.text, R"(<assistant>f {"a": 1})");
}

TEST(RenderAdapted, MalformedToolArgumentsDoNotEndTheConversation) {
  const auto shown = [](const std::string& arguments) {
    return Adapted(kTolerant, R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": )" +
                                  arguments + "}}]}]")
        .rendered.text;
  };
  EXPECT_EQ(shown(R"("{bad")"), R"(<assistant>[f "{bad"])");
  EXPECT_EQ(shown(R"("")"), "<assistant>[f {}]");
  EXPECT_EQ(shown("null"), "<assistant>[f {}]");
  EXPECT_EQ(shown("[1]"), "<assistant>[f [1]]");
  EXPECT_EQ(shown("7"), "<assistant>[f 7]");
}

TEST(RenderAdapted, ParallelCallsAreShownOneByOneWhereTheTemplateTakesOnlyOne) {
  const AdaptedChat chat = Adapted(
      "{% for m in messages %}{% if m.tool_calls %}{% if m.tool_calls|length != 1 %}{{ raise_exception('one call "
      "only') }}"
      "{% endif %}<call {{ m.content }}{{ m.tool_calls[0].id }}>{% else %}<{{ m.role }} {{ m.content }}>{% endif %}{% "
      "endfor %}",
      R"([{"role": "user", "content": "q"},
      {"role": "assistant", "content": "look ", "tool_calls": [{"id": "a", "function": {}}, {"id": "b", "function": {}}]},
      {"role": "tool", "tool_call_id": "b", "content": "rb"}, {"role": "tool", "tool_call_id": "a", "content": "ra"}])");
  EXPECT_EQ(chat.rendered.text, "<user q><call look a><tool ra><call b><tool rb>");
  EXPECT_EQ(chat.changes.size(), 1U);
  std::vector<int32_t> owners;
  for (const Span& span : chat.rendered.spans) {
    if (span.origin.part == Part::kToolResult) owners.push_back(span.origin.message);
  }
  EXPECT_THAT(owners, ElementsAre(3, 2));
}

TEST(RenderAdapted, WhatCannotBeHelpedIsTheTemplatesError) {
  const ChatTemplate chat = Parsed("{{ raise_exception('never') }}");
  ChatInput input;
  input.messages = ordered_json::parse(R"([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])");
  const auto adapted = RenderAdapted(chat, ProbeTemplate(chat), input);
  ASSERT_FALSE(adapted.ok());
  EXPECT_EQ(adapted.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(adapted.error().message(), "never");
}

TEST(RenderAdapted, OddMessagesAreErrorsNotCrashes) {
  for (const char* source : {kTolerant, kStrict, kNoSystem}) {
    const ChatTemplate chat = Parsed(source);
    const TemplateTraits traits = ProbeTemplate(chat);
    for (const char* messages : {"{}", "1", "[1]", "[null, []]", R"([{"role": 5, "content": 7}])",
                                 R"([{"content": {}}])", R"([{"role": "assistant", "tool_calls": 5}])",
                                 R"([{"role": "assistant", "tool_calls": [5, {"function": 1}]}])",
                                 R"([{"role": "user", "content": [1, {"text": 2}]}])"}) {
      ChatInput input;
      input.messages = ordered_json::parse(messages);
      const auto adapted = RenderAdapted(chat, traits, input);
      EXPECT_TRUE(adapted.ok() || !adapted.error().message().empty()) << messages;
    }
  }
}

TEST(RenderAdapted, ToolsThatNobodyAskedForDoNotBreakTemplatesThatIterateOverThem) {
  const AdaptedChat chat =
      Adapted("{% for t in tools %}x{% endfor %}{% for m in messages %}{{ m.content }}{% endfor %}",
              R"([{"role": "user", "content": "a"}])");
  EXPECT_EQ(chat.rendered.text, "a");
}

}  // namespace
}  // namespace kvasir::chat
