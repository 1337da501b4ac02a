#include "base/hash.h"

#include <openssl/evp.h>
#include <xxhash.h>

#include "base/check.h"

namespace kvasir {

struct Sha256::Context {
  EVP_MD_CTX* evp = nullptr;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  context_->evp = EVP_MD_CTX_new();
  KVASIR_CHECK(context_->evp != nullptr && EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() {
  EVP_MD_CTX_free(context_->evp);
}

void Sha256::Update(const void* bytes, size_t size) {
  KVASIR_CHECK(EVP_DigestUpdate(context_->evp, bytes, size) == 1);
}

Sha256& Sha256::Add(std::string_view tag, std::span<const std::byte> bytes) {
  const uint64_t lengths[2] = {tag.size(), bytes.size()};
  Update(lengths, sizeof lengths);
  Update(tag.data(), tag.size());
  Update(bytes.data(), bytes.size());
  return *this;
}

Sha256& Sha256::Add(std::string_view tag, std::string_view text) {
  return Add(tag, std::as_bytes(std::span(text)));
}

Sha256& Sha256::Add(std::string_view tag, int64_t number) {
  return Add(tag, std::as_bytes(std::span(&number, 1)));
}

Digest Sha256::Finish() {
  Digest digest{};
  KVASIR_CHECK(EVP_DigestFinal_ex(context_->evp, reinterpret_cast<unsigned char*>(digest.data()), nullptr) == 1);
  return digest;
}

std::string ToHex(std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(bytes.size() * 2);
  for (const std::byte b : bytes) {
    hex += kDigits[std::to_integer<unsigned>(b) >> 4];
    hex += kDigits[std::to_integer<unsigned>(b) & 15u];
  }
  return hex;
}

uint64_t Checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace kvasir
