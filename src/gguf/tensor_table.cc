#include "gguf/tensor_table.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <optional>

#include "gguf/text.h"

namespace kvasir::gguf {
namespace {

// Ids that early files used and the format has since dropped: Q4_2, Q4_3 and the row-interleaved Q4_0 and IQ4_NL.
constexpr std::array<uint32_t, 8> kDroppedTypes = {4, 5, 31, 32, 33, 36, 37, 38};

struct Description {
  TensorInfo tensor;
  uint64_t offset = 0;  // from the data section
};

template <typename Less>
std::vector<uint32_t> Ordered(std::span<const TensorInfo> tensors, Less less) {
  std::vector<uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return less(tensors[a], tensors[b]); });
  return order;
}

Status TakeShape(Cursor& cursor, TensorInfo& tensor) {
  uint32_t n_dims = 0;
  if (!cursor.Take(n_dims)) return MakeError(ErrorCode::kCorrupt, "its description ends beyond the file");
  if (n_dims > 4) return MakeError(ErrorCode::kCorrupt, "{} dimensions; 4 is the limit", n_dims);
  tensor.n_dims = static_cast<int>(n_dims);  // none: one value
  int64_t elements = 1;
  for (int i = 0; i < tensor.n_dims; ++i) {
    uint64_t extent = 0;
    if (!cursor.Take(extent)) return MakeError(ErrorCode::kCorrupt, "its description ends beyond the file");
    if (extent == 0) return MakeError(ErrorCode::kCorrupt, "dimension {} is 0", i);
    if (extent > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return MakeError(ErrorCode::kCorrupt, "dimension {} is {}, beyond 64 bits with sign", i, extent);
    }
    tensor.ne[i] = static_cast<int64_t>(extent);
    if (__builtin_mul_overflow(elements, tensor.ne[i], &elements)) {
      return MakeError(ErrorCode::kCorrupt, "its number of values leaves 64 bits at dimension {}, {}", i, extent);
    }
  }
  return {};
}

Status TakeType(Cursor& cursor, TensorInfo& tensor) {
  uint32_t id = 0;
  if (!cursor.Take(id)) return MakeError(ErrorCode::kCorrupt, "its description ends beyond the file");
  const TensorTypeTraits* traits = FindTensorType(id);
  if (traits == nullptr) {
    if (std::find(kDroppedTypes.begin(), kDroppedTypes.end(), id) != kDroppedTypes.end()) {
      return MakeError(ErrorCode::kUnsupported, "type id {} is no longer part of GGUF; quantize the model again", id);
    }
    return MakeError(ErrorCode::kUnsupported, "type id {} is unknown; this file needs a newer kvasir", id);
  }
  tensor.type = traits->type;
  if (tensor.ne[0] % traits->block_elements != 0) {
    return MakeError(ErrorCode::kCorrupt, "rows of {} values are not whole blocks of {} ({})", tensor.ne[0],
                     traits->block_elements, traits->name);
  }
  return {};
}

Result<Description> TakeDescription(Cursor& cursor, uint64_t index, uint64_t count, const std::string& file) {
  Description description;
  TensorInfo& tensor = description.tensor;
  if (!cursor.TakeString(tensor.name)) {
    return MakeError(ErrorCode::kCorrupt, "{}: the name of tensor {} of {} ends beyond the file", file, index, count);
  }
  if (const Status name = CheckName(tensor.name); !name.ok()) {
    return MakeError(ErrorCode::kCorrupt, "{}: the name of tensor {} of {} {}: \"{}\"", file, index, count,
                     name.error().message(), Printable(tensor.name));
  }
  Status status = TakeShape(cursor, tensor);
  if (status.ok()) status = TakeType(cursor, tensor);
  if (status.ok() && !cursor.Take(description.offset)) {
    status = MakeError(ErrorCode::kCorrupt, "its description ends beyond the file");
  }
  if (!status.ok()) {
    return MakeError(status.error().code(), "{}: tensor {}: {}", file, Printable(tensor.name),
                     status.error().message());
  }
  return description;
}

// Sets `tensor.bytes` to its place in `data`.
Status Place(TensorInfo& tensor, uint64_t offset, std::span<const std::byte> data, uint64_t alignment,
             const std::string& file) {
  const std::optional<int64_t> bytes = TensorBytes(tensor.type, tensor.elements());
  if (!bytes) {
    return MakeError(ErrorCode::kCorrupt, "{}: tensor {}: the bytes of {} {} values leave 64 bits", file,
                     Printable(tensor.name), tensor.elements(), Name(tensor.type));
  }
  if (offset % alignment != 0) {
    return MakeError(ErrorCode::kCorrupt, "{}: tensor {}: offset {} is not a multiple of the alignment {}", file,
                     Printable(tensor.name), offset, alignment);
  }
  if (offset > data.size() || static_cast<uint64_t>(*bytes) > data.size() - offset) {
    return MakeError(ErrorCode::kCorrupt,
                     "{}: tensor {}: {} bytes at offset {} end beyond the file, which has {} bytes of tensor data; "
                     "it may be an unfinished download",
                     file, Printable(tensor.name), *bytes, offset, data.size());
  }
  tensor.bytes = data.subspan(static_cast<size_t>(offset), static_cast<size_t>(*bytes));
  return {};
}

Status CheckNoOverlap(std::span<const TensorInfo> tensors, const std::string& file) {
  const std::vector<uint32_t> order =
      Ordered(tensors, [](const TensorInfo& a, const TensorInfo& b) { return a.bytes.data() < b.bytes.data(); });
  for (size_t i = 1; i < order.size(); ++i) {
    const TensorInfo& before = tensors[order[i - 1]];
    const TensorInfo& after = tensors[order[i]];
    if (before.bytes.data() + before.bytes.size() > after.bytes.data()) {
      return MakeError(ErrorCode::kCorrupt, "{}: tensors {} and {} overlap", file, Printable(before.name),
                       Printable(after.name));
    }
  }
  return {};
}

}  // namespace

Result<std::vector<TensorInfo>> ReadTensors(Cursor cursor, std::span<const std::byte> file_bytes, uint64_t count,
                                            uint64_t alignment, const std::string& file) {
  std::vector<TensorInfo> tensors;
  std::vector<uint64_t> offsets;
  tensors.reserve(static_cast<size_t>(count));
  offsets.reserve(static_cast<size_t>(count));
  for (uint64_t i = 0; i < count; ++i) {
    KVASIR_ASSIGN_OR_RETURN(const Description description, TakeDescription(cursor, i, count, file));
    tensors.push_back(description.tensor);
    offsets.push_back(description.offset);
  }
  // A file without tensors may end before the next multiple.
  const size_t header_bytes = file_bytes.size() - cursor.left();
  const size_t data_begin = (header_bytes + alignment - 1) / alignment * alignment;
  const std::span<const std::byte> data = file_bytes.subspan(std::min(data_begin, file_bytes.size()));
  for (size_t i = 0; i < tensors.size(); ++i) {
    KVASIR_RETURN_IF_ERROR(Place(tensors[i], offsets[i], data, alignment, file));
  }
  KVASIR_RETURN_IF_ERROR(CheckNoOverlap(tensors, file));
  return tensors;
}

Result<std::vector<uint32_t>> IndexByName(std::span<const TensorInfo> tensors, const std::string& file) {
  std::vector<uint32_t> order =
      Ordered(tensors, [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
  for (size_t i = 1; i < order.size(); ++i) {
    if (tensors[order[i - 1]].name == tensors[order[i]].name) {
      return MakeError(ErrorCode::kCorrupt, "{}: tensor {} appears twice", file, Printable(tensors[order[i]].name));
    }
  }
  return order;
}

}  // namespace kvasir::gguf
