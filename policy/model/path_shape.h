// Paths without what differs from call to call, so that a report can count them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace recourse {

// True for a path segment that looks like the name of one thing, such as 17, ord_1 or a UUID: it
// holds a digit and is not a word with one digit at its end (v1, s3), or has more than 32 bytes.
bool LooksLikeId(std::string_view segment);

// "/orders/17/items" as "/orders/{id}/items", at most `bytes_max` bytes.
std::string PathShape(std::string_view path, std::size_t bytes_max);

// Equal for two paths of one shape; without allocation.
std::uint64_t ShapeHash(std::string_view path);

}  // namespace recourse
