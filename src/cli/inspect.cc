// Metadata and tensors of a GGUF file, as tables or as JSON.
#include <fmt/ostream.h>

#include <algorithm>
#include <map>

#include "base/system_memory.h"
#include "cli/commands.h"
#include "cli/flag_table.h"
#include "cli/json.h"
#include "cli/model_path.h"
#include "gguf/gguf_file.h"
#include "gguf/text.h"

namespace kvasir::cli {
namespace {

struct Options {
  std::string model;
  bool json = false;
  int64_t elements = 8;
};

bool IsInteger(gguf::ValueType type) {
  using enum gguf::ValueType;
  return type == kUint8 || type == kInt8 || type == kUint16 || type == kInt16 || type == kUint32 || type == kInt32 ||
         type == kUint64 || type == kInt64;
}

bool IsFloat(gguf::ValueType type) {
  return type == gguf::ValueType::kFloat32 || type == gguf::ValueType::kFloat64;
}

template <typename Items>
Json Front(const Items& items, size_t elements) {
  Json front = Json::array();
  for (size_t i = 0; i < std::min(items.size(), elements); ++i) front.push_back(items[i]);
  return front;
}

// The value as JSON has it; what JSON cannot hold (NaN, integers of 64 bits) as text.
Json ValueOf(const gguf::GgufFile& file, const gguf::MetadataEntry& entry, size_t elements) {
  using enum gguf::ValueType;
  if (entry.type == kString) {
    if (const auto text = file.GetString(entry.key); text.ok()) return std::string(*text);
  } else if (entry.type == kBool) {
    if (const auto flag = file.GetBoolOr(entry.key, false); flag.ok()) return *flag;
  } else if (IsInteger(entry.type)) {
    if (const auto number = file.GetInt(entry.key); number.ok()) return *number;
  } else if (IsFloat(entry.type)) {
    if (const auto number = file.GetFloat(entry.key); number.ok()) return *number;
  } else if (entry.type == kArray && entry.element_type == kString) {
    if (const auto items = file.GetStrings(entry.key); items.ok()) return Front(*items, elements);
  } else if (entry.type == kArray && IsInteger(entry.element_type)) {
    if (const auto items = file.GetInts(entry.key); items.ok()) return Front(*items, elements);
  } else if (entry.type == kArray && entry.element_type == kFloat32) {
    if (const auto items = file.GetFloats(entry.key); items.ok()) return Front(*items, elements);
  }
  return file.ToText(entry, elements);
}

Json TensorJson(const gguf::TensorInfo& tensor) {
  Json shape = Json::array();
  for (int i = 0; i < tensor.n_dims; ++i) shape.push_back(tensor.ne[i]);
  return {{"name", tensor.name}, {"type", Name(tensor.type)}, {"shape", shape}, {"bytes", tensor.bytes.size()}};
}

void PrintJson(const gguf::GgufFile& file, const Options& options, std::ostream& out) {
  const auto elements = static_cast<size_t>(options.elements);
  Json metadata = Json::object();
  for (const gguf::MetadataEntry& entry : file.metadata()) {
    Json item = {{"type", Name(entry.type)}, {"value", ValueOf(file, entry, elements)}};
    if (entry.type == gguf::ValueType::kArray) {
      item["element_type"] = Name(entry.element_type);
      item["count"] = entry.count;
    }
    metadata[std::string(entry.key)] = std::move(item);
  }
  Json tensors = Json::array();
  for (const gguf::TensorInfo& tensor : file.tensors()) tensors.push_back(TensorJson(tensor));
  const Json report = {{"path", file.path()},
                       {"version", file.version()},
                       {"bytes", file.total_bytes()},
                       {"metadata", std::move(metadata)},
                       {"tensors", std::move(tensors)}};
  fmt::print(out, "{}\n", ToText(report));
}

void PrintTables(const gguf::GgufFile& file, const Options& options, std::ostream& out) {
  fmt::print(out, "{}: GGUF v{}, {}, {} metadata entries, {} tensors\n\n", gguf::Printable(file.path(), 512),
             file.version(), FormatBytes(static_cast<size_t>(file.total_bytes())), file.metadata().size(),
             file.tensors().size());

  size_t width = 0;
  for (const gguf::MetadataEntry& entry : file.metadata()) width = std::max(width, entry.key.size());
  width = std::min<size_t>(width, 48);
  for (const gguf::MetadataEntry& entry : file.metadata()) {
    const bool array = entry.type == gguf::ValueType::kArray;
    const std::string type =
        array ? fmt::format("{}[{}]", Name(entry.element_type), entry.count) : std::string(Name(entry.type));
    fmt::print(out, "{:<{}}  {:<16}  {}\n", gguf::Printable(entry.key), width, type,
               file.ToText(entry, static_cast<size_t>(options.elements)));
  }
  fmt::print(out, "\n");

  struct Share {
    size_t bytes = 0;
    size_t tensors = 0;
  };
  std::map<std::string_view, Share> shares;
  size_t total = 0;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    fmt::print(out, "{:<{}}  {:<8}  {:>10}  {}\n", gguf::Printable(tensor.name), width, Name(tensor.type),
               FormatBytes(tensor.bytes.size()), fmt::join(tensor.ne, tensor.ne + tensor.n_dims, " x "));
    Share& share = shares[Name(tensor.type)];
    share.bytes += tensor.bytes.size();
    ++share.tensors;
    total += tensor.bytes.size();
  }
  fmt::print(out, "\n");
  for (const auto& [type, share] : shares) {
    fmt::print(out, "{:<8}  {:>5} tensors  {:>10}  {:5.1f} %\n", type, share.tensors, FormatBytes(share.bytes),
               100.0 * static_cast<double>(share.bytes) / static_cast<double>(std::max<size_t>(total, 1)));
  }
}

Status Inspect(const Options& options, Streams streams) {
  KVASIR_ASSIGN_OR_RETURN(const std::string path, FindModel(options.model, ProcessEnvironment()));
  KVASIR_ASSIGN_OR_RETURN(const gguf::GgufFile file, gguf::GgufFile::Open(path));
  if (options.json) {
    PrintJson(file, options, streams.out);
  } else {
    PrintTables(file, options, streams.out);
  }
  return {};
}

}  // namespace

int RunInspect(const Args& args, Streams streams) {
  Options options;
  Flags flags("inspect", "Metadata and tensors of a GGUF file.");
  flags.Add(kModelFlag, &options.model);
  flags.Require();
  flags.Add(kJsonFlag, &options.json);
  flags.Add(Flag{"--elements", "N", "elements of an array to show"}, &options.elements, 0);
  if (const auto exit = flags.Read(args, streams)) return *exit;
  return ExitCode("inspect", Inspect(options, streams), streams);
}

}  // namespace kvasir::cli
