// kv/page_rows.h
// Rows of one page, by CPU code: what a backend's ClearPageRows does for pages in host memory.
//
// Thread rule: pure functions.
#pragma once

#include <cstddef>

#include "backend/page_format.h"

namespace kvasir::kv {

// Zeroes the rows [from_row, 32) of an addressable page and touches no other byte. REQUIRES: 0 <= from_row <= 32.
void ClearPageRows(std::byte* page, const backend::PageFormat& format, int from_row);

}  // namespace kvasir::kv
