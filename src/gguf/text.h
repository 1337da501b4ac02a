// gguf/text.h
// Which names a file may use, and how untrusted text is shown in a sentence or a listing.
//
// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvasir::gguf {

// The longest key or tensor name, in bytes. The specification's limit for keys; its limit of 64 for tensor names is not
// kept by all writers.
constexpr size_t kMaxNameBytes = 65535;

// Success for a name that is not empty, not longer than kMaxNameBytes, valid UTF-8 and free of control characters. The
// error is the end of a sentence about it: "is empty".
Status CheckName(std::string_view name);

bool IsUtf8(std::string_view text);

// Printable on one line: control characters and bytes that are not UTF-8 as \xNN, cut after about `max_bytes`.
std::string Printable(std::string_view text, size_t max_bytes = 96);

}  // namespace kvasir::gguf
