#include "filters/key/pair_order.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string_view>

#include "proxy/base/crypto/hash.h"

namespace recourse {
namespace {

constexpr std::string_view kNext = "[]";
// More names, or longer ones, are not compared: then the order of all of them counts.
constexpr std::size_t kNamesCompared = 1'000, kNameBytesCompared = 64 * 1'024;

// As PHP reads it: "a.b[c]" is "a_b[c]".
std::string NameRead(std::string_view name) {
  std::string read(name);
  const auto base = static_cast<std::ptrdiff_t>(std::min(read.find('['), read.size()));
  std::replace_if(
      read.begin(), read.begin() + base, [](char c) { return c == '.' || c == ' '; }, '_');
  return read;
}

class Names {
 public:
  explicit Names(const std::vector<std::pair<std::string, std::string>>& pairs) {
    std::set<std::string> once;
    for (const auto& [name, value] : pairs) {
      const std::string read = NameRead(name);
      written_[read].insert(name);
      const auto next = read.find(kNext);
      // Of a list in a record all values are the same record's.
      const bool is_in_record = next != read.npos && read.find(kNext, next + 1) == read.npos;
      if (is_in_record && !once.insert(read).second) records_.insert(read.substr(0, next));
    }
  }

  // Those that have to do with another one.
  std::set<std::string_view> Joined() {
    for (const auto& [read, written] : written_) {
      if (written.size() > 1) joined_.insert(written.begin(), written.end());
      // It has a value of its own, and others are its members.
      if (JoinMembers(read, 1)) joined_.insert(written.begin(), written.end());
      const auto next = read.find(kNext);
      if (next == std::string::npos) continue;
      const std::string list = read.substr(0, next);
      if (IsReadInOrder(list)) JoinMembers(list, 2);
    }
    return std::move(joined_);
  }

 private:
  // Whether a list has more than one record, which begins with a name that comes again, or one has
  // a place of its own, which may be that of another. Clients send the names of one record in any
  // order.
  bool IsReadInOrder(const std::string& list) const {
    const std::string next = list + std::string(kNext);
    const auto first = written_.lower_bound(list + '[');
    const auto last = std::prev(written_.lower_bound(list + static_cast<char>('[' + 1)));
    return records_.contains(list) || !first->first.starts_with(next) ||
           !last->first.starts_with(next);
  }

  // Whether there are so many names of members of that value; they are joined.
  bool JoinMembers(std::string_view value, std::size_t least) {
    std::string with(value);
    with += '[';
    if (done_.contains(with)) return true;
    const auto is_member = [&](const auto& at) {
      return at != written_.end() && at->first.starts_with(with);
    };
    auto at = written_.lower_bound(with);
    auto last = at;
    for (std::size_t names = 0; names < least; ++names, ++last) {
      if (!is_member(last)) return false;
    }
    for (; is_member(at); ++at) joined_.insert(at->second.begin(), at->second.end());
    done_.insert(std::move(with));
    return true;
  }

  std::map<std::string, std::set<std::string_view>, std::less<>> written_;  // by the name read
  std::set<std::string> records_, done_;
  std::set<std::string_view> joined_;
};

}  // namespace

std::string OrderThatCounts(const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::size_t bytes = 0;
  bool is_plain = true;
  for (const auto& [name, value] : pairs) {
    bytes += name.size();
    is_plain = is_plain && name.find_first_of("[. ") == std::string::npos;
  }
  if (is_plain) return {};
  const bool is_compared = pairs.size() <= kNamesCompared && bytes <= kNameBytesCompared;
  const auto joined = is_compared ? Names(pairs).Joined() : std::set<std::string_view>();
  std::vector<std::string_view> order;
  for (const auto& [name, value] : pairs) {
    if (!is_compared || joined.contains(name)) order.emplace_back(name);
  }
  std::string text;
  for (const std::string_view name : order) AppendPart(text, name);
  return text;
}

}  // namespace recourse
