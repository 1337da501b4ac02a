#include "gguf/gguf_file.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "base/check.h"
#include "gguf/contents.h"
#include "gguf/tensor_table.h"
#include "gguf/text.h"
#include "gguf/value.h"

namespace kvasir::gguf {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint32_t kMinVersion = 2;
constexpr uint32_t kMaxVersion = 3;
constexpr int64_t kDefaultAlignment = 32;
constexpr int64_t kMinAlignment = 8;
constexpr int64_t kMaxAlignment = int64_t{1} << 20;

constexpr size_t kMinKeyBytes = 8 + 1 + 4 + 1;  // key of one character, type, one byte
constexpr size_t kKeyListingBytes = sizeof(MetadataEntry) + sizeof(uint32_t);
constexpr uint64_t kListingAllowance = 64 * 1024;

struct Header {
  uint32_t version = 0;
  uint64_t tensors = 0;
  uint64_t keys = 0;
};

Result<Header> TakeHeader(Cursor& cursor, const std::string& file) {
  char magic[4];
  if (!cursor.Take(magic)) {
    return MakeError(ErrorCode::kCorrupt, "{} has {} bytes and is no GGUF file", file, cursor.left());
  }
  const std::string_view found(magic, sizeof(magic));
  if (found == "FUGG") {
    return MakeError(ErrorCode::kUnsupported, "{} has its bytes swapped (it begins with FUGG)", file);
  }
  if (found != kMagic) {
    return MakeError(ErrorCode::kCorrupt, "{} is no GGUF file: it begins with \"{}\", not \"GGUF\"", file,
                     Printable(found));
  }
  Header header;
  if (!cursor.Take(header.version)) return MakeError(ErrorCode::kCorrupt, "{} ends inside its header", file);
  if (header.version < kMinVersion || header.version > kMaxVersion) {
    // Versions are small numbers, so this one was written by a machine of the other byte order.
    if ((header.version & 0xFFFFu) == 0 && header.version != 0) {
      return MakeError(ErrorCode::kUnsupported, "{} is a big-endian GGUF file; only little-endian ones can be read",
                       file);
    }
    return MakeError(ErrorCode::kUnsupported, "{} is a GGUF file of version {}; versions {} and {} can be read{}", file,
                     header.version, kMinVersion, kMaxVersion,
                     header.version > kMaxVersion ? "; it needs a newer kvasir" : "");
  }
  if (!cursor.Take(header.tensors) || !cursor.Take(header.keys)) {
    return MakeError(ErrorCode::kCorrupt, "{} ends inside its header", file);
  }
  if (!cursor.Holds(header.keys, kMinKeyBytes)) {
    return MakeError(ErrorCode::kCorrupt, "{} declares {} metadata keys, more than its {} bytes can hold", file,
                     header.keys, cursor.left());
  }
  if (!cursor.Holds(header.tensors, kMinTensorBytes) || header.tensors > static_cast<uint64_t>(INT32_MAX)) {
    return MakeError(ErrorCode::kCorrupt, "{} declares {} tensors, more than its {} bytes can hold", file,
                     header.tensors, cursor.left());
  }
  // Names must differ, so a file that passes the tests above and fails this one has been made up to cost memory.
  const uint64_t listing_bytes = header.keys * kKeyListingBytes + header.tensors * kTensorListingBytes;
  if (listing_bytes > 2 * uint64_t{cursor.left()} + kListingAllowance) {
    return MakeError(ErrorCode::kCorrupt,
                     "{} declares {} metadata keys and {} tensors, more than its {} bytes can hold", file, header.keys,
                     header.tensors, cursor.left());
  }
  return header;
}

Result<MetadataEntry> TakeEntry(Cursor& cursor, uint64_t index, uint64_t count, const std::string& file) {
  MetadataEntry entry;
  if (!cursor.TakeString(entry.key)) {
    return MakeError(ErrorCode::kCorrupt, "{}: metadata key {} of {} ends beyond the file", file, index, count);
  }
  if (const Status name = CheckName(entry.key); !name.ok()) {
    return MakeError(ErrorCode::kCorrupt, "{}: metadata key {} of {} {}: \"{}\"", file, index, count,
                     name.error().message(), Printable(entry.key));
  }
  const auto error = [&](std::string_view what) {
    return MakeError(ErrorCode::kCorrupt, "{}: key {} {}", file, Printable(entry.key), what);
  };
  uint32_t id = 0;
  if (!cursor.Take(id)) return error("has a type that ends beyond the file");
  const std::optional<ValueType> type = FindValueType(id);
  if (!type) return error(fmt::format("has the unknown value type {}", id));
  entry.type = *type;
  if (entry.type == ValueType::kArray) {
    const Result<ArrayHeader> array = TakeArrayHeader(cursor);
    if (!array.ok()) return error(array.error().message());
    entry.element_type = array->element;
    entry.count = array->count;
    entry.value = cursor.here();
    if (const Status skipped = SkipElements(cursor, *array); !skipped.ok()) return error(skipped.error().message());
    return entry;
  }
  entry.value = cursor.here();
  std::string_view text;
  const bool fits = entry.type == ValueType::kString ? cursor.TakeString(text) : cursor.Skip(1, MinBytes(entry.type));
  if (!fits) return error(fmt::format("has a {} that ends beyond the file", Name(entry.type)));
  return entry;
}

Result<std::vector<uint32_t>> IndexByKey(std::span<const MetadataEntry> entries, const std::string& file) {
  std::vector<uint32_t> order(entries.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return entries[a].key < entries[b].key; });
  for (size_t i = 1; i < order.size(); ++i) {
    if (entries[order[i - 1]].key == entries[order[i]].key) {
      return MakeError(ErrorCode::kCorrupt, "{}: key {} appears twice", file, Printable(entries[order[i]].key));
    }
  }
  return order;
}

// "-00002-of-00003.gguf" for number 1 of 3: names count from one, the key split.no from zero.
std::string PartSuffix(int64_t number, int64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", number + 1, count);
}

}  // namespace

GgufFile::GgufFile(std::unique_ptr<Contents> contents) : contents_(std::move(contents)) {}
GgufFile::GgufFile(GgufFile&&) noexcept = default;
GgufFile& GgufFile::operator=(GgufFile&&) noexcept = default;
GgufFile::~GgufFile() = default;

Result<GgufFile> GgufFile::Parse(std::span<const std::byte> bytes, const std::string& name) {
  Cursor cursor(bytes);
  KVASIR_ASSIGN_OR_RETURN(const Header header, TakeHeader(cursor, name));

  GgufFile file(std::make_unique<Contents>());
  Contents& contents = *file.contents_;
  contents.path = name;
  contents.bytes = bytes;
  contents.total_bytes = static_cast<int64_t>(bytes.size());
  contents.version = header.version;
  contents.metadata.reserve(static_cast<size_t>(header.keys));
  for (uint64_t i = 0; i < header.keys; ++i) {
    KVASIR_ASSIGN_OR_RETURN(const MetadataEntry entry, TakeEntry(cursor, i, header.keys, name));
    contents.metadata.push_back(entry);
  }
  KVASIR_ASSIGN_OR_RETURN(contents.metadata_by_key, IndexByKey(contents.metadata, name));

  constexpr std::string_view kAlignmentKey = "general.alignment";
  KVASIR_ASSIGN_OR_RETURN(const int64_t alignment,
                          file.GetIntOr(kAlignmentKey, kDefaultAlignment, kMinAlignment, kMaxAlignment));
  if ((alignment & (alignment - 1)) != 0) {
    return file.KeyError(kAlignmentKey, fmt::format("is {}, which is not a power of two", alignment));
  }
  KVASIR_ASSIGN_OR_RETURN(contents.tensors,
                          ReadTensors(cursor, bytes, header.tensors, static_cast<uint64_t>(alignment), name));
  KVASIR_ASSIGN_OR_RETURN(contents.tensors_by_name, IndexByName(contents.tensors, name));
  return file;
}

Result<GgufFile> GgufFile::OpenPart(const std::string& path) {
  KVASIR_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(path));
  KVASIR_ASSIGN_OR_RETURN(GgufFile file, Parse(mapped.bytes(), path));
  file.contents_->files.push_back(std::move(mapped));
  return file;
}

Result<GgufFile> GgufFile::Open(const std::string& path) {
  KVASIR_ASSIGN_OR_RETURN(GgufFile named, OpenPart(path));
  KVASIR_ASSIGN_OR_RETURN(const int64_t count, named.GetIntOr("split.count", 1, 0, 65535));
  if (count <= 1) return named;

  KVASIR_ASSIGN_OR_RETURN(const int64_t named_number, named.GetInt("split.no", 0, count - 1));
  const std::string suffix = PartSuffix(named_number, count);
  if (path.size() < suffix.size() || path.compare(path.size() - suffix.size(), suffix.size(), suffix) != 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} is part {} of {} of a split model; its name must end in {} for the other parts to be found",
                     path, named_number + 1, count, suffix);
  }
  const std::string prefix = path.substr(0, path.size() - suffix.size());
  std::vector<GgufFile> parts;
  for (int64_t number = 0; number < count; ++number) {
    if (number == named_number) {
      parts.push_back(std::move(named));  // NOLINT(bugprone-use-after-move): one turn of the loop only
      continue;
    }
    Result<GgufFile> part = OpenPart(prefix + PartSuffix(number, count));
    if (!part.ok()) {
      return MakeError(part.error().code(), "part {} of {} of a split model: {}", number + 1, count,
                       part.error().message());
    }
    KVASIR_RETURN_IF_ERROR(part->GetInt("split.count", count, count));
    KVASIR_RETURN_IF_ERROR(part->GetInt("split.no", number, number));
    parts.push_back(std::move(*part));
  }
  return Join(std::move(parts), path);
}

Result<GgufFile> GgufFile::Join(std::vector<GgufFile> parts, const std::string& path) {
  size_t tensors = 0;
  for (const GgufFile& part : parts) tensors += part.tensors().size();

  GgufFile& file = parts.front();
  Contents& contents = *file.contents_;
  contents.tensors.reserve(tensors);
  for (size_t i = 1; i < parts.size(); ++i) {
    Contents& part = *parts[i].contents_;
    contents.tensors.insert(contents.tensors.end(), part.tensors.begin(), part.tensors.end());
    contents.files.push_back(std::move(part.files.front()));
    contents.total_bytes += part.total_bytes;
  }
  contents.path = path;  // messages name the part that the user named
  KVASIR_ASSIGN_OR_RETURN(contents.tensors_by_name, IndexByName(contents.tensors, path));
  const auto total = static_cast<int64_t>(tensors);
  KVASIR_RETURN_IF_ERROR(file.GetIntOr("split.tensors.count", total, total, total));
  return std::move(file);
}

const std::string& GgufFile::path() const {
  return contents_->path;
}
uint32_t GgufFile::version() const {
  return contents_->version;
}
int64_t GgufFile::total_bytes() const {
  return contents_->total_bytes;
}
std::span<const MetadataEntry> GgufFile::metadata() const {
  return contents_->metadata;
}
std::span<const TensorInfo> GgufFile::tensors() const {
  return contents_->tensors;
}

const TensorInfo* GgufFile::FindTensor(std::string_view name) const {
  const std::vector<uint32_t>& order = contents_->tensors_by_name;
  const auto it = std::lower_bound(order.begin(), order.end(), name, [this](uint32_t i, std::string_view wanted) {
    return contents_->tensors[i].name < wanted;
  });
  if (it == order.end() || contents_->tensors[*it].name != name) return nullptr;
  return &contents_->tensors[*it];
}

void GgufFile::Release(const TensorInfo& tensor) const {
  const std::byte* const begin = tensor.bytes.data();
  for (const MappedFile& file : contents_->files) {
    const std::span<const std::byte> bytes = file.bytes();
    if (begin >= bytes.data() && begin < bytes.data() + bytes.size()) file.Release(tensor.bytes);
  }
}

}  // namespace kvasir::gguf
