// inspect and plan over a small file of known numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "cli/app.h"
#include "cli/json.h"
#include "gguf/gguf_writer.h"

namespace kvasir::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class GgufCommands : public ::testing::Test {
 protected:
  // A llama of 2 layers with 2 KV heads of 32 + 32 values; 8256 bytes of weights.
  void SetUp() override {
    path_ = std::filesystem::path(::testing::TempDir()) / "gguf_commands_test.gguf";
    gguf::GgufWriter writer;
    writer.AddString("general.architecture", "llama");
    writer.AddString("general.name", "tiny");
    writer.AddUint32("llama.context_length", 16384);
    writer.AddUint32("llama.embedding_length", 128);
    writer.AddUint32("llama.block_count", 2);
    writer.AddUint32("llama.feed_forward_length", 256);
    writer.AddUint32("llama.attention.head_count", 4);
    writer.AddUint32("llama.attention.head_count_kv", 2);
    writer.AddFloat32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    writer.AddUint32("llama.vocab_size", 16);
    writer.AddUint64("test.large", ~uint64_t{0});
    writer.AddInts("test.numbers", std::vector<int32_t>{1, -2, 3, 4});
    writer.AddTensor("token_embd.weight", TensorType::kF32, std::vector<int64_t>{128, 16},
                     std::vector<std::byte>(8192));
    writer.AddTensor("output_norm.weight", TensorType::kF32, std::vector<int64_t>{8, 2}, std::vector<std::byte>(64));
    ASSERT_TRUE(writer.Write(path_).ok());
  }
  void TearDown() override { std::filesystem::remove(path_); }

  // What the command wrote to standard output. Fails unless it ended well.
  std::string Output(std::vector<std::string> args) {
    args.insert(args.begin() + 1, {"-m", path_});
    std::istringstream in;
    std::ostringstream out;
    std::ostringstream err;
    EXPECT_EQ(Main(args, {in, out, err}), kExitOk) << err.str();
    return out.str();
  }

  std::string path_;
};

TEST_F(GgufCommands, InspectShowsMetadataAndTensors) {
  EXPECT_THAT(Output({"inspect"}), AllOf(HasSubstr("llama.block_count"), HasSubstr("output_norm.weight"),
                                         HasSubstr("8 x 2"), HasSubstr("GGUF v3"), HasSubstr("18446744073709551615")));
}

TEST_F(GgufCommands, InspectAsJsonHasTypedValuesAndCutsArrays) {
  const Json report = ParseJson(Output({"inspect", "--json", "--elements", "2"})).value();
  const Json& metadata = report["metadata"];
  EXPECT_EQ(metadata["general.name"]["value"], "tiny");
  EXPECT_EQ(metadata["llama.block_count"]["value"], 2);
  EXPECT_EQ(metadata["test.numbers"]["value"], Json({1, -2}));
  EXPECT_EQ(metadata["test.numbers"]["count"], 4);
  EXPECT_EQ(metadata["test.large"]["value"], "18446744073709551615");
  ASSERT_EQ(report["tensors"].size(), 2u);
  EXPECT_EQ(report["tensors"][1]["name"], "output_norm.weight");
  EXPECT_EQ(report["tensors"][1]["type"], "F32");
  EXPECT_EQ(report["tensors"][1]["shape"], Json({8, 2}));
  EXPECT_EQ(report["tensors"][1]["bytes"], 64);
}

TEST_F(GgufCommands, PlanIsTheArithmeticOfBlocks) {
  // A token: 2 layers x 2 heads x (32 + 32) values x 2 bytes.
  constexpr int kToken = 2 * 2 * 64 * 2;
  const Json report =
      ParseJson(Output({"plan", "--json", "-c", "0,1000", "-ctk", "f16", "-np", "3", "--shared", "100"})).value();
  EXPECT_EQ(report["weights_bytes"], 8256);
  ASSERT_EQ(report["rows"].size(), 2u);
  EXPECT_EQ(report["rows"][0]["window"], 16384);
  EXPECT_EQ(report["rows"][0]["token_bytes"], kToken);
  // 100 common tokens are 3 whole blocks; 1000 tokens are 32 blocks; the agents have 29 each of their own.
  EXPECT_EQ(report["rows"][1]["kv_bytes"], (3 + 3 * 29) * 32 * kToken);
  EXPECT_EQ(report["rows"][1]["total_bytes"], (3 + 3 * 29) * 32 * kToken + 8256);
  EXPECT_EQ(report["rows"][1]["fits"], true);
}

TEST_F(GgufCommands, PlanComparesTypesInPairs) {
  const Json rows = ParseJson(Output({"plan", "--json", "-c", "4096", "-ctk", "f16,q8_0,f32", "-ctv", "f16,q8_0,f16"}))
                        .value()["rows"];
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["type_v"], "f16");
  EXPECT_LT(rows[1]["kv_bytes"], rows[0]["kv_bytes"]);
  EXPECT_GT(rows[2]["kv_bytes"], rows[0]["kv_bytes"]);
}

}  // namespace
}  // namespace kvasir::cli
