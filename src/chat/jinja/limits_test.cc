// Templates and inputs that would run for ever, fill memory or overflow the stack end in an error, and long
// conversations are linear: a budget that a quadratic implementation exceeds many times over suffices.
#include <gtest/gtest.h>

#include <string>

#include "chat/chat_template.h"

namespace kvasir::chat {
namespace {

std::string Repeated(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

ErrorCode CodeOf(const std::string& source, jinja::Limits limits = {}) {
  ChatTemplateOptions options;
  options.limits = limits;
  const auto parsed = ChatTemplate::Parse(source, options);
  if (!parsed.ok()) return parsed.error().code();
  const auto rendered = parsed->Render({});
  EXPECT_FALSE(rendered.ok()) << source.substr(0, 100);
  return rendered.ok() ? ErrorCode::kIo : rendered.error().code();
}

TEST(Limits, DeepNestingDoesNotParse) {
  constexpr int kDepth = 20'000;
  EXPECT_EQ(CodeOf("{{ " + Repeated("(", kDepth) + "1" + Repeated(")", kDepth) + " }}"), ErrorCode::kCorrupt);
  EXPECT_EQ(CodeOf("{{ " + Repeated("[", kDepth) + Repeated("]", kDepth) + " }}"), ErrorCode::kCorrupt);
  EXPECT_EQ(CodeOf("{{ " + Repeated("{1:", kDepth) + "1" + Repeated("}", kDepth) + " }}"), ErrorCode::kCorrupt);
  EXPECT_EQ(CodeOf("{{ " + Repeated("-", kDepth) + "1 }}"), ErrorCode::kCorrupt);
  EXPECT_EQ(CodeOf("{{ " + Repeated("not ", kDepth) + "1 }}"), ErrorCode::kCorrupt);
  EXPECT_EQ(CodeOf("{{ 1" + Repeated("+1", kDepth) + " }}"), ErrorCode::kCorrupt);
  EXPECT_EQ(CodeOf("{{ a" + Repeated(".a", kDepth) + " }}"), ErrorCode::kCorrupt);
  EXPECT_EQ(CodeOf("{{ a" + Repeated("|e", kDepth) + " }}"), ErrorCode::kCorrupt);
  EXPECT_EQ(CodeOf("{{ a" + Repeated("()", kDepth) + " }}"), ErrorCode::kCorrupt);
  EXPECT_EQ(CodeOf("{{ 1" + Repeated(" if 1", kDepth) + " }}"), ErrorCode::kCorrupt);
  EXPECT_EQ(CodeOf("{{ 1" + Repeated(" if 1 else 1", kDepth) + " }}"), ErrorCode::kCorrupt);
  EXPECT_EQ(CodeOf(Repeated("{% if 1 %}", kDepth)), ErrorCode::kCorrupt);
  EXPECT_EQ(CodeOf("{% set " + Repeated("(", kDepth)), ErrorCode::kCorrupt);
}

TEST(Limits, LongFlatChainsParse) {
  const auto renders = [](const std::string& source) {
    const auto parsed = ChatTemplate::Parse(source, {});
    return parsed.ok() && parsed->Render({}).ok();
  };
  EXPECT_TRUE(renders("{{ 1" + Repeated(" or 1", 10'000) + " }}"));
  EXPECT_TRUE(renders("{{ 1" + Repeated(" ~ 1", 10'000) + " }}"));
  EXPECT_TRUE(renders("{{ [1" + Repeated(", 1", 10'000) + "] }}"));
  EXPECT_TRUE(renders("{% if 0 %}" + Repeated("{% elif 0 %}", 10'000) + "{% endif %}"));
  EXPECT_TRUE(renders(Repeated("{{ 1 }}", 10'000)));
}

TEST(Limits, EndlessRecursionEnds) {
  EXPECT_EQ(CodeOf("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), ErrorCode::kResourceExhausted);
  EXPECT_EQ(CodeOf("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"), ErrorCode::kResourceExhausted);
  EXPECT_EQ(CodeOf("{{ ['a']|map(" + Repeated("'map',", 20'000) + "'upper')|list }}"), ErrorCode::kResourceExhausted);
}

TEST(Limits, EndlessWorkEnds) {
  jinja::Limits limits;
  limits.steps = 1'000'000;
  const std::string loop = "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";
  EXPECT_EQ(CodeOf(loop, limits), ErrorCode::kResourceExhausted);
}

TEST(Limits, MemoryBombsEnd) {
  jinja::Limits limits;
  limits.heap_bytes = size_t{2} << 20;
  const auto bomb = [&](const std::string& source) { return CodeOf(source, limits); };
  EXPECT_EQ(bomb("{{ 'a' * 1000000000000 }}"), ErrorCode::kResourceExhausted);
  EXPECT_EQ(bomb("{{ [1] * 1000000000000 }}"), ErrorCode::kResourceExhausted);
  EXPECT_EQ(bomb("{{ 'a'.center(1000000000000) }}"), ErrorCode::kResourceExhausted);
  EXPECT_EQ(bomb("{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}"),
            ErrorCode::kResourceExhausted);
  EXPECT_EQ(bomb("{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s|replace('a', ns.s) %}"
                 "{% endfor %}"),
            ErrorCode::kResourceExhausted);
  EXPECT_EQ(bomb("{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}{% endfor %}"),
            ErrorCode::kResourceExhausted);
  EXPECT_EQ(bomb("{% set ns = namespace(l=[1]) %}{% for i in range(90) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}"
                 "{{ ns.l }}"),
            ErrorCode::kResourceExhausted);
  EXPECT_EQ(bomb("{{ [1]|batch(100000000, 0)|list }}"), ErrorCode::kResourceExhausted);
}

TEST(Limits, OutputIsBounded) {
  jinja::Limits limits;
  limits.output_bytes = 1000;
  EXPECT_EQ(CodeOf("{% for i in range(2000) %}x{% endfor %}", limits), ErrorCode::kResourceExhausted);
}

TEST(Limits, ValuesThatContainThemselvesAreErrorsNotCrashes) {
  EXPECT_EQ(CodeOf("{% set l = [] %}{% set _ = l.append(l) %}{{ l }}"), ErrorCode::kUnsupported);
  EXPECT_EQ(CodeOf("{% set l = [] %}{% set _ = l.append(l) %}{{ l|tojson }}"), ErrorCode::kUnsupported);
  EXPECT_EQ(CodeOf("{% set a = [] %}{% set _ = a.append(a) %}{% set b = [] %}{% set _ = b.append(b) %}{{ a < b }}"
                   "{{ a|tojson }}"),
            ErrorCode::kUnsupported);
}

TEST(Limits, IntegersOverflowIntoErrors) {
  EXPECT_EQ(CodeOf("{{ 9223372036854775807 + 1 }}"), ErrorCode::kUnsupported);
  EXPECT_EQ(CodeOf("{{ -9223372036854775807 - 2 }}"), ErrorCode::kUnsupported);
  EXPECT_EQ(CodeOf("{{ 10 ** 30 }}"), ErrorCode::kUnsupported);
  EXPECT_EQ(CodeOf("{{ (-9223372036854775807 - 1) // -1 }}"), ErrorCode::kUnsupported);
  EXPECT_EQ(CodeOf("{{ 9223372036854775808 }}"), ErrorCode::kCorrupt);
}

// 20,000 appends of 30 bytes: 600 kB of text. Copying at each step would take 6 GB.
TEST(Limits, AppendingInALoopIsLinear) {
  ChatTemplateOptions options;
  options.limits.heap_bytes = size_t{64} << 20;
  for (const std::string append : {"ns.s + chunk", "ns.s ~ chunk", "(ns.s + chunk)|string"}) {
    const auto parsed = ChatTemplate::Parse(
        "{% set ns = namespace(s='') %}{% set chunk = 'x' * 30 %}{% for i in range(20000) %}"
        "{% set ns.s = " +
            append + " %}{% endfor %}{{ ns.s }}",
        options);
    ASSERT_TRUE(parsed.ok());
    const auto rendered = parsed->Render({});
    ASSERT_TRUE(rendered.ok()) << append << ": " << rendered.error().message();
    EXPECT_EQ(rendered->text.size(), 600'000U);
    EXPECT_EQ(rendered->spans.size(), 1U);
  }
}

TEST(Limits, CollectingInALoopIsLinear) {
  ChatTemplateOptions options;
  options.limits.heap_bytes = size_t{64} << 20;
  const auto parsed = ChatTemplate::Parse(
      "{% set ns = namespace(l=[]) %}{% for i in range(20000) %}{% set ns.l = ns.l + [i] %}{% endfor %}{{ ns.l|length "
      "}}",
      options);
  ASSERT_TRUE(parsed.ok());
  const auto rendered = parsed->Render({});
  ASSERT_TRUE(rendered.ok()) << rendered.error().message();
  EXPECT_EQ(rendered->text, "20000");
}

}  // namespace
}  // namespace kvasir::chat
