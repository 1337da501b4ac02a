// What every backend promises of KV pages and attention, on each level that this CPU has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backend/contract_machine.h"

namespace kvasir::backend::contract {
namespace {

class AttentionContract : public testing::TestWithParam<Kind> {};

TEST_P(AttentionContract, AttentionOverPagesIsSoftmaxAttention) {
  Machine machine(GetParam());
  for (const AttentionCase& c : {AttentionCase{}, AttentionCase{.window = 40}, AttentionCase{.softcap = 2}}) {
    const AttentionInput input(c);
    const std::vector<float> got = RunAttention(machine, c);
    const int dk = c.format.dk, dv = c.format.dv;
    const auto head_vector = [&](const std::vector<float>& x, int t, int heads, int head) {
      std::vector<double> y(x.begin() + (t * heads + head) * dk, x.begin() + (t * heads + head + 1) * dk);
      y = Normed(y, input.norm, double{1e-5f});
      for (int i = 0; i < dk / 2; ++i) {
        const double cos = input.cos_sin[static_cast<size_t>(t * dk + 2 * i)],
                     sin = input.cos_sin[static_cast<size_t>(t * dk + 2 * i + 1)];
        double &a = y[static_cast<size_t>(i)], &b = y[static_cast<size_t>(i + dk / 2)];
        const double old = a;
        a = old * cos - b * sin;
        b = old * sin + b * cos;
      }
      return y;
    };
    std::vector<std::vector<double>> keys;  // [tokens, kv_heads]
    for (int p = 0; p < c.tokens; ++p) {
      for (int unit = 0; unit < c.kv_heads; ++unit) keys.push_back(head_vector(input.k, p, c.kv_heads, unit));
    }
    for (const int t : {0, 1, 31, 32, 255, 256, 299}) {
      for (int head = 0; head < c.q_heads; head += 2) {
        const std::vector<double> q = head_vector(input.q, t, c.q_heads, head);
        const int unit = head / (c.q_heads / c.kv_heads);
        std::vector<double> o(static_cast<size_t>(dv));
        double total = 0;
        for (int p = c.window > 0 ? std::max(0, t - c.window + 1) : 0; p <= t; ++p) {
          const std::vector<double>& k = keys[static_cast<size_t>(p * c.kv_heads + unit)];
          double s = 0;
          for (size_t d = 0; d < k.size(); ++d) s += q[d] * k[d];
          s /= std::sqrt(static_cast<double>(dk));
          if (c.softcap > 0) s = double{c.softcap} * std::tanh(s / double{c.softcap});
          total += std::exp(s);
          for (size_t i = 0; i < o.size(); ++i)
            o[i] += std::exp(s) * double{input.v[static_cast<size_t>((p * c.kv_heads + unit) * dv) + i]};
        }
        for (size_t i = 0; i < o.size(); ++i) {
          ASSERT_NEAR(got[static_cast<size_t>((t * c.q_heads + head) * dv) + i], o[i] / total, 2e-4)
              << "token " << t << " head " << head;
        }
      }
    }
  }
}

TEST_P(AttentionContract, AttentionBitsDoNotDependOnChunks) {
  for (AttentionCase c : FormatCases()) {
    Machine machine(GetParam());
    const std::vector<float> whole = RunAttention(machine, c);
    c.chunks = {1, 1, 30, 7, 217, 1, 13};
    const std::vector<float> pieces = RunAttention(machine, c);
    EXPECT_EQ(std::memcmp(whole.data(), pieces.data(), whole.size() * sizeof(float)), 0)
        << Name(c.format.k) << "/" << Name(c.format.v);
  }
}

TEST_P(AttentionContract, ClearPageRowsForgetsRowsFromThereOn) {
  Machine machine(GetParam());
  const PageFormat format{.k = KvType::kF16, .v = KvType::kQ8_0, .dk = 32, .dv = 32};
  const std::vector<uint8_t> ones(format.page_bytes(), 1);
  auto* page = reinterpret_cast<std::byte*>(machine.Upload(ones));
  machine->ClearPageRows(page, format, 32);
  EXPECT_EQ(machine.Download(reinterpret_cast<const uint8_t*>(page), ones.size()), ones);
  machine->ClearPageRows(page, format, 17);
  const std::vector<uint8_t> part = machine.Download(reinterpret_cast<const uint8_t*>(page), ones.size());
  EXPECT_EQ(std::count(part.begin(), part.end(), 0), (32 - 17) * (32 * 2 + 32 + 2));
  machine->ClearPageRows(page, format, 0);
  const std::vector<uint8_t> none = machine.Download(reinterpret_cast<const uint8_t*>(page), ones.size());
  EXPECT_EQ(std::count(none.begin(), none.end(), 0), 32 * (32 * 2 + 32 + 2));
}

INSTANTIATE_TEST_SUITE_P(Kinds, AttentionContract, testing::ValuesIn(Kinds()),
                         [](const auto& test) { return NameOf(test.param); });

}  // namespace
}  // namespace kvasir::backend::contract
