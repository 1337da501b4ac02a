// Progress line, interrupt flag, base64, model lookup and machine facts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/base64.h"
#include "cli/interrupt.h"
#include "cli/machine.h"
#include "cli/model_path.h"
#include "cli/progress.h"

namespace kvasir::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A folder of its own that goes with the test.
class Folder {
 public:
  Folder() : path_(fs::path(::testing::TempDir()) / ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  void Write(const fs::path& name, const std::string& text) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
  }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

TEST(ProgressBar, ShowsNothingInTheFirstSecondOrWithoutATerminal) {
  std::chrono::steady_clock::time_point now{};
  const auto clock = [&] { return now; };
  std::ostringstream quick;
  {
    ProgressBar bar(quick, true, "loading", clock);
    for (int i = 0; i < 9; ++i) {
      now += std::chrono::milliseconds(100);
      bar.Update(i * 0.1);
    }
  }
  EXPECT_THAT(quick.str(), IsEmpty());
  std::ostringstream piped;
  {
    ProgressBar bar(piped, false, "loading", clock);
    now += std::chrono::seconds(60);
    bar.Update(0.5);
  }
  EXPECT_THAT(piped.str(), IsEmpty());
}

TEST(ProgressBar, ShowsTheFractionAndErasesItself) {
  std::chrono::steady_clock::time_point now{};
  std::ostringstream out;
  {
    ProgressBar bar(out, true, "loading", [&] { return now; });
    now += std::chrono::milliseconds(1500);
    bar.Update(0.5);
    EXPECT_THAT(out.str(), HasSubstr(" 50 %  1.5 s"));
    const size_t drawn = out.str().size();
    bar.Update(0.6);
    EXPECT_EQ(out.str().size(), drawn) << "drew twice within a tenth of a second";
    now += std::chrono::milliseconds(200);
    bar.Update(7);
    EXPECT_THAT(out.str(), HasSubstr("100 %"));
  }
  EXPECT_EQ(out.str().substr(out.str().size() - 4), "\r\033[K");
}

TEST(Interrupt, FirstSignalSetsTheFlagAndLeavesTheProcessAlone) {
  {
    const Interrupt interrupt;
    EXPECT_FALSE(Interrupt::requested());
    std::raise(SIGINT);
    EXPECT_TRUE(Interrupt::requested());
  }
  const Interrupt again;
  EXPECT_FALSE(Interrupt::requested());
}

TEST(Base64, MatchesTheVectorsOfRfc4648) {
  const std::pair<const char*, const char*> cases[] = {{"", ""},
                                                       {"f", "Zg=="},
                                                       {"fo", "Zm8="},
                                                       {"foo", "Zm9v"},
                                                       {"foob", "Zm9vYg=="},
                                                       {"fooba", "Zm9vYmE="},
                                                       {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : cases) EXPECT_EQ(ToBase64(bytes), text);
  EXPECT_EQ(ToBase64("\xff\xfe\xfd"), "//79");
}

TEST(FindModel, TakesPathsAsTheyAreAndNamesFromTheModelsFolder) {
  const Folder folder;
  folder.Write("smollm2-135m.gguf", "x");
  folder.Write("qwen-1.gguf", "x");
  folder.Write("qwen-2.gguf", "x");
  folder.Write("notes.txt", "x");
  const Environment environment = [&](std::string_view name) -> std::optional<std::string> {
    return name == "KVASIR_MODELS" ? std::optional<std::string>(folder.path()) : std::nullopt;
  };
  const auto find = [&](const std::string& given) { return FindModel(given, environment); };
  EXPECT_EQ(find("/no/such/file.gguf").value(), "/no/such/file.gguf");
  EXPECT_EQ(find("smollm2").value(), folder.path() + "/smollm2-135m.gguf");
  EXPECT_EQ(find("qwen-2.gguf").value(), folder.path() + "/qwen-2.gguf");

  EXPECT_EQ(find("notes").error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(find("llama").error().message(), HasSubstr(folder.path()));
  EXPECT_THAT(find("qwen").error().message(), HasSubstr("qwen-1.gguf"));
}

TEST(Machine, ReadsWhatLinuxWrites) {
  const Folder root;
  root.Write("proc/cpuinfo",
             "processor\t: 0\nmodel name\t: Example CPU\nflags\t\t: fpu avx2 fma avx512_vnni\n\nprocessor\t: 1\nmodel "
             "name\t: Other\n");
  root.Write("proc/meminfo", "HugePages_Free:        3\nHugepagesize:       2048 kB\n");
  root.Write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  root.Write("sys/devices/system/cpu/cpu0/cache/index3/size", "32768K\n");
  root.Write("sys/devices/system/node/node0/cpulist", "0\n");
  root.Write("sys/devices/system/node/node1/cpulist", "1\n");
  const Machine machine = ReadMachine(root.path());
  EXPECT_EQ(machine.cpu, "Example CPU");
  EXPECT_THAT(machine.features, ::testing::ElementsAre("avx2", "fma", "avx512_vnni"));
  EXPECT_EQ(machine.huge_page_bytes, 3u * 2048 * 1024);
  EXPECT_EQ(machine.transparent_huge_pages, "madvise");
  EXPECT_EQ(machine.l3_bytes, 32768u * 1024);
  EXPECT_EQ(machine.numa_nodes, 2);
}

TEST(Machine, UnreadableFactsAreEmpty) {
  const Machine machine = ReadMachine("/nonexistent");
  EXPECT_EQ(machine.cpu, "");
  EXPECT_GE(machine.logical_cores, 1);
}

}  // namespace
}  // namespace kvasir::cli
