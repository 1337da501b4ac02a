#include "gguf/gguf_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "gguf/text.h"

namespace kvasir::gguf {
namespace {

template <typename T>
void Append(std::vector<std::byte>& out, T value) {
  static_assert(std::is_arithmetic_v<T>);
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof(T));
}

void AppendString(std::vector<std::byte>& out, std::string_view text) {
  Append(out, uint64_t{text.size()});
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  out.insert(out.end(), bytes, bytes + text.size());
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using FileHandle = std::unique_ptr<std::FILE, CloseFile>;

bool WriteAll(std::FILE* file, std::span<const std::byte> bytes) {
  return std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
}

}  // namespace

void GgufWriter::BeginEntry(std::string_view key, ValueType type) {
  const Status name = CheckName(key);
  KVASIR_CHECK(name.ok(), "key \"{}\" {}", Printable(key), name.error().message());
  KVASIR_CHECK(std::find(keys_.begin(), keys_.end(), key) == keys_.end(), "key {} is added twice", key);
  keys_.emplace_back(key);
  AppendString(metadata_, key);
  Append(metadata_, static_cast<uint32_t>(type));
}

void GgufWriter::BeginArray(std::string_view key, ValueType element, size_t count) {
  BeginEntry(key, ValueType::kArray);
  Append(metadata_, static_cast<uint32_t>(element));
  Append(metadata_, uint64_t{count});
}

void GgufWriter::AddUint32(std::string_view key, uint32_t value) {
  if (key == "general.alignment") {
    KVASIR_CHECK(value >= 8 && value <= (1u << 20) && (value & (value - 1)) == 0, "alignment {}", value);
    alignment_ = value;
  }
  BeginEntry(key, ValueType::kUint32);
  Append(metadata_, value);
}

void GgufWriter::AddInt32(std::string_view key, int32_t value) {
  BeginEntry(key, ValueType::kInt32);
  Append(metadata_, value);
}

void GgufWriter::AddUint64(std::string_view key, uint64_t value) {
  BeginEntry(key, ValueType::kUint64);
  Append(metadata_, value);
}

void GgufWriter::AddFloat32(std::string_view key, float value) {
  BeginEntry(key, ValueType::kFloat32);
  Append(metadata_, value);
}

void GgufWriter::AddBool(std::string_view key, bool value) {
  BeginEntry(key, ValueType::kBool);
  Append(metadata_, static_cast<uint8_t>(value));
}

void GgufWriter::AddString(std::string_view key, std::string_view value) {
  BeginEntry(key, ValueType::kString);
  AppendString(metadata_, value);
}

void GgufWriter::AddStrings(std::string_view key, std::span<const std::string> values) {
  BeginArray(key, ValueType::kString, values.size());
  for (const std::string& value : values) AppendString(metadata_, value);
}

void GgufWriter::AddFloats(std::string_view key, std::span<const float> values) {
  BeginArray(key, ValueType::kFloat32, values.size());
  for (const float value : values) Append(metadata_, value);
}

void GgufWriter::AddInts(std::string_view key, std::span<const int32_t> values) {
  BeginArray(key, ValueType::kInt32, values.size());
  for (const int32_t value : values) Append(metadata_, value);
}

void GgufWriter::AddBools(std::string_view key, std::span<const bool> values) {
  BeginArray(key, ValueType::kBool, values.size());
  for (const bool value : values) Append(metadata_, static_cast<uint8_t>(value));
}

void GgufWriter::AddTensor(std::string_view name, TensorType type, std::span<const int64_t> dims,
                           std::vector<std::byte> bytes) {
  const Status status = CheckName(name);
  KVASIR_CHECK(status.ok(), "tensor \"{}\" {}", Printable(name), status.error().message());
  KVASIR_CHECK(std::none_of(tensors_.begin(), tensors_.end(), [&](const Tensor& t) { return t.name == name; }),
               "tensor {} is added twice", name);
  KVASIR_CHECK(!dims.empty() && dims.size() <= 4, "tensor {}: {} dimensions", name, dims.size());
  KVASIR_CHECK(dims[0] % Traits(type).block_elements == 0, "tensor {}: rows of {} are not whole blocks", name, dims[0]);
  int64_t elements = 1;
  for (const int64_t extent : dims) {
    KVASIR_CHECK(extent > 0 && !__builtin_mul_overflow(elements, extent, &elements), "tensor {}: extent {}", name,
                 extent);
  }
  const auto expected = TensorBytes(type, elements);
  KVASIR_CHECK(expected && static_cast<uint64_t>(*expected) == bytes.size(), "tensor {}: {} bytes for {} values of {}",
               name, bytes.size(), elements, Name(type));
  tensors_.push_back({std::string(name), type, {dims.begin(), dims.end()}, std::move(bytes)});
}

std::vector<std::byte> GgufWriter::Header() const {
  std::vector<std::byte> out;
  for (const char c : {'G', 'G', 'U', 'F'}) Append(out, c);
  Append(out, uint32_t{3});
  Append(out, uint64_t{tensors_.size()});
  Append(out, uint64_t{keys_.size()});
  out.insert(out.end(), metadata_.begin(), metadata_.end());
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    AppendString(out, tensor.name);
    Append(out, static_cast<uint32_t>(tensor.dims.size()));
    for (const int64_t extent : tensor.dims) Append(out, extent);
    Append(out, static_cast<uint32_t>(tensor.type));
    Append(out, offset);
    offset += tensor.bytes.size() + Padding(tensor.bytes.size());
  }
  if (!tensors_.empty()) out.resize(out.size() + Padding(out.size()));
  return out;
}

std::vector<std::byte> GgufWriter::Serialize() const {
  std::vector<std::byte> out = Header();
  for (const Tensor& tensor : tensors_) {
    out.insert(out.end(), tensor.bytes.begin(), tensor.bytes.end());
    out.resize(out.size() + Padding(tensor.bytes.size()));
  }
  return out;
}

Status GgufWriter::Write(const std::string& path) const {
  const std::string partial = path + ".partial";
  FileHandle file(std::fopen(partial.c_str(), "wb"));
  if (!file) return MakeError(ErrorCode::kIo, "cannot create {}: {}", partial, std::strerror(errno));
  const std::vector<std::byte> zeros(alignment_);
  bool written = WriteAll(file.get(), Header());
  for (const Tensor& tensor : tensors_) {
    written = written && WriteAll(file.get(), tensor.bytes) &&
              WriteAll(file.get(), std::span(zeros).first(Padding(tensor.bytes.size())));
  }
  // What the stream still holds is written here, so that its error is seen before the file gets its name.
  written = written && std::fflush(file.get()) == 0;
  if (written) {
    file.reset();
    written = std::rename(partial.c_str(), path.c_str()) == 0;
  }
  if (written) return {};
  const Error error = MakeError(ErrorCode::kIo, "cannot write {}: {}", path, std::strerror(errno));
  std::remove(partial.c_str());
  return error;
}

}  // namespace kvasir::gguf
