#include "policy/model/path_shape.h"

#include <algorithm>

namespace recourse {
namespace {

constexpr std::size_t kWordBytesMax = 32;
constexpr std::string_view kId = "{id}";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Calls `take` with every piece of the shape, in order.
template <class Take>
void Walk(std::string_view path, Take take) {
  while (!path.empty()) {
    const auto slash = std::min(path.find('/'), path.size());
    const std::string_view segment = path.substr(0, slash);
    take(LooksLikeId(segment) ? kId : segment);
    if (slash == path.size()) return;
    take(path.substr(slash, 1));
    path.remove_prefix(slash + 1);
  }
}

}  // namespace

bool LooksLikeId(std::string_view segment) {
  if (segment.size() > kWordBytesMax) return true;
  if (std::none_of(segment.begin(), segment.end(), IsDigit)) return false;
  const std::string_view word = segment.substr(0, segment.size() - 1);
  return word.empty() || !std::all_of(word.begin(), word.end(), IsLetter);
}

std::string PathShape(std::string_view path, std::size_t bytes_max) {
  std::string shape;
  Walk(path, [&](std::string_view piece) {
    if (shape.size() + piece.size() <= bytes_max) shape.append(piece);
  });
  return shape;
}

std::uint64_t ShapeHash(std::string_view path) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  Walk(path, [&](std::string_view piece) {
    for (const char c : piece) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  });
  return hash;
}

}  // namespace recourse
