// tokenizer/scanners.h
// The common pre-tokenizer patterns as hand-written scanners: one look at every character or two, no backtracking, no
// recursion.
//
// Each says where the piece ends that begins at `at`; PatternOf gives the regular expression whose matches (and gaps
// between them) it reproduces, which is what the tests compare it with.
//
// Thread rule: any thread.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "tokenizer/pre_tokenizer.h"

namespace kvasir::tokenizer {

// Appends `base` + the end of every piece of `text` to `ends`, ascending.
// REQUIRES: kind is not kRegex; `text` is as RepairUtf8 makes it.
void Scan(PassKind kind, std::string_view text, size_t base, std::vector<size_t>& ends);

// The pattern that a scanner stands for; null for kRegex.
const char* PatternOf(PassKind kind);

}  // namespace kvasir::tokenizer
