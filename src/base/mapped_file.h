// base/mapped_file.h
// A whole file mapped read-only into memory.
//
// Why: GGUF weights are read in place. What it does not do: notice that somebody truncates the file while it is mapped
// (the kernel then sends SIGBUS, as to any program that maps files).
//
// Thread rule: const after Open; bytes may be read from any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"

namespace kvasir {

class MappedFile {
 public:
  // Errors: kNotFound, kIo, kInvalidArgument (a directory, a device, an empty file).
  static Result<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

  // Tells the kernel that `range`'s pages are not needed again soon; they are read back from the file if they are.
  // REQUIRES: `range` lies inside bytes().
  void Release(std::span<const std::byte> range) const;

 private:
  MappedFile(std::string path, std::span<const std::byte> bytes) : path_(std::move(path)), bytes_(bytes) {}

  std::string path_;
  std::span<const std::byte> bytes_;
};

}  // namespace kvasir
