// The frame that every row has, for those who write rows (record_codec.h).
#pragma once

#include <cstddef>
#include <string>

#include "filters/ledger/rows/row_codec.h"
#include "proxy/base/bytes.h"

namespace recourse {

// Writes the head with length and CRC left open; returns where the row starts.
std::size_t OpenRow(std::string& out, const RowHead& head);
// Fills in both, over all that stands behind `start`.
void CloseRow(std::string& out, std::size_t start);
Digest ReadDigest(ByteReader& reader);

}  // namespace recourse
