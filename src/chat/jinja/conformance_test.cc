// Every feature against python jinja2 3.1.6: the expected texts were printed by its ImmutableSandboxedEnvironment with
// trim_blocks, lstrip_blocks, loop controls, the `generation` tag and the tojson, raise_exception and strftime_now of
// the transformers library.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "chat/chat_template.h"

namespace kvasir::chat {
namespace {

struct Case {
  std::string source;
  std::optional<std::string> expected;  // nothing: an error, when parsed or when rendered
};

Case Fails(std::string source) {
  return {std::move(source), std::nullopt};
}

// clang-format off
ChatInput Friday() {
  ChatInput input;
  input.tools.reset();
  // 2024-07-26T12:34:56
  input.now.tm_year = 124; input.now.tm_mon = 6; input.now.tm_mday = 26; input.now.tm_wday = 5; input.now.tm_yday = 207;
  input.now.tm_hour = 12; input.now.tm_min = 34; input.now.tm_sec = 56;
  return input;
}
// clang-format on

void ExpectAll(const std::vector<Case>& cases) {
  ChatTemplateOptions options;
  options.extensions = false;
  for (const Case& test : cases) {
    const auto parsed = ChatTemplate::Parse(test.source, options);
    if (!parsed.ok()) {
      EXPECT_FALSE(test.expected.has_value()) << test.source << "\n" << parsed.error().message();
      EXPECT_EQ(parsed.error().code(), ErrorCode::kCorrupt);
      continue;
    }
    const auto rendered = parsed->Render(Friday());
    if (!rendered.ok()) {
      EXPECT_FALSE(test.expected.has_value()) << test.source << "\n" << rendered.error().message();
      continue;
    }
    if (!test.expected.has_value()) {
      ADD_FAILURE() << test.source << " rendered as " << rendered->text << " but should fail";
      continue;
    }
    EXPECT_EQ(rendered->text, *test.expected) << test.source;
  }
}

TEST(Statements, WhitespaceControlTrimsAndStripsAsTheTemplatesExpect) {
  ExpectAll({
      {"{% raw %}{{ x }}{% endraw %}", "{{ x }}"},
      {"{# c #}x{#- d -#} y", "xy"},
      {"a  \n  {%- if true %}\n  x\n  {% endif %}\nb\n", "a  x\nb"},
      {"  {{ 1 }}\n  {% if 1 %}\n y {% endif %} z\n", "  1\n y  z"},
      {"a{%+ if 1 %}\nb{% endif +%}\nc", "ab\nc"},
      {"  {%+ if 1 %}\nb  {%- endif %}\n\nc\n\n", "  b\nc\n"},
      {"  {% raw %}  x {% endraw %}\n y", "  x  y"},
      {"{%- raw -%}  x {%- endraw -%}\n y", "xy"},
      {"  {# c #}\n  x", "  x"},
      {"x {# c -#}  \n y", "x y"},
      {"x{% set a = 1 -%}\n\n  y{{ a -}}\n\n z", "xy1z"},
      {"\na\n{% if 1 %}\nb\n{% endif %}\n", "\na\nb\n"},
      {"{{ \"a\\\nb\" }}", "ab"},
      {R"({{ "%s" % none }}{{ "%d%%" % 5 }}{{ "%(a)s" % {"a":1} }}{{ "%5.1f|%-5s|%+d|%03d|%r|%c|%e|%g|%X|%o" % (1.25,"a",3,4,"q",65,12345.678,0.0001,255,8) }})",
       "None5%1  1.2|a    |+3|004|'q'|A|1.234568e+04|0.0001|FF|10"},
      Fails("{# x"),
      Fails("{% raw %} x"),
      {"{%- for a in [1] -%}\n  x\n{%- endfor -%}\n", "x"},
      {"{% set x -%}\n  a\n{%- endset %}[{{ x }}]", "[a]"},
  });
}

TEST(Statements, MacrosBindDefaultsExtrasAndCallers) {
  ExpectAll({
      {"{% set x=1 %}{% macro m() %}{{x}}{% endmacro %}{% set x=2 %}{{ m() }}", "2"},
      {"{% macro m() %}{{x}}{% endmacro %}{% set x=2 %}{{ m() }}", "2"},
      {"{% macro m() %}{{x}}{% endmacro %}{% for x in [1] %}{{ m() }}{% endfor %}", ""},
      {R"({% macro m(a,b=2) %}{{a}}{{b}}{{caller() if caller else "-"}}{{varargs}}{{kwargs}}{% endmacro %}{{m(1)}}|{{m(1,3,4,z=5)}}|{% call m(7) %}cc{% endcall %})",
       "12-(){}|13-(4,){'z': 5}|72cc(){}"},
      {"{% macro m(a) %}[{{a}}]{% endmacro %}{{ m() }}{{ m(a=1) }}", "[][1]"},
      Fails("{% macro m(a) %}[{{a}}]{% endmacro %}{{ m(1,2) }}"),
      {"{% macro m(a, b=a) %}{{b}}{% endmacro %}{{ m(3) }}", "3"},
      Fails("{% call(x) m2() %}{{x}}{% endcall %}"),
      {"{% macro m() %}{{ caller(5) }}{% endmacro %}{% call(x) m() %}<{{x}}>{% endcall %}", "<5>"},
      {"{{ m }}{% macro m() %}{% endmacro %}{{ m }}", "<Macro 'm'>"},
      {"{% macro a(n) %}{{ n }}{% if n > 0 %}{{ a(n-1) }}{% endif %}{% endmacro %}{{ a(3) }}", "3210"},
      {"{% macro m(x) %}{% set x = x + 1 %}{{ x }}{% endmacro %}{{ m(1) }}", "2"},
  });
}

TEST(Statements, LoopsKnowTheirPlaceAndScopeTheirVariables) {
  ExpectAll({
      {"{% set x = 0 %}{% for i in [1,2] %}{{ x }}{% set x = i %}{% endfor %}{{x}}", "000"},
      {"{% for i in [1,2] %}[{{ x }}]{% set x = i %}{% endfor %}", "[][]"},
      {"{% for a,b in [[1,2]] %}{{a}}{{b}}{% endfor %}", "12"},
      {"{% for i in [1,2,3] recursive %}{{loop(x) if x else i}}{% endfor %}", "123"},
      {"{% for x in [1,2,3,4] if x%2==0 %}{{loop.index}}/{{loop.length}}:{{x}} {% else %}E{% endfor %}",
       "1/2:2 2/2:4 "},
      {"{% for i in [1,2,3] %}{% if i==2 %}{% continue %}{% endif %}{{i}}{% if i==3 %}{% break %}{% endif %}{% endfor "
       "%}",
       "13"},
      {R"({% for i in [1,2,3] %}{{ loop.previtem }}|{{ loop.nextitem }}|{{ loop.revindex }} {{ loop.cycle("a","b") }} {{loop.changed(i)}}{{loop.depth}};{% endfor %})",
       "|2|3 a True1;1|3|2 b True1;2||1 a True1;"},
      {R"({% for k,v in {"a":1}.items() %}{{k}}{{v}}{% endfor %})", "a1"},
      {R"({% for k in {"a":1} %}{{k}}{% endfor %})", "a"},
      {R"({% for c in "añb" %}{{c}}.{% endfor %})", "a.ñ.b."},
      Fails("{% for c in none %}{% endfor %}"),
      Fails("{% for c in 5 %}{% endfor %}"),
      {"{% for c in undefinedx %}x{% else %}else{% endfor %}", "else"},
      Fails("{% for a,b in [1] %}{% endfor %}"),
      {"{% for x in [[1,[2]],[3]] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}{% endif %}{% "
       "endfor %}",
       "(1(2))(3)"},
      {"{% for i in range(3) %}{% for j in range(2) %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}",
       "121122123"},
      {"{% for i in [] %}{% else %}{% set q=1 %}{{q}}{% endfor %}{{q}}", "1"},
      {R"({% for k, v in {"a": 1, "b": 2}|dictsort %}{{ k }}={{ v }}{% if not loop.last %}, {% endif %}{% endfor %})",
       "a=1, b=2"},
  });
}

TEST(Statements, AssignmentsUnpackCaptureAndScope) {
  ExpectAll({
      {"{% if true %}{% set x=1 %}{% endif %}{{x}}", "1"},
      {"{% set x=5 %}{% set x %}a{{x}}{% endset %}{{x}}", "a5"},
      {"{% set x %}{% set y = 3 %}{{y}}{% endset %}{{x}}{{y}}", "3"},
      {R"({% filter upper %}abc{{ "d" }}{% endfilter %})", "ABCD"},
      {"{% set a,b = 1,2 %}{{a}}{{b}}", "12"},
      {"{% with a=1, b=2 %}{{a}}{{b}}{% endwith %}{{a}}", "12"},
      {R"({% set ns = namespace() %}{% set ns.a = 1 %}{{ ns.a }}{{ ns["a"] }}{{ ns.b }}{{ ns.b is defined }})",
       "11False"},
      Fails("{% set ns = {} %}{% set ns.a = 1 %}"),
      Fails("{% set ns = namespace(a=1, b=[]) %}{{ ns.c.d }}"),
      {"{% set x = 1, 2 %}{{ x }}", "(1, 2)"},
      Fails("{% set a.b = 1 %}"),
      Fails("{% set x, y = [1] %}"),
      Fails("{% set x, y = [1,2,3] %}"),
      {"{% set x = [1,2] %}{% set y = x + [3] %}{% set z = x + [4] %}{{x}}{{y}}{{z}}", "[1, 2][1, 2, 3][1, 2, 4]"},
      {R"({% set s = "a" %}{% set t = s + "b" %}{% set u = s + "c" %}{{s}}{{t}}{{u}}{% set t = t + t %}{{ t }})",
       "aabacabab"},
      {R"({% set g = [1,2]|map("string") %}{{ g|join }}{{ g|join }}{{ g|list }})", "12[]"},
      {R"({% set f = "a".upper %}{{ f() }})", "A"},
      {"{% set x | upper %}ab{% endset %}{{ x }}", "AB"},
      {"{% filter indent(2) | upper %}a\nb{% endfilter %}", "A\n  B"},
      {"{% with %}{% set a = 1 %}{{a}}{% endwith %}{{a}}", "1"},
      {"{% with a = 1 %}{% with b = a %}{{ b }}{% endwith %}{% endwith %}", "1"},
      {"{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}", "21"},
      Fails("{% set x = none %}{{ x[1:] }}"),
      Fails("{% set x = {} %}{{ x[:1] }}"),
  });
}

TEST(Statements, ConditionsAndUnknownTags) {
  ExpectAll({
      {R"({% if false %}{{ "a"|foo }}{% endif %}ok)", "ok"},
      {R"({% if false %}{{ "a" is foo }}{% endif %}ok)", "ok"},
      {"{% generation %}a{{ 1 }}{% endgeneration %}", "a1"},
      {"{% if x is defined %}1{% elif true %}2{% else %}3{% endif %}", "2"},
      Fails("{% if %}{% endif %}"),
      Fails("{% foo %}"),
      Fails("{% if 1 %}"),
      Fails("{% endif %}"),
      Fails("{% else %}"),
      Fails(R"({% include "x" %})"),
      Fails(R"({% extends "x" %})"),
      Fails(R"({% import "x" as y %})"),
      {"{% block b %}a{% endblock %}", "a"},
      Fails("{% break %}"),
  });
}

TEST(Formatting, PercentAndBraceFormatsFollowPython) {
  ExpectAll({
      {R"({{ "%s-%d" % ("a",3) }} {{ "%05.2f|%x"|format(3.14159, 255) }})", "a-3 03.14|ff"},
      {R"({{ "{} {:>5} {a}".format(1,2,a=3) }})", "1     2 3"},
      {R"({{ "{0:.2f}".format(2.5) }})", "2.50"},
      {R"({{ "{:,}".format(1234567) }})", "1,234,567"},
      {R"({{ "{:<5}|{:^5}|{:+}|{:05d}|{:.3}|{!r}|{{}}|{:%}|{:x}|{:e}|{:g}|{:b}|{:*>4}".format("a","b",3,4,"abcdef","q",0.5,255,1.5,0.1,5,"z") }})",
       "a    |  b  |+3|00004|abc|'q'|{}|50.000000%|ff|1.500000e+00|0.1|101|***z"},
      {R"({{ "{0[a]}{1.x}".format({"a":1}, namespace(x=5)) }})", "15"},
      Fails(R"({{ "%s" % (1,2) }})"),
      Fails(R"({{ "%d" % "a" }})"),
      Fails(R"({{ "{} {}".format(1) }})"),
      {R"({{ "%d %i" % (2.9, true) }})", "2 1"},
      Fails(R"({{ "{:d}".format(1.5) }})"),
      Fails(R"({{ "{:s}".format(1) }})"),
      Fails(R"({{ "{:>3}{:>5}".format(true, none) }})"),
      {R"({{ "{:_}|{:,.2f}|{:#x}|{: d}".format(1234567,12345.678,255,5) }})", "1_234_567|12,345.68|0xff| 5"},
      Fails(R"({{ "a" % 1 }})"),
      {R"({{ "{:.2f}".format(1) }}{{ "%.3s|%6.2s|" % ("abcdef","xyz") }}{{ "%-6d|%06d|% d" % (5,-5,7) }})",
       "1.00abc|    xy|5     |-00005| 7"},
      {R"({{ "%s"|format("a") }}{{ "%s %s"|format("a", "b") }}{{ "%(x)s"|format(x=1) }})", "aa b1"},
  });
}

TEST(Json, ToJsonWritesWhatJsonDumpsWrites) {
  ExpectAll({
      {"{{ {\"a\":{\"b\":1}}|tojson(indent=2) }} {{ []|tojson(indent=2) }} {{ {}|tojson(indent=2) }}{{ "
       "\"é\\u2028\177<\"|tojson }}{{ 1.0|tojson }}",
       "{\n  \"a\": {\n    \"b\": 1\n  }\n} [] {}\"é\342\200\250\177<\"1.0"},
      {R"({{ {"b":[1,{"c":none}],"a":"é😀"}|tojson(ensure_ascii=true, sort_keys=true) }}{{ {"a":[1,2]}|tojson(separators=(",",":")) }}{{ {"a":[1,2]}|tojson(indent=1, separators=(", ","=")) }}{{ {1:2,none:3,true:4,1.5:5}|tojson }}{{ [1]|tojson(indent="--") }}{{ [1]|tojson(indent=0) }})",
       "{\"a\": \"\\u00e9\\ud83d\\ude00\", \"b\": [1, {\"c\": null}]}{\"a\":[1,2]}{\n \"a\"=[\n  1, \n  2\n "
       "]\n}{\"1\": 4, \"null\": 3, \"1.5\": 5}[\n--1\n][\n1\n]"},
      Fails(R"({{ [1,2]|map("string")|tojson }})"),
      {R"({{ true|tojson }}{{ none|tojson }}{{ "a\"b\\c\n\x01"|tojson }})", R"(truenull"a\"b\\c\n\u0001")"},
      Fails("{{ undefinedx|tojson }}"),
      Fails("{{ range|tojson }}"),
      {"{{ 1e16|tojson }}{{ 1e400|tojson }}", "1e+16Infinity"},
      Fails("{{ namespace(a=1)|tojson }}"),
  });
}

TEST(Filters, TextFilters) {
  ExpectAll({
      {R"({{ "a" + "<b>"|safe }})", "a<b>"},
      {R"({{ ("a"|safe) + "<b>" }})", "a&lt;b&gt;"},
      {R"({{ ("a"|safe) ~ "<b>" }})", "a<b>"},
      {R"({{ "a\nb\n"|indent(2) }}|{{ "a\n\nb"|indent(2,true) }}|{{ "a\n\nb"|indent(2,true,true) }})",
       "a\n  b\n|  a\n\n  b|  a\n  \n  b"},
      {"{{ \"\"|indent(2,true) }}|{{ \"\n\"|indent(2) }}|", "  |\n|"},
      Fails(R"({{ "abc"|truncate(2) }})"),
      {R"({{ "hello world foo"|truncate(9) }}|{{ "hello world"|wordcount }}|{{ "hello wORLD"|title }}|{{ "hello wORLD"|capitalize }})",
       "hello...|2|Hello World|Hello world"},
      {R"({{ "hello world foo bar"|truncate(9) }}|{{ "hello world foo bar"|truncate(9,true) }}|{{ "hello world foo bar"|truncate(9,true,"!",0) }})",
       "hello...|hello ...|hello wo!"},
      {R"({{ "<&>'\""|e }})", "&lt;&amp;&gt;&#39;&#34;"},
      {R"({{ "a b/é?"|urlencode }} {{ {"a":"x y"}|urlencode }})", "a%20b/%C3%A9%3F a=x+y"},
      {R"({{ "hello world"|title }} {{ "they're bill's"|title }} {{ "they're bill's".title() }} {{ "hELLO".capitalize() }})",
       "Hello World They're Bill's They'Re Bill'S Hello"},
      {R"({{ {"a":1,"b":[true]}|string }})", "{'a': 1, 'b': [True]}"},
      {R"({{ "5".zfill(3) }}{{ "a".ljust(3) }}|{{ "a".rjust(3,"-") }}|{{ "a".center(4) }}|{{ "ab".center(5,"*") }}|{{ "a"|center(6) }}|{{ "-5".zfill(4) }}{{ "ab".removeprefix("a") }}{{ "ab".removesuffix("b") }}{{"aB".swapcase()}})",
       "005a  |--a| a  |**ab*|  a   |-005baAb"},
      {R"({{ 5|string + "a" }}{{ "a" if 1 else "b" if 2 else "c" }})", "5aa"},
      {"{{ \"\302\240 x\343\200\200\".strip() }}|{{ \"\342\200\203a\"|trim }}|", "x|a|"},
      {R"({{ "xyz"|trim("x") }})", "yz"},
      {R"({{ "abc"|attr("upper")() }}{{ {"a":1}|attr("a") }})", "ABC"},
      {R"({{ "a-b_c d"|title }}{{ "x(y)[z]"|title }})", "A-B_c DX(Y)[Z]"},
      Fails(R"({{ none|string + "a" }}{{ none|upper }}{{ 5|trim }}{{ [1]|trim }}{{ none|length }})"),
      {R"({{ "<a>"|e + "<b>" }}{{ "<a>"|e|e }}{{ "<a>"|e|upper }}{{ ("<a>"|e).replace("&","+") }}{{ "<a>"|safe|replace("a","b") + "<" }})",
       "&lt;a&gt;&lt;b&gt;&lt;a&gt;&LT;A&GT;+lt;a+gt;<b><"},
      {R"({{ [1,2]|truncate(3,true,"") }})", "[1, 2]"},
  });
}

TEST(Filters, SequenceFilters) {
  ExpectAll({
      {"{{ undefinedx|length }}", "0"},
      {R"({{ [3,1,2]|sort }} {{ ["b","A","c"]|sort }} {{ ["b","A","c"]|unique|list }})",
       "[1, 2, 3] ['A', 'b', 'c'] ['b', 'A', 'c']"},
      {R"({{ {"b":1,"a":2}|dictsort }})", "[('a', 2), ('b', 1)]"},
      {R"({{ "a,b"|list }} {{ {"a":1}|list }} {{ [1,2]|join(",") }} {{ [{"a":1},{"a":2}]|join("-",attribute="a") }})",
       "['a', ',', 'b'] ['a'] 1,2 1-2"},
      {"{{ [1,2,3]|first }}{{ []|first }}{{ [1,2,3]|last }}", "13"},
      {R"({{ "abc"|first }})", "a"},
      Fails(R"({{ [1,2,3]|map("foo")|list }})"),
      {R"({{ [{"a":1}]|map(attribute="a")|list }}{{ [{"a":1},{}]|map(attribute="a", default=7)|list }})", "[1][1, 7]"},
      {R"({{ [{"a":{"b":2}}]|map(attribute="a.b")|list }})", "[2]"},
      {R"({{ [1,2,3]|select("odd")|list }} {{ [0,1]|select|list }} {{ [1,2]|reject("equalto",1)|list }})",
       "[1, 3] [1] [2]"},
      {R"({{ [{"r":"a"},{"r":"b"}]|selectattr("r","equalto","a")|list }}{{ [{"r":"a"},{}]|selectattr("r")|list }}{{ [{"r":"a"},{}]|rejectattr("r","defined")|list }})",
       "[{'r': 'a'}][{'r': 'a'}][{}]"},
      {R"({{ [3,1]|min }}{{ [3,1]|max }}{{ []|max }}{{ ["b","A"]|min }})", "13A"},
      {R"({{ [1,2,3]|sum }} {{ [{"a":1}]|sum(attribute="a") }})", "6 1"},
      {"{{ [1,2,3,4,5]|batch(2)|list }} {{ [1,2,3,4,5]|slice(2)|list }}", "[[1, 2], [3, 4], [5]] [[1, 2, 3], [4, 5]]"},
      {R"({{ [1,2,3]|batch(2,"x")|list }}{{ [1,2,3]|slice(2,"x")|list }})", "[[1, 2], [3, 'x']][[1, 2], [3, 'x']]"},
      {R"({{ [1,2]|reverse|list }} {{ "abc"|reverse }})", "[2, 1] cba"},
      {R"({{ {"a":1}.get("b") }}{{ {"a":1}.get("b",2) }}{{ {"a":1}.keys()|list }}{{ {"a":1}.values()|list }}{{ {"a":1}|items|list }}{{ {"a":1}.copy() }})",
       "None2['a'][1][('a', 1)]{'a': 1}"},
      {"{{ range(1,10,3)|list }}{{ range(5,0,-2)|list }}{{ range(3)[1] }}{{ range(3)|length }}",
       "[1, 4, 7][5, 3, 1]13"},
      {R"({{ "abc"|length }})", "3"},
      Fails("{{ 5|length }}"),
      {"{{ [1,2]|first is odd }}{{ 1 is odd == true }}", "TrueTrue"},
      {R"({{ [{"a":2,"b":1},{"a":1,"b":2}]|sort(attribute="a") }}{{ [{"a":2},{"a":1}]|groupby("a") }}{{ ["B","a"]|sort(case_sensitive=true) }}{{ [1,3,2]|sort(reverse=true) }})",
       "[{'a': 1, 'b': 2}, {'a': 2, 'b': 1}][(1, [{'a': 1}]), (2, [{'a': 2}])]['B', 'a'][3, 2, 1]"},
      {R"({{ {"B":1,"a":0}|dictsort(true) }}{{ {"B":1,"a":0}|dictsort(by="value") }}{{ {"B":1,"a":0}|dictsort(reverse=true) }})",
       "[('B', 1), ('a', 0)][('a', 0), ('B', 1)][('B', 1), ('a', 0)]"},
      {R"({{ [1,2]|select is iterable }}{{ [1]|map("string") is sequence }}{{ [1]|map("string") is string }})",
       "TrueFalseFalse"},
      Fails(R"({{ [1]|map("string")|length }})"),
      {R"({{ ([1]|map("string"))[0] }})", ""},
      {R"({{ ["a","b"]|map("upper")|join(",") }}{{ ["a"]|map("replace","a","z")|list }})", "A,B['z']"},
      {R"({{ {"a":1}|map("upper")|list }}{{ "ab"|map("upper")|list }})", "['A']['A', 'B']"},
      {R"({{ [none, 1]|select("none")|list }}{{ [1,"a"]|select("string")|list }})", "[None]['a']"},
      {"{{ [[1,2],[3]]|sum(start=[]) }}", "[1, 2, 3]"},
      {R"({{ [1,2,3]|last }}{{ "abc"|last }}{{ {"a":1,"b":2}|last }}{{ {"a":1}|first }})", "3cba"},
  });
}

TEST(Filters, NumbersAndDefaults) {
  ExpectAll({
      {R"({{ 1 < 2 < 3 }} {{ -1|abs }} {{ "a" "b" }} {{ not 1 in [1] }})", "True 1 ab False"},
      {R"({{ 3.7|int }} {{ "12"|int }} {{ "x"|int(5) }} {{ "1.5"|float }} {{ 2.5|round }} {{ 2.567|round(2) }} {{ 2.1|round(0,"ceil") }} {{ 1.005|round(2) }} {{ 5|round }} {{ 15|round(-1) }} {{ 2.675|round(2) }} {{ "1_000"|int }} {{ " 42 "|int }} {{ "42.9"|int }} {{ "0x1f"|int(0,16) }} {{ none|int }})",
       "3 12 5 1.5 2.0 2.57 3.0 1.0 5 20 2.67 1000 42 42 31 0"},
      Fails(R"({{ "a"|foo }})"),
      {R"({{ "x"|default("d") }}{{ u|default("d") }}{{ ""|default("d",true) }}{{ none|default("d") }}{{ u|d }})",
       "xddNone"},
      {R"({{ "añbçd"[1:4] }}{{ "añbçd"[::2] }}{{ "añbçd"[-2:] }}{{ "añbçd"[:-2] }}{{ "abc"[2:1] }}|)", "ñbçabdçdañb|"},
      {R"({{ ""|default("x") }}{{ false|default("x", true) }}{{ none|default("x", boolean=true) }})", "xx"},
      Fails(R"({{ missing.attr|default("x") }})"),
      {R"({{ {}.attr|default("x") }})", "x"},
  });
}

TEST(Tests, TestsAnswerAsInJinja) {
  ExpectAll({
      {R"({{ {"a":1}["items"] is defined }})", "True"},
      {"{{ undefinedx is sequence }}{{ undefinedx is iterable }}{{undefinedx == undefinedy}}{{ undefinedx == none }}",
       "TrueTrueTrueFalse"},
      {"{{ 1 if false }}|{{ (1 if false) is defined }}", "|False"},
      {"{{ [].append is defined }}", "False"},
      {R"({{ "abc" is in "xabcx" }})", "True"},
      {"{{ 1 is string }}", "False"},
      Fails(R"({{ "a" is foo }})"),
      {R"({{ 3 is divisibleby 3 }}{{ 3 is divisibleby(2) }}{{ true is sameas true }}{{ 1 is eq 1 }}{{ 1 is ge(1) }}{{ "a" is lower }}{{ 1.0 is float }}{{ true is integer }}{{ true is number }}{{ 1 is boolean }}{{ [] is sequence }}{{ {} is sequence }}{{ "" is sequence }}{{ 1 is iterable }}{{ none is mapping }}{{ range is callable }})",
       "TrueFalseTrueTrueTrueTrueTrueFalseTrueFalseTrueTrueTrueFalseFalseTrue"},
      {R"({{ "a".foo is defined }})", "False"},
      {"{{ x is defined and x.y }}", "False"},
      {R"({{ "" is none }}{{ none is not none }}{{ x is not defined }})", "FalseFalseTrue"},
      {R"({{ "a" is not in "abc" }})", "False"},
      {"{{ 3 is not odd }}", "False"},
  });
}

TEST(Slices, IndicesAndSlicesCountCharacters) {
  ExpectAll({
      {R"({{ "ab"[::-1] }} {{ [1,2,3][-2:] }} {{ "x"*3 }} {{ [1]*2 }})", "ba [2, 3] xxx [1, 1]"},
      Fails(R"({{ {"a":1}["b"].c }})"),
      {R"({{ {1:2}[1] }}{{ {1:2}["1"] }})", "2"},
      {R"({{ [1,2,3][1:] }}{{ [1,2,3][::2] }}{{ [1,2,3][::-1] }}{{ "héllo"[1:3] }}{{ (1,2,3)[:2] }}{{ [1,2,3][5:] }}{{ [1,2,3][-1] }})",
       "[2, 3][1, 3][3, 2, 1]él(1, 2)[]3"},
      Fails("{{ [1,2,3][::0] }}"),
      Fails("{{ undefinedx[1:] }}"),
      {"{{ [1,2,3,4][1:-1] }}{{ [1,2,3,4][-1:0:-1] }}{{ [1,2,3,4][:-10:-1] }}{{ [1,2][10:] }}",
       "[2, 3][4, 3, 2][4, 3, 2, 1][]"},
  });
}

TEST(Methods, StringAndContainerMethods) {
  ExpectAll({
      {R"({{ {"a":1}.items() }})", "dict_items([('a', 1)])"},
      {R"({{ {"a":1}.keys() }})", "dict_keys(['a'])"},
      {"{{ range(3) }}", "range(0, 3)"},
      {R"({{ "a.b.c".split(".",1) }} {{ " a  b ".split() }})", "['a', 'b.c'] ['a', 'b']"},
      Fails(R"({{ "abc".split("") }})"),
      Fails("{{ [].append(1) }}"),
      Fails(R"({{ {}.pop("a") }})"),
      {"{{ \"1,2,,3\".split(\",\") }}{{ \"  a b \".split(none,1) }}{{ \"a b c\".rsplit(\" \",1) }}{{ "
       "\"a\\nb\\r\\nc\\n\".splitlines() }}{{ \"abc\".partition(\"b\") }}{{\"aXbX\".rpartition(\"X\")}}{{ \" a b  c "
       "\".rsplit(none,1) }}{{ \"a\nb\".splitlines(true) }}{{ \"\".split(\",\") }}{{ \"\".split() }}",
       R"(['1', '2', '', '3']['a', 'b ']['a b', 'c']['a', 'b', 'c']('a', 'b', 'c')('aXb', 'X', '')[' a b', 'c']['a\n', 'b'][''][])"},
      {R"({{ "xxabcxx".strip("x") }}{{ "abc".replace("b","") }}{{ "aaa".replace("a","b",2) }}{{ "abc".replace("","-") }}{{ "abc".replace("","-",2) }})",
       "abcacbba-a-b-c--a-bc"},
      {R"({{ "abc".find("c") }}{{ "abc".find("z") }}{{ "abcabc".rfind("b") }}{{ "abc".index("b") }}{{ "aXa".count("a") }}{{ "éaé".find("é",1) }}{{ "aaaa".count("aa") }}{{ "abc".count("") }})",
       "2-1412224"},
      {R"({{ "abc".startswith(("x","a")) }}{{ "abc".endswith("bc") }}{{ "abc".startswith("b",1) }})", "TrueTrueTrue"},
      {R"({{ "a,b".join(["x","y"]) }})", "xa,by"},
      Fails(R"({{ ",".join([1]) }})"),
      {R"({{ "abc".isdigit() }}{{ "12".isdigit() }}{{ "ab".isalpha() }}{{ "aB".isupper() }}{{ " ".isspace() }}{{ "a1".isalnum() }})",
       "FalseTrueTrueFalseTrueTrue"},
      {"{{ [1,2,1].count(1) }}{{ [1,2].index(2) }}", "21"},
      Fails("{{ loop.index }}"),
      {R"({{ "ÀÉß".lower() }}{{ "àéÿ".upper() }}{{ "ДАд".lower() }}{{ "Σσς".upper() }}{{ "ŁłŃń".swapcase() }})",
       "àéßÀÉŸдадΣΣΣłŁńŃ"},
  });
}

TEST(Expressions, UndefinedValuesFailOnlyWhenUsed) {
  ExpectAll({
      Fails("{{ undefinedx.foo }}"),
      {R"({{ true + 1 }} {{ true }} {{ none }} {{ [true,none,"a'b"] }})", R"(2 True None [True, None, "a'b"])"},
      {"{{ namespace.x }}", ""},
      Fails(R"({{ "abc".foo }}{{ "abc".foo() }})"),
      Fails("{{ none + 1 }}"),
      Fails(R"({{ undefinedx + "a" }})"),
      Fails(R"({{ "a" + undefinedx }})"),
      {R"({{ "a" ~ undefinedx ~ none ~ 1.5 }})", "aNone1.5"},
      {"{{ none.foo }}", ""},
      {R"({{ none["foo"] }})", ""},
      Fails("{{ none.foo.bar }}"),
      {"{{ [1,2].x }}", ""},
      Fails("{{ [1][5].y }}"),
      Fails("{{ (1).x.y }}"),
      Fails(R"({{ "abc"[5].x }})"),
      Fails("{{ 1 in none }}"),
      {R"({{ [1,[2,"x"],{"a":none}] }})", "[1, [2, 'x'], {'a': None}]"},
  });
}

TEST(Expressions, OperatorsPrecedenceAndPythonTexts) {
  ExpectAll({
      {"{{ (1,) }}{{ (1,2) }}", "(1,)(1, 2)"},
      {"{{ dict(a=1) }}", "{'a': 1}"},
      {"{{ 7//2 }} {{ 7/2 }} {{ -7//2 }} {{ -7%3 }} {{ 2**10 }} {{ 2**-1 }} {{ 1e20 }} {{ 1.0 }} {{ 1e-5 }} {{ "
       "123456789012345678.0 }}",
       "3 3.5 -4 2 1024 0.5 1e+20 1.0 1e-05 1.2345678901234568e+17"},
      {"{{ loop }}", ""},
      Fails(R"({{ [1,[2]] in [[1,[2]]] }} {{ "a" in {"a":1} }} {{ 1 == 1.0 == true }} {{ [1]<[2] }} {{ "a" < 1 }})"),
      Fails("{{ x() }}"),
      Fails(R"({{ "a" + 1 }})"),
      Fails(R"({{ 1 + "a" }})"),
      Fails(R"({{ [1] + "a" }})"),
      Fails("{{ {} + {} }}"),
      Fails(R"({{ "a" * "b" }})"),
      Fails(R"({{ -"a" }})"),
      Fails("{{ 1/0 }}"),
      Fails("{{ 1 % 0 }}"),
      Fails("{{ {}.a.b }}"),
      {"{{ [1,2][5] }}", ""},
      Fails(R"({{ [1]["a"].c }})"),
      {"{{ {}[[]] }}", ""},
      Fails("{{ {[]:1} }}"),
      Fails(R"({{ 1 in "abc" }})"),
      {"{{ foo() if false }}", ""},
      {"{{ \"é\\n\\t\\x01\342\200\213\302\255\" }}", "é\n\t\001\342\200\213\302\255"},
      {"{{ [\"é\\n\\t\\x01\342\200\213\302\255😀\\\\\"] }}", R"(['é\n\t\x01\u200b\xad😀\\'])"},
      {"{{ 1e16 }} {{ 1e15 }} {{ 0.1+0.2 }} {{ 1e-4 }} {{ 1e22 }} {{ 5e-324 }} {{ -0.0 }} {{ 100.0 }} {{ 1e400 }}",
       "1e+16 1000000000000000.0 0.30000000000000004 0.0001 1e+22 5e-324 -0.0 100.0 inf"},
      {R"({{ strftime_now("%d %b %Y %-d %H:%M:%S %A %j") }})", "26 Jul 2024 26 12:34:56 Friday 208"},
      Fails(R"({{ raise_exception("boom") }})"),
      Fails("{{ raise_exception(5) }}"),
      {R"({{ dict([("a",1)], b=2) }})", "{'a': 1, 'b': 2}"},
      {"{{ 1, 2 }}", "(1, 2)"},
      {"{{ () }}", "()"},
      {"{{ [1,2,] }}", "[1, 2]"},
      {"{{ 0x1F }} {{ 1_000 }} {{ 0b11 }} {{ 0o17 }} {{ 1.5e3 }}", "31 1000 3 15 1500.0"},
      {R"({{ "\x41\u00e9\101\q" }})", R"(AéA\q)"},
      {R"({{ 'it\'s' }})", "it's"},
      {R"({{ true and "a" or "b" }}{{ 0 or "z" }}{{ not "" }})", "azTrue"},
      Fails("{{ x"),
      Fails(R"({{ "a }})"),
      Fails("{{ 1 + }}"),
      Fails("{{ x y }}"),
      {R"({{ "a" == "a" != "b" }}{{ 1 != 1 }}{{ "b" >= "a" }}{{ 2 > 1.5 }})", "TrueFalseTrueTrue"},
      {R"({{ [1,2] == (1,2) }}{{ {"a":1,"b":2} == {"b":2,"a":1} }})", "FalseTrue"},
      {R"({{ "x" in ["x"] and not "y" in ["x"] }})", "True"},
      {"{{ 1 if 0 else 2 if 0 else 3 }}", "3"},
      Fails("{{ - 3 + 5 }}{{ 2 - -1 }}{{ 2 * 3 + 4 }}{{ (2 + 3) * 4 }}{{ 2 ~ 3 + 4 }}"),
      Fails("{{ 1 + 2 ~ 3 }}"),
      {"{{ 2 ** 3 ** 2 }}{{ -2 ** 2 }}", "644"},
      Fails(R"({{ "a" ~ 1 + 2 }})"),
      Fails("{{ a.0 }}{{ [5,6].1 }}"),
      {R"({{ {"a":1,}.a }})", "1"},
      {"{{ not true == false }}", "True"},
      {R"({{ "abc"[1] }}{{ "añb"[1] }}{{ "añb"[-1] }}{{ "abc"[-4] }})", "bñb"},
  });
}

}  // namespace
}  // namespace kvasir::chat
