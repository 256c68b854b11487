// The routes of one backend: one hash lookup per path segment, so the cost of a match grows with
// the depth of the path and not with the number of routes.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace recourse {

struct Tool;

// Lets maps of strings be searched by views without allocation.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};
template <class Value>
using TextMap = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

// A parsed pattern: literal segments, captures, and whether a trailing /** follows.
struct RoutePattern {
  struct Segment {
    std::string text;  // the literal, or the name of the capture
    bool is_capture = false;
  };
  std::vector<Segment> segments;
  bool has_rest = false;
};

// `pattern` was checked by the loader (CheckPattern); anything else gives an unspecified route.
RoutePattern ParsePattern(std::string_view pattern);

// Why `pattern` is not one, as a static reason that says what is accepted; empty when it is fine.
std::string_view CheckPattern(std::string_view pattern);

class RouteTree {
 public:
  struct Entry {
    std::string method;  // "*": any
    const Tool* tool = nullptr;
    std::vector<std::string> names;  // of the captures, left to right
    bool is_literal = false;         // no capture and no rest: the policy names this very path
  };
  struct Found {
    const Entry* entry = nullptr;
    std::array<std::string_view, 8> values;
    std::size_t value_count = 0;
  };
  // What to do when two tools have the same pattern and method.
  enum class OnSame { kKeepFirst, kKeepStrictest };

  explicit RouteTree(OnSame on_same) : on_same_(on_same) {}

  void Add(const RoutePattern& pattern, std::string_view method, const Tool* tool);

  // `path` is canonical. Literal beats capture beats rest, from left to right; a route that has not
  // the method does not count, and HEAD is served by a route for GET. False when nothing matches.
  bool Find(std::string_view path, std::string_view method, Found& found) const;

 private:
  struct Node {
    TextMap<std::unique_ptr<Node>> literals;
    std::unique_ptr<Node> capture;
    std::vector<Entry> here, rest;
  };
  static const Entry* FindMethod(const std::vector<Entry>& entries, std::string_view method);
  bool FindBelow(const Node& node, std::string_view path, std::string_view method,
                 Found& found) const;

  OnSame on_same_;
  Node root_;
};

// How much care a tool asks for: the higher of two readings of one path decides.
int StrictnessOf(const Tool& tool);
// Between the strictness of a read (0) and of a write tool (2): an unlisted write that is guarded.
inline constexpr int kGuardedStrictness = 1;

}  // namespace recourse
