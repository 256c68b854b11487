#include "policy/files/yaml_fault.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace recourse {
namespace {

struct Line {
  std::string_view text;
  std::size_t indent = 0;
  bool is_blank = false;  // or a comment
};

std::vector<Line> LinesOf(std::string_view text) {
  std::vector<Line> lines;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    Line line{text.substr(0, end)};
    line.indent = std::min(line.text.find_first_not_of(' '), line.text.size());
    line.is_blank = line.indent == line.text.size() || line.text[line.indent] == '#';
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// An entry of a block: a key or a dash.
struct Level {
  enum class Value : std::uint8_t { kNone, kPlain, kWhole };
  std::size_t indent = 0;
  bool is_list = false;
  std::size_t line = 0;
  std::string key;
  Value value = Value::kNone;
  std::size_t value_line = 0;   // of a plain value below its key
  std::size_t entries = 1;      // so far, at this indent
  std::size_t first_line = 0;   // of those
  bool is_first_empty = false;  // it had no value when the second came
};

struct Bracket {
  char opened;
  std::size_t line, column;
  bool has_colon = false;  // since the last comma
};

constexpr std::string_view kNoKey = "no key: a line here is `key: value`; is a ': ' missing?";

bool IsSpace(char c) { return c == ' ' || c == '\t'; }

class Scanner {
 public:
  explicit Scanner(std::vector<Line> lines) : lines_(std::move(lines)) {}

  std::optional<YamlFault> Run(std::size_t lines_max) {
    while (at_ < lines_.size() && at_ < lines_max && !fault_) ScanLine();
    return std::move(fault_);
  }

 private:
  const Line& line() const { return lines_[at_]; }
  std::string_view text() const { return lines_[at_].text; }
  bool AtEnd() const { return column_ >= text().size(); }
  char here() const { return text()[column_]; }

  void SkipSpaces() {
    while (!AtEnd() && IsSpace(here())) ++column_;
    if (!AtEnd() && here() == '#' && (column_ == 0 || IsSpace(text()[column_ - 1]))) {
      column_ = text().size();
    }
  }
  void NextLine() {
    ++at_;
    column_ = 0;
  }

  void Fail(std::size_t line, std::size_t column, std::string message) {
    if (fault_) return;
    fault_ = YamlFault{
        static_cast<int>(line) + 1, static_cast<int>(column) + 1, std::move(message), 0, 0, {}, {}};
    const bool is_inside = !levels_.empty() && lines_[line].indent > 0;
    const Level* const entry = !is_inside           ? nullptr
                               : levels_.size() > 1 ? &levels_[1]
                                                    : &levels_.front();
    if (is_inside) fault_->section = levels_.front().key;
    const std::size_t first = entry == nullptr ? line : std::min(entry->line, line);
    const std::size_t indent = std::min(entry == nullptr ? 0 : entry->indent, lines_[line].indent);
    std::size_t last = std::max(line, first);
    while (last + 1 < lines_.size() &&
           (lines_[last + 1].is_blank || lines_[last + 1].indent > indent)) {
      ++last;
    }
    fault_->first_line = static_cast<int>(first) + 1;
    fault_->last_line = static_cast<int>(last) + 1;
  }

  void ScanLine() {
    const std::string_view whole = text();
    if (line().is_blank || whole.starts_with("---") || whole.starts_with("...") ||
        whole.starts_with('%')) {
      return NextLine();
    }
    column_ = line().indent;
    while (!AtEnd() && here() == '-' &&
           (column_ + 1 == whole.size() || whole[column_ + 1] == ' ')) {
      if (!Enter(/*is_list=*/true, {})) return;
      ++column_;
      SkipSpaces();
    }
    if (AtEnd()) return NextLine();
    ScanEntry();
  }

  // A key with its value, or a value alone.
  void ScanEntry() {
    const std::size_t begin = column_;
    const std::size_t colon = ColonOfKey();
    if (fault_) return;
    if (colon == std::string_view::npos) return ScanValueAlone(begin);
    column_ = begin;
    std::string key(text().substr(begin, colon - begin));
    if (!Enter(/*is_list=*/false, std::move(key))) return;
    column_ = colon + 1;
    SkipSpaces();
    if (AtEnd()) return NextLine();
    ScanValue();
  }

  // Where the colon of a key stands that begins here; npos: no key does.
  std::size_t ColonOfKey() {
    const std::string_view whole = text();
    std::size_t at = column_;
    if (const char c = whole[at]; c == '"' || c == '\'') {
      const auto end = whole.find(c, at + 1);
      if (end == std::string_view::npos) return end;
      at = whole.find_first_not_of(' ', end + 1);
      return at != std::string_view::npos && whole[at] == ':' ? at : std::string_view::npos;
    }
    if (whole[at] == '{' || whole[at] == '[') return std::string_view::npos;
    for (; at < whole.size(); ++at) {
      if (whole[at] == '#' && at > 0 && IsSpace(whole[at - 1])) break;
      if (whole[at] == ':' && (at + 1 == whole.size() || IsSpace(whole[at + 1]))) return at;
    }
    return std::string_view::npos;
  }

  void ScanValueAlone(std::size_t begin) {
    Level* const top = levels_.empty() ? nullptr : &levels_.back();
    const bool is_item = top != nullptr && top->is_list && top->line == at_;
    const bool is_deeper = top != nullptr && begin > top->indent;
    const bool goes_on = is_deeper && top->value == Level::Value::kPlain && !is_item;
    const bool is_awaited = is_item || (is_deeper && top->value == Level::Value::kNone);
    const char first = text()[begin];
    if (!goes_on && !is_awaited) {
      if (is_deeper && first != '{' && first != '[' && top->value == Level::Value::kWhole) {
        return Fail(at_, begin,
                    "the value of line " + std::to_string(top->line + 1) +
                        " has ended before; is a '#', a key or a comma missing here?");
      }
      if (text().substr(begin).starts_with('}') || text().substr(begin).starts_with(']')) {
        return Fail(at_, begin, std::string("this '") + first + "' closes nothing");
      }
      return Fail(at_, begin, std::string(kNoKey));
    }
    if (goes_on) return NextLine();
    column_ = begin;
    if (!is_item) top->value_line = at_;
    ScanValue();
  }

  void ScanValue() {
    const std::size_t begin = column_;
    const char first = here();
    Level& owner = levels_.back();
    owner.value = Level::Value::kWhole;
    if (first == '|' || first == '>') return SkipBlockText();
    if (first == '{' || first == '[') return ScanFlow();
    if (first == '"' || first == '\'') {
      if (ScanQuoted(owner.indent)) EndOfValue("the closing quote");
      return;
    }
    if (first == '@' || first == '`') {
      return Fail(at_, begin,
                  std::string("a value cannot begin with '") + first + "'; put it in quotes");
    }
    if (first == '-' && begin + 1 < text().size() && text()[begin + 1] == ' ') {
      return Fail(at_, begin, "a list item behind a key; give it a line of its own");
    }
    owner.value = Level::Value::kPlain;
    for (; !AtEnd(); ++column_) {
      if (here() == '#' && IsSpace(text()[column_ - 1])) break;
      if (here() == ':' && (column_ + 1 == text().size() || IsSpace(text()[column_ + 1]))) {
        return Fail(at_, column_,
                    "a second ': ' in one line; put the value in quotes, or the key into a line of "
                    "its own");
      }
    }
    NextLine();
  }

  void EndOfValue(std::string_view what) {
    SkipSpaces();
    if (AtEnd()) return NextLine();
    if (here() == '}' || here() == ']') {
      return Fail(at_, column_, std::string("this '") + here() + "' closes nothing");
    }
    Fail(at_, column_,
         fmt::format("text after {} of the value; put all of it in quotes, or take "
                     "one of them away",
                     what));
  }

  void SkipBlockText() {
    const std::size_t indent = levels_.back().indent;
    NextLine();
    while (at_ < lines_.size() &&
           (lines_[at_].text.size() == lines_[at_].indent || lines_[at_].indent > indent)) {
      NextLine();
    }
  }

  // From the opening quote to behind the closing one, lines later perhaps; false: there is none.
  // `indent`: that of the block around it, which all lines of it are deeper than.
  bool ScanQuoted(std::size_t indent) {
    const std::size_t line = at_, column = column_;
    const char quote = here();
    const auto unclosed = [&] {
      Fail(line, column, fmt::format("this quote ({}) is not closed", quote));
      return false;
    };
    for (++column_;; ++column_) {
      while (AtEnd()) {
        NextLine();
        if (at_ >= lines_.size()) return unclosed();
        const bool is_empty = lines_[at_].text.size() == lines_[at_].indent;
        if (!is_empty && lines_[at_].indent <= indent && !levels_.empty()) return unclosed();
      }
      if (quote == '"' && here() == '\\') {
        ++column_;
      } else if (here() == quote) {
        if (quote == '\'' && column_ + 1 < text().size() && text()[column_ + 1] == '\'') {
          ++column_;
          continue;
        }
        break;
      }
    }
    ++column_;
    if (at_ == line) return true;
    // What looks like its end, lines later, mostly begins another one.
    const auto next = text().find_first_not_of(' ', column_);
    constexpr std::string_view kFollowers = ",}]:#";
    const bool ends =
        next == std::string_view::npos || kFollowers.find(text()[next]) != std::string_view::npos;
    return ends ? true : unclosed();
  }

  void ScanFlow() {
    const std::size_t indent = levels_.back().indent;
    std::vector<Bracket> open;
    bool begins_token = true;
    for (;;) {
      SkipSpaces();
      while (AtEnd()) {
        NextLine();
        const bool is_over = at_ >= lines_.size();
        if (is_over || (!lines_[at_].is_blank && lines_[at_].indent <= indent &&
                        !IsCloser(lines_[at_].text[lines_[at_].indent]))) {
          return FailOpen(open.back());
        }
        SkipSpaces();
      }
      if (!ScanFlowCharacter(open, begins_token, indent)) return;
      if (open.empty()) return EndOfValue("the closing bracket");
    }
  }

  static bool IsCloser(char c) { return c == '}' || c == ']'; }

  void FailOpen(const Bracket& bracket) {
    Fail(bracket.line, bracket.column,
         fmt::format("this '{}' is not closed; its '{}' is missing", bracket.opened,
                     bracket.opened == '{' ? '}' : ']'));
  }

  // False: there is a fault.
  bool ScanFlowCharacter(std::vector<Bracket>& open, bool& begins_token, std::size_t indent) {
    const char c = here();
    const bool begins = std::exchange(begins_token, false);
    if ((c == '{' || c == '[') && !begins) {
      Fail(
          at_, column_,
          fmt::format("a ':' or a ',' is missing before this '{}', or quotes around the value", c));
      return false;
    }
    if (c == '{' || c == '[') {
      open.push_back({c, at_, column_});
      begins_token = true;
    } else if (IsCloser(c)) {
      if (open.back().opened != (c == '}' ? '{' : '[')) return FailOpen(open.back()), false;
      open.pop_back();
    } else if (c == ',') {
      begins_token = true;
      open.back().has_colon = false;
    } else if ((c == '"' || c == '\'') && begins) {
      if (!ScanQuoted(indent)) return false;
      return IsSeparated();
    } else if (c == ':' && EndsKey()) {
      begins_token = true;
      if (std::exchange(open.back().has_colon, true)) {
        Fail(at_, column_,
             "a second ': ' before a ','; is a ',' missing, or a quote around the value?");
        return false;
      }
    }
    ++column_;
    return true;
  }

  // In a flow: a colon before a space, the line's end or a bracket; after a quote any.
  bool EndsKey() const {
    const std::size_t next = column_ + 1;
    return next == text().size() || IsSpace(text()[next]) || IsCloser(text()[next]) ||
           text()[next] == ',' || (column_ > 0 && text()[column_ - 1] == '"');
  }

  // After a closing quote in a flow.
  bool IsSeparated() {
    SkipSpaces();
    constexpr std::string_view kFollowers = ",}]:";
    if (AtEnd() || kFollowers.find(here()) != std::string_view::npos) return true;
    Fail(at_, column_, "a ',' is missing between the closing quote and this");
    return false;
  }

  // An entry begins at the present column; false: it fits nothing.
  bool Enter(bool is_list, std::string key) {
    Level entry{column_, is_list, at_, std::move(key)};
    entry.first_line = at_;
    if (levels_.empty()) {
      levels_.push_back(std::move(entry));
      return true;
    }
    const Level& top = levels_.back();
    const bool is_deeper = entry.indent > top.indent;
    if (is_deeper && top.value != Level::Value::kNone) return FailDeeper(entry), false;
    const bool is_list_of_key = entry.indent == top.indent && is_list && !top.is_list &&
                                top.value == Level::Value::kNone && top.line != at_;
    if (is_deeper || is_list_of_key) {
      levels_.push_back(std::move(entry));
      return true;
    }
    const auto beside = std::find_if(levels_.rbegin(), levels_.rend(), [&](const Level& level) {
      return level.indent == entry.indent && level.is_list == is_list;
    });
    if (beside == levels_.rend()) return FailIndent(entry), false;
    const bool had_entries = beside.base() != levels_.end();
    levels_.erase(beside.base(), levels_.end());
    const Level& before = levels_.back();
    entry.entries = before.entries + 1;
    entry.first_line = before.first_line;
    entry.is_first_empty = before.entries == 1 ? before.value == Level::Value::kNone && !had_entries
                                               : before.is_first_empty;
    levels_.back() = std::move(entry);
    return true;
  }

  // So many entries of that indent have their own entries at that other one.
  std::ptrdiff_t CountBelow(std::size_t parent, std::size_t indent) const {
    std::ptrdiff_t count = 0;
    bool is_first = false;
    for (const Line& line : lines_) {
      if (line.is_blank) continue;
      count += is_first && line.indent == indent;
      is_first = line.indent == parent;
    }
    return count;
  }

  // Whether the first entry of a block stands wrong, and not the one at the present line: other
  // blocks like it have the indent of this one, or those below do.
  bool IsFirstMisplaced(std::size_t depth, std::size_t indent) const {
    const Level& first = levels_[depth];
    if (first.entries > 1) return first.is_first_empty && depth > 0 && indent < first.indent;
    if (depth > 0) {
      const std::size_t parent = levels_[depth - 1].indent;
      const auto more = CountBelow(parent, indent) - CountBelow(parent, first.indent);
      // It is counted itself.
      if (more >= 0) return true;
      if (more < -1) return false;
    }
    std::size_t like_this = 0;
    for (std::size_t i = at_; i < lines_.size(); ++i) {
      if (lines_[i].is_blank) continue;
      if (depth > 0 && lines_[i].indent <= levels_[depth - 1].indent) break;
      if (lines_[i].indent == first.indent && first.indent < indent) return false;
      like_this += lines_[i].indent == indent;
    }
    return like_this > 1;
  }

  void FailFirst(const Level& first, std::size_t indent) {
    Fail(first.first_line, first.indent,
         fmt::format("{} space{} before it, but {} before the lines below that belong to the same",
                     first.indent, first.indent == 1 ? "" : "s", indent));
    // What stands below it goes with it, wherever it stands.
    fault_->last_line = std::max(fault_->last_line, static_cast<int>(at_));
  }

  void FailDeeper(const Level& entry) {
    const Level& top = levels_.back();
    if (top.value_line > top.line && top.value == Level::Value::kPlain) {
      return Fail(top.value_line, lines_[top.value_line].indent, std::string(kNoKey));
    }
    if (IsFirstMisplaced(levels_.size() - 1, entry.indent)) return FailFirst(top, entry.indent);
    Fail(at_, column_,
         fmt::format("deeper than line {}, which has its value already; give it the indent of the "
                     "keys that it belongs to",
                     top.line + 1));
    if (levels_.size() == 1 && text().ends_with(':')) fault_->displaced = entry.key;
  }

  void FailIndent(const Level& entry) {
    const auto deeper = static_cast<std::size_t>(
        std::ranges::find_if(levels_,
                             [&](const Level& level) { return level.indent > entry.indent; }) -
        levels_.begin());
    for (const std::size_t depth : {deeper, deeper - 1}) {
      if (depth < levels_.size() && levels_[depth].indent != entry.indent &&
          IsFirstMisplaced(depth, entry.indent)) {
        return FailFirst(levels_[depth], entry.indent);
      }
    }
    std::string accepted;
    for (const Level& level : levels_) {
      if (level.indent == entry.indent) {
        return Fail(at_, column_,
                    fmt::format("{} among {} (line {}); is its indent wrong?",
                                entry.is_list ? "a list item" : "a key",
                                entry.is_list ? "keys" : "list items", level.line + 1));
      }
      accepted += fmt::format("{}{} as line {}", accepted.empty() ? "" : ", ", level.indent,
                              level.line + 1);
    }
    Fail(
        at_, column_,
        fmt::format("{} spaces before it fit no line above; accepted: {}", entry.indent, accepted));
  }

  const std::vector<Line> lines_;
  std::size_t at_ = 0, column_ = 0;
  std::vector<Level> levels_;  // around the present line, outermost first
  std::optional<YamlFault> fault_;
};

}  // namespace

std::optional<YamlFault> FindYamlFault(std::string_view text, int failed_line) {
  return Scanner(LinesOf(text)).Run(static_cast<std::size_t>(std::max(failed_line, 1)));
}

}  // namespace recourse
