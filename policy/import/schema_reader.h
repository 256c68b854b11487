// Schemas of an OpenAPI description: what a body or an answer has in it.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "policy/language/yaml_reader.h"

namespace recourse {

class SchemaReader {
 public:
  using Note = std::function<void(std::string)>;

  // `root`: the description. `note` is told what cannot be understood.
  SchemaReader(const YamlNode& root, Note note) : root_(root), note_(std::move(note)) {}

  // The node itself, or what its $ref names; nullptr when that cannot be followed.
  const YamlNode* Resolve(const YamlNode* node) const;

  struct Content {
    const YamlNode* schema = nullptr;
    bool is_form = false;
  };
  // The first JSON or form content of a body or an answer.
  Content ContentOf(const YamlNode* holder) const;

  // JSON pointers of required members that look like ids, of this object and of required objects in
  // it.
  std::vector<std::string> RequiredIds(const YamlNode* schema) const;

  // The members of an object: all, those that are not readOnly, or those that by name or kind are a
  // secret, or hold one, which most APIs show as asterisks.
  enum class Wanted { kAll, kWritable, kSecret };
  std::set<std::string> Members(const YamlNode* schema, Wanted wanted) const;

  // Where the answer of a list has its elements: "", "/data"; nullopt: it is no list.
  std::optional<std::string> ListIn(const YamlNode* schema) const;

 private:
  const YamlNode* Follow(std::string_view ref) const;
  void CollectIds(const YamlNode* schema, const std::string& pointer, int depth,
                  std::vector<std::string>& ids) const;
  bool HoldsSecret(const std::string& name, const YamlNode* schema, int depth) const;
  void CollectMembers(const YamlNode* schema, Wanted wanted, int depth,
                      std::set<std::string>& names) const;

  const YamlNode& root_;
  const Note note_;
};

// The text of a scalar, or empty.
std::string DescribedText(const YamlNode* node);

}  // namespace recourse
