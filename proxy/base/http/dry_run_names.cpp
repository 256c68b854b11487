#include "proxy/base/http/dry_run_names.h"

#include <algorithm>
#include <array>

namespace recourse {
namespace {

constexpr std::array<std::string_view, 11> kDryRunWords{
    "dryrun",  "validateonly", "validationonly", "checkonly", "testonly", "simulate",
    "preview", "previewonly",  "noop",           "whatif",    "tentative"};

// What such a name ends with, which most names do not.
constexpr std::string_view kEnds = "efnpwyEFNPWY-_.";
static_assert(std::ranges::all_of(kDryRunWords, [](std::string_view word) {
  return kEnds.contains(word.back());
}));

// Longer than every word, so that of a name only its end has to be kept.
using NameRoom = std::array<char, 16>;

// "X-Dry_Run" as "dryrun", at the end of `room`. Without an allocation: every write asks this of
// all its names.
std::string_view WithoutSigns(std::string_view name, NameRoom& room) {
  if (name.starts_with("X-") || name.starts_with("x-")) name.remove_prefix(2);
  std::size_t begin = room.size();
  for (std::size_t i = name.size(); i > 0 && begin > 0; --i) {
    const char c = name[i - 1];
    if (c == '-' || c == '_' || c == '.') continue;
    room[--begin] = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  }
  return {room.data() + begin, room.size() - begin};
}

}  // namespace

bool NamesDryRun(std::string_view name) {
  if (name.empty() || !kEnds.contains(name.back())) return false;
  NameRoom room;
  const std::string_view plain = WithoutSigns(name, room);
  return std::ranges::find(kDryRunWords, plain) != kDryRunWords.end() ||
         plain.ends_with("dryrun") || plain.ends_with("validateonly");
}

}  // namespace recourse
