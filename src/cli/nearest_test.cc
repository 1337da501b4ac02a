#include "cli/nearest.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvasir::cli {
namespace {

TEST(EditDistance, CountsEditsAndSwaps) {
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("model", "model"), 0);
  EXPECT_EQ(EditDistance("modle", "model"), 1);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
}

TEST(DidYouMean, SuggestsTheNearestOfWhatIsNear) {
  const std::vector<std::string_view> flags = {"--model", "--threads", "--top-k", "--top-p"};
  EXPECT_EQ(DidYouMean("--modle", flags), "; did you mean --model?");
  EXPECT_EQ(DidYouMean("--thread", flags), "; did you mean --threads?");
  EXPECT_EQ(DidYouMean("--frobnicate", flags), "");
  EXPECT_EQ(DidYouMean(std::string(1 << 20, 'x'), flags), "");
  EXPECT_EQ(DidYouMean("-x", {}), "");
}

}  // namespace
}  // namespace kvasir::cli
