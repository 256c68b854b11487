#include "policy/language/yaml_reader.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <tuple>
#include <unordered_map>

#include "policy/files/yaml_fault.h"
#include "proxy/base/json/json.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

constexpr std::size_t kDepthMax = 64;
constexpr std::size_t kFaultsMax = 10;  // that one reading tells of

// Builds the tree. Aliases and anchors leave a null node behind, so that reading goes on and finds
// the other problems too.
class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(std::size_t file, Problems& problems) : file_(file), problems_(problems) {}

  void OnDocumentStart(const YAML::Mark& mark) override { start_ = PlaceOf(mark); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    RefuseAnchor(mark, anchor);
    YamlNode node;
    node.place = PlaceOf(mark);
    Add(std::move(node));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    problems_.Error(PlaceOf(mark), Key(), "aliases are not accepted; write the value out");
    OnNull(mark, YAML::NullAnchor);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    RefuseAnchor(mark, anchor);
    RefuseTag(mark, tag);
    YamlNode node;
    node.kind = YamlNode::Kind::kScalar;
    node.place = PlaceOf(mark);
    node.text = value;
    node.is_quoted = tag == "!";
    last_quote_ = node.is_quoted ? static_cast<std::size_t>(mark.pos) : std::string::npos;
    Add(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(YamlNode::Kind::kList, mark, tag, anchor);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(YamlNode::Kind::kMap, mark, tag, anchor);
  }
  void OnMapEnd() override { Close(); }

  YamlNode TakeRoot() { return std::move(root_); }
  bool is_too_deep() const { return levels_.size() >= kDepthMax; }
  Place start() const { return start_; }  // of the document
  // Where the last scalar begins, if it is in quotes; else npos.
  std::size_t last_quote() const { return last_quote_; }
  // The section in which an entry stands too far right; empty: none.
  const std::string& displaced_in() const { return displaced_in_; }

 private:
  struct Level {
    YamlNode node;
    bool has_name = false;  // kMap: a name was read and its value comes next
    std::string name;
    Place name_place;
    std::unordered_map<std::string, int> lines;  // where each name stood first
    bool is_displaced = false;                   // what follows is no part of this map
  };

  Place PlaceOf(const YAML::Mark& mark) const { return {file_, mark.line + 1, mark.column + 1}; }

  std::string Key() const {
    std::string key;
    for (const Level& level : levels_) {
      if (level.has_name) key += (key.empty() ? "" : ".") + level.name;
    }
    return key;
  }
  void RefuseAnchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor == YAML::NullAnchor) return;
    problems_.Error(PlaceOf(mark), Key(), "anchors are not accepted; write the value out");
  }
  void RefuseTag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    problems_.Error(PlaceOf(mark), Key(), "tags are not accepted");
  }
  void Open(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor) {
    RefuseAnchor(mark, anchor);
    RefuseTag(mark, tag);
    if (levels_.size() >= kDepthMax) throw YAML::ParserException(mark, "nested too deeply");
    Level level;
    level.node.kind = kind;
    level.node.place = PlaceOf(mark);
    levels_.push_back(std::move(level));
  }
  void Close() {
    YamlNode node = std::move(levels_.back().node);
    levels_.pop_back();
    Add(std::move(node));
  }
  void Add(YamlNode node) {
    if (levels_.empty()) {
      root_ = std::move(node);
    } else if (levels_.back().node.kind == YamlNode::Kind::kList) {
      levels_.back().node.items.push_back(std::move(node));
    } else {
      AddToMap(levels_.back(), std::move(node));
    }
  }
  void AddToMap(Level& level, YamlNode node) {
    if (!level.has_name) {
      if (node.kind == YamlNode::Kind::kList || node.kind == YamlNode::Kind::kMap) {
        problems_.Error(node.place, Key(), "a key must be plain text");
      }
      level.has_name = true;
      level.name = node.kind == YamlNode::Kind::kScalar ? node.text : "null";
      level.name_place = node.place;
      return;
    }
    // A missing value has the place of whatever comes next; its name says more.
    if (node.kind == YamlNode::Kind::kNull) node.place = level.name_place;
    if (!level.is_displaced) TakeMember(level, std::move(node));
    level.has_name = false;
  }
  void TakeMember(Level& level, YamlNode node) {
    const auto [first, is_new] = level.lines.emplace(level.name, level.name_place.line);
    if (!is_new && IsBelowItsHead(level)) {
      const YamlNode::Member head = std::move(level.node.members.back());
      level.node.members.pop_back();
      level.is_displaced = true;
      displaced_in_ = levels_.front().name;
      const std::string twice = std::exchange(level.name, head.name);
      problems_.Error(
          head.name_place, Key(),
          "has no value, and " + twice + " below it is given twice; does it stand too far right?");
    } else if (!is_new) {
      problems_.Error(level.name_place, Key(),
                      "given twice; first in line " + std::to_string(first->second));
    } else {
      level.node.members.push_back({level.name, level.name_place, std::move(node)});
    }
  }
  // Whether the entry before has no value, as one has whose own lines became its neighbours.
  static bool IsBelowItsHead(const Level& level) {
    return !level.node.members.empty() &&
           level.node.members.back().value.kind == YamlNode::Kind::kNull &&
           level.node.members.back().name_place.line + 1 == level.name_place.line;
  }

  const std::size_t file_;
  Problems& problems_;
  std::vector<Level> levels_;
  YamlNode root_;
  Place start_;
  std::string displaced_in_;
  std::size_t last_quote_ = std::string::npos;
};

// The parser takes the end of a file for that of a quote, and all lines up to it for its text.
bool IsClosed(std::string_view text, std::size_t quote) {
  if (quote >= text.size() || (text[quote] != '"' && text[quote] != '\'')) return true;
  for (std::size_t i = quote + 1; i < text.size(); ++i) {
    if (text[i] == '\\' && text[quote] == '"') {
      ++i;
    } else if (text[i] == text[quote]) {
      return true;
    }
  }
  return false;
}

// Where the first byte stands that is not UTF-8; 0: nowhere.
int ColumnOfNotUtf8(std::string_view line) {
  if (IsUtf8(line)) return 0;
  for (std::size_t i = 0; i < line.size();) {
    const auto lead = static_cast<unsigned char>(line[i]);
    const std::size_t length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (!IsUtf8(line.substr(i, length))) return static_cast<int>(i) + 1;
    i += length;
  }
  return 1;
}

// What YAML would read, but people and other tools read in another way. False: do not parse.
bool CheckBytes(std::size_t file, std::string_view text, Problems& problems) {
  if (text.starts_with("\xEF\xBB\xBF")) {
    problems.Error({file, 1, 1}, "",
                   "the file starts with a byte order mark; save it as plain UTF-8");
    return false;
  }
  if (!IsUtf8(text)) {
    for (int number = 1; !text.empty(); ++number) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      if (const int column = ColumnOfNotUtf8(text.substr(0, end)); column > 0) {
        problems.Error({file, number, column}, "", "is not UTF-8; save the file as plain UTF-8");
        return false;
      }
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }
  int line = 1;
  std::size_t line_start = 0;
  bool is_indent = true;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const int column = static_cast<int>(i - line_start) + 1;
    if (c == '\n') {
      ++line;
      line_start = i + 1;
      is_indent = true;
      continue;
    }
    const auto refuse = [&](std::string message) {
      problems.Error({file, line, column}, "", std::move(message));
      return false;
    };
    if (c == '\r') return refuse("the line ends with CR LF; save the file with LF line ends");
    if (c == '\t' && is_indent) return refuse("a tab in the indentation; use spaces");
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f) {
      return refuse("a control character");
    }
    is_indent = is_indent && c == ' ';
  }
  return true;
}

// Where the text could not be read on; nullopt: it could be read to its end.
std::optional<YamlFault> Parse(std::size_t file, const std::string& text, TreeBuilder& builder,
                               Problems& problems) {
  try {
    std::istringstream in{text};
    YAML::Parser parser(in);
    if (!parser.HandleNextDocument(builder)) return std::nullopt;
    if (!IsClosed(text, builder.last_quote())) {
      return FindYamlFault(text, std::numeric_limits<int>::max());
    }
    TreeBuilder rest(file, problems);
    if (parser.HandleNextDocument(rest)) {
      if (auto fault = FindYamlFault(text, std::numeric_limits<int>::max())) return fault;
      problems.Error(rest.start(), "",
                     "a second document begins here; one document per file is accepted");
    }
    return std::nullopt;
  } catch (const YAML::Exception& error) {
    const bool has_place = !error.mark.is_null();
    const int line = has_place ? error.mark.line + 1 : 0;
    if (!builder.is_too_deep()) {
      auto fault = FindYamlFault(text, has_place ? line : std::numeric_limits<int>::max());
      if (fault) return fault;
    }
    return YamlFault{
        line, has_place ? error.mark.column + 1 : 0, "not valid YAML: " + error.msg, 0, 0, {}, {}};
  }
}

// The lines stay, so that places do.
void LeaveOut(std::string& text, const YamlFault& fault) {
  int line = 1;
  for (char& c : text) {
    if (c == '\n') {
      ++line;
    } else if (line >= fault.first_line && line <= fault.last_line) {
      c = ' ';
    }
  }
}

}  // namespace

const YamlNode* YamlNode::Find(std::string_view name) const {
  const auto found = std::find_if(members.begin(), members.end(),
                                  [name](const Member& member) { return member.name == name; });
  return found == members.end() ? nullptr : &found->value;
}

std::size_t Problems::AddFile(std::string name) {
  files_.push_back(std::move(name));
  return files_.size() - 1;
}

void Problems::Add(PolicyProblem::Severity severity, const Place& place, std::string key,
                   std::string message, bool is_of_absent) {
  const bool is_error = severity == PolicyProblem::Severity::kError;
  if (++(is_error ? errors_ : warnings_) > limits::kPolicyProblemsMax) return;
  PolicyProblem problem = At(place, std::move(key));
  problem.severity = severity;
  problem.message = std::move(message);
  problems_.push_back({place, std::move(problem), is_of_absent});
}

PolicyProblem Problems::At(const Place& place, std::string key) const {
  PolicyProblem problem;
  problem.file = files_[place.file];
  problem.line = place.line;
  problem.column = place.column;
  problem.key = std::move(key);
  return problem;
}

std::string Problems::NameOf(const Place& place) const {
  return files_[place.file] + ':' + std::to_string(place.line) + ':' + std::to_string(place.column);
}

void Problems::Error(const Place& place, std::string key, std::string message) {
  Add(PolicyProblem::Severity::kError, place, std::move(key), std::move(message));
}

void Problems::ErrorOfAbsent(const Place& place, std::string key, std::string message) {
  Add(PolicyProblem::Severity::kError, place, std::move(key), std::move(message), true);
}

void Problems::Warn(const Place& place, std::string key, std::string message) {
  Add(PolicyProblem::Severity::kWarning, place, std::move(key), std::move(message));
}

std::vector<PolicyProblem> Problems::Take() {
  std::erase_if(problems_, [&](const Found& found) {
    return found.is_of_absent && misspelled_.contains(found.problem.key);
  });
  std::sort(problems_.begin(), problems_.end(), [](const Found& a, const Found& b) {
    const auto order = [](const Found& one) {
      return std::tie(one.problem.severity, one.place.file, one.place.line, one.place.column,
                      one.problem.key, one.problem.message);
    };
    return order(a) < order(b);
  });
  std::vector<PolicyProblem> out;
  for (Found& found : problems_) out.push_back(std::move(found.problem));
  problems_.clear();
  const auto tell_rest = [&](std::size_t found, PolicyProblem::Severity severity,
                             const char* what) {
    if (found <= limits::kPolicyProblemsMax) return;
    PolicyProblem rest;
    rest.severity = severity;
    rest.file = files_.front();
    rest.message = std::to_string(found - limits::kPolicyProblemsMax) + " more " + what +
                   " are not listed; mend these first";
    out.push_back(std::move(rest));
  };
  tell_rest(errors_, PolicyProblem::Severity::kError, "errors");
  tell_rest(warnings_, PolicyProblem::Severity::kWarning, "warnings");
  return out;
}

YamlText ReadYamlText(std::size_t file, std::string_view text, Problems& problems,
                      std::size_t bytes_max) {
  if (text.size() > bytes_max) {
    problems.Error({file, 0, 0}, "",
                   "the file is larger than " + std::to_string(bytes_max >> 20) + " MiB");
    return {};
  }
  if (!CheckBytes(file, text, problems)) return {};
  YamlText read;
  std::string left(text);
  for (std::size_t faults = 0; faults < kFaultsMax; ++faults) {
    Problems also = problems;  // what is said of a text that is read again is said once
    TreeBuilder builder(file, also);
    const auto fault = Parse(file, left, builder, also);
    if (!fault) {
      problems = std::move(also);
      read.root = builder.TakeRoot();
      if (!builder.displaced_in().empty()) read.damaged.insert(builder.displaced_in());
      return read;
    }
    // What only leaving out made of it is no fault of the writer's.
    if (fault->first_line > 0 || faults == 0) {
      problems.Error({file, fault->line, fault->column}, "", fault->message);
    }
    read.damaged.insert(fault->section);
    if (!fault->displaced.empty()) read.damaged.insert(fault->displaced);
    if (fault->first_line == 0) return read;
    LeaveOut(left, *fault);
  }
  read.damaged.insert("");
  return read;
}

YamlNode ReadYaml(std::size_t file, std::string_view text, Problems& problems,
                  std::size_t bytes_max) {
  YamlText read = ReadYamlText(file, text, problems, bytes_max);
  return read.damaged.empty() ? std::move(read.root) : YamlNode();
}

}  // namespace recourse
