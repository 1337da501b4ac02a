#include "cli/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace kvasir::cli {

int EditDistance(std::string_view a, std::string_view b) {
  // rows[i][j]: distance of the first i characters of a and the first j of b.
  std::vector<std::vector<int>> rows(a.size() + 1, std::vector<int>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) rows[i][0] = static_cast<int>(i);
  for (size_t j = 0; j <= b.size(); ++j) rows[0][j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const int substituted = rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      rows[i][j] = std::min({substituted, rows[i - 1][j] + 1, rows[i][j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
      }
    }
  }
  return rows[a.size()][b.size()];
}

std::string DidYouMean(std::string_view given, std::span<const std::string_view> known) {
  // A command line can be megabytes; no name is.
  if (given.size() > 64) return {};
  std::string_view nearest;
  int best = std::max(1, static_cast<int>(given.size()) / 3) + 1;
  for (const std::string_view name : known) {
    const int distance = EditDistance(given, name);
    if (distance < best) {
      best = distance;
      nearest = name;
    }
  }
  return nearest.empty() ? std::string() : fmt::format("; did you mean {}?", nearest);
}

}  // namespace kvasir::cli
