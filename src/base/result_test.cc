#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace kvasir {
namespace {

Result<int> Half(int n) {
  if (n % 2 != 0) return MakeError(ErrorCode::kInvalidArgument, "{} is odd", n);
  return n / 2;
}

Result<int> Quarter(int n) {
  KVASIR_ASSIGN_OR_RETURN(const int half, Half(n));
  return Half(half);
}

Status CheckQuarter(int n) {
  KVASIR_RETURN_IF_ERROR(Quarter(n));
  return {};
}

TEST(Result, CarriesAValueOrASentence) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_FALSE(Quarter(6).ok());
  EXPECT_EQ(Quarter(6).error().message(), "3 is odd");
  EXPECT_TRUE(CheckQuarter(4).ok());
  EXPECT_EQ(CheckQuarter(5).error().code(), ErrorCode::kInvalidArgument);
}

TEST(Result, HoldsMoveOnlyValues) {
  Result<std::unique_ptr<int>> made = std::make_unique<int>(7);
  std::unique_ptr<int> taken = std::move(made).value();
  EXPECT_EQ(*taken, 7);
}

Result<std::vector<int>> Digits() {
  return std::vector<int>{1, 2, 3};
}

TEST(Result, WhatATemporaryHeldOutlivesIt) {
  int sum = 0;
  for (const int digit : *Digits()) sum += digit;
  EXPECT_EQ(sum, 6);
}

TEST(ResultDeathTest, ValueOfAnErrorIsABug) {
  EXPECT_DEATH(static_cast<void>(Half(3).value()), "3 is odd");
}

}  // namespace
}  // namespace kvasir
