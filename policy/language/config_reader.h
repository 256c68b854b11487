// Typed reading of the YAML tree: each call either yields a value or adds a problem that says
// where, what and what is accepted.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policy/language/yaml_reader.h"
#include "policy/model/policy.h"

namespace recourse {

// One text of a list, with its place and dotted key.
struct LocatedText {
  std::string text;
  Place place;
  std::string key;
};

// Reads one map. Every word that was asked for is known; Finish() reports the others.
class MapReader {
 public:
  // `key` is the dotted path of the map, "" for the root. A node that is not a map is a problem,
  // which quotes `shape`.
  MapReader(const YamlNode& node, std::string key, Problems& problems,
            std::string_view shape = "`name: value` lines or { name: value }");

  // The member, or nullptr when it is absent. A member without value is a problem and absent.
  const YamlNode* Get(std::string_view name);
  // As Get; its absence is a problem, which `why` explains.
  const YamlNode* Need(std::string_view name, std::string_view why);
  bool Has(std::string_view name) const { return node_.Find(name) != nullptr; }
  // Whether that word was asked for so far.
  bool Knows(std::string_view name) const { return known_.contains(name); }
  // Where to complain about that word.
  Place PlaceOf(std::string_view name) const;
  std::string KeyOf(std::string_view name) const;
  void Finish();

  // Each returns nullopt when the word is absent or wrong; the latter is a problem.
  std::optional<std::string> Text(std::string_view name);
  std::optional<bool> Bool(std::string_view name);
  std::optional<Millis> Duration(std::string_view name, Millis least);
  // A whole number from 1.
  std::optional<std::uint64_t> Count(std::string_view name,
                                     std::uint64_t most = limits::kPolicyCountMax);
  std::optional<std::uint64_t> Bytes(std::string_view name);  // a size such as 512MiB, from 1 B
  std::vector<LocatedText> Texts(std::string_view name);      // a text or a list of texts
  template <class Value, std::size_t kCount>
  std::optional<Value> OneOf(std::string_view name,
                             const std::pair<std::string_view, Value> (&choices)[kCount]);

  Problems& problems() { return problems_; }
  const std::string& key() const { return key_; }
  const YamlNode& node() const { return node_; }

 private:
  const YamlNode& node_;
  const std::string key_;
  Problems& problems_;
  std::set<std::string, std::less<>> known_;
};

// A text. Plain words that YAML 1.1 takes for something else (no, 010, 1:30) must be quoted.
std::optional<std::string> ReadText(const YamlNode& node, const std::string& key,
                                    Problems& problems);
// nullopt: not a duration. Accepts 250ms, 5s, 2m, 10m, 1h, 30d up to a year.
std::optional<Millis> ParseDuration(std::string_view text);
// nullopt: not a size. Accepts 100B, 64KiB, 512MiB, 10GiB, 2TiB, up to 16 TiB.
std::optional<std::uint64_t> ParseByteCount(std::string_view text);
// What YAML 1.1 takes for a boolean, a null, an octal, hexadecimal or sexagesimal number, or empty.
std::string_view YamlTrap(std::string_view plain);
// The one of `words` that is near, or empty.
std::string NearestWord(std::string_view word, const std::vector<std::string>& words);
// ", did you mean 'x'?" when one of `words` is near, else "".
std::string DidYouMean(std::string_view word, const std::vector<std::string>& words);
// The same, also of the one that is shortened to its first, its last and some other letters: "gql".
std::string ValueDoubt(std::string_view word, const std::vector<std::string>& words);
// ", did you mean 'POST'?" of a method that looks like a misspelled one (RFC 9110 9.3, RFC 5789,
// RFC 4918), else "".
std::string MethodDoubt(std::string_view method);
std::string JoinKey(std::string_view parent, std::string_view name);
std::string JoinWords(const std::vector<std::string>& words);

template <class Value, std::size_t kCount>
std::optional<Value> MapReader::OneOf(std::string_view name,
                                      const std::pair<std::string_view, Value> (&choices)[kCount]) {
  const YamlNode* value = Get(name);
  if (value == nullptr) return std::nullopt;
  std::vector<std::string> words;
  for (const auto& [word, meaning] : choices) {
    if (value->kind == YamlNode::Kind::kScalar && value->text == word) return meaning;
    words.emplace_back(word);
  }
  problems_.Misspelled(KeyOf(name));
  problems_.Error(
      value->place, KeyOf(name),
      "not one of its values" + ValueDoubt(value->text, words) + "; accepted: " + JoinWords(words));
  return std::nullopt;
}

}  // namespace recourse
