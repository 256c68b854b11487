#include "policy/language/config_reader.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace recourse {
namespace {

constexpr std::string_view kDurationHelp = "accepted: a duration such as 250ms, 5s, 10m, 1h or 30d";

// Edits (insert, delete, replace, swap of neighbours) between two short words.
std::size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> earlier, last, row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    earlier = std::exchange(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      const bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swap) row[j] = std::min(row[j], earlier[j - 2] + 1);
    }
  }
  return row.back();
}

bool AllDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// "gql" of "graphql".
bool IsShortOf(std::string_view word, std::string_view whole) {
  if (word.size() < 3 || word.size() >= whole.size()) return false;
  if (word.front() != whole.front() || word.back() != whole.back()) return false;
  for (const char c : whole) {
    if (!word.empty() && word.front() == c) word.remove_prefix(1);
  }
  return word.empty();
}

std::string Suggestion(const std::string& meant) {
  return meant.empty() ? std::string() : ", did you mean '" + meant + "'?";
}

}  // namespace

std::string JoinKey(std::string_view parent, std::string_view name) {
  return parent.empty() ? std::string(name) : std::string(parent) + '.' + std::string(name);
}

std::string JoinWords(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

std::string NearestWord(std::string_view word, const std::vector<std::string>& words) {
  if (word.size() > 64) return {};
  const std::string* best = nullptr;
  std::size_t best_distance = word.size() < 5 ? 2 : 3;
  const std::string lower = ToLower(word);
  for (const std::string& candidate : words) {
    const std::string other = ToLower(candidate);
    const std::size_t distance = lower == other ? 0 : Distance(word, candidate);
    if (distance < best_distance) {
      best = &candidate;
      best_distance = distance;
    }
  }
  return best == nullptr ? std::string() : *best;
}

std::string DidYouMean(std::string_view word, const std::vector<std::string>& words) {
  return Suggestion(NearestWord(word, words));
}

std::string ValueDoubt(std::string_view word, const std::vector<std::string>& words) {
  if (std::string near = DidYouMean(word, words); !near.empty()) return near;
  const std::string lower = ToLower(word.substr(0, 64));
  const auto is_it = [&](const std::string& whole) { return IsShortOf(lower, whole); };
  const auto found = std::ranges::find_if(words, is_it);
  return found == words.end() ? std::string() : Suggestion(*found);
}

std::string MethodDoubt(std::string_view method) {
  static const std::vector<std::string> kKnown = {
      "GET",      "HEAD",      "POST",  "PUT",  "PATCH", "DELETE", "OPTIONS", "QUERY",
      "PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE",  "LOCK",   "UNLOCK",  "REPORT"};
  if (method == "*" || std::ranges::find(kKnown, method) != kKnown.end()) return {};
  return DidYouMean(method, kKnown);
}

std::string_view YamlTrap(std::string_view plain) {
  static constexpr std::array<std::string_view, 8> kBooleans{"y",  "n",   "yes",  "no",
                                                             "on", "off", "true", "false"};
  const std::string lower = ToLower(plain);
  if (std::find(kBooleans.begin(), kBooleans.end(), lower) != kBooleans.end()) {
    return "a boolean";
  }
  if (lower == "null" || lower == "~") return "a null";
  if (plain.size() > 1 && plain[0] == '0' && AllDigits(plain)) return "an octal number";
  if (lower.starts_with("0x") || lower.starts_with("0o")) return "a number";
  const auto colon = plain.find(':');
  if (colon != std::string_view::npos && AllDigits(plain.substr(0, colon)) &&
      AllDigits(plain.substr(colon + 1))) {
    return "a sexagesimal number";
  }
  return {};
}

std::optional<Millis> ParseDuration(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, std::int64_t>, 5> kUnits{
      {{"ms", 1}, {"s", 1'000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}}};
  static constexpr std::int64_t kMost = 366LL * 86'400'000;
  std::int64_t count = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), count);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (ec != std::errc() || text.starts_with('-')) return std::nullopt;
  if (text.size() > 1 && text[0] == '0' && count != 0) return std::nullopt;
  for (const auto& [name, millis] : kUnits) {
    if (unit == name && count <= kMost / millis) return Millis(count * millis);
  }
  return std::nullopt;
}

std::optional<std::string> ReadText(const YamlNode& node, const std::string& key,
                                    Problems& problems) {
  if (node.kind != YamlNode::Kind::kScalar) {
    problems.Error(node.place, key, "a text is accepted here");
    return std::nullopt;
  }
  if (!node.is_quoted) {
    if (const auto trap = YamlTrap(node.text); !trap.empty()) {
      problems.Error(node.place, key,
                     "'" + node.text + "' is " + std::string(trap) +
                         " to YAML; if the text is meant, quote it: \"" + node.text + "\"");
      return std::nullopt;
    }
  }
  if (node.text.empty()) {
    problems.Error(node.place, key, "the text is empty");
    return std::nullopt;
  }
  return node.text;
}

MapReader::MapReader(const YamlNode& node, std::string key, Problems& problems,
                     std::string_view shape)
    : node_(node), key_(std::move(key)), problems_(problems) {
  if (node.kind != YamlNode::Kind::kMap) {
    problems_.Error(node.place, key_, "a map is accepted here: " + std::string(shape));
  }
}

std::string MapReader::KeyOf(std::string_view name) const { return JoinKey(key_, name); }

Place MapReader::PlaceOf(std::string_view name) const {
  for (const auto& member : node_.members) {
    if (member.name == name) return member.name_place;
  }
  return node_.place;
}

const YamlNode* MapReader::Get(std::string_view name) {
  known_.emplace(name);
  const YamlNode* value = node_.Find(name);
  if (value == nullptr || value->kind != YamlNode::Kind::kNull) return value;
  problems_.Error(value->place, KeyOf(name), "has no value");
  return nullptr;
}

const YamlNode* MapReader::Need(std::string_view name, std::string_view why) {
  if (node_.kind == YamlNode::Kind::kMap && !Has(name)) {
    problems_.ErrorOfAbsent(node_.place, KeyOf(name), "is missing; " + std::string(why));
  }
  return Get(name);
}

void MapReader::Finish() {
  const std::vector<std::string> words(known_.begin(), known_.end());
  const std::string accepted = words.empty() ? "" : "; accepted: " + JoinWords(words);
  for (const auto& member : node_.members) {
    if (known_.contains(member.name)) continue;
    const std::string meant = NearestWord(member.name, words);
    if (!meant.empty() && !Has(meant)) problems_.Misspelled(KeyOf(meant));
    problems_.Error(member.name_place, KeyOf(member.name),
                    "unknown key" + Suggestion(meant) + accepted);
  }
}

std::optional<std::string> MapReader::Text(std::string_view name) {
  const YamlNode* value = Get(name);
  return value == nullptr ? std::nullopt : ReadText(*value, KeyOf(name), problems_);
}

std::optional<bool> MapReader::Bool(std::string_view name) {
  const YamlNode* value = Get(name);
  if (value == nullptr) return std::nullopt;
  if (value->kind == YamlNode::Kind::kScalar && !value->is_quoted) {
    if (value->text == "true") return true;
    if (value->text == "false") return false;
  }
  problems_.Error(value->place, KeyOf(name), "accepted: true or false");
  return std::nullopt;
}

std::optional<Millis> MapReader::Duration(std::string_view name, Millis least) {
  const YamlNode* value = Get(name);
  if (value == nullptr) return std::nullopt;
  const auto duration =
      value->kind == YamlNode::Kind::kScalar ? ParseDuration(value->text) : std::nullopt;
  if (!duration) {
    problems_.Error(value->place, KeyOf(name), std::string(kDurationHelp));
    return std::nullopt;
  }
  if (*duration < least) {
    problems_.Error(value->place, KeyOf(name),
                    least <= Millis(1)
                        ? std::string("the duration must be more than zero")
                        : "the duration must be at least " + std::to_string(least.count()) + "ms");
    return std::nullopt;
  }
  return duration;
}

std::optional<std::uint64_t> MapReader::Count(std::string_view name, std::uint64_t most) {
  const YamlNode* value = Get(name);
  if (value == nullptr) return std::nullopt;
  const std::string_view text = value->text;
  std::uint64_t count = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), count);
  const bool is_whole = ec == std::errc() && end == text.data() + text.size() && text[0] != '0';
  if (value->kind == YamlNode::Kind::kScalar && !value->is_quoted && is_whole && count <= most) {
    return count;
  }
  problems_.Error(value->place, KeyOf(name),
                  "accepted: a whole number from 1 to " + std::to_string(most));
  return std::nullopt;
}

std::optional<std::uint64_t> MapReader::Bytes(std::string_view name) {
  const YamlNode* value = Get(name);
  if (value == nullptr) return std::nullopt;
  const auto bytes =
      value->kind == YamlNode::Kind::kScalar ? ParseByteCount(value->text) : std::nullopt;
  if (bytes && *bytes > 0) return bytes;
  problems_.Error(value->place, KeyOf(name), "accepted: a size such as 64KiB, 512MiB or 10GiB");
  return std::nullopt;
}

std::vector<LocatedText> MapReader::Texts(std::string_view name) {
  const YamlNode* value = Get(name);
  std::vector<LocatedText> out;
  if (value == nullptr) return out;
  const auto add = [&](const YamlNode& node, std::string key) {
    if (auto text = ReadText(node, key, problems_)) {
      out.push_back({std::move(*text), node.place, std::move(key)});
    }
  };
  if (value->kind == YamlNode::Kind::kScalar) {
    add(*value, KeyOf(name));
    return out;
  }
  if (value->kind == YamlNode::Kind::kMap) {
    problems_.Error(value->place, KeyOf(name), "a text or a list of texts is accepted here");
    return out;
  }
  for (std::size_t i = 0; i < value->items.size(); ++i) {
    add(value->items[i], KeyOf(name) + '[' + std::to_string(i) + ']');
  }
  if (value->items.empty()) problems_.Error(value->place, KeyOf(name), "the list is empty");
  return out;
}

}  // namespace recourse
