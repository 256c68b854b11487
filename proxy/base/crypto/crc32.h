// CRC-32 as zlib, PNG and Ethernet have it, several times faster than zlib's where the processor
// multiplies without carries.
#pragma once

#include <cstdint>
#include <string_view>

namespace recourse {

// Of `data` behind what gave `crc`; 0 for nothing. The same as zlib's crc32().
std::uint32_t Crc32(std::uint32_t crc, std::string_view data);

}  // namespace recourse
