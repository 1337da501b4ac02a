#include "cli/model_path.h"

#include <algorithm>
#include <filesystem>
#include <vector>

namespace kvasir::cli {

namespace fs = std::filesystem;

Result<std::string> FindModel(const std::string& given, const Environment& environment) {
  std::error_code ignored;
  if (fs::exists(given, ignored) || given.find('/') != std::string::npos || given.empty()) return given;

  const fs::path folder =
      environment("KVASIR_MODELS").value_or(environment("HOME").value_or("") + "/.cache/kvasir/models");
  std::vector<std::string> found;
  for (fs::directory_iterator entry(folder, ignored), end; !ignored && entry != end; entry.increment(ignored)) {
    const fs::path& path = entry->path();
    if (path.extension() == ".gguf" && path.filename().string().compare(0, given.size(), given) == 0)
      found.push_back(path);
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    return MakeError(
        ErrorCode::kNotFound,
        "there is no file {} and no model of that name in {} (tools/fetch-model --list shows what it can bring)", given,
        folder.string());
  }
  std::sort(found.begin(), found.end());
  return MakeError(ErrorCode::kInvalidArgument, "{} could be any of {}", given, fmt::to_string(fmt::join(found, ", ")));
}

}  // namespace kvasir::cli
