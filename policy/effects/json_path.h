// JSONPath (RFC 9535), as much of it as overlays need: names, wildcards, indexes, descendants, and
// filters of one comparison. Pure.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/language/yaml_reader.h"

namespace recourse {

// A node and where it stands: of a map the member's number, of a list the item's. The root has no
// parent.
struct SelectedNode {
  YamlNode* node = nullptr;
  YamlNode* parent = nullptr;
  std::size_t index = 0;
};

class JsonPath {
 public:
  // Fails with what is not understood, and what is accepted.
  static std::expected<JsonPath, std::string> Parse(std::string_view text);

  // In document order, each once: who stands in another one comes after it.
  std::vector<SelectedNode> Select(YamlNode& root) const;

 private:
  friend class JsonPathParser;

  // [?(@.a.b == 'c')]; without a value: whether it is there.
  struct Filter {
    std::vector<std::string> names;
    bool is_equal = true;
    std::optional<YamlNode> value;

    bool Holds(const YamlNode& node) const;
  };
  struct Selector {
    enum class Kind : std::uint8_t { kName, kIndex, kWildcard, kFilter };
    Kind kind = Kind::kWildcard;
    std::string name;
    std::size_t index = 0;
    Filter filter;

    bool Takes(const YamlNode& parent, std::size_t at, const YamlNode& child) const;
  };
  struct Segment {
    bool is_descendant = false;
    std::vector<Selector> selectors;
  };
  static void Walk(const Segment& segment, YamlNode& node, std::vector<SelectedNode>& found);

  std::vector<Segment> segments_;
};

}  // namespace recourse
