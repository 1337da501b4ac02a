#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace kvasir {

Result<MappedFile> MappedFile::Open(const std::string& path) {
  // Non-blocking, so that opening a FIFO without a writer does not hang.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return MakeError(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, "cannot open {}: {}", path,
                     std::strerror(errno));
  }
  struct stat status {};
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(fd);
    return MakeError(ErrorCode::kInvalidArgument, "{} is not a regular file", path);
  }
  if (status.st_size == 0) {
    close(fd);
    return MakeError(ErrorCode::kInvalidArgument, "{} is empty", path);
  }
  const auto size = static_cast<size_t>(status.st_size);
  void* const address = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  const int map_errno = errno;
  close(fd);
  if (address == MAP_FAILED) {
    return MakeError(ErrorCode::kIo, "cannot map {} ({} bytes): {}", path, size, std::strerror(map_errno));
  }
  return MappedFile(path, {static_cast<const std::byte*>(address), size});
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::Release(std::span<const std::byte> range) const {
  KVASIR_CHECK(range.data() >= bytes_.data() && range.data() + range.size() <= bytes_.data() + bytes_.size());
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  // Whole pages inside the range only: its neighbours may still be in use.
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(range.data()) + page - 1) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(range.data() + range.size()) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace kvasir
