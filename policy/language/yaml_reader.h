// YAML as a plain tree with places, read so that nothing is silently lost: duplicate keys, anchors,
// aliases, tags and further documents are problems.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policy/language/loader.h"
#include "proxy/base/limits.h"

namespace recourse {

struct Place {
  std::size_t file = 0;  // index into Problems
  int line = 0;          // 1-based; 0: the whole file
  int column = 0;        // 1-based
};

struct YamlNode {
  enum class Kind : std::uint8_t { kNull, kScalar, kList, kMap };
  struct Member;

  Kind kind = Kind::kNull;
  Place place;
  std::string text;        // kScalar
  bool is_quoted = false;  // kScalar: quoted or block text, never a number or a word of YAML
  std::vector<YamlNode> items;
  std::vector<Member> members;  // in document order, names unique

  // The value of that member, or nullptr.
  const YamlNode* Find(std::string_view name) const;
};
struct YamlNode::Member {
  std::string name;
  Place name_place;
  YamlNode value;
};

// Collects problems over all files of one policy; lists kPolicyProblemsMax errors and as many
// warnings, and counts the rest.
class Problems {
 public:
  // Returns the index for Place::file.
  std::size_t AddFile(std::string name);
  void Error(const Place& place, std::string key, std::string message);
  void Warn(const Place& place, std::string key, std::string message);
  // An error about the absence of `key`. It is not told if that turns out to be misspelled.
  void ErrorOfAbsent(const Place& place, std::string key, std::string message);
  // `key` has an error of its own: an unknown word that was probably meant to be it, or its value.
  void Misspelled(std::string key) { misspelled_.insert(std::move(key)); }
  bool IsMisspelled(const std::string& key) const { return misspelled_.contains(key); }
  bool has_errors() const { return errors_ > 0; }
  std::size_t errors() const { return errors_; }
  // Without a message.
  PolicyProblem At(const Place& place, std::string key) const;
  // "policy.yaml:4:35"
  std::string NameOf(const Place& place) const;
  // Errors first, each ordered by file, line and column.
  std::vector<PolicyProblem> Take();

 private:
  struct Found {
    Place place;
    PolicyProblem problem;
    bool is_of_absent = false;
  };
  void Add(PolicyProblem::Severity severity, const Place& place, std::string key,
           std::string message, bool is_of_absent = false);

  std::vector<std::string> files_;
  std::vector<Found> problems_;
  std::set<std::string> misspelled_;
  std::size_t errors_ = 0;
  std::size_t warnings_ = 0;
};

// The one document of a text. Where an entry cannot be read, the others are there all the same.
struct YamlText {
  YamlNode root;  // null when there is none, or nothing of it can be read
  // The keys of `root` under which something is missing; "": the root itself.
  std::set<std::string, std::less<>> damaged;
};
// Problems are added to `problems`.
YamlText ReadYamlText(std::size_t file, std::string_view text, Problems& problems,
                      std::size_t bytes_max = limits::kPolicyFileBytesMax);
// The same for who needs all of it: a null node unless every entry can be read.
YamlNode ReadYaml(std::size_t file, std::string_view text, Problems& problems,
                  std::size_t bytes_max = limits::kPolicyFileBytesMax);

}  // namespace recourse
