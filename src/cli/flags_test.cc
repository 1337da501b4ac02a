#include "cli/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace kvasir::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Values {
  std::string model = "none";
  int threads = 4;
  int64_t predict = -1;
  double heat = 0.8;
  bool json = false;
  std::vector<int64_t> depths = {0};
  std::vector<std::string> types = {"f16"};
};

Flags Declare(Values& v) {
  Flags flags("try", "A command for tests.", "FILE...");
  flags.Add(Flag{"-m --model", "FILE", "the model", "FIRST_MODEL SECOND_MODEL"}, &v.model);
  flags.Add(Flag{"-t --threads", "N", "threads", "THREADS"}, &v.threads, 0, 64);
  flags.Add(Flag{"-n --predict", "N", "tokens"}, &v.predict, -1);
  flags.Add(Flag{"--temp", "X", "heat"}, &v.heat);
  flags.Add(Flag{"--json", "", "as JSON", "JSON"}, &v.json);
  flags.Add(Flag{"-d --depths", "N,...", "depths"}, &v.depths);
  flags.Add(Flag{"-ctk --cache-type-k", "TYPE,...", "types"}, &v.types);
  return flags;
}

Environment Of(std::map<std::string, std::string> variables) {
  return [variables](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(std::string(name));
    return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
  };
}

TEST(Flags, EverySpellingSetsItsVariable) {
  Values v;
  Flags flags = Declare(v);
  ASSERT_TRUE(flags
                  .Parse({"-m", "a=b.gguf", "--threads=8", "-n", "-1", "--temp", "-0.5", "--json", "-d", "0,8192",
                          "-ctk", "q8_0,f16", "operand", "--", "--json"},
                         Of({}))
                  .ok());
  EXPECT_EQ(v.model, "a=b.gguf");
  EXPECT_EQ(v.threads, 8);
  EXPECT_EQ(v.predict, -1);
  EXPECT_EQ(v.heat, -0.5);
  EXPECT_TRUE(v.json);
  EXPECT_THAT(v.depths, ElementsAre(0, 8192));
  EXPECT_THAT(v.types, ElementsAre("q8_0", "f16"));
  EXPECT_THAT(flags.operands(), ElementsAre("operand", "--json"));
}

TEST(Flags, CommandLineWinsOverEnvironmentWinsOverDefault) {
  Values v;
  Flags flags = Declare(v);
  ASSERT_TRUE(
      flags.Parse({"-t", "2", "-t", "3"}, Of({{"SECOND_MODEL", "second"}, {"THREADS", "9"}, {"JSON", "true"}})).ok());
  EXPECT_EQ(v.threads, 3);
  EXPECT_EQ(v.model, "second");
  EXPECT_TRUE(v.json);
  EXPECT_EQ(v.heat, 0.8);
  EXPECT_TRUE(flags.Given("--model"));
  EXPECT_FALSE(flags.Given("--temp"));
}

TEST(Flags, FirstVariableThatIsSetCounts) {
  Values v;
  ASSERT_TRUE(Declare(v).Parse({}, Of({{"FIRST_MODEL", "first"}, {"SECOND_MODEL", "second"}})).ok());
  EXPECT_EQ(v.model, "first");
  ASSERT_TRUE(Declare(v).Parse({}, Of({{"FIRST_MODEL", ""}, {"SECOND_MODEL", "second"}})).ok());
  EXPECT_EQ(v.model, "second");
}

TEST(Flags, WrongUsageIsASentenceThatNamesFlagAndValue) {
  const struct {
    std::vector<std::string> args;
    std::map<std::string, std::string> environment;
    const char* flag;
    const char* said;
  } cases[] = {
      {{"--jsn"}, {}, "--jsn", "did you mean --json?"},
      {{"-x"}, {}, "-x", "no flag"},
      {{"--threads"}, {}, "--threads", "needs a value"},
      {{"-t", "many"}, {}, "-t", "from 0 to 64, got 'many'"},
      {{"-t", "65"}, {}, "-t", "got '65'"},
      {{"-t", "8x"}, {}, "-t", "got '8x'"},
      {{"-t", "99999999999999999999"}, {}, "-t", "got '99999999999999999999'"},
      {{"-n", "-2"}, {}, "-n", "at least -1, got '-2'"},
      {{"--temp", "nan"}, {}, "--temp", "got 'nan'"},
      {{"--temp", ""}, {}, "--temp", "got ''"},
      {{"--json=maybe"}, {}, "--json", "true or false"},
      {{"-d", "1,,2"}, {}, "-d", "got '1,,2'"},
      {{"-d", "-1"}, {}, "-d", "at least 0"},
      {{"-ctk", "f16,"}, {}, "-ctk", "without gaps"},
      {{}, {{"THREADS", "lots"}}, "THREADS", "got 'lots'"},
  };
  for (const auto& c : cases) {
    Values v;
    const Status status = Declare(v).Parse(c.args, Of(c.environment));
    ASSERT_FALSE(status.ok()) << c.flag;
    EXPECT_EQ(status.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(status.error().message(), AllOf(HasSubstr(c.flag), HasSubstr(c.said)));
  }
}

TEST(Flags, RequiredFlagMayComeFromTheEnvironment) {
  const auto parse = [](const Environment& environment) {
    std::string model;
    Flags flags("try", "");
    flags.Add(Flag{"-m --model", "FILE", "", "MODEL"}, &model);
    flags.Require();
    return flags.Parse({}, environment);
  };
  EXPECT_TRUE(parse(Of({{"MODEL", "x"}})).ok());
  const Status status = parse(Of({}));
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message(), HasSubstr("--model FILE is missing"));
}

TEST(Flags, OperandsAreRefusedWhereNoneAreTaken) {
  Flags flags("try", "");
  const Status status = flags.Parse({"surplus"}, Of({}));
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message(), HasSubstr("surplus"));
}

TEST(Flags, HelpNamesEveryFlagWithDefaultAndEnvironment) {
  Values v;
  EXPECT_THAT(Declare(v).Help(),
              AllOf(HasSubstr("usage: kvasir try [flags] FILE..."), HasSubstr("-m, --model FILE"),
                    HasSubstr("(default: 4)"), HasSubstr("[env FIRST_MODEL, SECOND_MODEL]"), HasSubstr("--json")));
}

}  // namespace
}  // namespace kvasir::cli
