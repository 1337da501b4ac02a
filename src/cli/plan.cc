// The memory that a model, a window and a number of agents need: arithmetic over the metadata, nothing is loaded.
#include <fmt/ostream.h>

#include <algorithm>
#include <map>

#include "backend/page_format.h"
#include "base/system_memory.h"
#include "cli/commands.h"
#include "cli/flag_table.h"
#include "cli/json.h"
#include "cli/machine.h"
#include "cli/model_path.h"
#include "gguf/gguf_file.h"
#include "model/config.h"

namespace kvasir::cli {
namespace {

struct Options {
  std::string model;
  std::vector<int64_t> windows;  // empty: a few up to the trained length
  std::vector<std::string> types_k = {"f16", "q8_0"};
  std::vector<std::string> types_v;  // empty: as types_k
  int64_t agents = 1;
  int64_t shared = 0;
  bool json = false;
};

struct TypePair {
  backend::KvType k = backend::KvType::kF16;
  backend::KvType v = backend::KvType::kF16;
};

struct Row {
  int64_t window = 0;
  TypePair types;
  std::optional<std::string> unsupported;
  size_t token_bytes = 0;
  size_t kv_bytes = 0;
  size_t total_bytes = 0;
  bool fits = false;
};

Result<backend::KvType> ParseType(const std::string& name) {
  if (const auto type = backend::ParseKvType(name)) return *type;
  return MakeError(ErrorCode::kInvalidArgument, "{} is no KV type; there are f32, f16, q8_0", name);
}

Result<std::vector<TypePair>> ParseTypes(const Options& options) {
  const auto& names_v = options.types_v.empty() ? options.types_k : options.types_v;
  if (names_v.size() != options.types_k.size()) {
    return MakeError(ErrorCode::kInvalidArgument, "-ctk lists {} types and -ctv {}; they go in pairs",
                     options.types_k.size(), names_v.size());
  }
  std::vector<TypePair> pairs;
  for (size_t i = 0; i < names_v.size(); ++i) {
    KVASIR_ASSIGN_OR_RETURN(const backend::KvType k, ParseType(options.types_k[i]));
    KVASIR_ASSIGN_OR_RETURN(const backend::KvType v, ParseType(names_v[i]));
    pairs.push_back({k, v});
  }
  return pairs;
}

std::vector<int64_t> DefaultWindows(int64_t trained) {
  std::vector<int64_t> windows;
  for (int64_t window = 4096; window < trained; window *= 4) windows.push_back(window);
  windows.push_back(trained);
  return windows;
}

int64_t Blocks(int64_t tokens) {
  return (tokens + backend::kBlockTokens - 1) / backend::kBlockTokens;
}

Row PlanRow(const model::ModelConfig& config, const Options& options, int64_t window, TypePair types, size_t weights,
            size_t available) {
  Row row;
  row.window = window;
  row.types = types;
  const kv::CacheShape shape = config.CacheShape(types.k, types.v);
  for (const kv::LayerShape& layer : shape.layers) {
    if (const auto problem = layer.format.Unsupported()) {
      row.unsupported = std::string(*problem);
      return row;
    }
  }
  // Whole blocks of the common prefix are held once; each agent has its own from there on.
  const int64_t shared = std::min(options.shared, window) / backend::kBlockTokens;
  const int64_t blocks = shared + options.agents * (Blocks(window) - shared);
  row.token_bytes = shape.token_bytes();
  row.kv_bytes = static_cast<size_t>(blocks) * shape.block_bytes();
  row.total_bytes = weights + row.kv_bytes;
  row.fits = row.total_bytes <= available;
  return row;
}

// "24 layers x 2 heads x (64 + 64)", one term for each kind of layer.
std::string ShapeText(const model::ModelConfig& config) {
  std::vector<std::pair<std::string, int>> kinds;
  for (const model::LayerConfig& layer : config.layers) {
    std::string kind = fmt::format("{} heads x ({} + {})", layer.kv_heads, layer.dk, layer.dv);
    const auto found = std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) { return k.first == kind; });
    if (found == kinds.end()) {
      kinds.emplace_back(std::move(kind), 1);
    } else {
      ++found->second;
    }
  }
  std::string text;
  for (const auto& [kind, count] : kinds)
    text += fmt::format("{}{} layers x {}", text.empty() ? "" : ", ", count, kind);
  return text;
}

void PrintText(const model::ModelConfig& config, const Options& options, size_t weights, const Machine& machine,
               const std::vector<Row>& rows, std::ostream& out) {
  fmt::print(out, "model    {} ({}), trained for {} tokens\n", config.name, config.architecture, config.context_length);
  fmt::print(out, "weights  {}\n", FormatBytes(weights));
  fmt::print(out, "KV       {}\n", ShapeText(config));
  fmt::print(out, "memory   {}, {} available\n", FormatBytes(machine.memory_bytes),
             FormatBytes(machine.available_bytes));
  fmt::print(out, "agents   {}{}\n\n", options.agents,
             options.shared > 0 ? fmt::format(", the first {} tokens in common", options.shared) : "");
  fmt::print(out, "{:>8}  {:<11}  {:>11}  {:>10}  {:>12}  {}\n", "window", "K / V", "bytes/token", "KV", "with weights",
             "fits");
  for (const Row& row : rows) {
    const std::string types = fmt::format("{} / {}", Name(row.types.k), Name(row.types.v));
    if (row.unsupported) {
      fmt::print(out, "{:>8}  {:<11}  {}\n", row.window, types, *row.unsupported);
    } else {
      fmt::print(out, "{:>8}  {:<11}  {:>11}  {:>10}  {:>12}  {}\n", row.window, types, row.token_bytes,
                 FormatBytes(row.kv_bytes), FormatBytes(row.total_bytes), row.fits ? "yes" : "no");
    }
  }
}

void PrintJson(const model::ModelConfig& config, const Options& options, size_t weights, const Machine& machine,
               const std::vector<Row>& rows, std::ostream& out) {
  Json list = Json::array();
  for (const Row& row : rows) {
    Json item = {{"window", row.window}, {"type_k", Name(row.types.k)}, {"type_v", Name(row.types.v)}};
    if (row.unsupported) {
      item["unsupported"] = *row.unsupported;
    } else {
      item.update({{"token_bytes", row.token_bytes},
                   {"kv_bytes", row.kv_bytes},
                   {"total_bytes", row.total_bytes},
                   {"fits", row.fits}});
    }
    list.push_back(std::move(item));
  }
  const Json report = {{"model", config.name},
                       {"architecture", config.architecture},
                       {"context_length", config.context_length},
                       {"layers", config.layers.size()},
                       {"weights_bytes", weights},
                       {"memory_bytes", machine.memory_bytes},
                       {"available_bytes", machine.available_bytes},
                       {"agents", options.agents},
                       {"shared_tokens", options.shared},
                       {"rows", std::move(list)}};
  fmt::print(out, "{}\n", ToText(report));
}

Status Plan(const Options& options, Streams streams) {
  KVASIR_ASSIGN_OR_RETURN(const std::vector<TypePair> types, ParseTypes(options));
  KVASIR_ASSIGN_OR_RETURN(const std::string path, FindModel(options.model, ProcessEnvironment()));
  KVASIR_ASSIGN_OR_RETURN(const gguf::GgufFile file, gguf::GgufFile::Open(path));
  KVASIR_ASSIGN_OR_RETURN(const model::ModelConfig config, model::ReadConfig(file, 0));
  size_t weights = 0;
  for (const gguf::TensorInfo& tensor : file.tensors()) weights += tensor.bytes.size();

  const Machine machine = ReadMachine();
  std::vector<Row> rows;
  for (const int64_t window : options.windows.empty() ? DefaultWindows(config.context_length) : options.windows) {
    for (const TypePair& pair : types) {
      rows.push_back(PlanRow(config, options, window == 0 ? config.context_length : window, pair, weights,
                             machine.available_bytes));
    }
  }
  if (options.json) {
    PrintJson(config, options, weights, machine, rows, streams.out);
  } else {
    PrintText(config, options, weights, machine, rows, streams.out);
  }
  return {};
}

}  // namespace

int RunPlan(const Args& args, Streams streams) {
  Options options;
  Flags flags("plan", "The memory that a model, a window and agents need; nothing is loaded.");
  flags.Add(kModelFlag, &options.model);
  flags.Require();
  flags.Add(Flag{"-c --ctx-size", "N,...", "windows, 0: as trained; several up to that when left out",
                 "LLAMA_ARG_CTX_SIZE KVASIR_CTX_SIZE"},
            &options.windows);
  flags.Add(Flag{"-ctk --cache-type-k", "TYPE,...", "types of the keys", kTypeKFlag.environment}, &options.types_k);
  flags.Add(
      Flag{"-ctv --cache-type-v", "TYPE,...", "types of the values, in pairs with the keys'", kTypeVFlag.environment},
      &options.types_v);
  flags.Add(kParallelFlag, &options.agents, 1, 1'000'000);
  flags.Add(Flag{"--shared", "N", "tokens at the start that all agents have in common"}, &options.shared, 0,
            int64_t{1} << 40);
  flags.Add(kJsonFlag, &options.json);
  if (const auto exit = flags.Read(args, streams)) return *exit;
  return ExitCode("plan", Plan(options, streams), streams);
}

}  // namespace kvasir::cli
