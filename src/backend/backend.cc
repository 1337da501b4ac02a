#include "backend/backend.h"

namespace kvasir::backend {

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    if (address_ != nullptr) owner_->Free(kind_, address_, bytes_);
    owner_ = std::exchange(other.owner_, nullptr);
    kind_ = other.kind_;
    address_ = std::exchange(other.address_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

Buffer::~Buffer() {
  if (address_ != nullptr) owner_->Free(kind_, address_, bytes_);
}

}  // namespace kvasir::backend
