#include "policy/suggest/seen_tools.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "policy/suggest/told_names.h"

namespace recourse {
namespace {

// So many words at one position have to come from one place of earlier answers, and nearly all.
constexpr std::size_t kNamesMin = 5;
// So many of them are names already before a word is one because it is used alike.
constexpr std::size_t kAlikeMin = 2;

std::vector<std::string> SplitPath(std::string_view path) {
  std::vector<std::string> segments;
  while (path.starts_with('/')) {
    path.remove_prefix(1);
    const auto end = std::min(path.find('/'), path.size());
    segments.emplace_back(path.substr(0, end));
    path.remove_prefix(end);
  }
  return segments;
}

class PathSorter {
  using ByWord = std::map<std::string, std::vector<std::size_t>>;

 public:
  explicit PathSorter(const std::vector<Sighting>& seen) : seen_(seen), told_(seen) {}

  // Those calls have one backend and begin with `prefix`.
  void Sort(const std::vector<std::size_t>& calls, std::vector<std::string>& prefix) {
    const std::size_t depth = prefix.size();
    ByWord by_word, by_method;
    for (const std::size_t call : calls) {
      const Sighting& sighting = seen_[call];
      if (sighting.path.size() == depth) {
        by_method[sighting.method].push_back(call);
      } else {
        by_word[sighting.path[depth].word].push_back(call);
      }
    }
    for (auto& [method, of] : by_method) {
      tools.push_back({seen_[of.front()].backend, method, prefix, {}, std::move(of)});
    }
    Promote(depth, by_word);
    for (const auto& [word, of] : by_word) {
      prefix.push_back(word.empty() ? CaptureFor(prefix) : word);
      Sort(of, prefix);
      prefix.pop_back();
    }
  }

  std::vector<SeenTool> tools;

 private:
  void Promote(std::size_t depth, ByWord& by_word) const {
    std::set<std::string> names = ToldAlike(depth, by_word);
    for (const auto& [word, of] : by_word) {
      if (depth > 0 && !word.empty() && IsName(depth, word, by_word)) names.insert(word);
    }
    if (names.empty()) return;
    AddAlike(depth, by_word, names);
    for (const std::string& name : names) {
      auto node = by_word.extract(name);
      auto& ids = by_word[""];
      ids.insert(ids.end(), node.mapped().begin(), node.mapped().end());
    }
    std::ranges::sort(by_word[""]);
  }

  // Words that were told by answers before they stood in a path, most of those there are.
  std::set<std::string> ToldAlike(std::size_t depth, const ByWord& by_word) const {
    std::map<std::string_view, std::set<std::string>> words_of;  // by place
    std::size_t words = 0;
    for (const auto& [word, of] : by_word) {
      if (word.empty()) continue;
      ++words;
      const std::string_view place = told_.PlaceOf(seen_[of.front()], depth);
      if (!place.empty()) words_of[place].insert(word);
    }
    for (auto& [place, names] : words_of) {
      if (names.size() >= kNamesMin && names.size() * 5 >= words * 4) return std::move(names);
    }
    return {};
  }

  // The words that come next below one of this depth.
  std::set<std::string_view> Below(std::size_t depth, const std::vector<std::size_t>& calls) const {
    std::set<std::string_view> words;
    for (const std::size_t call : calls) {
      const auto& path = seen_[call].path;
      if (path.size() > depth + 1 && !path[depth + 1].word.empty()) {
        words.insert(path[depth + 1].word);
      }
    }
    return words;
  }

  // A list tells its first items alone: what is used as those are is one of them.
  void AddAlike(std::size_t depth, const ByWord& by_word, std::set<std::string>& names) const {
    if (names.size() < kAlikeMin) return;
    std::set<std::string_view> below;
    for (const std::string& name : names) below.merge(Below(depth, by_word.at(name)));
    for (const auto& [word, of] : by_word) {
      const auto own = Below(depth, of);
      if (!word.empty() && !own.empty() && std::ranges::includes(below, own)) names.insert(word);
    }
  }

  bool IsName(std::size_t depth, const std::string& word, const ByWord& by_word) const {
    const std::vector<std::size_t>& calls = by_word.at(word);
    const auto is_told = [&](std::size_t call) { return told_.WasTold(seen_[call], depth); };
    if (std::ranges::any_of(calls, is_told)) return true;
    if (!EndsInNumber(word)) return false;
    const auto is_like_it = [&](const auto& other) {
      return other.first.empty() || (other.first != word && EndsInNumber(other.first) &&
                                     other.first.size() == word.size() &&
                                     other.first.starts_with(word.substr(0, word.size() - 1)));
    };
    // What is replaced or deleted is one thing.
    const auto is_changed = [&](std::size_t call) {
      const std::string& method = seen_[call].method;
      return seen_[call].path.size() == depth + 1 &&
             (method == "PUT" || method == "PATCH" || method == "DELETE");
    };
    return word.size() == 2 || std::ranges::any_of(by_word, is_like_it) ||
           std::ranges::any_of(calls, is_changed);
  }

  static std::string CaptureFor(const std::vector<std::string>& prefix) {
    const auto number = std::ranges::count_if(prefix, NamesOne) + 1;
    return number == 1 ? "{id}" : "{id" + std::to_string(number) + "}";
  }

  const std::vector<Sighting>& seen_;
  const ToldNames told_;
};

// Tools of MCP servers, by backend and name; those that a server has called read-only whenever it
// listed them are that.
std::vector<SeenTool> McpToolsOf(const std::vector<Sighting>& seen) {
  using Name = std::pair<std::string, std::string>;
  std::map<Name, SeenTool> tools;
  std::map<Name, bool> hints;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const Sighting& call = seen[i];
    for (const SeenHint& hint : call.hints) {
      const auto [at, is_new] = hints.try_emplace({call.backend, hint.tool}, hint.is_read_only);
      at->second = at->second && hint.is_read_only;
    }
    if (!call.IsMcpCall()) continue;
    const std::string& name = call.path.front().word;
    SeenTool& tool = tools[{call.backend, name}];
    tool.backend = call.backend;
    tool.method = call.method;
    tool.name = name;
    tool.segments = {name};
    tool.calls.push_back(i);
  }
  std::vector<SeenTool> out;
  for (auto& [name, tool] : tools) {
    const auto hint = hints.find(name);
    tool.is_read_only = hint != hints.end() && hint->second;
    out.push_back(std::move(tool));
  }
  return out;
}

struct DescribedPath {
  const KnownOperation* operation;
  std::vector<std::string> segments;
  std::ptrdiff_t literals;
};

bool Fits(const DescribedPath& path, const Sighting& call) {
  if (path.operation->method != call.method || path.segments.size() != call.path.size()) {
    return false;
  }
  for (std::size_t i = 0; i < call.path.size(); ++i) {
    if (!NamesOne(path.segments[i]) && path.segments[i] != call.path[i].word) return false;
  }
  return true;
}

// One with captures that are whole segments; others have no form in a policy.
std::optional<DescribedPath> DescribedPathOf(const KnownOperation& operation) {
  DescribedPath path{&operation, SplitPath(operation.path), 0};
  std::set<std::string> names;
  for (std::string& segment : path.segments) {
    const bool has_capture = segment.find_first_of("{}") != std::string::npos;
    if (!has_capture) {
      ++path.literals;
      continue;
    }
    if (segment.size() < 3 || !segment.starts_with('{') || segment.find('}') + 1 != segment.size())
      return std::nullopt;
    for (char& c : segment) {
      const bool is_good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           (c >= '0' && c <= '9') || c == '_' || c == '{' || c == '}';
      if (!is_good) c = '_';
    }
    if (!names.insert(segment).second) return std::nullopt;
  }
  return path;
}

}  // namespace

std::string SeenTool::Match() const {
  return method + " " + backend + " " + (IsMcp() ? segments.front() : Pattern());
}

std::string SeenTool::Pattern() const {
  std::string out;
  for (const std::string& segment : segments) out += "/" + segment;
  return out.empty() ? "/" : out;
}

std::vector<SeenTool> ToolsOf(const std::vector<Sighting>& seen,
                              const std::vector<KnownOperation>& known) {
  std::vector<DescribedPath> paths;
  for (const KnownOperation& operation : known) {
    if (auto path = DescribedPathOf(operation)) paths.push_back(std::move(*path));
  }
  std::ranges::sort(paths, [](const DescribedPath& a, const DescribedPath& b) {
    return std::tuple(-a.literals, a.operation) < std::tuple(-b.literals, b.operation);
  });
  std::map<std::string, std::vector<std::size_t>> by_backend;
  std::map<std::pair<std::string, const KnownOperation*>, SeenTool> described;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (seen[i].IsMcpCall() || !seen[i].hints.empty()) continue;
    const auto fit =
        std::ranges::find_if(paths, [&](const DescribedPath& path) { return Fits(path, seen[i]); });
    if (fit == paths.end()) {
      by_backend[seen[i].backend].push_back(i);
      continue;
    }
    SeenTool& tool = described[{seen[i].backend, fit->operation}];
    tool.backend = seen[i].backend;
    tool.method = seen[i].method;
    tool.segments = fit->segments;
    tool.name = fit->operation->name;
    tool.calls.push_back(i);
  }
  PathSorter sorter(seen);
  for (const auto& [backend, calls] : by_backend) {
    std::vector<std::string> prefix;
    sorter.Sort(calls, prefix);
  }
  for (auto& [key, tool] : described) sorter.tools.push_back(std::move(tool));
  for (SeenTool& tool : McpToolsOf(seen)) sorter.tools.push_back(std::move(tool));
  std::ranges::sort(sorter.tools, [](const SeenTool& a, const SeenTool& b) {
    return std::tie(a.backend, a.segments, a.method) < std::tie(b.backend, b.segments, b.method);
  });
  return std::move(sorter.tools);
}

}  // namespace recourse
