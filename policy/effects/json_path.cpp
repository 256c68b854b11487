#include "policy/effects/json_path.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

namespace recourse {
namespace {

std::size_t CountOfChildren(const YamlNode& node) {
  return node.kind == YamlNode::Kind::kMap    ? node.members.size()
         : node.kind == YamlNode::Kind::kList ? node.items.size()
                                              : 0;
}

YamlNode& ChildAt(YamlNode& node, std::size_t index) {
  return node.kind == YamlNode::Kind::kMap ? node.members[index].value : node.items[index];
}

bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || static_cast<unsigned char>(c) >= 0x80;
}

}  // namespace

// Reads from the left; each step that fails leaves why in `problem_`.
class JsonPathParser {
 public:
  explicit JsonPathParser(std::string_view text) : rest_(text) {}

  std::expected<JsonPath, std::string> Read() {
    JsonPath path;
    bool good = Take("$") || Fail();
    while (good && !rest_.empty()) {
      JsonPath::Segment segment;
      good = ReadSegment(segment);
      path.segments_.push_back(std::move(segment));
    }
    if (good) return path;
    return std::unexpected("is not understood from '" + std::string(failed_at_.substr(0, 40)) +
                           "' on; accepted: a JSONPath of names, *, [0], .. and "
                           "[?@.name == 'value'], such as $.paths['/orders'].post");
  }

 private:
  using Selector = JsonPath::Selector;

  bool Take(std::string_view token) {
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  bool Fail() {
    if (failed_at_.empty()) failed_at_ = rest_.empty() ? "its end" : rest_;
    return false;
  }
  void SkipSpaces() {
    while (Take(" ")) {
    }
  }

  bool ReadSegment(JsonPath::Segment& segment) {
    segment.is_descendant = Take("..");
    if (Take("[")) return ReadBracket(segment);
    if (!segment.is_descendant && !Take(".")) return Fail();
    Selector selector;
    if (!Take("*")) {
      selector.kind = Selector::Kind::kName;
      if (!ReadName(selector.name)) return false;
    }
    segment.selectors.push_back(std::move(selector));
    return true;
  }
  bool ReadName(std::string& name) {
    const auto end = std::find_if_not(rest_.begin(), rest_.end(), IsNameByte);
    name.assign(rest_.begin(), end);
    rest_.remove_prefix(name.size());
    return !name.empty() || Fail();
  }

  bool ReadBracket(JsonPath::Segment& segment) {
    do {
      SkipSpaces();
      Selector selector;
      if (!ReadSelector(selector)) return false;
      segment.selectors.push_back(std::move(selector));
      SkipSpaces();
    } while (Take(","));
    return Take("]") || Fail();
  }
  bool ReadSelector(Selector& selector) {
    if (Take("*")) return true;
    if (Take("?")) {
      selector.kind = Selector::Kind::kFilter;
      return ReadFilter(selector.filter);
    }
    if (rest_.starts_with('\'') || rest_.starts_with('"')) {
      selector.kind = Selector::Kind::kName;
      return ReadQuoted(selector.name);
    }
    selector.kind = Selector::Kind::kIndex;
    const auto read = std::from_chars(rest_.data(), rest_.data() + rest_.size(), selector.index);
    if (read.ec != std::errc()) return Fail();
    rest_.remove_prefix(static_cast<std::size_t>(read.ptr - rest_.data()));
    return true;
  }
  bool ReadQuoted(std::string& text) {
    const char quote = rest_.front();
    for (std::size_t i = 1; i < rest_.size(); ++i) {
      if (rest_[i] == quote) {
        rest_.remove_prefix(i + 1);
        return true;
      }
      if (rest_[i] == '\\' && ++i == rest_.size()) break;
      // Other escapes than those of the quotes and of itself would need all of JSON's.
      if (rest_[i - 1] == '\\' && rest_[i] != '\\' && rest_[i] != '\'' && rest_[i] != '"') break;
      text.push_back(rest_[i]);
    }
    return Fail();
  }

  bool ReadFilter(JsonPath::Filter& filter) {
    SkipSpaces();
    const bool has_brace = Take("(");
    SkipSpaces();
    if (!Take("@")) return Fail();
    while (rest_.starts_with('.') || rest_.starts_with('[')) {
      std::string name;
      const bool is_good =
          Take(".") ? ReadName(name)
                    : Take("[") && !rest_.empty() && ReadQuoted(name) && (Take("]") || Fail());
      if (!is_good) return Fail();
      filter.names.push_back(std::move(name));
    }
    SkipSpaces();
    filter.is_equal = !rest_.starts_with("!=");
    if ((Take("==") || Take("!=")) && !ReadValue(filter)) return false;
    SkipSpaces();
    return !has_brace || Take(")") || Fail();
  }
  bool ReadValue(JsonPath::Filter& filter) {
    SkipSpaces();
    YamlNode value;
    value.kind = YamlNode::Kind::kScalar;
    if (rest_.starts_with('\'') || rest_.starts_with('"')) {
      value.is_quoted = true;
      if (!ReadQuoted(value.text)) return false;
    } else {
      const auto end = std::min(rest_.find_first_of(" )],"), rest_.size());
      value.text = rest_.substr(0, end);
      rest_.remove_prefix(end);
      if (value.text.empty()) return Fail();
    }
    filter.value = std::move(value);
    return true;
  }

  std::string_view rest_;
  std::string_view failed_at_;
};

std::expected<JsonPath, std::string> JsonPath::Parse(std::string_view text) {
  return JsonPathParser(text).Read();
}

bool JsonPath::Filter::Holds(const YamlNode& node) const {
  const YamlNode* at = &node;
  for (const std::string& name : names) {
    at = at->kind == YamlNode::Kind::kMap ? at->Find(name) : nullptr;
    if (at == nullptr) return value.has_value() && !is_equal;
  }
  if (!value) return true;
  const bool is_same = at->kind == YamlNode::Kind::kScalar && at->text == value->text;
  return is_same == is_equal;
}

bool JsonPath::Selector::Takes(const YamlNode& parent, std::size_t at,
                               const YamlNode& child) const {
  switch (kind) {
    case Kind::kWildcard:
      return true;
    case Kind::kName:
      return parent.kind == YamlNode::Kind::kMap && parent.members[at].name == name;
    case Kind::kIndex:
      return parent.kind == YamlNode::Kind::kList && at == index;
    case Kind::kFilter:
      break;
  }
  return filter.Holds(child);
}

void JsonPath::Walk(const Segment& segment, YamlNode& node, std::vector<SelectedNode>& found) {
  for (std::size_t i = 0; i < CountOfChildren(node); ++i) {
    YamlNode& child = ChildAt(node, i);
    const bool is_taken = std::ranges::any_of(segment.selectors, [&](const Selector& selector) {
      return selector.Takes(node, i, child);
    });
    if (is_taken) found.push_back({&child, &node, i});
    if (segment.is_descendant) Walk(segment, child, found);
  }
}

std::vector<SelectedNode> JsonPath::Select(YamlNode& root) const {
  std::vector<SelectedNode> selected{{&root, nullptr, 0}};
  for (const Segment& segment : segments_) {
    std::vector<SelectedNode> next;
    for (const SelectedNode& at : selected) Walk(segment, *at.node, next);
    std::set<const YamlNode*> seen;
    std::erase_if(next, [&](const SelectedNode& one) { return !seen.insert(one.node).second; });
    selected = std::move(next);
  }
  return selected;
}

}  // namespace recourse
