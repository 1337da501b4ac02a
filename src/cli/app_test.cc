#include "cli/app.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "cli/commands.h"

namespace kvasir::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

struct Ran {
  int code = -1;
  std::string out;
  std::string err;
};

Ran Execute(const std::vector<std::string>& args, const std::string& input = "") {
  std::istringstream in(input);
  std::ostringstream out;
  std::ostringstream err;
  Ran ran;
  ran.code = Main(args, {in, out, err});
  ran.out = out.str();
  ran.err = err.str();
  return ran;
}

TEST(Program, HelpListsEveryCommandAndEveryCommandHasHelp) {
  const Ran all = Execute({"--help"});
  EXPECT_EQ(all.code, kExitOk);
  for (const Command& command : Commands()) {
    const std::string name(command.name);
    EXPECT_THAT(all.out, HasSubstr(name));
    for (const auto& args : {std::vector<std::string>{name, "--help"}, {"help", name}, {name, "-h"}}) {
      const Ran one = Execute(args);
      EXPECT_EQ(one.code, kExitOk) << name;
      EXPECT_THAT(one.out, StartsWith("usage: kvasir " + name));
      EXPECT_THAT(one.err, IsEmpty());
    }
  }
}

TEST(Program, VersionNamesCompilerAndInstructionSets) {
  const Ran ran = Execute({"--version"});
  EXPECT_EQ(ran.code, kExitOk);
  EXPECT_THAT(ran.out, AllOf(StartsWith("kvasir "), HasSubstr("ref")));
  EXPECT_TRUE(ran.out.find("clang") != std::string::npos || ran.out.find("g++") != std::string::npos) << ran.out;
}

TEST(Program, WrongUsageIsExitCodeTwoWithNothingOnStandardOutput) {
  const struct {
    std::vector<std::string> args;
    const char* said;
  } cases[] = {
      {{}, "usage"},
      {{"inspekt"}, "did you mean inspect?"},
      {{"frobnicate"}, "no command frobnicate"},
      {{"help", "frobnicate"}, "no command"},
      {{"inspect", "--jsom", "-m", "x"}, "did you mean --json?"},
      {{"tokenize", "-m", "x", "--plain"}, "--decode"},
  };
  for (const auto& c : cases) {
    const Ran ran = Execute(c.args);
    EXPECT_EQ(ran.code, kExitUsage) << c.said;
    EXPECT_THAT(ran.out, IsEmpty());
    EXPECT_THAT(ran.err, HasSubstr(c.said));
  }
}

TEST(Program, FailureIsExitCodeOneWithASentence) {
  for (const char* command : {"inspect", "tokenize", "plan"}) {
    const Ran ran = Execute({command, "-m", "/nonexistent/model.gguf"});
    EXPECT_EQ(ran.code, kExitFailed) << command;
    EXPECT_THAT(ran.out, IsEmpty());
    EXPECT_THAT(ran.err, AllOf(HasSubstr(command), HasSubstr("/nonexistent/model.gguf")));
  }
}

TEST(Program, OutputThatCannotBeWrittenIsAFailure) {
  std::istringstream in;
  std::ostringstream out;
  std::ostringstream err;
  out.setstate(std::ios::badbit);
  EXPECT_EQ(Main({"--version"}, {in, out, err}), kExitFailed);
  EXPECT_THAT(err.str(), Not(IsEmpty()));
}

}  // namespace
}  // namespace kvasir::cli
