// backend/page_rows.h
// Rows of one addressable page, by CPU code: for pages in host memory, and for backends whose device memory is the
// host's.
//
// Thread rule: pure functions.
#pragma once

#include <cstddef>

#include "backend/page_format.h"

namespace kvasir::backend {

// Zeroes the rows [from_row, 32) of an addressable page and touches no other byte. REQUIRES: 0 <= from_row <= 32.
void ClearPageRows(std::byte* page, const PageFormat& format, int from_row);

}  // namespace kvasir::backend
