#include "policy/model/route_tree.h"

#include <algorithm>

#include "policy/model/approval_need.h"
#include "policy/model/policy.h"
#include "policy/model/route_table.h"
#include "policy/uri/path.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

constexpr std::string_view kRest = "/**";
constexpr std::string_view kNoExpressions =
    "no regular expressions and no other wildcards; use /orders/{id} for one segment of any value, "
    "or /** at the end";

// Cuts the first segment off `path`, which starts with '/'.
std::string_view TakeSegment(std::string_view& path) {
  path.remove_prefix(1);
  const auto end = std::min(path.find('/'), path.size());
  const std::string_view segment = path.substr(0, end);
  path.remove_prefix(end);
  return segment;
}

bool IsCapture(std::string_view segment) {
  return segment.starts_with('{') && segment.ends_with('}');
}

bool IsCaptureName(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

}  // namespace

RoutePattern ParsePattern(std::string_view pattern) {
  RoutePattern route;
  route.has_rest = pattern.ends_with(kRest);
  if (route.has_rest) pattern.remove_suffix(kRest.size());
  while (!pattern.empty()) {
    const std::string_view segment = TakeSegment(pattern);
    const bool is_capture = IsCapture(segment);
    const std::string_view text = is_capture ? segment.substr(1, segment.size() - 2) : segment;
    route.segments.push_back({std::string(text), is_capture});
  }
  return route;
}

std::string_view CheckPattern(std::string_view pattern) {
  if (pattern.starts_with('^')) return kNoExpressions;
  if (!pattern.starts_with('/')) return "a path starts with '/'";
  if (pattern.size() > limits::kTargetBytesMax) return "the path is too long";
  std::string_view rest = pattern;
  if (rest.ends_with(kRest)) rest.remove_suffix(kRest.size());
  std::string literal;
  std::vector<std::string_view> names;
  std::size_t segments = 0;
  while (!rest.empty()) {
    const std::string_view segment = TakeSegment(rest);
    if (++segments > 32) return "a path has at most 32 segments";
    if (IsCapture(segment)) {
      const std::string_view name = segment.substr(1, segment.size() - 2);
      if (!IsCaptureName(name)) return "a capture is {name} with letters, digits and '_'";
      if (std::find(names.begin(), names.end(), name) != names.end()) {
        return "two captures of one path have the same name";
      }
      names.push_back(name);
      literal += "/x";
      continue;
    }
    if (segment.find_first_of("{}") != std::string_view::npos) {
      return "a capture is a whole segment: /orders/{id}";
    }
    // Brackets and backslashes stand in no path as they are (RFC 3986, 3.3).
    if (segment.find_first_of("*[]^\\|") != std::string_view::npos) return kNoExpressions;
    // Captures as other routers have them: no API has such a word.
    if (segment.starts_with(':') || segment.starts_with('<')) return kNoExpressions;
    literal += '/';
    literal += segment;
  }
  if (names.size() > kCapturesMax) return "a path has at most 8 captures";
  if (literal.empty()) return {};
  std::string scratch;
  const auto canonical = CanonicalPath(literal, scratch);
  if (!canonical) return canonical.error().detail();
  if (*canonical != literal) {
    return "write the path in its canonical form: no escapes of plain characters, upper-case hex";
  }
  return {};
}

void RouteTree::Add(const RoutePattern& pattern, std::string_view method, const Tool* tool) {
  Node* node = &root_;
  Entry entry{std::string(method), tool, {}, !pattern.has_rest};
  for (const auto& segment : pattern.segments) {
    std::unique_ptr<Node>& next = segment.is_capture ? node->capture : node->literals[segment.text];
    if (!next) next = std::make_unique<Node>();
    node = next.get();
    if (segment.is_capture) {
      entry.names.push_back(segment.text);
      entry.is_literal = false;
    }
  }
  auto& entries = pattern.has_rest ? node->rest : node->here;
  const auto same = std::find_if(entries.begin(), entries.end(),
                                 [&](const Entry& other) { return other.method == method; });
  if (same == entries.end()) {
    entries.push_back(std::move(entry));
  } else if (on_same_ == OnSame::kKeepStrictest &&
             StrictnessOf(*tool) > StrictnessOf(*same->tool)) {
    *same = std::move(entry);
  }
}

const RouteTree::Entry* RouteTree::FindMethod(const std::vector<Entry>& entries,
                                              std::string_view method) {
  const Entry* found = nullptr;
  int best = 0;
  for (const Entry& entry : entries) {
    if (entry.method == method) return &entry;
    const int rank = entry.method == "GET" && method == "HEAD" ? 2 : entry.method == "*" ? 1 : 0;
    if (rank > best) {
      best = rank;
      found = &entry;
    }
  }
  return found;
}

// Recursion is as deep as the deepest pattern, which CheckPattern bounds; every node is reached by
// one path only, so it is visited at most once.
bool RouteTree::FindBelow(const Node& node, std::string_view path, std::string_view method,
                          Found& found) const {
  if (path.empty()) {
    found.entry = FindMethod(node.here, method);
  } else {
    std::string_view below = path;
    const std::string_view segment = TakeSegment(below);
    if (const auto next = node.literals.find(segment); next != node.literals.end()) {
      if (FindBelow(*next->second, below, method, found)) return true;
    }
    if (node.capture && !segment.empty() && found.value_count < found.values.size()) {
      found.values[found.value_count++] = segment;
      if (FindBelow(*node.capture, below, method, found)) return true;
      --found.value_count;
    }
  }
  if (found.entry == nullptr) found.entry = FindMethod(node.rest, method);
  return found.entry != nullptr;
}

bool RouteTree::Find(std::string_view path, std::string_view method, Found& found) const {
  found.entry = nullptr;
  found.value_count = 0;
  return FindBelow(root_, path, method, found);
}

int StrictnessOf(const Tool& tool) {
  if (tool.effect == Effect::kRead) return 0;
  return AsksAboutCalls(tool) ? 3 : 2;
}

}  // namespace recourse
