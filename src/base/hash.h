// base/hash.h
// SHA-256 for identity (block keys, namespaces, model fingerprints) and XXH3 for checksums.
//
// Sha256 takes typed, length-prefixed fields, so that ("ab","c") and ("a","bc") never give the same digest.
//
// Thread rule: plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace kvasir {

using Digest = std::array<std::byte, 32>;

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  // Each field goes in as tag, length, bytes.
  Sha256& Add(std::string_view tag, std::span<const std::byte> bytes);
  Sha256& Add(std::string_view tag, std::string_view text);
  Sha256& Add(std::string_view tag, int64_t number);
  // Ends the digest. The object is not to be used after.
  Digest Finish();

 private:
  void Update(const void* bytes, size_t size);

  struct Context;
  std::unique_ptr<Context> context_;
};

std::string ToHex(std::span<const std::byte> bytes);
uint64_t Checksum(std::span<const std::byte> bytes);  // XXH3, 64 bits

}  // namespace kvasir
